-- Check the range of a page and count the jobs of its place. Offset -1 is the last page, -1 - n the one that ends n before the end.
--
-- needs    sets     the keys of the sorted sets, by place
--          lists    the keys of the lists, by place
--          ARGV[3]  place
--          ARGV[4]  offset
--          ARGV[5]  limit
--          ARGV[6]  body_bytes
-- gives    place offset limit total
--          most  return `data` up to this number of bytes
local place, offset, limit, body_bytes = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
if not sets[place] and not lists[place] then return redis.error_reply('ERR there is no place ' .. place) end
if not limit or limit < 1 or limit > 1000 or not offset or not body_bytes then
  return redis.error_reply('ERR offset and body_bytes are whole numbers, limit is 1 to 1000')
end
local most = body_bytes < 0 and math.huge or math.max(4096, body_bytes)
local total = sets[place] and redis.call('ZCARD', sets[place]) or redis.call('LLEN', lists[place])
offset = offset < 0 and math.max(0, total - limit + offset + 1) or offset + 0 -- `+ 0` turns -0 into 0
