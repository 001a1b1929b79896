"""The plots of metrics on the screen: driven by keys, read as text; and how they look."""

# ruff: noqa: F811 (a fixture of another file is imported by name)
from __future__ import annotations

import asyncio
import re
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import bullmq_subject
import pytest
from native_jobs import build_key
from recordings import QUEUE, build_period, open_writer
from redis import Redis
from screens import NARROW, WIDE, Seeded, read_text, run_on_event_loop, screen
from text_snapshots import check_snapshot, clock, planted_url  # noqa: F401 (fixtures)

from rqtui.config.settings import Settings
from rqtui.model import Ref
from rqtui.operations.journal import Operation, to_document
from rqtui.recording.files import find_recording_path
from rqtui.recording.records import HOUR_MS, MINUTE_MS, RecordedChange, RecordedFinding
from rqtui.recording.store import Batch
from rqtui.tui.screens import registry
from rqtui.tui.screens.events import Events
from rqtui.tui.screens.metrics import Metrics, PlotPane
from screenshots.seeded import open_still_app


def spread(client: Redis) -> None:
    """Three hours in which something happened now and then."""
    now_ms = int(time.time()) // 60 * 60_000
    counted = {"enqueued": 0, "acked": 0, "rejected": 0}
    client.delete(build_key("minutes"))
    for minute in range(180, 0, -5):
        client.xadd(
            build_key("minutes"),
            {name.encode(): number for name, number in counted.items()},
            f"{now_ms - minute * 60_000}-0",
        )
        counted = {
            "enqueued": counted["enqueued"] + 600,
            "acked": counted["acked"] + 500,
            "rejected": counted["rejected"] + 60,
        }
    client.hset(build_key("meta"), mapping={"version": 1, **counted})


@pytest.mark.slow
@run_on_event_loop
async def test_the_plots_show_rates_and_their_ranges_change(client: Redis, url: str) -> None:
    Seeded(client).put("a")
    spread(client)
    async with screen(url) as ui:
        await ui.press("m")
        await ui.until_shown("throughput", "depth", "failures", "oldest ready")
        await ui.press("2")
        await ui.until_shown("backlog in time", "⣿")
        metrics = ui.app.screen
        assert isinstance(metrics, Metrics) and metrics._minutes == 60
        await ui.press("right_square_bracket")
        await ui.until(lambda: metrics._minutes == 1440 and metrics._loaded_minutes > 1440)
        await ui.press("left_square_bracket", "left_square_bracket")
        await ui.until_shown("oldest ready")


@pytest.mark.slow
@run_on_event_loop
async def test_the_hour_counts_what_happened_in_it(client: Redis, url: str) -> None:
    Seeded(client).put("a")
    spread(client)
    async with screen(url, (160, 45)) as ui:
        await ui.press("m", "2")
        await ui.until(lambda: re.search(r"(660|720|780) of \d \d{3} attempts", ui.text()), "the hour's failures")


@run_on_event_loop
async def test_several_queues_are_added_up_in_the_plots(client: Redis, url: str) -> None:
    mail, images = Seeded(client), Seeded(client, "images")
    mail.put("a", "b")
    images.put("c")
    async with screen(url) as ui:
        ui.app.push_screen(registry.create_view("metrics", (mail.ref, images.ref)))
        ui.app.call_after_refresh(ui.app.navigation.draw_opened_view)
        await ui.until_shown("2 queues together", "not done 3")


@run_on_event_loop
async def test_the_plots_show_the_metrics_of_bullmq_before_the_view_was_opened(client: Redis, url: str) -> None:
    bullmq_subject.plant_queue(client)
    bullmq_subject.plant_job(client, "a", "wait")
    now_ms = int(client.time()[0]) * 1000
    bullmq_subject.plant_metrics(client, "completed", [600] * 30, 10, now_ms)
    bullmq_subject.plant_metrics(client, "failed", [60] * 10, 1, now_ms)
    async with screen(url) as ui:
        await ui.press("m")
        await ui.until_shown("throughput", "most 10/s", "⣿", "jobs")
        assert "counts nothing" not in ui.text()
        await ui.press("2")
        await ui.until_shown("601 of 18 611 jobs", "nothing is known of this time yet")


