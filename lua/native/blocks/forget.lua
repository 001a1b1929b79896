-- Delete the oldest jobs of `done` or `dead` that exceed the age or the number to be kept, up to `batch` jobs.
--
-- needs    jobs bodies attempts errors note meta
-- gives    forget
-- include: note
local function forget(key, until_ms, most, batch)
  local old = redis.call('ZRANGEBYSCORE', key, '-inf', until_ms, 'LIMIT', 0, batch)
  local over = math.min(batch, redis.call('ZCARD', key) - most)
  if over > #old then old = redis.call('ZRANGE', key, 0, over - 1) end
  if #old == 0 then return end
  for _, hash in ipairs({jobs, bodies, attempts, errors}) do note('HDEL', hash, unpack(old)) end
  note('ZREM', key, unpack(old))
  note('HINCRBY', meta, 'forgotten', #old)
end
