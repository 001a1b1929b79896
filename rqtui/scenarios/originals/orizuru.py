"""The Redis commands of orizuru (Rust crate, 0.0.x), in the original order, for tests and the demo.

Follows producer.rs, consumer.rs, message.rs and gc.rs.

    <source>                             list      LPUSH in, BRPOPLPUSH out
    orizuru:consumers                    set       names; register adds, stop removes
    orizuru:consumers:<name>:processing  list      messages that the consumer has taken
    orizuru:consumers:<name>:unacked     list      messages that the consumer rejected
    orizuru:consumers:<name>:heartbeat   string    unix ms, PX ttl
    orizuru:heartbeats                   hash      name → unix ms

The original's faults are kept. Ack and reject do not check whether the job is still in processing, so a second reject
adds a second job. A body that cannot be decoded stays in processing. The garbage collector moves rejected jobs to
*processing*, which no program reads. No program reads the heartbeats either, so the jobs of a dead consumer stay in its
list. Bodies are MessagePack of a Rust struct, which is an array of its fields.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgpack
from redis import Redis

CONSUMERS, HEARTBEATS = "orizuru:consumers", "orizuru:heartbeats"
Pause = Callable[[str], None]


def _skip_gap(_gap: str) -> None:
    """Do nothing: the default for the gap between two commands of a program."""


def build_key(consumer: str, what: str) -> str:
    """Return one of a consumer's keys; `what` is `processing`, `unacked` or `heartbeat`."""
    return f"orizuru:consumers:{consumer}:{what}"


def encode_struct(*fields: Any) -> bytes:
    """Encode a struct with these fields as rmp_serde does: `Job { id: 42 }` is the bytes 91 2a."""
    packed: bytes = msgpack.packb(list(fields))
    return packed


def push_job(client: Redis, source: str, *fields: Any) -> bytes:
    """Push a job with these fields to the source list, as a producer does. Return its bytes."""
    body = encode_struct(*fields)
    client.lpush(source, body)
    return body


class Guard:
    """A message that a consumer has taken and must ack, reject or push elsewhere."""

    def __init__(self, client: Redis, consumer: str, payload: Any, message: Any) -> None:
        self.payload, self.message = payload, message
        self._client, self._consumer = client, consumer
        self._is_settled = False

    def ack(self) -> int:
        """Remove the message from processing. Return how many entries were removed."""
        self._is_settled = True
        removed: Any = self._client.lrem(build_key(self._consumer, "processing"), 1, self.payload)
        return int(removed)

    def reject(self) -> None:
        """Move the message to the consumer's unacked list."""
        self.push(build_key(self._consumer, "unacked"))

    def push(self, queue: str) -> None:
        """Move the message to any list.

        The push comes first and happens even if processing has no such entry.
        """
        self._is_settled = True
        pipe = self._client.pipeline(transaction=True)
        pipe.lpush(queue, self.payload)
        pipe.lrem(build_key(self._consumer, "processing"), 1, self.payload)
        pipe.execute()

    def drop(self) -> None:
        """Reject the message unless it was acked, rejected or pushed before, as the guard's destructor in Rust does."""
        if not self._is_settled:
            self.reject()


class Worker:
    """A consumer and the program around it: take, run, ack. A message on which `run` raises is rejected.

    `register` and `beat` are separate and optional calls in the original.
    """

    def __init__(
        self,
        client: Redis,
        source: str,
        name: str,
        run: Callable[[Any], object] = lambda _message: None,
        pause: Pause = _skip_gap,
    ) -> None:
        self.client, self.source, self.name = client, source, name
        self._run, self._pause = run, pause

    def register(self) -> None:
        """Add the consumer's name to the set that the garbage collector reads."""
        self.client.sadd(CONSUMERS, self.name)

    def stop(self) -> None:
        """Remove the consumer's name from the set. Its lists stay."""
        self.client.srem(CONSUMERS, self.name)

    def beat(self, ttl_ms: int = 5000) -> int:
        """Send a heartbeat with the consumer's own clock, and return its time in ms.

        The two commands are not in a transaction.
        """
        now_ms = int(time.time() * 1000)
        self.client.hset(HEARTBEATS, self.name, str(now_ms))
        self._pause("between the two heartbeats")
        self.client.set(build_key(self.name, "heartbeat"), str(now_ms), px=ttl_ms)
        return now_ms

    def take_next(self, wait_s: float = 0.05) -> Guard | None:
        """Take the next message, or return None after `wait_s`. The original waits forever.

        A message that cannot be decoded raises and stays in processing.
        """
        payload: Any = self.client.brpoplpush(self.source, build_key(self.name, "processing"), wait_s)
        if payload is None:
            return None
        return Guard(self.client, self.name, payload, msgpack.unpackb(payload, strict_map_key=False))

    def step(self, wait_s: float = 0.05) -> str:
        """Run one turn of the usual loop. Return acked, rejected, undecodable or idle."""
        try:
            guard = self.take_next(wait_s)
        except (ValueError, msgpack.UnpackException):
            return "undecodable"
        if guard is None:
            return "idle"
        try:
            self._pause("while it runs")
            self._run(guard.message)
        except Exception:
            guard.drop()
            return "rejected"
        self._pause("before the ack")
        guard.ack()
        return "acked"


def collect_unacked(client: Redis, pause: Pause = _skip_gap) -> int:
    """Move unacked to processing for every registered consumer, once. Return how many messages were moved."""
    total = 0
    names: list[Any] = sorted(client.smembers(CONSUMERS))
    for name in (name.decode() for name in names):
        for _ in range(client.llen(build_key(name, "unacked"))):
            pause("between two messages")
            total += client.rpoplpush(build_key(name, "unacked"), build_key(name, "processing")) is not None
    return total
