"""One module per queue system; `rqtui.layout.make` finds them by name. They never import one another."""
