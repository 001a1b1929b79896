-- Return all data of one job.
--
-- KEYS     scheduled ready reserved done dead jobs bodies attempts errors meta
-- ARGV     id          bytes the job
--          body_bytes  int   a longer body is left out; -1 for all of it
-- returns  shown  (place str, score str, record bytes, bytes int, body bytes, line bytes, errors bytes, now_ms int,
--                 max_attempts int)  the job
--          gone   no such job
-- include: keys, args
if not body_bytes then return redis.error_reply('ERR body_bytes is a whole number') end
local clock = redis.call('TIME')
local record, line = redis.call('HGET', jobs, id) or '', redis.call('HGET', attempts, id) or ''
local place, score = '', ''
for name, key in pairs({scheduled = scheduled, ready = ready, reserved = reserved, done = done, dead = dead}) do
  local own = redis.call('ZSCORE', key, id)
  if own then place, score = name, own end
end
if place == '' and record == '' then return {'gone'} end
local cut = string.find(record, '\n', 1, true) or #record
local long = tonumber(string.match(record, '^%d+ %S+ %S+ %S+ %S+ %S+ %S+ %S+ (%d+) ') or '')
local size, body = long or #record - cut, string.sub(record, cut + 1)
if body_bytes >= 0 and size > body_bytes then
  body = ''
elseif long then
  body = redis.call('HGET', bodies, id) or ''
end
return {
  'shown', place, score, string.sub(record, 1, math.max(0, cut - 1)), size, body, line, redis.call('HGET', errors, id) or '',
  clock[1] * 1000 + math.floor(clock[2] / 1000), tonumber(redis.call('HGET', meta, 'max_attempts') or 5),
}
