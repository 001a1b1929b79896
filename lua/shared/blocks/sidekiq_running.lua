-- Sidekiq: the running jobs of a queue, by when they began. A payload that is no text is no job.
-- needs    name each_process each_work queue_of
-- gives    running
local function running() -- of {run_at, tid, identity, payload, age of the beat in ms or -1}
  local found = {}
  each_process(function(identity, _, age_ms)
    each_work(identity, function(tid, entry)
      if queue_of(entry) == name then
        local is_read, told = pcall(cjson.decode, entry)
        told = is_read and type(told) == 'table' and told or {}
        local payload = type(told.payload) == 'string' and told.payload or ''
        found[#found + 1] = {tonumber(told.run_at) or 0, tid, identity, payload, age_ms}
      end
    end)
  end)
  table.sort(found, function(a, b)
    if a[1] ~= b[1] then return a[1] < b[1] end
    return a[3] .. a[2] < b[3] .. b[2]
  end)
  return found
end
