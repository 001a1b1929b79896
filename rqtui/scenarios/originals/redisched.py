"""The Redis commands of redisched, for tests and the demo.

The original has Lua primitives, with glue in Node (milliseconds) and in Go (whole seconds).

Per topic T: hash `__REDIS_SCHED_JOBS__T` id → body, sorted sets `__REDIS_SCHED_QUEUED__T` id → due and
`__REDIS_SCHED_RESERVED__T` id → end of the lease. Each primitive is a script that does not declare its keys. A script
is atomic, but is not rolled back when it raises half-way.

The original's faults are kept. `put` checks only the queue, so it overwrites the body of a reserved job. `release`
without a score and `reserve` without a ttr remove the job and then raise. A job without a body is returned with None.
`delete` ends the lease of any client.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

TTR = {"ms": 60_000, "s": 60}  # the values that the Node and Go glue pass
REQUEUED_AT_MOST = 1000

_KEYS = """
local topic = ARGV[1]
local jobs, queued, reserved =
  '__REDIS_SCHED_JOBS__' .. topic, '__REDIS_SCHED_QUEUED__' .. topic, '__REDIS_SCHED_RESERVED__' .. topic
"""
_PUT = """
local id, body, due = ARGV[2], ARGV[3], ARGV[4]
if redis.call('ZADD', queued, 'NX', due, id) == 0 then return 0 end
redis.call('HSET', jobs, id, body)
return 1"""
_NEXT = """
local id = redis.call('ZRANGEBYSCORE', queued, 0, ARGV[2], 'LIMIT', 0, 1)[1]
if not id then return nil end
local body = redis.call('HGET', jobs, id)
redis.call('ZREM', queued, id)
"""
_RESERVE = _NEXT + "redis.call('ZADD', reserved, ARGV[2] + ARGV[3], id) return {id, body}"
_PULL = _NEXT + "redis.call('HDEL', jobs, id) return {id, body}"
_RELEASE = """
if redis.call('ZREM', reserved, ARGV[2]) == 0 then return 0 end
redis.call('ZADD', queued, 'NX', ARGV[3], ARGV[2])
return 1"""
_DELETE = """
local id = ARGV[2]
local found = redis.call('HDEL', jobs, id) + redis.call('ZREM', queued, id) + redis.call('ZREM', reserved, id)
if found == 0 or found == 2 then return found / 2 end
return redis.error_reply('ERR inconsistent job state')"""
_REQUEUE = """
local ids = redis.call('ZRANGEBYSCORE', reserved, 0, ARGV[2], 'LIMIT', 0, tonumber(ARGV[3]) or 1000)
for _, id in ipairs(ids) do
  redis.call('ZREM', reserved, id)
  redis.call('ZADD', queued, 'NX', ARGV[2], id)
end
return #ids"""


class Scheduler:
    """The primitives for one topic.

    `unit` is the time unit of the glue: `ms` for Node, `s` for Go. `clock` returns unix seconds.
    """

    def __init__(self, client: Any, topic: str, unit: str = "ms", clock: Callable[[], float] = time.time) -> None:
        self.client, self.topic, self.unit, self.clock = client, topic, unit, clock

    def score(self, delay_s: float = 0.0) -> int:
        """Return the time `delay_s` from now as a score in the glue's unit."""
        at_s = self.clock()
        return int((at_s + delay_s) * 1000) if self.unit == "ms" else int(at_s) + int(delay_s)

    def put(self, id: str | bytes, body: str | bytes, delay_s: float = 0.0) -> bool:
        """Add a new job and return whether it was added.

        Return False if the queue already has the id. An id that is only reserved does not count.
        """
        return bool(self._run_script(_PUT, id, body, self.score(delay_s)))

    def reserve(self, ttr: int | None = None) -> tuple[bytes, bytes | None] | None:
        """Take the next due job under a lease. Return its id and body, or None if no job is due.

        The glue always passes a ttr, but other clients can leave it out.
        """
        found = self._run_script(_RESERVE, self.score(), *([] if ttr is None else [ttr]))
        return (found[0], found[1]) if found else None

    def pull(self) -> tuple[bytes, bytes | None] | None:
        """Remove the next due job and return its id and body. The job gets no lease and no second attempt."""
        found = self._run_script(_PULL, self.score())
        return (found[0], found[1]) if found else None

    def release(self, id: str | bytes, score: float | None = None) -> bool:
        """Move a reserved job back to the queue and return whether it was reserved.

        The README calls `release` without a score, to say that the job is done.
        """
        return bool(self._run_script(_RELEASE, id, *([] if score is None else [score])))

    def delete(self, id: str | bytes) -> bool:
        """Delete a queued or reserved job, whichever client holds its lease. Return whether it existed.

        Raises ResponseError if the job has a body but no place, or a place but no body.
        """
        return bool(self._run_script(_DELETE, id))

    def requeue(self, limit: int = REQUEUED_AT_MOST) -> int:
        """Move at most `limit` jobs with expired leases back to the queue. Return how many were moved."""
        return int(self._run_script(_REQUEUE, self.score(), limit))

    def _run_script(self, script: str, *args: object) -> Any:
        return self.client.eval(_KEYS + script, 0, self.topic, *args)


class Worker:
    """A server's work loop: reserve, run, delete. A job whose work raises stays reserved until its lease expires."""

    def __init__(
        self,
        scheduler: Scheduler,
        work: Callable[[bytes, bytes | None], object] = lambda _id, _body: None,
        ttr: int | None = None,
        pause: Callable[[str], None] = lambda _gap: None,
    ) -> None:
        self.scheduler, self.work, self.pause = scheduler, work, pause
        self.ttr = TTR[scheduler.unit] if ttr is None else ttr

    def step(self) -> bytes | None:
        """Reserve, run and delete one job. Return its id, or None if no job was due."""
        found = self.scheduler.reserve(self.ttr)
        if found is None:
            return None
        id, body = found
        self.pause("reserved, not yet run")
        self.work(id, body)
        self.pause("run, not yet deleted")
        self.scheduler.delete(id)
        return id
