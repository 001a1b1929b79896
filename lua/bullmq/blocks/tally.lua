-- Count the jobs of one queue. Most places are empty, so EXISTS first counts the places that are not.
--
-- needs    call now_ms
-- gives    tally
local function whole(value) -- a count or a time in a hash; 0 for another value
  return type(value) == 'string' and #value < 16 and string.find(value, '^%d+$') and tonumber(value) or 0
end
local function ready_since(job) -- the latest of its arrival, its due time and its previous run; unknown after a requeue
  local length = redis.pcall('HSTRLEN', job, 'opts')
  if type(length) ~= 'number' then return nil end
  local values = redis.call('HMGET', job, 'timestamp', 'processedOn', 'atm')
  if not values[2] and whole(values[3]) > 0 then return nil end -- a requeue removes the time of the last run
  local is_read, opts = pcall(cjson.decode, length <= 4096 and redis.call('HGET', job, 'opts') or '')
  local delay = is_read and type(opts) == 'table' and tonumber(opts.delay) or 0
  return values[1] and math.max(whole(values[1]) + math.max(0, math.min(delay, 1e13)), whole(values[2]))
end
local commands = {'ZCARD', 'ZCARD', 'ZCARD', 'LLEN', 'LLEN', 'LLEN', 'ZCARD', 'ZCARD'}
local likeliest = {7, 8, 4, 6, 1, 3, 2, 5}
local function tally(places, beside) -- a count per place, then the columns of `counts`
  local row, left = {0, 0, 0, 0, 0, 0, 0, 0, -1, -1, 0, -1, 0, 0, 0, 0, 0, 0, -1, -1}, redis.call('EXISTS', unpack(places))
  local meta_key, counter, good, bad = unpack(beside)
  for _, at in ipairs(likeliest) do
    if left == 0 then break end
    row[at] = call(commands[at], places[at]) or 0
    if row[at] > 0 then left = left - 1 end
  end
  local p = string.sub(meta_key, 1, -5)
  local oldest = row[4] > 0 and redis.call('LINDEX', places[4], -1) or row[5] > 0 and redis.call('LINDEX', places[5], -1)
    or row[3] > 0 and redis.call('ZRANGE', places[3], 0, 0)[1]
  local since = oldest and ready_since(p .. oldest)
  if since then row[9] = math.max(0, now_ms - since) end
  if row[1] > 0 then
    row[10] = math.floor(tonumber(redis.call('ZRANGE', places[1], 0, 0, 'WITHSCORES')[2]) / 4096)
    if row[10] < 0 or row[10] > 1e13 then row[10] = -1 end
    row[11] = redis.call('ZCOUNT', places[1], '-inf', string.format('%.0f', now_ms * 4096 + 4095))
  end
  if row[6] > 0 then -- the oldest runs; a lock is the only sign that a worker runs a job
    local first_ms
    for _, run in ipairs(redis.call('LRANGE', places[6], -20, -1)) do
      local left_ms = redis.call('PTTL', p .. run .. ':lock')
      if left_ms == -2 then row[13] = row[13] + 1 end
      local until_ms = now_ms + math.max(0, left_ms)
      first_ms = math.min(first_ms or until_ms, until_ms)
    end
    row[12] = first_ms
  end
  local values = call('HMGET', meta_key, 'paused', 'concurrency', 'max', 'duration') or {}
  row[14], row[15], row[16], row[17] = values[1] and 1 or 0, whole(values[2]), whole(values[3]), whole(values[4])
  local added = call('GET', counter)
  row[18] = added == nil and -1 or whole(added)
  if row[18] ~= 0 and redis.call('EXISTS', good, bad) > 0 then
    local succeeded, died = call('HGET', good, 'count'), call('HGET', bad, 'count')
    if succeeded ~= nil and died ~= nil then row[19], row[20] = whole(succeeded), whole(died) end
  end
  return row
end
