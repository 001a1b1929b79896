-- Build the row of a message in a reply.
--
-- The row of a long message contains its beginning and its end, because kombu writes the body first and the headers after it.
--
-- needs    body_bytes
-- gives    job_row
local max_bytes = body_bytes < 0 and math.huge or math.max(4096, body_bytes)
local function job_row(text, score, tag, step)
  if #text <= max_bytes then return {text, #text, '', score, tag, step} end
  return {string.sub(text, 1, 4096), #text, string.sub(text, -6144), score, tag, step}
end
