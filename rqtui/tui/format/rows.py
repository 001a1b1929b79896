"""Define what a table shows, as data: columns, rows of cells, and the loaded window of a longer list.

It uses no widget and no Redis. `table.Table` draws the rows, which the screens build from a snapshot. A cell is plain
text or pieces of text with the *name* of a style, so that a change of theme needs no new rows. Texts must have gone
through `safe`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

from rqtui.text.elision import Fit
from rqtui.text.pieces import Cell

Id: TypeAlias = bytes | str


class Column(NamedTuple):
    """A column of a table: `width` cells wide, or at least that with a `weight`.

    A column with a weight gets its share of the remaining width, up to `most` cells (0: unlimited). A text that is too
    long is cut by `fit`, or at its end without one. On a narrow screen the columns with the greatest `drop` are removed
    first; those with 0 are never removed.
    """

    key: str
    title: str = ""
    width: int = 8
    weight: int = 0
    align: str = "left"
    style: str = ""
    drop: int = 0
    most: int = 0
    fit: Fit | None = None


class LazyCells(Sequence["Cell"]):
    """Cells that are built when they are first read: of ten thousand rows only about forty are visible."""

    __slots__ = ("_made", "_make", "_row")

    def __init__(self, make: Callable[[Id], Sequence[Cell]], id: Id) -> None:
        self._make, self._row = make, id
        self._made: Sequence[Cell] | None = None

    @property
    def cells(self) -> Sequence[Cell]:
        """The cells, built at the first access."""
        if self._made is None:
            self._made = self._make(self._row)
        return self._made

    def __getitem__(self, at: Any) -> Any:
        return self.cells[at]

    def __len__(self) -> int:
        return len(self.cells)


class Row(NamedTuple):
    """One row of a table.

    `cells` are in the order of all columns, also the hidden ones. `style` is the default style of its cells, `tint` a
    style whose background the row takes. A row that `is_gone` has left the list but is still shown.
    """

    id: Id
    cells: Sequence[Cell]
    style: str = ""
    tint: str = ""
    is_gone: bool = False

    @property
    def with_cells(self) -> Row:
        """The same row with its cells built."""
        return self._replace(cells=self.cells.cells) if isinstance(self.cells, LazyCells) else self


class Slot(NamedTuple):
    """A drawn column: its index among all columns, and its width in cells."""

    column: int
    width: int


def arrange(columns: Sequence[Column], width: int, gap: int) -> tuple[Slot, ...]:
    """Return the columns that fit into `width` cells with `gap` between them, with the width of each."""
    shown = list(range(len(columns)))

    def count_spare_cells() -> int:
        return width - sum(columns[at].width for at in shown) - gap * (len(shown) - 1)

    while count_spare_cells() < 0:
        droppable = [at for at in shown if columns[at].drop]
        if not droppable:
            break
        shown.remove(max(droppable, key=lambda at: (columns[at].drop, at)))
    extra, more = max(0, count_spare_cells()), dict.fromkeys(shown, 0)
    open_ = [at for at in shown if columns[at].weight]
    while open_:
        shares = _divide_by_weight([columns[at].weight for at in open_], extra)
        full = [at for at, share in zip(open_, shares, strict=True) if 0 < columns[at].most < columns[at].width + share]
        if not full:
            more.update(zip(open_, shares, strict=True))
            break
        for at in full:
            more[at] = max(0, columns[at].most - columns[at].width)
            extra -= more[at]
        open_ = [at for at in open_ if at not in full]
    return tuple(Slot(at, columns[at].width + more[at]) for at in shown)


def _divide_by_weight(weights: Sequence[int], extra: int) -> list[int]:
    """Divide `extra` cells by weight. The running sum is rounded, so that the shares add up exactly."""
    shares, used, whole = [], 0, sum(weights)
    for weight in weights:
        used += weight
        shares.append(extra * used // whole - extra * (used - weight) // whole)
    return shares


@dataclass(frozen=True, slots=True)
class Window:
    """The loaded `rows` of a list of `total` rows; the first one is at position `offset`.

    `ghost` is the absolute position of a row that left the list but is still shown, because the cursor is on it. It
    counts in `rows` and `total`. `arrived` are the ids that are new since the previous window.
    """

    rows: tuple[Row, ...] = ()
    offset: int = 0
    total: int = 0
    ghost: int | None = None
    arrived: frozenset[Id] = frozenset()
    places: dict[Id, int] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        if not self.places:
            for place, row in enumerate(self.rows, self.offset):
                self.places.setdefault(row.id, place)

    @property
    def end(self) -> int:
        """The position after the last loaded row."""
        return self.offset + len(self.rows)

    def find_row(self, place: int) -> Row | None:
        """Return the row at an absolute position, or None if it is not loaded."""
        return self.rows[place - self.offset] if self.offset <= place < self.end else None

    def replace_rows(self, changed: Iterable[Row]) -> Window:
        """Return the window with these rows replaced by id. Rows that are not loaded are ignored."""
        rows = [*self.rows]
        for row in changed:
            if row.id in self.places:
                rows[self.places[row.id] - self.offset] = row
        return Window(tuple(rows), self.offset, self.total, self.ghost, places=self.places)

    def remove_ghost(self) -> Window:
        """Return the window without the row that is kept only for the cursor."""
        if self.ghost is None:
            return self
        at = self.ghost - self.offset
        rows = self.rows[:at] + self.rows[at + 1 :]
        return Window(rows, self.offset, self.total - 1, None, self.arrived)


def follow_cursor(
    old: Window, rows: Sequence[Row], offset: int, total: int, hold: Row | None, place: int
) -> tuple[Window, int]:
    """Return (the window after a refresh, the position of the cursor); the cursor was on row `hold` at `place`.

    A row under the cursor that left the list is kept between its neighbours. It is not kept if it may only have moved
    out of the loaded part: if its neighbours are missing too and the list continues there. Then the position is outside
    the window, and loading that part shows whether the row is there.
    """
    rows = tuple(rows)
    total = max(total, offset + len(rows))
    fresh = Window(rows, offset, total)
    arrived = _find_arrived(old.remove_ghost(), fresh)
    fresh = replace(fresh, arrived=arrived, places={})
    if hold is None:
        return fresh, max(0, min(place, total - 1))
    if hold.id in fresh.places:
        return fresh, fresh.places[hold.id]
    at = _find_gap(old, fresh, hold, place)
    if at == 0 and offset > 0:
        return fresh, offset - 1
    if at == len(rows) and fresh.end < total:
        return fresh, fresh.end
    return Window((*rows[:at], hold, *rows[at:]), offset, total + 1, offset + at, arrived), offset + at


def _find_gap(old: Window, fresh: Window, hold: Row, place: int) -> int:
    """Return the index in `fresh.rows` after the nearest row that was above `hold`, or before the nearest below it."""
    at = old.places[hold.id] - old.offset if hold.id in old.places else 0
    above, below = (old.rows[:at], old.rows[at + 1 :]) if hold.id in old.places else ((), ())
    for row in reversed(above):
        if row.id in fresh.places:
            return fresh.places[row.id] - fresh.offset + 1
    for row in below:
        if row.id in fresh.places:
            return fresh.places[row.id] - fresh.offset
    return min(max(place - fresh.offset, 0), len(fresh.rows))


def _find_arrived(old: Window, fresh: Window) -> frozenset[Id]:
    """Return the ids that were added to the list since `old`, not those that only moved or were paged into the window.

    A row above the first known row is new only if `old` began at the start of the list; one below the last known row is
    new only if `old` reached its end.
    """
    known_indices = [at for at, row in enumerate(fresh.rows) if row.id in old.places]
    whole_above, whole_below = old.offset == 0 and fresh.offset == 0, old.end >= old.total
    if not known_indices:
        rows = fresh.rows if whole_above and whole_below else ()
    else:
        first = 0 if whole_above else known_indices[0]
        last = len(fresh.rows) if whole_below else known_indices[-1]
        rows = fresh.rows[first:last]
    return frozenset(row.id for row in rows if row.id not in old.places)
