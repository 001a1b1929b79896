"""BullMQ: the system, its workers, and its jobs as hashes."""
