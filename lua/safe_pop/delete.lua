-- Delete jobs wherever they stand, with their data.
--
-- The entry says which one. What a worker holds needs force; its worker's mark then stays behind. An entry is looked for among
-- 100 000 at each end for a single job, at least 2500 for many. Data stays while another entry of the id is seen.
--
-- moves    ready in_progress expired ->
-- writes   done
-- derived  <queue>:data:<id>  the body
-- KEYS     entries (ready in_progress expired)  list  id, or id|unix seconds once handed out
--          done       set    ids of finished jobs whose entry still stands
-- ARGV     now_ms?    int    a test's clock; the server's when empty
--          timeout_s  str    seconds after which an entry that was handed out is late
--          force?     bool   even when a worker holds it
--          each (id bytes, member bytes)
-- returns each  moved     deleted
--               reserved  a worker holds it; force it
--               stale     its entry is another by now: somebody took it or gave it back
--               gone      no such job
local entries, done = KEYS[1], KEYS[2]
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local timeout_s, force = tonumber(ARGV[2]), ARGV[3] == '1'
local length, has_marks = redis.call('LLEN', entries), redis.call('SCARD', done) > 0
if #ARGV < 5 or #ARGV > 2003 or #ARGV % 2 == 0 then
  return redis.error_reply('ERR a batch has 1 to 1000 rows of id and entry; nothing was changed')
end
if not timeout_s or string.find(ARGV[1], '%D') or #ARGV[1] > 13 then
  return redis.error_reply('ERR now_ms is a whole number; nothing was changed')
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
local words, left, seen = {}, {}, {}
for at = 4, #ARGV, 2 do
  local id, member = ARGV[at], ARGV[at + 1]
  local bar = string.find(member, '|', 1, true)
  local time = bar and bar > 1 and string.match(member, '^%d+$', bar + 1)
  time = time and #time < 12 and tonumber(time)
  if time then id = string.sub(member, 1, bar - 1) end
  local index = index_of(member, (seen[member] or 0) + 1)
  if not index then
    words[#words + 1] = stands(id) > 0 and 'stale' or 'gone'
  elseif time and math.floor(now_ms / 1000) - time <= timeout_s and not force then
    words[#words + 1] = 'reserved'
  else
    words[#words + 1], seen[member] = 'moved', (seen[member] or 0) + 1
    left[#left + 1] = {member, index * 2 < length and 1 or -1, (time or not bar) and stands(id) < 2 and id, time}
    if standing and standing[id] then standing[id] = standing[id] - 1 end
  end
end
if #left == 0 then return words end

for _, job in ipairs(left) do
  local member, side, id, time = unpack(job, 1, 4)
  redis.call('LREM', entries, side, member)
  local data = entries .. ':data:' .. (id or '')
  if id and type(redis.pcall('STRLEN', data)) == 'number' then redis.pcall('DEL', data) end -- not another program's key
  if id and time and has_marks then redis.call('SREM', done, id) end
end
return words
