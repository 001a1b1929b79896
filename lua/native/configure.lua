-- Configure a queue: change its settings; an empty value brings a default back.
--
-- Settings: ttr_ms, max_attempts, backoff_ms, backoff_cap_ms, keep_ms, unique_ms, dead_max, dead_ttl_ms, done_max,
-- and `events`: on, off, or the time (ms since 1970) until which events are recorded.
--
-- writes   meta
-- KEYS     meta
-- ARGV     each      (name str, value? str)
-- returns  configured  (settings int)  configured
-- include: keys
local version = redis.call('HGET', meta, 'version')
if version and version ~= '2' and version ~= '1' then
  return redis.error_reply('ERR this queue has schema version ' .. version .. ', these scripts speak 1 and 2; nothing was changed')
end
local bounds = { -- lowest, highest
  ttr_ms = {1, 31622400000}, max_attempts = {1, 1000000}, backoff_ms = {0, 31622400000}, backoff_cap_ms = {0, 31622400000},
  keep_ms = {0, 3162240000000}, unique_ms = {0, 3162240000000}, dead_max = {0, 100000000}, dead_ttl_ms = {0, 3162240000000},
  done_max = {0, 100000000}, events = {0, 9007199254740},
}
if #ARGV < 2 or #ARGV % 2 == 1 or #ARGV > 100 then
  return redis.error_reply('ERR settings come as pairs of name and value; nothing was changed')
end
local changed, back = {'version', '2'}, {}
for at = 1, #ARGV, 2 do
  local name, value = ARGV[at], ARGV[at + 1]
  local bound = bounds[name]
  local number = string.match(value, '^%d+$') and tonumber(value)
  if not bound then return redis.error_reply('ERR there is no setting ' .. name .. '; nothing was changed') end
  if value == '' then
    back[#back + 1] = name
  elseif (number and number >= bound[1] and number <= bound[2]) or (name == 'events' and (value == 'on' or value == 'off')) then
    changed[#changed + 1], changed[#changed + 2] = name, value
  else
    return redis.error_reply(
      'ERR ' .. name .. ' is a whole number from ' .. bound[1] .. ' to ' .. string.format('%.0f', bound[2]) .. '; nothing was changed')
  end
end

-- The empty name removes nothing, but lets the script continue over maxmemory.
redis.call('HDEL', meta, '', unpack(back))
redis.call('HSET', meta, unpack(changed))
return {'configured', #ARGV / 2}
