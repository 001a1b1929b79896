"""Provide the terminal user interface: a Textual app, its screens, widgets and services, and terminal hooks."""
