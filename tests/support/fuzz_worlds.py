"""Worlds for fuzzers of layouts: the database of each system with a job everywhere, and the same with damage in it.

`Seeds.of` takes from a conformance subject, for each of its scripts, a call that does its work and the database it does
it in; `damage` replaces values in such a database by hostile ones, by keys of another type, or by nothing.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import fuzzing
from bullmq_subject import BULLMQ
from dispatcher_subject import DISPATCHER
from native_subject import NATIVE
from orizuru_subject import ORIZURU
from redis import Redis
from redisched_subject import SUBJECTS as REDISCHED
from rq_subject import RQ
from safe_pop_subject import SAFE_POP
from sidekiq_subject import SIDEKIQ
from timeout_sets_subject import TIMEOUT_SETS

from rqtui.scripts.script import Script
from rqtui.testing import keyspace
from rqtui.testing.keyspace import Entry, Keyspace, Stream, Zset
from rqtui.testing.subject import Scene, Subject

SUBJECTS: Mapping[str, Subject] = {
    "native": NATIVE,
    "dispatcher": DISPATCHER,
    "redisched": REDISCHED["ms"],
    "timeout_sets": TIMEOUT_SETS,
    "orizuru": ORIZURU,
    "safe_pop": SAFE_POP,
    "rq": RQ,
    "sidekiq": SIDEKIQ,
    "bullmq": BULLMQ,
}


_EVENT = {b"verb": b"reserve", b"id": b"ready-1", b"worker": b"w1"}
BESIDE: Mapping[str, Keyspace] = {  # what no scene has, and readers read
    "native": {
        "rqtui:{mail}:events": Entry("stream", Stream([(b"1799999999000-0", _EVENT), (b"1799999999000-1", _EVENT)])),
        "rqtui:{mail}:minutes": Entry("stream", Stream([(b"1799999940000-0", {b"enqueued": b"5", b"acked": b"2"})])),
        "rqtui:{mail}:workers": Entry("hash", {b"w1": b"1799999999000 60000 run 1799999000000 123 host ready-1"}),
    }
}


@dataclass(frozen=True)
class Seed:
    """A call that does something, and the database in which it does."""

    script: Script
    keys: tuple[bytes, ...]
    argv: tuple[bytes, ...]
    world: Keyspace


@cache
def seeds(layout: str, client: Redis) -> tuple[Seed, ...]:
    """One for each script of a layout and each place that it takes jobs from."""
    return tuple(_seeds(SUBJECTS[layout], client))


def _seeds(subject: Subject, client: Redis) -> Iterator[Seed]:
    for name, use in subject.uses.items():
        script = subject.scripts[name]
        for source in use.sources or script.sources or ("",):
            scene = Scene.build(subject, client, name, source, 2)
            call = scene.world.call(script, scene.request)
            world = {**BESIDE.get(subject.name, {}), **scene.world.dump()}
            yield Seed(script, tuple(map(_raw, call.keys)), tuple(map(_raw, call.argv)), world)


def _raw(word: bytes | str) -> bytes:
    return word if isinstance(word, bytes) else word.encode()


def words(found: tuple[Seed, ...]) -> tuple[bytes, ...]:
    """What stands in those calls and databases: material for others."""
    known = {word for seed in found for word in seed.argv}
    for seed in found:
        for entry in seed.world.values():
            known.update(_parts(entry.value))
    return tuple(sorted(known))


def _parts(value: Any) -> Iterator[bytes]:
    if isinstance(value, bytes):
        yield value
    elif isinstance(value, Stream):
        for id, fields in value:
            yield id if isinstance(id, bytes) else id.encode()
            yield from (*fields, *fields.values())
    elif isinstance(value, Zset):
        yield from value
        yield from (b"%.17g" % score for score in value.values())
    elif isinstance(value, dict):
        yield from (*value, *value.values())
    else:
        yield from value


SCORES = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    1e308,
    -1e308,
    5e-324,
    float("inf"),
    float("-inf"),
    1e11,
    2**53,
    2**53 + 2,
    1.8e12,
    1.8e9,
    -(2**40),
)


def damage(source: random.Random, world: Keyspace, known: tuple[bytes, ...]) -> dict[str, Any]:
    """The same database with some of its keys gone, of another type, or holding what nobody expects."""
    made: dict[str, Any] = {}
    missing, twisted, damaged = source.choice(RATES)
    for key, entry in world.items():
        if source.random() < missing:
            continue
        if source.random() < twisted:
            made[key] = source.choice(OTHERS)(fuzzing.value(source, known) or b"x")
        else:
            is_damaged = source.random() < damaged
            made[key] = _DAMAGED[entry.type](source, entry.value, known) if is_damaged else entry.value
    return made


RATES = (
    (0.0, 0.0, 0.0),
    (0.0, 0.0, 0.2),
    (0.0, 0.0, 0.6),
    (0.05, 0.0, 0.9),
    (0.05, 0.1, 0.3),
)  # missing, twisted, damaged


OTHERS = (
    lambda raw: raw, lambda raw: [raw], lambda raw: {raw}, lambda raw: {raw: raw}, lambda raw: Zset({raw: 1.0}),
    lambda raw: Stream([("1-1", {raw: raw})]),
)  # fmt: skip


def _some(source: random.Random, values: Any) -> set[int]:
    return {source.randrange(len(values)) for _ in range(source.randint(1, 3))} if len(values) else set()


def _in_hash(source: random.Random, value: Mapping[bytes, bytes], known: tuple[bytes, ...]) -> dict[bytes, bytes]:
    made = dict(value)
    fields = list(value)
    for at in _some(source, fields):
        old = made.pop(fields[at])
        if source.random() < 0.9:
            name = fields[at] if source.random() < 0.8 else fuzzing.value(source, known)
            if old.startswith(b"[[") and source.random() < 0.7:
                made[name] = source.choice(fuzzing.ERRORS)
            else:
                made[name] = fuzzing.damaged(source, old) if source.random() < 0.5 else fuzzing.value(source, known)
    return made or {b"": b""}


def _in_zset(source: random.Random, value: Mapping[bytes, float], known: tuple[bytes, ...]) -> Zset:
    made = Zset(value)
    members = list(value)
    for at in _some(source, members):
        old = made.pop(members[at])
        name = members[at] if source.random() < 0.6 else fuzzing.value(source, known)
        made[name] = source.choice(SCORES) if source.random() < 0.7 else old
    return made or Zset({b"": 0.0})


def _in_list(source: random.Random, value: list[bytes], known: tuple[bytes, ...]) -> list[bytes]:
    made = list(value)
    for at in _some(source, made):
        made[at] = fuzzing.value(source, known)
    return made or [b""]


def _in_stream(source: random.Random, value: Stream, known: tuple[bytes, ...]) -> Stream:
    made = Stream(value)
    for at in _some(source, made):
        id, fields = made[at]
        made[at] = (id, _in_hash(source, fields, known))
    for _ in range(source.randint(0, 2)):
        last = made[-1][0] if made else b"0-0"
        ms, _dash, number = (last if isinstance(last, str) else last.decode()).partition("-")
        fields = {fuzzing.value(source, known): fuzzing.value(source, known) for _ in range(source.randint(1, 4))}
        ahead = int(ms) + source.choice((0, 1, 60_000, 2**50))
        made.append((f"{min(ahead, 2**64 - 1)}-{min(int(number) + 1, 2**64 - 1)}", fields))
    return made


_DAMAGED: Mapping[str, Any] = {
    "hash": _in_hash,
    "zset": _in_zset,
    "list": _in_list,
    "set": lambda source, value, known: set(_in_list(source, sorted(value), known)),
    "stream": _in_stream,
    "string": lambda source, value, known: fuzzing.value(source, known),
}


def plant(client: Redis, world: Mapping[str, Any]) -> None:
    """Makes the database this one, in one round trip."""
    pipe = client.pipeline(transaction=False)
    pipe.flushdb()
    keyspace.plant(pipe, world)
    pipe.execute()
