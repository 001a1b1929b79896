"""redis-queue (PyPI redis-queue-pyclj 0.2.0, Python 2; redis-queue-clj 0.1.0, Clojure), spoken from its wire format.

Keys of queue `q`: list `q` of `id`, or `id|unix seconds` once it was handed out (LPUSH in, BRPOP out); set `q:done`
of finished ids; string `q:data:<id>` with the message, for a day (`push_msg` only, whose ids are uuid4). Nothing is
atomic: `pause` is called in each gap, and what it raises is the crash of the worker there.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Any

DATA_S = 60 * 60 * 24

Pause = Callable[[str], None]


def _go_on(_gap: str) -> None:
    """No interruption."""


def put(client: Any, queue: str, message: bytes, pause: Pause = _go_on) -> bytes:
    """`push_msg`: stores the message under a new id and pushes the id; returns the id."""
    id = str(uuid.uuid4()).encode()
    client.set(data_key(queue, id), message, ex=DATA_S)
    pause("stored, not yet pushed")
    client.lpush(queue, id)
    return id


def push(client: Any, queue: str, id: bytes) -> bytes:
    """What an application does that keeps its messages elsewhere: a bare LPUSH of the id, which is all there is."""
    client.lpush(queue, id)
    return id


def data_key(queue: str, id: bytes) -> bytes:
    """Where the message of an id stands."""
    return queue.encode() + b":data:" + id


class Worker:
    """One consumer. `work` gets the id and the message (the id again where `has_data` is False).

    `block_s` is how long BRPOP waits and how long it sleeps after it met a running entry (the original's poptimeout,
    30); 0 looks once. `dialect` is `python` or `clojure`: the one pushes a running entry back and then sleeps, the
    other sleeps while the entry is in no list at all.
    """

    def __init__(
        self,
        client: Any,
        queue: str,
        work: Callable[[bytes, bytes], None] = lambda id, message: None,
        *,
        has_data: bool = True,
        task_timeout_s: float = 30,
        block_s: float = 30,
        dialect: str = "python",
        pause: Pause = _go_on,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.client, self.queue, self.work, self.has_data = client, queue, work, has_data
        self.task_timeout_s, self.block_s, self.dialect = task_timeout_s, block_s, dialect
        self.pause, self.sleep, self.clock = pause, sleep, clock
        self.slept = False

    def step(self) -> str:
        """One turn: `finished`, `discarded` (its message is gone), `asleep` (it met a running one) or `idle`."""
        id = self.safe_pop()
        if not id:
            return "asleep" if self.slept else "idle"
        message = self.client.get(data_key(self.queue, id)) if self.has_data else id
        if not message:
            self.mark_done(id)
            return "discarded"
        self.work(id, message)
        self.pause("worked, not yet marked")
        self.mark_done(id)
        return "finished"

    def safe_pop(self) -> bytes | None:
        """The next id that is fresh or late; raises ValueError, with the entry lost, where the time is no number."""
        self.slept = False
        entry = self._pop()
        if entry is None:
            return None
        self.pause("popped, not yet pushed back")
        id, *rest = entry.split(b"|")
        seconds = int(rest[0]) if rest else None
        if seconds and self.client.sismember(f"{self.queue}:done", id):
            self.client.srem(f"{self.queue}:done", id)
            return self.safe_pop()
        if seconds is None or int(self.clock()) - seconds > self.task_timeout_s:
            self._push_back(id, int(self.clock()))
            return bytes(id)
        if self.dialect == "python":
            self._push_back(id, seconds)
        self.slept = True
        self.sleep(self.block_s)
        if self.dialect == "clojure":
            self._push_back(id, seconds)
        return None

    def mark_done(self, id: bytes) -> None:
        """Nobody is asked whether the job is still this worker's."""
        self.client.sadd(f"{self.queue}:done", id)
        self.pause("marked, message not yet deleted")
        self.client.delete(data_key(self.queue, id))

    def _pop(self) -> bytes | None:
        if not self.block_s:
            entry: bytes | None = self.client.rpop(self.queue)
            return entry
        popped = self.client.brpop([self.queue], self.block_s)
        return popped[1] if popped else None

    def _push_back(self, id: bytes, seconds: int) -> None:
        self.client.lpush(self.queue, b"%s|%d" % (id, seconds))
