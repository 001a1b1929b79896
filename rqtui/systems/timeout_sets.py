"""distributed-timeout-queue (Python, `vladiibine/distributed-timeout-queue`): three sets, and a lock per running item.

SETs `todos`, `in_progress`, `done` hold the items, which are their own payloads; the STRING `<item>-lock`, empty, is
gone after `lock_ms` and says that somebody works on one. Its README takes items such as `url1` and locks with SETEX;
its code calls `int()` on them and locks with SET and PEXPIRE. Lock and cleaner's period: 1000 and 20 000 ms, in its
last version 200 and 2000. `prefix` stands before all names. Ours: `rqtui:{<in_progress>}:suspects`, notes of `reap`.

A set has no order, so the layout holds a sample of each place. For operators: `docs/systems/timeout_sets.md`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from rqtui.errors import UsageError
from rqtui.layout.entries import Entry
from rqtui.layout.key_types import kinds
from rqtui.layout.option_values import one_of, whole
from rqtui.layout.unordered import Sampled
from rqtui.model import Job, Place, State
from rqtui.text.names import to_text

_SETS = ("todos", "in_progress", "done")
_OURS = re.compile(rb"(\d{16})-\d+(?: (.*))?", re.DOTALL)  # what our locks say: microsecond-number worker
_NO_LOCK, _FOR_EVER, _NOT_A_LOCK = -2, -1, -3


class TimeoutSets(Sampled):
    """Three sets and a lock per running item."""

    name = "timeout_sets"
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
        **dict.fromkeys(("lock_ms", "period_ms"), whole(1, 10**12, "milliseconds")),
        "items": one_of("auto", "integer", "text"),
    }
    queue_option = "todos"

    def __init__(self, *options: Mapping[str, str], is_asked: bool = True) -> None:
        super().__init__(*options, is_asked=is_asked)
        for spec in self.specs:
            _validate(spec)

    def named(self) -> list[str]:
        """The keys of items to do."""
        return [spec["prefix"] + spec["todos"] for spec in self.specs]

    def options_of(self, queue: str) -> dict[str, str]:
        """The options of the spec with that key; `app:todos` without one: those of `todos`, with the prefix `app:`."""
        for spec in self.specs:
            if spec["prefix"] + spec["todos"] == queue:
                return spec
        if queue.endswith(self.options["todos"]):
            return {**self.options, "prefix": queue.removesuffix(self.options["todos"])}
        return {**self.options, "todos": queue, "prefix": ""}

    def keys(self, queue: str) -> Mapping[str, str]:
        """The three sets and our notes; raises UsageError where two of the sets would be one."""
        options = self.options_of(queue)
        _validate(options)
        names = {name: options["prefix"] + options[name] for name in _SETS}
        return {**names, "suspects": f"rqtui:{{{names['in_progress']}}}:suspects"}

    def recognises(self, client: Any, queue: str) -> bool:
        """A queue that was asked for, or whose name ends like its sets' names and whose sets are there."""
        if self.is_asked and queue in self.named():
            return True
        return queue.endswith(self.options["todos"]) and self.is_there(client, queue)

    def shown_by(self) -> Sequence[str]:
        """The sets of those queues that the options name."""
        return [self.keys(queue)[name] for queue in self.named() for name in _SETS]

    def is_there(self, client: Any, queue: str) -> bool:
        """Whether two of the keys are sets, or one, other than `done`, beside keys that are not there."""
        keys = self.keys(queue)
        found = kinds(client, [keys[name] for name in _SETS])
        return found.count("set") >= 2 or ("set" in found[:2] and set(found) <= {"set", "none"})

    def counters(self, values: Mapping[str, Any]) -> Mapping[str, int]:
        """Nothing leaves `done` by itself: what comes to it is the rate that the original's log shows."""
        return {"in": sum(values[name] for name in _SETS), "out": values["done"]}

    def decode(self, queue: str, place: str, row: Mapping[str, Any], now_ms: int) -> Job:
        """An item and its lock; one in progress without a lock is late since a reaper saw it so, or since now."""
        where, lock_ms, token = self.place(place), row["lock_ms"], row["lock"]
        entry = Entry.of_row(row)
        deadline_ms, worker, since = None, "", None
        if where.state is State.RESERVED:
            ours = _OURS.fullmatch(token)
            worker = to_text(ours[2] or b"") if ours else ""
            since = int(ours[1]) // 1000 if ours else None
            if lock_ms >= 0:
                deadline_ms = now_ms + lock_ms
            elif lock_ms == _NO_LOCK:
                deadline_ms = row["late_ms"] if row["late_ms"] >= 0 else now_ms - 1
        return Job(
            self.member_id(entry),
            queue,
            self.name,
            where.name,
            where.state,
            member=entry.head,
            token=token if where.state is State.RESERVED else b"",
            body=entry.head if entry.is_whole else None,
            body_bytes=entry.size,
            deadline_ms=deadline_ms,
            ttr_ms=None if deadline_ms is None else int(self.options_of(queue)["lock_ms"]),
            reserved_ms=since,
            worker=worker,
            problem=self._problem(queue, entry.head, lock_ms),
            is_partial=not entry.is_whole,
        )

    def _problem(self, queue: str, item: bytes, lock_ms: int) -> str:
        if lock_ms == _NOT_A_LOCK:
            return "the name of its lock is another program's key"
        if lock_ms == _FOR_EVER:
            return "its lock never runs out: if its worker is gone, nobody takes it back"
        if self.options_of(queue)["items"] == "integer" and not re.fullmatch(rb"0|-?[1-9]\d*", item):
            return _misread(item) or "no whole number: the original's workers end at it"
        return ""


def _misread(item: bytes) -> str:
    """What is wrong with an item that `int()` takes for a number of another spelling, such as 07."""
    with suppress(ValueError):
        return f"the original takes it for {int(item)}, and never moves it"
    return ""


LAYOUT = TimeoutSets


def _validate(options: Mapping[str, str]) -> None:
    names = [options[name] for name in _SETS]
    if not all(names) or len(set(names)) < len(names):
        raise UsageError("timeout_sets: todos, in_progress and done are the names of three different keys.")
