-- Find the place of a job, which its hash does not contain. In a list, the script searches near both ends.
--
-- needs    is_sound find_in_list
--          sets   keys by place; the block removes keys of another type
--          lists  keys by place
-- gives    find_place
--          lengths  of the lists
-- include: is_sound, find_in_list
local lengths = {}
for name, key in pairs(sets) do
  if not is_sound('ZCARD', key) then sets[name] = nil end
end
for name, key in pairs(lists) do lengths[name] = is_sound('LLEN', key) and redis.call('LLEN', key) or 0 end
local function find_place(id)
  for name, key in pairs(sets) do
    if redis.call('ZSCORE', key, id) then return name end
  end
  for name, key in pairs(lists) do
    if #find_in_list(key, lengths[name], id, -1) > 0 then return name end
  end
end
