-- Move unacked messages to the end of their lists, where workers take them next.
--
-- needs    queue unacked unacked_index
-- gives    push_redelivered  takes rows of {delivery tag, message, key of the list}; the first row is the next message
local function push_redelivered(released)
  redis.call('LTRIM', queue, 0, -1) -- removes nothing, so Redis allows the writes after it over maxmemory
  for i = #released, 1, -1 do
    local tag, message, list = unpack(released[i])
    redis.call('RPUSH', list, message)
    redis.call('ZREM', unacked_index, tag)
    redis.call('HDEL', unacked, tag)
  end
end
