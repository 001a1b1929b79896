-- Sidekiq: where a process keeps what it runs; of at most 3000 running jobs.
-- needs    prefix
-- gives    each_held_key
local left = 3000
local function each_held_key(identity, look) -- look(key); Sidekiq 6 and older say `workers`
  for _, suffix in ipairs({':work', ':workers'}) do
    local key = prefix .. identity .. suffix
    local length = redis.pcall('HLEN', key)
    if type(length) == 'number' and length > 0 and length <= left then
      left = left - length
      look(key)
    end
  end
end
