-- Compute the time since the last heartbeat of a process.
--
-- A heartbeat lets the hash of the process expire after 60 s. This time is counted by Redis, so it is right where the clock of
-- the process is not. A hash that never expires, as after a restore, has only the time that the process wrote.
--
-- needs    prefix now_ms at_ms
-- gives    heartbeat_age_ms  -1 if it is unknown
-- include: instant
local LIFE_MS = 60000 -- lib/sidekiq/launcher.rb
local function heartbeat_age_ms(identity, beat)
  local left_ms, beat_ms = redis.call('PTTL', prefix .. identity), at_ms(beat)
  if left_ms >= 0 and left_ms <= LIFE_MS then return LIFE_MS - left_ms end
  return beat_ms ~= -1 and math.max(0, now_ms - beat_ms) or -1
end
