-- Check a queue for jobs in two places or in none, places without a job, and lines without an owner. A bounded walk.
--
-- Call it with walk `scheduled` and cursor `0`, and again with what it answers until it says `end`. `found` is one of
-- two_places, no_place, corrupt_record, orphan_line; `where` names the places or keys, separated by spaces.
--
-- KEYS     scheduled  zset    id by due (ms)
--          ready      zset    id by priority, then arrival
--          reserved   zset    id by lease deadline (ms)
--          done       zset    id by forget-at (ms)
--          dead       zset    id by died-at (ms)
--          jobs       hash    header and body by id
--          bodies     hash    long bodies by id
--          attempts   hash    what changes, by id
--          errors     hash    failed attempts by id
-- ARGV     walk      str     the key to walk: a place, jobs, bodies, attempts or errors
--          cursor    str     0 to begin
--          limit     int     about how many to look at, 1 to 1000
-- returns  more  (walk str, cursor str, checked int) rows (id bytes, found str, where str)  there is more to walk
--          end   (walk str, cursor str, checked int) rows (id bytes, found str, where str)  walked to the end
local scheduled, ready, reserved, done, dead, jobs, bodies, attempts, errors =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local walk, cursor, limit = ARGV[1], ARGV[2], tonumber(ARGV[3])
if not limit or limit < 1 or limit > 1000 or string.find(ARGV[3] .. cursor, '%D') or cursor == '' or #cursor > 19 then
  return redis.error_reply('ERR limit is 1 to 1000, cursor a whole number, 0 to begin; nothing was changed')
end
local order = {'scheduled', 'ready', 'reserved', 'done', 'dead', 'jobs', 'bodies', 'attempts', 'errors'}
local key_of = {
  scheduled = scheduled, ready = ready, reserved = reserved, done = done, dead = dead,
  jobs = jobs, bodies = bodies, attempts = attempts, errors = errors,
}
local place_number
for i, name in ipairs(order) do
  if name == walk then place_number = i end
end
if not place_number then return redis.error_reply('ERR what to walk is a place, jobs, bodies, attempts or errors') end
local step = redis.call(place_number <= 5 and 'ZSCAN' or 'HSCAN', key_of[walk], cursor, 'COUNT', limit)
local rows, checked = {}, 0
-- block: header
local function header(record) -- priority, max_attempts and body_bytes; nothing where it cannot be read
  local priority, most, long = string.match(record, '^%d+ %S+ (%-?%d+) %S+ (%S+) %S+ %S+ %S+ (%S+) [^\n]*\n')
  if priority then return priority, most, long end
  if string.find(record, '^%d+:[^\n]*\n') then return '0', '-', '-' end
end
-- end
for i = 1, #step[2], 2 do
  local id, found, where = step[2][i], nil, {}
  checked = checked + 1
  for p = 1, 5 do
    if redis.call('ZSCORE', key_of[order[p]], id) then where[#where + 1] = order[p] end
  end
  if place_number <= 5 then
    local record = redis.call('HGET', jobs, id)
    local _, _, long = header(record or '')
    local line = redis.call('HGET', attempts, id)
    local line_ok = not line or string.match(line, '^%d+ %S+ %S+ %S+ %S+ %S .*$')
    local readable = long and (long == '-' or redis.call('HEXISTS', bodies, id) == 1) and line_ok and (walk ~= 'reserved' or line)
    if #where > 1 then
      found = where[1] == walk and 'two_places'
    elseif not readable and not (walk == 'done' and not record) and not (walk == 'dead' and record and line_ok) then
      found = 'corrupt_record'
    end
  elseif walk == 'jobs' then
    found = #where == 0 and 'no_place'
  elseif #where == 0 and redis.call('HEXISTS', jobs, id) == 0 then
    found, where = 'orphan_line', {walk}
  end
  if found then rows[#rows + 1] = {id, found, table.concat(where, ' ')} end
end
if step[1] ~= '0' then return {'more', walk, step[1], checked, rows} end
if place_number == #order then return {'end', walk, '0', checked, rows} end
return {'more', order[place_number + 1], '0', checked, rows}
