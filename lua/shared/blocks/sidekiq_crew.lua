-- Sidekiq: what processes hold of each queue, and how many beating ones work on it, by its name, or of `only` one.
-- needs    only each_process each_held_key queue_of
-- gives    work expired workers has_others_at_work work_exact
local work, expired, workers, has_others_at_work = {}, {}, {}, false
local are_all_looked_at = true
local are_all_met = each_process(function(identity, info, age_ms)
  local is_late = age_ms < 0 or age_ms > 20000
  local is_read, told = pcall(cjson.decode, not is_late and info or '')
  if is_read and type(told) == 'table' then
    local named = {}
    for _, name in ipairs(type(told.queues) == 'table' and told.queues or {}) do named[name] = true end
    for _, capsule in pairs(type(told.capsules) == 'table' and told.capsules or {}) do
      local weights = type(capsule) == 'table' and capsule.weights
      for name in pairs(type(weights) == 'table' and weights or {}) do named[name] = true end
    end
    for name in pairs(named) do
      if not only or name == only then workers[name] = (workers[name] or 0) + 1 end
    end
  end
  local is_all = each_held_key(identity, function(key)
    for _, entry in ipairs(redis.call('HVALS', key)) do
      local name = queue_of(entry)
      if only and name ~= only then
        has_others_at_work = true
      else
        work[name] = (work[name] or 0) + 1
        if is_late then expired[name] = (expired[name] or 0) + 1 end
      end
    end
  end)
  are_all_looked_at = are_all_looked_at and is_all
end)
local work_exact = are_all_met and are_all_looked_at and 1 or 0
