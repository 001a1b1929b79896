# ruff: noqa: B023 (a function is called before its loop continues)
"""What pages, frames and reports of the screen do at each bound: `pages_at_bounds.txt` has every line.

The methods are called without a screen (`support/bare_objects.py`).
`RQTUI_WRITE_SNAPSHOTS=1 pytest -m "" tests/tui/screens/test_pages_at_bounds.py` writes the text.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from bare_objects import SYSTEMS, Actor, Bare, Size, build_bare_view, describe, describe_new, silence, take
from kept_text import assert_lines_match_file
from text_snapshots import stopped_clock  # noqa: F401
from textual.content import Content

from rqtui import verbs
from rqtui.engine.history import History
from rqtui.model import (
    Attempt,
    Count,
    EventCoverage,
    Fact,
    Finding,
    Focus,
    Job,
    KindStatistics,
    Page,
    PageRecord,
    Queue,
    Rate,
    Ref,
    Snapshot,
    State,
)
from rqtui.recording.records import ServerPeriod
from rqtui.reports.comparison import Comparison, Selection, Side
from rqtui.reports.differences import Condition, Difference, Differences
from rqtui.reports.errors import Errors as ErrorReport
from rqtui.reports.errors import Group as ErrorGroup
from rqtui.reports.groups import Group, Groups
from rqtui.reports.incident import Incident
from rqtui.reports.kinds import Kind, Kinds
from rqtui.reports.redis import Report
from rqtui.reports.redis_panels import Panel
from rqtui.reports.sampling import Extent
from rqtui.text.pieces import Piece
from rqtui.tui.screens import (
    board_borders,
    differences,
    errors,
    events,
    groups,
    incident,
    job,
    kinds,
    loops,
    operations,
    queue_plot,
    redis,
    schedules,
    workers,
)
from rqtui.tui.view import View

KEPT = Path(__file__).with_name("pages_at_bounds.txt")
NOW_MS = 1_800_000_000_000
MAIL, NEWS = Ref("native", "mail"), Ref("native", "news")
NATIVE = SYSTEMS["native"]
JOB = Job(
    b"j1", "mail", "native", "dead", State.DEAD, b"j1", name="send", worker="w1", error="Boom: no", body=b'{"a": "b"}',
    body_bytes=10, enqueued_ms=NOW_MS - 90_000, attempts=1, since_ms=NOW_MS - 60_000,
)  # fmt: skip
LINKS = (Fact("note", "x"), Fact("parent", "j0", "ref"), Fact("child", "j2", "ref", "news"))
FINDING = Finding("failing", "critical", "mail", "51 % of the attempts fail", "look at the errors", key="e R")
GROUP = ErrorGroup(
    ("Boom", "k"), "Boom: no", "Boom", "a.py:8", 2, 3, 1, NOW_MS - 90_000, NOW_MS, ("send",), (MAIL,), (JOB,)
)
EXTENT = Extent(NOW_MS - 9_000, 5, 5, 1, 1)


def build_queue(name: str, *findings: Finding, **numbers: int) -> Queue:
    counts = tuple(Count(place.name, place.state, numbers.get(place.name, 0)) for place in NATIVE.places)
    return Queue(name, "native", counts, NOW_MS, findings=findings)


def describe_first_states() -> Iterator[str]:
    selection = Selection(("dead",))
    for view in (
        workers.Workers(), events.Events((MAIL,)), errors.Errors(), operations.Operations((MAIL,)), kinds.Kinds(),
        groups.Groups(MAIL, "dead"), differences.Differences(MAIL, selection, selection), redis.RedisView((MAIL,)),
        incident.IncidentPage(MAIL), job.JobPage(MAIL, JOB), schedules.Schedules(), loops.Loops(()),
    ):  # fmt: skip
        yield f"at first: {describe_new(view)}"
    log: list[str] = []
    for height in (29, 30, 31):
        terminal = SimpleNamespace(size=Size(80, height))
        yield f"line of views in {height} rows: {Bare(View, app=terminal).is_high}"
    kind_report = Kinds((Kind(MAIL, "send", {}, 0, None, None, None, figures=KindStatistics("send", 8, 2)),), EXTENT)
    several: tuple[tuple[str, Any], ...] = (
        ("workers", build_bare_view(log, workers.Workers(), MAIL)._build_columns()),
        ("events", events.build_event_columns(True, 20)),
        ("errors", build_bare_view(log, errors.Errors(), MAIL, _frame_cells=9).build_columns()),
        ("operations", operations.COLUMNS),
        ("kinds", build_bare_view(log, kinds.Kinds(), MAIL, report=kind_report).build_columns()),
        ("groups", build_bare_view(log, groups.Groups(MAIL, "dead"), MAIL).build_columns()),
        ("differences", build_bare_view(log, differences.Differences(MAIL, selection, selection)).build_columns()),
    )
    for title, columns in several:
        for column in columns:
            yield f"{title}: {describe(column._replace(fit=None))}"


# -- the page of a job ------------------------------------------------------------------------------------------------


def build_job_page(log: list[str], shown: Job = JOB, **attributes: Any) -> Any:
    view = build_bare_view(log, job.JobPage(MAIL, shown), MAIL, **{"_now_ms": NOW_MS, **attributes})
    view.details.show_lines = lambda lines, style: log.append(f"lines {len(lines)} {lines[0][:60]!r} {style.__name__}")
    view.details.find_first_match = lambda pattern: log.append(f"find {pattern and pattern.pattern}") or (1, 2)
    return view


def describe_job_page() -> Iterator[str]:
    log: list[str] = []
    for width in (75, 76, 77):
        view = build_job_page(log, size=Size(width, 30))
        view.on_resize(None)
        yield f"width {width}: {take(log)}"
    yield f"focus: {build_job_page(log).build_focus([])}"
    other = replace(JOB, id=b"j9")
    for queues, found, requested in (
        ((), JOB, True),
        ((MAIL,), JOB, True),
        ((MAIL,), None, True),
        ((MAIL,), other, False),
    ):
        view = silence(build_job_page(log, _now_ms=0), "_draw_page")
        view.session.has_requested_job = lambda *_: requested
        counted = tuple(build_queue(ref.queue) for ref in queues)
        view.show_snapshot(Snapshot(NOW_MS, counted, job=found, rates={MAIL: Rate(2.0)}))
        yield (
            f"snapshot {len(queues)} {found and found.id} {requested}: {take(log)} {view._is_missing} "
            f"{view._now_ms} {view._rate.in_s}"
        )
    for is_drawn, now_ms in ((True, NOW_MS), (False, NOW_MS), (True, 0)):
        view = build_job_page(log, is_drawn=is_drawn, _now_ms=now_ms)
        silence(view, "_draw_property_pane", "_draw_body", "_update_body_frame", "_choose_wider_pane")
        view._draw_page()
        yield f"drawn {is_drawn} {now_ms}: {take(log)}"
        view.on_descendant_focus(None)
        yield f"  focus moved: {take(log)}"
    for letters, lines in (
        (200, ()),
        (201, ()),
        (201, ("x" * 201,)),
        (202, ("x" * 100, "y" * 101)),
        (300, ("x" * 299,)),
    ):
        for has_class in (False, True):
            view = build_job_page(log, _error_letters=letters, _lines=lines, has_class=lambda _name: has_class)
            view._choose_wider_pane()
            yield f"errors of {letters} beside {sum(map(len, lines))} {has_class}: {take(log)}"
    failed = replace(JOB, history=(Attempt(NOW_MS - 80_000, NOW_MS - 70_000, "w0", "Boom: no"),), facts=LINKS)
    for shown in (JOB, failed):
        for is_missing in (False, True):
            for width in (10, 60):
                view = build_job_page(log, shown, _is_missing=is_missing)
                view.details.scrollable_content_region = Size(width, 20)
                view._draw_property_pane()
                yield (
                    f"properties in {width} {is_missing}: {take(log)} {view._error_letters} "
                    f"{describe(view.details.border_title)}"
                )
    for facts in ((), LINKS[:2], LINKS):
        for body in (None, b"x"):
            for is_focused in (False, True):
                view = build_job_page(log, replace(JOB, facts=facts, body=body))
                view.focused = view.details if is_focused else None
                yield f"links {len(facts)} {body!r} {is_focused}: {view._describe_links().plain!r}"
                silence(view, "_draw_property_pane", "_scroll_to_chosen_link", "_fetch_long_body", "action_link")
                for step in (1, 1, 1, -1, -1, -1):
                    view.action_scroll(step)
                    yield f"  step {step}: {view._link_index} {take(log)}"
                view.action_open()
                yield f"  opened: {take(log)}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "WINTER0SUMMER,J5,J25")  # summer time from 5 to 25 January
        time.tzset()
        for days in (-11, -9, 0, 9, 11):
            view = build_job_page(log, JOB, _now_ms=NOW_MS + days * 86_400_000)
            view._draw_property_pane()
            yield f"time zone {days} days from then: {view.details.border_title.plain!r}"
            log.clear()
    time.tzset()
    many = tuple(Fact(f"fact {number}", "x" * 70, "ref" if number > 2 else "text") for number in range(6))
    for index in (0, 2):
        view = build_job_page(log, replace(JOB, facts=many), _link_index=index)
        view.details.count_text_rows = lambda text: text.plain.count("\n") + 1
        view._scroll_to_chosen_link()
        yield f"link {index}: {take(log)}"


def describe_body() -> Iterator[str]:
    log: list[str] = []
    for body, size, fetched in (
        (None, 0, None), (None, 9, None), (b"{}", 2, None), (None, 9, b"[1]"), (b"x" * 65_536, 65_536, None),
        (b"x" * 65_537, 65_537, None), (b"", 0, None),
    ):  # fmt: skip
        view = build_job_page(log, replace(JOB, body=body, body_bytes=size), _fetched_body=fetched)
        view.run_worker = lambda call, **_options: log.append("thread")
        silence(view, "_update_body_frame")
        view._draw_body()
        yield f"body of {size}: {take(log)} {view._encoding} {len(view._lines)}"
        view._draw_body()
        yield f"  again: {take(log)}"
        view._viewer = "hex"
        view._draw_body()
        yield f"  as hex: {take(log)}"
    for filter_text, is_drawn, viewer, is_same in (
        ("", True, "", True),
        ("x", True, "hex", True),
        ("", False, "", True),
        ("", True, "", False),
    ):
        inputs = job._BodyInputs(b"{}", "", False, 60, ())
        view = silence(
            build_job_page(log, is_drawn=is_drawn, filter_text=filter_text, _viewer=viewer), "_update_body_frame"
        )
        view._body_inputs = inputs if is_same else None
        view._show_body(inputs, inputs.format_body())
        yield f"shown {filter_text} {is_drawn} {viewer} {is_same}: {take(log)} {view._encoding} {view._match_position}"
    for size in (0, 1, 1 << 20, (1 << 20) + 1):
        for is_loading, is_replay in ((False, False), (True, False), (False, True)):
            view = silence(
                build_job_page(log, replace(JOB, body=None, body_bytes=size), _is_loading=is_loading), "_draw_page"
            )
            view.session.is_replay = is_replay
            lines = view._describe_long_body()
            view._fetch_long_body()
            yield f"long body of {size} {is_loading} {is_replay}: {lines} {take(log)} {view._is_loading}"
    for error, found in (("away", None), ("", None), ("", JOB), ("", replace(JOB, id=b"x"))):
        view = silence(build_job_page(log, _is_loading=True), "_draw_page")
        view._store_fetched_body(SimpleNamespace(error=error, result=found))
        yield f"fetched {error} {found and found.id}: {take(log)} {view._fetched_body} {view._is_loading}"
    for text in ("", "a" * 30, "a" * 31):
        for position in ((0, 0), (1, 1), (1, 2)):
            view = build_job_page(log, filter_text=text, _match_position=position, _encoding="utf-8")
            view._update_body_frame()
            yield (
                f"frame /{text} {position}: {describe(view.details.border_title)} "
                f"{describe(view.details.border_subtitle)}"
            )
    for expression in ("", "a", "/", "/a", "/a.b/", "a.b"):
        view = build_job_page(log)
        view.apply_filter(expression)
        applied = take(log)
        view.preview_filter(f" {expression} ")
        typed = take(log)
        view.preview_filter(expression)
        yield f"search {expression!r}: {applied} | typed: {typed} | {take(log)}"


def describe_job_keys() -> Iterator[str]:
    log: list[str] = []
    for is_replay in (False, True):
        view = silence(build_job_page(log, _encoding="json"), "_draw_page")
        view.session.is_replay = is_replay
        for _time in range(2):
            view.action_reveal()
            yield f"reveal {is_replay}: {view.is_revealed} {take(log)}"
        for _time in range(4):
            view.action_viewer()
            yield f"viewer {is_replay}: {view._viewer!r} {take(log)}"
    view = silence(build_job_page(log, _encoding="json", _viewer="gone"), "_draw_page", "_update_body_frame")
    view.action_viewer()
    view.details.find_next_match = lambda: (2, 3)
    view.action_next_match()
    view.app.call_from_thread = lambda call, *args: log.append("shown from the thread")
    view._format_body_in_thread(job._BodyInputs(b"{}", "", False, 60, ()))
    yield f"after an unknown viewer: {view._viewer} {view._match_position} {take(log)}"
    calls: list[Any] = []
    for number in (0, 2, 1):
        view = build_job_page(log, replace(JOB, facts=LINKS))
        view.session.call_engine = lambda call, handle: (call(Actor(log, "engine")), calls.append(handle))
        view.action_link(number)
        yield f"link {number}: {take(log)} {view._link_index}"
    for error, found, is_on_top in (("away", None, True), ("", None, True), ("", JOB, True), ("", JOB, False)):
        view.is_on_top = is_on_top
        calls[-1](SimpleNamespace(error=error, result=found))
        yield f"linked {error} {found is not None} {is_on_top}: {take(log)[:70]}"
    for is_missing in (False, True):
        for queue in (None, build_queue("mail")):
            view = build_job_page(log, _is_missing=is_missing, _queue=queue)
            target = view.build_target()
            yield f"target {is_missing}: {len(target.jobs)} {target.place} {describe(view.build_second_line(60))[:90]}"
    for views, moved in (
        ((), None),
        ((1,), None),
        ((1,), JOB),
        ((1,), replace(JOB, body_bytes=99)),
        ((1,), replace(JOB, body=None)),
    ):
        below = Bare(
            incident.IncidentPage,
            is_list_of_queue=lambda _ref: True,
            move_to_other_job=lambda step: log.append(f"move {step}") or moved,
        )
        view = silence(build_job_page(log), "_draw_page")
        view._set_job = lambda chosen: log.append(f"job {chosen.body!r}")
        view.app.screen_stack = [below for _view in views]
        view.action_page(1)
        yield f"page below {len(views)} views: {[line[:60] for line in log]}"
        log.clear()
    lists = [
        Bare(
            incident.IncidentPage, is_list_of_queue=lambda _ref: True, move_to_other_job=lambda _step: log.append(name)
        )
        for name in ("lower", "upper")
    ]
    view = build_job_page(log)
    view.app.screen_stack = lists
    view.action_page(-1)
    yield f"page of two lists: {log[0]}"
    log.clear()
    for is_dim in (False, True):
        build_job_page(log).set_dimmed(is_dim)
        yield f"dimmed: {take(log)}"


# -- the page of an incident ------------------------------------------------------------------------------------------


def build_incident(log: list[str], finding: Finding | None = FINDING, **attributes: Any) -> Any:
    view = build_bare_view(log, incident.IncidentPage(MAIL, finding), MAIL, **attributes)
    search = Actor(log, "search", build_progress=list, stop=lambda: log.append("search stopped") or False)
    vars(view).update({"_group_search": search, **attributes})
    view.session.snapshot = Snapshot(NOW_MS, (build_queue("mail", FINDING, dead=3),))
    return view


def describe_incident() -> Iterator[str]:
    log: list[str] = []
    report = Incident(
        MAIL, NOW_MS - 5_000, build_queue("mail", FINDING), ErrorReport((replace(GROUP, dead=0), GROUP), EXTENT)
    )
    for findings, is_over, due_s, is_replay, now_ms in (
        ((FINDING,), False, float("inf"), False, 0), ((), False, float("inf"), False, 0),
        ((), True, float("inf"), False, 0),
        ((FINDING,), True, float("inf"), False, 0), ((FINDING,), False, 0.0, False, 0),
        ((FINDING,), False, float("inf"), True, 0), ((FINDING,), False, float("inf"), True, NOW_MS),
    ):  # fmt: skip
        view = silence(
            build_incident(log, _is_over=is_over, _next_report_s=due_s, _now_ms=now_ms), "recompute", "_show_status"
        )
        view.session.is_replay = is_replay
        view.show_snapshot(Snapshot(NOW_MS, (build_queue("mail", *findings),)))
        yield f"snapshot {len(findings)} {is_over} {due_s} {is_replay} {now_ms}: {take(log)} {view._next_report_s}"
    for queues, finding, due_s in (
        ((), FINDING, float("inf")),
        (("mail",), None, float("inf")),
        (("mail",), None, 5_000.0),
    ):
        view = silence(build_incident(log, finding, _next_report_s=due_s), "recompute", "_show_status")
        view.show_snapshot(Snapshot(NOW_MS, tuple(build_queue(name) for name in queues)))
        yield f"snapshot {queues} {finding and finding.kind} {due_s}: {take(log)} {view._next_report_s}"
    view = build_incident(log)
    view.session.engine, view.session.snapshot = 1, Snapshot(NOW_MS, (build_queue("news"),))
    view.recompute()
    view.set_dimmed(True)
    yield f"without the queue: {take(log)}"
    for found in (None, report):
        view = build_incident(log)
        view.session.is_replay = True
        view.session.journal.load_sightings = list
        engine = Actor(log, "engine", build_incident=lambda _queue: found)
        for ended in (None, FINDING):
            steps = list(view._yield_reports(engine, build_queue("mail"), NOW_MS, ended))
            yield f"replayed: {[step and step.ended for step in steps]}"
    for request, engine, snapshot, finding in (
        (None, 1, True, FINDING), (4, 1, True, FINDING), (None, None, True, FINDING), (None, 1, False, FINDING),
        (None, 1, True, None), (None, 1, True, replace(FINDING, kind="over")),
    ):  # fmt: skip
        view = build_incident(log, finding, _request=request)
        view.session.engine = engine
        view.session.snapshot = view.session.snapshot if snapshot else None
        view.recompute()
        wait_s = view._next_report_s and view._next_report_s - 5_000.0
        yield f"report {request} {engine} {snapshot} {finding and finding.kind}: {take(log)} {view._is_over} {wait_s}"
    for request_id, result, is_last, was_complete in (
        (4, report, False, False), (5, report, False, False), (4, None, False, False), (4, None, True, False),
        (4, replace(report, is_complete=False), False, True), (4, replace(report, is_complete=False), False, False),
    ):  # fmt: skip
        view = silence(build_incident(log, _request=4, _is_complete=was_complete), "_draw")
        view._handle_step(
            SimpleNamespace(request_id=request_id, result=result, is_last=is_last, error="away" * is_last)
        )
        kept = view._request, view._error, view._report is not None, view._is_complete
        yield f"step {request_id} {result is not None} {is_last} {was_complete}: {take(log)} {kept}"
    for past, problem in ((None, "denied"), (5, "")):
        view = silence(build_incident(log), "_draw")
        view._store_past(past, problem)
        yield f"past {past}: {take(log)} {view.past} {view._recording_problem!r}"
    for request in (None, 4):
        view = build_incident(log, _request=request)
        view.on_unmount()
        yield f"left {request}: {take(log)} {view._request}"
    for is_drawn, shown, is_replay, is_large, problem in (
        (False, report, False, True, ""), (True, None, False, True, ""), (True, report, False, True, "locked"),
        (True, report, False, False, ""), (True, report, True, True, ""),
    ):  # fmt: skip
        view = silence(
            build_incident(log, is_drawn=is_drawn, _report=shown, is_large=is_large, _recording_problem=problem),
            "_show_status",
        )
        view.session.is_replay = is_replay
        kinds_found = [replace(FINDING, kind=kind, key="", remedy=f"remedy of {kind}") for kind in ("a", "b", "c")]
        view._report = shown and replace(shown, queue=build_queue("mail", *kinds_found))
        view._draw()
        yield f"drawn {is_drawn} {shown is not None} {is_replay} {is_large}: {take(log)}"
    for is_drawn, progress, error, request, shown in (
        (False, [], "", None, None), (True, [Piece("found 5", "accented")], "", None, None),
        (True, [], "away", None, None),
        (True, [], "", 4, None), (True, [], "", None, None), (True, [], "", None, report),
    ):  # fmt: skip
        view = build_incident(log, is_drawn=is_drawn, _error=error, _request=request, _report=shown, _now_ms=NOW_MS)
        view._group_search.build_progress = lambda: progress
        view._show_status()
        yield f"status {is_drawn} {len(progress)} {error} {request}: {describe(view.details.border_subtitle)}"
    for finding in (FINDING, None, replace(FINDING, kind="over")):
        for width in (5, 10, 11, 12, 40):
            view = build_incident(log, finding, _now_ms=NOW_MS)
            yield f"second line {finding and finding.kind} {width}: {describe(view.build_second_line(width))}"
    view.session.snapshot = None
    yield f"second line without a snapshot: {describe(view.build_second_line(40))}"
    for shown in (
        None,
        replace(report, errors=None),
        replace(report, errors=ErrorReport((), EXTENT)),
        report,
        replace(report, errors=ErrorReport((replace(GROUP, dead=0),), EXTENT)),
    ):
        view = build_incident(log, _report=shown)
        target = view.build_target()
        view.host.push_view = lambda pushed: log.append(type(pushed).__name__)
        view.action_open_group()
        yield f"group {view.group and view.group.dead}: {len(target.jobs)} {target.place!r} {take(log)}"
        for verb in ("requeue", "pause"):
            yield f"  verb {verb}: {view.handle_verb(verbs.VERBS_BY_NAME[verb])} {take(log)[:40]}"
        for can_act, is_read_only in ((True, False), (None, False), (None, True)):
            view.host.check_verb, view.session.is_read_only = lambda _key: can_act, is_read_only
            yield f"  keys {can_act} {is_read_only}: {view._list_group_keys()}"
    undead = [replace(GROUP, dead=0, key=(name,)) for name in ("first", "last")]
    view = build_incident(log, _report=replace(report, errors=ErrorReport(tuple(undead), EXTENT)))
    view._group_search.stop = lambda: True
    yield f"without dead jobs: {view.group.key} {view.step_back()}"
    for key, remedy in (("R", "R requeues"), ("R", "Requeue them"), ("R e", "e lists errors"), ("", "R requeues")):
        yield f"fixes of {key} {remedy}: {incident.describe_fixes([replace(FINDING, key=key, remedy=remedy)])}"
    view = silence(build_incident(log, _next_report_s=5.0), "_draw")
    view.handle_acted_jobs(())
    view.on_resize(None)
    yield (
        f"acted: {view._next_report_s} {view.step_back()} {take(log)} {view.build_focus([])} {view.list_scope_queues()}"
    )
    for width in (10, 27, 28, 60):
        for rows in (4, 8):
            text = incident.build_page(replace(report, errors=None), "mail", ["a long fix " * 5], width, rows)
            yield f"page in {width} x {rows}: {text.markup!r}"
    for line in (
        "short",
        "x " * 30,
        "   " + "x " * 30,
        "label   " + "x " * 30,
        "  label  " + "x " * 30,
        "x" * 20,
        "x" * 21,
    ):
        yield f"wrapped: {[each.plain for each in incident._wrap_line(line, 20)]}"
    others = [replace(FINDING, key=key, remedy="R requeues") for key in ("", "R")]
    yield f"fixes: {incident.describe_fixes([FINDING, *others])}"


# -- plots and frames -------------------------------------------------------------------------------------------------


def describe_queue_plots() -> Iterator[str]:
    session: Any = SimpleNamespace(
        systems=SYSTEMS, last_focus=Focus(()), is_replay=False, settings=SimpleNamespace(is_ascii=True),
        format_name=str,
    )  # fmt: skip
    counters = queue_plot.MinuteCounters(session)
    for ref in (None, MAIL, Ref("dispatcher", "a"), Ref("other", "a")):
        requests = counters.build_requests(ref)
        found = [call.argv for group in requests.values() for request in group for call in request.calls]
        yield f"counters of {ref}: {found}"
        assert counters.build_requests(ref) == requests
        if ref:
            yield f"  awaited {counters.is_awaited(ref)} {counters.find_history(ref)}"
    for number in range(42):
        counters.build_requests(Ref("native", f"q{number}"))
        if number > 36:
            yield f"requests of {number + 2} queues: {len(counters._requests)} {next(iter(counters._requests))[0]}"
    for number in (19, 20, 21):
        counters = queue_plot.MinuteCounters(session)
        histories = tuple(History(Ref("native", f"q{at}"), {"enqueued": at}) for at in range(number))
        counters.add_snapshot(Snapshot(NOW_MS, results={"history": (*histories, RuntimeError("away"))}))
        yield f"histories of {number}: {len(counters._histories)} {next(iter(counters._histories))}"
    [request] = counters.build_requests(MAIL)["history"]
    session.last_focus = Focus((), requests={"history": (request,)})
    for result in (RuntimeError("away"), History(MAIL, {"enqueued": 1}), History(MAIL, {"enqueued": 2})):
        counters.add_snapshot(Snapshot(NOW_MS, results={"history": (result,)}))
        yield (
            f"after {type(result).__name__}: {counters.is_awaited(MAIL)} {counters._failed_refs} "
            f"{counters.build_requests(MAIL)['history'][0].calls[0].argv}"
        )
    session.is_replay = True
    yield f"in a replay: {counters.is_awaited(NEWS)}"
    session.is_replay = False
    plot = queue_plot.QueuePlot(session)
    plot.add_snapshot(
        Snapshot(NOW_MS, (build_queue("mail", ready=3),), rates={MAIL: Rate(1.0, 2.0, history=(1.0, 3.0))})
    )
    plot.add_snapshot(Snapshot(NOW_MS, (build_queue("mail"),), results={"history": (History(NEWS, {"enqueued": 1}),)}))
    yield f"histories of the plot: {plot._counters.find_history(NEWS) is not None}"
    plot.add_snapshot(
        Snapshot(NOW_MS, (build_queue("mail", ready=3),), rates={MAIL: Rate(1.0, 2.0, history=(1.0, 3.0))})
    )
    for rows in (0, 8, 9, 17, 18, 19, 30):
        for ref in (None, MAIL, NEWS):
            yield f"plot of {ref} in {rows}: {len(plot._build_lines(ref, 40, rows))}"
    for width in (20, 30, 60):
        lines = plot._build_lines(MAIL, width, 9)
        yield f"plot in {width}: {[line.plain for line in lines]}"
    for height in (9, 10, 11):
        pane: Any = SimpleNamespace(scrollable_content_region=Size(60, height))
        text = plot.add_below(Content("a text\n"), MAIL, pane, 60)
        yield f"below a text in {height}: {text.plain.count(chr(10))}"


def build_pane(name: str = "ready", **attributes: Any) -> Any:
    usual: dict[str, Any] = {
        "place": NATIVE.place(name), "places": NATIVE.places, "expression": "", "job_filter": None, "scan_result": None,
        "page": None, "marks": {}, "is_whole_place": False, "has_more": False, "rows": (), "shared_values": (),
        "visible_range": (0, 5), "count_matches": lambda: 3, "is_still_in_place": lambda job_id: job_id != b"gone",
        "is_too_long": False, "outer_size": Size(62, 9), "size": Size(60, 9),
    }  # fmt: skip
    return SimpleNamespace(**{**usual, **attributes})


def describe_borders() -> Iterator[str]:
    queue = build_queue("mail", ready=20_950, dead=3, scheduled=1_249)
    for width in (*range(10, 45), 80):
        for expression in ("", "x" * 50):
            pane = build_pane(expression=expression, outer_size=Size(width, 9), size=Size(width - 2, 9))
            yield (
                f"title in {width} {bool(expression)}: "
                f"{''.join(piece.text for piece in board_borders.build_pane_title(2, pane, queue))!r}"
            )
    for number in (999_999, 1_234_567):
        for is_exact in (True, False):
            counts = (Count("ready", State.READY, number, is_exact),)
            title = board_borders.build_pane_title(2, build_pane(), queue._replace(counts=counts))
            yield f"title with {number} {is_exact}: {''.join(piece.text for piece in title)!r}"
    yield f"title of a folded place: {describe(board_borders.build_pane_title(2, build_pane(), None, is_folded=True))}"
    for counted in (
        None,
        queue,
        queue._replace(counts=tuple(replace(count, is_exact=False) for count in queue.counts)),
    ):
        for expression in ("", "x", "x" * 50):
            for width in range(13, 100, 4):
                panes = [build_pane(place.name, size=Size(width, 9), expression=expression) for place in NATIVE.places]
                title = "".join(piece.text for piece in board_borders.build_title_with_tabs(panes, panes[1], counted))
                yield f"tabs in {width} {counted is not None} {len(expression)}: {title!r}"
                for has_line in (False, True):
                    both = board_borders.build_tabs_on_two_lines(panes, panes[1], counted, width, has_line=has_line)
                    parts = both and ["".join(piece.text for piece in part) for part in both]
                    if has_line or parts:
                        yield f"  on two lines {has_line}: {parts}"
    for expression in ("", "x", "x" * 50):
        for has_line in (False, True):
            shown = []
            for width in range(13, 110):
                panes = [build_pane(place.name, size=Size(width, 9), expression=expression) for place in NATIVE.places]
                both = board_borders.build_tabs_on_two_lines(panes, panes[1], queue, width, has_line=has_line)
                shown.append("".join(piece.text for piece in both[0]).count("  ") + len(both[1]) if both else 0)
            yield f"lines of tabs {len(expression)} {has_line}: {shown}"
    for form in board_borders._FORMS:
        panes = [build_pane(place.name) for place in NATIVE.places]
        tabs = board_borders._list_place_tabs(panes, panes[1], queue, form)
        yield f"form {[''.join(piece.text for piece in tab) for tab in tabs]}"
    for names in (("ready", "reserved", "done"), ("wait", "waiting_children", "w"), ("ab", "ac"), ("a_b", "a_c", "a")):
        for letters in (1, 2, 3, 4, 5, 99):
            yield (
                f"names of {letters} letters: "
                f"{sorted(board_borders._take_first_letters(frozenset(names), letters).items())}"
            )
            yield f"  {sorted(board_borders._shorten_place_names(frozenset(names), letters).items())}"
    cells = [
        Piece(" 1 "),
        Piece("scheduled "),
        Piece(" 2 ", "accented"),
        Piece("ready 3 "),
        Piece(" 4 "),
        Piece("/ 5 x"),
    ]
    yield f"clicked: {[board_borders.find_clicked_place_number(cells, x) for x in range(-1, 40)]}"
    for count, is_exact in ((0, True), (9, True), (20_950, True), (9_950, False), (1_200_000, False)):
        for width in (4, 6, 8):
            counted = Queue("mail", "native", (Count("ready", State.READY, count, is_exact),))
            for form in (board_borders._FORMS[0], board_borders._FORMS[4]):
                yield (
                    f"count {count} {is_exact} in {width}: "
                    f"{board_borders._format_tab_count(counted, NATIVE.place('ready'), form, width)}"
                )
    yield (
        f"uncounted: {board_borders._format_place_count(Queue('m', 'n'), NATIVE.place('ready'))} "
        f"{board_borders._format_place_count(None, NATIVE.place('ready'))}"
    )


def describe_bottom_lines() -> Iterator[str]:
    def page(number: int = 3, total: int = 3, **fields: Any) -> Page:
        return Page("mail", "native", "ready", (JOB,) * number, total, **fields)

    scan: dict[str, Any] = {"is_finished": True, "scanned": 5_000, "total": 12_000, "is_cut": False, "problem": ""}
    shared = NATIVE.place("ready")._replace(is_shared=True)
    cases: tuple[dict[str, Any], ...] = (
        {"page": page(3, 1_234_567_890), "is_whole_place": True}, {"page": page(3, 12_345_678), "is_whole_place": True},
        {"page": page(3, 3, place_total=123_456_789), "is_whole_place": True, "has_more": True},
        {"page": page(3, 3, place_total=0), "is_whole_place": True, "has_more": True},
        {"page": page(3, 3, place_total=0), "has_more": True},
        {"page": page(3, 3, place_total=123_456_789), "has_more": True},
        {"page": page(3, 1_000_000), "job_filter": 1, "count_matches": lambda: 1_000_000},
        {"page": page(3, 3, place_total=9_000), "scan_result": SimpleNamespace(**scan)},
        {}, {"page": page()}, {"page": page(0, 0)}, {"page": page(3, 3, is_exact=False)}, {"page": page(3, 9_000)},
        {"page": page(), "visible_range": (1, 2)}, {"page": page(), "marks": {b"a": 1, b"gone": 1}},
        {"page": page(), "marks": {b"a": 1}}, {"page": page(), "is_whole_place": True},
        {"page": page(), "is_whole_place": True, "job_filter": 1},
        {"page": page(3, 3, place_total=9_000), "is_whole_place": True, "has_more": True},
        {"page": page(3, 3, place_total=9_000), "has_more": True}, {"page": page(3, 3, place_total=9_000)},
        {"page": page(3, 3, place_total=9_000), "job_filter": 1}, {"page": page(0, 0, place_total=9_000)},
        {"page": page(3, 3, place_total=9_000, coverage=EventCoverage(NOW_MS - 60_000))},
        {"page": page(3, 3, coverage=EventCoverage(NOW_MS - 60_000, missed_ms=5_000))},
        {"page": page(3, 3, coverage=EventCoverage())},
        {"page": page(3, 3, record=PageRecord(NOW_MS, 3))}, {"page": page(3, 3, record=PageRecord(NOW_MS, 4))},
        {"page": page(3, 3, record=PageRecord(NOW_MS, None))},
        {"page": page(3, 3, record=PageRecord(NOW_MS, 9, False))},
        {"page": page(3, 3, record=PageRecord(NOW_MS, 2))},
        {"page": page(), "job_filter": 1, "is_too_long": True}, {"page": page(3, 5), "job_filter": 1},
        {"page": page(), "job_filter": 1, "has_more": True}, {"job_filter": 1},
        {"job_filter": 1, "scan_result": SimpleNamespace(**scan)},
        {"job_filter": 1, "scan_result": SimpleNamespace(**{**scan, "is_finished": False})},
        {"job_filter": 1, "scan_result": SimpleNamespace(**{**scan, "is_cut": True})},
        {"job_filter": 1, "scan_result": SimpleNamespace(**{**scan, "is_cut": True, "problem": "away"})},
        {"job_filter": 1, "scan_result": SimpleNamespace(**scan), "place": shared},
        {"job_filter": 1, "scan_result": SimpleNamespace(**scan), "count_matches": lambda: 0},
        {"page": page(), "shared_values": (("queue", "orders"), ("attempts", "1/5")), "rows": (1,)},
        {"page": page(), "shared_values": (("queue", "orders"),), "rows": ()},
    )  # fmt: skip
    queue = build_queue("mail", ready=3)._replace(oldest_ready_ms=61_000, is_paused=True)
    for case in cases:
        line: list[Piece] = []
        for is_current, is_frozen in ((True, False), (False, True)):
            previous = ""
            for width in (*range(8, 100), 160):
                pane = build_pane(**case, size=Size(width, 9))
                line = board_borders.build_pane_bottom_line(
                    pane, queue, is_current=is_current, is_frozen=is_frozen, scripts=NATIVE.scripts, now_ms=NOW_MS
                )
                text = "".join(piece.text for piece in line)
                if text != previous:
                    yield f"bottom from {width} {is_current} {[*case]}: {text!r}"
                previous = text
        yield f"  styles {[piece.style for piece in line]}"
    pieces = [Piece("a" * 10), Piece("b" * 5), Piece("c")]
    for cells in range(0, 32):
        yield f"texts in {cells}: {''.join(piece.text for piece in board_borders._join_fitting_texts(pieces, cells))!r}"
    for cells in (4, 5, 6, 39, 40, 41, 60):
        yield f"filter in {cells}: {board_borders._format_filter_pieces(build_pane(expression='x' * 60), cells)}"


# -- the server -------------------------------------------------------------------------------------------------------


def build_period(at_minutes: int, used: int | None, limit: int | None = None) -> ServerPeriod:
    return ServerPeriod(NOW_MS + at_minutes * 60_000, 60_000, 60, 60_000, 1.0, 0.2, used, limit, "primary")


def describe_server() -> Iterator[str]:
    log: list[str] = []
    one = build_period(0, 1 << 20)
    for title, periods in (
        ("none", ()), ("one", (one,)), ("two", (one, build_period(1, 2 << 20))),
        ("a gap", (one, build_period(2, 2 << 20))), ("unknown", (one, build_period(1, None))),
        ("all unknown", (build_period(0, None), build_period(1, None))),
        ("a limit", (one, build_period(1, 1 << 20, 4 << 20))),
        ("a far limit", (one, build_period(1, 1 << 20, (4 << 20) + 1))),
        ("a limit that is reached", (one, build_period(1, 1 << 20, 1 << 20))),
        ("a limit of three", (one, build_period(1, 3 << 20, 3 << 20))),
        ("a limit below", (one, build_period(1, 2 << 20, 1 << 20))),
    ):  # fmt: skip
        yield f"points of {title}: {[(at - NOW_MS, value) for at, value in redis._yield_memory_points(periods)]}"
        for width, is_ascii in ((20, True), (60, False)):
            view = build_bare_view(
                log, redis.RedisView((MAIL,)), MAIL, app=SimpleNamespace(size=Size(width, 40)), _memory=periods
            )
            view.session.settings.is_ascii = is_ascii
            yield from (f"  {line.plain}" for line in view._build_memory_plot())
    for number in (0.0, 1.0, 1023.0, 1024.0, 1025.0, 5_000_000.0):
        yield f"rounded {number}: {redis._round_up_bytes(number)}"
    server: Any = SimpleNamespace(role="primary", mode="", title="Redis 7.0")
    report: Any = Bare(Report, server=server, info={}, missing=None)
    for failure, shown, read_ago_s in (
        ("", None, 0.0),
        ("away", report, 0.0),
        ("", report, 5.875),
        ("", report, 6.0),
        ("", report, 61.0),
    ):
        view = build_bare_view(
            log, redis.RedisView((MAIL,)), MAIL, _failure=failure, _report=shown, _read_s=5_000.0 - read_ago_s
        )
        yield f"second line {failure} {shown is not None} {read_ago_s}: {describe(view.build_second_line(80))}"
    for is_reading, is_on_top, engine, due_s, has_recording in (
        (False, True, 1, 0.0, True), (True, True, 1, 0.0, True), (False, False, 1, 0.0, True),
        (False, True, None, 0.0, True),
        (False, True, 1, float("inf"), True), (False, True, 1, 0.0, False),
    ):  # fmt: skip
        view = build_bare_view(
            log, redis.RedisView((MAIL,)), MAIL, _is_reading=is_reading, is_on_top=is_on_top, _memory_due_s=due_s
        )
        view.session.engine, view.session.read_recording = engine, lambda *_: log.append("recording") or has_recording
        view._request_report()
        wait_s = view._memory_due_s and view._memory_due_s - 5_000.0
        yield (
            f"read {is_reading} {is_on_top} {engine} {due_s} {has_recording}: {take(log)} {view._is_reading} "
            f"{wait_s} {view._memory_problem!r}"
        )
    view = build_bare_view(log, redis.RedisView(()), MAIL, _memory_due_s=5_000.0)
    view.session.engine, view.session.read_recording = 1, lambda *_: log.append("recording") or True
    view._request_report()
    view._draw_panels()
    view.on_resize(None)
    yield f"due now: {take(log)}"
    for result in (None, Report(server, {})):
        for is_drawn in (False, True):
            view = silence(
                build_bare_view(log, redis.RedisView((MAIL,)), MAIL, is_drawn=is_drawn, _is_reading=True),
                "_draw_panels",
            )
            view._store_report(SimpleNamespace(result=result, error="away" if result is None else ""))
            yield (
                f"report {result is not None} {is_drawn}: {take(log)} {view._is_reading} {view._failure!r} "
                f"{view._read_s > 0}"
            )
            for periods, problem in ((None, "locked"), ((one,), "")):
                view._memory_due_s = 7.0
                view._store_memory(periods, problem)
                yield (
                    f"  memory {problem}: {take(log)} {len(view._memory)} {view._memory_problem!r} {view._memory_due_s}"
                )
    for shown in (None, report):
        view = silence(build_bare_view(log, redis.RedisView(()), MAIL, _report=shown), "_request_report")
        view.show_snapshot(Snapshot(NOW_MS))
        yield f"snapshot {shown is not None}: {take(log)}"
    for number in (0, 1, 20, 21):
        refs = tuple(Ref("native", f"q{at}") for at in range(number))
        view = build_bare_view(log, redis.RedisView(refs), MAIL)
        yield f"counted of {number}: {len(view.build_focus([MAIL, NEWS]).queues)} {view.build_target().ref}"
    for demo, is_recording in ((1, True), (None, True), (None, False)):
        session: Any = SimpleNamespace(demo=demo, settings=SimpleNamespace(is_recording=is_recording))
        yield f"no recording: {redis._describe_missing_recording(session)}"
    lines = ((Piece("a", "strong"),), (Piece("b", "faint"), Piece("c")))
    for name in ("server", "memory"):
        for lacks in ("", "denied", "NOPERM; allow it: ACL SETUSER x +info"):
            for number in (1, 2):
                panel = Panel(name, "title", lines[:number], lacks)
                yield f"panel {name} {lacks[:6]} {number}: {redis._build_panel_text(panel).markup!r}"
    view = build_bare_view(log, redis.RedisView(()), app=SimpleNamespace(size=Size(30, 20)))
    for name in ("warnings", "memory"):
        yield f"lines of {name}: {view._count_panel_lines(Panel(name, 'x', ((Piece('word ' * 20),),)))}"


def describe_panels(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    log: list[str] = []
    names = ("warnings", "server", "memory", "clients", "traffic", "commands", "keyspace", "slow")
    for width in (71, 72, 119, 120):
        for is_large in (False, True):
            for has_warnings in (False, True):
                panels = [
                    Panel(name, name, ((Piece("x"),),) * (number if name != "warnings" else int(has_warnings)))
                    for number, name in enumerate(names)
                ]
                monkeypatch.setattr(redis, "build_panels", lambda _report: panels)
                panes = {name: Actor(log, name, styles=SimpleNamespace(), display=None) for name in redis._ORDER[2]}
                order: list[tuple[str, int]] = []
                grid = SimpleNamespace(
                    styles=SimpleNamespace(),
                    sort_children=lambda key: order.extend(
                        (name, key(SimpleNamespace(id=f"panel-{name}"))) for name in panes
                    ),
                )
                view = build_bare_view(
                    log, redis.RedisView(()), MAIL, app=SimpleNamespace(size=Size(width, 40)), is_large=is_large,
                    _report=1,
                    query_one=lambda name, _type: panes.get(name.removeprefix("#panel-"), grid),
                    _build_memory_plot=lambda: [Content("plot")] * 3,
                )  # fmt: skip
                view._draw_panels()
                spans = [(name, pane.styles.column_span) for name, pane in panes.items() if pane.display]
                styles = grid.styles
                yield f"panels in {width} {is_large} {has_warnings}: {sorted(order, key=lambda each: each[1])} {spans}"
                yield f"  {styles.grid_size_columns} {styles.grid_rows} {styles.height} {take(log)}"
                view._draw_panels()
                assert take(log) == "nothing"


# -- reports ----------------------------------------------------------------------------------------------------------


KIND = Kind(
    MAIL, "send", {State.READY: 4, State.DEAD: 2}, 3, 61_000, 250, 900, figures=KindStatistics("send", 8, 2, 120)
)
OTHER_KIND = Kind(NEWS, "", {}, 0, None, None, None)


def describe_kinds() -> Iterator[str]:
    log: list[str] = []
    report = Kinds(
        (OTHER_KIND, KIND, replace(KIND, name="charge", ref=Ref("native", ""), failed=0, figures=None)), EXTENT
    )
    unknown = [
        replace(
            KIND,
            name=name,
            wait_ms=number,
            run_ms=number,
            figures=None if number is None else KindStatistics("x", number, 0),
        )
        for name, number in (("b", None), ("a0", 0), ("a1", 1), ("a", None), ("c", 1), ("d", 0))
    ]
    for sort in kinds.Kinds.SORTS:
        view = build_bare_view(log, kinds.Kinds(), MAIL, report=Kinds(tuple(unknown), EXTENT), sort=sort)
        yield f"unknown ones by {sort}: {[kind.name for kind in view.list_matching_items()]}"
    for sort in kinds.Kinds.SORTS:
        view = build_bare_view(log, kinds.Kinds(), MAIL, report=report, sort=sort)
        yield f"by {sort}: {[kind.name for kind in view.list_matching_items()]}"
    for shown in (None, report, replace(report, kinds=(OTHER_KIND,), silent=("dispatcher", "rq"))):
        for refs in ((), (MAIL,)):
            view = build_bare_view(log, kinds.Kinds(), MAIL, report=shown, refs=refs)
            yield f"summary {refs}: {describe(view.build_summary())} {view.explain_empty_report()!r}"
            for kind in shown.kinds if shown else ():
                yield f"  row {describe(view.build_row(kind, NOW_MS).cells)}"
                for is_large, has_preview in ((True, True), (False, True), (True, False)):
                    vars(view).update(is_large=is_large, has_preview=has_preview)
                    view.table.cursor_id = kinds._build_kind_key(kind)
                    view.app.call_after_refresh = lambda _call, state, text: log.append(f"filter {state} {text}")
                    view.on_table_opened(None)
                    yield f"  {view._find_plotted_queue()} {view.build_target().ref} {take(log)}"
                    view._plot = Actor(log, "plot", add_below=lambda text, *_: text, build_requests=lambda _ref: {})
                    view._show_kind_details()
                    yield f"  {take(log)} {describe(view.details.border_title)} {view.build_focus([NEWS]).queues}"
    for width in (10, 21, 22, 60, 101, 102, 130):
        for looked in (5, 4):
            shown = replace(report, size=replace(EXTENT, looked=looked))
            text = kinds._format_kind_details(replace(KIND, errors=(("Boom " * 9, 3), ("", 1))), shown, width)
            yield f"details in {width} {looked}: {text.plain!r}"
    yield f"details: {kinds._format_kind_details(OTHER_KIND, report, 60).plain!r}"
    for name, names in (
        ("send", {"send"}),
        ("send", {"send", "resend"}),
        ("send", {"send", "Charge"}),
        ("a b", {"a b"}),
        ("a/b", set()),
        ("", set()),
    ):
        yield f"filter of {name!r}: {kinds.build_kind_filter(name, names)}"


def describe_groups() -> Iterator[str]:
    log: list[str] = []
    found = (
        Group("a", 7, {"dead": 7}, 61_000, ".x:a", done_per_s=2.0), Group("b", 1, {"dead": 1}, None, "", "too long"),
        Group(None, 1, {"dead": 1}, 5, "x"), Group("", 1, {"dead": 1}, 5, "x"),
        Group(None, 1, {"dead": 1}, 5, is_unknown=True),
    )  # fmt: skip
    report = Groups(
        MAIL, ".x", ("dead",), found, EXTENT, 11, True, 0, "", states={"dead": State.DEAD}, verbs=("requeue",)
    )
    unknown = tuple(
        replace(found[0], value=value, oldest_ms=number, done_per_s=number)
        for value, number in (("b", None), ("a0", 0), ("a1", 1), ("a", None), ("d", 0))
    )
    for sort in groups.Groups.SORTS:
        view = build_bare_view(
            log, groups.Groups(MAIL, "dead"), MAIL, report=replace(report, groups=unknown), sort=sort
        )
        yield f"unknown ones by {sort}: {[group.value for group in view.list_matching_items()]}"
    for sort in groups.Groups.SORTS:
        for by in (".x", "age"):
            view = build_bare_view(log, groups.Groups(MAIL, "dead"), MAIL, report=report, sort=sort, by=by)
            yield f"by {sort} {by}: {[group.value for group in view.list_matching_items()]}"
    sampled = replace(EXTENT, looked=4)
    for shown in (
        None, report, replace(report, size=sampled), replace(report, size=sampled, is_random=False, done_ms=60_000),
        replace(report, rate_problem="no events", done_ms=60_000), replace(report, groups=(), matched=0),
        replace(report, matched=1_000),
    ):  # fmt: skip
        for expression in ("", "err:x"):
            view = build_bare_view(log, groups.Groups(MAIL, "dead", expression), MAIL, report=shown)
            yield f"summary: {describe(view.build_summary())} {view.explain_empty_report()!r}"
            for width in (20, 40, 60, 75, 90, 120):
                yield f"  in {width}: {[side.plain for side in view.build_second_line(width)]}"
            for group in found[: 1 if shown is None else 5]:
                yield f"  row {describe(view.build_row(group, NOW_MS).cells)}"
    for group in (None, *found):
        for expression, has_preview in (("", True), ("x", True), ("", False)):
            view = build_bare_view(
                log, groups.Groups(MAIL, "dead", expression), MAIL, report=report, has_preview=has_preview
            )
            view.table.cursor_id = groups._build_key(group) if group else None
            view.session.engine = SimpleNamespace(format_argument=str)
            view._show_details()
            view.app.call_after_refresh = lambda _call, chosen: log.append(
                f"filter {chosen.place} {chosen.filter_text}"
            )
            view.on_table_opened(None)
            yield f"group {group and group.value} {expression} {has_preview}: {take(log)}"
    view = silence(build_bare_view(log, groups.Groups(MAIL, "dead"), MAIL), "_start_report_over")
    for step in (1, 1, 1, 1, -1, -1):
        view.action_field(step)
        yield f"field {step}: {view.by}"
    view.group_by(".new")
    view.set_body_paths([f"p{number}" for number in range(30)])
    yield f"fields: {view._fields} {take(log)}"
    for has_hosts in (False, True, True):
        view.report = replace(report, has_hosts=has_hosts)
        view.apply_report()
        yield f"hosts {has_hosts}: {view._fields[-6:]}"
    view.set_body_paths(["a"])
    yield f"fields with hosts: {view._fields}"


def describe_differences() -> Iterator[str]:
    log: list[str] = []
    both = (Condition("attempts", "=", "5"), Condition(".x", "=", "a"))
    first = Difference(both[:1], 9, 1, 10, 100, 0.001)
    found = (
        replace(first, conditions=both, is_time=True), replace(first, is_explained=True, more=2),
        replace(first, conditions=both[1:], is_result=True), replace(first, conditions=both[1:], a_jobs=1, b_jobs=99),
    )  # fmt: skip
    a, b = (Side(Selection((place,)), (place, "ready"), 10, 10, 100) for place in ("dead", "done"))
    comparison = Comparison(MAIL, a, b, Differences(found, 10, 100, 4, 12), EXTENT)
    for number in (50, 52, 53):
        close = replace(first, a_jobs=50, a_total=100, b_jobs=number, b_total=100)
        view = build_bare_view(log, differences.Differences(MAIL, Selection(("dead",)), Selection(("done",))), MAIL)
        yield f"close shares {number}: {describe(view.build_row(close, NOW_MS).cells)}"
    for view, shown in (
        (differences.Differences(MAIL, Selection(("dead",)), Selection(("done",))), comparison),
        (kinds.Kinds(), Kinds((KIND,), EXTENT)),
        (groups.Groups(MAIL, "dead"), Groups(MAIL, "kind", ("dead",), (), EXTENT, 0, True, 0, "")),
    ):  # fmt: skip
        drawn = build_bare_view(log, view, MAIL, report=shown)
        drawn._plot = Actor(log, "plot", add_below=lambda text, *_: text)
        drawn.draw()
        yield f"{type(view).__name__} drawn: {[line.partition('(')[0] for line in log]}"
        log.clear()
        drawn.on_table_moved(None)
        yield f"  moved: {[line.partition('(')[0] for line in log]}"
        log.clear()
        board = Bare(
            incident.IncidentPage, go_to_place=lambda place: log.append(f"go to {place}"),
            confirm_filter=lambda text: log.append(f"filter {text}"),
            filter_place_of_state=lambda state, text: log.append(f"filter {state} {text}"),
        )  # fmt: skip
        for stack in ([], [board]):
            drawn.app.screen_stack = stack
            group = Group("a", 7, {"dead": 7}, 61_000, ".x:a")
            arguments = {"Groups": (group,), "Kinds": (State.DEAD, "job:a")}
            drawn._filter_opened_board(*arguments.get(type(view).__name__, ("dead", ".x:a")))
            yield f"  filtered with {len(stack)} boards: {take(log)}"
    for ids in ((), (b"a",)):
        for shown in (None, comparison):
            view = build_bare_view(
                log,
                differences.Differences(MAIL, Selection(("dead",), ids=ids), Selection(("done",))),
                MAIL,
                report=shown,
            )
            yield (
                f"actions {ids}: {view.offers_action('screen.times')} {view.offers_action('x')} "
                f"{view.explain_empty_report()!r}"
            )
            yield f"summary: {describe(view.build_summary())}"
            for width in (5, 12, 40, 90, 120, 160):
                yield f"  in {width}: {[side.plain for side in view.build_second_line(width)]}"
            for item in view.list_matching_items():
                yield f"  row {describe(view.build_row(item, NOW_MS).cells)}"
    silence(view, "_start_report_over")
    for step in (1, 1, 1, 1, 1, -1, -1):
        view.action_times(step)
        yield f"times {step}: {view._times} {take(log)}"
    for difference in (None, *found):
        for has_preview in (True, False):
            for shown in (None, comparison):
                for queue in (None, build_queue("mail", dead=1, ready=5)):
                    view = build_bare_view(
                        log, differences.Differences(MAIL, Selection(("dead",)), Selection(("done",))), MAIL,
                        report=shown, has_preview=has_preview,
                    )  # fmt: skip
                    view.session.snapshot = Snapshot(NOW_MS, (queue,)) if queue else None
                    view.table.cursor_id = differences._build_key(difference) if difference else None
                    view._show_explanation()
                    explained = take(log)
                    view.app.call_after_refresh = lambda _call, place, text: log.append(f"filter {place} {text}")
                    view.on_table_opened(None)
                    yield f"difference {has_preview} {shown is not None} {queue is not None}: {explained} | {take(log)}"


def describe_plot_rows(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    log: list[str] = []
    monkeypatch.setattr(incident, "build_page", lambda *args: log.append(f"plot of {args[-1]} rows") or Content())
    for is_large in (False, True):
        view = silence(
            build_incident(log, _report=Incident(MAIL, NOW_MS, build_queue("mail")), is_large=is_large), "_show_status"
        )
        view._draw()
        yield f"incident {is_large}: {take(log)}"


@pytest.mark.slow
def test_pages_at_their_bounds_match_the_stored_text(
    monkeypatch: pytest.MonkeyPatch,
    stopped_clock: None,  # noqa: F811
) -> None:
    parts = (
        describe_first_states, describe_job_page, describe_body, describe_job_keys, describe_incident,
        describe_queue_plots, describe_borders, describe_bottom_lines, describe_server, describe_kinds,
        describe_groups, describe_differences,
    )  # fmt: skip
    clock = SimpleNamespace(**{**vars(time), "monotonic": lambda: 5_000.0})
    for name, module in [*sys.modules.items()]:
        if name.startswith("rqtui.tui.") and getattr(module, "time", None) is time:
            monkeypatch.setattr(module, "time", clock)  # a thread of another test waits by the clock itself
    lines = [line for part in parts for line in (f"== {part.__name__[9:]}", *part())]
    assert_lines_match_file(
        [*lines, "== panels", *describe_panels(monkeypatch), *describe_plot_rows(monkeypatch)], KEPT
    )
