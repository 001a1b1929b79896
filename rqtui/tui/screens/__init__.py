"""The full screens: overview, board, job, and a module for each view that a key opens."""
