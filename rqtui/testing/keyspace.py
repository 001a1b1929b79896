"""The whole state of a Redis as plain data: what a test compares before and after.

`dump` reads it, `plant` writes it (also what `dump` returned), `diff` says in lines what changed. Keys are text (bytes
that are not UTF-8 survive as surrogates), values bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from redis import Redis

from rqtui.text.names import to_bytes, to_text


class Entry(NamedTuple):
    """One key: its type, its full value in the shape of `plant`, and whether it will expire."""

    type: str
    value: Any
    expires: bool = False


Keyspace = dict[str, Entry]


class Zset(dict[bytes | str, float]):
    """Member → score, to tell a sorted set from a hash in `plant`."""


class Stream(list[tuple[bytes | str, Mapping[Any, Any]]]):
    """(id, fields) pairs, to tell a stream from a list in `plant`."""


def dump(client: Redis) -> Keyspace:
    """Every key of the database, sorted by name; one key's value in the order in which Redis keeps it."""
    keys = sorted(client.scan_iter(count=1000))
    about: Any = client.pipeline(transaction=False)  # three trips in all: some tests dump after every step
    for key in keys:
        about.type(key).pttl(key)
    found = about.execute()
    kinds, left = [_text(kind) for kind in found[::2]], found[1::2]
    values = client.pipeline(transaction=False)
    for key, kind in zip(keys, kinds, strict=True):
        READ[kind][0](values, key)
    return {
        _text(key): Entry(kind, READ[kind][1](value), pttl >= 0)
        for key, kind, value, pttl in zip(keys, kinds, values.execute(), left, strict=True)
    }


READ: dict[str, tuple[Callable[[Any, bytes], Any], Callable[[Any], Any]]] = {  # the command, and the shape of its reply
    "string": (lambda client, key: client.get(key), bytes),
    "list": (lambda client, key: client.lrange(key, 0, -1), list),
    "set": (lambda client, key: client.smembers(key), set),
    "hash": (lambda client, key: client.hgetall(key), lambda value: dict(sorted(value.items()))),
    "zset": (lambda client, key: client.zrange(key, 0, -1, withscores=True), Zset),
    "stream": (lambda client, key: client.xrange(key), Stream),
}


def plant(client: Redis, spec: Mapping[str, Any]) -> None:
    """Write keys: str or bytes → string, list, set, dict → hash, `Zset`, `Stream`; or the entries that `dump` gave."""
    for key, given in spec.items():
        name = to_bytes(key)
        value = given.value if isinstance(given, Entry) else given
        WRITE[type(value)](client, name, value)
        if isinstance(given, Entry) and given.expires:
            client.pexpire(name, 3_600_000)


def copies(client: Redis) -> list[tuple[bytes, int, bytes]]:
    """Every key as Redis dumps it: name, how long it lives (ms; 0: always), value; for `put_back` on this server."""
    keys = [*client.scan_iter(count=1000)]
    pipe = client.pipeline(transaction=False)
    for key in keys:
        pipe.pttl(key)
        pipe.dump(key)
    found = pipe.execute()
    return [(key, max(0, ms), value) for key, ms, value in zip(keys, found[::2], found[1::2], strict=True)]


def put_back(client: Redis, copies: Iterable[tuple[bytes, int, bytes]]) -> None:
    """Writes keys that are not there, as they were."""
    pipe = client.pipeline(transaction=False)
    for key, ms, value in copies:
        pipe.restore(key, ms, value)
    pipe.execute()


def _write_stream(client: Redis, key: bytes, entries: Stream) -> None:
    for entry_id, fields in entries:
        client.xadd(key, dict(fields), id=entry_id)


WRITE: dict[type, Callable[[Redis, bytes, Any], Any]] = {
    str: lambda client, key, value: client.set(key, value),
    bytes: lambda client, key, value: client.set(key, value),
    list: lambda client, key, value: client.rpush(key, *value),
    set: lambda client, key, value: client.sadd(key, *value),
    dict: lambda client, key, value: client.hset(key, mapping=value),
    Zset: lambda client, key, value: client.zadd(key, value),
    Stream: _write_stream,
}


def diff(before: Keyspace, after: Keyspace) -> list[str]:
    """One line per key, member or field that came, went or changed; empty when the two are equal."""
    lines: list[str] = []
    for key in sorted(before.keys() | after.keys()):
        old, new = before.get(key), after.get(key)
        if old == new and _order(old) == _order(new):
            continue
        if old is None or new is None or old.type != new.type:
            lines.append(f"{key}: {_brief(old)} → {_brief(new)}")
            continue
        same = old.value == new.value and _order(old) == _order(new)
        parts = [] if same else _parts_diff(old.value, new.value)
        if old.expires != new.expires:
            parts.append(f"expires {old.expires} → {new.expires}")
        lines += [f"{key}: {part}" for part in parts]
    return lines


def _order(entry: Entry | None) -> list[Any] | None:
    return list(entry.value) if entry is not None and entry.type == "zset" else None


def _brief(entry: Entry | None) -> str:
    return "nothing" if entry is None else f"{entry.type} {entry.value!r}"


def _parts_diff(old: Any, new: Any) -> list[str]:
    if isinstance(old, Stream):
        old, new = dict(old), dict(new)
    if isinstance(old, dict):
        found = [f"- {name!r} {old[name]!r}" for name in old.keys() - new.keys()]
        found += [f"+ {name!r} {new[name]!r}" for name in new.keys() - old.keys()]
        found += [
            f"{name!r} {old[name]!r} → {new[name]!r}" for name in old.keys() & new.keys() if old[name] != new[name]
        ]
        return sorted(found) or ["another order"]
    if isinstance(old, set):
        return sorted([f"- {member!r}" for member in old - new] + [f"+ {member!r}" for member in new - old])
    return [f"{old!r} → {new!r}"]


def _text(value: bytes | str) -> str:
    return to_text(value) if isinstance(value, bytes) else value
