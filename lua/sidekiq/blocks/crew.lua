-- Count the running jobs and the live processes of each queue, or of one queue.
--
-- needs    each_process is_alive each_held_key queue_of process_queues
--          only  the name of the one queue, nil for all
-- gives    work expired workers  numbers by queue: running jobs, those of processes without a heartbeat, and live processes
--          has_others_at_work    whether jobs of other queues are running
--          work_exact            whether all processes and jobs were read: 1 or 0
-- include: processes, is_alive, held_keys, queue_of, process_queues
local work, expired, workers, has_others_at_work = {}, {}, {}, false
local are_all_jobs_read = true
local are_all_processes_read = each_process(function(identity, info, age_ms)
  local is_late = not is_alive(age_ms)
  for name in pairs(process_queues(not is_late and info or '')) do
    if not only or name == only then workers[name] = (workers[name] or 0) + 1 end
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
  are_all_jobs_read = are_all_jobs_read and is_all
end)
local work_exact = are_all_processes_read and are_all_jobs_read and 1 or 0
