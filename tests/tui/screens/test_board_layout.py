"""Test the panes of a board: which one opens, which fold, and what a wide terminal shows beside the focused one."""

from __future__ import annotations

import pytest
from board_panes import build_panes
from mill_system import NAMES as NAMES_OF_THE_MILL
from mill_system import Mill, add_mill_jobs, mill
from redis import Redis
from screens import NARROW, WIDE, Screen, Seeded, run_on_event_loop, screen

from rqtui.model import Count, Finding, Place, Queue, State
from rqtui.systems import registry
from rqtui.tui.screens import board_borders, board_layout
from rqtui.tui.screens.board import Board
from rqtui.tui.widgets.pane import Pane

__all__ = ["mill"]  # a fixture
PLACES = tuple(Place(state, state, "k", "list") for state in State)
NAMES = tuple(place.name for place in PLACES)


@pytest.fixture
def seeded(client: Redis) -> Seeded:
    """Return an empty queue to fill."""
    return Seeded(client)


def queue(*findings: Finding, **counts: int) -> Queue:
    """Build a queue with so many jobs in its places."""
    return Queue(
        "q",
        "s",
        tuple(Count(place.name, place.state, counts.get(place.name, 0)) for place in PLACES),
        findings=findings,
    )


def board(ui: Screen) -> Board:
    view = ui.app.navigation.view
    assert isinstance(view, Board)
    return view


def pane(ui: Screen, name: str) -> Pane:
    return next(pane for pane in board(ui).list_panes() if pane.place.name == name)


def find_position(ui: Screen, words: str) -> tuple[int, int]:
    rows = ui.text().splitlines()
    y = next(y for y, row in enumerate(rows) if words in row)
    return rows[y].index(words), y


# ── the shape ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("width", [120, 139, 140, 160, 200, 250])
@pytest.mark.parametrize("current", NAMES)
def test_the_pane_in_the_middle_has_half_of_the_width_or_more(width: int, current: str) -> None:
    shape = board_layout.compute_board_layout(width, NAMES, current, ("done",), is_zoomed=False, list_rows=0)
    cells = [int(part) for part in shape.columns.split() if part != "1fr"]
    assert width - sum(cells) >= width / 2
    assert shape.has_detail == (width >= 140)


def test_a_place_without_jobs_folds_and_the_others_share_the_height() -> None:
    shape = board_layout.compute_board_layout(160, NAMES, "dead", ("done",), is_zoomed=False, list_rows=0)
    assert shape.side == ("scheduled", "ready", "reserved", "done")
    assert shape.rows == "1fr 1fr 1fr 1"
    assert shape.in_sight == ("dead", "scheduled", "ready", "reserved")


def test_below_120_cells_and_zoomed_one_pane_has_all() -> None:
    assert board_layout.compute_board_layout(
        119, NAMES, "dead", (), is_zoomed=False, list_rows=0
    ) == board_layout.BoardLayout("dead")
    assert board_layout.compute_board_layout(
        250, NAMES, "dead", (), is_zoomed=True, list_rows=0
    ) == board_layout.BoardLayout("dead")


def test_a_pane_without_a_neighbour_is_drawn_with_a_side_border() -> None:
    shape = board_layout.compute_board_layout(160, NAMES, "ready", tuple(NAMES), is_zoomed=False, list_rows=0)
    assert shape.side == () and shape.columns.startswith("1fr ")


# ── which place opens ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("counted", "opens"),
    [
        (queue(scheduled=3, ready=2), "scheduled"),
        (queue(scheduled=2, ready=2), "ready"),
        (queue(done=900, dead=1), "dead"),
        (queue(done=900), "done"),
        (queue(), "ready"),
        (queue(Finding("expired-not-reaped", "warning", "q", "…"), ready=900, reserved=2), "reserved"),
        (queue(Finding("failing", "critical", "q", "…", key="e"), ready=900, dead=2), "dead"),
        (queue(Finding("failing", "critical", "q", "…", key="e"), ready=900), "ready"),
        (
            queue(
                Finding("dead-near-cap", "warning", "q", "…"), Finding("paused", "warning", "q", ""), ready=9, dead=1
            ),
            "dead",
        ),
    ],
)
def test_a_board_opens_on_the_place_with_the_problem_else_on_the_fullest(counted: Queue, opens: str) -> None:
    assert board_layout.choose_first_place(PLACES, counted) == opens


@run_on_event_loop
async def test_a_board_whose_jobs_are_dead_opens_on_the_dead(url: str, seeded: Seeded) -> None:
    seeded.bury("d1", "d2", "d3")
    async with screen(url, NARROW) as ui:
        await ui.press("enter")
        await ui.until(
            lambda: board(ui).find_current_pane().place.name == "dead" and board(ui).find_current_pane().has_focus
        )
        await ui.until_shown("d1")


