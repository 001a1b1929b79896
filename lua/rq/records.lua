-- Return all data of some jobs, byte for byte, so that a change can be undone.
--
-- Records and bodies are returned only with `whole`. Once the reply has `most` bytes, the remaining rows are `later`. The score of a
-- queued job is its position. `record` is the hash, `body` the two sets and the results, `line` the fields that verbs change. All are
-- packed: each string follows its length. `errors` is the time at which the hash expires, in seconds since 1970, or empty.
--
-- derived  <prefix>:job:<id>
--          <prefix>:job:<id>:dependents
--          <prefix>:job::<id>:dependencies
--          <prefix>:results:<id>
-- KEYS     scheduled deferred ready_to_enqueue queued finished failed canceled
-- ARGV     prefix    str   prefix of all keys: rq
--          whole?    bool  with records and bodies
--          most      int   bytes per reply; a single job may have more
--          each      (id bytes)
-- returns each  here   (place str, score str, record bytes, body bytes, line bytes, errors bytes)  found
--               later  the reply is full; request the job again
--               gone   no such job
-- include: keys, args(whole), columns, queue_keys, batch, read_fields, find_place, changing
local most = #ARGV[3] < 16 and string.find(ARGV[3], '^%d+$') and tonumber(ARGV[3])
if not most then return redis.error_reply('ERR most is a whole number; nothing was changed') end
local clock = redis.call('TIME')
local function pack_rest(id) -- the data of a job outside its hash
  local key, results = prefix .. ':job:' .. id, {}
  local dependents = redis.pcall('SMEMBERS', key .. ':dependents')
  local dependencies = redis.pcall('SMEMBERS', prefix .. ':job::' .. id .. ':dependencies')
  local entries = redis.pcall('XRANGE', prefix .. ':results:' .. id, '-', '+')
  for i, entry in ipairs(entries.err and {} or entries) do results[i] = packed({entry[1], packed(entry[2])}) end
  return packed({packed(dependents.err and {} or dependents), packed(dependencies.err and {} or dependencies), packed(results)})
end
local replies, size = {}, 0
for at = 4, #ARGV do
  local id = ARGV[at]
  local values = read_fields(id, 'status')
  local place = find_place(id, values and values[1] or '')
  if not place then
    replies[#replies + 1] = 'gone'
  elseif size >= most then
    replies[#replies + 1] = 'later'
  else
    local hash = whole and redis.pcall('HGETALL', prefix .. ':job:' .. id) or {}
    local left_ms = redis.call('PTTL', prefix .. ':job:' .. id)
    local row = {
      'here', place, registries[place] and redis.call('ZSCORE', registries[place], id) or tostring(find_in_list(queued, length, id, 1)[1] or 0),
      packed(hash.err and {} or hash), whole and pack_rest(id) or '', pack_changing(id),
      left_ms >= 0 and string.format('%.0f', clock[1] + math.ceil(left_ms / 1000)) or '',
    }
    for column = 4, 6 do size = size + #row[column] end
    replies[#replies + 1] = row
  end
end
return replies
