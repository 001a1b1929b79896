"""Test the preview below the rows of a large terminal: a queue, an error or an operation under the cursor."""

from __future__ import annotations

import pytest
from redis import Redis
from screens import NARROW, WIDE, Screen, Seeded, run_on_event_loop, screen

from rqtui.model import Ref
from rqtui.tui.screens.overview import Overview
from rqtui.tui.widgets import plot


def plant_jobs(client: Redis) -> Seeded:
    """Plant two queues: one whose jobs died of two causes, one that is paused."""
    other = Seeded(client, "quiet")
    other.put("q1")
    other.engine.apply_verb("pause", other.ref)
    seeded = Seeded(client)
    seeded.put("a1", "a2")
    seeded.bury("d1", "d2", "d3")
    held = seeded.reserve(1)
    seeded.engine.apply_verb("reject", seeded.ref, held, {"error": "KeyError: 'vat'", "final": True})
    return seeded


async def go_to(ui: Screen, queue: str) -> Overview:
    view = ui.app.navigation.view
    assert isinstance(view, Overview)
    await ui.until_shown(queue)
    view._table.move_to(f"native:{queue}")
    await ui.until(lambda: view.ref() == Ref("native", queue))
    return view


@run_on_event_loop
async def test_the_overview_shows_why_and_of_what_the_jobs_of_the_queue_under_the_cursor_died(
    url: str, client: Redis
) -> None:
    plant_jobs(client)
    async with screen(url, WIDE) as ui:
        await go_to(ui, "mail")
        await ui.until_shown("2 causes in 4 dead jobs", "TimeoutError: smtp", "KeyError: 'vat'", "dead limit")
        assert "e errors 2" in ui.text()
        await go_to(ui, "quiet")
        await ui.until_shown("no job has died", "paused")
        assert "KeyError" not in ui.text()


@run_on_event_loop
async def test_a_group_under_the_cursor_shows_what_its_queues_count_and_died_of_together(
    url: str, client: Redis
) -> None:
    for name, error in (("mail:eu", "TimeoutError: smtp"), ("mail:us", "KeyError: 'vat'")):
        seeded = Seeded(client, name)
        seeded.put("b1", "b2")
        seeded.bury("a1")
        seeded.put("a2", priority=-100)
        seeded.engine.apply_verb("reject", seeded.ref, seeded.reserve(1), {"error": error, "final": True})
    seeded.put("b3", "b4", "b5")
    seeded.engine.apply_verb("pause", seeded.ref)
    async with screen(url, WIDE) as ui:
        await ui.press("quotation_mark")
        await ui.until_shown("2 causes in 4 dead jobs", "TimeoutError: smtp", "KeyError: 'vat'")
        lines = ui.text().partition("mail: ")[2].splitlines()
        assert any(line.split("│")[1].split()[:2] == ["ready", "7"] for line in lines if "━" in line), ui.text()
        assert any("mail:us" in line and "paused" in line for line in lines), "each queue has its verdict"
        dead = next(line for line in ui.text().splitlines() if "TimeoutError" in line and "│" in line)
        assert dead.split("TimeoutError")[0].split()[-1] == "3"
        await ui.until(lambda: "dead" not in ui.app.session.last_focus.requests, "no sample of dead jobs any more")


@run_on_event_loop
async def test_the_preview_is_read_with_the_poll_and_dead_jobs_only_when_others_died(url: str, client: Redis) -> None:
    seeded = plant_jobs(client)
    async with screen(url, WIDE) as ui:
        view = await go_to(ui, "mail")
        await ui.until_shown("2 causes in 4 dead jobs")
        await ui.until(lambda: "dead" not in ui.app.session.last_focus.requests, "no sample of dead jobs any more")
        cost = ui.app.session.snapshot
        assert cost is not None and cost.cost.round_trips == 1
        assert "history" in ui.app.session.last_focus.requests and view.has_preview
        seeded.put("d5", priority=-100)
        held = seeded.reserve(1)
        seeded.engine.apply_verb("reject", seeded.ref, held, {"error": "ValueError: new", "final": True})
        await ui.until_shown("3 causes in 5 dead jobs", "ValueError: new")


@pytest.mark.slow
@run_on_event_loop
async def test_the_causes_of_many_come_from_all_parts_of_the_place(url: str, client: Redis) -> None:
    seeded = Seeded(client)
    for error, number in (("KeyError: 'a'", 400), ("ValueError: b", 100), ("TypeError: c", 500)):
        seeded.put(*(f"{error[:4]}{each}" for each in range(number)))
        held = seeded.reserve(number)
        seeded.engine.apply_verb("reject", seeded.ref, held, {"error": error, "final": True})
    async with screen(url, WIDE) as ui:
        await go_to(ui, "mail")
        await ui.until_shown("3 causes in 240 of 1 000 dead jobs read", "KeyError", "ValueError", "TypeError")
        assert "e errors 3+" in ui.text(), "a sample may miss causes"
        await ui.press("e")
        await ui.until_shown("by cause", "1 000")
        await ui.press("escape")
        await ui.until_shown("3 causes in 1 000 dead jobs", "e errors 3 ")
        seeded.put(*(f"e{each}" for each in range(30)))
        held = seeded.reserve(30)
        seeded.engine.apply_verb("reject", seeded.ref, held, {"error": "OSError: d", "final": True})
        await ui.until_shown("240 of 1 030 dead jobs read")


