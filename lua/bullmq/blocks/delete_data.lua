-- Delete all data of a job. A hash without a name is deleted only if a worker has written its fields.
--
-- needs    p
-- gives    delete_data
local function delete_data(id)
  local key = p .. id
  for _, field in ipairs({'name', 'ats', 'atm', 'stc'}) do
    if redis.pcall('HEXISTS', key, field) == 1 then redis.call('DEL', key) end
  end
  redis.call('DEL', key .. ':logs', key .. ':dependencies', key .. ':processed', key .. ':failed', key .. ':unsuccessful')
end
