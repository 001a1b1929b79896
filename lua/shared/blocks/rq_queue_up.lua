-- rq: a job waits in its queue from now on. Its hash lives as long as its own `ttl` says, not as long as a failure is kept.
-- needs    prefix queued now_ms written
-- gives    queue_up
local function queue_up(id, ttl, is_first)
  local key = prefix .. ':job:' .. id
  redis.call(
    'HSET', key, 'status', 'queued', 'enqueued_at', written(now_ms), 'started_at', '', 'ended_at', '', 'worker_name', ''
  )
  local ttl_s = tonumber(string.match(ttl or '', '^%d+$') or 0)
  for _, each in ipairs({key, key .. ':dependents', prefix .. ':job::' .. id .. ':dependencies'}) do
    if ttl_s > 0 then redis.call('EXPIRE', each, ttl_s) else redis.call('PERSIST', each) end
  end
  redis.call(is_first and 'LPUSH' or 'RPUSH', queued, id)
end
