-- Return the reply for a job that a verb cannot change.
--
-- needs    is_hidden
-- gives    refusal
-- include: is_hidden
local function refusal(place, sources, hash) -- nil if the verb can change the job; `hash` is nil if the job has none
  if not place then return is_hidden() and 'later' or 'gone' end
  if not sources[place] then return {'wrong_place', place} end
  return not hash and 'ghost' or nil
end
