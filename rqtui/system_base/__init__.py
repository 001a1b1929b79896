"""Provide the base classes of queue systems: places, keys and scripts, from which all other abilities follow."""
