-- Whether the record of a job exists and has a body. A key of another type counts as missing.
--
-- gives    has_record
local function has_record(id) return redis.pcall('HEXISTS', 'jobbox:job:' .. id, 'body') == 1 end
