-- Revert jobs to their state before a verb moved or changed them, if they have not changed since.
--
-- A job that was reserved comes back to its old position in ready, because its lease is over. Deleted jobs come back
-- with `restore`.
--
-- moves    scheduled ready dead -> scheduled | ready | done | dead
-- writes   attempts errors meta events minutes wake
-- KEYS     scheduled ready reserved done dead attempts errors meta events minutes wake
-- ARGV     now_ms?   int     a test's clock; the server's when empty
--          each      (id bytes, left str, known? bytes, place str, score str, line? bytes, errors? bytes)
-- returns each  moved    (place str)  reverted
--               changed  (place str)  it has changed since
--               gone     no such job
-- include: keys
local version, watch, last_minute = unpack(redis.call('HMGET', meta, 'version', 'events', 'minute'))
-- include: key_types(wake attempts errors events minutes), opening, place_of, batch
local outcomes, back, moved_ids, seen = {}, {}, {}, {}
for at = 2, #ARGV, 7 do
  local id, left, place, score, line = ARGV[at], ARGV[at + 1], ARGV[at + 3], tonumber(ARGV[at + 4]), ARGV[at + 5]
  local tried, position, rest = string.match(line, '^(%d+) %S+ (%S+) %S+ (%S+ %S .*)$')
  local wrong = (left ~= 'scheduled' and left ~= 'ready' and left ~= 'dead') and 'a verb leaves jobs in scheduled, ready or dead'
    or not places[place] and 'the place is scheduled, ready, reserved, done or dead'
    or not (score and score == score and math.abs(score) < 2 ^ 53) and 'the score is a number below 2^53'
    or line ~= '' and not tried and 'the line of attempts is not one'
    or place == 'reserved' and not tonumber(position or '') and 'a reserved job has a line of attempts'
  if wrong then return redis.error_reply('ERR row ' .. (at + 5) / 7 .. ': ' .. wrong .. '; nothing was changed') end
  local now = place_of(id)
  if not now then
    outcomes[#outcomes + 1] = 'gone'
  elseif now ~= left or seen[id] or (redis.call('HGET', attempts, id) or '') ~= ARGV[at + 2] then
    outcomes[#outcomes + 1] = {'changed', now}
  else
    local row = {id = id, left = left, place = place, score = ARGV[at + 4], line = line, errors = ARGV[at + 6]}
    if place == 'reserved' then
      row.place, row.score, row.line = 'ready', position, table.concat({tried, '-', position, now_ms, rest}, ' ')
    end
    outcomes[#outcomes + 1], back[#back + 1], moved_ids[#moved_ids + 1], seen[id] = {'moved', row.place}, row, id, true
  end
end
if #back == 0 then return outcomes end

redis.call('ZREM', dead, '') -- removes nothing, but lets the drain continue over maxmemory
local wakes = false
for _, row in ipairs(back) do
  for key, value in pairs({[attempts] = row.line, [errors] = row.errors}) do
    if value == '' then redis.call('HDEL', key, row.id) else redis.call('HSET', key, row.id, value) end
  end
  redis.call('ZADD', places[row.place], row.score, row.id)
  if row.place ~= row.left then redis.call('ZREM', places[row.left], row.id) end
  wakes = wakes or row.place == 'ready' or row.place == 'scheduled'
end
-- include: minute, record_events
note('HINCRBY', meta, 'reverted', #back)
if wakes then note('ZADD', wake, 0, 'wake') end
record_events('revert', moved_ids)
return outcomes
