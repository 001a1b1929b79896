"""The queue systems that rqtui speaks, a module or package each, and the table of them (`registry`)."""
