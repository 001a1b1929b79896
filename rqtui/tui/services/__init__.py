"""The services of the app, one class each: changes, loops, profiles, navigation, palette and others."""
