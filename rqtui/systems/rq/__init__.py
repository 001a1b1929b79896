"""RQ: the system, its schedules, and its jobs as hashes."""
