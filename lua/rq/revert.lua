-- Revert jobs to their state before a verb, if they have not changed since.
--
-- Deleted jobs are handled by `restore`. A queued job returns to its former position, if the list is still long enough.
--
-- moves    scheduled queued canceled -> scheduled | deferred | ready_to_enqueue | queued | finished | failed | canceled
-- writes   queues
-- derived  <prefix>:job:<id>
--          <prefix>:job:<id>:dependents
--          <prefix>:job::<id>:dependencies
-- KEYS     scheduled deferred ready_to_enqueue queued finished failed canceled queues
-- ARGV     prefix    str  prefix of all keys: rq
--          each      (id bytes, left str, known? bytes, place str, score str, line? bytes, errors? bytes)  as `records` returned it
-- returns each  moved    (place str)  reverted
--               changed  (place str)  it has changed since
--               gone     no such job
-- include: keys, columns, queue_keys, key_types, batch, read_fields, find_place, remove_at, packed, unpacked, changing, put_back
local replies, accepted, seen = {}, {}, {}
for at = 2, #ARGV, columns do
  local id, left, known, place, score, line, errors = unpack(ARGV, at, at + 6)
  local fields_then = unpacked(line)
  local fault = not ({scheduled = 1, queued = 1, canceled = 1})[left] and 'a verb leaves jobs in scheduled, queued or canceled'
    or not registries[place] and place ~= 'queued' and 'there is no place of that name'
    or place == 'queued' and not string.find(score, '^%d+$') and 'the score of a queued job is its position'
    or not (tonumber(score) and string.find(score, '^[%d.e+-]+$')) and score ~= 'inf' and score ~= '-inf' and 'the score is a number'
    or (not fields_then or #fields_then ~= #changing) and 'the line is not one'
    or (#errors > 15 or string.find(errors, '%D')) and 'the end of its time is in seconds'
  if fault then return redis.error_reply('ERR row ' .. (at + 5) / columns .. ': ' .. fault .. '; nothing was changed') end
  local values = read_fields(id, 'status')
  local now = find_place(id, values and values[1] or '')
  if not now then
    replies[#replies + 1] = 'gone'
  elseif now ~= left or seen[id] or pack_changing(id) ~= known then
    replies[#replies + 1] = {'changed', now}
  else
    replies[#replies + 1], seen[id] = {'moved', place}, true
    accepted[#accepted + 1] = {id = id, left = left, place = place, score = score, fields = fields_then, errors = errors}
  end
end
if #accepted == 0 then return replies end
table.sort(accepted, function(a, b) return tonumber(a.score) < tonumber(b.score) end) -- a position in a list counts the jobs before it

redis.call('ZREM', canceled, '') -- frees nothing, but lets the script finish over maxmemory
redis.call('SADD', queues, queued)
local inside, spots = {}, {} -- jobs that only change their position are at the end until each gets the right one
for _, job in ipairs(accepted) do
  if job.left == 'queued' then
    for _, spot in ipairs(find_in_list(queued, length, job.id, 1)) do spots[#spots + 1] = spot end
  end
  if job.left == 'queued' and job.place == 'queued' then
    inside[#inside + 1] = job
    redis.call('RPUSH', queued, job.id)
  else
    put_back(job.id, job.place, job.score)
  end
end
for _, job in ipairs(accepted) do
  for i, name in ipairs(changing) do
    local value, key = job.fields[i], prefix .. ':job:' .. job.id
    if value == '' then redis.call('HDEL', key, name) else redis.call('HSET', key, name, string.sub(value, 2)) end
  end
  if job.left ~= job.place then expire_at(job.id, job.errors) end -- a verb that leaves a job in its place changes no expiry
  if registries[job.left] and job.left ~= job.place then redis.call('ZREM', registries[job.left], job.id) end
end
remove_at(queued, length, spots, 0)
local before = redis.call('LLEN', queued) - #inside
for _, job in ipairs(inside) do
  if tonumber(job.score) < before then
    put_back(job.id, 'queued', job.score)
    redis.call('LREM', queued, -1, job.id)
  end
  before = before + 1
end
return replies
