-- Check a batch of 1 to 1000 rows, and that `now_ms` is a whole number.
--
-- needs    ARGV[1]  now_ms?
-- include: batch_size
if #ARGV[1] > 13 or string.find(ARGV[1], '%D') then return redis.error_reply('ERR now_ms is a whole number; nothing was changed') end
