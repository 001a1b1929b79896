-- Find the place of a job. The types of all places are checked first.
--
-- needs    scheduled ready reserved done dead
-- gives    place_of
--          places  the keys of the places, by name
local places = {scheduled = scheduled, ready = ready, reserved = reserved, done = done, dead = dead}
for _, key in pairs(places) do redis.call('ZCARD', key) end
local function place_of(id)
  for name, key in pairs(places) do
    if redis.call('ZSCORE', key, id) then return name end
  end
end
