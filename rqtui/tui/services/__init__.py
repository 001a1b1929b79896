"""Provide the services of the app, one class each: changes of jobs, loops, profiles, navigation, palette and others."""
