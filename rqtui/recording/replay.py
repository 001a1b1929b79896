"""Replay a recording: an engine that takes the snapshots of a screen from a file instead of from Redis.

`rqtui replay` opens the screen with a `ReplayEngine`. Its queues, findings and changes are those of one moment, which
keys move (`move`) and which advances by itself while the recording is played. No connection is opened. The pages of a
board have the jobs that were recorded. Workers and everything else that is not recorded raise RecordingError with a
sentence that says so. All methods run on the
thread of the screen's ticker; the screen reads the `ReplayState` in each snapshot.
"""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn, TypeVar

from rqtui.engine.engine import FULL_FOCUS, Engine
from rqtui.errors import RecordingError, RqtuiError
from rqtui.model import (
    NO_EVENT_COVERAGE,
    Focus,
    Job,
    Page,
    Place,
    Queue,
    RecentActivity,
    Ref,
    Snapshot,
    State,
    Verdict,
)
from rqtui.operations.journal import MAX_OPERATIONS, Journal, Operation, Sighting
from rqtui.recording.course import add_past, merge_sightings, parse_recorded_operations, read_marks, read_past
from rqtui.recording.flows import MinuteTotals, read_totals
from rqtui.recording.job_pages import NOT_RECORDED, read_recorded_page
from rqtui.recording.moment import NOT_RECORDED_THEN, Moment, read_moment
from rqtui.recording.records import HOUR_MS, MINUTE_MS, ErrorCount, Period, RecordedQueue
from rqtui.recording.store import Reader, translate_store_errors
from rqtui.reports.course import Mark
from rqtui.reports.errors import Errors, build_report
from rqtui.reports.incident import Incident, build_past_incident
from rqtui.reports.sampling import Extent
from rqtui.system_base.system import Request, System
from rqtui.systems import registry
from rqtui.text.causes import Width
from rqtui.text.formats import format_date_and_time

T = TypeVar("T")
SPEEDS = (1, 10, 60, 600, 3600)  # seconds of the recording per second
DEFAULT_SPEED = 60  # a recorded minute per second
MAX_MARKS = 100_000  # findings, changes and recorded minutes that are listed of one file, the newest ones
MAX_JOBS_PER_CAUSE = 5_000  # as many as a health check reads
REPLAY_RESULT = "replay"  # the name of the `ReplayState` in the results of a snapshot
NOTHING_ELSE = (
    "This is a recording: it has counts, findings, causes of failures, changes and, if they were recorded, the first "
    "jobs of each place, and nothing else."
)


class ReplayState(NamedTuple):
    """The moment that a replay shows, and what the time bar and the views need beside the snapshot of the queues."""

    at_ms: int  # the moment
    record_ms: int  # the start of the recorded minute or hour that contains the moment
    span_ms: int  # a duration: of that minute or hour
    begin_ms: int  # the span of the recording
    end_ms: int
    is_playing: bool
    speed: int
    findings: tuple[int, ...]  # when findings began, the oldest first
    changes: tuple[int, ...]  # when changes ended, the oldest first
    spans: tuple[tuple[int, int], ...]  # the recorded times, without the gaps between them
    causes: tuple[ErrorCount, ...] = ()
    operations: tuple[Operation, ...] = ()  # until the moment, the newest first
    sightings: tuple[Sighting, ...] = ()  # findings that began or ended in the hour before the moment


