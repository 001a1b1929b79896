"""What is asked, sent, reported and recorded for each kind of change: `changes_kept.txt` has every line.

`RQTUI_WRITE_SNAPSHOTS=1 pytest tests/tui/services/test_changes_kept.py` writes the text; review the difference as code.
"""

# ruff: noqa: B023  # each function runs in the turn of the loop that defines it

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kept_text import assert_lines_match_file
from service_stage import JOBS, MAIL, NEWS, SYSTEMS, Recorder, Stage, describe
from text_snapshots import stopped_clock  # noqa: F401
from textual.content import Content
from textual.geometry import Size

from rqtui.engine.ticker import CallFinished, ChangeProgressed
from rqtui.errors import RqtuiError
from rqtui.model import Job, Outcome, Page, Ref, Snapshot, State
from rqtui.operations.canary import CanaryProgress
from rqtui.operations.canary_jobs import End, FirstJob
from rqtui.operations.journal import Circumstances, Operation
from rqtui.operations.rate_limit import Limits, Step
from rqtui.reports.plans import Plan
from rqtui.systems import registry
from rqtui.tui import keys
from rqtui.tui.services import batches, bulk_changes, form_values, undo, verb_resolution
from rqtui.tui.services.batches import Batch, Batches, VerbRequest
from rqtui.tui.services.bulk_changes import BulkChanges, JobSelection
from rqtui.tui.services.duplicate import JobDuplication
from rqtui.tui.services.outcome_counts import OutcomeCounts
from rqtui.tui.services.rate_limited_changes import RateLimitedChanges
from rqtui.tui.services.undo import Undo
from rqtui.tui.services.verb_starter import VerbStarter
from rqtui.tui.target import Target
from rqtui.tui.widgets import canary_page
from rqtui.tui.widgets.question_dialog import FormReply
from rqtui.verbs import VERBS, VERBS_BY_NAME, Verb

KEPT = Path(__file__).with_name("changes_kept.txt")
NOW_MS = 1_800_000_000_000
DEAD = Job(b"j1", "mail", "native", "dead", State.DEAD, b"j1", b"t", "send", b'{"a": 1}', 8, error="Boom: no")
OTHER = replace(DEAD, id=b"j2", place="ready", state=State.READY)
HELD = replace(DEAD, id=b"j3", place="reserved", state=State.RESERVED, worker="w1")
REQUEUE, DELETE = VERBS_BY_NAME["requeue"], VERBS_BY_NAME["delete"]
DRIP = next(verb for verb in VERBS if verb.script == "requeue")
MOVED = Outcome("requeue", b"j1", "moved", "ready again", 1)
GONE = Outcome("requeue", b"j2", "gone", "no longer exists")
WRONG = Outcome("requeue", b"j3", "wrong_place", "is elsewhere", 0, {"place": "done"})
FAILED = Outcome("requeue", b"j4", "error", "out of memory")


class Clock:
    """A clock that a test sets."""

    now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s

    def time(self) -> float:
        return NOW_MS / 1000 + self.now_s


CLOCK = Clock()


def build_batches(stage: Stage) -> Batches:
    numbers = iter(range(1, 100))
    for name in ("request_change", "request_place_change"):
        record = getattr(stage.ticker, name)
        setattr(stage.ticker, name, lambda *args, record=record: record(*args) or next(numbers))
    journal = Recorder("session_journal", stage.lines)
    return Batches(stage.host, stage.session, stage.navigation, journal)


def select(verb: Verb = REQUEUE, **fields: Any) -> JobSelection:
    by_queue = fields.pop("jobs_by_queue", ((MAIL, (DEAD, DEAD)),))
    total = fields.pop("total", sum(len(jobs) for _ref, jobs in by_queue))
    target = fields.pop("target", Target(MAIL, "dead", (DEAD,), state=State.DEAD))
    return JobSelection(verb, by_queue, total, target, **fields)


# ── counts of outcomes ───────────────────────────────────────────────────────────────────────────────────────────────


def describe_outcomes() -> Iterator[str]:
    lost = Outcome("requeue", b"j5", "unknown", "")
    token = Outcome("reserve", b"j6", "leased", "", 1, {"place": "reserved"})
    whole = Outcome("purge", b"", "moved", "deleted", 2_000, {"left": 3})
    for verb in ("requeue", "reserve", "nosuch"):
        for outcomes in (
            (),
            (MOVED,),
            (GONE,),
            (WRONG,),
            (FAILED,),
            (lost,),
            (token,),
            (whole,),
            (FAILED, FAILED),
            (FAILED, MOVED),
            (lost, lost),
            (MOVED, MOVED, WRONG, WRONG, GONE),
            (replace(MOVED, moved=2),),
            (WRONG, replace(WRONG, values={"place": ""}), replace(WRONG, values={"place": 7})),
        ):
            counts = OutcomeCounts(verb, MAIL, began_s=999.0)
            counts.add_outcomes(outcomes[:1])
            counts.add_outcomes(outcomes[1:])
            yield (
                f"{verb} {[each.word for each in outcomes]}: {counts.summarise_outcomes()} | {counts.is_refused} "
                f"{counts.format_refusal()!r} {counts.seen} {counts.moved} {counts.failed} {list(counts.ids)} "
                f"{counts.compute_outcome_rate(1001.0)} {counts.compute_outcome_rate(999.0)}"
            )


