-- What `errors` holds of a job that failed once more.
-- needs    errors now_ms
-- gives    failed
local function failed(id, start, worker, why) -- the history of a job with one more failure
  local ok, list = pcall(cjson.decode, redis.call('HGET', errors, id) or '[]')
  if not ok or type(list) ~= 'table' or #list == 0 then list = {} end -- also one that is no list
  list[#list + 1] = {start, now_ms, worker, string.sub(why, 1, 2000)}
  if #list > 10 then table.remove(list, 1) end
  return cjson.encode(list)
end
