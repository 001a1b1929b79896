-- Delete jobs from the list, with their data.
--
-- The entry identifies the job. A job that a worker holds needs force; its worker then leaves a done mark. The entry of
-- a single job is searched for among 100 000 at each end, those of many jobs among at least 2500. The data stays if
-- another entry of the id is found.
--
-- moves    ready in_progress expired ->
-- writes   done
-- derived  <queue>:data:<id>  the body
-- KEYS     entries done
-- ARGV     now_ms?    int    a test's clock; the server's when empty
--          timeout_s  str    seconds after which a lease expires
--          force?     bool   even when a worker holds it
--          each (id bytes, member bytes)
-- returns each  moved     deleted
--               reserved  a worker holds it; force it
--               stale     its entry has changed: a worker took the job or gave it back
--               gone      no such job
-- include: keys, server_time
local timeout_s, force = tonumber(ARGV[2]), ARGV[3] == '1'
local length, has_marks = redis.call('LLEN', entries), redis.call('SCARD', done) > 0
-- include: batch_size(rows of id and entry)
if not timeout_s or string.find(ARGV[1], '%D') or #ARGV[1] > 13 then
  return redis.error_reply('ERR now_ms is a whole number; nothing was changed')
end
-- include: time_of, search
local outcomes, removals, seen = {}, {}, {}
for at = 4, #ARGV, 2 do
  local id, member = ARGV[at], ARGV[at + 1]
  local time, bar = time_of(member)
  if time then id = string.sub(member, 1, bar - 1) end
  local index = index_of(member, (seen[member] or 0) + 1)
  if not index then
    outcomes[#outcomes + 1] = entries_of(id) > 0 and 'stale' or 'gone'
  elseif time and math.floor(now_ms / 1000) - time <= timeout_s and not force then
    outcomes[#outcomes + 1] = 'reserved'
  else
    outcomes[#outcomes + 1], seen[member] = 'moved', (seen[member] or 0) + 1
    removals[#removals + 1] = {member, index * 2 < length and 1 or -1, (time or not bar) and entries_of(id) < 2 and id, time}
    if counts and counts[id] then counts[id] = counts[id] - 1 end
  end
end

for _, job in ipairs(removals) do
  local member, side, id, time = unpack(job, 1, 4)
  redis.call('LREM', entries, side, member)
  local data = entries .. ':data:' .. (id or '')
  -- A key of another type belongs to another program.
  if id and type(redis.pcall('STRLEN', data)) == 'number' then redis.pcall('DEL', data) end
  if id and time and has_marks then redis.call('SREM', done, id) end
end
return outcomes
