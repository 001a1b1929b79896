-- Read the visibility timeout: the time after which kombu delivers an unacked message again.
--
-- needs    visibility  in seconds, as text
-- gives    visibility_ms
if not visibility or #visibility > 10 or not string.find(visibility, '^%d+$') then
  return redis.error_reply('ERR visibility is a whole number of seconds; nothing was changed')
end
local visibility_ms = visibility * 1000
