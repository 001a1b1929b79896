"""The view of differences: which jobs are compared, what it states, and how it leads to the jobs."""

from __future__ import annotations

import pytest
from aging import move_queue_into_past
from redis import Redis
from screens import Screen, run_on_event_loop, screen

from rqtui.client import Queue
from rqtui.config.settings import Settings
from rqtui.connection.embedded import start_server
from rqtui.engine.history import DAY_MS
from rqtui.scenarios import create_run, find_scenario
from rqtui.tui.app import Cockpit


@pytest.fixture
def shop(client: Redis) -> None:
    """Plant dead jobs of FR, of which 30 failed with CardDeclined and 10 with a timeout, and done jobs of DE."""
    with Queue("shop", client) as shop:
        bodies = [{"country": country, "n": "same"} for _ in range(40) for country in ("FR", "DE")]
        shop.put_many([{"body": body, "keep": "1h", "id": f"{n:02}"} for n, body in enumerate(bodies)])
        for job in shop.reserve(80, worker="w1"):
            if int(job.id) % 2:
                job.ack()
            else:
                job.reject("TimeoutError: x" if int(job.id) % 8 == 0 else "shop.CardDeclined: x", final=True)


@pytest.mark.slow
@pytest.mark.usefixtures("shop")
@run_on_event_loop
async def test_the_dead_jobs_of_a_board_are_compared_with_the_done_ones(url: str) -> None:
    async with screen(url, open_queue="shop", size=(80, 24)) as ui:
        await ui.until_shown("dead 40")
        await ui.press("5", "vertical_line")
        await ui.until_shown(".country = FR", "100 %", "A dead (40 of 40 read)", "B done (40 of 40 read)")
        await ui.until_shown("40 of 40 jobs in A", "p < 1e-12")
        await ui.press("enter")
        await ui.until_shown("/.country:F", "40 of 40 match")
        await ui.press("escape", "escape")
        await ui.until_shown(".country = FR", "differences of shop")


@pytest.mark.slow
@pytest.mark.usefixtures("shop")
@run_on_event_loop
async def test_an_error_is_compared_with_the_other_ended_jobs(url: str) -> None:
    async with screen(url, open_queue="shop", size=(160, 45)) as ui:
        await ui.press("e")
        await ui.until_shown("CardDeclined", "TimeoutError")
        await ui.press("vertical_line")
        await ui.until_shown("A this error, CardDeclined (30 match, 40 of 40 read)", "B other jobs (80 of 80 read)")
        await ui.until_shown(".country = FR", "100 %", "20 %", "30 of 30 jobs in A, 10 of 50 jobs in B")
        await ui.press("enter")  # The group has scheduled and dead jobs; most are dead.
        await ui.until_shown("40 of 40 match")


@pytest.mark.slow
@pytest.mark.usefixtures("shop")
@run_on_event_loop
async def test_marked_jobs_and_matches_are_compared_with_the_rest_of_their_place(client: Redis, url: str) -> None:
    with Queue("shop", client) as shop:
        shop.put_many([{"body": {"tenant": "acme"}, "id": f"a{n}"} for n in range(9)])
        shop.put_many([{"body": {"tenant": "globex"}, "id": f"b{n}"} for n in range(9)])
    async with screen(url, open_queue="shop", size=(160, 45)) as ui:
        await ui.until_shown("ready 18")
        await ui.press("2", "slash", '"id:/^a/', "enter")
        await ui.until_shown("/id:/^a/")
        await ui.press("vertical_line")
        await ui.until_shown("A ready with id:/^a/ (9 match, 18 of 18 read)", ".tenant = acme")
        await ui.press("escape", "a", "slash", "enter")
        await ui.until_shown("9 marked")
        await ui.press("vertical_line")
        await ui.until_shown("A 9 marked jobs (9 of 9 read)", "B the other jobs of ready", ".tenant = acme")
        await ui.press("right_square_bracket")
        assert "other times" not in ui.text() and "A 9 marked jobs" in ui.text()


