-- The sorted sets of a queue from which verbs take jobs.
--
-- needs    scheduled deferred ready_to_enqueue finished failed canceled
-- gives    registries  the keys of the sorted sets, by place
local registries = {scheduled = scheduled, deferred = deferred, ready_to_enqueue = ready_to_enqueue, finished = finished,
  failed = failed, canceled = canceled}
