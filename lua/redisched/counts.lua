-- What a topic holds at one instant, each score judged by its own size: from 10^11 on it is milliseconds, below seconds.
--
-- `oldest_ms` is the age of the job that is due for longest, `due_ms` the next due time, `deadline_ms` the first end of a
-- lease, -1 without one. `scores_s` and `scores_ms` count the two units apart; a score below 10^8 tells none.
--
-- KEYS     queued (queued due)          zset  id by due
--          reserved (reserved expired)  zset  id by lease deadline
-- ARGV     now_ms?  int  a test's clock; the server's when empty
-- returns  counted  (now_ms int, queued int, due int, reserved int, expired int, oldest_ms int, due_ms int,
--                    deadline_ms int, scores_s int, scores_ms int)
local queued, reserved = KEYS[1], KEYS[2]
for _, at in ipairs({1}) do
  if #ARGV < 1 or #ARGV[at] > 15 or not string.find(ARGV[at], '^%-?%d*$') then
    return redis.error_reply('ERR it takes 1 argument, whole numbers where the header says int; nothing was changed')
  end
end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local S, MS = '100000000', '100000000000'
local now, now_s = string.format('%.0f', now_ms), string.format('%.3f', now_ms / 1000)
local function head(key, from_s, from_ms) -- the first instant in ms from there on, -1 without one
  local first = -1
  for _, range in ipairs({{from_s, '(' .. MS, 1000}, {from_ms, '+inf', 1}}) do
    local score = redis.call('ZRANGEBYSCORE', key, range[1], range[2], 'WITHSCORES', 'LIMIT', 0, 1)[2]
    local at_ms = score and math.floor(math.max(0, math.min(9e15, tonumber(score) * range[3])))
    if at_ms and (first < 0 or at_ms < first) then first = at_ms end
  end
  return first
end
local function past(key) return redis.call('ZCOUNT', key, '-inf', now_s) + redis.call('ZCOUNT', key, MS, now) end
local due, expired = past(queued), past(reserved)
local oldest_ms = due > 0 and math.max(0, now_ms - head(queued, '-inf', MS)) or -1
local scores_s = redis.call('ZCOUNT', queued, S, '(' .. MS) + redis.call('ZCOUNT', reserved, S, '(' .. MS)
local scores_ms = redis.call('ZCOUNT', queued, MS, '(9e15') + redis.call('ZCOUNT', reserved, MS, '(9e15')
return {
  'counted', now_ms, redis.call('ZCARD', queued) - due, due, redis.call('ZCARD', reserved) - expired, expired,
  oldest_ms, head(queued, '(' .. now_s, '(' .. now), head(reserved, '-inf', MS), scores_s, scores_ms,
}
