-- Repair the jobs that `check` found, by id: each is then in one place with a valid record, and data without a job is
-- deleted.
--
-- A job in several places stays in the first of dead, done, reserved, ready and scheduled. A job in no place goes to
-- ready. A job with an invalid record goes to dead. A member of a place without any record is deleted, and so is data
-- that belongs to no job.
--
-- moves    scheduled ready reserved done dead -> ready | dead
-- moves    scheduled ready reserved done dead ->
-- writes   jobs bodies attempts errors meta events minutes wake
-- KEYS     scheduled ready reserved done dead jobs bodies attempts errors meta events minutes wake
-- ARGV     now_ms?   int     a test's clock; the server's when empty
--          each      (id bytes)
-- returns each  moved  (place str)  repaired; the place is empty if the job was deleted
--               fine   the job needs no repair
--               gone   no such job
-- include: keys
local version, seq, watch, last_minute = unpack(redis.call('HMGET', meta, 'version', 'seq', 'events', 'minute'))
-- include: key_types(scheduled ready reserved done dead wake jobs bodies attempts errors events minutes), opening, sequence, header, batch
local order = {{'dead', dead}, {'done', done}, {'reserved', reserved}, {'ready', ready}, {'scheduled', scheduled}}
local outcomes, repaired, next_seq = {}, {}, tonumber(seq or 0)
redis.call('ZREM', ready, '') -- removes nothing, but lets the script continue over maxmemory
for at = 2, #ARGV do
  local id = ARGV[at]
  local record, line = redis.call('HGET', jobs, id), redis.call('HGET', attempts, id)
  local priority, _, long = header(record or '')
  local is_whole = priority and (long == '-' or redis.call('HEXISTS', bodies, id) == 1)
  local tried, own = string.match(line or '', '^(%d+) %S+ %S+ %S+ (%S+) %S .*$')
  local found, place, is_line_valid = {}, nil, tried or not line
  for _, candidate in ipairs(order) do
    if redis.call('ZSCORE', candidate[2], id) then found[#found + 1] = candidate end
  end
  if found[1] then place = found[1][1] end
  local is_valid = (is_whole and (is_line_valid and (tried or place ~= 'reserved')))
    or (place == 'done' and not record) or (place == 'dead' and record and is_line_valid)
  local has_data = redis.call('HEXISTS', bodies, id) + redis.call('HEXISTS', errors, id) > 0 or line
  if not place and not record and not has_data then
    outcomes[#outcomes + 1] = 'gone'
  elseif #found == 1 and is_valid then
    outcomes[#outcomes + 1] = 'fine'
  else
    local target = is_whole and (place or 'ready') or record and 'dead' or (place == 'done' and 'done' or '')
    if target == 'reserved' and not tried then target = 'ready' end
    if line and not tried then redis.call('HDEL', attempts, id) end
    if target == 'ready' and place ~= 'ready' then
      next_seq = next_seq + 1
      redis.call('HSET', meta, 'version', 2, 'seq', string.format('%.0f', next_seq))
      redis.call('ZADD', ready, string.format('%.0f', (tonumber(own) or tonumber(priority)) * 2 ^ 40 + next_seq), id)
    elseif target == 'dead' and place ~= 'dead' then
      redis.call('HSET', errors, id, cjson.encode({{now_ms, now_ms, '', 'the record of this job cannot be read'}}))
      redis.call('ZADD', dead, now_ms, id)
    end
    for _, candidate in ipairs(found) do
      if candidate[1] ~= target then redis.call('ZREM', candidate[2], id) end
    end
    if target == '' then
      for _, key in ipairs({bodies, attempts, errors}) do redis.call('HDEL', key, id) end
    end
    outcomes[#outcomes + 1], repaired[#repaired + 1] = {'moved', target}, id
  end
end
if #repaired == 0 then return outcomes end
-- include: minute, record_events
note('HINCRBY', meta, 'repaired', #repaired)
note('ZADD', wake, 0, 'wake')
record_events('repair', repaired)
return outcomes
