"""Change many jobs and record the changes: the journal, undo, revert, rate-limited changes and migration."""
