-- bullmq: how a job waits for its time.
-- needs    delayed
-- gives    later
local function later(id, time_ms) -- of those that are due in one millisecond the last comes last
  local first = time_ms * 4096
  local last = redis.call(
    'ZREVRANGEBYSCORE', delayed, string.format('%.0f', first + 4095), string.format('%.0f', first), 'WITHSCORES', 'LIMIT', 0, 1
  )[2]
  redis.call('ZADD', delayed, string.format('%.0f', last and math.min(tonumber(last) + 1, first + 4095) or first), id)
end
