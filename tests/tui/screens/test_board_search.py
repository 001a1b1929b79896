"""The filter of a board: live in a short place, a scan in a long one, and verbs on all that it lets through."""

from __future__ import annotations

import json
from typing import Any

import pytest
from redis import Redis
from screens import NARROW, WIDE, Seeded, run_on_event_loop, screen
from textual.widgets import Input

from rqtui.system_base.system import Request
from rqtui.tui.screens.board import Board
from rqtui.tui.widgets import place_scan
from rqtui.tui.widgets.pane import Pane

LONG = 1_300  # more jobs than are filtered live, and than one chunk of a verb takes


@pytest.fixture
def seeded(client: Redis) -> Seeded:
    """Return the empty queue `mail` to fill."""
    return Seeded(client)


def put_many(seeded: Seeded, number: int, **more: Any) -> None:
    """Put jobs `j0000` … of two kinds; every tenth body names the user `odd`."""
    rows = [
        {
            "id": f"j{n:04}",
            "name": "send" if n % 2 else "digest",
            "body": json.dumps(
                {"user": {"id": n, "kind": "odd" if n % 10 == 0 else "plain"}, "token": "s3cret"}
            ).encode(),
            **more,
        }
        for n in range(number)
    ]
    system = seeded.engine.systems["native"]
    for start in range(0, number, 400):
        seeded.engine.send_requests(
            [Request((system.build_call("enqueue", "mail", {}, rows[start : start + 400]),), lambda a: a)]
        )
    seeded.engine.register_queue(seeded.ref)


def find_pane(ui: Any) -> Pane:
    """Return the focused pane."""
    assert isinstance(ui.app.navigation.view, Board)
    return ui.app.navigation.view.find_current_pane()


@pytest.mark.slow
@run_on_event_loop
async def test_a_short_place_shows_at_once_what_is_typed_and_continues_as_jobs_come(url: str, seeded: Seeded) -> None:
    seeded.bury("d1", "d2")
    seeded.put("a1", "b1", "a2")
    async with screen(url) as ui:
        await ui.press("enter", "slash", '"id:a')
        await ui.until(lambda: "b1" not in ui.text() and "a1" in ui.text())
        await ui.press("enter")
        await ui.until_shown("/id:a", "2 of 3 match")
        seeded.put("a3", "b2")
        await ui.until_shown("a3", "3 of 5 match")
        assert "b2" not in ui.text()
        await ui.press("5")
        await ui.until_toast("Filtered here too: /id:a. Esc shows all jobs.")
        await ui.until_shown("no job matches id:a")
        await ui.press("2")
        await ui.until_shown("/id:a", "3 of 5 match")
        await ui.press("escape")
        await ui.until_shown("b1", "b2")
        await ui.press("5")
        await ui.until_shown("d1", "d2")
        assert isinstance(ui.app.navigation.view, Board) and "match" not in ui.text()


@pytest.mark.slow
@run_on_event_loop
async def test_a_filter_that_cannot_be_parsed_is_reported_and_stays_for_editing(url: str, seeded: Seeded) -> None:
    seeded.put("a1", "b1")
    async with screen(url) as ui:
        await ui.press("enter", "slash", '"/(a')
        await ui.press("enter")
        await ui.until_toast("cannot be read")
        assert ui.app.navigation.view is not None and ui.app.navigation.view.filter_line.is_open
        assert ui.app.navigation.view.query_one("#filter-line", Input).value == "/(a"
        await ui.press("escape")
        await ui.until_shown("a1", "b1")


@pytest.mark.slow
@run_on_event_loop
async def test_a_long_place_is_scanned_and_what_was_found_keeps_its_order(url: str, seeded: Seeded) -> None:
    put_many(seeded, LONG)
    async with screen(url) as ui:
        await ui.press("enter", "slash", '"body:odd', "enter")
        await ui.until_shown("130 of 1 300 match")
        pane = find_pane(ui)
        assert pane.scan_result is not None
        assert pane.scan_result.ids == [f"j{n:04}".encode() for n in range(0, LONG, 10)]
        await ui.press("G")
        await ui.until_shown("j1290")
        await ui.press("escape")
        await ui.until(lambda: pane.scan_result is None and "j1289" in ui.text(), "its place among all of them")
        assert pane.cursor_id == b"j1290"
        await ui.press("slash", '"id:j1290', "enter")
        await ui.until_shown("1 of 1 300 match")
        await ui.press("slash", "escape")  # the same from the open line
        await ui.until(lambda: "j1289" in ui.text() and pane.cursor_id == b"j1290")


