"""Load Lua scripts, call them by the names in their headers, and parse their replies."""
