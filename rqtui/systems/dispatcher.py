"""Read and change the keys of redis_queue_dispatcher, a Rust program that moves delayed tasks to a list when due.

ZSET `delayedtaskset`, task by due time in unix **seconds**; LIST `readytasklist`, RPUSH in and BLPOP out. A task is its
bytes. The key names are options and do not describe themselves: without options only the default names are searched.
The program never takes scores below 0 (its range begins there) and ends at any error of Redis, which its README does
not mention. There are no leases and no ack: only the worker that popped a task has it. `rqtui:{<ready>}:leaving` is
rqtui's own key and exists while a migration runs. Operators' page: `docs/systems/dispatcher.md`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rqtui.errors import UsageError
from rqtui.model import Job, MigrationTerms, Place, State
from rqtui.system_base.entries import Entry
from rqtui.system_base.foreign_system import EntrySystem, build_side_key
from rqtui.system_base.key_types import read_key_types

_LOOKS_LIKE_MS = 1e11  # as seconds this is in the year 5138; as milliseconds in 1973
_PARKED_UNTIL_MS = 9_007_199_254_000  # lua/dispatcher/park.lua takes nothing that is due later
_KINDS = {"delayed": "zset", "ready": "list"}


class Dispatcher(EntrySystem):
    """The queue system of redis_queue_dispatcher: a sorted set of delayed tasks and a list of ready ones.

    A queue is named by the key of its ready list.
    """

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
            _check_keys(spec["ready"], spec["delayed"])

    def keys(self, queue: str) -> Mapping[str, str]:
        """Return the keys of a queue: its ready list, which is its name, and the delayed set, which is an option."""
        if queue not in self.named_queues() and self.options["ready"] != self.defaults["ready"]:
            raise UsageError(
                f'dispatcher: which set belongs to the list "{queue}"? The names do not show it: '
                f"give it as --system dispatcher:ready={queue},delayed=KEY."
            )
        delayed = self.options_of(queue)["delayed"]
        _check_keys(queue, delayed)
        return {"delayed": delayed, "ready": queue, "leaving": build_side_key(queue, "leaving")}

    def marker_keys(self) -> Sequence[str]:
        """Return the ready lists and delayed sets of all queues that options name."""
        return [self.keys(queue)[name] for queue in self.named_queues() for name in _KINDS]

    def has_keys_of(self, client: Any, queue: str) -> bool:
        """Return whether one of a queue's keys exists with the right type."""
        keys = self.keys(queue)
        found = read_key_types(client, [keys[name] for name in _KINDS])
        return any(kind == expected for kind, expected in zip(found, _KINDS.values(), strict=True))

    def decode_entry(self, queue: str, place: str, entry: Entry, row: Mapping[str, Any], now_ms: int) -> Job:
        """Build a job from an entry: its bytes are the task, and its score is the due time."""
        where = self.place(place)
        due_ms, problem = _convert_due_time(row["score"]) if row["score"] else (None, "")
        return Job(b"", queue, self.name, where.name, where.state, entry.head, due_ms=due_ms, problem=problem)

    def migration_terms(self, job: Job) -> MigrationTerms:
        """Return one attempt for a migrated job: a worker pops a task once, and no program delivers it again."""
        is_never_due = job.place == "delayed" and (job.due_ms is None or job.due_ms > _PARKED_UNTIL_MS)
        return MigrationTerms(0, 1, obstacle=job.problem or "it is due after the year 2255" if is_never_due else "")


def _check_keys(ready: str, delayed: str) -> None:
    if not ready or not delayed:
        raise UsageError("dispatcher: ready and delayed are names of keys, a list and a sorted set; neither is empty.")
    if ready == delayed:
        raise UsageError(f'dispatcher: ready and delayed are two keys, and both are called "{ready}".')


def _convert_due_time(score: str) -> tuple[int | None, str]:
    """Convert a score to a due time in ms, and return a sentence if the score is no plausible time."""
    due_s = float(score)
    if due_s < 0:
        return 0, "a due time below 0: redis_queue_dispatcher never takes it, rqtui does at once"
    if math.isinf(due_s):
        return None, "a due time that is infinite: it is never due"
    if due_s >= _LOOKS_LIKE_MS:
        return None, f"a due time of {score} s, probably in milliseconds: not due before the year 5138"
    return round(due_s * 1000), ""


SYSTEM = Dispatcher
