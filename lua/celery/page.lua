-- Return a page of the jobs of a place, in its order: in `queue` the next message first, in `eta` by ETA, in the other places by the
-- time when a worker took the message.
--
-- `eta`, `unacked` and `late` are parts of one hash with the unacked messages of all queues. The script reads the first 300 entries,
-- or about the first megabyte. `offset` and `total` count the messages of this queue among them; `of` estimates the real total if
-- not all entries were read. A message of up to 4096 bytes, or up to `body_bytes` if that is more, is complete in `head`. For a
-- longer one `head` contains the first 4096 bytes and `tail` the last 6144. An unacked message is returned as its entry `[message,
-- exchange, routing key]`; `tag` is its delivery tag, `score` the time when it was taken. `step` is the priority of the list of a
-- waiting message.
--
-- derived  <prefix><queue><sep><step>           the list of another priority
--          <prefix>_kombu.binding.<exchange>    the bindings of an exchange: the queue of each routing key
-- KEYS     queue unacked unacked_index
-- ARGV     now_ms?     int   a test's clock; the server's when empty
--          prefix      str   the prefix of all keys; may be empty
--          sep         str   the separator between the name of a queue and a priority
--          steps       str   the priorities that have a list of their own: 0/3/6/9
--          visibility  int   the visibility timeout (s): after it kombu delivers an unacked message again
--          place       str   eta, queue, unacked or late
--          offset      int   the number of jobs to skip; -1: the last page, -1 - n: the one that ends n before the end
--          limit       int   the largest number of jobs, 1 to 1000
--          body_bytes  int   messages of up to this number of bytes are returned complete; -1: all
-- returns  page  (now_ms int, total int, of? int)
--                rows (head bytes, size int, tail bytes, score str, tag bytes, step str)
local arguments, visibility = 9, ARGV[5]
-- include: keys, args(place offset limit body_bytes), page_guard, clock, options, visibility, for_each_held, job_row
local rows = {}
if place == 'queue' then
  local total, lengths = 0, {}
  for at, list in ipairs(lists) do
    lengths[at] = redis.call('LLEN', list[1])
    total = total + lengths[at]
  end
  local to_skip = offset < 0 and math.max(0, total - limit + offset + 1) or offset
  for at, list in ipairs(lists) do
    local wanted = limit - #rows
    if to_skip < lengths[at] and wanted > 0 then
      local found = redis.call('LRANGE', list[1], math.max(-lengths[at], -to_skip - wanted), -to_skip - 1)
      for i = #found, 1, -1 do rows[#rows + 1] = job_row(found[i], '', '', list[2]) end
    end
    to_skip = math.max(0, to_skip - lengths[at])
  end
  return {'page', now_ms, total, '', rows}
end
if place ~= 'eta' and place ~= 'unacked' and place ~= 'late' then return redis.error_reply('ERR there is no place ' .. place) end
local card, found = redis.call('ZCARD', unacked_index), {}
local entries_read = for_each_held(0, math.min(card, 300) - 1, math.huge, function(text, owner, owner_place, score, tag, eta)
  if owner == name and owner_place == place then found[#found + 1] = {eta, text, score, tag} end
end, 1048576)
if place == 'eta' then
  for at, row in ipairs(found) do row[5] = at end
  table.sort(found, function(a, b) return a[1] < b[1] or (a[1] == b[1] and a[5] < b[5]) end)
end
local first = offset < 0 and math.max(0, #found - limit + offset + 1) or offset
for at = first + 1, math.min(#found, first + limit) do rows[#rows + 1] = job_row(found[at][2], found[at][3], found[at][4], '') end
return {'page', now_ms, #found, entries_read < card and math.floor(#found * card / entries_read + 0.5) or '', rows}
