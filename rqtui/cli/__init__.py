"""Implement the commands of `rqtui`: one module per command, named as the command is typed."""
