"""What reports read of queues step by step, and what they make of it: `report_steps.txt` has every request and result.

The queues are in memory. `RQTUI_WRITE_SNAPSHOTS=1 pytest -m "" tests/reports/test_report_steps.py` writes the text;
review the difference as code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kept_text import assert_lines_match_file, utc_time_zone
from memory_queues import NOW_MS, REFUSED, MemoryQueues

from rqtui.engine.filters import parse_filter
from rqtui.errors import RqtuiError, UsageError
from rqtui.model import Attempt, Finding, Job, KindStatistics, Queue, Ref, State, Worker
from rqtui.reports import comparison, errors, groups, incident, kinds, plans, sampling, search
from rqtui.reports.comparison import Comparison, Selection
from rqtui.reports.sampling import Extent
from rqtui.systems import registry
from rqtui.text.causes import Width

KEPT = Path(__file__).with_name("report_steps.txt")
MAIL, NEWS, RQ = Ref("native", "mail"), Ref("native", "news"), Ref("rq", "jobs")
MINUTE_MS = 60_000


def job(id: object, state: str = "dead", place: str = "", ref: Ref = MAIL, **more: Any) -> Job:
    return Job(str(id).encode(), ref.queue, ref.system, place or state, State(state), b"", **more)


def many(number: int, state: str = "dead", **more: Any) -> list[Job]:
    return [job(at, state, **more) for at in range(number)]


def shorten_reads(reads: Iterable[str]) -> str:
    """Return the first and last reads and their number."""
    lines = [f"{line} ×{number}" if number > 1 else line for line, number in count_runs(reads)]
    return " | ".join(lines if len(lines) <= 6 else [*lines[:3], f"… {len(lines)} in all", *lines[-2:]])


def count_runs(lines: Iterable[str]) -> Iterator[tuple[str, int]]:
    yield from ((line, len([*same])) for line, same in groupby(lines))


def describe_steps(steps: Iterable[object]) -> str:
    """Return the sequence of reports (R) and steps without one (.)."""
    return "".join(f"{sign}×{number} " if number > 3 else sign * number for sign, number in count_runs(steps)).strip()


def describe_size(size: Extent) -> str:
    return f"{size.looked} of {size.of}, {size.queues} of {size.of_queues} queues {[*size.problems]}"


def run(steps: Iterator[Any]) -> tuple[str, Any]:
    """Return the pattern of the steps of a report, and its last report."""
    signs, last = [], None
    for step in steps:
        signs.append("." if step is None else "R")
        last = step or last
    return describe_steps(signs), last


def error_reports() -> Iterator[str]:
    failures = [
        job("a", error="KeyError: 'x'", since_ms=NOW_MS - 3, name="send", attempts=1),
        job("b", error="KeyError: 'x'", since_ms=NOW_MS - 1, name="mail"),
        job("c", error="KeyError: 'x'", since_ms=None),
        job("d", error="", problem="the record cannot be read"),
    ]
    waiting = [
        job("e", "scheduled", error="TimeoutError: 5 s", attempts=1),
        job("f", "scheduled", error="TimeoutError: 6 s", attempts=2),
        job("g", "scheduled", error="TimeoutError: 7 s"),
        job("h", "scheduled", attempts=1),
        job("i", "scheduled", error="KeyError: 'x'", attempts=3),
    ]
    tried = (Attempt(5, 9, "w", "E"), Attempt(11, 0, "w", "F"), Attempt(20, 30, "w", "G"))
    for title, results in {
        "dates": {("job", "e"): replace(waiting[0], history=tried)},
        "no dates": {("job", "e"): replace(waiting[0], history=(Attempt(0, 0, "w", "E"),))},
        "no history": {},
        "no job": {("job", "e"): REFUSED},
    }.items():
        queues = MemoryQueues({MAIL: {"dead": failures, "scheduled": waiting}, NEWS: {}}, results)
        pattern, report = run(errors.yield_error_reports(queues.engine, [MAIL, NEWS]))
        yield f"{title}: {pattern}; {shorten_reads(queues.reads)}; {describe_size(report.size)}"
        for group in report.groups:
            ids = b" ".join(each.id for each in group.jobs).decode()
            yield (
                f"  {group.id!r} {group.message!r} {group.short_message!r} {group.cause!r} {group.frame!r} {ids}: "
                f"{group.messages} messages, {group.dead}+{group.retrying}, {group.first_ms} to {group.last_ms}, "
                f"{group.kinds} {group.refs}"
            )
        yield f"  {report.count} jobs, complete {report.complete}, stored {queues.causes}"
        yield f"  {errors.format_summary(report.groups)} | {errors.format_summary(report.groups, 1)}"
        yield f"  by class {[group.cause for group in report.regroup(Width.CLASS).groups]}"
        members = [*errors.yield_group_members(queues.engine, [MAIL, NEWS], report.groups[0].key, report.grouping)]
        yield f"  members {[(len(each.jobs), each.looked, each.of, each.left) for each in members]}"
    for number in (4_999, 5_000, 5_001, 10_500):
        queues = MemoryQueues({MAIL: {"dead": many(number, error="E")}})
        pattern, report = run(errors.yield_error_reports(queues.engine, [MAIL]))
        yield f"{number} dead: {pattern}; {shorten_reads(queues.reads)}; {describe_size(report.size)}"
        yield f"  complete {report.complete}, stored {queues.causes}"
    text = "Traceback (most recent call last):\n  File 'a.py', line 3\nKeyError: no"
    queues = MemoryQueues({Ref("native", f"q{at}"): {"dead": many(3_500, error=text)} for at in range(4)})
    pattern, report = run(errors.yield_error_reports(queues.engine, queues.engine.refs))
    lengths = count_runs(str(len(each.error)) for each, _error in report.pairs)
    yield f"full errors of {[*lengths]}: {pattern}"
    undated = [job(at, "scheduled", error=f"Error{'abcdefghijklmnopqrstuvwxyz'[at % 26] * (1 + at // 26)}", attempts=1)
               for at in range(52)]  # fmt: skip
    queues = MemoryQueues({MAIL: {"scheduled": undated}})
    run(errors.yield_error_reports(queues.engine, [MAIL]))
    yield f"{len(undated)} undated groups: {len([line for line in queues.reads if line.startswith('job')])} read"
    for history in ((), tried):
        queues = MemoryQueues({MAIL: {"dead": [job("a", error="short", history=history)]}})
        yield f"the full error of {len(history)}: {errors.load_full_error(queues.engine, job('a', error='x')).error}"
        yield f"the full error of a deleted job: {errors.load_full_error(queues.engine, job('z', error='x')).error}"
    for most in (1, 99_999, 100_000, 100_001):
        queues = MemoryQueues({MAIL: {"dead": [job("a", error="E")] * most}})
        members_steps = errors.yield_group_members(queues.engine, [MAIL], ("E",), errors.Grouping(), (State.DEAD,))
        first = next(members_steps)
        yield f"a search in {most}: {first.looked} of {first.of}, {first.left} left, {queues.reads[0:2]}"


def first_reads() -> Iterator[str]:
    """Yield what the first read of a place with many jobs shows of the limits of each report."""
    reports: dict[str, Any] = {
        "errors": errors.yield_error_reports,
        "kinds": kinds.yield_kind_reports,
        "search": lambda engine, refs: search.yield_search_results(engine, refs, lambda _job: True),
        "members": lambda engine, refs: errors.yield_group_members(engine, refs, ("E",), errors.Grouping()),
    }
    for name, start in reports.items():
        for number in (1, 2, 6, 12, 21, 49, 50, 51, 199, 200, 201):
            refs = [Ref("native", f"q{at:03}") for at in range(number)]
            shared = [job("a")] * 200_000
            queues = MemoryQueues({ref: {"dead": shared} for ref in refs})
            steps = 0
            for _step in start(queues.engine, refs):
                steps += 1
                if queues.reads:
                    break
            yield f"{name} of {number} queues, after {steps} steps: {queues.reads[:2]}"


def kind_reports() -> Iterator[str]:
    jobs = {
        "ready": [job(at, "ready", name="send", since_ms=NOW_MS - at * 10) for at in (1, 2, 6)],
        "reserved": [job("r", "reserved", name="send", reserved_ms=NOW_MS - 5)],
        "dead": [job("d", name="send", error="KeyError: 'x'", attempts=2, ran_ms=7)],
        "done": [job("o", "done", name="mail", since_ms=9, reserved_ms=4, waited_ms=3)],
    }
    figures = [
        KindStatistics("send", 10, 2, 5, 60_000, "mail"), KindStatistics("send", 99, 9),
        KindStatistics("other", 1, 1, None, 0), KindStatistics("rare", 4, 0, 8, 3_600_000, "mail"),
    ]  # fmt: skip
    for title, results in {
        "no statistics": {},
        "statistics": {("kinds", "mail"): figures},
        "of all queues": {("kinds", "mail"): figures[1:3], ("kinds", "news"): figures[:1]},
        "refused": {("kinds", "mail"): REFUSED, ("kinds", "news"): REFUSED},
    }.items():
        for refs in ([MAIL], [MAIL, NEWS]):
            queues = MemoryQueues({MAIL: jobs, NEWS: {"ready": jobs["ready"][:1]}}, results)
            pattern, report = run(kinds.yield_kind_reports(queues.engine, refs))
            yield f"{title}, {len(refs)} queues: {pattern}; {describe_size(report.size)}; {report.spans_ms}"
            for kind in report.kinds:
                counts = {state.value: number for state, number in kind.counts.items()}
                yield (
                    f"  {kind.ref} {kind.name}: {kind.count} {counts} {kind.failed} failed, wait {kind.wait_ms}, run "
                    f"{kind.run_ms}, oldest {kind.oldest_ready_ms}, {kind.errors} "
                    f"{kind.figures and tuple(kind.figures)}"
                )
    failed = [job(at, name="n", error=f"Error{'abcdefghijklmnopqrstuvwxyz'[at]}") for at in range(22)]
    queues = MemoryQueues({MAIL: {"dead": failed}})
    yield f"errors of a kind: {len(run(kinds.yield_kind_reports(queues.engine, [MAIL]))[1].kinds[0].errors)}"
    yield f"systems without kinds: {run(kinds.yield_kind_reports(MemoryQueues({MAIL: {}}).engine, []))[1]}"


def search_results() -> Iterator[str]:
    jobs = {MAIL: {"dead": many(30), "ready": many(2, "ready")}, NEWS: {"ready": many(30, "ready")}}
    queues = MemoryQueues(jobs)
    pattern, found = run(search.yield_search_results(queues.engine, [MAIL, NEWS], parse_filter("")))
    yield f"{pattern}; {shorten_reads(queues.reads)}; {describe_size(found.size)}; {found.matched}"
    for place in found.places:
        yield f"{place.ref} {place.place}: {place.matched} of {place.looked} of {place.count}, {len(place.jobs)} listed"


def group_reports() -> Iterator[str]:
    def describe(report: groups.Groups) -> Iterator[str]:
        yield (
            f"  {report.by} of {report.places}: {describe_size(report.size)}, {report.matched} matched, random "
            f"{report.is_random}, hosts {report.has_hosts}, over {report.done_ms} {report.rate_problem!r} "
            f"{report.verbs}"
        )
        for group in report.groups:
            command = report.build_dry_run_command(group, "mail")
            yield (
                f"    {group.value!r} {group.jobs} {dict(group.by_place)} oldest {group.oldest_ms}, about "
                f"{report.estimate_jobs(group)}, {group.filter_text!r} {group.problem!r} {group.is_unknown} "
                f"{group.done_per_s} {command!r}"
            )

    ready = [
        job("a", "ready", name="send", since_ms=NOW_MS - 5, worker="w1", body=b'{"t":"x"}', body_bytes=9),
        job("b", "ready", name="send", since_ms=NOW_MS - 9, worker="here:12:abcde", body=b'{"t":"y"}', body_bytes=9),
        job("c", "ready", name="mail", enqueued_ms=NOW_MS - MINUTE_MS, body=b"{", body_bytes=9_999),
        job("d", "ready", body=b"{}", body_bytes=2),
    ]
    workers = (Worker("w1", "mail", NOW_MS, 1_000, host="one"), Worker("w2", "mail", NOW_MS, 1_000))
    for ended_ms in ((5_000,), (5_000, 999), (5_000, 1_000), (1_001, 1_001), (999,), (1_000,), (), (None,), (5, None)):
        done = [
            job(at, "done", name="send", ended_ms=None if ago is None else NOW_MS - ago, body=b'{"t":"x"}',
                body_bytes=9 + at)
            for at, ago in enumerate(ended_ms)
        ]  # fmt: skip
        queues = MemoryQueues({MAIL: {"ready": ready, "done": done}}, {("workers", "mail"): workers})
        for by in ("kind", ".t"):
            pattern, report = run(groups.yield_group_reports(queues.engine, MAIL, "ready", by))
            yield f"ended before {ended_ms}, {by}: {pattern}"
            yield from describe(report)
    queues = MemoryQueues({MAIL: {"ready": ready, "done": many(3, "done", ended_ms=5)}}, {("workers", "mail"): workers})
    for by, expression in (
        ("worker", ""),
        ("host", ""),
        ("age", ""),
        ("error", ""),
        ("kind", "job:send"),
        ("kind", ".t:x"),
    ):
        queues.reads.clear()
        pattern, report = run(groups.yield_group_reports(queues.engine, MAIL, "ready", by, expression))
        yield f"{by} {expression!r}: {pattern}; {shorten_reads(queues.reads)}"
        yield from describe(report)
    refused = MemoryQueues({MAIL: {"ready": ready}}, {("workers", "mail"): REFUSED})
    yield from describe(run(groups.yield_group_reports(refused.engine, MAIL, "ready", "host"))[1])
    figures = [
        KindStatistics("send", 10, 2, 5, 60_000, "mail"), KindStatistics("x", 9, 0, 5, 50, "news"),
        KindStatistics("mail", 10, 2, 5, 0, "mail"),
    ]  # fmt: skip
    for found in (figures, figures[1:], REFUSED):
        queues = MemoryQueues({MAIL: {"ready": ready, "done": many(1, "done", ended_ms=NOW_MS - 9_000)}},
                              {("kinds", "mail"): found})  # fmt: skip
        yield from describe(run(groups.yield_group_reports(queues.engine, MAIL, "ready", "kind"))[1])
    for number in (4_999, 5_000, 5_001, 7_500):
        queues = MemoryQueues(
            {MAIL: {"ready": many(number, "ready", name="n"), "done": many(number, "done", ended_ms=5)}}
        )
        pattern, report = run(groups.yield_group_reports(queues.engine, MAIL, "ready", "kind"))
        trips = len(queues.reads)
        yield f"{number}: {pattern}; {trips} reads, {[*queues.reads[:1], *queues.reads[-3:]]}"
        yield from describe(report)
    for states in ("dead", "done", "scheduled", "reserved"):
        queues = MemoryQueues({MAIL: {states: many(2, states)}})
        yield from describe(run(groups.yield_group_reports(queues.engine, MAIL, states, "kind"))[1])


def comparisons() -> Iterator[str]:
    def describe(pattern: str, found: Comparison, queues: MemoryQueues) -> str:
        sides = [(side.places, side.jobs, side.looked, side.of, side.is_random) for side in (found.a, found.b)]
        names = [comparison.format_conditions(each.conditions) for each in found.differences.found]
        return (
            f"{pattern}; {len(queues.reads)} reads, {shorten_reads(queues.reads)}; {sides}; {found.left_out}; "
            f"{names[:3]}; "
            f"{comparison.explain_no_difference(found)}"
        )

    states = ("scheduled", "ready", "reserved", "done", "dead")
    for number in (3, 1_999, 2_000, 2_001):
        queues = MemoryQueues({MAIL: {state: many(number, state) for state in states}})
        for a, b in ((("dead",), ("done",)), (("dead", "done"), ("ready", "scheduled", "reserved"))):
            pattern, found = run(comparison.yield_comparisons(queues.engine, MAIL, Selection(a), Selection(b)))
            yield f"{number} in {a} and {b}: {describe(pattern, found, queues)}"
            queues.reads.clear()
    queues = MemoryQueues({MAIL: {"dead": many(3, name="x"), "done": many(4, "done")}})
    for number in (1, 49, 50, 51, 499, 500, 501, 551, 0):
        queues.reads.clear()
        a = Selection(("dead",), ids=tuple(b"%d" % at for at in range(number)), label="marked jobs")
        pattern, found = run(comparison.yield_comparisons(queues.engine, MAIL, a, Selection(("dead", "done"))))
        yield f"{number} named: {describe(pattern, found, queues)}"
    for a, b in (
        (Selection(("dead",), "job:x"), Selection(("dead", "done"))),
        (Selection(("dead",), accepts=lambda each: each.id == b"1", label="one", attributes=frozenset({"kind"})),
         Selection(("dead",))),
        (Selection(("dead",)), Selection(("dead",))),
    ):  # fmt: skip
        try:
            pattern, found = run(comparison.yield_comparisons(queues.engine, MAIL, a, b))
            yield f"{a} and {b}: {describe(pattern, found, queues)}"
            queues.reads.clear()
        except UsageError as error:
            yield f"{a} and {b}: {error}"


def job_plans() -> Iterator[str]:
    def describe(plan: plans.Plan) -> str:
        return (
            f"{plan.total} {plan.looked} {plan.exact} {[(str(ref), number) for ref, number in plan.by_queue]} "
            f"{plan.by_place} {plan.by_age} {len(plan.samples)} samples, {plan.seconds and round(plan.seconds, 3)} s"
        )

    for number in (0, 1, 499, 500, 501, 4_999, 5_000, 5_001, 10_001):
        queues = MemoryQueues({MAIL: {"dead": many(number)}})
        jobs = queues.jobs[MAIL]["dead"]
        for title, found in {
            "jobs": plans.yield_job_plans(queues.engine, [(MAIL, jobs)]),
            "chunks": [plans.build_chunk_plan(queues.engine, MAIL, [jobs])],
            "a place": plans.yield_place_plans(queues.engine, MAIL, "dead"),
            "200 of a place": plans.yield_place_plans(queues.engine, MAIL, "dead", 200),
        }.items():
            plans_found = [*found]
            numbers = f"{len(plans_found)} plans, {len(queues.reads)} reads"
            yield f"{title} of {number}, {numbers}: {describe(plans_found[-1])}"
            queues.reads.clear()


def shared_place_plans() -> Iterator[str]:
    """Yield the plans of a place that holds the jobs of several queues, whose pages have few of this queue."""

    def page(jobs: int, scanned: int, is_last: bool = False) -> Any:
        return SimpleNamespace(
            jobs=many(jobs), scanned_entries=scanned, job_count=jobs, next=None if is_last else scanned
        )

    stories = {
        "found at the end": [page(0, 500), page(2, 500), page(1, 500, is_last=True)],
        "more than estimated": [page(3, 500), page(2, 500), page(0, 1, is_last=True)],
        "stopped before": [page(1, 99_999), page(1, 0), page(1, 1), page(1, 500)],
        "nothing": [page(0, 500, is_last=True)],
    }
    for title, pages in stories.items():
        reads = list[Any]()
        engine: Any = SimpleNamespace(
            systems={"native": SimpleNamespace(is_shared=lambda _place: True, queue_request=lambda _queue: None)},
            send_request=lambda _request: SimpleNamespace(counted_ms=NOW_MS),
            fetch_page=lambda *args, reads=reads: reads.append(args[1:]) or SimpleNamespace(job_count=4),
            walk_pages=lambda *args, reads=reads, pages=pages: reads.append(args[1:]) or iter(pages),
        )
        found = [(plan.total, plan.looked) for plan in plans.yield_place_plans(engine, MAIL, "dead")]
        yield f"a shared place, {title}: {found} {reads}"


def broken_places() -> Iterator[str]:
    broken: Any = REFUSED
    for start in (
        lambda engine: errors.yield_error_reports(engine, [MAIL]),
        lambda engine: kinds.yield_kind_reports(engine, [MAIL]),
    ):
        queues = MemoryQueues({MAIL: {"dead": many(2, error="E"), "scheduled": []}})
        queues.engine.systems["native"].page_request = lambda *_args: (_ for _ in ()).throw(broken)  # type: ignore[method-assign]
        try:
            yield f"{describe_size(run(start(queues.engine))[1].size)}"
        except RqtuiError as error:
            yield f"raised {error}"
    for fields in (("name",), ("error",), ("name", "error", "nothing")):
        refs = [MAIL, RQ, Ref("rq", "b")]
        engine = MemoryQueues({ref: {} for ref in refs}).engine
        yield f"without {fields}: {[sampling.list_silent_systems(engine, refs, name) for name in fields]}"


def single_reads() -> Iterator[str]:
    """Yield what is read for one failed job, for counted minutes, and for a first part without failures."""
    queues = MemoryQueues({MAIL: {"dead": [job("a", error="E")]}})
    for each in (job("a"), job("gone", error="kept")):
        yield f"the error of {each.id!r}: {errors.load_full_error(queues.engine, each).error!r} {queues.reads}"
    sent = list[Any]()

    def send_requests_isolated(builders: Sequence[Any]) -> list[None]:
        sent.extend(call.argv for build in builders for call in build().calls)
        return [None]

    engine: Any = SimpleNamespace(
        systems={"native": registry.create_system("native")}, send_requests_isolated=send_requests_isolated
    )
    for since_ms in (NOW_MS, NOW_MS - 100 * MINUTE_MS, NOW_MS - 100 * MINUTE_MS - 1):
        sent.clear()
        failing = Queue("mail", "native", findings=(Finding("failing", "warning", "mail", "", since_ms=since_ms),))
        course = incident._read_counted_course(engine, MAIL, failing, NOW_MS, [], [])
        yield f"minutes since {since_ms - NOW_MS}: {course} {sent}"
    queues = MemoryQueues({MAIL: {"scheduled": many(2, "scheduled"), "dead": many(2, error="E")}})
    yield f"a part without failures: {run(errors.yield_error_reports(queues.engine, [MAIL]))[0]}"


def text() -> Iterator[str]:
    parts: Sequence[Any] = (
        error_reports, first_reads, kind_reports, search_results, group_reports, comparisons, job_plans,
        shared_place_plans, broken_places, single_reads,
    )  # fmt: skip
    for part in parts:
        yield f"== {part.__name__}"
        yield from part()


@pytest.mark.slow
def test_the_steps_of_reports_match_the_stored_text(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter(range(10**9))
    monkeypatch.setattr(plans, "time", SimpleNamespace(monotonic=lambda: next(ticks) / 1000))
    with utc_time_zone():
        lines = [*text()]
    assert_lines_match_file(lines, KEPT)
