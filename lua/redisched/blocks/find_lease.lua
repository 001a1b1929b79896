-- Find the lease that a row of id and token names. Without one, the reply is added.
--
-- needs    queued reserved
-- gives    outcomes
--          find_lease  returns the deadline of the lease; nothing if the reply was added
local outcomes, seen = {}, {}
local function find_lease(id, token)
  local deadline = tonumber(not seen[id] and redis.call('ZSCORE', reserved, id) or nil)
  if deadline and deadline == tonumber(token) then
    seen[id] = true
    return deadline
  end
  outcomes[#outcomes + 1] = (seen[id] or deadline or redis.call('ZSCORE', queued, id)) and 'stale' or 'gone'
end
