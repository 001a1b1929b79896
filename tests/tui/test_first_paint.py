"""Test the first paint: what it does not need is imported later, and a repaint sends only what changed."""

from __future__ import annotations

import json
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from aging import move_queue_into_past
from families import run_in_one_test
from ptys import run_in_pty
from redis import Redis
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from screens import WIDE, Screen, Seeded, run_on_event_loop, screen
from textual._compositor import ChopsUpdate, Compositor, LayoutUpdate
from textual.app import App
from textual.css.stylesheet import Stylesheet
from textual.geometry import Region
from textual.strip import Strip

from rqtui.tui.screens.overview import Overview
from rqtui.tui.terminal.diff_output import (
    PLAIN,
    FullUpdate,
    Ink,
    PartialUpdate,
    SentCells,
    encode_style_change,
)

pytestmark = pytest.mark.newest_textual
HOUR_MS = 3_600_000

# The program as it is started; it writes down what is imported with the first frame, and whether garbage was
# collected at each of the frames that it has sent.
TOLD = """
import gc, json, sys
from textual.app import App
told, display = {"collects": []}, App._display
def _display(self, screen, picture):
    told.setdefault("modules", sorted(sys.modules))
    told["collects"].append(gc.isenabled())
    display(self, screen, picture)
App._display = _display
from rqtui.cli.main import main
main(sys.argv[1:2])
json.dump(told, open(sys.argv[2], "w"))
"""
LATER = (
    *("redis", "typer", "textual.widgets._text_area"),
    *(f"rqtui.engine.{name}" for name in ("engine", "filters", "health.rules", "loops")),
    *(
        f"rqtui.{name}"
        for name in ("client.queue", "system_base.system", "scripts.script", "reports.plans", "scenarios")
    ),
    *(f"rqtui.{name}" for name in ("systems.registry", "systems.by_sight")),
    *(f"rqtui.operations.{name}" for name in ("rate_limit", "revert", "undo")),
    *(f"rqtui.tui.screens.{name}" for name in ("board", "job")),
    *(
        f"rqtui.tui.widgets.{name}"
        for name in ("question_dialog", "text_dialog", "body_editor", "help_content", "help_page")
    ),
    *("rqtui.tui.services.copying", "rqtui.tui.format.copy_formats"),
)


@pytest.mark.slow
def test_the_first_refresh_waits_for_nothing_that_is_needed_later(url: str, client: Redis, tmp_path: Path) -> None:
    assert [name for name in LATER if find_spec(name) is None] == []
    Seeded(client).put("first")
    file = tmp_path / "told.json"
    with run_in_pty([sys.executable, "-c", TOLD, url, str(file)]) as terminal:
        terminal.until(b"mail")
        terminal.press(b"q")
        terminal.until_ended()
    document = json.loads(file.read_text())
    assert [name for name in LATER if find_spec(name) is None] == [], "there is no such module"
    assert "rqtui.tui.screens.overview" in document["modules"]
    assert [name for name in LATER if name in document["modules"]] == []
    assert not document["collects"][0] and document["collects"][-1]


