-- Count the jobs of a queue in each place.
--
-- One hash contains the unacked messages of all queues. Above 200 entries the script reads a sample and estimates the numbers from
-- it; `unacked_exact` is false then. `expired` is the number of messages that kombu delivers again at its next sweep, `deadline_ms`
-- the next time when a message expires, and `due_ms` the next ETA (-1: none).
--
-- derived  <prefix><queue><sep><step>           the list of another priority
--          <prefix>_kombu.binding.<exchange>    the bindings of an exchange: the queue of each routing key
-- KEYS     queue unacked unacked_index
-- ARGV     now_ms?     int  a test's clock; the server's when empty
--          prefix      str  the prefix of all keys; may be empty
--          sep         str  the separator between the name of a queue and a priority
--          steps       str  the priorities that have a list of their own: 0/3/6/9
--          visibility  int  the visibility timeout (s): after it kombu delivers an unacked message again
-- returns  counted  (now_ms int, queue int, eta int, unacked int, late int, eta_exact bool, unacked_exact bool, late_exact bool,
--                   eta_of int, unacked_of int, late_of int, expired int, due_ms int, deadline_ms int)
local visibility = ARGV[5]
-- include: keys, clock, options, visibility, held_counts
local length = 0
for _, list in ipairs(lists) do length = length + redis.call('LLEN', list[1]) end
local eta, held, late = estimate_counts(name)
local exact = is_all and 1 or 0
return {
  'counted', now_ms, length, eta, held, late, exact, exact, exact, of_all.eta, of_all.unacked, of_all.late, late,
  next_due[name] or -1, next_restore[name] or -1,
}
