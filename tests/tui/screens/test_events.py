"""The feed of events on the screen: driven by keys, read as text; and how it looks."""

# ruff: noqa: F811 (a fixture of another file is imported by name)
from __future__ import annotations

import asyncio
import time

import bullmq_subject
import pytest
from native_jobs import build_key
from redis import Redis
from screens import NARROW, WIDE, Seeded, read_text, run_on_event_loop, screen
from text_snapshots import check_snapshot, clock, planted_url  # noqa: F401 (fixtures)

from rqtui.connection.connect import connect
from rqtui.tui.screens import registry
from rqtui.tui.screens.events import Events
from screenshots.seeded import NOW, open_still_app


@run_on_event_loop
async def test_opening_the_feed_records_and_shows_what_moves(client: Redis, url: str) -> None:
    mail = Seeded(client)
    mail.put("before")
    async with screen(url) as ui:
        await ui.press("f")
        await ui.until_shown("● recording")
        mail.put("during")
        await ui.until_shown("enqueue", "during")
        assert "before" not in ui.text()
        mail.reserve(2)
        await ui.until_shown("reserve", "w1")
        left_ms = int(client.hget(build_key("meta"), "events")) - time.time() * 1000  # type: ignore[arg-type]
        assert 30_000 < left_ms <= 61_000, "it lapses by itself once nobody watches"


@pytest.mark.parametrize("size", [NARROW, WIDE])
@run_on_event_loop
async def test_the_kind_of_each_job_is_shown_without_a_round_trip_of_its_own(
    size: tuple[int, int], client: Redis, url: str
) -> None:
    mail = Seeded(client)
    mail.put("before")
    async with screen(url, size) as ui:
        await ui.press("f")
        await ui.until_shown("● recording")
        mail.put("first", "second")
        await ui.until(lambda: sum("enqueue" in row and "send " in row for row in ui.text().splitlines()) >= 2)
        view = ui.app.navigation.view
        assert isinstance(view, Events)
        await ui.until(lambda: not view._list_jobs_of_unknown_kind(), "no kind is requested twice")
        client.xadd(build_key("events"), {"verb": "ack", "id": "missing"})
        await ui.until(lambda: "missing" in ui.text() and not view._list_jobs_of_unknown_kind(), "nor of a missing job")


@run_on_event_loop
async def test_a_read_only_session_shows_what_is_recorded_and_turns_nothing_on(client: Redis, url: str) -> None:
    mail = Seeded(client)
    client.hset(build_key("meta"), mapping={"version": 1, "events": "on"})
    mail.put("recorded")
    client.hset(build_key("meta"), "events", "off")
    async with screen(url, read_only=True) as ui:
        await ui.press("f")
        await ui.until_shown("recorded", "not recorded, and read-only cannot begin it")
        await ui.until_refreshed()
        assert client.hget(build_key("meta"), "events") == b"off"


@pytest.mark.slow
@run_on_event_loop
async def test_where_configure_is_denied_the_feed_explains_why_nothing_is_recorded(client: Redis, url: str) -> None:
    Seeded(client).put("a")
    async with screen(url) as ui:
        assert ui.app.session.engine is not None
        ui.app.session.engine.denied = (("mail", ("configure",)),)
        await ui.press("f")
        await ui.until_toast("Not everything is recorded", "configure is denied")
        await ui.until_shown("○ not recorded")
        assert client.hget(build_key("meta"), "events") is None


@run_on_event_loop
async def test_the_feed_pauses_and_continues(client: Redis, url: str) -> None:
    mail = Seeded(client)
    mail.put("a")
    async with screen(url) as ui:
        await ui.press("f")
        await ui.until_shown("● recording")
        await ui.press("p")
        mail.put("while-paused")
        await ui.until_shown("paused", "1 wait")
        assert "while-paused" not in ui.text()
        await ui.press("p")
        await ui.until_shown("while-paused")


@run_on_event_loop
async def test_nothing_moves_under_the_cursor_away_from_the_head(client: Redis, url: str) -> None:
    mail = Seeded(client)
    mail.put("a")
    async with screen(url) as ui:
        await ui.press("f")
        await ui.until_shown("● recording")
        mail.put("one", "two", "three")
        await ui.until_shown("three", "one")
        table = ui.app.screen.query_one("#events")
        await ui.until(lambda: table.has_focus and len(table.rows) == 3, "the table has all three events")
        await ui.press("j")
        held = table.cursor_id
        assert held != table.rows[0].id
        mail.put("four")
        await ui.until_shown("four", "g follows again")
        assert table.cursor_id == held
        await ui.press("g")
        mail.put("five")
        await ui.until_shown("five")
        assert table.cursor_id == table.rows[0].id


@pytest.mark.slow
@run_on_event_loop
async def test_a_filter_works_while_it_is_typed_and_n_finds_the_next_failure(client: Redis, url: str) -> None:
    mail = Seeded(client)
    mail.put("a")
    async with screen(url) as ui:
        await ui.press("f")
        await ui.until_shown("● recording")
        mail.bury("broken-1")
        mail.put("fine-1", "fine-2")
        await ui.until_shown("× reject", "fine-2")
        await ui.press("n")
        events = ui.app.screen
        assert isinstance(events, Events) and "reject" in str(events._events_by_key[str(events._table.cursor_id)].verb)
        await ui.press("slash", '"fine-2')
        await ui.until(lambda: "fine-1" not in ui.text(), "the others go")
        await ui.press("enter")
        assert "fine-2" in ui.text() and "fine-1" not in ui.text()
        await ui.press("slash", "escape")
        await ui.until_shown("fine-1", "broken-1")


