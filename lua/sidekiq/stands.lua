-- Find which jobs of a killed process are stored in Redis: they were put back, or were never lost.
--
-- The first and the last 10 000 jobs of the queue are searched for the bytes of each job. The running jobs, the first
-- 500 jobs of `schedule` and of `retry`, and the last 500 of `dead` are searched for its `jid`.
--
-- derived  <prefix><identity>
--          <prefix><identity>:work
--          <prefix><identity>:workers
-- KEYS     schedule retry queue dead processes
-- ARGV     now_ms?  int  a test's clock; the server's when empty
--          prefix   str  the prefix of all keys: the namespace and a colon, or nothing
--          each     (id bytes, member bytes)  the jobs, up to 1000
-- returns  looked  (now_ms int)  rows (id bytes, place str)  the jobs that were found
-- include: keys
if #ARGV > 2002 or #ARGV % 2 ~= 0 then return redis.error_reply('ERR it takes 2 arguments and up to 1000 rows; nothing was changed') end
-- include: clock, prefix, processes, works
local place_of, rows = {}, {}
local function store_place(text, place)
  for jid in string.gmatch(text, '"jid": ?"([^"]+)"') do place_of[jid] = place_of[jid] or place end
end
if #ARGV > 2 then
  each_process(function(identity)
    each_work(identity, function(_, entry)
      for jid in string.gmatch(entry, '\\"jid\\": ?\\"([^"\\]+)\\"') do place_of[jid] = 'work' end
    end)
  end)
  for _, each in ipairs({{'schedule', schedule, 0, 499}, {'retry', retry, 0, 499}, {'dead', dead, -500, -1}}) do
    local found = redis.pcall('ZRANGE', each[2], each[3], each[4])
    for at = 1, found.err and 0 or #found do store_place(found[at], each[1]) end
  end
end
for at = 3, #ARGV, 2 do
  local id, member = ARGV[at], ARGV[at + 1]
  local place = place_of[id]
  if not place then
    local first = redis.pcall('LPOS', queue, member, 'RANK', -1, 'MAXLEN', 10000) or redis.pcall('LPOS', queue, member, 'MAXLEN', 10000)
    place = type(first) == 'number' and 'queue' or nil
  end
  if place then rows[#rows + 1] = {id, place} end
end
return {'looked', now_ms, rows}
