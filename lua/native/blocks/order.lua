-- Send an order to workers, one name per argument. A worker reads the order in the reply to its next heartbeat.
--
-- needs    workers now_ms order
--          ARGV[1]  now_ms?
if #ARGV < 2 or #ARGV > 1001 then return redis.error_reply('ERR a batch has 1 to 1000 workers; nothing was changed') end
if #ARGV[1] > 13 or string.find(ARGV[1], '%D') then return redis.error_reply('ERR now_ms is a whole number; nothing was changed') end
local outcomes, lines = {}, {}
for at = 2, #ARGV do
  local beat, ttl, rest = string.match(redis.call('HGET', workers, ARGV[at]) or '', '^(%d+) (%d+) %S+ (.*)$')
  outcomes[#outcomes + 1] = beat and now_ms - tonumber(beat) <= 10 * tonumber(ttl) and 'asked' or 'gone'
  if outcomes[#outcomes] == 'asked' then
    lines[#lines + 1], lines[#lines + 2] = ARGV[at], table.concat({beat, ttl, order, rest}, ' ')
  end
end
if #lines == 0 then return outcomes end

redis.call('HDEL', workers, '') -- removes nothing, but lets the script continue over maxmemory
redis.call('HSET', workers, unpack(lines))
return outcomes
