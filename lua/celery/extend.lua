-- Extend the leases of messages that workers hold: kombu delivers them again later.
--
-- Every consumer adds its own visibility timeout to the time when the message was taken. The script sets that time so that `ttr_ms`
-- are left, or to now. For a task with an ETA in the future the time is never before the ETA, so the message is not delivered again
-- before it is due. The extension also applies to messages that a dead worker held.
--
-- writes   unacked_index
-- derived  <prefix><queue><sep><step>         the list of another priority
--          <prefix>_kombu.binding.<exchange>  the bindings of an exchange: the queue of each routing key
-- KEYS     queue unacked unacked_index
-- ARGV     queue       str   the name of the queue
--          prefix      str   the prefix of all keys; may be empty
--          sep         str   the separator between the name of a queue and a priority
--          steps       str   the priorities that have a list of their own: 0/3/6/9
--          visibility  int   the visibility timeout (s): after it kombu delivers an unacked message again
--          now_ms?     int   a test's clock; the server's when empty
--          ttr_ms?     int   the new lease, from now; empty: the visibility timeout
--          each        (member bytes, token str)  the message and its delivery tag
-- returns each  extended  (deadline_ms int)  extended
--               gone      no worker holds the message any more
local visibility, ttr_ms = ARGV[5], tonumber(ARGV[7])
-- include: keys, columns, options, visibility, batch, queue_guard, clock_argv6, find_held_place
if #ARGV[7] > 13 or string.find(ARGV[7], '%D') then return redis.error_reply('ERR ttr_ms is a whole number; nothing was changed') end
for _, list in ipairs(lists) do redis.call('LLEN', list[1]) end
local outcomes, times = {}, {}
for at = scalars + 1, #ARGV, columns do
  local member, token = ARGV[at], ARGV[at + 1]
  if find_held_place(token, member) then
    local _, eta_ms = read_entry(member)
    local since_ms = math.max(now_ms + (ttr_ms or visibility_ms) - visibility_ms, eta_ms)
    outcomes[#outcomes + 1] = {'extended', since_ms + visibility_ms}
    times[#times + 1] = {token, string.format('%.3f', since_ms / 1000)}
  else
    outcomes[#outcomes + 1] = 'gone'
  end
end
if #times > 0 then redis.call('ZREM', unacked_index, '') end -- removes nothing, so Redis allows the writes after it over maxmemory
for _, row in ipairs(times) do redis.call('ZADD', unacked_index, 'XX', row[2], row[1]) end
return outcomes
