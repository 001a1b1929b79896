-- Compute the counts of a native queue.
--
-- needs    now_ms
-- gives    times          the number of jobs in a sorted set, the first time, and the number of late ones
--          waiting_since  the time since when a ready job waits
--          alive          the number of workers that are not late; with more than 500, all
local function times(key) -- as few commands as possible, because they are what a count costs
  local first = tonumber(redis.call('ZRANGE', key, '0', '0', 'WITHSCORES')[2])
  if not first then return 0, -1, 0 end
  return redis.call('ZCARD', key), first, first <= now_ms and redis.call('ZCOUNT', key, '-inf', string.format('%d', now_ms)) or 0
end
local function waiting_since(records, lines, id)
  local since = string.match(redis.call('HGET', lines, id) or '', '^%d+ %S+ %S+ (%d+) ')
  if not since then
    local enqueued, due = string.match(redis.call('HGET', records, id) or '', '^(%d+) ?(%d*)')
    since = math.max(tonumber(enqueued) or now_ms, tonumber(due) or 0)
  end
  return math.min(now_ms, tonumber(since))
end
local function alive(key, registered)
  if registered > 500 then return registered end
  local live = 0
  for _, line in ipairs(redis.call('HVALS', key)) do
    local beat, ttl = string.match(line, '^(%d+) (%d+) ')
    if beat and now_ms - tonumber(beat) <= tonumber(ttl) then live = live + 1 end
  end
  return live
end
