-- Cancel running jobs: ask their worker to abort them. The jobs then fail with CancelledError.
--
-- Only a worker with `allow_abort_jobs` looks at the request, at its next poll. Other workers ignore it.
--
-- writes   abort
-- derived  arq:in-progress:<id>
-- KEYS     ids abort
-- ARGV     now_ms?  int  a test's clock; the server's when empty
--          each     (id bytes)
-- returns each  asked        asked to cancel; a worker without allow_abort_jobs runs it to its end
--               already      it was asked before
--               wrong_place  no worker runs it; delete it
--               gone         it is not in the queue
-- include: keys, integers, key_types, batch_size, server_time, columns
local outcomes, entries = {}, {}
for at = scalars + 1, #ARGV, columns do
  local id = ARGV[at]
  if not redis.call('ZSCORE', ids, id) then
    outcomes[#outcomes + 1] = 'gone'
  elseif redis.call('EXISTS', 'arq:in-progress:' .. id) == 0 then
    outcomes[#outcomes + 1] = 'wrong_place'
  elseif redis.call('ZSCORE', abort, id) then
    outcomes[#outcomes + 1] = 'already'
  else
    outcomes[#outcomes + 1], entries[#entries + 1], entries[#entries + 2] = 'asked', string.format('%.0f', now_ms), id
  end
end
if #entries == 0 then return outcomes end

redis.call('ZREMRANGEBYRANK', abort, 1, 0) -- removes nothing, but lets the script continue over maxmemory
redis.call('ZADD', abort, unpack(entries))
return outcomes
