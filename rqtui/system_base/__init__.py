"""The base of queue systems: places, keys and scripts, from which everything else is derived."""
