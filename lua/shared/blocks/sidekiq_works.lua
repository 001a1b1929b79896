-- Sidekiq: what a process runs; it tells whether it has looked at all of that.
-- needs    each_held_key
-- gives    each_work
local function each_work(identity, look) -- look(tid, entry as it stands, key)
  return each_held_key(identity, function(key)
    local held = redis.call('HGETALL', key)
    for i = 1, #held, 2 do look(held[i], held[i + 1], key) end
  end)
end
