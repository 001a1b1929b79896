-- Record one event per job, if events of this queue are recorded now.
--
-- needs    now_ms note events
--          watch          the field `events` of `meta`
-- gives    record_events
-- include: note
local function record_events(verb, job_ids, first, step) -- with a step, the ids are among other values of the list
  if watch == 'on' or (tonumber(watch) or 0) > now_ms then
    for at = first or 1, #job_ids, step or 1 do note('XADD', events, 'MAXLEN', '~', 10000, '*', 'verb', verb, 'id', job_ids[at]) end
  end
end
