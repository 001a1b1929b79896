"""Read and change the sets of distributed-timeout-queue (Python, `vladiibine/distributed-timeout-queue`).

SETs `todos`, `in_progress`, `done` hold the items, which are their own payloads. The STRING `<item>-lock`, empty,
expires after `lock_ms` and shows that a worker runs the item. Its README has items such as `url1` and locks with SETEX;
its code calls `int()` on them and locks with SET and PEXPIRE. Lock and cleaner's period: 1000 and 20 000 ms, in its
last version 200 and 2000. `prefix` precedes all names. `rqtui:{<in_progress>}:suspects` is rqtui's own key, notes of
`reap`.

A set has no order, so pages are samples of each place. Operators' page: `docs/systems/timeout_sets.md`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from rqtui.errors import UsageError
from rqtui.model import MAX_ATTEMPTS, MAX_BACKOFF_MS, Job, MigrationTerms, Place, State
from rqtui.system_base.entries import Entry
from rqtui.system_base.key_types import read_key_types
from rqtui.system_base.option_values import accept_listed_words, accept_whole_number
from rqtui.system_base.set_system import SetSystem
from rqtui.text.names import to_text

_SETS = ("todos", "in_progress", "done")
_OWN_LOCK = re.compile(
    rb"(\d{16})-\d+(?: (.*))?", re.DOTALL
)  # value of a lock set by rqtui: time in µs, number, worker
_LOCK_MISSING, _LOCK_WITHOUT_EXPIRY, _NOT_A_LOCK = -2, -1, -3


class TimeoutSets(SetSystem):
    """The queue system of distributed-timeout-queue: three sets, and a lock per running item."""

    name = "timeout_sets"
    derived_counters = frozenset({"in", "out"})
    places = (
        Place("todos", State.READY, "<queue>", "set"),
        Place("in_progress", State.RESERVED, "in_progress", "set"),
        Place("done", State.DONE, "done", "set"),
    )
    defaults = {
        **{name: name for name in _SETS},
        "prefix": "",
        "lock_ms": "1000",
        "period_ms": "20000",
        "items": "auto",
    }
    option_values = {
        **dict.fromkeys(("lock_ms", "period_ms"), accept_whole_number(1, 10**12, "milliseconds")),
        "items": accept_listed_words("auto", "integer", "text"),
    }
    queue_option = "todos"

    def __init__(self, *options: Mapping[str, str], is_asked: bool = True) -> None:
        super().__init__(*options, is_asked=is_asked)
        for spec in self.specs:
            _check_set_names(spec)

    def named_queues(self) -> list[str]:
        """Return the `todos` sets that options name, which are the names of queues."""
        return [spec["prefix"] + spec["todos"] for spec in self.specs]

    def options_of(self, queue: str) -> dict[str, str]:
        """Return the options of the queue with that `todos` set."""
        for spec in self.specs:
            if spec["prefix"] + spec["todos"] == queue:
                return spec
        if queue.endswith(self.options["todos"]):
            return {**self.options, "prefix": queue.removesuffix(self.options["todos"])}
        return {**self.options, "todos": queue, "prefix": ""}

    def keys(self, queue: str) -> Mapping[str, str]:
        """Return the three sets of a queue and the keys where rqtui stores its own notes.

        Raises UsageError if two of the sets have the same name.
        """
        options = self.options_of(queue)
        _check_set_names(options)
        names = {name: options["prefix"] + options[name] for name in _SETS}
        return {**names, "suspects": f"rqtui:{{{names['in_progress']}}}:suspects"}

    def has_queue(self, client: Any, queue: str) -> bool:
        """Return whether an option names the queue, or its name ends as a `todos` set does and its sets exist."""
        if self.is_explicit and queue in self.named_queues():
            return True
        return queue.endswith(self.options["todos"]) and self.has_keys_of(client, queue)

    def marker_keys(self) -> Sequence[str]:
        """Return the sets of all queues that options name."""
        return [self.keys(queue)[name] for queue in self.named_queues() for name in _SETS]

    def has_keys_of(self, client: Any, queue: str) -> bool:
        """Return whether the keys of a queue have the types that this system writes.

        Two of the keys are sets, or `todos` or `in_progress` is one and the others do not exist.
        """
        keys = self.keys(queue)
        found = read_key_types(client, [keys[name] for name in _SETS])
        return found.count("set") >= 2 or ("set" in found[:2] and set(found) <= {"set", "none"})

    def counters(self, values: Mapping[str, Any]) -> Mapping[str, int]:
        """Return the cumulative counters of a queue from the values of the script `counts`."""
        return {"in": sum(values[name] for name in _SETS), "out": values["done"]}

    def decode(self, queue: str, place: str, row: Mapping[str, Any], now_ms: int) -> Job:
        """Build a job from an item of a set and its lock."""
        where, lock_ms, token = self.place(place), row["lock_ms"], row["lock"]
        entry = Entry.from_row(row)
        deadline_ms, worker, since = None, "", None
        if where.state is State.RESERVED:
            ours = _OWN_LOCK.fullmatch(token)
            worker = to_text(ours[2] or b"") if ours else ""
            since = int(ours[1]) // 1000 if ours else None
            if lock_ms >= 0:
                deadline_ms = now_ms + lock_ms
            elif lock_ms == _LOCK_MISSING:
                deadline_ms = row["late_ms"] if row["late_ms"] >= 0 else now_ms - 1
        return Job(
            self.build_member_id(entry),
            queue,
            self.name,
            where.name,
            where.state,
            member=entry.head,
            token=token if where.state is State.RESERVED else b"",
            body=entry.head if entry.is_complete else None,
            body_bytes=entry.size,
            deadline_ms=deadline_ms,
            ttr_ms=None if deadline_ms is None else int(self.options_of(queue)["lock_ms"]),
            reserved_ms=since,
            worker=worker,
            problem=self._describe_problem(queue, entry.head, lock_ms),
            is_partial=not entry.is_complete,
        )

    def migration_terms(self, job: Job) -> MigrationTerms:
        """Return unlimited attempts for a migrated job: the cleaner returns expired items any number of times."""
        period_ms = min(int(self.options_of(job.queue)["period_ms"]), MAX_BACKOFF_MS)
        return MigrationTerms(0, MAX_ATTEMPTS, period_ms, period_ms)

    def _describe_problem(self, queue: str, item: bytes, lock_ms: int) -> str:
        if lock_ms == _NOT_A_LOCK:
            return "the name of its lock is another program's key"
        if lock_ms == _LOCK_WITHOUT_EXPIRY:
            return "its lock never expires: if its worker was killed, it stays in progress"
        if self.options_of(queue)["items"] == "integer" and not re.fullmatch(rb"0|-?[1-9]\d*", item):
            return _describe_changed_spelling(item) or "not a whole number: stock workers exit when they take it"
        return ""


def _describe_changed_spelling(item: bytes) -> str:
    """Describe an item such as `07`, which workers read as a number and write back in another spelling (`7`)."""
    with suppress(ValueError):
        return f"the original takes it for {int(item)}, and never moves it"
    return ""


SYSTEM = TimeoutSets


def _check_set_names(options: Mapping[str, str]) -> None:
    names = [options[name] for name in _SETS]
    if not all(names) or len(set(names)) < len(names):
        raise UsageError("timeout_sets: todos, in_progress and done are the names of three different keys.")
