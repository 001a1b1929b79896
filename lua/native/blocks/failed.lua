-- Build the value of `errors` for a job after a further failure.
--
-- needs    errors now_ms
-- gives    failed
local function failed(id, start, worker, why) -- Return the last ten failures as JSON.
  local ok, list = pcall(cjson.decode, redis.call('HGET', errors, id) or '[]')
  if not ok or type(list) ~= 'table' or #list == 0 then list = {} end -- A value of another type is replaced.
  list[#list + 1] = {start, now_ms, worker, string.sub(why, 1, 2000)}
  if #list > 10 then table.remove(list, 1) end
  return cjson.encode(list)
end
