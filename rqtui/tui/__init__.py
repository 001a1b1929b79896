"""The terminal user interface: a Textual app, its screens, widgets and services, and hooks into the terminal."""
