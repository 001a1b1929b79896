-- Read the prefix of all keys from the arguments.
--
-- needs    ARGV[2]  prefix
-- gives    prefix
if #ARGV < 2 then return redis.error_reply('ERR it takes a prefix, which may be empty; nothing was changed') end
local prefix = ARGV[2]
