"""Implement the hooks into the terminal and into private parts of Textual, one module each."""