class RecordedSystem(System):
    """A queue system as a recording knows it: its places, and no script, so that no verb exists."""

    def __init__(self, name: str, queues: Sequence[RecordedQueue]) -> None:
        # The base class would load the scripts of the system, which may not be installed here.
        self.name = name
        self.specs = ({},)
        self.is_explicit = False
        self.scripts = MappingProxyType({})  # type: ignore[assignment]
        self.event_coverage = NO_EVENT_COVERAGE
        self._clock = (0, 0.0)
        original = _find_original_system(name)
        if original is not None:
            self.known_fields, self.shares_workers = original.known_fields, original.shares_workers  # type: ignore[misc]
        original_places = {(place.name, place.state): place for place in (original.places if original else ())}
        recorded = {place.name: place for queue in queues for place in queue.places}
        self.places = tuple(  # type: ignore[misc]
            original_places.get((place.name, place.state), Place(place.name, place.state, "", "list"))._replace(
                has_failures=place.has_failures, is_shared=False, is_from_events=False, is_key_per_job=False
            )
            for place in recorded.values()
        )

    def keys(self, queue: str) -> Mapping[str, str]:
        """Return no keys: a recording does not name them."""
        return {}

    def queue_request(self, queue: str) -> Request[Queue]:
        """Build a request that raises RecordingError: a queue is read together with all others of its moment."""
        return Request((), _raise_not_recorded)

    def page_request(self, queue: str, place: str, offset: int, limit: int, body_bytes: int) -> Request[Page]:
        """Build a request that raises RecordingError: recorded pages are read with the snapshot of their moment."""
        return Request((), _raise_not_recorded)

    def job_request(self, queue: str, id: bytes, body_bytes: int) -> Request[Any]:
        """Build a request that raises RecordingError: recorded jobs are read with the snapshot of their moment."""
        return Request((), _raise_not_recorded)

    def workers_request(self, queue: str) -> Request[Any]:
        """Build a request that raises RecordingError: only the number of workers is recorded."""
        return Request((), _raise_not_recorded)


class _NoRedis:
    """Stands for the connection of an engine that has none: every command raises RecordingError."""

    is_cluster = False

    class connection_pool:
        """A pool without connections, which counts no commands."""

        connection_class = object

    def __getattr__(self, name: str) -> Any:
        raise RecordingError(NOTHING_ELSE)


