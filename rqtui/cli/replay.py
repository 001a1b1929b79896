"""Implement `replay`: open the screen on a recording, without a connection to Redis."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rqtui.cli import output
from rqtui.cli.past import parse_past_time
from rqtui.cli.session import USAGE, Session

if TYPE_CHECKING:
    from rqtui.config.settings import Settings


def replay(
    session: Session,
    file: Annotated[
        str | None,
        typer.Argument(metavar="[FILE]", help="The recording; without it that of --url, or the only one there is."),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="TIME", help="Begin at this moment: 2026-11-27T12:30, or 2h ago."),
    ] = None,
) -> int:
    """Open the screen on a recording: its queues, findings and changes at any recorded moment. Nothing is changed.

    Example: rqtui replay incident.rqt --at 2026-11-27T12:30
    """
    from rqtui.cli.screen import replay_screen
    from rqtui.recording.replay import ReplayEngine

    at_ms = parse_past_time(at, "--at") if at is not None else None
    path = Path(file) if file is not None else _find_recording(session)
    if path is None:
        return USAGE
    engine = ReplayEngine.open(path, at_ms)  # raises before the screen opens
    url = engine.url
    engine.close()
    return replay_screen(_build_settings(session.settings, url), path, at_ms)


def _build_settings(settings: Settings, url: str) -> Settings:
    """Return the settings of a screen on a recording of `url`: its look, and no right to change anything."""
    return replace(
        settings, url=url, systems=(), profile="", badge="", read_only=True, may_unlock=False, is_recording=False
    )


def _find_recording(session: Session) -> Path | None:
    """Return the recording of the session's Redis, or else the only one of this machine.

    If there are several others, list them and return None. Raises RecordingError if there is none.
    """
    from rqtui.config.resolve import COMMAND_LINE
    from rqtui.config.state_folder import find_state_folder
    from rqtui.errors import RecordingError
    from rqtui.recording.files import find_recording_path, list_recordings

    path = find_recording_path(find_state_folder(), session.settings.url)
    is_named = session.in_force is not None and session.in_force.sources.get("url") == COMMAND_LINE
    if is_named or path.exists():
        return path
    paths = list_recordings(find_state_folder())
    if not paths:
        raise RecordingError("there is no recording on this machine: rqtui record writes one, and so does the screen.")
    if len(paths) == 1:
        return paths[0]
    output.write_lines([line for path in paths for line in _describe_recording(path)])
    output.print_message("there are several recordings: name one of these files, or a Redis with --url.")
    return None


def _describe_recording(path: Path) -> list[str]:
    """Return a line about a recording: its file, its Redis and its time, or why it cannot be read."""
    from rqtui.errors import RecordingError
    from rqtui.recording.store import Reader
    from rqtui.text.formats import format_date_and_time

    try:
        with Reader.open(path) as reader:
            coverage, url = reader.read_coverage(), reader.read_meta().get("url", "")
    except RecordingError as error:
        return [f"{path}  {error}"]
    if coverage.begin_ms is None:
        return [f"{path}  {url}  empty"]
    begin, end = format_date_and_time(coverage.begin_ms), format_date_and_time(coverage.end_ms)
    return [f"{path}  {url}  {begin} to {end}"]
