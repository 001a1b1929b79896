"""What a board requests, shows and does at each bound: `board_at_bounds.txt` has every line.

The methods are called without a screen (`support/bare_objects.py`).
`RQTUI_WRITE_SNAPSHOTS=1 pytest -m "" tests/tui/screens/test_board_at_bounds.py` writes the text.
"""

# ruff: noqa: B023 (a function is called before its loop continues)
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from bare_objects import Actor, Bare, Size, describe, take
from kept_text import assert_lines_match_file
from text_snapshots import stopped_clock  # noqa: F401

from rqtui.engine import filters
from rqtui.model import Count, Fact, Finding, Job, Page, Place, Queue, Rate, Ref, Snapshot, State, Verdict
from rqtui.systems import registry
from rqtui.text.pieces import Piece
from rqtui.tui.screens import board
from rqtui.tui.screens.board import Board
from rqtui.tui.screens.board_layout import BoardLayout
from rqtui.tui.widgets.pane import JobState, Pane

KEPT = Path(__file__).with_name("board_at_bounds.txt")
NOW_MS = 1_800_000_000_000
MAIL = Ref("native", "mail")
SYSTEM = registry.create_system("native")
NAMES = [place.name for place in SYSTEM.places]
JOB = Job(
    b"a", "mail", "native", "ready", State.READY, b"a", enqueued_ms=NOW_MS - 5_000, body=b'{"a": 1}', body_bytes=8
)
FINDING = Finding("paused", "warning", "mail", "paused", "P resumes it", key="P")


def build_queue(*findings: Finding, **numbers: int) -> Queue:
    counts = tuple(Count(place.name, place.state, numbers.get(place.name, 0)) for place in SYSTEM.places)
    verdict = Verdict("warning", findings[0].text) if findings else Verdict()
    return Queue("mail", "native", counts, NOW_MS, findings=findings, verdict=verdict)


class FakePane(Actor):
    """A pane of a board that writes down what the board does with it. `isinstance` sees a `Pane`."""

    __class__ = property(lambda _self: Pane)  # type: ignore[assignment]


def build_pane(log: list[str], place: Place, **attributes: Any) -> Any:
    usual: dict[str, Any] = {
        "place": place, "ref": MAIL, "expression": "", "job_filter": None, "scan_result": None, "page": None,
        "is_whole_place": False, "marks": {}, "visible_lines": 8, "wanted_offset": 0, "wanted_limit": 0,
        "is_too_long": False, "is_at_end": False, "cursor_id": b"a", "has_more": False, "is_queue_gone": None,
        "find_current_job": lambda: JOB, "count_matches": lambda: 3, "list_selected_jobs": lambda: (JOB,),
        "count_filter_bytes": lambda: 5, "count_body_bytes": lambda: 7, "size": SimpleNamespace(width=60, height=9),
        "outer_size": SimpleNamespace(width=62), "styles": SimpleNamespace(row_span=0), "display": True,
        "visible_range": (0, 5), "rows": (1,), "shared_values": (), "places": SYSTEM.places,
    }  # fmt: skip
    return FakePane(log, f"pane {place.name}", **{**usual, **attributes})


