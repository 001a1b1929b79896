"""The views of workers, kinds and errors: what they show, and what the keys do there."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis
from screens import NARROW, WIDE, Seeded, on_screen, screen, text_of

from rqtui.client import Queue
from rqtui.names import keys
from rqtui.reports import errors
from rqtui.tui import report_view
from rqtui.tui.errorgroup import ErrorGroup
from rqtui.tui.views.kinds import expression
from screenshots.seeded import NOW, Seed, still

FOLDER = Path(__file__).with_name("snapshots")


def beat(client: Redis, name: str, ago_s: float, queue: str = "mail") -> None:
    """A worker whose last sign of life was so long ago."""
    now_ms = int(time.time() * 1000)
    client.hset(keys(queue)["workers"], name, f"{now_ms - int(ago_s * 1000)} 60000 run {now_ms} 42 jobs-1 ")


def fail(queue: Queue, *messages: str, name: str = "send", final: bool = True) -> None:
    """Jobs that failed once, with these errors."""
    for message in messages:
        queue.put({}, name=name, priority=-9)
        (job,) = queue.reserve(1, worker="w1")
        job.reject(message, final=final, delay=None if final else "10m")


def hold(client: Redis, worker: str, *ids: str) -> None:
    """Jobs that a worker holds for an hour."""
    mail = Queue("mail", client)
    for id in ids:
        mail.put({}, id=id, name="send", priority=-9)
        mail.reserve(1, worker=worker, ttr="1h")


# -- workers -----------------------------------------------------------------------------------------------------------


@on_screen
async def test_workers_that_were_never_seen_are_shown_while_the_rows_stand(url: str, client: Redis) -> None:
    hold(client, "early", "a")
    beat(client, "early", 1)
    async with screen(url, open_queue="mail") as it:
        await it.press("w", "p")  # typed ahead
        await it.until_shown("frozen: p", "early")
        hold(client, "later", "b")
        beat(client, "later", 1)
        await it.press("r")
        await it.until_shown("early")
        assert "later" not in it.text()


@on_screen
async def test_a_silent_worker_is_on_top_with_its_jobs_and_a_key_lets_them_go(url: str, client: Redis) -> None:
    hold(client, "lost", "a", "b")
    hold(client, "fine", "c")
    beat(client, "lost", 70)
    beat(client, "fine", 1)
    async with screen(url, open_queue="mail") as it:
        await it.press("w")
        await it.until_shown("late", "running", "its 2 jobs: L lets go")
        lines = it.text().splitlines()
        assert lines.index(next(x for x in lines if "lost" in x)) < lines.index(next(x for x in lines if "fine" in x))
        await it.press("L")
        await it.until(lambda: it.app.screen is not it.app.view, "a question, since there are two")
        await it.press("enter")
        await it.until(lambda: client.zrange(keys("mail")["reserved"], 0, -1) == [b"c"], "the jobs of the lost go back")


@on_screen
async def test_enter_opens_the_job_that_a_worker_holds(url: str, client: Redis) -> None:
    hold(client, "w1", "the-job")
    async with screen(url, open_queue="mail") as it:
        await it.press("w")
        await it.until_shown("no beat", "w1")
        await it.press("enter")
        await it.until_shown("the-job", "reserved")
        assert it.app.view is not None and it.app.view.NAME == "job"


@on_screen
async def test_workers_follow_a_filter_and_esc_takes_it_away(url: str, client: Redis) -> None:
    beat(client, "alpha", 1)
    beat(client, "beta", 1)
    async with screen(url, open_queue="mail") as it:
        await it.press("w")
        await it.until_shown("alpha", "beta")
        await it.press("slash", '"worker:alp')
        await it.until(lambda: "beta" not in it.text(), "beta is hidden while one types")
        await it.press("enter")
        assert "/worker:alp" in it.text()
        await it.press("escape")
        await it.until_shown("alpha", "beta")


@on_screen
async def test_workers_of_all_queues_come_with_one_key(url: str, client: Redis) -> None:
    beat(client, "m1", 1)
    beat(client, "i1", 1, "images")
    for queue in ("mail", "images"):
        Queue(queue, client).put({})
    async with screen(url, open_queue="mail") as it:
        await it.press("w")
        await it.until_shown("m1", "of mail")
        assert "i1" not in it.text()
        await it.press("quotation_mark")
        await it.until_shown("m1", "i1", "of all queues")


@on_screen
async def test_a_worker_is_told_to_stop_from_the_palette(url: str, client: Redis) -> None:
    Queue("mail", client).put({})
    beat(client, "w1", 1)
    async with screen(url, open_queue="mail") as it:
        await it.press("w")
        await it.until_shown("w1", "quiet or to stop")
        verbs = {verb.name: verb for verb, _summary in it.app.offered()}
        it.app.begin(verbs["stop"], it.app.target())
        await it.until(lambda: b" stop " in (client.hget(keys("mail")["workers"], "w1") or b""), "the order stands")
        await it.until_shown("stop asked")


@on_screen
async def test_a_system_without_names_says_so(url: str, client: Redis) -> None:
    client.rpush("readytasklist", "a")
    async with screen(url, layouts=("dispatcher",), open_queue="dispatcher:readytasklist") as it:
        await it.press("w")
        await it.until_shown("dispatcher keeps no names of workers")
        await it.press("b")
        await it.until_shown("dispatcher keeps no kinds of jobs")
        await it.press("e")
        await it.until_shown("no job has died", "no errors kept")


@on_screen
async def test_consumers_of_another_system_and_what_they_hold_are_shown(url: str, client: Redis) -> None:
    client.rpush("jobs", b"\x91\x01")
    client.sadd("orizuru:consumers", "c1", "c2")
    client.hset("orizuru:heartbeats", mapping={"c1": 1000, "c2": int(time.time() * 1000)})
    client.rpush("orizuru:consumers:c1:processing", b"\x91\x02")
    async with screen(url, layouts=("orizuru:source=jobs",), open_queue="orizuru:jobs") as it:
        await it.press("w")
        await it.until_shown("gone", "c1", "its job: L lets go", "idle", "c2")


# -- by job ------------------------------------------------------------------------------------------------------------


@on_screen
async def test_kinds_are_counted_and_enter_filters_the_board(url: str, client: Redis) -> None:
    mail = Queue("mail", client)
    for number in range(3):
        mail.put({}, id=f"s{number}", name="send")
    mail.put({}, id="d0", name="digest")
    async with screen(url, open_queue="mail") as it:
        await it.press("b")
        await it.until_shown("2 kinds of job", "send", "digest")
        await it.press("enter")
        await it.until(lambda: it.app.view is not None and it.app.view.NAME == "board", "the board")
        await it.until(lambda: "s0" in it.text() and "d0" not in it.text(), "only those of the kind")
        assert "job:send" in it.text()


@on_screen
async def test_r_makes_the_report_anew(url: str, client: Redis) -> None:
    mail = Queue("mail", client)
    mail.put({}, name="send")
    async with screen(url, open_queue="mail") as it:
        await it.press("b")
        await it.until_shown("1 kind of job")
        mail.put({}, name="digest")
        await it.press("r")
        await it.until_shown("2 kinds of job", "digest")


@on_screen
async def test_a_frozen_report_stands(url: str, client: Redis) -> None:
    Queue("mail", client).put({}, name="send")
    async with screen(url, open_queue="mail") as it:
        await it.press("b")
        await it.until_shown("1 kind of job")
        await it.press("p")
        await it.until_shown("frozen: p")


def test_a_kind_whose_name_stands_in_another_is_told_apart() -> None:
    assert expression("send", {"send", "digest"}) == "job:send"
    assert expression("send", {"send", "send_later"}) == "job:/^send$/"
    assert expression("two words", {"two words"}) == r"job:/^two\ words$/"
    assert expression("a/b", {"a/b"}) == r"job:/^a\/b$/"


# -- errors ------------------------------------------------------------------------------------------------------------


@on_screen
async def test_a_group_is_run_again_in_all_its_queues(url: str, client: Redis) -> None:
    mail, images = Queue("mail", client), Queue("images", client)
    fail(mail, "TimeoutError: 1 s", "TimeoutError: 2 s", "KeyError: 'x'")
    fail(images, "TimeoutError: 3 s")
    async with screen(url, open_queue="mail") as it:
        await it.press("e", "quotation_mark")
        await it.until_shown("of all queues", "TimeoutError: # s", "KeyError")
        await it.press("g", "R")
        await it.until_shown("Run again: 3 jobs of 2 queues")
        await it.press("y")
        await it.until(lambda: client.zcard(keys("mail")["dead"]) == 1, "those of mail")
        await it.until(lambda: client.zcard(keys("images")["dead"]) == 0, "and of images")
        assert client.zcard(keys("mail")["ready"]) == 2
        await it.until_shown("1 error ", "dead 1 ", "▌×")  # the row under the cursor stays until it leaves


@on_screen
async def test_members_beyond_the_sample_are_acted_on_too(
    url: str, client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(errors, "PER_PLACE", 2)
    fail(Queue("mail", client), *[f"TimeoutError: {n} s" for n in range(6)])
    async with screen(url, open_queue="mail") as it:
        await it.press("e")
        await it.until_shown("a sample: 2 of 6", "TimeoutError: # s")
        await it.press("R")
        await it.until(lambda: it.app.screen is not it.app.view, "a question")
        await it.press("y")
        await it.until(lambda: client.zcard(keys("mail")["dead"]) == 0, "all six")


@on_screen
async def test_enter_shows_the_whole_error_and_the_jobs_and_enter_again_the_job(url: str, client: Redis) -> None:
    fail(Queue("mail", client), "TimeoutError: 1 s\n    at the\n    very end")
    async with screen(url, open_queue="mail") as it:
        await it.press("e")
        await it.until_shown("TimeoutError: # s")
        await it.press("enter")
        await it.until_shown("very end", "dead", "1 with this error")
        assert isinstance(it.app.view, ErrorGroup)
        await it.press("enter")
        await it.until(lambda: it.app.view is not None and it.app.view.NAME == "job", "the job")
        await it.press("escape", "escape")
        await it.until_shown("errors of mail")


@on_screen
async def test_what_comes_from_data_is_text(url: str, client: Redis) -> None:
    fail(Queue("mail", client), "\x1b]0;owned\x07[bold]x[/bold] \u202e", name="[red]\u202ekind")
    hold(client, "w[/]\u202e", "id\x07")
    beat(client, "\x1b[31mbeats", 1)
    async with screen(url, WIDE, open_queue="mail") as it:
        for key, words in (("e", "[bold]x[/bold]"), ("b", "[red]"), ("w", "w[/]")):
            await it.press(key)
            await it.until_shown(words)
            assert not {"\x1b", "\x07", "\u202e"} & set(it.text())
        await it.press("e")
        await it.until_shown("[bold]x[/bold]")
        await it.press("enter")
        await it.until_shown("with this error")
        assert not {"\x1b", "\x07", "\u202e"} & set(it.text())


@on_screen
async def test_a_session_that_may_not_change_offers_no_verbs(url: str, client: Redis) -> None:
    fail(Queue("mail", client), "TimeoutError: 1 s")
    async with screen(url, read_only=True, open_queue="mail") as it:
        await it.press("e")
        await it.until_shown("TimeoutError: # s")
        await it.press("R", "D")
        await it.until_refreshed()
        assert it.app.screen is it.app.view
        assert client.zcard(keys("mail")["dead"]) == 1


@on_screen
async def test_esc_ends_the_search_for_members_before_anything_is_changed(url: str, client: Redis) -> None:
    fail(Queue("mail", client), "TimeoutError: 1 s")
    async with screen(url, open_queue="mail") as it:
        await it.press("e")
        await it.until_shown("TimeoutError: # s")
        view = it.app.view
        assert view is not None
        group_verb = it.app.verb_for("R")
        assert group_verb is not None and view.begins(group_verb)
        assert view.steps_back()
        await it.until_refreshed()
        assert it.app.screen is view
        assert client.zcard(keys("mail")["dead"]) == 1


@on_screen
async def test_a_job_list_that_does_not_fit_the_filter_says_what_to_press(url: str, client: Redis) -> None:
    fail(Queue("mail", client), "TimeoutError: 1 s")
    async with screen(url, open_queue="mail") as it:
        await it.press("e")
        await it.until_shown("TimeoutError: # s")
        await it.press("slash", '"nosuch', "enter")
        await it.until_shown("nothing fits /nosuch")


@on_screen
async def test_esc_leads_from_side_views_back_to_the_board(url: str, client: Redis) -> None:
    Seeded(client).put("a")
    async with screen(url, open_queue="mail") as it:
        for key in ("w", "b", "e"):
            await it.press(key)
        await it.press("escape")
        await it.until(lambda: it.app.view is not None and it.app.view.NAME == "board", "the board")


@on_screen
async def test_a_report_with_very_many_rows_draws_the_first_of_them(
    url: str, client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_view, "MOST_ROWS", 3)
    fail(Queue("mail", client), *[f"Error{letter}: x" for letter in "ABCDE"])
    async with screen(url, open_queue="mail") as it:
        await it.press("e")
        await it.until_shown("5 errors", "ErrorC", "the first 3 of 5")
        assert "ErrorD" not in it.text()
        await it.press("slash", '"ErrorE', "enter")
        await it.until_shown("ErrorE: x")


@on_screen
async def test_a_lost_link_leaves_the_report_and_a_new_one_comes_with_it(url: str, client: Redis) -> None:
    fail(Queue("mail", client), "TimeoutError: 1 s")
    async with screen(url, open_queue="mail") as it:
        await it.press("e")
        await it.until_shown("TimeoutError: # s")
        for each in client.client_list():
            if int(each["id"]) != client.client_id():
                client.client_kill_filter(_id=each["id"])
        fail(Queue("mail", client), "KeyError: 'x'")
        await it.press("r")
        await it.until_shown("KeyError: 'x'", "TimeoutError: # s")


# -- how they look -----------------------------------------------------------------------------------------------------

SIZES = {"80x24": NARROW, "160x45": WIDE, "60x16": (60, 16)}
LOOKS = {"workers": ("w",), "kinds": ("b",), "errors": ("e",), "error": ("e", "enter")}


@pytest.fixture(scope="module")
def planted(request: pytest.FixtureRequest) -> str:
    """The URL of a server with a day's troubles, seen from an instant that stands still."""
    server = request.getfixturevalue("real_server")
    with Redis.from_url(server.url) as client:
        client.flushall()
        mail = Seed(client, "mail")
        mail.put(30, 9_000_000, 4_000_000)
        for number in range(12):
            at_ms = 3_900_000 - 60_000 * number
            kind = ("TimeoutError: smtp 10.0.0.{n} did not answer within 5.{n} s", "KeyError: 'vat_id'")[
                number % 3 == 0
            ]
            mail.fail(mail.take(1, at_ms, "w2"), at_ms - 700, kind.replace("{n}", str(number)), final=True)
        mail.fail(mail.take(4, 90_000, "w5"), 60_000, "SMTPRecipientsRefused: 550 no such user 'zoë'", delay_ms=600_000)
        mail.put(40, 252_000, 2_000)
        mail.put(9, 9_000, 1_000, delay_ms=3_600_000)
        mail.finish(mail.take(6, 60_000, "w4"), 55_000)
        for number, worker in enumerate(("w1", "w2", "w3", "w1")):
            mail.do("reserve", 27_000 - 4_600 * number, {"limit": 1, "worker": worker, "ttr_ms": 300_000})
        for worker, before_ms in (("w1", 1_000), ("w2", 4_000), ("w3", 75_000), ("w4", 12_000), ("w9", 4_000_000)):
            row = {"worker": worker, "ttl_ms": 60_000, "host": "jobs-1", "pid": "4711"}
            mail.do("beat", before_ms, row)
        mail.do("quiet", 900, {}, [{"worker": "w4"}])
    return server.url


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The clock stands at NOW, in UTC."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        patch.setattr(time, "time", lambda: NOW / 1000)
        yield
    time.tzset()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("view", LOOKS)
def test_it_looks_as_it_did(stopped: None, planted: str, view: str, size: str) -> None:
    async def look() -> str:
        async with still(planted, SIZES[size], ("mail", *LOOKS[view])) as app:
            return text_of(app)

    text = asyncio.run(look())
    file = FOLDER / f"{view}-{size}.txt"
    if os.environ.get("RQTUI_WRITE_SNAPSHOTS"):
        file.write_text(text + "\n", "utf-8")
    assert text + "\n" == file.read_text("utf-8")
