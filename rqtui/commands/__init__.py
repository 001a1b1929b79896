"""The commands of `rqtui`, a module for each kind: looking, judging, putting, acting, looping, working, showing.

A command turns words into calls of the engine, the client or a loop, and what comes back into a document or a table.
Redis is imported when a command runs, never when it is described: `--version` and completion answer within 0.15 s.
"""
