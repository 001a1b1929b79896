"""Connect rqtui to the terminal and to private parts of Textual, with one module for each such hook."""
