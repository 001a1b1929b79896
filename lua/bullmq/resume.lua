-- Resume a queue: its workers take jobs again.
--
-- The jobs in `paused` come before those in `wait`, because they are older. The script also moves jobs that an upgrade left in `paused` of
-- a queue that is not paused. No job of either list is lost, unlike when BullMQ 5 resumes a queue to which BullMQ 6 added jobs.
--
-- writes   wait paused meta marker events
-- KEYS     delayed wait paused prioritized active meta pc marker events
-- ARGV     p  str    prefix of all keys of the queue: bull:mail:
-- returns  resumed  resumed
--          already  it is not paused, and no job was left in paused
-- include: keys, args, prefix_guard, key_types(delayed), add_event, wake_workers, merge_lists, wake_when_due, this_queue
if not queue.is_paused and redis.call('LLEN', paused) == 0 then return {'already'} end

redis.call('HDEL', meta, 'paused') -- frees memory, and lets the script finish over maxmemory
merge_lists(wait, paused, wait)
queue.is_paused = false
if redis.call('LLEN', wait) + redis.call('ZCARD', prioritized) > 0 then wake_workers(queue) else wake_when_due() end
add_event(queue, 'resumed')
return {'resumed'}
