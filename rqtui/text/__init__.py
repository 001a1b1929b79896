"""Format, parse and mask text for the screen and the command line, without Redis or Textual."""
