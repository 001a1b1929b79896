-- Enqueue new jobs, due now or later.
--
-- An id that is queued, reserved, or has a body exists already and does not change. With unit auto, due times are
-- written in the unit of the topic's scores.
--
-- moves    -> queued | due
-- writes   jobs expiries
-- KEYS     jobs queued reserved expiries
-- ARGV     now_ms?  int  a test's clock; the server's when empty
--          unit     str  ms, s or auto
--          each     (id bytes, body bytes, delay_ms? int, due_ms? int)
-- returns each  moved   enqueued
--               exists  a job of that id is there; nothing was changed
-- include: keys, key_types(queued reserved expiries), server_time
local unit, S, MS = ARGV[2], '100000000', '100000000000'
local size = redis.call('HLEN', jobs)
if #ARGV < 6 or #ARGV > 4002 or #ARGV % 4 ~= 2 or #ARGV[1] > 13 or string.find(ARGV[1], '%D') then
  return redis.error_reply('ERR a batch has 1 to 1000 rows of id, body, delay_ms and due_ms, now_ms is a whole number; nothing was changed')
end
-- include: topic_unit
if unit ~= 'ms' and unit ~= 's' then return redis.error_reply('ERR the unit is ms, s or auto; nothing was changed') end
local outcomes, bodies, dues, ids = {}, {}, {}, {}
for at = 3, #ARGV, 4 do
  local id, delay_ms, due_ms = ARGV[at], tonumber(ARGV[at + 2]) or 0, tonumber(ARGV[at + 3])
  for column = at + 2, at + 3 do
    if #ARGV[column] > 15 or not string.find(ARGV[column], '^%-?%d*$') then
      return redis.error_reply('ERR delay_ms and due_ms are whole numbers; nothing was changed')
    end
  end
  local place = redis.call('ZSCORE', queued, id) or redis.call('ZSCORE', reserved, id)
  if place or ids[id] or size > 0 and redis.call('HEXISTS', jobs, id) == 1 then
    outcomes[#outcomes + 1] = 'exists'
  else
    outcomes[#outcomes + 1], ids[id] = 'moved', true
    local due = due_ms or now_ms + delay_ms
    if unit == 's' then due = due <= now_ms and math.floor(due / 1000) or math.ceil(due / 1000) end
    bodies[#bodies + 1], bodies[#bodies + 2] = id, ARGV[at + 1]
    dues[#dues + 1], dues[#dues + 2] = string.format('%.0f', due), id
  end
end
if #dues == 0 then return outcomes end

redis.call('HSET', jobs, unpack(bodies))
redis.call('ZADD', queued, unpack(dues))
for id in pairs(ids) do redis.pcall('ZREM', expiries, id) end -- a new job with an old id starts without expired leases
return outcomes
