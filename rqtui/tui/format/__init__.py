"""What the screen says, as data: columns, rows, sentences. Pure functions over the model; no widget."""
