-- Ack jobs that their worker holds: the entry goes, and its data with it.
--
-- The token is the entry. Where it does not stand, and no other entry of its id does either, a worker of the system is just
-- between its pop and its push: then the id is marked done, as mark_done does, and the entry is dropped when it comes back. The
-- entry is looked for among 100 000 at each end for a single job, at least 2500 for many; others of its id among 2500 at each end.
--
-- moves    in_progress expired ->
-- writes   done
-- derived  <queue>:data:<id>  the body
-- KEYS     entries (in_progress expired)  list  id, or id|unix seconds once handed out
--          done    set    ids of finished jobs whose entry still stands
-- ARGV     each (id bytes, token bytes)
-- returns each  moved   acked
--               marked  its entry is under way: it is marked as done and will be dropped
--               done    it was marked as done before
--               stale   this lease is over; the job waits again, or somebody else holds it
--               gone    no such job
local entries, done = KEYS[1], KEYS[2]
local length = redis.call('LLEN', entries)
redis.call('SCARD', done)
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
local words, left, marks, seen = {}, {}, {}, {}
for at = 1, #ARGV, 2 do
  local id, token = ARGV[at], ARGV[at + 1]
  local bar = string.find(token, '|', 1, true)
  local time = bar and bar > 1 and string.match(token, '^%d+$', bar + 1)
  local is_lease = time and #time < 12
  if is_lease then id = string.sub(token, 1, bar - 1) end
  local index = is_lease and not seen[token] and index_of(token, 1)
  if index then
    words[#words + 1], seen[token], left[#left + 1] = 'moved', true, {token, index * 2 < length and 1 or -1, id}
  elseif seen[token] then
    words[#words + 1] = 'done'
  elseif stands(id) > 0 then
    words[#words + 1] = 'stale'
  elseif is_lease then
    words[#words + 1] = redis.call('SISMEMBER', done, id) == 1 and 'done' or 'marked'
    seen[token], marks[#marks + 1] = true, id
  else
    words[#words + 1] = 'gone'
  end
end
if #left + #marks == 0 then return words end

redis.call('LTRIM', entries, 0, -1) -- frees nothing: a drain may go on over maxmemory
if #marks > 0 then redis.call('SADD', done, unpack(marks)) end
for _, job in ipairs(left) do
  redis.call('LREM', entries, job[2], job[1])
  marks[#marks + 1] = job[3]
end
for _, id in ipairs(marks) do
  local data = entries .. ':data:' .. id
  if type(redis.pcall('STRLEN', data)) == 'number' then redis.pcall('DEL', data) end -- not another program's key
end
return words
