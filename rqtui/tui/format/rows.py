"""Define what a table shows, as data: columns, rows of cells, and the loaded window of a longer list.

The module uses no widget and no Redis. `table.Table` draws the rows, which the screens build from a snapshot. A cell is
plain text or pieces of text with the *name* of a style, so that a change of theme needs no new rows. Texts must have
gone through `safe`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

from rqtui.text.elision import Fit
from rqtui.text.pieces import Cell

Id: TypeAlias = bytes | str


class Column(NamedTuple):
    """A table column, `width` cells wide, or at least that wide if it has a `weight`.

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
    """The cells of a table row, built when they are first read: of ten thousand rows only about forty are visible."""

    __slots__ = ("_built_cells", "_cells_builder", "_row_id")

    def __init__(self, build_cells: Callable[[Id], Sequence[Cell]], row_id: Id) -> None:
        self._cells_builder, self._row_id = build_cells, row_id
        self._built_cells: Sequence[Cell] | None = None

    @property
    def cells(self) -> Sequence[Cell]:
        """The cells of the table row, built at the first access."""
        if self._built_cells is None:
            self._built_cells = self._cells_builder(self._row_id)
        return self._built_cells

    def __getitem__(self, index: Any) -> Any:
        return self.cells[index]

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
    def with_built_cells(self) -> Row:
        """A copy of the table row in which lazily built cells are built."""
        return self._replace(cells=self.cells.cells) if isinstance(self.cells, LazyCells) else self


class VisibleColumn(NamedTuple):
    """A visible column of a table: its index among all columns, and its width in cells."""

    column: int
    width: int


def fit_columns(columns: Sequence[Column], width: int, gap: int) -> tuple[VisibleColumn, ...]:
    """Return the table columns that fit into `width` cells with `gap` between them, each with its width."""
    visible = list(range(len(columns)))

    def count_spare_cells() -> int:
        return width - sum(columns[index].width for index in visible) - gap * (len(visible) - 1)

    while count_spare_cells() < 0:
        droppable = [index for index in visible if columns[index].drop]
        if not droppable:
            break
        visible.remove(max(droppable, key=lambda index: (columns[index].drop, index)))
    remaining, added_cells = max(0, count_spare_cells()), dict.fromkeys(visible, 0)
    flexible = [index for index in visible if columns[index].weight]
    while flexible:
        shares = _divide_cells_by_weight([columns[index].weight for index in flexible], remaining)
        limited = [
            index
            for index, share in zip(flexible, shares, strict=True)
            if 0 < columns[index].most < columns[index].width + share
        ]
        if not limited:
            added_cells.update(zip(flexible, shares, strict=True))
            break
        for index in limited:
            added_cells[index] = max(0, columns[index].most - columns[index].width)
            remaining -= added_cells[index]
        flexible = [index for index in flexible if index not in limited]
    return tuple(VisibleColumn(index, columns[index].width + added_cells[index]) for index in visible)


def _divide_cells_by_weight(weights: Sequence[int], extra: int) -> list[int]:
    """Divide `extra` cells among columns by their weights.

    The running sum is rounded, so that the shares add up exactly.
    """
    shares, weight_sum, total = [], 0, sum(weights)
    for weight in weights:
        weight_sum += weight
        shares.append(extra * weight_sum // total - extra * (weight_sum - weight) // total)
    return shares


@dataclass(frozen=True, slots=True)
class ListWindow:
    """The loaded part of a longer list: its `rows`, of which the first is at position `offset`, and the list's `total`.

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
        """The position in the list after the last loaded row."""
        return self.offset + len(self.rows)

    def find_row(self, place: int) -> Row | None:
        """Return the row at an absolute position in the list, or None if it is not loaded."""
        return self.rows[place - self.offset] if self.offset <= place < self.end else None

    def replace_rows(self, changed_rows: Iterable[Row]) -> ListWindow:
        """Return a copy of the window in which loaded rows are replaced by `changed_rows` rows of the same id.

        Rows that are not loaded are ignored.
        """
        rows = [*self.rows]
        for row in changed_rows:
            if row.id in self.places:
                rows[self.places[row.id] - self.offset] = row
        return ListWindow(tuple(rows), self.offset, self.total, self.ghost, places=self.places)

    def remove_ghost(self) -> ListWindow:
        """Return a copy of the window without the row that left the list and is shown only for the cursor."""
        if self.ghost is None:
            return self
        index = self.ghost - self.offset
        rows = self.rows[:index] + self.rows[index + 1 :]
        return ListWindow(rows, self.offset, self.total - 1, None, self.arrived)


def keep_cursor_row(
    previous: ListWindow, rows: Sequence[Row], offset: int, total: int, cursor_row: Row | None, position: int
) -> tuple[ListWindow, int]:
    """Return the window of a list after a refresh, and the cursor's position in it, so that the cursor keeps its row.

    The cursor was on the row `cursor_row` at position `position`. A row under the cursor that left the list is kept
    between its neighbours. It is not kept if it may only have moved out of the loaded part: if its neighbours are
    missing too and the list continues there. Then the position is outside the window, and loading that part shows
    whether the row is there.
    """
    rows = tuple(rows)
    total = max(total, offset + len(rows))
    fresh = ListWindow(rows, offset, total)
    arrived = _find_arrived_ids(previous.remove_ghost(), fresh)
    fresh = replace(fresh, arrived=arrived, places={})
    if cursor_row is None:
        return fresh, max(0, min(position, total - 1))
    if cursor_row.id in fresh.places:
        return fresh, fresh.places[cursor_row.id]
    index = _find_former_index(previous, fresh, cursor_row, position)
    if index == 0 and offset > 0:
        return fresh, offset - 1
    if index == len(rows) and fresh.end < total:
        return fresh, fresh.end
    return ListWindow(
        (*rows[:index], cursor_row, *rows[index:]), offset, total + 1, offset + index, arrived
    ), offset + index


def _find_former_index(previous: ListWindow, fresh: ListWindow, cursor_row: Row, position: int) -> int:
    """Return the index in `fresh.rows` where a row that left the list was, by the neighbours that it had.

    That is after the nearest row that was above `cursor_row`, or before the nearest below it.
    """
    if cursor_row.id in previous.places:
        index = previous.places[cursor_row.id] - previous.offset
        for row in reversed(previous.rows[:index]):
            if row.id in fresh.places:
                return fresh.places[row.id] - fresh.offset + 1
        for row in previous.rows[index + 1 :]:
            if row.id in fresh.places:
                return fresh.places[row.id] - fresh.offset
    return min(max(position - fresh.offset, 0), len(fresh.rows))


def _find_arrived_ids(previous: ListWindow, fresh: ListWindow) -> frozenset[Id]:
    """Return the ids of rows that were added to the list since the window `previous`.

    Rows that only moved, or were paged into the window, are not among them. A row above the first known row is new only
    if `previous` began at the start of the list; one below the last known row is new only if `previous` reached its
    end.
    """
    known_indices = [index for index, row in enumerate(fresh.rows) if row.id in previous.places]
    is_start_known, is_end_known = previous.offset == 0 and fresh.offset == 0, previous.end >= previous.total
    if not known_indices:
        rows = fresh.rows if is_start_known and is_end_known else ()
    else:
        first = 0 if is_start_known else known_indices[0]
        last = len(fresh.rows) if is_end_known else known_indices[-1]
        rows = fresh.rows[first:last]
    return frozenset(row.id for row in rows if row.id not in previous.places)