# ── batches ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def describe_batches() -> Iterator[str]:
    def answer(service: Batches, id: int, outcomes: tuple[Outcome, ...], is_last: bool = True, **more: Any) -> None:
        service.record_outcomes(ChangeProgressed(id, more.pop("verb", "requeue"), MAIL, outcomes, 0, is_last, **more))

    for title, request in (
        ("jobs", VerbRequest("requeue", MAIL, {"a": 1}, Batch(OutcomeCounts("requeue", MAIL, 2)), (DEAD,))),
        ("a place", VerbRequest("requeue", MAIL, {}, Batch(OutcomeCounts("requeue", MAIL)), (), "dead")),
        ("a queue", VerbRequest("enqueue", MAIL, {}, Batch(OutcomeCounts("enqueue", MAIL)))),
    ):
        for outcomes, error in (((MOVED,), ""), ((GONE,), ""), ((FAILED,), ""), ((), "denied"), ((MOVED,), "away")):
            for is_refused_shown in (False, True):
                stage = Stage(changes=[])
                service = build_batches(stage)
                batch = request.batch
                batch.outcome_counts = OutcomeCounts(request.name, MAIL, 2)
                batch.open_requests, batch.queues, batch.error = 0, [], ""
                batch.on_refused = stage.host.show_form if is_refused_shown else None
                batch.on_changed = stage.host.run_more
                yield from stage.run(f"sending {title}", service.send_requests, request)
                keys_of_requests = ((request.name, MAIL), ("x", MAIL), (request.name, NEWS))
                yield f"  under way {[service.is_under_way(*key) for key in keys_of_requests]}"
                yield from stage.run("an answer of another session", answer, service, 77, outcomes)
                yield from stage.run("a part", answer, service, 1, (), False)
                yield from stage.run(
                    f"{describe(outcomes)} {error}", answer, service, 1, outcomes, error=error, verb=request.name
                )
                yield (
                    f"  under way {service.is_under_way(request.name, MAIL)}, changes {describe(stage.session.changes)}"
                )
                if "call_engine" in stage.session._calls:
                    yield from stage.answer("registered")
                    yield from stage.answer("not registered", error="denied")
    stage = Stage(changes=[])
    service = build_batches(stage)
    batch = Batch(OutcomeCounts("requeue", MAIL, 3), circumstances=Circumstances(chosen="/x"))
    batch.on_refused = stage.host.show_form
    stage.navigation.has_dialog = True
    requests = [VerbRequest("requeue", ref, {}, batch, (DEAD,)) for ref in (MAIL, NEWS, MAIL)]
    yield from stage.run("sending three", service.send_requests, *requests)
    yield from stage.run("the first", answer, service, 1, (FAILED,))
    yield from stage.run("the second", answer, service, 2, (), error="denied")
    yield from stage.run("the last, under a dialog", answer, service, 3, (FAILED,))
    yield f"  changes {describe(stage.session.changes)}"
    for left in (None, 0, 5):
        for error, is_stopped in (("", False), ("no", False), ("", True)):
            for verb in ("purge", "requeue"):
                stage = Stage(changes=[])
                service = build_batches(stage)
                batch = Batch(OutcomeCounts(verb, MAIL), is_stopped=is_stopped)
                request = VerbRequest(verb, MAIL, {}, batch, (), "dead")
                service.send_requests(request)
                values = {} if left is None else {"left": left}
                chunk = Outcome(verb, b"", "moved", "deleted", 1000, values)
                yield from stage.run(
                    f"{verb}, {left} left, {error} {is_stopped}", answer, service, 1, (chunk,), verb=verb, error=error
                )
                yield f"  open {batch.open_requests}, last {batch.outcome_counts.last is not None}"


def describe_long_changes() -> Iterator[str]:
    for total, seen, moved in (
        (0, 0, 0),
        (500, 10, 10),
        (501, 0, 0),
        (501, 10, 10),
        (501, 501, 0),
        (0, 499, 0),
        (0, 500, 0),
        (0, 0, 499),
        (0, 0, 500),
        (900, 300, 600),
        (600, 700, 0),
    ):
        stage = Stage(changes=[])
        service = build_batches(stage)
        batch = Batch(OutcomeCounts("requeue", MAIL, total, began_s=980.0))
        service.send_requests(VerbRequest("requeue", MAIL, {}, batch, (DEAD,)))
        batch.outcome_counts.seen, batch.outcome_counts.moved = seen, moved
        yield from stage.run(f"progress of {total} {seen} {moved}", service.format_progress)
        yield from stage.run("stopping it", service.stop_long_change)
        last = ChangeProgressed(1, "requeue", MAIL, (MOVED,), 0, True)
        yield from stage.run("the end", service.record_outcomes, last)
        yield f"  speeds {service.speeds}"
    for seen, began_s in ((499, 900.0), (500, 900.0), (501, 900.0), (501, 999.5), (501, 999.4)):
        stage = Stage(changes=[])
        service = build_batches(stage)
        batch = Batch(OutcomeCounts("requeue", MAIL, began_s=began_s))
        service.send_requests(VerbRequest("requeue", MAIL, {}, batch, (DEAD,)))
        yield f"began {batch.outcome_counts.began_s}"
        batch.outcome_counts.seen = seen - 1
        service.record_outcomes(ChangeProgressed(1, "requeue", MAIL, (GONE,), 0, True))
        yield f"speed of {seen} since {began_s}: {service.speeds}"
    unnumbered = Batch(OutcomeCounts("requeue", MAIL))
    build_batches(Stage()).send_requests(VerbRequest("requeue", MAIL, {}, unnumbered, (DEAD,)))
    yield f"begun at {unnumbered.outcome_counts.began_s}"


# ── changes of many jobs ─────────────────────────────────────────────────────────────────────────────────────────────


def build_bulk(stage: Stage) -> BulkChanges:
    service = Recorder("batches", stage.lines, speeds={})
    rate_limited = Recorder("rate_limited", stage.lines)
    stage.session.run_steps = lambda function, handle, record=stage.session.run_steps: record(function, handle) or 7
    return BulkChanges(stage.host, stage.session, service, rate_limited)


