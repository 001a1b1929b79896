"""Sample: members of a place that has no order, held so that rows stay where they are under a cursor.

Whoever shows such a place asks again for the members that it holds (`wish`), and tells the sample what was answered
(`learn`): members that left drop out, and the sample is filled up at its end. It knows no Redis and no layout.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

HELD = 10_000  # members that are remembered, and so can be listed
FILL = 1_000  # new ones per round trip, when somebody jumps ahead: 4 ms of the server
SPARE = 100  # more are asked for than are shown, in place of those that left
MOST = 4_000  # members asked for at once, and rows per answer

Row = Mapping[str, Any]


class Wish(NamedTuple):
    """What to ask: which of `asked` are still there, and as many others as make `wanted`, from `cursor` on."""

    asked: tuple[bytes, ...]
    wanted: int
    cursor: str


@dataclass(slots=True)
class Sample:
    """Members by id, in the order in which they were met; those too long to be asked for again with their last row."""

    members: dict[bytes, Row | None] = field(default_factory=dict)
    cursor: str = "0"
    of: int = HELD  # how many stood there at last
    walks: int = 0  # whole ones; what came behind their back is hunted for in larger steps
    met: set[bytes] = field(default_factory=set)  # long ones that this walk over the place has met

    def wish(self, offset: int, limit: int) -> Wish:
        """For `limit` rows from `offset` on, and some behind them, for those that left; -1 is the end."""
        held = list(self.members)
        size = min(limit + min(limit, SPARE), MOST)
        start = offset if offset >= 0 else max(0, len(held) - size)
        window = held[start : start + size]
        asked = tuple(id for id in window if self.members[id] is None)
        missing = (start + limit if offset >= 0 else min(self.of, HELD)) - len(held)
        ahead = FILL if self.walks and missing > 0 else min(FILL, max(0, missing))
        return Wish(asked, min(MOST, max(limit, ahead + len(asked))), self.cursor)

    def learn(self, wish: Wish, rows: Mapping[bytes, Row], long: set[bytes], of: int, cursor: str) -> None:
        """Take in an answer: rows by id, which are `long`, how many members there are, where the walk stands."""
        self.of, self.cursor = of, cursor
        left = {id for id in wish.asked if id not in rows}
        has_walked = len(wish.asked) - len(left) < wish.wanted
        if len(self.members) - len(left) > of:  # others left, too, further on
            left = self.members.keys() - rows.keys()
        self.met |= long
        if has_walked and cursor == "0":  # a whole walk did not meet these
            left |= {id for id, row in self.members.items() if row is not None} - self.met
            self.met, self.walks = set(), self.walks + 1
        for id in left:
            del self.members[id]
        for id, row in rows.items():
            if id in self.members or len(self.members) < HELD:
                self.members[id] = row if id in long else None

    def rows(self, offset: int, limit: int, fresh: Mapping[bytes, Row]) -> tuple[int, list[Row]]:
        """The offset of the first row (-1: the end), and the rows to show: those in `fresh` and the long ones."""
        held = list(self.members)
        first = offset if offset >= 0 else max(0, len(held) - limit)
        known = (fresh.get(id) or self.members[id] for id in held[first:])
        return first, [row for row in known if row is not None][:limit]
