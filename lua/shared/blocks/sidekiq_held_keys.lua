-- Sidekiq: where a process keeps what it runs; of at most 3000 running jobs: it answers whether none was left out.
-- needs    prefix
-- gives    each_held_key
local left = 3000
local function each_held_key(identity, look) -- look(key); Sidekiq 6 and older say `workers`
  local is_all = true
  for _, suffix in ipairs({':work', ':workers'}) do
    local key = prefix .. identity .. suffix
    local length = redis.pcall('HLEN', key)
    if type(length) == 'number' and length > left then
      is_all = false
    elseif type(length) == 'number' and length > 0 then
      left = left - length
      look(key)
    end
  end
  return is_all
end
