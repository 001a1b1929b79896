"""Calls of Sidekiq, and rows of native queues, where one length or number is at a bound: see `formats_at_bounds.txt`.

`RQTUI_WRITE_SNAPSHOTS=1 pytest tests/systems/test_formats_at_bounds.py` writes the text; review the difference as code.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bare_objects import describe
from kept_text import assert_lines_match_file

from rqtui.model import MAX_BACKOFF_MS, State
from rqtui.scripts.script import Reply
from rqtui.systems import native
from rqtui.systems.rq import job_format
from rqtui.systems.sidekiq import ruby_calls
from rqtui.systems.sidekiq.ruby_calls import BareText

KEPT = Path(__file__).with_name("formats_at_bounds.txt")
NOW_MS = 1_800_000_000_000


def calls_of_ruby(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(ruby_calls, "_MAX_CALL_LENGTH", 20)
    for size in (4, 5, 6, 7, 8):
        for args in (["x" * size], ["x" * size, 1], [BareText("x" * size), 1], [{BareText("a"): "x" * size}]):
            yield f"{size} letters in {args}: {ruby_calls.format_job_call('A.b', args)}"
    for most in range(8):
        for value in (
            "xxxx",
            BareText("xxxx"),
            [1, 2, 3],
            {"a": 1, "b": 2},
            {BareText("a"): 1, BareText("b"): 2},
            None,
        ):
            yield f"{most} letters of {value}: {ruby_calls._format_ruby(value, most)}"
    for value in (2**2999, 2**3000 - 1, 2**3000, True, None, 1.5, {}, [], {BareText("a"): 1}):
        yield f"{value!s:.20}: {ruby_calls.format_job_call('A', [value])}"
    for name in ("UserMailer.hi", "A::B", "A::B.hi", "N" * 8, "N" * 9, "N" * 10, "N" * 19, "N" * 20, "N" * 21):
        yield f"{name}: {ruby_calls.format_job_call(name, [1, 2])}"
    for depth in (39, 40, 41):
        value: Any = 1
        for _ in range(depth):
            value = [value]
        yield f"{depth} lists: {ruby_calls._format_ruby(value, 999).strip('[]')}"


def workers_of_native_queues() -> Iterator[str]:
    for line in (
        b"5 60 run 4 7 host job 1", b"5 60 run 4 7 host ", b"5 60 run 4 7 host", b"5 60 run 4 7", b"x 60 run 4 7 host",
        b"5 x run 4 7 host", b"5 60 run x 7 host", b"%d 60 run 4 7 host" % 10**16, b"%d 60 run 4 7 host" % 10**17,
    ):  # fmt: skip
        yield f"worker {line!r}: {describe(native._parse_workers('mail', [Reply('', rows=[(b'w1', line)])]))}"


def pages_of_native_queues() -> Iterator[str]:
    for total in (0, 1, 2, 3, 9):
        for offset in (-3, -2, -1, 0, 1):
            rows = [(b"%d" % at, 5.0, b"", size, b"", b"", b"") for at, size in enumerate((0, 1)[:total])]
            reply = Reply("page", values={"total": total, "max_attempts": 3}, rows=rows)
            page = native._parse_page("mail", "ready", offset, 2, reply)
            bodies = [job.body for job in page.jobs]
            yield f"{total} jobs from {offset}: first {page.offset}, next {page.next}, bodies {bodies}"


def numbers_of_native_queues() -> Iterator[str]:
    for number in (-(10**17), 1 - 10**17, -1, 0, 10**17 - 1, 10**17, "x"):
        try:
            yield f"number {number}: {native._parse_int(number)}"
        except ValueError as error:
            yield f"number {number}: {str(error)[:40]}"
        yield f"digits {number}: {native._is_number(str(number).encode())}"
    for state in State:
        for line in (b"", b"2 7000 - 5 - - w1", b"2 7000 - - -3 c w1", b"x 7000 - 5 - - w1", b"2 x - 5 - - ", b"2 7"):
            yield f"{state.value} {line!r}: {native._parse_attempts_line(state, line)}"
    for errors in (b"", b"[]", b'[[1,2,"w","e"]]', b"[[1,2]]", b"x", b"[[Infinity,2,1,2]]", b'[[1,2,"\\ud800",3]]'):
        yield f"errors {errors!r}: {native.parse_history(errors)}"


def retries_of_rq() -> Iterator[str]:
    for text in ("[0]", "[-1]", "[0, 60]", "[99999999999]", "[100000000000]", "60", "1.5", "{", '["x"]', "[]", ""):
        yield f"intervals {text}: {job_format.parse_retry_intervals(text)}"
    for intervals in ([], [0], [10], [10, 60], [10, 20, 40], [60, 10], [0.0004, 0.0006], [MAX_BACKOFF_MS / 1000 + 1]):
        for left in (0, 1, 2, 3, 4):
            found = [job_format.compute_native_backoff(intervals, left, attempts) for attempts in (0, 1, 2, 62)]
            yield f"intervals {intervals}, {left} retries left: {found}"


def test_formats_match_the_stored_text(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = (
        calls_of_ruby(monkeypatch),
        workers_of_native_queues(),
        pages_of_native_queues(),
        numbers_of_native_queues(),
        retries_of_rq(),
    )
    assert_lines_match_file((line for part in parts for line in (f"== {part.__name__}", *part)), KEPT)
