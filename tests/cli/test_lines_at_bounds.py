"""What commands print where one field is missing or at a bound: `lines_at_bounds.txt` has every line.

`RQTUI_WRITE_SNAPSHOTS=1 pytest tests/cli/test_lines_at_bounds.py` writes the text; review the difference as code.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kept_text import assert_lines_match_file, diff_lines, utc_time_zone

from rqtui.cli import (
    act_result,
    documents,
    errors,
    findings,
    jobs,
    kinds,
    loops,
    output,
    schedules,
    show,
    snapshot,
    undo,
    workers,
)
from rqtui.model import (
    Attempt,
    Cause,
    Count,
    EventCoverage,
    Fact,
    Finding,
    Job,
    KindStatistics,
    Outcome,
    Page,
    Queue,
    Ref,
    Schedule,
    State,
    Verdict,
    Worker,
)
from rqtui.reports.errors import Errors, Group
from rqtui.reports.kinds import Kind, Kinds
from rqtui.reports.loops import LoopState, Report, UpcomingJob
from rqtui.reports.plans import Plan
from rqtui.reports.sampling import Extent
from rqtui.reports.workers import WorkerEntry, WorkerHealth
from rqtui.systems import registry

KEPT = Path(__file__).with_name("lines_at_bounds.txt")
NOW_MS = 1_800_000_000_000
MAIL, NEWS, ELSEWHERE = Ref("native", "mail"), Ref("native", "news"), Ref("rq", "mail")
REFS = (MAIL, NEWS, ELSEWHERE)
TIMES = (None, NOW_MS - 60_000, NOW_MS - 1, NOW_MS, NOW_MS + 60_000)
JOB = Job(
    b"j1", "mail", "native", "reserved", State.RESERVED, b"j1", b"t7", "send", b'{"to":"a@b.c"}', 14,
    enqueued_ms=NOW_MS - 90_000, deadline_ms=NOW_MS + 30_000, reserved_ms=NOW_MS - 20_000, attempts=2, max_attempts=5,
    worker="w1",
    error="Boom: no", history=(Attempt(NOW_MS - 80_000, NOW_MS - 70_000, "w0", "Boom: no"),),
)  # fmt: skip
WORKER = Worker("w1", "mail", NOW_MS - 5_000, 60_000, "run", "77", "host", NOW_MS - 900_000, b"j0")
ENGINE: Any = SimpleNamespace(systems={"native": registry.create_system("native")}, refs=REFS)
Case = tuple[str, Any, Callable[[Any], object], dict[str, tuple[Any, ...]]]


def with_fields(value: Any, **fields: Any) -> Any:
    return replace(value, **fields) if is_dataclass(value) else value._replace(**fields)


def write_document(document: Any) -> None:
    """Write each field of a JSON document in a line of its own."""
    rows = document.items() if isinstance(document, dict) else enumerate(document)
    output.write_lines([f"{name} {json.dumps(each)}" for name, each in rows])


def show_worker(entry: WorkerEntry) -> None:
    workers._write_worker_table([entry], NOW_MS)
    write_document(workers._build_worker_document(entry, NOW_MS))


def show_kind(kind: Kind) -> None:
    kinds._write_kind_table(Kinds((kind,), Extent(NOW_MS, 0, 0, 0, 0)), REFS)
    write_document(kinds._build_kind_document(kind, True))


def show_group(group: Group) -> None:
    other = replace(group, dead=10, retrying=0)
    errors._write_error_table(Errors((group, other), Extent(NOW_MS, 0, 0, 0, 0)), REFS)
    write_document(errors.build_error_group(group, False))


def show_schedule(schedule: Schedule) -> None:
    schedules._write_schedule_table([schedule], NOW_MS)
    write_document(schedules._build_schedule_document(schedule))


def show_loops(report: Report) -> None:
    loops._write_loop_tables(ENGINE, report)
    write_document(loops._build_loops_document(ENGINE, report))


def show_upcoming(coming: UpcomingJob) -> None:
    show_loops(Report(NOW_MS, (), (coming,)))


def show_loop(loop: LoopState) -> None:
    show_loops(Report(NOW_MS, (loop,), ()))


def show_finding(finding: Finding) -> None:
    for now_ms in (0, NOW_MS):
        output.write_lines(findings.format_findings([finding], "QUEUE", now_ms))
    write_document(findings.build_finding_document(finding, "QUEUE", "native", NOW_MS))


def show_job(job: Job) -> None:
    show._write_job(job, False, counts_tries=False)
    show._write_job(job, True, counts_tries=True)


def list_jobs(page: Page) -> None:
    jobs._write_job_table(page, NOW_MS, frozenset(), "7", "mail")
    jobs._write_job_table(page, NOW_MS, frozenset({"tried"}), None, "", ("ready", "reserved"))
    write_document(jobs._build_page_document(page))


def list_job(job: Job) -> None:
    jobs._write_job_table(Page("mail", "native", job.place, (job,), 1), NOW_MS, frozenset(), None)


def show_queue(queue: Queue) -> None:
    snapshot._write_queue_table([queue, QUEUE._replace(name="news")], NOW_MS)
    write_document(snapshot.build_queue_document(queue))


def show_plan(plan: Plan) -> None:
    act_result._write_dry_run_counts(plan, "can be undone")
    write_document(act_result._build_dry_run_counts(plan, "can be undone"))


QUEUE = Queue(
    "mail", "native",
    (Count("ready", State.READY, 3), Count("active", State.RESERVED, 1), Count("ended", State.DONE, 8)),
    NOW_MS, workers=2, oldest_ready_ms=61_000, verdict=Verdict("ok", "ok"),
)  # fmt: skip
FINDING = Finding(
    "failing", "critical", "mail", "51 % fail", "look at the errors", ("k1",), (b"j1",), "e", "mostly Timeout",
    NOW_MS - 60_000, 4, (Cause("Timeout", 3),), NOW_MS + 60_000,
)  # fmt: skip
GROUP = Group(
    ("k",), "Boom: no", "Boom", "charge.py:88", 2, 3, 1, NOW_MS - 90_000, NOW_MS - 30_000, ("send", "charge"),
    (MAIL, NEWS), (JOB,),
)  # fmt: skip
OTHER_WORKER = WORKER._replace(facts=(Fact("queues", "mail"), Fact("threads", 5)), queues=("mail", "news"))
PLAN = Plan(3, 3, ((MAIL, 3),), (("dead", 3),), (("Boom", 2), ("", 1)), (("1 h", 3),), (JOB,), 0.25)
BODIES = (None, b"", b"text", b"\xff\x00", b"x" * 61, b"[1, 2]")
CASES: tuple[Case, ...] = (
    ("worker", WorkerEntry(MAIL, "w1", WorkerHealth.RUNNING, WORKER, (JOB,), True), show_worker, {
        "worker": (None, *(WORKER._replace(heartbeat_ms=ms or 0) for ms in TIMES), WORKER._replace(pid=""),
                   WORKER._replace(host=""), WORKER._replace(pid="", host=""), WORKER._replace(job=b""),
                   WORKER._replace(started_ms=None), WORKER._replace(state="busy"), OTHER_WORKER),
        "jobs": ((), (JOB, JOB), (replace(JOB, reserved_ms=None),), (replace(JOB, deadline_ms=None),),
                 *((replace(JOB, id=b"x" * letters),) for letters in (47, 48, 49))),
        "health": (WorkerHealth.GONE, WorkerHealth.EXPIRED, WorkerHealth.UNSEEN), "is_whole": (False,),
    }),
    ("silent worker", WorkerEntry(MAIL, "w1", WorkerHealth.UNSEEN, None, (JOB,), True), show_worker, {
        "health": tuple(WorkerHealth), "jobs": ((),),
    }),
    ("kind", Kind(MAIL, "send", {State.READY: 4, State.DEAD: 2}, 3, 61_000, 250, 900), show_kind, {
        "ref": (NEWS, ELSEWHERE, Ref("native", "")), "name": ("", "a\x1bb"), "counts": ({},), "failed": (0,),
        "wait_ms": (None, 0, 999), "run_ms": (None, 0, 12_000), "oldest_ready_ms": (None, 0, 60_000),
        "figures": (KindStatistics("send", 8, 2, 120, 3_600_000, "mail"), KindStatistics("send", 0, 0),
                    KindStatistics("send", 400, 1)),
    }),
    ("error group", GROUP, show_group, {
        "message": ("",), "frame": ("",), "dead": (0,), "retrying": (0,), "first_ms": TIMES, "last_ms": TIMES,
        "kinds": ((), ("a", "b", "c"), ("a", "b", "c", "d")), "refs": ((MAIL,), (*REFS, Ref("rq", "x")), REFS),
    }),
    ("schedule", Schedule("nightly", "rq", "mail", "0 3 * * *", "clean()", NOW_MS + 90_000, NOW_MS - 90_000, "w1"),
     show_schedule, {
        "next_ms": (None, NOW_MS - 1_000, NOW_MS - 1, NOW_MS, NOW_MS + 1), "last_ms": TIMES, "enabled": (False,),
        "problem": ("no scheduler runs",), "call": ("",), "owner": ("",), "name": ("",),
    }),
    ("loop", LoopState("dispatch", 2, -5_000, 1), show_loop, {
        "late": (0,), "next_ms": (None, -1_000, -999, -1, 0, 1, 5_000), "elsewhere": (None, 0, 2), "verb": ("reap",),
    }),
    ("upcoming job", UpcomingJob(5_000, "reap", MAIL, JOB), show_upcoming, {
        "in_ms": (-1_000, -999, 0, 999), "verb": ("dispatch",), "ref": (NEWS,),
        "job": tuple(
            replace(JOB, attempts=tried, max_attempts=most) for tried, most in ((0, None), (0, 1), (5, 5), (1, 0))
        ),
    }),
    ("finding", FINDING, show_finding, {
        "queue": ("",), "text": ("j1 fails",), "remedy": ("",), "ids": ((), (b"j2", b"\xff")), "key": ("",),
        "detail": ("",), "since_ms": TIMES, "until_ms": TIMES, "jobs": (0,), "causes": ((),),
        "kind": ("other",), "severity": ("info",),
    }),
    ("job", JOB, show_job, {
        "name": ("",), "body": BODIES, "body_bytes": (0,), "enqueued_ms": (None, 0), "due_ms": (NOW_MS,),
        "deadline_ms": (None,), "reserved_ms": (None,), "worker": ("",), "token": (b"",), "priority": (-1, 3),
        "attempts": (0,), "max_attempts": (None, 0), "is_cancelled": (True,), "problem": ("cannot be read",),
        "error": ("", "Other: yes"), "call": ("send(1)",), "facts": ((Fact("group", "g"),),),
        "history": ((), (Attempt(0, 0, "", "Boom: no"), Attempt(NOW_MS, NOW_MS, "w", "\n".join(map(str, range(14)))))),
    }),
    ("job without attempts", replace(JOB, attempts=0, max_attempts=None), show_job, {}),
    ("job without a body", replace(JOB, body=None, body_bytes=0), show_job, {"call": ("send(1)",), "body_bytes": (9,)}),
    ("listed job", JOB, list_job, {
        "body": BODIES, "error": ("",), "problem": ("cannot be read",), "call": ("send(1)",), "due_ms": TIMES[1:],
        "deadline_ms": TIMES, "since_ms": TIMES, "attempts": (0,), "max_attempts": (None, 0), "state": tuple(State),
    }),
    ("listed job without a time", replace(JOB, deadline_ms=None, error="", attempts=0, max_attempts=None), list_job, {
        "since_ms": TIMES, "state": tuple(State), "body": BODIES, "body_bytes": (0, 5_000),
    }),
    ("page", Page("mail", "native", "reserved", (JOB,), 5, offset=2, next=3), list_jobs, {
        "jobs": ((), (JOB, replace(JOB, call="f()"))), "total": (0, 1), "is_exact": (False,), "next": (None,),
        "coverage": (EventCoverage(NOW_MS), EventCoverage(None, problem="denied")), "place_total": (4,),
    }),
    ("queue", QUEUE, show_queue, {
        "workers": (None, 0), "oldest_ready_ms": (None, 0), "is_paused": (True,), "overdue": (2,), "expired": (1,),
        "counts": ((), *((Count("ready", State.READY, number),) for number in (999_999_999, 1_000_000_000)),
                   (Count("ready", State.READY, 3, is_exact=False), Count("more", State.READY, 4)),
                   (Count("ended", State.DONE, 8, coverage=EventCoverage(None)),),
                   (Count("ended", State.DONE, 8, coverage=EventCoverage(NOW_MS, missed_ms=5)),)),
        "findings": ((FINDING,), (FINDING, FINDING)), "error": ("broken",), "unknown": (("failures",),),
        "verdict": (Verdict("critical", "bad", until_ms=NOW_MS + 90_000), Verdict("warning", "late", until_ms=NOW_MS)),
    }),
    ("plan", PLAN, show_plan, {
        "total": (0, 1, 4), "seconds": (None, 0.0004, 2.0), "by_place": ((),), "by_error": ((),),
        "by_age": ((),), "samples": ((),),
    }),
)  # fmt: skip


def text(capsys: pytest.CaptureFixture[str]) -> Iterator[str]:
    def printed(value: Any, write: Callable[[Any], object]) -> list[str]:
        write(value)
        result = capsys.readouterr()
        return [*result.out.splitlines(), *(f"stderr: {line}" for line in result.err.splitlines())]

    for title, value, write, fields in CASES:
        usual = printed(value, write)
        yield f"== {title}"
        yield from usual
        for name, others in fields.items():
            for other in others:
                yield f"== {title} with {name} {repr(other)[:80].rstrip()}"
                yield from diff_lines(usual, printed(with_fields(value, **{name: other}), write))


def test_lines_match_the_stored_text(capsys: pytest.CaptureFixture[str]) -> None:
    with utc_time_zone():
        lines = [*text(capsys)]
    assert_lines_match_file(lines, KEPT)


def test_a_table_is_cut_to_each_width_of_a_terminal() -> None:
    titles = ["queue", "system", "scheduled", "ready", "workers", "oldest", "verdict"]
    names = ("acme.production.eu-west-1.mail-worker", "acme.production.us-east-1.mail-worker", "short")
    for system_names in (("native", "native", "native"), ("native", "rq", "native")):
        rows = [
            [name, system, "0", "12", "0", "35m46", "no live worker takes any of the ready jobs"]
            for name, system in zip(names, system_names, strict=True)
        ]
        widths = dict(zip(titles, (max(map(len, column)) for column in zip(titles, *rows, strict=True)), strict=True))
        left_out = ["scheduled", "workers", *(["system"] if len({*system_names}) == 1 else [])]
        steps = [[title for title in titles if title not in left_out[:number]] for number in range(len(left_out) + 1)]
        widest = sum(widths.values()) + 2 * 6
        assert snapshot.fit_queue_table(titles, rows, widest) == (titles, rows)
        for width in range(30, widest + 1):
            fitted_titles, fitted = snapshot.fit_queue_table(titles, rows, width)
            rest = {len(step): sum(widths[title] for title in step[1:-1]) + 2 * (len(step) - 1) for step in steps}
            fitting = [step for step in steps if width - rest[len(step)] >= 24 + 16]  # a name and a verdict
            assert fitted_titles == (fitting or steps[-1:])[0]
            free = width - rest[len(fitted_titles)]
            used = [max(len(title), *map(len, column)) for title, *column in zip(fitted_titles, *fitted, strict=True)]
            assert used[0] + used[-1] <= max(free, 24 + 16)
            assert used[-1] == min(widths["verdict"], max(16, free - widths["queue"]))
            assert used[0] >= min(widths["queue"], max(24, free - used[-1])) - 12, "a name is not cut more than needed"


def test_documents_of_results_say_which_outcomes_are_a_success(capsys: pytest.CaptureFixture[str]) -> None:
    script = ENGINE.systems["native"].script("requeue")
    assert act_result._list_success_words(script) == {
        script.done_word, "would", "already", "done", "empty", "exists", "fine",
    }  # fmt: skip
    outcome = Outcome("requeue", b"j1", "moved", "ready again")
    assert act_result._describe_outcome(outcome) == "ready again"
    for token, sentence in (
        ("t8", "ready again; token t8"),
        (b"t9", "ready again; token t9"),
        ("", "ready again"),
        (7, "ready again"),
    ):
        assert act_result._describe_outcome(replace(outcome, values={"token": token})) == sentence
    for number, has_table in ((50, True), (51, False)):
        act_result._write_outcome_summary(MAIL, script, [outcome] * number, act_result.Counter({"moved": number}))
        result = capsys.readouterr()
        assert (len(result.out.splitlines()) == number + 1) is has_table
        assert result.err == f"rqtui: requeue: {number} moved\n"
    act_result._write_outcome_summary(MAIL, script, [], act_result.Counter())
    assert capsys.readouterr().err == "rqtui: requeue: no job matches\n"


def test_a_preview_of_a_body_is_made_of_its_first_two_hundred_bytes() -> None:
    previews = [documents.build_body_preview(b"x" * number) for number in (0, 1, 199, 200, 201)]
    assert [len(preview) for preview in previews] == [0, 1, 199, 200, 200]


def test_a_change_of_several_queues_is_named_after_its_first() -> None:
    for queues, text in ((["mail"], "mail"), (["mail", "sms"], "mail and 1 more"), (["a", "b", "c"], "a and 2 more")):
        assert undo._format_queue_names(queues) == text
