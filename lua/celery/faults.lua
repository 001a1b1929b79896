-- Find problems of a queue of Celery: tasks that will run twice, messages that no worker acks, messages that stop workers, replies
-- that no client reads, and keys of another type.
--
-- The script reads at most the first and the last 60 unacked messages of all queues, 10 messages at each end of each list, and 50
-- reply queues. Problems that concern all queues are reported only for the queue with `speaks_for_all`. `seconds` is the age of the
-- problem, or the time left; `word` is a type or a number of replies; after `until_ms` the problem cannot be fixed any more.
--
-- derived  <prefix><queue><sep><step>                     the list of another priority
--          <prefix>_kombu.binding.<exchange>              the bindings of an exchange: the queue of each routing key
--          <prefix><reply>.reply.<control>.pidbox         the replies to a remote control command
-- KEYS     queue unacked unacked_index
--          replies  set  bindings of the reply queues
-- ARGV     now_ms?         int   a test's clock; the server's when empty
--          prefix          str   the prefix of all keys; may be empty
--          sep             str   the separator between the name of a queue and a priority
--          steps           str   the priorities that have a list of their own: 0/3/6/9
--          visibility      int   the visibility timeout (s): after it kombu delivers an unacked message again
--          speaks_for_all  bool  whether to report problems that concern all queues
-- returns  looked  (looked int)
--                   rows (kind str, key str, id bytes, number int, word str, seconds int, since_ms? int, until_ms? int, name str)
if #ARGV < 6 then return redis.error_reply('ERR it takes six arguments; nothing was changed') end
local visibility, speaks_for_all = ARGV[5], ARGV[6] == '1'
-- include: keys, clock, options, visibility, for_each_held, type_of, add_finding
local looked = 0
local function find_id(text)
  return string.match(string.sub(text, -20000), '"id": ?"([^"\\]*)"') or ''
end

local has_type = {}
for at, each in ipairs({{unacked, 'hash'}, {unacked_index, 'zset'}, {replies, 'set'}}) do
  local kind = type_of(each[1])
  has_type[at] = kind == each[2]
  if kind ~= each[2] and kind ~= 'none' and speaks_for_all then add_finding('wrong_type', each[1], '', 1, kind) end
end

local function inspect_message(text, key)
  looked = looked + 1
  local ending = string.sub(text, -20000)
  local is_read, has_properties = string.find(text, '^%s*{') and string.find(ending, '}%s*$'), string.find(ending, '"properties":', 1, true)
  if #text <= 8192 then -- decoding a longer text takes too long: its two ends are read above
    local is_json, message = pcall(cjson.decode, text)
    is_read = is_json and type(message) == 'table' and message[1] == nil
    has_properties = is_read and type(message.properties) == 'table'
  end
  if not is_read then return add_finding('poison_json', key, '', 1) end
  if not has_properties then return add_finding('poison_properties', key, find_id(text), 1) end
  local eta = parse_time_ms(string.match(ending, '"eta": ?"([^"\\]+)"') or '')
  if eta - now_ms > visibility_ms then add_finding('eta_beyond_visibility:queue', key, find_id(text), 1, '', visibility_ms / 1000) end
end
for _, list in ipairs(lists) do
  local key = list[1]
  local kind = type_of(key)
  if kind == 'list' then
    local length = redis.call('LLEN', key)
    for _, text in ipairs(redis.call('LRANGE', key, -10, -1)) do inspect_message(text, key) end
    for _, text in ipairs(length > 10 and redis.call('LRANGE', key, 0, math.min(9, length - 11)) or {}) do inspect_message(text, key) end
  elseif kind ~= 'none' then
    add_finding('wrong_type', key, '', 1, kind)
  end
end

if has_type[1] and has_type[2] then
  local card = redis.call('ZCARD', unacked_index)
  for _, range in ipairs({{0, math.min(card, 60) - 1}, {math.max(60, card - 60), card - 1}}) do
    for_each_held(range[1], range[2], 16384, function(text, owner, place, score, _, eta)
      looked = looked + 1
      if owner ~= name then return end
      local taken_ms = math.floor((tonumber(score) or 0) * 1000)
      local restore_ms = taken_ms + visibility_ms
      if place == 'eta' and eta > restore_ms then
        add_finding('eta_beyond_visibility', unacked, find_id(text), 1, '', (restore_ms - now_ms) / 1000, nil, restore_ms > now_ms and restore_ms or nil)
      elseif place == 'late' then
        add_finding('abandoned', unacked, find_id(text), 1, '', (now_ms - taken_ms) / 1000, restore_ms)
      end
    end, 400000)
  end
end

if has_type[3] and speaks_for_all then
  local number, entries, example = 0, 0, nil
  local bindings = redis.call('SSCAN', replies, 0, 'COUNT', 50)[2]
  for at = 1, math.min(#bindings, 50) do
    local reply_queue = string.match(bindings[at], '([%w-]+%.reply%..+%.pidbox)$')
    local key = reply_queue and prefix .. reply_queue
    if key and type_of(key) == 'list' and redis.call('TTL', key) == -1 then
      number, entries, example = number + 1, entries + redis.call('LLEN', key), example or key
    end
  end
  if number > 0 then add_finding('reply_lists', example, '', number, tostring(entries)) end
end
return {'looked', looked, rows}
