"""Which numbers and times commands accept, and how they print figures: `figures_at_bounds.txt` has every line.

`RQTUI_WRITE_SNAPSHOTS=1 pytest tests/cli/test_figures_at_bounds.py` writes the text; review the difference as code.
"""
# ruff: noqa: B023  # each function runs in the turn of the loop that defines it

from __future__ import annotations

import io
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from command_output import Output
from kept_text import assert_lines_match_file
from service_stage import JOBS, MAIL, NEWS, SYSTEMS, Recorder, describe
from text_snapshots import stopped_clock  # noqa: F401

from rqtui.cli import (
    act_result,
    arguments,
    demo,
    diff,
    dispatch,
    errors,
    group,
    json_body,
    kinds,
    loop_runner,
    loops,
    main,
    metrics,
    operations,
    past,
    put,
    reap,
    record,
    schedules,
    search,
    set_fields,
    settled_snapshot,
    show,
    snapshot,
    undo,
    work,
)
from rqtui.cli import workers as workers_command
from rqtui.cli.session import Session
from rqtui.config.settings import Settings
from rqtui.engine.loops import Round, ScriptStep
from rqtui.errors import Refused, ServerError
from rqtui.ids import ID_BYTES
from rqtui.model import Attempt, Job, Outcome, Queue, Rate, Ref, Schedule, Snapshot, State
from rqtui.operations.journal import Operation
from rqtui.operations.undo_files import UndoRecord
from rqtui.reports import loops as loop_reports
from rqtui.reports.errors import Errors
from rqtui.reports.errors import Group as ErrorGroup
from rqtui.reports.groups import Group, Groups
from rqtui.reports.kinds import Kind, Kinds
from rqtui.reports.sampling import Extent
from rqtui.reports.search import PlaceMatches, SearchResult
from rqtui.reports.workers import WorkerEntry, WorkerHealth

KEPT = Path(__file__).with_name("figures_at_bounds.txt")
NOW_MS = 1_800_000_000_000
QUIET = Ref("quiet", "sms")
JOB = Job(b"j1", "mail", "native", "dead", State.DEAD, b"j1", name="send", body=b"{}")


class Opened(Session):
    """A session that ends a command where it would connect."""

    def create_engine(self, **_options: Any) -> Any:
        raise Refused("accepted.")


SESSION: Any = Opened(Settings("redis://127.0.0.1:1"))


def accept(*_args: object, **_options: object) -> Any:
    raise Refused("accepted.")


def accept_span(*span: object) -> Any:
    raise Refused(f"accepted {span}.")


