"""Walk over all keys to find queues that no list of names contains, and decide how much to walk, and when.

`docs/systems/README.md` explains the same rules to users.

1. Names that a system stores (`rqtui:queues`, `rq:queues`, `queues` …) are read directly each time, without a walk.
2. A discovery walks over at most `MAX_KEYS_PER_DISCOVERY` keys, so on a database of no more keys it finds every queue,
   each time.
3. On a larger one the next discovery continues where this one stopped, also in the next command: the cursor and the
   keys that revealed queues are stored in a local file (`engine/walk_file.py`), and verified before they are used.
4. After a complete walk over more keys, the next one begins after `REST_FACTOR` times its duration. A request for all
   keys (`--walk`, or `r` on the screen) starts one at once. Until the first walk is complete, commands say how far it
   is.

A step is a round trip of at most `MAX_STEP_KEYS` keys (`lua/shared/walk.lua`); the caller may stop after any step.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rqtui.connection.connect import translate_redis_errors
from rqtui.connection.nodes import list_node_clients
from rqtui.errors import Unreachable
from rqtui.scripts import script as scripts
from rqtui.system_base.system import System
from rqtui.systems import by_sight
from rqtui.systems.by_sight import UnsupportedSystem

MAX_STEP_KEYS = 500  # keys per round trip: 0.5 ms of Redis 7.0, and 1.4 on a machine that was three times as slow
MAX_KEYS_PER_DISCOVERY = 75_000  # keys per discovery without --walk: 0.1 s of that Redis, and 0.3 of the slow one
MAX_WALK_S = 5.0  # the longest part of a walk, on a connection on which each step takes long
REST_FACTOR = 200  # pause after a complete walk, as a factor of its duration: half a percent of the server
MAX_REST_S = 3600.0


@dataclass(slots=True)
class WalkResult:
    """The result of a walk over all keys: keys that reveal a queue, by system, and key counts of unsupported systems.

    `counts` is by pattern of the unsupported systems. `examples` has the first key that matched each of these patterns.
    """

    queue_keys: dict[str, list[bytes]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    examples: dict[str, bytes] = field(default_factory=dict)


@dataclass(slots=True)
class WalkProgress:
    """The progress of the walks over one database.

    `complete` is the result of the last walk that ended, `partial` the result so far of the walk under way.

    `cursors` has the SCAN cursor of each node at which the walk continues (`0`: this node is complete; empty: not
    begun), `keys_walked` is the number of keys so far, `duration_s` its time so far. `next_due_s` is when the next
    walk may begin (`time.time`).
    """

    complete: WalkResult | None = None
    partial: WalkResult = field(default_factory=WalkResult)
    cursors: dict[str, str] = field(default_factory=dict)
    keys_walked: int = 0
    duration_s: float = 0.0
    next_due_s: float = 0.0

    @property
    def is_under_way(self) -> bool:
        """Return whether a walk has begun and has not ended."""
        return bool(self.cursors)

    def is_due(self, now_s: float) -> bool:
        """Return whether a walk over all keys should start or continue now.

        A clock that was set back delays a walk by at most an hour.
        """
        return self.is_under_way or not 0 < self.next_due_s - now_s <= MAX_REST_S


class Walk:
    """Walks over all keys of a database in steps, searching for the key patterns of all systems."""

    def __init__(self, client: Any, systems: Mapping[str, System]) -> None:
        self.client = client
        self.progress = WalkProgress()
        self.is_interrupted = False  # the last part stopped before the end of the walk
        self._patterns = [(name, pattern) for name, system in systems.items() for pattern in system.key_patterns]
        self._counted_patterns = by_sight.list_counted_patterns()

    @property
    def patterns(self) -> list[str]:
        """All key patterns, with the names of supported systems. A stored walk is used only if its list is the same."""
        return [*(f"{name} {pattern}" for name, pattern in self._patterns), *self._counted_patterns]

    def restart(self) -> None:
        """Discard the partial result, so that the next step begins at the first key."""
        progress = self.progress
        progress.partial, progress.cursors, progress.keys_walked, progress.duration_s = WalkResult(), {}, 0, 0.0

    def yield_walk_steps(self, max_keys: int | None) -> Iterator[Mapping[str, Sequence[bytes]]]:
        """Continue the walk, or start one. Yield the keys that each step found, by system.

        At most `max_keys` keys are walked (None: to the end). Raises Denied if an ACL denies SCAN, Unreachable without
        a server.
        """
        began_s, keys_before = time.monotonic(), self.progress.keys_walked
        self.is_interrupted = False
        with translate_redis_errors():
            servers = list_node_clients(self.client)
        for server in servers:
            name = _format_server_address(server) if len(servers) > 1 else ""
            while (cursor := self.progress.cursors.get(name)) != "0":
                is_limit_reached = max_keys is not None and self.progress.keys_walked - keys_before >= max_keys
                if is_limit_reached or (max_keys is not None and time.monotonic() - began_s >= MAX_WALK_S):
                    self.is_interrupted = True
                    return
                try:
                    keys = self._read_next_keys(server, name, cursor or "0")
                except Unreachable:
                    if len(servers) == 1:
                        raise
                    break  # A node of a Cluster is away; the others are walked.
                yield keys
        self._complete_walk()

    def _read_next_keys(self, server: Any, name: str, cursor: str) -> Mapping[str, Sequence[bytes]]:
        """Read the next keys of one server from the cursor on, and return those that match, by system."""
        progress = self.progress
        rows = [
            *((pattern,) for _system, pattern in self._patterns),
            *((pattern,) for pattern in self._counted_patterns),
        ]
        args = {"cursor": cursor, "limit": MAX_STEP_KEYS, "counted": len(self._counted_patterns)}
        began_s = time.monotonic()
        reply = scripts.run_call(server, scripts.load_scripts("shared")["walk"].build_call({}, args, rows))
        progress.duration_s += time.monotonic() - began_s
        values: Mapping[str, Any] = reply.values
        progress.cursors[name] = values["cursor"]
        progress.keys_walked += values["looked"]
        partial = progress.partial
        for pattern, pattern_number in zip(self._counted_patterns, values["counts"].split(), strict=True):
            partial.counts[pattern] = partial.counts.get(pattern, 0) + int(pattern_number)
        keys: dict[str, list[bytes]] = {}
        for pattern_number, key in reply.rows:
            if pattern_number <= len(self._patterns):
                keys.setdefault(self._patterns[pattern_number - 1][0], []).append(key)
            else:
                partial.examples.setdefault(self._counted_patterns[pattern_number - 1 - len(self._patterns)], key)
        return keys

    def store_keys(self, keys: Mapping[str, Sequence[bytes]]) -> None:
        """Add keys that revealed a queue to the partial result of the walk."""
        for name, system_keys in keys.items():
            self.progress.partial.queue_keys.setdefault(name, []).extend(system_keys)

    def _complete_walk(self) -> None:
        """Store the result of the current walk as that of the last complete walk, and schedule the next walk."""
        progress = self.progress
        rest_s = (
            min(MAX_REST_S, REST_FACTOR * progress.duration_s) if progress.keys_walked > MAX_KEYS_PER_DISCOVERY else 0.0
        )
        progress.complete, progress.next_due_s = progress.partial, time.time() + rest_s if rest_s else 0.0
        self.restart()

    def find_unsupported_systems(self) -> tuple[UnsupportedSystem, ...]:
        """Return the unsupported systems found by the last complete walk, or by the partial one if there is none."""
        progress = self.progress
        return by_sight.find_present_unsupported_systems((progress.complete or progress.partial).counts)


def _format_server_address(server: Any) -> str:
    kwargs = server.connection_pool.connection_kwargs
    return f"{kwargs.get('host')}:{kwargs.get('port')}"
