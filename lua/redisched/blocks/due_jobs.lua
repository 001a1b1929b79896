-- Find due jobs that have a body, longest due first.
--
-- needs    jobs queued now_ms
--          MS  the lowest score in milliseconds, as text
-- gives    find_due
--          now now_s  the time as a score in milliseconds and in seconds
local now, now_s = string.format('%.0f', now_ms), string.format('%.3f', now_ms / 1000)
local function list_due(count)
  local due, is_mixed = {}, false
  for _, range in ipairs({{'-inf', now_s, 1000}, {MS, now, 1}}) do
    local reply = redis.call('ZRANGEBYSCORE', queued, range[1], range[2], 'WITHSCORES', 'LIMIT', 0, count)
    is_mixed = #due > 0 and #reply > 0
    for i = 1, #reply, 2 do due[#due + 1] = {reply[i], tonumber(reply[i + 1]), tonumber(reply[i + 1]) * range[3], #due} end
  end
  if not is_mixed then return due end -- Redis sorted them
  table.sort(due, function(a, b) return a[3] < b[3] or (a[3] == b[3] and a[4] < b[4]) end)
  return due
end
local function find_due(most) -- {id, score, body}, at most about 64 MB of bodies
  local found, bytes = {}, 0
  for _, count in ipairs({most + 50, 10000}) do -- the second, larger look is for ids without a body at the front
    local due = list_due(count)
    for _, job in ipairs(due) do
      local body = redis.call('HGET', jobs, job[1])
      if body then
        job[3], bytes = body, bytes + #body
        found[#found + 1] = job
      end
      if #found == most or bytes > 67108864 then break end
    end
    if #found > 0 or #due < count then break end
  end
  return found
end
