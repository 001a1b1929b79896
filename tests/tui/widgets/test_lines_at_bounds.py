# ruff: noqa: B023 (a function is called before its loop continues)
"""What lines of tables look like, which of them are repainted, and what a scan reads, at each bound.

`RQTUI_WRITE_SNAPSHOTS=1 pytest tests/tui/widgets/test_lines_at_bounds.py` writes `lines_at_bounds.txt`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from bare_objects import SYSTEMS, Actor, Bare, Size, describe, take
from kept_text import assert_lines_match_file
from rich.style import Style
from textual.content import Content
from textual.scroll_view import ScrollView

from rqtui.errors import WrongType
from rqtui.model import Job, Page, Ref, State
from rqtui.text.pieces import Piece
from rqtui.tui.format.rows import Column, Row
from rqtui.tui.widgets import lines, lines_pane, long_text, place_scan
from rqtui.tui.widgets.lines import Lines
from rqtui.tui.widgets.lines_pane import LinesPane
from rqtui.tui.widgets.long_text import LongText, Text
from rqtui.tui.widgets.paint import PaintedLine, Painter
from rqtui.tui.widgets.table import Table

KEPT = Path(__file__).with_name("lines_at_bounds.txt")
MAIL = Ref("native", "mail")
LETTER = "\u0915\u093e"  # a letter with a vowel sign, which terminals draw with one cell or two
COLUMNS = (
    Column("name", "name", 6, weight=1, most=10, fit=lambda text, width: f"{text[: width - 1]}/"),
    Column("number", "number", 5, align="right", style="muted"),
    Column("error", "error", 8, weight=2, drop=1),
)
# Each name of a style is a link, so that a strip shows which text has which styles.
_STYLES: dict[str, Style] = {}


def find_style(name: str) -> Style:
    return _STYLES.setdefault(name, Style(link=name))


def build_painter(columns: tuple[Column, ...] = COLUMNS, *, ascii_only: bool = False) -> Painter:
    return Painter(columns, ascii_only, find_style, Style)


def write_strip(strip: Any) -> str:
    """Return the text of a strip with the names of its styles, and its width."""
    return f"{strip.cell_length} " + "".join(
        f"[{segment.text}]{segment.style.link or ''}" if segment.style else f"[{segment.text}]" for segment in strip
    )


def describe_painted_lines() -> Iterator[str]:
    rows = {
        "short": Row("r", ("ada", "12", "none")),
        "exact": Row("r", ("a" * 6, "1" * 5, "e" * 8)),
        "long": Row("r", ("a" * 30, "1" * 6, "error " * 6)),
        "pieces": Row(
            "r",
            (
                (Piece("> ", "ok"), Piece("n" * 30, "strong")),
                (Piece("12", "ok"), Piece("345678", "warning")),
                Piece("e", "bad"),
            ),
        ),
        "signs alone": Row("r", ((Piece(">" * 10, "ok"), Piece("name")), "", (Piece("a" * 8), Piece("b"), Piece("c")))),
        "styled": Row("r", ("ada", "12", "none"), style="ok", tint="warning"),
        "fewer cells": Row("r", ("ada",)),
        "control": Row("r", ("a\x1b[31mb", "\n", "t\tt")),
        "wide": Row("r", ("日本語の名前", "日本", "日本語" * 5)),
        "disputed": Row("r", (LETTER + "ab", LETTER + "1", LETTER * 9)),
        "disputed exact": Row("r", (LETTER * 3, LETTER + "12", LETTER + "ab cd")),
        "disputed pieces": Row("r", ((Piece(LETTER, "ok"), Piece(LETTER * 8)), (Piece("1"), Piece(LETTER)), "")),
    }  # fmt: skip
    for title, row in rows.items():
        for ascii_only in (False, True):
            for width in (10, 17, 22, 24, 30, 55, 56, 60):
                painter = build_painter(ascii_only=ascii_only)
                if not ascii_only or width in (24, 56):
                    yield f"{title} in {width}: {write_strip(painter.draw_line(PaintedLine(width, row)))}"
    for changes in (
        {"cursor": "accented"},
        {"cursor": "muted"},
        {"mark": "◆", "mark_style": "accented"},
        {"is_missing": True},
        {"is_dimmed": True},
        {"has_arrived": True},
        {"has_arrived": True, "cursor": "accented"},
    ):
        for title in ("short", "styled", "pieces"):
            line = PaintedLine(40, rows[title], **changes)  # type: ignore[arg-type]
            yield f"{title} with {changes}: {write_strip(build_painter().draw_line(line))}"
    for line in (
        PaintedLine(30, text="a sentence"),
        PaintedLine(30, is_header=True),
        PaintedLine(60, is_header=True, cursor="muted"),
        PaintedLine(9, text="·", cursor="accented"),
    ):
        yield f"without row: {write_strip(build_painter().draw_line(line))}"
    painter = build_painter()
    line = PaintedLine(40, rows["short"])
    first = painter.draw_line(line)
    again = painter.draw_line(line) is first
    painter.clear_cache()
    yield f"cached: {again} {painter.draw_line(line) is first}"
    for width in (20, 55, 56):
        found = "".join((painter.find_column_at(x, width) or "-")[0] for x in range(-1, width + 2))
        yield f"columns in {width}: {found}"


def describe_changed_cells() -> Iterator[str]:
    painter = build_painter()
    usual = Row("r", ("ada", "12", "none"))
    previous = PaintedLine(40, usual)
    changed = {
        "nothing": usual,
        "first": usual._replace(cells=("eve", "12", "none")),
        "second": usual._replace(cells=("ada", "13", "none")),
        "third": usual._replace(cells=("ada", "12", "all")),
        "first and third": usual._replace(cells=("eve", "12", "all")),
        "style": usual._replace(style="ok"),
        "tint": usual._replace(tint="ok"),
        "gone": usual._replace(is_gone=True),
        "fewer": usual._replace(cells=("ada", "12")),
        "disputed": usual._replace(cells=(LETTER, "12", "none")),
        "disputed second": usual._replace(cells=("ada", LETTER, "none")),
        "id": usual._replace(id="x", cells=("eve", "12", "none")),
    }
    for title, row in changed.items():
        for width in (20, 40):
            pair = previous._replace(width=width), PaintedLine(width, row)
            yield f"{title} in {width}: {painter.find_changed_cells(*pair)} {painter.find_changed_cells(*pair[::-1])}"
    short = [PaintedLine(40, usual._replace(cells=("ada", number))) for number in ("12", "13")]
    yield f"fewer cells than columns: {painter.find_changed_cells(*short)}"
    for before, after in (
        (None, previous),
        (PaintedLine(40, text="a"), previous),
        (previous, PaintedLine(40, text="a")),
        (previous, previous._replace(cursor="accented")),
        (previous, previous._replace(cursor="accented", row=changed["first"])),
    ):
        yield f"whole line: {painter.find_changed_cells(before, after)}"


def build_lines(log: list[str], **attributes: Any) -> Any:
    """Return a `Lines` of 20 lines of which 5 are visible. Its calls to Textual are written down."""
    calls = Actor(log, "lines")
    usual: dict[str, Any] = {
        "show_header": True, "ascii_only": False, "_painted": {}, "_frame_texts": {}, "is_attached": True,
        "size": Size(30, 6), "scrollable_content_region": Size(28, 6), "scroll_offset": SimpleNamespace(y=3),
        "styles": SimpleNamespace(gutter=SimpleNamespace(top=1, bottom=1, left=1, right=1)), "line_count": 20,
        "outer_size": Size(32, 8), "container_size": Size(30, 6), "virtual_size": Size(28, 21), "scroll_y": 3,
        "show_vertical_scrollbar": True, "vertical_scrollbar": Actor(log, "bar"), "painter": build_painter(),
        "_resolve_style": lambda _name: Style(bold=True), "validate_scroll_y": lambda y: y,
        "handle_scroll": calls.handle_scroll,
        "build_line": lambda y, width, top: PaintedLine(width, text=f"{y} of {top}"),
        **{name: getattr(calls, name) for name in ("refresh", "scroll_to", "set_reactive")},
    }  # fmt: skip
    return Bare(Lines, **{**usual, **attributes})


def describe_line_widgets(monkeypatch: Any) -> Iterator[str]:
    log: list[str] = []
    write = lambda name: lambda *args: log.append(f"{name} {describe(args[1:])}")  # noqa: E731
    monkeypatch.setattr(lines, "border_title", SimpleNamespace(set_border_title=write("border")))
    monkeypatch.setattr(lines, "scroll_length", SimpleNamespace(change_scroll_size=write("scroll size")))
    for height in (0, 1, 2, 6):
        for show_header in (False, True):
            widget = build_lines(log, size=Size(30, height), show_header=show_header)
            yield f"visible of {height} {show_header}: {widget.visible_lines} {widget.first_visible_line}"
    widget = build_lines(log)
    for y in range(2):
        yield f"drawn {y}: {write_strip(widget.render_line(y))} {sorted(widget._painted)}"
    widget.repaint_changes()
    yield f"repainted: {take(log)}"
    for is_attached in (False, True):
        widget = build_lines(log, is_attached=is_attached, size=Size(30, 2))
        widget.repaint_changes()
        yield f"repainted {is_attached}: {take(log)}"
    for top in (-1, 0, 3, 4):
        widget.scroll_to_line(top)
        yield f"scrolled to {top}: {take(log)}"
    for count, header, y in (
        (20, True, 3),
        (21, True, 3),
        (19, True, 3),
        (5, True, 0),
        (6, True, 0),
        (4, True, 0),
        (5, False, 0),
        (200, True, 150),
        (201, True, 150),
        (300, True, 150),
    ):
        for attributes in ({}, {"is_attached": False}, {"show_vertical_scrollbar": False}):
            widget = build_lines(log, line_count=count, show_header=header, scroll_y=y, **attributes)
            set_size = widget.set_reactive
            widget.__dict__["set_reactive"] = lambda _name, size, widget=widget: (
                set_size("virtual size", size),
                widget.__dict__.update(virtual_size=size),
            )
            widget.update_scrollbar()
            if not attributes or count == 21:
                thumb = widget._measure_scrollbar_thumb()
                yield f"scrollbar of {count} {header} at {y} {[*attributes]}: {take(log)} {thumb} {widget.scroll_y}"
            log.clear()
    for track, length, at in ((6, 5, 0), (6, 6, 0), (6, 7, 1), (10, 100, 37)):
        widget = build_lines(log, container_size=Size(30, track), virtual_size=Size(28, length), scroll_y=at)
        yield f"thumb of {track} {length} {at}: {widget._measure_scrollbar_thumb()}"
    for is_shown in (False, True):
        bar = SimpleNamespace(position=0)
        widget = build_lines(log, show_vertical_scrollbar=is_shown, vertical_scrollbar=bar, size=Size(30, 1))
        widget.watch_scroll_y(0, 7)
        yield f"scrolled {is_shown}: {take(log)} {bar.position}"
    widget = build_lines(log)
    widget.set_border_title("words", Piece("styled", "ok"))
    widget.set_border_title("words", Piece("styled", "ok"))
    widget.set_subtitle("below")
    widget.set_subtitle()
    yield f"frame: {take(log)} {widget.title}"
    yield f"framed: {widget._build_border_content(())} {describe(widget._build_border_content(('a', Piece('b', 'x'))))}"
    monkeypatch.setattr(ScrollView, "notify_style_update", lambda _widget: log.append("style of Textual"), False)
    widget.__dict__["_painted"] = {0: 1}
    first = widget.painter.draw_line(PaintedLine(9, text="a"))
    widget.set_border_title("words")
    log.clear()
    widget.notify_style_update()
    again = widget.painter.draw_line(PaintedLine(9, text="a")) is first
    yield f"other colours: {take(log)} {widget._painted} {again}"
    widget.set_columns(COLUMNS[:1])
    yield f"columns: {len(widget.painter.columns)} {widget._painted} {take(log)}"
    table: Any = Bare(
        Table,
        **{
            name: getattr(Actor(log, "table"), name)
            for name in ("update_scrollbar", "_scroll_cursor_into_view", "repaint_changes", "_request_missing_rows")
        },
        post_message=lambda message: log.append(type(message).__name__),
    )
    for call in (table.on_focus, table.on_blur, table.on_resize, table.handle_scroll, table.watch_dimmed):
        call()
        yield f"table {call.func.__name__}: {take(log)}"


def describe_text_widgets(monkeypatch: Any) -> Iterator[str]:
    log: list[str] = []
    monkeypatch.setattr(lines_pane, "render_text_line", lambda _pane, line, width: f"{line.plain} in {width}")
    monkeypatch.setattr(long_text, "render_text_line", lambda _widget, line, width: f"{line.plain} in {width}")
    calls = Actor(log, "pane")
    shown = [Content("one"), Content("two")]
    for size in (Size(0, 5), Size(5, 0), Size(1, 1), Size(9, 3)):
        built: list[Any] = []
        pane: Any = Bare(
            LinesPane, _lines_builder=lambda *args: built.append(args) or shown, _title=Content(), _lines=(),
            _built_size=Size(0, 0), content_size=size, refresh=calls.refresh,
        )  # fmt: skip
        drawn = [pane.render_line(y) for y in range(3)]
        yield f"pane of {size}: {drawn} {built}"
        for new in (
            [Content("one"), Content("two")],
            [Content("one"), Content("2")],
            [Content("1"), Content("2")],
            [Content("1")],
        ):
            shown = new
            pane.redraw_changes()
            yield f"  redrawn: {take(log)}"
        shown = [Content("one"), Content("two")]
    pane.__dict__["border_title"] = None
    for title in (Content("a"), Content("a"), Content("b")):
        pane.__dict__["border_title"] = None
        pane.set_border_title(title)
        yield f"title {title.plain}: {pane.border_title}"
    for width in (0, 9):
        text: Any = Bare(
            Text,
            size=Size(width, 3),
            refresh=calls.refresh,
            _render_strips=lambda content, _width: content.plain.split("\n"),
        )
        for plain in ("a\nb", "a\nb", "a\nc", "x\ny", "x", ""):
            text.show_text(Content(plain))
            yield f"text in {width}: {take(log)} {text.render().plain!r} {text.count_text_rows(Content(plain))}"
    long: Any = Bare(
        LongText, size=Size(9, 3), scroll_offset=SimpleNamespace(y=1), rich_style=Style(), _lines=["abcdef", "g"],
        _rows=[(0, 0, 3), (0, 3, 6), (1, 0, 1)], _highlight_matches=lambda number: Content(["abcdef", "g"][number]),
    )  # fmt: skip
    for y in range(4):
        line = long.render_line(y)
        yield f"long text {y}: {line if isinstance(line, str) else (line.cell_length, line.text)}"


def describe_scans() -> Iterator[str]:
    job = Job(b"j0", "mail", "native", "ready", State.READY, b"j0", body=b"0123456789", error="e" * 401)
    log: list[str] = []

    def build_engine(*pages: Page, name: str = "native") -> Any:
        left = list(pages)
        return SimpleNamespace(
            systems={"native": SYSTEMS[name]},
            fetch_scan_page=lambda _ref, place, *args: log.append(f"{place} {args}") or left.pop(0),
            fetch_backward_scan_page=lambda _ref, place, *args: log.append(f"back {place} {args}") or left.pop(0),
        )

    def build_page(number: int, **fields: Any) -> Page:
        jobs = tuple(replace(job, id=b"j%d" % at) for at in range(number))
        return Page("mail", "native", "ready", jobs, 1_000, **fields)

    pages: dict[str, tuple[Page, ...]] = {
        "one": (build_page(3, next=None),),
        "two": (build_page(3, next=500), build_page(2, next=None, offset=500)),
        "an empty one": (build_page(3, next=500), build_page(0, next=700)),
        "a failing one": (build_page(3, next=500), build_page(0, error="WRONGTYPE")),
        "many": tuple(build_page(500, next=500 * at) for at in range(1, 5)),
        "a shared place": (build_page(1, next=None, place_total=70),),
    }
    for title, each in pages.items():
        for most in (499, 500, 501, 1_000, 100_000):
            for accepts in (lambda _job: True, lambda job: job.id != b"j1"):
                scan = place_scan.create_scan(MAIL, "ready", accepts, 40, 4, most)
                found = []
                try:
                    for step in scan(build_engine(*each)):
                        found.append(
                            (
                                len(step.jobs),
                                step.jobs[-1][0] if step.jobs else None,
                                step.scanned,
                                step.total,
                                step.is_cut,
                            )
                        )
                except (WrongType, IndexError) as error:
                    found.append(type(error).__name__)  # type: ignore[arg-type]
                yield f"scan of {title}, {most}: {found} {take(log)}"
    for number in (99_999, 100_000):
        first = build_page(1, next=number)
        (step, *_others) = place_scan.create_scan(MAIL, "ready", lambda _job: True, 40, 4)(
            build_engine(first, build_page(0, next=None))
        )
        yield f"scan of {number}: {step.scanned} {step.is_cut} {take(log)}"
    for body_bytes in (0, 4, 20):
        for each in (job, replace(job, body=None, error=""), replace(job, error="e" * 400)):
            errors: dict[str, str] = {}
            kept = place_scan._shrink_matching_job(each, body_bytes, errors)
            yield f"kept {body_bytes}: {kept.body!r} {len(kept.error)} {kept.history} {[*map(len, errors)]}"
    result = place_scan.ScanResult()
    result.add_step(place_scan.ScanStep(((3, job), (5, replace(job, id=b"j1"))), 9, 20, False))
    result.add_step(place_scan.ScanStep(((7, job),), 12, 21, True))
    yield f"result: {result.ids} {result.positions} {result.scanned} {result.total} {result.is_cut} {result.is_partial}"
    present = result.list_present_jobs()
    for job_id, now in (
        (b"x", None),
        (b"j0", job),
        (b"j0", replace(job, body=None)),
        (b"j0", replace(job, token=b"t")),
        (b"j0", replace(job, member=b"m")),
        (b"j0", replace(job, place="dead")),
        (b"j0", None),
        (b"j0", job),
    ):
        before = result.list_present_jobs()
        result.update_job(job_id, "ready", now)
        after = result.list_present_jobs()
        kept = f"{result.left_places} {before is after} {len(after)} {result.jobs[b'j0'].body!r}"
        yield f"read again {job_id!r} {now and (now.place, now.body, now.token)}: {kept}"
    yield f"slices {[len(result.slice_jobs(*part)) for part in ((0, 1), (1, 5), (2, 1), (0, 2))]} {len(present)}"


def test_lines_at_their_bounds_match_the_stored_text(monkeypatch: Any) -> None:
    parts = {
        "painted lines": describe_painted_lines(), "changed cells": describe_changed_cells(),
        "widgets": describe_line_widgets(monkeypatch), "texts": describe_text_widgets(monkeypatch),
        "scans": describe_scans(),
    }  # fmt: skip
    assert_lines_match_file((line for title, part in parts.items() for line in (f"== {title}", *part)), KEPT)