def build_board(log: list[str], size: tuple[int, int] = (160, 45), **attributes: Any) -> Any:
    """Return a board of the native queue mail, of which the host, the panes and the session write down what they do."""
    settings = SimpleNamespace(is_ascii=False, columns={})
    session = Actor(
        log, "session", systems={"native": SYSTEM}, settings=settings, is_read_only=False, now_ms=NOW_MS,
        is_replay=False, refs=[MAIL], latest_queues={}, filters=[], find_foreign_system_name=lambda _ref: "",
        has_requested_job=lambda *_: True,
        run_steps=lambda *_: log.append("scan") or 7,
    )  # fmt: skip
    panes = [build_pane(log, place) for place in SYSTEM.places]
    detail = Actor(
        log, "detail", display=True, styles=SimpleNamespace(), content_size=SimpleNamespace(width=40),
        scrollable_content_region=SimpleNamespace(width=38),
    )  # fmt: skip
    bar = Actor(log, "bar", display=True, focusable=False, has_focus=False, cursor=None)
    found = {
        "#detail": detail,
        "#detail-text": Actor(log, "text"),
        "#panes": Actor(log, "grid", styles=SimpleNamespace()),
    }
    usual: dict[str, Any] = {
        **{name: value for name, value in vars(Board(MAIL, SYSTEM)).items() if name in _OWN_NAMES},
        "ref": MAIL, "system_of_queue": SYSTEM, "_panes": panes, "session": session, "host": Actor(log, "host"),
        "app": SimpleNamespace(size=Size(*size)), "size": Size(*size),
        "query_one": lambda name, *_: found.get(name, bar), "is_drawn": True, "is_frozen": False, "is_high": True,
        "find_selected_finding": lambda: None, "leave_findings": lambda: False,
        "set_focus": lambda widget: log.append(f"focus {describe(widget)}"),
        "call_after_refresh": lambda call: log.append("later"), "focused": None,
        "filter_line": SimpleNamespace(is_open=False), "count_content_rows": lambda: 40,
    }  # fmt: skip
    return Bare(Board, **{**usual, **attributes})


_OWN_NAMES = {
    "_current", "_queue", "_rate", "_is_zoomed", "_has_had_jobs", "_last_filter", "_scans", "_drawn_s",
    "_last_snapshot", "_board_layout", "_is_layout_applied", "_last_filled_ms", "_is_place_chosen", "_list_size",
    "_finding_lines", "_finding_rows", "_tab_line",
}  # fmt: skip


def silence(view: Any, *names: str) -> Any:
    """Replace methods by ones that only write their call."""
    calls = Actor(view.host._log, "board")
    vars(view).update({name: getattr(calls, name) for name in names})
    return view


