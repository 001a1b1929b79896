"""Record the refreshes of queues in one SQLite file per Redis, so that commands can show the past."""
