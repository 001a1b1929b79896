"""The screen on a recording: a time bar, the same views, no Redis, and no key that changes anything."""

from __future__ import annotations

import socket
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path

import pytest
from recordings import (
    BULK,
    CHANGE_MS,
    FAILING_MS,
    LAST_MS,
    MAIL,
    NOW_MS,
    QUEUE,
    WAITING_MS,
    build_incident,
    open_writer,
)
from screens import NARROW, WIDE, Screen, run_on_event_loop
from text_snapshots import clock, until_snapshot
from textual.app import App

from rqtui.config.settings import Settings
from rqtui.model import Job, Page, State
from rqtui.recording.export import export_recording
from rqtui.recording.job_pages import build_recorded_page
from rqtui.recording.records import MINUTE_MS
from rqtui.recording.replay import ReplayEngine, ReplayState
from rqtui.recording.store import Batch, Reader
from rqtui.text.formats import format_clock, format_date_and_time
from rqtui.tui import keys
from rqtui.tui.app import Cockpit
from rqtui.tui.screens.metrics import PlotPane
from rqtui.tui.services.time_bar import draw_time_bar
from rqtui.tui.widgets.plot import Points

__all__ = ["clock"]  # a fixture
SETTINGS = Settings("redis://jobs-1:6379", read_only=True, may_unlock=False, is_recording=False)


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every connection fail: a replay must not need one. Threads that other tests left behind go on as before."""
    older_threads = {*threading.enumerate()} - {threading.current_thread()}

    def refuse(original: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **options: object) -> object:
            assert threading.current_thread() in older_threads, "a replay opened a connection"
            return original(*arguments, **options)

        return call

    monkeypatch.setattr(socket.socket, "connect", refuse(socket.socket.connect))
    monkeypatch.setattr(socket, "getaddrinfo", refuse(socket.getaddrinfo))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Plant a recording with two queues, two findings, a change and a gap."""
    path = tmp_path / "recordings" / "a.rqt"
    with open_writer(path, build_incident()):
        pass
    return path


@asynccontextmanager
async def replay(
    path: Path,
    at_ms: int | None = None,
    size: tuple[int, int] = NARROW,
    clock: Callable[[], float] = lambda: 0.0,
    settings: Settings = SETTINGS,
) -> AsyncIterator[Screen]:
    """Open the screen on a recording, and wait for its first moment."""
    app: App[None] = Cockpit(
        settings, create_engine=lambda _settings: ReplayEngine(Reader.open(path), at_ms, clock), is_replay=True
    )
    assert isinstance(app, Cockpit)
    async with app.run_test(size=size, notifications=True) as pilot:
        ui = Screen(app, pilot)
        await ui.until(lambda: app.session.replay is not None, "a first moment")
        yield ui


async def until_time(ui: Screen, at_ms: int) -> None:
    await ui.until(lambda: ui.app.session.replay and ui.app.session.replay.at_ms == at_ms, f"the moment {at_ms}")
    await ui.until_shown(format_date_and_time(at_ms)[:19])


@pytest.mark.parametrize("size", [NARROW, WIDE], ids=str)
def test_keys_move_the_time_and_the_bar_shows_it(path: Path, size: tuple[int, int]) -> None:
    @run_on_event_loop
    async def run() -> None:
        async with replay(path, size=size) as ui:
            await until_time(ui, LAST_MS)
            await ui.until_shown("mail", "bulk", "445", "recording of redis://jobs-1:6379", "nothing can be changed")
            await ui.until_shown("paused", "×60", "▲ finding", "◆ change", "p play", ", . minute")
            await ui.press("less_than_sign")
            await until_time(ui, WAITING_MS)
            await ui.until_shown("▌ bulk")
            await ui.until_toast("bulk: 450 jobs wait and no worker runs")
            await ui.press("less_than_sign")
            await until_time(ui, FAILING_MS)
            await ui.until_shown("67 %", "▌ mail")
            await ui.press("right_curly_bracket")
            await until_time(ui, CHANGE_MS)
            await ui.until_toast("requeue mail 37 × ready again")
            await ui.press("full_stop")
            await until_time(ui, NOW_MS + 37 * MINUTE_MS + 58_000)
            await ui.until(lambda: not len(ui.app._notifications), "sentences about another moment are gone")
            await ui.press("left")
            await until_time(ui, NOW_MS + 36 * MINUTE_MS + 58_000)
            await ui.press("left_parenthesis")
            await until_time(ui, NOW_MS + 58_000)
            await ui.press("right_parenthesis")
            await until_time(ui, LAST_MS)
            await ui.press("greater_than_sign")
            await ui.until_toast("The recording has no later finding.")

    run()


