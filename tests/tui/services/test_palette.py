"""Find anything: queues, a job by its id in every queue and system, views, verbs, profiles, filters used before."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from redis import Redis
from screens import Screen, Seeded, run_on_event_loop, screen
from socket_writes import record_socket_writes

from rqtui.client.queue import Queue
from rqtui.config.settings import Settings
from rqtui.engine.engine import build_engine
from rqtui.systems import registry
from rqtui.tui.screens.board import Board
from rqtui.tui.screens.job import JobPage
from rqtui.tui.services.palette import parse_typed_job_ids, score_command_match
from rqtui.tui.widgets.finder import Finder, Hits


async def find(ui: Screen, words: str) -> None:
    """Type words into the palette's line."""
    await ui.press("colon")
    await ui.until(lambda: isinstance(ui.app.screen, Finder), "the line")
    await ui.press(f'"{words}')


def lines(ui: Screen) -> list[str]:
    """Return the lines that the palette found."""
    return [str(option.prompt) for option in ui.app.screen.query_one(Hits).options]


def view_name(ui: Screen) -> str:
    view = ui.app.navigation.view
    return view.NAME if view is not None else ""


@pytest.mark.slow
@run_on_event_loop
async def test_a_queue_is_found_by_any_part_of_its_name_and_enter_opens_its_board(url: str, client: Redis) -> None:
    for name in ("acme.eu.mail-worker", "acme.us.mail-worker", "other"):
        Seeded(client, name).put("a")
    async with screen(url) as ui:
        await ui.until_shown("acme.us", "other")
        await find(ui, "us mail")
        await ui.until(lambda: lines(ui) and lines(ui)[0].startswith("queue acme.us.mail-worker"), "the queue")
        assert "1 ready" in lines(ui)[0]
        assert not any("acme.eu" in line for line in lines(ui))
        await ui.press("enter")
        await ui.until(lambda: view_name(ui) == "board", "the board")
        await ui.until_shown("acme.us.mail-worker", "send")


@pytest.mark.slow
@run_on_event_loop
async def test_a_job_is_found_by_its_id_in_every_queue_and_opens_on_its_board(url: str, client: Redis) -> None:
    for number in range(30):
        Seeded(client, f"queue-{number:02}").put("common")
    mail = Seeded(client)
    mail.bury("wanted-4711")
    async with screen(url) as ui:
        await ui.until_shown("queue-03")
        await find(ui, "wanted-4711")
        await ui.until(lambda: any("wanted-4711" in line and "mail · dead" in line for line in lines(ui)), "the job")
        await ui.press("enter")
        await ui.until(lambda: isinstance(ui.app.screen, JobPage), "its page")
        await ui.until_shown("wanted-4711", "TimeoutError: smtp")
        await ui.press("escape")
        await ui.until(lambda: isinstance(ui.app.screen, Board), "its board")
        board = ui.app.screen
        assert isinstance(board, Board) and board.ref == mail.ref
        await ui.until(lambda: board.find_current_pane().place.name == "dead", "the place of the job")


@pytest.mark.slow
@run_on_event_loop
async def test_enter_waits_for_the_answer_where_nothing_else_fits(url: str, client: Redis) -> None:
    Seeded(client).put("wanted-4711")
    async with screen(url) as ui:
        await ui.until_shown("mail")
        await ui.press("colon", '"wanted-4711', "enter")  # faster than any answer
        await ui.until(lambda: isinstance(ui.app.screen, JobPage), "the page of the job")
        await ui.until_shown("life-line")  # it is there as a whole before the program ends


@pytest.mark.slow
@run_on_event_loop
async def test_enter_on_what_has_no_such_name_searches_the_jobs(url: str, client: Redis) -> None:
    Seeded(client).put("a")
    async with screen(url) as ui:
        await ui.until_shown("mail")
        await ui.press("colon", '"zyx-0815', "enter")
        await ui.until_shown("no job that was read matches", "/zyx-0815")
        await ui.press("escape", "colon", '"zyx-0815')
        await ui.until_shown("search zyx-0815")
        await ui.press("ctrl+u")
        await ui.until(lambda: len(lines(ui)) > 10, "every command again")
        await ui.press("escape")
        assert view_name(ui) == "overview"


