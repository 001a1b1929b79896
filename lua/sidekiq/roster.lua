-- Processes of all queues: each with what it last told of itself, and what it was asked to do.
--
-- `info` is JSON, as it was written; `beat_ms` is how long ago it beat, -1 where its hash is gone; `held` is how many jobs it holds;
-- `order` the next signal that waits for it: TSTP, TERM or another. At most 300.
--
-- derived  <prefix><identity>
--          <prefix><identity>:work
--          <prefix><identity>:workers
--          <prefix><identity>-signals
-- KEYS     processes  set  identities of processes
-- ARGV     now_ms?  int  a test's clock; the server's when empty
--          prefix   str  before all keys: the namespace and a colon, or nothing
-- returns  listed  (now_ms int)  rows (worker bytes, beat_ms int, info bytes, busy str, quiet str, rss str, rtt_us str, concurrency str,
--                  held int, order str)
local processes = KEYS[1]
-- block: clock, sidekiq_prefix, sidekiq_instant, sidekiq_processes
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
-- end
local rows = {}
each_process(function(identity, info, age_ms)
  local told = redis.pcall('HMGET', prefix .. identity, 'busy', 'quiet', 'rss', 'rtt_us', 'concurrency')
  local held = 0
  for _, suffix in ipairs({':work', ':workers'}) do -- Sidekiq 6 and older say `workers`
    local length = redis.pcall('HLEN', prefix .. identity .. suffix)
    held = held + (type(length) == 'number' and length or 0)
  end
  local order = redis.pcall('LINDEX', prefix .. identity .. '-signals', -1)
  local row = {identity, age_ms, info and #info <= 65536 and info or ''}
  for i = 1, 5 do row[i + 3] = not told.err and told[i] and string.sub(told[i], 1, 100) or '' end
  row[9], row[10] = held, type(order) == 'string' and string.sub(order, 1, 100) or ''
  rows[#rows + 1] = row
end)
return {'listed', now_ms, rows}