class ReplayEngine(Engine):
    """Takes snapshots of the moment that `move` chose, from a recording. Every change is refused.

    `at_ms` is the first moment; None: the end of the recording. `clock` is in seconds, and drives the replay while it
    is played. Raises RecordingError if nothing was recorded, or not at `at_ms`.
    """

    def __init__(self, reader: Reader, at_ms: int | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        queues_by_system: dict[str, list[RecordedQueue]] = defaultdict(list)
        for queue in reader.list_queues():
            queues_by_system[queue.ref.system].append(queue)
        super().__init__(
            _NoRedis(), [RecordedSystem(name, queues) for name, queues in queues_by_system.items()], read_only=True
        )
        self._reader, self._clock = reader, clock
        self._spans = tuple(reader.read_spans(MAX_MARKS))
        first_ms, last_ms = reader.find_recorded_ms(0), reader.find_refresh_ms(1 << 53, 0)
        if first_ms is None or last_ms is None:
            raise RecordingError(f"the recording {reader.path} is empty: nothing was recorded yet.")
        self._begin_ms, self._end_ms = first_ms, last_ms
        self._findings = tuple(at for at in reader.list_finding_times(MAX_MARKS) if first_ms <= at <= last_ms)
        self._changes = tuple(at for at in reader.list_change_times(MAX_MARKS) if first_ms <= at <= last_ms)
        self._is_playing, self._speed, self._since_s = False, DEFAULT_SPEED, clock()
        self._at_ms = last_ms if at_ms is None else self._find_first_moment(at_ms)
        self._moment = read_moment(reader, self._at_ms)
        self._state = self._build_state(self._moment)
        self._pages: dict[tuple[Ref, str], Page] = {}  # the pages of the moment that were read

    @classmethod
    def open(cls, path: Path, at_ms: int | None = None) -> ReplayEngine:
        """Open the recording at `path`. Raises RecordingError if it cannot be read, or has nothing of `at_ms`."""
        reader = Reader.open(path)
        try:
            with translate_store_errors(path):
                return cls(reader, at_ms)
        except BaseException:
            reader.close()
            raise

    @property
    def url(self) -> str:
        """The masked URL of the Redis that was recorded."""
        return self._reader.read_meta().get("url", "")

    def close(self) -> None:
        """Close the file."""
        self._reader.close()

    def _find_first_moment(self, at_ms: int) -> int:
        """Return the first recorded moment from `at_ms` on. Raises RecordingError for a time outside the recording."""
        if not self._begin_ms <= at_ms < self._reader.find_span_end_ms(self._end_ms):
            raise RecordingError(
                f"nothing is recorded at {format_date_and_time(at_ms)} in {self._reader.path}; it covers "
                f"{format_date_and_time(self._begin_ms)} to {format_date_and_time(self._end_ms)}, perhaps with gaps."
            )
        return self._reader.find_recorded_ms(at_ms) or self._end_ms

    # -- time -------------------------------------------------------------------------------------------------------

    def move(self, target: str, step: int) -> str:
        """Move the moment to the next or previous `record`, `finding` or `change`, or to an `end` of the recording.

        `step` is 1 or -1. Returns a sentence about the new moment, or why there is none; it may be empty.
        """
        self._advance()
        now_ms = self._at_ms
        if target == "end":
            moved_ms = self._end_ms if step > 0 else self._reader.find_refresh_ms(self._begin_ms, 0)
        elif target == "record":
            moved_ms = self._reader.find_refresh_ms(now_ms, step)
        else:
            moved_ms = self._find_mark(self._findings if target == "finding" else self._changes, step)
        if moved_ms is None:
            edge = "later" if step > 0 else "earlier"
            return f"The recording has no {edge} {'minute' if target == 'record' else target}."
        self._at_ms, self._is_playing = moved_ms, self._is_playing and target == "record"
        return self._describe_marks(moved_ms, target)

    def _find_mark(self, marks: Sequence[int], step: int) -> int | None:
        """Return the moment of the next or previous mark; for a mark in a gap, the first recorded moment after it."""
        number = bisect_right(marks, self._at_ms) if step > 0 else bisect_left(marks, self._at_ms) - 1
        while 0 <= number < len(marks):
            moment_ms = self._reader.find_recorded_ms(marks[number])
            if moment_ms is not None and (moment_ms - self._at_ms) * step > 0:
                return moment_ms
            number += step
        return None

    def _describe_marks(self, at_ms: int, target: str) -> str:
        """Return what began or was changed at a moment, for a jump to it."""
        if target == "finding":
            found = [each for each in self._reader.read_findings(at_ms, at_ms + 1) if each.begin_ms == at_ms]
            texts = [f"{each.ref.queue if each.ref else 'the server'}: {each.text}" for each in found]
        elif target == "change":
            changes = [each for each in self._list_operations(at_ms) if each.at_ms == at_ms]
            texts = [
                " ".join(filter(None, (each.verb, each.queue_label, each.describe_outcomes()))) for each in changes
            ]
        else:
            return ""
        more = f" · {len(texts) - 1} more" if len(texts) > 1 else ""
        return f"{texts[0]}{more}" if texts else ""

    def toggle_playing(self) -> str:
        """Play the recording from the current moment on, or pause it. Returns a sentence if it cannot be played."""
        self._advance()
        if not self._is_playing and self._at_ms >= self._end_ms:
            return "This is the end of the recording."
        self._is_playing, self._since_s = not self._is_playing, self._clock()
        return ""

    def change_speed(self, step: int) -> str:
        """Switch to the next higher speed, or with `step` -1 to the next lower one."""
        self._advance()
        position = SPEEDS.index(self._speed) + step
        self._speed = SPEEDS[min(len(SPEEDS) - 1, max(0, position))]
        return ""

    def _advance(self) -> None:
        """Add the time that passed since the last call to the moment, if the recording is played. Gaps are left out."""
        if not self._is_playing:
            return
        now_s = self._clock()
        target_ms = self._at_ms + int((now_s - self._since_s) * 1000 * self._speed)
        self._since_s = now_s
        moment_ms = self._reader.find_recorded_ms(target_ms)
        self._at_ms = self._end_ms if moment_ms is None else min(moment_ms, self._end_ms)
        self._is_playing = self._at_ms < self._end_ms

    # -- snapshots --------------------------------------------------------------------------------------------------

    def take_snapshot(self, focus: Focus = FULL_FOCUS) -> Snapshot:
        """Return the snapshot of the current moment, with its `ReplayState` in the results."""
        self._advance()
        if self._moment.at_ms != self._at_ms:
            with translate_store_errors(self._reader.path):
                moment = read_moment(self._reader, self._at_ms)
                self._moment, self._state, self._pages = moment, self._build_state(moment), {}
        moment = self._moment
        recorded = moment.snapshot.map_queues_by_ref()
        self.refs = [*recorded, *moment.unrecorded]
        self.warnings = moment.server_findings
        refs = self.refs if focus.queues is None else focus.queues
        state = self._state._replace(is_playing=self._is_playing, speed=self._speed)
        results = {name: tuple(map(_answer_request, requests)) for name, requests in focus.requests.items()}
        return Snapshot(
            moment.at_ms,
            tuple(recorded.get(ref) or _build_unrecorded_queue(ref) for ref in refs),
            tuple(self._read_page(ref, place, recorded.get(ref)) for ref, place, *_rest in focus.pages),
            self._find_job(focus.job, recorded) if focus.job else None,
            rates={
                ref: rate._replace(recent=_build_recent_activity(moment.periods[ref]))
                for ref, rate in moment.snapshot.rates.items()
            },
            results={**results, REPLAY_RESULT: (state,)},
            refs=tuple(refs),
        )

    def _read_page(self, ref: Ref, place: str, queue: Queue | None) -> Page:
        """Return the recorded jobs of a place at the moment; a page with an error if there are none."""
        if queue is None:
            return Page(ref.queue, ref.system, place, (), 0, error=f"The queue was {NOT_RECORDED_THEN}.")
        if (ref, place) not in self._pages:
            count = next((count for count in queue.counts if count.place == place), None)
            self._pages[ref, place] = (
                Page(ref.queue, ref.system, place, (), 0, error=NOT_RECORDED)
                if count is None
                else read_recorded_page(self._reader, ref, count, self._moment.at_ms, self._moment.periods[ref].at_ms)
            )
        return self._pages[ref, place]

    def _find_job(self, sought: tuple[Ref, bytes], recorded: Mapping[Ref, Queue]) -> Job | None:
        """Return a job from the recorded pages of its queue at the moment, or None."""
        ref, id = sought
        queue = recorded.get(ref)
        pages = [self._read_page(ref, count.place, queue) for count in queue.counts] if queue else []
        return next((job for page in pages for job in page.jobs if job.id == id), None)

    def _build_state(self, moment: Moment) -> ReplayState:
        return ReplayState(
            moment.at_ms,
            moment.begin_ms,
            moment.span_ms,
            self._begin_ms,
            self._end_ms,
            self._is_playing,
            self._speed,
            self._findings,
            self._changes,
            self._spans,
            moment.causes,
            self._list_operations(moment.at_ms),
            self._list_sightings(moment.at_ms),
        )

    def _list_operations(self, at_ms: int) -> tuple[Operation, ...]:
        """Return the changes until a moment, the newest first. A change that cannot be read is left out."""
        return tuple(parse_recorded_operations(self._reader.read_last_changes(at_ms, MAX_OPERATIONS)))

    def _list_sightings(self, at_ms: int) -> tuple[Sighting, ...]:
        """Return the findings of queues that began or ended in the hour before a moment, the oldest first."""
        findings = self._reader.read_findings(at_ms - HOUR_MS, at_ms + 1)
        return tuple(sighting for sighting in merge_sightings(findings, ()) if sighting.at_ms <= at_ms)

    def build_incident(self, queue: Queue) -> Incident:
        """Build the report of an incident of a queue at the moment, from what was recorded until then."""
        ref, at_ms = Ref(queue.system, queue.name), self._moment.at_ms
        causes = [(cause.cause, cause.jobs) for cause in self._moment.causes if cause.ref == ref]
        operations = self._list_operations(at_ms)
        with translate_store_errors(self._reader.path):
            past = read_past(self._reader, ref, queue, at_ms, operations, ())
        return add_past(build_past_incident(queue, at_ms, causes, operations, ()), past)

    def build_minutes_request(self, refs: Sequence[Ref], minutes: int) -> Request[tuple[MinuteTotals, ...]]:
        """Build the request for the recorded steps of some queues together, up to the moment of the snapshot."""
        return Request((), lambda _replies: self._read_totals(refs, minutes))

    def build_marks_request(self, refs: Sequence[Ref], minutes: int) -> Request[tuple[Mark, ...]]:
        """Build the request for the findings that began and the changes in the minutes up to the moment."""
        return Request((), lambda _replies: self._read_marks(refs, minutes))

    def _read_marks(self, refs: Sequence[Ref], minutes: int) -> tuple[Mark, ...]:
        return read_marks(self._reader, refs, self._at_ms - minutes * MINUTE_MS, self._at_ms + 1, (), ())

    def _read_totals(self, refs: Sequence[Ref], minutes: int) -> tuple[MinuteTotals, ...]:
        return read_totals(self._reader, refs, self._at_ms - minutes * MINUTE_MS, self._at_ms + 1)

    # -- what needs Redis -------------------------------------------------------------------------------------------

    def discover(self, fully: bool = False, max_keys: int | None = None) -> Iterator[list[Ref]]:
        """Yield nothing: the queues are those of the moment."""
        yield from ()

    def send_requests(self, requests: Sequence[Request[Any]]) -> list[Any]:
        """Answer requests that the recording can answer. Raises RecordingError for any other."""
        return [self.send_request(request) for request in requests]

    def send_request(self, request: Request[T]) -> T:
        """Answer a request that the recording can answer. Raises RecordingError for any other."""
        if request.calls:
            raise RecordingError(NOTHING_ELSE)
        return request.parse(())

    def check_server(self) -> bool:
        """Return whether the recording has findings about the server at the current moment."""
        return bool(self.warnings)

    def ping(self) -> None:
        """Send nothing."""

    def start_listening(self) -> None:
        """Subscribe to nothing."""

    def stop_listening(self) -> None:
        """Close the file, because the screen ends."""
        self.close()


class RecordedJournal(Journal):
    """The changes and findings of a recording up to its moment, in place of those of a session. Nothing is written."""

    def __init__(self, url: str) -> None:
        super().__init__(None, url)
        self._shown: tuple[Sequence[Operation], Sequence[Sighting]] = ((), ())

    def show_state(self, state: ReplayState) -> None:
        """Show the changes and findings of another moment."""
        self._shown = state.operations, state.sightings

    @property
    def operations(self) -> list[Operation]:
        """The changes until the moment, the newest first."""
        return [*self._shown[0]]

    @property
    def sightings(self) -> list[Sighting]:
        """The findings that began or ended in the last hour, the oldest first."""
        return [*self._shown[1]]


def build_recorded_errors(
    state: ReplayState, snapshot: Snapshot, systems: Mapping[str, System], refs: Sequence[Ref], width: Width
) -> Errors:
    """Build the error report of a moment from the causes that findings named, of some queues.

    A cause has no jobs of its own here, so each of its jobs is the same placeholder without an id.
    """
    queues = snapshot.map_queues_by_ref()
    jobs: list[Job] = []
    for cause in state.causes:
        if cause.ref in refs and cause.ref.system in systems:
            places = systems[cause.ref.system].places
            dead = next((place for place in places if place.state is State.DEAD), places[0])
            placeholder = Job(b"", cause.ref.queue, cause.ref.system, dead.name, State.DEAD, b"", error=cause.cause)
            jobs += [placeholder] * min(cause.jobs, MAX_JOBS_PER_CAUSE)
    dead_jobs = sum(queues[ref].count_failed() for ref in refs if ref in queues)
    size = Extent(state.at_ms, len(jobs), max(len(jobs), dead_jobs), len(refs), len(refs))
    return build_report(jobs, width, size)


def _find_original_system(name: str) -> System | None:
    """Return the installed system of this name, which knows more of its places than the recording; None without one."""
    with suppress(RqtuiError):
        return registry.create_system(name.partition("@")[0])
    return None


def _raise_not_recorded(_replies: object) -> NoReturn:
    raise RecordingError(NOTHING_ELSE)


def _answer_request(request: Request[Any]) -> Any:
    """Return the result of a request of a view, or its error."""
    try:
        return request.parse(()) if not request.calls else RecordingError(NOTHING_ELSE)
    except RqtuiError as error:
        return error


def _build_unrecorded_queue(ref: Ref) -> Queue:
    verdict = Verdict("unknown", NOT_RECORDED_THEN)
    return Queue(ref.queue, ref.system, workers=None, verdict=verdict, error=f"{ref.queue} was {NOT_RECORDED_THEN}.")


def _build_recent_activity(period: Period) -> RecentActivity:
    """Return the activity of the recorded minute or hour, of which the header shows the share of failures."""
    return RecentActivity(
        min(period.span_ms, period.watched_ms), period.enqueued, period.completed, period.failed, period.died
    )
