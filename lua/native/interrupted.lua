-- Find jobs that were running when their workers died, at least twice, or that ran longer than their lease on a living worker.
--
-- Reads the newest dead jobs, the first ready jobs and the leases that expire first, `limit` of each. A job is returned
-- if at least two of its attempts ended because the lease expired, or one whose worker still sends heartbeats. `workers` counts those
-- of these attempts whose worker no longer sends heartbeats. `since_ms` is the time when the first of these attempts ended.
-- `record` is the beginning of the job's record, with its kind.
--
-- KEYS     ready reserved dead errors meta workers jobs
-- ARGV     now_ms?    int  a test's clock; the server's when empty
--          within_ms  int  dead jobs that died longer ago are left out
--          limit      int  jobs that are read of each place, 1 to 1000
-- returns  found  rows (id bytes, place str, leases int, workers int, since_ms int, record bytes)  a row per job
-- include: keys, args
if #ARGV < 3 or string.find(ARGV[1] .. ARGV[2] .. ARGV[3], '%D') or #ARGV[1] > 13 or not limit or limit < 1 or limit > 1000
  or not within_ms then
  return redis.error_reply('ERR limit is 1 to 1000, now_ms and within_ms are whole numbers')
end
if (tonumber(redis.call('HGET', meta, 'expired')) or 0) < 1 then return {'found', {}} end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local function is_alive(name)
  local beat, ttl = string.match(redis.call('HGET', workers, name) or '', '^(%d+) (%d+) ')
  return beat and now_ms - tonumber(beat) <= tonumber(ttl)
end
local ids = {
  reserved = redis.call('ZRANGE', reserved, 0, limit - 1),
  ready = redis.call('ZRANGE', ready, 0, limit - 1),
  dead = {},
}
local newest = redis.call('ZRANGE', dead, -limit, -1, 'WITHSCORES')
for i = 1, #newest, 2 do
  if tonumber(newest[i + 1]) >= now_ms - within_ms then ids.dead[#ids.dead + 1] = newest[i] end
end
local rows = {}
for _, place in ipairs({'reserved', 'ready', 'dead'}) do
  local histories = #ids[place] > 0 and redis.call('HMGET', errors, unpack(ids[place])) or {}
  for i, history in ipairs(histories) do
    local ok, attempts = pcall(cjson.decode, history and string.find(history, 'the lease expired', 1, true) and history or '[]')
    local leases, died, since = 0, 0, 0
    for _, attempt in ipairs(ok and type(attempts) == 'table' and attempts or {}) do
      if type(attempt) == 'table' and attempt[4] == 'the lease expired' then
        leases = leases + 1
        if since == 0 then since = tonumber(attempt[2]) or 0 end
        if not is_alive(tostring(attempt[3])) then died = died + 1 end
      end
    end
    if leases >= 2 or leases > died then
      local record = redis.call('HGET', jobs, ids[place][i]) or ''
      rows[#rows + 1] = {ids[place][i], place, leases, died, since, string.sub(string.match(record, '^[^\n]*') or '', 1, 1000)}
    end
  end
end
return {'found', rows}
