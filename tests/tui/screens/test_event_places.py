"""Places without a key on the screen: since when they are heard, what was missed, and what their jobs can do."""

from __future__ import annotations

import re

import pytest
from crier_system import Crier, add_ready_jobs, crier, publish_begin, publish_end, publish_heartbeat
from proxy import Proxy
from redis import Redis
from screens import NARROW, Screen, run_on_event_loop, screen

from rqtui.config.settings import Settings
from rqtui.model import Job, State
from rqtui.system_base.event_cache import EventCache
from rqtui.tui.format import copy_formats

__all__ = ["crier"]  # a fixture


async def wait_until_listening(ui: Screen) -> None:
    """Wait until the screen listens to Pub/Sub events."""
    await ui.until(
        lambda: ui.app.session.engine and ui.app.session.engine.systems["crier"].events_since_ms, "listening"
    )


@pytest.mark.slow
@run_on_event_loop
async def test_a_job_that_ends_while_a_person_watches_appears_in_its_place(
    client: Redis, url: str, crier: type[Crier]
) -> None:
    add_ready_jobs(client, "mail", "a1", "b2", "c3")
    async with screen(url, NARROW, systems=("crier",)) as ui:
        await ui.until_shown("mail", "1 queue")
        await wait_until_listening(ui)
        publish_end(client, "mail", "a1")
        await ui.press("enter")
        await ui.until_shown("1 waiting 2", "3 finished 1")
        await ui.press("3")
        await ui.until_shown("from Pub/Sub events since", "a1")
        assert re.search(r"since \d\d:\d\d ·", ui.text())
        publish_end(client, "mail", "b2", error="ValueError: boom")
        await ui.press("4")
        await ui.until_shown("4 failed 1", "b2", "ValueError: boom")
        await ui.press("slash", *"err:boom", "enter")
        await ui.until_shown("1 of 1 match")
        await ui.press("enter")
        await ui.until_shown("ValueError: boom", "failed", "died")
        await ui.press("escape")
        await ui.press("escape")
        await ui.press("2")
        await ui.until_shown("nothing from Pub/Sub events since")


@run_on_event_loop
async def test_no_verb_is_offered_for_received_events(client: Redis, url: str, crier: type[Crier]) -> None:
    add_ready_jobs(client, "mail", "a1", "b2")
    async with screen(url, NARROW, systems=("crier",)) as ui:
        await ui.until_shown("mail", "1 queue")
        await wait_until_listening(ui)
        publish_end(client, "mail", "a1")
        await ui.press("enter")
        await ui.until_shown("1 waiting 1", "b2", "D delete")
        await ui.press("3")
        await ui.until_shown("a1", "from Pub/Sub events since")
        assert ui.app.verb_starter.check_verb_key("D") is None, "it is grey"
        await ui.press("D")
        await ui.until_refreshed()
        assert "a1" in ui.text() and client.lrange("crier:mail", 0, -1) == [b"b2"]


def test_its_redis_cli_line_receives_the_next_ones() -> None:
    source = copy_formats.JobSource(Crier(), "mail", "redis://db.example:7000/3")
    job = Job(b"a1", "mail", "crier", "finished", State.DONE, b"")
    line = copy_formats.format_redis_cli_lines([job], source).decode()
    assert line == "redis-cli -h db.example -p 7000 -n 3 PSUBSCRIBE crier.began crier.ended 'crier.beat*'"


@run_on_event_loop
async def test_a_gap_is_reported_on_the_frame(client: Redis, url: str, crier: type[Crier]) -> None:
    add_ready_jobs(client, "mail", "a1", "b2")
    with Proxy(url) as proxy:
        async with screen(proxy.url, NARROW, systems=("crier",)) as ui:
            await ui.until_shown("mail", "1 queue")
            await wait_until_listening(ui)
            publish_end(client, "mail", "a1")
            await ui.press("enter", "3")
            await ui.until_shown("a1", "from Pub/Sub events since")
            proxy.cut()
            await ui.until_shown("missed")
            assert "a1" in ui.text()


