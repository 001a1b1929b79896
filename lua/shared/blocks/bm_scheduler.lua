-- bullmq: whether a job is the next one of a scheduler.
-- needs    schedulers, the key `repeat`
-- gives    is_next
local function is_next(id, scheduler) -- its worker makes the one after it: without it the scheduler stands still
  local at = (scheduler or '') ~= '' and redis.call('ZSCORE', schedulers, scheduler)
  return at and id == 'repeat:' .. scheduler .. ':' .. string.format('%.0f', tonumber(at)) or false
end
