-- Add a job to the delayed jobs.
--
-- needs    delayed
-- gives    add_delayed
local function add_delayed(id, time_ms) -- a score has room for 4096 jobs per millisecond, in the order of their arrival
  local first = time_ms * 4096
  local last = redis.call(
    'ZREVRANGEBYSCORE', delayed, string.format('%.0f', first + 4095), string.format('%.0f', first), 'WITHSCORES', 'LIMIT', 0, 1
  )[2]
  redis.call('ZADD', delayed, string.format('%.0f', last and math.min(tonumber(last) + 1, first + 4095) or first), id)
end
