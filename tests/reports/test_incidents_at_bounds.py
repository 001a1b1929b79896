"""Incident reports, their pages, error causes and workers where a number is at a bound: see `incidents_at_bounds.txt`.

`RQTUI_WRITE_SNAPSHOTS=1 pytest tests/reports/test_incidents_at_bounds.py` writes the text; review the difference as
code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kept_text import assert_lines_match_file, diff_lines, utc_time_zone
from memory_queues import NOW_MS, REFUSED, MemoryQueues, constant

from rqtui.engine import history as stats
from rqtui.engine.history import History
from rqtui.model import Count, Fact, Finding, Job, Page, Queue, Ref, State, Worker, WorkerList
from rqtui.operations.journal import Operation, Sighting
from rqtui.operations.watch import Sample
from rqtui.reports import errors, incident, postmortem, workers
from rqtui.reports.comparison import Comparison, Selection, Side
from rqtui.reports.course import FAILED, READY, Course, Point
from rqtui.reports.differences import Condition, Difference, Differences
from rqtui.reports.errors import Errors
from rqtui.reports.incident import DAY_MS, Effect, Incident, Precedent
from rqtui.reports.incident_page import build_page_lines
from rqtui.reports.sampling import Extent
from rqtui.reports.workers import WorkerEntry, WorkerHealth
from rqtui.system_base.system import Request
from rqtui.systems import registry
from rqtui.text.causes import Width

KEPT = Path(__file__).with_name("incidents_at_bounds.txt")
MAIL, NEWS = Ref("native", "mail"), Ref("native", "news")
MINUTE_MS = 60_000
FINDING = Finding("failing", "critical", "mail", "55 % of attempts fail", since_ms=NOW_MS - 30 * MINUTE_MS)
QUEUE = Queue(
    "mail", "native", (Count("ready", State.READY, 4), Count("done", State.DONE, 0), Count("dead", State.DEAD, 2)),
    NOW_MS, findings=(FINDING,),
)  # fmt: skip
CHANGE = Operation(NOW_MS - MINUTE_MS, "me@here", "requeue", "mail", "native", answers={"ready again": 4})
SEEN = Sighting(NOW_MS - 3 * DAY_MS, "mail", "native", "failing", "critical", "51 % of attempts fail")
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def job(id: object, state: str = "dead", **more: Any) -> Job:
    return Job(str(id).encode(), "mail", "native", state, State(state), b"", **more)


def build_errors(number: int, size: Extent, **more: Any) -> Errors:
    failed = [
        job(f"{at}-{n}", error=f"Error{LETTERS[at]}: no", **more) for at in range(number) for n in range(9 - at % 9)
    ]
    return errors.build_report(failed, Width.CAUSE, size)


def entry(name: str, health: WorkerHealth = WorkerHealth.IDLE, jobs: int = 0, **more: Any) -> WorkerEntry:
    worker = Worker(name, "mail", NOW_MS, 1_000, **more)
    return WorkerEntry(MAIL, name, health, worker, tuple(job(at, "reserved") for at in range(jobs)), is_whole=True)


def build_comparison(number: int, **more: Any) -> Comparison:
    sides = [Side(Selection((word,)), (word,), jobs, jobs, 10) for word, jobs in (("dead", 5), ("done", 10))]
    found = tuple(
        Difference((Condition(f".f{at}", "=", "x"),), 4, 1, 5, 10, 0.001, is_result=at == number - 1 > 0)
        for at in range(number)
    )
    return Comparison(
        MAIL,
        sides[0],
        sides[1],
        Differences(found=found, **{"a_total": 5, "b_total": 10, **more}),
        Extent(NOW_MS, 0, 0, 0, 0),
    )


POINTS = tuple(Point(NOW_MS - at * MINUTE_MS, MINUTE_MS, at) for at in (9, 5))
BASE = Incident(
    MAIL, NOW_MS, QUEUE,
    errors=build_errors(2, Extent(NOW_MS, 9, 9, 0, 0), since_ms=NOW_MS - 9, name="send"),
    workers=(entry("w1", host="one"), entry("w2", WorkerHealth.LATE, 2, facts=(Fact("version", "RQ 2.6"),))),
    changes=(CHANGE, replace(CHANGE, why="it works again")),
    precedents=(Precedent(SEEN, (CHANGE,), SEEN.at_ms + MINUTE_MS, Effect(FAILED, 5.0, None)),),
    course=Course(READY, NOW_MS - 3_600_000, NOW_MS, POINTS),
)  # fmt: skip


def variations() -> Iterator[tuple[str, Incident]]:
    yield "no finding", replace(BASE, queue=QUEUE._replace(findings=()))
    for since_ms in (None, NOW_MS, NOW_MS + 5_000):
        yield f"since {since_ms}", replace(BASE, queue=QUEUE._replace(findings=(replace(FINDING, since_ms=since_ms),)))
    yield "recorded begin", replace(BASE, recorded_begin_ms=NOW_MS - DAY_MS)
    yield "no course", replace(BASE, course=None)
    yield "no error", replace(BASE, errors=None)
    for looked in (8, 9, 10):
        yield f"{looked} of 9 read", replace(BASE, errors=build_errors(1, Extent(NOW_MS, looked, 9, 0, 0)))
    for number in (7, 8, 9, 10):
        yield f"{number} causes", replace(BASE, errors=build_errors(number, Extent(NOW_MS, 9, 9, 0, 0)))
        yield (
            f"{number} changes",
            replace(BASE, changes=tuple(replace(CHANGE, why=f"reason {at}") for at in range(number))),
        )
        recorded = tuple((f"cause {at}", at) for at in range(number))
        yield f"{number} recorded causes", replace(BASE, recorded_causes=recorded)
        yield f"{number} differences", replace(BASE, comparison=build_comparison(number))
    yield "no change", replace(BASE, changes=())
    yield "no recorded cause", replace(BASE, recorded_causes=())
    for count in (None, 0, 1):
        queue = QUEUE._replace(workers=count)
        yield f"{count} recorded workers", replace(BASE, recorded_causes=(("E", 1),), queue=queue)
    for number in (4, 5, 6):
        silent = tuple(
            entry(f"w{at}", WorkerHealth.GONE, 1, host=f"h{at}", facts=(Fact("version", f"v{at}"),))
            for at in range(number)
        )
        yield f"{number} silent workers", replace(BASE, workers=silent)
        kinds = [job(at, error="E", name=f"k{at}") for at in range(number)]
        yield (
            f"{number} kinds",
            replace(BASE, errors=errors.build_report(kinds, Width.CAUSE, Extent(NOW_MS, 0, 0, 0, 0))),
        )
    yield "no workers", replace(BASE, workers=())
    yield "unknown workers", replace(BASE, are_workers_known=False)
    yield "workers without a version", replace(BASE, workers=(entry("w1"),))
    yield "no comparison", replace(BASE, comparison=None, not_compared="no dead job is stored")
    yield "no difference", replace(BASE, comparison=build_comparison(0, a_total=5, b_total=10))
    yield "no difference of few", replace(BASE, comparison=build_comparison(0, a_total=5, b_total=10, detectable=0.256))
    yield "no precedent", replace(BASE, precedents=())
    for ended_ms, effect in ((None, None), (5, Effect(READY, None, 0.5))):
        yield f"a precedent with {effect}", replace(BASE, precedents=(Precedent(SEEN, (), ended_ms, effect),))


def pages() -> Iterator[str]:
    usual = [*build_page_lines(BASE, "mail", ["rqtui act requeue mail"], ["failures"], (60, 3))]
    yield from usual
    for title, report in variations():
        yield f"== {title}"
        yield from diff_lines(
            usual, [*build_page_lines(report, "mail", ["rqtui act requeue mail"], ["failures"], (60, 3))]
        )
    yield "== nothing unknown and no command"
    yield from diff_lines(usual, [*build_page_lines(BASE, "mail", [])])


def run(steps: Iterator[Incident | None]) -> tuple[str, Incident]:
    signs, last = "", None
    for step in steps:
        signs += "." if step is None else "R" if step.is_complete else "r"
        last = step or last
    assert last is not None
    return signs, last


def reports() -> Iterator[str]:
    dead = [job(at, error="KeyError: 'x'", since_ms=NOW_MS - 9) for at in range(3)]
    changes = [replace(CHANGE, at_ms=NOW_MS + by_ms) for by_ms in (-DAY_MS - 1, -DAY_MS, 0)]
    for title, places in {
        "dead and done": {"dead": dead, "done": [job(9, "done")]},
        "dead and ready": {"dead": dead, "ready": [job(9, "ready")]},
        "dead, done and ready": {"dead": dead, "ready": [job(9, "ready")], "done": [job(8, "done")]},
        "dead alone": {"dead": dead},
        "ready alone": {"ready": [job(9, "ready")]},
        "nothing": {},
    }.items():
        for found in ((), [Worker("w1", "mail", NOW_MS - 9_000, 1_000)], REFUSED):
            queues = MemoryQueues({MAIL: places}, {("workers", "mail"): found})
            counts = tuple(Count(place, State(place), len(jobs)) for place, jobs in places.items())
            queue = QUEUE._replace(counts=counts)
            pattern, report = run(incident.yield_incident_reports(queues.engine, MAIL, queue, NOW_MS, changes, []))
            compared = report.comparison and (str(report.comparison.a.selection), str(report.comparison.b.selection))
            course = report.course and (report.course.begin_ms - NOW_MS, len(report.course.points), report.course.marks)
            yield (
                f"{title}, {len(found) if isinstance(found, list | tuple) else 'refused'} workers: {pattern}, "
                f"{report.errors and report.errors.count} errors, {[each.health.value for each in report.workers]}, "
                f"{compared} {report.not_compared!r}, {len(report.changes)} changes, {course}, {report.problems}"
            )
    for kind, since_ms in (
        ("failing", None),
        ("failing", NOW_MS - 5 * 3_600_000),
        ("dead-many", None),
        ("paused", None),
    ):
        finding = Finding(kind, "warning", "mail", "text", since_ms=since_ms)
        for findings in ((finding,), ()):
            queue = QUEUE._replace(findings=findings, counts=())
            queues = MemoryQueues({MAIL: {}})
            _pattern, report = run(incident.yield_incident_reports(queues.engine, MAIL, queue, NOW_MS, changes, []))
            course = report.course and (
                report.course.series.name,
                report.course.begin_ms - NOW_MS,
                len(report.course.points),
            )
            yield f"{kind} since {since_ms}, {len(findings)} findings: {course}"


ASKED: list[int] = []


def answer_history(system: Any, queue: str, minutes: int = 60) -> Request[Any]:
    """Return the counters of a queue in which one job failed each minute, and note for how many minutes was asked."""
    ASKED.append(minutes)
    if queue == "refused":
        return constant(REFUSED)
    minute_counters = {
        NOW_MS - NOW_MS % MINUTE_MS - at * MINUTE_MS: {"enqueued": 9 - at, "rejected": 9 - at, "dead": 0}
        for at in range(9, -1, -1)
    }
    return constant(History(Ref("native", queue), {"enqueued": 12, "rejected": 9, "dead": 1}, minute_counters))


def plots() -> Iterator[str]:
    for number in (0, 1, 2, 3):
        refs = [Ref("native", f"q{at}") for at in range(number)]
        queues = MemoryQueues({ref: {} for ref in [*refs, MAIL]})
        ASKED.clear()
        for plot in postmortem.plot_last_hour(queues.engine, refs, NOW_MS):
            curves = [(curve.name, len(curve.points), curve.points[-2:]) for curve in plot.curves]
            yield f"{number} queues, {plot.ref}: {curves} {ASKED}"
        samples = {
            ref: [Sample(NOW_MS + n, {state: n for state in State}) for n in range(at)] for at, ref in enumerate(refs)
        }
        found = [
            (str(plot.ref), [(curve.name, curve.points) for curve in plot.curves])
            for plot in postmortem.plot_samples(samples)
        ]
        yield f"{number} queues with samples: {found}"
    queues = MemoryQueues({Ref("native", "refused"): {}})
    yield f"a refused request: {postmortem.plot_last_hour(queues.engine, queues.engine.refs, NOW_MS)}"
    sampled = {
        Ref("native", f"q{at}"): [Sample(NOW_MS + n, {state: 1 for state in State}) for n in range(2)]
        for at in range(4)
    }
    yield f"4 queues with samples: {[str(plot.ref) for plot in postmortem.plot_samples(sampled)]}"


def causes() -> Iterator[str]:
    for number in (0, 1, 7, 8, 9, 10):
        for looked in (8, 9, 10):
            report = postmortem.summarise_causes(
                build_errors(number, Extent(NOW_MS, looked, 9, 0, 0), since_ms=NOW_MS - 5)
            )
            lines = postmortem.build_markdown([], causes=report).splitlines()
            yield f"{number} causes, {looked} of 9: {len(lines)} lines, {report.failed_jobs} jobs, "
            yield f"  {lines[2:3]} {lines[-1]!r}"
    for error in ("KeyError: " + "x" * 200, "", "E" * 200):
        report = postmortem.summarise_causes(
            errors.build_report([job("i" * 70, error=error)], Width.CAUSE, Extent(NOW_MS, 1, 1, 0, 0))
        )
        yield from postmortem.build_markdown([], causes=report).splitlines()[-3:]
    few, many = (postmortem.summarise_causes(build_errors(number, Extent(NOW_MS, 0, 0, 0, 0))) for number in (1, 2))
    for first, second in ((None, None), (few, None), (None, few), (few, many), (many, few), (few, few)):
        chosen = postmortem.choose_larger_causes(first, second)
        yield f"larger: {chosen and len(chosen.groups)}"
    for queues in (MemoryQueues({MAIL: {"dead": [job(1, error="E")]}}), MemoryQueues({MAIL: {}})):
        for refs in ([], [MAIL]):
            loaded = postmortem.load_error_causes(queues.engine, refs)
            yield f"loaded of {len(refs)}: {loaded and (loaded.jobs_read, loaded.jobs, len(loaded.groups))}"
    document = postmortem.build_document([CHANGE], [SEEN], few)
    yield f"document: {document['findings']} {document['causes']} {[*document['operations'][0]]}"
    for before, after in (({}, {}), ({"a": {"dead": 3}}, {"a": {"dead": 3}}), ({"a": {"dead": 3}}, {"a": {"ready": 3}}),
                          ({"a": {"dead": 0, "ready": 1}, "b": {}}, {"a": {"dead": 1}, "b": {"dead": 2}})):  # fmt: skip
        changes = postmortem.format_count_changes(before, after)
        yield f"counts {before} {after}: {postmortem.format_counts(before)} | {changes}"
    for text in (
        "1. a",
        "12) b",
        "-c",
        "+d",
        "= e",
        "@me",
        "a@b.c",
        "http://x",
        "https://y",
        "ftp://z",
        "www.v",
        "WWW.w",
        "1 f",
    ):
        yield f"{text}: {postmortem._escape_markdown(text)}"


def worker_lists() -> Iterator[str]:
    native, rq = registry.create_system("native"), registry.create_system("rq")
    celery = registry.create_system("celery")
    systems = {"native": native, "rq": rq, "celery": celery}
    for system in (native, rq, celery, registry.create_system("dispatcher")):
        for count in (1, 2, 99, 100, 101, 500):
            requests = workers.build_worker_requests(system, "mail", count)
            limits = [call.argv for request in requests[1:] for call in request.calls]
            yield f"{system.name} of {count}: {len(requests)} {limits}"

    def describe(entries: Iterable[WorkerEntry]) -> str:
        return " ".join(
            f"{each.ref}/{each.name}={each.health.value}[{b','.join(held.id for held in each.jobs).decode()}]"
            f"{'' if each.is_whole else '…'}{'?' * each.has_unknown_jobs}@{each.since_ms}/{','.join(each.queues)}"
            for each in entries
        )

    def held(id: str, worker: str, **more: Any) -> Job:
        return job(id, "reserved", worker=worker, **more)

    jobs = (
        held("a", "w1", reserved_ms=NOW_MS - 5), held("b", "w1", reserved_ms=NOW_MS - 9), held("c", "", reserved_ms=1),
        held("d", "w2", deadline_ms=NOW_MS - 1), held("e", "w3", deadline_ms=NOW_MS + 1), held("f", "w3"),
    )  # fmt: skip
    known = WorkerList(
        (Worker("w1", "mail", NOW_MS, 1_000, job=b"a"), Worker("w4", "mail", NOW_MS - 1_001, 1_000)), "more"
    )
    for total in (5, 6, 7):
        for error in ("", "the page is broken"):
            page = Page("mail", "native", "reserved", jobs, total, error=error)
            entries, problems = workers.parse_workers([MAIL], systems, {"workers": [known], "held": [page]}, NOW_MS)
            yield f"6 of {total}, {error!r}: {describe(entries)} {problems}"
    for roster, page in ((REFUSED, REFUSED), (REFUSED, Page("mail", "native", "reserved", jobs, 6)), ((), REFUSED)):
        entries, problems = workers.parse_workers([MAIL], systems, {"workers": [roster], "held": [page]}, NOW_MS)
        yield f"refused: {describe(entries)} {problems}"
    for heartbeats in ((NOW_MS, NOW_MS - 5_000), (NOW_MS - 5_000, NOW_MS)):
        rosters = [
            (Worker("w", ref.queue, at_ms, 1_000, queues=("mail", "news")),)
            for ref, at_ms in zip((MAIL, NEWS), heartbeats, strict=True)
        ]
        pages = [
            Page(
                ref.queue,
                "native",
                "reserved",
                tuple(replace(each, queue=ref.queue, worker="w") for each in jobs[:2][:number]),
                2,
            )
            for ref, number in ((MAIL, 1), (NEWS, 2))
        ]
        entries, _problems = workers.parse_workers([MAIL, NEWS], systems, {"workers": rosters, "held": pages}, NOW_MS)
        yield f"in two queues: {describe(entries)}"
    for state in ("busy", "idle"):
        for named in (b"", b"x"):
            for system in ("native", "celery"):
                worker = Worker("w", "mail", NOW_MS, 1_000, state=state, job=named)
                ref = Ref(system, "mail")
                page = Page("mail", system, "reserved", (), 0)
                entries, _problems = workers.parse_workers(
                    [ref], systems, {"workers": [(worker,)], "held": [page]}, NOW_MS
                )
                yield f"{state} {named!r} of {system}: {describe(entries)}"
    for first_ms in (None, 1_000):
        for ago_ms in (999, 1_000, 1_001):
            found = workers.evaluate_health(None, [held("a", "w", reserved_ms=NOW_MS - ago_ms)], NOW_MS, first_ms)
            yield f"held for {ago_ms} without a heartbeat, first after {first_ms}: {found.value}"
    for names in ((), (("a", "b", "c"),), (("a", "b", "c"), ("c", "b")), (("a",), ("b",))):
        entries = [entry("w", facts=tuple(Fact(name, name * 2) for name in each)) for each in names]
        yield f"fact columns of {names}: {workers.choose_fact_names(entries)}"
    yield f"a fact: {workers.format_worker_fact(entry('w', facts=(Fact('a', 'b'),)), 'a')!r}"
    every = [entry(f"w{at}", health, at % 2) for at, health in enumerate(WorkerHealth)]
    yield f"order: {[each.health.value for each in workers.merge_worker_entries(every, NOW_MS)]}"

    for number in (0, 1, 100, 101, 200):
        taken: list[int] = []
        refs = [Ref("native", f"q{at:03}") for at in range(number)]

        def take_snapshot(focus: Any, taken: list[int] = taken) -> Any:
            taken.append(len(focus.queues))
            pages = [Page(ref.queue, "native", "reserved", (), 0) for ref in focus.queues]
            known = [(Worker("w", ref.queue, NOW_MS, 1_000),) for ref in focus.queues]
            return SimpleNamespace(taken_ms=NOW_MS + len(taken), results={"workers": known, "held": pages})

        engine: Any = SimpleNamespace(systems=systems, take_snapshot=take_snapshot)
        entries, now_ms, _problems = workers.load_workers(engine, refs)
        yield f"loaded of {number}: {len(entries)} {now_ms - NOW_MS} {taken}"


def text() -> Iterator[str]:
    for part in (pages, reports, plots, causes, worker_lists):
        yield f"== {part.__name__}"
        yield from part()


def test_incidents_match_the_stored_text(monkeypatch: pytest.MonkeyPatch) -> None:
    answered = SimpleNamespace(**{**vars(stats), "build_history_request": answer_history})
    monkeypatch.setattr(incident, "stats", answered)
    monkeypatch.setattr(stats, "build_history_request", answer_history)
    with utc_time_zone():
        lines = [*text()]
    assert_lines_match_file(lines, KEPT)
