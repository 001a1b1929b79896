-- bullmq: how a job that goes, or has ended, lets its deduplication key go.
-- needs    p
-- gives    free
local function free(id, deid, is_ended) -- one that is kept for a time stays that long when the job has ended
  local key = p .. 'de:' .. (deid or '')
  if (deid or '') == '' or redis.pcall('GET', key) ~= id or is_ended and redis.call('PTTL', key) > 0 then return end
  redis.call('DEL', key)
  if not is_ended then redis.call('DEL', p .. 'dn:' .. deid) end
end