def describe_panes() -> Iterator[str]:
    log: list[str] = []
    states = (State.DEAD, State.DONE)
    ended: Any = SimpleNamespace(places=tuple(place for place in SYSTEM.places if place.state in states))
    numbers = {name: value for name, value in vars(Board(MAIL, ended)).items() if name in _OWN_NAMES}
    yield f"at first, without ready jobs: {describe({name: numbers[name] for name in sorted(numbers)})}"
    for configured in ({}, {"ready": ("id", "nosuch")}, {"dead": ("what",), "ready": ("nosuch",)}):
        view = build_board(log)
        view.session.settings.columns = configured
        view._warn_about_unknown_columns()
        yield f"columns {configured}: {take(log)}"
    for width in (119, 120, 139, 140, 179, 180):
        for is_zoomed in (False, True):
            view = build_board(log, (width, 45), _is_zoomed=is_zoomed, _queue=build_queue(ready=3, dead=1))
            view._compute_list_rows = lambda: 0
            silence(view, "update_pane_frames")
            view._arrange_panes()
            yield f"panes in {width} cells, {is_zoomed}: {describe(view._board_layout)} {take(log)}"
            yield f"  requested {[pane.place.name for pane in view._list_requested_panes()]}"
            yield f"  spans {[(pane.display, pane.styles.row_span) for pane in view._panes]}"
            view._arrange_panes()
            yield f"  again {[line for line in log if 'set_id' not in line]}"
            log.clear()
    for ready_ms in (None, NOW_MS - 30_001, NOW_MS - 30_000):
        for expression in ("", "x"):
            view = build_board(log, _last_filled_ms={} if ready_ms is None else {"dead": ready_ms})
            view._panes[NAMES.index("dead")].expression = expression
            empty = [view._is_place_empty("dead", build_queue(dead=number)) for number in (0, 1, 0)]
            yield f"dead place filled at {ready_ms and ready_ms - NOW_MS} with {expression!r}: {empty}"
    for count, job_filter, place in (
        (0, None, "ready"),
        (1, None, "ready"),
        (4, None, "ready"),
        (5, None, "dead"),
        (3, 1, "ready"),
    ):
        for rows in (17, 18, 19, 20, 23, 24, 40):
            view = build_board(
                log, _list_size=(place, 8), _queue=build_queue(ready=count), count_content_rows=lambda r=rows: r
            )
            view._panes[NAMES.index("ready")].job_filter = job_filter
            needed = view._compute_list_rows()
            yield f"list of {count} {job_filter} after 8 of {place} in {rows}: {needed} {view._list_size}"
    for job_filter in (None, 1):
        for queue in (None, build_queue(ready=20)):
            view = build_board(log, _queue=queue)
            view.find_current_pane().job_filter = job_filter
            yield f"list of {queue and 20} {job_filter}: {view._compute_list_rows()} {view._list_size}"
    for is_high in (False, True):
        for findings in ((), (FINDING,)):
            for tabs in ([], [1]):
                view = build_board(
                    log, is_high=is_high, _queue=build_queue(*findings), _tab_line=tabs, _finding_lines=3
                )
                yield f"notes {is_high} {len(findings)} {len(tabs)}: {view.count_note_rows()}"
                silence(view, "_update_titles")
                view._finding_rows = ["row"]
                for layout in (BoardLayout("ready"), BoardLayout("ready", ("dead",))):
                    view._board_layout = layout
                    view.update_pane_frames()
                    yield f"  frames beside {layout.side}: {view.query_one(None).display} {take(log)}"
    for tabs in (False, True):
        shown = []
        for width in range(30, 100):
            view = build_board(log, (width, 45), _queue=build_queue(ready=30, dead=2), _tab_line=[1] * tabs)
            for pane in view._panes:
                pane.size = Size(width - 4, 9)
            title = view._show_tabs(view._panes, view._panes[1])
            shown.append(len(view._tab_line[0][0].plain) if view._tab_line else -len(title))
        yield f"tabs of 30 to 99 cells, {tabs}: {shown}"
        for width in (40, 60, 70, 90, 119):
            view = build_board(log, (width, 45), _queue=build_queue(ready=30, dead=2), _tab_line=[1] * tabs)
            for pane in view._panes:
                pane.size = SimpleNamespace(width=width)
            title = view._show_tabs(view._panes, view._panes[1])
            yield f"tabs of {width} {tabs}: {describe(title)} {describe(view._tab_line)}"
    for layout in (BoardLayout("ready"), BoardLayout("ready", ("dead", "done"), frozenset({"done"}))):
        view = build_board(log, _queue=build_queue(ready=3, dead=4), _board_layout=layout)
        view._show_tabs = lambda panes, pane: [Piece(f"tabs {len(panes)} {pane.place.name}")]
        view._update_titles()
        yield f"titles beside {layout.side}: {take(log)}"
    for layout in (BoardLayout("ready"), BoardLayout("done", ("scheduled", "ready", "reserved", "dead"))):
        view = build_board(log)
        order: list[tuple[str, int]] = []
        view.query_one("#panes").sort_children = lambda key: order.extend(
            sorted(
                ((describe(child), key(child)) for child in (*view._panes, view.query_one("#detail"))),
                key=lambda each: each[1],
            )
        )
        view._apply_layout(layout)
        yield f"order of {layout.current}: {order} {view.query_one('#panes').styles.grid_size_columns}"
    for is_shown in (False, True):
        view = build_board(log, _list_requested_panes=lambda: [])
        view.query_one("#detail").display = is_shown
        yield f"requested {is_shown}: {view.build_focus([])}"
    for piece in (Piece(" 2 ", "muted"), Piece("2 ", "muted"), Piece(" ready ", ""), Piece(" 12", "x")):
        yield f"tab piece {piece}: {describe([*board._format_tab_piece(piece)])}"


