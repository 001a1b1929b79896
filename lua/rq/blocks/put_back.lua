-- Put a job back into its former place, in a list at its former position if the list is long enough.
--
-- needs    queued registries prefix
-- gives    put_back expire_at
local function put_back(id, place, score)
  local pivot = place == 'queued' and redis.call('LINDEX', queued, math.floor(tonumber(score)))
  if pivot then
    redis.call('LINSERT', queued, 'BEFORE', pivot, id)
  elseif place == 'queued' then
    redis.call('RPUSH', queued, id)
  else
    redis.call('ZADD', registries[place], score, id)
  end
  local parents = place == 'deferred' and redis.pcall('SMEMBERS', prefix .. ':job::' .. id .. ':dependencies') or {}
  for _, parent in ipairs(parents) do redis.pcall('SADD', prefix .. ':job:' .. parent .. ':dependents', id) end
end
local function expire_at(id, seconds, ...) -- at least one hour remains, so that a person can inspect the job
  local key = prefix .. ':job:' .. id
  local least = redis.call('TIME')[1] + 3600
  for _, each in ipairs({key, key .. ':dependents', prefix .. ':job::' .. id .. ':dependencies', ...}) do
    if seconds == '' then redis.call('PERSIST', each) else redis.call('EXPIREAT', each, string.format('%.0f', math.max(tonumber(seconds), least))) end
  end
end
