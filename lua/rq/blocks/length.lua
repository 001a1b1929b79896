-- Read the length of the list of a queue, and search in the list.
--
-- needs    is_sound queued
-- gives    length
-- include: is_sound, find_in_list
local length = is_sound('LLEN', queued) and redis.call('LLEN', queued) or 0