def describe_findings() -> Iterator[str]:
    log: list[str] = []
    findings = tuple(replace(FINDING, text=f"problem {number} " + "word " * 90) for number in range(5))
    for height in (20, 29, 30, 39, 40):
        for number in (0, 1, 5):
            for width in (80, 160):
                view = build_board(log, (width, height), leave_findings=lambda: log.append("leave"))
                view._show_findings(build_queue(*findings[:number]))
                lines = [(line.left.plain, line.right.plain) for line in view._finding_rows]
                yield f"{number} findings in {width} x {height}: {view._finding_lines} {lines} {take(log)}"
                view._show_findings(build_queue())
                yield f"  later none: {view._finding_lines} {len(view._finding_rows)}"
                log.clear()
    for until_ms in (None, NOW_MS + 5_000):
        view = build_board(log, _queue=build_queue(replace(FINDING, until_ms=until_ms)))
        silence(view, "_show_findings", "update_pane_frames").update_countdowns()
        yield f"each second until {until_ms}: {take(log)}"
    for is_drawn, queue in ((False, build_queue()), (True, None), (True, build_queue())):
        view = silence(build_board(log, is_drawn=is_drawn, _queue=queue), "_show_findings", "update_pane_frames")
        view.on_finding_cursor_moved(None)
        yield f"cursor moved {is_drawn} {queue is not None}: {take(log)}"


def build_page(place: str, *ids: bytes, **fields: Any) -> Page:
    jobs = tuple(replace(JOB, id=job_id, place=place) for job_id in ids)
    return Page("mail", "native", place, jobs, len(ids), **fields)


def describe_snapshots() -> Iterator[str]:
    log: list[str] = []
    names = ("_show_findings", "_show_panes", "_arrange_panes", "_show_job_detail", "_go_to_named_place")
    for queue in (None, build_queue(ready=3), build_queue(ready=3)._replace(error="broken")):
        for is_chosen in (False, True):
            view = silence(build_board(log, _is_place_chosen=is_chosen), *names)
            view.show_snapshot(Snapshot(NOW_MS, (queue,) if queue else (), rates={MAIL: Rate(2.0)}))
            yield f"snapshot {queue and queue.error} {is_chosen}: {take(log)} {view._rate.in_s} {view._is_place_chosen}"
    view = build_board(log)
    for queue in (
        build_queue(), build_queue(ready=1), build_queue(), build_queue()._replace(error="x"),
        build_queue()._replace(counters={"in": 1}), build_queue(dead=1), build_queue(),
    ):  # fmt: skip
        view._mark_panes_of_deleted_queue(queue)
        yield f"jobs {sum(count.count for count in queue.counts)}: deleted {view._panes[0].is_queue_gone}"
    lines_by_ids = ((3, 1), (3, 2), (4, 1), (4, 2), (8, 2), (8, 3), (11, 2), (11, 3), (12, 3), (12, 4))
    for lines, left in lines_by_ids:
        ids = tuple(b"%d" % number for number in range(9))
        panes = [
            build_pane(log, SYSTEM.places[1], page=build_page("ready", *ids), visible_lines=lines),
            build_pane(log, SYSTEM.places[2], page=build_page("reserved"), visible_lines=lines),
            build_pane(log, SYSTEM.places[0], page=None),
        ]
        view = build_board(log, _panes=panes)
        pages = (
            build_page("ready", *ids[left:]),
            build_page("reserved", *ids[: left - 1]),
            build_page("scheduled", b"9"),
        )
        leaving = view._find_leaving_jobs(Snapshot(NOW_MS, pages=pages))
        yield f"{left} jobs left of {lines} lines: {leaving}"
    for is_frozen in (False, True):
        for has_page, scan, is_too_long, is_open in (
            (False, None, False, False), (True, None, False, False), (True, 1, False, False), (True, None, True, False),
            (True, None, True, True),
        ):  # fmt: skip
            pane = build_pane(
                log, SYSTEM.places[1], page=1 if has_page else None, scan_result=scan, is_too_long=is_too_long
            )
            view = build_board(
                log, _list_requested_panes=lambda pane=pane: [pane], is_frozen=is_frozen,
                _find_leaving_jobs=lambda _snapshot: {"ready": {b"x": "dead"}},
                filter_line=SimpleNamespace(is_open=is_open),
            )  # fmt: skip
            silence(view, "start_scan")
            replies = (JobState("ready", b"a", None), JobState("dead", b"a", None), RuntimeError("away"))
            view._show_panes(Snapshot(NOW_MS, pages=(build_page("ready", b"b"),), results={"pane requests": replies}))
            yield f"pane {is_frozen} {has_page} {scan} {is_too_long} {is_open}: {take(log)}"
    facts = (Fact("note", "word " * 200), Fact("count", 5))
    view = build_board(log, _current="ready")
    view.query_one("#detail").scrollable_content_region = SimpleNamespace(width=10)
    view.find_current_pane().find_current_job = lambda: replace(JOB, facts=facts, reserved_ms=NOW_MS - 1)
    view._show_job_detail(Snapshot(NOW_MS))
    yield f"detail of facts: {take(log)}"
    for is_shown in (False, True):
        for job, snapshot_job, requested in (
            (None, None, True), (JOB, None, True), (JOB, None, False), (JOB, replace(JOB, name="send"), True),
            (JOB, replace(JOB, id=b"other", name="send"), True), (replace(JOB, history=()), None, False),
        ):  # fmt: skip
            view = build_board(log)
            view.query_one("#detail").display = is_shown
            view._panes[NAMES.index("ready")].find_current_job = lambda job=job: job
            view.session.has_requested_job = lambda *_args, requested=requested: requested
            view._show_job_detail(Snapshot(NOW_MS, job=snapshot_job))
            yield f"detail {is_shown} {job and job.id} {snapshot_job and snapshot_job.id} {requested}: {take(log)}"