@pytest.mark.slow
@run_on_event_loop
async def test_bullmq_without_metrics_counts_nothing_by_the_minute(client: Redis, url: str) -> None:
    bullmq_subject.plant_queue(client)
    bullmq_subject.plant_job(client, "a", "wait")
    async with screen(url) as ui:
        await ui.press("m")
        await ui.until_shown("counts nothing by the minute", "not done 1")


@run_on_event_loop
async def test_a_system_without_counters_shows_depth_and_reports_it(client: Redis, url: str) -> None:
    client.rpush("readytasklist", "a", "b")
    async with screen(url) as ui:
        await ui.press("m")
        await ui.until_shown("counts nothing by the minute", "not done 2")


@pytest.mark.slow
@run_on_event_loop
async def test_ascii_plots_have_no_braille(client: Redis, url: str) -> None:
    Seeded(client).put("a")
    spread(client)
    async with screen(url) as ui:
        await ui.press("m", "2")
        await ui.until_shown("backlog in time")
        for pane in ui.app.screen.query("PlotPane"):
            pane._ascii_only = True
            pane.refresh()
        await ui.until_shown("#")
        assert not [letter for letter in ui.text() if 0x2800 <= ord(letter) < 0x2900]


@run_on_event_loop
async def test_on_a_small_terminal_two_plots_stay(client: Redis, url: str) -> None:
    Seeded(client).put("a")
    async with screen(url, (60, 16)) as ui:
        await ui.press("m")
        await ui.until_shown("throughput", "depth")
        assert "failures" not in ui.text()


@pytest.mark.slow
@pytest.mark.parametrize(
    "size",
    [pytest.param((160, 45), marks=pytest.mark.matrix), NARROW],
    ids=lambda size: f"{size[0]}x{size[1]}",
)
def test_the_plots_match_their_snapshots(planted_url: str, clock: None, size: tuple[int, int]) -> None:
    async def read_screen() -> str:
        async with open_still_app(planted_url, size, ("mail", "m", "2")) as app:
            return read_text(app)

    check_snapshot(f"metrics-{size[0]}x{size[1]}", asyncio.run(read_screen()))


@pytest.mark.slow
@run_on_event_loop
async def test_from_all_queues_together_metrics_and_events_are_about_all_of_them(client: Redis, url: str) -> None:
    Seeded(client, "mail").put("a", "b")
    Seeded(client, "images").put("c")
    async with screen(url) as ui:
        await ui.press("e", "quotation_mark", "m")
        await ui.until_shown("2 queues together", "not done 3")
        await ui.press("f")
        await ui.until_shown("● recording", "2 queues")
        Seeded(client, "images").put("later")
        await ui.until_shown("later", "images")


@pytest.mark.slow
@run_on_event_loop
@pytest.mark.parametrize(
    ("key", "words"), [("f", "the 50 busiest of 53 queues"), ("m", "the 50 busiest queues together")]
)
async def test_the_busiest_of_many_queues_are_followed_and_the_view_reports_it(
    url: str, client: Redis, key: str, words: str
) -> None:
    for number in range(52):
        Seeded(client, f"q-{number:02}").put("a")
    busy = Seeded(client, "q-99")
    busy.put(*(f"job-{number}" for number in range(30)))
    async with screen(url, size=WIDE) as ui:
        await ui.until_shown("q-00", "53 queues")
        await ui.press("e", "quotation_mark", key)
        await ui.until_shown(words)
        view = ui.app.navigation.view
        assert isinstance(view, Events | Metrics)
        assert busy.ref in (view._read_refs if isinstance(view, Events) else view._refs)


