"""The list of views: a small dialog with the letter of each, how much is in it, and what it shows.

For terminals whose header has no room for them. A letter goes there at once, as it does without the list; so do Enter
and a click. It returns the name of a view, or None.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen

from rqtui.text.pieces import Piece
from rqtui.tui import keys
from rqtui.tui.format.rows import Column, Row
from rqtui.tui.widgets.chrome import Door
from rqtui.tui.widgets.leavable import Leavable
from rqtui.tui.widgets.table import Table

COLUMNS = (
    Column("key", "", 2, style="accented"),
    Column("view", "", 10, style="strong"),
    Column("number", "", 6, align="right"),
    Column("help", "", 20, weight=1, style="muted", drop=1),
)


class ViewList(ModalScreen["str | None"], Leavable):
    """The views by their letters."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,semicolon", "dismiss(None)", "close", show=False, id="views.close")
    ]

    def __init__(self, doors: Sequence[Door]) -> None:
        super().__init__()
        self._doors = tuple(doors)

    def compose(self) -> ComposeResult:
        """A line per view."""
        with Vertical(id="dialog") as dialog:
            dialog.border_title = Content(" views ")
            dialog.border_subtitle = Content(f" its letter goes there   {keys.of('views.close', 'Esc')} closes ")
            yield Table(COLUMNS, show_header=False, id="view-list", has_marks=False)

    def on_mount(self) -> None:
        """The cursor stands on the view in sight."""
        table = self.query_one(Table)
        table.styles.height = len(self._doors)
        helps = {look.id: look.help for look in keys.LOOKS}
        table.update(
            [
                Row(door.name, (door.key, door.label, Piece(door.number), keys.renamed(helps[door.name])))
                for door in self._doors
            ]
        )
        table.move_to(next((door.name for door in self._doors if door.is_here), self._doors[0].name))
        table.focus()

    def on_key(self, event: events.Key) -> None:
        """A view's own letter."""
        for look in keys.LOOKS:
            if look.id in keys.VIEWS and event.key in keys.keys_of(look).split(","):
                event.stop()
                self.dismiss(look.id)
                return

    def on_table_opened(self, event: Table.Opened) -> None:
        """Enter."""
        self.dismiss(str(event.id))

    def on_click(self, event: events.Click) -> None:
        """A click on a line goes there."""
        table = self.query_one(Table)
        offset = event.get_content_offset(table)
        if offset is not None and 0 <= offset.y < len(self._doors):
            self.dismiss(self._doors[offset.y].name)