@run_on_event_loop
async def test_a_played_recording_continues_at_its_speed(path: Path) -> None:
    now_s = 50.0
    async with replay(path, NOW_MS + 20 * MINUTE_MS, clock=lambda: now_s) as ui:
        await ui.press("p")
        await ui.until_shown("playing ×60", "p pause")
        await ui.press("equals_sign")
        await ui.until_shown("playing ×600")
        now_s += 1.0
        await until_time(ui, NOW_MS + 30 * MINUTE_MS)
        await ui.press("minus", "minus")
        await ui.until_shown("playing ×10")
        await ui.press("p")
        await ui.until_shown("paused ×10")
        now_s += 100.0
        await ui.press("r")
        await until_time(ui, NOW_MS + 30 * MINUTE_MS)


@run_on_event_loop
async def test_snapshots_follow_each_other_only_while_the_recording_is_played(path: Path) -> None:
    now_s = 0.0
    async with replay(path, NOW_MS + 20 * MINUTE_MS, clock=lambda: now_s) as ui:
        ui.may_request_refresh = False
        await ui.press("p")
        await ui.until_shown("playing")
        for minute in (21, 22, 23):  # each needs a snapshot that no key requested
            now_s += 1.0
            await until_time(ui, NOW_MS + minute * MINUTE_MS)
        assert ui.app.session.ticker.interval_s < 1
        await ui.press("p")
        await ui.until_shown("paused")
        assert ui.app.session.ticker.interval_s > 10


@pytest.mark.slow
@run_on_event_loop
async def test_nothing_can_be_changed_and_the_sentence_reports_it(path: Path) -> None:
    async with replay(path) as ui:
        await ui.press("R")
        await ui.until_toast("This is a recording: nothing can be changed.")
        ui.toasts.clear()
        await ui.press("z")
        await ui.until_toast("This is a recording: nothing can be changed.")
        assert not [key for key in keys.VERB_KEYS if ui.app.verb_starter.check_verb_key(key)]
        await ui.press("colon")
        await ui.press(*"unlock")
        await ui.until_shown("unlock")
        assert "allow changes for so long" not in ui.text()


@run_on_event_loop
async def test_a_board_has_counts_and_findings_and_reports_that_jobs_are_not_recorded(path: Path) -> None:
    async with replay(path, FAILING_MS) as ui:
        await ui.until_shown("67 %")
        ui.app.open_board(MAIL)
        await ui.until_shown("67 % of attempts fail", "The number of jobs is recorded; the jobs are not.", "ready 43")
        await ui.press("greater_than_sign")
        await until_time(ui, WAITING_MS)
        await ui.until_shown("ready 123", "dead 127")
        assert "67 % of attempts fail" not in ui.text()


def plant_jobs(path: Path, *, number: int = 20, total: int = 5_103) -> None:
    """Plant recorded jobs of the places `dead` and `ready` of `mail`, a little before the last finding."""
    jobs = [
        Job(
            b"job-%02d" % at, "mail", "native", "dead", State.DEAD, b"", name="send_mail", attempts=3, max_attempts=5,
            since_ms=WAITING_MS - 600_000, error="TimeoutError: read timed out", body=b'{"to": "ada", "password": "x"}',
            body_bytes=30 if at else 9_000,
        )
        for at in range(number)
    ]  # fmt: skip
    ready = replace(jobs[1], id=b"next-1", place="ready", state=State.READY, error="")
    pages = [
        build_recorded_page(MAIL, Page("mail", "native", place, tuple(page), of), WAITING_MS - 1_000, 20, is_exact=True)
        for place, page, of in (("dead", jobs, total), ("ready", [ready], 1))
    ]
    with open_writer(path, Batch({MAIL: QUEUE}, pages=pages)):
        pass


