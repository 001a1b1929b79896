-- Build the row of a job in a reply. A long job is cut in the middle, because Sidekiq writes class and queue first, and
-- id and times last.
--
-- needs    body_bytes
-- gives    job_row
local most = body_bytes < 0 and math.huge or math.max(4096, body_bytes)
local function job_row(text, score, token, identity, beat)
  if #text <= most then return {text, #text, '', score, token or '', identity or '', beat or ''} end
  return {string.sub(text, 1, 4096), #text, string.sub(text, -2048), score, token or '', identity or '', beat or ''}
end