@pytest.mark.slow
@run_on_event_loop
async def test_a_place_that_was_chosen_stays_whatever_comes(url: str, seeded: Seeded) -> None:
    seeded.put("r1")
    async with screen(url, NARROW) as ui:
        await ui.press("enter", "1")
        seeded.bury("d1", "d2", "d3")
        await ui.until(lambda: "5 dead 3" in ui.text(), "its tab counts")
        assert board(ui).find_current_pane().place.name == "scheduled"


# ── what is seen ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@run_on_event_loop
async def test_160_columns_show_all_that_80_show_of_dead_jobs(url: str, seeded: Seeded) -> None:
    seeded.put("r1")
    seeded.bury("d1", "d2")
    for size in (NARROW, WIDE):
        async with screen(url, size) as ui:
            await ui.press("enter", "5")
            await ui.until_shown("last error", "tried", "TimeoutError: smtp", "1/")


@pytest.mark.slow
@run_on_event_loop
async def test_the_places_in_the_side_are_short_and_a_click_brings_one_to_the_middle(url: str, seeded: Seeded) -> None:
    seeded.put("a1", "a2")
    seeded.put("later", delay_ms=90_000)
    async with screen(url, WIDE) as ui:
        await ui.press("enter")
        await ui.until(lambda: board(ui).find_current_pane().place.name == "ready")
        await ui.until(
            lambda: pane(ui, "scheduled").rows and pane(ui, "scheduled").size.width < 30, "short, at the side"
        )
        assert pane(ui, "ready").size.width >= 80 and pane(ui, "done").size.height == 0
        scheduled = pane(ui, "scheduled")
        await ui.pilot.click(scheduled, offset=(5, 1))
        await ui.until(
            lambda: board(ui).find_current_pane() is scheduled and scheduled.size.width >= 80, "in the middle"
        )
        await ui.until(lambda: pane(ui, "ready").size.width < 30)


@pytest.mark.slow
@run_on_event_loop
async def test_a_place_that_gets_a_job_unfolds_and_stays_open_for_a_while(url: str, seeded: Seeded) -> None:
    seeded.put("a1", "a2")
    async with screen(url, WIDE) as ui:
        await ui.press("enter")
        await ui.until_shown("2 ready 2  3 reserved 0")  # its frame has tabs: nothing is beside it
        seeded.reserve(1)
        await ui.until(lambda: pane(ui, "reserved").size.height > 3, "it unfolds")
        seeded.engine.apply_verb("ack", seeded.ref, seeded.jobs("reserved"))
        await ui.until(lambda: "3 reserved 0" in ui.text())
        assert pane(ui, "reserved").size.height > 3


@pytest.mark.slow
@run_on_event_loop
async def test_at_80_columns_the_tabs_count_and_the_finding_is_above_the_rows(url: str, seeded: Seeded) -> None:
    seeded.put("a1")
    seeded.bury("d1", "d2")
    seeded.engine.apply_verb("pause", seeded.ref)
    async with screen(url, NARROW) as ui:
        await ui.press("enter", "2")
        await ui.until_shown("2 ready 1", "5 dead 2", "rows 1-1 of 1")
        assert ui.text().splitlines()[2].startswith(" · paused"), ui.text()
        await ui.until_shown("─  job  ─", "place       ready")  # the job under the cursor, below the list


@pytest.mark.slow
@run_on_event_loop
async def test_a_high_terminal_has_the_findings_above_the_rows_and_ok_where_there_is_none(
    url: str, seeded: Seeded
) -> None:
    seeded.put("a1")
    async with screen(url, WIDE) as ui:
        await ui.press("enter")
        await ui.until(lambda: ui.text().splitlines()[3].startswith(" ✓ "), "a verdict")
        seeded.engine.apply_verb("pause", seeded.ref)
        await ui.until(lambda: "paused" in ui.text().splitlines()[3])


@pytest.mark.slow
@run_on_event_loop
async def test_a_click_on_a_tab_goes_to_its_place(url: str, seeded: Seeded) -> None:
    seeded.put("a1")
    async with screen(url, NARROW) as ui:
        await ui.press("enter")
        await ui.until_shown("5 dead 0")
        await ui.pilot.click(offset=find_position(ui, "5 dead 0"))
        await ui.until(lambda: board(ui).find_current_pane().place.name == "dead")
        await ui.pilot.click(offset=find_position(ui, "1 scheduled"))
        await ui.until(lambda: board(ui).find_current_pane().place.name == "scheduled")


