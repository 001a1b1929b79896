-- Find problems of a queue in at most 1000 entries (in a longer list, the 500 at each end).
--
-- Done marks are checked only if the whole list was read. Data counts as expired if the id is a UUID, as `push_msg`
-- creates them, and other ids have data. A job that is marked as done needs no data.
--
-- derived  <queue>:data:<id>  the body
-- KEYS     entries done
-- ARGV     now_ms?    int   a test's clock; the server's when empty
--          timeout_s  str   seconds after which a lease expires
-- returns  looked  (looked int) rows (kind str, key str, id bytes, number int)
-- include: keys, integers(now_ms timeout_s), server_time, time_of
local timeout_s = tonumber(ARGV[2])
local length, rows, row_of = redis.call('LLEN', entries), {}, {}
local function add_finding(kind, key, id)
  if not row_of[kind] then
    rows[#rows + 1] = {kind, key, string.sub(id, 1, 256), 0}
    row_of[kind] = #rows
  end
  rows[row_of[kind]][4] = rows[row_of[kind]][4] + 1
end
local read = redis.call('LRANGE', entries, length <= 1000 and 0 or -500, -1)
if length > 1000 then
  for i, entry in ipairs(redis.call('LRANGE', entries, 0, 499)) do read[500 + i] = entry end
end
local ids, leased, without_data, with_data, ready, last = {}, {}, {}, 0, 0, nil
for i, entry in ipairs(read) do
  local time, bar = time_of(entry)
  local id = entry
  if time then
    id = string.sub(entry, 1, bar - 1)
    leased[id] = true
    if i == (length <= 1000 and length or 500) and math.floor(now_ms / 1000) - time <= timeout_s then last = id end
  elseif bar or entry == '' then
    id = nil
    add_finding('undecodable', entries, entry ~= '' and entry or "''")
  else
    ready = ready + 1
  end
  local is_large = #entry >= 1048576
  if id then
    if ids[id] then add_finding('two_places', entries, id) end
    ids[id] = true
    local stored = redis.pcall('STRLEN', entries .. ':data:' .. id)
    if type(stored) == 'table' then
      add_finding('wrong_type', entries .. ':data:' .. id, id)
    elseif stored > 0 then
      with_data = with_data + 1
      if stored >= 1048576 and not is_large then add_finding('oversized', entries .. ':data:' .. id, id) end
    elseif #id == 36 and not (time and redis.call('SISMEMBER', done, id) == 1) and string.find(id, '^%x+%-%x+%-%x+%-%x+%-%x+$') then
      without_data[#without_data + 1] = id
    end
  end
  if is_large then add_finding('oversized', entries, id or entry) end
end
if with_data > 0 then
  for _, id in ipairs(without_data) do add_finding('ghost', entries .. ':data:' .. id, id) end
end
if last and ready > 0 then
  rows[#rows + 1] = {'stalled', entries, string.sub(last, 1, 256), ready}
end
if length <= 1000 then
  for _, id in ipairs(redis.call('SSCAN', done, 0, 'COUNT', 1000)[2]) do
    if not leased[id] then add_finding('orphan_done_mark', done, id) end
  end
end
return {'looked', #read, rows}
