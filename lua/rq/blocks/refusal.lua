-- Return the reply for a job that a verb cannot change.
--
-- gives    refusal
local function refusal(place, sources, hash) -- nil if the verb can change the job, or if the job is in no place
  if not place then return hash and hash[1] == 'rate_limited' and 'limited' or nil end
  if not sources[place] then return {'wrong_place', place} end
  if not hash then return 'ghost' end
  return (hash[2] or '') ~= '' and 'limited' or nil
end
