"""Test hard cases of the screen, one by one.

Other files: no connection at the start (services/test_connection_lost.py), a link that stalls or drops
(services/test_slow_link.py), hostile bodies in bulk (test_fuzz_screen.py), sizes, themes, signals
(test_sizes_and_colours.py), calm and ASCII (services/test_calm.py), copies (services/test_copying.py).
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterator

import pytest
from families import name_case
from proxy import Proxy
from ptys import run_in_pty
from redis import Redis
from screens import NARROW, WIDE, Seeded, check_painted_rows, open_view, return_to_overview, run_on_event_loop, screen
from waiting import wait_until

from rqtui.client.queue import Queue
from rqtui.connection.meter import find_client_meter
from rqtui.engine import ticker
from rqtui.model import Ref, Snapshot
from rqtui.text.masking import MASK
from rqtui.tui.screens import registry

NOT_ON_A_TICK = ("KEYS", "SCAN", "SMEMBERS", "HGETALL", "LRANGE")


@pytest.fixture
def seeded(client: Redis) -> Seeded:
    return Seeded(client)


@pytest.fixture
def restricted(client: Redis, url: str) -> Iterator[str]:
    """Return the URL of a user without INFO, SLOWLOG, CONFIG, SCAN, HELLO and CLIENT."""
    denied = ["-info", "-slowlog", "-config", "-scan", "-hello", "-client", "-memory", "-latency"]
    client.execute_command("ACL", "SETUSER", "narrow", "on", ">sesame", "~*", "&*", "+@all", *denied)
    yield url.replace("://", "://narrow:sesame@")
    client.execute_command("ACL", "DELUSER", "narrow")


# ── ten million jobs, a thousand queues ──────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@run_on_event_loop
async def test_a_thousand_queues_cost_one_bounded_round_trip_a_tick(
    url: str, client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ticker, "MIN_DISCOVERY_INTERVAL_S", 3600.0)  # the look for other queues is no part of a tick
    pipe = client.pipeline(transaction=False)
    for number in range(1000):
        pipe.hset(f"rqtui:{{q{number:04}}}:meta", mapping={"version": 1, "seq": 1})
        pipe.zadd(f"rqtui:{{q{number:04}}}:ready", {"a": 1})
        pipe.sadd("rqtui:queues", f"q{number:04}")
    pipe.execute()
    with Proxy(url) as proxy:
        async with screen(proxy.url, WIDE, read_only=True) as ui:
            await ui.until_shown("1 000 queues")
            await ui.until_refreshed()
            first = len(proxy.requests)
            for _ in range(4):
                await ui.until_refreshed()
            asked = proxy.requests[first:]
            assert ui.app.session.snapshot is not None and ui.app.session.snapshot.cost.round_trips == 1
            assert len(asked) <= 5 * 250, f"{len(asked)} commands in four pictures"
            assert not [name for name in asked if name in NOT_ON_A_TICK]
            check_painted_rows(ui)
            await ui.press("G")
            await ui.until_refreshed()
            check_painted_rows(ui)


@pytest.mark.slow
@run_on_event_loop
async def test_a_place_of_a_hundred_thousand_is_counted_exactly_and_paged(url: str, client: Redis) -> None:
    Queue("mail", url).put_many([{"body": {}, "id": f"j{number:06}"} for number in range(100_000)])
    async with screen(url, NARROW, read_only=True) as ui:
        await ui.press("enter")
        await ui.until_shown("of 100 000")
        await ui.press("G")
        await ui.until_shown("j099999", "-100000 of 100 000")
        assert ui.app.session.snapshot is not None and ui.app.session.snapshot.cost.round_trips == 1


# ── hostile and broken bodies ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@run_on_event_loop
async def test_a_secret_is_masked_until_it_is_revealed_and_changes_work_on_the_raw_bytes(
    url: str, seeded: Seeded
) -> None:
    raw = b'{"password": "hunter2", "n": 1.0, "z": 1, "z": 2}'
    seeded.put("a1", body=raw)
    async with screen(url, WIDE) as ui:
        await ui.press("enter", "enter")
        await ui.until_shown(MASK)
        assert "hunter2" not in ui.text()
        await ui.press("c")
        await ui.until_shown("hunter2")
        await ui.press("escape", "D", "y")
        await ui.until_toast("delete: deleted")
        await ui.press("z")
        await ui.until(lambda: seeded.ids("ready") == ["a1"], "it is back")
        job = seeded.job("a1")
        assert job is not None and job.body == raw


@pytest.mark.slow
@run_on_event_loop
async def test_a_body_of_30_mb_is_shown_by_its_length_and_fetched_by_no_poll(url: str, client: Redis) -> None:
    Queue("mail", url).put(b'"' + b"x" * (30 << 20) + b'"', id="big")
    Queue("mail", url).put(b"{}", id="small")
    async with screen(url, NARROW, read_only=True) as ui:
        await ui.press("enter")
        await ui.until_shown("big", "small")
        await ui.press("enter")
        await ui.until_shown("30 MB")
        assert ui.app.session.snapshot is not None
        job = ui.app.session.snapshot.job
        assert job is not None and job.body_bytes == (30 << 20) + 2 and len(job.body or b"") <= 65536


UNDECODABLE = {
    "NaN": b'{"a": NaN, "b": -Infinity}',
    "deep": b"[" * 5000 + b"]" * 5000,
    "NUL": b"\x00\x01\x02",
    "no UTF-8": b"\xff\xfe",
    "empty": b"",
    "1e999": b'{"a":1e999}',
    "msgpack cut short": b"\x91",
}


@pytest.mark.slow
@run_on_event_loop
async def test_no_undecodable_body_breaks_a_page(url: str, client: Redis) -> None:
    for number, body in enumerate(UNDECODABLE.values()):
        with Queue(f"mail-{number}", url) as queue:
            queue.put(body, id=f"odd-{number}")
            queue.put(b"{}", id="even")
    async with screen(url, WIDE, read_only=True) as ui:
        for number, name in enumerate(UNDECODABLE):
            with name_case(name):
                ui.app.open_board(Ref("native", f"mail-{number}"))
                await ui.until_shown(f"odd-{number}", "even")
                check_painted_rows(ui)
                await ui.press("enter")
                await ui.until_shown(" body ")
                check_painted_rows(ui)
                await return_to_overview(ui)


@pytest.mark.slow
@run_on_event_loop
async def test_a_record_that_cannot_be_read_is_a_row_with_its_problem(url: str, seeded: Seeded) -> None:
    seeded.put("a1", "a2")
    seeded.client.hset("rqtui:{mail}:jobs", "a1", b"\xff no record")
    async with screen(url, WIDE) as ui:
        await ui.press("enter")
        await ui.until_shown("a1", "a2")
        check_painted_rows(ui)
        await ui.press("enter")
        await ui.pilot.pause()
        check_painted_rows(ui)


# ── restricted servers ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@run_on_event_loop
async def test_a_user_without_info_slowlog_config_scan_and_hello_can_work(
    url: str, restricted: str, seeded: Seeded
) -> None:
    seeded.put("a1", "a2")
    async with screen(restricted, NARROW) as ui:
        await ui.until_shown("mail", "write")
        await ui.press("enter")
        await ui.until_shown("a1", "a2")
        await ui.press("D", "y")
        await ui.until_toast("delete: deleted")
        assert seeded.ids("ready") == ["a2"]
        assert "sesame" not in ui.text()


@pytest.mark.slow
@run_on_event_loop
async def test_a_view_whose_command_is_denied_reports_it_and_the_rest_works(
    url: str, restricted: str, seeded: Seeded
) -> None:
    seeded.put("a1")
    async with screen(restricted, WIDE) as ui:
        await ui.until_shown("mail")
        for name in registry.VIEWS:
            with name_case(name):
                await open_view(ui, name)
                if name == "redis":
                    await ui.until(
                        lambda: "INFO" in ui.text().upper() and "SLOWLOG" in ui.text().upper(), "what is missing"
                    )
                check_painted_rows(ui)
                assert ui.app.session.connection_loss is None
                await ui.press("escape")
                await ui.until_shown("mail")


# ── the cost meter ───────────────────────────────────────────────────────────────────────────────────────────


@run_on_event_loop
async def test_the_header_shows_what_a_refresh_costs(url: str, seeded: Seeded) -> None:
    seeded.put("a1")
    async with screen(url, WIDE) as ui:
        await ui.until_shown("mail")
        await ui.until(
            lambda: any(word in ui.text().splitlines()[0] for word in ("commands in", "command in")), "the cost"
        )
        assert " ms" in ui.text().splitlines()[0]


def ms_of_scripts(client: Redis) -> float:
    """Return how long this server ran scripts, by its own count."""
    found = client.info("commandstats")
    return sum(found[name]["usec"] for name in found if name.startswith("cmdstat_eval")) / 1000


@pytest.mark.slow
@run_on_event_loop
async def test_the_meter_shows_the_whole_cost_of_many_queues(url: str, client: Redis) -> None:
    pipe = client.pipeline(transaction=False)
    for number in range(1500):
        pipe.hset(f"rqtui:{{q{number:04}}}:meta", mapping={"version": 1, "seq": 1})
        pipe.zadd(f"rqtui:{{q{number:04}}}:ready", {"a": 1})
        pipe.sadd("rqtui:queues", f"q{number:04}")
    pipe.execute()
    client.config_resetstat()
    pictures: list[Snapshot] = []
    with Proxy(url) as proxy:
        async with screen(proxy.url, WIDE) as ui:
            await ui.until_shown("1 500 queues")
            session = ui.app.session
            loops = session.loops.values()
            await ui.until(lambda: loops and all(loop.rounds for loop in loops), "the loops have looked")
            meter = find_client_meter(session.ticker.engine.client)
            assert meter

            def pictured() -> Snapshot | None:
                if session.snapshot and session.snapshot not in pictures[-1:]:
                    pictures.append(session.snapshot)
                return next(
                    (
                        each
                        for each in pictures
                        if each.interval_cost and each.interval_cost.round_trips > each.cost.round_trips
                    ),
                    None,
                )

            found = await ui.until(pictured, "a picture beside which more was asked")
            assert found.interval_cost.commands > found.cost.commands
            await ui.until(lambda: re.search(r"\d commands? in ", ui.text().splitlines()[0]), "what it cost")
        names = {"rqtui-ticker", *(f"rqtui-{loop.name}" for loop in loops)}
        wait_until(lambda: not names & {thread.name for thread in threading.enumerate()}, 20, "nobody asks any more")
        actual, asked = meter.compute_total_cost(), len(proxy.requests)
    assert asked - 200 < actual.commands <= asked, "all but what greets on a new connection"
    assert actual.ms > ms_of_scripts(client)


@pytest.mark.slow
@run_on_event_loop
async def test_a_refresh_that_takes_long_is_made_less_often(url: str, seeded: Seeded) -> None:
    seeded.put("a1")
    with Proxy(url, latency_s=0.05) as proxy:  # 100 ms a round trip: a tenth of a second, asked for every quarter
        async with screen(proxy.url, NARROW, read_only=True) as ui:
            await ui.until_refreshed()
            ui.may_request_refresh = False
            taken = []
            for _ in range(3):
                await ui.until_refreshed()
                assert ui.app.session.snapshot is not None
                taken.append(ui.app.session.snapshot.taken_ms)
            gaps = [after - before for before, after in zip(taken, taken[1:], strict=False)]
            assert min(gaps) >= 900, gaps


# ── bad input ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@pytest.mark.real_terminal
def test_pasted_text_full_of_capitals_triggers_no_verb(url: str, seeded: Seeded) -> None:
    seeded.put("a1", "a2")
    with run_in_pty([sys.executable, "-m", "rqtui", url]) as terminal:
        terminal.until(b"mail")
        terminal.press(b"\r")
        terminal.until(b"a2")
        terminal.press(b"\x1b[200~DyKyRyNPyAyz,.\r\x1b[201~")
        terminal.read(0.5)
        terminal.press(b"?")
        terminal.until(b"Esc closes")
        assert b"cancel" not in terminal.output and b"deleted" not in terminal.output
        terminal.press(b"\x1b")
        terminal.read(0.3)
        terminal.press(b"qq")
        terminal.until_ended()
    assert seeded.ids("ready") == ["a1", "a2"]
    assert not seeded.client.hget("rqtui:{mail}:meta", "paused")


@pytest.mark.slow
@run_on_event_loop
async def test_keys_of_a_queue_that_vanish_under_its_board_leave_a_sentence(url: str, seeded: Seeded) -> None:
    seeded.put("a1", "a2")
    async with screen(url, NARROW) as ui:
        await ui.press("enter", "space")
        await ui.until_shown("1 marked")
        seeded.client.delete(*seeded.client.keys("rqtui:{mail}:*"))
        await ui.until(lambda: "ready 0" in ui.text(), "it is empty")
        check_painted_rows(ui)
        await ui.press("D", "y")
        await ui.until_toast("delete: no such job")
        check_painted_rows(ui)
        assert seeded.client.keys("rqtui:{mail}:*") in ([], [b"rqtui:{mail}:meta"])