# ── options ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def describe_options(out: Output) -> Iterator[str]:
    for module in (group, loops, diff):
        out.patch.setattr(module, "open_engine", accept)
    for module in (reap, dispatch):
        out.patch.setattr(module, "run_foreground_loop", accept)
    out.patch.setattr(demo, "run_scenario", accept)
    out.patch.setattr(snapshot, "_watch_snapshots", accept)
    out.patch.setattr(metrics, "SnapshotSource", accept)
    out.patch.setattr("rqtui.operations.journal.load_operations", accept)
    out.patch.setattr("rqtui.recording.files.find_recording_path", accept)
    whole = (-1, 0, 1, 2)
    bounds: tuple[tuple[Callable[..., Any], tuple[Any, ...], str, tuple[Any, ...]], ...] = (
        (group.group, (SESSION, "mail"), "limit", whole),
        (loops.loops, (SESSION, None), "limit", (*whole, 999, 1000, 1001)),
        (metrics.metrics, (SESSION,), "most", whole),
        (operations.operations, (SESSION,), "limit", whole),
        (reap.reap, (SESSION,), "every_s", (float("nan"), 0.009, 0.01, 86_399.0, 86_400.0, 86_400.1, 86_401.0)),
        (reap.reap, (SESSION,), "limit", (*whole, 1000, 1001)),
        (dispatch.dispatch, (SESSION, ["mail"]), "batch_size", (*whole, 999, 1000, 1001)),
        (demo.demo, (SESSION,), "seconds", (float("nan"), 0.09, 0.1, 86_399.0, 86_400.0, 86_400.1, 86_401.0)),
        (snapshot.snapshot, (SESSION,), "watch_s", (float("nan"), 0.049, 0.05, 86_399.0, 86_400.0, 86_401.0)),
        (record.record, (SESSION,), "every_s", (0.24, 0.25, 60.0, 60.1)),
        (record.record, (SESSION,), "jobs", (-1, 0, 1, 99, 100, 101)),
    )
    for function, args, option, values in bounds:
        for value in values:
            yield from out.run(f"{function.__name__} {option} {value}", function, *args, **{option: value})
    for verbose in (0, 1, 2):
        for as_json in (False, True):
            made: list[Any] = []
            with pytest.MonkeyPatch.context() as patch:
                for name in ("_Table", "Report"):
                    patch.setattr(
                        dispatch, name, lambda *args, name=name: made.append((name, args[3])) or io.StringIO()
                    )
                yield from out.run(
                    f"dispatch -{'v' * verbose} {as_json}",
                    dispatch.dispatch,
                    Opened(Settings(), as_json),
                    ["mail"],
                    verbose=verbose,
                )
            yield f"  {made}"
    for text in ("9753", ":0", "h:65535", "h:65536", "::1", "[::1]:1", "[]:1", "h:", "h:x", "h:²", "[a:1", "0"):
        yield from out.run(f"listen {text}", metrics.parse_listen_address, text)
    for text in (
        "2026-11-21T00:00:00Z",
        "2026-11-21T00:00:00.001Z",
        "2026-11-20T23:59",
        "2h",
        "0ms",
        "x",
        "1:x",
        "2027-13-01",
    ):
        yield from out.run(f"time {text}", past.parse_past_time, text, "--at")
    for last, ago, by_time in (
        (None, None, None),
        (None, "1h", None),
        (None, None, "ended"),
        ("999ms", None, None),
        ("1s", None, None),
        ("1001ms", "0s", "ended"),
        ("1h", "1d", "x"),
    ):
        yield from out.run(f"last {last} {ago} {by_time}", diff._parse_time_options, last, ago, by_time)
    for text in ("a", "a,b", "a,,a", ",", ""):
        yield f"places {text!r}: {diff._split_places(text)}"
    for begin, end in (("2h", "1h"), ("1h", "1h"), ("1h", "2h"), (None, "1h"), ("1h", None)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("rqtui.recording.store.Reader.open", lambda _path: nullcontext(Recorder("reader", out.lines)))
            patch.setattr("rqtui.recording.export.export_recording", lambda *args, **_options: accept_span(*args[2:]))
            yield from out.run(
                f"from {begin} to {end}", record._export_span, SESSION, Path("a"), Path("b"), begin, end, has_jobs=True
            )
    for no_wait in (False, True):
        for snapshot_of_all in (None, "snapshot"):
            source = SimpleNamespace(take_snapshot=lambda: (snapshot_of_all, 0.5))
            out.patch.setattr(metrics, "SnapshotSource", lambda _session: source)
            out.patch.setattr(metrics, "_serve_metrics", lambda *args: out.lines.append(f"serve {args[2:]}") or 0)
            served = out.run(
                f"serve {no_wait} {snapshot_of_all}", metrics.metrics, SESSION, listen=":7", no_wait=no_wait
            )
            yield from served
    out.patch.undo()
    for seconds in (-1.0, 0.0, 0.001, demo.MAX_SECONDS, demo.MAX_SECONDS + 1):
        for scenario in ("delays", "chaos"):
            yield from out.run(f"{scenario} for {seconds}", demo.run_scenario, scenario, seconds=seconds)
    for seed in (-1, 0, 1, 2**63 - 1, 2**63):
        yield from out.run(f"seed {seed}", demo.run_scenario, "delays", seed=seed)


def describe_bodies(out: Output, folder: Path) -> Iterator[str]:
    for length in (39, 40, 41):
        yield from out.run(f"{length} letters", json_body.encode_json_body, b"x" * length)
    for raw in (b'"text"', b" {} ", b"NaN", b'"\\ud800"', b"\xff", b"1"):
        yield from out.run(f"{raw!r}", json_body.encode_json_body, raw)
    yield f"the longest body: {put.MAX_BODY_BYTES}, jobs per call: {put.BATCH}"
    out.patch.setattr(put, "MAX_BODY_BYTES", 20)
    for length in (19, 20, 21):
        yield from out.run(f"{length} bytes", put._read_body_argument, "b" * length, True)
        line = b'{"body":"' + b"b" * (length - 12) + b'"}\n'
        lines = b"\n" + line
        yield from out.run(
            f"a line of {len(line)} bytes", lambda: list(put._read_jobs_from_lines(io.BytesIO(lines), {}))
        )
    for fields in (
        {"id": ""},
        {"id": "x"},
        {"id": "x" * ID_BYTES},
        {"id": "x" * (ID_BYTES + 1)},
        {"id": "é" * (ID_BYTES // 2)},
        {"id": 5},
        {"name": 5},
        {"nosuch": 1},
        {"priority": True},
        {"priority": "x"},
        {"priority": 3},
        {"delay": "1s", "due": 5},
        {"delay": "x"},
        {"backoff": "x"},
        {"due": "5"},
        {"due": "x"},
    ):
        yield from out.run(f"fields {describe(fields)[:60]}", put._convert_job_fields, fields, "line 7: ")
    for length in (19, 20, 21, 22):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"b" * length)))
            yield from out.run(f"{length} bytes of stdin", put._read_body_argument, "-", True)
    for words, failure in (
        (["moved", "moved"], None),
        (["moved", "exists"], None),
        (["moved", "full"], None),
        (["moved"], Refused("no.")),
        ([], Refused("no.")),
        (["moved"], KeyboardInterrupt()),
    ):
        for as_json in (False, True):
            with pytest.MonkeyPatch.context() as patch:
                bar = Recorder("bar", out.lines)

                def put_batches(read: Any, words: list[str] = words, failure: Any = failure) -> Iterator[Any]:
                    out.lines.append(f"{len(list(read))} jobs are read")
                    for word in words:
                        yield [SimpleNamespace(id="a", word=word)]
                    if failure is not None:
                        raise failure

                (folder / "lines").write_bytes(b'{"body":1}\n\n{"body":2}\n')
                queue = SimpleNamespace(name="mail", put_batches=put_batches)
                patch.setattr(put, "_open_queue", lambda _session, _name: queue)
                patch.setattr(put.output, "show_progress", lambda _label: nullcontext(bar))
                session = Session(Settings(), as_json)
                yield from out.run(
                    f"lines {words} {failure!r} {as_json}",
                    put._put_jobs_from_lines,
                    session,
                    "mail",
                    str(folder / "lines"),
                    {},
                )
                yield f"  of {bar.total}"
    for counts in ({"moved": 2, "exists": 1}, {"moved": 0, "exists": 0, "full": 3}):
        yield from out.run("summary", put._write_put_summary, SESSION, "mail", [], Counter(counts))
    native = SYSTEMS["native"]
    for name in ("enqueue", "reschedule", "requeue"):
        script = native.script(name)
        for arg in (*script.args, *script.each):
            for value in ("", "5", "5s", "x", "yes", "no", ".5s", "5x", "1.5"):
                for in_seconds in (False, True):
                    if arg.name.endswith("_ms") or not in_seconds:
                        yield from out.run(
                            f"{name} {arg.name} {value!r} {in_seconds}",
                            set_fields._convert_field_value,
                            arg,
                            value,
                            in_seconds,
                        )
    for assignment in ("a", "a=", "a_ms=", "a_ms=5", "a_ms=5s", "a_ms=x"):
        yield from out.run(f"setting {assignment}", set_fields._parse_queue_setting, assignment)


