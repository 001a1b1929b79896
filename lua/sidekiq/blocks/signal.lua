-- Send a signal to processes, one identity per argument. A process reads it at its next heartbeat.
--
-- needs    processes prefix decode
--          signal  the signal's name
-- include: decode
redis.call('SCARD', processes)
if #ARGV < 2 or #ARGV > 1001 then return redis.error_reply('ERR it takes the prefix, and 1 to 1000 processes; nothing was changed') end
local outcomes, keys = {}, {}
for at = 2, #ARGV do
  local info = redis.pcall('HGET', prefix .. ARGV[at], 'info')
  local is_listed = redis.call('SISMEMBER', processes, ARGV[at]) == 1 and type(info) == 'string'
  local process = decode(is_listed and info or '')
  outcomes[#outcomes + 1] = not is_listed and 'gone' or process and process.embedded == true and 'embedded' or 'asked'
  if outcomes[#outcomes] == 'asked' then keys[#keys + 1] = prefix .. ARGV[at] .. '-signals' end
end
if #keys == 0 then return outcomes end

redis.call('SREM', processes, '') -- removes nothing, but lets the script continue over maxmemory
for _, key in ipairs(keys) do
  redis.call('LPUSH', key, signal)
  redis.call('EXPIRE', key, 60)
end
return outcomes