def describe_selections() -> Iterator[str]:
    holder = Target(MAIL, "reserved", (HELD,), holder="w" * 33)
    selections = {
        "one job": select(total=1),
        "usual": select(),
        "of a place": select(place="dead"),
        "of a place of two queues": select(place="dead", jobs_by_queue=((MAIL, ()), (NEWS, ())), total=9),
        "about": select(place="dead", is_exact=False),
        "a filter": select(about="/err:x"),
        "one match": select(about="/err:x", total=1),
        "an error": select(about='error "Boom\x1b"'),
        "one of an error": select(about='error "Boom"', total=1),
        "more": select(count_difference="31 are not yet counted in the list."),
        "several places": select(jobs_by_queue=((MAIL, (DEAD, OTHER)),)),
        "several queues": select(jobs_by_queue=((MAIL, (DEAD,)), (NEWS, (DEAD,) * 3)), total=2_000),
        "no jobs": select(jobs_by_queue=((MAIL, ()),), total=0),
        "of a worker": select(target=holder),
        "of a short worker": select(target=replace(holder, holder="w" * 32), is_exact=False),
        "searched": select(target=replace(holder, scanned_jobs=10_000_000)),
        "searched more": select(target=replace(holder, scanned_jobs=1_000_000_000)),
        "not exact": select(is_exact=False),
        "deleting": select(DELETE),
        "deleting many": select(DELETE, total=2_000_000, jobs_by_queue=((MAIL, (DEAD,)),)),
        "deleting few in each of many": select(
            DELETE, total=2_000_000, jobs_by_queue=((MAIL, (DEAD,)), (NEWS, (DEAD,)))
        ),
        "of two systems": select(jobs_by_queue=((MAIL, (DEAD,)), (JOBS, (DEAD,)))),
        "of two other systems": select(DELETE, jobs_by_queue=((JOBS, (DEAD,)), (MAIL, (DEAD,)))),
        "own words": select(DRIP),
    }
    plan = Plan(
        7,
        7,
        ((MAIL, 4), (NEWS, 3)),
        (("dead", 7),),
        tuple((f"Boom {n}", 1) for n in range(7)),
        (("1 h", 7),),
        (DEAD,) * 5,
        0.25,
    )
    for title, selection in selections.items():
        stage = Stage(keeper=Recorder("keeper", [], check_problem=lambda: ""))
        bulk = build_bulk(stage)
        yield (
            f"== {title}: {bulk_changes._build_question_title(selection)} | {selection.common_place!r} "
            f"{selection.script}"
        )
        yield f"  {bulk_changes._describe_selected_jobs(selection)}"
        for width in (80, 160):
            stage.app.size = Size(width, 24)
            yield from (f"  {line.markup}" for line in bulk._build_question_lines(selection, None))
        yield from (f"  {line.markup}" for line in bulk._build_question_lines(selection, plan, 2))
        engine = Recorder("engine", stage.lines)
        steps = selection.yield_dry_run_steps(engine)
        yield f"  {steps.__name__} of {describe(list(steps.gi_frame.f_locals.values())[1:3])}"  # type: ignore[attr-defined]
    for rows in (1, 7, 8, 9, 10, 11, 12, 40):
        stage = Stage(keeper=Recorder("keeper", [], check_problem=lambda: ""))
        lines = build_bulk(stage)._fit_question_lines(
            select(jobs_by_queue=((MAIL, (DEAD,) * 4), (NEWS, (DEAD,) * 3))), plan, rows
        )
        yield f"in {rows} rows: {len(lines)} lines, {[line.plain.strip()[:30] for line in lines[-8:]]}"


def describe_durations() -> Iterator[str]:
    plan = Plan(7, 7, seconds=0.25)
    bulk = build_bulk(Stage())
    for speed in (None, 4.0):
        bulk._batches.speeds = {"requeue": speed} if speed else {}
        for shown in (None, plan, Plan(7, 7)):
            for typed in (
                {},
                {"rate": " 5/s "},
                {"rate": "5"},
                {"rate": "x"},
                {"canary": "5"},
                {"canary": "x"},
                {"rate": "2", "canary": "99"},
                {"rate": "1", "canary": "100"},
                {"rate": "1/m", "canary": "2500"},
                {"rate": "1", "canary": "99"},
                {"rate": "1", "canary": "x"},
            ):
                if typed == {} or (shown, speed) == (None, None):
                    described = bulk._describe_duration(select(total=100), shown, typed)
                    yield f"{typed} {shown is not None} {speed}: {described}"
    for values in (
        {},
        {"rate": 5.0},
        {"canary": 5},
        {"rate": 5.0, "canary": 5, "canary_wait": 2_500, "canary_run": 999},
        {"rate": 5.0, "stop_at_failures": 3, "stop_at_depth": 9, "a": 1},
        {"rate": "x"},
        {"stop_at_depth": 9},
        {"rate": 5.0, "canary_wait": "x"},
    ):
        yield f"split {values}: {bulk_changes._split_rate_limit(dict(values))}"
        stage = Stage()
        yield from stage.run("  checked", build_bulk(stage)._validate_values, select(), dict(values))
    for wait_ms, run_ms in ((999, 5_000), (1_000, 1_000), (5_000, 999), (1_001, 1_001), (1_500, 2_000), (2_000, 1_500)):
        values = {"rate": 5.0, "canary": 5, "canary_wait": wait_ms, "canary_run": run_ms}
        yield from stage.run(f"  {wait_ms} {run_ms}", build_bulk(stage)._validate_values, select(), dict(values))
    both = {"delay_ms": 5_000.0, "priority": 3}
    for values in (both, {**both, "rate": 5.0}, {"priority": 3, "rate": 5.0}, {"rate": 5.0}):
        for refs in ((MAIL,), (MAIL, JOBS), (JOBS, MAIL)):
            selection = select(VERBS_BY_NAME["reschedule"], jobs_by_queue=tuple((ref, (DEAD,)) for ref in refs))
            check = build_bulk(stage)._validate_values
            yield from stage.run(f"  reschedule of {len(refs)} {values}", check, selection, dict(values))
    for number in (0, 1, 100, 101):
        yield from stage.run(f"  {number} first", build_bulk(stage)._validate_values, select(), {"canary": number})


