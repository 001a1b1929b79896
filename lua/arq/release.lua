-- Release running jobs, whose worker died: delete the in-progress keys, so that another worker starts them now.
--
-- Redis does not store which worker runs a job, nor whether it is alive. A job whose worker is alive runs twice. Without a release the
-- key expires after the longest job timeout of the worker and 10 s. `token` is the time (ms) at which the key expires, as it was read.
--
-- moves    in_progress -> deferred | queued
-- derived  arq:in-progress:<id>
-- KEYS     ids
-- ARGV     now_ms?  int  a test's clock; the server's when empty
--          each     (id bytes, token str)
-- returns each  moved  released
--               stale  no worker runs it any more, or another one started it
--               gone   it is not in the queue
-- include: keys, integers, key_types, batch_size, server_time, columns
local SAME_MS = 9000 -- a key of another run expires at least 10 s after this one
local outcomes, keys = {}, {}
for at = scalars + 1, #ARGV, columns do
  local id, token = ARGV[at], tonumber(ARGV[at + 1])
  local left_ms = redis.call('PTTL', 'arq:in-progress:' .. id)
  local is_same = left_ms == -1 and token == -1 or token and left_ms >= 0 and math.abs(now_ms + left_ms - token) <= SAME_MS
  if not redis.call('ZSCORE', ids, id) then
    outcomes[#outcomes + 1] = 'gone'
  elseif left_ms == -2 or not is_same then
    outcomes[#outcomes + 1] = 'stale'
  else
    outcomes[#outcomes + 1], keys[#keys + 1] = 'moved', 'arq:in-progress:' .. id
  end
end
if #keys > 0 then redis.call('DEL', unpack(keys)) end
return outcomes
