-- Count the jobs in the source and with all consumers.
--
-- A consumer is silent if its heartbeat key is missing and its last heartbeat is older than `silent_ms`. `deadline_ms`
-- is the time when the next consumer that holds jobs becomes silent (-1: none does). `expired` is the number of jobs
-- that silent consumers hold. `workers` is the number of consumers that are not silent (-1: none sends heartbeats). Up
-- to 1000 consumers are read: those of the rows, the registered ones, and those that ever sent a heartbeat.
--
-- derived  orizuru:consumers:<worker>:processing
--          orizuru:consumers:<worker>:unacked
--          orizuru:consumers:<worker>:heartbeat
-- KEYS     source consumers heartbeats
-- ARGV     now_ms?    int  a test's clock; the server's when empty
--          silent_ms  int  a consumer without a heartbeat for this long is dead
--          each       (worker bytes)  further consumers whose lists exist
-- returns  counted  (now_ms int, source int, processing int, unacked int, exact bool, deadline_ms int, expired int, workers int, consumers int)
-- include: keys
local argument_count, asked_from = 2, 3
-- include: silent_ms, consumers
local beat_of = {}
for i = 1, #beats, 2 do beat_of[beats[i]] = tonumber(string.match(beats[i + 1], '^%d+$') or '') end
local function length(key) -- A key of another type counts as empty; `faults` reports it.
  local reply = redis.pcall('LLEN', key)
  return type(reply) == 'number' and reply or 0
end
local processing, unacked, expired, deadline_ms, live, with_beat = 0, 0, 0, nil, 0, 0
for _, name in ipairs(names) do
  local prefix = 'orizuru:consumers:' .. name
  local held, left_ms, beat = length(prefix .. ':processing'), redis.call('PTTL', prefix .. ':heartbeat'), beat_of[name]
  local is_dead = left_ms == -2 and beat and now_ms - beat > silent_ms
  processing, unacked = processing + held, unacked + length(prefix .. ':unacked')
  if left_ms > -2 or beat then with_beat = with_beat + 1 end
  if is_dead then expired = expired + held end
  if not is_dead and (left_ms > -2 or beat) then live = live + 1 end
  if held > 0 and beat and left_ms ~= -1 then
    local deadline = math.max(left_ms >= 0 and now_ms + left_ms or 0, beat + silent_ms)
    deadline_ms = math.min(deadline_ms or deadline, deadline)
  end
end
if with_beat == 0 and #names > 0 then live = -1 end
return {'counted', now_ms, redis.call('LLEN', source), processing, unacked, #names < 1000, deadline_ms or -1, expired, live, #names}