@pytest.mark.slow
@run_on_event_loop
async def test_a_small_terminal_shows_whole_findings_in_the_rows_that_the_list_leaves(url: str, client: Redis) -> None:
    plant_jobs(client)
    async with screen(url, NARROW) as ui:
        await go_to(ui, "quiet")
        await ui.until_shown("quiet   1 finding", "paused", "P resume")
        assert not ui.app.session.last_focus.pages, "no sample of dead jobs"
        for number in range(20):
            Seeded(client, f"other-{number:02}").put("a1")
        await ui.until_shown("other-10")
        assert "1 finding" not in ui.text(), "the list has all rows"


@run_on_event_loop
async def test_a_terminal_whose_list_needs_all_rows_requests_nothing_more(url: str, client: Redis) -> None:
    for number in range(20):
        Seeded(client, f"other-{number:02}").put("a1")
    plant_jobs(client)
    async with screen(url, NARROW) as ui:
        await ui.until_shown("other-10")
        await ui.until_refreshed()
        assert not ui.app.session.last_focus.requests and not ui.app.session.last_focus.pages


@run_on_event_loop
async def test_what_happened_reports_findings_as_they_come_and_go(url: str, client: Redis) -> None:
    seeded = plant_jobs(client)
    async with screen(url, WIDE) as ui:
        await go_to(ui, "mail")
        seeded.engine.apply_verb("pause", seeded.ref)
        await ui.until(lambda: any("finding" in row and "mail" in row for row in ui.text().splitlines()), "it came")


@pytest.mark.slow
@run_on_event_loop
async def test_an_error_under_the_cursor_is_shown_in_full_with_the_life_of_an_example(url: str, client: Redis) -> None:
    seeded = Seeded(client)
    seeded.put("x1")
    lines = ("Traceback (most recent call last):", '  File "charge.py", line 88, in charge', "    raise Declined(code)")
    trace = "\n".join([*lines, "Declined: 51"])
    seeded.engine.apply_verb("reject", seeded.ref, seeded.reserve(1), {"error": trace, "final": True})
    async with screen(url, WIDE) as ui:
        await ui.press("e")
        await ui.until_shown(
            "example", 'File "charge.py", line 88, in charge', "raise Declined(code)", "reserved by w1"
        )
    async with screen(url, NARROW) as ui:
        await ui.press("e")
        await ui.until_shown("Declined")
        await ui.until_shown('File "charge.py", line 88, in charge', "raise Declined(code)")


@pytest.mark.slow
@run_on_event_loop
async def test_an_operation_under_the_cursor_shows_its_answers(url: str, client: Redis) -> None:
    plant_jobs(client)
    async with screen(url, WIDE) as ui:
        await go_to(ui, "mail")
        await ui.press("P", "y")
        await ui.until_toast("paused")
        await ui.press("o")
        await ui.until_shown("answers", "who", "can be undone")


@pytest.mark.slow
@run_on_event_loop
async def test_a_small_terminal_shows_the_worker_and_the_kind_under_the_cursor(url: str, client: Redis) -> None:
    seeded = Seeded(client)
    seeded.put("a1", "a2", "a3")
    seeded.reserve(2)
    seeded.engine.apply_verb("beat", seeded.ref, (), {"worker": "w1", "ttl_ms": 30_000})
    async with screen(url, NARROW) as ui:
        await ui.press("w")
        await ui.until_shown("The last heartbeat of this worker came", "It holds 2 jobs", "held for", "lease ends")
        await ui.press("escape", "b")
        await ui.until_shown("─  send  ─", "100 % of all jobs are of this kind.", "No job that was read failed.")


@pytest.mark.slow
@run_on_event_loop
async def test_the_event_under_the_cursor_names_the_kind_of_its_job(url: str, client: Redis) -> None:
    seeded = Seeded(client)
    seeded.put("a1")
    async with screen(url, WIDE) as ui:
        await ui.press("f")
        await ui.until_shown("● recording")
        seeded.reserve(1)
        await ui.until_shown("reserve  send", "the job is now in reserved", "worker  w1")


def test_a_stacked_plot_colours_the_part_that_failed_and_marks_an_instant() -> None:
    rows = plot.draw_stacked_plot([4.0, 4.0, 2.0, 2.0], [2.0, 2.0, 0.0, 0.0], 2, 4.0, marks=(1,), ascii_only=True)
    upper, lower = rows
    assert upper == [("##", plot.AREA), ("  ", "")] or upper[0] == ("##", plot.AREA)
    assert lower == [("xx", plot.LOWER), ("##", plot.AREA)]
    empty = plot.draw_stacked_plot([0.0, 0.0], [], 1, 1.0, marks=(1,), ascii_only=True)
    assert empty == [[(" ", ""), ("|", plot.MARK)]]


def test_the_part_that_failed_differs_without_colour() -> None:
    ((failed, _lower), (completed, _area)) = plot.draw_stacked_plot([4.0] * 4, [4.0, 4.0, 0.0, 0.0], 1, 4.0)[0]
    assert (completed, failed) == plot.draw_legend_signs(ascii_only=False) == ("⣿", "⡪")
    assert plot.draw_legend_signs(ascii_only=True) == ("#", "x")
