-- Find the jobs of one queue in a place that all queues share, one step per call.
--
-- `offset` is a rank among the jobs of all queues, or -1 - n: the first n jobs are read backwards, the last one first. A
-- call reads up to 600 jobs, and returns up to `limit`. `total` is the number of jobs of all queues, and `next` the rank
-- after the last job that was read, backwards the number of jobs before it; empty at the end. Columns: see `page.lua`.
--
-- KEYS     schedule retry queue dead
-- ARGV     now_ms?     int  a test's clock; the server's when empty
--          prefix      str  the prefix of all keys: the namespace and a colon, or nothing
--          place       str  schedule, retry or dead
--          offset      int  how many jobs of all queues to skip; negative: backwards
--          limit       int  how many at most, 1 to 1000
--          body_bytes  int  return jobs of up to this size whole; -1: all
-- returns  page  (now_ms int, total int, next? int)
--                rows (head bytes, size int, tail bytes, score str, token bytes, worker str, beat_ms str)
-- include: keys
local place, offset, limit, body_bytes, arguments = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]), 6
-- include: page_guard, clock, prefix, queue_of, job_row
local key = ({schedule = schedule, retry = retry, dead = dead})[place]
if not key then return redis.error_reply('ERR there is no place ' .. place .. ' that queues share') end
local name = string.sub(queue, #prefix + 7)
local card, rows = redis.call('ZCARD', key), {}
local rank = offset < 0 and math.max(0, card + 1 + offset) or offset
local stop, range = math.min(card, rank + 600), offset < 0 and 'ZREVRANGE' or 'ZRANGE'
while rank < stop and #rows < limit do -- Read a few at a time, because jobs may be long.
  local members = redis.call(range, key, rank, math.min(stop, rank + 100) - 1, 'WITHSCORES')
  for i = 1, #members, 2 do
    if #rows == limit then break end
    rank = rank + 1
    if queue_of(members[i]) == name then rows[#rows + 1] = job_row(members[i], members[i + 1]) end
  end
end
return {'page', now_ms, card, rank < card and (offset < 0 and card - rank or rank) or '', rows}
