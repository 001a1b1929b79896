"""The view of the loops: who is next, what was done, what switches them."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest
import sidekiq_subject
from families import run_in_one_test
from redis import Redis
from screens import WIDE, Seeded, run_on_event_loop, screen

from rqtui.connection.connect import connect
from rqtui.model import Job, Ref, State
from rqtui.reports.loops import format_target_places
from rqtui.systems import registry
from rqtui.tui.screens import loops
from rqtui.tui.screens.loops import Loops

HELD = Job(b"a", "mail", "native", "reserved", State.RESERVED, b"a", attempts=1, max_attempts=3)


@run_in_one_test(
    ("system", "verb", "job", "place"),
    [
        ("native", "reap", HELD, "ready"),
        ("native", "reap", replace(HELD, attempts=3), "dead"),
        ("native", "reap", replace(HELD, is_cancelled=True), "dead"),
        ("native", "dispatch", replace(HELD, attempts=3), "ready"),
        ("timeout_sets", "reap", HELD, "todos"),
        ("dispatcher", "dispatch", HELD, "ready"),
    ],
)
def test_the_next_place_of_a_job_is_shown(system: str, verb: str, job: Job, place: str) -> None:
    assert format_target_places(verb, job, registry.create_system(system)) == place


@run_on_event_loop
async def test_the_next_victims_are_shown_before_they_are_taken(url: str, client: Redis) -> None:
    seeded = Seeded(client)
    seeded.put("first", "last", max_attempts=1)
    seeded.put("soon", delay_ms=30_000)
    seeded.reserve(2, ttr_ms=60_000)
    async with screen(url, WIDE) as ui:
        await ui.press("t")
        await ui.until_shown("next jobs", "soon", "first", "last")
        lines = ui.text().splitlines()
        taken = [line for line in lines if "reap " in line and "w1" in line]
        assert len(taken) == 2
        assert all("1/1" in line and "dead" in line for line in taken)
        [due] = [line for line in lines if " soon " in line]
        assert "dispatch" in due
        assert lines.index(due) < lines.index(taken[0])  # it is due before the leases end
    assert seeded.ids("reserved") == ["first", "last"]


@pytest.mark.slow
@run_on_event_loop
async def test_the_heads_of_the_nearest_queues_are_read_with_each_poll(url: str, client: Redis) -> None:
    for number in range(9):
        Seeded(client, f"q{number}").put("later", delay_ms=60_000 + number * 1000)
    async with screen(url, WIDE) as ui:
        await ui.press("t")
        await ui.until_shown("q0", "q3")
        snapshot = ui.app.session.snapshot
        assert snapshot is not None
        assert [page.queue for page in snapshot.pages] == ["q0", "q1", "q2", "q3"]
        assert snapshot.cost.round_trips == 1


@pytest.mark.slow
@run_on_event_loop
async def test_a_loop_is_stopped_stepped_and_started_here(url: str, client: Redis) -> None:
    seeded = Seeded(client)
    seeded.put("ready")
    async with screen(url, WIDE) as ui:
        await ui.press("t", "comma")
        await ui.until_shown("■ off", ", start")
        seeded.put("due", delay_ms=1)
        await ui.until_shown("due 1")
        assert seeded.ids("scheduled") == ["due"]
        await ui.press("less_than_sign")
        await ui.until(lambda: seeded.ids("scheduled") == [], "one step moves it")
        await ui.until(lambda: any("dispatch" in line and "mail" in line for line in ui.text().splitlines()), "a step")
        assert not ui.app.session.loops["dispatch"].is_running
        await ui.press("comma")
        await ui.until(lambda: ui.app.session.loops["dispatch"].is_running, "it runs again")
        await ui.press("escape")
        await ui.until(lambda: ui.app.navigation.view is not None and ui.app.navigation.view.NAME == "overview", "back")


@pytest.mark.slow
@run_on_event_loop
async def test_loops_elsewhere_are_known_by_their_connections(url: str, client: Redis) -> None:
    Seeded(client).put("a")
    with connect(url, client_name="rqtui-reaper") as other:
        other.ping()
        async with screen(url, WIDE) as ui:
            await ui.press("t")
            await ui.until(lambda: any("reap" in x and "elsewhere 1" in x for x in ui.text().splitlines()), "one more")


@pytest.mark.slow
@run_on_event_loop
async def test_a_loop_that_is_off_is_no_connection_and_one_that_is_on_again_continues(url: str, client: Redis) -> None:
    def connections() -> int:
        return sum(each["name"] == "rqtui-dispatcher" for each in client.client_list())

    seeded = Seeded(client)
    seeded.put("first")
    before = connections()
    async with screen(url, WIDE) as ui:
        await ui.until(lambda: connections() == before + 1, "a connection of its own")
        await ui.press("comma")
        await ui.until_toast("dispatcher of this screen is off")
        await ui.until(lambda: connections() == before, "none any more")
        await ui.press("comma")
        seeded.put("later", delay_ms=1)
        await ui.until(lambda: seeded.ids("ready") == ["first", "later"], "moved by the loop")
        await ui.press("comma")
        await ui.until(lambda: connections() == before, "none any more")
        await ui.press("less_than_sign")
        await ui.until_toast("nothing moved")
        await ui.until(lambda: connections() == before, "a single step keeps none")


@run_on_event_loop
async def test_read_only_reports_that_the_loops_are_off(url: str, client: Redis) -> None:
    Seeded(client).put("later", delay_ms=60_000)
    async with screen(url, WIDE, read_only=True) as ui:
        await ui.press("t")
        await ui.until_shown("The loops are off", "later")
        assert isinstance(ui.app.navigation.view, Loops)
        assert ui.app.navigation.view.build_target().ref == Ref("native", "mail")


@run_on_event_loop
async def test_a_screen_that_moves_due_jobs_reports_it_once(url: str, client: Redis) -> None:
    seeded = Seeded(client)
    seeded.put("a", "b", delay_ms=1)
    async with screen(url) as ui:
        await ui.until_toast("The dispatcher of this screen is on and moved 2 due jobs; , stops it.")
        seeded.put("c", delay_ms=1)
        await ui.until(lambda: seeded.ids("ready") == ["a", "b", "c"], "the dispatcher moved the third job")
        await ui.until_refreshed()
        assert sum("of this screen is on and moved" in toast for toast in ui.toasts) == 1


@run_on_event_loop
async def test_a_read_only_screen_moves_no_job_and_reports_no_loop(url: str, client: Redis) -> None:
    seeded = Seeded(client)
    seeded.put("a", delay_ms=1)
    async with screen(url, read_only=True) as ui:
        await ui.until_shown("1 due")
        assert seeded.ids("scheduled") == ["a"] and not any("moved" in toast for toast in ui.toasts)


def test_late_jobs_that_a_system_only_counts_are_not_called_none() -> None:
    late, next_in = loops._format_nearest_job("reap", None, 3)
    assert (late.plain, next_in.plain) == ("3 late", "")
    none_late, no_lease = loops._format_nearest_job("reap", None, 0)
    assert (none_late.plain, no_lease.plain) == ("nothing late", "no lease runs")


@pytest.mark.slow
@run_on_event_loop
async def test_a_late_job_of_a_stopped_process_is_listed_with_its_kind(url: str, client: Redis) -> None:
    client.sadd("queues", "default")
    sidekiq_subject.plant_process(client, "web-9:1:ab", beat_s=time.time() - 90)
    run = {"queue": "default", "payload": sidekiq_subject.build_member(b"1", "default").decode(), "run_at": 1}
    client.hset("web-9:1:ab:work", "t1", json.dumps(run))
    async with screen(url, WIDE, systems=("sidekiq",)) as ui:
        await ui.until_shown("default")
        ui.app.open_board(Ref("sidekiq", "default"))
        await ui.until_shown("6 dead")
        await ui.press("t")
        await ui.until_shown("1 late", "HardJob")
        [row] = [line for line in ui.text().splitlines() if "HardJob" in line]
        assert "late  reap" in row and "web-9:1:ab" in row and "1/26" in row
        assert Loops.EMPTY not in ui.text() and Loops.EMPTY_BUT_LATE not in ui.text()
