"""Pages of foreign systems that are joined from parts, scanned and counted, where a number is at a bound.

`pages_at_bounds.txt` has every line. `RQTUI_WRITE_SNAPSHOTS=1 pytest tests/system_base/test_pages_at_bounds.py` writes
the text; review the difference as code.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bare_objects import describe
from kept_text import assert_lines_match_file

from rqtui.errors import RqtuiError, ServerError
from rqtui.model import EventCoverage, Fact, Job, Page, State
from rqtui.scripts.script import Call, Reply
from rqtui.system_base import foreign_system
from rqtui.systems import registry

KEPT = Path(__file__).with_name("pages_at_bounds.txt")
NOW_MS = 1_800_000_000_000


def build_system(spec: str = "timeout_sets") -> Any:
    system: Any = registry.create_system(spec)
    system.decode_rows = lambda queue, place, rows, _now_ms: [build_job(row["id"], place) for row in rows]
    return system


def build_job(id: bytes, place: str) -> Job:
    return Job(id, "mail", "s", place, State.READY, id)


def build_reply(first: int, end: int, total: int, **values: object) -> Reply:
    rows = [(b"%d" % at,) for at in range(max(0, first), min(end, total))]
    return Reply("", values={"now_ms": NOW_MS, "total": total, **values}, rows=rows, columns=("id",))


def answer(calls: Sequence[Call], total: int) -> list[Reply]:
    """Return the replies of the script `page` for a place with so many jobs."""
    replies = []
    for call in calls:
        offset, limit = int(call.argv[-3]), int(call.argv[-2])
        first = offset if offset >= 0 else max(0, total - limit + offset + 1)
        replies.append(build_reply(first, first + limit, total))
    return replies


def show(page: Page) -> str:
    ids = ",".join(job.id.decode() for job in page.jobs)
    error = f", error {page.error!r}" if page.error else ""
    numbers = f"from {page.offset}, next {page.next}, {page.total} in all, exact {page.is_exact}, of {page.place_total}"
    return f"[{ids}] {numbers}{error}"


def parts() -> Iterator[str]:
    system = build_system("bullmq")
    for total in (0, 1, 2, 3):
        for offset in (-3, -2, -1, 0, 1, 2):
            first = offset if offset >= 0 else max(0, total - 2 + offset + 1)
            reply = build_reply(first, first + 2, total)
            yield f"2 of {total} from {offset}: {show(system._parse_page('mail', 'wait', offset, 2, reply))}"
    for values in ({"exact": 0}, {"of": 7}):
        yield f"{values}: {show(system._parse_page('mail', 'wait', 0, 2, build_reply(0, 2, 2, **values)))}"
    for error in (ServerError("no"), RqtuiError("lost")):
        try:
            yield f"refused: {show(system._parse_page('mail', 'wait', 0, 2, error))}"
        except RqtuiError as raised:
            yield f"raised: {raised}"
    for size in (None, 2):
        system.jobs_per_page_call = size
        for limit in (1, 2, 3, 4, 5):
            for offset in (0, 1, -1, -2):
                request = system.page_request("mail", "wait", offset, limit, 0)
                calls = [call.argv[-4:] for call in request.calls]
                if len(request.calls) > 1 or limit == 3:
                    yield f"{limit} jobs from {offset} in parts of {size}: {calls}"
    for total in (3, 4, 5, 9):
        for offset in (0, -1):
            request = system.page_request("mail", "wait", offset, 5, 0)
            yield f"joined from {offset}, {total} jobs: {show(request.parse(answer(request.calls, total)))}"
    for number, size in ((0, 2), (1, 2), (2, 2), (3, 2), (4, 2)):
        yield f"{number} in ranges of {size}: {foreign_system._split_into_ranges(number, size)}"


def scans() -> Iterator[str]:
    system = build_system("celery")
    for older in (None, 0, 3):
        request = system.backward_scan_request("mail", "unacked", older, 2, 0)
        for following in (None, 2):
            reply = build_reply(0, 2, 5, next=following)
            found = f"{request.calls[0].argv[-4:]}, {show(request.parse([reply]))}"
            yield f"backwards, {older} older, next {following}: {found}"
    for place in ("queue", "unacked"):
        calls = [
            system.scan_request("mail", place, 3, 2, 0).calls,
            system.backward_scan_request("mail", place, 3, 2, 0).calls,
        ]
        yield f"scan of {place}: {[call.script.name for each in calls for call in each]}"
    for reply in (build_reply(0, 2, 5, next=4), ServerError("no")):
        yield f"scanned: {show(system._parse_scan_page('mail', 'unacked', 0, reply))}"


def events() -> Iterator[str]:
    for seen in (0, 1, 2, 3):
        for since_ms, missed_ms in ((None, 0), (5, 0), (5, 7)):
            for offset in (-1, 0, 1):
                system = build_system("celery")
                system.event_coverage = EventCoverage(since_ms, missed_ms)
                for at in range(seen):
                    system.event_cache.record_job(build_job(b"%d" % at, "failed"))
                page = system.page_request("mail", "failed", offset, 2, 0).parse(())
                if since_ms == 5 and missed_ms == 0 or offset == 0 and seen == 3:
                    yield f"2 of {seen} seen since {since_ms}, missed {missed_ms}, from {offset}: {show(page)}"


def small_parts() -> Iterator[str]:
    for spec, rows in (("celery", [(b"%d" % at,) for at in range(2)]), ("bullmq", [])):
        for values in ({}, {"now_ms": 7}):
            reply = Reply("", values=values, rows=rows, columns=("id",))
            yield f"taken from {spec}: {[job.place for job in build_system(spec).read_taken_jobs('mail', reply)]}"
    system: Any = registry.create_system("dispatcher:ready=mail,delayed=later")
    rows: Sequence[tuple[object, ...]] = [(b"x", 1, b"", "1"), (b"x", 1, b"", "1"), (b"y", 1, b"", "1")]
    jobs = system.read_taken_jobs(
        "mail", Reply("", values={"now_ms": 1}, rows=rows, columns=("head", "size", "tail", "score"))
    )
    yield f"equal entries: {[job.id for job in jobs]}"
    for spec in ("dispatcher:ready=mail,delayed=later", "sidekiq"):
        new: Any = registry.create_system(spec)
        for row in ({"body": b"x", "id": "a"}, {"body": "x"}, {"body": b"x", "id": b"b"}):
            yield f"new job of {spec.partition(':')[0]}, {row}: {new.read_new_id(row)!r}"
    for read, total in ((0, 0), (1, 2), (2, 2), (3, 2)):
        yield f"read {read} of {total}: {foreign_system.describe_unread_rest(read, total, 'jobs')!r}"
    for key in ("a", "a{b}", "a{}b", "{a"):
        yield f"key beside {key}: {foreign_system.build_side_key(key, 'x')}"
    facts: list[Fact] = foreign_system.build_facts([("a", 0, "text"), ("b", "", "text"), ("c", None, "text")])
    yield f"facts: {describe(facts)}"
    for attempts in (0, 1, 2):
        for place in ("queue", "unacked"):
            job = Job(b"a", "mail", "celery", place, build_system("celery").place(place).state, b"a", attempts=attempts)
            for spec in ("celery", "arq", "orizuru:source=mail"):
                terms = registry.create_system(spec).migration_terms(job)
                yield f"terms of {spec[:7]} after {attempts} attempts, {place}: {terms.attempts} {terms.max_attempts}"


def test_pages_match_the_stored_text() -> None:
    every = (parts(), scans(), events(), small_parts())
    assert_lines_match_file((line for part in every for line in (f"== {part.__name__}", *part)), KEPT)
