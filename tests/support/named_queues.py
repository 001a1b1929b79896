"""Define queues of each system whose names consist of any bytes: their keys and the names."""

from __future__ import annotations

import os
import random
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import hostile_text
from redis import Redis

from rqtui.testing.keyspace import Zset, plant

Keys = Mapping[bytes, object]
HOUR_S = 3600

NAMES = (
    b"\x9b", b"\x9b31m", b"mail\xff", b"\xff\xfe", b"\xc3", b"\xed\xa0\x80", b"a\xe9b c", b"'\xff\"", b"$(x)\x80",
    b"\xf0\x9f\x92", b"\x9d0;owned\x9c", b"\n\xfe\r", b"\x00\xff", b"base64:\xff", b"\\x9b\xff", b"{a}\xff", b"*\xff?[",
    b"[red]\xff[/red]", b"-\xff", b"\xff" * 120, "é\u202e".encode() + b"\xff",
)  # fmt: skip
"""Names that are hostile or not valid UTF-8."""


def build_name_of_any_bytes(source: random.Random) -> bytes:
    """Build a queue name that is not valid UTF-8 and short enough for a Redis key."""
    piece = hostile_text.build_hostile_text(source, 2).encode("utf-8", "surrogatepass")[:40]
    return source.choice((b"", piece)) + source.choice((b"\x9b", b"\xff", b"\xc3", b"\xe2\x82")) + source.randbytes(3)


@dataclass(frozen=True)
class NamedSystem:
    """A system whose queue names may be any bytes: `keys` builds a queue's keys, `spec` its `--system` argument."""

    system: str
    keys: Callable[[bytes], Keys]
    spec: Callable[[bytes], str]
    is_seen: bool = True  # discovered from its keys, without `--system`
    without: bytes = b""  # bytes that no queue name contains

    def __str__(self) -> str:
        return self.system


def convert_name_to_argument(name: bytes) -> str:
    """Convert a queue name to the text that Python gets from the command line."""
    return os.fsdecode(name)


def _build_redisched(name: bytes) -> Keys:
    later, now_ms = (time.time() + HOUR_S) * 1000, time.time() * 1000
    return {
        b"__REDIS_SCHED_JOBS__" + name: {b"a\xff": b'"a"', b"later": b"1", b"held": b"\xff", b"late": b""},
        b"__REDIS_SCHED_QUEUED__" + name: Zset({b"a\xff": now_ms - 9000, b"later": later}),
        b"__REDIS_SCHED_RESERVED__" + name: Zset({b"held": later, b"late": now_ms - 9000}),
    }


def _build_safe_pop(name: bytes) -> Keys:
    now_s = int(time.time())
    return {
        name: [b"late|%d" % (now_s - HOUR_S), b"held\xff|%d" % now_s, b"b", b"a\xff", b"odd|"],
        name + b":data:a\xff": b"the body",
        name + b":done": {b"elsewhere\xff"},
    }


def _build_orizuru(name: bytes) -> Keys:
    return {
        name: [b"\x91\x02", b"\x91\x01"],
        b"orizuru:consumers": {b"c\xff"},
        b"orizuru:consumers:c\xff:processing": [b"\x91\x03"],
        b"orizuru:consumers:c\xff:unacked": [b"\x91\x04"],
        b"orizuru:consumers:c\xff:heartbeat": b"1",
        b"orizuru:heartbeats": {b"c\xff": b"%d" % (time.time() * 1000)},
    }


def _build_timeout_sets(name: bytes) -> Keys:
    return {
        name + b"todos": {b"1", b"2\xff"},
        name + b"in_progress": {b"3\xff", b"5"},
        b"3\xff-lock": b"",
        name + b"done": {b"4\xff"},
    }


def _build_dispatcher(name: bytes) -> Keys:
    now_s = time.time()
    return {name: [b"a\xff", b"b"], name + b":later": Zset({b"late\xff": now_s - 60, b"later": now_s + HOUR_S})}


