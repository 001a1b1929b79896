-- List the processes of all queues, each with the data that it last wrote and the next signal for it.
--
-- `info` is JSON as the process wrote it. `beat_ms` is the age of its last heartbeat, -1 if its hash is missing. `held`
-- is the number of running jobs. `order` is the next signal that the process will read: TSTP, TERM or another. At most
-- about 300 of `total` are listed.
--
-- derived  <prefix><identity>
--          <prefix><identity>:work
--          <prefix><identity>:workers
--          <prefix><identity>-signals
-- KEYS     processes
-- ARGV     now_ms?  int  a test's clock; the server's when empty
--          prefix   str  the prefix of all keys: the namespace and a colon, or nothing
-- returns  listed  (now_ms int, total int)  rows (worker bytes, beat_ms int, info bytes, busy str, quiet str, rss str, rtt_us str, concurrency str,
--                  held int, order str)
-- include: keys, clock, prefix, processes
local rows = {}
each_process(function(identity, info, age_ms)
  local fields = redis.pcall('HMGET', prefix .. identity, 'busy', 'quiet', 'rss', 'rtt_us', 'concurrency')
  local held = 0
  for _, suffix in ipairs({':work', ':workers'}) do -- Sidekiq before version 7 uses `:workers`.
    local length = redis.pcall('HLEN', prefix .. identity .. suffix)
    held = held + (type(length) == 'number' and length or 0)
  end
  local order = redis.pcall('LINDEX', prefix .. identity .. '-signals', -1)
  local row = {identity, age_ms, info and #info <= 65536 and info or ''}
  for i = 1, 5 do row[i + 3] = not fields.err and fields[i] and string.sub(fields[i], 1, 100) or '' end
  row[9], row[10] = held, type(order) == 'string' and string.sub(order, 1, 100) or ''
  rows[#rows + 1] = row
end)
local total = redis.pcall('SCARD', processes)
return {'listed', now_ms, type(total) == 'number' and total or 0, rows}
