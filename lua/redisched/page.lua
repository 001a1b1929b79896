-- Return a page of the jobs of a place, in its order. Scores in seconds come before scores in milliseconds.
--
-- `score` is the stored text. A body is cut to `body_bytes`. A body of more than 16 KiB is left out unless all of it is
-- requested. `has_body` is false if the id has no body.
--
-- KEYS     jobs queued reserved expiries
-- ARGV     now_ms?     int  a test's clock; the server's when empty
--          place       str  queued, due, reserved or expired
--          offset      int  jobs to skip; -1: the last page, -1 - n: the one that ends n before the end
--          limit       int  jobs at most, 1 to 1000
--          body_bytes  int  bytes of each body
-- returns  page  (now_ms int, total int) rows (id bytes, score bytes, bytes int, body bytes, has_body bool, expiries int)
-- include: keys, integers, server_time, args
local MS = '100000000000'
local now, now_s = string.format('%.0f', now_ms), string.format('%.3f', now_ms / 1000)
local key = ({queued = queued, due = queued, reserved = reserved, expired = reserved})[place]
if not key then return redis.error_reply('ERR the place is queued, due, reserved or expired') end
if not limit or limit < 1 or limit > 1000 or not offset or not body_bytes then
  return redis.error_reply('ERR offset and body_bytes are whole numbers, limit is 1 to 1000')
end
local ranges = {{'(' .. now_s, '(' .. MS}, {'(' .. now, '+inf'}}
if place == 'due' or place == 'expired' then ranges = {{'-inf', now_s}, {MS, now}} end
for _, range in ipairs(ranges) do range[3] = redis.call('ZCOUNT', key, range[1], range[2]) end
local total = ranges[1][3] + ranges[2][3]
offset = offset < 0 and math.max(0, total - limit + offset + 1) or offset + 0 -- of -0, too
local rows, ids = {}, {}
for _, range in ipairs(ranges) do
  if offset < range[3] and #rows < limit then
    local found = redis.call('ZRANGEBYSCORE', key, range[1], range[2], 'WITHSCORES', 'LIMIT', offset, limit - #rows)
    for i = 1, #found, 2 do
      local size, body = redis.call('HSTRLEN', jobs, found[i]), ''
      if size <= 16384 or body_bytes < 0 or size <= body_bytes then body = redis.call('HGET', jobs, found[i]) end
      ids[#ids + 1] = found[i]
      rows[#rows + 1] = {found[i], found[i + 1], size, body or '', body and 1 or 0}
      if body and body_bytes >= 0 then rows[#rows][4] = string.sub(body, 1, body_bytes) end
    end
  end
  offset = math.max(0, offset - range[3])
end
local expired = #ids > 0 and redis.call('ZMSCORE', expiries, unpack(ids)) or {}
for i, row in ipairs(rows) do row[6] = tonumber(expired[i] or 0) end
return {'page', now_ms, total, rows}
