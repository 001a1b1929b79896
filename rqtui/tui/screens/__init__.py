"""Provide the full screens: overview, board, job page, and one module for each view that a key opens."""
