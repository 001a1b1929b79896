# ruff: noqa: B023 (a function is called before its loop continues)
"""What widgets do at clicks, keys and edits: `events_kept.txt` has every line.

The methods are called without a screen (`support/bare_objects.py`).
`RQTUI_WRITE_SNAPSHOTS=1 pytest tests/tui/widgets/test_events_kept.py` writes the text.
"""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import nullcontext
from pathlib import Path
from tempfile import mkstemp
from types import SimpleNamespace
from typing import Any

import pytest
from bare_objects import Actor, Bare, Size, describe, take
from kept_text import assert_lines_match_file
from textual.content import Content
from textual.events import Key, Mount, Resize
from textual.geometry import Size as Area
from textual.style import Style
from textual.widget import Widget

from rqtui.errors import UsageError
from rqtui.model import Finding, Ref
from rqtui.text.pieces import Piece
from rqtui.tui.widgets import body_editor, findings, frame, lines_pane, question_dialog
from rqtui.tui.widgets.body_editor import edit_in_editor
from rqtui.tui.widgets.finder import Finder, RedisHits
from rqtui.tui.widgets.findings import Findings, FindingsPane
from rqtui.tui.widgets.leavable import Leavable
from rqtui.tui.widgets.long_text import LongText
from rqtui.tui.widgets.paint import GLYPHS, Painter
from rqtui.tui.widgets.pane import Pane
from rqtui.tui.widgets.question_dialog import Question
from rqtui.verbs import Field

KEPT = Path(__file__).with_name("events_kept.txt")
MAIL = Ref("native", "mail")
FINDING = Finding("failing", "critical", "mail", "51 % of the attempts fail", "look at the errors", key="e")


def build_hit(name: str, score: float) -> Any:
    return SimpleNamespace(prompt=name, help="", score=score, command=name)


def build_event(log: list[str], **attributes: Any) -> Any:
    return Actor(log, "event", **attributes)


def build_finder(log: list[str], hits: list[Any], **attributes: Any) -> Any:
    """Return a finder whose provider finds these commands, and whose list writes down its calls."""

    async def find(_text: str = "") -> AsyncIterator[Any]:
        for hit in hits:
            yield hit

    hit_list = Actor(log, "list", highlighted=None, highlighted_option=None, styles=SimpleNamespace())
    hit_list.add_options = lambda options: log.append(f"options {[option.prompt.plain.strip() for option in options]}")
    provider = SimpleNamespace(
        search=lambda text: log.append(f"search {text}") or find(), discover=lambda: log.append("discover") or find()
    )
    usual: dict[str, Any] = {
        "_provider": provider, "_create_provider": lambda _finder: provider, "_pause_timer": None, "hit_list": hit_list,
        "_redis_hits": RedisHits(()), "_shown_hits": [], "_local_hits": [], "_search_number": 0, "_is_awaiting": False,
        "_has_entered": False, "_has_moved": False, "_line_count": 1, "is_attached": True,
        "app": Actor(log, "app", size=Size(80, 24)), "query_one": lambda _type: hit_list,
        "set_timer": lambda _wait_s, call: log.append("timer") or Actor(log, "timer", call=call),
        "dismiss": lambda: log.append("dismiss"),
    }  # fmt: skip
    return Bare(Finder, **{**usual, **attributes})


def describe_finder() -> Iterator[str]:
    log: list[str] = []
    dialog = build_finder(log, [build_hit("open", 0.5), build_hit("pause", 0.9)])
    dialog._is_awaiting = dialog._has_moved = dialog._has_entered = True

    def describe_state() -> str:
        flags = dialog._is_awaiting, dialog._has_entered, dialog._has_moved
        hit_list = dialog.hit_list
        return (
            f"{take(log)} {dialog._search_number} {flags} {hit_list.highlighted} "
            f"{describe(hit_list.__dict__.get('border_subtitle'))} {vars(hit_list.styles)}"
        )

    asyncio.run(dialog.on_mount())
    yield f"opened: {describe_state()}"
    for typed in ("op", " op ", ""):
        dialog._has_moved = dialog._has_entered = True
        asyncio.run(dialog.on_input_changed(build_event(log, value=typed)))
        yield f"typed {typed!r}: {describe_state()}"
    for message in ("", "Redis is away"):
        dialog = build_finder(log, [], _is_awaiting=True)
        dialog._request_redis_hits = lambda text, handle: log.append(f"request {text}") or message
        dialog._request_hits("op")
        yield f"requested {message!r}: {describe_state()}"
    handlers: list[Any] = []
    dialog = build_finder(log, [], _is_awaiting=True, _search_number=3)
    dialog._request_redis_hits = lambda text, handle: handlers.append(handle) or "reading"
    dialog._request_hits("op")
    for number in (4, 3):
        dialog._search_number = number
        handlers[0](RedisHits((build_hit("mail", 0.8),), "1 queue"))
        yield f"replied to 3 of {number}: {describe_state()}"
    hits = [build_hit("open", 0.5), build_hit("pause", 0.9)]
    for has_moved in (False, True):
        for option in (None, SimpleNamespace(id=str(id(hits[0]))), SimpleNamespace(id="gone")):
            dialog = build_finder(log, [], _local_hits=hits, _has_moved=has_moved)
            dialog.hit_list.highlighted_option = option
            dialog._show_hits()
            yield f"shown, moved {has_moved}, {option and option.id.isdigit()}: {describe_state()}"
    for is_awaiting in (False, True):
        dialog = build_finder(log, [], _is_awaiting=is_awaiting)
        dialog._show_hits()
        yield f"none, awaiting {is_awaiting}: {describe_state()}"
    for shown in ([], hits):
        dialog = build_finder(log, [], _shown_hits=shown, _local_hits=shown, _line_count=9)
        dialog.on_resize()
        yield f"resized with {len(shown)} matches: {describe_state()}"
    dialog.action_move("cursor_down")
    yield f"moved: {describe_state()}"
    dialog.on_option_list_option_selected(build_event(log, option_index=1))
    yield f"clicked: {describe_state()}"
    dialog.on_input_submitted(build_event(log))
    yield f"entered: {describe_state()}"


