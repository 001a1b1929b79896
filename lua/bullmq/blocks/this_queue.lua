-- Read the state of the script's queue before the first write.
--
-- needs    read_queue p prioritized wait paused active meta pc marker events
-- gives    queue
-- include: read_queue
local queue = read_queue(p, {wait = wait, paused = paused, prioritized = prioritized, active = active, meta = meta, pc = pc, marker = marker, events = events})
