"""Implement `record`: record the queues of a Redis in a local file until stopped. Nothing in Redis is changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rqtui.cli import output
from rqtui.cli.logs import set_up_logging
from rqtui.cli.past import parse_past_time
from rqtui.cli.session import DONE, NO_WAIT, REFUSED, Session
from rqtui.cli.signals import stop_on_signals
from rqtui.config.settings import MAX_INTERVAL_S, MAX_RECORD_JOBS, MIN_INTERVAL_S
from rqtui.errors import UsageError

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine
    from rqtui.engine.ticker import TickerEvent
    from rqtui.model import Focus
    from rqtui.recording.recorder import Recorder
    from rqtui.recording.store import Reader

FOREVER_MS = 1 << 53
ONCE_S = 60.0  # the longest wait until one refresh is in the file


def record(
    session: Session,
    server: Annotated[str | None, typer.Argument(metavar="[URL]", help="The Redis server, as --url names it.")] = None,
    every_s: Annotated[
        float | None,
        typer.Option("--every", metavar="S", help="Read the queues every S seconds; without it the file's interval."),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", metavar="N", help="Record the first N jobs of each place once a minute; 0: none."),
    ] = None,
    is_status: Annotated[
        bool, typer.Option("--status", help="Print where the recording is and what it covers, and exit.")
    ] = False,
    is_once: Annotated[bool, typer.Option("--once", help="Record one refresh, and exit.")] = False,
    export: Annotated[
        str | None, typer.Option("--export", metavar="FILE", help="Copy a time span to a new file, and exit.")
    ] = None,
    begin: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="The start of the span: 2026-11-27T12:30, or 2h ago.")
    ] = None,
    end: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="The end of the span; without it now.")
    ] = None,
    no_wait: NO_WAIT = False,
) -> int:
    """Record counts, rates, ages, workers, findings and changes of all queues in a local file, until stopped.

    Example: rqtui record redis://jobs-1:6379/0
    """
    from rqtui.config.state_folder import find_state_folder
    from rqtui.recording.files import find_recording_path

    if server is not None:
        session = _replace_url(session, server)
    if every_s is not None and not MIN_INTERVAL_S <= every_s <= MAX_INTERVAL_S:  # NaN is refused too
        raise UsageError(f"--every is a number of seconds between {MIN_INTERVAL_S} and {MAX_INTERVAL_S:.0f}.")
    if jobs is not None and not 0 <= jobs <= MAX_RECORD_JOBS:
        raise UsageError(f"--jobs is a whole number from 0 to {MAX_RECORD_JOBS}.")
    if jobs is not None and is_status:
        raise UsageError("--jobs goes with recording, not with --status.")
    if jobs and export is not None:
        raise UsageError("--export copies all recorded jobs of its span, and with --jobs 0 none of them.")
    path = find_recording_path(find_state_folder(), session.settings.url)
    if export is None and (begin or end):
        raise UsageError("--from and --to go with --export.")
    if export is not None:
        return _export_span(session, path, Path(export), begin, end, has_jobs=jobs is None)
    if is_status:
        return _print_status(session, path)
    if jobs is not None:
        session = replace(session, settings=replace(session.settings, record_jobs=jobs))
    if is_once:
        return _record_one_refresh(session, path)
    if session.as_json:
        raise UsageError("--json goes with --status, --once or --export; otherwise the command prints messages only.")
    return _record_until_stopped(session, path, every_s or session.settings.interval_s, no_wait=no_wait)


def _replace_url(session: Session, url: str) -> Session:
    """Return the session for the Redis at the URL that was given as an argument.

    Raises UsageError if it is no URL, or if `--url` names another one.
    """
    from rqtui.connection.connect import hide_url_passwords
    from rqtui.connection.passwords import add_url_password, has_url_password, read_password_from_environment

    if "://" not in url:
        raise UsageError(
            f'"{hide_url_passwords(url)}" is not a URL, which contains "://". All queues are recorded, so name none.'
        )
    if session.in_force is not None and session.in_force.sources.get("url") == "command line":
        raise UsageError("name the Redis once: as an argument or with --url.")
    if not has_url_password(url):
        import os

        url = add_url_password(url, read_password_from_environment(os.environ))
    return replace(session, settings=replace(session.settings, url=url))


def _record_one_refresh(session: Session, path: Path) -> int:
    """Record one refresh, print what the recording covers then, and return the exit code."""
    from rqtui.model import Focus

    engine = session.create_engine(discover=True)
    recorder = _start_recorder(session, path)
    counted = engine.take_snapshot(Focus(is_thorough=True))
    recorder.record_snapshot(counted, engine.find_totals)
    while pages := recorder.choose_pages(counted, engine.systems):
        recorder.record_snapshot(engine.take_snapshot(Focus(pages=pages)), engine.find_totals, selections=pages)
    recorder.close(ONCE_S)
    return REFUSED if recorder.problem else _print_status(session, path)


def _export_span(
    session: Session, path: Path, target: Path, begin: str | None, end: str | None, *, has_jobs: bool
) -> int:
    """Copy a time span of the recording to a new file, with recorded jobs if `has_jobs`, and print what was copied."""
    from rqtui.recording.export import export_recording
    from rqtui.recording.store import Reader
    from rqtui.text.formats import format_date_and_time, format_size

    begin_ms = parse_past_time(begin, "--from") if begin else 0
    end_ms = parse_past_time(end, "--to") if end else FOREVER_MS
    if begin_ms >= end_ms:
        raise UsageError("--from is a time before --to.")
    with Reader.open(path) as reader:
        export = export_recording(reader, target, begin_ms, end_ms, has_job_pages=has_jobs)
    with Reader.open(target) as copied:
        coverage = copied.read_coverage()
    document = {
        "path": str(target),
        "bytes": export.size_bytes,
        "begin_at_ms": coverage.begin_ms,
        "end_at_ms": coverage.end_ms,
        "rows": export.rows,
    }
    if session.as_json:
        output.write_json(document)
    else:
        times = f"{format_date_and_time(coverage.begin_ms)} to {format_date_and_time(coverage.end_ms)}"
        output.write_lines([f"{target}: {times}, {format_size(export.size_bytes)}"])
        output.print_message("names of queues and hosts are in the file as they are; texts are masked.")
        if export.rows.get("job_page"):
            output.print_message(
                "the first jobs of each place are in it too, with their ids and the beginnings of their bodies; "
                "--jobs 0 leaves them out."
            )
    return DONE


def _start_recorder(session: Session, path: Path) -> Recorder:
    """Start the recorder of a session. Raises RecordingError if the file cannot be written at the start."""
    from rqtui.config.state_folder import create_private_folder, find_state_folder
    from rqtui.connection.connect import hide_url_passwords
    from rqtui.recording.recorder import Recorder
    from rqtui.recording.store import Limits, Writer

    url = hide_url_passwords(session.settings.url)
    create_private_folder(find_state_folder())
    Writer.open(path, url).close()
    limits = Limits(session.settings.record_mb * 1_000_000, session.settings.record_days)
    return Recorder(path, url, limits, output.print_message, find_state_folder(), session.settings.record_jobs)


def _record_until_stopped(session: Session, path: Path, interval_s: float, *, no_wait: bool) -> int:
    """Record snapshots until a signal ends the command, and return the exit code.

    Raises RecordingError if the file cannot be written at the start. A later problem is reported, and retried.
    """
    from rqtui.connection.connect import hide_url_passwords
    from rqtui.engine.ticker import Ticker
    from rqtui.text.formats import format_quantity

    set_up_logging(session.settings.log_format)
    engine = session.create_engine(reached=no_wait, runs_on=no_wait)
    recorder = _start_recorder(session, path)
    handler = _EventHandler(session, engine, recorder)
    ticker = Ticker(lambda: engine, handler.handle_event, interval_s)
    handler.set_next_focus = ticker.set_next_focus
    with stop_on_signals(engine.client, command="record") as stop:
        settings = session.settings
        first_jobs = format_quantity(settings.record_jobs, "first job")
        jobs = f", with up to {first_jobs} of each place" if settings.record_jobs else ""
        output.print_message(
            f"recording {hide_url_passwords(settings.url)} to {path}{jobs}: at most {settings.record_mb} MB and "
            f"{settings.record_days} days; Ctrl+C ends it."
        )
        ticker.start()
        while not stop.wait(1.0):
            pass
        ticker.stop()
        recorder.close()
    return stop.code


class _EventHandler:
    """Passes the events of the ticker to the recorder, and prints each new error once.

    The recorder chooses the pages of jobs that the next refresh reads. `set_next_focus` is that of the ticker, and is
    set before the ticker starts.
    """

    def __init__(self, session: Session, engine: Engine, recorder: Recorder) -> None:
        self._session, self._engine, self._recorder = session, engine, recorder
        self.set_next_focus: Callable[[Focus], None] = lambda _focus: None
        self._last_error = ""

    def handle_event(self, event: TickerEvent) -> None:
        """Handle one event. Called on the ticker's thread."""
        import time

        from rqtui.engine.ticker import RefreshFailed, ServerLost, SnapshotTaken
        from rqtui.model import Focus

        self._recorder.handle_event(event, self._engine)
        if isinstance(event, SnapshotTaken):
            self._last_error = ""
            self.set_next_focus(Focus(pages=self._recorder.choose_pages(event.snapshot, self._engine.systems)))
        elif isinstance(event, ServerLost):
            wait_s = max(0.0, round(event.next_s - time.monotonic(), 1))
            self._print_unless_repeated(event.error, self._session.format_retry_message(event.error, wait_s))
        elif isinstance(event, RefreshFailed):
            self._print_unless_repeated(event.error, event.error)

    def _print_unless_repeated(self, error: str, sentence: str) -> None:
        if error != self._last_error:
            output.print_message(sentence)
        self._last_error = error


