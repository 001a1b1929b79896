"""Test the page about the problems of one queue, which the apostrophe opens on every view."""

# ruff: noqa: F811 (a fixture of another file is imported by name)
from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from recordings import MAIL, build_period
from redis import Redis
from screens import NARROW, WIDE, Seeded, read_text, run_on_event_loop, screen
from text_snapshots import check_snapshot, clock, planted_url  # noqa: F401 (fixtures)

from rqtui.config.settings import Settings
from rqtui.model import Finding, State
from rqtui.operations.journal import Operation, to_document
from rqtui.recording.files import find_recording_path
from rqtui.recording.records import MINUTE_MS, RecordedChange, RecordedFinding, RecordedPlace, RecordedQueue
from rqtui.recording.store import Batch, Writer
from rqtui.tui.screens.incident import _wrap_line, describe_fixes
from screenshots.seeded import open_still_app

DEAD = "rqtui:{mail}:dead"
PLACES = tuple(RecordedPlace(state.value, state) for state in State)


@pytest.mark.slow
@run_on_event_loop
async def test_the_page_names_errors_and_differences_and_closes_with_esc(url: str, client: Redis) -> None:
    seeded = Seeded(client)
    seeded.bury(*(f"d{number}" for number in range(8)))
    seeded.put("ready1")
    async with screen(url, (100, 45)) as ui:
        await ui.until_shown("mail")
        await ui.press("apostrophe")
        await ui.until_shown("incident: mail", "findings", "since when", "errors", "TimeoutError: smtp")
        await ui.press("G")
        await ui.until_shown("what differs", "what helps now")
        await ui.press("escape")
        await ui.until(lambda: "incident: mail" not in ui.text(), "the page is closed")
        assert ui.app.navigation.is_at_first_view


@run_on_event_loop
async def test_without_a_queue_under_the_cursor_a_sentence_reports_it(url: str, client: Redis) -> None:
    assert client.dbsize() == 0
    async with screen(url) as ui:
        await ui.until_shown("no queues")
        await ui.press("apostrophe")
        await ui.until_toast("Put the cursor on a queue")


@pytest.mark.slow
@run_on_event_loop
async def test_r_requeues_all_jobs_of_the_largest_group_after_a_question(url: str, client: Redis) -> None:
    Seeded(client).bury(*(f"d{number}" for number in range(8)))
    async with screen(url, NARROW) as ui:
        await ui.until_shown("mail")
        await ui.press("apostrophe")
        await ui.until_shown("R requeue", "e errors", "w workers")
        await ui.press("R")
        await ui.until_shown("y requeue")
        await ui.press("y")
        await ui.until(lambda: client.zcard(DEAD) == 0, "the group is requeued")
        await ui.press("r")
        await ui.until(lambda: ui.app.navigation.view.group is None, "the report is built again")
        await ui.press("e")
        await ui.until_shown(" errors of mail ")
        await ui.press("escape")
        await ui.until_shown("incident: mail")


@run_on_event_loop
async def test_enter_shows_the_jobs_of_the_group(url: str, client: Redis) -> None:
    Seeded(client).bury("d1", "d2")
    async with screen(url, NARROW) as ui:
        await ui.until_shown("mail")
        await ui.press("apostrophe")
        await ui.until(lambda: ui.app.navigation.view.group is not None, "the errors are read")
        await ui.press("enter")
        await ui.until_shown(" jobs ", "that were read with this error", "d1", "d2")


@pytest.mark.slow
@run_on_event_loop
async def test_a_read_only_page_offers_no_change(url: str, client: Redis) -> None:
    Seeded(client).bury("d1")
    async with screen(Settings(url, read_only=True), NARROW) as ui:
        await ui.until_shown("mail")
        await ui.press("apostrophe")
        await ui.until(lambda: ui.app.navigation.view.group is not None, "the errors are read")
        assert "R requeue" not in ui.text()
        await ui.press("R", "G")
        await ui.until_shown("no change is allowed on this screen")
        assert client.zcard(DEAD) == 1


