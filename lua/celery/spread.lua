-- Count the unacked messages of each queue.
--
-- Above 200 entries the script reads a sample and estimates the numbers from it. A queue without unacked messages has no row.
-- `tasks` contains the names of up to 20 tasks of the queue, one per line.
--
-- derived  <prefix>_kombu.binding.<exchange>    the bindings of an exchange: the queue of each routing key
-- KEYS     unacked unacked_index
-- ARGV     now_ms?     int  a test's clock; the server's when empty
--          prefix      str  the prefix of all keys; may be empty
--          sep         str  the separator between the name of a queue and a priority
--          visibility  int  the visibility timeout (s): after it kombu delivers an unacked message again
-- returns  counted  (now_ms int, eta_exact bool, unacked_exact bool, late_exact bool, eta_of int, unacked_of int, late_of int)
--                   rows (queue str, eta int, unacked int, late int, expired int, due_ms int, deadline_ms int, tasks str)
if #ARGV < 4 then return redis.error_reply('ERR it takes 4 arguments; nothing was changed') end
local visibility = ARGV[4]
-- include: keys, args(prefix), clock, visibility, held_counts
local rows, exact = {}, is_all and 1 or 0
for queue in pairs(numbers) do
  local eta, held, late = estimate_counts(queue)
  rows[#rows + 1] = {queue, eta, held, late, late, next_due[queue] or -1, next_restore[queue] or -1, table.concat(tasks[queue], '\n')}
end
table.sort(rows, function(a, b) return a[1] < b[1] end)
return {'counted', now_ms, exact, exact, exact, of_all.eta, of_all.unacked, of_all.late, rows}