def describe_targets() -> Iterator[str]:
    log: list[str] = []
    partial, whole = (SimpleNamespace(scanned=9, is_partial=is_partial) for is_partial in (True, False))
    for finding in (None, FINDING):
        for is_whole, expression, scan in (
            (False, "", None), (True, "", None), (True, "x", None), (True, "x", partial), (True, "x", whole),
            (False, "x", partial),
        ):  # fmt: skip
            view = build_board(log, find_selected_finding=lambda finding=finding: finding)
            vars(view._panes[NAMES.index("ready")]).update(
                is_whole_place=is_whole, expression=expression, scan_result=scan
            )
            target = view.build_target()
            yield (
                f"target {finding is not None} {is_whole} {expression} {scan is not None}: {target.place} "
                f"{len(target.jobs)} {target.is_whole_place} {target.filter!r} {target.scanned_jobs}"
            )
            for ids in ((), (b"a",)):
                silence(view, "recompute").handle_acted_jobs(ids)
                yield f"  acted {ids}: {take(log)}"
                view._panes[NAMES.index("ready")].is_whole_place = is_whole
    yield f"second line before the first snapshot: {describe(build_board(log).build_second_line(80))}"
    for width in (119, 120):
        view = build_board(log, (width, 45), _queue=build_queue(ready=3), _rate=Rate(1.5, 0.5))
        yield f"second line of {width}: {describe(view.build_second_line(width))}"
    for marks, is_whole, expression, place, done in (
        ({}, False, "", "ready", 0), ({b"a": 1}, False, "", "ready", 0), ({b"a": 1}, True, "", "ready", 0),
        ({"text": 1}, False, "x", "ready", 0), ({}, False, "", "dead", 0), ({}, False, "", "dead", 3),
        ({}, False, "", "ready", 3),
    ):  # fmt: skip
        view = build_board(log, _current=place, _queue=build_queue(done=done))
        vars(view.find_current_pane()).update(marks=marks, is_whole_place=is_whole, expression=expression)
        compared = [(each.words, each.expression, each.ids, each.label) for each in view._select_compared_jobs()]
        yield f"compared {len(marks)} {is_whole} {expression} {place} {done}: {compared}"


