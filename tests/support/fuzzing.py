"""Fuzzers: how many cases they make, what hostile values they make them of, and the figures they print.

Each has a short form in the normal run, a longer one in the matrix and one of 100 000 cases (`pytest -m long
tests/faults`). Cases come from seeds, so that what failed fails again; a round is a seed, and its number is in the
message.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import hostile
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy

LONG = 100_000
ROUND = 1_000  # cases of one seed of Hypothesis: it remembers them all

NUMBERS = (
    b"", b"0", b"-0", b"1", b"-1", b"00", b"007", b"+1", b"1.5", b"1e3", b"1e400", b"-1e400", b"nan", b"inf", b"-inf",
    b"0x10",
    b" 1", b"1 ", b"1\n", b"9" * 13, b"9" * 14, b"9" * 16, b"9" * 20, b"9" * 400, b"9" * 5000, b"9007199254740993",
    b"-9007199254740993", b"1000", b"1001", b"4095", b"4096", b"-4097", b"1099511627776", b"18446744073709551616",
    "²".encode(), "٣".encode(), b"\x00", b"1\x00", b"1_000", b"True", b"-", b"--1",
)  # fmt: skip
DEEP = b"[" * 3000
ERRORS = (  # what might stand where a list of failed attempts does
    DEEP, b"[]", b"[[]]", b"[[1,2]]", b"{}", b"null", b"[[1e999,1,1,1]]", b"[[NaN,1,1,1]]", b"[[1,Infinity,1,1]]",
    b"[1,2]",
    b'[["1","2",[],{}]]', b'[[%s,1,"",""]]' % (b"9" * 30), b'[[1,2,"\\ud800",null]]', b'[["x",1,1,1]]',
    b'[[true,1.5,1,1]]', b"[[1,2,3,4",
)  # fmt: skip
BYTES = (
    *NUMBERS, *hostile.RAW, DEEP, b"{" * 200, b"[]", b"{}", b"[[]]", b"[[1,2,3,4]]", b"[[1e999,1,1,1]]",
    b"[[NaN,1,1,1]]", b"null",
    b"[[1,2,\"w\"]]", b"[1,2]", b'[[1,2,"w","e"]]', b'[["1","2",[],{}]]', b'"\\ud800"', b"\x91\x01", b"\x80",
    b"\xdf\xff\xff\xff\xff",
    b" ", b"  ", b"\n", b" \n", b"\n\n", b"|", b"||1", b"|1", b"a|", b"a|-1", b"a|1e3", b"a|" + b"9" * 30, b"-lock",
    b"%s%d%n",
    b"*", b"?", b"[", b"{", b"}", b"{}:x", b"a" * 200, b"a" * 201, b"a" * 513, b"a" * 5000, b"\xff" * 70, b"1-1",
    b"1-", b"-1-1",
    b"18446744073709551615-18446744073709551615", b"99999999999999999999-0", b"on", b"off", b"c", b"wake", b"ready",
    b"dead",
)  # fmt: skip


def forms(short: int) -> Any:
    """The parameter `cases`: so many in the short form, ten times as many in the matrix, 100 000 in the long one."""
    more = pytest.param(10 * short, marks=pytest.mark.matrix, id="more")
    long = pytest.param(LONG, marks=[pytest.mark.long, pytest.mark.timeout(0)], id="long")
    return pytest.mark.parametrize("cases", [pytest.param(short, id="short"), more, long])


@contextmanager
def figures(fuzzer: str, cases: int) -> Iterator[Counter[str]]:
    """Counts what became of the cases and prints it as a line of JSON."""
    seen: Counter[str] = Counter()
    began, cpu = time.monotonic(), time.process_time()
    yield seen
    took = {"seconds": round(time.monotonic() - began, 1), "cpu_seconds": round(time.process_time() - cpu, 1)}
    print("\n" + json.dumps({"fuzzer": fuzzer, "cases": cases, **took, **dict(sorted(seen.items()))}))


def try_all(cases: int, strategy: SearchStrategy[Any], check: Callable[[Any], None]) -> None:
    """Runs `check` on so many values, a seed per thousand; the smallest value that fails is in the error."""

    for number, start in enumerate(range(0, cases, ROUND)):
        how = settings(
            max_examples=min(ROUND, cases - start),
            database=None,
            deadline=None,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
        )

        @seed(number)
        @how
        @given(strategy)
        def once(value: Any) -> None:
            check(value)

        once()


def value(source: random.Random, known: Sequence[bytes] = ()) -> bytes:
    """Bytes that somebody might send or store: known ones, known ones damaged, numbers that are none, hostile text."""
    kind = source.randrange(8)
    if known and kind < 2:
        return source.choice(known)
    if known and kind < 4:
        return damaged(source, source.choice(known))
    if kind < 5:
        return source.choice(NUMBERS)
    if kind < 7:
        return source.choice(BYTES)
    return hostile.text(source, 3).encode("utf-8", "surrogatepass")


def damaged(source: random.Random, raw: bytes) -> bytes:
    """Bytes with a few of them, or one of their words, changed."""
    kind = source.randrange(5)
    at = source.randrange(len(raw) + 1)
    if kind == 0:
        return raw[:at]
    if kind == 1:
        return raw[:at] + source.choice(BYTES) + raw[at:]
    if kind == 2:
        return raw[:at] + source.randbytes(source.randint(1, 3)) + raw[at + source.randint(0, 3) :]
    words = raw.split(b" ")
    words[source.randrange(len(words))] = source.choice(BYTES)
    return b" ".join(words) if kind == 3 else b" ".join(words[: source.randint(1, len(words))])
