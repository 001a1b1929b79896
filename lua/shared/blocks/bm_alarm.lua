-- bullmq: how workers learn of the next time.
-- needs    delayed marker
-- gives    alarm
local function alarm() -- workers sleep until the first is due
  local score = redis.call('ZRANGE', delayed, 0, 0, 'WITHSCORES')[2]
  if score then redis.call('ZADD', marker, string.format('%.0f', math.floor(tonumber(score) / 4096)), '1') end
end