def bury_jobs(client: Redis, country: str, jobs: int) -> None:
    with Queue("times", client) as times:
        times.put_many([{"body": {"country": country}} for _ in range(jobs)])
        for job in times.reserve(jobs, worker="w1"):
            job.reject("x", final=True)


@pytest.mark.slow
@run_on_event_loop
async def test_dead_jobs_of_the_last_time_are_compared_with_those_of_before(client: Redis, url: str) -> None:
    for country, days in (("DE", 0), ("FR", 1), ("IT", 1)):
        bury_jobs(client, country, 20)
        if days:
            move_queue_into_past(client, "times", days * DAY_MS)
    bury_jobs(client, "ES", 20)
    async with screen(url, open_queue="times", size=(160, 45)) as ui:
        await ui.until_shown("dead 80")
        await ui.press("5", "vertical_line")
        await ui.until_shown("A dead (80 of 80 read)", "other times")
        await ui.press("right_square_bracket")
        await ui.until_shown("A dead, ended in the last 10 min (20 match, 80 of 80 read)", "B dead, ended before that")
        await ui.until_shown("60 match", ".country = ES")
        await ui.press("right_square_bracket", "right_square_bracket")
        await ui.until_shown("ended in the last 1 h", "B dead, ended in the same 1 h 1 d earlier (20 match")
        await ui.press("left_square_bracket", "left_square_bracket", "left_square_bracket")
        await ui.until_shown("A dead (80 of 80 read)")
        await ui.press("left_square_bracket")
        await ui.until_shown("ended in the last 1 d (20 match", "B dead, ended in the same 1 d 1 d earlier")


@pytest.mark.slow
@pytest.mark.usefixtures("shop")
@run_on_event_loop
async def test_without_a_difference_the_view_states_what_would_have_been_found(url: str) -> None:
    async with screen(url, open_queue="shop", size=(160, 45)) as ui:
        await ui.until_shown("dead 40")
        await ui.press("5", "slash", '"err:Timeout', "enter")
        await ui.until_shown("/err:Timeout")
        await ui.press("vertical_line")
        await ui.until_shown("no field differs more than by chance")


@run_on_event_loop
async def test_a_place_without_jobs_has_nothing_to_compare(client: Redis, url: str) -> None:
    with Queue("mail", client) as mail:
        mail.put({"n": 1})
    async with screen(url, open_queue="mail", size=(80, 24)) as ui:
        await ui.until_shown("ready 1")
        await ui.press("2", "vertical_line")
        await ui.until_shown("nothing to compare: no job that was read is the other places")


@pytest.mark.slow
@run_on_event_loop
async def test_a_limit_cannot_be_opened_on_the_board(client: Redis, url: str) -> None:
    with Queue("mail", client) as mail:
        mail.put_many([{"body": {"cents": n}, "id": f"{n:03}"} for n in range(100)])
    async with screen(url, open_queue="mail", size=(160, 45)) as ui:
        await ui.until_shown("ready 100")
        await ui.press("slash", '"id:/^0[0-4]/', "enter")
        await ui.until_shown("/id:/^0")
        await ui.press("vertical_line")
        await ui.until_shown(".cents ≥ 50")
        await ui.press("enter")
        await ui.until_toast("no filter selects these jobs")


@pytest.mark.slow
@run_on_event_loop
async def test_the_planted_cause_of_the_demo_is_found_with_two_keys() -> None:
    with start_server("auto") as server, create_run(find_scenario("incident"), server.url, 1, server.pid) as play:
        app = Cockpit(Settings(server.url, ("native",)), play, open_queue="orders", interval_s=0.25)
        async with app.run_test(size=(80, 24), notifications=True) as pilot:
            ui = Screen(app, pilot)
            await ui.until_shown("orders", "1 scheduled")
            await ui.press("e")
            await ui.until_shown("CardDeclined", "2 500")
            await ui.press("vertical_line")
            await ui.until_shown(".card_country = FR", "100 %")  # In some minutes the hour is first.
