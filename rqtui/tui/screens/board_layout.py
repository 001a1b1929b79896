"""Where the panes of a board stand: one in the middle, the others short beside it, the detail of a job at the right.

Pure: from the size of the terminal and the counts of the places to a shape, which the board lays out as a grid. The
pane in the middle takes half of the width or more. A place without jobs folds into its count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from rqtui.layout.layout import late_place
from rqtui.model import Finding, Place, Queue, State

WIDE = 120  # cells of a terminal; below it one pane has the whole width, and its frame has tabs
WITH_DETAIL = 140
FOLDED_ROWS = 1  # the words of a frame
_SIDE = (24, 44)  # cells of a short pane: the least and the most
_DETAIL = (40, 76)
_TROUBLE: Mapping[str, State] = {  # the state whose jobs a finding of that kind is about
    "due-not-dispatched": State.SCHEDULED,
    "no-live-worker": State.READY,
    "oldest-ready": State.READY,
    "backlog-grows": State.READY,
    "paused": State.READY,
    "expired-not-reaped": State.RESERVED,
    "dead-near-cap": State.DEAD,
}
_BY_KEY: Mapping[str, State] = {"e": State.DEAD, "w": State.RESERVED, "m": State.READY}  # of a kind that is not there


class Shape(NamedTuple):
    """The grid: the panes from left to right, row by row, by their names; those `folded`; its columns and rows.

    `side` are the short ones. Columns and rows are as in CSS: cells, or `1fr`.
    """

    current: str
    side: tuple[str, ...] = ()
    folded: frozenset[str] = frozenset()
    columns: str = "1fr"
    rows: str = "1fr"
    has_detail: bool = False

    @property
    def in_sight(self) -> tuple[str, ...]:
        """The panes that have room for rows."""
        return (self.current, *(name for name in self.side if name not in self.folded))


def shape(width: int, names: Sequence[str], current: str, empty: Iterable[str] | None, *, is_zoomed: bool) -> Shape:
    """How the places stand on a terminal of `width` cells; `empty`: those without jobs, None before they are known."""
    if width < WIDE or is_zoomed:
        return Shape(current)
    has_detail = width >= WITH_DETAIL
    detail = f" {_share(width, 29, _DETAIL)}" if has_detail else ""
    others = tuple(name for name in names if name != current)
    folded = frozenset(others if empty is None else empty) & frozenset(others)
    if len(folded) == len(others):  # nothing to see beside it: its frame has tabs
        return Shape(current, columns=f"1fr{detail}", has_detail=has_detail)
    rows = " ".join(str(FOLDED_ROWS) if name in folded else "1fr" for name in others)
    return Shape(current, others, folded, f"{_share(width, 16, _SIDE)} 1fr{detail}", rows, has_detail)


def _share(width: int, percent: int, bounds: tuple[int, int]) -> int:
    least, most = bounds
    return max(least, min(most, width * percent // 100))


def first_place(places: Sequence[Place], queue: Queue, keys: Mapping[str, str] = MappingProxyType({})) -> str:
    """Where a board opens: the place that the worst finding is about, else the fullest of what is not finished.

    `keys` are those of the places by their names: a finding may name the key that it is about.
    """
    for finding in queue.findings:
        named = (place for place in places if finding.keys and keys.get(place.name) == finding.keys[0])
        if about := next((place for place in named if queue.count(place.name)), None):
            return about.name
        state = _state_of(finding)
        there = [place for place in places if place.state is state and queue.count(place.name)]
        if there and finding.kind == "expired-not-reaped":
            late = late_place(places)
            return late.name if late in there else there[0].name
        if there:
            return max(there, key=lambda place: queue.count(place.name)).name
    ready = next((place for place in places if place.state is State.READY), places[0])
    unfinished = [place for place in places if place.state is not State.DONE]
    return max((ready, *unfinished, *places), key=lambda place: _fullness(place, queue)).name


def _state_of(finding: Finding) -> State | None:
    by_key = next((_BY_KEY[key] for key in finding.key.split() if key in _BY_KEY), None)
    return _TROUBLE.get(finding.kind, by_key)


def _fullness(place: Place, queue: Queue) -> tuple[bool, int]:
    number = queue.count(place.name)
    return bool(number) and place.state is not State.DONE, number
