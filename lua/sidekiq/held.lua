-- What processes hold that do not beat any more: the exact bytes of each job, while they are there.
--
-- A row per process of the list, `job` empty, and one per job of those that have not beaten for 20 s or whose own hash is gone. `beat_ms`
-- is how long ago the process beat, -1 where that is gone; `left_ms` what is left until its jobs vanish. Jobs of more than 1 MB, and what
-- is beyond 4 MB together, are left out.
--
-- derived  <prefix><identity>
--          <prefix><identity>:work
--          <prefix><identity>:workers
-- KEYS     processes  set  identities of processes
-- ARGV     now_ms?  int  a test's clock; the server's when empty
--          prefix   str  before all keys: the namespace and a colon, or nothing
-- returns  listed  (now_ms int)  rows (worker bytes, beat_ms int, thread bytes, queue str, job bytes, run_at str, left_ms int)
local processes = KEYS[1]
-- block: clock, sidekiq_prefix, sidekiq_instant, sidekiq_processes, sidekiq_held_keys, sidekiq_works
if #ARGV < 1 or #ARGV[1] > 15 or string.find(ARGV[1], '%D') then
  return redis.error_reply('ERR now_ms is a whole number; nothing was changed')
end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
if #ARGV < 2 then return redis.error_reply('ERR it takes a prefix, which may be empty; nothing was changed') end
local prefix = ARGV[2]
local function at_ms(value) -- -1 for what is no instant
  local at = tonumber(value)
  if not at or at ~= at or at < 0 or at > 9e15 then return -1 end
  return math.floor((at < 1e11 and at * 1000 or at) + 0.5)
end
local function each_process(look) -- look(identity, info or nil, age of the beat in ms or -1)
  local found = redis.pcall('SSCAN', processes, 0, 'COUNT', 300)
  for at = 1, found.err and 0 or math.min(300, #found[2]) do
    local identity = found[2][at]
    local told = redis.pcall('HMGET', prefix .. identity, 'info', 'beat')
    local beat_ms = at_ms(told[2])
    look(identity, told[1] or nil, beat_ms >= 0 and math.max(0, now_ms - beat_ms) or -1)
  end
  return found.err ~= nil or (tostring(found[1]) == '0' and #found[2] <= 300)
end
local left = 3000
local function each_held_key(identity, look) -- look(key); Sidekiq 6 and older say `workers`
  local is_all = true
  for _, suffix in ipairs({':work', ':workers'}) do
    local key = prefix .. identity .. suffix
    local length = redis.pcall('HLEN', key)
    if type(length) == 'number' and length > left then
      is_all = false
    elseif type(length) == 'number' and length > 0 then
      left = left - length
      look(key)
    end
  end
  return is_all
end
local function each_work(identity, look) -- look(tid, entry as it stands, key)
  return each_held_key(identity, function(key)
    local held = redis.call('HGETALL', key)
    for i = 1, #held, 2 do look(held[i], held[i + 1], key) end
  end)
end
-- end
local rows, bytes = {}, 0
each_process(function(identity, _, age_ms)
  rows[#rows + 1] = {identity, age_ms, '', '', '', '', -1}
  if age_ms >= 0 and age_ms <= 20000 then return end
  each_work(identity, function(tid, entry, key)
    local is_read, told = pcall(cjson.decode, #entry <= 1100000 and entry or '')
    if is_read and type(told) == 'table' and type(told.payload) == 'string' and type(told.queue) == 'string' then
      bytes = bytes + #told.payload
      if bytes <= 4194304 then
        rows[#rows + 1] = {identity, age_ms, tid, told.queue, told.payload, tostring(told.run_at or ''), redis.call('PTTL', key)}
      end
    end
  end)
end)
return {'listed', now_ms, rows}
