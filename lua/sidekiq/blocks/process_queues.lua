-- List the queues that a process works on, as the keys of a table. A process of Sidekiq 7 or later names some of them
-- in its capsules.
--
-- needs    decode
-- gives    process_queues
-- include: decode
local function process_queues(info)
  local process, names = decode(info) or {}, {}
  for _, name in ipairs(type(process.queues) == 'table' and process.queues or {}) do names[name] = true end
  for _, capsule in pairs(type(process.capsules) == 'table' and process.capsules or {}) do
    local weights = type(capsule) == 'table' and capsule.weights
    for name in pairs(type(weights) == 'table' and weights or {}) do names[name] = true end
  end
  return names
end
