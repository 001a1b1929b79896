"""A replay takes its snapshots from a recording: keys move its moment, a clock plays it, and no Redis is needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from recordings import (
    BULK,
    CHANGE_MS,
    FAILING_MS,
    LAST_MS,
    MAIL,
    NOW_MS,
    WAITING_MS,
    build_incident,
    build_minutes,
    open_writer,
)

from rqtui.errors import RecordingError, UsageError
from rqtui.model import Focus, PageSelection, Ref, State
from rqtui.recording import replay as module
from rqtui.recording.records import MINUTE_MS
from rqtui.recording.replay import NOTHING_ELSE, ReplayEngine, ReplayState, build_recorded_errors
from rqtui.recording.store import Reader, Writer
from rqtui.text.causes import Width

Opened = Callable[..., ReplayEngine]
START_MS = NOW_MS + 58_000  # the last refresh of the first minute


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    """Open a recording of 90 minutes with a gap of ten."""
    folder = tmp_path / "recordings"
    engines: list[ReplayEngine] = []
    with open_writer(folder / "a.rqt", build_incident()):
        pass

    def open_recording(at_ms: int | None = None, clock: Callable[[], float] = lambda: 0.0) -> ReplayEngine:
        engines.append(ReplayEngine(Reader.open(folder / "a.rqt"), at_ms, clock))
        return engines[-1]

    yield open_recording
    for engine in engines:
        engine.close()


def read_state(engine: ReplayEngine) -> ReplayState:
    (state,) = engine.take_snapshot().results["replay"]
    assert isinstance(state, ReplayState)
    return state


def read_time(engine: ReplayEngine) -> int:
    return read_state(engine).at_ms


def test_the_first_moment_is_the_end_of_the_recording(opened: Opened) -> None:
    engine = opened()
    snapshot = engine.take_snapshot()
    state = read_state(engine)
    assert snapshot.taken_ms == state.at_ms == state.end_ms == LAST_MS and state.begin_ms == NOW_MS
    assert engine.refs == [MAIL, BULK] and not state.is_playing
    mail, bulk = snapshot.queues
    assert mail.count_in_state(State.DEAD) == 214 and bulk.map_counts_by_place() == {"queue": 445, "unacked": 2}
    assert [finding.kind for finding in bulk.findings] == ["no-workers"] and not mail.findings
    assert state.spans == ((NOW_MS, NOW_MS + 40 * MINUTE_MS), (NOW_MS + 50 * MINUTE_MS, NOW_MS + 90 * MINUTE_MS))
    assert engine.systems["native"].places[4].state is State.DEAD
    assert [place.name for place in engine.systems["celery"].places] == ["queue", "unacked"]


def test_one_step_is_a_recorded_minute_and_a_gap_is_left_out(opened: Opened) -> None:
    engine = opened(NOW_MS + 39 * MINUTE_MS)
    assert engine.move("record", 1) == "" and read_time(engine) == NOW_MS + 50 * MINUTE_MS + 58_000
    assert engine.move("record", -1) == "" and read_time(engine) == NOW_MS + 39 * MINUTE_MS + 58_000
    engine.move("record", -1)
    assert read_time(engine) == NOW_MS + 38 * MINUTE_MS + 58_000
    engine.move("end", -1)
    assert read_time(engine) == START_MS
    assert engine.move("record", -1) == "The recording has no earlier minute." and read_time(engine) == START_MS
    engine.move("end", 1)
    assert read_time(engine) == LAST_MS
    assert engine.move("record", 1) == "The recording has no later minute."


def test_findings_and_changes_are_found_in_both_directions(opened: Opened) -> None:
    engine = opened()
    assert engine.move("finding", -1) == "bulk: 450 jobs wait and no worker runs" and read_time(engine) == WAITING_MS
    assert engine.move("finding", -1) == "mail: 67 % of attempts fail" and read_time(engine) == FAILING_MS
    assert [finding.kind for finding in engine.take_snapshot().queues[0].findings] == ["failing"]
    assert engine.move("finding", -1) == "The recording has no earlier finding."
    assert engine.move("change", 1) == "requeue mail 37 × ready again" and read_time(engine) == CHANGE_MS
    assert engine.move("change", 1) == "The recording has no later change."
    assert engine.move("finding", 1).startswith("bulk") and engine.move("change", -1).startswith("requeue")


def test_a_played_recording_follows_the_clock_and_stops_at_its_end(opened: Opened) -> None:
    now_s = 100.0
    engine = opened(NOW_MS + 30 * MINUTE_MS, lambda: now_s)
    assert engine.toggle_playing() == "" and read_state(engine).speed == 60
    now_s += 2.5
    assert read_time(engine) == NOW_MS + 32 * MINUTE_MS + 30_000
    engine.change_speed(1)
    now_s += 1.0  # ten minutes, into the gap
    assert read_time(engine) == NOW_MS + 50 * MINUTE_MS
    engine.toggle_playing()
    now_s += 60.0
    assert read_time(engine) == NOW_MS + 50 * MINUTE_MS
    engine.toggle_playing()
    now_s += 60.0
    state = read_state(engine)
    assert state.at_ms == LAST_MS and not state.is_playing
    assert engine.toggle_playing() == "This is the end of the recording."


def test_a_change_is_searched_from_the_moment_that_a_played_recording_has_reached(opened: Opened) -> None:
    now_s = 100.0
    engine = opened(CHANGE_MS - MINUTE_MS, lambda: now_s)
    engine.toggle_playing()
    now_s += 2.0  # two minutes
    assert engine.move("change", -1) == "requeue mail 37 × ready again" and read_time(engine) == CHANGE_MS


def test_speeds_have_a_lowest_and_a_highest(opened: Opened) -> None:
    engine = opened()
    speeds = []
    for step in (1, 1, 1, -1, -1, -1, -1, -1):
        engine.change_speed(step)
        speeds.append(read_state(engine).speed)
    assert speeds == [600, 3600, 3600, 600, 60, 10, 1, 1]


def test_changes_findings_and_causes_are_those_until_the_moment(opened: Opened) -> None:
    engine = opened(FAILING_MS)
    state = read_state(engine)
    assert not state.operations and [each.kind for each in state.sightings] == ["failing"]
    assert [(each.cause, each.jobs) for each in state.causes] == [
        ("TimeoutError: read timed out", 25),
        ("KeyError: 'id'", 5),
    ]
    later = read_state(opened(CHANGE_MS))
    [operation] = later.operations
    assert (operation.verb, operation.count, operation.undo, operation.at_ms) == ("requeue", 37, (), CHANGE_MS)
    assert [each.is_over for each in later.sightings] == [False, True] and not later.causes


def test_the_causes_of_a_moment_are_an_error_report(opened: Opened) -> None:
    engine = opened(FAILING_MS)
    report = build_recorded_errors(read_state(engine), engine.take_snapshot(), engine.systems, engine.refs, Width.CAUSE)
    assert [(group.dead, group.short_message) for group in report.groups] == [
        (25, "TimeoutError: read timed out"),
        (5, "KeyError: 'id'"),
    ]
    assert (report.size.looked, report.size.of) == (30, 30)
    other = build_recorded_errors(read_state(engine), engine.take_snapshot(), engine.systems, [BULK], Width.CAUSE)
    assert not other.groups


def test_minutes_are_summed_over_queues_and_a_gap_has_none(opened: Opened) -> None:
    engine = opened(NOW_MS + 51 * MINUTE_MS)
    request = engine.build_minutes_request([MAIL, BULK], 15)
    [totals] = engine.take_snapshot(Focus((), requests={"minutes": (request,)})).results["minutes"]
    assert [each.at_ms for each in totals] == [NOW_MS + minute * MINUTE_MS for minute in (36, 37, 38, 39, 50, 51)]
    assert (totals[0].enqueued, totals[0].completed, totals[0].failed) == (66, 54, 3)
    assert totals[0].unfinished == 0 + 75 + 1 + 180 + 2 and totals[0].oldest_ready_ms == 900


def test_jobs_and_workers_and_redis_are_not_there(opened: Opened) -> None:
    engine = opened()
    selection = PageSelection(MAIL, "ready")
    other = Ref("native", "other")
    snapshot = engine.take_snapshot(
        Focus((MAIL, other), (selection,), requests={"workers": (engine.systems["native"].workers_request("mail"),)})
    )
    assert snapshot.queues[1].error == "other was not recorded at this time."
    [page] = snapshot.pages
    assert page.error == "The number of jobs is recorded; the jobs are not." and not page.jobs
    assert [str(result) for result in snapshot.results["workers"]] == [NOTHING_ELSE]
    for ask in (
        lambda: engine.client.get("a"),
        lambda: engine.fetch_page(MAIL, "ready"),
        lambda: engine.fetch_job(MAIL, b"a"),
        lambda: engine.fetch_workers(MAIL),
        engine.fetch_server_time_ms,
    ):
        with pytest.raises(RecordingError, match="This is a recording"):
            ask()
    assert not engine.systems["native"].verbs() and not list(engine.discover()) and not engine.is_listening
    with pytest.raises(UsageError, match='native has no verb "purge"'):
        engine.apply_verb("purge", MAIL)


def test_an_unknown_system_is_shown_with_the_places_that_were_recorded(tmp_path: Path) -> None:
    from recordings import QUEUE, build_minutes

    ref = Ref("homemade@shop", "mail")
    batch = build_minutes(NOW_MS, 2, ref)._replace(queues={ref: QUEUE._replace(ref=ref)})
    with open_writer(tmp_path / "r" / "b.rqt", batch):
        pass
    engine = ReplayEngine.open(tmp_path / "r" / "b.rqt")
    assert [place.name for place in engine.systems["homemade@shop"].places] == [state.value for state in State]
    assert engine.take_snapshot().queues[0].name == "mail" and engine.url == "redis://jobs-1:6379"
    engine.close()


def test_a_time_outside_and_an_empty_recording_are_sentences(opened: Opened, tmp_path: Path) -> None:
    for at_ms in (NOW_MS - 1, NOW_MS + 90 * MINUTE_MS):
        with pytest.raises(RecordingError, match="nothing is recorded at .* it covers .* to .*, perhaps with gaps"):
            opened(at_ms)
    assert read_time(opened(NOW_MS + 45 * MINUTE_MS)) == NOW_MS + 50 * MINUTE_MS, "a gap: what follows it"
    Writer.open(tmp_path / "recordings" / "c.rqt").close()
    with pytest.raises(RecordingError, match="is empty: nothing was recorded yet"):
        ReplayEngine.open(tmp_path / "recordings" / "c.rqt")


def test_marks_of_a_very_long_recording_are_bounded(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_MARKS", 1)
    engine = opened()
    assert read_state(engine).findings == (WAITING_MS,)
    assert len(read_state(engine).spans) == 1


def test_no_key_reads_the_whole_file(opened: Opened) -> None:
    engine = opened()
    statements: list[str] = []
    connection = engine._reader._connection
    connection.set_trace_callback(statements.append)
    for target in ("record", "finding", "change", "end"):
        for step in (-1, 1):
            engine.move(target, step)
            engine.take_snapshot()
    connection.set_trace_callback(None)
    explained = [f"EXPLAIN QUERY PLAN {sql}" for sql in dict.fromkeys(statements) if sql.startswith("SELECT")]
    plans = [bytes(row[3]).decode() for sql in explained for row in connection.execute(sql)]
    assert len(plans) > 10
    assert not [plan for plan in plans if plan.startswith(("SCAN period", "SCAN change", "SCAN error", "SCAN finding"))]


def test_a_queue_of_the_hour_before_stays_listed_as_unknown(tmp_path: Path) -> None:
    other = Ref("rq", "mail")
    with open_writer(tmp_path / "b.rqt", build_minutes(NOW_MS, 5), build_minutes(NOW_MS, 1, other)):
        pass
    engine = ReplayEngine(Reader.open(tmp_path / "b.rqt"))
    mail, unrecorded = engine.take_snapshot().queues
    assert engine.refs == [MAIL, other] and not mail.error and mail.verdict.severity == "ok"
    assert unrecorded.verdict[:2] == ("unknown", "not recorded at this time")
    engine.close()
