-- List the events of a queue, oldest first.
--
-- BullMQ records each change of a job in the stream `events`, and keeps the last `opts.maxLenEvents` of them, 10000 by default. The page
-- has the first events after `after`, or with `newest` the last ones. `left` says whether there are more than `limit`; a page also ends
-- after 2 MB, because an event may hold the return value of a job. `until_ms` is -1: the recording has no end, and 0 if the queue keeps
-- no events. `detail` is the reason, progress, name or former place of the job, up to 300 bytes.
--
-- KEYS     meta events
-- ARGV     now_ms?  int   a test's clock; the server's when empty
--          after?   str   start after this event, such as `1795219200000-0`; all when empty
--          limit    int   how many at most, 1 to 1000
--          newest?  bool  the last of them rather than the first
-- returns  events  (now_ms int, until_ms int, known bool, total int, left bool)
--                  rows (event str, verb str, id bytes, worker bytes, detail bytes)
-- include: keys, args, integers(limit), clock
if not limit or limit < 1 or limit > 1000 then return redis.error_reply('ERR limit is 1 to 1000') end
if after ~= '' and (not string.find(after, '^%d+%-%d+$') or #after > 39 or string.find(after, string.rep('%d', 20))) then
  return redis.error_reply('ERR after is an event such as 1795219200000-0, or empty')
end
local command = newest and 'XREVRANGE' or 'XRANGE'
local begin, finish = after == '' and '-' or '(' .. after, '+'
local entries, bytes, left = {}, 0, false
while not left do
  local wanted = math.min(50, limit + 1 - #entries)
  local found = redis.call(command, events, newest and finish or begin, newest and begin or finish, 'COUNT', wanted)
  for _, entry in ipairs(found) do
    if #entries == limit or bytes > 2000000 then
      left = true
      break
    end
    entries[#entries + 1] = entry
    for _, text in ipairs(entry[2]) do bytes = bytes + #text end
  end
  if #found < wanted then break end
  if newest then finish = '(' .. found[#found][1] else begin = '(' .. found[#found][1] end
end
local rows = {}
for i, entry in ipairs(entries) do
  local fields = {}
  for at = 1, #entry[2] - 1, 2 do fields[entry[2][at]] = string.sub(entry[2][at + 1], 1, 300) end
  local detail = fields.failedReason or fields.data or fields.name or fields.delay and 'due ' .. fields.delay or fields.deduplicationId
    or fields.count or fields.prev and 'from ' .. fields.prev or ''
  rows[newest and #entries + 1 - i or i] = {entry[1], fields.event or '', fields.jobId or '', '', detail}
end
local kept = redis.pcall('HGET', meta, 'opts.maxLenEvents')
return {'events', now_ms, kept == '0' and 0 or -1, redis.call('EXISTS', meta), redis.call('XLEN', events), left and 1 or 0, rows}
