"""The Redis commands that the programs of other queue systems send (the originals), faults included.

Tests and the demo use these modules in place of the real programs.
"""
