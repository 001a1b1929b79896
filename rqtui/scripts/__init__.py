"""Lua scripts, called by the names in their headers: the grammar, the values, the transport, the errors."""
