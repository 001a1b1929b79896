-- A script's view of Redis without chance: a clock that stands still, lifetimes in steps, and sets and hashes in the order
-- of their names. `now_s` stands in front of this file. `soak_verdict` wraps redis.call or redis.pcall; it notes the outcomes of
-- write commands in `dirty`, their names in `writes`, and messages in `published`.
local WRITES = {}
for name in string.gmatch('APPEND DEL EXPIRE EXPIREAT HDEL HINCRBY HSET HSETNX INCR INCRBY LINSERT LMOVE LPOP LPUSH LREM '
  .. 'LSET LTRIM PERSIST PEXPIRE PEXPIREAT RENAME RPOP RPOPLPUSH RPUSH SADD SET SMOVE SPOP SREM UNLINK XADD XDEL XTRIM '
  .. 'ZADD ZINCRBY ZPOPMAX ZPOPMIN ZREM ZREMRANGEBYRANK ZREMRANGEBYSCORE ZRANGESTORE HMSET SETEX PSETEX SETNX', '%u+') do
  WRITES[name] = true
end
local LIFETIME_STEPS = {PTTL = 10000, TTL = 10}
local function in_steps(left, step) -- no script sets a lifetime near the bound of a step
  return math.floor(left / step + 0.3333) * step
end
local dirty, published, writes, planted_s = {}, {}, {}, redis.call('TIME')[1]
local function in_order(list, width)
  local rows, found = {}, {}
  for i = 1, #list, width do rows[#rows + 1] = {list[i], list[i + 1]} end
  table.sort(rows, function(a, b) return a[1] < b[1] end)
  for _, row in ipairs(rows) do
    found[#found + 1] = row[1]
    if width == 2 then found[#found + 1] = row[2] end
  end
  return found
end
local function steady(call)
  local function first(command, key, number)
    local members, found = call(command, key), {}
    if members.err then return members end
    members = in_order(members, 1)
    for i = 1, math.min(#members, math.abs(tonumber(number))) do found[i] = members[i] end
    return found
  end
  return function(name, ...)
    local key, number = ...
    if WRITES[name] then
      writes[#writes + 1] = name
      for _, word in ipairs({...}) do dirty[tostring(word)] = true end
    end
    if name == 'TIME' then return {now_s, '999999'} end
    if name == 'PUBLISH' then -- servers order the members of JSON in their own ways
      local letters = {}
      for letter in string.gmatch(number, '.') do letters[#letters + 1] = letter end
      table.sort(letters)
      published[#published + 1] = {key, table.concat(letters)}
    end
    if name == 'SCAN' then -- all keys in one step
      local reply = call(name, ...)
      if reply.err then return reply end
      local keys, cursor = {}, '0'
      repeat
        reply = call('SCAN', cursor, 'COUNT', 1000)
        cursor = reply[1]
        for _, found in ipairs(reply[2]) do keys[#keys + 1] = found end
      until cursor == '0'
      return {cursor, in_order(keys, 1)}
    end
    if name == 'SRANDMEMBER' and number then return first('SMEMBERS', key, number) end
    if name == 'HRANDFIELD' and number then return first('HKEYS', key, number) end
    if name == 'SPOP' and number then
      local found = first('SMEMBERS', key, number)
      if #found > 0 then call('SREM', key, unpack(found)) elseif not found.err then call(name, key, 0) end
      return found
    end
    if name == 'XRANGE' or name == 'XREVRANGE' then
      local reply = call(name, ...)
      for i, entry in ipairs(reply) do
        local ms = string.match(entry[1], '^%d+')
        if math.abs(ms / 1000 - planted_s) < 3600 then entry[1] = now_s .. '000-' .. i end
      end
      return reply
    end
    if name == 'EXPIREAT' then return call('EXPIRE', key, number - now_s) end
    local reply = call(name, ...)
    local step = LIFETIME_STEPS[name]
    if step and type(reply) == 'number' and reply > 0 then return math.max(1, in_steps(reply, step)) end
    if type(reply) ~= 'table' or reply.err then return reply end
    if name == 'SMEMBERS' or name == 'HKEYS' then return in_order(reply, 1) end
    if name == 'HGETALL' then return in_order(reply, 2) end
    if name == 'SSCAN' and tonumber(number) == 0 then return {'0', in_order(call('SMEMBERS', key), 1)} end -- in one step
    if name == 'SSCAN' or name == 'SCAN' then return {reply[1], in_order(reply[2], 1)} end
    if name == 'HSCAN' or name == 'ZSCAN' then return {reply[1], in_order(reply[2], 2)} end
    return reply
  end
end
