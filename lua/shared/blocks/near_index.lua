-- Compute the index of an entry of a list from the nearer end: Redis walks to it from the end that its sign names.
--
-- gives    near_index
local function near_index(at, length) return at * 2 < length and at or at - length end
