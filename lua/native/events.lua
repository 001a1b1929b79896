-- Events of a queue while somebody recorded them, the oldest first.
--
-- Events are recorded while the setting `events` is `on` or a time to come: `until_ms` is that time, -1 for ever, 0 not now. With
-- `newest` a page is the last of what came after `after`, else the first; `left` says whether there was more than `limit`.
--
-- KEYS     meta      hash    settings and counters
--          events    stream  what happened, while watched
-- ARGV     now_ms?   int     a test's clock; the server's when empty
--          after?    str     the event after which to begin, as `1795219200000-0`; all when empty
--          limit     int     how many at most, 1 to 1000
--          newest?   bool    the last of them rather than the first
-- returns  events  (now_ms int, until_ms int, known bool, total int, left bool) rows (event str, verb str, id bytes, worker bytes)
--                  events
local meta, events = KEYS[1], KEYS[2]
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local after, limit, newest = ARGV[2], tonumber(ARGV[3]), ARGV[4]
if not limit or limit % 1 ~= 0 or limit < 1 or limit > 1000 then return redis.error_reply('ERR limit is 1 to 1000') end
if after ~= '' and (not string.find(after, '^%d+%-%d+$') or #after > 39 or string.find(after, string.rep('%d', 20))) then
  return redis.error_reply('ERR after is an event such as 1795219200000-0, or empty')
end
local watch = redis.call('HGET', meta, 'events')
local until_ms = watch == 'on' and -1 or math.max(0, tonumber(watch or 0) or 0)
if until_ms >= 0 and until_ms <= now_ms then until_ms = 0 end
local first, found = after == '' and '-' or '(' .. after
if newest == '1' then
  found = redis.call('XREVRANGE', events, '+', first, 'COUNT', limit + 1)
else
  found = redis.call('XRANGE', events, first, '+', 'COUNT', limit + 1)
end
local rows, last = {}, math.min(#found, limit)
for i = 1, last do
  local entry, told = found[i], {}
  for at = 1, #entry[2], 2 do told[entry[2][at]] = entry[2][at + 1] end
  rows[newest == '1' and last + 1 - i or i] = {entry[1], told.verb or '', told.id or '', told.worker or ''}
end
local known = redis.call('EXISTS', meta)
return {'events', now_ms, until_ms, known, redis.call('XLEN', events), #found > limit, rows}
