-- Merge two lists in chunks without losing a job.
--
-- gives    merge_lists
local function merge_lists(newer, older, into) -- the older jobs run first; the shorter list is moved, because that costs less
  local count, rest = redis.call('LLEN', newer), redis.call('LLEN', older)
  local from, to = newer, older
  if count > rest then from, to = older, newer end
  while redis.call('LLEN', from) > 0 do
    if from == older then
      local ids = redis.call('LRANGE', from, 0, 4999) -- the newest of the older jobs run just before the oldest of the newer jobs
      redis.call('RPUSH', to, unpack(ids))
      redis.call('LTRIM', from, #ids, -1)
    else
      local ids = redis.call('LRANGE', from, -5000, -1)
      for i = 1, math.floor(#ids / 2) do ids[i], ids[#ids + 1 - i] = ids[#ids + 1 - i], ids[i] end
      redis.call('LPUSH', to, unpack(ids))
      redis.call('LTRIM', from, 0, -#ids - 1)
    end
  end
  if to ~= into and count + rest > 0 then redis.call('RENAMENX', to, into) end
end
