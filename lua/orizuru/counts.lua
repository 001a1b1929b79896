-- What the source holds, and all consumers together.
--
-- A consumer is silent when its heartbeat is gone and its last beat is older than `silent_ms`. `deadline_ms` is the instant
-- at which the next consumer that holds jobs will be silent (-1: none will), `expired` what silent ones hold, `workers` how
-- many are not silent (-1: they do not beat). Consumers: the registered, those that ever beat, and the rows; 1000 at most.
--
-- derived  orizuru:consumers:<worker>:processing
--          orizuru:consumers:<worker>:unacked
--          orizuru:consumers:<worker>:heartbeat
-- KEYS     source      list  ready jobs, the next one last
--          consumers   set   names of registered consumers
--          heartbeats  hash  last beat (unix ms) by name
-- ARGV     now_ms?    int  a test's clock; the server's when empty
--          silent_ms  int  a consumer is dead after so long without a beat
--          each       (worker bytes)  consumers whose lists were seen
-- returns  counted  (now_ms int, source int, processing int, unacked int, exact bool, deadline_ms int, expired int, workers int, consumers int)
local source, consumers, heartbeats = KEYS[1], KEYS[2], KEYS[3]
for _, at in ipairs({1, 2}) do
  if #ARGV < 2 or not tonumber(ARGV[2]) or #ARGV[at] > 15 or not string.find(ARGV[at], '^%-?%d*$') then
    return redis.error_reply('ERR it takes 2 arguments, whole numbers where the header says int; nothing was changed')
  end
end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local silent_ms = tonumber(ARGV[2])
local names, seen, beats = {}, {}, {}
local function add(name)
  if not seen[name] and #names < 1000 then names[#names + 1], seen[name] = name, true end
end
for i = 3, #ARGV do add(ARGV[i]) end
for _, name in ipairs(redis.call('SSCAN', consumers, 0, 'COUNT', 1000)[2]) do add(name) end
local flat = redis.call('HSCAN', heartbeats, 0, 'COUNT', 1000)[2]
for i = 1, #flat, 2 do
  beats[flat[i]] = tonumber(string.match(flat[i + 1], '^%d+$') or '')
  add(flat[i])
end
local function length(key) -- a key of another type counts as empty; `faults` names it
  local reply = redis.pcall('LLEN', key)
  return type(reply) == 'number' and reply or 0
end
local processing, unacked, expired, deadline_ms, live, heard = 0, 0, 0, -1, 0, 0
for _, name in ipairs(names) do
  local prefix = 'orizuru:consumers:' .. name
  local held, left_ms, beat = length(prefix .. ':processing'), redis.call('PTTL', prefix .. ':heartbeat'), beats[name]
  local is_dead = left_ms == -2 and beat and now_ms - beat > silent_ms
  processing, unacked = processing + held, unacked + length(prefix .. ':unacked')
  if left_ms > -2 or beat then heard = heard + 1 end
  if is_dead then expired = expired + held end
  if not is_dead and (left_ms > -2 or beat) then live = live + 1 end
  if held > 0 and beat and left_ms ~= -1 then
    local deadline = math.max(left_ms >= 0 and now_ms + left_ms or 0, beat + silent_ms)
    if deadline_ms < 0 or deadline < deadline_ms then deadline_ms = deadline end
  end
end
if heard == 0 and #names > 0 then live = -1 end
return {'counted', now_ms, redis.call('LLEN', source), processing, unacked, #names < 1000, deadline_ms, expired, live, #names}
