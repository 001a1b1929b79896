"""Provide the table of the screen: queues, jobs, workers, errors and events are all drawn by it.

The table draws its own lines and repaints only those that changed (a DataTable of 40 rows refreshed once a second costs
5 % of a core). Cursor and marks belong to row ids, not to lines: the cursor stays on its row over refreshes, even after
the row left the list, until the cursor moves. Rows may be a window into a list of any length; the message `Wanted`
requests the missing part. Markup is never interpreted, and unsafe characters are replaced. Screens build the rows
(`tui/format/rows.py`), call `update`, and handle `Moved`, `Opened`, `Marked` and `Wanted`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.reactive import reactive

from rqtui.text import formats
from rqtui.tui.format.rows import Column, Id, ListWindow, Row, keep_cursor_row
from rqtui.tui.widgets.lines import Lines
from rqtui.tui.widgets.paint import GUTTER, PaintedLine

TITLE_OFFSET = 3  # cells before the words in a frame's top line: corner, line, blank
_MARK_ACTIONS = ("mark", "range", "mark_loaded", "unmark_all")  # actions that need marks


def build_scroll_bindings(view_name: str) -> list[BindingType]:
    """Build the bindings by which the scrolling container of a view uses the same keys as tables.

    The ids, by which a keymap changes the keys, begin with `view_name`.
    """
    return [
        Binding("j", "scroll_down", "Down", show=False, id=f"{view_name}.down"),
        Binding("k", "scroll_up", "Up", show=False, id=f"{view_name}.up"),
        Binding("g", "scroll_home", "Top", show=False, id=f"{view_name}.top"),
        Binding("G", "scroll_end", "Bottom", show=False, id=f"{view_name}.bottom"),
    ]


class Table(Lines, can_focus=True, inherit_bindings=False):
    """A table of rows with ids, a cursor and marks, which repaints only changed lines.

    Its rows may be a window into a longer list.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "move(1)", "Down", show=False, id="table.down"),
        Binding("up,k", "move(-1)", "Up", show=False, id="table.up"),
        Binding("pagedown", "page(1)", "Page down", show=False, id="table.page-down"),
        Binding("pageup", "page(-1)", "Page up", show=False, id="table.page-up"),
        Binding("home,g", "first", "First", show=False, id="table.first"),
        Binding("end,G", "last", "Last", show=False, id="table.last"),
        Binding("enter", "open", "Open", show=False, id="table.open"),
        Binding("space", "mark", "Mark", show=False, id="table.mark"),
        Binding("v", "range", "Mark a range", show=False, id="table.range"),
        Binding("a", "mark_loaded", "Mark all loaded", show=False, id="table.mark-loaded"),
        Binding("u", "unmark_all", "Unmark all", show=False, id="table.unmark-all"),
        Binding("escape", "end_range", "End the range", show=False, id="table.end-range"),
    ]

    page_size = 100  # least rows that are requested together; otherwise two screens
    dimmed: reactive[bool] = reactive(False, repaint=False)
    """Whether the table is muted because the connection is lost and its rows are those of the last snapshot."""

    class TableMessage(Message):
        """Base class of the table's messages. `control` allows `@on(Table.Opened, "#ready")`."""

        def __init__(self, table: Table) -> None:
            super().__init__()
            self.table = table

        @property
        def control(self) -> Table:
            """The table that sent the message."""
            return self.table

    class Moved(TableMessage):
        """Message that the table's cursor is on another row: `id`, or None without a row."""

        def __init__(self, table: Table, id: Id | None) -> None:
            super().__init__(table)
            self.id = id

    class Fitted(TableMessage):
        """Message that the table was resized, so other rows are visible."""

    class Opened(TableMessage):
        """Message that the row `id` was opened by Enter or a double click."""

        def __init__(self, table: Table, id: Id) -> None:
            super().__init__(table)
            self.id = id

    class Marked(TableMessage):
        """Message that the set of marked row ids changed."""

        def __init__(self, table: Table, ids: tuple[Id, ...]) -> None:
            super().__init__(table)
            self.ids = ids

    class Wanted(TableMessage):
        """Message that rows in or near the visible part are missing: load `limit` rows from `offset` and update.

        The same offset is not requested twice in a row, so the receiver has to repeat a failed request.
        """

        def __init__(self, table: Table, offset: int, limit: int) -> None:
            super().__init__(table)
            self.offset = offset
            self.limit = limit

    class HeadClicked(TableMessage):
        """Message that the header of the column with this key was clicked."""

        def __init__(self, table: Table, column: str) -> None:
            super().__init__(table)
            self.column = column

    class CellClicked(TableMessage):
        """Message that a cell of this column was clicked. The cursor is on its row."""

        def __init__(self, table: Table, id: Id, column: str) -> None:
            super().__init__(table)
            self.id = id
            self.column = column

    class TitleClicked(TableMessage):
        """Message that the frame's top line was clicked, `at` cells behind the start of its text."""

        def __init__(self, table: Table, at: int) -> None:
            super().__init__(table)
            self.at = at

    def __init__(
        self,
        columns: Sequence[Column],
        *,
        empty: str = "",
        show_header: bool = True,
        ascii_only: bool = False,
        id: str | None = None,
        classes: str | None = None,
        has_marks: bool = True,
    ) -> None:
        super().__init__(columns, show_header, ascii_only, id, classes)
        self.has_marks = has_marks
        self._window = ListWindow()
        self._cursor_place = 0  # cursor position in the whole list, from 0
        self._cursor_row: Row | None = None  # last known content of the row under the cursor
        self._marks: dict[Id, None] = {}
        self._range_from: Id | None = None
        self.empty = empty
        """The sentence that is shown without rows; it says what to press."""
        self.foot = ""
        """The text below the last row, one line apart, if there is space."""
        self.follow_head = False
        """Whether the cursor stays on the first row when new rows arrive above it, as in a list of events."""
        self.stays_first = False
        """Whether the cursor stays on the first row until a person moves it, although the table has the focus."""
        self.tints_arrivals = True
        """Whether new rows have a background of their own until the next update."""
        self.skips_missing_rows = False
        """Whether a cursor that no person has moved leaves a row that left the list."""
        self._is_loaded = False
        self._pressed: Id | None = None  # the row on which a mouse button was pressed
        self._is_touched = False  # a person moved the cursor; until then an unfocused table shows its first rows
        self._requested_offset: int | None = None

    # ── called by screens ────────────────────────────────────────────────────────────────────────────────────

    def update(self, rows: Iterable[Row], total: int | None = None, offset: int = 0) -> None:
        """Show `rows`, which begin at `offset` in a list of `total` rows.

        Cursor, marks and scroll position follow row ids.
        """
        rows = tuple(rows)
        total = offset + len(rows) if total is None else total
        previous_row, top, held_row, place = (
            self._cursor_row,
            self.first_visible_line,
            self._cursor_row,
            self._cursor_place,
        )
        if self.follow_head or not (
            self._is_touched or top or (self.has_focus and not self._should_return_to_first(rows))
        ):
            top, held_row, place = 0, None, 0
        elif self._has_untouched_row_left(rows, offset):
            held_row, place = (
                None,
                next(
                    (position for position, row in enumerate(rows, offset) if position >= place and not row.is_gone),
                    place,
                ),
            )
        is_cursor_in_sight = top <= place < top + self.visible_lines
        # Row that keeps its position: the cursor's, or the top one if the cursor is not visible.
        anchor = self._window.find_row(top)
        is_new_list = not self._is_loaded
        if self._is_loaded:
            self._window, self._cursor_place = keep_cursor_row(self._window, rows, offset, total, held_row, place)
        else:
            self._window = ListWindow(rows, offset, max(total, offset + len(rows)))
            self._cursor_place = self._find_cursor_place(held_row, place)
        self._is_loaded = True
        if is_cursor_in_sight:
            top += self._cursor_place - place
        elif anchor is not None:
            top = self._window.places.get(anchor.id, top)
        self.update_scrollbar()
        self.scroll_to_line(top)
        if is_new_list:
            self._scroll_cursor_into_view()
        self._store_cursor_row(previous_row)
        self.repaint_changes()
        self._request_missing_rows()

    def replace_rows(self, changed_rows: Iterable[Row]) -> None:
        """Replace the content of some rows of the table. The list is still the one of the last `update`."""
        previous_row = self._cursor_row
        self._window = self._window.replace_rows(changed_rows)
        self._store_cursor_row(previous_row)
        self.repaint_changes()

    def _should_return_to_first(self, rows: Sequence[Row]) -> bool:
        """Return whether an untouched cursor goes to the first row of a new list.

        It stays on a row that left the list.
        """
        row = self._cursor_row
        return self.stays_first and (row is None or any(other.id == row.id for other in rows))

    def _has_untouched_row_left(self, rows: Sequence[Row], offset: int) -> bool:
        """Return whether the row under the cursor left the list, and no person had moved the cursor to it."""
        if not self.skips_missing_rows or self._is_touched or self._marks or self._cursor_row is None:
            return False
        is_loaded = offset <= self._cursor_place < offset + len(rows)
        return (is_loaded or not rows) and all(row.id != self._cursor_row.id or row.is_gone for row in rows)

    def _find_cursor_place(self, held_row: Row | None, place: int) -> int:
        """Return the cursor's position in a new list: that of its row if the row is there, else the former one."""
        last = max(0, self._window.total - 1)
        return min(place, last) if held_row is None else self._window.places.get(held_row.id, min(place, last))

    def expect_similar_list(self, place: int = 0) -> None:
        """Prepare the table for another list of the same kind of rows. Marks stay, and the cursor stays on its row.

        If the row is not in the new list, the cursor goes to `place`.
        """
        self._window, self._is_loaded, self._cursor_place = ListWindow(), False, place
        self._is_touched = self._is_touched or place > 0  # otherwise a table without the focus shows its first rows
        self._range_from, self._requested_offset = None, None

    def clear_rows(self) -> None:
        """Clear rows, cursor and marks of the table before another list is shown."""
        self._window, self._is_loaded = ListWindow(), False
        self._cursor_place, self._cursor_row, self._is_touched = 0, None, False
        self._range_from, self._requested_offset = None, None
        self._marks.clear()
        if self.is_attached:
            self.update_scrollbar()
            self.scroll_to_line(0)
            self.repaint_changes()

    @property
    def cursor_id(self) -> Id | None:
        """The id of the row under the cursor, even if the row is not loaded or has left the list."""
        return self._cursor_row.id if self._cursor_row else None

    @property
    def is_touched(self) -> bool:
        """Whether a person moved the cursor of the table."""
        return self._is_touched

    @property
    def is_cursor_row_missing(self) -> bool:
        """Whether the row under the cursor has left the list."""
        is_ghost = self._window.ghost is not None and self._window.ghost == self._cursor_place
        return is_ghost or (self._cursor_row is not None and self._cursor_row.is_gone)

    @property
    def is_at_end(self) -> bool:
        """Whether the cursor is on the last row of the list."""
        return self._cursor_place >= self._window.total - 1

    @property
    def rows(self) -> tuple[Row, ...]:
        """The loaded rows of the table, in their order."""
        return self._window.rows

    @property
    def visible_range(self) -> tuple[int, int]:
        """The range (first, last + 1) of the visible rows, counted from 0, for `1-17 of 12 431`."""
        top = self.first_visible_line
        return top, min(top + self.visible_lines, self._window.total)

    def move_to_first(self) -> None:
        """Move the cursor to the first row, even if the list is not loaded yet."""
        if self._is_loaded:
            self._move_cursor(0)
        else:
            self._cursor_row, self._cursor_place, self._is_touched = None, 0, True

    def move_to(self, row_id: Id) -> bool:
        """Move the cursor to a loaded row. Return False if the row is not loaded."""
        if row_id not in self._window.places:
            return False
        self._move_cursor(self._window.places[row_id])
        return True

    def move_to_next(self, is_match: Callable[[Row], bool]) -> bool:
        """Move the cursor to the next loaded row for which `is_match` is true, wrapping at the end.

        Return False if there is no such row.
        """
        ahead = [place for place in self._window.places.values() if place > self._cursor_place]
        behind = [place for place in self._window.places.values() if place < self._cursor_place]
        for place in (*ahead, *behind):
            row = self._window.find_row(place)
            if row is not None and is_match(row):
                self._move_cursor(place)
                return True
        return False

    # ── keys and mouse ───────────────────────────────────────────────────────────────────────────────────────

    def action_move(self, lines: int) -> None:
        """Move the cursor by a number of lines."""
        self._move_cursor(self._cursor_place + lines)

    def action_page(self, pages: int) -> None:
        """Move the cursor by a number of pages."""
        step = pages * max(1, self.visible_lines - 1)
        self.scroll_to_line(self.first_visible_line + step)
        self._move_cursor(self._cursor_place + step)

    def action_first(self) -> None:
        """Move the cursor to the first row of the list."""
        self._move_cursor(0, keep_missing=False)
        self._is_touched = False  # the table shows its first rows again when it loses the focus

    def action_last(self) -> None:
        """Move the cursor to the last row of the list."""
        self._move_cursor(self._window.total - 1, keep_missing=False)

    def action_open(self) -> None:
        """Post `Opened` for the row under the cursor."""
        if self._cursor_row is not None:
            self.post_message(self.Opened(self, self._cursor_row.id))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether a key works now: Esc only while a range is open, marking keys only in a table with marks."""
        if action == "end_range":
            return self._range_from is not None
        return self.has_marks or action not in _MARK_ACTIONS

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Move the cursor on mouse down, because the focus that follows may move the table before the click ends.

        The event has the position in the table before that move.
        """
        self._pressed = None
        x, y = event.get_content_offset_capture(self)
        if event.y == 0 > y:
            self.post_message(self.TitleClicked(self, event.x - TITLE_OFFSET))
        elif 0 <= x < self.size.width and self.show_header <= y < self.size.height:
            place = self.first_visible_line + y - self.show_header
            if place < self._window.total:
                self._move_cursor(place)
                self._pressed = self._cursor_row.id if self._cursor_row is not None else None

    def on_click(self, event: events.Click) -> None:
        """Post the message for a click on a header, a title or a cell, or open the row at a double click."""
        pressed, self._pressed = self._pressed, None
        offset = event.get_content_offset(self)
        if offset is None:
            return
        column = self.painter.find_column_at(offset.x, self.scrollable_content_region.width)
        if offset.y < self.show_header:
            self.post_message(self.HeadClicked(self, column))
        # Otherwise the press began on another row.
        elif pressed is not None and self._cursor_row is not None and pressed == self._cursor_row.id:
            if event.chain == 2:  # a double click
                self.action_open()
            else:
                self.post_message(self.CellClicked(self, pressed, column))

    def on_focus(self) -> None:
        self.repaint_changes()

    def on_blur(self) -> None:
        self.repaint_changes()

    def on_resize(self) -> None:
        self.update_scrollbar()
        self._scroll_cursor_into_view()
        self.repaint_changes()
        self._request_missing_rows()
        self.post_message(self.Fitted(self))

    def handle_scroll(self) -> None:
        self._request_missing_rows()

    def watch_dimmed(self) -> None:
        self.repaint_changes()

    # ── lines ────────────────────────────────────────────────────────────────────────────────────────

    @property
    def line_count(self) -> int:
        return self._window.total

    # ── the cursor ───────────────────────────────────────────────────────────────────────────────────────────

    def _move_cursor(self, place: int, *, keep_missing: bool = True) -> None:
        """Move the cursor to a position. A row that had already left the list disappears when the cursor leaves it.

        With `keep_missing` false the row disappears also if it is at `place`: the first and the last row of a list are
        rows that are still in it.
        """
        place = max(0, min(place, self._window.total - 1))
        ghost = self._window.ghost
        if ghost is not None and (place != ghost or self._window.total == 1 or not keep_missing):
            self._window = self._window.remove_ghost()
            place = max(0, min(place - (place > ghost), self._window.total - 1))
            self.update_scrollbar()
        self._is_touched = True
        previous_row, self._cursor_place = self._cursor_row, place
        if self._window.find_row(place) is None:
            self._cursor_row = None  # the row is not loaded and becomes known with the next update
        self._scroll_cursor_into_view()
        self._store_cursor_row(previous_row)
        self.repaint_changes()
        self._request_missing_rows()

    def _store_cursor_row(self, previous_row: Row | None) -> None:
        """Store the row under the cursor, which stays visible after it left, and post `Moved` if its id changed."""
        row = self._window.find_row(self._cursor_place)
        if row is not None:
            self._cursor_row = row
        elif not self._window.total:
            self._cursor_row = None
        current_id, previous_id = (
            self._cursor_row.id if self._cursor_row else None,
            previous_row.id if previous_row else None,
        )
        if current_id != previous_id:
            self.post_message(self.Moved(self, current_id))

    def _scroll_cursor_into_view(self) -> None:
        top = self.first_visible_line
        self.scroll_to_line(max(min(top, self._cursor_place), self._cursor_place - self.visible_lines + 1))

    def _request_missing_rows(self) -> None:
        """Post `Wanted` if a visible row, or a row within half a screen of them, is not loaded."""
        top, bottom = self.visible_range
        margin = self.visible_lines // 2
        window = self._window
        if not self._is_loaded or not self.is_attached:
            return
        if window.offset <= max(0, top - margin) and min(window.total, bottom + margin) <= window.end:
            self._requested_offset = None
            return
        limit = max(self.page_size, 2 * self.visible_lines)
        offset = max(0, (top + bottom - limit) // 2)
        if offset != self._requested_offset:
            self._requested_offset = offset
            self.post_message(self.Wanted(self, offset, limit))

    # ── marks: of ids, not of lines ─────────────────────────────────────────────────────────────────────────────

    @property
    def marks(self) -> tuple[Id, ...]:
        """The marked row ids, oldest mark first, including rows that are not loaded."""
        return tuple(self._marks)

    def set_marks(self, ids: Iterable[Id]) -> None:
        """Mark exactly the rows with these ids."""
        self._marks = dict.fromkeys(ids)
        self._range_from = None
        self.post_marks()

    def keep_cursor_on_row(self) -> None:
        """Keep the cursor on its row until a person moves it."""
        self._is_touched = True

    def unmark_rows(self, ids: Iterable[Id]) -> None:
        """Remove the marks of these row ids, for example after a change."""
        for row_id in ids:
            self._marks.pop(row_id, None)
        self.post_marks()

    def action_mark(self) -> None:
        """Mark or unmark the row under the cursor, and move to the next one."""
        if self._range_from is not None:
            self.action_range()
            return
        if self._cursor_row is None:
            return
        self._is_touched = True
        if self._cursor_row.id in self._marks:
            del self._marks[self._cursor_row.id]
        else:
            self._marks[self._cursor_row.id] = None
        self.post_marks()
        self.action_move(1)

    def action_range(self) -> None:
        """Begin a range at the cursor, or mark all rows from the beginning of the range to the cursor."""
        if self._range_from is None:
            self._range_from = self._cursor_row.id if self._cursor_row else None
        else:
            first, last = self._find_open_range()
            rows = (self._window.find_row(place) for place in range(first, last))
            self._marks.update((row.id, None) for row in rows if row)
            self._range_from = None
            self.post_marks()
        self.repaint_changes()

    def action_end_range(self) -> None:
        """Close the open range without marking its rows."""
        self._range_from = None
        self.repaint_changes()

    def action_mark_loaded(self) -> None:
        """Mark all loaded rows."""
        self._marks.update((row.id, None) for row in self._window.remove_ghost().rows)
        self.post_marks()

    def action_unmark_all(self) -> None:
        """Remove all marks."""
        self.set_marks(())

    def post_marks(self) -> None:
        """Repaint the table and post `Marked` after the marks changed."""
        self.repaint_changes()
        self.post_message(self.Marked(self, self.marks))

    def _find_open_range(self) -> tuple[int, int]:
        """Return (first, last + 1) position of the rows in the open range, or an empty range."""
        start = self._window.places.get(self._range_from) if self._range_from is not None else None
        if start is None:
            return 0, 0
        return min(start, self._cursor_place), max(start, self._cursor_place) + 1

    # ── drawing ──────────────────────────────────────────────────────────────────────────────────────────────────

    def build_line(self, y: int, width: int, top: int) -> PaintedLine:
        """Return the content of line `y` of the table, `width` cells wide, with row `top` as the first visible one."""
        if self.show_header and y == 0:
            return PaintedLine(width, is_header=True, is_dimmed=self.dimmed)
        if not self._window.total:
            return PaintedLine(width, text=self._build_empty_line(y - self.show_header, width))
        place = top + y - self.show_header
        if place >= self._window.total:
            is_foot = place == self._window.total + 1 and self.foot
            return PaintedLine(
                width, text=formats.fit_to_width(self.foot, width - GUTTER - 1).rstrip() if is_foot else ""
            )
        row = self._window.find_row(place)
        cursor = ("accented" if self.has_focus else "muted") if self._is_cursor_visible(place) else ""
        if row is None:
            return PaintedLine(width, text=self.painter.glyphs.absent, cursor=cursor)
        is_gone = place == self._window.ghost or row.is_gone
        mark, mark_style = self._find_row_mark(row.id, place, is_gone)
        has_arrived = self.tints_arrivals and not is_gone and row.id in self._window.arrived
        return PaintedLine(
            width, row.with_built_cells, "", False, cursor, mark, mark_style, is_gone, has_arrived, self.dimmed
        )

    def _is_cursor_visible(self, place: int) -> bool:
        return place == self._cursor_place and (self._is_touched or self.has_focus)

    def _find_row_mark(self, row_id: Id, place: int, is_gone: bool) -> tuple[str, str]:
        """Return (sign, style) of the mark beside a row."""
        glyphs = self.painter.glyphs
        if row_id in self._marks:
            return (glyphs.marked_missing if is_gone else glyphs.mark), "accented"
        first, last = self._find_open_range()
        if first <= place < last:
            return glyphs.mark, "muted"
        return (glyphs.missing, "muted") if is_gone else ("", "")

    def _build_empty_line(self, line: int, width: int) -> str:
        """Return line `line` of the sentence for an empty table, which begins one line below the header."""
        lines = formats.wrap_to_width(self.empty, width - GUTTER - 1) if self._is_loaded else []
        return lines[line - 1] if 1 <= line <= len(lines) else ""
