-- What Redis gives a script, and nothing more; a script may not set a global.
std = "lua51"
read_globals = { "redis", "cjson", "KEYS", "ARGV" }
max_line_length = false -- headers are tables
unused_args = true
-- Pieces of scripts: alone they lack the names that the scripts around them set. luacheck sees each as a part of its scripts.
exclude_files = { "lua/shared/blocks" }
