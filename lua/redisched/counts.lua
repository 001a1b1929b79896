-- Count the jobs of a topic. A score from 10^11 on is in milliseconds, a lower one in seconds.
--
-- `oldest_ms` is the age of the job that has been due longest, `due_ms` the next due time, `deadline_ms` the first end
-- of a lease; -1 means none. `scores_s` and `scores_ms` count the scores in each unit. A score below 10^8 shows no unit.
--
-- KEYS     queued reserved
-- ARGV     now_ms?  int  a test's clock; the server's when empty
-- returns  counted  (now_ms int, queued int, due int, reserved int, expired int, oldest_ms int, due_ms int,
--                    deadline_ms int, scores_s int, scores_ms int)
-- include: keys, integers, server_time, score_counts
local now, now_s = string.format('%.0f', now_ms), string.format('%.3f', now_ms / 1000)
local function first_ms(key, from_s, from_ms) -- the first time from there on, -1 if there is none
  local first
  for _, range in ipairs({{from_s, '(' .. MS, 1000}, {from_ms, '+inf', 1}}) do
    local score = redis.call('ZRANGEBYSCORE', key, range[1], range[2], 'WITHSCORES', 'LIMIT', 0, 1)[2]
    local at_ms = score and math.floor(math.max(0, math.min(9e15, tonumber(score) * range[3])))
    if at_ms then first = math.min(first or at_ms, at_ms) end
  end
  return first or -1
end
local function count_past(key) return redis.call('ZCOUNT', key, '-inf', now_s) + redis.call('ZCOUNT', key, MS, now) end
local due, expired = count_past(queued), count_past(reserved)
local oldest_ms = due > 0 and math.max(0, now_ms - first_ms(queued, '-inf', MS)) or -1
return {
  'counted', now_ms, redis.call('ZCARD', queued) - due, due, redis.call('ZCARD', reserved) - expired, expired,
  oldest_ms, first_ms(queued, '(' .. now_s, '(' .. now), first_ms(reserved, '-inf', MS), scores_s, scores_ms,
}
