"""Implement the commands of the `rqtui` command line: one module per command, with the command's name."""