@pytest.mark.slow
@run_on_event_loop
async def test_a_found_job_that_leaves_stays_in_its_line_and_reports_where_it_is(url: str, seeded: Seeded) -> None:
    put_many(seeded, LONG)
    async with screen(url) as ui:
        await ui.press("enter", "slash", '"job:digest', "enter")
        await ui.until_shown("650 of 1 300 match")
        before = [line[3:8] for line in ui.text().splitlines()[4:10]]
        seeded.reserve(3)
        await ui.until_shown("→reserved")
        lines = ui.text().splitlines()[4:10]
        assert [line[3:8] for line in lines] == before
        assert "×j0000" in ui.text() and "×j0002" in ui.text()
        await ui.press("D")
        assert isinstance(ui.app.screen, Board)  # the one under the cursor is gone: nothing to delete
        await ui.press("n")
        await ui.until(lambda: find_pane(ui).cursor_id == b"j0004", "the next one that is still there")
        await ui.press("r")
        await ui.until_shown("648 of 1 297 match")


@pytest.mark.slow
@run_on_event_loop
async def test_a_scan_ends_at_its_budget_and_reports_it(
    url: str, seeded: Seeded, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_many(seeded, LONG)
    monkeypatch.setattr(place_scan.create_scan, "__defaults__", (600,))
    async with screen(url) as ui:
        await ui.press("enter", "slash", '"job:send', "enter")
        await ui.until_shown("300+ match · in the first 600 of 1 300")
        await ui.press("asterisk")
        await ui.until_shown("all 300 matches marked")
        target = ui.app.navigation.find_target()
        assert target.filter == "job:send" and not target.is_whole_place and len(target.jobs) == 300


@pytest.mark.slow
@run_on_event_loop
async def test_esc_stops_a_scan_and_keeps_what_was_found_and_again_clears_it(
    url: str, client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = 40_000
    client.zadd("rqtui:{mail}:ready", {b"j%07d" % n: n for n in range(many)})
    client.sadd("rqtui:queues", "mail")
    monkeypatch.setattr(place_scan, "CHUNK", 1)  # a scan that takes its time
    async with screen(url) as ui:
        await ui.press("enter", "slash", '"id:j', "enter")
        await ui.until_shown("of 40 000 searched", "Esc stops")
        await ui.press("escape")
        await ui.until_shown("+ match · in the first", "of 40 000")
        pane = find_pane(ui)
        assert pane.scan_result is not None and pane.scan_result.is_cut and 0 < len(pane.scan_result.ids) < many / 2
        found_ids = list(pane.scan_result.ids)
        await ui.until_refreshed()
        assert pane.scan_result.ids == found_ids
        await ui.press("escape")
        await ui.until(lambda: pane.scan_result is None and "match" not in ui.text())
        assert isinstance(ui.app.navigation.view, Board)


@pytest.mark.slow
@run_on_event_loop
async def test_a_verb_acts_on_all_that_match_and_on_no_other(url: str, seeded: Seeded, client: Redis) -> None:
    put_many(seeded, LONG)
    async with screen(url, size=(100, 30)) as ui:
        await ui.press("enter", "slash", '"body:odd', "enter")
        await ui.until_shown("130 of 1 300 match")
        await ui.press("asterisk")
        await ui.until_shown("all 130 matches marked")
        target = ui.app.navigation.find_target()
        assert {job.id for job in target.jobs} == {f"j{n:04}".encode() for n in range(0, LONG, 10)}
        for _chunk in seeded.engine.yield_verb_steps("delete", seeded.ref, target.jobs, {}):
            pass
        assert client.zcard("rqtui:{mail}:ready") == LONG - 130
        assert not client.hexists("rqtui:{mail}:jobs", "j0010") and client.hexists("rqtui:{mail}:jobs", "j0011")


@pytest.mark.slow
@run_on_event_loop
async def test_n_without_a_filter_goes_to_the_next_match_of_the_last_one(url: str, seeded: Seeded) -> None:
    seeded.put("a1", "b1", "a2", "b2", "a3")
    async with screen(url) as ui:
        await ui.press("enter", "n")
        await ui.until_toast("/ makes one")
        await ui.press("slash", '"id:b', "enter")
        await ui.until_shown("2 of 5 match")
        await ui.press("escape")
        await ui.until_shown("a3")
        pane = find_pane(ui)
        await ui.press("g", "n")
        assert pane.cursor_id == b"b1"
        await ui.press("n")
        assert pane.cursor_id == b"b2"
        await ui.press("n")
        assert pane.cursor_id == b"b1"  # from the top again


@pytest.mark.slow
@run_on_event_loop
async def test_marks_stay_over_filters_and_pages_and_those_that_left_are_counted(url: str, seeded: Seeded) -> None:
    put_many(seeded, LONG)
    async with screen(url) as ui:
        await ui.press("enter", "space", "space", "space")
        await ui.until_shown("3 marked")
        await ui.press("slash", '"body:odd', "enter")
        await ui.until_shown("130 of 1 300 match")
        await ui.press("j", "space")
        await ui.until_shown("4 marked")
        seeded.reserve(2)  # j0000 and j0001 go; one of them is not even shown
        await ui.until_shown("4 marked (2 gone)")
        await ui.press("escape", "G")
        await ui.until_shown("j1299", "4 marked (2 gone)")
        assert find_pane(ui).marks == (b"j0000", b"j0001", b"j0002", b"j0010") or len(find_pane(ui).marks) == 4
        await ui.press("u")
        await ui.until(lambda: "marked" not in ui.text())


@pytest.mark.slow
@run_on_event_loop
async def test_a_terminal_that_shrinks_while_a_filter_is_typed_takes_no_letter_for_a_verb(
    url: str, seeded: Seeded, client: Redis
) -> None:
    seeded.bury("d1", "d2")
    async with screen(url) as ui:
        await ui.press("enter", "5", "space", "slash", '"id:')
        await ui.pilot.resize_terminal(40, 10)
        await ui.until_shown("This terminal is 40×10")
        await ui.press('"RD')
        await ui.pilot.resize_terminal(*NARROW)
        await ui.until_shown("id:RD", "1 marked")
        assert seeded.ids("dead") == ["d1", "d2"]
        await ui.press("escape")
        await ui.until_shown("d1", "d2")
        await ui.pilot.resize_terminal(40, 10)
        await ui.until_shown("This terminal is 40×10")
        await ui.press("R")
        await ui.pilot.resize_terminal(*NARROW)
        await ui.until_shown("d1", "d2", "1 marked")
        await ui.press("k")
        await ui.until(lambda: find_pane(ui).cursor_id == b"d2", "the focus is back on the list")
        assert seeded.ids("dead") == ["d1", "d2"]


@pytest.mark.slow
@run_on_event_loop
async def test_a_queue_whose_keys_vanish_reports_it_and_keeps_filter_and_marks(
    url: str, seeded: Seeded, client: Redis
) -> None:
    seeded.put("a1", "a2", "b1")
    async with screen(url) as ui:
        await ui.press("enter", "space", "slash", '"id:a', "enter")
        await ui.until_shown("2 of 3 match")
        client.flushall()
        await ui.press("g")
        await ui.until_shown("1 marked (1 gone)", "/id:a")
        await ui.press("j", "k")
        await ui.until_shown("mail no longer exists")
        seeded.put("a9", "b9")
        await ui.until_shown("a9", "1 of 2 match")
        assert "b9" not in ui.text()


@pytest.mark.slow
@run_on_event_loop
async def test_a_job_that_moves_is_seen_in_both_panes_for_one_refresh(url: str, seeded: Seeded) -> None:
    seeded.put(*(f"a{n}" for n in range(8)))
    async with screen(url, WIDE) as ui:
        await ui.press("enter", "j", "j")
        await ui.until_refreshed()
        ticker, done = ui.app.session.ticker, []
        refresh, ticker.interval_s, ui.may_request_refresh = ticker.request_refresh, 60, False
        ticker.request_refresh = ticker.set_focus = lambda *_focus: None  # type: ignore[method-assign]  # no other code requests one now
        for turn in (1, 2):  # a snapshot that was requested before comes between the two
            ui.app.session.call_engine(lambda _engine: None, done.append)
            await ui.until(lambda turn=turn: len(done) == turn, "its thread answers")
        seeded.reserve(1)
        refresh()
        await ui.until_shown("×a0")
        row = next(line for line in ui.text().splitlines() if "×a0" in line)
        board = ui.app.navigation.view
        assert "→reserved" in row and isinstance(board, Board)
        there = next(pane for pane in board.list_panes() if pane.place.name == "reserved")
        assert [shown.id for shown in there.rows] == [b"a0"] and there.size.height > 1  # and where it is now
        assert find_pane(ui).cursor_id == b"a2"
        refresh()
        await ui.until(lambda: "×a0" not in ui.text(), "it is gone with the next one")
        assert find_pane(ui).cursor_id == b"a2"


@run_on_event_loop
async def test_plus_gives_one_place_the_whole_width_and_esc_takes_it_back(url: str, seeded: Seeded) -> None:
    seeded.put("a1")
    seeded.put("b1", delay_ms=90_000)
    async with screen(url, WIDE) as ui:
        await ui.press("enter")
        await ui.until_shown("─  1 scheduled 1  ─", "─  2 ready 1  ─", "─  job  ─", "    5 dead 0  ")
        await ui.press("plus")
        await ui.until_shown("─  1 scheduled 1  2 ready 1  3 reserved 0", "waits")
        assert "─  job  ─" not in ui.text()
        await ui.press("escape")
        await ui.until_shown("─  1 scheduled 1  ─", "─  2 ready 1  ─", "─  job  ─")
        assert isinstance(ui.app.navigation.view, Board)
