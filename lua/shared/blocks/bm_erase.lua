-- bullmq: all that is kept of a job goes. A ghost's hash goes only if a worker wrote it.
-- needs    p
-- gives    erase
local function erase(id)
  local key = p .. id
  for _, field in ipairs({'name', 'ats', 'atm', 'stc'}) do
    if redis.pcall('HEXISTS', key, field) == 1 then redis.call('DEL', key) end
  end
  redis.call('DEL', key .. ':logs', key .. ':dependencies', key .. ':processed', key .. ':failed', key .. ':unsuccessful')
end
