-- Return one step of a walk through the unacked messages of all queues, with the jobs of this queue in a place.
--
-- `offset` is a rank by the time when the message was taken: the `next` of the step before. One step reads up to 300 entries, or
-- about a megabyte, and returns up to `limit` jobs. `total` is the number of entries, and `next` the rank after the last entry that
-- was read (empty: the end). The columns are those of `page.lua`.
--
-- derived  <prefix>_kombu.binding.<exchange>    the bindings of an exchange: the queue of each routing key
-- KEYS     queue unacked unacked_index
-- ARGV     now_ms?     int   a test's clock; the server's when empty
--          prefix      str   the prefix of all keys; may be empty
--          sep         str   the separator between the name of a queue and a priority
--          visibility  int   the visibility timeout (s): after it kombu delivers an unacked message again
--          place       str   eta, unacked or late
--          offset      int   the number of entries to skip
--          limit       int   the largest number of jobs, 1 to 1000
--          body_bytes  int   messages of up to this number of bytes are returned complete; -1: all
-- returns  page  (now_ms int, total int, next? int)
--                rows (head bytes, size int, tail bytes, score str, tag bytes, step str)
local arguments, visibility = 8, ARGV[4]
-- include: keys, args(prefix place offset limit body_bytes), page_guard
if place ~= 'eta' and place ~= 'unacked' and place ~= 'late' then
  return redis.error_reply('ERR there is no place ' .. place .. ' that queues share')
end
local name = string.sub(queue, #prefix + 1)
-- include: clock, visibility, for_each_held, job_row
local rows, rank, card = {}, math.max(0, offset), redis.call('ZCARD', unacked_index)
local stop = math.min(card, rank + 300)
rank = for_each_held(rank, stop - 1, math.huge, function(text, owner, owner_place, score, tag)
  if owner == name and owner_place == place then rows[#rows + 1] = job_row(text, score, tag, '') end
  return #rows < limit
end, 1048576)
return {'page', now_ms, card, rank < card and rank or '', rows}
