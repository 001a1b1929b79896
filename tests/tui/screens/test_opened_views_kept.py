# ruff: noqa: B023 (a function is called before its loop continues)
"""What views do when they are opened, frozen, sorted and left: `opened_views_kept.txt` has every line.

The methods are called without a screen (`support/bare_objects.py`).
`RQTUI_WRITE_SNAPSHOTS=1 pytest tests/tui/screens/test_opened_views_kept.py` writes the text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from bare_objects import SYSTEMS, Actor, Bare, build_bare_view, describe, silence, take
from kept_text import assert_lines_match_file

from rqtui.model import Count, Finding, Job, Page, Queue, Ref, Snapshot, State
from rqtui.tui.screens import board, errors, events, job, kinds, metrics, operations, overview, redis, workers
from rqtui.tui.screens.board_layout import choose_first_place, compute_board_layout
from rqtui.tui.screens.metrics import CHANGE, FINDING, Chart, Mark
from rqtui.tui.widgets.pane import MAX_LIVE_JOBS, JobState, Pane

KEPT = Path(__file__).with_name("opened_views_kept.txt")
NOW_MS = 1_800_000_000_000
MAIL, NEWS = Ref("native", "mail"), Ref("native", "news")
NATIVE = SYSTEMS["native"]
JOB = Job(b"j1", "mail", "native", "dead", State.DEAD, b"j1", name="send")


def build_board(log: list[str], **attributes: Any) -> Any:
    view = build_bare_view(log, board.Board(MAIL, NATIVE), MAIL, **attributes)
    panes = [
        Actor(log, place.name, place=place, page=None, expression="", scan_result=None, is_whole_place=False)
        for place in NATIVE.places
    ]
    vars(view)["_panes"] = panes
    view.session.settings.columns = {}
    return view


def describe_opening() -> Iterator[str]:
    log: list[str] = []
    view = silence(build_board(log), "_arrange_panes", "set_focus", "_stop_all_scans")
    view.on_mount()
    yield f"board opened: {take(log)} {describe(view.details.border_title)}"
    view.session.settings.columns = {"ready": ["id", "colour"], "dead": ["size", "colour"]}
    view.on_mount()
    yield f"board with an unknown column: {take(log)}"
    view.on_unmount()
    yield f"board closed: {take(log)}"
    view = silence(build_bare_view(log, overview.Overview()), "_update_frame", "_choose_columns", "call_next",
                   "_draw_rows")  # fmt: skip
    view.on_mount()
    yield f"overview opened: {take(log)}"
    view.on_resize(None)
    yield f"overview resized: {take(log)}"
    view = build_bare_view(log, events.Events((MAIL,)))
    view.table.follow_head = False
    view.on_mount()
    yield f"events opened: {take(log)} {view.table.follow_head}"
    build_bare_view(log, job.JobPage(MAIL, JOB)).on_mount()
    yield f"job opened: {take(log)}"
    view = silence(build_bare_view(log, metrics.Metrics((MAIL,)), MAIL), "_arrange_plots", "_load_counters")
    view.on_mount()
    yield f"metrics opened: {take(log)}"
    view.on_resize(None)
    yield f"metrics resized: {take(log)}"
    view = silence(build_bare_view(log, operations.Operations((MAIL,))), "_draw_operations")
    calls: list[Any] = []
    view.session.call_engine = lambda call, handle: (log.append("call"), calls.extend((call, handle)))
    view.on_mount()
    yield f"operations opened: {take(log)} {calls[0](None)}"
    for result, is_drawn in ((["earlier"], True), (None, True), (["earlier"], False)):
        view.is_drawn = is_drawn
        calls[1](SimpleNamespace(result=result))
        yield f"  {result} {is_drawn}: {take(log)} {view._earlier_operations}"
    view = silence(build_bare_view(log, redis.RedisView((MAIL,))), "set_interval", "_request_report", "_draw_panels")
    view.on_mount()
    yield f"server opened: {take(log)}"
    view.on_resize(None)
    yield f"server resized: {take(log)}"
    for is_dim in (False, True):
        view.set_dimmed(is_dim)
        yield f"server dimmed: {take(log)}"
    build_bare_view(log, workers.Workers()).on_mount()
    yield f"workers opened: {take(log)}"


def describe_keys() -> Iterator[str]:
    log: list[str] = []
    view = silence(build_bare_view(log, overview.Overview()), "_sort_and_draw")
    for _time in range(2):
        view.action_sort()
        yield f"overview sorted: {view.sort} {take(log)}"
    for _time in range(2):
        view.action_freeze()
        yield f"overview frozen {view.is_frozen}: {take(log)}"
    view.select_queue(NEWS)
    yield f"overview selects a queue: {take(log)}"
    view = silence(build_bare_view(log, events.Events((MAIL,))), "_update_frame")
    for _time in range(2):
        view.action_freeze()
        yield f"events frozen {view.is_frozen}: {take(log)}"
    view = silence(build_board(log), "load_body_paths", "_go_to_pane", "_arrange_panes", "update_pane_frames")
    view.prepare_for_verb()
    view._request_sample_refresh(None)
    yield f"board before a verb: {take(log)}"
    view._select_compared_jobs = lambda: ("these", "others")
    vars(view)["host"].push_view = lambda pushed: log.append(f"push {type(pushed).__name__} {pushed.ref}")
    view.action_group_jobs()
    view.action_compare()
    yield f"groups and differences: {take(log)}"
    for name in ("ready", "dead"):
        view._go_to_named_place(name)
        yield f"to {name} from {view._current}: {take(log)}"
    vars(view)["host"].open_job = lambda ref, opened: log.append(f"open {opened.id} of {ref}")
    for found in (JOB, None):
        pane = build_pane(find_current_job=lambda: found)
        view.on_table_opened(SimpleNamespace(table=pane))
        yield f"opened {found and found.id}: {take(log)}"
    view.on_table_opened(SimpleNamespace(table=Actor(log, "another table", find_current_job=lambda: JOB)))
    yield f"opened in another table: {take(log)}"
    for number in (1, 3, 4):
        view = silence(build_bare_view(log, metrics.Metrics((MAIL,)), MAIL), "_load_counters", "_load_recorded",
                       "_load_days", "_draw_charts")  # fmt: skip
        vars(view).update(_ranges=(("a", 1), ("b", 2), ("30 days", 3)), _is_range_by_days=number == 3)
        for is_replay in (False, True):
            view.session.is_replay, view._range_index = is_replay, 1
            view.action_place(number)
            yield f"range {number} {is_replay}: {take(log)} {view._range_index}"
    view = silence(build_bare_view(log, kinds.Kinds(), MAIL), "build_columns")
    view.build_columns = lambda: ["a"]
    for shown in (("a",), ("b",)):
        view.table.painter.columns = shown
        view.apply_report()
        yield f"columns of kinds {shown}: {take(log)}"
    view = silence(build_bare_view(log, kinds.Kinds(), MAIL, _plot=Actor(log, "plot")), "recompute", "draw")
    view.show_snapshot(Snapshot(NOW_MS))
    yield f"snapshot of kinds: {take(log)} {view._now_ms - NOW_MS}"
    for frame, is_touched in (("a.py:8", True), ("a.py:8", False), ("", True)):
        group = SimpleNamespace(frame=frame)
        view = silence(build_bare_view(log, errors.Errors(), MAIL, _frame_cells=12), "_keep_cursor_on_group",
                       "_update_frame")  # fmt: skip
        vars(view).update(list_error_groups=lambda: [group], build_columns=lambda: [])
        vars(view.table).update(cursor_id="Boom", is_touched=is_touched)
        view._draw_rows_with_frames()
        yield f"errors raised at {frame!r}, touched {is_touched}: {take(log)} {view._frame_cells}"


def describe_charts() -> Iterator[str]:
    log: list[str] = []
    marks = [Mark(at_ms, kind, "x") for kind in (CHANGE, FINDING) for at_ms in (99, 100, 199, 200)]
    for listed in ([], marks[:1], marks[1:3], marks[3:6], marks):
        for note in ("", "counted"):
            panes = [
                SimpleNamespace(
                    show_chart=lambda chart, *times: log.append(
                        f"{chart.title} {chart.note!r} {times[:2]} {len(times[2])}"
                    )
                )
                for _pane in range(2)
            ]
            view = build_bare_view(log, metrics.Metrics((MAIL,)), MAIL, query=lambda _type: panes)
            view._list_marks = lambda *_times: listed
            view._show_charts((Chart("first", note=note), Chart("second", note="own")), 100, 200)
            yield f"{len(listed)} marks {note!r}: {take(log)}"


def build_pane(**attributes: Any) -> Any:
    return Bare(Pane, **{"ref": MAIL, "place": NATIVE.places[0], "page": None, "scan_result": None, **attributes})


def describe_panes() -> Iterator[str]:
    ready = NATIVE.places[0]
    shared: Any = SimpleNamespace(name="ready", is_shared=True, is_from_events=False)
    filled = Page("mail", "native", "ready", (JOB,), MAX_LIVE_JOBS)
    for place in (ready, shared):
        for page in (None, filled, replace(filled, total=MAX_LIVE_JOBS + 1), replace(filled, place_total=9)):
            for job_filter, scan in ((None, None), (1, None), (1, 2)):
                pane = build_pane(place=place, page=page, job_filter=job_filter, scan_result=scan)
                yield (
                    f"{'shared' if place is shared else 'own'} place, {page and (page.total, page.place_total)}, "
                    f"filter {job_filter}, scan {scan}: more {pane.has_more} too long {pane.is_too_long}"
                )
    log: list[str] = []
    for is_finished in (None, False, True):
        scan = None if is_finished is None else SimpleNamespace(is_finished=is_finished)
        pane = build_pane(expression="a", scan_result=scan, is_queue_gone=False)
        yield f"empty, scan {is_finished}: {pane._explain_empty_pane(NOW_MS)}"
    for place, job_found in (("dead", JOB), ("ready", JOB), ("dead", None)):
        scan = SimpleNamespace(left_places={}, update_job=lambda *state: log.append(f"update {describe(state[:2])}"))
        pane = build_pane(place=SimpleNamespace(name=place), scan_result=scan, left_places={b"j1": "x"}, marks=(b"j1",))
        pane.apply_job_state(JobState("dead", b"j1", job_found))
        yield f"state in {place}, {job_found and job_found.place}: {take(log)} {pane.left_places}"


def describe_first_places() -> Iterator[str]:
    def place(name: str, state: State, where: str = "") -> Any:
        return SimpleNamespace(name=name, state=state, where=where)

    places = [
        place("ready", State.READY), place("due", State.SCHEDULED), place("held", State.RESERVED, "leases"),
        place("late", State.RESERVED, "leases"), place("dead", State.DEAD), place("lost", State.DEAD),
        place("done", State.DONE),
    ]  # fmt: skip
    keys = {"due": "k:due", "lost": "k:lost"}
    numbers: tuple[dict[str, int], ...] = (
        {}, {"dead": 1, "lost": 2}, {"dead": 2, "lost": 2}, {"lost": 1, "ready": 5}, {"due": 1, "ready": 5},
        {"held": 2, "late": 1}, {"late": 1}, {"held": 1}, {"done": 9}, {"done": 9, "due": 1}, {"ready": 1, "due": 1},
    )  # fmt: skip
    findings: tuple[tuple[Finding, ...], ...] = (
        (),
        (Finding("failing", "critical", "", "", "", key="e"),),
        (Finding("expired-not-reaped", "critical", "", "", ""),),
        (Finding("full", "critical", "", "", "", keys=("k:lost",)),),
        (Finding("full", "critical", "", "", "", keys=("k:due",)), Finding("failing", "warning", "", "", "")),
        (Finding("full", "critical", "", "", "", keys=("k:none",)),),
    )
    for found in findings:
        for counted in numbers:
            counts = tuple(Count(each.name, each.state, counted.get(each.name, 0)) for each in places)
            queue = Queue("mail", "native", counts, NOW_MS, findings=found)
            kinds_found = [(each.kind, *each.keys) for each in found]
            yield f"opens for {kinds_found} of {counted}: {choose_first_place(places, queue, keys)}"


def describe_layouts() -> Iterator[str]:
    names = ["ready", "held", "dead"]
    for width in (80, 119, 120, 139, 140, 151, 160, 275, 276, 300):
        for is_zoomed in (False, True):
            for list_rows in (0, 9):
                for empty in (None, [], ["held"], ["ready"], ["held", "dead"]):
                    layout = compute_board_layout(
                        width, names, "ready", empty, is_zoomed=is_zoomed, list_rows=list_rows
                    )
                    if empty == [] or (width in (119, 120, 140) and not is_zoomed):
                        yield f"layout of {width}, zoomed {is_zoomed}, {list_rows} rows, {empty}: {describe([*layout])}"


def test_opened_views_match_the_stored_text() -> None:
    parts = (describe_opening, describe_keys, describe_charts, describe_panes, describe_first_places, describe_layouts)
    assert_lines_match_file((line for part in parts for line in (f"== {part.__name__[9:]}", *part())), KEPT)
