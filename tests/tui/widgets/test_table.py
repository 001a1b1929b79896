"""The table, by the keys a person presses: what is under the cursor stays there, and only changes are repainted."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from rich.style import Style
from table_app import COLUMNS, TableApp, build_row, rows, run_table_app
from textual.color import Color
from textual.pilot import Pilot

from rqtui.text.pieces import Piece
from rqtui.tui.format import theme
from rqtui.tui.format.rows import Column, ListWindow, Row, fit_columns, keep_cursor_row
from rqtui.tui.widgets.paint import Painter
from rqtui.tui.widgets.table import Table

# ── the cursor ───────────────────────────────────────────────────────────────────────────────────────────────


def test_keys_move_the_cursor_and_report_it() -> None:
    async def test(app: TableApp, pilot: Pilot[None]) -> None:
        app.table.update(rows(1, 2, 3, 4))
        await pilot.press("j", "down", "k", "G", "g", "end", "up", "enter")
        assert app.body() == ["j1", "j2", "▌j3", "j4"]
        moved = [message.id for message in app.posted_messages(Table.Moved)]  # type: ignore[attr-defined]
        assert moved == [b"j1", b"j2", b"j3", b"j2", b"j4", b"j1", b"j4", b"j3"]
        assert [message.id for message in app.posted_messages(Table.Opened)] == [b"j3"]  # type: ignore[attr-defined]

    run_table_app(test)


def test_the_cursor_stays_on_its_job_when_others_come_and_go() -> None:
    async def test(app: TableApp, pilot: Pilot[None]) -> None:
        app.table.update(rows(1, 2, 3, 4))
        await pilot.press("j", "j")
        app.table.update(rows(9, 1, 3, 4))
        assert app.table.cursor_id == b"j3"
        app.table.update(rows(3, 4))
        assert app.table.cursor_id == b"j3"
        assert app.body() == ["▌j3", "j4"]

    run_table_app(test)


def test_a_row_that_left_stays_under_the_cursor_until_the_cursor_leaves_it() -> None:
    async def test(app: TableApp, pilot: Pilot[None]) -> None:
        app.table.update(rows(1, 2, 3, 4))
        await pilot.press("j")
        app.table.update(rows(1, 3, 4))
        app.table.update(rows(0, 1, 3, 4))
        assert app.body() == ["j0", "j1", "▌×j2", "j3", "j4"]
        assert app.table.is_cursor_row_missing
        assert app.table.cursor_id == b"j2"
        await pilot.press("j")
        assert app.body() == ["j0", "j1", "▌j3", "j4"]
        assert not app.table.is_cursor_row_missing

    run_table_app(test)


def test_the_keys_for_the_first_and_the_last_row_leave_a_row_that_is_missing() -> None:
    async def test(app: TableApp, pilot: Pilot[None]) -> None:
        app.table.update(rows(1, 2, 3))
        await pilot.press("j", "k")
        app.table.update(rows(2, 3))
        assert app.body() == ["▌×j1", "j2", "j3"]
        await pilot.press("g")
        assert app.body() == ["▌j2", "j3"]
        await pilot.press("G")
        app.table.update(rows(2))
        assert app.body() == ["j2", "▌×j3"]
        await pilot.press("G")
        assert app.body() == ["▌j2"]
        assert app.table.cursor_id == b"j2"

    run_table_app(test)


def test_the_last_job_of_all_can_be_left_too() -> None:
    async def test(app: TableApp, pilot: Pilot[None]) -> None:
        app.table.update(rows(1))
        await pilot.press("j")
        app.table.update([])
        assert app.body() == ["▌×j1"]
        await pilot.press("j")
        assert app.table.cursor_id is None
        assert app.lines()[1:] == ["", "  No job is ready. Press N for a new one."]

    run_table_app(test)


def test_a_row_that_comes_back_is_itself_again() -> None:
    async def test(app: TableApp, pilot: Pilot[None]) -> None:
        app.table.update(rows(1, 2, 3))
        await pilot.press("j")
        app.table.update(rows(1, 3))
        app.table.update(rows(1, 2, 3))
        assert app.body() == ["j1", "▌j2", "j3"]

    run_table_app(test)


def test_rows_above_do_not_move_what_is_looked_at() -> None:
    async def test(app: TableApp, pilot: Pilot[None]) -> None:
        app.table.update(rows(*range(100)))
        await pilot.press(*"j" * 30)
        before = app.body()
        app.table.update(rows("a", "b", *range(100)))
        await pilot.pause()
        assert app.body() == before

    run_table_app(test)


def test_an_unfocused_table_that_was_not_touched_shows_its_head() -> None:
    async def test(app: TableApp, pilot: Pilot[None]) -> None:
        app.query_one("#filter").focus()
        await pilot.pause()
        app.table.update(rows(*range(50)))
        app.table.update(rows("a", *range(50)))
        await pilot.pause()
        assert app.body()[:2] == ["ja", "j0"]

    run_table_app(test)


# ── marks ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_space_marks_and_moves_on_and_marks_belong_to_ids() -> None:
    async def test(app: TableApp, pilot: Pilot[None]) -> None:
        app.table.update(rows(1, 2, 3, 4))
        await pilot.press("space", "space", "space", "up", "space")
        assert app.table.marks == (b"j1", b"j2")
        app.table.update(rows(5, 2, 4, 1))
        assert app.body() == ["j5", "◆j2", "▌j4", "◆j1"]
        app.table.update(rows(4))
        assert app.table.marks == (b"j1", b"j2")
        assert app.posted_messages(Table.Marked)[-1].ids == (b"j1", b"j2")  # type: ignore[attr-defined]
        await pilot.press("u")
        assert app.table.marks == ()

    run_table_app(test)


def test_v_marks_a_range_and_escape_gives_it_up() -> None:
    async def test(app: TableApp, pilot: Pilot[None]) -> None:
        app.table.update(rows(1, 2, 3, 4, 5))
        await pilot.press("j", "v", "j", "j")
        assert app.table.marks == ()
        assert app.body() == ["j1", "◆j2", "◆j3", "▌◆j4", "j5"]
        await pilot.press("escape", "k", "v", "k", "k", "v")
        assert app.table.marks == (b"j1", b"j2", b"j3")
        await pilot.press("a")
        assert set(app.table.marks) == {b"j1", b"j2", b"j3", b"j4", b"j5"}

    run_table_app(test)


def test_escape_is_the_screens_when_no_range_is_open() -> None:
    async def test(app: TableApp, pilot: Pilot[None]) -> None:
        pressed: list[str] = []
        app.action_note = lambda: pressed.append("escape")  # type: ignore[attr-defined]
        app.bind("escape", "note")
        app.table.update(rows(1))
        await pilot.press("escape")
        assert pressed == ["escape"]

    run_table_app(test)


# ── long lists ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_window_into_ten_million_rows_requests_the_part_in_sight() -> None:
    async def test(app: TableApp, pilot: Pilot[None]) -> None:
        total = 10_000_000
        app.table.update(rows(*range(100)), total)
        await pilot.press("j")
        assert app.posted_messages(Table.Wanted) == []
        await pilot.press("G")
        await pilot.pause()
        wanted = app.posted_messages(Table.Wanted)[-1]
        assert app.body()[-1] == "▌·"
        offset, limit = wanted.offset, wanted.limit  # type: ignore[attr-defined]
        assert offset <= total - 20 < total <= offset + limit
        app.table.update(rows(*range(offset, total)), total, offset)
        await pilot.pause()
        assert app.table.cursor_id == b"j9999999"
        assert app.body()[-1] == "▌j9999…"
        assert len(app.posted_messages(Table.Wanted)) == 1

    run_table_app(test)


@pytest.mark.slow
def test_walking_through_a_list_never_shows_a_hole_when_it_is_answered() -> None:
    async def test(app: TableApp, pilot: Pilot[None]) -> None:
        app.table.update(rows(*range(100)), 400)
        seen = set(app.body())
        for _ in range(34):
            await pilot.press("pagedown")
            for wanted in app.posted_messages(Table.Wanted):
                first = wanted.offset  # type: ignore[attr-defined]
                app.table.update(rows(*range(first, min(400, first + 100))), 400, first)
            app.posted.clear()
            seen.update(app.body())
            assert "·" not in app.body()
        assert app.table.cursor_id == b"j399"
        assert {f"j{number}" for number in range(400)} <= {name.strip("▌") for name in seen}

    run_table_app(test)


def test_a_job_that_only_moved_into_the_window_is_not_new() -> None:
    old = ListWindow(tuple(rows(1, 2, 3)), 0, 10)
    fresh, _ = keep_cursor_row(old, rows(9, 2, 8, 3, 4), 0, 10, None, 0)
    assert fresh.arrived == {b"j9", b"j8"}
    whole, _ = keep_cursor_row(ListWindow(tuple(rows(1, 2, 3)), 0, 3), rows(2, 3, 4), 0, 3, None, 0)
    assert whole.arrived == {b"j4"}
    paged, _ = keep_cursor_row(old, rows(4, 5, 6), 3, 10, None, 0)
    assert paged.arrived == frozenset()


def test_a_row_that_moved_out_of_the_window_is_not_called_gone() -> None:
    old = ListWindow(tuple(rows(4, 5, 6)), 3, 10)
    fresh, place = keep_cursor_row(old, rows(6, 7, 8), 3, 8, build_row(4), 3)
    assert fresh.ghost is None
    assert place == 2


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2, *(pytest.param(more, marks=pytest.mark.matrix) for more in range(3, 20))])
def test_the_cursor_and_the_marks_keep_their_ids_after_any_event(seed: int) -> None:
    async def test(app: TableApp, pilot: Pilot[None]) -> None:
        luck = random.Random(seed)
        ids = list(range(40))
        app.table.update(rows(*ids))
        await pilot.press(*luck.choices(["j", "space", "pagedown"], k=8))
        await pilot.pause()
        for _ in range(15):
            under, marks = app.table.cursor_id, app.table.marks
            ids = [each for each in ids if luck.random() < 0.8]
            ids[luck.randint(0, len(ids)) : 0] = [max(ids, default=0) + at + 1 for at in range(luck.randint(0, 4))]
            app.table.update(rows(*ids))
            assert (app.table.cursor_id, app.table.marks) == (under, marks)
            assert sum("▌" in line for line in app.body()) == 1
            await pilot.press(luck.choice(["j", "k", "space", "G", "g"]))
            shown = [line.strip("▌◆◇×") for line in app.body()]
            ghost = 1 if app.table.is_cursor_row_missing else 0
            assert app.table.visible_range[1] <= len(ids) + ghost
            first = app.table.first_visible_line
            if not ghost:
                assert shown == [f"j{each}" for each in ids[first : first + app.table.visible_lines]]

    run_table_app(test)


# ── drawing ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.hooks
def test_only_what_changed_is_repainted() -> None:
    async def test(app: TableApp, pilot: Pilot[None]) -> None:
        async def drawn_by(change: Callable[[], object]) -> list[int]:
            app.table.drawn.clear()
            change()
            await pilot.pause()
            return sorted(app.table.drawn)

        newer = [build_row(number, "2s" if number in (3, 7) else "1s") for number in range(10)]
        assert len(await drawn_by(lambda: app.table.update(rows(*range(10))))) == 10
        assert await drawn_by(lambda: app.table.update(rows(*range(10)))) == []
        assert await drawn_by(lambda: app.table.update(newer)) == [4, 8]
        assert await drawn_by(lambda: app.table.set_subtitle("as of 1 s")) == []
        assert await drawn_by(lambda: app.table.action_move(1)) == [1, 2]
        assert await drawn_by(app.table.action_mark) == [2, 3]
        assert await drawn_by(lambda: app.table.update([*newer, build_row("new")])) == [11]
        assert await drawn_by(lambda: app.table.update([*newer, build_row("new")])) == [11]  # its tint ends

    run_table_app(test)


def test_only_the_changed_cells_of_a_line_are_sent() -> None:
    async def test(app: TableApp, pilot: Pilot[None]) -> None:
        app.table.update(rows(1))
        before = app.table.build_line(1, app.table.scrollable_content_region.width, 0)
        app.table.update([build_row(1, "2s")])
        x, width = app.table.painter.find_changed_cells(
            before, app.table.build_line(1, app.table.scrollable_content_region.width, 0)
        )
        assert width == 6
        assert app.table.render_line(1).text[x : x + width] == "    2s"

    run_table_app(test)


def test_behind_a_cell_whose_width_terminals_dispute_the_line_is_sent_to_its_end() -> None:
    async def test(app: TableApp, pilot: Pilot[None]) -> None:
        def width_of_change(old: str, new: str) -> int:
            app.table.update([build_row(1, old)])
            whole = app.table.scrollable_content_region.width
            before = app.table.build_line(1, whole, 0)
            app.table.update([build_row(1, new)])
            x, width = app.table.painter.find_changed_cells(before, app.table.build_line(1, whole, 0))
            return whole - x - width

        gap = width_of_change("1s", "2s")
        assert gap > 0
        assert width_of_change("1s", "नेहा") == width_of_change("नेहा", "1s") == 0
        assert width_of_change("é", "山") == gap

    run_table_app(test)


def test_a_growing_total_causes_no_new_layout() -> None:
    async def test(app: TableApp, pilot: Pilot[None]) -> None:
        app.table.update(rows(*range(100)), 100_000)
        await pilot.pause()
        for _ in range(200):  # what the first update asked for is painted, also on a busy machine
            if not app.table.vertical_scrollbar._repaint_regions:
                break
            await pilot.pause(0.01)
        before = app.table._layout_updates
        app.table.update(rows(*range(100)), 100_001)
        assert not app.table.vertical_scrollbar._repaint_regions  # its thumb looks the same
        await pilot.pause()
        assert app.table._layout_updates == before
        assert app.table.max_scroll_y == 100_001 + 1 - app.table.size.height

    run_table_app(test)


def test_markup_and_escapes_in_data_are_text() -> None:
    async def test(app: TableApp, pilot: Pilot[None]) -> None:
        app.table.update([Row(b"x", ("[b]x[/]", "\x1b]0;evil\x07[@click=app.quit]\u202e", "1s"))])
        app.table.set_border_title("[red]", Piece("\x1b[2Jmail", "strong"))
        await pilot.pause()
        text = "\n".join(app.lines())
        assert "[b]x[/" in text or "[b]x[…" in text
        assert "␛]0;evil␇[@click=app.quit]‹202E›" in text
        assert "\x1b" not in text
        assert app.table._border_title is not None
        assert app.table._border_title.plain == "[red]␛[2Jmail"

    run_table_app(test, size=(80, 20))


def test_wide_characters_keep_the_columns_aligned() -> None:
    async def test(app: TableApp, pilot: Pilot[None]) -> None:
        names = ["plain", "日本語の長い仕事の名前です日本語の長い仕事", "e\u0301" * 40, "👨\u200d👩\u200d👧", "🇩🇪" * 9]
        app.table.update([Row(f"{at}", (str(at), name, "1s")) for at, name in enumerate(names)])
        await pilot.pause()
        strips = [app.table.render_line(y) for y in range(1, 6)]
        assert {strip.cell_length for strip in strips} == {app.table.scrollable_content_region.width}
        assert {strip.text.rstrip()[-2:] for strip in strips} == {"1s"}

    run_table_app(test, size=(40, 12))


@pytest.mark.parametrize(
    ("pieces", "width", "text"),
    [
        (("abc",), 3, "abc"), (("abc",), 4, "abc "), (("abcd",), 3, "ab…"), (("abc", "d"), 3, "ab…"),
        (("abc", "d"), 4, "abcd"), (("ab", "cde"), 3, "ab…"), (("ab", "cd", "e"), 4, "abc…"),
    ],
)  # fmt: skip
def test_a_cell_of_several_pieces_that_is_too_long_ends_with_an_ellipsis(
    pieces: tuple[str, ...], width: int, text: str
) -> None:
    painter = Painter(COLUMNS, False, lambda _name: Style(), Style)
    fitted = painter._fit_cell_by_count(tuple(Piece(piece) for piece in pieces), width, "left")
    assert "".join(piece.text for piece in fitted) == text


def test_an_empty_table_reports_what_to_press_but_not_before_it_knows() -> None:
    async def test(app: TableApp, pilot: Pilot[None]) -> None:
        assert app.lines()[1:] == []
        app.table.update([])
        assert app.lines()[1:] == ["", "  No job is ready. Press N for", "  a new one."]

    run_table_app(test, size=(34, 12))


def test_columns_leave_in_their_order_when_it_gets_narrow() -> None:
    columns = (Column("a", width=8), Column("b", width=8, drop=1), Column("c", width=8, drop=2), Column("d", weight=1))
    shown = {width: [slot.column for slot in fit_columns(columns, width, 2)] for width in (60, 37, 36, 27, 26, 5)}
    assert shown == {60: [0, 1, 2, 3], 37: [0, 1, 3], 36: [0, 1, 3], 27: [0, 3], 26: [0, 3], 5: [0, 3]}
    assert sum(slot.width for slot in fit_columns(columns, 60, 2)) + 3 * 2 == 60


def test_a_click_moves_and_a_double_click_opens() -> None:
    async def test(app: TableApp, pilot: Pilot[None]) -> None:
        app.table.update(rows(1, 2, 3))
        await pilot.pause()
        await pilot.click("#table", offset=(10, 3))
        assert app.table.cursor_id == b"j2"
        await pilot.click("#table", offset=(10, 1))  # the header
        assert app.table.cursor_id == b"j2"
        await pilot.double_click("#table", offset=(10, 4))
        assert [message.id for message in app.posted_messages(Table.Opened)] == [b"j3"]  # type: ignore[attr-defined]

    run_table_app(test)


def test_ascii_needs_no_other_letters() -> None:
    async def test(app: TableApp, pilot: Pilot[None]) -> None:
        app.table.update([Row(f"{n}", (f"a-long-id-{n}", "job", "1s")) for n in range(3)])
        await pilot.press("space", "j")
        assert "".join(app.lines()).isascii()
        assert [line[:2] for line in app.lines()[1:]] == [" *", "  ", "> "]

    run_table_app(test, ascii_only=True)


# ── themes ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", [theme.DARK, theme.LIGHT, theme.ANSI, "nord", "textual-light", "ansi-dark"])
def test_the_screen_opens_in_every_theme_and_changes_to_every_other(name: str) -> None:
    async def test(app: TableApp, pilot: Pilot[None]) -> None:
        app.table.update([Row(b"x", (Piece("x", style), "job", "1s")) for style in sorted(theme.STYLES)])
        app.table.set_border_title(Piece("ready", "state-ready"))
        await pilot.pause()
        for other in (theme.LIGHT, theme.ANSI, theme.DARK, name):
            app.theme = other
            await pilot.pause()
            drawn = {piece.text.strip(): piece.style for piece in app.table.render_line(2) if piece.style}
            assert drawn["x"].color == theme.resolve_style(app.theme_variables, sorted(theme.STYLES)[1]).color
        styles = [theme.resolve_style(app.theme_variables, style) for style in theme.STYLES]
        assert all(style.color is not None for style in styles)

    run_table_app(test, theme_name=name)


@pytest.mark.parametrize("name", [theme.DARK, theme.LIGHT])
def test_every_hue_can_be_read_on_its_ground(name: str) -> None:
    result = next(each for each in theme.THEMES if each.name == name)
    ground = Color.parse(result.variables["ground"])
    for hue in ("data", "strong", "accented", *(name for name in result.variables if name.startswith("state-"))):
        assert _contrast(Color.parse(result.variables[hue]), ground) >= 4.5, hue


def _contrast(one: Color, other: Color) -> float:
    """WCAG 2.1: (lighter + 0.05) / (darker + 0.05) of the relative luminances."""

    def luminance(color: Color) -> float:
        parts = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in color.normalized]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_under_no_color_there_is_no_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    name = theme.choose_theme_name({"NO_COLOR": "1"}, theme.DARK)

    async def test(app: TableApp, pilot: Pilot[None]) -> None:
        app.table.update([Row(b"x", (Piece("x", "state-dead"), "job", "1s")), *rows(1, 2)])
        await pilot.press("space")
        strips = app.table.render_lines(app.table.size.region)
        colours = {
            colour.name
            for strip in strips
            for segment in strip
            if segment.style
            for colour in (segment.style.color, segment.style.bgcolor)
            if colour is not None
        }
        assert colours == {"default"}

    assert name == theme.ANSI
    run_table_app(test, theme_name=name)


@pytest.mark.parametrize("term", ["xterm", "screen", "linux", "dumb"])
def test_a_terminal_with_few_colours_gets_its_own_colours_unless_a_person_chose_others(term: str) -> None:
    assert theme.choose_theme_name({"TERM": term}) == theme.ANSI
    assert theme.choose_theme_name({"TERM": term}, theme.LIGHT) == theme.LIGHT
    assert theme.choose_theme_name({"TERM": f"{term}-256color"}) == theme.DARK
