"""The walk over all keys, for queues that stand in no list of names; the rule for how much of it is made, and when.

The same rule stands in `docs/systems/README.md` for users.

1. What a system keeps names of (`rqtui:queues`, `rq:queues`, `queues` …) is asked for directly, each time; no walk.
2. A look for queues walks over at most `MOST` keys, so on a database of no more keys it finds everything, each time.
3. On a larger one the next look goes on where this one stopped, also in the next command: the keys that told of queues,
   and the cursor, are kept in a local file (`engine/walk_file.py`), and looked at again before they are believed.
4. After a whole walk of more keys the next begins when `REST` times its time is over; who asks for all keys gets one at
   once (`--walk`, or `r` on the screen). Until the first whole walk has ended, a command says how much it has seen.

A step is a round trip of at most `STEP` keys (`lua/shared/walk.lua`); whoever takes the steps may stop after any.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rqtui.connection.connect import translated
from rqtui.connection.nodes import nodes
from rqtui.errors import Unreachable
from rqtui.layout.layout import Layout
from rqtui.scripts import script as scripts
from rqtui.systems import by_sight
from rqtui.systems.by_sight import Unspoken

STEP = 500  # keys per round trip: 0.5 ms of Redis 7.0, and 1.4 on a machine that was three times as slow
MOST = 75_000  # keys per look that nobody asked for: 0.1 s of that Redis, and 0.3 of the slow one
LONGEST_S = 5.0  # and no longer, on a link on which each step takes long
REST = 200  # times as long as a whole walk took, until the next: half a percent of the server
LONGEST_REST_S = 3600.0


@dataclass(slots=True)
class Found:
    """What a walk found: keys that tell of a queue, by layout; of systems known by sight how many keys fit a pattern.

    `examples` has the first key that fitted each of these patterns.
    """

    keys: dict[str, list[bytes]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    examples: dict[str, bytes] = field(default_factory=dict)


@dataclass(slots=True)
class Progress:
    """How far the walks of one database are: `whole` is what the last whole one found, `begun` the one under way.

    `cursors` has the place of each node where that one goes on (`0`: it is through; none: not begun), `looked` how many
    keys it has seen, `took_s` how long it took so far. `due_s`: when the next may begin (`time.time`).
    """

    whole: Found | None = None
    begun: Found = field(default_factory=Found)
    cursors: dict[str, str] = field(default_factory=dict)
    looked: int = 0
    took_s: float = 0.0
    due_s: float = 0.0

    @property
    def is_under_way(self) -> bool:
        """Whether a walk has begun and has not ended."""
        return bool(self.cursors)

    def is_due(self, now_s: float) -> bool:
        """Whether there is something to walk; a clock that was set back does not put it off for long."""
        return self.is_under_way or not 0 < self.due_s - now_s <= LONGEST_REST_S


class Walk:
    """Walks for the patterns of these layouts, and counts the keys of systems that rqtui knows by sight only."""

    def __init__(self, client: Any, layouts: Mapping[str, Layout]) -> None:
        self.client = client
        self.progress = Progress()
        self.was_cut = False  # the last look stopped before its end
        self._patterns = [(name, pattern) for name, layout in layouts.items() for pattern in layout.patterns]
        self._counted = by_sight.patterns()

    @property
    def patterns(self) -> list[str]:
        """All that it looks for, in words that tell one kind of walk from another."""
        return [*(f"{name} {pattern}" for name, pattern in self._patterns), *self._counted]

    def begin(self) -> None:
        """Begins anew, whatever is under way."""
        progress = self.progress
        progress.begun, progress.cursors, progress.looked, progress.took_s = Found(), {}, 0, 0.0

    def steps(self, most: int | None) -> Iterator[Mapping[str, Sequence[bytes]]]:
        """Goes on with the walk, or begins one: the keys that a step met, by layout.

        At most `most` keys (None: to its end). Raises Denied where an ACL denies SCAN, Unreachable without a server.
        """
        began_s, before = time.monotonic(), self.progress.looked
        self.was_cut = False
        with translated():
            servers = nodes(self.client)
        for server in servers:
            name = _name(server) if len(servers) > 1 else ""
            while (cursor := self.progress.cursors.get(name)) != "0":
                is_over = most is not None and self.progress.looked - before >= most
                if is_over or (most is not None and time.monotonic() - began_s >= LONGEST_S):
                    self.was_cut = True
                    return
                try:
                    keys = self._step(server, name, cursor or "0")
                except Unreachable:
                    if len(servers) == 1:
                        raise
                    break  # a node of a Cluster is away: the others are looked at
                yield keys
        self._end()

    def _step(self, server: Any, name: str, cursor: str) -> Mapping[str, Sequence[bytes]]:
        progress = self.progress
        rows = [*((pattern,) for _layout, pattern in self._patterns), *((pattern,) for pattern in self._counted)]
        args = {"cursor": cursor, "limit": STEP, "counted": len(self._counted)}
        began_s = time.monotonic()
        answer = scripts.run(server, scripts.load("shared")["walk"].call({}, args, rows))
        progress.took_s += time.monotonic() - began_s
        values: Mapping[str, Any] = answer.values
        progress.cursors[name] = values["cursor"]
        progress.looked += values["looked"]
        found = progress.begun
        for pattern, number in zip(self._counted, values["counts"].split(), strict=True):
            found.counts[pattern] = found.counts.get(pattern, 0) + int(number)
        keys: dict[str, list[bytes]] = {}
        for number, key in answer.rows:
            if number <= len(self._patterns):
                keys.setdefault(self._patterns[number - 1][0], []).append(key)
            else:
                found.examples.setdefault(self._counted[number - 1 - len(self._patterns)], key)
        return keys

    def keep(self, keys: Mapping[str, Sequence[bytes]]) -> None:
        """Takes note of keys that told of a queue."""
        for name, of_layout in keys.items():
            self.progress.begun.keys.setdefault(name, []).extend(of_layout)

    def _end(self) -> None:
        progress = self.progress
        rest_s = min(LONGEST_REST_S, REST * progress.took_s) if progress.looked > MOST else 0.0
        progress.whole, progress.due_s = progress.begun, time.time() + rest_s if rest_s else 0.0
        self.begin()

    def unspoken(self) -> tuple[Unspoken, ...]:
        """Systems that are here and not spoken, by the last whole walk; before there was one, as far as one looked."""
        progress = self.progress
        return by_sight.found((progress.whole or progress.begun).counts)


def _name(server: Any) -> str:
    kwargs = server.connection_pool.connection_kwargs
    return f"{kwargs.get('host')}:{kwargs.get('port')}"
