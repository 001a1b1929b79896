-- Revert jobs to what they were before a verb moved or changed them, where nothing changed them since.
--
-- What was deleted comes back by `restore`. A queued job comes back to its old position, as far as that is there.
--
-- moves    scheduled queued canceled -> scheduled | deferred | ready_to_enqueue | queued | finished | failed | canceled
-- writes   queues
-- derived  <prefix>:job:<id>
--          <prefix>:job:<id>:dependents
--          <prefix>:job::<id>:dependencies
-- KEYS     scheduled         zset  id by due (s)
--          deferred          zset  id by since when (s)
--          ready_to_enqueue  zset  id by since when (s)
--          queued            list  ids, the next one first
--          finished          zset  id by when it is forgotten (s)
--          failed            zset  id by when it is forgotten (s)
--          canceled          zset  id by since when (s)
--          queues            set   keys of all queues
-- ARGV     prefix    str  before all keys: rq
--          each      (id bytes, left str, known? bytes, place str, score str, line? bytes, errors? bytes)  as records tells of it
-- returns each  moved    (place str)  reverted
--               changed  (place str)  it changed since
--               gone     no such job
local scheduled, deferred, ready_to_enqueue, queued, finished, failed, canceled, queues =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local scalars, columns = 1, 7
local registries = {scheduled = scheduled, deferred = deferred, ready_to_enqueue = ready_to_enqueue, finished = finished,
  failed = failed, canceled = canceled}
for _, key in pairs(registries) do redis.call('ZCARD', key) end
redis.call('SCARD', queues)
-- block: rq_batch, rq_fields, rq_listed, rq_stands, rq_take_out, rq_packed, rq_unpacked, rq_line, rq_put_back
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
local function take_out(spots, pushed) -- by position, since a search for each would cost more; `pushed` came before them
  local near, far = 0, 0
  for _, at in ipairs(spots) do
    redis.call('LSET', queued, at + pushed, '')
    if at * 2 < length then near = near + 1 else far = far + 1 end
  end
  if near > 0 then redis.call('LREM', queued, near, '') end
  if far > 0 then redis.call('LREM', queued, -far, '') end
end
local function packed(list)
  local parts = {}
  for i, item in ipairs(list) do parts[i] = #item .. ':' .. item end
  return table.concat(parts)
end
local function unpacked(text) -- nothing where the text is not packed
  local list, at = {}, 1
  while at <= #text do
    local digits = string.match(text, '^(%d+):', at)
    local from = digits and at + #digits + 1
    if not from or from + tonumber(digits) - 1 > #text then return nil end
    list[#list + 1] = string.sub(text, from, from + tonumber(digits) - 1)
    at = from + tonumber(digits)
  end
  return list
end
local changing = {'status', 'enqueued_at', 'started_at', 'ended_at', 'worker_name', 'retries_left'}
local function line_of(id) -- a field that is there begins with `=`
  local told = redis.pcall('HMGET', prefix .. ':job:' .. id, unpack(changing))
  for i = 1, #changing do told[i] = told[i] and '=' .. told[i] or '' end
  return packed(told)
end
local function put_back(id, place, score)
  local pivot = place == 'queued' and redis.call('LINDEX', queued, math.floor(tonumber(score)))
  if pivot then
    redis.call('LINSERT', queued, 'BEFORE', pivot, id)
  elseif place == 'queued' then
    redis.call('RPUSH', queued, id)
  else
    redis.call('ZADD', registries[place], score, id)
  end
  local parents = place == 'deferred' and redis.pcall('SMEMBERS', prefix .. ':job::' .. id .. ':dependencies') or {}
  for _, parent in ipairs(parents) do redis.pcall('SADD', prefix .. ':job:' .. parent .. ':dependents', id) end
end
local function expire_at(id, seconds, ...) -- an hour is left in any case: it is put back to be looked at
  local key = prefix .. ':job:' .. id
  local least = redis.call('TIME')[1] + 3600
  for _, each in ipairs({key, key .. ':dependents', prefix .. ':job::' .. id .. ':dependencies', ...}) do
    if seconds == '' then redis.call('PERSIST', each) else redis.call('EXPIREAT', each, string.format('%.0f', math.max(tonumber(seconds), least))) end
  end
end
-- end
local words, back, seen = {}, {}, {}
for at = 2, #ARGV, columns do
  local id, left, known, place, score, line, errors = unpack(ARGV, at, at + 6)
  local fields_then = unpacked(line)
  local what = not ({scheduled = 1, queued = 1, canceled = 1})[left] and 'a verb leaves jobs in scheduled, queued or canceled'
    or not registries[place] and place ~= 'queued' and 'there is no place of that name'
    or not (tonumber(score) and string.find(score, '^[%d.e+-]+$')) and score ~= 'inf' and 'the score is a number'
    or (not fields_then or #fields_then ~= #changing) and 'the line is not one'
    or (#errors > 12 or string.find(errors, '%D')) and 'the end of its time is in seconds'
  if what then return redis.error_reply('ERR row ' .. (at + 5) / columns .. ': ' .. what .. '; nothing was changed') end
  local told = fields(id, 'status')
  local now = place_of(id, told and told[1] or '')
  if not now then
    words[#words + 1] = 'gone'
  elseif now ~= left or seen[id] or line_of(id) ~= known then
    words[#words + 1] = {'changed', now}
  else
    words[#words + 1], seen[id] = {'moved', place}, true
    back[#back + 1] = {id = id, left = left, place = place, score = score, fields = fields_then, errors = errors}
  end
end
if #back == 0 then return words end
table.sort(back, function(a, b) return tonumber(a.score) < tonumber(b.score) end) -- in a list each position counts on those before

redis.call('ZREM', canceled, '') -- frees nothing: a drain may go on over maxmemory
redis.call('SADD', queues, queued)
local inside, spots = {}, {} -- those that only change their position: they stand at the end until each finds its own
for _, job in ipairs(back) do
  if job.left == 'queued' then
    for _, spot in ipairs(positions(job.id)) do spots[#spots + 1] = spot end
  end
  if job.left == 'queued' and job.place == 'queued' then
    inside[#inside + 1] = job
    redis.call('RPUSH', queued, job.id)
  else
    put_back(job.id, job.place, job.score)
  end
end
for _, job in ipairs(back) do
  for i, name in ipairs(changing) do
    local value, key = job.fields[i], prefix .. ':job:' .. job.id
    if value == '' then redis.call('HDEL', key, name) else redis.call('HSET', key, name, string.sub(value, 2)) end
  end
  expire_at(job.id, job.errors)
  if registries[job.left] and job.left ~= job.place then redis.call('ZREM', registries[job.left], job.id) end
end
take_out(spots, 0)
local before = redis.call('LLEN', queued) - #inside
for _, job in ipairs(inside) do
  if tonumber(job.score) < before then
    put_back(job.id, 'queued', job.score)
    redis.call('LREM', queued, -1, job.id)
  end
  before = before + 1
end
return words
