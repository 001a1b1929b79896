-- List the recorded events of a queue, oldest first.
--
-- Events are recorded while the setting `events` is `on` or a time in the future: `until_ms` is that time, -1 for `on`,
-- and 0 if events are not recorded now. The page has the first events after `after`, or with `newest` the last ones.
-- `left` says whether there are more than `limit`.
--
-- KEYS     meta events
-- ARGV     now_ms?   int     a test's clock; the server's when empty
--          after?    str     start after this event, such as `1795219200000-0`; all when empty
--          limit     int     how many at most, 1 to 1000
--          newest?   bool    the last of them rather than the first
-- returns  events  (now_ms int, until_ms int, known bool, total int, left bool) rows (event str, verb str, id bytes, worker bytes)
--                  events
-- include: keys, server_time
local after, limit, newest = ARGV[2], tonumber(ARGV[3]), ARGV[4]
if not limit or limit % 1 ~= 0 or limit < 1 or limit > 1000 then return redis.error_reply('ERR limit is 1 to 1000') end
if after ~= '' and (not string.find(after, '^%d+%-%d+$') or #after > 39 or string.find(after, string.rep('%d', 20))) then
  return redis.error_reply('ERR after is an event such as 1795219200000-0, or empty')
end
local watch = redis.call('HGET', meta, 'events')
local until_ms = watch == 'on' and -1 or math.max(0, tonumber(watch or 0) or 0)
if until_ms >= 0 and until_ms <= now_ms then until_ms = 0 end
local first, entries = after == '' and '-' or '(' .. after
if newest == '1' then
  entries = redis.call('XREVRANGE', events, '+', first, 'COUNT', limit + 1)
else
  entries = redis.call('XRANGE', events, first, '+', 'COUNT', limit + 1)
end
local rows, last = {}, math.min(#entries, limit)
for i = 1, last do
  local entry, fields = entries[i], {}
  for at = 1, #entry[2], 2 do fields[entry[2][at]] = entry[2][at + 1] end
  rows[newest == '1' and last + 1 - i or i] = {entry[1], fields.verb or '', fields.id or '', fields.worker or ''}
end
return {'events', now_ms, until_ms, redis.call('EXISTS', meta), redis.call('XLEN', events), #entries > limit, rows}
