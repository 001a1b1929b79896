-- Which of some jobs, which a killed process held, stand somewhere again: somebody has put them back, or they never were lost.
--
-- They are looked for by their bytes among the first and the last 10 000 of the queue, and by their `jid` in what runs, in the first 500 of
-- `schedule` and of `retry`, and in the last 500 of `dead`.
--
-- derived  <prefix><identity>
--          <prefix><identity>:work
--          <prefix><identity>:workers
-- KEYS     schedule   zset  job by due (s)
--          retry      zset  job by due (s)
--          queue      list  jobs, the last one is next
--          dead       zset  job by when it died (s)
--          processes  set   identities of processes
-- ARGV     now_ms?  int  a test's clock; the server's when empty
--          prefix   str  before all keys: the namespace and a colon, or nothing
--          each     (id bytes, member bytes)  the jobs, up to 1000
-- returns  looked  (now_ms int)  rows (id bytes, place str)  those that stand somewhere
local schedule, retry, queue, dead, processes = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
if #ARGV > 2002 or #ARGV % 2 ~= 0 then return redis.error_reply('ERR it takes 2 arguments and up to 1000 rows; nothing was changed') end
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
local place_of, rows = {}, {}
local function note(text, place)
  for jid in string.gmatch(text, '"jid": ?"([^"]+)"') do place_of[jid] = place_of[jid] or place end
end
if #ARGV > 2 then
  each_process(function(identity)
    each_work(identity, function(_, entry)
      for jid in string.gmatch(entry, '\\"jid\\": ?\\"([^"\\]+)\\"') do place_of[jid] = 'work' end
    end)
  end)
  for _, each in ipairs({{'schedule', schedule, 0, 499}, {'retry', retry, 0, 499}, {'dead', dead, -500, -1}}) do
    local found = redis.pcall('ZRANGE', each[2], each[3], each[4])
    for at = 1, found.err and 0 or #found do note(found[at], each[1]) end
  end
end
for at = 3, #ARGV, 2 do
  local id, member = ARGV[at], ARGV[at + 1]
  local place = place_of[id]
  if not place then
    local first = redis.pcall('LPOS', queue, member, 'RANK', -1, 'MAXLEN', 10000) or redis.pcall('LPOS', queue, member, 'MAXLEN', 10000)
    place = type(first) == 'number' and 'queue' or nil
  end
  if place then rows[#rows + 1] = {id, place} end
end
return {'looked', now_ms, rows}
