# ruff: noqa: B023 (a function is called before its loop continues)
"""What widgets show and do at each bound: `widgets_at_bounds.txt` has every line.

The methods are called without a screen (`support/bare_objects.py`).
`RQTUI_WRITE_SNAPSHOTS=1 pytest -m "" tests/tui/widgets/test_widgets_at_bounds.py` writes the text.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from bare_objects import SYSTEMS, Actor, Bare, Size, describe, take
from kept_text import assert_lines_match_file
from text_snapshots import stopped_clock  # noqa: F401
from textual.content import Content

from rqtui.engine import filters
from rqtui.engine.loops import Round, ScriptStep
from rqtui.errors import UsageError
from rqtui.model import Count, Finding, Job, Page, PageRecord, Queue, Rate, RecentActivity, Ref, State, Verdict
from rqtui.tui.format.rows import Column, ListWindow, Row
from rqtui.tui.widgets import finder, findings, frame, long_text, place_scan, plot, question_dialog
from rqtui.tui.widgets.finder import Finder
from rqtui.tui.widgets.findings import FindingCursor
from rqtui.tui.widgets.frame import ViewLink
from rqtui.tui.widgets.long_text import LongText
from rqtui.tui.widgets.pane import JobState, Pane
from rqtui.tui.widgets.question_dialog import Question
from rqtui.tui.widgets.table import Table
from rqtui.verbs import Field

KEPT = Path(__file__).with_name("widgets_at_bounds.txt")
NOW_MS = 1_800_000_000_000
MAIL = Ref("native", "mail")
NATIVE = SYSTEMS["native"]
JOB = Job(b"j1", "mail", "native", "ready", State.READY, b"j1", name="send", body=b"1", body_bytes=1)
FINDING = Finding(
    "failing", "critical", "mail", "51 % of the attempts fail", "look at the errors", key="e R", detail="usually 1 %"
)


def build_queue(*found: Finding, **fields: Any) -> Queue:
    counts = tuple(Count(place.name, place.state, number) for number, place in enumerate(NATIVE.places, 3))
    verdict = Verdict("critical", found[0].text) if found else Verdict()
    return Queue("mail", "native", counts, NOW_MS, findings=found, verdict=verdict, **fields)


def join(sides: tuple[Content, Content]) -> str:
    return f"{sides[0].plain!r} {sides[1].plain!r}"


def describe_changes(
    title: str, widths: Iterable[int], build: Callable[[int], tuple[Content, Content]]
) -> Iterator[str]:
    """Yield what a line with two sides shows at the first width, and at each width where that changes."""
    previous = ""
    for width in widths:
        text = join(build(width))
        if text != previous:
            yield f"{title} from {width} cells: {text}"
        previous = text


def describe_bars() -> Iterator[str]:
    log: list[str] = []
    bar = Bare(
        frame.Bar,
        _lines=[],
        size=Size(20, 2),
        styles=SimpleNamespace(is_auto_height=True),
        refresh=lambda *regions, **options: log.append(f"painted {regions} {options}"),
    )
    red, green = Content.styled("●", "red"), Content.styled("●", "green")
    for lines in (
        ((red, green),),
        ((red, green),),
        ((red, red),),
        ((green, red),),
        ((red, red), (red, green)),
        ((red, red), (green, green)),
    ):
        bar.show_lines(*lines)
        yield f"{len(lines)} lines: {take(log)} {bar.render().plain!r}"
    line = Content.assemble(
        "a ", frame.format_key_hint("R", "requeue"), "  ", frame.format_key_hint("D j", "delete"), " x  y"
    )
    yield f"keys of {line.plain!r}: {[frame.find_key_at_cell(line, at) for at in range(-1, line.cell_length + 2)]}"
    for y, at in ((0, 3), (0, 0), (1, 0), (None, 0)):
        bar = Bare(
            frame.Bar,
            _lines=[(line, Content())],
            size=Size(40, 1),
            app=Actor(log, "app"),
            handle_text_click=lambda y: log.append(f"text {y}"),
        )
        offset = None if y is None else SimpleNamespace(x=at, y=y)
        bar.on_click(SimpleNamespace(get_content_offset=lambda _bar: offset))
        yield f"clicked {y} {at}: {take(log)}"
    for left, right in (("a" * 10, "b" * 5), ("a" * 10, ""), ("", "b" * 5)):
        shown = [frame.align_sides(Content(left), Content(right), width).plain for width in range(0, 24)]
        yield f"sides {len(left)} {len(right)}: {shown}"
        chosen = [
            join(frame.choose_first_fitting([(Content(left), Content(right)), (Content("c"), Content())], width))
            for width in range(0, 20)
        ]
        yield f"  chosen {chosen}"


def describe_header() -> Iterator[str]:
    def build_loop(*rounds: Round) -> Any:
        return SimpleNamespace(rounds=rounds)

    now_s = time.time()

    def build_round(moved: int, ago_s: float, **fields: Any) -> Round:
        return Round((ScriptStep("dispatch", MAIL, moved, 1, {}, now_s - ago_s),), **fields)

    loops = {
        "off": (build_loop(), False),
        "idle": (build_loop(), True),
        "away": (build_loop(Round(error="away", wait_s=2.4)), True),
        "away before": (build_loop(Round(error="away", wait_s=2.4), build_round(1, 1.0)), True),
        "away now": (build_loop(build_round(1, 1.0), Round(error="away", wait_s=2.4)), True),
        "a minute ago": (build_loop(build_round(9, 59.97)), True),
        "moved": (build_loop(build_round(10, 6.0), build_round(7, 5.0), build_round(3, 0.0)), True),
        "earlier": (build_loop(build_round(9, 8.0), build_round(0, 1.0)), True),
        "long ago": (build_loop(build_round(9, 90.0), build_round(9, 61.0)), True),
    }
    for name, (loop, is_on) in loops.items():
        for is_short in (False, True):
            yield f"loop {name} {is_short}: {describe(frame.format_loop_state(name, loop, is_on, is_short))}"
    usual = frame.Status(
        "redis://a.long.host.example.com:6379/0",
        "connected since 1 h",
        "1 h",
        "1 round trip, 0.4 ms",
        "0.4 ms",
        mode=Content("write"),
    )
    for title, status in (
        ("usual", usual),
        ("lost", replace(usual, is_lost=True)),
        ("wrong", replace(usual, is_wrong=True)),
        ("a profile", replace(usual, profile="jobs-of-a-long-name-eu", badge="PROD", is_guarded=True)),
        ("a badge", replace(usual, badge="DEV", problem=Content("memory is 96 % full"))),
    ):
        shown_loops = {name: loops[name] for name in ("off", "idle")}
        yield from describe_changes(
            title, range(20, 170), lambda width: frame.format_status_line(status, shown_loops, width)
        )
        yield f"  locked: {describe(frame.format_status_line(status, None, 160))}"
    links = [
        ViewLink("errors", "e", "errors", "3"),
        ViewLink("workers", "w", "workers", "", True),
        ViewLink("metrics", "m", "metrics"),
        ViewLink("kinds", "k", "kinds", "0"),
    ]
    for name in ("", "mail", "q" * 60):
        yield from describe_changes(
            f"views of {len(name)}",
            range(15, 150),
            lambda width: frame.format_views_line("queues", name, links, Content(": find"), width),
        )
    yield f"views: {describe(frame.format_views_line('queues', 'mail', links, Content(': find'), 120)[0])}"


def describe_queue_lines() -> Iterator[str]:
    rate = Rate(
        2.0, 3.5, history=(1.0, 0.0, 4.0) * 10, window_ms=60_000, recent=RecentActivity(300_000, completed=9, failed=1)
    )
    full = build_queue(
        workers=4, oldest_ready_ms=61_000, next_due_ms=5_000, next_expiry_ms=7_000, counters={"in": 1, "out": 1}
    )
    for title, queue, each in (
        ("full", full, rate),
        ("late", full._replace(overdue=3, expired=1, is_paused=True), rate),
        (
            "a million",
            full._replace(counts=(Count("ready", State.READY, 1_000_000), Count("dead", State.DEAD, 10_000_000))),
            rate,
        ),
        ("only due", full._replace(overdue=3), rate),
        ("only expired", full._replace(expired=1), rate),
        ("nearly a minute", full, Rate(0.0, 4 / 59.97)),
        ("still", full, Rate()),
        ("uncounted", build_queue(workers=None), Rate()),
        ("a long name", full._replace(name="q" * 60), rate),
        ("no counters", full._replace(counters={}), Rate(in_s=0.1)),
        ("draining", full, Rate(0.0, 2.0)),
    ):
        for build in (frame.format_queue_line, frame.format_board_line):
            yield from describe_changes(title, range(15, 230), lambda width: build(queue, each, width, "rq"))
        yield (
            f"  styles {describe(frame.format_queue_line(queue, each, 220))} "
            f"{describe(frame.format_board_line(queue, each, 220))}"
        )
    for completed, failed in ((0, 0), (5, 4), (5, 5), (10, 0), (0, 10), (990, 9), (990, 10), (991, 10), (2, 1)):
        for duration_ms in (0, 59_999, 60_000, 119_999, 300_000, 300_001, 360_000):
            share = Rate(recent=RecentActivity(duration_ms, completed=completed, failed=failed), window_ms=duration_ms)
            if duration_ms == 300_001 or completed == 5:
                yield (
                    f"failed {failed} of {completed + failed} in {duration_ms}: "
                    f"{frame.format_failure_share(share, ' ')} {frame.format_rate_window(share)!r}"
                )
        for is_short in (False, True):
            yield f"  totals {frame.format_overview_totals(3, share, 2, is_short=is_short).plain!r}"
    for number in (0, 1, 999_999, 9_999_999):
        yield f"queues {number}: {frame.format_overview_totals(number, Rate()).plain!r}"


def describe_footer() -> Iterator[str]:
    verbs = [("R", "requeue", True), ("D", "delete", True), ("A", "ack", False)]
    near, rest = [("/", "filter", True), ("space", "mark", True)], [("s", "sort", True), ("p", "freeze", True)]
    last = [("'", "views", True), (":", "commands", True), ("?", "help", True)]
    for mode in (Content(), Content("read-only")):
        yield from describe_changes(
            "keys", range(8, 125), lambda width: frame.format_keys_line(verbs, near, rest, last, mode, width)
        )
    yield f"keys: {describe(frame.format_keys_line(verbs, near, rest, last[:1], Content(), 100))}"
    yield f"keys without others: {join(frame.format_keys_line([], [], [], [], Content(), 40))}"
    keys = [("1", "crash"), ("2", "flood"), ("3", "heal"), ("q", "quit")]
    figures = ["5 jobs", "3 workers", "2 dead"]
    for alarm in ("", "2 lost"):
        yield from describe_changes(
            "strip", range(4, 75), lambda width: frame.format_strip_line(keys, figures, alarm, width)
        )


def describe_findings() -> Iterator[str]:
    log: list[str] = []
    many = tuple(
        replace(FINDING, kind=f"kind {number}", text=f"problem {number} " + "word " * 12, key="e" * (number % 2))
        for number in range(4)
    )
    command = replace(FINDING, key="", detail="", remedy="start a worker: rqtui work mail --count 4")
    for found in (
        (),
        (FINDING,),
        many,
        (command,),
        (replace(FINDING, until_ms=NOW_MS + 41_000),),
        (replace(FINDING, key="P", remedy="P resumes it"),),
    ):
        for width in (12, 30, 50, 80):
            for most, lines in ((1, 0), (1, 1), (1, 3), (3, 5), (9, 2), (0, 0)):
                for cursor in (None, 0, 2):
                    if cursor is not None and (cursor >= len(found) or width != 50):
                        continue
                    shown = findings.build_finding_lines(
                        build_queue(*found), most, width, NOW_MS, max_lines=lines, cursor=cursor
                    )
                    yield (
                        f"{len(found)} findings in {width}, {most} {lines} {cursor}: "
                        f"{[join(line.sides) for line in shown]}"
                    )
    styled = findings.build_finding_lines(build_queue(*many), 2, 60, NOW_MS, cursor=1)
    yield f"styles: {[describe(line.sides) for line in styled]}"
    for key in ("e", "R", "x", "?"):
        yield f"label of {key}: {findings._find_key_label(key, 'requeue')!r}"
    for position, is_moved, has_focus, ref, others in (
        (2, False, False, MAIL, many),
        (2, True, False, MAIL, many),
        (2, False, True, MAIL, many[1:]),
        (2, True, False, Ref("rq", "a"), many),
        (2, True, False, MAIL, many[:2]),
        (0, True, False, MAIL, ()),
        (1, True, False, MAIL, many[::-1]),
    ):
        cursor_widget = Bare(
            FindingCursor,
            _ref=MAIL,
            _findings=many,
            _position=position,
            _is_moved=is_moved,
            has_focus=has_focus,
            can_focus=None,
        )
        cursor_widget.set_findings(ref, others)
        chosen = cursor_widget._position, cursor_widget._is_moved, cursor_widget.can_focus, cursor_widget.cursor
        yield f"cursor {position} {is_moved} {has_focus} {ref} {len(others)}: {chosen}"
    for step in (-1, 1, 9):
        moved = Bare(
            FindingCursor,
            _ref=MAIL,
            _findings=many,
            _position=1,
            has_focus=True,
            post_message=lambda message: log.append(type(message).__name__),
        )
        moved.find_finding_at = lambda y: many[0] if y == 1 else None
        moved.action_move(step)
        positions = [moved._position]
        moved.action_last()
        positions.append(moved._position)
        moved.action_first()
        moved.action_open()
        for y in (0, 1):
            moved.open_finding_at(y)
        yield f"moved {step}: {positions} {moved._position} {moved._is_moved} {take(log)}"
    lines = findings.build_finding_lines(build_queue(*many), 2, 60, NOW_MS)
    bar = Bare(findings.Findings, _finding_lines=lines, _lines=[])
    yield (
        f"found at: {[bar.find_finding_at(y) is not None for y in range(len(lines) + 2)]} "
        f"{bar.get_content_height(None, None, 0)}"
    )


def describe_plots() -> Iterator[str]:
    points: list[tuple[float, float | None]] = [
        (-5, 1.0),
        (0, 2.0),
        (4, 4.0),
        (10, None),
        (20, 8.0),
        (29, 6.0),
        (40, 9.0),
        (41, 99.0),
    ]
    for number in (0, 1, 4, 8):
        for is_level in (False, True):
            yield f"{number} values {is_level}: {plot.resample_points(points, 0, 40, number, is_level=is_level)}"
    greatest = (-1, 0, 0.0004, 0.9, 1, 1.0009, 1 / 0.999, 1.01, 2, 2.1, 5, 5.1, 10, 99, 101)
    yield f"maxima: {[plot.round_axis_maximum(value) for value in greatest]}"
    values: list[float | None] = [None, 0, 0.001, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    lower = [0, 0, 1, 1, 2, 2, 0, 3, 0, 0, 8, 8]
    for height in (1, 2, 3):
        for ascii_only in (False, True):
            yield f"plot {height} {ascii_only}: {plot.draw_plot(values, values[::-1], height, 8.0, ascii_only)}"
            yield f"  odd {plot.draw_plot(values[:5], values[:3], height, 8.0, ascii_only)}"
            yield (f"  stacked {plot.draw_stacked_plot(values, lower, height, 8.0, (0, 1, 5), ascii_only)}")
    yield f"signs {plot.draw_legend_signs(False)} {plot.draw_legend_signs(True)}"
    yield f"levels: {[plot._compute_dot_level(value, 8.0, 8) for value in values]}"


def describe_questions() -> Iterator[str]:
    log: list[str] = []
    for kind, texts in (
        ("bool", ("", "x")),
        ("duration", ("", "90s", "x")),
        ("rate", ("5/s", "x")),
        ("queue", ("", " mail ")),
        ("text", ("", " a ")),
        ("int", ("5", "-5", "+5", "1" * 15, "1" * 16, "x" * 31, "5.0")),
    ):
        for text in texts:
            try:
                value = question_dialog.parse_field_value(Field("f", "label", kind), text)
            except UsageError as error:
                value = f"error {error}"
            yield f"{kind} {text!r}: {value!r}"
    for bodies in (
        {},
        {"a": b""},
        {"a": b"x" * 70},
        {"a": b"x\n" * 5},
        {"a": b"x" * 139, "b": b"\n" * 3},
        {"a": b"\n" * 5_000},
    ):
        yield f"editor of {[len(body) for body in bodies.values()]}: {question_dialog._compute_editor_rows(bodies)}"
    for choices in (
        (),
        ("a",),
        ("a", "b", "c", "d"),
        ("a", "b", "c", "d", "e"),
        ("x" * 30, "y" * 9),
        ("x" * 30, "y" * 20),
    ):
        yield f"choices of {len(choices)}: {question_dialog._format_choices(choices)!r}"
    fields = (Field("rate", "rate"), Field("body", "body", "body"))
    for focused, shown, is_form in (
        (None, fields, False),
        ("no", fields[:1], False),
        ("yes", (), False),
        ("f", fields, True),
        ("f", fields[:1], True),
        ("f", fields[:1], False),
    ):
        dialog = Bare(
            Question, focused=focused and SimpleNamespace(id=focused), _fields=shown, _yes="requeue", _is_form=is_form
        )
        yield f"hints at {focused} {len(shown)} {is_form}: {dialog._build_key_hints()!r}"
    for height in (12, 16, 20, 30, 45):
        for lines, shown, guard, duration in (
            (1, fields[:1], "", None),
            (30, fields[:1], "", None),
            (3, fields, "prod", len),
            (30, fields * 4, "prod", len),
            (0, fields, "", None),
            (9, (), "", None),
            (30, (), "prod", None),
        ):
            parts = {
                name: SimpleNamespace(styles=SimpleNamespace(), border_subtitle=None)
                for name in ("#above", "#dialog", "#fields")
            }
            editors = [SimpleNamespace(styles=SimpleNamespace())]
            dialog = Bare(
                Question,
                app=SimpleNamespace(size=Size(80, height)),
                _lines=[Content("line")] * lines,
                _fields=shown,
                _guard=guard,
                _describe_duration=duration,
                _bodies={"body": b"x\n" * 9},
                _used_fields=shown,
                focused=None,
                _yes="go",
                query_one=lambda name: parts[name],
                query=lambda _type: editors,
                _rebuild_text=lambda rows: log.append(f"text of {rows} rows"),
            )
            dialog._fit_to_terminal()
            heights = [vars(part.styles) for part in (*parts.values(), *editors)]
            yield (
                f"dialog of {lines} {len(shown)} {guard} in {height}: {heights} "
                f"{parts['#dialog'].border_subtitle.plain!r} {take(log)}"
            )


def build_pane(log: list[str], name: str = "ready", **attributes: Any) -> Any:
    new = Pane(MAIL, NATIVE.place(name), NATIVE.places, NATIVE.known_fields, "nothing here")
    names = {
        "_choice",
        "_configured",
        "known_fields",
        "_id_cells",
        "_is_short",
        "place",
        "places",
        "ref",
        "empty_text",
        "is_queue_gone",
        "wanted_offset",
        "wanted_limit",
        "is_whole_place",
        "jobs",
        "page",
        "expression",
        "job_filter",
        "scan_result",
        "left_places",
        "_cached_requests",
        "_refresh_count",
    }
    calls = Actor(log, "pane")
    usual: dict[str, Any] = {
        **{key: value for key, value in vars(new).items() if key in names},
        "size": Size(60, 10),
        "visible_range": (0, 5),
        "marks": {},
        "cursor_id": None,
        "rows": (),
        "is_cursor_row_missing": False,
        "painter": SimpleNamespace(columns=()),
        "update": lambda rows, total, offset: log.append(f"update {[str(row.id) for row in rows]} {total} {offset}"),
        **{name: getattr(calls, name) for name in ("set_columns", "update_scrollbar", "expect_similar_list")},
    }
    return Bare(Pane, **{**usual, **attributes})


def build_page(number: int, total: int | None = None, place: str = "ready", **fields: Any) -> Page:
    jobs = tuple(replace(JOB, id=b"j%d" % at) for at in range(number))
    return Page("mail", "native", place, jobs, number if total is None else total, **fields)


def describe_panes() -> Iterator[str]:
    log: list[str] = []
    boom = filters.parse_filter("j1", [NATIVE])
    by_body = filters.parse_filter(".to:a", [NATIVE])
    for name in ("ready", "dead"):
        for height in (5, 19, 20, 21, 40):
            for offset, limit, job_filter, page in (
                (0, 0, None, None),
                (30, 200, None, None),
                (30, 0, boom, None),
                (0, 0, by_body, None),
                (0, 0, None, build_page(3)),
                (0, 0, None, build_page(3, 90)),
            ):
                pane = build_pane(
                    log,
                    name,
                    size=Size(60, height),
                    wanted_offset=offset,
                    wanted_limit=limit,
                    job_filter=job_filter,
                    page=page,
                )
                yield (
                    f"page of {name} in {height} {offset} {limit} {job_filter is not None} "
                    f"{page and page.total}: {pane.build_page_selection()[2:]}"
                )
    yield f"page of a scan: {build_pane(log, scan_result=1).build_page_selection()}"
    found = place_scan.ScanResult()
    jobs = [replace(JOB, id=b"j%d" % number) for number in range(130)]
    found.add_step(place_scan.ScanStep(tuple(enumerate(jobs)), 130, 200, True))
    for first, last in ((0, 5), (0, 60), (0, 61), (3, 90)):
        for has_scan in (False, True):
            pane = build_pane(log, visible_range=(first, last), scan_result=found if has_scan else None)
            yield f"results in sight {first} {last} {has_scan}: {len(pane._list_visible_result_ids())}"
    marks = {b"m%d" % number: 1 for number in range(130)}
    for count in (0, 1, 2):
        for page, is_whole in (
            (None, False),
            (build_page(3), False),
            (build_page(3, next=3), False),
            (build_page(3, offset=1), False),
            (None, True),
        ):
            pane = build_pane(log, marks=marks, page=page, is_whole_place=is_whole, _refresh_count=count)
            ids = pane._list_next_marked_ids()
            yield (
                f"marked jobs after {count} {page and (page.next, page.offset)} {is_whole}: {len(ids)} "
                f"{ids[:1]} {ids[-1:]}"
            )
    pane = build_pane(log)
    pane.show_scan_result(NOW_MS)
    yield f"without a scan: {take(log)} {pane._list_next_marked_ids()}"
    pane = build_pane(log, scan_result=place_scan.ScanResult(), wanted_offset=7)
    pane.show_scan_result(NOW_MS)
    yield f"an empty scan: {log[-1]}"
    log.clear()
    pane.advance_marks()
    yield f"advanced: {pane._refresh_count}"
    pane = build_pane(log, marks=dict([*marks.items()][:3]))
    requests = pane.build_job_requests(NATIVE)
    yield f"requests: {len(requests)} {pane.build_job_requests(NATIVE) is requests} {pane._refresh_count}"
    pane.advance_marks()
    yield f"advanced: {pane._refresh_count}"
    for id_cells, is_short in ((16, False), (16, True), (8, True), (8, True)):
        pane.set_id_width(id_cells, is_short=is_short)
        yield (
            f"ids of {id_cells} {is_short}: {[line.partition('(')[0] for line in log]} {vars(pane).get('show_header')}"
        )
        log.clear()
    for job_filter in (None, boom):
        for page in (
            build_page(0),
            build_page(3),
            build_page(3, 90, offset=5),
            build_page(2, record=PageRecord(NOW_MS, 2)),
            build_page(0, error="broken"),
        ):
            pane = build_pane(
                log,
                job_filter=job_filter,
                left_places={b"j1": "dead"},
                rows=(Row(b"j9", ()), Row(b"j0", ())),
                jobs={b"j9": JOB},
            )
            pane.show_page(page, NOW_MS, {b"j9": "dead"})
            yield (
                f"shown {len(page.jobs)} {job_filter is not None}: {log[-1]} {pane.empty!r} {sorted(pane.jobs)} "
                f"{pane.left_places} {pane.skips_missing_rows}"
            )
            log.clear()
            pane._choose_columns = lambda jobs, _now_ms: log.append(f"columns of {[job.id for job in jobs]}")
            pane.show_page(page, NOW_MS)
            yield f"  {log[0]}"
            log.clear()
    for offset, limit in ((0, 0), (100, 0), (129, 0), (500, 200)):
        pane = build_pane(log, scan_result=found, wanted_offset=offset, wanted_limit=limit)
        pane.show_scan_result(NOW_MS)
        yield f"scan from {offset} {limit}: {log[-1][-60:]} {log[-1].count('b')} {pane.skips_missing_rows}"
        log.clear()
    for left_places in ({}, {b"j0": "dead"}):
        one = place_scan.ScanResult(left_places=dict(left_places))
        one.add_step(place_scan.ScanStep(((0, jobs[0]),), 1, 1, False))
        pane = build_pane(
            log,
            scan_result=one,
            wanted_offset=7,
            update=lambda rows, total, offset: log.append(f"{[(row.is_gone, row.cells[-1]) for row in rows]} {offset}"),
        )
        pane.show_scan_result(NOW_MS)
        yield f"one job found, left {left_places}: {log[-1]}"
        log.clear()
    for job, place in ((None, ""), (JOB, "ready"), (replace(JOB, place="dead"), "dead")):
        for is_marked in (False, True):
            pane = build_pane(log, marks={b"j1": 1} if is_marked else {}, left_places={b"j1": "x"})
            pane.apply_job_state(JobState("ready", b"j1", job))
            yield f"state of {place or None} {is_marked}: {pane.left_places} {pane.is_still_in_place(b'j1')}"
    for expression in ("", "x"):
        for cursor, page, scan in (
            (None, None, None),
            (b"j2", build_page(3, offset=20), None),
            (b"j2", None, found),
            (b"x", build_page(3), found),
        ):
            pane = build_pane(
                log, cursor_id=cursor, page=page, scan_result=scan, is_whole_place=True, tints_arrivals=None
            )
            pane.set_filter(expression, NATIVE)
            yield (
                f"filter {expression!r} at {cursor!r}: {take(log)} {pane.wanted_offset} {pane.is_whole_place} "
                f"{pane.tints_arrivals} {pane.scan_result}"
            )
    for page in (None, build_page(3), build_page(3, 9)):
        for scan in (None, found):
            for job_id in (b"j1", b"gone"):
                pane = build_pane(log, page=page, scan_result=scan, jobs={job.id: job for job in jobs[:3]})
                yield (
                    f"in place {page and page.total} {scan is not None} {job_id!r}: "
                    f"{pane.is_still_in_place(job_id)} {pane.is_match(job_id, boom)} {pane.count_matches()}"
                )
    for is_whole, job_filter, scan, marked, cursor, is_missing in (
        (True, boom, found, {}, None, False),
        (True, boom, None, {}, None, False),
        (True, None, None, {}, b"j1", False),
        (False, None, None, {b"j1": 1, b"x": 1}, b"j2", False),
        (False, None, None, {}, b"j2", False),
        (False, None, None, {}, b"j2", True),
        (False, None, None, {}, None, False),
    ):
        pane = build_pane(
            log,
            is_whole_place=is_whole,
            job_filter=job_filter,
            scan_result=scan,
            marks=marked,
            cursor_id=cursor,
            is_cursor_row_missing=is_missing,
            page=build_page(3),
            jobs={job.id: job for job in jobs[:3]},
        )
        yield (
            f"selected {is_whole} {job_filter is not None} {len(marked)} {cursor} {is_missing}: "
            f"{len(pane.list_selected_jobs())}"
        )


def build_table(log: list[str], *ids: str, total: int | None = None, offset: int = 0, **attributes: Any) -> Any:
    """Return a table of rows with these ids. `gone` at the end of an id is a row that has left the list."""
    rows = tuple(Row(row_id, (row_id,), is_gone=row_id.endswith("gone")) for row_id in ids)
    number = len(rows) + offset if total is None else total
    names = {
        "has_marks",
        "_cursor_place",
        "_cursor_row",
        "_marks",
        "_range_from",
        "empty",
        "foot",
        "follow_head",
        "stays_first",
        "tints_arrivals",
        "skips_missing_rows",
        "_is_loaded",
        "_pressed",
        "_is_touched",
        "_requested_offset",
    }
    new = vars(Table([Column("a", width=5), Column("b", width=5)]))
    calls = Actor(log, "table")
    usual: dict[str, Any] = {
        **{name: new[name] for name in names},
        "_window": ListWindow(rows, offset, number),
        "_is_loaded": True,
        "show_header": True,
        "dimmed": False,
        "has_focus": True,
        "is_attached": True,
        "painter": new["painter"],
        "first_visible_line": 0,
        "visible_lines": 4,
        "size": Size(30, 6),
        "scrollable_content_region": Size(28, 5),
        "post_message": lambda message: log.append(describe_message(message)),
        **{name: getattr(calls, name) for name in ("scroll_to_line", "repaint_changes", "update_scrollbar")},
    }
    return Bare(Table, **{**usual, **attributes})


def describe_message(message: Any) -> str:
    values = {
        name: value for name, value in vars(message).items() if name in ("id", "ids", "offset", "limit", "column", "at")
    }
    return f"{type(message).__name__} {values}"


def describe_tables() -> Iterator[str]:
    log: list[str] = []
    rows = tuple(Row(row_id, ()) for row_id in ("a", "b", "c"))
    for place in (-1, 0, 2, 3):
        for offset in (0, 2):
            for cursor in ("b", "x"):
                for changes in (
                    {},
                    {"skips_missing_rows": True},
                    {"skips_missing_rows": True, "_is_touched": True},
                    {"stays_first": True},
                ):
                    table = build_table(log, "a", _cursor_row=Row(cursor, ()), _cursor_place=place + offset, **changes)
                    left = table._has_untouched_row_left(rows, offset), table._has_untouched_row_left((), offset)
                    yield f"left {place} {offset} {cursor} {[*changes]}: {left} {table._should_return_to_first(rows)}"
    for place in (0, 1):
        for is_touched in (False, True):
            table = build_table(log, "a", _is_touched=is_touched, _range_from="a", _requested_offset=4)
            table.expect_similar_list(place)
            yield (
                f"similar list at {place} {is_touched}: {table._is_touched} {table._cursor_place} "
                f"{table._is_loaded} {table._range_from} {table._requested_offset}"
            )
            table.clear_rows()
            yield f"  cleared: {table._is_touched} {table._cursor_place} {take(log)}"
    table = build_table(log, "a", "b", _cursor_place=1)
    table.expect_similar_list()
    yield f"similar list from its first row: {table._cursor_place}"
    for ids in ((), ("a",), ("a", "b", "c")):
        for held in (None, "b", "x"):
            table = build_table(log, *ids)
            found = [table._find_cursor_place(Row(held, ()) if held else None, place) for place in (0, 1, 5)]
            yield f"cursor of {len(ids)} on {held}: {found}"
        for place in (0, 1, 2):
            table = build_table(log, *ids, _cursor_place=place)
            yield f"at the end of {len(ids)} {place}: {table.is_at_end} {table.visible_range} {table.line_count}"
    for lines, total in ((4, 3), (4, 4), (4, 9)):
        for top in (0, 2, 5):
            table = build_table(log, total=total, first_visible_line=top, visible_lines=lines)
            yield f"in sight {lines} of {total} from {top}: {table.visible_range}"
    for place in range(-1, 7):
        table = build_table(
            log, "a", "b", "c", "d", "e", "f", _cursor_place=2, _cursor_row=Row("c", ()), visible_lines=3
        )
        table._move_cursor(place)
        yield f"moved to {place}: {table._cursor_place} {table.cursor_id} {table._is_touched} {take(log)}"
    for pages in (-1, 1):
        for lines in (1, 2, 4):
            table = build_table(log, *"abcdefgh", _cursor_place=4, visible_lines=lines, first_visible_line=3)
            table.action_page(pages)
            yield f"page {pages} of {lines} lines: {table._cursor_place} {take(log)}"
    for name in ("on_focus", "on_blur", "on_resize", "watch_dimmed", "action_first", "action_last", "action_mark",
                 "action_range", "action_end_range", "action_mark_loaded", "action_unmark_all"):  # fmt: skip
        for marks, begin in (((), None), (("b", "c"), None), (("b", "c"), "d")):
            table = build_table(
                log, *"abcd", _cursor_place=1, _cursor_row=Row("b", ()), _marks=dict.fromkeys(marks), _range_from=begin
            )
            getattr(table, name)()
            cursor = table._cursor_place, table._is_touched
            yield f"{name} {marks} {begin}: {cursor} {[*table._marks]} {table._range_from} {take(log)}"
    for is_match in ("a", "c", "e", "x", "b"):
        table = build_table(log, *"abcd", "e", _cursor_place=1)
        yield (
            f"next {is_match}: {table.move_to_next(lambda row: row.id == is_match)} {table._cursor_place} "
            f"{table.move_to('d')} {table.move_to('z')}"
        )
        log.clear()
    for total, offset, number, top, lines in (
        (10, 0, 10, 0, 4),
        (100, 0, 10, 0, 4),
        (100, 0, 6, 0, 4),
        (100, 0, 5, 0, 4),
        (100, 20, 20, 22, 4),
        (100, 20, 20, 21, 4),
        (100, 20, 20, 34, 4),
        (100, 20, 20, 35, 4),
        (100, 20, 20, 60, 60),
        (100, 96, 4, 96, 4),
    ):
        for requested in (None, 0, 10):
            table = build_table(
                log,
                *(f"r{at}" for at in range(number)),
                total=total,
                offset=offset,
                first_visible_line=top,
                visible_lines=lines,
                page_size=20,
                _requested_offset=requested,
            )
            table._request_missing_rows()
            yield f"wanted {total} {offset} {number} {top} {lines} {requested}: {take(log)} {table._requested_offset}"
    for lines in (49, 50, 51):
        table = build_table(log, "a", total=500, visible_lines=lines)
        table._request_missing_rows()
        yield f"wanted for {lines} lines: {take(log)}"
    for changes in ({"_is_loaded": False}, {"is_attached": False}):
        table = build_table(log, total=50, **changes)
        table._request_missing_rows()
        yield f"wanted {changes}: {take(log)}"
    for x, y, row in (
        (3, 0, 0),
        (3, 1, 1),
        (3, 3, 3),
        (3, 4, 4),
        (-1, 2, 2),
        (29, 2, 2),
        (30, 2, 2),
        (3, 6, 6),
        (3, -1, 0),
        (3, -1, 2),
    ):
        for show_header in (False, True):
            table = build_table(log, "a", "b", "c", show_header=show_header)
            press = SimpleNamespace(get_content_offset_capture=lambda _table: (x, y), x=x + 1, y=row)
            table.on_mouse_down(press)
            pressed = take(log)
            for chain in (1, 2):
                table.on_click(
                    SimpleNamespace(get_content_offset=lambda _table: SimpleNamespace(x=x, y=y), chain=chain)
                )
                table._pressed = table._cursor_row.id if table._cursor_row else None
            yield f"pressed at {x} {y} {show_header}: {pressed} | {take(log)}"
    for marks, range_from, cursor in (
        ({}, None, "b"),
        ({"b": None}, None, "b"),
        ({}, "a", "c"),
        ({}, "c", "a"),
        ({}, "gone", "b"),
        ({}, None, None),
    ):
        table = build_table(
            log, *"abcd", _marks=dict(marks), _range_from=range_from, _cursor_row=Row(cursor, ()) if cursor else None
        )
        table._cursor_place = "abcd".index(cursor) if cursor else 0
        open_range, signs = (
            table._find_open_range(),
            [table._find_row_mark(row_id, place, False) for place, row_id in enumerate("abcd")],
        )
        gone = [table._find_row_mark(row_id, place, True) for place, row_id in enumerate("ab")]
        yield f"range from {range_from} to {cursor}: {open_range} {signs} {gone} {table.check_action('end_range', ())}"
        table.action_mark()
        yield (
            f"  marked: {table.marks} {table._cursor_place} {table._range_from} "
            f"{[line for line in log if 'Marked' in line]}"
        )
        log.clear()
        table.action_range()
        table.action_range()
        table.action_mark_loaded()
        yield f"  range: {table.marks} {take(log)}"
    for changes in (
        {},
        {"has_focus": False},
        {"has_focus": False, "_is_touched": True},
        {"_is_loaded": False},
        {"show_header": False},
        {"foot": "the legend of all signs"},
    ):
        for ids in ((), ("a", "b gone")):
            table = build_table(log, *ids, **{"empty": "nothing here: N enqueues a job", **changes})
            for y in range(0, 6):
                line = table.build_line(y, 20, 0)
                shown = (line.text, line.cursor, line.is_header, line.row and line.row.id, line.mark, line.is_missing)
                yield f"line {y} of {len(ids)} {[*changes]}: {shown}"


def describe_scans() -> Iterator[str]:
    yield f"a new scan: {place_scan.ScanResult()}"
    for is_cut, is_stopped, problem in (
        (False, False, ""),
        (True, False, ""),
        (False, True, ""),
        (False, False, "away"),
    ):
        found = place_scan.ScanResult()
        found.add_step(place_scan.ScanStep(((0, JOB), (9, JOB)), 2, 9, is_cut))
        partial = found.is_partial
        found.mark_finished(is_stopped_early=is_stopped, problem=problem)
        yield (
            f"scan {is_cut} {is_stopped} {problem}: {partial} {found.is_partial} {found.ids} {found.positions} "
            f"{found.scanned} {found.total}"
        )


def describe_long_texts() -> Iterator[str]:
    log: list[str] = []
    for line in (
        "",
        "a" * 10,
        "a" * 11,
        "word " * 6,
        "aaaaa bbbbbbbbb",
        "aaaa bbbbbbbbbbb",
        "日本語" * 5,
        "日 本 " * 5,
        "a" * 9 + "日",
    ):
        for width in (1, 2, 10):
            yield (
                f"wrapped {line!r} in {width}: "
                f"{[line[start:end] for start, end in long_text._yield_wrapped_rows(line, width)]}"
            )
    lines = [f"line {number} " + "x" * (number % 3) for number in range(30)]
    for top in (0, 5, 28, 29, 40):
        for pattern in (None, "line", "x", "xx", "nothing", "x*"):
            text = Bare(
                LongText,
                _lines=lines,
                _matches=[],
                _current_match=0,
                scrollable_content_region=Size(8, 6),
                scroll_offset=SimpleNamespace(y=top),
                refresh=lambda: log.append("refresh"),
                scroll_to=lambda **options: log.append(f"to {options['y']}"),
                _colour_line_cached=Content,
            )
            text._wrap_lines()
            first = text.find_first_match(re.compile(pattern) if pattern is not None else None)
            following = [text.find_next_match() for _time in range(2)]
            yield f"match of {pattern} from {top}: {first} {following} {take(log)} {len(text._rows)}"
    text.find_first_match(re.compile("line|x"))
    yield f"highlighted: {[text._highlight_matches(number).markup for number in range(4)]}"
    for width, wrapped in ((8, 8), (9, 8)):
        text = Bare(
            LongText,
            scrollable_content_region=Size(width, 6),
            _wrapped_width=wrapped,
            _wrap_lines=lambda: log.append("wrap"),
        )
        text.on_resize()
        yield f"resized to {width}: {take(log)}"
    shown = Bare(
        LongText,
        _lines=(),
        _colour_line=Content,
        _text=Content(),
        _wrap_lines=lambda: log.append("wrap"),
        _matches=[1],
        _current_match=3,
    )
    for lines_shown in (("a",), ("a",), ("b",)):
        shown.show_lines(lines_shown, Content)
        yield f"lines {lines_shown}: {take(log)} {shown._matches} {shown._current_match}"
    for text_shown in (Content("a"), Content("a"), Content.styled("a", "b")):
        shown.show_text(text_shown)
        yield f"text {text_shown.markup}: {take(log)}"


def describe_finder() -> Iterator[str]:
    log: list[str] = []
    for title, help_text in (
        ("open", "a view of the jobs"),
        ("t" * 40, "word " * 20),
        ("open", ""),
        ("open", "word " * 20),
    ):
        hit: Any = SimpleNamespace(prompt=title, help=help_text, score=0.5)
        for cells in (10, 24, 30, 47, 48, 49, 60, 84):
            for is_whole in (False, True):
                yield (
                    f"hit {len(title)} {len(help_text)} in {cells} {is_whole}: "
                    f"{finder.format_hit(hit, cells, is_whole=is_whole).plain!r}"
                )
    for height in (3, 4, 20, 28, 29, 30):
        for width in (40, 87, 88, 120):
            hits = [SimpleNamespace(prompt="open", help="word " * 30, score=0.5)] * 6
            hit_list = SimpleNamespace(styles=SimpleNamespace())
            dialog = Bare(
                Finder,
                app=SimpleNamespace(size=Size(width, height)),
                _shown_hits=hits,
                _line_count=9,
                query_one=lambda _type: hit_list,
            )
            dialog._fit_list_height()
            prompts = dialog._format_hits()
            yield (
                f"finder in {width} x {height}: {dialog._max_lines} {hit_list.styles.height} "
                f"{prompts[0].plain.count(chr(10))} {prompts[0].cell_length}"
            )
    for is_awaiting, has_moved, scores in (
        (False, False, (0.5,)),
        (True, False, (0.5,)),
        (True, True, (0.5,)),
        (True, False, (1.0,)),
        (True, False, ()),
        (False, False, ()),
    ):
        dialog = Bare(
            Finder,
            _is_awaiting=is_awaiting,
            _has_moved=has_moved,
            _has_entered=False,
            _run_selected_hit=lambda: log.append("run"),
            _shown_hits=[SimpleNamespace(score=score) for score in scores],
        )
        dialog.on_input_submitted(SimpleNamespace(stop=lambda: None))
        yield f"Enter {is_awaiting} {has_moved} {scores}: {take(log)} {dialog._has_entered}"
    for number, is_attached, has_entered in ((1, True, False), (2, True, False), (2, False, True), (2, True, True)):
        dialog = Bare(
            Finder,
            _search_number=2,
            is_attached=is_attached,
            _has_entered=has_entered,
            _is_awaiting=True,
            _show_hits=lambda: log.append("show"),
            _run_selected_hit=lambda: log.append("run"),
        )
        dialog._handle_redis_hits(number, finder.RedisHits(()))
        yield f"reply {number} {is_attached} {has_entered}: {take(log)} {dialog._is_awaiting} {dialog._has_entered}"
    for index, number in ((None, 2), (0, 2), (1, 2), (2, 2)):
        dialog = Bare(
            Finder,
            query_one=lambda _type: SimpleNamespace(highlighted=index),
            dismiss=lambda: log.append("closed"),
            app=SimpleNamespace(call_later=lambda command: log.append(f"run {command}")),
            _shown_hits=[SimpleNamespace(command=f"hit {at}") for at in range(number)],
        )
        dialog._run_selected_hit()
        yield f"run {index}: {take(log)}"


@pytest.mark.slow
@pytest.mark.usefixtures("stopped_clock")
def test_widgets_at_their_bounds_match_the_stored_text() -> None:
    parts = (
        describe_bars,
        describe_header,
        describe_queue_lines,
        describe_footer,
        describe_findings,
        describe_plots,
        describe_questions,
        describe_panes,
        describe_tables,
        describe_scans,
        describe_long_texts,
        describe_finder,
    )
    assert_lines_match_file((line for part in parts for line in (f"== {part.__name__[9:]}", *part())), KEPT)
