"""Text that a terminal draws wider or narrower than Textual counts: the rest of its line stays in place."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

import pytest
from families import run_in_one_test
from redis import Redis
from rich.cells import cell_len
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from screens import NARROW, Seeded, run_on_event_loop, screen
from textual._compositor import ChopsUpdate, Compositor, LayoutUpdate
from textual.geometry import Region
from textual.screen import Screen
from textual.strip import Strip

from rqtui.text.pieces import Piece
from rqtui.tui.format.jobs import PropertyLayout
from rqtui.tui.format.rows import Column, Row
from rqtui.tui.terminal.diff_output import FullUpdate, PartialUpdate
from rqtui.tui.terminal.disputed_widths import add_cursor_moves, has_terminal_dependent_width, measure_greatest_width
from rqtui.tui.widgets.paint import PaintedLine, Painter

NAME = "नेहा शर्मा"
Widths = Callable[[str], int]


def measure_in_tmux(sign: str) -> int:
    """Return the width of a sign in tmux 3.3a on glibc, where a separate vowel sign takes a cell."""
    category = unicodedata.category(sign)
    return 0 if category in ("Mn", "Me", "Cf") else 1 if category == "Mc" else cell_len(sign)


def narrow(sign: str) -> int:
    """Return the width of a sign in a terminal that knows no emoji."""
    return 0 if unicodedata.category(sign)[0] in "MC" else 1 if ord(sign) >= 0x1F000 else cell_len(sign)


class Terminal:
    """Rows and columns of signs, with a table of widths."""

    def __init__(self, width_of: Widths) -> None:
        self.width_of = width_of
        self.rows: dict[int, dict[int, str]] = {}
        self.x = self.y = 0

    def gets(self, sent: str) -> None:
        for codes, kind, sign in re.findall(r"\x1b\[([\d;]*)([Hm])|(.)", sent, re.DOTALL):
            if kind == "H":
                self.y, self.x = (int(each) - 1 for each in codes.split(";"))
            elif sign and sign != "\n":
                self._draw(sign)

    def _draw(self, sign: str) -> None:
        row, width = self.rows.setdefault(self.y, {}), self.width_of(sign)
        if not width:
            row[self.x - 1] = row.get(self.x - 1, " ") + sign
            return
        row[self.x] = sign
        row.update(dict.fromkeys(range(self.x + 1, self.x + width), ""))
        self.x += width

    def text(self, y: int, first: int, last: int) -> str:
        row = self.rows.get(y, {})
        return "".join(row.get(x, " ") for x in range(first, last))


@run_in_one_test(
    ("text", "is_"),
    [
        ("mail", False),
        ("José Peña", False),
        ("Ольга", False),
        ("山田 花子", False),
        ("│ · … ● ▌ ╭─╮ ▅", False),
        (NAME, True),
        ("e\u0301", True),
        ("ก็", True),
        ("👍🏽", True),
        ("☀\ufe0f", True),
    ],
)
def test_text_that_all_terminals_draw_alike_is_sent_unchanged(text: str, is_: bool) -> None:
    assert has_terminal_dependent_width(text) is is_
    assert (add_cursor_moves(text, 3, 4) == text) is not is_


@run_in_one_test(
    ("width_of", "text", "shown"),
    [
        (measure_in_tmux, f"{NAME} inv…   3s", f"{NAME} inv… 3s"),
        (measure_in_tmux, "subject=…नेहा!  3s", "subject=…नेहा! 3s"),
        (narrow, "🙂 good  3s", "🙂 good   3s"),
        (cell_len, f"{NAME} inv…   3s", f"{NAME} inv…   3s"),
    ],
)
def test_text_after_a_wide_character_is_at_its_counted_column(width_of: Widths, text: str, shown: str) -> None:
    terminal, width = Terminal(width_of), cell_len(text)
    terminal.gets("x" * 40)
    terminal.gets(f"\x1b[1;1H{add_cursor_moves(text, 0, 0)}")
    assert terminal.text(0, 0, width) == shown
    assert terminal.text(0, width - 2, width) == "3s" and terminal.text(0, width, width + 1) == "x"


@run_in_one_test(
    ("text", "width", "shown"),
    [
        (NAME, 20, NAME),
        (NAME, 8, NAME),
        (NAME, 7, "नेहा शर्…"),
        (NAME, 6, "नेहा श…"),
        (f"{NAME} invited", 12, f"{NAME} in…"),
        ("काकाकाका", 7, "काकाका…"),
        ("काकाकाका", 4, "काक…"),
        ("का", 1, "…"),
        ("José Peña", 9, "José Peña"),
        ("山田 花子", 9, "山田 花子"),
    ],
)
def test_a_text_that_a_terminal_draws_wider_than_its_column_ends_in_an_ellipsis(
    text: str, width: int, shown: str
) -> None:
    columns = (Column("name", "name", width), Column("age", "age", 3))
    painter = Painter(columns, False, lambda _name: Style(), Style)
    strip = painter.draw_line(PaintedLine(80, Row("1", (text, "3s"))))
    cell = strip.crop(2, 2 + width).text
    assert cell.rstrip() == shown and measure_greatest_width(cell.rstrip()) <= width
    assert strip.cell_length == 80 and strip.crop(4 + width, 6 + width).text == "3s"
    for width_of in (measure_in_tmux, narrow, cell_len):
        terminal = Terminal(width_of)
        terminal.gets(f"\x1b[1;1H{add_cursor_moves(strip.text, 0, 0)}")
        assert terminal.text(0, 0, 80).split() == [*shown.split(), "3s"], "nothing of it is hidden"


def test_a_right_aligned_text_ends_before_the_next_column() -> None:
    columns = (Column("name", "name", 6, align="right"), Column("age", "age", 3))
    painter = Painter(columns, False, lambda _name: Style(), Style)
    strip = painter.draw_line(PaintedLine(80, Row("1", ((Piece("का"), Piece("का")), "3s"))))
    terminal = Terminal(measure_in_tmux)
    terminal.gets(f"\x1b[1;1H{add_cursor_moves(strip.text, 0, 0)}")
    assert terminal.text(0, 0, 80).split() == ["काका", "3s"]


def test_values_beside_wide_names_are_in_one_column() -> None:
    lines = [PropertyLayout(12).format_line(name, "value").plain for name in ("name", "名前", "名前名前名")]
    assert {cell_len(line.removesuffix("value")) for line in lines} == {12}
    assert PropertyLayout(12).format_line("名前名前名前", "value").plain == "名前名前名前 value"


@pytest.mark.parametrize("width_of", [measure_in_tmux, narrow, cell_len])
def test_a_change_leaves_nothing_of_it_and_the_frame_stays(width_of: Widths) -> None:
    terminal, console = Terminal(width_of), Console(color_system="truecolor", force_terminal=True)
    frame = Strip([Segment("│")])
    lines = [Strip([Segment(f"1  {NAME} inv…  "), Segment("3s ")]), Strip([Segment("2  👍🏽  "), Segment("9s ")])]
    width = lines[0].cell_length
    whole = LayoutUpdate([[frame, line.adjust_cell_length(width), frame] for line in lines], Region(0, 0, width + 2, 2))
    terminal.gets(FullUpdate.from_update(whole).render_segments(console))
    assert [terminal.text(y, width + 1, width + 2) for y in (0, 1)] == ["│", "│"]
    assert [terminal.text(0, width - 2, width), terminal.text(1, 8, 10)] == ["3s", "9s"]
    plain = Strip([Segment("3  Zoë")]).adjust_cell_length(width)
    change = ChopsUpdate([{1: plain}, {1: plain}], [(0, 1, width + 1), (1, 1, width + 1)], [[width + 1], [width + 1]])
    terminal.gets(PartialUpdate.from_update(change).render_segments(console))
    assert [terminal.text(y, 0, width + 2) for y in (0, 1)] == [f"│{plain.text}│"] * 2


@pytest.mark.slow
@pytest.mark.hooks
@run_on_event_loop
async def test_a_terminal_with_widths_of_its_own_shows_each_line_of_a_table_as_it_is(
    url: str, client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeded = Seeded(client)
    for at in range(30):
        to = NAME if at % 3 else "Zoë"
        seeded.put(f"job{at:02}", body=f'{{"to": "{to}", "n": {at}}}'.encode())
    terminal, console = Terminal(measure_in_tmux), Console(color_system="truecolor", force_terminal=True)
    partial, full = Compositor.render_partial_update, Compositor.render_full_update

    def shown_in_part(self: Compositor) -> ChopsUpdate | None:
        update = partial(self)
        if update:
            terminal.gets(PartialUpdate.from_update(update).render_segments(console))
        return update

    def update_terminal(self: Compositor, *given: bool, **named: bool) -> LayoutUpdate:
        update = full(self, *given, **named)
        terminal.gets(FullUpdate.from_update(update).render_segments(console))
        return update

    monkeypatch.setattr(Compositor, "render_partial_update", shown_in_part)
    monkeypatch.setattr(Compositor, "render_full_update", update_terminal)
    async with screen(url, NARROW) as ui:
        await ui.press("enter", "2")
        await ui.until_shown("job00", "नेहा")
        for keys in ("jjjjjjjj", "GGkk", "gjj"):
            await ui.press(*keys)
            seeded.reserve(2)
            await ui.until_refreshed()
            await ui.until(lambda: not _out_of_place(ui.app.screen, terminal), "each line as Textual counts it")


def _out_of_place(on: Screen[object], terminal: Terminal) -> list[str]:
    """Return lines that the terminal shows in other cells than Textual believes, except for disputed signs."""
    wrong = []
    for y, strip in enumerate(on._compositor.render_strips()):
        shown = terminal.text(y, 0, 8) + terminal.text(y, 70, 80)
        if "job" in strip.text and shown != strip.crop(0, 8).text + strip.crop(70, 80).text:
            wrong.append(strip.text)
    return wrong
