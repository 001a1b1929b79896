"""Read, write and compare the whole state of a Redis database, as plain data for the conformance suite and tests.

`dump` reads the state, `plant` writes it (also the result of `dump`), and `diff` lists the changes. Keys are text
(bytes that are not UTF-8 become surrogates), values are bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from redis import Redis

from rqtui.text.names import to_bytes, to_text


class Entry(NamedTuple):
    """One Redis key: its type, its full value in the form that `plant` accepts, and whether it will expire."""

    type: str
    value: Any
    expires: bool = False


Keyspace = dict[str, Entry]


class Zset(dict[bytes | str, float]):
    """Scores by member of a sorted set; the type distinguishes it from a hash in `plant`."""


class Stream(list[tuple[bytes | str, Mapping[Any, Any]]]):
    """Pairs (id, fields) of a stream; the type distinguishes it from a list in `plant`."""


def dump(client: Redis) -> Keyspace:
    """Return every key of the Redis database, sorted by name; each value is in the order of Redis."""
    rows: list[Any] = client.eval(_READ_KEYSPACE, 0)
    return {
        to_text(key): Entry(kind := type_name.decode(), _CONVERTERS[kind](value), ttl_ms >= 0)
        for key, type_name, ttl_ms, value in sorted(rows)
    }


# One script: some tests dump after every step, and with three commands per key that takes six times as long.
_READ_KEYSPACE = """
local readers = {
  string = {'GET'}, list = {'LRANGE', 0, -1}, set = {'SMEMBERS'}, hash = {'HGETALL'},
  zset = {'ZRANGE', 0, -1, 'WITHSCORES'}, stream = {'XRANGE', '-', '+'},
}
local rows = {}
for i, key in ipairs(redis.call('KEYS', '*')) do
  local kind = redis.call('TYPE', key)
  kind = kind.ok or kind
  local command = readers[kind]
  rows[i] = {key, kind, redis.call('PTTL', key), redis.call(command[1], key, unpack(command, 2))}
end
return rows
"""


def _pair_items(flat: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    """Pair the items of a flat reply: names with values, or members with scores."""
    return zip(flat[::2], flat[1::2], strict=True)


_CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "string": bytes,
    "list": list,
    "set": set,
    "hash": lambda flat: dict(sorted(_pair_items(flat))),
    "zset": lambda flat: Zset((member, float(score)) for member, score in _pair_items(flat)),
    "stream": lambda entries: Stream((entry_id, dict(_pair_items(fields))) for entry_id, fields in entries),
}


def plant(client: Redis, spec: Mapping[str, Any]) -> None:
    """Write Redis keys from plain values or from the result of `dump`.

    A str or bytes becomes a string, a list a list, a set a set, a dict a hash, a `Zset` a sorted set, a `Stream` a
    stream. An entry that expires gets an hour.
    """
    for key, content in spec.items():
        name = to_bytes(key)
        value = content.value if isinstance(content, Entry) else content
        _WRITERS[type(value)](client, name, value)
        if isinstance(content, Entry) and content.expires:
            client.pexpire(name, 3_600_000)


def dump_raw_values(client: Redis) -> list[tuple[bytes, int, bytes]]:
    """Return the name, time to live (ms; 0: none) and DUMP value of every Redis key, for `restore_raw_values`."""
    keys = [*client.scan_iter(count=1000)]
    pipe = client.pipeline(transaction=False)
    for key in keys:
        pipe.pttl(key)
        pipe.dump(key)
    replies = pipe.execute()
    return [(key, max(0, ms), value) for key, ms, value in zip(keys, replies[::2], replies[1::2], strict=True)]


def restore_raw_values(client: Redis, raw_values: Iterable[tuple[bytes, int, bytes]]) -> None:
    """Restore the Redis keys that `dump_raw_values` returned.

    None of them may exist, and the server must be the same.
    """
    pipe = client.pipeline(transaction=False)
    for key, ms, value in raw_values:
        pipe.restore(key, ms, value)
    pipe.execute()


def _write_stream(client: Redis, key: bytes, entries: Stream) -> None:
    for entry_id, fields in entries:
        client.xadd(key, dict(fields), id=entry_id)


_WRITERS: dict[type, Callable[[Redis, bytes, Any], Any]] = {
    str: lambda client, key, value: client.set(key, value),
    bytes: lambda client, key, value: client.set(key, value),
    list: lambda client, key, value: client.rpush(key, *value),
    set: lambda client, key, value: client.sadd(key, *value),
    dict: lambda client, key, value: client.hset(key, mapping=value),
    Zset: lambda client, key, value: client.zadd(key, value),
    Stream: _write_stream,
}


def diff(before: Keyspace, after: Keyspace) -> list[str]:
    """Return one line per key, member or field that was added, removed or changed between two dumps of a database."""
    lines: list[str] = []
    for key in sorted(before.keys() | after.keys()):
        old, new = before.get(key), after.get(key)
        if old == new:
            continue
        if old is None or new is None or old.type != new.type:
            lines.append(f"{key}: {_describe_entry(old)} → {_describe_entry(new)}")
            continue
        changes = [] if old.value == new.value else _diff_entry_values(old.value, new.value)
        if old.expires != new.expires:
            changes.append(f"expires {old.expires} → {new.expires}")
        lines += [f"{key}: {change}" for change in changes]
    return lines


def _describe_entry(entry: Entry | None) -> str:
    return "nothing" if entry is None else f"{entry.type} {entry.value!r}"


def _diff_entry_values(old: Any, new: Any) -> list[str]:
    if isinstance(old, Stream):
        old, new = dict(old), dict(new)
    if isinstance(old, dict):
        changes = [f"- {name!r} {old[name]!r}" for name in old.keys() - new.keys()]
        changes += [f"+ {name!r} {new[name]!r}" for name in new.keys() - old.keys()]
        changes += [
            f"{name!r} {old[name]!r} → {new[name]!r}" for name in old.keys() & new.keys() if old[name] != new[name]
        ]
        return sorted(changes)
    if isinstance(old, set):
        return sorted([f"- {member!r}" for member in old - new] + [f"+ {member!r}" for member in new - old])
    return [f"{old!r} → {new!r}"]