@pytest.mark.slow
@run_on_event_loop
async def test_a_cursor_that_was_not_moved_is_on_what_is_there_and_not_on_a_job_that_left(
    url: str, seeded: Seeded
) -> None:
    seeded.put("a1", "a2", "a3")
    async with screen(url, NARROW) as ui:
        await ui.press("enter", "2")
        await ui.until(lambda: board(ui).find_current_pane().cursor_id == b"a1")
        seeded.reserve(1)
        await ui.until(lambda: board(ui).find_current_pane().cursor_id == b"a2", "the next one")
        assert not board(ui).find_current_pane().is_cursor_row_missing
        await ui.press("j", "k")
        seeded.reserve(1)
        await ui.until(
            lambda: board(ui).find_current_pane().is_cursor_row_missing,
            "a cursor that was moved stays where it was put",
        )
        assert board(ui).find_current_pane().cursor_id == b"a2"


# ── nine places ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_findings_lead_to_the_right_one_of_several_places_of_a_state() -> None:
    def opens(kind: str, key: str = "", **counts: int) -> str:
        numbers = tuple(Count(name, state, counts.get(name, 0)) for name, state in NAMES_OF_THE_MILL.items())
        counted = Queue("q", "mill", numbers, findings=(Finding(kind, "warning", "q", "…", key=key),))
        return board_layout.choose_first_place(Mill.places, counted)

    assert opens("expired-not-reaped", started=1, intermediate=5) == "started", "no place of it is for late ones"
    assert opens("dead-grows", "e", failed=2, canceled=9) == "canceled", "the fuller one"
    assert opens("due-not-dispatched", deferred=3) == "deferred", "the only one that holds something"
    assert opens("no-live-worker", ready=3, failed=5) == "ready"
    parts = tuple(Place(name, State.RESERVED, "k", "zset", where=name) for name in ("held", "late"))
    counted = Queue("q", "s", (Count("held", State.RESERVED, 9), Count("late", State.RESERVED, 1)))
    late = Finding("expired-not-reaped", "warning", "q", "…")
    assert board_layout.choose_first_place(parts, counted._replace(findings=(late,))) == "late"


@pytest.mark.slow
@run_on_event_loop
async def test_nine_places_have_nine_keys_and_are_distinguished_by_their_names(
    client: Redis, url: str, mill: type[Mill]
) -> None:
    for number, name in enumerate(NAMES_OF_THE_MILL, 1):
        if name not in ("ready", "intermediate"):
            add_mill_jobs(client, "flour", name, *[f"{name[:2]}{n}" for n in range(number)])
    async with screen(url, NARROW, systems=("mill",)) as ui:
        await ui.press("enter")
        await ui.until_shown(
            "1 scheduled 1  2 deferred 2  3 queued 3  4 ready 0  5 started 5", "7 finished 7  8 failed 8"
        )
        for number, name in enumerate(NAMES_OF_THE_MILL, 1):
            await ui.press(str(number))
            assert board(ui).find_current_pane().place.name == name
        await ui.press("6")
        await ui.until_shown("no job is in intermediate", "8 fa")
        await ui.pilot.click(offset=find_position(ui, "8 fa"))
        await ui.until(lambda: board(ui).find_current_pane().place.name == "failed", "a click on its name")
        await ui.press("asterisk", "R", "y")
        await ui.until_toast("8 requeued")
        assert client.llen("mill:queued:flour") == 3 + 8
        assert client.llen("mill:canceled:flour") == 9, "the other dead place"
        board(ui).filter_place_of_state(State.DEAD, "id:ca1")
        await ui.until(lambda: board(ui).find_current_pane().place.name == "canceled", "the fullest of the dead")
        await ui.press("2")
        await ui.until(lambda: "waits" in ui.text().splitlines()[4], "nothing of the mill is due")


@pytest.mark.slow
@run_on_event_loop
async def test_beside_one_place_the_empty_ones_of_nine_are_a_line_each(
    client: Redis, url: str, mill: type[Mill]
) -> None:
    add_mill_jobs(client, "flour", "queued", "q1")
    add_mill_jobs(client, "flour", "failed", "f1")
    async with screen(url, WIDE, systems=("mill",)) as ui:
        await ui.press("enter")
        folded = ("scheduled", "deferred", "ready", "started", "intermediate", "finished", "canceled")
        await ui.until(lambda: board(ui)._board_layout.folded == set(folded))
        await ui.until(lambda: [pane(ui, name).region.height for name in folded] == [1] * 7)
        lines = [find_position(ui, f" {[*NAMES_OF_THE_MILL].index(name) + 1} {name} 0")[1] for name in folded]
        assert lines == sorted(lines), "in their order"
        await ui.press("8")
        await ui.until(lambda: board(ui).find_current_pane().place.name == "failed")
        add_mill_jobs(client, "flour", "intermediate", *(f"i{n}" for n in range(1200)))
        await ui.until_shown(" intermed… 1 200 ")  # a long name is shortened for its count


