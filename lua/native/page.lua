-- A page of the jobs of a place, in its order.
--
-- `record` is the header line alone; `body` the first `body_bytes` bytes of the body, `bytes` its whole length. A body that
-- is longer than `body_bytes` and stands in `bodies` is not touched. `error` is the last one, both ends
-- of a longer text than 500 bytes (2000 where no bodies are asked for), `max_attempts` the queue's default.
--
-- KEYS     scheduled  zset    id by due (ms)
--          ready      zset    id by priority, then arrival
--          reserved   zset    id by lease deadline (ms)
--          done       zset    id by forget-at (ms)
--          dead       zset    id by died-at (ms)
--          jobs       hash    header and body by id
--          bodies     hash    long bodies by id
--          attempts   hash    what changes, by id
--          errors     hash    failed attempts by id
--          meta       hash    settings and counters
-- ARGV     place       str   scheduled, ready, reserved, done or dead
--          offset      int   how many to pass over; -1 begins at the end and goes backwards
--          limit       int   how many at most, 1 to 1000
--          body_bytes  int   how much of each body
-- returns  page  (total int, max_attempts int) rows (id bytes, score float, record bytes, bytes int, body bytes, line bytes, error bytes)
--                jobs
local scheduled, ready, reserved, done, dead, jobs, bodies, attempts, errors, meta =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local place, offset, limit, body_bytes = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local key = ({scheduled = scheduled, ready = ready, reserved = reserved, done = done, dead = dead})[place]
if not key then return redis.error_reply('ERR the place is scheduled, ready, reserved, done or dead') end
if not limit or limit < 1 or limit > 1000 or not offset or not body_bytes or math.abs(offset) > 1e15
  or limit % 1 + offset % 1 + body_bytes % 1 ~= 0 then
  return redis.error_reply('ERR offset and body_bytes are whole numbers, limit is 1 to 1000')
end
local most = tonumber(redis.call('HGET', meta, 'max_attempts') or 5) or 5
local total = redis.call('ZCARD', key)
offset = offset < 0 and math.max(0, total - limit) or offset + 0 -- of -0, too
local found = redis.call('ZRANGE', key, offset, offset + limit - 1, 'WITHSCORES')
if #found == 0 then return {'page', total, most, {}} end
local ids, rows = {}, {}
for i = 1, #found, 2 do ids[#ids + 1] = found[i] end
local records, lines = redis.call('HMGET', jobs, unpack(ids)), redis.call('HMGET', attempts, unpack(ids))
local failures = redis.call('HMGET', errors, unpack(ids))
local room = body_bytes == 0 and 2000 or 500 -- of an error: a report without bodies groups by where they were raised
for i, id in ipairs(ids) do
  local record, size, body, why = records[i] or '', 0, '', ''
  local cut = string.find(record, '\n', 1, true)
  if cut then
    local long = tonumber(string.match(record, '^%d+ %S+ %S+ %S+ %S+ %S+ %S+ %S+ (%d+) ') or '')
    size, body = long or #record - cut, string.sub(record, cut + 1, cut + body_bytes)
    if long and long <= body_bytes then body = redis.call('HGET', bodies, id) or '' end
    record = string.sub(record, 1, cut - 1)
  end
  if failures[i] then
    local ok, list = pcall(cjson.decode, failures[i])
    local last = ok and type(list) == 'table' and list[#list]
    why = type(last) == 'table' and tostring(last[4] or '') or ''
    if #why > room and string.find(why, '\n', 1, true) then -- a traceback says at its end what happened
      why = string.sub(why, 1, math.floor(room * 0.38)) .. '\n  ... ' .. string.sub(why, -math.floor(room * 0.6))
    end
  end
  rows[i] = {id, found[i * 2], record, size, body, lines[i] or '', string.sub(why, 1, room)}
end
return {'page', total, most, rows}
