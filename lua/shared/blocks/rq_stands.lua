-- rq: where a job stands: in the registry that its status names, else in any, else in the list.
-- needs    registries, key by place; positions
-- gives    place_of
local function place_of(id, status)
  local named = status == 'stopped' and 'failed' or status
  if registries[named] and redis.call('ZSCORE', registries[named], id) then return named end
  for _, name in ipairs({'scheduled', 'deferred', 'ready_to_enqueue', 'finished', 'failed', 'canceled'}) do
    if registries[name] and redis.call('ZSCORE', registries[name], id) then return name end
  end
  if status == 'started' then return 'started' end
  return #positions(id) > 0 and 'queued' or nil
end
