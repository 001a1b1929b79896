-- Release leased jobs unharmed: to the end where they are popped next, since they waited there before.
--
-- The token is the entry. It is looked for among 100 000 at each end for a single job, at least 2500 for many.
--
-- moves    in_progress expired -> ready
-- KEYS     entries (ready in_progress expired)  list  id, or id|unix seconds once handed out
-- ARGV     each (id bytes, token bytes)
-- returns each  moved  released
--               stale  this lease is over; the job waits again, or somebody else holds it
--               gone   no such job
local entries = KEYS[1]
local length = redis.call('LLEN', entries)
if #ARGV < 2 or #ARGV > 2000 or #ARGV % 2 == 1 then
  return redis.error_reply('ERR a batch has 1 to 1000 rows of id and token; nothing was changed')
end
-- block: search
local reach, indexes, standing = math.floor(200000 / #ARGV), nil, nil
local function look() -- at both ends: where entries are, and how often an id stands there
  indexes, standing = {}, {}
  for _, from in ipairs({0, math.max(2500, length - 2500)}) do
    for i, entry in ipairs(redis.call('LRANGE', entries, from, from == 0 and 2499 or -1)) do
      local own = string.sub(entry, 1, (string.find(entry, '|', 1, true) or 0) - 1)
      indexes[entry], standing[own] = from + i - 1, (standing[own] or 0) + 1
    end
  end
end
local function index_of(entry, rank) -- for many, one look is cheaper than a search each
  if #ARGV > 40 and not indexes then look() end
  return rank == 1 and indexes and indexes[entry] or redis.call('LPOS', entries, entry, 'RANK', rank, 'MAXLEN', reach)
    or length > reach and redis.call('LPOS', entries, entry, 'RANK', -rank, 'MAXLEN', reach)
end
local function stands(id)
  if not standing then look() end
  return standing[id] or 0
end
-- end
local words, left, back, seen = {}, {}, {}, {}
for at = 1, #ARGV, 2 do
  local id, token = ARGV[at], ARGV[at + 1]
  local bar = string.find(token, '|', 1, true)
  local time = bar and bar > 1 and string.match(token, '^%d+$', bar + 1)
  local is_lease = time and #time < 12
  if is_lease then id = string.sub(token, 1, bar - 1) end
  local index = is_lease and not seen[token] and index_of(token, 1)
  if index then
    words[#words + 1], seen[token], left[#left + 1] = 'moved', true, {token, index * 2 < length and 1 or -1}
    table.insert(back, 1, id)
  else
    words[#words + 1] = (seen[token] or stands(id) > 0) and 'stale' or 'gone'
  end
end
if #left == 0 then return words end

redis.call('LTRIM', entries, 0, -1) -- frees nothing: a drain may go on over maxmemory
redis.call('RPUSH', entries, unpack(back))
for _, job in ipairs(left) do redis.call('LREM', entries, job[2], job[1]) end
return words