def describe_bulk_questions() -> Iterator[str]:
    for verb, jobs_by_queue in (
        ("requeue", []),
        ("requeue", [(MAIL, [])]),
        ("requeue", [(NEWS, []), (MAIL, [DEAD, OTHER]), (NEWS, [DEAD])]),
        ("delete", [(MAIL, [HELD, DEAD]), (JOBS, [DEAD])]),
        ("delete", [(JOBS, [DEAD, HELD]), (MAIL, [HELD])]),
        ("requeue", [(MAIL, [DEAD]), (JOBS, [DEAD])]),
        ("requeue", [(JOBS, [DEAD]), (MAIL, [DEAD])]),
        ("drip", [(MAIL, [DEAD])]),
        ("reprioritise", [(JOBS, [DEAD])]),
        ("reprioritise", [(JOBS, [DEAD]), (MAIL, [DEAD])]),
    ):
        stage = Stage(keeper=Recorder("keeper", [], check_problem=lambda: "full"))
        bulk = build_bulk(stage)
        confirm = bulk.confirm_change_of_queues
        yield from stage.run(f"{verb} of {len(jobs_by_queue)} queues", confirm, verb, jobs_by_queue, "/x", "1 more.")
    for refs in ((MAIL, JOBS), (JOBS, MAIL)):
        stage = Stage()
        selection = select(VERBS_BY_NAME["move"], jobs_by_queue=tuple((ref, (DEAD,)) for ref in refs))
        yield from stage.run(f"move of {len(refs)} systems", build_bulk(stage)._show_change_question, selection)
        dialog, _accept = stage.app.find_last_call("push_screen")
        yield f"  queues to choose from {[field.choices for field in dialog._fields]}"
    page = Page("mail", "native", "dead", (DEAD,), 40, place_total=50)
    for target in (
        Target(None),
        Target(MAIL, "dead", (DEAD, OTHER), filter="err"),
        Target(MAIL, "dead", is_whole_place=True),
    ):
        for verb in (REQUEUE, DELETE):
            stage = Stage(snapshot=Snapshot(NOW_MS, pages=(page,)))
            stage.settings.is_guarded = True
            bulk = build_bulk(stage)
            yield from stage.run(f"{verb.name} of {target.place!r}", bulk.confirm_change_of_place, verb, target)
            if "push_screen" not in stage.app._calls:
                continue
            dialog, accept = stage.app.find_last_call("push_screen")
            dialog.fit_text = lambda fit: stage.lines.extend(line.markup for line in fit(9))
            dialog.replace_text = lambda lines: stage.lines.extend(line.markup for line in lines)
            _steps, show_plan = stage.session.find_last_call("run_steps")
            yield from stage.run(
                "a plan", show_plan, CallFinished(7, Plan(40, 40, by_place=(("dead", 40),), seconds=2.0))
            )
            yield f"  then {dialog._describe_duration({})}"
            yield from stage.run("no plan", show_plan, CallFinished(7, None, "denied\x1b"))
            yield from stage.run("neither", show_plan, CallFinished(7, None))
            yield from stage.run("checking", dialog._check, {"rate": 5.0})
            yield from stage.run("no", accept, None)
            yield from stage.run("yes", accept, FormReply({}, {}))
            for request in stage.session._calls.get("none", ()):
                yield str(request)
    values_of = {
        "requeue": ({}, {"keep_attempts": True}, {"rate": 5.0}, {"canary": 3}),
        "reschedule": ({"delay_ms": 5_000.0}, {"delay_ms": 5_000.0, "priority": 3}),
    }
    for name, all_values in values_of.items():
        for values in all_values:
            for selection in (
                select(VERBS_BY_NAME[name]),
                select(VERBS_BY_NAME[name], place="dead", about="/x"),
                select(VERBS_BY_NAME[name], jobs_by_queue=((MAIL, (DEAD,)), (NEWS, (DEAD, DEAD)))),
                select(VERBS_BY_NAME[name], jobs_by_queue=((MAIL, (DEAD,)), (JOBS, (DEAD,)))),
                select(VERBS_BY_NAME[name], jobs_by_queue=((JOBS, (DEAD,)), (MAIL, (DEAD,)))),
            ):
                stage = Stage()
                bulk = build_bulk(stage)
                yield from stage.run(
                    f"start {name} {values} {len(selection.refs)} {selection.place}",
                    bulk._start_change,
                    selection,
                    FormReply(dict(values), {"rate": "typed"}),
                )
                if "send_requests" in bulk._batches._calls:
                    for request in bulk._batches.find_last_call("send_requests"):
                        yield (
                            f"  {request.name} {describe(request.ref)} {request.form} {describe(request.jobs)} "
                            f"{request.place}"
                        )
                        yield f"  {request.batch.outcome_counts.total} {describe(request.batch.circumstances)}"
                    yield from stage.run("refused", request.batch.on_refused, "too many")


# ── changes at a limited rate ────────────────────────────────────────────────────────────────────────────────────────


def build_progress(*ends: End | None) -> CanaryProgress:
    jobs = tuple(
        FirstJob(
            MAIL,
            replace(DEAD, id=b"f%d" % number * 20 + b"x"),
            NOW_MS,
            end=end,
            ended_ms=NOW_MS + 900,
            error="Boom: no",
        )
        for number, end in enumerate(ends)
    )
    return CanaryProgress(jobs, NOW_MS + 1000, 30.0)


