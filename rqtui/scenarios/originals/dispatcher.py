"""The Redis commands of redis_queue_dispatcher (a Rust program, as of 2020), for tests and the demo.

The dispatcher moves due tasks to a list. Its README leaves the producer and the worker to others; both are here too.

Keys: the sorted set `delayedtaskset` has tasks by due time in whole unix seconds. Tasks are pushed to the right end of
the list `readytasklist` and popped from its left end.

The original's faults are kept. Tasks with a negative score stay forever. The clock is the client's and counts whole
seconds. An idle dispatcher sleeps for up to 13 s. Any Redis error ends the dispatcher.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from redis.exceptions import RedisError

DELAYED, READY = "delayedtaskset", "readytasklist"
BACKOFF_S = (0, 1, 1, 2, 3, 5, 8, 13)  # 0 after a batch that moved tasks; the last one repeats

# The script does two writes for each task: a push to the right end of the list, then a removal from the set.
MOVE = """
local tasks = redis.call('zrangebyscore', KEYS[1], 0, tonumber(ARGV[1]), 'limit', 0, tonumber(ARGV[2]))
for _, task in ipairs(tasks) do
  redis.call('rpush', KEYS[2], task)
  redis.call('zrem', KEYS[1], task)
end
return {#tasks, redis.call('zcard', KEYS[1]), redis.call('llen', KEYS[2]) - #tasks}
"""


def skip_gap(_gap: str) -> None:
    """Do nothing: the default for the gap between two commands of a program."""


def put_delayed_task(client: Any, body: bytes, due_s: float, delayed: str = DELAYED) -> None:
    """Add a delayed task that is due at `due_s`.

    A task with the same bytes that is already delayed gets the new due time. No second task is added.
    """
    client.zadd(delayed, {body: due_s})


class Dispatcher:
    """The dispatcher program. After a Redis error, `error` has its message and `step` does nothing."""

    def __init__(
        self,
        client: Any,
        delayed: str = DELAYED,
        ready: str = READY,
        batch: int = 10,
        *,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
        pause: Callable[[str], None] = skip_gap,
    ) -> None:
        self.client, self.delayed, self.ready, self.batch = client, delayed, ready, batch
        self.error = ""
        self._clock, self._sleep, self._pause = clock, sleep, pause
        self._script = client.register_script(MOVE)
        self._idle = 0

    @property
    def backing_off_s(self) -> int:
        """The seconds of sleep before the next turn, the last column of the program's table."""
        return BACKOFF_S[self._idle]

    def step(self) -> tuple[int, int, int] | None:
        """Move one batch of due tasks to the list, without the sleep that follows.

        Return how many tasks were moved, how many stay delayed and how many were ready before, or None after an error.
        """
        if self.error:
            return None
        now_s = int(self._clock())
        self._pause("the clock was read, the script not yet called")
        try:
            dispatched, delayed, ready = self._script([self.delayed, self.ready], [now_s, self.batch])
        except RedisError as error:
            self.error = f"Failed to dispatch tasks: {error}"
            return None
        self._idle = 0 if dispatched else min(self._idle + 1, len(BACKOFF_S) - 1)
        return dispatched, delayed, ready

    def run(self, is_running: Callable[[], bool] = lambda: True) -> None:
        """Run turns with sleeps of 1 s between them, until `is_running` returns False or an error ends the loop."""
        while is_running() and self.step():
            for _second in range(self.backing_off_s):
                if is_running():
                    self._sleep(1)


class Worker:
    """A consumer as the README outlines it. A task that was popped and not finished is lost with its worker."""

    def __init__(
        self,
        client: Any,
        work: Callable[[bytes], None] = lambda _task: None,
        ready: str = READY,
        *,
        pause: Callable[[str], None] = skip_gap,
    ) -> None:
        self.client, self.ready = client, ready
        self._work, self._pause = work, pause

    def step(self, timeout_s: float | None = None) -> bytes | None:
        """Pop one task, run it and return its bytes.

        Return None when no task is ready: at once without `timeout_s`, otherwise after that many seconds.
        """
        if timeout_s is None:
            task = self.client.lpop(self.ready)
        else:
            popped = self.client.blpop([self.ready], timeout=timeout_s)
            task = popped[1] if popped else None
        if task is None:
            return None
        self._pause("the task was popped, its work not yet done")
        self._work(task)
        return bytes(task)
