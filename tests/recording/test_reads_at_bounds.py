"""Which time spans of a recording are read for a moment, a queue or a plot: `reads_at_bounds.txt` has every read.

`RQTUI_WRITE_SNAPSHOTS=1 pytest tests/recording/test_reads_at_bounds.py` writes the text; review the difference as code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from kept_text import assert_lines_match_file, utc_time_zone
from recordings import MAIL, NOW_MS, QUEUE, build_period, build_server_period

from rqtui.engine.rates import Totals
from rqtui.errors import RqtuiError
from rqtui.model import Count, Finding, Queue, State
from rqtui.operations.journal import Operation, to_document
from rqtui.recording import course, export, flows, history, job_pages, moment, replay
from rqtui.recording.records import HOUR_MS, MINUTE_MS, ErrorCount, RecordedChange, RecordedFinding
from rqtui.recording.store import Coverage

KEPT = Path(__file__).with_name("reads_at_bounds.txt")
FINDING = RecordedFinding(MAIL, "failing", "warning", "9 of 9 fail", "", 9, NOW_MS, NOW_MS + 9)
CHANGE = Operation(NOW_MS, "anna@host", "requeue", "mail", "native", (b"a",), 1, {"moved": 1})
MOMENT = moment.Moment(
    NOW_MS, NOW_MS - 1, MINUTE_MS, SimpleNamespace(), (), (ErrorCount(MAIL, NOW_MS, "Timeout", 3),),
    {MAIL: build_period()},
)  # fmt: skip
SICK = Queue(
    "mail", "native", (Count("ready", State.READY, 2),), NOW_MS, findings=(Finding("failing", "warning", "mail", ""),)
)


class LoggingReader:
    """A recording of one queue, which writes down what is read of it."""

    path = Path("recording.rqt")

    def __init__(self, **records: Any) -> None:
        self.lines: list[str] = []
        self.records: dict[str, Any] = {
            "find_queue": QUEUE, "list_queues": [QUEUE], "read_coverage": Coverage(NOW_MS, NOW_MS + 1), "read_meta": {},
            "find_recorded_ms": NOW_MS, "find_refresh_ms": NOW_MS, "find_span_end_ms": NOW_MS + MINUTE_MS,
            "read_job_page": None, **records,
        }  # fmt: skip

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def read(*args: object) -> Any:
            if name == "iterate_rows":
                args = (args[0], args[2])  # without the condition in SQL
            self.lines.append(f"{name}({', '.join(map(describe, args))})")
            return self.records.get(name, [])

        return read


def describe(value: object) -> str:
    """Describe an argument of a read: times are counted from the moment."""
    if isinstance(value, int) and value > NOW_MS // 2:
        return f"@{value - NOW_MS}" if value < 2 * NOW_MS else "the end"
    if isinstance(value, dict):
        return ", ".join(f"{key} {describe(each)}" for key, each in value.items())
    if isinstance(value, set | tuple | list) and not hasattr(value, "_fields"):
        return f"[{', '.join(map(describe, value))}]"
    return str(value)


def trace(title: str, reader: LoggingReader, read: Callable[[Any], Any]) -> Iterator[str]:
    try:
        result = read(reader)
    except RqtuiError as error:
        result = str(error)
    yield f"== {title}: {describe(result) if isinstance(result, str | int | None) else type(result).__name__}"
    yield from (f"  {line}" for line in reader.lines)


def build_engine(reader: Any, **attributes: Any) -> Any:
    """Build the part of a replay that reads a file, at the moment `NOW_MS`."""
    engine: Any = object.__new__(replay.ReplayEngine)
    usual = {
        "_reader": reader, "_begin_ms": NOW_MS - 60, "_end_ms": NOW_MS + 60, "_at_ms": NOW_MS, "_is_playing": False,
        "_findings": (NOW_MS,), "_changes": (NOW_MS,), "_spans": (), "_speed": 60, "_moment": MOMENT, "_pages": {},
    }  # fmt: skip
    engine.__dict__.update({**usual, **attributes})
    return engine


def past() -> Iterator[str]:
    change = RecordedChange(NOW_MS - 5, "key", to_document(CHANGE))
    minutes = [build_period(NOW_MS - back * MINUTE_MS, died=back) for back in (3, 2, 1)]
    earlier = FINDING._replace(begin_ms=NOW_MS - 3_600_000, seen_ms=NOW_MS - 3_000_000, end_ms=NOW_MS - 3_000_000)
    full = {"read_findings": [earlier, FINDING], "read_last_changes": [change], "read_periods": minutes}
    for title, records in (("nothing", {}), ("a finding, a change and minutes", full)):
        reader = LoggingReader(**records)
        yield from trace(
            f"the past with {title}", reader, lambda store: course.read_past(store, MAIL, SICK, NOW_MS, [], [])
        )
    yield from trace(
        "the marks", LoggingReader(), lambda store: course.read_marks(store, [MAIL], NOW_MS - 9, NOW_MS, [], [])
    )
    for changes in ([CHANGE], [CHANGE, Operation(NOW_MS + 7, "a", "b", "c", "d", (), 0, {}, began_ms=NOW_MS - 7)]):
        yield from trace(
            f"the effect of {len(changes)} changes", LoggingReader(),
            lambda store, changes=changes: course._read_effect(store, MAIL, course.courses.FAILED, changes),
        )  # fmt: skip
    yield from trace(
        "the last checkpoints", LoggingReader(), lambda store: history.read_checkpoints(store, MAIL, SICK, Totals())
    )
    for queues in ({}, {MAIL: SICK, MAIL._replace(queue="b"): SICK._replace(counted_ms=NOW_MS + 5)}):
        yield from trace(
            f"the starts of findings of {len(queues)} queues", LoggingReader(),
            lambda store, queues=queues: history.apply_recorded_starts(store, queues),
        )  # fmt: skip


def plots() -> Iterator[str]:
    hour_ms, day_ms = 3_600_000, 86_400_000
    for longest_ms in (3 * hour_ms, 2 * day_ms, 31 * day_ms):
        for span_ms in (longest_ms, longest_ms + 1):
            yield from trace(
                f"totals of {span_ms} ms", LoggingReader(),
                lambda store, span_ms=span_ms: flows.read_totals(store, [MAIL], NOW_MS - span_ms, NOW_MS),
            )  # fmt: skip
    yield from trace(
        "minutes", LoggingReader(), lambda store: flows.read_flows(store, MAIL, NOW_MS - 2 * MINUTE_MS, NOW_MS)
    )
    yield from trace(
        "steps", LoggingReader(), lambda store: flows.read_flows_in_steps(store, MAIL, NOW_MS - 2 * MINUTE_MS, NOW_MS)
    )


def moments() -> Iterator[str]:
    at_minute = {"read_periods_at": [build_period(NOW_MS - 5), build_period(NOW_MS - 4)]}
    for title, names, records in (
        ("of nothing", (), {}), ("of an empty file", (), {"read_coverage": Coverage()}),
        ("of all queues", (), at_minute), ("of one queue", ("mail",), at_minute),
    ):  # fmt: skip
        reader = LoggingReader(**records)
        yield from trace(
            f"a moment {title}", reader, lambda store, names=names: moment.read_moment(store, NOW_MS, names)
        )
    count = Count("ready", State.READY, 2)
    yield from trace(
        "a page",
        LoggingReader(),
        lambda store: job_pages.read_recorded_page(store, MAIL, count, NOW_MS, NOW_MS - 5).error,
    )


def replays() -> Iterator[str]:
    methods: dict[str, Callable[[Any], Any]] = {
        "the first moment": lambda engine: engine._find_first_moment(NOW_MS),
        "a moment after the end": lambda engine: engine._find_first_moment(NOW_MS + MINUTE_MS),
        "a moment before the start": lambda engine: engine._find_first_moment(NOW_MS - 61),
        "the marks of a plot": lambda engine: engine._read_marks([MAIL], 3),
        "the totals of a plot": lambda engine: engine._read_totals([MAIL], 3),
        "operations": lambda engine: engine._list_operations(NOW_MS),
        "sightings": lambda engine: engine._list_sightings(NOW_MS),
        "a jump to a finding": lambda engine: engine._describe_marks(NOW_MS, "finding"),
        "a jump to a change": lambda engine: engine._describe_marks(NOW_MS, "change"),
        "the state": lambda engine: engine._build_state(MOMENT),
        "a job": lambda engine: engine._find_job((MAIL, b"a"), {MAIL: SICK}),
        "a job of an unknown queue": lambda engine: engine._find_job((MAIL, b"a"), {}),
        "a page of no queue": lambda engine: engine._read_page(MAIL, "ready", None).total,
        "a page of no place": lambda engine: engine._read_page(MAIL, "dead", SICK).total,
        "the report of an incident": lambda engine: engine.build_incident(SICK),
        "the URL": lambda engine: engine.url,
    }
    for title, read in methods.items():
        yield from trace(title, LoggingReader(), lambda reader, read=read: read(build_engine(reader)))
    for target in ("end", "record", "finding", "change"):
        for step in (1, -1):
            for found_ms in (NOW_MS + step, None):
                reader = LoggingReader(find_refresh_ms=found_ms, find_recorded_ms=found_ms)
                marks = (NOW_MS - 2, NOW_MS, NOW_MS + 2)
                engine = build_engine(reader, _findings=marks, _changes=marks, _is_playing=True, _advance=lambda: None)
                yield from trace(f"{target} {step:+}", reader, lambda _reader, e=engine, t=target, s=step: e.move(t, s))
                yield f"  at {describe(engine._at_ms)}, playing: {engine._is_playing}"
    several = [FINDING, FINDING._replace(ref=None), FINDING._replace(begin_ms=NOW_MS - 1)]
    for found in ([], several[:1], several):
        engine = build_engine(LoggingReader(read_findings=found))
        yield f"{len(found)} findings: {engine._describe_marks(NOW_MS, 'finding')!r}"
    for at_ms in (NOW_MS, NOW_MS + 59, NOW_MS + 60, NOW_MS + 61):
        engine = build_engine(LoggingReader(), _at_ms=at_ms, _clock=lambda: 5.0)
        said = engine.toggle_playing()
        yield f"to play at {describe(at_ms)}: {said!r}, playing: {engine._is_playing}"
    for speed in replay.SPEEDS:
        faster, slower = (build_engine(LoggingReader(), _speed=speed, _clock=lambda: 5.0) for _each in "ab")
        yield f"speed {speed}: {faster.change_speed(1)!r} {faster._speed}, {slower.change_speed(-1)!r} {slower._speed}"
    for passed_s in (0.0, 0.0009, 0.001, 0.5, 1.0):
        for found_ms in (NOW_MS + 59, NOW_MS + 60, NOW_MS + 61, None):
            reader = LoggingReader(find_recorded_ms=found_ms)
            engine = build_engine(
                reader, _is_playing=True, _since_s=7.0, _clock=lambda passed_s=passed_s: 7.0 + passed_s
            )
            engine._advance()
            yield (
                f"{passed_s} s later, {found_ms and describe(found_ms)} recorded: {reader.lines}"
                f" {describe(engine._at_ms)} {engine._is_playing}"
            )
    yield from trace("a new replay", LoggingReader(read_periods_at=[build_period(NOW_MS)]), replay.ReplayEngine)
    yield from trace("a new replay of nothing", LoggingReader(find_refresh_ms=None), replay.ReplayEngine)


def exports(folder: Path) -> Iterator[str]:
    for title, server in (("hours", []), ("minutes", [build_server_period(NOW_MS)])):
        for has_job_pages in (True, False):
            reader = LoggingReader(read_server_periods=server)
            reader.__dict__["has_job_pages"] = True
            yield from trace(
                f"an export of {title}, jobs {has_job_pages}", reader,
                lambda source, has=has_job_pages: export.export_recording(
                    source, folder / "copy", NOW_MS + MINUTE_MS + 1, NOW_MS + HOUR_MS, has_job_pages=has
                ),
            )  # fmt: skip


def text(folder: Path) -> Iterator[str]:
    for part in (past, plots, moments, replays):
        yield f"# {part.__name__}"
        yield from part()
    yield "# exports"
    yield from (line.replace(str(folder), "FOLDER") for line in exports(folder))


def test_reads_of_a_recording_match_the_stored_text(tmp_path: Path) -> None:
    with utc_time_zone():
        lines = [*text(tmp_path)]
    assert_lines_match_file(lines, KEPT)
