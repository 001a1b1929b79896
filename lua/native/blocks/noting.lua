-- Check the types of the two streams, but only in a call that will write to them, because each check is a command.
--
-- needs    now_ms events minutes
--          last_minute  the field `minute` of `meta`; it becomes a number
--          watch        the field `events` of `meta`
last_minute = tonumber(last_minute) or 0
if watch == 'on' or (tonumber(watch) or 0) > now_ms then redis.call('XLEN', events) end
if now_ms - now_ms % 60000 > last_minute then redis.call('XLEN', minutes) end
