-- Ack jobs that their worker holds: delete the entry and its data.
--
-- The token is the entry. If neither this entry nor another one of its id is in the list, a worker of the system is
-- between its pop and its push. Then the id is marked as done, as mark_done does, and the entry is dropped when it
-- comes back. The entry of a single job is searched for among 100 000 at each end, those of many jobs among at least
-- 2500; other entries of the id among 2500 at each end.
--
-- moves    in_progress expired ->
-- writes   done
-- derived  <queue>:data:<id>  the body
-- KEYS     entries done
-- ARGV     each (id bytes, token bytes)
-- returns each  moved   acked
--               marked  its entry is not in the list now: the id is marked as done, and the entry will be dropped
--               done    it was marked as done before
--               stale   this lease is over; the job waits again, or another worker holds it
--               gone    no such job
-- include: keys
local length = redis.call('LLEN', entries)
-- include: key_types(done), batch_size, find_lease
local outcomes, removals, marks, seen = {}, {}, {}, {}
for at = 1, #ARGV, 2 do
  local token = ARGV[at + 1]
  local id, is_lease, index = find_lease(ARGV[at], token, seen[token])
  if index then
    outcomes[#outcomes + 1], seen[token], removals[#removals + 1] = 'moved', true, {token, index * 2 < length and 1 or -1, id}
  elseif seen[token] then
    outcomes[#outcomes + 1] = 'done'
  elseif entries_of(id) > 0 then
    outcomes[#outcomes + 1] = 'stale'
  elseif is_lease then
    outcomes[#outcomes + 1] = redis.call('SISMEMBER', done, id) == 1 and 'done' or 'marked'
    seen[token], marks[#marks + 1] = true, id
  else
    outcomes[#outcomes + 1] = 'gone'
  end
end
if #removals + #marks == 0 then return outcomes end

redis.call('LTRIM', entries, 0, -1) -- removes nothing, but lets the drain continue over maxmemory
if #marks > 0 then redis.call('SADD', done, unpack(marks)) end
for _, job in ipairs(removals) do
  redis.call('LREM', entries, job[2], job[1])
  marks[#marks + 1] = job[3]
end
for _, id in ipairs(marks) do
  local data = entries .. ':data:' .. id
  -- A key of another type belongs to another program.
  if type(redis.pcall('STRLEN', data)) == 'number' then redis.pcall('DEL', data) end
end
return outcomes