def _print_status(session: Session, path: Path) -> int:
    """Print where the recording of a Redis is, and what it covers. Raises RecordingError if there is none."""
    from rqtui.recording.store import Reader

    with Reader.open(path) as reader:
        document = _build_status_document(reader)
    if session.as_json:
        output.write_json(document)
        return DONE
    from rqtui.text.formats import format_date_and_time, format_size

    begin_ms, end_ms = document["begin_at_ms"], document["end_at_ms"]
    span = (
        f"{format_date_and_time(begin_ms)} to {format_date_and_time(end_ms)}" if begin_ms is not None else "nothing yet"
    )
    rows = [
        ("file", document["path"]),
        ("of", document["url"]),
        ("size", format_size(document["bytes"])),
        ("recorded", span),
        ("queues", str(document["queues"])),
    ]
    output.write_lines([f"{name:<10}{value}" for name, value in rows])
    return DONE


def _build_status_document(reader: Reader) -> dict[str, Any]:
    coverage = reader.read_coverage()
    return {
        "path": str(reader.path),
        "url": reader.read_meta().get("url", ""),
        "format": reader.version,
        "bytes": reader.path.stat().st_size,
        "begin_at_ms": coverage.begin_ms,
        "end_at_ms": coverage.end_ms,
        "queues": len({queue.ref for queue in reader.list_queues()}),
    }
