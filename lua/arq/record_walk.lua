-- Take one step of a walk over all keys and return the results that it meets: arq has no list of the jobs that ended.
--
-- The records of wanted ids are returned in any case. The other results of the step have their records until these sum to
-- `read_bytes` bytes. Listed ids that are not wanted have none, because the caller has read them before. `left_ms` is the time until
-- the result expires; negative: never. `record` is empty if it is not returned. For a result of more than 64 KiB it is the first 8192
-- bytes, and `tail` the last 512. `keys` is the number of keys of the database.
--
-- derived  arq:result:<id>  (complete failed)
-- ARGV     cursor      str  0 begins a walk
--          keys        int  keys to pass, roughly, 1 to 10000
--          read_bytes  int  bytes of records
--          each        (id bytes, is_wanted? bool)
-- returns  walked  (now_ms int, cursor str, passed int, keys int)  rows (id bytes, left_ms int, size int, record bytes, tail bytes)
-- include: integers(keys read_bytes), args
if #ARGV < 3 or #ARGV > 24003 or #ARGV % 2 == 0 or cursor == '' or string.find(cursor, '%D') or not keys or keys < 1
  or keys > 10000 or not read_bytes then
  return redis.error_reply('ERR cursor is a whole number, keys is 1 to 10000, and there are up to 12000 rows of id and is_wanted')
end
local clock = redis.call('TIME')
local now_ms, rows, listed = clock[1] * 1000 + math.floor(clock[2] / 1000), {}, {}
local function add_row(id, is_read)
  local key = 'arq:result:' .. id
  local size = redis.pcall('STRLEN', key)
  if type(size) ~= 'number' or size == 0 then return end -- it expired, or another program uses the key
  local record, tail = '', ''
  if is_read then
    local is_long = size > 65536
    record = redis.call('GETRANGE', key, 0, is_long and 8191 or -1)
    if is_long then tail = redis.call('GETRANGE', key, -512, -1) end
    read_bytes = read_bytes - #record
  end
  rows[#rows + 1] = {id, redis.call('PTTL', key), size, record, tail}
end
for at = 4, #ARGV, 2 do
  listed[ARGV[at]] = ARGV[at + 1] == '1' and 'wanted' or 'known'
  if listed[ARGV[at]] == 'wanted' then add_row(ARGV[at], true) end
end
local passed, steps = 0, 0
repeat
  local reply = redis.call('SCAN', cursor, 'COUNT', math.min(keys, 1000))
  cursor, passed, steps = reply[1], passed + #reply[2], steps + 1
  for _, key in ipairs(reply[2]) do
    local id = string.sub(key, 1, 11) == 'arq:result:' and string.sub(key, 12)
    if id and listed[id] ~= 'wanted' then
      add_row(id, not listed[id] and read_bytes > 0)
      listed[id] = 'wanted' -- SCAN may return a key twice
    end
  end
until cursor == '0' or passed >= keys or steps >= 20
return {'walked', now_ms, cursor, passed, redis.call('DBSIZE'), rows}
