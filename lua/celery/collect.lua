-- Collect the replies of workers to a command. When all have arrived, their list expires after half a minute.
--
-- The list is not deleted at once: a reply of a second worker with the same name would create it again, without a time to live.
--
-- writes   replies_of_workers
-- KEYS     replies_of_workers  list  messages of Kombu, the first reply last, and an empty entry
-- ARGV     expected            int   how many replies complete the list
-- returns  read  rows (reply bytes)  collected
-- include: keys, args, key_types, integers
if not expected or expected < 0 then return redis.error_reply('ERR expected is a number from 0 on; nothing was changed') end
local rows = {}
for _, reply in ipairs(redis.call('LRANGE', replies_of_workers, 0, 999)) do
  if reply ~= '' then rows[#rows + 1] = {reply} end
end
if #rows >= expected then redis.call('EXPIRE', replies_of_workers, 30) end
return {'read', rows}
