"""Convert the model to what the screen shows, as data: columns, rows and sentences. Pure functions, no widgets."""