@run_on_event_loop
async def test_the_stylesheet_is_read_once_until_there_are_other_colours(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reread: list[str] = []
    reparse = Stylesheet.reparse
    monkeypatch.setattr(Stylesheet, "reparse", lambda self: (reread.append("again"), reparse(self)))
    async with screen(url) as ui:
        await ui.until_refreshed()
        assert reread == []
        assert ui.app.screen.styles.background.hex.lower() == "#15171c"
        ui.app.theme = "rqtui-light"
        await ui.until(lambda: ui.app.screen.styles.background.hex.lower() == "#f7f7f5", "a light ground")


@pytest.mark.slow
@run_on_event_loop
async def test_the_rules_of_views_and_dialogs_are_read_with_the_first_of_them(url: str) -> None:
    async with screen(url) as ui:
        await ui.until_refreshed()
        rules = {selector for rule in ui.app.stylesheet.rules for selector in rule.selector_names}
        assert "#happened" in rules and "#dialog" not in rules
        await ui.press("N")
        assert ui.app.screen.query_one("#dialog").styles.border_title_color.hex == "#EEF1F5"
        read = len(ui.app.stylesheet.source)
        await ui.press("escape", "N")
        assert len(ui.app.stylesheet.source) == read


@run_on_event_loop
async def test_a_view_knows_its_size_before_its_widgets_get_their_styles(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A class that is set later computes the styles of all widgets again: a tenth of the time to the first paint."""
    queue_names: list[set[str]] = []
    compose = Overview.compose_view
    monkeypatch.setattr(
        Overview, "compose_view", lambda self: (queue_names.append(set(self.classes)), compose(self))[1]
    )
    async with screen(url, WIDE) as ui:
        await ui.until_refreshed()
    assert queue_names == [{"-high", "-large"}]


Cells = dict[tuple[int, int], tuple[str, frozenset[str]]]
INVISIBLE_ON_BLANKS = ("38", "1", "2", "3")  # the codes of a colour of the text, bold, dim and italic


def drawn(sent: str) -> Cells:
    """Return what a terminal shows of the sent bytes: (line, column) -> the sign and its style."""
    cells: Cells = {}
    line = column = 0
    style: dict[str, str] = {}
    for codes, kind, sign in re.findall(r"\x1b\[([\d;]*)([Hm])|(.)", sent, re.DOTALL):
        if kind == "H":
            line, column = (int(each) for each in codes.split(";"))
        elif kind == "m":
            _take(style, codes.split(";"))
        elif sign != "\n":
            shown = {code: value for code, value in style.items() if sign != " " or code not in INVISIBLE_ON_BLANKS}
            cells[line, column] = (sign, frozenset(shown.items()))
            column += 1
    return cells


def _take(style: dict[str, str], codes: list[str]) -> None:
    while codes:
        code = codes.pop(0)
        if code in ("", "0"):
            style.clear()
        elif code in ("38", "48"):
            number = 4 if codes[0] == "2" else 2
            style[code] = ";".join(codes[:number])
            del codes[:number]
        else:
            style[code] = "on"


@pytest.mark.slow
@run_on_event_loop
async def test_a_repaint_shows_the_same_as_textual_would_and_sends_less(
    url: str, client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeded = Seeded(client)
    seeded.put(*(f"job{number:02}" for number in range(30)))
    updates: list[ChopsUpdate | LayoutUpdate] = []
    for name in ("render_partial_update", "render_full_update"):
        _record_updates(name, updates, monkeypatch)
    async with screen(url, WIDE) as ui:
        await ui.press("enter", "j", "j", "space", "k")
        seeded.reserve(3)
        await ui.until_refreshed()
        seeded.bury("dies")
        await ui.until_refreshed()
        await ui.press("2", "3", "1", "question_mark", "escape", "escape", "enter")
    console = Console(color_system="truecolor", force_terminal=True)
    ours = textuals = 0
    cells, on_terminal, expected = SentCells(), Cells(), Cells()
    assert {type(update) for update in updates} == {ChopsUpdate, LayoutUpdate} and len(updates) > 10
    for update in updates:
        usual = update.render_segments(console)
        own_class = PartialUpdate if isinstance(update, ChopsUpdate) else FullUpdate
        alone = own_class.from_update(update).render_segments(console)
        changes = own_class.from_update(update, cells).render_segments(console)
        region = find_painted_cells(update)
        painted = {at: cell for at, cell in drawn(usual).items() if at in region}
        assert drawn(alone) == painted
        on_terminal |= drawn(changes)
        expected |= painted
        assert on_terminal == expected
        assert {changes[-4:], alone[-4:]} <= {"", "\x1b[0m"}
        ours, textuals = ours + len(changes), textuals + len(usual)
    assert ours < 0.3 * textuals


@pytest.mark.slow
@pytest.mark.parametrize(("key", "most"), [("j", 2_000), ("k", 2_000), ("enter", 25_000)])
@run_on_event_loop
async def test_a_key_on_the_overview_sends_few_bytes(
    key: str, most: int, url: str, client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything is counted that a key causes: the two rows, the preview, and the snapshot that the preview needs."""
    for number in range(12):
        Seeded(client, f"queue{number:02}").put(*(f"job{at:02}" for at in range(20)))
        move_queue_into_past(client, f"queue{number:02}", 3 * HOUR_MS)  # Ages in hours do not change meanwhile.
    updates: list[ChopsUpdate | LayoutUpdate] = []
    for name in ("render_partial_update", "render_full_update"):
        _record_updates(name, updates, monkeypatch)
    console, cells = Console(color_system="truecolor", force_terminal=True), SentCells()
    async with screen(url, WIDE, interval_s=3600.0) as ui:  # Only keys cause snapshots.
        await ui.until_shown("queue11")
        for preparing_key in ("j", "j", "j"):
            await ui.press(preparing_key)
            await _wait_for_painted_snapshot(ui)
        first = len(updates)
        await ui.press(key)
        await _wait_for_painted_snapshot(ui)
    own = [
        (PartialUpdate if isinstance(each, ChopsUpdate) else FullUpdate).from_update(each, cells) for each in updates
    ]
    sent = [len(each.render_segments(console).encode()) for each in own]
    assert sum(sent[:first]) > 5_000
    # The key alone takes 0.6 kB. It took 7 to 12 kB when whole rows were sent, and 2.4 kB with a preview that changed
    # its lines when the counters of the last hour came.
    assert 600 < sum(sent[first:]) <= most


async def _wait_for_painted_snapshot(ui: Screen) -> None:
    """Wait until a snapshot with the data of the top view, of its present row, is painted."""

    def is_read() -> bool:
        view, snapshot = ui.app.navigation.view, ui.app.session.snapshot
        assert view is not None and snapshot is not None
        if not isinstance(view, Overview):
            return view.build_focus(ui.app.session.refs) == ui.app.session.last_focus
        return view.ref() in [history.ref for history in snapshot.results.get("history", ())]

    await ui.until(is_read, "a snapshot for the row under the cursor")
    await ui.pilot.pause()
    ui.app.screen._on_timer_update()


def _record_updates(name: str, updates: list[ChopsUpdate | LayoutUpdate], monkeypatch: pytest.MonkeyPatch) -> None:
    """Record the updates that a method of Textual's compositor returns."""
    render = getattr(Compositor, name)

    def render_and_record(self: Compositor, *args: Any, **options: Any) -> Any:
        update = render(self, *args, **options)
        updates.extend([update] if update else [])
        return update

    monkeypatch.setattr(Compositor, name, render_and_record)


def find_painted_cells(update: ChopsUpdate | LayoutUpdate) -> set[tuple[int, int]]:
    """Return the cells that an update paints, as (line, column) from 1 on."""
    if isinstance(update, ChopsUpdate):
        return {(y + 1, x + 1) for y, first, last in update.spans for x in range(first, last)}
    return {(y + 1, x + 1) for x in update.region.column_range for y in update.region.line_range}


def paint_line(cells: SentCells, *texts: str, y: int = 0) -> str:
    """Return what is sent to paint a line of these texts, each of its own style."""
    strip = Strip([Segment(text, Style(color=f"color({number + 1})")) for number, text in enumerate(texts)])
    update = FullUpdate.from_update(LayoutUpdate([[strip]], Region(0, y, strip.cell_length, 1)), cells)
    return re.sub(r"\x1b\[[\d;]*m", "", update.render_segments(Console(color_system="truecolor", force_terminal=True)))


def test_only_changed_cells_are_sent_and_wide_characters_as_a_whole() -> None:
    cells = SentCells()
    assert paint_line(cells, "queue01 of 12") == "\x1b[1;1Hqueue01 of 12"
    assert paint_line(cells, "queue01 of 12") == ""
    assert paint_line(cells, "queue02 of 12") == "\x1b[1;7H2"
    assert paint_line(cells, "queue02 of 19") == "\x1b[1;13H9"
    assert paint_line(cells, "queue02", " of 19") == "\x1b[1;9Hof 19"  # the same text in another colour
    assert paint_line(cells, "山田    queue") == "\x1b[1;1H山田    queue"
    assert paint_line(cells, "山口    queue") == "\x1b[1;3H口"
    assert paint_line(cells, "山 x    queue") == "\x1b[1;3H x"
    assert paint_line(cells, "ax x    queue") == "\x1b[1;1Hax"


def test_a_row_with_text_of_disputed_width_is_sent_as_a_whole_and_so_is_what_follows_it() -> None:
    cells = SentCells()
    paint_line(cells, "mail  orders")
    whole = paint_line(cells, "नेहा  orders")
    assert whole.endswith("orders") and paint_line(cells, "नेहा  orders") == whole
    assert paint_line(cells, "mail  orders") == "\x1b[1;1Hmail  orders"
    assert paint_line(cells, "mail  orders") == ""


@pytest.mark.hooks
@run_on_event_loop
async def test_the_whole_screen_is_sent_after_a_suspension_and_at_another_size(url: str, client: Redis) -> None:
    cells = SentCells()
    first, second = object(), object()
    cells.clear_if_taken_again(first)
    paint_line(cells, "mail")
    cells.clear_if_taken_again(first)
    assert paint_line(cells, "mail") == ""
    cells.clear_if_taken_again(second)
    assert paint_line(cells, "mail") == "\x1b[1;1Hmail"
    Seeded(client).put("a")
    async with screen(url, WIDE) as ui:
        cleared: list[bool] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(SentCells, "clear", lambda _self: cleared.append(True))
            await ui.pilot.resize_terminal(100, 30)
            await ui.until(lambda: bool(cleared), "the cells were forgotten")


@run_in_one_test(
    ("before", "now", "codes"),
    [
        (PLAIN, PLAIN, ""),
        (PLAIN, Ink("1", "31", "40"), "\x1b[1;31;40m"),
        (Ink("", "31", "40"), Ink("", "32", "40"), "\x1b[32m"),
        (Ink("", "31", "40"), Ink("1", "31", "40"), "\x1b[1m"),
        (Ink("1", "31", "40"), Ink("", "31", "40"), "\x1b[0;31;40m"),
        (Ink("1", "31", "40"), Ink("1;4", "31", "40"), "\x1b[0;1;4;31;40m"),
        (Ink("", "31", "40"), Ink("", "", "40"), "\x1b[0;40m"),
        (Ink("1", "31", "40"), PLAIN, "\x1b[0m"),
    ],
)
def test_only_differences_of_a_style_are_sent_and_removals_by_a_reset(before: Ink, now: Ink, codes: str) -> None:
    assert encode_style_change(before, now) == codes


@pytest.mark.slow
@pytest.mark.hooks
@run_on_event_loop
async def test_messages_of_the_app_go_through_the_spans(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []
    shown = App._display
    monkeypatch.setattr(App, "_display", lambda *given: (sent.append(type(given[2]).__name__), shown(*given)))
    async with screen(url) as ui:
        await ui.press("N", "escape")
        await ui.until_refreshed()
    assert "PartialUpdate" in sent and "ChopsUpdate" not in sent
