-- Restore deleted jobs as they were, by the bytes and scores of `records`.
--
-- A job of the queue returns to the position that its score gives: the number of jobs that run earlier.
--
-- moves    -> schedule | retry | queue | dead
-- writes   queues
-- KEYS     schedule retry queue dead queues
-- ARGV     queue     str   its name
--          each      (place str, score str, body bytes)
-- returns each  moved   (place str)  restored
--               exists  a job with the same bytes is there already
-- include: keys
local zsets = {schedule = schedule, retry = retry, dead = dead}
-- include: columns
for _, key in pairs(zsets) do redis.call('ZCARD', key) end
-- include: key_types(queues queue), batch, put_back
for at = 2, #ARGV, columns do
  local fault = fault_of(ARGV[at], ARGV[at + 1])
  if fault then return redis.error_reply('ERR row ' .. (at + 1) / columns .. ': ' .. fault .. '; nothing was changed') end
end
local outcomes, back = {}, {}
for at = 2, #ARGV, columns do
  local place, score, body = unpack(ARGV, at, at + 2)
  local key = zsets[place]
  local exists = key and redis.call('ZSCORE', key, body)
  outcomes[#outcomes + 1] = exists and 'exists' or {'moved', place}
  if not exists then back[#back + 1] = {place, score, body} end
end
if #back == 0 then return outcomes end

redis.call('SADD', queues, ARGV[1])
put_back(back)
return outcomes
