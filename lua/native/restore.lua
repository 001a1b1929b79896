-- Restore deleted jobs from the data that `delete` returned, if their ids are free.
--
-- A job that was reserved comes back to its old position in ready, because its lease is over.
--
-- moves    -> scheduled | ready | done | dead
-- writes   jobs bodies attempts errors meta events minutes wake
-- KEYS     scheduled ready reserved done dead jobs bodies attempts errors meta events minutes wake
-- ARGV     now_ms?   int     a test's clock; the server's when empty
--          each      (id bytes, place str, score str, record bytes, body? bytes, line? bytes, errors? bytes)
-- returns each  moved   (place str)  restored
--               exists  the id is taken
-- include: keys
local version, watch, last_minute = unpack(redis.call('HMGET', meta, 'version', 'events', 'minute'))
-- include: key_types(wake jobs bodies attempts errors events minutes), opening, place_of, header, batch
for at = 2, #ARGV, 7 do
  local id, place, score, record, line = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2]), ARGV[at + 3], ARGV[at + 5]
  local wrong = #id < 1 and 'an id has at least 1 byte'
    or not places[place] and 'the place is scheduled, ready, reserved, done or dead'
    or not (score and math.abs(score) < 2 ^ 53 and string.find(ARGV[at + 2], '^[%d.e+-]+$')) and 'the score is a number below 2^53'
    or place ~= 'done' and not header(record) and 'the record is not one'
    or line ~= '' and not string.match(line, '^%d+ %S+ %S+ %S+ %S+ %S .*$') and 'the line of attempts is not one'
    or place == 'reserved' and not tonumber(string.match(line, '^%d+ %S+ (%S+) ') or '') and 'a reserved job has a line of attempts'
  if wrong then return redis.error_reply('ERR row ' .. (at + 5) / 7 .. ': ' .. wrong .. '; nothing was changed') end
end

local outcomes, restored, wakes = {}, {}, false
for at = 2, #ARGV, 7 do
  local id, place, score, record, line = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 5]
  if redis.call('HEXISTS', jobs, id) == 1 or place_of(id) then
    outcomes[#outcomes + 1] = 'exists'
  else
    if place == 'reserved' then
      local tried, position, rest = string.match(line, '^(%d+) %S+ (%S+) %S+ (.*)$')
      place, score, line = 'ready', position, table.concat({tried, '-', position, now_ms, rest}, ' ')
    end
    outcomes[#outcomes + 1], restored[#restored + 1], wakes = {'moved', place}, id, wakes or place == 'ready' or place == 'scheduled'
    -- The record may have the short header, which schema 1 does not have.
    if #restored == 1 then redis.call('HSET', meta, 'version', '2') end
    if record ~= '' then redis.call('HSET', jobs, id, record) end
    for column, key in pairs({[4] = bodies, [6] = errors}) do
      if ARGV[at + column] ~= '' then redis.call('HSET', key, id, ARGV[at + column]) end
    end
    if line ~= '' then redis.call('HSET', attempts, id, line) end
    redis.call('ZADD', places[place], score, id)
  end
end
if #restored == 0 then return outcomes end
-- include: minute, record_events
note('HINCRBY', meta, 'restored', #restored)
if wakes then note('ZADD', wake, 0, 'wake') end
record_events('restore', restored)
return outcomes
