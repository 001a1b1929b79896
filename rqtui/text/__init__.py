"""Formatting, parsing and masking of text, shared by the screen and the command line. No Redis, no Textual."""
