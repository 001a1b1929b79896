"""The engine: discovery, counts, snapshots, changes, findings and loops over one Redis connection and some systems."""
