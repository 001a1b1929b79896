"""Provide the widgets: tables, lines, dialogs and help. They know neither Redis nor the app."""
