-- The guard of the two streams, on a call that will write there.
-- needs    now_ms events minutes; watch and last_minute, the fields `events` and `minute` of `meta`
last_minute = tonumber(last_minute) or 0
if watch == 'on' or (tonumber(watch) or 0) > now_ms then redis.call('XLEN', events) end
if now_ms - now_ms % 60000 > last_minute then redis.call('XLEN', minutes) end
