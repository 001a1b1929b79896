-- Cancel running jobs that iterate: each ends before its next step, as done, within 5 s.
--
-- Sidekiq has this from 7.3 on, for jobs whose class includes `Sidekiq::IterableJob`. Where such a job stands is kept every 5 s, and
-- by that it is known here.
--
-- writes   states
-- derived  <prefix><identity>
--          <prefix><identity>:work
--          <prefix><identity>:workers
--          <prefix>it-<jid>
-- KEYS     processes (states)  set  identities of processes: host:pid:nonce
-- ARGV     prefix?  str  before all keys: the namespace and a colon
--          now_ms?  int  a test's clock; the server's when empty
--          each     (jid bytes, member bytes, token str, worker str)
-- returns each  asked         asked to cancel: it ends before its next step
--               already       it was asked before
--               not_iterable  it keeps no state of an iteration: no other job can be cancelled, and one that began within 5 s not yet
--               gone          no process runs it any more
local processes, prefix = KEYS[1], ARGV[1]
redis.call('SCARD', processes)
if #ARGV < 6 or #ARGV > 4002 or #ARGV % 4 ~= 2 then
  return redis.error_reply('ERR it takes the prefix, and 1 to 1000 rows of jid, member, token and worker; nothing was changed')
end
-- block: sidekiq_now, sidekiq_held
if #ARGV[2] > 13 or string.find(ARGV[2], '%D') then
  return redis.error_reply('ERR now_ms is a whole number; nothing was changed')
end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[2]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local SILENT_MS = 30000
local function silent_ms(identity)
  local beat = redis.pcall('HGET', prefix .. identity, 'beat')
  return type(beat) == 'string' and tonumber(beat) and now_ms - tonumber(beat) * 1000 or nil
end
local function held(identity)
  local key, flat = prefix .. identity .. ':work', nil -- sidekiq/launcher.rb 7 and later; `:workers` before
  for _, each in ipairs({key, prefix .. identity .. ':workers'}) do
    local found = redis.pcall('HGETALL', each)
    if not found.err and #found > 0 and not flat then key, flat = each, found end
  end
  local jobs = {}
  for i = 1, #(flat or {}), 2 do
    local is_json, told = pcall(cjson.decode, flat[i + 1])
    if is_json and type(told) == 'table' and type(told.queue) == 'string' and type(told.payload) == 'string' then
      jobs[#jobs + 1] = {flat[i], told.queue, told.payload, tonumber(told.run_at) or 0}
    end
  end
  return key, jobs
end
-- end
local words, asked = {}, {}
for at = 3, #ARGV, 4 do
  local jid, member, token, worker = unpack(ARGV, at, at + 3)
  local is_held = false
  local _, jobs = held(worker)
  for _, job in ipairs(jobs) do is_held = is_held or worker .. ' ' .. job[1] == token and job[3] == member end
  local key = prefix .. 'it-' .. jid
  local size = redis.pcall('HLEN', key)
  if not is_held or (silent_ms(worker) or math.huge) > SILENT_MS then
    words[#words + 1] = 'gone'
  elseif type(size) ~= 'number' or size == 0 then
    words[#words + 1] = 'not_iterable'
  elseif redis.call('HEXISTS', key, 'cancelled') == 1 then
    words[#words + 1] = 'already'
  else
    words[#words + 1], asked[#asked + 1] = 'asked', key
  end
end
if #asked == 0 then return words end

redis.call('SREM', processes, '') -- frees nothing: this goes on over maxmemory
for _, key in ipairs(asked) do
  redis.call('HSETNX', key, 'cancelled', string.format('%.0f', math.floor(now_ms / 1000)))
  if redis.call('TTL', key) == -1 then redis.call('EXPIRE', key, 2592000) end -- sidekiq/job/iterable.rb 8
end
return words
