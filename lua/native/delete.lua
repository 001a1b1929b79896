-- Delete jobs from any place.
--
-- The reply has all data of each job, so that `restore` can put it back. A reserved job needs force. With a token, only
-- a job with that lease is deleted. The worker's later ack gets the reply `gone`. With a line of attempts (`-` for
-- none), a job is deleted only if its line has not changed since it was read.
--
-- moves    scheduled ready reserved done dead ->
-- writes   jobs bodies attempts errors meta events minutes
-- KEYS     scheduled ready reserved done dead jobs bodies attempts errors meta events minutes
-- ARGV     now_ms?   int     a test's clock; the server's when empty
--          place?    str     delete only from this place; from any when empty
--          force?    bool    even when a worker holds it
--          each      (id bytes, token? str, line? bytes)
-- returns each  moved        (place str, score str, record bytes, body bytes, line bytes, errors bytes)  deleted
--               reserved     a worker holds it; force it, or cancel it
--               stale        another lease holds it now
--               changed      it has changed since it was read, and stays
--               wrong_place  (place str)  it is in another place
--               gone         no such job
-- include: keys, args
local version, watch, last_minute = unpack(redis.call('HMGET', meta, 'version', 'events', 'minute'))
-- include: key_types(jobs bodies attempts errors events minutes), opening, place_of, batch
local outcomes, moved_ids, seen = {}, {}, {}
local leaves = {scheduled = {}, ready = {}, reserved = {}, done = {}, dead = {}}
for at = 4, #ARGV, 3 do
  local id = ARGV[at]
  local from = not seen[id] and place_of(id)
  local line = redis.call('HGET', attempts, id) or ''
  local is_held = from == 'reserved'
  if not from then
    outcomes[#outcomes + 1] = 'gone'
  elseif place ~= '' and place ~= from then
    outcomes[#outcomes + 1] = {'wrong_place', from}
  elseif is_held and ARGV[at + 1] ~= '' and ARGV[at + 1] ~= string.match(line, '^%d+ (%S+) ') then
    outcomes[#outcomes + 1] = 'stale'
  elseif is_held and not force then
    outcomes[#outcomes + 1] = 'reserved'
  elseif ARGV[at + 2] ~= '' and ARGV[at + 2] ~= (line == '' and '-' or line) then
    outcomes[#outcomes + 1] = 'changed'
  else
    outcomes[#outcomes + 1] = {
      'moved', from, redis.call('ZSCORE', places[from], id), redis.call('HGET', jobs, id) or '',
      redis.call('HGET', bodies, id) or '', line, redis.call('HGET', errors, id) or '',
    }
    seen[id], moved_ids[#moved_ids + 1] = true, id
    table.insert(leaves[from], id)
  end
end
if #moved_ids == 0 then return outcomes end

for from, ids in pairs(leaves) do
  if #ids > 0 then redis.call('ZREM', places[from], unpack(ids)) end
end
for _, key in ipairs({jobs, bodies, attempts, errors}) do redis.call('HDEL', key, unpack(moved_ids)) end
-- include: minute, record_events
note('HINCRBY', meta, 'deleted', #moved_ids)
record_events('delete', moved_ids)
return outcomes
