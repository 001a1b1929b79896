"""The config file, the settings, and which of several sources of a setting wins."""
