-- bullmq: two lists become one, and no job is lost.
-- gives    merge
local function merge(newer, older, into) -- what was older stays next; the shorter one is moved, and a name is never taken away from a list
  local count, rest = redis.call('LLEN', newer), redis.call('LLEN', older)
  local from, to = newer, older
  if count > rest then from, to = older, newer end
  while redis.call('LLEN', from) > 0 do
    if from == older then
      local ids = redis.call('LRANGE', from, 0, 4999) -- the newest of the older ones stand behind all that are newer
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
