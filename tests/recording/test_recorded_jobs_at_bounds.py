"""Jobs of a recording whose body, numbers or page are at a bound: `recorded_jobs_at_bounds.txt` has every record.

`RQTUI_WRITE_SNAPSHOTS=1 pytest tests/recording/test_recorded_jobs_at_bounds.py` writes the text; review the difference
as code.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kept_text import assert_lines_match_file

from rqtui.model import Job, Page, Ref, State
from rqtui.recording import job_pages
from rqtui.recording.records import RecordedPage
from rqtui.recording.store import RecordingError

KEPT = Path(__file__).with_name("recorded_jobs_at_bounds.txt")
MAIL = Ref("native", "mail")
NOW_MS = 1_800_000_030_000


def build_job(**more: Any) -> Job:
    return Job(b"a", "mail", "native", "ready", State.READY, b"a", **more)


def shorten(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) < 150 else f"{text[:60]} … {len(text)} … {text[-60:]}"


def beginnings() -> Iterator[str]:
    for whole in ("aé", "a€", "a😀"):
        head = whole.encode()
        for end in range(len(head) + 1):
            yield f"{head[:end]!r}: {job_pages._decode_beginning(head[:end])!r}"
    for head in (b"\xff", b"ab\xff", b"abc\xff", b"abc\xffd", b"abc\xffde", b"abc\xffdef", b"a\x80b"):
        yield f"{head!r}: {job_pages._decode_beginning(head)!r}"
    for letters in (8, 9, 10, 11, 18, 19, 20):
        found = [
            job_pages._decode_beginning(b"x" * letters + control)
            for control in (b"\x01", b"\x1f", b" ", b"\n", b"\t", b"\r")
        ]
        yield f"{letters} letters and a control: {[len(text) for text in found]}"
        yield f"{letters} letters and two controls: {job_pages._decode_beginning(b'x' * letters + bytes(2))!r}"


def bodies() -> Iterator[str]:
    most = 1_024
    for size in (most - 1, most, most + 1):
        for title, body in {
            "text": b"x" * size,
            "json": json.dumps({"k": "y" * (size - 9)}).encode(),
            "accents": ("z" * (size % 2) + "é" * (size // 2)).encode(),
            "binary": bytes(range(256)) * 9,
        }.items():
            yield f"{title} of {size}: {shorten(job_pages._build_recorded_body(body, len(body)))}"
            yield f"{title} of {size}, a part: {shorten(job_pages._build_recorded_body(body[:50], len(body)))}"
    for job in (build_job(), build_job(body=b"a"), build_job(body=b""), build_job(body_bytes=5), build_job(body=b"xy")):
        yield f"{job.body!r} {job.body_bytes}: {shorten(job_pages._build_recorded_job(job))}"


def numbers() -> Iterator[str]:
    for number in (0, 1, -1, 2**63, 2**63 + 1, -(2**63)):
        written = job_pages._build_recorded_job(build_job(priority=number, enqueued_ms=abs(number)))
        yield f"{number}: {shorten(written)}"
        page = RecordedPage(MAIL, NOW_MS, "ready", NOW_MS, 1, True, json.dumps([{"id": "a", "priority": number}]))
        try:
            yield f"{number} read: {job_pages.parse_recorded_jobs(page, State.READY)[0].priority}"
        except RecordingError as error:
            yield f"{number} read: {error}"


def pages() -> Iterator[str]:
    for number in (0, 1, 99, 100, 101):
        jobs = tuple(build_job() for _ in range(number))
        for limit in (1, 200):
            page = Page("mail", "native", "ready", jobs, number)
            record = job_pages.build_recorded_page(MAIL, page, NOW_MS, limit, is_exact=True)
            try:
                read = len(job_pages.parse_recorded_jobs(record, State.READY))
            except RecordingError as error:
                yield f"{number} jobs, {limit} recorded: {error}"
            else:
                yield f"{number} jobs, {limit} recorded: {read} {record.at_ms - NOW_MS} {len(record.jobs)}"


def full_pages(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for letters in (900, 940, 965, 1_020):
        long = tuple(build_job(body=b"x" * letters) for _ in range(300))
        record = job_pages.build_recorded_page(
            MAIL, Page("mail", "native", "ready", long, 300), NOW_MS, 300, is_exact=True
        )
        yield f"300 jobs of {letters} letters: {len(json.loads(record.jobs))} in {len(record.jobs)} bytes"
    page = Page("mail", "native", "ready", (build_job(), build_job()), 2)
    size = len(json.dumps(job_pages._build_recorded_job(build_job()), separators=(",", ":")))
    for free_bytes in (size - 1, size, size + 1, 2 * size - 1, 2 * size, 2 * size + 1):
        monkeypatch.setattr(job_pages, "MAX_PAGE_BYTES", free_bytes)
        record = job_pages.build_recorded_page(MAIL, page, NOW_MS, 9, is_exact=True)
        yield f"{free_bytes - 2 * size} bytes more than two jobs: {len(json.loads(record.jobs))}"


def test_recorded_jobs_match_the_stored_text(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [line for part in (beginnings, bodies, numbers, pages) for line in (f"== {part.__name__}", *part())]
    assert_lines_match_file([*lines, "== full_pages", *full_pages(monkeypatch)], KEPT)
