-- Pull the next ready jobs out of the queue: at most once, with no lease and no retry.
--
-- A job with an invalid record goes to dead and does not stop the batch.
--
-- moves    ready -> | dead
-- writes   jobs bodies attempts errors meta events minutes
-- KEYS     ready dead jobs bodies attempts errors meta events minutes
-- ARGV     now_ms?   int     a test's clock; the server's when empty
--          limit     int     how many at most, 1 to 1000
-- returns  moved   rows (id bytes, record bytes, body bytes)  pulled
--          empty   nothing is ready
--          paused  the queue is paused
-- include: keys, args
local version, paused, watch, last_minute = unpack(redis.call('HMGET', meta, 'version', 'paused', 'events', 'minute'))
-- include: key_types(dead jobs bodies attempts errors events minutes), opening, limit, header
local ids = redis.call('ZRANGE', ready, 0, limit - 1)
if paused or #ids == 0 then return {paused and 'paused' or 'empty'} end
local records = redis.call('HMGET', jobs, unpack(ids))
local rows, taken, deaths, reasons = {}, {}, {}, {}
for i, id in ipairs(ids) do
  local record, body = records[i] or '', ''
  local _, _, long = header(record)
  if long and long ~= '-' then body = redis.call('HGET', bodies, id) end
  if long and body then
    taken[#taken + 1], rows[#rows + 1] = id, {id, record, body}
  else
    deaths[#deaths + 1], deaths[#deaths + 2] = now_ms, id
    reasons[#reasons + 1], reasons[#reasons + 2] = id, cjson.encode({{now_ms, now_ms, '', 'the record of this job cannot be read'}})
  end
end

redis.call('ZREM', ready, '') -- removes nothing, but lets the drain continue over maxmemory
if #deaths > 0 then
  redis.call('HSET', errors, unpack(reasons))
  redis.call('ZADD', dead, unpack(deaths))
end
redis.call('ZREM', ready, unpack(ids))
if #taken > 0 then
  for _, key in ipairs({jobs, bodies, attempts, errors}) do redis.call('HDEL', key, unpack(taken)) end
end
-- include: minute, record_events
note('HINCRBY', meta, 'pulled', #taken)
if #deaths > 0 then note('HINCRBY', meta, 'dead', #deaths / 2) end
record_events('pull', ids)
if #rows == 0 then return {'empty'} end
return {'moved', rows}
