"""Changes of many jobs and their records: the journal, undo, revert, rate-limited changes and migration."""