def describe_rate_limited() -> Iterator[str]:
    passed, running, bad = (
        build_progress(End.DONE, End.DONE),
        build_progress(End.DONE, None),
        build_progress(End.FAILED),
    )
    outcomes = ((MAIL, MOVED),)
    steps = {
        "sent": Step(outcomes, 3, 40, 0, 0),
        "idle": Step((), 3, 40, 2, 0),
        "over": Step((), 40, 40, 0, 0, "all sent"),
        "stopped": Step((), 3, 40, 0, 0, "stopped after 3 of 40: token=abc1234567"),
        "running": Step((), 2, 40, 0, 0, canary=running),
        "failed": Step((), 1, 2, 0, 0, "stopped after 1 of 2: x", canary=bad),
        "passed": Step((), 2, 40, 0, 0, canary=passed),
        "one left": Step((), 2, 3, 0, 0, canary=passed),
        "all passed": Step((), 2, 2, 0, 0, "done", canary=passed),
        "failed too": Step((), 1, 40, 0, 0, "stopped after 1 of 40: x", canary=bad),
        "a million left": Step((), 1, 1_000_001, 0, 0, "stopped: x", canary=bad),
        "ten million left": Step((), 1, 10_000_001, 0, 0, "stopped: x", canary=bad),
        "passed, a million left": Step((), 2, 1_000_002, 0, 0, canary=passed),
        "passed, ten million left": Step((), 2, 10_000_002, 0, 0, canary=passed),
        "sent for long": Step(outcomes, 3, 4_003, 0, 0),
    }
    limits = {
        "rate": Limits(5.0),
        "canary": Limits(5.0, canary_jobs=2),
        "stops": Limits(5.0, 1, 100, 2),
        "depth": Limits(5.0, None, 1, 2),
    }

    def start(stage: Stage, limit: Limits) -> RateLimitedChanges:
        stage.app.set_interval = lambda seconds, function, record=stage.app.set_interval: (
            record(seconds, function) or Recorder("timer", stage.lines)
        )
        service = RateLimitedChanges(
            stage.host,
            stage.session,
            stage.navigation,
            Recorder("batches", stage.lines),
            Recorder("journal", stage.lines),
        )
        service.start_change(
            "requeue", ((MAIL, (DEAD,)), (NEWS, (OTHER,))), {"a": 1}, limit, "dead", Circumstances(why="x")
        )
        return service

    for limit_name, limit in limits.items():
        for page_kind in ("closed", "open"):
            for name, step in [*steps.items(), ("error", None), ("end", None)]:
                stage = Stage()
                stage.app.screen = None
                service = start(stage, limit)
                change: Any = service._change
                if page_kind == "open" and change.page is None:
                    continue
                if page_kind == "closed":
                    change.page = None
                else:
                    change.page = Recorder("page", stage.lines, failure=None)
                yield from stage.run(
                    f"{limit_name}, page {page_kind}, {name}",
                    stage.session.find_last_call("call_engine")[1],
                    CallFinished(1, step, "away" if name == "error" else ""),
                )
                yield f"  progress {describe(service.format_progress())}"
                yield from stage.run("next", service._request_step)
                if change.is_question_open and change.page is None:
                    dialog, accept = stage.app.find_last_call("push_screen")
                    yield from stage.run("yes", accept, True)
                    yield from stage.run("then", service._request_step)
                    change.passed, change.is_question_open = step, False
                    yield from stage.run("no", accept, None)
                yield from stage.run("stop", service.stop_change)
    stage = Stage()
    service = start(stage, limits["rate"])
    yield f"started: {stage.lines}"
    yield f"at the start: {describe(service.format_progress())}"
    yield from stage.run("a second one", service.start_change, "x", (), {}, limits["rate"], "", Circumstances())
    yield from stage.run("waiting", service._request_step)
    yield from stage.run("stopping", service.stop_change)
    yield from stage.run(
        "the last step", stage.session.find_last_call("call_engine")[1], CallFinished(1, steps["sent"])
    )
    yield from stage.run("a late step", stage.session.find_last_call("call_engine")[1], CallFinished(1, steps["sent"]))
    yield f"nothing left {service.stop_change()} {service.format_progress()}"
    for name in ("over", "stopped", "idle"):
        stage = Stage()
        service = start(stage, limits["rate"])
        service.stop_change()
        handle = stage.session.find_last_call("call_engine")[1]
        yield from stage.run(f"stopped before the step {name}", handle, CallFinished(1, steps[name]))
    for failures in (0, 1, 3_000):
        for done in (39, 40):
            stage = Stage()
            service = start(stage, limits["stops"])
            service._change.last = Step((), done, 40, failures, 0)
            yield f"{failures} failures, {done} done: {describe(service.format_progress())}"
    for done in (1, 2, 3):
        service._change.last = Step((), done, 40, 0, 0)
        yield f"after {done}: {describe(service.format_progress())}"
    yield from describe_canary_pages(start, steps, limits["canary"])


def describe_canary_pages(
    start: Callable[..., RateLimitedChanges], steps: dict[str, Step], limit: Limits
) -> Iterator[str]:
    for reply in (None, *canary_page.Reply):
        for failure in (None, build_progress(End.FAILED).jobs[0]):
            stage = Stage()
            service = start(stage, limit)
            change: Any = service._change
            page, handle = stage.app.find_last_call("push_screen")
            page.failure = failure
            change.passed = steps["passed"]
            yield from stage.run(f"{reply} {failure is not None}", handle, reply)
            yield f"  {change.passed is None} {change.page} {change.is_question_open} {service._change is None}"
    for is_used in ("dialog", "input"):
        stage = Stage()
        if is_used == "dialog":
            stage.app.screen = canary_page.CanaryPage("requeue", "requeued", limit)
        else:
            from textual.widgets import Input

            stage.app.focused = Input()
        service = start(stage, limit)
        change = service._change
        yield f"no page over a {is_used}: {change.page} {change.is_page_wanted}"
        handle = stage.session.find_last_call("call_engine")[1]
        yield from stage.run("passed", handle, CallFinished(1, steps["passed"]))
        yield f"  {change.is_question_open} {change.is_page_wanted}"
        stage.app.screen = stage.app.focused = None
        yield from stage.run(f"after the {is_used}", service._request_step)
        yield from stage.run("once", service._request_step)


# ── starting verbs ───────────────────────────────────────────────────────────────────────────────────────────────────


def build_starter(stage: Stage) -> VerbStarter:
    service = Recorder("batches", stage.lines, speeds={}, format_progress=lambda: None, stop_long_change=lambda: False)
    undoing = Recorder("undo", stage.lines, format_progress=lambda: None, stop_undo=lambda: False)
    starter = VerbStarter(
        stage.host, stage.session, stage.navigation, service, undoing, Recorder("journal", stage.lines)
    )
    starter._bulk = Recorder("bulk", stage.lines)
    starter._duplicate = Recorder("duplicate", stage.lines)
    return starter


