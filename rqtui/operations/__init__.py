"""Changes of many jobs and what is kept of them: the journal, undo, rate limits, migration."""