def test_the_board_opens_on_the_place_whose_key_the_worst_finding_names() -> None:
    keys = {place.name: f"rq:{place.name}" for place in PLACES}
    late = Finding("no-scheduler", "critical", "q", "2 due", keys=("rq:scheduled",))
    many = Finding("dead-many", "warning", "q", "9 dead", key="e")
    assert board_layout.choose_first_place(PLACES, queue(late, many, scheduled=2, dead=9), keys) == "scheduled"
    assert board_layout.choose_first_place(PLACES, queue(late, many, dead=9), keys) == "dead", (
        "nothing stands there any more"
    )


@pytest.mark.parametrize("system", ["rq", "celery", "sidekiq", "bullmq"])
@pytest.mark.parametrize("count", [0, 7, 36, 360])
def test_tabs_of_many_places_keep_a_blank_behind_each_key_and_distinguish_the_places(system: str, count: int) -> None:
    places = registry.create_system(system).places
    panes, queue = build_panes(system, [0 if at == 3 else count for at in range(len(places))], 80)
    stylesheet = "".join(piece.text for piece in board_borders.build_title_with_tabs(panes, panes[-1], queue))
    assert len(stylesheet) <= 76 and "…" not in stylesheet
    if count < 100:
        assert all(f" {number} " in stylesheet for number in range(1, len(places) + 1)), stylesheet
        names = [word for word in stylesheet.split() if word.isalpha()]
        assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("system", "numbers", "tabs"),
    [
        (
            "sidekiq",
            (106, 227, 64, 12, 9_912, 106),
            "1 schedule 106 2 retry 227 3 queue 64 4 work 12 5 lost 9.9k 6 dead 106",
        ),
        (
            "celery",
            (0, 7, 36, 0, 7, 36, 0, 7),
            "1 2 queue 7 3 unacked 36 4 5 running 7 6 succeeded 36 7 8 revoked 7",
        ),
        (
            "native",
            (20_927,) * 5,
            "1 scheduled 21k 2 ready 21k 3 reserved 21k 4 done 21k 5 dead 21k",
        ),
    ],
)
def test_tabs_come_close_together_before_a_name_loses_letters(system: str, numbers: tuple[int, ...], tabs: str) -> None:
    panes, queue = build_panes(system, numbers)
    title = "".join(piece.text for piece in board_borders.build_title_with_tabs(panes, panes[-1], queue))
    assert title.split() == tabs.split()


def test_names_of_places_that_do_not_fit_into_the_title_are_whole_on_a_line_above_it() -> None:
    panes, bullmq = build_panes("bullmq", (46, 5, 11, 3, 24, 7, 41, 169))
    lines = board_borders.build_tabs_on_two_lines(panes, panes[4], bullmq, 78)
    assert lines is not None
    assert [" ".join("".join(piece.text for piece in line).split()) for line in lines] == [
        "1 delayed 46 2 waiting_children 5 3 prioritized 11 4 wait 3 5 paused 24",
        "6 active 7 7 completed 41 8 failed 169",
    ]
    panes, native = build_panes("native", (1,) * 5)
    assert board_borders.build_tabs_on_two_lines(panes, panes[0], native, 78) is None
    assert board_borders.build_tabs_on_two_lines(panes, panes[0], native, 78, has_line=True) is not None, "it stays"


@pytest.mark.slow
@run_on_event_loop
async def test_a_click_on_a_tab_above_the_frame_goes_to_its_place(client: Redis, url: str, mill: type[Mill]) -> None:
    first, second, *_others = NAMES_OF_THE_MILL
    for name in NAMES_OF_THE_MILL:
        add_mill_jobs(client, "flour", name, *(f"{name}-{number}" for number in range(12)))
    async with screen(url, NARROW, systems=("mill",)) as ui:
        await ui.press("enter")
        await ui.until_shown(f" 1 {first} 12  2 {second} 12 ")
        await ui.pilot.click(offset=find_position(ui, second))
        await ui.until(lambda: board(ui).find_current_pane().place.name == second, "the place is opened")


def test_a_name_that_begins_like_another_one_is_shortened_to_the_first_letters_of_its_words() -> None:
    panes, queue = build_panes("bullmq", (36,) * 8, 80)
    stylesheet = "".join(piece.text for piece in board_borders.build_title_with_tabs(panes, panes[-1], queue))
    assert " 2 wc" in stylesheet and " 4 wa" in stylesheet, stylesheet