def describe_findings() -> Iterator[str]:
    log: list[str] = []
    lines = [Content("e errors"), Content("51 %")]
    for offset in (None, (0, -1), (0, 0), (0, 1), (0, 2)):
        event: Any = SimpleNamespace(
            get_content_offset=lambda _widget: offset and SimpleNamespace(x=offset[0], y=offset[1])
        )
        for is_key in (False, True):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(
                    findings, "frame", SimpleNamespace(press_key_at_cell=lambda _w, line, _x: is_key and line.plain)
                )
                bar = Bare(FindingsPane, _lines=lines, open_finding_at=lambda y: log.append(f"open {y}"))
                bar.on_click(event)
            yield f"preview clicked at {offset}, key {is_key}: {take(log)}"
        clicked = Bare(
            frame.Bar,
            _lines=[(line, Content()) for line in lines],
            size=Size(20, 2),
            app=Actor(log, "app"),
            handle_text_click=lambda y: log.append(f"text {y}"),
        )
        if offset is None or offset[1] >= 0:
            clicked.on_click(event)
            yield f"bar clicked at {offset}: {take(log)}"
    bar = Bare(Findings, _lines=[], show_lines=lambda *shown: log.append(f"lines {len(shown)}"))
    shown = [SimpleNamespace(sides=(lines[0], lines[1]), finding=FINDING), SimpleNamespace(sides=(), finding=None)]
    bar.show_findings(shown, (Content("tabs"), Content()))
    yield f"findings: {take(log)} {[(found := bar.find_finding_at(y)) and found.kind for y in range(3)]}"
    vars(bar).update(_findings=(FINDING,), _ref=MAIL, post_message=lambda message: log.append(type(message).__name__))
    for y in range(3):
        bar.handle_text_click(y)
        yield f"  text clicked on line {y}: {take(log)}"
    for event_name in ("on_focus", "on_blur"):
        getattr(bar, event_name)()
        yield f"  {event_name}: {take(log)}"
    for attributes in ({"_findings": ()}, {"_findings": (FINDING,), "_ref": None}):
        vars(bar).update(attributes)
        bar.open_finding_at(0)
        yield f"  clicked with {describe(attributes)}: {take(log)}"


