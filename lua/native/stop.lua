-- Stop workers: ask them to end; each learns it at its next beat.
--
-- writes   workers
-- KEYS     workers    hash    worker lines by name
--          meta       hash    settings and counters
-- ARGV     now_ms?   int     a test's clock; the server's when empty
--          each      (worker str)
-- returns each  asked  asked to stop; it learns it at its next beat
--               gone   no such worker
local workers, meta = KEYS[1], KEYS[2]
local order = 'stop'
local version = redis.call('HGET', meta, 'version')
for _, key in ipairs({workers}) do redis.call('HLEN', key) end
-- block: opening, order
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
if version and version ~= '2' and version ~= '1' then
  return redis.error_reply('ERR this queue has schema version ' .. version .. ', these scripts speak 1 and 2; nothing was changed')
end
if #ARGV < 2 or #ARGV > 1001 then return redis.error_reply('ERR a batch has 1 to 1000 workers; nothing was changed') end
if #ARGV[1] > 13 or string.find(ARGV[1], '%D') then return redis.error_reply('ERR now_ms is a whole number; nothing was changed') end
local words, lines = {}, {}
for at = 2, #ARGV do
  local beat, ttl, rest = string.match(redis.call('HGET', workers, ARGV[at]) or '', '^(%d+) (%d+) %S+ (.*)$')
  words[#words + 1] = beat and now_ms - tonumber(beat) <= 10 * tonumber(ttl) and 'asked' or 'gone'
  if words[#words] == 'asked' then
    lines[#lines + 1], lines[#lines + 2] = ARGV[at], table.concat({beat, ttl, order, rest}, ' ')
  end
end
if #lines == 0 then return words end

redis.call('HDEL', workers, '') -- frees nothing: this goes on over maxmemory
redis.call('HSET', workers, unpack(lines))
return words
-- end
