-- Check that the keys of the queue begin with the prefix, which is the first argument.
--
-- needs    p meta
if #ARGV < 1 or p == '' or string.sub(meta, 1, #p) ~= p then
  return redis.error_reply('ERR it takes what the keys begin with; nothing was changed')
end