def describe_starts() -> Iterator[str]:
    targets = {
        "no queue": Target(None),
        "queue": Target(MAIL),
        "dead": Target(MAIL, "dead", (DEAD,), state=State.DEAD),
        "two": Target(MAIL, "dead", (DEAD, DEAD), state=State.DEAD),
        "many": Target(MAIL, "dead", (DEAD,) * 21, state=State.DEAD),
        "held": Target(MAIL, "reserved", (HELD,), state=State.RESERVED),
        "place": Target(MAIL, "dead", is_whole_place=True, state=State.DEAD),
        "workers": Target(MAIL, workers=("w1", "w2")),
    }
    names = ("requeue", "delete", "release", "enqueue", "pause", "purge", "duplicate", "reprioritise", "ack")
    for title, target in targets.items():
        for name in names:
            verb = VERBS_BY_NAME.get(name)
            if verb is None or (verb.scope == "job" and not target.jobs and not target.is_whole_place):
                continue
            for is_chosen in (False, True):
                stage = Stage(keeper=Recorder("keeper", [], check_problem=lambda: ""))
                stage.view.CAN_CREATE_QUEUES = is_chosen
                starter = build_starter(stage)
                lines = [
                    *stage.run(
                        f"{name} of {title}, chosen {is_chosen}", starter.start_verb, verb, target, is_chosen=is_chosen
                    )
                ]
                yield from lines
                if "push_screen" in stage.app._calls:
                    _dialog, accept = stage.app.find_last_call("push_screen")
                    yield from stage.run("no", accept, None)
                    yield from stage.run("yes", accept, FormReply({"id": "new-1"}, {"id": "typed"}, {"body": b"{}"}))
                    if "send_requests" in starter._batches._calls:
                        (request, *_more) = starter._batches.find_last_call("send_requests")
                        yield from stage.run("refused", request.batch.on_refused, "it exists")
    for name in ("stop", "grow"):
        stage = Stage(systems={"celery": registry.create_system("celery")}, keeper=None)
        starter = build_starter(stage)
        target = Target(Ref("celery", "c"), workers=("w1", "w2"))
        yield from stage.run(f"{name} of workers", starter.start_verb, VERBS_BY_NAME[name], target)
        if "push_screen" in stage.app._calls:
            accept = stage.app.find_last_call("push_screen")[1]
            yield from stage.run("yes", accept, FormReply({"n": 2}, {}))
    for attributes in (
        {"is_read_only": True},
        {"connection_loss": "lost"},
        {"engine": None},
        {"is_read_only": True, "engine": None},
    ):
        stage = Stage(**attributes)
        starter = build_starter(stage)
        yield from stage.run(f"start with {attributes}", starter.start_verb, REQUEUE, targets["dead"])
        yield from stage.run("of queues", starter.start_verb_on_queues, "requeue", [(MAIL, [DEAD])], "/x")
    stage = Stage()
    yield from stage.run(
        "of queues", build_starter(stage).start_verb_on_queues, "requeue", [(MAIL, [DEAD])], "/x", "1 more."
    )
    for handles in (False, True):
        stage = Stage()
        stage.target, stage.view.handle_verb = targets["dead"], lambda _verb, handles=handles: handles
        yield from stage.run(f"key, handled {handles}", build_starter(stage).start_verb_of_key, "R")
        yield from stage.run("no verb on it", build_starter(stage).start_verb_of_key, "K")
    stage.navigation.view = None
    yield from stage.run("key without a view", build_starter(stage).start_verb_of_key, "R")


def describe_checks() -> Iterator[str]:
    states: dict[str, Callable[[Stage], object]] = {
        "usual": lambda _stage: None,
        "read-only": lambda stage: setattr(stage.session, "is_read_only", True),
        "no engine": lambda stage: setattr(stage.session, "engine", None),
        "small": lambda stage: setattr(stage.view, "is_too_small", True),
        "lost": lambda stage: setattr(stage.session, "connection_loss", "lost"),
        "no snapshot": lambda stage: setattr(stage.session, "snapshot", None),
        "denied": lambda stage: setattr(stage.session, "explain_denial", lambda verb, _ref: "no" * (verb == "requeue")),
        "not allowed": lambda stage: setattr(stage.view, "allows_verb", lambda verb: verb.name == "pause"),
        "no view": lambda stage: setattr(stage.navigation, "view", None),
        "new queues": lambda stage: setattr(stage.view, "CAN_CREATE_QUEUES", True),
    }
    for title, change in states.items():
        for place in (None, "", "dead", "ready", "reserved"):
            stage = Stage(snapshot="snapshot")
            stage.target = Target(MAIL, place, (DEAD,) if place else ()) if place is not None else Target()
            change(stage)
            starter = build_starter(stage)
            checks = {key: starter.check_verb_key(key) for key in keys.VERB_KEYS}
            yield f"{title} {place!r}: " + " ".join(f"{key}={str(check)[0]}" for key, check in checks.items())
            if place is not None and title in ("usual", "read-only", "lost", "denied"):
                yield f"  offered {[(verb.label, summary) for verb, summary in starter.list_offered_verbs()]}"
    for ref in (MAIL, JOBS):
        for denied in ("", "requeue", "every verb"):
            stage = Stage(
                snapshot="snapshot",
                explain_denial=lambda verb, _ref: "" if denied not in (verb, "every verb") else "denied",
            )
            stage.target = Target(ref)
            starter = build_starter(stage)
            checks = {key: starter.check_verb_key(key) for key in keys.VERB_KEYS}
            shown = " ".join(f"{key}={str(check)[0]}" for key, check in checks.items())
            yield f"keys of {describe(ref)}, denied {denied!r}: {shown}"
    for system in SYSTEMS.values():
        for verb in VERBS:
            fields = [
                f"{field.name} {field.kind} {field.default}" for field in verb_resolution.list_form_fields(system, verb)
            ]
            yield f"{system.name} {verb.label}: {fields}"


def describe_running() -> Iterator[str]:
    for are_running in product((False, True), repeat=3):
        stage = Stage()
        starter = build_starter(stage)
        services = ((starter.rate_limited, "stop_change"), (starter._undo, "stop_undo"))
        for is_running, (service, stop) in zip(
            are_running, (*services, (starter._batches, "stop_long_change")), strict=True
        ):
            setattr(service, stop, lambda stop=stop, is_running=is_running: stage.lines.append(stop) or is_running)
            service.format_progress = lambda stop=stop, is_running=is_running: Content(stop) if is_running else None
        yield from stage.run(f"stopping {are_running}", starter.stop_running_changes)
        yield from stage.run(f"progress {are_running}", starter.format_progress)


# ── values of forms ──────────────────────────────────────────────────────────────────────────────────────────────────


