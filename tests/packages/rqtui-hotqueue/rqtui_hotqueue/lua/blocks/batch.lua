-- The guard of a verb on a batch: the key holds a list, and there are 1 to 1000 rows of one column.
redis.call('LLEN', KEYS[1])
if #ARGV < 1 or #ARGV > 1000 then return redis.error_reply('ERR a batch has 1 to 1000 rows; nothing was changed') end