def describe_lines() -> Iterator[str]:
    log: list[str] = []
    for text in ("", "abc", "abcd", "abcde", "a\nb", "a\tb", "日本"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(lines_pane, "Visual", SimpleNamespace(to_strips=lambda *_: log.append("wrapped") or []))
            widget: Any = SimpleNamespace(visual_style=Style(), rich_style=None)
            strip = lines_pane.render_text_line(widget, Content(text), 4)
        yield f"line {text!r}: {take(log)} {strip.text!r}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frame, "render_text_line", lambda _widget, line, width: f"{line.plain!r} {width}")
        bar = Bare(frame.Bar, _lines=[(Content("a"), Content("b"))], size=Size(4, 1))
        yield f"lines of a bar: {[bar.render_line(y) for y in range(3)]}"
    hints = [frame.format_key_hint("R", "requeue"), frame.format_key_hint("D", "delete")]
    for line in (hints[0], Content(" ").join(hints), Content("  ").join(hints)):
        found = [frame.find_key_at_cell(line, at) for at in range(line.cell_length + 2)]
        yield f"keys of {line.plain!r}: {found}"
    painter = Bare(Painter, glyphs=GLYPHS[0], ascii_only=False)
    cell = (Piece("+ ", "muted"), Piece("name", "strong"))
    for fit in (None, lambda text, cells: text[-cells:]):
        for align in ("left", "right"):
            fitted = [painter._fit_cell_to_width(cell, width, align, fit) for width in range(8)]
            yield f"cell, {align} {fit is not None}: {describe(fitted)}"
    text_pane = LongText(id="body", classes="pane")
    yield f"long text: {text_pane.id} {[*text_pane.classes]}"
    text_pane._visual_style, text_pane.refresh = Style(), lambda: log.append("refresh")  # type: ignore[assignment]
    text_pane.notify_style_update()
    yield f"  after a change of the theme: {take(log)} {text_pane._visual_style}"
    for size in (9_999, 10_000, 10_001):
        searched = Bare(LongText, _lines=["x" * size, "xx"], _rows=[], refresh=lambda: log.append("refresh"))
        searched.find_first_match(re.compile("x|y*"))
        yield f"matches in {size + 2} letters: {len(searched._matches)} {searched._matches[-1]} {take(log)}"
    preview = FindingsPane(lambda _width, _height: [], lambda _y: FINDING, "preview")
    yield f"preview: {preview.id} {[*preview.classes]} {preview.find_finding_at(0) is FINDING}"
    yield f"findings: {Findings('findings').id}"


def describe_dialogs() -> Iterator[str]:
    log: list[str] = []
    dialog = Bare(
        Question,
        **{name: getattr(Actor(log, "dialog"), name) for name in ("_fit_to_terminal", "action_enter", "_show_problem")},
    )
    for name in ("on_descendant_focus", "on_resize", "on_input_submitted"):
        getattr(dialog, name)()
        yield f"{name}: {take(log)}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(question_dialog, "Horizontal", lambda **_options: nullcontext())
        patch.setattr(question_dialog, "Tick", lambda label, value, **_options: f"tick {label.plain} {value}")
        patch.setattr(question_dialog, "Label", lambda label: f"label {label.plain}")
        patch.setattr(
            question_dialog,
            "Input",
            lambda value, placeholder, suggester, **_options: f"{value} ({placeholder}) {suggester is not None}",
        )
        for kind in ("bool", "int", "text"):
            for name in ("rate", "note"):
                for choices in ((), ("slow", "bulk")):
                    field = Field(name, "its label", kind, choices=choices)
                    yield f"field {name} {kind} {choices}: {[*question_dialog._compose_field_input(field, 'x')]}"
    marked = Bare(Pane, is_whole_place=True, left_places={b"a": "x"}, set_marks=lambda ids: log.append(f"marks {ids}"))
    marked.action_unmark_all()
    yield f"unmarked: {take(log)} {marked.is_whole_place} {marked.left_places}"


def describe_left_dialogs() -> Iterator[str]:
    log: list[str] = []

    class Below(Widget):
        async def on_event(self, event: Any) -> None:
            log.append(type(event).__name__)

    class Left(Leavable, Below):
        pass

    for is_shown in (False, True):
        for event in (Mount(), Resize(Area(1, 1), Area(1, 1)), Key("a", "a")):
            asyncio.run(Left.on_event(Bare(Left, display=is_shown), event))  # type: ignore[arg-type]
            yield f"{type(event).__name__} of a dialog that is shown {is_shown}: {take(log)}"


def test_events_match_the_stored_text() -> None:
    parts = (describe_finder, describe_findings, describe_lines, describe_dialogs, describe_left_dialogs)
    assert_lines_match_file((line for part in parts for line in (f"== {part.__name__[9:]}", *part())), KEPT)


def test_an_editor_leaves_no_file_and_the_handlers_of_signals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_editor, "tempfile", SimpleNamespace(mkstemp=lambda **_: mkstemp(dir=tmp_path)))
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGQUIT)]
    assert edit_in_editor(b"[1]", ".json", ["true"]) == b"[1]"
    for command, reason in (("exit 3", "ended with 3"), ("kill -15 $$", "was ended by signal 15")):
        with pytest.raises(UsageError, match=reason):
            edit_in_editor(b"[1]", ".json", ["sh", "-c", command])
    assert not [*tmp_path.iterdir()]
    assert handlers == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGQUIT)]


@pytest.mark.parametrize(
    ("raw", "appended", "content"),
    [
        (b"[1]", "", b"[1]"),
        (b"[1]", "\\n", b"[1]"),
        (b"[1]\n", "\\n", b"[1]\n"),
        (b"[1]\n", "2\\n", b"[1]\n2\n"),
        (b"[1]", "2\\n", b"[1]2"),
        (b"[1]\n", "2", b"[1]\n2"),
    ],
)
def test_a_newline_that_an_editor_adds_is_removed(raw: bytes, appended: str, content: bytes) -> None:
    assert edit_in_editor(raw, ".json", ["sh", "-c", f"printf '{appended}' >> $0"]) == content
