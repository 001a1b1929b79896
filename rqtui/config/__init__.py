"""The config file, the settings, and the order in which sources of a setting are used."""