def describe_scans() -> Iterator[str]:
    log: list[str] = []
    job_filter = filters.parse_filter("boom", [SYSTEM])
    names = ("redraw_pane", "recompute", "update_pane_frames", "start_scan")
    for typed, current in (("x", ""), ("x", "x"), ("/[/", ""), ("  x ", "x")):
        view = silence(build_board(log, _scans={"ready": 4}), *names)
        view.find_current_pane().expression = current
        view.preview_filter(typed)
        yield f"typed {typed!r} over {current!r}: {take(log)}"
    for is_too_long in (False, True):
        view = silence(build_board(log, _scans={"ready": 4}), *names)
        vars(view.find_current_pane()).update(is_too_long=is_too_long, job_filter=job_filter)
        view.apply_filter("boom")
        yield f"filter {is_too_long}: {take(log)} {view._last_filter is job_filter}"
    for finding, scans, expression, others, is_zoomed in (
        (True, {}, "", "", False), (False, {"ready": 4}, "x", "", False), (False, {}, "x", "", False),
        (False, {"dead": 4}, "x", "x", False), (False, {}, "", "", True), (False, {}, "", "", False),
        (False, {}, "", "x", False),
    ):  # fmt: skip
        view = build_board(log, leave_findings=lambda finding=finding: finding, _scans=scans, _is_zoomed=is_zoomed)
        silence(view, *names, "apply_filter", "action_zoom")
        for pane in view._panes:
            pane.expression = expression if pane.place.name == "ready" else others
            pane.scan_result = Actor(log, "result")
        yield f"Esc {finding} {scans} {expression} {others} {is_zoomed}: {view.step_back()} {take(log)}"
    for has_filter in (False, True):
        view = silence(build_board(log), "redraw_pane")
        vars(view.find_current_pane()).update(job_filter=job_filter if has_filter else None, wanted_offset=9)
        Board.start_scan(view, view.find_current_pane())
        yield f"scan {has_filter}: {take(log)} {view._scans} {view.find_current_pane().wanted_offset}"
    for result in (None, Actor(log, "result")):
        for scans in ({}, {"ready": 4, "dead": 5}):
            view = build_board(log, _scans=dict(scans))
            view.find_current_pane().scan_result = result
            view._stop_scan(view.find_current_pane(), is_stopped_early=True)
            yield f"stopped {result is not None}: {take(log)} {view._scans}"
            silence(view, "start_scan", "_stop_scan").recompute()
            yield f"  again: {take(log)} {view.find_current_pane().scan_result}"
            view._scans = dict(scans)
            view._stop_all_scans()
            yield f"  all: {take(log)} {view._scans}"
    for is_same, is_finished, is_last, drawn_s in (
        (False, False, False, 0.0), (True, True, False, 0.0), (True, False, False, 0.0),
        (True, False, False, float("inf")), (True, False, True, float("inf")),
    ):  # fmt: skip
        matches = Actor(log, "matches", is_finished=is_finished)
        view = silence(build_board(log, _scans={"ready": 4}, _drawn_s=drawn_s), "redraw_pane")
        pane = view.find_current_pane()
        pane.scan_result = matches if is_same else None
        view._handle_scan_step(pane, matches, SimpleNamespace(is_last=is_last, result=5, error="away"))
        yield f"step {is_same} {is_finished} {is_last} {drawn_s}: {take(log)} {view._scans}"
    for is_drawn, snapshot, scan, page in (
        (False, 1, None, 1), (True, None, None, 1), (True, 1, None, None), (True, 1, None, 1), (True, 1, 1, 1),
    ):  # fmt: skip
        view = build_board(log, is_drawn=is_drawn, _last_snapshot=Snapshot(NOW_MS) if snapshot else None)
        silence(view, "update_pane_frames")
        vars(view.find_current_pane()).update(scan_result=scan, page=page)
        view.redraw_pane(view.find_current_pane())
        yield f"redrawn {is_drawn} {snapshot} {scan} {page}: {take(log)}"
    for is_gone in (False, True):
        for matches in (False, True):
            view = build_board(log, _last_filter=job_filter)
            view.find_current_pane().is_match = lambda *_: matches
            row = SimpleNamespace(is_gone=is_gone, id=b"a")
            view.find_current_pane().move_to_next = lambda accepts: log.append(f"accepts {accepts(row)}") or True
            view.action_next_match()
            yield f"next match {is_gone} {matches}: {take(log)}"
    for last, moves in ((None, True), (job_filter, True), (job_filter, False)):
        view = build_board(log, _last_filter=last)
        view.find_current_pane().move_to_next = lambda _accepts, moves=moves: moves
        view.action_next_match()
        yield f"next match {last is not None} {moves}: {take(log)}"
    for offset, is_newest_last in ((None, False), (0, False), (40, False), (None, True), (40, True)):
        view = build_board(log, _current="dead" if is_newest_last else "ready")
        pane = view.find_current_pane()
        pane.page = None if offset is None else SimpleNamespace(offset=offset)
        engine, kept = Actor(log, "engine"), []
        view.session.call_engine = lambda call, handle, engine=engine, kept=kept: kept.append((call(engine), handle))
        found: list[object] = []
        view.load_body_paths(lambda paths, found=found: found.extend(paths))
        for result in (None, build_page("ready", b"a")):
            kept[0][1](SimpleNamespace(result=result))
        yield f"paths from {offset} {is_newest_last}: {take(log)} {found}"


