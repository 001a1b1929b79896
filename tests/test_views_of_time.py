"""Events, metrics and Redis on the screen: driven by keys, read as text; and how they look."""

# ruff: noqa: F811 (a fixture of another file is imported by name)
from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator

import pytest
from native_jobs import key
from redis import Redis
from screens import NARROW, WIDE, Seeded, on_screen, screen, text_of
from test_snapshots import planted, same_as_kept  # noqa: F401 (a fixture)

from rqtui.embedded import EmbeddedServer
from rqtui.server import connect
from rqtui.tui import views
from rqtui.tui.views.events import Events
from rqtui.tui.views.metrics import Metrics
from screenshots.seeded import NOW, still


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The clock stands at NOW, in UTC."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        patch.setattr(time, "time", lambda: NOW / 1000)
        yield
    time.tzset()


# -- events -----------------------------------------------------------------------------------------------------------


@on_screen
async def test_opening_the_feed_records_and_shows_what_moves(client: Redis, url: str) -> None:
    mail = Seeded(client)
    mail.put("before")
    async with screen(url) as it:
        await it.press("f")
        await it.until_shown("● recording")
        mail.put("during")
        await it.until_shown("enqueue", "during")
        assert "before" not in it.text()
        mail.reserve(2)
        await it.until_shown("reserve", "w1")
        left_ms = int(client.hget(key("meta"), "events")) - time.time() * 1000  # type: ignore[arg-type]
        assert 30_000 < left_ms <= 61_000, "it lapses by itself once nobody watches"


@on_screen
async def test_a_read_only_session_shows_what_is_recorded_and_turns_nothing_on(client: Redis, url: str) -> None:
    mail = Seeded(client)
    client.hset(key("meta"), mapping={"version": 1, "events": "on"})
    mail.put("recorded")
    client.hset(key("meta"), "events", "off")
    async with screen(url, read_only=True) as it:
        await it.press("f")
        await it.until_shown("recorded", "not recorded, and read-only cannot begin it")
        await it.until_refreshed()
        assert client.hget(key("meta"), "events") == b"off"


@on_screen
async def test_where_configure_is_denied_the_feed_says_why_nothing_is_recorded(client: Redis, url: str) -> None:
    Seeded(client).put("a")
    async with screen(url) as it:
        assert it.app.engine is not None
        it.app.engine.denied = (("mail", ("configure",)),)
        await it.press("f")
        await it.until_told("Not everything is recorded", "configure is denied")
        await it.until_shown("○ not recorded")
        assert client.hget(key("meta"), "events") is None


@on_screen
async def test_the_feed_pauses_and_goes_on(client: Redis, url: str) -> None:
    mail = Seeded(client)
    mail.put("a")
    async with screen(url) as it:
        await it.press("f")
        await it.until_shown("● recording")
        await it.press("p")
        mail.put("while-paused")
        await it.until_shown("paused", "1 wait")
        assert "while-paused" not in it.text()
        await it.press("p")
        await it.until_shown("while-paused")


@on_screen
async def test_nothing_moves_under_the_cursor_away_from_the_head(client: Redis, url: str) -> None:
    mail = Seeded(client)
    mail.put("a")
    async with screen(url) as it:
        await it.press("f")
        await it.until_shown("● recording")
        mail.put("one", "two", "three")
        await it.until_shown("three", "one")
        await it.press("j")
        held = it.app.screen.query_one("#events").cursor_id
        mail.put("four")
        await it.until_shown("four", "g follows again")
        assert it.app.screen.query_one("#events").cursor_id == held
        await it.press("g")
        mail.put("five")
        await it.until_shown("five")
        table = it.app.screen.query_one("#events")
        assert table.cursor_id == table.rows[0].id


@on_screen
async def test_a_filter_works_while_it_is_typed_and_n_finds_the_next_failure(client: Redis, url: str) -> None:
    mail = Seeded(client)
    mail.put("a")
    async with screen(url) as it:
        await it.press("f")
        await it.until_shown("● recording")
        mail.bury("broken-1")
        mail.put("fine-1", "fine-2")
        await it.until_shown("× reject", "fine-2")
        await it.press("n")
        events = it.app.screen
        assert isinstance(events, Events) and "reject" in str(events._by_key[str(events._table.cursor_id)].verb)
        await it.press("slash", '"fine-2')
        await it.until(lambda: "fine-1" not in it.text(), "the others go")
        await it.press("enter")
        assert "fine-2" in it.text() and "fine-1" not in it.text()
        await it.press("slash", "escape")
        await it.until_shown("fine-1", "broken-1")