@pytest.mark.slow
@run_on_event_loop
async def test_enter_opens_the_job_of_an_event_or_reports_that_it_is_missing(client: Redis, url: str) -> None:
    mail = Seeded(client)
    mail.put("a")
    async with screen(url) as ui:
        await ui.press("f")
        await ui.until_shown("● recording")
        mail.put("stays")
        await ui.until_shown("stays")
        await ui.press("enter")
        await ui.until(lambda: ui.app.navigation.view and ui.app.navigation.view.NAME == "job", "the job's page")
        await ui.press("escape")
        mail.engine.apply_verb("delete", mail.ref, [job for job in mail.jobs("ready") if job.id == b"stays"])
        await ui.until_shown("delete")
        await ui.press("enter")
        await ui.until_toast("stays no longer exists")


@run_on_event_loop
async def test_hostile_names_do_no_harm_in_the_feed(client: Redis, url: str) -> None:
    mail = Seeded(client)
    mail.put("a")
    async with screen(url) as ui:
        await ui.press("f")
        await ui.until_shown("● recording")
        client.xadd(
            build_key("events"), {"verb": "\x1b[2Jverb", "id": b"\x1b]0;owned\x07[bold]\xff", "worker": "\u202ew"}
        )
        await ui.until_shown("[bold]")
        assert "\x1b" not in ui.text() and "\u202e" not in ui.text()


@run_on_event_loop
async def test_the_feed_of_bullmq_shows_its_stream_with_the_reasons_of_failures(client: Redis, url: str) -> None:
    bullmq_subject.plant_queue(client)
    bullmq_subject.plant_job(client, "7", "failed")
    failed = {"event": "failed", "jobId": "7", "failedReason": "password=hunter2 refused", "prev": "active"}
    bullmq_subject.plant_events(client, {"event": "active", "jobId": "7", "prev": "waiting"}, failed)
    async with screen(url) as ui:
        await ui.press("f")
        await ui.until_shown("● recording", "× failed", "password=•", "from waiting")
        assert "hunter2" not in ui.text()
        client.xadd(bullmq_subject.KEYS["events"], {"event": "waiting", "jobId": "7", "prev": "failed"})
        await ui.until_shown("from failed")


@run_on_event_loop
async def test_a_system_without_events_shows_what_this_screen_did(client: Redis, url: str) -> None:
    client.rpush("readytasklist", "a", "b")
    async with screen(url) as ui:
        await ui.press("f")
        await ui.until_shown("dispatcher records no events")


@run_on_event_loop
async def test_a_deleted_queue_is_not_made_again_by_its_feed(client: Redis, url: str) -> None:
    mail = Seeded(client)
    mail.put("a")
    async with screen(url) as ui:
        await ui.press("f")
        await ui.until_shown("● recording")
        client.delete(*client.keys("rqtui:{mail}:*"))
        await ui.until_refreshed()
        await ui.until_refreshed()
        await ui.until_refreshed()
        assert client.keys("rqtui:{mail}:meta") == []


@pytest.mark.slow
@run_on_event_loop
async def test_several_queues_are_one_feed_by_time(client: Redis, url: str) -> None:
    mail, images = Seeded(client), Seeded(client, "images")
    mail.put("a")
    images.put("b")
    async with screen(url, (100, 30)) as ui:
        ui.app.push_screen(registry.create_view("events", (mail.ref, images.ref)))
        ui.app.call_after_refresh(ui.app.navigation.draw_opened_view)
        await ui.until(lambda: client.hget(build_key("meta", "images"), "events"), "both are recorded")
        for queue, id in ((mail, "first"), (images, "second"), (mail, "third")):
            queue.put(id)
            await ui.until_shown(id)
        await ui.until_shown("first", "second", "third", "images", "2 queues")
        found = [ui.text().index(word) for word in ("third", "second", "first")]
        assert found == sorted(found), "the newest stands first"


@pytest.mark.slow
@pytest.mark.parametrize(
    "size",
    [pytest.param((160, 45), marks=pytest.mark.matrix), NARROW],
    ids=lambda size: f"{size[0]}x{size[1]}",
)
def test_the_feed_matches_its_snapshot(planted_url: str, clock: None, size: tuple[int, int]) -> None:
    with connect(planted_url) as client:
        client.delete(build_key("events"))
        client.hset(build_key("meta"), "events", "on")
        rows = [
            ("enqueue", "a", ""),
            ("reserve", "a", "w1"),
            ("reject", "a", ""),
            ("dispatch", "a", ""),
            ("ack", "b", ""),
        ]
        for number, (verb, id, worker) in enumerate(rows * 6):
            event_fields = {"verb": verb, "id": f"01jd8{number:04x}{id}", **({"worker": worker} if worker else {})}
            client.xadd(build_key("events"), event_fields, f"{NOW - 30_000 + 700 * number}-0")

    async def read_screen() -> str:
        async with open_still_app(planted_url, size, ("mail", "f")) as app:
            return read_text(app)

    check_snapshot(f"events-{size[0]}x{size[1]}", asyncio.run(read_screen()))
