"""Lua scripts, called by the names in their headers: header grammar, values and transport."""
