-- Read the jobs that a process runs, and the age of its last heartbeat.
--
-- needs    prefix heartbeat_age_ms decode
-- gives    SILENT_MS  a process without a heartbeat for this long is dead; it sends one every 10 s
--          silent_ms  the time since the last heartbeat; nil if the keys of the process are missing
--          held       the hash of the running jobs, and {thread, queue, payload, start} of each that can be decoded
-- include: heartbeat, decode
local SILENT_MS = 30000
local function silent_ms(identity)
  local beat = redis.pcall('HGET', prefix .. identity, 'beat')
  local age_ms = type(beat) == 'string' and heartbeat_age_ms(identity, beat) or -1
  return age_ms ~= -1 and age_ms or nil
end
local function held(identity)
  local key, flat = prefix .. identity .. ':work', nil -- Sidekiq before version 7 uses `:workers`.
  for _, candidate in ipairs({key, prefix .. identity .. ':workers'}) do
    local entries = redis.pcall('HGETALL', candidate)
    if not entries.err and #entries > 0 and not flat then key, flat = candidate, entries end
  end
  local jobs = {}
  for i = 1, #(flat or {}), 2 do
    local run = decode(flat[i + 1])
    if run and type(run.queue) == 'string' and type(run.payload) == 'string' then
      jobs[#jobs + 1] = {flat[i], run.queue, run.payload, tonumber(run.run_at) or 0}
    end
  end
  return key, jobs
end
