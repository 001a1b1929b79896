"""Read rqtui's config file, and decide which source of a setting wins: command line, environment, file or default."""
