-- Call a function for each running job of a process. Returns false if the process has too many to visit all.
--
-- needs    each_held_key
-- gives    each_work
-- include: held_keys
local function each_work(identity, visit) -- visit(thread, stored entry, key)
  return each_held_key(identity, function(key)
    local entries = redis.call('HGETALL', key)
    for i = 1, #entries, 2 do visit(entries[i], entries[i + 1], key) end
  end)
end
