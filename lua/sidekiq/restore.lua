-- Restore deleted jobs as they were, by the bytes and scores of `records`.
--
-- A job of the queue comes back to so many that run before it.
--
-- moves    -> schedule | retry | queue | dead
-- writes   queues
-- KEYS     schedule  zset  jobs by due (s)
--          retry     zset  jobs by due (s)
--          queue     list  jobs, the next one last
--          dead      zset  jobs by when they died (s)
--          queues    set   names of all queues
-- ARGV     queue     str   its name
--          each      (place str, score str, body bytes)
-- returns each  moved   (place str)  restored
--               exists  the same bytes stand there already
local schedule, retry, queue, dead, queues = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local zsets = {schedule = schedule, retry = retry, dead = dead}
local scalars, columns = 1, 3
for _, key in pairs(zsets) do redis.call('ZCARD', key) end
redis.call('SCARD', queues)
redis.call('LLEN', queue)
-- block: sidekiq_batch, sidekiq_put_back
local rows = (#ARGV - scalars) / columns
if rows < 1 or rows > 1000 or rows ~= math.floor(rows) then
  return redis.error_reply('ERR it takes 1 to 1000 rows, each with all of its columns; nothing was changed')
end
if ARGV[1] == '' or string.sub(queue, -#ARGV[1] - 6) ~= 'queue:' .. ARGV[1] then
  return redis.error_reply('ERR the list of a queue is queue:NAME, and the first argument is the name; nothing was changed')
end
local function fault_of(place, score)
  if not zsets[place] and place ~= 'queue' then return 'there is no place of that name' end
  local number = string.find(score, '^[%d.e+-]+$') and tonumber(score)
  if not number or place == 'queue' and (number < 0 or number ~= math.floor(number)) then return 'the score is a number' end
end
local function put_back(jobs)
  table.sort(jobs, function(a, b) return tonumber(a[2]) < tonumber(b[2]) end) -- each counts on those that run before it
  for _, job in ipairs(jobs) do
    local key, before = zsets[job[1]], tonumber(job[2])
    local pivot = not key and before > 0 and redis.call('LINDEX', queue, -before)
    if key then
      redis.call('ZADD', key, job[2], job[3])
    elseif before > 0 and not pivot then
      redis.call('LPUSH', queue, job[3])
    elseif pivot and redis.call('LLEN', queue) * rows <= 1000000 then -- the pivot is searched for
      redis.call('LINSERT', queue, 'BEFORE', pivot, job[3])
    else
      redis.call('RPUSH', queue, job[3])
    end
  end
end
-- end
for at = 2, #ARGV, columns do
  local fault = fault_of(ARGV[at], ARGV[at + 1])
  if fault then return redis.error_reply('ERR row ' .. (at + 1) / columns .. ': ' .. fault .. '; nothing was changed') end
end
local words, back = {}, {}
for at = 2, #ARGV, columns do
  local place, score, body = unpack(ARGV, at, at + 2)
  local key = zsets[place]
  local stands = key and redis.call('ZSCORE', key, body)
  words[#words + 1] = stands and 'exists' or {'moved', place}
  if not stands then back[#back + 1] = {place, score, body} end
end
if #back == 0 then return words end

redis.call('SADD', queues, ARGV[1])
put_back(back)
return words
