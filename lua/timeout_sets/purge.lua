-- Purge a place in chunks.
--
-- The programs of this system never remove items from done.
--
-- moves    todos done ->
-- KEYS     todos in_progress done
-- ARGV     place?       str   todos or done
--          limit        int   items of this call, 1 to 1000
-- returns  moved     (moved int, left int)  purged
--          empty     nothing is there
--          reserved  (leases int)  workers hold these items; delete them one by one
-- include: keys, integers, args, key_types(todos done)
local leases = redis.call('SCARD', in_progress)
if not limit or limit < 1 or limit > 1000 then return redis.error_reply('ERR limit is 1 to 1000; nothing was changed') end
if place == 'in_progress' then return {'reserved', leases} end
local key = ({todos = todos, done = done})[place]
if not key then return redis.error_reply('ERR the place is todos or done; nothing was changed') end

local purged = redis.call('SPOP', key, limit)
if #purged == 0 then return {'empty'} end
return {'moved', #purged, redis.call('SCARD', key)}
