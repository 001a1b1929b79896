-- List the jobs of processes that stopped sending heartbeats, with the exact bytes of each job.
--
-- There is one row per process, with an empty `job`, and one row per job of each process without a heartbeat for 20 s
-- or without its own hash. `beat_ms` is the age of the last heartbeat, -1 if it is unknown. `left_ms` is the time until
-- Redis deletes the jobs. Jobs of more than 1 MB, and jobs beyond 4 MB in total, are left out.
--
-- derived  <prefix><identity>
--          <prefix><identity>:work
--          <prefix><identity>:workers
-- KEYS     processes
-- ARGV     now_ms?  int  a test's clock; the server's when empty
--          prefix   str  the prefix of all keys: the namespace and a colon, or nothing
-- returns  listed  (now_ms int)  rows (worker bytes, beat_ms int, thread bytes, queue str, job bytes, run_at str, left_ms int)
-- include: keys, clock, prefix, processes, is_alive, works, decode
local rows, bytes = {}, 0
each_process(function(identity, _, age_ms)
  rows[#rows + 1] = {identity, age_ms, '', '', '', '', -1}
  if is_alive(age_ms) then return end
  each_work(identity, function(tid, entry, key)
    local run = decode(#entry <= 1100000 and entry or '')
    if run and type(run.payload) == 'string' and type(run.queue) == 'string' then
      bytes = bytes + #run.payload
      if bytes <= 4194304 then
        rows[#rows + 1] = {identity, age_ms, tid, run.queue, run.payload, tostring(run.run_at or ''), redis.call('PTTL', key)}
      end
    end
  end)
end)
return {'listed', now_ms, rows}
