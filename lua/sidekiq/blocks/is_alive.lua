-- Tell whether a process is alive by the age of its last heartbeat, which it sends every 10 s.
--
-- gives    is_alive
local function is_alive(age_ms) return age_ms ~= -1 and age_ms <= 20000 end
