-- Purge a place of a queue that no other queue has jobs in.
--
-- moves    scheduled queued ready finished failed canceled ->
-- KEYS     scheduled  list  ids
--          queued  list  ids
--          ready  list  ids
--          finished  list  ids
--          failed  list  ids
--          canceled  list  ids
-- ARGV     place  str  which
--          limit  int  how many in this call
-- returns  moved  (moved int, left int)  purged
--          empty  nothing is there
local at = ({scheduled = 1, queued = 2, ready = 3, finished = 4, failed = 5, canceled = 6})[ARGV[1]]
if not at then return redis.error_reply('ERR it holds the jobs of others, or what runs; nothing was changed') end
local number = math.min(redis.call('LLEN', KEYS[at]), tonumber(ARGV[2]))
if number == 0 then return 'empty' end
redis.call('LTRIM', KEYS[at], number, -1)
return {'moved', number, redis.call('LLEN', KEYS[at])}
