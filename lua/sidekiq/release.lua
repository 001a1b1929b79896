-- Release jobs of a dead process: they become the next ones, with unchanged bytes.
--
-- A job is released from `work` while Redis stores it, which is one minute after the last heartbeat, and from `lost`
-- with the bytes that rqtui read before. A process with a heartbeat in the last 30 s keeps its jobs: stop the process,
-- and Sidekiq pushes them back.
--
-- moves    work lost -> queue
-- writes   queues
-- derived  <prefix><identity>
--          <prefix><identity>:work
--          <prefix><identity>:workers
-- KEYS     processes queue queues
-- ARGV     queue     str   its name
--          now_ms?   int   a test's clock; the server's when empty
--          prefix?   str   the prefix of all keys: the namespace and a colon
--          place     str   work or lost
--          each      (member bytes, token str, worker str)
-- returns each  moved   released
--               beats   its process is alive: stop the process instead
--               queued  it is in the queue again
--               gone    its process does not hold it any more
-- include: keys
if #ARGV < 4 then return redis.error_reply('ERR it takes 4 arguments and rows; nothing was changed') end
-- include: args(prefix place)
if place ~= 'work' and place ~= 'lost' then return redis.error_reply('ERR the place is work or lost; nothing was changed') end
-- include: columns, key_types(processes queue queues), batch, clock_argv2, held
local outcomes, plan, seen = {}, {}, {}
for at = 5, #ARGV, columns do
  local member, token, worker = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  local silent, tid = silent_ms(worker), nil
  local key, jobs = held(worker)
  for _, job in ipairs(jobs) do
    if worker .. ' ' .. job[1] == token and job[2] == ARGV[1] and job[3] == member then tid = job[1] end
  end
  if silent and silent <= SILENT_MS then
    outcomes[#outcomes + 1] = (tid or place == 'lost') and 'beats' or 'gone'
  elseif seen[token .. member] or place == 'work' and not tid or place == 'lost' and not tid and (silent or #jobs > 0) then
    outcomes[#outcomes + 1] = 'gone'
  elseif redis.call('LPOS', queue, member, 'RANK', -1, 'MAXLEN', 1000) then
    outcomes[#outcomes + 1] = 'queued'
  else
    outcomes[#outcomes + 1], seen[token .. member] = 'moved', true
    plan[#plan + 1] = {key, tid, member}
  end
end
if #plan == 0 then return outcomes end

redis.call('LTRIM', queue, 0, -1) -- removes nothing, but lets the drain continue over maxmemory
redis.call('SADD', queues, ARGV[1])
for i = #plan, 1, -1 do -- The last row is pushed first, so that the first row is the next job.
  redis.call('RPUSH', queue, plan[i][3])
  if plan[i][2] then redis.call('HDEL', plan[i][1], plan[i][2]) end
end
return outcomes