@on_screen
async def test_enter_opens_the_job_of_an_event_or_says_that_it_is_gone(client: Redis, url: str) -> None:
    mail = Seeded(client)
    mail.put("a")
    async with screen(url) as it:
        await it.press("f")
        await it.until_shown("● recording")
        mail.put("stays")
        await it.until_shown("stays")
        await it.press("enter")
        await it.until(lambda: it.app.view and it.app.view.NAME == "job", "the job's page")
        await it.press("escape")
        mail.engine.act("delete", mail.ref, [job for job in mail.jobs("ready") if job.id == b"stays"])
        await it.until_shown("delete")
        await it.press("enter")
        await it.until_told("stays is gone")


@on_screen
async def test_hostile_names_do_no_harm_in_the_feed(client: Redis, url: str) -> None:
    mail = Seeded(client)
    mail.put("a")
    async with screen(url) as it:
        await it.press("f")
        await it.until_shown("● recording")
        client.xadd(key("events"), {"verb": "\x1b[2Jverb", "id": b"\x1b]0;owned\x07[bold]\xff", "worker": "\u202ew"})
        await it.until_shown("[bold]")
        assert "\x1b" not in it.text() and "\u202e" not in it.text()


@on_screen
async def test_a_system_without_events_shows_what_this_screen_did(client: Redis, url: str) -> None:
    client.rpush("readytasklist", "a", "b")
    async with screen(url) as it:
        await it.press("f")
        await it.until_shown("dispatcher records no events")


@on_screen
async def test_a_deleted_queue_is_not_made_again_by_its_feed(client: Redis, url: str) -> None:
    mail = Seeded(client)
    mail.put("a")
    async with screen(url) as it:
        await it.press("f")
        await it.until_shown("● recording")
        client.delete(*client.keys("rqtui:{mail}:*"))
        await it.until_refreshed()
        await it.until_refreshed()
        await it.until_refreshed()
        assert client.keys("rqtui:{mail}:meta") == []


@on_screen
async def test_several_queues_are_one_feed_by_time(client: Redis, url: str) -> None:
    mail, images = Seeded(client), Seeded(client, "images")
    mail.put("a")
    images.put("b")
    async with screen(url, (100, 30)) as it:
        it.app.push_screen(views.make("events", (mail.ref, images.ref)))
        it.app.call_after_refresh(it.app._opened)
        await it.until(lambda: client.hget(key("meta", "images"), "events"), "both are recorded")
        for queue, id in ((mail, "first"), (images, "second"), (mail, "third")):
            queue.put(id)
            await it.until_shown(id)
        await it.until_shown("first", "second", "third", "images", "2 queues")
        found = [it.text().index(word) for word in ("third", "second", "first")]
        assert found == sorted(found), "the newest stands first"


# -- metrics ----------------------------------------------------------------------------------------------------------


def spread(client: Redis) -> None:
    """Three hours in which something happened now and then."""
    now_ms = int(time.time()) // 60 * 60_000
    counted = {"enqueued": 0, "acked": 0, "rejected": 0}
    client.delete(key("minutes"))
    for minute in range(180, 0, -5):
        client.xadd(
            key("minutes"), {name.encode(): number for name, number in counted.items()}, f"{now_ms - minute * 60_000}-0"
        )
        counted = {
            "enqueued": counted["enqueued"] + 600,
            "acked": counted["acked"] + 500,
            "rejected": counted["rejected"] + 60,
        }
    client.hset(key("meta"), mapping={"version": 1, **counted})


@on_screen
async def test_the_plots_tell_rates_and_their_ranges_change(client: Redis, url: str) -> None:
    Seeded(client).put("a")
    spread(client)
    async with screen(url) as it:
        await it.press("m")
        await it.until_shown("throughput", "depth", "failures", "oldest ready")
        await it.press("2")
        await it.until_shown("backlog in time", "⣿")
        metrics = it.app.screen
        assert isinstance(metrics, Metrics) and metrics._minutes == 60
        await it.press("right_square_bracket")
        await it.until(lambda: metrics._minutes == 1440 and metrics._loaded > 1440)
        await it.press("left_square_bracket", "left_square_bracket")
        await it.until_shown("oldest ready")


