"""The open screen records what it reads, unless the config turns it off, and a bad file is one toast."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from redis import Redis
from screens import Seeded, run_on_event_loop, screen

from rqtui.config.settings import Settings
from rqtui.errors import RecordingError
from rqtui.model import Ref
from rqtui.recording.files import find_recording_path
from rqtui.recording.records import Period
from rqtui.recording.store import Reader

MAIL = Ref("native", "mail")


def read_periods(state_folder: Path, url: str) -> list[Period]:
    try:
        with Reader.open(find_recording_path(state_folder, url)) as reader:
            return reader.read_periods(MAIL, 0, 10**15)
    except RecordingError:
        return []


def read_ready_jobs(state_folder: Path, url: str) -> list[str]:
    """Return the recorded jobs of the place `ready` as JSON."""
    try:
        with Reader.open(find_recording_path(state_folder, url)) as reader:
            page = reader.read_job_page(MAIL, "ready", int(time.time() * 1000) + 60_000)
    except RecordingError:
        return []
    return [page.jobs] if page else []


@pytest.mark.slow
@run_on_event_loop
async def test_the_screen_records_what_it_reads(url: str, client: Redis, state_folder: Path) -> None:
    Seeded(client).put("a", "b")
    async with screen(Settings(url), interval_s=0.25) as ui:
        await ui.until(lambda: sum(one.polls for one in read_periods(state_folder, url)) > 3, "polls are recorded")
    periods = read_periods(state_folder, url)
    assert periods[-1].counts[1] == 2 and periods[-1].watched_ms > 0
    with Reader.open(find_recording_path(state_folder, url)) as reader:
        assert reader.read_meta()["url"] == url


@run_on_event_loop
async def test_the_screen_records_the_pages_that_an_open_board_reads(
    url: str, client: Redis, state_folder: Path
) -> None:
    Seeded(client).put("a", "b", "c")
    async with screen(Settings(url, record_jobs=2), interval_s=0.25) as ui:
        await ui.until(lambda: read_periods(state_folder, url), "polls are recorded")
        assert not ui.app.session.last_focus.pages and not read_ready_jobs(state_folder, url), "no board is open"
        ui.app.open_board(MAIL)
        await ui.until(lambda: read_ready_jobs(state_folder, url), "the page is recorded")
    assert [len(json.loads(text)) for text in read_ready_jobs(state_folder, url)] == [2]


@run_on_event_loop
async def test_a_screen_without_the_option_records_no_job(url: str, client: Redis, state_folder: Path) -> None:
    Seeded(client).put("a", "b", "c")
    async with screen(Settings(url), interval_s=0.25) as ui:
        ui.app.open_board(MAIL)
        await ui.until(lambda: ui.app.session.last_focus.pages, "a page is read")
        await ui.until(lambda: read_periods(state_folder, url), "polls are recorded")
    assert not read_ready_jobs(state_folder, url)


@run_on_event_loop
async def test_a_screen_with_recording_turned_off_writes_no_file(url: str, client: Redis, state_folder: Path) -> None:
    Seeded(client).put("a")
    async with screen(Settings(url, is_recording=False), interval_s=0.25) as ui:
        first = ui.app.session.snapshot
        await ui.until(lambda: ui.app.session.snapshot not in (None, first), "a second snapshot")
    assert not (state_folder / "recordings").exists()


@run_on_event_loop
async def test_a_file_that_is_no_recording_is_one_toast_and_the_screen_continues(
    url: str, client: Redis, state_folder: Path
) -> None:
    Seeded(client).put("a")
    path = find_recording_path(state_folder, url)
    path.parent.mkdir(mode=0o700, parents=True)
    path.write_text("queue,count\n" * 1000)
    async with screen(Settings(url), interval_s=0.25) as ui:
        await ui.until(lambda: any("Nothing is recorded" in toast for toast in ui.toasts), "the toast")
        first = ui.app.session.snapshot
        await ui.until(lambda: ui.app.session.snapshot is not first, "further snapshots")
        await ui.until_shown("mail")
        assert sum("Nothing is recorded" in toast for toast in ui.toasts) == 1
    assert path.read_text() == "queue,count\n" * 1000
