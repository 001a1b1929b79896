-- Release the deduplication key of a job that is deleted or has ended.
--
-- needs    p
-- gives    free_dedup
local function free_dedup(id, deid, is_ended) -- after the end of a job, a key with an expiry stays until then
  local key = p .. 'de:' .. (deid or '')
  if (deid or '') == '' or redis.pcall('GET', key) ~= id or is_ended and redis.call('PTTL', key) > 0 then return end
  redis.call('DEL', key)
  if not is_ended then redis.call('DEL', p .. 'dn:' .. deid) end
end
