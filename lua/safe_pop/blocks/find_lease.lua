-- Find the entry of a lease in the list. The token of a lease is its entry.
--
-- needs    time_of index_of
-- gives    find_lease  returns the job's id, whether the token can be a lease, and the index of its entry or nil
-- include: time_of, search
local function find_lease(id, token, is_taken) -- `is_taken`: an earlier row had the same token
  local time, bar = time_of(token)
  if not time then return id, false, nil end
  return string.sub(token, 1, bar - 1), true, not is_taken and index_of(token, 1) or nil
end