@pytest.mark.slow
@run_on_event_loop
async def test_a_board_has_the_recorded_jobs_of_the_moment(path: Path) -> None:
    plant_jobs(path)
    at = format_clock(WAITING_MS - 1_000)
    async with replay(path, WAITING_MS) as ui:
        ui.app.open_board(MAIL)
        await ui.press("2")
        await ui.until_shown(f"all 1, at {at}", "next-1")
        await ui.press("5")
        await ui.until_shown(f"first 20 of 5 103, at {at}", "job-00", "ada", "TimeoutError")
        await ui.press("3")
        await ui.until_shown("The number of jobs is recorded; the jobs are not.")
        await ui.press("5")
        await ui.until_shown("job-00")
        await ui.press("enter")
        await ui.until_shown("id", "job-00", "send_mail", "recorded", "not recorded", '"to": "ada"', "8.8 kB")
        assert '"x"' not in ui.text() and "no longer exists" not in ui.text()
        for key in ("c", "R", "K", "z"):
            ui.toasts.clear()
            await ui.press(key)
            await ui.until_toast("masked when" if key == "c" else "nothing can be changed")
        await ui.press("left_parenthesis")
        await ui.until_shown("This job is not among the recorded", "jobs of this moment")
        await ui.press("escape")
        await ui.until_shown("The number of jobs is recorded; the jobs are not.")


@pytest.mark.slow
@run_on_event_loop
async def test_a_wide_board_has_the_recorded_job_beside_its_list(path: Path) -> None:
    plant_jobs(path, number=3, total=3)
    async with replay(path, WAITING_MS, WIDE) as ui:
        ui.app.open_board(MAIL)
        await ui.press("5")
        await ui.until_shown("all 3, at ", "job-02", "not recorded", '"to": "ada"')
        await ui.press("slash", *"job-01", "enter")
        await ui.until_shown("1 of 3 match")


@pytest.mark.slow
@pytest.mark.parametrize("size", [NARROW, WIDE], ids=str)
def test_a_board_with_recorded_jobs_matches_its_snapshot(path: Path, size: tuple[int, int], clock: None) -> None:
    plant_jobs(path)

    @run_on_event_loop
    async def run() -> None:
        async with replay(path, WAITING_MS, size) as ui:
            ui.app.open_board(MAIL)
            await ui.press("2", "5")
            await ui.until_shown(
                "first 20 of 5 103, at ", "job-16", *(["not recorded", "all 1,"] if size == WIDE else [])
            )
            await until_snapshot(ui, f"replay-board-{size[0]}x{size[1]}")

    run()


