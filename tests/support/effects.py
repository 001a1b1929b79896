"""Describe everything that a Lua script replies and writes, in each test database of the conformance suite.

`describe_effects` returns the text that `tests/systems/test_effects.py` compares with a stored file. The conformance
suite says what a script must not do; this text says what the script does, so that a missing write changes the text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from difflib import SequenceMatcher
from hashlib import sha256
from typing import Any

from redis import Redis
from variations import check_sorts

from rqtui.errors import RqtuiError
from rqtui.scripts import script as scripts
from rqtui.scripts.script import Reply, Script
from rqtui.testing.keyspace import Entry, Keyspace, plant
from rqtui.testing.subject import JobDatabase, PreparedScript, Request, Subject
from rqtui.text.names import to_bytes

CLOCK_S = 1_810_000_000  # after all times at which the subjects plant jobs
NEAR_NOW_S = 3600
LONGEST = 60  # characters of a value; a longer one is cut and gets a hash of the whole
TTL_STEP_S = 5  # a busy machine may take that long between a write and the question how long its key lives
_NUMBER = re.compile(rb"\d{10,16}(?:\.\d+)?")
_SEQUENCE = re.compile(rb"(<now in us>|<now in ms>)-\d+")
_FRACTION = re.compile(rb"(\d{13})\.[1-9]\d*|(\d{13})\.0\d+")  # redisched makes tokens unique by a random one
_LONG_NUMBER = re.compile(r"\d{5,}")


def describe_effects(subject: Subject, name: str, client: Redis) -> str:
    """Describe the replies and changed keys of a script for each source place, number of jobs and reply word.

    The last test database of each source place lacks all keys that the script writes, except its places: a script that
    adds a queue's name to a set, for example, changes nothing where the set already contains the name.
    """
    subject, use = _fix_script_clock(subject, name), subject.uses[name]
    script = subject.scripts[name]
    sources = [*(use.sources or sorted(script.sources) or [""])]
    lines: list[str] = []
    for source in sources:
        for number in (1, 3):
            prepared = PreparedScript.build(subject, client, name, source, number)
            lines += _describe_one_run(
                f"{source or 'new'}, jobs: {number}", prepared.database, script, prepared.request
            )
        prepared = PreparedScript.build(subject, client, name, source)
        if deleted_names := _delete_written_keys(prepared):
            lines += _describe_one_run(
                f"{source or 'new'}, without {' '.join(deleted_names)}", prepared.database, script, prepared.request
            )
    for reply_word, build_request in use.reach.items():
        for source in sources:
            prepared = PreparedScript.build(subject, client, name, source)
            lines += _describe_one_run(
                f"{source or 'new'}, for the word {reply_word}",
                prepared.database,
                script,
                build_request(prepared.database),
            )
    prepared = PreparedScript.build(subject, client, name, sources[0])
    lines += _describe_single_key_databases(prepared)
    return "\n".join(lines) + "\n"


def _fix_script_clock(subject: Subject, name: str) -> Subject:
    """Return the subject with a fixed clock in one script, because the jobs are planted at fixed times."""
    script = subject.scripts[name]
    text = check_sorts(script.source).replace("redis.call('TIME')", f"({{'{CLOCK_S}', '250000'}})")
    return replace(subject, scripts={**subject.scripts, name: scripts.parse_script(text, script.path)})


def _describe_single_key_databases(prepared: PreparedScript) -> Iterator[str]:
    """Yield the effects on an empty database, and on databases with only one key of the script, of a wrong type.

    Nearly all type guards are tested only here: where jobs and other keys exist, the first write fails anyway.
    """
    database, script, request = prepared.database, prepared.script, prepared.request
    database.client.flushall()
    yield from _describe_one_run("an empty database", database, script, request)
    for key in script.keys:
        if key.type not in ("any", "channel"):
            database.client.flushall()
            name = request.keys.get(key.name) or database.subject.key(key.name)
            plant(database.client, {name: ["x"] if key.type == "string" else "of another program"})
            yield from _describe_one_run(f"only {key.name}, of a wrong type", database, script, request)


def _delete_written_keys(prepared: PreparedScript) -> list[str]:
    """Delete the keys that a script writes and that are not places, and return their names."""
    database, places = prepared.database, {*prepared.database.subject.places}
    names = [name for name in prepared.script.writes if name not in places]
    keys = {name: prepared.request.keys.get(name) or database.subject.key(name) for name in names}
    existing = [name for name, key in keys.items() if key and database.client.exists(to_bytes(key))]
    if existing:
        database.client.delete(*(to_bytes(keys[name]) for name in existing))
    return existing


def _describe_one_run(title: str, database: JobDatabase, script: Script, request: Request) -> Iterator[str]:
    """Run a script on a test database, and yield a title, the lines of the reply and the changed keys."""
    now_s = database.client.time()[0]
    keys_before = database.dump()
    yield f"== {title}"
    try:
        yield from _format_reply(database.run(script, request), now_s, "TTL'" in script.source)
    except RqtuiError as error:
        yield f"error {type(error).__name__}"
    keys_after = database.dump()
    for line in _list_changed_keys(keys_before, keys_after):
        yield _format_cells(line, now_s)
    for key in keys_after:
        if keys_after[key].expires and keys_before.get(key) != keys_after[key]:
            left_s = database.client.pttl(to_bytes(key)) / 1000
            yield f"{key}: expires in {math.ceil(left_s / TTL_STEP_S) * TTL_STEP_S} s"


def _format_reply(reply: Reply, now_s: int, counts_down: bool) -> Iterator[str]:
    """Yield the lines of a script's reply. A script that reads TTLs replies with other long numbers each time."""
    for outcome in reply.each or [reply]:
        yield _format_cells(["reply", outcome.word, dict(outcome.values)], now_s, counts_down)
    yield from sorted(_format_cells(["row", row], now_s, counts_down) for row in reply.rows)


