-- Check that ARGV[1] is the name of the queue.
--
-- needs    name
--          ARGV[1]  queue
if ARGV[1] == '' or ARGV[1] ~= name then
  return redis.error_reply('ERR the list of a queue is the prefix and its name, which is the first argument; nothing was changed')
end
