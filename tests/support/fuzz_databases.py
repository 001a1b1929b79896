"""Build databases for fuzzers: of each system a database with a job in every place, and damaged copies of it.

`build_seeds` takes from a conformance subject, for each of its scripts, a call that succeeds and its database.
`damage_database` replaces values of such a database by hostile ones, by keys of another type, or removes them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import fuzzing
from arq_subject import ARQ
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
from rqtui.testing.subject import PreparedScript, Subject

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
    "arq": ARQ,
}


_EVENT = {b"verb": b"reserve", b"id": b"ready-1", b"worker": b"w1"}
EXTRA_KEYS: Mapping[str, Keyspace] = {  # keys that readers read and that no scene plants
    "native": {
        "rqtui:{mail}:events": Entry("stream", Stream([(b"1799999999000-0", _EVENT), (b"1799999999000-1", _EVENT)])),
        "rqtui:{mail}:minutes": Entry("stream", Stream([(b"1799999940000-0", {b"enqueued": b"5", b"acked": b"2"})])),
        "rqtui:{mail}:workers": Entry("hash", {b"w1": b"1799999999000 60000 run 1799999000000 123 host ready-1"}),
    }
}


@dataclass(frozen=True)
class Seed:
    """A script call that succeeds, and the database on which the call succeeds."""

    script: Script
    keys: tuple[bytes, ...]
    argv: tuple[bytes, ...]
    database: Keyspace


@cache
def build_seeds(system: str, client: Redis) -> tuple[Seed, ...]:
    """Build a successful call with its database for each script of a system and each source place."""
    return tuple(_iterate_subject_seeds(SUBJECTS[system], client))


def _iterate_subject_seeds(subject: Subject, client: Redis) -> Iterator[Seed]:
    for name, use in subject.uses.items():
        script = subject.scripts[name]
        for source in use.sources or script.sources or ("",):
            prepared = PreparedScript.build(subject, client, name, source, 2)
            call = prepared.database.call(script, prepared.request)
            database = {**EXTRA_KEYS.get(subject.name, {}), **prepared.database.dump()}
            yield Seed(
                script,
                tuple(map(_convert_word_to_bytes, call.keys)),
                tuple(map(_convert_word_to_bytes, call.argv)),
                database,
            )


def _convert_word_to_bytes(word: bytes | str) -> bytes:
    return word if isinstance(word, bytes) else word.encode()


def collect_words(seeds: tuple[Seed, ...]) -> tuple[bytes, ...]:
    """Return the sorted arguments and values of the seeds, as input for other fuzzed calls."""
    words = {word for seed in seeds for word in seed.argv}
    for seed in seeds:
        for entry in seed.database.values():
            words.update(_iterate_nested_values(entry.value))
    return tuple(sorted(words))


def _iterate_nested_values(value: Any) -> Iterator[bytes]:
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


def damage_database(source: random.Random, database: Keyspace, words: tuple[bytes, ...]) -> dict[str, Any]:
    """Return a copy of a database with some keys missing, of another type, or with hostile values."""
    copy: dict[str, Any] = {}
    missing, twisted, damaged = source.choice(RATES)
    for key, entry in database.items():
        if source.random() < missing:
            continue
        if source.random() < twisted:
            copy[key] = source.choice(OTHER_TYPES)(fuzzing.build_hostile_bytes(source, words) or b"x")
        else:
            is_damaged = source.random() < damaged
            copy[key] = _DAMAGERS[entry.type](source, entry.value, words) if is_damaged else entry.value
    return copy


RATES = (
    (0.0, 0.0, 0.0),
    (0.0, 0.0, 0.2),
    (0.0, 0.0, 0.6),
    (0.05, 0.0, 0.9),
    (0.05, 0.1, 0.3),
)  # missing, twisted, damaged


OTHER_TYPES = (
    lambda raw: raw, lambda raw: [raw], lambda raw: {raw}, lambda raw: {raw: raw}, lambda raw: Zset({raw: 1.0}),
    lambda raw: Stream([("1-1", {raw: raw})]),
)  # fmt: skip


def _choose_indexes(source: random.Random, values: Any) -> set[int]:
    """Return the indexes of some members of a value, chosen at random, at least one."""
    return {source.randrange(len(values)) for _ in range(source.randint(1, 3))} if len(values) else set()


def _damage_hash(source: random.Random, value: Mapping[bytes, bytes], words: tuple[bytes, ...]) -> dict[bytes, bytes]:
    copy = dict(value)
    fields = list(value)
    for at in _choose_indexes(source, fields):
        old = copy.pop(fields[at])
        if source.random() < 0.9:
            name = fields[at] if source.random() < 0.8 else fuzzing.build_hostile_bytes(source, words)
            if old.startswith(b"[[") and source.random() < 0.7:
                copy[name] = source.choice(fuzzing.ERRORS)
            else:
                copy[name] = (
                    fuzzing.damage_bytes(source, old)
                    if source.random() < 0.5
                    else fuzzing.build_hostile_bytes(source, words)
                )
    return copy or {b"": b""}


def _damage_zset(source: random.Random, value: Mapping[bytes, float], words: tuple[bytes, ...]) -> Zset:
    copy = Zset(value)
    members = list(value)
    for at in _choose_indexes(source, members):
        old = copy.pop(members[at])
        name = members[at] if source.random() < 0.6 else fuzzing.build_hostile_bytes(source, words)
        copy[name] = source.choice(SCORES) if source.random() < 0.7 else old
    return copy or Zset({b"": 0.0})


def _damage_list(source: random.Random, value: list[bytes], words: tuple[bytes, ...]) -> list[bytes]:
    copy = list(value)
    for at in _choose_indexes(source, copy):
        copy[at] = fuzzing.build_hostile_bytes(source, words)
    return copy or [b""]


def _damage_stream(source: random.Random, value: Stream, words: tuple[bytes, ...]) -> Stream:
    copy = Stream(value)
    for at in _choose_indexes(source, copy):
        id, fields = copy[at]
        copy[at] = (id, _damage_hash(source, fields, words))
    for _ in range(source.randint(0, 2)):
        last = copy[-1][0] if copy else b"0-0"
        ms, _dash, number = (last if isinstance(last, str) else last.decode()).partition("-")
        fields = {
            fuzzing.build_hostile_bytes(source, words): fuzzing.build_hostile_bytes(source, words)
            for _ in range(source.randint(1, 4))
        }
        ahead = int(ms) + source.choice((0, 1, 60_000, 2**50))
        copy.append((f"{min(ahead, 2**64 - 1)}-{min(int(number) + 1, 2**64 - 1)}", fields))
    return copy


_DAMAGERS: Mapping[str, Any] = {
    "hash": _damage_hash,
    "zset": _damage_zset,
    "list": _damage_list,
    "set": lambda source, value, words: set(_damage_list(source, sorted(value), words)),
    "stream": _damage_stream,
    "string": lambda source, value, words: fuzzing.build_hostile_bytes(source, words),
}


def replace_database(client: Redis, database: Mapping[str, Any]) -> None:
    """Replace the contents of a Redis server by the keys in `database`, in one round trip."""
    pipe = client.pipeline(transaction=False)
    pipe.flushdb()
    keyspace.plant(pipe, database)
    pipe.execute()
