-- Where a job is.
-- needs    scheduled ready reserved done dead
-- gives    places, keys by name; place_of
local places = {scheduled = scheduled, ready = ready, reserved = reserved, done = done, dead = dead}
local function place_of(id)
  for name, key in pairs(places) do
    if redis.call('ZSCORE', key, id) then return name end
  end
end
