"""The Redis commands of distributed-timeout-queue (Python, the version with PEXPIRE), for tests and the demo.

Keys: sets `todos`, `in_progress`, `done`; string `<item>-lock`, empty, which expires with the lease. An item is in one
of the sets and is its own payload.

The original's faults are kept. The README promises items such as `url1`, but the code calls `int()` on them. No
transition is atomic: `pause(name of the gap)` is called between two steps that belong together, so that a test can act
there and a demo can sleep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

LOCK_MS = 1000  # 200 and 2000 in other versions
TODOS, IN_PROGRESS, DONE = "todos", "in_progress", "done"

Pause = Callable[[str], None]


def skip_gap(_gap: str) -> None:
    """Do nothing: the default for the gap between two commands of a program."""


def add_items(client: Any, items: Iterable[int | str | bytes]) -> int:
    """Add items to `todos`, as the creator does, even if they are running or done. Return how many were new there."""
    return sum(int(client.sadd(TODOS, item)) for item in items)


def build_lock_key(item: object) -> str:
    """Return the key of the lock that a worker sets on an item."""
    return f"{item}-lock"


class Worker:
    """A worker that draws an item, locks it, runs it and moves it to done.

    `successes` counts acknowledged items the way the original does.
    """

    def __init__(
        self,
        client: Any,
        *,
        lock_ms: int = LOCK_MS,
        work: Callable[[int], None] = lambda _item: None,
        pause: Pause = skip_gap,
    ) -> None:
        self.client, self.lock_ms, self.work, self.pause = client, lock_ms, work, pause
        self.taken = self.successes = 0

    def step(self) -> str:
        """Run one turn of the loop. Return `empty`, `missed` (another worker was faster), `done` or `late`."""
        found = self.client.srandmember(TODOS)
        if found is None:
            return "empty"
        item = self.take(found)
        if item is None:
            return "missed"
        self.work(item)
        self.pause("worked, not acknowledged")
        return "done" if self.acknowledge(item) else "late"

    def take(self, found: bytes | str) -> int | None:
        """Move an item to `in_progress` and then lock it. Return the item, or None if another worker moved it first.

        Between the two steps the item looks like one whose worker died. Raises ValueError if the item is not a number.
        """
        item = int(found)  # ValueError for `url1` ends this worker, and later each worker that draws it.
        self.pause("drawn, not moved")
        if not self.client.smove(TODOS, IN_PROGRESS, item):
            return None
        self.pause("moved, not locked")
        pipeline = self.client.pipeline()
        pipeline.set(build_lock_key(item), "")
        pipeline.pexpire(build_lock_key(item), self.lock_ms)
        pipeline.execute()
        self.taken += 1
        return item

    def acknowledge(self, item: int) -> bool:
        """Move an item to done if it has a lock. Return whether it had one.

        The lock of another worker counts too, and the reply of SMOVE is ignored.
        """
        if self.client.ttl(build_lock_key(item)) < -1:
            return False
        self.pause("lock seen, not moved to done")
        pipeline = self.client.pipeline()
        pipeline.smove(IN_PROGRESS, DONE, item)
        pipeline.delete(build_lock_key(item))
        pipeline.execute()
        self.successes += 1
        return True


class Cleaner:
    """The cleaner, which returns every item in progress without a lock to `todos`, even if its worker still runs."""

    def __init__(self, client: Any, *, pause: Pause = skip_gap) -> None:
        self.client, self.pause = client, pause

    def step(self) -> int:
        """Check every item in progress once. Return how many were moved back to `todos`.

        Raises ValueError if an item is not a number.
        """
        returned = 0
        for item in [int(member) for member in self.client.smembers(IN_PROGRESS)]:
            if self.client.ttl(build_lock_key(item)) != -2:
                continue
            self.pause("no lock seen, not given back")
            pipeline = self.client.pipeline()
            pipeline.delete(build_lock_key(item))
            pipeline.smove(IN_PROGRESS, TODOS, item)
            pipeline.execute()
            returned += 1
        return returned


def count_items(client: Any) -> tuple[int, int, int]:
    """Return how many items are to do, in progress and done, as the original logs them regularly."""
    return client.scard(TODOS), client.scard(IN_PROGRESS), client.scard(DONE)
