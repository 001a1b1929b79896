-- Purge a place in chunks: what is done grows for ever, since the original never removes it.
--
-- moves    todos done ->
-- KEYS     todos        set   items to do
--          in_progress  set   items that somebody works on
--          done         set   items that are done
-- ARGV     place?       str   todos or done
--          limit        int   how many items in this call, 1 to 1000
-- returns  moved     (moved int, left int)  purged
--          empty     nothing is there
--          reserved  (leases int)  workers hold these; delete them one by one
local todos, in_progress, done = KEYS[1], KEYS[2], KEYS[3]
for _, at in ipairs({2}) do
  if #ARGV < 2 or #ARGV[at] > 15 or not string.find(ARGV[at], '^%-?%d*$') then
    return redis.error_reply('ERR it takes 2 arguments, whole numbers where the header says int; nothing was changed')
  end
end
local place, limit = ARGV[1], tonumber(ARGV[2])
for _, key in ipairs({todos, done}) do redis.call('SCARD', key) end
local leases = redis.call('SCARD', in_progress)
if not limit or limit < 1 or limit > 1000 then
  return redis.error_reply('ERR limit is 1 to 1000; nothing was changed')
end
if place == 'in_progress' then return {'reserved', leases} end
local key = ({todos = todos, done = done})[place]
if not key then return redis.error_reply('ERR say which place: todos or done; nothing was changed') end

local purged = redis.call('SPOP', key, limit)
if #purged == 0 then return {'empty'} end
return {'moved', #purged, redis.call('SCARD', key)}
