-- Add an event to the stream of a queue.
--
-- gives    add_event
-- include: read_queue
local function add_event(to, event, ...) -- an event that cannot be written never fails the verb
  redis.pcall('XADD', to.keys.events, 'MAXLEN', '~', string.format('%.0f', to.length), '*', 'event', event, ...)
end
