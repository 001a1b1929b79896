"""Show a dialog with all views: the key, the number of rows and the help of each.

The dialog replaces the header's names of views on a narrow terminal. A view's key, Enter or a click returns its name;
Esc returns None.
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
from rqtui.tui.widgets.frame import ViewLink
from rqtui.tui.widgets.leavable import Leavable
from rqtui.tui.widgets.table import Table

COLUMNS = (
    Column("key", "", 2, style="accented"),
    Column("view", "", 10, style="strong"),
    Column("number", "", 6, align="right"),
    Column("help", "", 20, weight=1, style="muted", drop=1),
)


class ViewList(ModalScreen["str | None"], Leavable):
    """The dialog with all views, which returns the name of the chosen view or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,semicolon", "dismiss(None)", "close", show=False, id="views.close")
    ]

    def __init__(self, links: Sequence[ViewLink]) -> None:
        super().__init__()
        self._links = tuple(links)

    def compose(self) -> ComposeResult:
        """Create a table with one line per view."""
        with Vertical(id="dialog") as dialog:
            dialog.border_title = Content(" views ")
            dialog.border_subtitle = Content(
                f" its letter goes there   {keys.find_dialog_key('views.close', 'Esc')} closes "
            )
            yield Table(COLUMNS, show_header=False, id="view-list", has_marks=False)

    def on_mount(self) -> None:
        """Fill the table of views, with the cursor on the current view."""
        table = self.query_one(Table)
        table.styles.height = len(self._links)
        help_texts = {general_key.id: general_key.help for general_key in keys.GENERAL_KEYS}
        table.update(
            [
                Row(link.name, (link.key, link.label, Piece(link.number), keys.apply_keymap(help_texts[link.name])))
                for link in self._links
            ]
        )
        table.move_to(next((link.name for link in self._links if link.is_current), self._links[0].name))
        table.focus()

    def on_key(self, event: events.Key) -> None:
        """Return the view whose key was pressed."""
        for general_key in keys.GENERAL_KEYS:
            if general_key.id in keys.VIEWS and event.key in keys.find_current_keys(general_key).split(","):
                event.stop()
                self.dismiss(general_key.id)
                return

    def on_table_opened(self, event: Table.Opened) -> None:
        """Close the dialog with the view under the cursor as its result."""
        self.dismiss(str(event.id))

    def on_click(self, event: events.Click) -> None:
        """Return the view of the clicked line."""
        table = self.query_one(Table)
        offset = event.get_content_offset(table)
        if offset is not None and 0 <= offset.y < len(self._links):
            self.dismiss(self._links[offset.y].name)
