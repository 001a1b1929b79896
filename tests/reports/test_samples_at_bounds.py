"""What reports count and read of jobs, times and samples at their bounds: `samples_at_bounds.txt` has every result.

`RQTUI_WRITE_SNAPSHOTS=1 pytest tests/reports/test_samples_at_bounds.py` writes the text; review the difference as code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from kept_text import assert_lines_match_file, utc_time_zone

from rqtui.errors import UsageError
from rqtui.model import Finding, Job, Page, Place, Queue, Ref, State
from rqtui.operations.journal import Operation, Sighting
from rqtui.reports import attributes, comparison, errors, events, hosts, incident, jobs, kinds, plans, sampling, search
from rqtui.reports.comparison import Selection, Side
from rqtui.reports.differences import Difference
from rqtui.reports.sampling import Part, Survey
from rqtui.reports.time_windows import TimeWindow, choose_time, select_by_time

KEPT = Path(__file__).with_name("samples_at_bounds.txt")
NOW_MS = 1_800_000_000_000
MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
MAIL = Ref("native", "mail")


def job(id: object = "a", state: str = "dead", **more: Any) -> Job:
    return Job(str(id).encode(), "mail", "native", state, State(state), b"", **more)


def time_windows() -> Iterator[str]:
    for name in ("enqueued", "ended"):
        for begin_ms in (None, 5):
            window = TimeWindow(name, begin_ms, 9)
            found = [
                at_ms
                for at_ms in (None, -1, 0, 4, 5, 8, 9)
                if window(job(enqueued_ms=at_ms, since_ms=at_ms, attempts=1))
            ]
            yield f"{name} from {begin_ms} before 9: {found}"
    places = {word: (SimpleNamespace(state=State(word)),) for word in ("dead", "done", "ready")}
    system: Any = SimpleNamespace(find_places=places.__getitem__)
    for words in (["dead"], ["done"], ["dead", "done"], ["dead", "ready"], ["ready"]):
        yield f"time of {words}: {choose_time(system, words)}"
    for ago_ms in (None, HOUR_MS - 1, HOUR_MS, HOUR_MS + 1):
        try:
            selections = select_by_time(Selection(("dead",)), Selection(("dead",)), "ended", NOW_MS, HOUR_MS, ago_ms)
        except UsageError as error:
            yield f"{ago_ms} ago: {error}"
            continue
        for selection in selections:
            assert selection.accepts is not None
            ages = [
                age_ms
                for bound_ms in (0, HOUR_MS, 2 * HOUR_MS, 2 * HOUR_MS + 1)
                for age_ms in (bound_ms - 1, bound_ms, bound_ms + 1)
                if selection.accepts(job(since_ms=NOW_MS - age_ms))
            ]
            yield f"{ago_ms} ago, {selection}: {ages}"


def ages() -> Iterator[str]:
    bounds_ms = (0, MINUTE_MS, 10 * MINUTE_MS, HOUR_MS, 6 * HOUR_MS, DAY_MS, 7 * DAY_MS, 30 * DAY_MS)
    for age_ms in sorted({bound_ms + by for bound_ms in bounds_ms for by in (-1, 0, 1)}):
        planned = plans.classify_age(job(since_ms=NOW_MS - age_ms), NOW_MS)
        yield f"{age_ms}: {planned}, {attributes.name_age(age_ms)}"
    for more in ({}, {"enqueued_ms": 5}, {"reserved_ms": NOW_MS, "enqueued_ms": 5}, {"since_ms": NOW_MS - HOUR_MS}):
        yield f"{more}: {plans.classify_age(job(**more), NOW_MS)}"


def planned_changes() -> Iterator[str]:
    for number in (0, 1, 4, 5, 6):
        counts = plans._PlanCounts(Counter(), Counter(), Counter(), Counter(), [])
        for at in range(number):
            counts.add_job(MAIL, job(at, error="Timeout" if at else ""), NOW_MS)
        plan = counts.build_plan(5, 1.5)
        read = f"{plan.total} {plan.looked} {plan.exact} {len(plan.samples)}"
        yield f"{number} of 5: {read} {plan.by_error} {plan.by_age}"
    for number in (9_999, 10_000, 10_001):
        counts = plans._PlanCounts(Counter(), Counter(), Counter(), Counter(), [])
        counts.errors.update(f"other {at}" for at in range(number - 1))
        for error in ("Timeout", "Timeout", "Card"):
            counts.add_job(MAIL, job(error=error), NOW_MS)
        found = [(text, jobs) for text, jobs in counts.errors.most_common(3) if not text.startswith("other 1")]
        yield f"{number} errors: {found}"


def precedents() -> Iterator[str]:
    finding = Finding("failing", "warning", "mail", "9 of 9 fail", since_ms=NOW_MS - DAY_MS)
    queue = Queue("mail", "native", findings=(finding,))
    seen = Sighting(NOW_MS - 3 * DAY_MS, "mail", "native", "failing", "warning", "5 of 9 fail")
    change = Operation(seen.at_ms, "me@here", "requeue", "mail", "native")
    for by_ms in (-1, 0, 1, HOUR_MS - 1, HOUR_MS, HOUR_MS + 1):
        for began_ms in (0, seen.at_ms + by_ms):
            changes = [replace(change, at_ms=seen.at_ms + by_ms, began_ms=began_ms)]
            found = [*incident.find_precedents(MAIL, queue, NOW_MS, changes, [seen])]
            yield f"a change after {by_ms}, began {bool(began_ms)}: {len(found)}"
    for before_ms in (HOUR_MS - 1, HOUR_MS, HOUR_MS + 1):
        sighting = replace(seen, at_ms=NOW_MS - DAY_MS - before_ms)
        found = [*incident.find_precedents(MAIL, queue, NOW_MS, [replace(change, at_ms=sighting.at_ms)], [sighting])]
        yield f"seen {before_ms} before: {len(found)}"
    for number in (1, 4, 5, 6):
        sightings = [
            replace(seen, at_ms=seen.at_ms - at * DAY_MS + (MINUTE_MS if is_over else 0), is_over=is_over)
            for at in range(number)[::-1]
            for is_over in (False, True)
        ]
        changes = [replace(change, at_ms=each.at_ms) for each in sightings if not each.is_over]
        found = [*incident.find_precedents(MAIL, queue, NOW_MS, changes, sightings[: 2 * number - 1])]
        yield f"{number} sightings: {[each.ended_ms and each.ended_ms - NOW_MS for each in found]}"
    for by_ms in (-DAY_MS - 1, -DAY_MS, 0, 1):
        changes = [replace(change, at_ms=NOW_MS + by_ms)]
        past = incident.build_past_incident(queue, NOW_MS, [], changes, [replace(seen, at_ms=NOW_MS + by_ms)])
        yield f"a change at {by_ms}: {len(past.changes)}"


def samples() -> Iterator[str]:
    for looked, of in ((9, 10), (10, 10), (11, 10)):
        for is_random in (True, False):
            for selection in (Selection(("dead",)), Selection(("dead",), "err:x"), Selection((), ids=(b"a", b"b"))):
                side = Side(selection, ("dead",), 3, looked, of, is_random)
                yield f"{looked} of {of}, {is_random}: {comparison.format_side(side)}"
    for p_value in (1e-11, 1.1e-12, 1e-12, 9.9e-13, 0.0, 0.04):
        yield f"p {p_value}: {comparison.format_certainty(Difference((), 1, 1, 2, 2, p_value))}"
    for letters in (8, 9, 10, 11, 4_095, 4_096, 4_097):
        for controls in (b"\x01", b"\x1f", b" ", b"\n", b"\x1b", b"\x01" * 409, b"\x01" * 410, b"\x01" * 456):
            try:
                text = jobs._decode_body_text(controls + b"x" * letters)
            except ValueError as error:
                yield f"{len(controls)} of {controls[:1]!r} and {letters} letters: {error}"
            else:
                yield f"{len(controls)} of {controls[:1]!r} and {letters} letters: {len(text)}"
    for body_bytes in (0, 2, 3, 4):
        for body in (None, b"", b"abc"):
            progress = search._Progress()
            part = Part(MAIL, "dead", State.DEAD, 9, 9)
            progress.add_page(part, [job(body=body, body_bytes=body_bytes)] * 21, lambda each: True)
            matches = progress.matches[part]
            matched = f"{matches.looked} {matches.matched} {len(matches.jobs)}"
            yield f"{body!r} of {body_bytes}: {progress.cut_bodies} {matched}"
            path = attributes.list_group_values(job(body=body, body_bytes=body_bytes), ".a", NOW_MS, lambda _worker: "")
            yield f"{body!r} of {body_bytes}, path: {path}"
    for attempts in (0, 1, 2):
        for state in ("ready", "dead", "reserved", "done"):
            totals = kinds._KindTotals()
            for by_ms in (-1, 0, 1):
                totals.add_job(job(state=state, attempts=attempts, since_ms=NOW_MS + by_ms, reserved_ms=NOW_MS), NOW_MS)
            yield f"{state} of {attempts} attempts: {totals}"
    for left_ms in (0, 39_999, 40_000, 40_001, -NOW_MS - 1):
        for is_known in (True, False):
            feed = events.Feed(MAIL, now_ms=NOW_MS, until_ms=NOW_MS + left_ms, is_known=is_known)
            renewed = {str(ref): until_ms - NOW_MS for ref, until_ms in events.compute_renewals({MAIL: feed}).items()}
            yield f"recorded for {left_ms} more, {is_known}: {renewed}"
    for number in (19, 20, 21):
        system: Any = SimpleNamespace(known_fields={"worker"}, worker_name_pattern=None)
        known = hosts.Hosts(system, {f"w{at}": "one" for at in range(number)} | {"x": "two"})
        term, reason = known.build_filter("one", ["w1", "x"])
        yield f"{number} workers of a host: {len(term)} {reason}"


def complete_deaths() -> Iterator[str]:
    parts = tuple(Part(Ref("native", name), "dead", State.DEAD, 9, 3) for name in ("mail", "sms"))
    for read in (0, 2, 3, 4):
        for counted in ({}, {parts[0]: 2}, {parts[0]: 4}):
            survey = Survey(parts, NOW_MS, 2, [], counted=counted)
            pairs: Any = [(job(at), None) for at in range(read)]
            yield f"{read} of 3, counted {[*counted.values()]}: {errors._count_complete_deaths(survey, pairs)}"


def counted_places() -> Iterator[str]:
    """Yield how many jobs a queue has in a shared place of ten entries, after so many of them were scanned."""
    for scanned in (0, 9, 10, 11):
        for number in (1, 2, 3, 4):
            part = Part(MAIL, "dead", State.DEAD, 9, 3, of=10)
            survey = Survey((part,), NOW_MS, 1, [])
            page = Page("mail", "native", "dead", tuple(map(job, range(number))), 12, next=scanned)
            read = [*survey._count_pages(part, iter([page]))]
            yield f"{number} jobs in {scanned} of 10 entries: {survey.counted[part]} jobs, {len(read)} page"


def walks() -> Iterator[str]:
    """Yield which pages are read of places whose numbers are at the limits of a sample."""

    class Engine:
        """An engine whose places have so many jobs, and the requests for their pages."""

        def __init__(self, total: int, kind: str = "zset") -> None:
            self.total, self.read = total, list[str]()
            place = Place("dead", State.DEAD, "", kind)
            self.systems = {"native": SimpleNamespace(place=lambda _name: place, page_request=self.page_request)}

        def page_request(self, _queue: str, _place: str, offset: int, limit: int, _body_bytes: int) -> Page:
            return self.fetch_page(MAIL, "dead", offset, limit)

        def send_requests(self, requests: Sequence[Page]) -> list[Page]:
            return [*requests]

        def fetch_page(self, _ref: Ref, _place: str, offset: int, limit: int, _body_bytes: int = 0) -> Page:
            self.read.append(f"{limit} from {offset}")
            end = min(self.total, offset + limit)
            found = tuple(job(at) for at in range(offset, end))
            return Page(
                "mail", "native", "dead", found, self.total, offset=offset, next=end if end < self.total else None
            )

        def walk_pages(self, ref: Ref, place: str, limit: int, _body_bytes: int = 0, offset: int = 0) -> Iterator[Page]:
            while offset < self.total:
                yield self.fetch_page(ref, place, offset, limit)
                offset += limit

    for total in (0, 1, 499, 500, 501, 999, 1_000, 1_001, 1_500):
        for most in (200, 500, 700, 1_000):
            for is_newest in (False, True):
                engine: Any = Engine(total)
                part = Part(MAIL, "dead", State.DEAD, most, total)
                pages = [*sampling.yield_pages(engine, part, is_newest=is_newest)]
                yield f"{most} of {total}, newest {is_newest}: {[len(page.jobs) for page in pages]} {engine.read}"
    for of, passed in ((2_000, 499), (2_000, 500), (2_000, 501), (2_000, 1_500), (300, 400)):
        for is_newest in (False, True):
            engine = Engine(of)
            part = Part(MAIL, "dead", State.DEAD, 1_000, 100, of, passed)
            pages = [*sampling.yield_pages(engine, part, is_newest=is_newest)]
            yield f"{passed} of {of} passed, newest {is_newest}: {[len(page.jobs) for page in pages]} {engine.read}"
    for total in (200, 201, 400, 2_000):
        for kind in ("zset", "list", "set"):
            engine = Engine(total, kind)
            part = Part(MAIL, "dead", State.DEAD, 200, total)
            pages = [*sampling.yield_random_pages(engine, part)]
            read = f"{engine.read[:4]} {len(engine.read)}"
            yield f"{total} at random of a {kind}: {[len(page.jobs) for page in pages]} {read}"


def text() -> Iterator[str]:
    for part in (time_windows, ages, planned_changes, precedents, samples, complete_deaths, counted_places, walks):
        yield f"== {part.__name__}"
        yield from part()


def test_samples_match_the_stored_text() -> None:
    with utc_time_zone():
        lines = [*text()]
    assert_lines_match_file(lines, KEPT)
