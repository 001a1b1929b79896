-- A page of the jobs of a place, in its order; where both units stand in it, those in seconds come first.
--
-- `score` is as it stands there. A body is cut to `body_bytes`; one of more than 16 KiB is not touched for less than all
-- of it. `has_body` is false where the id has none.
--
-- KEYS     jobs                         hash  body by id
--          queued (queued due)          zset  id by due
--          reserved (reserved expired)  zset  id by lease deadline
--          expiries                     zset  id by leases that rqtui saw expire
-- ARGV     now_ms?     int  a test's clock; the server's when empty
--          place       str  queued, due, reserved or expired
--          offset      int  how many to pass over; -1 is the last page
--          limit       int  how many at most, 1 to 1000
--          body_bytes  int  how much of each body
-- returns  page  (now_ms int, total int) rows (id bytes, score bytes, bytes int, body bytes, has_body bool, expiries int)
local jobs, queued, reserved, expiries = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
for _, at in ipairs({1, 3, 4, 5}) do
  if #ARGV < 5 or #ARGV[at] > 15 or not string.find(ARGV[at], '^%-?%d*$') then
    return redis.error_reply('ERR it takes 5 arguments, whole numbers where the header says int; nothing was changed')
  end
end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local place, offset, limit, body_bytes = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
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
offset = offset < 0 and math.max(0, total - limit) or offset + 0 -- of -0, too
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
local known = #ids > 0 and redis.call('ZMSCORE', expiries, unpack(ids)) or {}
for i, row in ipairs(rows) do row[6] = tonumber(known[i] or 0) end
return {'page', now_ms, total, rows}