def record_an_earlier_incident(path: Path, now_ms: int) -> None:
    """Record 40 failures per minute three hours ago that a requeue ended, and failures that grow for half an hour."""
    begin_ms = now_ms - now_ms % MINUTE_MS - 240 * MINUTE_MS
    periods = []
    for minute in range(240):
        is_failing = 40 <= minute < 60
        failed = 40 if is_failing else minute - 210 if minute > 210 else 1
        at_ms = begin_ms + minute * MINUTE_MS
        periods.append(build_period(at_ms, failed=failed, counts=(0, 1, 0, 0, 3)))
    change_ms, failing_ms = begin_ms + 60 * MINUTE_MS, begin_ms + 40 * MINUTE_MS
    change = Operation(change_ms, "ann@desk", "requeue", "mail", "native", (), 12, {"requeued": 12}, began_ms=change_ms)
    finding = RecordedFinding(
        MAIL, "failing", "critical", "80 % of attempts fail", "", 40, failing_ms, change_ms + MINUTE_MS
    )
    with Writer.open(path, "redis://localhost") as writer:
        writer.append(
            Batch(
                {MAIL: RecordedQueue(MAIL, PLACES, ("failed",))},
                periods,
                findings=[finding],
                ended=[finding],
                changes=[RecordedChange(change_ms, "change-1", to_document(change))],
            )
        )


def count_descriptors(state_folder: Path) -> int:
    """Return how many open files of this process are recordings, or 3 where the system cannot list them."""
    folder = Path("/proc/self/fd")
    if not folder.exists():
        return 3
    paths = (os.readlink(each) for each in folder.iterdir() if each.is_symlink())
    return sum(path.startswith(str(state_folder / "recordings")) for path in paths)


@pytest.mark.parametrize("size", [NARROW, WIDE], ids=str)
def test_the_recorded_course_and_what_helped_before_are_shown(
    size: tuple[int, int], url: str, client: Redis, state_folder: Path
) -> None:
    @run_on_event_loop
    async def run() -> None:
        now_ms = int(client.time()[0]) * 1000
        record_an_earlier_incident(find_recording_path(state_folder, url), now_ms)
        seeded = Seeded(client)
        seeded.bury(*(f"d{number}" for number in range(4)))
        async with screen(Settings(url), size, interval_s=0.25) as ui:
            await ui.until_shown("mail")
            await ui.press("apostrophe")
            await ui.until(lambda: ui.app.navigation.view.past is not None, "the recording is read")
            await ui.until_shown("failed attempts per minute", "(recorded", "growing:")
            assert count_descriptors(state_folder) == 3  # the recording, its log and its index, opened once

    run()


@pytest.mark.slow
@pytest.mark.parametrize("size", [NARROW, WIDE], ids=str)
def test_the_page_matches_its_snapshot(planted_url: str, clock: None, size: tuple[int, int]) -> None:
    async def read_screen() -> str:
        async with open_still_app(planted_url, size, ("mail", "apostrophe")) as app:
            return read_text(app)

    check_snapshot(f"incident-{size[0]}x{size[1]}", asyncio.run(read_screen()))


def test_a_fix_is_the_key_with_its_label_or_the_remedy() -> None:
    findings = [
        Finding("failing", "critical", "mail", "55 % fail", key="e"),
        Finding("failing", "critical", "mail", "again", key="e"),
        Finding("lost", "critical", "mail", "2 lost", "rqtui act restore mail a"),
        Finding("ok", "info", "mail", "nothing to do"),
    ]
    assert describe_fixes(findings) == ["e errors", "rqtui act restore mail a"]


def test_a_wrapped_line_keeps_its_label_in_the_column_of_labels() -> None:
    lines = [line.plain for line in _wrap_line("  warning   the job has been running for twelve minutes on w1", 40)]
    assert lines[0].startswith("  warning   the job") and all(line.startswith("    ") for line in lines[1:])
    assert " ".join(" ".join(lines).split()) == "warning the job has been running for twelve minutes on w1"
    assert max(map(len, lines)) <= 40
    assert [line.plain for line in _wrap_line("  one two three four", 12)] == ["  one two", "    three", "    four"]
