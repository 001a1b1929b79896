-- The guard of the number from which the next arrival in `ready` counts on.
-- needs    seq  of `meta`; meta
if seq and not string.match(seq, '^%d+$') then
  return redis.error_reply('ERR the field seq of ' .. meta .. ' is not a number; nothing was changed')
end
