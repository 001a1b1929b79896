-- Check a queue for jobs in two places or in none, jobs without a valid record, and data without a job.
--
-- Each call reads a part of the queue. Begin with walk `scheduled` and cursor `0`, and call again with the returned
-- values until the reply is `end`. `found` is one of two_places, no_place, corrupt_record and orphan_line; `where`
-- names the places or keys, separated by spaces.
--
-- KEYS     scheduled ready reserved done dead jobs bodies attempts errors
-- ARGV     walk      str     the key to walk: a place, jobs, bodies, attempts or errors
--          cursor    str     0 to begin
--          limit     int     about how many entries to read, 1 to 1000
-- returns  more  (walk str, cursor str, checked int) rows (id bytes, found str, where str)  the walk continues
--          end   (walk str, cursor str, checked int) rows (id bytes, found str, where str)  the walk is complete
-- include: keys, args
if not limit or limit < 1 or limit > 1000 or string.find(ARGV[3] .. cursor, '%D') or cursor == '' then
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
-- include: header
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
    local is_line_valid = not line or string.match(line, '^%d+ %S+ %S+ %S+ %S+ %S .*$')
    local readable = long and (long == '-' or redis.call('HEXISTS', bodies, id) == 1) and is_line_valid and (walk ~= 'reserved' or line)
    if #where > 1 then
      found = where[1] == walk and 'two_places'
    elseif not readable and not (walk == 'done' and not record) and not (walk == 'dead' and record and is_line_valid) then
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
