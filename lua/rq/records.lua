-- All that Redis holds of some jobs, byte for byte, so that a change of them can be undone.
--
-- Records and bodies only when asked for; once the answer has `most` bytes, the rows that follow answer `later`. The score of a queued
-- job is its position. `record` is the hash, `body` the two sets and the results, `line` the fields that verbs change; all are packed:
-- each string behind its length. `errors` is when the hash expires, in seconds since 1970, or empty.
--
-- derived  <prefix>:job:<id>
--          <prefix>:job:<id>:dependents
--          <prefix>:job::<id>:dependencies
--          <prefix>:results:<id>
-- KEYS     scheduled         zset  id by due (s)
--          deferred          zset  id by since when (s)
--          ready_to_enqueue  zset  id by since when (s)
--          queued            list  ids, the next one first
--          finished          zset  id by when it is forgotten (s)
--          failed            zset  id by when it is forgotten (s)
--          canceled          zset  id by since when (s)
-- ARGV     prefix    str   before all keys: rq
--          whole?    bool  with records and bodies
--          most      int   bytes of one answer; a single job may have more
--          each      (id bytes)
-- returns each  here   (place str, score str, record bytes, body bytes, line bytes, errors bytes)  here it is
--               later  the answer is long enough; ask for it again
--               gone   no such job
local scheduled, deferred, ready_to_enqueue, queued, finished, failed, canceled =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local whole = ARGV[2] == '1'
local scalars, columns = 3, 1
local registries = {scheduled = scheduled, deferred = deferred, ready_to_enqueue = ready_to_enqueue, finished = finished,
  failed = failed, canceled = canceled}
-- block: rq_batch, rq_fields, rq_listed, rq_stands, rq_packed, rq_line
local rows, prefix = (#ARGV - scalars) / columns, ARGV[1]
if rows < 1 or rows > 1000 or rows ~= math.floor(rows) or prefix == '' then
  return redis.error_reply('ERR it takes the prefix, and 1 to 1000 rows, each with all of its columns; nothing was changed')
end
local function fields(id, ...)
  local key = prefix .. ':job:' .. id
  return redis.pcall('HEXISTS', key, 'data') == 1 and redis.call('HMGET', key, ...) or nil
end
local length, seen_at = redis.call('LLEN', queued), nil
local reach = rows > 40 and 2500 or math.floor(200000 / math.max(2, rows)) -- from each end, in which an id is met however often
local sight = rows == 1 and 500000 or reach
local function look() -- for many, one look at both ends is cheaper than a search each
  seen_at = {}
  for _, from in ipairs({0, math.max(reach, length - reach)}) do
    for i, id in ipairs(redis.call('LRANGE', queued, from, from == 0 and reach - 1 or -1)) do
      local before = seen_at[id]
      seen_at[id] = not before and from + i - 1 or {from + i - 1, unpack(type(before) == 'table' and before or {before})}
    end
  end
end
local function positions(id)
  if rows > 40 then
    if not seen_at then look() end
    local at = seen_at[id]
    return type(at) == 'table' and at or {at}
  end
  local found = redis.call('LPOS', queued, id, 'COUNT', 0, 'MAXLEN', reach)
  for _, at in ipairs(length > reach and redis.call('LPOS', queued, id, 'RANK', -1, 'COUNT', 0, 'MAXLEN', reach) or {}) do
    if at >= reach then found[#found + 1] = at end
  end
  if #found == 0 and sight > reach and length > 2 * reach then
    found[1] = redis.call('LPOS', queued, id, 'MAXLEN', sight) or redis.call('LPOS', queued, id, 'RANK', -1, 'MAXLEN', sight) or nil
  end
  return found
end
local function place_of(id, status)
  local named = status == 'stopped' and 'failed' or status
  if registries[named] and redis.call('ZSCORE', registries[named], id) then return named end
  for _, name in ipairs({'scheduled', 'deferred', 'ready_to_enqueue', 'finished', 'failed', 'canceled'}) do
    if registries[name] and redis.call('ZSCORE', registries[name], id) then return name end
  end
  if status == 'started' then return 'started' end
  return #positions(id) > 0 and 'queued' or nil
end
local function packed(list)
  local parts = {}
  for i, item in ipairs(list) do parts[i] = #item .. ':' .. item end
  return table.concat(parts)
end
local changing = {'status', 'enqueued_at', 'started_at', 'ended_at', 'worker_name', 'retries_left'}
local function line_of(id) -- a field that is there begins with `=`
  local told = redis.pcall('HMGET', prefix .. ':job:' .. id, unpack(changing))
  for i = 1, #changing do told[i] = told[i] and '=' .. told[i] or '' end
  return packed(told)
end
-- end
local most = #ARGV[3] < 16 and string.find(ARGV[3], '^%d+$') and tonumber(ARGV[3])
if not most then return redis.error_reply('ERR most is a whole number; nothing was changed') end
local clock = redis.call('TIME')
local function rest(id) -- of a job, beside its hash
  local key, results = prefix .. ':job:' .. id, {}
  local dependents = redis.pcall('SMEMBERS', key .. ':dependents')
  local dependencies = redis.pcall('SMEMBERS', prefix .. ':job::' .. id .. ':dependencies')
  local entries = redis.pcall('XRANGE', prefix .. ':results:' .. id, '-', '+')
  for i, entry in ipairs(entries.err and {} or entries) do results[i] = packed({entry[1], packed(entry[2])}) end
  return packed({packed(dependents.err and {} or dependents), packed(dependencies.err and {} or dependencies), packed(results)})
end
local words, size = {}, 0
for at = 4, #ARGV do
  local id = ARGV[at]
  local told = fields(id, 'status')
  local place = place_of(id, told and told[1] or '')
  if not place then
    words[#words + 1] = 'gone'
  elseif size >= most then
    words[#words + 1] = 'later'
  else
    local hash = whole and redis.pcall('HGETALL', prefix .. ':job:' .. id) or {}
    local left_ms = redis.call('PTTL', prefix .. ':job:' .. id)
    local row = {
      'here', place, registries[place] and redis.call('ZSCORE', registries[place], id) or tostring(positions(id)[1] or 0),
      packed(hash.err and {} or hash), whole and rest(id) or '', line_of(id),
      left_ms >= 0 and string.format('%.0f', clock[1] + math.ceil(left_ms / 1000)) or '',
    }
    for column = 4, 6 do size = size + #row[column] end
    words[#words + 1] = row
  end
end
return words
