-- Read the time, and refuse a queue whose schema version these scripts do not support.
--
-- needs    version  the field `version` of `meta`
-- include: server_time
if version and version ~= '2' and version ~= '1' then
  return redis.error_reply('ERR this queue has schema version ' .. version .. ', these scripts speak 1 and 2; nothing was changed')
end
