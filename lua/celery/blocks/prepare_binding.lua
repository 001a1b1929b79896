-- Write the binding of a new queue as kombu's clients do, so that workers find it (kombu/transport/redis.py 5.7, `_queue_bind`).
--
-- The reads at the top also end the script early if a key has another type.
--
-- needs    binding binding_permanent lists name
--          ARGV[3]  sep
-- gives    bind_new_queue
local is_new = redis.call('SCARD', binding) == 0
redis.call('SCARD', binding_permanent)
for _, list in ipairs(lists) do is_new = redis.call('LLEN', list[1]) == 0 and is_new end
local function bind_new_queue()
  if not is_new then return end
  local bound = name .. ARGV[3] .. ARGV[3] .. name
  redis.call('SADD', binding, bound)
  redis.call('SADD', binding_permanent, bound)
end