@pytest.mark.slow
@run_on_event_loop
async def test_a_view_a_verb_and_a_profile_are_found_by_their_words(url: str, client: Redis, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text(f'[profiles.staging]\nurl = "{url}/1"\n')
    Seeded(client).put("a")
    async with screen(Settings(url, config=str(config))) as ui:
        await ui.until_shown("mail")
        for words, title in (("throughput", "metrics"), ("stag", "profile staging"), ("paus", "pause")):
            await find(ui, words)
            await ui.until(lambda title=title: lines(ui)[0].startswith(title), title)
            await ui.press("escape")
        await find(ui, "metrics")
        await ui.press("enter")
        await ui.until(lambda: view_name(ui) == "metrics", "the view")


@pytest.mark.slow
@run_on_event_loop
async def test_a_filter_used_before_is_found_and_holds_again(url: str, client: Redis) -> None:
    Seeded(client).put("alpha", "beta")
    async with screen(url) as ui:
        await ui.until_shown("mail")
        await ui.press("enter")
        await ui.until_shown("alpha", "beta")
        await ui.press("slash", '"id:beta', "enter", "escape")
        await ui.until_shown("alpha")
        await find(ui, "id:b")
        await ui.until(lambda: lines(ui)[0].startswith("filter id:beta"), "the filter")
        await ui.press("enter")
        await ui.until(lambda: "alpha" not in ui.text(), "only what fits")


@pytest.mark.slow
@run_on_event_loop
async def test_a_line_that_a_person_moved_to_stays_when_an_answer_comes(url: str, client: Redis) -> None:
    mail = Seeded(client, "mail")
    Seeded(client, "mail-two").put("a")
    mail.put("mail")  # a job that is called as the queue is
    async with screen(url) as ui:
        await ui.until_shown("mail-two")
        held = threading.Event()
        ui.app.session.call_engine(
            lambda _engine: held.wait(20), lambda _answer: None
        )  # the thread has no time for the id
        await find(ui, "mail")
        await ui.press("down")
        hits = ui.app.screen.query_one(Hits)
        chosen = hits.highlighted_option
        assert chosen is not None and "mail-two" in str(chosen.prompt)
        held.set()
        await ui.until(lambda: any(line.startswith("job mail") for line in lines(ui)), "the job")
        now = hits.highlighted_option
        assert now is not None and str(now.prompt) == str(chosen.prompt)


@pytest.mark.slow
@run_on_event_loop
async def test_no_letter_waits_for_redis(url: str, client: Redis) -> None:
    Seeded(client).put("a")
    async with screen(url) as ui:
        await ui.until_shown("mail")
        held = threading.Event()
        ui.app.session.call_engine(lambda _engine: held.wait(20), lambda _answer: None)
        await find(ui, "mai")
        assert lines(ui)[0].startswith("queue mail")
        await ui.press("escape")
        assert view_name(ui) == "overview"
        held.set()


@pytest.mark.slow
@run_on_event_loop
async def test_a_system_whose_jobs_can_only_be_searched_one_by_one_is_reported(url: str, client: Redis) -> None:
    client.rpush("jobs", b"entry-1")
    Seeded(client).put("a")
    settings = Settings(url, ("native", "orizuru:source=jobs"))
    async with screen(settings) as ui:
        await ui.until_shown("mail")
        await find(ui, "entry-1")
        await ui.until_shown("ids cannot be searched in orizuru")


def test_the_ids_of_all_queues_and_systems_are_looked_up_in_one_round_trip(
    client: Redis, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(100):
        Queue(f"queue-{number}", url).put(b"{}", id="everywhere" if number % 50 == 0 else f"other-{number}")
    client.sadd("todos", b"everywhere")
    engine = build_engine(client, [registry.create_system("native"), registry.create_system("timeout_sets")])
    assert len(engine.refs) >= 101
    engine.find_jobs_by_id((b"everywhere",))  # the scripts are loaded now
    client.config_resetstat()
    with record_socket_writes(monkeypatch) as writes:
        sought = engine.find_jobs_by_id((b"everywhere",))
    assert sorted((ref.system, ref.queue) for ref, _job in sought.jobs) == [
        ("native", "queue-0"),
        ("native", "queue-50"),
        ("timeout_sets", "todos"),
    ]
    assert [write.count(b"EVALSHA") for write in writes] == [len(engine.refs)]
    assert not any(name in client.info("commandstats") for name in ("cmdstat_lrange", "cmdstat_zrange"))


def test_how_well_words_name_something() -> None:
    assert (
        score_command_match(["mail"], "mail")
        > score_command_match(["mail"], "mail-two")
        > score_command_match(["mail"], "e-mail")
        > 1
    )
    assert 0 < score_command_match(["memory"], "Redis", "the server: memory") < 1
    assert not score_command_match(["l", "zz"], "mail")


def test_an_id_is_looked_for_as_it_is_typed_as_it_is_shown_and_from_base64() -> None:
    assert parse_typed_job_ids("job-1") == (b"job-1",)
    assert set(parse_typed_job_ids(r"a\xff")) == {b"a\xff", rb"a\xff"}
    assert b"\xff\xfe" in parse_typed_job_ids("base64://4=")


def test_a_thousand_queues_are_asked_at_once(client: Redis, url: str) -> None:
    queue = Queue("queue-0", url)
    queue.put(b"{}", id="one")
    for number in range(1000):
        client.sadd("rqtui:queues", f"queue-{number}")
    engine = build_engine(client, [registry.create_system("native")])
    assert len(engine.refs) == 1000
    sought = engine.find_jobs_by_id((b"one",))  # takes 0.1 s, a third of it in Redis
    assert [ref.queue for ref, _job in sought.jobs] == ["queue-0"]


@pytest.mark.slow
@run_on_event_loop
async def test_a_description_is_whole_while_all_matches_fit(url: str, client: Redis) -> None:
    Seeded(client).put("a")
    async with screen(url) as ui:
        await ui.until_shown("mail")
        await ui.press("enter")
        await find(ui, "kill")
        await ui.until(lambda: lines(ui) and lines(ui)[0].startswith("kill "), "the verb")
        words = " ".join(lines(ui)[0].split())
        assert words.startswith("kill Kill live jobs: move them to dead with a reason, so that no worker runs them")
        assert "\n" in lines(ui)[0] and "…" not in words
        await ui.press("ctrl+u")
        await ui.until(lambda: len(lines(ui)) > 20, "all commands")
        assert not any("\n" in line for line in lines(ui)) and any(line.endswith("…") for line in lines(ui))
