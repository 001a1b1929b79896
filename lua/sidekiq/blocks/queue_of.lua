-- Read the queue of a job from its JSON. A job without a queue belongs to `default`, as in Sidekiq's client. A text
-- that cannot be decoded belongs to `default` too, but is not a job. A text of more than 64 kB is decoded only if its
-- beginning does not contain the queue.
--
-- gives    queue_of
local function queue_of(text) -- Return the queue, and whether the text is a job.
  local field = '"queue":'
  local start = #text > 65536 and string.sub(text, 1, 4096) or text
  local at, last = string.find(start, field, 1, true)
  local is_plain
  if #text > 65536 then
    is_plain = at and not string.find(string.sub(start, 2, at), '[%[{]')
  else
    is_plain = at and not string.find(start, field, last + 1, true)
  end
  local name = is_plain and string.match(start, '^ ?"([^"\\]+)"', last + 1)
  if name then return name, true end
  local is_read, job = pcall(cjson.decode, text)
  if not is_read or type(job) ~= 'table' or job[1] ~= nil then return 'default', false end
  return type(job.queue) == 'string' and job.queue ~= '' and job.queue or 'default', true
end