def _build_rq(name: bytes) -> Keys:
    now_s, call = time.time(), zlib.compress(b"\x80\x02(X\x09\x00\x00\x00tasks.addN)}t.")
    statuses = {b"a\xff": b"queued", b"late": b"started", b"dead\x9b": b"failed", b"later": b"scheduled"}
    return {
        b"rq:queues": {b"rq:queue:" + name},
        b"rq:queue:" + name: [b"a\xff"],
        b"rq:wip:" + name: Zset({b"late:e\xff": now_s - 60}),
        b"rq:failed:" + name: Zset({b"dead\x9b": now_s + HOUR_S}),
        b"rq:scheduled:" + name: Zset({b"later": now_s + HOUR_S, b"ghost\xff": now_s - 60}),
        b"rq:workers:" + name: {b"rq:worker:w\xff", b"\xff"},
        b"rq:worker:w\xff": {b"state": b"\xff", b"queues": name, b"last_heartbeat": b"\xff"},
        **{b"rq:job:" + id: {b"data": call, b"origin": name, b"status": state, b"worker_name": b"w\xff"}
           for id, state in statuses.items()},
    }  # fmt: skip


def _build_bullmq(name: bytes) -> Keys:
    now_ms, p = int(time.time() * 1000), b"bull:" + name + b":"
    fields = {b"name": b"send\xff", b"data": b'{"to": 1}', b"opts": b"\xff", b"timestamp": b"%d" % now_ms}
    return {
        p + b"meta": {b"version": b"bullmq:6.7.0\xff", b"opts.maxLenEvents": b"10000"},
        p + b"wait": [b"a\xff", b"ghost\xff"],
        p + b"active": [b"late"],
        p + b"failed": Zset({b"dead\x9b": now_ms}),
        p + b"delayed": Zset({b"later": (now_ms + HOUR_S * 1000) * 4096.0}),
        p + b"waiting-children": Zset({b"parent\xff": now_ms}),
        p + b"parent\xff:dependencies": {p + b"a\xff", b"\xff"},
        p + b"repeat": Zset({b"\xff": now_ms}),
        p + b"repeat:\xff": {b"name": b"\xff", b"every": b"\xff"},
        **{p + id: fields for id in (b"a\xff", b"late", b"dead\x9b", b"later", b"parent\xff")},
    }


SYSTEMS = (
    NamedSystem("bullmq", _build_bullmq, lambda name: "bullmq", without=b":"),
    NamedSystem("rq", _build_rq, lambda name: "rq"),
    NamedSystem("redisched", _build_redisched, lambda name: "redisched"),
    NamedSystem("safe_pop", _build_safe_pop, lambda name: "safe_pop"),
    NamedSystem(
        "orizuru", _build_orizuru, lambda name: f"orizuru:source={convert_name_to_argument(name)}", is_seen=False
    ),
    NamedSystem(
        "timeout_sets",
        _build_timeout_sets,
        lambda name: f"timeout_sets:prefix={convert_name_to_argument(name)}",
        is_seen=False,
    ),
    NamedSystem(
        "dispatcher",
        _build_dispatcher,
        lambda name: (
            f"dispatcher:ready={convert_name_to_argument(name)},delayed={convert_name_to_argument(name)}:later"
        ),
        is_seen=False,
    ),
)


def build_queue_name(system: NamedSystem, name: bytes) -> bytes:
    """Return the name of the queue whose name or prefix is `name`."""
    return name + b"todos" if system.system == "timeout_sets" else name


def can_be_named(system: NamedSystem, name: bytes) -> bool:
    """Return whether a user can type this queue's name: `--system` allows no comma, and no space at an end."""
    if system.without and system.without in name:
        return False
    return system.is_seen or (
        b"," not in name and convert_name_to_argument(name) == convert_name_to_argument(name).strip()
    )


def plant_named_queue(client: Redis, system: NamedSystem, name: bytes) -> None:
    """Write the Redis keys of a queue whose name consists of any bytes."""
    plant(client, {convert_name_to_argument(key): value for key, value in system.keys(name).items()})
