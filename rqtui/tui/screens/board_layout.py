"""Compute the grid of a board: the current place in the middle, short panes beside it, the job detail at the right.

The functions are pure, from the terminal's size and the counts per place to a `BoardLayout`, which the board applies to
its grid. The pane in the middle takes at least half of the width. An empty place folds to one line with its count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from rqtui.model import Finding, Place, Queue, State
from rqtui.system_base.system import find_late_place

SIDE_BY_SIDE_FROM = 120  # terminal cells; below, one pane takes the whole width and its frame shows tabs
DETAIL_FROM = 140
FOLDED_ROWS = 1  # only the title line of a frame
_SIDE_CELLS = (24, 44)  # minimum and maximum cells of a short pane
_DETAIL_CELLS = (40, 76)
_STATE_OF_FINDING: Mapping[str, State] = {  # state of the jobs that a finding of that kind is about
    "due-not-dispatched": State.SCHEDULED,
    "no-live-worker": State.READY,
    "oldest-ready": State.READY,
    "backlog-grows": State.READY,
    "paused": State.READY,
    "expired-not-reaped": State.RESERVED,
    "dead-near-cap": State.DEAD,
}
# The state by the key that a finding suggests, for finding kinds missing in `_STATE_OF_FINDING`.
_STATE_OF_KEY: Mapping[str, State] = {"e": State.DEAD, "w": State.RESERVED, "m": State.READY}


class BoardLayout(NamedTuple):
    """The grid of a board: the visible panes by place name, with the columns and rows of the grid in CSS units.

    `side` are the short panes beside `current`, `folded` those of them that show only their title.
    """

    current: str
    side: tuple[str, ...] = ()
    folded: frozenset[str] = frozenset()
    columns: str = "1fr"
    rows: str = "1fr"
    has_detail: bool = False

    @property
    def in_sight(self) -> tuple[str, ...]:
        """The names of the places whose panes show rows."""
        return (self.current, *(name for name in self.side if name not in self.folded))


def compute_board_layout(
    width: int,
    names: Sequence[str],
    current: str,
    empty_names: Iterable[str] | None,
    *,
    is_zoomed: bool,
    list_rows: int,
) -> BoardLayout:
    """Compute the grid of a board for a terminal of `width` cells.

    `empty_names` names the places without jobs; None means that they are not counted yet. `list_rows` is the number of
    rows that the current pane needs, if the job detail fits below it on a narrow terminal.
    """
    if is_zoomed:
        return BoardLayout(current)
    if width < SIDE_BY_SIDE_FROM:
        return BoardLayout(current, rows=f"{list_rows} 1fr" if list_rows else "1fr", has_detail=bool(list_rows))
    has_detail = width >= DETAIL_FROM
    detail = f" {_compute_share_of_width(width, 29, _DETAIL_CELLS)}" if has_detail else ""
    others = tuple(name for name in names if name != current)
    folded = frozenset(others if empty_names is None else empty_names) & frozenset(others)
    if len(folded) == len(others):  # All other places are empty, so the frame shows tabs instead.
        return BoardLayout(current, columns=f"1fr{detail}", has_detail=has_detail)
    rows = " ".join(str(FOLDED_ROWS) if name in folded else "1fr" for name in others)
    return BoardLayout(
        current, others, folded, f"{_compute_share_of_width(width, 16, _SIDE_CELLS)} 1fr{detail}", rows, has_detail
    )


def _compute_share_of_width(width: int, percent: int, bounds: tuple[int, int]) -> int:
    min_cells, max_cells = bounds
    return max(min_cells, min(max_cells, width * percent // 100))


def choose_first_place(
    places: Sequence[Place], queue: Queue, redis_keys: Mapping[str, str] = MappingProxyType({})
) -> str:
    """Choose the place on which a board opens: the place of the worst finding, else the fullest unfinished place.

    `keys` maps place names to Redis keys, because a finding may name the Redis key that it is about.
    """
    for finding in queue.findings:
        places_by_key = (place for place in places if finding.keys and redis_keys.get(place.name) == finding.keys[0])
        if place_of_key := next((place for place in places_by_key if queue.count_in_place(place.name)), None):
            return place_of_key.name
        state = _find_state_of_finding(finding)
        filled = [place for place in places if place.state is state and queue.count_in_place(place.name)]
        if filled and finding.kind == "expired-not-reaped":
            late_place = find_late_place(places)
            return late_place.name if late_place in filled else filled[0].name
        if filled:
            return max(filled, key=lambda place: queue.count_in_place(place.name)).name
    ready = next((place for place in places if place.state is State.READY), places[0])
    unfinished = [place for place in places if place.state is not State.DONE]
    return max((ready, *unfinished, *places), key=lambda place: _compute_fullness_key(place, queue)).name


def _find_state_of_finding(finding: Finding) -> State | None:
    """Return the state of the jobs that a finding is about; None for a finding about the whole queue."""
    by_key = next((_STATE_OF_KEY[key] for key in finding.key.split() if key in _STATE_OF_KEY), None)
    return _STATE_OF_FINDING.get(finding.kind, by_key)


def _compute_fullness_key(place: Place, queue: Queue) -> tuple[bool, int]:
    """Return a sort key of a place, greatest for the place with the most unfinished jobs."""
    number = queue.count_in_place(place.name)
    return bool(number) and place.state is not State.DONE, number
