-- Cancel tasks: publish a revoke command to all workers. A waiting task is dropped when its turn comes. The process of a running
-- task gets a signal.
--
-- `signal` is the name of that signal. With `none` no process is terminated: a task that runs already runs to its end, and is dropped
-- if it is delivered again (revoke, celery/worker/control.py 5.7).
--
-- `heard` is the number of subscribers. The command is not stored: a worker keeps it in memory until it restarts, and a worker that
-- is not subscribed never receives it.
--
-- writes   control
-- derived  <prefix><queue><sep><step>         the list of another priority
--          <prefix>_kombu.binding.<exchange>  the bindings of an exchange: the queue of each routing key
-- KEYS     queue unacked unacked_index control
-- ARGV     queue       str   the name of the queue
--          prefix      str   the prefix of all keys; may be empty
--          sep         str   the separator between the name of a queue and a priority
--          steps       str   the priorities that have a list of their own: 0/3/6/9
--          visibility  int   the visibility timeout (s): after it kombu delivers an unacked message again
--          now_ms?     int   a test's clock; the server's when empty
--          signal?     str   the signal for running tasks, or none; empty: TERM
--          each        (id bytes, member? bytes, token? str, step? str)  the message; its delivery tag if a worker took it; the
--                      priority of its list. `member` is empty for a running task whose worker acked the message before the run
-- returns each  asked    (heard int)  asked to cancel: workers drop the task when its turn comes; if it runs, they send it the signal
--               unheard  no worker listens, so the command has no effect
--               later    the queue is too long to search for so many messages in one call
--               gone     the message is no longer there
local visibility = ARGV[5]
-- include: keys, columns, options, visibility, batch, queue_guard, lengths, clock_argv6
-- include: find_held_place, find_spot, publish_command
local signal = ARGV[7] == '' and 'TERM' or string.gsub(string.upper(ARGV[7]), '^SIG', '')
local is_signal = {}
for known in string.gmatch('ABRT ALRM HUP INT KILL QUIT TERM USR1 USR2 NONE', '%u[%u%d]+') do is_signal[known] = true end
if not is_signal[signal] then
  return redis.error_reply('ERR the signal is none, or one of ABRT, ALRM, HUP, INT, KILL, QUIT, TERM, USR1, USR2; nothing was changed')
end
local outcomes, waiting, running = {}, {}, {}
for at = scalars + 1, #ARGV, columns do
  local id, member, token, step = unpack(ARGV, at, at + 3)
  local place = token ~= '' and find_held_place(token, member)
  local spot, is_unsure
  if token == '' and member ~= '' then spot, is_unsure = find_spot(member, step) end
  if place or spot or member == '' then
    local ids = (spot or place == 'eta') and waiting or running
    outcomes[#outcomes + 1], ids[#ids + 1] = 'asked', id
  else
    outcomes[#outcomes + 1] = is_unsure and 'later' or 'gone'
  end
end
local heard = 0
if #waiting > 0 then heard = publish_command('revoke', {task_id = waiting, terminate = false, signal = 'SIGTERM'}) end
if #running > 0 then
  local command = {task_id = running, terminate = signal ~= 'NONE', signal = signal ~= 'NONE' and 'SIG' .. signal or 'SIGTERM'}
  heard = publish_command('revoke', command)
end
for i, word in ipairs(outcomes) do
  if word == 'asked' then outcomes[i] = heard > 0 and {'asked', heard} or 'unheard' end
end
return outcomes
