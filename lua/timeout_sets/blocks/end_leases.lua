-- End the leases of a batch: move the items that their worker holds from in_progress to another set, and reply.
--
-- needs    in_progress prefix read_lock
--          target               the set to which the items go
--          find_missing_reason  the word for an item that is not in progress, by item and whether this batch moved it
if #ARGV < 3 or #ARGV > 2001 or #ARGV % 2 == 0 then
  return redis.error_reply('ERR a batch has 1 to 1000 rows of member and token; nothing was changed')
end
local outcomes, moved = {}, {}
for at = 2, #ARGV, 2 do
  local item, token = ARGV[at], ARGV[at + 1]
  local left_ms, lock = read_lock(item)
  local word = 'moved'
  if moved[item] or redis.call('SISMEMBER', in_progress, item) == 0 then
    word = find_missing_reason(item, moved[item])
  elseif left_ms == -3 then
    word = 'wrong_type'
  elseif lock ~= token then
    word = 'stale'
  else
    moved[item], moved[#moved + 1] = true, item
  end
  outcomes[#outcomes + 1] = word
end

for i = 1, #moved do
  redis.call('SMOVE', in_progress, target, moved[i])
  redis.pcall('DEL', prefix .. moved[i] .. '-lock') -- a lock that stays expires by itself
end
return outcomes
