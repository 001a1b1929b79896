"""Describe what a Lua script does when one part of its request or of its database is different.

A variation changes one argument, one column of a row, the number of rows, one key, or one field of a job's record.
Numbers are also varied around each number that the script contains, where `<` and `<=` differ.
`describe_variations` runs all of them in a few calls of one script, and yields a line for each part that differs.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from redis import Redis

from rqtui.scripts.script import Script
from rqtui.testing import keyspace
from rqtui.testing.keyspace import Entry
from rqtui.testing.subject import PreparedScript, Subject
from rqtui.text.names import to_bytes, to_text

Command = tuple[Any, ...]  # of Redis
FOLDER = Path(__file__).parent
JOBS = 2  # jobs that the script acts on, between other jobs of the same place
NOW_S = 1_810_000_000  # after all times at which the subjects plant jobs
SENT_TOGETHER = 40
DAY_MS = 86_400_000
YEAR_MS = 365 * DAY_MS
HIGHEST = 9 * 10**15 + 1  # of the scores that all servers write with the same digits
UNKNOWN = b"unknown"
WORDS = (b"", b"x")
NUMBERS = (-1, 0, 1, 2, 1.5, 1000, 1001, YEAR_MS, YEAR_MS + 1, 10**13 - 1, 10**13, 10**15 - 1, 10**15)
BOUNDS = (
    -4097,
    -4096,
    4095,
    4096,
    10**6,
    10**6 + 1,
    366 * DAY_MS,
    366 * DAY_MS + 1,
    36600 * DAY_MS,
    36600 * DAY_MS + 1,
)
LENGTHS = (200, 201, 512, 513, 4096, 4097)
SETTINGS = ("on", "0", "1", str((NOW_S + 60) * 1000))
VALUES = (b"", b"x", b"0", b"1", b"-1", b"1.5", b"99999999999999")
DAMAGED = (b"", b"x", b"0", b"-1", b"99999999999999")
ROWS = (45, 1000, 1001)  # too many for a search per row; the largest batch; one more
LIFETIMES = ("ttr_ms", "silent_ms", "lock_ms", "keep_ms", "ttl_ms")
BY_NAME: dict[str, tuple[object, ...]] = {
    "offset": (3, -2),
    "limit": (3, 4),
    "body_bytes": (8, 20, 6000),
    "most": (6000,),
}
ADD: dict[str, tuple[Callable[..., tuple[Any, ...]], Callable[[bytes], tuple[Any, ...]]]] = {
    "list": (lambda name, at: ("LPUSH" if at < 0 else "RPUSH", name), lambda name: ("LREM", name, 1)),
    "set": (lambda name, at: ("SADD", name), lambda name: ("SREM", name)),
    "zset": (lambda name, score: ("ZADD", name, score), lambda name: ("ZREM", name)),
}


class Variation(NamedTuple):
    """One difference of a script's request or database: the part that differs, its other value, and how to make it."""

    subject: str
    value: str
    argv: list[bytes]
    edits: Sequence[Command] = ()


def describe_variations(subject: Subject, name: str, client: Redis) -> Iterator[str]:
    """Yield a line per varied part of a script's call: the values that lead to each outcome, and a hash of the effects.

    The requests are varied for jobs of two places, the database only for jobs of the first one.
    """
    use = subject.uses[name]
    sources = [*(use.sources or sorted(subject.scripts[name].sources) or [""])]
    for source in sources[:2]:
        prepared = PreparedScript.build(subject, client, name, source, JOBS)
        call = prepared.database.call(prepared.script, prepared.request)
        keys, argv = [to_bytes(key) for key in call.keys], [_convert_word_to_bytes(word) for word in call.argv]
        before, copies = prepared.database.dump(), keyspace.dump_raw_values(client)
        variations = [Variation("nothing", "", argv), *_vary_requests(prepared, argv, before)]
        if source == sources[0]:
            variations += build_damaged_databases(prepared, keys, argv, before)
        results = zip(variations, _run_variations(client, prepared.script, keys, variations, copies), strict=True)
        yield f"== {source or 'new'}, jobs: {JOBS}, with one difference"
        for what, outcomes in groupby(results, lambda each: each[0].subject):
            values: dict[str, list[str]] = {}
            digest = sha256()
            for variation, (words, effects) in outcomes:
                values.setdefault(words, []).append(variation.value)
                digest.update(effects)
            outcomes_text = "; ".join(f"{words} ({' '.join(each)})" for words, each in values.items())
            yield f"{what}: {outcomes_text} #{digest.hexdigest()[:8]}"


