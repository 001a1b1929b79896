-- Check the first two arguments, `now_ms?` and `prefix`.
--
-- needs    ARGV[1]  now_ms?
if #ARGV < 2 or #ARGV[1] > 15 or string.find(ARGV[1], '%D') then
  return redis.error_reply('ERR now_ms is a whole number; nothing was changed')
end
