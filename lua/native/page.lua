-- Return a page of the jobs of a place, in the order of the place.
--
-- `record` is only the header line. `body` has the first `body_bytes` bytes of the body, and `bytes` is its length. A
-- body in `bodies` that is longer than `body_bytes` is not read. `error` is the last error message; if the text has more
-- than 500 bytes (2000 if `body_bytes` is 0), only its beginning and its end. `max_attempts` is the queue's default.
--
-- KEYS     scheduled ready reserved done dead jobs bodies attempts errors meta
-- ARGV     place       str   scheduled, ready, reserved, done or dead
--          offset      int   how many jobs to skip; -1: the last page, -1 - n: the one that ends n before the end
--          limit       int   how many at most, 1 to 1000
--          body_bytes  int   bytes of each body to return
-- returns  page  (total int, max_attempts int) rows (id bytes, score float, record bytes, bytes int, body bytes, line bytes, error bytes)
--                jobs
-- include: keys, args
local key = ({scheduled = scheduled, ready = ready, reserved = reserved, done = done, dead = dead})[place]
if not key then return redis.error_reply('ERR the place is scheduled, ready, reserved, done or dead') end
if not limit or limit < 1 or limit > 1000 or not offset or not body_bytes or math.abs(offset) > 1e15
  or limit % 1 + offset % 1 + body_bytes % 1 ~= 0 then
  return redis.error_reply('ERR offset and body_bytes are whole numbers, limit is 1 to 1000')
end
local most = tonumber(redis.call('HGET', meta, 'max_attempts') or 5) or 5
local total = redis.call('ZCARD', key)
offset = offset < 0 and math.max(0, total - limit + offset + 1) or offset + 0 -- `+ 0` turns -0 into 0
local found = redis.call('ZRANGE', key, offset, offset + limit - 1, 'WITHSCORES')
if #found == 0 then return {'page', total, most, {}} end
local ids, rows = {}, {}
for i = 1, #found, 2 do ids[#ids + 1] = found[i] end
local records, lines = redis.call('HMGET', jobs, unpack(ids)), redis.call('HMGET', attempts, unpack(ids))
local failures = redis.call('HMGET', errors, unpack(ids))
-- The length of error messages: a report without bodies groups errors by the line that raised them, and needs more.
local room = body_bytes == 0 and 2000 or 500
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
    if #why > room and string.find(why, '\n', 1, true) then -- The end of a traceback has the error message.
      why = string.sub(why, 1, math.floor(room * 0.38)) .. '\n  ... ' .. string.sub(why, -math.floor(room * 0.6))
    end
  end
  rows[i] = {id, found[i * 2], record, size, body, lines[i] or '', string.sub(why, 1, room)}
end
return {'page', total, most, rows}
