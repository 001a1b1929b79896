-- Stop processes: each is asked to end, and learns it at its next beat, within 10 s.
--
-- A process takes one signal a beat, and those of the last minute.
--
-- writes   signals
-- derived  <prefix><identity>
--          <prefix><identity>-signals
-- KEYS     processes (signals)  set  identities of processes: host:pid:nonce
-- ARGV     prefix?  str  before all keys: the namespace and a colon
--          each     (worker str)
-- returns each  asked     asked to stop: it learns it at its next beat, and pushes back what runs for longer than 25 s
--               embedded  it runs inside another program, which alone can end it
--               gone      no such process
local processes, prefix = KEYS[1], ARGV[1]
redis.call('SCARD', processes)
if #ARGV < 2 or #ARGV > 1001 then
  return redis.error_reply('ERR it takes the prefix, and 1 to 1000 processes; nothing was changed')
end
local words, asked = {}, {}
for at = 2, #ARGV do
  local info = redis.pcall('HGET', prefix .. ARGV[at], 'info')
  local is_there = redis.call('SISMEMBER', processes, ARGV[at]) == 1 and type(info) == 'string'
  local is_json, told = pcall(cjson.decode, is_there and info or '')
  local is_embedded = is_json and type(told) == 'table' and told.embedded == true
  words[#words + 1] = not is_there and 'gone' or is_embedded and 'embedded' or 'asked'
  if words[#words] == 'asked' then asked[#asked + 1] = prefix .. ARGV[at] .. '-signals' end
end
if #asked == 0 then return words end

redis.call('SREM', processes, '') -- frees nothing: this goes on over maxmemory
for _, key in ipairs(asked) do
  redis.call('LPUSH', key, 'TERM')
  redis.call('EXPIRE', key, 60)
end
return words
