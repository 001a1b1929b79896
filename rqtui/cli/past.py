"""Open the recording of a command's Redis, and parse the points in time that `--from`, `--to` and `--at` name."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from rqtui.cli import output
from rqtui.cli.session import Session
from rqtui.durations import parse_duration, parse_instant
from rqtui.errors import RecordingError, UsageError

if TYPE_CHECKING:
    from rqtui.model import Count
    from rqtui.operations.journal import Operation, Sighting
    from rqtui.recording.moment import Moment
    from rqtui.recording.records import RecordedPage
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


class LoadedJournal(NamedTuple):
    """The changes (the newest first) and findings (the oldest first) of one Redis, and what could not be read."""

    operations: list[Operation]
    sightings: list[Sighting]
    problems: list[str]


def load_journal(redis_url: str) -> LoadedJournal:
    """Load the changes and the findings of one Redis from the journal of this machine."""
    from rqtui.config.state_folder import find_state_folder
    from rqtui.connection.connect import hide_url_passwords
    from rqtui.operations import journal

    url, problems = hide_url_passwords(redis_url), list[str]()
    operations = [each for each in journal.load_operations(find_state_folder(), problems=problems) if each.url == url]
    return LoadedJournal(operations, journal.load_sightings(find_state_folder(), url), problems)


AT = Annotated[
    str | None,
    typer.Option("--at", metavar="TIME", help="Show this moment from the recording: 2026-11-27T12:30, or 2h ago."),
]


def read_recorded_moment(session: Session, at: str, queues: Sequence[str] | None) -> Moment:
    """Read a past moment of the session's Redis from its recording, without a connection to Redis.

    What the numbers are is printed as a message. Raises RecordingError or UsageError.
    """
    from rqtui.config.state_folder import find_state_folder
    from rqtui.recording.files import find_recording_path
    from rqtui.recording.moment import describe_moment, read_moment
    from rqtui.recording.store import Reader

    at_ms = parse_past_time(at, "--at")
    with Reader.open(find_recording_path(find_state_folder(), session.settings.url)) as reader:
        moment = read_moment(reader, at_ms, queues or ())
    output.print_message(describe_moment(moment))
    return moment


def read_recorded_pages(
    session: Session, at: str, queue: str, place: str | None
) -> tuple[Moment, list[tuple[Count, RecordedPage | None]]]:
    """Read which jobs of a queue were recorded at a past moment, without a connection to Redis.

    `place` is the name of a place or a state; None: all places. Returns the moment, and each place with its page; None:
    no page is recorded. Raises RecordingError or UsageError.
    """
    from rqtui.config.state_folder import find_state_folder
    from rqtui.model import Ref
    from rqtui.recording.files import find_recording_path
    from rqtui.recording.job_pages import find_recorded_page
    from rqtui.recording.moment import describe_moment, read_moment
    from rqtui.recording.store import Reader

    at_ms = parse_past_time(at, "--at")
    with Reader.open(find_recording_path(find_state_folder(), session.settings.url)) as reader:
        moment = read_moment(reader, at_ms, (queue,))
        [recorded] = moment.snapshot.queues
        ref = Ref(recorded.system, recorded.name)
        counts = [count for count in recorded.counts if place is None or count.place == place]
        counts = counts or [count for count in recorded.counts if count.state == place]
        if not counts:
            raise UsageError(
                f'{queue} had no place "{place}"; its places: {", ".join(count.place for count in recorded.counts)}.'
            )
        minute_ms = moment.periods[ref].at_ms
        pages = [(count, find_recorded_page(reader, ref, count, at_ms, minute_ms)) for count in counts]
    output.print_message(describe_moment(moment))
    return moment, pages


def build_recorded_fields(moment: Moment) -> dict[str, Any]:
    """Build the member of a JSON document that says which minute or hour of the recording it is of."""
    return {"recorded": {"at_ms": moment.at_ms, "minute_at_ms": moment.begin_ms, "span_ms": moment.span_ms}}


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
