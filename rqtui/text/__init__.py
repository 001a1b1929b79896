"""Words and formats that the screen and the command line share. No Redis, no Textual."""
