-- Find the due jobs that run: those of the first 500 whose in-progress key exists.
--
-- needs    ids now_ms
-- gives    due_count  jobs whose due time has come, running ones included
--          running    {id, score, rank} of each, by due time
local due_count = redis.call('ZCOUNT', ids, '-inf', string.format('%.0f', now_ms))
local running = {}
if due_count > 0 then
  local heads, names = redis.call('ZRANGEBYSCORE', ids, '-inf', string.format('%.0f', now_ms), 'WITHSCORES', 'LIMIT', 0, 500), {}
  for at = 1, #heads, 2 do names[#names + 1] = 'arq:in-progress:' .. heads[at] end
  if redis.call('EXISTS', unpack(names)) > 0 then
    for at, name in ipairs(names) do
      if redis.call('EXISTS', name) == 1 then running[#running + 1] = {heads[2 * at - 1], heads[2 * at], at - 1} end
    end
  end
end
