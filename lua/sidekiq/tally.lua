-- How many jobs each of many queues holds, and how long the next one has waited; what `spread.lua` counts is not in it.
--
-- KEYS     each (queue list)  the list of a queue, whose last job is next
-- ARGV     now_ms?  int  a test's clock; the server's when empty
-- returns  counted  (now_ms int)  rows (queue int, oldest_ms int)  a row per queue, in the order of the keys
local rows = {}
-- block: clock, sidekiq_instant, sidekiq_oldest
if #ARGV < 1 or #ARGV[1] > 15 or string.find(ARGV[1], '%D') then
  return redis.error_reply('ERR now_ms is a whole number; nothing was changed')
end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local function at_ms(value) -- -1 for what is no instant
  local at = tonumber(value)
  if not at or at ~= at or at < 0 or at > 9e15 then return -1 end
  return math.floor((at < 1e11 and at * 1000 or at) + 0.5)
end
local function last_time(text, named) -- a client writes the times behind the arguments, so the last of a name is the job's own
  local from, last = 1, nil
  while from do
    local _, stop = string.find(text, named, from, true)
    last, from = stop or last, stop and stop + 1
  end
  return last and string.match(text, '^ ?(%d+%.?%d*)', last + 1)
end
local function oldest_ms(list, length) -- -1 for none, and where its text does not tell
  local next_job = length > 0 and redis.call('LINDEX', list, -1) or ''
  local ending = string.sub(next_job, -4096)
  local since_ms = at_ms(last_time(ending, '"enqueued_at":') or last_time(ending, '"created_at":'))
  return since_ms >= 0 and math.max(0, now_ms - since_ms) or -1
end
-- end
for at, queue in ipairs(KEYS) do
  local length = redis.call('LLEN', queue)
  rows[at] = {length, oldest_ms(queue, length)}
end
return {'counted', now_ms, rows}
