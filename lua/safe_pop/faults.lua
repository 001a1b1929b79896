-- Find what goes wrong in a queue of this system: at most 1000 entries (of a longer list, the 500 at each end).
--
-- Done marks are judged only where the whole list was looked at. Data counts as expired where an id is a uuid, as `push_msg`
-- makes them, and other ids have theirs; what is marked done has none by right.
--
-- derived  <queue>:data:<id>  the body
-- KEYS     entries (ready in_progress expired)  list  id, or id|unix seconds once handed out
--          done       set   ids of finished jobs whose entry still stands
-- ARGV     now_ms?    int   a test's clock; the server's when empty
--          timeout_s  str   seconds after which an entry that was handed out is late
-- returns  looked  (looked int) rows (kind str, key str, id bytes, number int)
local entries, done = KEYS[1], KEYS[2]
for _, at in ipairs({1, 2}) do
  if #ARGV < 2 or not tonumber(ARGV[2]) or #ARGV[at] > 15 or not string.find(ARGV[at], '^%-?%d*$') then
    return redis.error_reply('ERR it takes 2 arguments, whole numbers where the header says int; nothing was changed')
  end
end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local timeout_s = tonumber(ARGV[2])
local length, rows, at = redis.call('LLEN', entries), {}, {}
local function met(kind, key, id)
  if not at[kind] then
    rows[#rows + 1] = {kind, key, string.sub(id, 1, 256), 0}
    at[kind] = #rows
  end
  rows[at[kind]][4] = rows[at[kind]][4] + 1
end
local looked = redis.call('LRANGE', entries, length <= 1000 and 0 or -500, -1)
if length > 1000 then
  for i, entry in ipairs(redis.call('LRANGE', entries, 0, 499)) do looked[500 + i] = entry end
end
local standing, handed, bare, with_data, fresh, last = {}, {}, {}, 0, 0, nil
for i, entry in ipairs(looked) do
  local bar = string.find(entry, '|', 1, true)
  local time = bar and bar > 1 and string.match(entry, '^%d+$', bar + 1)
  local id = entry
  if time and #time < 12 then
    id, time = string.sub(entry, 1, bar - 1), tonumber(time)
    handed[id] = true
    if i == (length <= 1000 and length or 500) and math.floor(now_ms / 1000) - time <= timeout_s then last = id end
  elseif bar or entry == '' then
    id = nil
    met('undecodable', entries, entry ~= '' and entry or "''")
  else
    fresh = fresh + 1
  end
  local is_large = #entry >= 1048576
  if id then
    if standing[id] then met('two_places', entries, id) end
    standing[id] = true
    local stored = redis.pcall('STRLEN', entries .. ':data:' .. id)
    if type(stored) == 'table' then
      met('wrong_type', entries .. ':data:' .. id, id)
    elseif stored > 0 then
      with_data = with_data + 1
      if stored >= 1048576 and not is_large then met('oversized', entries .. ':data:' .. id, id) end
    elseif #id == 36 and not (time and redis.call('SISMEMBER', done, id) == 1) and string.find(id, '^%x+%-%x+%-%x+%-%x+%-%x+$') then
      bare[#bare + 1] = id
    end
  end
  if is_large then met('oversized', entries, id or entry) end
end
if with_data > 0 then
  for _, id in ipairs(bare) do met('ghost', entries .. ':data:' .. id, id) end
end
if last and fresh > 0 then
  rows[#rows + 1] = {'stalled', entries, string.sub(last, 1, 256), fresh}
end
if length <= 1000 then
  for _, id in ipairs(redis.call('SSCAN', done, 0, 'COUNT', 1000)[2]) do
    if not handed[id] then met('orphan_done_mark', done, id) end
  end
end
return {'looked', #looked, rows}
