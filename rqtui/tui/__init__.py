"""The screen. Nothing is imported here, so that `rqtui.tui.display` is cheap for the command line."""