def _list_changed_keys(keys_before: Keyspace, keys_after: Keyspace) -> Iterator[list[Any]]:
    for key in sorted(keys_before.keys() | keys_after.keys()):
        old_entry, new_entry = keys_before.get(key), keys_after.get(key)
        if old_entry != new_entry or (old_entry and new_entry and [*old_entry.value] != [*new_entry.value]):
            yield from ([f"{key}:", *cells] for cells in _list_changed_members(old_entry, new_entry))


def _list_changed_members(old_entry: Entry | None, new_entry: Entry | None) -> Iterator[list[Any]]:
    if old_entry and new_entry and (old_entry.type, old_entry.expires) != (new_entry.type, new_entry.expires):
        yield ["was", old_entry.type, old_entry.expires, "is", new_entry.type, new_entry.expires]
    previous, current = (_list_members(entry) for entry in (old_entry, new_entry))
    for verb, first, end, start, stop in SequenceMatcher(None, previous, current, autojunk=False).get_opcodes():
        if verb != "equal":
            yield from (["-", at, *previous[at]] for at in range(first, end))
            yield from (["+", at, *current[at]] for at in range(start, stop))


def _list_members(entry: Entry | None) -> list[tuple[Any, ...]]:
    """Return the members of a Redis value in order: of a set and a hash by name, otherwise in the order of Redis."""
    if entry is None:
        return []
    if isinstance(entry.value, dict):
        return [*entry.value.items()]
    if isinstance(entry.value, bytes):
        return [(entry.value,)]
    if entry.type == "stream":
        return [(id, repr(sorted(fields.items()))) for id, fields in entry.value]
    return [(member,) for member in (sorted(entry.value) if entry.type == "set" else entry.value)]


def _format_cells(cells: Any, now_s: int, counts_down: bool = False) -> str:
    """Format values in one line. Times near the server's clock are replaced, long values are cut and hashed."""
    return " ".join(_shorten_value(cell, now_s, counts_down) for cell in cells)


def _shorten_value(value: Any, now_s: int, counts_down: bool) -> str:
    if isinstance(value, dict):
        return " ".join(f"{name}={_shorten_value(item, now_s, counts_down)}" for name, item in value.items())
    if isinstance(value, list | tuple):
        return "[" + " ".join(_shorten_value(item, now_s, counts_down) for item in value) + "]"
    raw = (value if isinstance(value, str) else repr(value)).encode("utf-8", "surrogateescape")
    raw = _NUMBER.sub(lambda match: _replace_clock_time(match[0], now_s), raw)
    raw = _FRACTION.sub(rb"\1\2.<fraction>", _SEQUENCE.sub(rb"\1", raw))
    full_text = raw.decode("utf-8", "backslashreplace")
    text = _LONG_NUMBER.sub("<number>", full_text) if counts_down else full_text
    if len(text) <= LONGEST:
        return text if text.isprintable() else ascii(text)[1:-1]
    of = "".join(sorted(full_text)) if counts_down else full_text  # some of these read a hash in the order of its table
    start = "" if counts_down else "".join(char if " " <= char <= "~" else "?" for char in text[: LONGEST // 2])
    return f"{start}…#{_hash_text(of)}"


def _hash_text(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:8]


def _replace_clock_time(digits: bytes, now_s: int) -> bytes:
    """Replace a time that the server's clock gave, in s, ms or µs, by a placeholder."""
    number = float(digits)
    for name, unit in ((b"s", 1), (b"ms", 1000), (b"us", 1_000_000)):
        if abs(number / unit - now_s) < NEAR_NOW_S:
            return b"<now in %s>" % name
    return digits
