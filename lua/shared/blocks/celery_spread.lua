-- Celery: what workers hold of each queue, by its name. Of more than 200 entries the first 64 and four stretches of 32 are looked at, up
-- to the end; the rest are taken to be like them. An entry of more than 16 kB is counted and not read, and no more than 400 kB of each stretch are read.
-- Where one of the two keys is another program's, nobody holds anything; `faults.lua` names the key.
-- needs    unacked unacked_index now_ms visibility_ms each_held type_of
-- gives    is_all   whether all of them were looked at
--          shares   how many of a queue stand in eta, in unacked, in late
--          of_all   the same of all queues
--          next_due next_restore  by queue, in ms
--          named    by queue, up to 20 tasks that were met
local is_theirs = type_of(unacked) == 'hash' and type_of(unacked_index) == 'zset'
local card = is_theirs and redis.call('ZCARD', unacked_index) or 0
local stretches = {{0, math.min(card, 200) - 1}}
if card > 200 then
  stretches[1][2] = 63
  for i = 1, 4 do
    local from = 64 + math.floor((card - 96) * i / 4)
    stretches[#stretches + 1] = {from, from + 31}
  end
end
local met, looked, unread, was_cut, next_due, next_restore = {}, 0, 0, false, {}, {}
local named, is_named = {}, {}
local of_all = {eta = 0, unacked = 0, late = 0}
for _, stretch in ipairs(stretches) do
  local stop = each_held(stretch[1], stretch[2], 16384, function(text, own, place, score, _, eta)
    looked = looked + 1
    of_all[place] = of_all[place] + 1
    if not own then
      unread = unread + 1
      return
    end
    met[own] = met[own] or {eta = 0, unacked = 0, late = 0}
    met[own][place] = met[own][place] + 1
    local task = string.match(text, '"task": ?"([^"\\]+)"', string.find(text, '"headers":', 1, true))
    named[own] = named[own] or {}
    if task and #task <= 200 and #named[own] < 20 and not is_named[own .. '\n' .. task] then
      named[own][#named[own] + 1], is_named[own .. '\n' .. task] = task, true
    end
    if place == 'eta' then next_due[own] = math.min(next_due[own] or math.huge, eta) end
    local restore_ms = math.floor((tonumber(score) or 0) * 1000) + visibility_ms
    if place ~= 'late' then next_restore[own] = math.min(next_restore[own] or math.huge, restore_ms) end
  end, 400000)
  was_cut = was_cut or stop <= stretch[2]
end
local is_all = card <= 200 and unread == 0 and not was_cut
local scale = (card > 200 or was_cut) and looked > 0 and card / looked or 1
for place, number in pairs(of_all) do of_all[place] = math.floor(number * scale + 0.5) end
local function shares(of)
  local own = met[of] or {eta = 0, unacked = 0, late = 0}
  return math.floor(own.eta * scale + 0.5), math.floor(own.unacked * scale + 0.5), math.floor(own.late * scale + 0.5)
end
