-- Sidekiq: the running jobs of a queue, by when they began. A payload that is no text is no job.
-- needs    name each_process each_work queue_of
-- gives    running
local function running() -- of {run_at, tid, identity, payload, age of the beat in ms or -1}; whether those are all
  local found, are_all_looked_at = {}, true
  local are_all_met = each_process(function(identity, _, age_ms)
    local is_all = each_work(identity, function(tid, entry)
      if queue_of(entry) == name then
        local is_read, told = pcall(cjson.decode, entry)
        told = is_read and type(told) == 'table' and told or {}
        local payload = type(told.payload) == 'string' and told.payload or ''
        found[#found + 1] = {tonumber(told.run_at) or 0, tid, identity, payload, age_ms}
      end
    end)
    are_all_looked_at = are_all_looked_at and is_all
  end)
  table.sort(found, function(a, b)
    if a[1] ~= b[1] then return a[1] < b[1] end
    return a[3] .. a[2] < b[3] .. b[2]
  end)
  return found, are_all_met and are_all_looked_at
end