def describe_keys() -> Iterator[str]:
    log: list[str] = []
    view = silence(build_board(log), "_go_to_pane")
    for number in (1, len(NAMES), len(NAMES) + 1):
        view.action_place(number)
        yield f"place {number} of {view.count_numbered_items()}: {take(log)}"
    scheduled = next(place for place in SYSTEM.places if place.name == "scheduled")
    for pages, at_end, total, scan, shared in (
        (1, True, 9, None, False), (-1, True, 9, None, False), (0, True, 9, None, False), (1, False, 9, None, False),
        (1, True, None, None, False), (1, True, 9, 1, False), (1, True, 9, None, True),
    ):  # fmt: skip
        view = build_board(log)
        view._current = "scheduled"
        pane, place = view.find_current_pane(), scheduled._replace(is_shared=shared)
        vars(pane).update(
            is_at_end=at_end, page=SimpleNamespace(place_total=total), scan_result=scan, place=place, wanted_offset=5
        )
        view.action_page(pages)
        yield f"page {pages} {at_end} {total} {scan} {shared}: {take(log)} {pane.wanted_offset}"
    view = silence(build_board(log), "_arrange_panes", "update_pane_frames")
    for _time in range(2):
        view.action_zoom()
        view.action_mark_all()
        yield f"zoom and marks: {view._is_zoomed} {view.find_current_pane().is_whole_place} {take(log)}"
    for is_drawn in (False, True):
        view = silence(build_board(log, is_drawn=is_drawn), "_go_to_pane")
        view.go_to_place("dead")
        yield f"go to dead {is_drawn}: {view._current} {take(log)}"
    for before, after in (("", ""), ("x", "x"), ("x", ""), ("", "x")):
        view = silence(build_board(log), "apply_filter", "_arrange_panes")
        view.find_current_pane().expression = before
        other = view._panes[NAMES.index("dead")]
        other.expression, other.display = after, False
        view._go_to_pane(other)
        yield f"from {before!r} to {after!r}: {take(log)} {view._current} {other.display}"
    for step in (1, -1):
        for moved in (True, False, None):
            view = build_board(log)
            job = None if moved is None else replace(JOB, id=b"b") if moved else JOB
            view.find_current_pane().find_current_job = lambda job=job: job
            found = view.move_to_other_job(step)
            yield f"other job {step} {moved}: {found and found.id} {take(log)}"
    for numbers, queue_known in (({"dead": 3}, True), ({}, False)):
        view = silence(
            build_board(log, _queue=build_queue(**numbers) if queue_known else None), "_go_to_pane", "confirm_filter"
        )
        for state in (State.DEAD, State.SCHEDULED):
            view.filter_place_of_state(state, "x")
            yield f"place of {state} {queue_known}: {take(log)}"
    place = SYSTEM.place("dead")
    twins: Any = SimpleNamespace(places=(place._replace(name="a"), place._replace(name="b"), place._replace(name="c")))
    counted = Queue("mail", "native", (Count("b", State.DEAD, 4),))
    for state in (State.DEAD, State.DONE):
        for own, latest in ((None, None), (counted, None), (None, counted), (counted, Queue("mail", "native"))):
            view = build_board(log, system_of_queue=twins, _queue=own)
            silence(view, "action_place", "confirm_filter")
            view.session.latest_queues = {MAIL: latest} if latest else {}
            view.filter_place_of_state(state, "x")
            yield f"fullest place of {state} {own is not None} {latest is not None}: {take(log)}"
    for is_shown in (False, True):
        view = silence(build_board(log), "update_pane_frames", "_arrange_panes")
        view.query_one("#detail").display = is_shown
        for event in ("on_table_moved", "on_table_fitted", "on_table_marked", "on_resize", "on_unmount"):
            getattr(view, event)(*([None] if event != "on_unmount" else []))
            yield f"{event} {is_shown}: {take(log)}"
    view = silence(build_board(log), "_go_to_pane")
    for x in (-1, 0, 3, 9):
        view.on_table_title_clicked(SimpleNamespace(table=SimpleNamespace(title=[Piece(" 1 "), Piece("a 3 ")]), at=x))
        yield f"title clicked at {x}: {take(log)}"
    for has_findings, on_findings, current in ((False, False, 0), (True, False, 0), (True, True, 0), (True, False, 4)):
        view = silence(build_board(log, _current=NAMES[current]), "_go_to_pane")
        bar = view.query_one(None)
        bar.focusable, bar.has_focus = has_findings, on_findings
        for step in (1, -1):
            view.action_pane(step)
            yield f"pane {step} from {NAMES[current]} {has_findings} {on_findings}: {take(log)}"
    for scan in (None, 1):
        view = silence(build_board(log), "redraw_pane")
        pane = view._panes[0]
        pane.scan_result = scan
        view.on_table_wanted(SimpleNamespace(table=pane, offset=30, limit=60))
        yield f"wanted {scan}: {take(log)} {pane.wanted_offset} {pane.wanted_limit}"
    for index, is_focused in ((1, True), (4, True), (4, False)):
        view = silence(build_board(log), "_keep_filter", "_arrange_panes")
        pane = view._panes[index]
        view.focused = pane if is_focused else None
        view.on_descendant_focus(SimpleNamespace(widget=pane))
        yield f"focus on {pane.place.name} {is_focused}: {take(log)} {view._current} {view._is_place_chosen}"
    for is_dim in (False, True):
        view = build_board(log)
        view.set_dimmed(is_dim)
        yield f"dimmed {view._panes[0].dimmed}: {take(log)}"


@pytest.mark.slow
@pytest.mark.usefixtures("stopped_clock")
def test_a_board_at_its_bounds_matches_the_stored_text() -> None:
    parts = (describe_panes, describe_findings, describe_snapshots, describe_targets, describe_scans, describe_keys)
    assert_lines_match_file((line for part in parts for line in (f"== {part.__name__[9:]}", *part())), KEPT)
