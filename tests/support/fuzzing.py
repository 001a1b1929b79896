"""Provide the number of cases of the fuzzers, hostile values for the cases, and the figures that fuzzers print.

Each fuzzer has a short form in the normal run, a longer one in the matrix and one of 100 000 cases (`pytest -m long
tests/faults`). Cases come from seeds, so that a failure can be repeated; the message names the seed.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import hostile_text
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy

LONG = 100_000
ROUND = 1_000  # cases per seed: Hypothesis keeps all cases of a seed in memory

NUMBERS = (
    b"", b"0", b"-0", b"1", b"-1", b"00", b"007", b"+1", b"1.5", b"1e3", b"1e400", b"-1e400", b"nan", b"inf", b"-inf",
    b"0x10",
    b" 1", b"1 ", b"1\n", b"9" * 13, b"9" * 14, b"9" * 16, b"9" * 20, b"9" * 400, b"9" * 5000, b"9007199254740993",
    b"-9007199254740993", b"1000", b"1001", b"4095", b"4096", b"-4097", b"1099511627776", b"18446744073709551616",
    "²".encode(), "٣".encode(), b"\x00", b"1\x00", b"1_000", b"True", b"-", b"--1",
)  # fmt: skip
DEEP = b"[" * 3000
ERRORS = (  # damaged lists of failed attempts
    DEEP, b"[]", b"[[]]", b"[[1,2]]", b"{}", b"null", b"[[1e999,1,1,1]]", b"[[NaN,1,1,1]]", b"[[1,Infinity,1,1]]",
    b"[1,2]",
    b'[["1","2",[],{}]]', b'[[%s,1,"",""]]' % (b"9" * 30), b'[[1,2,"\\ud800",null]]', b'[["x",1,1,1]]',
    b'[[true,1.5,1,1]]', b"[[1,2,3,4",
)  # fmt: skip
BYTES = (
    *NUMBERS, *hostile_text.RAW, DEEP, b"{" * 200, b"[]", b"{}", b"[[]]", b"[[1,2,3,4]]", b"[[1e999,1,1,1]]",
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


def parametrize_cases(short: int) -> Any:
    """Set the number of a fuzzer's cases: `short` in a plain run, ten times as many in the matrix.

    A long run has 100 000 cases.
    """
    more = pytest.param(10 * short, marks=pytest.mark.matrix, id="more")
    long = pytest.param(LONG, marks=[pytest.mark.long, pytest.mark.timeout(0)], id="long")
    return pytest.mark.parametrize("cases", [pytest.param(short, id="short"), more, long])


@contextmanager
def print_figures(fuzzer: str, cases: int) -> Iterator[Counter[str]]:
    """Yield a counter of a fuzzer's outcomes, and print the counter with the times as a line of JSON."""
    outcomes: Counter[str] = Counter()
    began, cpu = time.monotonic(), time.process_time()
    yield outcomes
    took = {"seconds": round(time.monotonic() - began, 1), "cpu_seconds": round(time.process_time() - cpu, 1)}
    print("\n" + json.dumps({"fuzzer": fuzzer, "cases": cases, **took, **dict(sorted(outcomes.items()))}))


def check_examples(cases: int, strategy: SearchStrategy[Any], check: Callable[[Any], None]) -> None:
    """Check `cases` random values of a Hypothesis strategy, with a new seed per thousand.

    The error names the smallest value that fails.
    """

    for number, start in enumerate(range(0, cases, ROUND)):
        options = settings(
            max_examples=min(ROUND, cases - start),
            database=None,
            deadline=None,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
        )

        @seed(number)
        @options
        @given(strategy)
        def check_one_value(value: Any) -> None:
            check(value)

        check_one_value()


def build_hostile_bytes(source: random.Random, words: Sequence[bytes] = ()) -> bytes:
    """Build hostile bytes: known values, damaged known values, damaged numbers, or hostile text."""
    kind = source.randrange(8)
    if words and kind < 2:
        return source.choice(words)
    if words and kind < 4:
        return damage_bytes(source, source.choice(words))
    if kind < 5:
        return source.choice(NUMBERS)
    if kind < 7:
        return source.choice(BYTES)
    return hostile_text.build_hostile_text(source, 3).encode("utf-8", "surrogatepass")


def damage_bytes(source: random.Random, raw: bytes) -> bytes:
    """Return a copy of `raw` with a few bytes, or one of its words, changed."""
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
