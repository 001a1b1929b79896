"""Open the recording of a command's Redis, and parse the points in time that `--from`, `--to` and `--at` name."""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING

from rqtui.cli import output
from rqtui.cli.session import Session
from rqtui.durations import parse_duration, parse_instant
from rqtui.errors import RecordingError, UsageError

if TYPE_CHECKING:
    from rqtui.recording.store import Reader


def open_recording(session: Session) -> Reader | None:
    """Open the recording of the session's Redis, or return None without one. A file that cannot be read is reported."""
    from rqtui.config.state_folder import find_state_folder
    from rqtui.recording.files import find_recording_path
    from rqtui.recording.store import Reader

    path = find_recording_path(find_state_folder(), session.settings.url)
    if not path.exists():
        return None
    try:
        return Reader.open(path)
    except RecordingError as error:
        output.print_message(str(error))
        return None


def parse_past_time(text: str, option: str) -> int:
    """Parse a point in time to ms: `2026-11-27T12:30Z`, the same in local time without a zone, or `2h` for 2 hours ago.

    Raises UsageError, also for a time in the future.
    """
    now_ms = int(time.time() * 1000)
    if any(sign in text for sign in ("-", ":", "T")):
        try:
            moment = datetime.fromisoformat(text.strip())
        except ValueError:
            moment = None
        if moment is not None:
            at_ms = parse_instant(moment if moment.tzinfo else moment.astimezone(), option)
            if at_ms > now_ms:
                raise UsageError(f"{option}: {text} is in the future.")
            return at_ms
        raise UsageError(f'{option}: "{text}" is no time; write 2026-11-27T12:30, 2026-11-27T12:30Z or 2h (ago).')
    return now_ms - parse_duration(text, option)
