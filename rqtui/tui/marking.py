"""Marks: which rows somebody chose, one by one, as a range, or all that are loaded; they belong to ids, not to lines.

The part of the table that knows them. It neither draws nor moves the cursor: `table.Table` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rqtui.tui.lines import Lines
from rqtui.tui.rows import Column, Id, Row, Window

_ACTIONS = ("mark", "range", "mark_loaded", "unmark_all")


class Marking(Lines, can_focus=True, inherit_bindings=False):
    """Lines with a cursor, some of which are marked."""

    has_marks = True

    def __init__(
        self, columns: Sequence[Column], show_header: bool, ascii_only: bool, id: str | None, classes: str | None
    ) -> None:
        super().__init__(columns, show_header, ascii_only, id, classes)
        self._window = Window()
        self._place = 0  # of the cursor, from 0, in the whole list
        self._held: Row | None = None  # the row under the cursor as last seen
        self._marks: dict[Id, None] = {}
        self._range_from: Id | None = None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """The keys of marks are nobody's where nothing is done to several rows."""
        return self.has_marks or action not in _ACTIONS

    def say_marks(self) -> None:
        """Other rows are marked now."""
        raise NotImplementedError

    def action_move(self, lines: int) -> None:
        """The cursor goes up or down."""
        raise NotImplementedError

    @property
    def marks(self) -> tuple[Id, ...]:
        """The marked ids, oldest mark first; also those that are not loaded."""
        return tuple(self._marks)

    def set_marks(self, ids: Iterable[Id]) -> None:
        """Mark these and no others."""
        self._marks = dict.fromkeys(ids)
        self._range_from = None
        self.say_marks()

    def unmark(self, ids: Iterable[Id]) -> None:
        """Take the marks off these (they have been acted on)."""
        for each in ids:
            self._marks.pop(each, None)
        self.say_marks()

    def action_mark(self) -> None:
        if self._range_from is not None:
            self.action_range()
            return
        if self._held is None:
            return
        if self._held.id in self._marks:
            del self._marks[self._held.id]
        else:
            self._marks[self._held.id] = None
        self.say_marks()
        self.action_move(1)

    def action_range(self) -> None:
        """Begin a range at the cursor, or mark everything from its beginning to here."""
        if self._range_from is None:
            self._range_from = self._held.id if self._held else None
        else:
            first, last = self._range()
            rows = (self._window.row(place) for place in range(first, last))
            self._marks.update((row.id, None) for row in rows if row)
            self._range_from = None
            self.say_marks()
        self.repaint()

    def action_end_range(self) -> None:
        self._range_from = None
        self.repaint()

    def action_mark_loaded(self) -> None:
        self._marks.update((row.id, None) for row in self._window.without_ghost().rows)
        self.say_marks()

    def action_unmark_all(self) -> None:
        self.set_marks(())

    def _range(self) -> tuple[int, int]:
        """(first, behind the last) place of the open range; empty where there is none."""
        start = self._window.places.get(self._range_from) if self._range_from is not None else None
        if start is None:
            return 0, 0
        return min(start, self._place), max(start, self._place) + 1
