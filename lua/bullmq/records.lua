-- Return all data of some jobs, byte for byte, so that a change can be undone.
--
-- Records and bodies are returned only with `whole`. Once the reply has `most` bytes, the remaining rows are `later`. The score of a job
-- in a list is the number of jobs before it. `record` is the hash. `body` has the logs, the results and the failures of the children,
-- the job that waits behind the deduplication key, and the children that have not run. `line` has the fields that verbs change. All are
-- packed: each string follows its length. `errors` is the deduplication key that the job holds, and its expiry.
--
-- derived  <prefix>:<queue>:<id>
--          <prefix>:<queue>:<id>:logs
--          <prefix>:<queue>:<id>:dependencies
--          <prefix>:<queue>:<id>:processed
--          <prefix>:<queue>:<id>:failed
--          <prefix>:<queue>:<id>:unsuccessful
--          <prefix>:<queue>:de:<dedup>
--          <prefix>:<queue>:dn:<dedup>
-- KEYS     delayed waiting_children prioritized wait paused active completed failed
-- ARGV     p         str   prefix of all keys of the queue: bull:mail:
--          whole?    bool  with records and bodies
--          most      int   bytes per reply; a single job may have more
--          each      (id bytes)
-- returns each  here   (place str, score str, record bytes, body bytes, line bytes, errors bytes)  found
--               later  the reply is full; request the job again
--               gone   no such job
-- include: keys, args(whole), columns, queue_keys, batch, find_place, changing
local function pack_dedup(id) -- the deduplication key that the job holds, and its expiry in ms
  local deid = redis.pcall('HGET', p .. id, 'deid')
  local key = p .. 'de:' .. tostring(deid or '')
  if type(deid) ~= 'string' or deid == '' or redis.pcall('GET', key) ~= id then return '' end
  local left_ms, clock = redis.call('PTTL', key), redis.call('TIME')
  return packed({deid, left_ms ~= -1 and string.format('%.0f', clock[1] * 1000 + math.floor(clock[2] / 1000) + left_ms) or ''})
end
local most = #ARGV[3] < 16 and string.find(ARGV[3], '^%d+$') and tonumber(ARGV[3])
if not most then return redis.error_reply('ERR most is a whole number; nothing was changed') end
local function pack_reply(...)
  local found = redis.pcall(...)
  return packed(found.err and {} or found)
end
local function pack_rest(id) -- the data of a job outside its hash
  local key, deid = p .. id, redis.pcall('HGET', p .. id, 'deid')
  return packed({
    pack_reply('LRANGE', key .. ':logs', 0, -1), pack_reply('HGETALL', key .. ':processed'), pack_reply('HGETALL', key .. ':failed'),
    pack_reply('ZRANGE', key .. ':unsuccessful', 0, -1, 'WITHSCORES'), pack_reply('HGETALL', p .. 'dn:' .. (type(deid) == 'string' and deid or '')),
    pack_reply('SMEMBERS', key .. ':dependencies'),
  })
end
local replies, size = {}, 0
for at = 4, #ARGV do
  local id = ARGV[at]
  local place = find_place(id)
  if not place then
    replies[#replies + 1] = 'gone'
  elseif size >= most then
    replies[#replies + 1] = 'later'
  else
    local score = sets[place] and redis.call('ZSCORE', sets[place], id) or string.format('%.0f', lengths[place] - 1 - find_in_list(lists[place], lengths[place], id, -1)[1])
    local row = {'here', place, score, whole and pack_reply('HGETALL', p .. id) or '', whole and pack_rest(id) or '', pack_changing(id), pack_dedup(id)}
    for column = 4, 7 do size = size + #row[column] end
    replies[#replies + 1] = row
  end
end
return replies