@run_on_event_loop
async def test_damaged_jobs_are_a_sentence_on_their_board(path: Path) -> None:
    plant_jobs(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE job_page SET jobs = '[{' WHERE place = 'dead'")
    async with replay(path, WAITING_MS) as ui:
        ui.app.open_board(MAIL)
        await ui.press("5")
        await ui.until_shown("The recorded jobs of dead cannot be read: the file is damaged.")
        await ui.press("2")
        await ui.until_shown("next-1")


@pytest.mark.slow
@run_on_event_loop
async def test_errors_metrics_and_operations_are_those_of_the_moment(path: Path) -> None:
    async with replay(path, FAILING_MS, WIDE) as ui:
        await ui.press("e")
        await ui.until_shown("TimeoutError: read timed out", "KeyError", "dead 30")
        await ui.press("right_curly_bracket")
        await ui.until_shown("no finding named a cause of failures at this time")
        await ui.press("o")
        await ui.until_shown("1 change recorded until this moment", "requeue", "37 × ready again", "anna@host")
        await ui.press("left_curly_bracket")
        await ui.until_toast("The recording has no earlier change.")
        await ui.press("left_parenthesis")
        await ui.until_shown("no change was recorded until this moment")
        await ui.press("right_parenthesis", "m")
        await ui.until_shown("throughput", "depth", "not done", "oldest ready")
        await ui.press("2")
        await ui.until(lambda: len(find_depth_points(ui)) > 45, "the plots of an hour")
        assert None in [value for _at, value in find_depth_points(ui)], "the gap"


@run_on_event_loop
async def test_data_that_is_not_recorded_is_reported(path: Path) -> None:
    async with replay(path) as ui:
        for key in ("w", "i", "f", "b", "t", "ampersand"):
            ui.toasts.clear()
            await ui.press(key)
            await ui.until_toast("This is a recording: it has counts", "nothing else")
            assert ui.app.navigation.is_at_first_view, key


@run_on_event_loop
async def test_the_page_about_an_incident_is_that_of_the_moment(path: Path) -> None:
    async with replay(path, NOW_MS + 34 * MINUTE_MS, WIDE) as ui:
        await ui.until_shown("67 % of attempts fail")
        await ui.press("apostrophe")
        await ui.until_shown(
            "incident: mail", "failed attempts per minute", "growing: 40", "25  TimeoutError: read timed out"
        )
        await ui.press("G")
        await ui.until_shown("this is a recording: nothing can be changed", "a recording has no sample of jobs")
        await ui.press("full_stop")
        await ui.until(lambda: ui.app.navigation.view._report.taken_ms > NOW_MS + 35 * MINUTE_MS, "the next minute")
        await ui.press("escape")
        await ui.until(lambda: ui.app.navigation.is_at_first_view, "the page is closed")


@pytest.mark.slow
@run_on_event_loop
async def test_the_page_about_a_chosen_finding_shows_when_it_ended_in_the_recording(path: Path) -> None:
    async with replay(path, NOW_MS + 34 * MINUTE_MS, WIDE) as ui:
        await ui.until_shown("67 % of attempts fail")
        await ui.press("tab")
        await ui.until_shown("▌ 67 % of attempts fail", "⏎ incident", "< > ▲ finding")
        await ui.press("enter")
        await ui.until_shown("incident: mail", "critical  67 % of attempts fail")
        await ui.press("full_stop")
        await ui.until_shown("over      67 % of attempts fail", "it ended at")
        await ui.press("comma", "comma")
        await ui.until_shown("critical  67 % of attempts fail")


@run_on_event_loop
async def test_the_help_lists_the_keys_of_the_time_first(path: Path) -> None:
    async with replay(path) as ui:
        await ui.press("question_mark")
        await ui.until_shown("The time of the recording", "to where the next finding began")
        assert "UPPERCASE" not in ui.text() and "dispatcher on or off" not in ui.text()
    ids = {look.id for look in keys.list_general_keys(in_replay=True)}
    assert {"filter", "errors", "open", "help"} <= ids
    assert not ids & {"dispatcher", "undo", "mark", "workers", "viewer", "ask", "field_after", "next_failure", "save"}


@run_on_event_loop
async def test_a_replay_of_an_export_leaves_it_as_it_was(path: Path) -> None:
    target = path.with_name("incident.rqt")
    with Reader.open(path) as reader:
        export_recording(reader, target, 0, LAST_MS * 2)
    before = target.read_bytes(), {each.name for each in path.parent.iterdir()}
    path = target
    async with replay(path) as ui:
        await ui.press("o", "s")
        await ui.until_toast("rqtui record --export writes a part of a recording")
    assert (target.read_bytes(), {each.name for each in path.parent.iterdir()}) == before


@run_on_event_loop
async def test_what_happened_is_of_the_hour_before_the_moment(path: Path) -> None:
    async with replay(path, LAST_MS, WIDE) as ui:
        await ui.until_shown("what happened", "no more: 67 %", "37 × ready again")
        await ui.press("left_parenthesis")
        await ui.until_shown("nothing in the hour before")


@run_on_event_loop
async def test_a_damaged_record_is_a_sentence_and_the_next_one_is_shown(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE period SET counts = '[1' WHERE at_ms = ?", (NOW_MS + 88 * MINUTE_MS,))
    async with replay(path) as ui:
        await ui.press("comma")
        await ui.until_toast("has a record that cannot be read")
        await ui.press("comma")
        await until_time(ui, NOW_MS + 87 * MINUTE_MS + 58_000)


@run_on_event_loop
async def test_a_queue_without_a_record_stays_listed_and_is_reported_as_unknown(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "DELETE FROM period WHERE at_ms = ? AND queue_id = (SELECT id FROM queue WHERE name = 'bulk')",
            (NOW_MS + 88 * MINUTE_MS,),
        )
    async with replay(path) as ui:
        await ui.until_shown("bulk", "445")
        await ui.press("comma")
        await until_time(ui, NOW_MS + 88 * MINUTE_MS + 58_000)
        await ui.until_shown("bulk", "not recorded at this time", "2 queues")
        assert "445" not in ui.text()
        await ui.press("full_stop")
        await ui.until_shown("bulk", "445")
        ui.app.open_board(BULK)
        await ui.until_shown("queue 445")
        await ui.press("comma")
        await ui.until_shown("not recorded at this time")


@run_on_event_loop
async def test_the_config_file_can_move_the_keys_of_the_time(path: Path) -> None:
    settings = replace(SETTINGS, keymap={"replay_play": "ctrl+y", "finding_before": "comma"})
    async with replay(path, settings=settings) as ui:
        await ui.until_shown("Ctrl+Y play")
        await ui.until_toast("finding_before", "is taken by")
        await ui.press("ctrl+y")
        await ui.until_toast("This is the end of the recording.")
    keys.set_keymap({})


@run_on_event_loop
async def test_ascii_letters_show_the_bar_too(path: Path) -> None:
    async with replay(path, settings=Settings("redis://jobs-1:6379", read_only=True, is_ascii=True)) as ui:
        await ui.until_shown("paused", "-!-", "-*-")
        assert ui.text().isascii()


def find_depth_points(ui: Screen) -> Points:
    """Return the points of the plot of the depth."""
    return ui.app.screen.query_one("#depth", PlotPane)._chart.area


def build_state(**values: object) -> ReplayState:
    fields: dict[str, object] = {
        "at_ms": 50, "record_ms": 0, "span_ms": 60_000, "begin_ms": 0, "end_ms": 99, "is_playing": False, "speed": 1,
        "findings": (10, 51), "changes": (25, 26), "spans": ((0, 40), (60, 100)),
    }  # fmt: skip
    return ReplayState(**{**fields, **values})  # type: ignore[arg-type]


def test_the_bar_marks_findings_changes_gaps_and_the_moment() -> None:
    assert draw_time_bar(build_state(), 20).plain == "──▲──◆──  ● ────────"
    assert draw_time_bar(build_state(at_ms=0), 10).plain == "●▲◆─ ▲────"
    assert draw_time_bar(build_state(at_ms=99), 10).plain == "─▲◆─ ▲───●"
    assert draw_time_bar(build_state(begin_ms=50, end_ms=50), 1).plain == "●"


def test_the_keys_of_the_time_are_free_of_each_other_and_lowercase() -> None:
    named = [key for replay_key in keys.REPLAY_KEYS for key in replay_key.keys.split(",")]
    assert len(set(named)) == len(named) and not [key for key in named if len(key) == 1 and key.isupper()]
    assert {id for ids, _label in keys.REPLAY_FOOTER for id in ids} == {each.id for each in keys.REPLAY_KEYS}
    assert {each.id for each in keys.GENERAL_KEYS} >= keys.NOT_IN_REPLAY