def describe_forms() -> Iterator[str]:
    page = Page("mail", "native", "dead", (DEAD, OTHER), 40, place_total=50)
    for snapshot in (
        None,
        Snapshot(NOW_MS, pages=(page,)),
        Snapshot(NOW_MS, pages=(replace(page, place_total=None),)),
    ):
        for target in (
            Target(MAIL, "dead", (DEAD,)),
            Target(MAIL, "dead", is_whole_place=True),
            Target(None),
            Target(MAIL, workers=("a", "b")),
            Target(MAIL, "ready", is_whole_place=True),
            Target(None, "dead", is_whole_place=True),
        ):
            session: Any = Stage(snapshot=snapshot).session
            session.systems = {"native": SimpleNamespace(is_shared=lambda place: place == "dead")}
            counted = form_values.count_targets(session, target), form_values.is_target_count_exact(session, target)
            yield f"{describe(target)} {snapshot is not None}: {counted}"
    for verb, values in (
        (REQUEUE, {}),
        (VERBS_BY_NAME["reschedule"], {}),
        (VERBS_BY_NAME["reschedule"], {"delay_ms": 5_000.0, "priority": 2}),
        (VERBS_BY_NAME["reschedule"], {"delay_ms": 1e300}),
        (VERBS_BY_NAME["enqueue"], {"body": b"{}", "queue": "mail"}),
        (VERBS_BY_NAME["enqueue"], {"body": b"{}", "queue": "new"}),
        (VERBS_BY_NAME["purge"], {}),
        (VERBS_BY_NAME["release"], {}),
    ):
        for target in (
            Target(MAIL, "reserved", (HELD, HELD), state=State.RESERVED),
            Target(None),
            Target(MAIL, "dead", is_whole_place=True),
        ):
            stage = Stage(snapshot=Snapshot(NOW_MS, pages=(page,)))
            forms = form_values.build_script_forms(stage.session, verb, target, dict(values))
            shown = [
                (name, describe(ref), {key: each for key, each in form.items() if key != "id"}, "id" in form)
                for name, ref, form in forms
            ]
            yield f"{verb.name} {values} {target.place!r}: {shown}"
            yield from stage.run("  checked", form_values.validate_form, stage.session, verb, target, dict(values))
    for refs in ((), (MAIL,), (NEWS, MAIL), (Ref("native", "a\x1b"),)):
        for verb, is_guarded in ((DELETE, True), (DELETE, False), (REQUEUE, True)):
            stage = Stage()
            stage.settings.is_guarded = is_guarded
            yield (
                f"word for {verb.name} {is_guarded} {len(refs)}: "
                f"{form_values.choose_guard_word(stage.session, verb, refs)!r}"
            )
    for keeper in (None, Recorder("keeper", [], check_problem=lambda: "the disk is full")):
        described = form_values.describe_undo_of_verb(Stage(keeper=keeper).session, DELETE, MAIL, 3, "dead")
        yield f"undo: {described}"


def describe_resolution() -> Iterator[str]:
    jobs = {1: (DEAD,), 2: (DEAD, DEAD), 20: (DEAD,) * 20, 21: (DEAD,) * 21, 0: ()}
    for verb in VERBS:
        row = []
        for number, chosen in jobs.items():
            for more in ({}, {"filter": "x"}, {"is_whole_place": True}):
                target = Target(MAIL, "dead", chosen, **more)
                row.append(
                    f"{number}{'f' * ('filter' in more)}{'w' * ('is_whole_place' in more)}"
                    f"{int(verb_resolution.needs_dry_run(verb, target))}"
                    f"{int(verb_resolution.needs_question(verb, target, True))}"
                    f"{int(verb_resolution.needs_question(verb, target, False))}"
                    f"{int(verb_resolution.needs_question(verb, target, True, True))}"
                    f"{int(verb_resolution.is_verb_offered(SYSTEMS['native'], verb, target))}"
                    f"{int(verb_resolution.is_verb_offered(SYSTEMS['rq'], verb, replace(target, place='failed')))}"
                )
        yield f"{verb.name}/{verb.script}: {' '.join(row)}"
    for place in ("dead", "ready", "reserved"):
        for system in SYSTEMS.values():
            target = Target(Ref(system.name, "q"), place, (HELD,), state=State.RESERVED)
            for name in ("purge", "release", "enqueue", "requeue", "delete"):
                if name in system.scripts:
                    arguments = verb_resolution.complete_script_arguments(
                        system, name, target, {"force": False, "keep": 1}
                    )
                    shown = {key: each for key, each in arguments.items() if key != "id"}
                    yield f"{system.name} {name} of {place}: {shown} {'id' in arguments}"


def describe_workers_and_purges() -> Iterator[str]:
    """Yield which verbs of workers a system offers, and how many jobs a purge takes per call."""
    for name in registry.list_own_system_names():
        system = registry.create_system(name)
        for worker_verb in ("quiet", "stop", "grow"):
            targets = (Target(Ref(name, "q"), workers=("w1",)), Target(Ref(name, "q"), "ready", (DEAD,)))
            offered = [verb_resolution.is_verb_offered(system, VERBS_BY_NAME[worker_verb], each) for each in targets]
            yield f"{name} offers {worker_verb}: {offered}"
        if "purge" in system.scripts:
            for place in ("", *(place.name for place in system.places)):
                target = Target(Ref(name, "q"), place)
                arguments = verb_resolution.complete_script_arguments(system, "purge", target, {})
                yield f"{name} purges {place!r}: {arguments}"


# ── copies and undo ──────────────────────────────────────────────────────────────────────────────────────────────────


