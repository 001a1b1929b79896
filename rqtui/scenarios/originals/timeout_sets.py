"""distributed-timeout-queue (Python, its version with PEXPIRE), as its workers speak to Redis, faults and all.

Keys: SETs `todos`, `in_progress`, `done`; STRING `<item>-lock`, empty, which expires with the lease. An item stands in
one of the sets and is its own payload. The README promises items such as `url1`; the code calls `int()` on them.

Not one of its transitions is atomic: `pause(name of the gap)` is called between any two steps that belong together, so
that a test may do something there, and a demo may sleep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

LOCK_MS = 1000  # 200 and 2000 in other versions
TODOS, IN_PROGRESS, DONE = "todos", "in_progress", "done"

Pause = Callable[[str], None]


def no_pause(_gap: str) -> None:
    """Goes on at once."""


def put(client: Any, items: Iterable[int | str | bytes]) -> int:
    """The creator: adds items, whether they are running or were done before; how many `todos` did not hold yet."""
    return sum(int(client.sadd(TODOS, item)) for item in items)


def lock_of(item: object) -> str:
    """The key that says that somebody works on an item."""
    return f"{item}-lock"


class Worker:
    """Draws an item, locks it, works, and says that it is done; `successes` counts as the original counts."""

    def __init__(
        self,
        client: Any,
        *,
        lock_ms: int = LOCK_MS,
        work: Callable[[int], None] = lambda _item: None,
        pause: Pause = no_pause,
    ) -> None:
        self.client, self.lock_ms, self.work, self.pause = client, lock_ms, work, pause
        self.taken = self.successes = 0

    def step(self) -> str:
        """One turn of its loop: `empty`, `missed` (another worker was faster), `done` or `late`."""
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
        """Moves an item and then locks it: in between it looks like one whose worker died."""
        item = int(found)  # ValueError for `url1`: the worker ends here, the next one as soon as it draws that item
        self.pause("drawn, not moved")
        if not self.client.smove(TODOS, IN_PROGRESS, item):
            return None
        self.pause("moved, not locked")
        pipeline = self.client.pipeline()
        pipeline.set(lock_of(item), "")
        pipeline.pexpire(lock_of(item), self.lock_ms)
        pipeline.execute()
        self.taken += 1
        return item

    def acknowledge(self, item: int) -> bool:
        """Any lock will do, the next worker's too, and what SMOVE answers is not looked at."""
        if self.client.ttl(lock_of(item)) < -1:
            return False
        self.pause("lock seen, not moved to done")
        pipeline = self.client.pipeline()
        pipeline.smove(IN_PROGRESS, DONE, item)
        pipeline.delete(lock_of(item))
        pipeline.execute()
        self.successes += 1
        return True


class Cleaner:
    """Gives back every item in progress that has no lock at this moment, whatever its worker is about to do."""

    def __init__(self, client: Any, *, pause: Pause = no_pause) -> None:
        self.client, self.pause = client, pause

    def step(self) -> int:
        """One pass over everything in progress; how many it gave back. ValueError where an item is text."""
        given_back = 0
        for item in [int(member) for member in self.client.smembers(IN_PROGRESS)]:
            if self.client.ttl(lock_of(item)) != -2:
                continue
            self.pause("no lock seen, not given back")
            pipeline = self.client.pipeline()
            pipeline.delete(lock_of(item))
            pipeline.smove(IN_PROGRESS, TODOS, item)
            pipeline.execute()
            given_back += 1
        return given_back


def report(client: Any) -> tuple[int, int, int]:
    """What its log shows every while: how many are to do, in progress and done."""
    return client.scard(TODOS), client.scard(IN_PROGRESS), client.scard(DONE)
