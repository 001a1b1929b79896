-- What the sorted sets that all queues share hold of each queue.
--
-- Of a set of more than 200 jobs a sample is looked at, and the rest are taken to be like it. `due_ms` is the next instant among `schedule`
-- and `retry`, -1 for none. A queue without a row has none.
--
-- KEYS     schedule  zset  job by due (s)
--          retry     zset  job by due (s)
--          dead      zset  job by when it died (s)
-- ARGV     now_ms?  int  a test's clock; the server's when empty
-- returns  counted  (now_ms int, schedule_of int, retry_of int, dead_of int, schedule_exact bool, retry_exact bool, dead_exact bool)
--                   rows (queue str, schedule int, retry int, dead int, due_ms int, overdue int)
local schedule, retry, dead = KEYS[1], KEYS[2], KEYS[3]
local only = nil
-- block: clock, sidekiq_instant, sidekiq_queue_of, sidekiq_spread
if #ARGV < 1 or #ARGV[1] > 15 or string.find(ARGV[1], '%D') then
  return redis.error_reply('ERR now_ms is a whole number; nothing was changed')
end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local function at_ms(value) -- -1 for what is no instant
  local at = tonumber(value)
  if not at or at ~= at or at < 0 or at > 9e15 then return -1 end
  return math.floor((at < 1e11 and at * 1000 or at) + 0.5)
end
local function queue_of(text) -- the queue, and whether it is a job
  local named = '"queue":'
  local start = #text > 65536 and string.sub(text, 1, 4096) or text
  local at, last = string.find(start, named, 1, true)
  local is_plain
  if #text > 65536 then
    is_plain = at and not string.find(string.sub(start, 2, at), '[%[{]')
  else
    is_plain = at and not string.find(start, named, last + 1, true)
  end
  local name = is_plain and string.match(start, '^ ?"([^"\\]+)"', last + 1)
  if name then return name, true end
  local is_read, job = pcall(cjson.decode, text)
  if not is_read or type(job) ~= 'table' or job[1] ~= nil then return 'default', false end
  return type(job.queue) == 'string' and job.queue ~= '' and job.queue or 'default', true
end
local cards, looked, number, has_others = {0, 0, 0}, {0, 0, 0}, {{}, {}, {}}, false
local next_due, overdue = {}, {}
for at, key in ipairs({schedule, retry, dead}) do
  local card = redis.pcall('ZCARD', key)
  cards[at] = type(card) == 'number' and card or 0
  local stretches = {{0, math.min(cards[at], 200) - 1}}
  if cards[at] > 200 then
    stretches[1][2] = 63
    for i = 1, 4 do
      local from = 64 + math.floor((cards[at] - 96) * i / 4)
      stretches[#stretches + 1] = {from, from + 31}
    end
  end
  for _, stretch in ipairs(cards[at] > 0 and stretches or {}) do
    local found = redis.call('ZRANGE', key, stretch[1], stretch[2], 'WITHSCORES')
    looked[at] = looked[at] + #found / 2
    for i = 1, #found, 2 do
      local name = queue_of(found[i])
      local is_other = only and name ~= only
      has_others = has_others or is_other
      if not is_other then number[at][name] = (number[at][name] or 0) + 1 end
      if at < 3 and not is_other then
        local due_ms = at_ms(found[i + 1])
        if due_ms >= 0 and due_ms <= now_ms then overdue[name] = (overdue[name] or 0) + 1 end
        if due_ms >= 0 and due_ms < (next_due[name] or math.huge) then next_due[name] = due_ms end
      end
    end
  end
end
local function shares(name) -- how many there are by the share of the sample, and whether that is all, of each of the three
  local found = {}
  for at = 1, 3 do
    local is_all, met = looked[at] >= cards[at], number[at][name] or 0
    found[at], found[at + 3] = is_all and met or math.floor(met * cards[at] / looked[at] + 0.5), is_all and 1 or 0
  end
  return unpack(found)
end
-- end
local rows, seen = {}, {}
for _, of in ipairs(number) do
  for queue in pairs(of) do
    if not seen[queue] then
      local of_schedule, of_retry, of_dead = shares(queue)
      seen[queue] = true
      rows[#rows + 1] = {queue, of_schedule, of_retry, of_dead, next_due[queue] or -1, overdue[queue] or 0}
    end
  end
end
local _, _, _, all_schedule, all_retry, all_dead = shares('')
return {'counted', now_ms, cards[1], cards[2], cards[3], all_schedule, all_retry, all_dead, rows}
