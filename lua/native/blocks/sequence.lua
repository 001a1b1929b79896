-- Check the sequence number of `ready`, from which the script counts on.
--
-- needs    meta
--          seq  the field `seq` of `meta`
if seq and not string.match(seq, '^%d+$') then
  return redis.error_reply('ERR the field seq of ' .. meta .. ' is not a number; nothing was changed')
end
