-- The keys of the eight places of a queue.
--
-- needs    delayed waiting_children prioritized wait paused active completed failed
-- gives    sets   the keys of the sorted sets, by place
--          lists  the keys of the lists, by place
local sets = {delayed = delayed, waiting_children = waiting_children, prioritized = prioritized, completed = completed, failed = failed}
local lists = {wait = wait, paused = paused, active = active}