def _convert_word_to_bytes(word: object) -> bytes:
    return word if isinstance(word, bytes) else str(word).encode("utf-8", "surrogateescape")


# --- other requests --------------------------------------------------------------------------------------------------


def _vary_requests(prepared: PreparedScript, argv: list[bytes], before: keyspace.Keyspace) -> Iterator[Variation]:
    """Yield variations of a request: each argument and column by its type, and other numbers of rows."""
    script, names = prepared.script, [arg.name for arg in prepared.script.args]
    bounds = list_script_numbers(script.source)
    for at, arg in enumerate(script.args):
        usual = dict.fromkeys(map(_convert_word_to_bytes, _list_argument_values(prepared, arg, argv[at], before)))
        around = _list_numbers_around(bounds) if arg.type in ("int", "float") and arg.name != "cursor" else []
        if arg.name == "body_bytes":
            body = prepared.database.subject.body(prepared.database.client, prepared.targets[0].id) or b""
            around += _list_numbers_around([len(body)])
        near = dict.fromkeys(map(_convert_word_to_bytes, around))
        for subject, values in ((arg.name, usual), (f"{arg.name} near a bound", near)):
            for value in values:
                if value != argv[at] and not (arg.name in LIFETIMES and value in (b"1", b"2", b"1.5")):
                    words = [*argv[:at], value, *argv[at + 1 :]]
                    if arg.name == "due_ms" and "delay_ms" in names:  # a delay would be preferred
                        words[names.index("delay_ms")] = b""
                    yield Variation(subject, _format_changed_value(value, argv[at]), words)
    if argv:
        yield Variation("arguments", "one-less", argv[:-1])
    yield Variation("arguments", "one-more", [*argv, b"x"])
    width = len(script.each)
    if "columns" in names and argv[names.index("columns")]:
        width = int(argv[names.index("columns")])
    head, rows = argv[: len(names)], argv[len(names) :]
    if not width or not rows:
        return
    row = rows[:width]
    yield Variation("rows", "none", head)
    yield Variation("rows", "the-first-twice", [*argv, *row])
    id_at = next((at for at, column in enumerate(script.each[:width]) if column.name in ("id", "token")), 0)
    unknown = [[*row[:id_at], UNKNOWN + b"-%d" % n, *row[id_at + 1 :]] for n in range(max(ROWS))]
    yield Variation("rows", "an-unknown-first", [*head, *unknown[0], *rows])
    for number in ROWS:
        more = [word for other in unknown[: number - len(rows) // width] for word in other]
        yield Variation("rows", str(number), [*argv, *more])
    if width < len(script.each):  # the other columns are empty
        head = [*head[: names.index("columns")], b"", *head[names.index("columns") + 1 :]]
        empty = [b""] * (len(script.each) - width)
        rows = [word for at in range(0, len(rows), width) for word in (*rows[at : at + width], *empty)]
    width = len(script.each)
    row, others = rows[:width], rows[width:]
    for at, column in enumerate(script.each):
        numbers = (
            [_convert_word_to_bytes(number) for number in (*NUMBERS, *BOUNDS)]
            if column.type in ("int", "float")
            else []
        )
        texts = [] if column.type in ("int", "float", "bool") else [(str(size), b"y" * size) for size in LENGTHS]
        damaged = [(_format_changed_value(value, row[at]), value) for value in (*VALUES, row[at][:-1], *numbers)]
        for title, value in dict((*damaged, *_list_damaged_values(row[at]), *texts)).items():
            if value != row[at]:
                words = [*head, *row[:at], value, *row[at + 1 :], *others]
                yield Variation(f"column {column.name}", title, words)


def list_script_numbers(source: str) -> list[int]:
    """Return the numbers from 2 on in a script, without its comments, texts, and indexes of KEYS and ARGV."""
    code = re.sub(r"--[^\n]*|'[^']*'|\[\d+\]", "", source)
    return sorted({int(float(number)) for number in re.findall(r"(?<![\w.])\d+(?:e\d+)?(?![\w.])", code)} - {0, 1})


def _list_numbers_around(bounds: Sequence[int]) -> list[int]:
    return sorted({near for bound in bounds for near in (bound - 1, bound, bound + 1)})


def _list_argument_values(
    prepared: PreparedScript, arg: Any, given: bytes, before: keyspace.Keyspace
) -> Iterator[object]:
    yield from WORDS
    if arg.name == "cursor":
        return  # a set in another order replies with other cursors
    yield from BY_NAME.get(arg.name, ())
    if arg.name == "now_ms":
        yield from _list_boundary_times(before)
    if arg.name == "place":
        yield from prepared.database.subject.places
    if arg.type in ("int", "float"):
        yield from (*NUMBERS, *BOUNDS)
    elif arg.type == "bool":
        yield from (b"1", b"0")
    else:
        yield from (b"0", b"1", b"-1", given + b"x", given[:-1], *(b"y" * size for size in LENGTHS))


def _list_boundary_times(entries: keyspace.Keyspace) -> list[int]:
    """Return the first and last time (ms) of each sorted set and 1 ms around them, where `<` and `<=` differ."""
    instants: set[int] = set()
    for entry in entries.values():
        if entry.type == "zset" and entry.value:
            scores = [*entry.value.values()]
            for score in (scores[0], scores[-1]):
                ms = score * 1000 if 1e9 < score < 1e11 else score / 4096 if score > 1e15 else score
                instants |= {int(ms) - 1, int(ms), int(ms) + 1} if 1e12 < ms < 1e13 else set()
    return sorted(instants)


# --- other databases -------------------------------------------------------------------------------------------------


def build_damaged_databases(
    prepared: PreparedScript, keys: list[bytes], argv: list[bytes], before: keyspace.Keyspace
) -> Iterator[Variation]:
    """Yield variations of a database: each key missing or of a wrong type, and damaged records of the first job."""
    job = prepared.targets[0].id
    others = [other.id for other in prepared.database.planted if other.id != job]
    declared = {to_text(key) for key in keys}
    read = re.findall(r"'HM?GET', *\w+,([^()]*)\)", prepared.script.source)
    fields = {field for names in read for field in re.findall(r"'([\w.:]+)'", names)}
    bounds = list_script_numbers(prepared.script.source)
    for key, entry in before.items():
        name = to_bytes(key)
        if any(other in name for other in others) and key not in declared:
            continue  # a key of another job
        yield Variation(key, "missing", argv, [("DEL", name)])
        yield Variation(key, "of-a-wrong-type", argv, [("DEL", name), _build_value_of_wrong_type(name, entry.type)])
        for part, value, edits in _build_key_edits(name, entry, job, others):
            yield Variation(f"{key} {part}" if part else key, value, argv, edits)
        for part, value, edit in _build_edits_near_bounds(name, entry, job, others, bounds):
            yield Variation(f"{key} {part} near a bound", value, argv, [edit])
        if entry.type == "hash" and key in declared:
            for field in sorted(fields - {*map(to_text, entry.value)}):
                for setting in SETTINGS:
                    yield Variation(f"{key} {field}", setting, argv, [("HSET", name, field, setting)])
    for key in sorted(declared - {*before}):
        yield Variation(key, "of-a-wrong-type", argv, [_build_value_of_wrong_type(to_bytes(key), "")])


def _build_value_of_wrong_type(name: bytes, kind: str) -> Command:
    return ("RPUSH", name, "x") if kind == "string" else ("SET", name, "another program's")


def _build_key_edits(
    name: bytes, entry: Entry, job: bytes, others: list[bytes]
) -> Iterator[tuple[str, str, list[Command]]]:
    """Yield edits of one key: the changed part, its new value, and the Redis commands."""
    if entry.type == "hash":
        for field, value in entry.value.items():
            if field == job or field not in others:
                part = _format_changed_value(field)
                yield part, "missing", [("HDEL", name, field)]
                for title, other in _list_damaged_values(value):
                    yield part, title, [("HSET", name, field, other)]
        return
    if entry.type == "string":
        for title, other in _list_damaged_values(entry.value):
            yield "", title, [("SET", name, other)]
        return
    if entry.type not in ADD:
        return
    add, remove = ADD[entry.type]
    yield "", "an-unknown-first", [(*add(name, -1), UNKNOWN)]
    yield "", "an-unknown-last", [(*add(name, HIGHEST), UNKNOWN)]
    members = [*entry.value]
    at = next((at for at, member in enumerate(members) if job in member), None)
    if at is None:
        return
    member, score = members[at], entry.value[members[at]] if entry.type == "zset" else 0
    yield "the job", "missing", [(*remove(name), member)]
    if entry.type == "list":
        yield "the job", "twice", [("RPUSH", name, member)]
    if entry.type == "zset":
        for other_score in (0, -1, NOW_S, NOW_S * 1000, 10**15, score + 0.5):
            yield "the score", str(other_score), [("ZADD", name, other_score, member)]
    for title, other in _list_damaged_values(member):
        put = (
            [("LSET", name, at, other)]
            if entry.type == "list"
            else [(*remove(name), member), (*add(name, score), other)]
        )
        yield "the job", title, put


def _build_edits_near_bounds(
    name: bytes, entry: Entry, job: bytes, others: list[bytes], bounds: Sequence[int]
) -> Iterator[tuple[str, str, Command]]:
    """Yield edits of the numbers of one key, in the fields of a hash or the job's score, to values around the bounds.

    A time becomes a time so long ago.
    """
    if entry.type == "hash":
        for field, value in entry.value.items():
            if value.isdigit() and field not in others:
                for other in _list_values_near_bounds(int(value), bounds):
                    yield _format_changed_value(field), str(other), ("HSET", name, field, other)
    if entry.type == "zset":
        member = next((member for member in entry.value if job in member), None)
        for other in _list_values_near_bounds(entry.value[member], bounds) if member is not None else ():
            yield "the score", str(other), ("ZADD", name, other, member)


def _list_values_near_bounds(value: float, bounds: Sequence[int]) -> list[float]:
    """Return numbers around the bounds; for a time in ms or s, the times that are so many ms before `NOW_S`."""
    around = _list_numbers_around(bounds)
    if 1e12 < value < 1e13:
        return [NOW_S * 1000 - each for each in around]
    if 1e9 < value < 1e11:
        return [NOW_S - each / 1000 for each in around]
    return [*around]


def _list_damaged_values(value: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield values of a field that are damaged or at a bound; of JSON, also documents with one other member."""
    yield from ((_format_changed_value(other, value), other) for other in DAMAGED if other != value)
    yield "longer", value + b"x"
    try:
        document = json.loads(value) if value[:1] == b"{" else None
    except ValueError:
        return
    for path in _list_member_paths(document or {}):
        name = ".".join(path)
        yield f"no-{name}", json.dumps(_replace_member(document, path, _MISSING)).encode()
        for other in (None, 0, "x"):
            yield f"{name}={json.dumps(other)}", json.dumps(_replace_member(document, path, other)).encode()


_MISSING = object()


def _list_member_paths(document: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield the paths of all members of a JSON object and of its nested objects."""
    for name, value in document.items():
        yield (name,)
        yield from ((name, below) for below in value) if isinstance(value, dict) else ()


def _replace_member(document: dict[str, Any], path: tuple[str, ...], other: object) -> dict[str, Any]:
    """Return a JSON object with another value at a path, or without the path for `_MISSING`."""
    name, *below = path
    if below:
        return {**document, name: _replace_member(document[name], (*below,), other)}
    return {
        each: other if each == name else value
        for each, value in document.items()
        if each != name or other is not _MISSING
    }


# --- the runs --------------------------------------------------------------------------------------------------------


def _run_variations(
    client: Redis,
    script: Script,
    keys: list[bytes],
    variations: list[Variation],
    copies: list[tuple[bytes, int, bytes]],
) -> Iterator[tuple[str, bytes]]:
    """Run each variation in the same database, and yield the words of the reply and all effects of the script."""
    harness = client.script_load(_build_variation_harness(script, copies))
    for start in range(0, len(variations), SENT_TOGETHER):
        words: list[Any] = [int(script.per_row), len(keys), *keys]
        for variation in variations[start : start + SENT_TOGETHER]:
            words += [len(variation.argv), *variation.argv, len(variation.edits)]
            words += [part for edit in variation.edits for part in (len(edit), *edit)]
        replies: Any = client.evalsha(harness, 0, *words)
        for outcomes, text, writes, commands in replies:
            error = b"" if outcomes != [b"raised"] else b"wrong type" if b"WRONGTYPE" in text else b"error of Lua"
            reply = error or text  # servers word what they raise differently
            times = Counter(word.decode("utf-8", "replace") for word in ([error] if error else outcomes))
            words_of = ", ".join(f"{word} x{number}" if number > 1 else word for word, number in times.items())
            yield words_of + ", wrote" * (writes != b"0[]"), b"%d %b %b %b" % (len(reply), reply, commands, writes)


STRICT_SORT = """local _ = (function(list, is_before) -- Lua fails, or sorts wrongly, if a value comes before itself
  for _, each in ipairs(list) do assert(not is_before or not is_before(each, each), 'a value comes before itself') end
  table.sort(list, is_before)
end)("""


def check_sorts(source: str) -> str:
    """Return the text of a script that raises an error where it sorts by an order in which a value precedes itself."""
    return source.replace("table.sort(", STRICT_SORT)


def build_steady_redis(now_s: int) -> str:
    """Return the Lua text that is put before a script so that each run does the same."""
    return f"local now_s = '{now_s}'\n{(FOLDER / 'steady_redis.lua').read_text('utf-8')}"


def _build_variation_harness(script: Script, copies: list[tuple[bytes, int, bytes]]) -> bytes:
    rows = ",".join(
        f"{{{_quote_for_lua(key)},{_round_lifetime(left_ms)},{_quote_for_lua(value)}}}"
        for key, left_ms, value in copies
    )
    act = f"local function act(redis, KEYS, ARGV)\n{check_sorts(script.source)}\nend"
    parts = (
        build_steady_redis(NOW_S),
        f"local copies = {{{rows}}}",
        act,
        (FOLDER / "variations.lua").read_text("utf-8"),
    )
    return "\n".join(parts).encode("utf-8", "surrogateescape")


_LUA_ESCAPES = tuple(f"\\{byte:03d}" for byte in range(256))


def _quote_for_lua(data: bytes) -> str:
    return '"' + "".join(map(_LUA_ESCAPES.__getitem__, data)) + '"'


def _round_lifetime(left_ms: int) -> int:
    """Round a key's lifetime up to minutes, so that the time since the database was filled does not matter."""
    return -(-left_ms // 60_000) * 60_000


def _format_changed_value(value: bytes, given: bytes = b"") -> str:
    """Format the changed value of a variation as a short word."""
    if given and value in (given + b"x", given[:-1]):
        return "longer" if len(value) > len(given) else "cut"
    text = ascii(value.decode("utf-8", "surrogateescape"))[1:-1]
    return (text if len(text) <= 24 else f"{text[:12]}…{sha256(value).hexdigest()[:4]}") or "empty"
