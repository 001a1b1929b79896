"""The one table of the screen: queues, jobs, workers, errors and events are all drawn by it.

It draws its own lines and repaints only those that changed (a DataTable of 40 rows refreshed once a second costs
5 % of a core). The cursor and the marks belong to ids, not to lines: what is under the cursor stays there over
refreshes, also when it left the list, until the cursor moves on. Rows may be a window into a list of any length;
the table says with `Wanted` which part it needs. It never interprets markup, and what is not safe to print is made
so. Screens make the rows (`tui/format/rows.py`), call `update`, and listen to `Moved`, `Opened`, `Marked` and `Wanted`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.reactive import reactive

from rqtui.text import formats
from rqtui.tui.format.rows import Column, Id, Row, Window, follow
from rqtui.tui.widgets.lines import Lines
from rqtui.tui.widgets.paint import GUTTER, Line

TITLE_AT = 3  # cells before the words in a frame's top line: corner, line, blank
_OF_MARKS = ("mark", "range", "mark_loaded", "unmark_all")  # actions


class Table(Lines, can_focus=True, inherit_bindings=False):
    """A table of rows with ids. See the module's text; keys are in `BINDINGS`."""

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

    dimmed: reactive[bool] = reactive(False, repaint=False)
    """The connection is lost: all is muted, and it is the last known picture."""

    class Said(Message):
        """What a table says; `control` makes `@on(Table.Opened, "#ready")` work."""

        def __init__(self, table: Table) -> None:
            super().__init__()
            self.table = table

        @property
        def control(self) -> Table:
            return self.table

    class Moved(Said):
        """The cursor is on another row: `id`, or None where there is none."""

        def __init__(self, table: Table, id: Id | None) -> None:
            super().__init__(table)
            self.id = id

    class Fitted(Said):
        """The table got another size: other rows are in sight now."""

    class Opened(Said):
        """Enter or a double click on the row `id`."""

        def __init__(self, table: Table, id: Id) -> None:
            super().__init__(table)
            self.id = id

    class Marked(Said):
        """The set of marked ids changed."""

        def __init__(self, table: Table, ids: tuple[Id, ...]) -> None:
            super().__init__(table)
            self.ids = ids

    class Wanted(Said):
        """Rows in sight (or about to be) are not loaded: load `limit` of them from `offset` on, and `update`.

        The same offset is not asked for twice in a row, so a request that fails has to be repeated by who got it.
        """

        def __init__(self, table: Table, offset: int, limit: int) -> None:
            super().__init__(table)
            self.offset = offset
            self.limit = limit

    class HeadClicked(Said):
        """The head of the column with this key was clicked."""

        def __init__(self, table: Table, column: str) -> None:
            super().__init__(table)
            self.column = column

    class CellClicked(Said):
        """A cell of that column was clicked, and the cursor is on its row."""

        def __init__(self, table: Table, id: Id, column: str) -> None:
            super().__init__(table)
            self.id = id
            self.column = column

    class TitleClicked(Said):
        """The frame's top line was clicked; `at` cells from the beginning of its words."""

        def __init__(self, table: Table, at: int) -> None:
            super().__init__(table)
            self.at = at

    def __init__(
        self,
        columns: Sequence[Column],
        *,
        empty: str = "",
        page_size: int = 100,
        show_header: bool = True,
        ascii_only: bool = False,
        id: str | None = None,
        classes: str | None = None,
        has_marks: bool = True,
    ) -> None:
        super().__init__(columns, show_header, ascii_only, id, classes)
        self.has_marks = has_marks
        self._window = Window()
        self._place = 0  # of the cursor, from 0, in the whole list
        self._held: Row | None = None  # the row under the cursor as last seen
        self._marks: dict[Id, None] = {}
        self._range_from: Id | None = None
        self.empty = empty
        """The sentence of an empty list; it says what to press."""
        self.foot = ""
        """What stands below the last row, one line apart, where there is room."""
        self.page_size = page_size
        self.follow_head = False
        """Stay on the first row whatever arrives (a feed that is followed)."""
        self.tints_arrivals = True
        """Rows that were not there before have a ground of their own until the next update."""
        self.lets_go = False
        """A cursor that nobody has moved is on what is there, not on a row that left."""
        self._is_loaded = False
        self._pressed: Id | None = None  # the row on which a button of the mouse went down
        self._is_touched = False  # somebody moved the cursor; before that an unfocused table shows its head
        self._asked: int | None = None

    # ── what screens call ────────────────────────────────────────────────────────────────────────────────────

    def update(self, rows: Iterable[Row], total: int | None = None, offset: int = 0) -> None:
        """Show `rows`, which stand at `offset` in a list of `total`; cursor, marks and scroll keep to their ids."""
        rows = tuple(rows)
        total = offset + len(rows) if total is None else total
        before, top, held, place = self._held, self.top, self._held, self._place
        if self.follow_head or not (self._is_touched or self.has_focus or top):
            top, held, place = 0, None, 0
        elif self._is_left_alone(rows, offset):
            held, place = (
                None,
                next((at for at, row in enumerate(rows, offset) if at >= place and not row.is_gone), place),
            )
        is_cursor_in_sight = top <= place < top + self.room
        anchor = self._window.row(top)  # what stands still: the cursor, or the top line if the cursor is elsewhere
        is_another = not self._is_loaded
        if self._is_loaded:
            self._window, self._place = follow(self._window, rows, offset, total, held, place)
        else:
            self._window = Window(rows, offset, max(total, offset + len(rows)))
            self._place = self._found(held, place)
        self._is_loaded = True
        if is_cursor_in_sight:
            top += self._place - place
        elif anchor is not None:
            top = self._window.places.get(anchor.id, top)
        self.measure()
        self.scroll_to_line(top)
        if is_another:
            self._bring_into_sight()
        self._hold(before)
        self.repaint()
        self._want()

    def exchange(self, changed: Iterable[Row]) -> None:
        """Show these rows as they look now, where they stand; the list is the one of the last `update`."""
        before = self._held
        self._window = self._window.exchanged(changed)
        self._hold(before)
        self.repaint()

    def _is_left_alone(self, rows: Sequence[Row], offset: int) -> bool:
        """Whether nobody chose the row under the cursor, and it left."""
        if not self.lets_go or self._is_touched or self._marks or self._held is None:
            return False
        is_loaded = offset <= self._place < offset + len(rows)
        return (is_loaded or not rows) and all(row.id != self._held.id or row.is_gone for row in rows)

    def _found(self, held: Row | None, place: int) -> int:
        """Where the cursor goes in another list: with its row, if that is there."""
        last = max(0, self._window.total - 1)
        return min(place, last) if held is None else self._window.places.get(held.id, min(place, last))

    def another_list(self, place: int = 0) -> None:
        """What comes next is another list of the same things: marks stay, and the cursor on its row; where that row is
        not in it, the cursor goes to `place`."""
        self._window, self._is_loaded, self._place = Window(), False, place
        self._is_touched = self._is_touched or place > 0  # else a table without the focus shows its head
        self._range_from, self._asked = None, None

    def reset(self) -> None:
        """Forget rows, cursor and marks: what comes next is another list."""
        self._window, self._is_loaded = Window(), False
        self._place, self._held, self._is_touched = 0, None, False
        self._range_from, self._asked = None, None
        self._marks.clear()
        if self.is_attached:
            self.measure()
            self.scroll_to_line(0)
            self.repaint()

    @property
    def cursor_id(self) -> Id | None:
        """The id under the cursor, also while its row is not loaded or gone."""
        return self._held.id if self._held else None

    @property
    def is_cursor_gone(self) -> bool:
        """Whether the row under the cursor is in the list no more."""
        is_ghost = self._window.ghost is not None and self._window.ghost == self._place
        return is_ghost or (self._held is not None and self._held.is_gone)

    @property
    def is_at_end(self) -> bool:
        """Whether the cursor is on the last row."""
        return self._place >= self._window.total - 1

    @property
    def rows(self) -> tuple[Row, ...]:
        """The loaded rows, in their order."""
        return self._window.rows

    @property
    def in_sight(self) -> tuple[int, int]:
        """(first, behind the last) of the places that are on the screen, from 0, for `1-17 of 12 431`."""
        top = self.top
        return top, min(top + self.room, self._window.total)

    def to_first(self) -> None:
        """Put the cursor on the first row, also of a list that is still to come."""
        if self._is_loaded:
            self._move(0)
        else:
            self._held, self._place, self._is_touched = None, 0, True

    def move_to(self, id: Id) -> bool:
        """Put the cursor on a loaded row; False where it is not loaded."""
        if id not in self._window.places:
            return False
        self._move(self._window.places[id])
        return True

    def move_to_next(self, fits: Callable[[Row], bool]) -> bool:
        """Put the cursor on the next loaded row that fits, from the top again behind the last; False: there is none."""
        ahead = [place for place in self._window.places.values() if place > self._place]
        behind = [place for place in self._window.places.values() if place < self._place]
        for place in (*ahead, *behind):
            row = self._window.row(place)
            if row is not None and fits(row):
                self._move(place)
                return True
        return False

    # ── keys and mouse ───────────────────────────────────────────────────────────────────────────────────────

    def action_move(self, lines: int) -> None:
        self._move(self._place + lines)

    def action_page(self, pages: int) -> None:
        step = pages * max(1, self.room - 1)
        self.scroll_to_line(self.top + step)
        self._move(self._place + step)

    def action_first(self) -> None:
        self._move(0)
        self._is_touched = False  # back to showing the head, should the focus go elsewhere

    def action_last(self) -> None:
        self._move(self._window.total - 1)

    def action_open(self) -> None:
        if self._held is not None:
            self.post_message(self.Opened(self, self._held.id))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Esc is the table's only while a range is open, else the screen gets it; the keys of marks are nobody's where
        nothing is done to several rows."""
        if action == "end_range":
            return self._range_from is not None
        return self.has_marks or action not in _OF_MARKS

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """A press on the frame or on a row counts at once: the focus that comes with it may move this table from under
        the mouse before the click is over. The event has the place in the table as it stood then."""
        self._pressed = None
        x, y = event.get_content_offset_capture(self)
        if event.y == 0 > y:
            self.post_message(self.TitleClicked(self, event.x - TITLE_AT))
        elif 0 <= x < self.size.width and self.show_header <= y < self.size.height:
            place = self.top + y - self.show_header
            if place < self._window.total:
                self._move(place)
                self._pressed = self._held.id if self._held is not None else None

    def on_click(self, event: events.Click) -> None:
        pressed, self._pressed = self._pressed, None
        offset = event.get_content_offset(self)
        if offset is None:
            return
        column = self.painter.column_at(offset.x, self.scrollable_content_region.width)
        if offset.y < self.show_header:
            self.post_message(self.HeadClicked(self, column))
        elif pressed is not None and self._held is not None and pressed == self._held.id:  # else it began elsewhere
            if event.chain == 2:  # a double click
                self.action_open()
            else:
                self.post_message(self.CellClicked(self, pressed, column))

    def on_focus(self) -> None:
        self.repaint()

    def on_blur(self) -> None:
        self.repaint()

    def on_resize(self) -> None:
        self.measure()
        self._bring_into_sight()
        self.repaint()
        self._want()
        self.post_message(self.Fitted(self))

    def scrolled(self) -> None:
        self._want()

    def watch_dimmed(self) -> None:
        self.repaint()

    # ── what stands where ────────────────────────────────────────────────────────────────────────────────────────

    @property
    def length(self) -> int:
        return self._window.total

    # ── the cursor ───────────────────────────────────────────────────────────────────────────────────────────

    def _move(self, place: int) -> None:
        """The cursor to `place`; the row it leaves goes away if it was gone."""
        place = max(0, min(place, self._window.total - 1))
        ghost = self._window.ghost
        if ghost is not None and (place != ghost or self._window.total == 1):
            self._window = self._window.without_ghost()
            place = max(0, min(place - (place > ghost), self._window.total - 1))
            self.measure()
        self._is_touched = True
        held, self._place = self._held, place
        if self._window.row(place) is None:
            self._held = None  # not loaded: whatever turns out to stand there
        self._bring_into_sight()
        self._hold(held)
        self.repaint()
        self._want()

    def _hold(self, before: Row | None) -> None:
        """Remember the row under the cursor (it is shown even after it left), and say so if it is another one."""
        row = self._window.row(self._place)
        if row is not None:
            self._held = row
        elif not self._window.total:
            self._held = None
        now, was = self._held.id if self._held else None, before.id if before else None
        if now != was:
            self.post_message(self.Moved(self, now))

    def _bring_into_sight(self) -> None:
        top = self.top
        self.scroll_to_line(max(min(top, self._place), self._place - self.room + 1))

    def _want(self) -> None:
        """Ask for rows when what is in sight, or half a screen above or below it, is not loaded."""
        top, bottom = self.in_sight
        margin = self.room // 2
        window = self._window
        if not self._is_loaded or not self.is_attached:
            return
        if window.offset <= max(0, top - margin) and min(window.total, bottom + margin) <= window.end:
            self._asked = None
            return
        limit = max(self.page_size, 2 * self.room)
        offset = max(0, (top + bottom - limit) // 2)
        if offset != self._asked:
            self._asked = offset
            self.post_message(self.Wanted(self, offset, limit))

    # ── marks: of ids, not of lines ─────────────────────────────────────────────────────────────────────────────

    @property
    def marks(self) -> tuple[Id, ...]:
        """The marked ids, oldest mark first; also those that are not loaded."""
        return tuple(self._marks)

    def set_marks(self, ids: Iterable[Id]) -> None:
        """Mark these and no others."""
        self._marks = dict.fromkeys(ids)
        self._range_from = None
        self.say_marks()

    def stay(self) -> None:
        """What is under the cursor was chosen: it stays there until somebody moves the cursor."""
        self._is_touched = True

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
        self._is_touched = True
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

    def say_marks(self) -> None:
        """Other rows are marked now."""
        self.repaint()
        self.post_message(self.Marked(self, self.marks))

    def _range(self) -> tuple[int, int]:
        """(first, behind the last) place of the open range; empty where there is none."""
        start = self._window.places.get(self._range_from) if self._range_from is not None else None
        if start is None:
            return 0, 0
        return min(start, self._place), max(start, self._place) + 1

    # ── drawing ──────────────────────────────────────────────────────────────────────────────────────────────────

    def line(self, y: int, width: int, top: int) -> Line:
        """What line `y` of the widget shows now, so wide, with row `top` as the first one in sight."""
        if self.show_header and y == 0:
            return Line(width, is_header=True, is_dimmed=self.dimmed)
        if not self._window.total:
            return Line(width, text=self._sentence(y - self.show_header, width))
        place = top + y - self.show_header
        if place >= self._window.total:
            is_foot = place == self._window.total + 1 and self.foot
            return Line(width, text=formats.fit(self.foot, width - GUTTER - 1).rstrip() if is_foot else "")
        row = self._window.row(place)
        cursor = ("accented" if self.has_focus else "muted") if self._shows_cursor(place) else ""
        if row is None:
            return Line(width, text=self.painter.glyphs.absent, cursor=cursor)
        is_gone = place == self._window.ghost or row.is_gone
        mark, mark_style = self._mark(row.id, place, is_gone)
        has_arrived = self.tints_arrivals and not is_gone and row.id in self._window.arrived
        return Line(width, row.whole, "", False, cursor, mark, mark_style, is_gone, has_arrived, self.dimmed)

    def _shows_cursor(self, place: int) -> bool:
        return place == self._place and (self._is_touched or self.has_focus)

    def _mark(self, id: Id, place: int, is_gone: bool) -> tuple[str, str]:
        """The sign beside a row, and its style."""
        glyphs = self.painter.glyphs
        if id in self._marks:
            return (glyphs.marked_gone if is_gone else glyphs.mark), "accented"
        first, last = self._range()
        if first <= place < last:
            return glyphs.mark, "muted"
        return (glyphs.gone, "muted") if is_gone else ("", "")

    def _sentence(self, line: int, width: int) -> str:
        """Line `line` of the sentence that an empty table shows, one line below its header."""
        lines = formats.wrap(self.empty, width - GUTTER - 1) if self._is_loaded else []
        return lines[line - 1] if 1 <= line <= len(lines) else ""