@on_screen
async def test_the_hour_counts_what_happened_in_it(client: Redis, url: str) -> None:
    Seeded(client).put("a")
    spread(client)
    async with screen(url, (160, 45)) as it:
        await it.press("m", "2")
        await it.until(lambda: re.search(r"(660|720|780) of \d \d{3} attempts", it.text()), "the hour's failures")


@on_screen
async def test_several_queues_are_added_up_in_the_plots(client: Redis, url: str) -> None:
    mail, images = Seeded(client), Seeded(client, "images")
    mail.put("a", "b")
    images.put("c")
    async with screen(url) as it:
        it.app.push_screen(views.make("metrics", (mail.ref, images.ref)))
        it.app.call_after_refresh(it.app._opened)
        await it.until_shown("2 queues together", "not done 3")


@on_screen
async def test_a_system_without_counters_shows_depth_and_says_so(client: Redis, url: str) -> None:
    client.rpush("readytasklist", "a", "b")
    async with screen(url) as it:
        await it.press("m")
        await it.until_shown("counts nothing by the minute", "not done 2")


@on_screen
async def test_ascii_plots_have_no_braille(client: Redis, url: str) -> None:
    Seeded(client).put("a")
    spread(client)
    async with screen(url) as it:
        await it.press("m", "2")
        await it.until_shown("backlog in time")
        for pane in it.app.screen.query("PlotPane"):
            pane._ascii_only = True
            pane.refresh()
        await it.until_shown("#")
        assert not [letter for letter in it.text() if 0x2800 <= ord(letter) < 0x2900]


@on_screen
async def test_on_a_small_terminal_two_plots_stay(client: Redis, url: str) -> None:
    Seeded(client).put("a")
    async with screen(url, (60, 16)) as it:
        await it.press("m")
        await it.until_shown("throughput", "depth")
        assert "failures" not in it.text()


# -- Redis ------------------------------------------------------------------------------------------------------------


@on_screen
async def test_the_server_is_told_a_panel_per_subject(client: Redis, url: str) -> None:
    Seeded(client).put("a")
    async with screen(url, (160, 45)) as it:
        await it.press("i")
        await it.until_shown("primary", "memory", "clients", "traffic", "commands by time", "slow commands", "db0")
        await it.until_shown("nothing is kept on disk", "CONFIG SET appendonly yes")


@on_screen
async def test_a_denied_panel_says_so_in_its_own_frame(real_server: EmbeddedServer, client: Redis, url: str) -> None:
    Seeded(client).put("a")
    client.execute_command("ACL", "SETUSER", "half", "reset", "on", ">pw", "~*", "+@all", "-slowlog", "-client|list")
    try:
        async with screen(url.replace("redis://", "redis://half:pw@"), (160, 45)) as it:
            await it.press("i")
            await it.until_shown("ACL SETUSER half +slowlog|get", "ACL SETUSER half +client|list", "noeviction")
    finally:
        client.execute_command("ACL", "DELUSER", "half")


@on_screen
async def test_a_server_without_info_still_has_a_page(fake_server: EmbeddedServer) -> None:
    async with screen(fake_server.url) as it:
        await it.press("i")
        await it.until_shown("this server has no", "round trip")


@on_screen
async def test_its_panels_scroll_by_the_keys_of_tables(client: Redis, url: str) -> None:
    Seeded(client).put("a")
    async with screen(url) as it:
        await it.press("i")
        await it.until_shown("memory")
        await it.press("G")
        await it.until_shown("commands by time", "db0")
        await it.press("g")
        await it.until_shown("memory")


# -- how they look ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(160, 45), NARROW], ids=lambda size: f"{size[0]}x{size[1]}")
def test_the_feed_looks_as_it_did(planted: str, clock: None, size: tuple[int, int]) -> None:
    with connect(planted) as client:
        client.delete(key("events"))
        client.hset(key("meta"), "events", "on")
        rows = [
            ("enqueue", "a", ""),
            ("reserve", "a", "w1"),
            ("reject", "a", ""),
            ("dispatch", "a", ""),
            ("ack", "b", ""),
        ]
        for number, (verb, id, worker) in enumerate(rows * 6):
            told = {"verb": verb, "id": f"01jd8{number:04x}{id}", **({"worker": worker} if worker else {})}
            client.xadd(key("events"), told, f"{NOW - 30_000 + 700 * number}-0")

    async def look() -> str:
        async with still(planted, size, ("mail", "f")) as app:
            return text_of(app)

    same_as_kept(f"events-{size[0]}x{size[1]}", asyncio.run(look()))


