-- Return all data of one job, found by its bytes or its id, with its result if that is stored.
--
-- The bytes are given as a page returns them: `head`, `size` and `tail` (`size` 0: unknown). Without a `place` the script searches
-- the entry with the delivery tag `field`, the first and the last 150 unacked messages, and, if all bytes are given, the first and
-- last 50 000 messages of each list. With the place `queue` it searches for the id among 1000 messages of each list, or about a
-- megabyte, from the next message on; with a negative `offset` from the other end. `result` is the stored result, or empty. The
-- reply `ended` is for a job of which only the result is left.
--
-- derived  <prefix><queue><sep><step>           the list of another priority
--          <prefix>_kombu.binding.<exchange>    the bindings of an exchange: the queue of each routing key
--          <prefix>celery-task-meta-<id>        the result of a job, if results have the same prefix
--          celery-task-meta-<id>                the result of a job, if results have no prefix
-- KEYS     queue unacked unacked_index
-- ARGV     now_ms?     int    a test's clock; the server's when empty
--          prefix      str    the prefix of all keys; may be empty
--          sep         str    the separator between the name of a queue and a priority
--          steps       str    the priorities that have a list of their own: 0/3/6/9
--          visibility  int    the visibility timeout (s): after it kombu delivers an unacked message again
--          id          bytes  the id of the job
--          head        bytes  its first bytes, or all of them
--          size        int    its size in bytes; 0: unknown
--          tail        bytes  its last bytes
--          body_bytes  int    a message of up to this size, or up to 4096, is returned complete; -1: always
--          place?      str    `queue`, or empty
--          offset?     int    negative: search from the other end
--          field?      bytes  its delivery tag, if a worker held it
-- returns  found  (now_ms int, place str, head bytes, size int, tail bytes, score str, tag bytes, step str, result bytes)
--          ended  (result bytes)
--          gone   no such job
for _, at in ipairs({8, 10, 12}) do
  if #ARGV < 13 or #ARGV[at] > 15 or not string.find(ARGV[at], at < 12 and '^%-?%d+$' or '^%-?%d*$') then
    return redis.error_reply('ERR it takes 13 arguments, whole numbers where the header says int; nothing was changed')
  end
end
local visibility, offset = ARGV[5], tonumber(ARGV[12]) or 0
-- include: keys, args(id head size tail body_bytes place field), clock, options, visibility, for_each_held, job_row
local start = (prefix == '' or string.find(prefix, '[:_.-]$')) and prefix or prefix .. '_' -- celery/backends/base.py 5.7
local function read_result(job_id)
  for _, beginning in ipairs({start, ''}) do
    local text = job_id ~= '' and redis.pcall('GETRANGE', beginning .. 'celery-task-meta-' .. job_id, 0, 262143)
    if type(text) == 'string' and text ~= '' then return text end
  end
  return ''
end
local quoted, spaced = '"id":"' .. id .. '"', '"id": "' .. id .. '"'
local function is_wanted(text)
  if size > 0 and #text == size and string.sub(text, 1, #head) == head and string.sub(text, -#tail) == tail then return true end
  local ending = string.sub(text, -20000)
  if id == '' or not string.find(ending, id, 1, true) then return false end -- a search for the id alone is faster
  return string.find(ending, quoted, 1, true) or string.find(ending, spaced, 1, true)
end
local function build_reply(found_place, text, score, tag, step)
  local row = job_row(text, score, tag, step)
  row[7] = read_result(id ~= '' and id or string.match(string.sub(text, -20000), '"id": ?"([^"\\]*)"') or '')
  return {'found', now_ms, found_place, unpack(row)}
end
if place == 'queue' then
  for _, list in ipairs(lists) do
    local length = redis.call('LLEN', list[1])
    local bytes_read = 0
    for from = 0, math.min(length, 1000) - 1, 20 do -- in small groups, because messages may be long
      local texts = offset < 0 and redis.call('LRANGE', list[1], from, from + 19) or redis.call('LRANGE', list[1], -from - 20, -from - 1)
      for _, text in ipairs(texts) do
        bytes_read = bytes_read + #text
        if is_wanted(text) then return build_reply('queue', text, '', '', list[2]) end
      end
      if bytes_read > 1048576 then break end
    end
  end
  return {'gone'}
end
if place ~= '' then return redis.error_reply('ERR there is no place ' .. place .. ' to look for it alone') end
local card, reply = redis.call('ZCARD', unacked_index), nil
local rank = field ~= '' and redis.call('ZRANK', unacked_index, field) or 0
for _, range in ipairs({{rank, rank}, {0, math.min(card, 150) - 1}, {math.max(150, card - 150), card - 1}}) do
  for_each_held(range[1], range[2], math.huge, function(text, owner, found_place, score, tag)
    if owner == name and is_wanted(text) then
      reply = build_reply(found_place, text, score, tag, '')
      return false
    end
  end, 1048576)
  if reply then return reply end
end
for _, list in ipairs(size > 0 and #head >= size and lists or {}) do
  if redis.call('LPOS', list[1], head, 'RANK', -1, 'MAXLEN', 50000) or redis.call('LPOS', list[1], head, 'MAXLEN', 50000) then
    return build_reply('queue', head, '', '', list[2])
  end
end
local result = read_result(id)
return result ~= '' and {'ended', result} or {'gone'}
