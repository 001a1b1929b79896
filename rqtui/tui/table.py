"""The one table of the screen: queues, jobs, workers, errors and events are all drawn by it.

It draws its own lines and repaints only those that changed (a DataTable of 40 rows refreshed once a second costs
5 % of a core). The cursor and the marks belong to ids, not to lines: what is under the cursor stays there over
refreshes, also when it left the list, until the cursor moves on. Rows may be a window into a list of any length;
the table says with `Wanted` which part it needs. It never interprets markup, and what is not safe to print is made
so. Screens make the rows (`rows.py`), call `update`, and listen to `Moved`, `Opened`, `Marked` and `Wanted`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.cache import LRUCache
from textual.content import Content
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollBar
from textual.strip import Strip
from textual.widget import Widget

from rqtui.tui import display
from rqtui.tui.rows import Cell, Column, Id, Piece, Row, Slot, Window, arrange, follow

# Style names for cells, rows and titles; the stylesheet gives each its colour (`Table > .state-ready`).
STYLES = frozenset(
    {"data", "muted", "faint", "strong", "accented", "ok", "warning", "critical", "paused"}
    | {f"state-{state}" for state in ("scheduled", "ready", "reserved", "done", "dead")}
)
_PARTS = frozenset({"table--header", "table--cursor", "table--arrived", "table--frame"})
_GUTTER = 2  # the cursor's bar and the mark
_NARROW = 56  # cells; below it columns stand one cell apart instead of two


class _Glyphs(NamedTuple):
    cursor: str = "▌"
    mark: str = "◆"
    gone: str = "×"
    marked_gone: str = "◇"
    ellipsis: str = "…"
    absent: str = "·"


_GLYPHS = (_Glyphs(), _Glyphs(">", "*", "x", "o", "~", "."))


class _Line(NamedTuple):
    """All that a line's picture depends on: equal lines are not drawn again."""

    width: int
    row: Row | None = None
    text: str = ""  # instead of a row: the header's key, an empty table's sentence
    cursor: str = ""  # the style of the cursor's bar, where it is
    mark: str = ""
    mark_style: str = ""
    is_gone: bool = False
    has_arrived: bool = False
    is_dimmed: bool = False


