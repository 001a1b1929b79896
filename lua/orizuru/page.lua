-- Return a page of the jobs in the source, or of those that consumers hold or have rejected, oldest first.
--
-- Lists are pushed on the left and popped on the right, so the last entry comes first. Consumers are in the order of
-- their names. `beat_ms` is the consumer's last heartbeat, and `deadline_ms` the time when the consumer counts as dead;
-- -1 if there is none.
--
-- derived  orizuru:consumers:<worker>:processing
--          orizuru:consumers:<worker>:unacked
--          orizuru:consumers:<worker>:heartbeat
-- KEYS     source consumers heartbeats
-- ARGV     now_ms?     int   a test's clock; the server's when empty
--          silent_ms   int   a consumer without a heartbeat for this long is dead
--          place       str   source, processing or unacked
--          offset      int   how many jobs to skip; -1: the last page, -1 - n: the one that ends n before the end
--          limit       int   how many at most, 1 to 1000
--          body_bytes  int   entries longer than this and than 4096 are cut; -1: none
--          each        (worker bytes)  further consumers whose lists exist
-- returns  page  (now_ms int, total int)  rows (head bytes, size int, tail bytes, worker bytes, beat_ms int, deadline_ms int)
-- include: keys, arguments, server_time, args
if place ~= 'source' and place ~= 'processing' and place ~= 'unacked' then
  return redis.error_reply('ERR the place is source, processing or unacked')
end
if not silent_ms or not offset or not body_bytes or not limit or limit < 1 or limit > 1000 then
  return redis.error_reply('ERR silent_ms, offset and body_bytes are whole numbers, limit is 1 to 1000')
end
local asked_from = 7
-- include: consumers, last_beat
table.sort(names)
if place == 'source' then names = {''} end
local most = body_bytes < 0 and math.huge or math.max(4096, body_bytes)
local total, rows, lists = 0, {}, {}
for i, name in ipairs(names) do
  local key = place == 'source' and source or 'orizuru:consumers:' .. name .. ':' .. place
  local length = place == 'source' and redis.call('LLEN', key) or redis.pcall('LLEN', key)
  if type(length) ~= 'number' then length = 0 end -- A key of another type counts as empty; `faults` reports it.
  total, lists[i] = total + length, {key, name, length}
end
local skip = offset < 0 and math.max(0, total - limit + offset + 1) or offset
for _, list in ipairs(lists) do
  local key, name, length = unpack(list)
  local at, last, step = skip, math.min(length, skip + limit - #rows), 1
  skip = math.max(0, skip - length)
  local beat_ms, deadline_ms = -1, -1
  if at < last and place ~= 'source' then beat_ms, deadline_ms = last_beat(name) end
  if place ~= 'processing' then deadline_ms = -1 end
  while at < last do -- Read in steps, so that huge entries are not in memory all at once.
    step = math.min(step, last - at)
    local found, bytes = redis.call('LRANGE', key, -at - step, -at - 1), 0
    for i = #found, 1, -1 do
      local entry = found[i]
      bytes = bytes + #entry
      rows[#rows + 1] =
        {#entry <= most and entry or string.sub(entry, 1, 4096), #entry, string.sub(entry, -64), name, beat_ms, deadline_ms}
    end
    at, step = at + step, bytes < 1000000 and step * 4 or 1
  end
end
return {'page', now_ms, total, rows}
