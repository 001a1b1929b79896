-- List the running jobs of a queue in the order of their start. A payload that is not a string is empty.
--
-- needs    each_process each_work queue_of decode
--          name  of the queue
-- gives    running  the jobs as {start, thread, identity, payload, age of the heartbeat in ms or -1}, and whether these are all
-- include: processes, works, queue_of, decode
local function running()
  local jobs, are_all_jobs_read = {}, true
  local are_all_processes_read = each_process(function(identity, _, age_ms)
    local is_all = each_work(identity, function(tid, entry)
      if queue_of(entry) == name then
        local run = decode(entry) or {}
        local payload = type(run.payload) == 'string' and run.payload or ''
        jobs[#jobs + 1] = {tonumber(run.run_at) or 0, tid, identity, payload, age_ms}
      end
    end)
    are_all_jobs_read = are_all_jobs_read and is_all
  end)
  table.sort(jobs, function(a, b)
    if a[1] ~= b[1] then return a[1] < b[1] end
    return a[3] .. a[2] < b[3] .. b[2]
  end)
  return jobs, are_all_processes_read and are_all_jobs_read
end
