# ruff: noqa: B023 (a function is called before its loop continues)
"""What reports, searches, loops, schedules and the pages of an error do at each bound: `reports_at_bounds.txt` has it.

The methods are called without a screen (`support/bare_objects.py`).
`RQTUI_WRITE_SNAPSHOTS=1 pytest -m "" tests/tui/screens/test_reports_at_bounds.py` writes the text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from bare_objects import SYSTEMS, Actor, Bare, Size, build_bare_view, describe, describe_new, silence, take
from kept_text import assert_lines_match_file, utc_time_zone
from text_snapshots import stopped_clock  # noqa: F401
from textual.content import Content

from rqtui import verbs
from rqtui.engine.loops import Round, ScriptStep
from rqtui.model import Count, Job, Page, Queue, Ref, Schedule, Snapshot, State
from rqtui.reports.errors import Group, Members
from rqtui.reports.kinds import Kind
from rqtui.reports.kinds import Kinds as KindReport
from rqtui.reports.loops import UpcomingJob
from rqtui.reports.sampling import Extent
from rqtui.reports.search import PlaceMatches, SearchResult
from rqtui.scenarios import SCENARIOS
from rqtui.tui.format import theme
from rqtui.tui.screens import demo_chooser, error_group, group_search, loops, report_view, schedules, search
from rqtui.tui.screens.error_group import ErrorGroup
from rqtui.tui.screens.kinds import Kinds
from rqtui.tui.screens.loops import Loops
from rqtui.tui.screens.schedules import Schedules
from rqtui.tui.screens.search import Search
from rqtui.tui.target import Target
from rqtui.tui.widgets import frame
from rqtui.verbs import VERBS_BY_NAME

KEPT = Path(__file__).with_name("reports_at_bounds.txt")
NOW_MS = 1_800_000_000_000
MAIL, NEWS, TASKS = Ref("native", "mail"), Ref("native", "news"), Ref("rq", "mail")
JOB = Job(
    b"j1", "mail", "native", "dead", State.DEAD, b"j1", name="send", worker="w1", error="Traceback:\n  line\nBoom: no",
    body=b'{"a": "b"}', enqueued_ms=NOW_MS - 90_000, since_ms=NOW_MS - 60_000,
)  # fmt: skip
EXTENT = Extent(NOW_MS - 9_000, 5, 5, 1, 1)


class Clock:
    """A clock that a test sets, in place of the module `time`."""

    now_s = 5_000.0

    def monotonic(self) -> float:
        return self.now_s

    def time(self) -> float:
        return NOW_MS / 1000


CLOCK = Clock()


def number_refs(number: int) -> list[Ref]:
    return [Ref("native", f"q{at}") for at in range(number)]


def build_queue(ref: Ref, **attributes: Any) -> Queue:
    return Queue(ref.queue, ref.system, (Count("dead", State.DEAD, 1),), NOW_MS)._replace(**attributes)


def describe_target(target: Target) -> str:
    return f"{target.ref} {target.place!r} {len(target.jobs)} jobs {bool(target.queue)} {target.state}"


# -- loops ------------------------------------------------------------------------------------------------------------


def build_loops(log: list[str], *refs: Ref, **attributes: Any) -> Any:
    view = build_bare_view(log, Loops(refs), *(attributes.pop("known", refs)), **attributes)
    tables = {name: Actor(log, name, empty="", dimmed=False) for name in ("next", "steps")}
    view._find_table = tables.__getitem__
    view.host.find_relevant_loops = dict
    view.session.loops, view.session.find_foreign_system_name = {}, lambda ref: "" if ref.system == "native" else "rq"
    return view


def describe_loop_requests() -> Iterator[str]:
    log: list[str] = []
    yield f"at first {describe_new(Loops((MAIL,)))} {loops._NEXT_COLUMNS} {loops._STEP_COLUMNS}"
    for width, height in ((139, 19), (140, 20), (141, 21)):
        view = build_loops(log, MAIL, app=SimpleNamespace(size=Size(width, height)))
        view._arrange_tables()
        yield f"in {width}x{height}: {take(log)} {view._find_table('steps').display}"
        view.on_resize(None)
        yield f"  resized: {take(log)}"
    for number in (1, 3, 4, 5, 99, 100, 101, 250):
        for position in (0, 230):
            refs = number_refs(number)
            view = build_loops(log, *refs, known=refs, _next_position=position)
            view._queues = {
                ref: build_queue(ref, next_due_ms=at - 2, next_expiry_ms=None if at % 2 else at)
                for at, ref in enumerate(refs[3:])
            }
            focus = view.build_focus(refs)
            names = [ref.queue for ref in focus.queues or ()]
            pages = [f"{page.ref.queue} {page.place} {page[2:]}" for page in focus.pages]
            yield f"focus of {number} from {position}: {len(names)} {names[:6]} {names[-1]} {pages}"
            silence(view, "show_steps").show_snapshot(Snapshot(NOW_MS))
            yield f"  then {view._next_position} {len(view._queues)}"
            log.clear()
    view = build_loops(log, MAIL, known=(NEWS,))
    yield f"own queues that are gone: {view.build_focus([NEWS]).queues}"
    for own in ((), (MAIL,), (TASKS,), (MAIL, TASKS)):
        view = build_loops(log, *own, known=(MAIL, TASKS), _queues={ref: build_queue(ref) for ref in (MAIL, TASKS)})
        yield (
            f"covered for {own}: {[*view._find_covered_queues()]} {view.build_target().ref} "
            f"{view.build_target().queue is not None} {view.list_scope_queues()}"
        )


def describe_loop_snapshots() -> Iterator[str]:
    log: list[str] = []
    due = replace(JOB, state=State.SCHEDULED, place="scheduled")
    jobs = tuple(replace(due, id=b"d%d" % at, due_ms=NOW_MS + at * 1000) for at in (5, -5, 0))
    held = replace(JOB, id=b"h", state=State.RESERVED, place="reserved", deadline_ms=NOW_MS + 100)
    pages = (Page("mail", "native", "scheduled", jobs, 3), Page("news", "native", "reserved", (held,), 1))
    for before, counted, shown, late, read_s in (
        ((), (MAIL,), (), 0, 5_000.0), ((), (MAIL, NEWS), pages, 2, 4_990.0), ((MAIL,), (NEWS,), (), 0, 4_989.9),
        ((), (), (), 0, 5_000.0), ((MAIL, TASKS), (), pages, 0, 5_000.0), ((), (MAIL,), pages, 0, 0.0),
    ):  # fmt: skip
        view = silence(build_loops(log, known=(MAIL, NEWS), _connections_read_s=read_s), "show_steps")
        view._queues = {ref: build_queue(ref, overdue=late) for ref in before}
        queues = tuple(build_queue(ref, overdue=late) for ref in counted)
        view.show_snapshot(Snapshot(NOW_MS, queues, pages=shown))
        yield f"snapshot of {counted} after {before}: {take(log)}"
        yield f"  {[*view._queues]} {view._connections_read_s} {view._find_table('next').empty!r}"
    for is_drawn in (True, False):
        for result in ({"reap": 2}, None):
            view = silence(build_loops(log, MAIL, is_drawn=is_drawn, _other_loops="old"), "show_steps")
            view._store_other_loops(SimpleNamespace(result=result))
            yield f"elsewhere {is_drawn} {result}: {view._other_loops} {take(log)}"
    for is_dim in (False, True):
        view = build_loops(log, MAIL)
        view.set_dimmed(is_dim)
        yield f"dimmed {[view._find_table(name).dimmed for name in ('next', 'steps')]}"
    for table in ("next", "steps"):
        view.on_table_opened(SimpleNamespace(table=SimpleNamespace(id=table), id="native\0mail\0reap b'j'\0x"))
        yield f"opened {table}: {take(log)}"
    for overdue, expired in ((0, 0), (1, 0), (0, 2)):
        view = build_loops(log, known=(MAIL,), _queues={MAIL: build_queue(MAIL, overdue=overdue, expired=expired)})
        yield f"second line {overdue} {expired}: {describe(view.build_second_line(60))}"
    for is_arranged in (False, True):
        view = silence(build_loops(log, MAIL), "_arrange_tables")
        view.on_mount() if is_arranged else None
        yield f"mounted: {take(log)}"


def describe_loop_states() -> Iterator[str]:
    log: list[str] = []
    step = ScriptStep("dispatch", MAIL, 3, 500, {"moved": 3, "kept": 1}, NOW_MS / 1000)
    rounds = {
        "none": (), "quiet": (Round((replace(step, moved=0),), wait_s=1.9495, batch=100),),
        "busy": (Round((step,), 1.2, 1.9505, batch=100, at_s=5.0),),
        "away": (Round(error="away", wait_s=5.0, at_s=4.0),),
        "a script failed": (Round((replace(step, moved=0, error="no"),), wait_s=0.5), Round()),
        "twice": (Round(error="away", at_s=3.0), Round((step, replace(step, error="no")), at_s=4.0)),
    }  # fmt: skip
    system_late = build_queue(TASKS, expired=0, overdue=0)
    for title, each in rounds.items():
        loop: Any = SimpleNamespace(rounds=each, is_running=title != "quiet")
        for verb in ("dispatch", "reap"):
            for is_on in (True, False):
                for others in (0, 1, 2):
                    view = build_loops(log, known=(MAIL,), _other_loops=Counter({verb: others} if others else {}))
                    view._queues = {MAIL: build_queue(MAIL, next_due_ms=-4_000, overdue=2), TASKS: system_late}
                    for width in (160, 60) if others == 2 else (160,):
                        text = view._format_loop_state(verb, loop, is_on, width)
                        yield f"{title} {verb} {is_on} {others} in {width}: {text.markup}"
        listed = [
            (row[0].at_s, row[0].error, row[1] in each, row[2]) for row in loops._yield_loop_steps({"reap": loop})
        ]
        yield f"steps of {title}: {listed}"
    for width in (20, 80, 100, 120, 140, 160):
        view = build_loops(log, known=(MAIL,), _other_loops=Counter(reap=5))
        busy: Any = SimpleNamespace(rounds=rounds["twice"], is_running=True)
        yield f"state in {width}: {view._format_loop_state('reap', busy, True, width).plain!r}"
    for number in (0, 199, 200, 201):
        for own, others in (((), {}), ((MAIL,), {"reap": (busy, True)}), ((TASKS,), {"dispatch": (busy, True)})):
            view = build_loops(log, *own)
            many = SimpleNamespace(
                rounds=[Round((replace(step, at_s=float(at)),), at_s=float(-at)) for at in range(number)],
                is_running=True,
            )
            view.session.loops = {"dispatch": many} if number else {}
            view.host.find_relevant_loops = lambda: others
            updated: list[Any] = []
            view._find_table("steps").update = updated.extend
            view.details.update = lambda text, layout: log.append(f"states {text.plain!r} {layout}")
            view.show_steps()
            yield (
                f"{number} steps of {own}: {len(updated)} {[describe(row) for row in updated[:1]]} {take(log)} "
                f"{describe(view.details.border_title)}"
            )
            view.show_steps()
            yield f"  again: {take(log)}"
    for piece, cells in (("abc", 2), ("abc", 3), ("abc", 5)):
        yield repr(loops._pad_content(Content(piece), cells).plain)
    for count in (0, 3):
        for nearest_ms in (None, -1000, -999, 0, 1):
            facts = loops._format_nearest_job("reap", nearest_ms, count)
            yield f"nearest {nearest_ms} of {count}: {describe(facts)}"
    for in_ms in (-1_000, -999, 0, 1):
        for max_attempts in (None, 5):
            upcoming = UpcomingJob(in_ms, "reap", MAIL, replace(JOB, id=b"x" * 13, max_attempts=max_attempts))
            yield f"coming {in_ms}: {loops._build_upcoming_row(upcoming, SYSTEMS['native'], str)}"
    for places in ((), ("dead",), ("ready", "dead")):
        system: Any = SimpleNamespace(
            find_target_places=lambda *_args: places, place=lambda name: SimpleNamespace(state=f"state of {name}")
        )
        yield f"to {places}: {loops._format_target_place(upcoming, system)}"
    for at_round in (Round(ms=0.0), Round(ms=1.26), Round(ms=0.96)):
        for ref in (MAIL, Ref("", "")):
            for values in ({}, {"moved": 1, "next_ms": 2, "kept": 0, "gone": 4}):
                row = loops._build_step_row(replace(step, ref=ref, values=values), at_round, "reap", str)
                yield f"step {row}"


# -- schedules --------------------------------------------------------------------------------------------------------


def describe_schedules() -> Iterator[str]:
    log: list[str] = []
    nightly = Schedule("nightly", "rq", "mail", "0 3 * * *", "clean()", NOW_MS + 90_000, NOW_MS - 9_000, "w1")
    weekly = nightly._replace(name="Weekly", owner="w2", enabled=False, next_ms=NOW_MS, last_ms=None)
    broken = nightly._replace(name="a", queue="gone", problem="no scheduler", next_ms=None, last_ms=0)
    found = (nightly, weekly, broken)
    yield f"at first {describe_new(Schedules((MAIL,)))}"
    for refs in ((), (TASKS,), (MAIL, TASKS)):
        view = build_bare_view(log, Schedules(refs), MAIL, TASKS, _now_ms=NOW_MS)
        columns = [describe(column._replace(fit=None)) for column in view._build_columns()]
        yield f"columns of {refs}: {columns} {view.list_scope_queues()}"
        focus = view.build_focus([MAIL])
        names = [len(requests) for requests in focus.requests.values()]
        again = view.build_focus([MAIL]).requests is focus.requests
        others = view.build_focus([MAIL, TASKS]).requests is focus.requests
        yield f"focus {focus.queues} {names} {again} {others}"
        view._requests = {}
        yield f"  requests {len(view.build_focus([MAIL]).requests['schedules'])}"
    for is_frozen, before, results in (
        (False, None, {}), (False, None, {"schedules": ((nightly,),)}), (True, None, {"schedules": ((nightly,),)}),
        (True, (), {"schedules": ((nightly,),)}), (False, (), {"schedules": ((nightly,),)}),
    ):  # fmt: skip
        view = silence(build_bare_view(log, Schedules(()), is_frozen=is_frozen, _replies=before), "_draw_schedules")
        view.show_snapshot(Snapshot(NOW_MS, results=results))
        yield f"snapshot {is_frozen} {before} {len(results)}: {take(log)} {view._now_ms} {describe(view._replies)}"
    many = tuple(nightly._replace(name=f"n{at:03}") for at in range(501))
    for number in (0, 500, 501):
        for refs in ((), (Ref("rq", "mail" * 9),), (TASKS, MAIL)):
            for expression in ("", "n"):
                view = build_bare_view(log, Schedules(refs), MAIL, TASKS, _replies=(many[:number],), _now_ms=NOW_MS)
                view.refs, view._expression, view._build_schedule_row = refs, expression, id
                view.table.update = lambda rows: log.append(f"{len(rows)} rows")
                view._draw_schedules()
                yield f"{number} schedules of {len(refs)} {expression!r}: {take(log)}"
    for replies, is_drawn in ((None, True), ((found,), False)):
        view = build_bare_view(log, Schedules(()), TASKS, _replies=replies, is_drawn=is_drawn)
        view._draw_schedules()
        yield f"not drawn: {take(log)}"
    for is_frozen in (False, True):
        for problems in ((), ("denied", "other")):
            for cursor in (None, schedules._build_schedule_key(nightly), schedules._build_schedule_key(broken)):
                view = build_bare_view(
                    log, Schedules(()), TASKS, is_frozen=is_frozen, _problems=problems, _schedules=found, _now_ms=NOW_MS
                )
                view.table.cursor_id = cursor
                for has_snapshot in (False, True):
                    view.session.snapshot = Snapshot(NOW_MS, (build_queue(TASKS),)) if has_snapshot else None
                    target = view.build_target()
                    yield f"bottom {is_frozen} {problems}: {view._build_bottom_line()} {describe_target(target)}"
                view.on_table_opened(None)
                yield f"  opened: {take(log)}"
                view.on_table_moved(None)
                yield f"  moved: {take(log)}"
    for refs in ((), (TASKS,), (MAIL,), (MAIL, TASKS)):
        view = build_bare_view(log, Schedules(refs), TASKS)
        yield f"target of {refs}: {view.build_target().ref}"
    for sort in Schedules.SORTS:
        for expression in ("", "weekly", "w1", "gone", "scheduler", "clean"):
            view = build_bare_view(log, Schedules(()), TASKS, _schedules=found, sort=sort)
            silence(view, "_draw_schedules").apply_filter(expression)
            names = [schedule.name for schedule in view._list_matching_schedules()]
            yield f"by {sort} /{expression}: {names} {take(log)}"
    for shown in ((), found[:2], found):
        for refs in ((), (TASKS,)):
            view = build_bare_view(log, Schedules(refs), TASKS, _schedules=shown, _now_ms=NOW_MS)
            for width in (40, 60, 90):
                yield f"second line of {len(shown)} in {width}: {describe(view.build_second_line(width))}"
            yield from (f"  row {describe(view._build_schedule_row(schedule).cells)}" for schedule in shown)
    view = silence(build_bare_view(log, Schedules((TASKS,)), TASKS, _schedules=found), "_draw_schedules")
    for _time in range(2):
        view.action_widen()
        yield f"widened: {view.refs} {[line.partition('(')[0] for line in log]}"
        log.clear()
    for name in ("action_sort", "redraw_sorted"):
        getattr(view, name)()
        yield f"{name}: {view.sort} {take(log)}"
    view.set_dimmed(True)
    view.on_mount()
    yield f"dimmed: {view.table.dimmed} {take(log)}"


# -- reports and searches ---------------------------------------------------------------------------------------------


def describe_report_steps() -> Iterator[str]:
    log: list[str] = []
    yield f"at first {describe_new(Kinds((MAIL,)))} {describe_new(Search('x'))}"
    whole, part = (KindReport((Kind(MAIL, name, {}, 0, None, None, None),), EXTENT) for name in ("whole", "part"))
    for before in (None, part):
        for age_s in (0.5, 0.6):
            for result, is_last, error in (
                (None, False, ""),
                (whole, False, ""),
                (whole, True, ""),
                (None, True, "away"),
            ):
                for is_replay, is_drawn in ((False, True), (True, True), (True, False)):
                    view = build_bare_view(
                        log, Kinds(()), MAIL, report=before, is_drawn=is_drawn, _report_request=7,
                        _report_started_s=CLOCK.now_s - age_s,
                    )  # fmt: skip
                    silence(view, "apply_report", "_rebuild_rows").session.is_replay = is_replay
                    message = SimpleNamespace(request_id=7, result=result, is_last=is_last, error=error)
                    view._handle_report_step(message)
                    yield (
                        f"step {before and before.kinds[0].name} {age_s} {result is None} {is_last} {error!r} "
                        f"{is_replay} {is_drawn}: {take(log)} {view.report and view.report.kinds[0].name} "
                        f"{view._is_report_partial} {view._report_request} {view._next_report_s} {view._error!r}"
                    )
    view._handle_report_step(SimpleNamespace(request_id=8, result=whole, is_last=True, error=""))
    yield f"a stopped report: {take(log)}"
    for request in (None, 7):
        for engine in (None, "engine"):
            view = silence(
                build_bare_view(log, Kinds(()), MAIL, _report_request=request, _error="old"), "_update_frame"
            )
            view.session.engine = engine
            view.recompute()
            yield f"recompute {request} {engine}: {take(log)} {view._error!r} {view._report_started_s}"
            yield f"  {view._report_refs}"
            view.on_unmount()
            yield f"  unmounted: {take(log)} {view._report_request}"
        view = build_bare_view(log, Kinds(()), MAIL, _report_request=request)
        view._stop_report()
        yield f"stop {request}: {take(log)} {view._report_request}"
    for refs in ((), (MAIL,)):
        view = silence(
            build_bare_view(log, Kinds(refs), MAIL, NEWS, report=whole, _partial_report=part, _report_request=7), "draw"
        )
        view.session.engine = "engine"
        for _time in range(2):
            view.action_widen()
            yield f"widened {view.refs}: {[line.partition('(')[0] for line in log]} {view.report} {view.count_rows()}"
            log.clear()
    for number in (0, 19, 20, 21):
        refs = number_refs(number)
        for own in ((), tuple(refs)):
            bare = build_bare_view(log, report_view.ReportView.__new__(report_view.ReportView), *refs, refs=own)
            queues = report_view.ReportView.build_focus(bare, refs).queues
            yield f"focus of {number} {len(own)}: {len(queues or ())} {len(bare.list_queues_in_scope())}"
    for is_replay, taken_ms, due_s, covered, is_frozen, report in (
        (False, NOW_MS, 0.0, [MAIL], False, whole), (False, NOW_MS, 5_000.0, [MAIL], False, whole),
        (False, NOW_MS, 5_000.1, [MAIL], False, whole), (False, NOW_MS, 5_000.1, [NEWS], False, whole),
        (False, NOW_MS, 0.0, [MAIL], True, whole), (False, NOW_MS, 0.0, [MAIL], True, None),
        (True, NOW_MS, 9e9, [MAIL], False, whole), (True, NOW_MS + 1, 9e9, [MAIL], False, whole),
        (False, NOW_MS + 1, 9e9, [MAIL], False, None),
    ):  # fmt: skip
        view = build_bare_view(
            log, Kinds(()), MAIL, report=report, is_frozen=is_frozen, _next_report_s=due_s, _report_refs=covered,
            _now_ms=NOW_MS,
        )  # fmt: skip
        silence(view, "recompute", "draw").session.is_replay = is_replay
        report_view.ReportView.show_snapshot(view, Snapshot(taken_ms))
        yield f"snapshot {is_replay} {due_s} {covered} {is_frozen}: {take(log)} {view._now_ms - NOW_MS}"


def describe_report_rows() -> Iterator[str]:
    log: list[str] = []
    for number in (None, 0, 1, 499, 500, 501):
        kinds = tuple(Kind(MAIL, f"k{at:03}", {}, 0, None, None, None) for at in range(number or 0))
        for is_listed in (False, True):
            view = build_bare_view(
                log, Kinds(()), MAIL, report=None if number is None else KindReport(kinds, EXTENT), _now_ms=NOW_MS
            )
            view._matching_items = list(kinds) if is_listed and number is not None else None
            view.build_row = lambda kind, now_ms: (kind, now_ms)
            view.table.update = lambda rows: log.append(f"{len(rows)} rows of {rows[0][1] if rows else None}")
            rows = view.count_rows(), view._matching_items and len(view._matching_items)
            view._matching_items = list(kinds) if is_listed and number is not None else None
            report_view.ReportView.draw(view)
            yield f"{number} items {is_listed}: {rows} {take(log)}"
    sizes = (
        EXTENT, replace(EXTENT, looked=4), replace(EXTENT, queues=0), replace(EXTENT, problems=("denied", "x")),
        replace(EXTENT, looked=6, queues=2), replace(EXTENT, of=12_431, of_queues=1_000, problems=("a\x1b",)),
    )  # fmt: skip
    for size in sizes:
        yield f"size {report_view.format_sample_size(size)} {report_view.format_sample_size(size, ', the newest')}"
        for request, has_part, error, is_replay, is_frozen in (
            (None, False, "", False, False), (7, True, "", False, False), (7, False, "", False, True),
            (None, True, "away", False, False), (None, False, "", True, False),
        ):  # fmt: skip
            view = build_bare_view(
                log, Kinds(()), MAIL, report=KindReport((), size), _report_request=request, _error=error,
                _now_ms=NOW_MS, _partial_report=KindReport((), replace(size, of=99)) if has_part else None,
                is_frozen=is_frozen,
            )  # fmt: skip
            view.session.is_replay = is_replay
            yield f"status {request} {has_part} {error!r} {is_replay}: {view.build_status()}"
            view._update_frame()
            yield f"  frame {take(log)}"
    for number in (500, 501):
        view._matching_items = [None] * number
        yield f"status of {number}: {view.build_status()}"
    for request in (None, 7):
        view = build_bare_view(log, Kinds(()), MAIL, report=None, _report_request=request)
        yield f"status without a report: {view.build_status()} {view.build_second_line(60)}"
    for refs in ((), (Ref("native", "m" * 33),), (MAIL, NEWS)):
        for expression in ("", "x"):
            view = build_bare_view(log, Kinds(refs), MAIL, report=KindReport((), EXTENT), _expression=expression)
            view._update_frame()
            yield f"frame of {len(refs)} {expression!r}: {take(log)}"
            for width in (30, 60, 75, 100):
                yield f"  second line in {width}: {describe(view.build_second_line(width))}"
    view = silence(build_bare_view(log, Kinds(()), MAIL, _matching_items=[1]), "draw")
    for name, arguments in (
        ("action_sort", ()), ("redraw_sorted", ()), ("apply_filter", ("job:x",)), ("set_dimmed", (True,)),
        ("on_mount", ()),
    ):  # fmt: skip
        getattr(view, name)(*arguments)
        yield f"{name}: {take(log)} {view.sort} {view._matching_items} {view._expression!r}"
        view._matching_items = [1]
    report_view.ReportView.on_table_moved(view, None)  # type: ignore[arg-type]
    yield f"moved: {take(log)}"
    accepted = [view.accepts(replace(JOB, name=name)) for name in ("x", "y")]
    yield f"accepts {accepted}"


def describe_searches() -> Iterator[str]:
    log: list[str] = []
    jobs = (
        JOB,
        replace(JOB, id=b"j2" * 20, name="", error="", body=None),
        replace(JOB, name="a" * 50, error="Boom " * 9),
    )
    dead = PlaceMatches(Ref("native", "n" * 33), "dead", State.DEAD, 7, 5, 3, jobs)
    ready = PlaceMatches(Ref("native", "m" * 34), "ready", State.READY, 4, 5, 1, jobs[:1])
    result = SearchResult((dead, ready), EXTENT, 0)
    for shown in (None, SearchResult((), EXTENT, 0), result, replace(result, places=(dead,), cut_bodies=2)):
        for sort in Search.SORTS:
            view = build_bare_view(log, Search("x"), MAIL, NEWS, report=shown, sort=sort)
            places = [place.place for place in view.list_matching_items()]
            yield f"by {sort}: {places} {describe(view.build_summary())} {view.explain_empty_table()!r}"
    for column in view.build_columns():
        yield f"column {describe(column)}"
    for place in (dead, ready, replace(dead, count=5)):
        yield f"row {describe(view.build_row(place, NOW_MS))} {describe(view.build_row(place, NOW_MS).cells)}"
    for error, shown, request in (("away", result, None), ("", None, None), ("", result, 7), ("", result, None)):
        view = build_bare_view(log, Search("x"), MAIL, report=shown, _error=error, _report_request=request)
        yield f"empty {error!r} {shown is None} {request}: {view.explain_empty_table()!r}"
    for expression in ("", "x", "y"):
        for is_drawn in (False, True):
            view = silence(
                build_bare_view(log, Search("x"), MAIL, report=result, _partial_report=result, is_drawn=is_drawn),
                "_stop_report", "recompute", "_rebuild_rows",
            )  # fmt: skip
            view.apply_filter(expression)
            view.preview_filter("z")
            yield f"search for {expression!r} {is_drawn}: {take(log)} {view._expression!r} {view.report is None}"
            accepted = [view.accepts(replace(JOB, name=name, body=b"")) for name in ("send", "x", "y")]
            yield f"  {view._partial_report is None} {accepted} {view.step_back()}"
    view = build_bare_view(log, Search("x"), MAIL)
    first = view.list_queues_in_scope()
    view.session.refs = [MAIL, NEWS]
    yield f"scope {first} {view.list_queues_in_scope()}"
    for has_preview in (True, False):
        for cursor in (None, search._build_key(dead), search._build_key(ready)):
            for shown in (None, result):
                for has_snapshot in (False, True):
                    view = build_bare_view(log, Search("x"), MAIL, NEWS, report=shown, has_preview=has_preview)
                    view.table.cursor_id = cursor
                    view.session.snapshot = Snapshot(NOW_MS, (build_queue(dead.ref),)) if has_snapshot else None
                    view._show_matches()
                    target = view.build_target()
                    yield f"matches {has_preview} {cursor!r}: {describe_target(target)} {take(log)}"
                    yield f"  {describe(view.details.border_title)}"
                view.app.call_after_refresh = lambda _call, place: log.append(f"filter {place.place}")
                view.on_table_opened(None)
                yield f"  opened: {take(log)}"
    for width in (23, 24, 25, 60, 200):
        for place in (dead, replace(dead, matched=4)):
            yield f"in {width}: {search._format_matches(place, width).markup!r}"
    board = Bare(Search, go_to_place=lambda place: log.append(f"to {place}"), confirm_filter=log.append)
    for stack in ((), (board,)):
        view.app.screen_stack = stack
        view._filter_opened_board(dead)
        yield f"filtered {len(stack)}: {take(log)}"
    view = silence(build_bare_view(log, Search("x"), MAIL, report=result), "_show_matches", "build_status")
    view.build_status = list
    view.draw()
    yield f"drawn: {[line.partition('(')[0] for line in log]}"
    log.clear()
    view.on_table_moved(None)
    yield f"moved: {take(log)}"
    engine: Any = SimpleNamespace(systems=SYSTEMS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search.search, "yield_search_results", lambda _engine, refs, accepts: (refs, accepts(JOB)))
        yield f"search {view.build_report(engine)}"


# -- the jobs of one error --------------------------------------------------------------------------------------------


def describe_error_groups() -> Iterator[str]:
    log: list[str] = []
    numbered = tuple(replace(JOB, id=b"%03d" % at) for at in range(301))
    for size in (17, 18, 19, 20):
        job = replace(JOB, id=b"abcdefghijklmnopqrst"[:size])
        yield f"id of {size}: {error_group._build_columns([job])[0].width} {error_group._build_job_row(job, NOW_MS)}"
    group = Group(
        ("Boom", "k"), "Boom: no", "Boom", "a.py:8", 2, 3, 1, NOW_MS - 90_000, NOW_MS - 5_000, ("send",), (MAIL,),
        (JOB,),
    )  # fmt: skip
    yield f"at first {describe_new(ErrorGroup(group))} {describe(error_group.OTHER_COLUMNS)}"
    for number in (1, 299, 300, 301):
        many = replace(group, jobs=numbered[:number])
        for cursor in (None, error_group._build_job_key(numbered[0])):
            view = silence(build_bare_view(log, ErrorGroup(many), MAIL, _now_ms=NOW_MS), "_show_error")
            view.table.cursor_id = cursor
            view.table.update = lambda rows: log.append(f"{len(rows)} rows")
            view.table.set_columns = lambda columns: log.append(f"id of {columns[0].width}")
            view.show_snapshot(Snapshot(NOW_MS + 7))
            found = view.find_selected_job()
            yield f"{number} jobs: {take(log)} {view._now_ms - NOW_MS} {found and found.id}"
            yield f"  {view.build_focus([]).queues}"
            view.table.painter.columns = error_group._build_columns(numbered[:number])
            view.handle_acted_jobs([b"000", b"x"])
            yield f"  acted: {take(log)}"
            view.apply_filter("id:005")
            yield f"  filtered: {take(log)}"
    other = replace(JOB, id=b"j2", error="a\nb\nc\nd\ne\nf")
    view = build_bare_view(log, ErrorGroup(replace(group, jobs=(JOB, other))), MAIL)
    view.details.styles = SimpleNamespace(height=None)
    for job in (JOB, other, JOB):
        view.table.cursor_id = error_group._build_job_key(job)
        view._show_error()
        yield f"error of {job.id!r}: {take(log)} {view.details.styles.height}"
    for result, is_drawn in ((None, True), (replace(JOB, error="full"), False), (replace(JOB, error="full"), True)):
        view.is_drawn = is_drawn
        view._store_full_job(SimpleNamespace(result=result))
        yield f"full {result and result.error} {is_drawn}: {take(log)}"
    for message, frame_name, share, now_ms, first_ms in (
        ("Boom: no", "a.py:8", "40 %", NOW_MS, NOW_MS - 90_000), ("Boom " * 9, "", "", NOW_MS, None),
        ("", "a.py:8", "", 0, NOW_MS), ("B" * 32, "a.py:8", "1 %", NOW_MS, NOW_MS), ("B" * 33, "a", "", NOW_MS, NOW_MS),
    ):  # fmt: skip
        shown = replace(group, message=message, frame=frame_name, first_ms=first_ms)
        view = build_bare_view(log, ErrorGroup(shown, share), MAIL, _now_ms=now_ms)
        for width in (5, 12, 30, 44, 45, 46, 47, 56, 57, 58, 59, 60, 61, 62, 63, 80, 86, 87, 88, 89, 120):
            left, right = view.build_second_line(width)
            yield f"/{message[:5]} in {width}: {left.plain!r} {right.plain!r}"
    for has_snapshot in (False, True):
        for cursor in (None, error_group._build_job_key(JOB)):
            view = build_bare_view(log, ErrorGroup(group), MAIL)
            view.table.cursor_id = cursor
            view.session.snapshot = Snapshot(NOW_MS, (build_queue(MAIL),)) if has_snapshot else None
            target = view.build_target()
            yield f"target {cursor is None}: {describe_target(target)}"
            view.on_table_opened(None)
            yield f"  opened: {take(log)[:60]}"
    silence(view, "_show_error").on_table_moved(None)
    view.set_dimmed(True)
    view.on_mount()
    yield f"moved: {take(log)} {view.table.dimmed} {describe(view.details.border_title)}"
    for error in ("", "one", "one\ntwo", "\x1b"):
        for problem in ("", "broken"):
            yield f"full error: {error_group._format_full_error(replace(JOB, error=error, problem=problem)).markup!r}"


def describe_group_searches() -> Iterator[str]:
    log: list[str] = []
    group = Group(
        ("Boom", "k"), "Boom: no", "Boom", "a.py:8", 2, 3, 1, NOW_MS - 90_000, NOW_MS, ("send",), (MAIL,), (JOB,)
    )  # fmt: skip
    for verb in (verb for verb in verbs.VERBS if verb.name in ("requeue", "delete", "edit and retry", "kill", "edit")):
        for dead, retrying in ((1, 0), (2, 0), (0, 0)):
            view = build_bare_view(log, Search("x"), MAIL)
            view.session.run_steps = lambda call, _handle: log.append(f"steps {describe(call.args)}") or 7
            one = group_search.GroupSearch(view, lambda: log.append("progress"))
            shown = replace(group, dead=dead, retrying=retrying)
            yield f"{verb.name} of {shown.count}: {one.start_verb(verb, shown, [MAIL], 'message')} {take(log)}"
            yield f"  again {one.start_verb(verb, replace(shown, dead=1, retrying=0), [MAIL], 'message')} {take(log)}"
            yield f"  {one.build_progress()}"
            yield f"  stopped {one.stop()} {take(log)} {one.stop()} {take(log)} {one.build_progress()}"
    requeue, held = VERBS_BY_NAME["requeue"], replace(JOB, id=b"h", place="reserved", state=State.RESERVED)
    steps = {
        "nothing": (), "two": (Members(MAIL, (JOB, replace(JOB, id=b"j2")), 5, 9, 0),),
        "left": (Members(MAIL, (replace(JOB, id=b"j2"),), 5, 9, 1),
                 Members(NEWS, (replace(JOB, queue="news"),), 9, 9, 1)),
        "held": (Members(MAIL, (held,), 5, 9, 0),), "none": (Members(MAIL, (), 5, 12_345, 0), None),
    }  # fmt: skip
    for title, answers in steps.items():
        for error in ("", "away"):
            for jobs, text in (((JOB,), "Boom: no"), ((JOB, held), "")):
                view = build_bare_view(log, Search("x"), MAIL)
                view.session.run_steps = lambda _call, _handle: 7
                view.host.start_verb_on_jobs = lambda name, found, about, difference: log.append(
                    f"{name} {[(str(ref), [job.id for job in each]) for ref, each in found]} {about} {difference}"
                )
                one = group_search.GroupSearch(view, lambda: log.append("progress"))
                one.start_verb(requeue, replace(group, jobs=jobs, message=text), [MAIL], "message")
                yield f"search of {title}: {one.build_progress()}"
                for step in answers:
                    one._handle_search_step(SimpleNamespace(request_id=8, result=step, is_last=True, error=""))
                    one._handle_search_step(SimpleNamespace(request_id=7, result=step, is_last=False, error=""))
                    yield f"  step: {one.build_progress()} {take(log)}"
                one._handle_search_step(SimpleNamespace(request_id=7, result=None, is_last=True, error=error))
                yield f"  end {error!r}: {take(log)} {one._members} {one.build_progress()}"
                one._handle_search_step(SimpleNamespace(request_id=7, result=None, is_last=True, error=""))
                yield f"  ended twice: {take(log)}"
    elsewhere = (replace(JOB, queue="news"), replace(JOB, system="rq"), replace(JOB, place="ready"))
    for snapshot in (None, Snapshot(NOW_MS, (build_queue(MAIL),))):
        for is_partial in (False, True):
            session: Any = SimpleNamespace(snapshot=snapshot)
            target: Target = group_search.build_group_target(
                session, replace(group, jobs=(JOB, *elsewhere)), is_partial=is_partial
            )
            yield f"target {is_partial}: {describe_target(target)}"


# -- the list of demos ------------------------------------------------------------------------------------------------


def describe_chooser() -> Iterator[str]:
    log: list[str] = []
    story: Any = next(iter(SCENARIOS.values()))
    yield f"columns {describe(demo_chooser._COLUMNS)}"
    for width in (0, 36, 37, 38, 100):
        yield f"text in {width}: {demo_chooser._count_text_cells(width)}"
    for tries, watch in (((("N", "a job " * 9),), ("the list " * 5, "the age")), ((), ()), ((), ("one",))):
        shown: Any = SimpleNamespace(tries=tries, watch=watch)
        yield f"story: {demo_chooser._format_description(shown, 30).markup!r}" if tries or watch else "no story"
    for height in (12, 15, 16, 17, 40):
        for number in (1, 5):
            scenarios: Any = {f"s{at}": replace(story, name=f"s{at}", system="celery:x") for at in range(number)}
            table = Actor(log, "table", styles=SimpleNamespace(height=None), cursor_id="s0")
            pane = Actor(log, "pane", show_text=lambda text: log.append(f"show {len(text.plain)}"))
            self: Any = Bare(
                demo_chooser.DemoChooser, size=Size(80, height), _scenarios=scenarios, exit=log.append,
                query_one=lambda name, _type=None: pane if name == "#story" else table,
            )  # fmt: skip
            self._fit_table()
            yield f"{number} demos in {height}: {table.styles.height}"
    rows: list[Any] = []
    table.styles.height, table.update = None, rows.extend
    self.on_mount()
    yield f"mounted: {[row.cells for row in rows]} {take(log)} {table.styles.height}"
    for theme_name in (theme.DARK, theme.ANSI):
        app = demo_chooser.DemoChooser(scenarios, theme_name)
        yield f"in {theme_name}: {app.theme} {app.ansi_color}"
    for name in ("s1", "gone"):
        self.on_table_moved(SimpleNamespace(id=name))
        yield f"moved: {take(log)}"
        table.cursor_id = name
        table.styles.height = None
        self.on_resize(None)
        yield f"resized: {take(log)} {table.styles.height}"
        self.on_table_opened(SimpleNamespace(id=name))
        yield f"opened: {take(log)}"


@pytest.mark.slow
def test_reports_at_their_bounds_match_the_stored_text(
    monkeypatch: pytest.MonkeyPatch,
    stopped_clock: None,  # noqa: F811
) -> None:
    for module in (loops, report_view, frame):
        monkeypatch.setattr(module, "time", CLOCK)
    parts = (
        describe_loop_requests, describe_loop_snapshots, describe_loop_states, describe_schedules,
        describe_report_steps, describe_report_rows, describe_searches, describe_error_groups, describe_group_searches,
        describe_chooser,
    )  # fmt: skip
    with utc_time_zone():
        lines = [line for part in parts for line in (f"== {part.__name__[9:]}", *part())]
    assert_lines_match_file((line.replace("\0", "·") for line in lines), KEPT)
