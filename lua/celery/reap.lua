-- Reap messages whose visibility timeout is over: workers take them next within their priority, the one that was taken first at the
-- head.
--
-- Every consumer of kombu does the same at its next sweep (about every 100 s), with its own visibility timeout. This script runs at
-- once, with the given timeout. It sets `redelivered` in each message and keeps all other bytes. A message with an ETA in the future
-- is skipped, because a worker waits with it. One call reads 200 entries of all queues, or about 4 MB; `rank` is where the next call
-- continues. `next_ms` is the time until the next message expires.
--
-- moves    late -> queue
-- writes   unacked_index
-- derived  <prefix><queue><sep><step>         the list of another priority
--          <prefix>_kombu.binding.<exchange>  the bindings of an exchange: the queue of each routing key
-- KEYS     queue unacked unacked_index
-- ARGV     queue       str  the name of the queue
--          prefix      str  the prefix of all keys; may be empty
--          sep         str  the separator between the name of a queue and a priority
--          steps       str  the priorities that have a list of their own: 0/3/6/9
--          visibility  int  the visibility timeout (s): after it kombu delivers an unacked message again
--          now_ms?     int  a test's clock; the server's when empty
--          limit       int  the largest number of jobs, 1 to 1000
--          rank?       int  the rank of the first entry to read
-- returns  moved  (moved int, ready int, dead int, next_ms int, more bool, rank int)  reaped
--          empty  (next_ms int, more bool, rank int)  no message of the queue is late
local visibility, limit, rank = ARGV[5], tonumber(ARGV[7]), tonumber(ARGV[8]) or 0
-- include: keys, options, visibility, queue_guard, key_types(unacked), find_list, clock_argv6
-- include: for_each_held, redeliver, push_redelivered
for _, list in ipairs(lists) do redis.call('LLEN', list[1]) end
if #ARGV < 8 or not string.find(ARGV[7], '^%d+$') or limit < 1 or limit > 1000 or #ARGV[8] > 15 or string.find(ARGV[8], '%D') then
  return redis.error_reply('ERR limit is 1 to 1000, rank a whole number; nothing was changed')
end
local number = redis.call('ZCOUNT', unacked_index, '-inf', '(' .. string.format('%.3f', (now_ms - visibility_ms) / 1000))
local released, next_ms = {}, -1
local reached = for_each_held(rank, math.max(rank, math.min(number, rank + 200)) - 1, 1048576, function(text, owner, place, _, tag)
  local message, priority
  if owner == name and place == 'late' then message, priority = redeliver(text) end
  if message then released[#released + 1] = {tag, message, lists[find_list(priority)][1]} end
  return #released < limit
end, 4194304)
local following = redis.call('ZRANGE', unacked_index, number, number, 'WITHSCORES')[2]
if following then next_ms = math.max(0, math.floor(following * 1000) + visibility_ms - now_ms) end
local is_over = reached >= number
rank = is_over and 0 or reached - #released
if #released == 0 then return {'empty', next_ms, is_over and 0 or 1, rank} end

push_redelivered(released)
return {'moved', #released, #released, 0, next_ms, is_over and 0 or 1, rank}
