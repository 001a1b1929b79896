"""The screen: an app on Textual, its screens, widgets, services, and hooks into the terminal."""
