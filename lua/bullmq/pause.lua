-- Pause a queue: workers take no more jobs. Active jobs continue.
--
-- While a queue is paused, BullMQ 5 keeps the waiting jobs in `paused`. The script moves them there, behind the jobs that are already in
-- that list. BullMQ 6 leaves them in `wait`.
--
-- writes   wait paused meta marker events
-- KEYS     wait paused prioritized active meta pc marker events
-- ARGV     p  str    prefix of all keys of the queue: bull:mail:
-- returns  paused   paused
--          already  it is paused already
-- include: keys, args, prefix_guard, add_event, merge_lists, this_queue
if queue.is_paused then return {'already'} end

redis.call('DEL', marker) -- frees memory, and lets the script finish over maxmemory
redis.call('HSET', meta, 'paused', 1)
if queue.is_old then merge_lists(wait, paused, paused) end
add_event(queue, 'paused')
return {'paused'}
