-- Repair jobs that stand nowhere or twice, by id.
--
-- A body without a place becomes due now. Of two places the queue stays, so the job runs (again): its lease is over.
--
-- moves    queued due reserved expired -> queued | due
-- KEYS     jobs                         hash  body by id
--          queued (queued due)          zset  id by due
--          reserved (reserved expired)  zset  id by lease deadline
-- ARGV     now_ms?  int  a test's clock; the server's when empty
--          unit     str  ms, s or auto
--          each     (id bytes)
-- returns each  moved  repaired
--               fine   there was nothing to repair
--               ghost  it has no body: delete it, or put it again
--               gone   no such job
local jobs, queued, reserved = KEYS[1], KEYS[2], KEYS[3]
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local unit, S, MS = ARGV[2], '100000000', '100000000000'
redis.call('HLEN', jobs)
redis.call('ZCARD', queued)
redis.call('ZCARD', reserved)
if #ARGV < 3 or #ARGV > 1002 or #ARGV[1] > 13 or string.find(ARGV[1], '%D') or not ({ms = 1, s = 1, auto = 1})[unit] then
  return redis.error_reply('ERR a batch has 1 to 1000 ids, now_ms is a whole number, the unit ms, s or auto; nothing was changed')
end
local words, lost, twice = {}, {}, {}
for at = 3, #ARGV do
  local id = ARGV[at]
  local due, deadline = redis.call('ZSCORE', queued, id), redis.call('ZSCORE', reserved, id)
  local has_body = redis.call('HEXISTS', jobs, id) == 1
  words[#words + 1] = not has_body and ((due or deadline) and 'ghost' or 'gone') or 'fine'
  if has_body and due and deadline then
    words[#words], twice[#twice + 1] = 'moved', id
  elseif has_body and not due and not deadline then
    words[#words], lost[#lost + 1] = 'moved', id
  end
end
if #lost > 0 and unit == 'auto' then
  local scores_s = redis.call('ZCOUNT', queued, S, '(' .. MS) + redis.call('ZCOUNT', reserved, S, '(' .. MS)
  local scores_ms = redis.call('ZCOUNT', queued, MS, '(9e15') + redis.call('ZCOUNT', reserved, MS, '(9e15')
  if (scores_s > 0) == (scores_ms > 0) then
    return redis.error_reply('ERR this topic ' .. (scores_s == 0 and 'has no score that shows its unit' or 'holds scores in both units') ..
      ': say --layout redisched:unit=ms (its Node programs) or redisched:unit=s (those in Go); nothing was changed')
  end
  unit = scores_ms > 0 and 'ms' or 's'
end
if #lost + #twice == 0 then return words end

redis.call('ZREMRANGEBYRANK', reserved, 1, 0) -- frees nothing: a drain may go on over maxmemory
local now = string.format('%.0f', unit == 'ms' and now_ms or math.floor(now_ms / 1000))
for _, id in ipairs(lost) do redis.call('ZADD', queued, now, id) end
if #twice > 0 then redis.call('ZREM', reserved, unpack(twice)) end
return words
