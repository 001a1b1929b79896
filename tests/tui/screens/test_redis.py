"""The page of the server on the screen: driven by keys, read as text; and how it looks."""

# ruff: noqa: F811 (a fixture of another file is imported by name)
from __future__ import annotations

import asyncio
import os
import re
import time
from contextlib import suppress
from pathlib import Path

import pytest
from redis import Redis
from screens import NARROW, WIDE, Seeded, read_text, run_on_event_loop, screen
from text_snapshots import check_snapshot, clock, planted_url  # noqa: F401 (fixtures)

from rqtui.config.settings import Settings
from rqtui.connection.embedded import EmbeddedServer
from rqtui.recording.files import find_recording_path
from rqtui.recording.records import ServerPeriod
from rqtui.recording.store import Batch, Writer
from screenshots.seeded import NOW, open_still_app


@pytest.mark.slow
@run_on_event_loop
async def test_the_server_is_described_in_a_panel_per_subject(client: Redis, url: str) -> None:
    Seeded(client).put("a")
    async with screen(url, (160, 45)) as ui:
        await ui.press("i")
        await ui.until_shown("primary", "memory", "clients", "traffic", "commands by time", "slow commands", "db0")
        client.config_set("save", "")
        await ui.until_shown("nothing is kept on disk", "CONFIG SET appendonly yes")


@run_on_event_loop
async def test_a_denied_panel_reports_it_in_its_own_frame(real_server: EmbeddedServer, client: Redis, url: str) -> None:
    Seeded(client).put("a")
    client.execute_command("ACL", "SETUSER", "half", "reset", "on", ">pw", "~*", "+@all", "-slowlog", "-client|list")
    try:
        async with screen(url.replace("redis://", "redis://half:pw@"), (160, 45)) as ui:
            await ui.press("i")
            await ui.until_shown("ACL SETUSER half +slowlog|get", "ACL SETUSER half +client|list", "noeviction")
    finally:
        client.execute_command("ACL", "DELUSER", "half")


@run_on_event_loop
async def test_a_server_without_info_still_has_a_page(fake_server: EmbeddedServer) -> None:
    async with screen(fake_server.url) as ui:
        await ui.press("i")
        await ui.until_shown("this server has no", "round trip")


@pytest.mark.slow
@run_on_event_loop
async def test_its_panels_scroll_by_the_keys_of_tables(client: Redis, url: str) -> None:
    Seeded(client).put("a")
    async with screen(url) as ui:
        await ui.press("i")
        await ui.until_shown("memory")
        await ui.press("G")
        await ui.until_shown("commands by time", "db0")
        await ui.press("g")
        await ui.until_shown("memory")


@pytest.mark.slow
@pytest.mark.parametrize(
    "size",
    [pytest.param((160, 45), marks=pytest.mark.matrix), NARROW],
    ids=lambda size: f"{size[0]}x{size[1]}",
)
def test_the_server_matches_its_snapshot(
    planted_url: str, clock: None, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    from rqtui.connection.connect import ServerInfo
    from rqtui.reports import redis
    from rqtui.reports.redis import Command, Report, SlowCommand

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
    slow = (
        SlowCommand(NOW - 4000, 12_300, ("EVALSHA", "x", "2", "rqtui:{mail}:ready", "b", "500"), "native/page", "w1"),
    )
    found = Report(
        server, info, NOW, 0.4, 3, (("worker", 40), ("rqtui", 5), ("", 3)), commands, slow, 10_000, (("db0", 812, 0),),
        tuple(redis.server_rules.check_server_info(server)), {},
    )  # fmt: skip
    monkeypatch.setattr(redis, "read_report", lambda client: found)

    async def read_screen() -> str:
        async with open_still_app(planted_url, size, ("mail", "i")) as app:
            return read_text(app)

    check_snapshot(f"redis-{size[0]}x{size[1]}", asyncio.run(read_screen()))


@pytest.mark.slow
@run_on_event_loop
async def test_the_recorded_memory_of_the_last_hour_is_plotted(url: str, client: Redis, state_folder: Path) -> None:
    Seeded(client).put("a")
    minute_ms = int(time.time() // 60) * 60_000
    minutes = [
        ServerPeriod(minute_ms - ago * 60_000, 60_000, 30, 60_000, 2.0, 1.0, 10_000_000 * (40 - ago), None, "primary")
        for ago in (*range(30, 20, -1), *range(10, 0, -1))
    ]
    with Writer.open(find_recording_path(state_folder, url), url) as writer:
        writer.append(Batch(server=minutes))
    async with screen(url, WIDE) as ui:
        await ui.press("i")
        await ui.until_shown("memory in the last hour", "used memory in bytes", "maxmemory is not set", "500MB")
        rows = [line for line in ui.text().splitlines() if "⣿" in line]
        assert len(rows) >= 4 and all(re.search("⣿[^⣿]* {9,}⣿", row) for row in rows[-2:]), (
            "the ten minutes without a record are a gap"
        )
    async with screen(url) as ui:
        await ui.press("i")
        await ui.until_shown("clients")
        assert "in the last hour" not in ui.text(), "a small terminal has no space for a plot"


@run_on_event_loop
async def test_without_a_recording_a_sentence_is_in_place_of_the_plot(url: str, client: Redis) -> None:
    Seeded(client).put("a")
    async with screen(Settings(url, is_recording=False), WIDE) as ui:
        await ui.press("i")
        await ui.until_shown("There is no plot of the memory in the last hour: recording is turned off (record).")


@run_on_event_loop
async def test_the_plot_of_the_memory_opens_the_recording_no_second_time(url: str, client: Redis) -> None:
    Seeded(client).put("a")
    async with screen(url, WIDE) as ui:
        answers: list[object] = []
        session = ui.app.session
        await ui.until(
            lambda: session.read_recording(lambda _store: 1, lambda result, _problem: answers.append(result))
        )
        await ui.until(lambda: answers, "a recorder that answers")
        before = count_open_recordings()
        await ui.press("i")
        await ui.until_shown("less than two minutes of it")
        assert count_open_recordings() <= before


def count_open_recordings() -> int:
    """Return how many descriptors of this process are open on files of recordings."""
    count = 0
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # It was closed meanwhile.
            count += "recording" in os.readlink(descriptor)
    return count
