"""The Redis commands of other queue systems' own programs, faults included, for tests and the demo."""
