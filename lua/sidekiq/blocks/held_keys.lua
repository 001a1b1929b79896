-- Visit the hashes of running jobs of a process. All processes together may have 3000 jobs; the result is whether no
-- hash was skipped.
--
-- needs    prefix
-- gives    each_held_key
local budget = 3000
local function each_held_key(identity, visit) -- visit(key). Sidekiq before version 7 uses `:workers`.
  local is_all = true
  for _, suffix in ipairs({':work', ':workers'}) do
    local key = prefix .. identity .. suffix
    local length = redis.pcall('HLEN', key)
    if type(length) == 'number' and length > budget then
      is_all = false
    elseif type(length) == 'number' and length > 0 then
      budget = budget - length
      visit(key)
    end
  end
  return is_all
end
