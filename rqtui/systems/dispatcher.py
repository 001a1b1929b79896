"""dispatcher: the keys of redis_queue_dispatcher, a Rust program that makes delayed tasks ready when they are due.

ZSET `delayedtaskset`, task by due time in unix **seconds**; LIST `readytasklist`, RPUSH in and BLPOP out. A task is its
bytes. The names are options, and not self-describing: without options only the default names are looked for. The
program never takes scores below 0 (its range begins there) and ends at any error of Redis, of which its README says
nothing. There is no lease, so there is no ack: what a worker has popped is in its hands alone.
`rqtui:{<ready>}:leaving` is rqtui's own, there while a migration runs. Page: `docs/systems/dispatcher.md`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rqtui.errors import UsageError
from rqtui.layout.entries import Entry
from rqtui.layout.foreign import Entrywise, side_key
from rqtui.layout.key_types import kinds
from rqtui.model import Job, Place, State

_LOOKS_LIKE_MS = 1e11  # as seconds this is in the year 5138; as milliseconds in 1973
_KINDS = {"delayed": "zset", "ready": "list"}


class Dispatcher(Entrywise):
    """Delayed and ready tasks; a queue is called by the key of its ready list."""

    name = "dispatcher"
    places = (
        Place("delayed", State.SCHEDULED, "<delayed>", "zset", score="due s"),
        Place("ready", State.READY, "<queue>", "list"),
    )
    defaults = {"ready": "readytasklist", "delayed": "delayedtaskset"}
    queue_option = "ready"

    def __init__(self, *options: Mapping[str, str], is_asked: bool = True) -> None:
        super().__init__(*options, is_asked=is_asked)
        for spec in self.specs:
            _check(spec["ready"], spec["delayed"])

    def keys(self, queue: str) -> Mapping[str, str]:
        """The ready list is the queue's name; the set that feeds it is an option."""
        if queue not in self.named() and self.options["ready"] != self.defaults["ready"]:
            raise UsageError(
                f'dispatcher: which set feeds the list "{queue}"? The names do not tell: '
                f"say --layout dispatcher:ready={queue},delayed=KEY."
            )
        delayed = self.options_of(queue)["delayed"]
        _check(queue, delayed)
        return {"delayed": delayed, "ready": queue, "leaving": side_key(queue, "leaving")}

    def shown_by(self) -> Sequence[str]:
        """The list and the set of those queues that the options name."""
        return [self.keys(queue)[name] for queue in self.named() for name in _KINDS]

    def is_there(self, client: Any, queue: str) -> bool:
        """Whether a key of it has the right type."""
        keys = self.keys(queue)
        found = kinds(client, [keys[name] for name in _KINDS])
        return any(kind == wanted for kind, wanted in zip(found, _KINDS.values(), strict=True))

    def decode_entry(self, queue: str, place: str, entry: Entry, row: Mapping[str, Any], now_ms: int) -> Job:
        """The bytes are the task; a delayed one has its due time as score."""
        where = self.place(place)
        due_ms, problem = _due(row["score"]) if row["score"] else (None, "")
        return Job(b"", queue, self.name, where.name, where.state, entry.head, due_ms=due_ms, problem=problem)


def _check(ready: str, delayed: str) -> None:
    if not ready or not delayed:
        raise UsageError("dispatcher: ready and delayed are names of keys, a list and a sorted set; neither is empty.")
    if ready == delayed:
        raise UsageError(f'dispatcher: ready and delayed are two keys, and both are called "{ready}".')


def _due(score: str) -> tuple[int | None, str]:
    """The instant that a score stands for, in ms, and what is wrong with it."""
    due_s = float(score)
    if due_s < 0:
        return 0, "a due time below 0: redis_queue_dispatcher never takes it, rqtui does at once"
    if math.isinf(due_s):
        return None, "a due time that is infinite: it is never due"
    if due_s >= _LOOKS_LIKE_MS:
        return None, f"a due time of {score} s, which looks like milliseconds: not due before the year 5138"
    return round(due_s * 1000), ""


LAYOUT = Dispatcher
