-- Write the binding of a new queue as kombu's clients do, so that workers find it (kombu/transport/redis.py 5.7, `_queue_bind`).
--
-- needs    ARGV[3]          sep
-- gives    prepare_binding  reads whether a queue has a binding or messages, and returns a function that binds a new one; it ends the
--                           script if a key has another type
local function prepare_binding(bindings, bindings_permanent, own_lists, own_name)
  local is_new = redis.call('SCARD', bindings) == 0
  redis.call('SCARD', bindings_permanent)
  for _, list in ipairs(own_lists) do is_new = redis.call('LLEN', list[1]) == 0 and is_new end
  return function()
    if not is_new then return end
    local bound = own_name .. ARGV[3] .. ARGV[3] .. own_name
    redis.call('SADD', bindings, bound)
    redis.call('SADD', bindings_permanent, bound)
  end
end
