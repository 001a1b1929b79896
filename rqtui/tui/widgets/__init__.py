"""The widgets: tables, lines, dialogs, help. They know no Redis and no app."""