class Table(ScrollView, can_focus=True, inherit_bindings=False):
    """A table of rows with ids. See the module's text; keys are in `BINDINGS`."""

    COMPONENT_CLASSES: ClassVar[set[str]] = set(STYLES | _PARTS)
    ALLOW_SELECT = False  # a dragged mouse would start Textual's selection; Shift leaves it to the terminal
    DEFAULT_CSS = """
    Table {
        overflow-x: hidden;
        overflow-y: auto;
        scrollbar-gutter: stable;
        scrollbar-size-vertical: 1;
    }
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
    ) -> None:
        super().__init__(id=id, classes=classes)
        self.columns = tuple(columns)
        self.empty = empty
        self.page_size = page_size
        self.show_header = show_header
        self.ascii_only = ascii_only
        self.follow_head = False
        """Stay on the first row whatever arrives (a feed that is followed)."""
        self._glyphs = _GLYPHS[ascii_only]
        self._arranged: tuple[int, tuple[Slot, ...]] | None = None
        self._strips: LRUCache[_Line, Strip] = LRUCache(512)
        self._painted: dict[int, _Line] = {}
        self._marks: dict[Id, None] = {}
        self._frame: dict[str, tuple[Cell, ...]] = {}  # the words of the frame, to colour them anew in another theme
        self.reset()

    # ── what screens call ────────────────────────────────────────────────────────────────────────────────────

    def update(self, rows: Iterable[Row], total: int | None = None, offset: int = 0) -> None:
        """Show `rows`, which stand at `offset` in a list of `total`; cursor, marks and scroll keep to their ids."""
        rows = tuple(rows)
        total = offset + len(rows) if total is None else total
        top, held, place = self.scroll_offset.y, self._held, self._place
        if self.follow_head or not (self._is_touched or self.has_focus):
            top, held, place = 0, None, 0
        is_cursor_in_sight = top <= place < top + self._lines
        anchor = self._window.row(top)  # what stands still: the cursor, or the top line if the cursor is elsewhere
        if self._is_loaded:
            self._window, self._place = follow(self._window, rows, offset, total, held, place)
        else:
            self._window, self._place = Window(rows, offset, max(total, offset + len(rows))), 0
        self._is_loaded = True
        if is_cursor_in_sight:
            top += self._place - place
        elif anchor is not None:
            top = self._window.places.get(anchor.id, top)
        self._measure()
        self._scroll(top)
        self._hold(held)
        self._repaint()
        self._want()

    def reset(self) -> None:
        """Forget rows, cursor and marks: what comes next is another list."""
        self._window = Window()
        self._place = 0
        self._held: Row | None = None
        self._is_touched = False
        self._is_loaded = False
        self._range_from: Id | None = None
        self._asked: int | None = None
        self._marks.clear()
        if self.is_attached:
            self._measure()
            self._scroll(0)
            self._repaint()

    def set_columns(self, columns: Sequence[Column]) -> None:
        """Other columns; the next `update` brings rows that have them."""
        self.columns = tuple(columns)
        self._arranged = None
        self._strips.clear()
        self._painted.clear()
        self.refresh()

    def set_title(self, *pieces: Cell) -> None:
        """The words in the frame's top line; only that line is repainted."""
        self._set_frame("_border_title", pieces, -self.styles.gutter.top)

    def set_subtitle(self, *pieces: Cell) -> None:
        """The words in the frame's bottom line; only that line is repainted."""
        self._set_frame("_border_subtitle", pieces, self.size.height + self.styles.gutter.bottom - 1)

    @property
    def cursor_id(self) -> Id | None:
        """The id under the cursor, also while its row is not loaded or gone."""
        return self._held.id if self._held else None

    @property
    def is_cursor_gone(self) -> bool:
        """Whether the row under the cursor is in the list no more."""
        return self._window.ghost is not None and self._window.ghost == self._place

    @property
    def marks(self) -> tuple[Id, ...]:
        """The marked ids, oldest mark first; also those that are not loaded."""
        return tuple(self._marks)

    @property
    def in_sight(self) -> tuple[int, int]:
        """(first, behind the last) of the places that are on the screen, from 0, for `1-17 of 12 431`."""
        top = self.scroll_offset.y
        return top, min(top + self._lines, self._window.total)

    def set_marks(self, ids: Iterable[Id]) -> None:
        """Mark these and no others."""
        self._marks = dict.fromkeys(ids)
        self._range_from = None
        self._say_marks()

    def unmark(self, ids: Iterable[Id]) -> None:
        """Take the marks off these (they have been acted on)."""
        for each in ids:
            self._marks.pop(each, None)
        self._say_marks()

    def move_to(self, id: Id) -> bool:
        """Put the cursor on a loaded row; False where it is not loaded."""
        if id not in self._window.places:
            return False
        self._move(self._window.places[id])
        return True

    # ── keys and mouse ───────────────────────────────────────────────────────────────────────────────────────

    def action_move(self, lines: int) -> None:
        self._move(self._place + lines)

    def action_page(self, pages: int) -> None:
        step = pages * max(1, self._lines - 1)
        self._scroll(self.scroll_offset.y + step)
        self._move(self._place + step)

    def action_first(self) -> None:
        self._move(0)

    def action_last(self) -> None:
        self._move(self._window.total - 1)

    def action_open(self) -> None:
        if self._held is not None:
            self.post_message(self.Opened(self, self._held.id))

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
        self._say_marks()
        self._move(self._place + 1)

    def action_range(self) -> None:
        """Begin a range at the cursor, or mark everything from its beginning to here."""
        if self._range_from is None:
            self._range_from = self.cursor_id
        else:
            first, last = self._range()
            rows = (self._window.row(place) for place in range(first, last))
            self._marks.update((row.id, None) for row in rows if row)
            self._range_from = None
            self._say_marks()
        self._repaint()

    def action_end_range(self) -> None:
        self._range_from = None
        self._repaint()

    def action_mark_loaded(self) -> None:
        self._marks.update((row.id, None) for row in self._window.without_ghost().rows)
        self._say_marks()

    def action_unmark_all(self) -> None:
        self.set_marks(())

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Esc is the table's only while a range is open; else the screen gets it."""
        return self._range_from is not None if action == "end_range" else True

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        place = self.scroll_offset.y + offset.y - self.show_header if offset else -1
        if not offset or offset.y < self.show_header or place >= self._window.total:
            return
        self._move(place)
        if event.chain == 2:  # noqa: PLR2004  a double click
            self.action_open()

    def on_focus(self) -> None:
        self._repaint()

    def on_blur(self) -> None:
        self._repaint()

    def on_resize(self) -> None:
        self._measure()
        self._bring_into_sight()
        self._repaint()
        self._want()

    def watch_dimmed(self) -> None:
        self._repaint()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Unlike the base class: repaint only what is different now (an insertion above scrolls and changes nothing)."""
        if self.show_vertical_scrollbar:
            self.vertical_scrollbar.position = new_value
        self._repaint()
        self._want()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._strips.clear()
        self._painted.clear()
        for attribute, cells in self._frame.items():
            setattr(self, attribute, self._content(cells))

    # ── the cursor ───────────────────────────────────────────────────────────────────────────────────────────

    def _move(self, place: int) -> None:
        """The cursor to `place`; the row it leaves goes away if it was gone."""
        place = max(0, min(place, self._window.total - 1))
        ghost = self._window.ghost
        if ghost is not None and place != ghost:
            self._window = self._window.without_ghost()
            place = max(0, min(place - (place > ghost), self._window.total - 1))
            self._measure()
        self._is_touched = True
        held, self._place = self._held, place
        if self._window.row(place) is None:
            self._held = None  # not loaded: whatever turns out to stand there
        self._bring_into_sight()
        self._hold(held)
        self._repaint()
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
        top = self.scroll_offset.y
        self._scroll(max(min(top, self._place), self._place - self._lines + 1))

    def _scroll(self, top: int) -> None:
        if top != self.scroll_offset.y:
            self.scroll_to(y=max(0, top), animate=False, force=True)

    @property
    def _lines(self) -> int:
        """How many rows there is room for."""
        return max(1, self.size.height - self.show_header)

    def _measure(self) -> None:
        """Tell the scrollbar how long the list is.

        Not by assignment, which would lay out the screen anew each time; and the bar is repainted only when its
        thumb looks different (40 lines of it would be the greater part of what a refresh sends over SSH).
        """
        size = Size(self.scrollable_content_region.width, self._window.total + self.show_header)
        if not self.is_attached or size == self.virtual_size:
            return
        before = self._thumb()
        self.set_reactive(Widget.virtual_size, size)
        if before != self._thumb():
            self._scroll_update(size)
            return
        if self.show_vertical_scrollbar:
            self.vertical_scrollbar.set_reactive(ScrollBar.window_virtual_size, size.height)
        self.scroll_y = self.validate_scroll_y(self.scroll_y)

    def _thumb(self) -> tuple[int, int, int]:
        """The scrollbar's picture: track, thumb and position in eighths of a cell; zeros where there is no need of it."""
        track, length = self.container_size.height, self.virtual_size.height
        if length <= track:
            return 0, 0, 0
        return track, 8 * track * track // length, int(8 * track * self.scroll_y // length)

    def _want(self) -> None:
        """Ask for rows when what is in sight, or half a screen above or below it, is not loaded."""
        top, bottom = self.in_sight
        margin = self._lines // 2
        window = self._window
        if not self._is_loaded or not self.is_attached:
            return
        if window.offset <= max(0, top - margin) and min(window.total, bottom + margin) <= window.end:
            self._asked = None
            return
        limit = max(self.page_size, 2 * self._lines)
        offset = max(0, (top + bottom - limit) // 2)
        if offset != self._asked:
            self._asked = offset
            self.post_message(self.Wanted(self, offset, limit))

    def _range(self) -> tuple[int, int]:
        """(first, behind the last) place of the open range; empty where there is none."""
        start = self._window.places.get(self._range_from) if self._range_from is not None else None
        if start is None:
            return 0, 0
        return min(start, self._place), max(start, self._place) + 1

    def _say_marks(self) -> None:
        self._repaint()
        self.post_message(self.Marked(self, self.marks))

    # ── drawing ──────────────────────────────────────────────────────────────────────────────────────────────

    def _repaint(self) -> None:
        """Ask for the parts of lines whose picture is another one now."""
        if not self.is_attached:
            return
        for y in range(self.size.height):
            before, now = self._painted.get(y), self._line(y)
            if before != now:
                self.refresh(*(Region(x, y, width, 1) for x, width in self._changes(before, now)))

    def _changes(self, before: _Line | None, now: _Line) -> list[tuple[int, int]]:
        """(x, width) of what differs: single cells where only cells changed, else the whole line."""
        whole = [(0, self.size.width)]
        if before is None or before.row is None or now.row is None or before._replace(row=now.row) != now:
            return whole
        old, new = before.row, now.row
        if (old.style, old.tint, len(old.cells)) != (new.style, new.tint, len(new.cells)):
            return whole
        x, spans = _GUTTER, []
        for slot in self._slots(now.width):
            if slot.column < len(new.cells) and old.cells[slot.column] != new.cells[slot.column]:
                spans.append((x, slot.width))
            x += slot.width + self._gap(now.width)
        return spans or whole

    def render_line(self, y: int) -> Strip:
        line = self._line(y)
        self._painted[y] = line
        strip = self._strips.get(line)
        if strip is None:
            strip = self._strips[line] = self._draw(line)
        return strip

    def _line(self, y: int) -> _Line:
        """What line `y` of the widget shows now."""
        width = self.scrollable_content_region.width
        if self.show_header and y == 0:
            return _Line(width, text="header", is_dimmed=self.dimmed)
        if not self._window.total:
            return _Line(width, text=self._sentence(y - self.show_header, width))
        place = self.scroll_offset.y + y - self.show_header
        if place >= self._window.total:
            return _Line(width)
        row = self._window.row(place)
        cursor = ("accented" if self.has_focus else "table--frame") if self._shows_cursor(place) else ""
        if row is None:
            return _Line(width, text=self._glyphs.absent, cursor=cursor)
        is_gone = place == self._window.ghost
        mark, mark_style = self._mark(row.id, place, is_gone)
        has_arrived = row.id in self._window.arrived
        return _Line(width, row, "", cursor, mark, mark_style, is_gone, has_arrived, self.dimmed)

    def _shows_cursor(self, place: int) -> bool:
        return place == self._place and (self._is_touched or self.has_focus)

    def _mark(self, id: Id, place: int, is_gone: bool) -> tuple[str, str]:
        if id in self._marks:
            return (self._glyphs.marked_gone if is_gone else self._glyphs.mark), "accented"
        first, last = self._range()
        if first <= place < last:
            return self._glyphs.mark, "muted"
        return (self._glyphs.gone, "muted") if is_gone else ("", "")

    def _sentence(self, line: int, width: int) -> str:
        """Line `line` of the sentence that an empty table shows, one line below its header."""
        if not self._is_loaded or not 1 <= line:
            return ""
        lines = display.wrap(self.empty, width - _GUTTER - 1)
        return lines[line - 1] if line <= len(lines) else ""

    def _draw(self, line: _Line) -> Strip:
        if line.row is None:
            return self._draw_text(line)
        has_bar = line.cursor == "accented"
        ground = self.rich_style
        for name, applies in ((line.row.tint, line.row.tint), ("table--arrived", line.has_arrived)):
            ground += self._style(name) if applies else Style.null()
        ground += self._style("table--cursor") if has_bar else Style.null()
        quiet = "muted" if line.is_dimmed or line.is_gone else ""
        pieces = [
            Piece(self._glyphs.cursor if line.cursor else " ", line.cursor),
            Piece(line.mark or " ", line.mark_style),
        ]
        usual = line.row.style or ("strong" if has_bar else "")
        for at, slot in enumerate(self._slots(line.width)):
            column = self.columns[slot.column]
            cell = line.row.cells[slot.column] if slot.column < len(line.row.cells) else ""
            pieces.append(Piece(" " * (self._gap(line.width) if at else 0)))
            for piece in self._fit(cell, slot.width, column.align):
                pieces.append(Piece(piece.text, quiet or piece.style or column.style or usual))
        return self._strip(pieces, ground, line.width)

    def _draw_text(self, line: _Line) -> Strip:
        """The header, the sentence of an empty table, a row that is not loaded, or nothing."""
        pieces = [Piece(self._glyphs.cursor if line.cursor else " ", line.cursor), Piece(" ")]
        if line.text != "header":
            pieces.append(Piece(line.text, "muted"))
            return self._strip(pieces, self.rich_style, line.width)
        for at, slot in enumerate(self._slots(line.width)):
            column = self.columns[slot.column]
            pieces.append(Piece(" " * (self._gap(line.width) if at else 0)))
            pieces.extend(self._fit(Piece(column.title, "table--header"), slot.width, column.align))
        return self._strip(pieces, self.rich_style, line.width)

    def _slots(self, width: int) -> tuple[Slot, ...]:
        if self._arranged is None or self._arranged[0] != width:
            self._arranged = width, arrange(self.columns, width - _GUTTER - 1, self._gap(width))
        return self._arranged[1]

    @staticmethod
    def _gap(width: int) -> int:
        return 1 if width < _NARROW else 2

    def _fit(self, cell: Cell, width: int, align: str) -> list[Piece]:
        """The cell in exactly `width` cells, and nothing in it that a terminal obeys."""
        # Callers make text safe; this is the last line of defence, free for plain text.
        pieces = [Piece(display.safe(text, self.ascii_only), style) for text, style in _pieces(cell)]
        spare = width - sum(display.cell_len(piece.text) for piece in pieces)
        if spare >= 0:
            pad = Piece(" " * spare)
            return [pad, *pieces] if align == "right" else [*pieces, pad]
        fitted: list[Piece] = []
        room = width
        for text, style in pieces:
            length = display.cell_len(text)
            if length >= room:  # more follows, or this one is too long itself
                fitted.append(Piece(display.fit(text + " ", room, ellipsis=self._glyphs.ellipsis), style))
                break
            fitted.append(Piece(text, style))
            room -= length
        return fitted

    def _strip(self, pieces: list[Piece], ground: Style, width: int) -> Strip:
        """The pieces on their ground; blanks go with what stands before them, for each style change costs 40 bytes."""
        runs: list[list[str]] = []
        for text, style in pieces:
            if runs and (style == runs[-1][1] or text.isspace() or not text):
                runs[-1][0] += text
            else:
                runs.append([text, style])
        segments = [Segment(text, ground + self._style(style) if style else ground) for text, style in runs]
        return Strip(segments).adjust_cell_length(width, segments[-1].style)

    def _style(self, name: str) -> Style:
        return self.get_component_rich_style(name, partial=True, default=Style.null())

    def _set_frame(self, attribute: str, cells: tuple[Cell, ...], y: int) -> None:
        """Textual's own setter reads markup and repaints the whole widget; a title has data in it and ticks."""
        if self._frame.get(attribute) == cells:
            return
        self._frame[attribute] = cells
        setattr(self, attribute, self._content(cells))
        self.refresh(Region(-self.styles.gutter.left, y, self.outer_size.width, 1))

    def _content(self, cells: tuple[Cell, ...]) -> Content | None:
        pieces = [piece for cell in cells for piece in _pieces(cell)]
        parts = [
            (display.safe(text, self.ascii_only), self.get_visual_style(style, partial=True) if style else "")
            for text, style in pieces
        ]
        return Content.assemble(*parts) if parts else None


def _pieces(cell: Cell) -> list[Piece]:
    if isinstance(cell, str):
        return [Piece(cell)]
    return [cell] if isinstance(cell, Piece) else list(cell)
