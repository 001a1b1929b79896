-- Count the scores of a topic by their unit. Scores below 10^8 show no unit and are not counted.
--
-- needs    queued reserved
-- gives    S   the lowest score in seconds, as text
--          MS  the lowest score in milliseconds, as text
--          scores_s scores_ms
local S, MS = '100000000', '100000000000'
local scores_s = redis.call('ZCOUNT', queued, S, '(' .. MS) + redis.call('ZCOUNT', reserved, S, '(' .. MS)
local scores_ms = redis.call('ZCOUNT', queued, MS, '(9e15') + redis.call('ZCOUNT', reserved, MS, '(9e15')