@pytest.mark.slow
@run_on_event_loop
async def test_a_user_who_may_not_listen_is_informed_which_right_is_missing(
    client: Redis, url: str, crier: type[Crier]
) -> None:
    add_ready_jobs(client, "mail", "a1")
    client.execute_command("ACL", "SETUSER", "deaf", "reset", "on", ">x", "~*", "resetchannels", "+@all")
    try:
        async with screen(url.replace("redis://", "redis://deaf:x@"), NARROW, systems=("crier",)) as ui:
            await ui.until_shown("mail", "1 queue")
            await ui.press("enter", "3")
            await ui.until_shown("no Pub/Sub events: the user may not listen to crier.", "the right", "&crier.")
            await ui.until_shown("1 waiting 1", "3 finished ?")
    finally:
        client.execute_command("ACL", "DELUSER", "deaf")


@run_on_event_loop
async def test_workers_known_from_events_and_their_jobs_are_in_their_view(
    client: Redis, url: str, crier: type[Crier]
) -> None:
    add_ready_jobs(client, "mail", "a1")
    async with screen(url, NARROW, systems=("crier",)) as ui:
        await ui.until_shown("mail", "1 queue")
        await wait_until_listening(ui)
        publish_heartbeat(client, "w1", "mail")
        publish_begin(client, "mail", "a1", worker="w1")
        await ui.press("w")
        await ui.until_shown("✓ running", "w1", "cry")


@run_on_event_loop
async def test_the_overview_reports_jobs_without_a_known_queue(client: Redis, url: str, crier: type[Crier]) -> None:
    add_ready_jobs(client, "mail", "a1", "b2")
    add_ready_jobs(client, "post", "c3")
    async with screen(url, NARROW, systems=("crier",)) as ui:
        await ui.until_shown("mail", "post")
        await wait_until_listening(ui)
        publish_end(client, "", "a1")
        publish_end(client, "post", "c3")
        await ui.until_shown("1 job of crier in finished: of no queue that is known here.")


@pytest.mark.slow
@run_on_event_loop
async def test_a_filter_searches_all_received_events(client: Redis, url: str, crier: type[Crier]) -> None:
    add_ready_jobs(client, "mail", "a1")
    async with screen(url, NARROW, systems=("crier",)) as ui:
        await ui.until_shown("mail", "1 queue")
        await wait_until_listening(ui)
        for number in range(450):
            publish_end(client, "mail", f"j{number}", name="odd" if number % 2 else "even")
        await ui.press("enter", "3")
        await ui.until_shown("3 finished 450", "j449")
        await ui.press("slash", *"job:odd", "enter")
        await ui.until_shown("225 of 450 match")
        await ui.press("escape", "G")
        await ui.until_shown("j0 ", "of 450")


@pytest.mark.slow
@run_on_event_loop
async def test_what_is_forgotten_counts_and_the_frame_reports_how_many_are_left(
    client: Redis, url: str, crier: type[Crier]
) -> None:
    add_ready_jobs(client, "mail", "a1")
    async with screen(url, NARROW, systems=("crier",)) as ui:
        await ui.until_shown("mail", "1 queue")
        await wait_until_listening(ui)
        system = ui.app.session.systems["crier"]
        assert isinstance(system, Crier)
        system.event_cache = EventCache(most=5)
        for number in range(12):
            publish_end(client, "mail", f"j{number}")
        await ui.press("enter", "3")
        await ui.until_shown("3 finished 12", "the last 5 of 12", "j11", "j7")
        assert "a sample" not in ui.text()
        await ui.press("right_square_bracket")
        await ui.until_refreshed()
        assert "j11" in ui.text()


@run_on_event_loop
async def test_read_only_and_calm_screens_listen_too(client: Redis, url: str, crier: type[Crier]) -> None:
    add_ready_jobs(client, "mail", "a1")
    async with screen(Settings(url, ("crier",), read_only=True, is_calm=True), NARROW) as ui:
        await ui.until_shown("mail", "1 queue")
        await wait_until_listening(ui)
        publish_end(client, "mail", "a1")
        await ui.press("enter", "3")
        await ui.until_shown("a1", "from Pub/Sub events since")
