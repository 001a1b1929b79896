"""One connection and some layouts: discovery, counts, snapshots, acts, findings, and the loops."""
