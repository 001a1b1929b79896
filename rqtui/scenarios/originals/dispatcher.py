"""redis_queue_dispatcher (a Rust program, as of 2020) and the two sides that its README leaves to others.

Keys: ZSET `delayedtaskset`, task by due time in whole unix seconds; LIST `readytasklist`, in at the right, out at the
left. Written from what it does on the wire, with its faults: tasks whose score is negative stay for ever, the clock is
the client's and counts seconds, an idle dispatcher sleeps for up to 13 s, and any error of Redis ends it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from redis.exceptions import RedisError

DELAYED, READY = "delayedtaskset", "readytasklist"
BACKOFF_S = (0, 1, 1, 2, 3, 5, 8, 13)  # 0 after a batch that moved something, the last one over and over

# Every task costs two writes of its own: in at the right of the list, then out of the set.
MOVE = """
local tasks = redis.call('zrangebyscore', KEYS[1], 0, tonumber(ARGV[1]), 'limit', 0, tonumber(ARGV[2]))
for _, task in ipairs(tasks) do
  redis.call('rpush', KEYS[2], task)
  redis.call('zrem', KEYS[1], task)
end
return {#tasks, redis.call('zcard', KEYS[1]), redis.call('llen', KEYS[2]) - #tasks}
"""


def nothing(_gap: str) -> None:
    """What happens in a gap, when nobody wants anything to happen."""


def put(client: Any, body: bytes, due_s: float, delayed: str = DELAYED) -> None:
    """A task for later. One that waits already with equal bytes gets the new time: there is one of them, not two."""
    client.zadd(delayed, {body: due_s})


class Dispatcher:
    """The program. `error` says why it has ended; then `step` does nothing any more."""

    def __init__(
        self,
        client: Any,
        delayed: str = DELAYED,
        ready: str = READY,
        batch: int = 10,
        *,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
        pause: Callable[[str], None] = nothing,
    ) -> None:
        self.client, self.delayed, self.ready, self.batch = client, delayed, ready, batch
        self.error = ""
        self._clock, self._sleep, self._pause = clock, sleep, pause
        self._script = client.register_script(MOVE)
        self._idle = 0

    @property
    def backing_off_s(self) -> int:
        """How long it sleeps before the next turn: the last column of its table."""
        return BACKOFF_S[self._idle]

    def step(self) -> tuple[int, int, int] | None:
        """One turn without its sleep: how many tasks went, how many stay delayed, how many were ready before."""
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

    def run(self, goes_on: Callable[[], bool] = lambda: True) -> None:
        """Turns and sleeps, in steps of a second, until it is told to end or an error ends it."""
        while goes_on() and self.step():
            for _second in range(self.backing_off_s):
                if goes_on():
                    self._sleep(1)


class Worker:
    """A consumer as the README sketches it: what it has popped and not finished dies with it."""

    def __init__(
        self,
        client: Any,
        work: Callable[[bytes], None] = lambda _task: None,
        ready: str = READY,
        *,
        pause: Callable[[str], None] = nothing,
    ) -> None:
        self.client, self.ready = client, ready
        self._work, self._pause = work, pause

    def step(self, timeout_s: float | None = None) -> bytes | None:
        """Pops a task and works on it; None when there is none at once, or within `timeout_s`."""
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
