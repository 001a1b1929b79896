-- Set the time at which workers look for delayed jobs.
--
-- needs    delayed marker
-- gives    wake_when_due
local function wake_when_due() -- without it, workers sleep past the first due time
  local score = redis.call('ZRANGE', delayed, 0, 0, 'WITHSCORES')[2]
  if score then redis.call('ZADD', marker, string.format('%.0f', math.floor(tonumber(score) / 4096)), '1') end
end
