-- Check the arguments of a script that chooses up to `limit` jobs by itself.
--
-- needs    limit    the number in ARGV[2]
--          ARGV[1]  now_ms?
--          ARGV[2]  limit
if #ARGV < 2 or string.find(ARGV[1] .. ARGV[2], '%D') or #ARGV[1] > 13 or not limit or limit < 1 or limit > 1000 then
  return redis.error_reply('ERR limit is 1 to 1000, now_ms a whole number; nothing was changed')
end
