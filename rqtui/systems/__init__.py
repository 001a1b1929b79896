"""The queue systems that rqtui speaks, one module each, and the table of them (`registry`)."""
