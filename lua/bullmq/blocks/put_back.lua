-- Put a job back into its former place.
--
-- needs    unpacked p sets lists wake_when_due add_event wake_workers
--          queue  the state of the queue
-- gives    dedup_holder set_dedup put_back
local function dedup_holder(errors) -- the job that holds the deduplication key of the restored job
  local held = unpacked(errors)
  return held and held[1] and (redis.pcall('GET', p .. 'de:' .. held[1]) or nil)
end
local function set_dedup(id, errors)
  local held, clock = unpacked(errors), redis.call('TIME')
  if not held or not held[1] or redis.pcall('GET', p .. 'de:' .. held[1]) then return end
  local left_ms = held[2] ~= '' and tonumber(held[2]) - clock[1] * 1000 - math.floor(clock[2] / 1000)
  if left_ms and left_ms > 0 then
    redis.call('SET', p .. 'de:' .. held[1], id, 'PX', string.format('%.0f', left_ms))
  elseif not left_ms then
    redis.call('SET', p .. 'de:' .. held[1], id)
  end
end
local function put_back(id, place, score, prev, aside) -- in a list the score is the number of jobs before it; `aside` jobs at its head do not count
  if sets[place] then
    redis.call('ZADD', sets[place], score, id)
  else
    local key = place == 'active' and lists.active or queue.list -- the queue may have been paused or resumed in the meantime
    local before, others = math.floor(tonumber(score)), redis.call('LLEN', key) - aside
    local pivot = before < others and redis.call('LINDEX', key, -before - 1) or aside > 0 and redis.call('LINDEX', key, aside - 1)
    if pivot then redis.call('LINSERT', key, 'AFTER', pivot, id) else redis.call('LPUSH', key, id) end
  end
  if place == 'delayed' then
    wake_when_due()
    add_event(queue, 'delayed', 'jobId', id, 'delay', string.format('%.0f', math.floor(tonumber(score) / 4096)))
  elseif place == 'wait' or place == 'paused' or place == 'prioritized' then
    wake_workers(queue)
    add_event(queue, 'waiting', 'jobId', id, 'prev', prev)
  end
  return (place == 'wait' or place == 'paused') and queue.place or place
end
