"""The Redis commands of redis-queue for Python and Clojure, for tests and the demo.

Follows the wire format of redis-queue-pyclj 0.2.0 (PyPI, Python 2) and redis-queue-clj 0.1.0 (Clojure).

Keys of queue `q`: list `q` of `id`, or of `id|unix seconds` after a worker took it (LPUSH in, BRPOP out); set `q:done`
of finished ids; string `q:data:<id>` with the message, for a day (`push_msg` only, whose ids are uuid4). No operation
is atomic: `pause` is called in each gap, and an exception that it raises acts as a crash of the worker there.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Any

DATA_S = 60 * 60 * 24

Pause = Callable[[str], None]


def _skip_gap(_gap: str) -> None:
    """Do nothing: the default for the gap between two commands of a program."""


def push_message(client: Any, queue: str, message: bytes, pause: Pause = _skip_gap) -> bytes:
    """Store the message under a new id and push the id, as `push_msg` does. Return the id."""
    id = str(uuid.uuid4()).encode()
    client.set(build_data_key(queue, id), message, ex=DATA_S)
    pause("stored, not yet pushed")
    client.lpush(queue, id)
    return id


def push_message_id(client: Any, queue: str, id: bytes) -> bytes:
    """Push only an id, as an application does that stores its messages elsewhere."""
    client.lpush(queue, id)
    return id


def build_data_key(queue: str, id: bytes) -> bytes:
    """Return the key of the message with this id."""
    return queue.encode() + b":data:" + id


class Worker:
    """One consumer. `work` gets the id and the message, or the id twice if `has_data` is False.

    `block_s` is how long BRPOP waits, and how long the worker sleeps after it popped a running entry (`poptimeout` in
    the original, 30). 0 means a single try without waiting. `dialect` is `python` or `clojure`. The Python worker
    pushes a running entry back and then sleeps. The Clojure worker sleeps first, and meanwhile the entry is in no list.
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
        pause: Pause = _skip_gap,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.client, self.queue, self.work, self.has_data = client, queue, work, has_data
        self.task_timeout_s, self.block_s, self.dialect = task_timeout_s, block_s, dialect
        self.pause, self.sleep, self.clock = pause, sleep, clock
        self.has_slept = False

    def step(self) -> str:
        """Run one turn of the worker's loop and return its outcome.

        The outcome is `finished`, `discarded` (its message is missing), `asleep` (the entry is running elsewhere) or
        `idle`.
        """
        id = self.safe_pop()
        if not id:
            return "asleep" if self.has_slept else "idle"
        message = self.client.get(build_data_key(self.queue, id)) if self.has_data else id
        if not message:
            self.mark_done(id)
            return "discarded"
        self.work(id, message)
        self.pause("worked, not yet marked")
        self.mark_done(id)
        return "finished"

    def safe_pop(self) -> bytes | None:
        """Pop the next id that is new or past its timeout, and push it back with the current time.

        Return None if the queue is empty or the entry is still running. Raises ValueError, and loses the entry, if its
        time is not a number.
        """
        self.has_slept = False
        entry = self._pop_entry()
        if entry is None:
            return None
        self.pause("popped, not yet pushed back")
        id, *rest = entry.split(b"|")
        seconds = int(rest[0]) if rest else None
        if seconds and self.client.sismember(f"{self.queue}:done", id):
            self.client.srem(f"{self.queue}:done", id)
            return self.safe_pop()
        if seconds is None or int(self.clock()) - seconds > self.task_timeout_s:
            self._push_entry_back(id, int(self.clock()))
            return bytes(id)
        if self.dialect == "python":
            self._push_entry_back(id, seconds)
        self.has_slept = True
        self.sleep(self.block_s)
        if self.dialect == "clojure":
            self._push_entry_back(id, seconds)
        return None

    def mark_done(self, id: bytes) -> None:
        """Mark the job as done and delete its message, without a check that this worker still holds the job."""
        self.client.sadd(f"{self.queue}:done", id)
        self.pause("marked, message not yet deleted")
        self.client.delete(build_data_key(self.queue, id))

    def _pop_entry(self) -> bytes | None:
        if not self.block_s:
            entry: bytes | None = self.client.rpop(self.queue)
            return entry
        popped = self.client.brpop([self.queue], self.block_s)
        return popped[1] if popped else None

    def _push_entry_back(self, id: bytes, seconds: int) -> None:
        """Push a popped entry back to the list, with a time of delivery."""
        self.client.lpush(self.queue, b"%s|%d" % (id, seconds))