@run_on_event_loop
async def test_the_longest_range_shows_what_sidekiq_counts_by_the_day(client: Redis, url: str) -> None:
    client.sadd("queues", "mail")
    client.lpush("queue:mail", '{"class":"HardJob","args":[],"jid":"0123456789abcdef01234567","queue":"mail"}')
    now = datetime.fromtimestamp(int(client.time()[0]), UTC)
    for back in range(20):
        client.set(f"stat:processed:{now - timedelta(days=back):%Y-%m-%d}", 86_400)
        client.set(f"stat:failed:{now - timedelta(days=back):%Y-%m-%d}", 10)
    async with screen(url) as ui:
        await ui.press("m")
        await ui.until_shown("counted by the day", "5:30d")
        await ui.press("5")
        await ui.until_shown("all queues of sidekiq", "200 of 1.7M runs", f"{now:%m-%d}", "is not counted by the day")


def record_days(path: Path, now_ms: int) -> None:
    """Record hours of the last five days with a gap of a day, minutes of the last hour, a finding and a change."""
    hour_ms, minute_ms = now_ms // HOUR_MS * HOUR_MS, now_ms // MINUTE_MS * MINUTE_MS
    ref = Ref("dispatcher", "readytasklist")
    hours = [
        build_period(hour_ms - ago * HOUR_MS, ref=ref, span_ms=HOUR_MS, watched_ms=HOUR_MS, completed=36_000)
        for ago in range(120, 3, -1)
        if not 48 < ago <= 72
    ]
    minutes = [build_period(minute_ms - ago * MINUTE_MS, ref=ref, completed=120) for ago in range(30, 5, -1)]
    finding = RecordedFinding(
        ref, "failing", "critical", "40 % fail", "", 9, now_ms - 90 * HOUR_MS, now_ms - 89 * HOUR_MS
    )
    change = Operation(now_ms - 60 * HOUR_MS, "ann", "requeue", "readytasklist", "dispatcher", answers={"requeued": 3})
    changes = [RecordedChange(change.at_ms, "1", to_document(change))]
    batch = Batch({ref: QUEUE._replace(ref=ref)}, [*hours, *minutes], [], [finding], [finding], [], changes)
    with open_writer(path, batch):
        pass


@pytest.mark.slow
@run_on_event_loop
async def test_days_of_any_system_are_read_from_the_recording_with_gaps_and_marks(
    client: Redis, url: str, state_folder: Path
) -> None:
    client.rpush("readytasklist", "a", "b")
    now_ms = int(client.time()[0]) * 1000
    record_days(find_recording_path(state_folder, url), now_ms)
    async with screen(Settings(url), WIDE, interval_s=0.25) as ui:
        await ui.press("m")
        await ui.until_shown("4: 7 days")
        await ui.press("2")
        await ui.until_shown("recorded", "of 1h00 watched", "most 2/s")
        await ui.press("4")
        await ui.until_shown("3d of 7d watched", "most 10/s", "▲ finding", "◆ change")
        view = ui.app.screen
        assert isinstance(view, Metrics) and view._marks is not None and len(view._marks) >= 2
        throughput = next(iter(view.query(PlotPane)))
        values = [value for _at, value in throughput._chart.area]
        assert None in values and 0 not in values[:-1]  # the screen records the last minutes itself
        await ui.press("1")
        await ui.until_shown("counts nothing by the minute", "not done 2")


@pytest.mark.slow
@run_on_event_loop
async def test_without_a_recording_there_are_no_weeks(client: Redis, url: str, state_folder: Path) -> None:
    client.rpush("readytasklist", "a")
    async with screen(Settings(url, is_recording=False), WIDE, interval_s=0.25) as ui:
        await ui.press("m", "2")
        await ui.until_shown("counts nothing by the minute", "3: 1 day")
        assert "7 days" not in ui.text()
