"""What a table shows, as data: columns, rows of cells, and the loaded window of a longer list.

Pure: no widget and no Redis. `table.Table` draws it; the screens make it from a snapshot. A cell is plain text or
pieces of text with the *name* of a style, so a change of theme needs no new rows. Text must have gone through
`safe`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

from rqtui.text.elision import Fit
from rqtui.text.pieces import Cell

Id: TypeAlias = bytes | str


class Column(NamedTuple):
    """`width` cells wide; with a `weight`, that is the least, and it takes its share of what is left over, up to
    `most` cells (0: any). A cell that is too long is cut by `fit`, without one at its end.

    Where there is too little room the columns with the greatest `drop` go first; those with 0 never go.
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


class Later(Sequence["Cell"]):
    """Cells that are made when they are looked at: of ten thousand rows forty are in sight."""

    __slots__ = ("_made", "_make", "_row")

    def __init__(self, make: Callable[[Id], Sequence[Cell]], id: Id) -> None:
        self._make, self._row = make, id
        self._made: Sequence[Cell] | None = None

    @property
    def made(self) -> Sequence[Cell]:
        """The cells, as they were when they were first looked at."""
        if self._made is None:
            self._made = self._make(self._row)
        return self._made

    def __getitem__(self, at: Any) -> Any:
        return self.made[at]

    def __len__(self) -> int:
        return len(self.made)


class Row(NamedTuple):
    """One line: `cells` in the order of all columns (also of the hidden ones); `style` is the default of its cells,
    `tint` a style whose background the line takes. One that `is_gone` is in the list no more, but still shown."""

    id: Id
    cells: Sequence[Cell]
    style: str = ""
    tint: str = ""
    is_gone: bool = False

    @property
    def whole(self) -> Row:
        """The same with its cells made."""
        return self._replace(cells=self.cells.made) if isinstance(self.cells, Later) else self


class Slot(NamedTuple):
    """Where a column is drawn: its index among the columns, and how many cells it got."""

    column: int
    width: int


def arrange(columns: Sequence[Column], width: int, gap: int) -> tuple[Slot, ...]:
    """The columns that fit into `width` cells with `gap` between them, and what each of them gets."""
    shown = list(range(len(columns)))

    def spare() -> int:
        return width - sum(columns[at].width for at in shown) - gap * (len(shown) - 1)

    while spare() < 0:
        droppable = [at for at in shown if columns[at].drop]
        if not droppable:
            break
        shown.remove(max(droppable, key=lambda at: (columns[at].drop, at)))
    extra, more = max(0, spare()), dict.fromkeys(shown, 0)
    open_ = [at for at in shown if columns[at].weight]
    while open_:
        shares = _shares([columns[at].weight for at in open_], extra)
        full = [at for at, share in zip(open_, shares, strict=True) if 0 < columns[at].most < columns[at].width + share]
        if not full:
            more.update(zip(open_, shares, strict=True))
            break
        for at in full:
            more[at] = max(0, columns[at].most - columns[at].width)
            extra -= more[at]
        open_ = [at for at in open_ if at not in full]
    return tuple(Slot(at, columns[at].width + more[at]) for at in shown)


def _shares(weights: Sequence[int], extra: int) -> list[int]:
    """`extra` by weight: by the running sum, so that the last one ends exactly at the edge."""
    shares, used, whole = [], 0, sum(weights)
    for weight in weights:
        used += weight
        shares.append(extra * used // whole - extra * (used - weight) // whole)
    return shares


@dataclass(frozen=True, slots=True)
class Window:
    """The loaded `rows` of a list of `total`; the first of them stands at `offset`.

    `ghost` is the place (absolute) of a row that is no longer in the list but still shown, because the cursor is on
    it; it is among `rows` and in `total`. `arrived` are the ids that were not there in the window before.
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
        """The place behind the last loaded row."""
        return self.offset + len(self.rows)

    def row(self, place: int) -> Row | None:
        """The row at an absolute place; None where it is not loaded."""
        return self.rows[place - self.offset] if self.offset <= place < self.end else None

    def exchanged(self, changed: Iterable[Row]) -> Window:
        """The same list, in which these rows look otherwise; those that are not loaded are left out."""
        rows = [*self.rows]
        for row in changed:
            if row.id in self.places:
                rows[self.places[row.id] - self.offset] = row
        return Window(tuple(rows), self.offset, self.total, self.ghost, places=self.places)

    def without_ghost(self) -> Window:
        """The same without the row that is kept only for the cursor."""
        if self.ghost is None:
            return self
        at = self.ghost - self.offset
        rows = self.rows[:at] + self.rows[at + 1 :]
        return Window(rows, self.offset, self.total - 1, None, self.arrived)


def follow(
    old: Window, rows: Sequence[Row], offset: int, total: int, hold: Row | None, place: int
) -> tuple[Window, int]:
    """(the window after a refresh, the place of the cursor), where the cursor was on row `hold` at `place`.

    A row under the cursor that left the list stays among its neighbours. Where it may merely have moved out of what
    is loaded (its neighbours went too, and the list goes on there), it is not kept: the place is then outside of
    the window, and loading that part tells.
    """
    rows = tuple(rows)
    total = max(total, offset + len(rows))
    fresh = Window(rows, offset, total)
    arrived = _arrived(old.without_ghost(), fresh)
    fresh = replace(fresh, arrived=arrived, places={})
    if hold is None:
        return fresh, max(0, min(place, total - 1))
    if hold.id in fresh.places:
        return fresh, fresh.places[hold.id]
    at = _between_neighbours(old, fresh, hold, place)
    if at == 0 and offset > 0:
        return fresh, offset - 1
    if at == len(rows) and fresh.end < total:
        return fresh, fresh.end
    return Window((*rows[:at], hold, *rows[at:]), offset, total + 1, offset + at, arrived), offset + at


def _between_neighbours(old: Window, fresh: Window, hold: Row, place: int) -> int:
    """The index in `fresh.rows` behind the nearest row that stood above `hold`, or before the nearest below it."""
    at = old.places[hold.id] - old.offset if hold.id in old.places else 0
    above, below = (old.rows[:at], old.rows[at + 1 :]) if hold.id in old.places else ((), ())
    for row in reversed(above):
        if row.id in fresh.places:
            return fresh.places[row.id] - fresh.offset + 1
    for row in below:
        if row.id in fresh.places:
            return fresh.places[row.id] - fresh.offset
    return min(max(place - fresh.offset, 0), len(fresh.rows))


def _arrived(old: Window, fresh: Window) -> frozenset[Id]:
    """The ids that came into the list since `old`; not those that only slid or were paged into the window.

    Above the first known row nothing can have slid in if `old` began at the head, below the last one if it reached
    the end.
    """
    known = [at for at, row in enumerate(fresh.rows) if row.id in old.places]
    whole_above, whole_below = old.offset == 0 and fresh.offset == 0, old.end >= old.total
    if not known:
        rows = fresh.rows if whole_above and whole_below else ()
    else:
        first = 0 if whole_above else known[0]
        last = len(fresh.rows) if whole_below else known[-1]
        rows = fresh.rows[first:last]
    return frozenset(row.id for row in rows if row.id not in old.places)
