"""Fuzz every script of every system with unexpected arguments in unexpected databases.

Whatever the keys hold and the arguments say, a script replies with a word of its header, with an error of its own, or
with WRONGTYPE. It never causes an error of Lua, and if it reports a failure, it wrote nothing. The server's counter
`rdb_changes_since_last_save` shows what was written.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import fuzz_databases
import fuzzing
import pytest
from fuzz_databases import SUBJECTS, Seed
from redis import Redis

from rqtui.errors import ScriptError
from rqtui.scripts.script import Call
from rqtui.testing import keyspace
from rqtui.testing.keyspace import Stream, Zset

CALLS = 50  # in one database, one after the other
OTHERS: dict[str, object] = {  # keys of other programs, one of each type
    "another:string": "9",
    "another:list": ["a", "1"],
    "another:set": {"a", "1"},
    "another:hash": {"a": "1", "version": "nan", "1": "a b c d e f g h"},
    "another:zset": Zset({"a": float("inf"), "1": -1.5}),
    "another:stream": Stream([("1-1", {"verb": "\x1b"})]),
}
NAMES = (*(name.encode() for name in OTHERS), b"nowhere", b"\xff{")
OF_LUA = re.compile(r"user_script:|attempt to |bad argument|stack traceback")


@dataclass(frozen=True)
class Case:
    """One call, raw."""

    seed: Seed
    keys: tuple[bytes, ...]
    argv: tuple[bytes, ...]

    def command(self) -> tuple[bytes | str | int, ...]:
        """By digest, and so that a read-only script cannot write."""
        name = "EVALSHA_RO" if self.seed.script.read_only else "EVALSHA"
        return (name, self.seed.script.sha, len(self.keys), *self.keys, *self.argv)

    def call(self) -> Call:
        """Return the script call as the client built it, to parse its reply."""
        script = self.seed.script
        columns = len(script.each)
        if script.has_column_count_argument and (cut := self.argv[1:2]) and cut[0].isdigit():
            columns = int(cut[0]) or columns
        rows = (len(self.argv) - len(script.args)) // columns if columns else 0
        return Call(script, list(self.keys), list(self.argv), rows)


def case(source: random.Random, found: tuple[Seed, ...], known: tuple[bytes, ...]) -> Case:
    """Build a successful call with damage to its keys and arguments."""
    seed = source.choice(found)
    keys, argv = list(seed.keys), list(seed.argv)
    if source.random() < 0.2 and keys:
        # A key of another role has the same type, which is no damage that a script could see.
        keys[source.randrange(len(keys))] = source.choice(NAMES)
    for _ in range(source.choice((0, 1, 1, 1, 2, 3))):
        at = source.randrange(len(argv) + 1)
        kind = source.random()
        if kind < 0.75 and at < len(argv):
            old = argv[at]
            argv[at] = (
                fuzzing.damage_bytes(source, old)
                if source.random() < 0.3
                else fuzzing.build_hostile_bytes(source, known)
            )
        elif kind < 0.85:
            del argv[at:]
        elif kind < 0.95:
            argv.insert(at, fuzzing.build_hostile_bytes(source, known))
        else:
            tail = argv[len(seed.script.args) :]
            argv += tail * source.choice((1, 3, 20_000 // (sum(map(len, tail)) + 10 * len(tail) + 1)))
    return Case(seed, tuple(keys), tuple(argv))


def rounds(system: str, client: Redis, cases: int, first: int) -> Iterator[tuple[int, list[Case]]]:
    """Yield databases by number, planted one after the other, each with the calls to run on it."""
    found = fuzz_databases.build_seeds(system, client)
    words = fuzz_databases.collect_words(found)
    for source_text in {seed.script.source for seed in found}:
        client.script_load(source_text)
    for number in range(first, first + -(-cases // CALLS)):
        source = random.Random(f"{system} {number}")
        database = fuzz_databases.damage_database(source, source.choice(found).database, words)
        fuzz_databases.replace_database(client, database)
        keyspace.plant(client, OTHERS)
        yield number, [case(source, found, words) for _ in range(CALLS)]


def changes(info: dict[str, object]) -> int:
    """Return how many changes the server has counted."""
    return int(str(info["rdb_changes_since_last_save"]))


def faults(client: Redis, cases: list[Case], seen: Counter[str]) -> Iterator[str]:
    """Run the calls in one round trip, and yield a sentence for each that broke a promise."""
    pipe = client.pipeline(transaction=False)
    pipe.info("persistence")
    for each in cases:
        pipe.execute_command(*each.command())
        pipe.info("persistence")
    replies = pipe.execute(raise_on_error=False)
    for at, each in enumerate(cases):
        before, reply, after = replies[2 * at : 2 * at + 3]
        if wrong := _wrong(each, reply, changes(after) - changes(before), seen):
            yield f"{each.seed.script.path} {wrong}\n  KEYS {each.keys}\n  ARGV {_short(each.argv)}"


def _wrong(each: Case, reply: object, changed: int, seen: Counter[str]) -> str:
    if isinstance(reply, Exception):
        text = str(reply)
        seen["errors"] += 1
        if changed:
            return f"wrote {changed} times and failed: {text}"
        is_type = "WRONGTYPE" in text or "Operation against a key holding the wrong kind" in text
        return f"ran into: {text}" if OF_LUA.search(text) and not is_type else ""
    seen["changed" if changed else "answered"] += 1
    try:
        each.call().parse(reply)
    except ScriptError as error:
        return f"answered what its header does not declare: {error}"
    return f"wrote {changed} times, and only reads" if changed and each.seed.script.read_only else ""


def _short(argv: tuple[bytes, ...]) -> str:
    return ", ".join(repr(word if len(word) <= 200 else word[:200] + b"...") for word in argv[:40])


@fuzzing.parametrize_cases(150)
@pytest.mark.parametrize("system", SUBJECTS)
def test_no_script_fails_half_way_or_with_an_error_of_lua(system: str, cases: int, client: Redis) -> None:
    found: dict[str, str] = {}
    with fuzzing.print_figures(f"scripts of {system}", cases) as seen:
        for number, calls in rounds(system, client, cases, 0):
            for fault in faults(client, calls, seen):
                found.setdefault(fault.partition("\n")[0], f"round {number}: {fault}")
    assert not found, f"{len(found)} faults:\n" + "\n".join(list(found.values())[:40])
