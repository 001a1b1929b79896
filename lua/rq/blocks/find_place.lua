-- Find the place of a job: the registry of its status, another registry, or the list.
--
-- needs    is_sound find_in_list queued length
--          registries  keys by place; the block removes keys of another type
-- gives    find_place  it ends the script if the place that the status names has another type
-- include: length
local unsound = {}
for name, key in pairs(registries) do
  if not is_sound('ZCARD', key) then registries[name], unsound[name] = nil, key end
end
local function find_place(id, status)
  local named = status == 'stopped' and 'failed' or status
  if registries[named] and redis.call('ZSCORE', registries[named], id) then return named end
  for _, name in ipairs({'scheduled', 'deferred', 'ready_to_enqueue', 'finished', 'failed', 'canceled'}) do
    if registries[name] and redis.call('ZSCORE', registries[name], id) then return name end
  end
  if status == 'started' then return 'started' end
  if #find_in_list(queued, length, id, 1) > 0 then return 'queued' end
  if unsound[named] then redis.call('ZCARD', unsound[named]) end -- The job is in no place: this error names the key.
  if named == 'queued' then redis.call('LLEN', queued) end
  return nil
end
