-- Check whether only one database of the server has keys.
--
-- gives    is_only_database
local function is_only_database() -- false if an ACL denies INFO, because the answer is unknown then
  local reply, number = redis.pcall('INFO', 'keyspace'), 0
  for _ in string.gmatch(type(reply) == 'string' and reply or '', 'db%d+:keys=%d') do number = number + 1 end
  return number == 1
end
