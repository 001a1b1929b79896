-- Check whether a job is the next one of a scheduler.
--
-- needs    repeat_
-- gives    is_next
local function is_next(id, scheduler) -- its worker creates the job after it, so the scheduler stops without it
  local at = (scheduler or '') ~= '' and redis.call('ZSCORE', repeat_, scheduler)
  return at and id == 'repeat:' .. scheduler .. ':' .. string.format('%.0f', tonumber(at)) or false
end
