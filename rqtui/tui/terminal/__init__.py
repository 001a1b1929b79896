"""Hooks into the terminal and into parts of Textual that are not public, one module each."""
