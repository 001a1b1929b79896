-- sidekiq: what a process holds, and whether it beats.
-- needs    prefix, now_ms
-- gives    SILENT_MS  without a beat for so long, a process is dead: it beats every 10 s
--          silent_ms  since its last beat; nil where its keys are gone
--          held       the hash of what it holds, and tid and {queue, payload, run_at} of each that can be read
local SILENT_MS = 30000
local function silent_ms(identity)
  local beat = redis.pcall('HGET', prefix .. identity, 'beat')
  return type(beat) == 'string' and tonumber(beat) and now_ms - tonumber(beat) * 1000 or nil
end
local function held(identity)
  local key, flat = prefix .. identity .. ':work', nil -- sidekiq/launcher.rb 7 and later; `:workers` before
  for _, each in ipairs({key, prefix .. identity .. ':workers'}) do
    local found = redis.pcall('HGETALL', each)
    if not found.err and #found > 0 and not flat then key, flat = each, found end
  end
  local jobs = {}
  for i = 1, #(flat or {}), 2 do
    local is_json, told = pcall(cjson.decode, flat[i + 1])
    if is_json and type(told) == 'table' and type(told.queue) == 'string' and type(told.payload) == 'string' then
      jobs[#jobs + 1] = {flat[i], told.queue, told.payload, tonumber(told.run_at) or 0}
    end
  end
  return key, jobs
end