def describe_duplicates() -> Iterator[str]:
    verb = next(verb for verb in VERBS if verb.script == "enqueue")
    full = replace(DEAD, id=b"x" * 41, priority=3, ttr_ms=500, max_attempts=2)
    stage = Stage()
    service = JobDuplication(stage.host, stage.session, Recorder("batches", stage.lines))
    yield from stage.run("no queue", service.open_duplicate_form, verb, Target(None, "dead", (DEAD,)))
    yield from stage.run("asking", service.open_duplicate_form, verb, Target(MAIL, "dead", (DEAD, OTHER)))
    stage.session.engine.fetch_job = lambda *args: stage.lines.append(f"fetch {describe(args)}")
    yield from stage.run("reading", stage.session.find_last_call("call_engine")[0], stage.session.engine)
    for job in (
        replace(DEAD, body=None),
        DEAD,
        full,
        replace(full, id=b"x" * 40, name="", priority=0, ttr_ms=0, max_attempts=0),
    ):
        yield from stage.answer("a job", job)
    yield from stage.answer("gone", error="")
    yield from stage.answer("an error", error="denied")
    yield from stage.answer("a job", full)
    broken = Recorder("broken", [], scripts=SYSTEMS["native"].scripts, can=SYSTEMS["native"].can, has_json_bodies=True)
    broken.__dict__.update(format_editable_body=lambda _job: (_ for _ in ()).throw(RqtuiError("it has a fault")))
    stage.session.systems = {"native": broken}
    yield from stage.run("a system with a fault", service._show_duplicate_form, verb, MAIL, full)
    stage.session.systems = SYSTEMS
    _dialog, accept = stage.app.find_last_call("push_screen")
    for values in ({"body": b"{}"}, {"body": b"{}", "delete_original": True}):
        for guard in ({}, {"token": b"t"}):
            yield from stage.run("no", accept, None)
            yield from stage.run(
                f"yes {values}", accept, FormReply({**values, "id": "n1"}, {"id": "n1"}, {"body": b"{}"})
            )
            (request,) = service._batches.find_last_call("send_requests")
            yield f"  {request.name} {describe(request.ref)} {request.form} {describe(request.jobs)}"
            yield from stage.run("refused", request.batch.on_refused, "it exists")
            if request.batch.on_changed is None:
                continue
            native = SYSTEMS["native"]
            stage.session.systems = {
                "native": Recorder(
                    "native",
                    stage.lines,
                    unchanged_guard=lambda *_args, guard=guard: guard,
                    script=native.script,
                    purges_by_job=native.purges_by_job,
                )
            }
            yield from stage.run("copied", request.batch.on_changed, None)
            if not guard:
                yield from stage.run("reading", stage.session.find_last_call("call_engine")[0], stage.session.engine)
                for job in (full, replace(full, attempts=9), replace(full, attempts=9, place="ready"), None):
                    yield from stage.run("now", stage.session.find_last_call("call_engine")[1], CallFinished(1, job))
                yield from stage.answer("an error", error="denied")
            stage.session.systems = SYSTEMS


def describe_undo() -> Iterator[str]:
    usual = Operation(
        NOW_MS, "me", "delete", "mail", "native", (b"j1",), 3, undo=("u1",), others=("news",), other_systems=("rq",)
    )
    undone, without = replace(usual, undone_at_ms=5), replace(usual, undo=())
    large = replace(usual, count=2_000_000, undo=())
    for title, operations in (
        ("none", []),
        ("usual", [usual]),
        ("undone", [undone]),
        ("without", [without]),
        ("later", [undone, without, usual]),
        ("large", [large, usual]),
    ):
        for has_operations in (False, True):
            stage = Stage(keeper=Recorder("keeper", [], folder="folder"))
            stage.journal.operations = operations
            stage.view.HAS_OPERATIONS = has_operations
            stage.view.find_selected_operation = lambda operations=operations: operations[0] if operations else None
            stage.session.run_steps = lambda function, handle, record=stage.session.run_steps: (
                record(function, handle) or 7
            )
            service = Undo(stage.host, stage.session, stage.navigation)
            yield from stage.run(f"undo of {title}, selected {has_operations}", service.undo_selected_change)
            yield f"  possible {service.is_possible}"
            yield from stage.run("again", service.undo_selected_change)
    for attributes in ({"keeper": None}, {"engine": None}, {"connection_loss": "lost"}, {"is_read_only": True}):
        stage = Stage(**{"keeper": Recorder("keeper", [], folder="folder"), **attributes})
        stage.journal.operations = [usual]
        service = Undo(stage.host, stage.session, stage.navigation)
        yield f"with {attributes} {service.is_possible}"
        if "is_read_only" not in attributes:
            yield from stage.run("undo", service.undo_selected_change)
    back = Outcome("revert", b"j1", "moved", "put back", 1)
    no_record = Outcome("revert", b"j2", "no record", "has no record")
    refused = Outcome("revert", b"x" * 31, "refused", "was refused")
    for total in (499, 500, 501):
        for outcomes, error, is_stopped in (
            ((back,), "", False),
            ((), "", False),
            ((no_record,), "", False),
            ((back, no_record), "", False),
            ((refused,) * 3, "", False),
            ((refused,) * 4, "", False),
            ((back,), "away", False),
            ((back,), "", True),
            ((replace(back, word="unknown"),), "", False),
            ((replace(refused, id=b"x" * 30),), "", True),
        ):
            if total != 500 and outcomes != (back,):
                continue
            stage = Stage(keeper=Recorder("keeper", [], folder="folder"), changes=[])
            stage.session.run_steps = lambda function, handle, record=stage.session.run_steps: (
                record(function, handle) or 7
            )
            stage.journal.operations = [replace(usual, count=total)]
            stage.journal.record_change = lambda *args, record=stage.journal.record_change, **options: (
                record(*args, **options) or SimpleNamespace(describe_outcomes=lambda: "1 put back" if args[4] else "")
            )
            service = Undo(stage.host, stage.session, stage.navigation)
            service.undo_selected_change()
            yield from stage.run("progress", service.format_progress)
            handle = stage.session.find_last_call("run_steps")[1]
            yield from stage.run("a step", handle, CallFinished(7, (), is_last=False))
            if is_stopped:
                yield from stage.run("stopping", service.stop_undo)
            yield from stage.run(f"{len(outcomes)} of {total} {error}", handle, CallFinished(7, outcomes, error))
            yield f"  {describe(stage.session.changes)} {service.format_progress()} {service.stop_undo()}"
    yield undo._format_refused_jobs(())


def test_what_changes_ask_send_and_report_matches_the_stored_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keys.set_keymap({})
    monkeypatch.setattr(batches, "time", CLOCK)
    monkeypatch.setattr(undo, "time", CLOCK)
    parts = (describe_outcomes, describe_batches, describe_long_changes, describe_selections, describe_durations,
             describe_bulk_questions, describe_rate_limited, describe_starts, describe_checks, describe_running,
             describe_forms, describe_resolution, describe_workers_and_purges, describe_duplicates,
             describe_undo)  # fmt: skip
    assert_lines_match_file((line for part in parts for line in part()), KEPT)
