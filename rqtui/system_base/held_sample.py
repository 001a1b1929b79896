"""Cache a sample of the members of a place without an order, so that rows do not move under the cursor.

A page of such a place requests the cached members again (`plan_request`), and the reply updates the sample
(`apply_reply`): members that left the place are dropped, and new members are added at the end. `set_system.py` uses the
sample. The module knows neither Redis nor a system.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

MAX_MEMBERS = 10_000  # members that are cached and can therefore be listed
FILL = 1_000  # new members per round trip when a person jumps ahead: 4 ms of the server's time
SPARE = 100  # members requested in addition to those shown, to replace members that left
MAX_PER_REQUEST = 4_000  # cached members per request, and rows per reply

Row = Mapping[str, Any]


class SampleRequest(NamedTuple):
    """A request for at most `limit` rows of a Redis set: the cached members that still exist, then new ones.

    New members are read with SSCAN from `cursor` on.
    """

    cached_ids: tuple[bytes, ...]
    limit: int
    cursor: str


@dataclass(slots=True)
class Sample:
    """The cached members of a Redis set by id, in the order in which they were first read.

    The value is None for a member that is requested again by its bytes. A member that is too long for that keeps its
    last row.
    """

    members: dict[bytes, Row | None] = field(default_factory=dict)
    cursor: str = "0"
    total: int = MAX_MEMBERS  # the number of members of the place in the last reply
    complete_walks: int = 0  # after the first one, members that were added since are searched for in larger steps
    seen_long_ids: set[bytes] = field(default_factory=set)  # the long members that the current walk has read

    def plan_request(self, offset: int, limit: int) -> SampleRequest:
        """Plan which members of a set to request for a page of `limit` rows from `offset` on (-1: the last rows).

        Some spare rows behind them are requested too.
        """
        ids = list(self.members)
        size = min(limit + min(limit, SPARE), MAX_PER_REQUEST)
        start = offset if offset >= 0 else max(0, len(ids) - size)
        window = ids[start : start + size]
        cached_ids = tuple(id for id in window if self.members[id] is None)
        missing = (start + limit if offset >= 0 else min(self.total, MAX_MEMBERS)) - len(ids)
        new_members = FILL if self.complete_walks and missing > 0 else min(FILL, max(0, missing))
        return SampleRequest(cached_ids, min(MAX_PER_REQUEST, max(limit, new_members + len(cached_ids))), self.cursor)

    def apply_reply(
        self, request: SampleRequest, rows: Mapping[bytes, Row], long_ids: set[bytes], total: int, cursor: str
    ) -> None:
        """Update the sample of a set from a reply: its rows by id, the ids of long members, the total, and the cursor.

        Members that are missing in the reply are dropped.
        """
        self.total, self.cursor = total, cursor
        missing_ids = {id for id in request.cached_ids if id not in rows}
        has_read_ahead = len(request.cached_ids) - len(missing_ids) < request.limit
        if len(self.members) - len(missing_ids) > total:  # others left, too, further on
            missing_ids = self.members.keys() - rows.keys()
        self.seen_long_ids |= long_ids
        if has_read_ahead and cursor == "0":  # a whole walk did not meet these
            missing_ids |= {id for id, row in self.members.items() if row is not None} - self.seen_long_ids
            self.seen_long_ids, self.complete_walks = set(), self.complete_walks + 1
        for id in missing_ids:
            del self.members[id]
        for id, row in rows.items():
            if id in self.members or len(self.members) < MAX_MEMBERS:
                self.members[id] = row if id in long_ids else None

    def select_rows(self, offset: int, limit: int, fresh: Mapping[bytes, Row]) -> tuple[int, list[Row]]:
        """Return the rows of a page from the cached sample of a set, and the offset of its first row.

        An `offset` of -1 means the end of the sample. Rows in `fresh`, which were just read, replace cached ones.
        """
        ids = list(self.members)
        first = offset if offset >= 0 else max(0, len(ids) - limit)
        rows = (fresh.get(id) or self.members[id] for id in ids[first:])
        return first, [row for row in rows if row is not None][:limit]
