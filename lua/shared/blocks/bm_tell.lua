-- bullmq: how listeners are told.
-- needs    a door
-- gives    tell
local function tell(to, event, ...) -- a verb is not refused for an event that cannot be told
  redis.pcall('XADD', to.keys.events, 'MAXLEN', '~', string.format('%.0f', to.length), '*', 'event', event, ...)
end
