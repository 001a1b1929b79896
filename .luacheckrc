-- What Redis gives a script, and nothing more; a script may not set a global.
std = "lua51"
read_globals = { "redis", "cjson", "KEYS", "ARGV" }
max_line_length = false -- headers are tables
unused_args = true
