-- Celery: a message as a row of an answer. Of a longer one the beginning and the end come: kombu writes the body first, then the headers.
-- needs    body_bytes
-- gives    job_row
local most = body_bytes < 0 and math.huge or math.max(4096, body_bytes)
local function job_row(text, score, tag, step)
  if #text <= most then return {text, #text, '', score, tag, step} end
  return {string.sub(text, 1, 4096), #text, string.sub(text, -6144), score, tag, step}
end