@pytest.mark.parametrize("size", [(160, 45), NARROW], ids=lambda size: f"{size[0]}x{size[1]}")
def test_the_plots_look_as_they_did(planted: str, clock: None, size: tuple[int, int]) -> None:
    async def look() -> str:
        async with still(planted, size, ("mail", "m", "2")) as app:
            return text_of(app)

    same_as_kept(f"metrics-{size[0]}x{size[1]}", asyncio.run(look()))


@pytest.mark.parametrize("size", [(160, 45), NARROW], ids=lambda size: f"{size[0]}x{size[1]}")
def test_the_server_looks_as_it_did(
    planted: str, clock: None, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    from rqtui.reports import redis
    from rqtui.reports.redis import Command, Report, Slow
    from rqtui.server import ServerInfo

    info = {
        "connected_slaves": "1", "aof_enabled": "1", "aof_last_write_status": "ok", "used_memory": "912680550",
        "maxmemory": "1073741824", "used_memory_peak": "1002680550",
        "evicted_keys": "0", "mem_fragmentation_ratio": "1.1",
        "number_of_cached_scripts": "23", "connected_clients": "48", "maxclients": "10000", "blocked_clients": "12",
        "instantaneous_ops_per_sec": "4210", "instantaneous_input_kbps": "812.10", "instantaneous_output_kbps": "30.55",
        "keyspace_hits": "91", "keyspace_misses": "9", "total_error_replies": "18", "rejected_connections": "0",
        "expired_keys": "0", "rdb_last_save_time": str(NOW // 1000 - 512), "rdb_last_bgsave_status": "ok",
    }  # fmt: skip
    server = ServerInfo(
        "redis", "7.0.15", "primary", "standalone", 912680550, 1073741824, "noeviction", True, 48, 400_000
    )
    commands = tuple(
        Command(name, 90_000 // n, 500_000 // n, 0) for n, name in enumerate(("evalsha", "zadd", "hget"), 1)
    )
    slow = (Slow(NOW - 4000, 12_300, ("EVALSHA", "x", "2", "rqtui:{mail}:ready", "b", "500"), "native/page", "w1"),)
    found = Report(
        server, info, NOW, 0.4, 3, (("worker", 40), ("rqtui", 5), ("", 3)), commands, slow, 10_000, (("db0", 812, 0),),
        tuple(redis.health.findings_of(server)), {},
    )  # fmt: skip
    monkeypatch.setattr(redis, "look", lambda client: found)

    async def look() -> str:
        async with still(planted, size, ("mail", "i")) as app:
            return text_of(app)

    same_as_kept(f"redis-{size[0]}x{size[1]}", asyncio.run(look()))


@on_screen
async def test_from_all_queues_together_metrics_and_events_are_about_all_of_them(client: Redis, url: str) -> None:
    Seeded(client, "mail").put("a", "b")
    Seeded(client, "images").put("c")
    async with screen(url) as it:
        await it.press("e", "quotation_mark", "m")
        await it.until_shown("2 queues together", "not done 3")
        await it.press("f")
        await it.until_shown("● recording", "2 queues")
        Seeded(client, "images").put("later")
        await it.until_shown("later", "images")


@on_screen
@pytest.mark.parametrize(
    ("key", "words"), [("f", "the 50 busiest of 53 queues"), ("m", "the 50 busiest queues together")]
)
async def test_of_many_queues_the_busiest_are_followed_and_the_view_says_so(
    url: str, client: Redis, key: str, words: str
) -> None:
    for number in range(52):
        Seeded(client, f"q-{number:02}").put("a")
    busy = Seeded(client, "q-99")
    busy.put(*(f"job-{number}" for number in range(30)))
    async with screen(url, size=WIDE) as it:
        await it.until_shown("q-00", "30")
        await it.press("e", "quotation_mark", key)
        await it.until_shown(words)
        view = it.app.view
        assert isinstance(view, Events | Metrics)
        assert busy.ref in (view._told if isinstance(view, Events) else view._refs)
