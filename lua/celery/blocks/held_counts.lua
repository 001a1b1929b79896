-- Count the unacked messages of each queue.
--
-- Above 200 entries the block reads a sample: the first 64 entries and four groups of 32, up to the end. The other entries are
-- assumed to be like the sample. An entry above 16 kB is counted and not read, and at most 400 kB of each group are read. If another
-- program uses one of the two keys, there are no unacked messages; `faults.lua` reports the key.
--
-- needs    type_of unacked unacked_index for_each_held visibility_ms
-- gives    numbers          by queue: the entries of each place in the sample
--          next_due         by queue: the next ETA (ms)
--          next_restore     by queue: the next time when kombu delivers a message again (ms)
--          tasks            by queue: up to 20 names of tasks
--          of_all           the estimates of all queues, by place
--          is_all           whether all entries were read
--          estimate_counts  returns the estimates of eta, unacked and late of a queue
-- include: type_of, for_each_held
local has_types = type_of(unacked) == 'hash' and type_of(unacked_index) == 'zset'
local card = has_types and redis.call('ZCARD', unacked_index) or 0
local ranges = {{0, math.min(card, 200) - 1}}
if card > 200 then
  ranges[1][2] = 63
  for i = 1, 4 do
    local from = 64 + math.floor((card - 96) * i / 4)
    ranges[#ranges + 1] = {from, from + 31}
  end
end
local numbers, seen, unread, was_cut, next_due, next_restore = {}, 0, 0, false, {}, {}
local tasks, is_listed = {}, {}
local of_all = {eta = 0, unacked = 0, late = 0}
for _, range in ipairs(ranges) do
  local stop = for_each_held(range[1], range[2], 16384, function(text, owner, place, score, _, eta)
    seen = seen + 1
    of_all[place] = of_all[place] + 1
    if not owner then
      unread = unread + 1
      return
    end
    numbers[owner] = numbers[owner] or {eta = 0, unacked = 0, late = 0}
    numbers[owner][place] = numbers[owner][place] + 1
    local task = string.match(text, '"task": ?"([^"\\]+)"', string.find(text, '"headers":', 1, true))
    tasks[owner] = tasks[owner] or {}
    if task and #task <= 200 and #tasks[owner] < 20 and not is_listed[owner .. '\n' .. task] then
      tasks[owner][#tasks[owner] + 1], is_listed[owner .. '\n' .. task] = task, true
    end
    if place == 'eta' then next_due[owner] = math.min(next_due[owner] or math.huge, eta) end
    local restore_ms = math.floor((tonumber(score) or 0) * 1000) + visibility_ms
    if place ~= 'late' then next_restore[owner] = math.min(next_restore[owner] or math.huge, restore_ms) end
  end, 400000)
  was_cut = was_cut or stop <= range[2]
end
local is_all = card <= 200 and unread == 0 and not was_cut
local scale = (card > 200 or was_cut) and seen > 0 and card / seen or 1
for place, number in pairs(of_all) do of_all[place] = math.floor(number * scale + 0.5) end
local function estimate_counts(owner)
  local found = numbers[owner] or {eta = 0, unacked = 0, late = 0}
  return math.floor(found.eta * scale + 0.5), math.floor(found.unacked * scale + 0.5), math.floor(found.late * scale + 0.5)
end
