"""orizuru (Rust crate, 0.0.x: producer.rs, consumer.rs, message.rs, gc.rs): the same commands in the same order.

    <source>                             list      LPUSH in, BRPOPLPUSH out
    orizuru:consumers                    set       names; register adds, stop removes
    orizuru:consumers:<name>:processing  list      what the consumer holds
    orizuru:consumers:<name>:unacked     list      what it rejected
    orizuru:consumers:<name>:heartbeat   string    unix ms, PX ttl
    orizuru:heartbeats                   hash      name → unix ms

Kept faults: ack and reject never look whether the job is still held, so a second reject makes a second job; a body that
cannot be decoded stays in processing; the collector puts rejected jobs into *processing*, which nobody reads; nobody
reads the heartbeats either, so what a dead consumer held stays where it is. Bodies are MessagePack of a Rust struct,
which is an array of its fields.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgpack
from redis import Redis

CONSUMERS, HEARTBEATS = "orizuru:consumers", "orizuru:heartbeats"
Pause = Callable[[str], None]


def _go_on(_gap: str) -> None:
    """The default between two steps: nothing happens."""


def key(consumer: str, what: str) -> str:
    """One of a consumer's keys: processing, unacked or heartbeat."""
    return f"orizuru:consumers:{consumer}:{what}"


def encode(*fields: Any) -> bytes:
    """A struct with these fields, as rmp_serde writes it: `Job { id: 42 }` is 91 2a."""
    packed: bytes = msgpack.packb(list(fields))
    return packed


def put(client: Redis, source: str, *fields: Any) -> bytes:
    """What a producer pushes; gives its bytes back."""
    body = encode(*fields)
    client.lpush(source, body)
    return body


class Guard:
    """A message in a consumer's hands."""

    def __init__(self, client: Redis, consumer: str, payload: Any, message: Any) -> None:
        self.payload, self.message = payload, message
        self._client, self._consumer = client, consumer
        self._is_settled = False

    def ack(self) -> int:
        """Takes it out of processing."""
        self._is_settled = True
        removed: Any = self._client.lrem(key(self._consumer, "processing"), 1, self.payload)
        return int(removed)

    def reject(self) -> None:
        """Moves it to unacked."""
        self.push(key(self._consumer, "unacked"))

    def push(self, queue: str) -> None:
        """Moves it to any list: pushes first, whether or not there is something to take away."""
        self._is_settled = True
        pipe = self._client.pipeline(transaction=True)
        pipe.lpush(queue, self.payload)
        pipe.lrem(key(self._consumer, "processing"), 1, self.payload)
        pipe.execute()

    def drop(self) -> None:
        """What the guard's destructor does: an unsettled message is rejected."""
        if not self._is_settled:
            self.reject()


class Worker:
    """A consumer and the program around it: take, run, ack; what `run` raises on is rejected.

    `register` and `beat` are separate calls there, and optional.
    """

    def __init__(
        self,
        client: Redis,
        source: str,
        name: str,
        run: Callable[[Any], object] = lambda _message: None,
        pause: Pause = _go_on,
    ) -> None:
        self.client, self.source, self.name = client, source, name
        self._run, self._pause = run, pause

    def register(self) -> None:
        """Makes the name known to the collector."""
        self.client.sadd(CONSUMERS, self.name)

    def stop(self) -> None:
        """Takes the name away again; the lists stay."""
        self.client.srem(CONSUMERS, self.name)

    def beat(self, ttl_ms: int = 5000) -> int:
        """Says that it lives, by its own clock; two commands, no transaction."""
        now_ms = int(time.time() * 1000)
        self.client.hset(HEARTBEATS, self.name, str(now_ms))
        self._pause("between the two heartbeats")
        self.client.set(key(self.name, "heartbeat"), str(now_ms), px=ttl_ms)
        return now_ms

    def next(self, wait_s: float = 0.05) -> Guard | None:
        """The next message (the original waits for ever); an undecodable one raises, and stays in processing."""
        payload: Any = self.client.brpoplpush(self.source, key(self.name, "processing"), wait_s)
        if payload is None:
            return None
        return Guard(self.client, self.name, payload, msgpack.unpackb(payload, strict_map_key=False))

    def step(self, wait_s: float = 0.05) -> str:
        """One turn of the usual loop: acked, rejected, undecodable or idle."""
        try:
            guard = self.next(wait_s)
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


def collect(client: Redis, pause: Pause = _go_on) -> int:
    """One pass of the garbage collector: unacked → processing, for every registered consumer."""
    total = 0
    names: list[Any] = sorted(client.smembers(CONSUMERS))
    for name in (name.decode() for name in names):
        for _ in range(client.llen(key(name, "unacked"))):
            pause("between two messages")
            total += client.rpoplpush(key(name, "unacked"), key(name, "processing")) is not None
    return total