# ── tables ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def describe_tables(out: Output) -> Iterator[str]:
    engine: Any = SimpleNamespace(format_argument=lambda ref: ref.queue, systems=SYSTEMS)
    made = [
        Group(
            f"value {number}",
            40 - number,
            {"ready": 40},
            number * 1000 or None,
            f"job:{number}",
            done_per_s=number / 7 or None,
        )
        for number in range(4)
    ]
    for looked, of, is_random in ((100, 100, True), (99, 100, True), (10, 100, False)):
        for number, limit in ((0, 2), (1, 2), (2, 2), (3, 2), (4, 2)):
            groups = Groups(
                MAIL,
                "kind",
                ("ready",),
                tuple(made[:number]),
                Extent(NOW_MS, looked, of, 0, 0),
                99,
                is_random,
                done_ms=60_000,
                rate_problem="",
                states={"ready": State.READY},
            )
            yield from out.run(f"{number} groups, {looked} of {of}", group._write_group_table, groups, limit)
            yield from out.run(
                "document", group._build_group_document, engine, groups, "ready", None if limit else "x", limit
            )
            for expression, problem in ((None, ""), ("x", "no history")):
                shown = replace(groups, rate_problem=problem)
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(group, "open_engine", lambda *_args: (engine, [MAIL]))
                    patch.setattr(group.sampling, "build_with_progress", lambda *_args, shown=shown: shown)
                    patch.setattr(group, "report_places_without_events", lambda *_args: None)
                    patch.setattr(group, "_print_commands", lambda *_args: None)
                    patch.setattr("rqtui.reports.groups.yield_group_reports", lambda *_args: iter(()))
                    yield from out.run(
                        f"filter {expression}",
                        group.group,
                        Session(Settings()),
                        "mail",
                        expression=expression,
                        limit=limit,
                    )
    for number in (1, 2, 3, 4):
        names = ("a", "b", "c", "d")[:number]
        refs = (MAIL, NEWS, JOBS, replace_queue("x"))[:number]
        error = ErrorGroup(
            ("k",), "Boom", "Boom", "a.py:1", 2, 3, 1, NOW_MS - 90_000, NOW_MS - 30_000, names, refs, (JOB,)
        )
        yield from out.run(f"{number} kinds", errors._write_error_table, errors_of(error), refs)
    for matched in (1, 2):
        place = PlaceMatches(MAIL, "dead", State.DEAD, 9, 5, matched, (replace(JOB, error="first\nlast"),))
        result = SearchResult((place,), Extent(NOW_MS, 5, 9, 0, 0), 0)
        yield from out.run(f"{matched} matches", search._write_matches, result, (MAIL,))
    for number in (0, 1, 11, 12, 13):
        job = replace(JOB, error="Boom", history=(Attempt(NOW_MS, NOW_MS, "w", "\n".join(map(str, range(number)))),))
        yield from out.run(f"an error of {number} lines", show._build_failure_lines, job)
    kind = Kind(MAIL, "send", {State.READY: 4}, 3, 61_000, 250, 900)
    yield from out.run("kinds", kinds._write_kind_table, kinds_of(kind), (MAIL,))
    for length in (199, 200, 201):
        run_of_job: Any = SimpleNamespace(
            id="a",
            name="send",
            attempt=2,
            outcome="failed",
            exit_code=1,
            seconds=1.2345,
            error="first\n" + "e" * length,
        )
        for as_json in (False, True):
            printer = find_printer()(Session(Settings(), as_json), "mail")
            yield from out.run(f"a run with {length} letters {as_json}", printer, run_of_job)
    for number in (49, 50, 51):
        outcomes = [Outcome("requeue", b"j", "moved", "ready again", 1)] * number
        yield from out.run(
            f"{number} outcomes",
            lambda outcomes=outcomes: act_result._write_outcome_summary(
                MAIL, SYSTEMS["native"].script("requeue"), outcomes, Counter({"moved": number})
            ),
        )
    side: Any = SimpleNamespace(
        places=("dead",),
        selection=SimpleNamespace(expression="x", accepts=None),
        jobs=3,
        looked=3,
        of=9,
        is_random=True,
    )
    found: Any = SimpleNamespace(
        conditions=(SimpleNamespace(attribute="tenant", operator="is", value="a"),), a_jobs=3, a_share=0.123456,
        b_jobs=1, b_share=0.098765, p_value=0.01, more=2, is_explained=False, is_result=True, is_time=False,
    )  # fmt: skip
    for detectable in (None, 0.123456):
        differences = SimpleNamespace(attributes=4, conditions=5, pairs=6, detectable=detectable, found=(found,))
        comparison: Any = SimpleNamespace(
            size=Extent(NOW_MS, 3, 9, 0, 0), ref=MAIL, a=side, b=side, left_out=("body",), differences=differences
        )
        yield from out.run(f"a comparison, {detectable}", diff.build_comparison_document, comparison)
    usual = Operation(NOW_MS, "me", "requeue", "mail", "native", url="redis://127.0.0.1:1")
    for number, others in ((0, 0), (1, 1), (2, 2), (3, 0)):
        kept = [usual] * number + [replace(usual, url="redis://other")] * others
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("rqtui.operations.journal.load_operations", lambda *_args, kept=kept, **_options: kept)
            for everywhere in (False, True):
                yield from out.run(
                    f"{number} and {others} changes {everywhere}",
                    operations.operations,
                    SESSION,
                    limit=2,
                    everywhere=everywhere,
                )
    sightings = [SimpleNamespace(at_ms=NOW_MS - ms) for ms in (3_600_001, 3_600_000, 0)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rqtui.operations.journal.load_sightings", lambda *_args: sightings)
        for began_ms in (0, NOW_MS - 1):
            found = operations._load_sightings([replace(usual, began_ms=began_ms)], "x")
            yield f"findings since an hour before {began_ms}: {[NOW_MS - each.at_ms for each in found]}"


def replace_queue(name: str) -> Any:
    return type(MAIL)("native", name)


def errors_of(error: ErrorGroup) -> Any:
    from rqtui.reports.errors import Errors

    return Errors((error,), Extent(NOW_MS, 0, 0, 0, 0))


def kinds_of(kind: Kind) -> Any:
    from rqtui.reports.kinds import Kinds

    return Kinds((kind,), Extent(NOW_MS, 0, 0, 0, 0))


def find_printer() -> Any:
    return next(each for each in vars(work).values() if isinstance(each, type) and hasattr(each, "print_command_line"))


def describe_reports(out: Output) -> Iterator[str]:
    """Yield what commands print around their tables: of empty and partial reports, and of systems that store little."""
    out.describe_progress()
    quiet = SimpleNamespace(
        name="quiet", known_fields=frozenset(), events_since_ms=None, defaults={}, can=lambda _verb: False,
        places=[SimpleNamespace(name="done", is_from_events=True), SimpleNamespace(name="wait", is_from_events=False)],
    )  # fmt: skip
    engine = Recorder(
        "engine", out.lines, systems={**SYSTEMS, "quiet": quiet}, refs=[MAIL, JOBS], is_listening=False,
        format_argument=lambda ref: ref.queue,
    )  # fmt: skip
    whole, part = Extent(NOW_MS, 9, 9, 2, 2), Extent(NOW_MS, 8, 9, 1, 2, ("mail: wrong type",))
    error_group = ErrorGroup(("k",), "Boom: no", "Boom", "a.py:8", 2, 3, 1, None, None, ("send",), (MAIL,), (JOB,))
    kind = Kind(MAIL, "send", {State.READY: 4}, 3, 61_000, 250, 900)
    places = (PlaceMatches(MAIL, "dead", State.DEAD, 9, 9, 3, (JOB,)),)
    worker = WorkerEntry(MAIL, "w1", WorkerHealth.UNSEEN, None, (JOB,), True)
    schedule = Schedule("nightly", "rq", "mail", "0 3 * * *", "clean()", NOW_MS, None, "w1")
    loop = loop_reports.Report(NOW_MS, (loop_reports.LoopState("dispatch", 2, -5_000, 1),), ())
    made = (Group("a", 9, {"dead": 9}, 5, "kind:a"),)
    cases: tuple[tuple[Any, str, tuple[Any, ...], tuple[Any, ...]], ...] = (
        (errors.errors, "reports.errors.yield_error_reports", (), (
            [None, Errors((), whole)], [Errors((error_group,), part)], [Errors((), part)])),
        (kinds.kinds, "reports.kinds.yield_kind_reports", (), (
            [Kinds((), whole)], [Kinds((kind,), part)], [Kinds((), whole, silent=("quiet",))])),
        (search.search, "reports.search.yield_search_results", ("error~no",), (
            [SearchResult((), whole, 0)], [SearchResult(places, part, 0)], [SearchResult(places, whole, 2)])),
        (workers_command.workers, "reports.workers.load_workers", (), (([], NOW_MS, ()), ([worker], NOW_MS, ["away"]))),
        (schedules.schedules, "reports.schedules.load_schedules", (), (
            ([], NOW_MS, ()), ([schedule], NOW_MS, ["away"]))),
        (loops.loops, "reports.loops.build_loop_report", (), (loop,)),
        (group.group, "reports.groups.yield_group_reports", ("mail", "dead", "kind"), tuple(
            [Groups(MAIL, "kind", ("dead",), found, size, 9, is_random, 0, "", states={"dead": State.DEAD})]
            for found, size, is_random in (
                ((), whole, True), (made, whole, True), (made, part, True), (made, part, False)
            )
        )),
    )  # fmt: skip
    for command, build, args, reports in cases:
        for number, report in enumerate(reports):
            knows_quiet = command in (errors.errors, kinds.kinds, workers_command.workers)
            for refs in ([MAIL], [QUIET], [QUIET, MAIL])[: 3 if knows_quiet else 1]:
                for as_json in (False, True)[: 2 if refs == [MAIL] else 1]:
                    with pytest.MonkeyPatch.context() as patch:
                        patch.setattr(f"rqtui.{build}", lambda *_args, report=report, **_options: report)
                        patch.setattr(sys.modules[command.__module__], "open_engine", lambda *_args: (engine, refs))
                        if command is workers_command.workers:
                            seconds = 1.5 * len(refs) - 1.5
                            patch.setattr(workers_command, "listen_for_heartbeats", lambda *_args: seconds)
                        session = Session(Settings("redis://here"), as_json)
                        yield from out.run(
                            f"{command.__name__} {number} of {[ref.system for ref in refs]} {as_json}",
                            command,
                            session,
                            *args,
                        )


# ── loops ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def describe_loops(out: Output) -> Iterator[str]:
    steps = [
        ScriptStep("dispatch", MAIL, moved, 500, {"scheduled": 3, "ready": ready, "next_ms": -1}, NOW_MS / 1000)
        for moved, ready in ((0, 1), (0, 1), (2, 1), (0, 0))
    ]
    table = dispatch._Table(Session(Settings()), dispatch._build_dispatch_line, ("queue", "dispatched"), True, "")
    for step in steps:
        for wait_s in (0.0, 1.0001):
            yield from out.run(
                f"{step.moved} moved",
                table._write_lines,
                [dispatch._build_dispatch_line(step, "mail", Round(wait_s=wait_s))],
            )
    for wait_s in (0.999, 1.0, 1.001, 2.0):
        waiting = dispatch._build_dispatch_line(None, "mail", Round(wait_s=wait_s))
        yield f"waiting {waiting}"
        table._last = ()
        lines = [waiting, dispatch._build_dispatch_line(steps[2], "news", Round())]
        yield from out.run("two queues", table._write_lines, lines)
        table._last = ()
        yield from out.run("two queues", table._write_lines, lines[::-1])
    for url in ("redis://h", "redis+cluster://a:1,b:2"):
        for systems in ((), ("native",), ("dispatcher",), ("native", "dispatcher:ready=r", "dispatcher")):
            for keys in ({}, {"delayed": "d"}, {"delayed": "d", "ready": "r"}, {"ready": "a,b"}):
                for is_open in (False, True):
                    session = Session(Settings(url, systems=systems))
                    yield from out.run(
                        f"keys {url} {systems} {keys} {is_open}",
                        lambda *args, **options: (
                            (made := dispatch._add_dispatcher_keys(*args, **options))[0].settings.systems,
                            made[1],
                        ),
                        session,
                        keys,
                        is_open=is_open,
                    )
    yield from out.run("no lines", table._write_lines, [])
    titles = 0
    for number in range(110):
        table._last = ()
        lines = [*out.run("line", table._write_lines, [dispatch._build_dispatch_line(steps[2], "mail", Round())])]
        if len(lines) > 2:
            titles += 1
            yield f"titles again at line {number}"
    yield from out.run("the end", table.close)
    empty = dispatch._Table(Session(Settings()), dispatch._build_dispatch_line, ("queue", "dispatched"), True, "")
    yield from out.run("nothing was printed", empty.close)
    for values in ({}, {"ready": 2, "dead": 1, "next_ms": -1}, {"next_ms": 0}, {"next_ms": 5}):
        step = ScriptStep("reap", MAIL, 0, 500, values, NOW_MS / 1000)
        waiting = reap._build_reap_line(None, "mail", Round(wait_s=1.2345))
        yield f"reaped {reap._build_reap_line(step, 'mail', Round())} {waiting}"
    report = loop_runner.Report(
        Session(Settings()), reap._build_reap_line, ("queue", "ready", "dead", "next_ms", "backing_off"), True
    )
    for queue in ("mail", "q" * 24, "q" * 25):
        for wait_s in (0.0, 12345.6789):
            yield from out.run(
                f"row of {len(queue)}",
                report._write_table_row,
                reap._build_reap_line(None, queue, Round(wait_s=wait_s)),
            )
    for now_s, due_s in ((29.9, 0.0), (30.0, 30.0), (30.0, 30.1), (60.0, 30.0)):
        engine: Any = SimpleNamespace(
            discover=lambda: out.lines.append("search") or (),
            resolve_or_discover=lambda name: MAIL,
            systems=SYSTEMS,
            refs=[MAIL, JOBS],
            explain_denial=lambda _verb, ref: "no" * (ref == JOBS),
            raise_if_refused=lambda *_args: None,
        )
        for names in ((), ("mail",)):
            queues = loop_runner._LoopQueues(engine, "dispatch", names)
            queues._due_s = due_s
            out.patch.setattr(loop_runner, "time", SimpleNamespace(monotonic=lambda now_s=now_s: now_s))
            yield from out.run(f"queues of {names} at {now_s} of {due_s}", queues)
            yield f"  next search at {queues._due_s}"
            yield from out.run("again", queues)
    for in_ms in (-1001, -1000, -999, 0, 999, 60_000):
        yield f"due {in_ms}: {loops._format_due_time(in_ms) if hasattr(loops, '_format_due_time') else ''}"


def describe_loop_runs(out: Output) -> Iterator[str]:
    """Yield which queues a dispatcher works on, what it says about the others, and how its rounds are printed."""

    def system(name: str, verbs: str, *, is_explicit: bool, needs_key_walk: bool = False) -> Any:
        args = [SimpleNamespace(name="limit")]
        return SimpleNamespace(
            name=name, is_explicit=is_explicit, needs_key_walk=needs_key_walk, can=verbs.split().__contains__,
            script=lambda _verb: SimpleNamespace(args=args),
        )  # fmt: skip

    systems = {
        each.name: each
        for each in (
            system("asked", "dispatch", is_explicit=True),
            system("found", "dispatch", is_explicit=False),
            system("idle", "", is_explicit=False),
        )
    }
    refs = {"mail": Ref("asked", "mail"), "news": Ref("found", "news"), "sms": Ref("idle", "sms")}

    def refuse(verb: str, ref: Ref) -> None:
        out.lines.append(f"check {verb} {ref}")

    def build_engine(*names: str, others: Any = (), needs_key_walk: bool = False) -> Any:
        systems["asked"].needs_key_walk = needs_key_walk
        return SimpleNamespace(
            systems=systems, refs=[refs[name] for name in names], others=others, raise_if_refused=refuse,
            explain_denial=lambda _verb, _ref: "", discover=lambda: out.lines.append("search") or (),
            resolve=lambda name: out.lines.append(f"resolve {name}") or Ref(*name.split(":")),
            resolve_or_discover=lambda name: out.lines.append(f"find {name}") or refs[name],
        )  # fmt: skip

    for able, args in (([], {}), (["asked"], {}), (["asked"], {"limit": 1}), (["asked", "found"], {"delayed": "x"})):
        chosen = [systems[name] for name in able]
        yield from out.run(
            f"systems {able} {args}", loop_runner._check_loop_systems, build_engine(), "dispatch", chosen, args
        )
    for names in ((), ("mail",), ("sms",), ("asked:q", "news")):
        for needs_key_walk in (False, True):
            queues = loop_runner._LoopQueues(build_engine(*refs, needs_key_walk=needs_key_walk), "dispatch", names)
            yield from out.run(f"named {names}, searches {needs_key_walk}", queues.check_named_queues)
            queues.names = [name for name in names if ":" not in name]
            yield from out.run("queues", queues)
        yield from out.run(
            f"start with {names}", loop_runner._report_loop_start, SESSION, build_engine(), queues, ["asked"]
        )
    for names in ((), ("news",), ("sms",), ("news", "sms", "mail")):
        for others in ((), ("x",)):
            engine = build_engine(*names, others=others)
            yield f"no queue, {names} {others}: {loop_runner._explain_no_queue(engine, 'dispatch', ['asked'])}"
    step = ScriptStep("dispatch", refs["mail"], 2, 500, {"moved": 2}, NOW_MS / 1000)
    unasked = ScriptStep("dispatch", refs["news"], 0, 500, {"ready": 0}, NOW_MS / 1000)
    failed = ScriptStep("dispatch", refs["mail"], 0, 500, {}, NOW_MS / 1000, error="wrong type")
    rounds = {
        "error": [Round(error="away", wait_s=2.0)] * 2, "nothing": [Round()], "moved": [Round((step,))],
        "failed": [Round((failed,)), Round((failed,)), Round((step,)), Round((failed,))],
        "unasked": [Round((unasked,)), Round((unasked, replace(unasked, values={"ready": 1})))],
        "idle": [Round((unasked,))],
    }  # fmt: skip
    for name, each in rounds.items():
        for every_step, as_json, named in (
            (False, False, ()),
            (True, False, ()),
            (False, True, ()),
            (True, True, ("mail",)),
        ):
            session: Any = SimpleNamespace(
                as_json=as_json, format_retry_message=lambda error, wait_s: f"{error}, again in {wait_s} s."
            )
            line = dispatch._build_dispatch_line
            with loop_runner.Report(session, line, ("queue", "dispatched"), every_step, "found") as report:
                report.refs = loop_runner._LoopQueues(build_engine(), "dispatch", named)
                for number, finished in enumerate(each):
                    yield from out.run(f"{name} {number} {every_step} {as_json} {named}", report, finished)
            loop: Any = SimpleNamespace(step=lambda each=each: each[0])
            run = loop_runner._run_one_step
            yield from out.run(f"one step, {name} {named}", run, build_engine(), loop, report, report.refs, ["asked"])


def describe_waiting(out: Output) -> Iterator[str]:
    clock = [100.0]

    def sleep(seconds: float) -> None:
        out.lines.append(f"sleep {seconds:.3f}")
        clock[0] += seconds

    fake_time = SimpleNamespace(monotonic=lambda: clock[0], sleep=sleep)
    out.patch.setattr(snapshot, "time", fake_time)
    out.patch.setattr(arguments, "time", fake_time)
    for is_listening in (False, True):
        for seconds in (0.0, 0.25, 2.0):
            engine: Any = Recorder("engine", out.lines, is_listening=is_listening)
            yield from out.run(f"wait {seconds} {is_listening}", snapshot._wait_and_deliver_events, engine, seconds)
    for intervals in ((), (0,), (None,), (100,), (100, 200)):
        refs = [type(MAIL)(f"system {number}", "q") for number in range(len(intervals))]
        systems = {
            f"system {number}": SimpleNamespace(heartbeat_event_interval_ms=interval)
            for number, interval in enumerate(intervals)
        }
        yield from out.run(
            f"heartbeats every {intervals}",
            arguments.listen_for_heartbeats,
            Recorder("engine", out.lines, systems=systems),
            refs,
        )
    replies: list[Any] = [
        ServerError("away"),
        ServerError("away"),
        "first",
        ServerError("away"),
        "second",
        KeyboardInterrupt(),
    ]

    def take(*_args: object, **_options: object) -> Any:
        reply = replies.pop(0)
        if isinstance(reply, BaseException):
            raise reply if not isinstance(reply, KeyboardInterrupt) else Refused("the end.")
        return reply

    out.patch.setattr(snapshot, "_take_sorted_snapshot", take)
    out.patch.setattr(snapshot, "_write_snapshot", lambda *args, **_options: out.lines.append(f"write {args[2]}"))
    out.patch.setattr(snapshot, "compute_reconnect_delay_s", lambda failures: 10.0 + failures)
    session: Any = SimpleNamespace(
        retry_until_redis_answers=lambda begin, no_wait: Recorder(
            "engine", out.lines, is_listening=False, discover=lambda: out.lines.append("search") or ()
        ),
        format_retry_message=lambda error, wait_s: f"{error} {wait_s}",
        as_json=False,
    )
    yield from out.run("watching", snapshot._watch_snapshots, session, None, 5.0, False)
    out.patch.setattr(settled_snapshot, "sleep", lambda seconds: out.lines.append(f"sleep {seconds}"))
    out.patch.setattr("rqtui.engine.health.rules.find_unwatched_facts", lambda queue, _rate: queue.unknown)
    from rqtui.engine.health import rules
    from rqtui.engine.ticker import RefreshFailed, ServerLost, SnapshotTaken
    from rqtui.model import Focus

    recorder = Recorder("recorder", out.lines, choose_pages=lambda _snapshot, _systems: ("page",))
    handler = record._EventHandler(session, Recorder("engine", [], systems={}), recorder)
    handler.set_next_focus = lambda focus: out.lines.append(f"focus {focus.pages}")
    out.patch.setattr("time.monotonic", lambda: 100.0)
    lost = ServerLost("away", 90.0, 102.345)
    taken_event = SnapshotTaken(Snapshot(NOW_MS), Focus())
    for event in (lost, lost, lost._replace(next_s=99.0), RefreshFailed("no", 90.0, 1.0), lost, taken_event, lost):
        yield from out.run(f"recording {type(event).__name__}", handler.handle_event, event)
    idle = Queue("mail", "native", workers=2, unknown=(rules.IDLE_WORKERS,), counted_ms=5)
    for after in (1, 3, 99):
        for workers, moved_ms in ((2, 5), (2, 6), (0, 5)):
            taken: list[Any] = []

            def take_snapshot(
                focus: Any,
                taken: list[Any] = taken,
                after: int = after,
                workers: int = workers,
                moved_ms: int = moved_ms,
            ) -> Snapshot:
                taken.append(focus.is_thorough)
                queue = idle._replace(workers=workers, unknown=() if len(taken) > after else idle.unknown)
                return Snapshot(NOW_MS, (queue,), rates={MAIL: Rate(idle_since_ms=moved_ms if len(taken) > 1 else 5)})

            settled: Any = SimpleNamespace(
                take_snapshot=take_snapshot, attach_idle_workers=lambda _ref, queue, _rate: queue
            )
            yield from out.run(
                f"settled after {after} {workers} {moved_ms}",
                lambda: settled_snapshot.take_settled_snapshot(settled, [MAIL]).unwatched,
            )
            yield f"  {taken}"
    for since_ms in (None, 4, 5, 6):
        yield f"moved {since_ms}: {settled_snapshot._has_moved(idle, Rate(idle_since_ms=since_ms))}"


# ── undo and main ────────────────────────────────────────────────────────────────────────────────────────────────────


def describe_undo(out: Output) -> Iterator[str]:
    out.describe_progress()

    def change(number: int, *names: str, **fields: Any) -> Any:
        return tuple(
            UndoRecord(f"u{number}", "requeue", system, name, "redis://x", "me", NOW_MS - number, **fields)
            for system, name in (each.split(":") for each in names)
        )

    plain, several, undone = (
        change(1, "native:mail"),
        change(2, "native:mail", "rq:news", "rq:x"),
        change(3, "native:a b", undone_at_ms=5),
    )
    first, *others = several
    several = (
        first,
        *(replace(each, name="", verb="delete", at_ms=each.at_ms - 9, unsaved_count=7) for each in others),
    )
    large = (replace(change(4, "native:mail")[0], name="", unsaved_count=2_000_000),)
    changes = [plain, undone, several, large]
    records = {
        each.name: each for each in (change(2, "native:mail")[0], change(4, "native:mail")[0], change(6, "rq:a")[0])
    }
    records["v4"] = replace(records["u4"], name="v4", queue="news")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rqtui.operations.undo_files.list_records", lambda _folder: ["u2", "u4", "v4", "u6"])
        patch.setattr(undo, "_read_undo_records", lambda _folder, _url, names: (records[name] for name in names))
        for ages in ((), (1,), (2,), (3,), (1, 1), (3, 4), (4,), (5, 7), (7, 8)):
            too_large = Operation(NOW_MS, "me", "delete", "mail", "native", count=2_000_000, url="redis://x")
            made = [replace(too_large, at_ms=NOW_MS - age) for age in ages]
            of_two = replace(too_large, undo=("u4", "v4"), count=2)
            patch.setattr("rqtui.operations.journal.load_operations", lambda _folder, problems: [*made, of_two])
            read = [
                [(each.name, NOW_MS - each.at_ms) for each in one] for one in undo._read_changes(Path("f"), "redis://x")
            ]
            yield f"changes beside large ones {ages}: {read}"
        for chosen in (plain, several):
            for name in ("revert_record", "revert_operation"):
                patch.setattr(
                    f"rqtui.operations.revert.{name}",
                    lambda *args, name=name: iter([[out.lines.append(f"{name} {args[1:]}") or "outcome"]]),
                )
            yield from out.run("reverting", undo._revert_change_with_progress, "engine", Path("f"), chosen, "redis://x")
    for number in (-1, 0, 1, 2, 3, 4):
        yield from out.run(
            f"change {number}",
            lambda number=number: undo._choose_change_by_number(changes, number, "redis://x")[0].name,
        )
    for chosen in (plain, several, undone):
        names = [undo._list_queue_names(chosen, with_system=each) for each in (False, True)]
        yield f"queues {names} {[undo._format_queue_names(each) for each in names]}"
    back, refused = Outcome("revert", b"j1", "moved", "put back", 1), Outcome("revert", b"", "refused", "was refused")
    for outcomes in ([], [back], [back] * 2, [replace(back, id=b"")], [refused] * 20, [refused] * 21, [back, refused]):
        for as_json in (False, True):
            for chosen in (plain, several):
                yield from out.run(
                    f"{len(outcomes)} outcomes {as_json}",
                    undo._write_undo_outcomes,
                    Session(Settings(), as_json),
                    chosen,
                    outcomes,
                )
    for listed in ([], changes):
        for as_json in (False, True):
            yield from out.run(
                f"list of {len(listed)} {as_json}",
                undo._print_undoable_changes,
                Session(Settings(), as_json),
                Path("folder"),
                listed,
            )


def describe_defaults(_out: Output) -> Iterator[str]:
    """Yield the value of each option that is not given."""
    for name in main.COMMANDS:
        defaults = {option.name: option.default for option in main._build_command(name).params}
        given = {option: value for option, value in defaults.items() if value not in (None, False)}
        yield f"defaults of {name}: {describe(given)}"


def describe_command_lines(out: Output) -> Iterator[str]:
    opened: list[Any] = []
    out.patch.setattr(main, "_open_screen", lambda *urls: opened.append(urls) or 5)
    out.patch.setattr(main, "_run_command_line", lambda arguments: opened.append(arguments) or 6)
    out.patch.setattr(main, "_open_closed_streams", lambda: None)
    for words in (
        [],
        ["redis://x"],
        ["-redis://x"],
        ["x"],
        ["redis://x", "jobs"],
        ["--version"],
        ["jobs", "--version"],
    ):
        yield from out.run(f"words {words}", main.main, words)
        yield f"  {opened}"
        opened.clear()
    out.patch.undo()
    for words in (
        ["nosuch"],
        ["job"],
        ["requeu"],
        ["--nosuch"],
        ["jobs"],
        ["jobs", "a", "b", "c", "d"],
        ["jobs", "mail", "--limit", "x"],
        ["redis://:pw@h", "jobs"],
        ["health", "--nosuch"],
        ["redis://h", "--nosuch"],
        ["act"],
        ["jobs", "mail", "--limit", "0"],
    ):
        yield from out.run(f"words {words}", main.main, words)


def test_what_numbers_commands_accept_and_print_matches_the_stored_text(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    lines: list[str] = []
    parts = (
        describe_options,
        describe_bodies,
        describe_tables,
        describe_reports,
        describe_loops,
        describe_loop_runs,
        describe_waiting,
        describe_undo,
        describe_command_lines,
        describe_defaults,
    )
    for part in parts:
        with pytest.MonkeyPatch.context() as patch:
            output_ = Output(capsys, patch)
            lines += describe_bodies(output_, tmp_path) if part is describe_bodies else part(output_)
    assert_lines_match_file(lines, KEPT)
