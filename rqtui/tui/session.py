"""Define the session: the state of the screen for one Redis connection, and the messages of its engine thread.

A session is replaced when the user switches to another Redis. Its services are replaced with it, a view keeps the
session in which the view was opened, and each message names its session, so that messages of an old session are
ignored. Each event of the engine's ticker becomes a Textual message class here.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from textual.message import Message

from rqtui.config.settings import DEFAULT_SYSTEM, MAX_INTERVAL_S, MIN_INTERVAL_S, Settings
from rqtui.config.state_folder import find_state_folder
from rqtui.connection import connect
from rqtui.engine import ticker as tick
from rqtui.errors import UsageError
from rqtui.model import Finding, Focus, Queue, Ref, Snapshot
from rqtui.operations.journal import Journal
from rqtui.operations.watch import SnapshotWatch
from rqtui.text.names import find_duplicate_names, format_queue_name
from rqtui.tui.format import recent

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine
    from rqtui.engine.loops import Loop
    from rqtui.operations.undo import UndoRecorder
    from rqtui.recording.recorder import Recorder
    from rqtui.recording.replay import ReplayState
    from rqtui.recording.store import Writer
    from rqtui.reports.postmortem import ErrorCauses
    from rqtui.scenarios.run import Run
    from rqtui.system_base.system import System
    from rqtui.tui.widgets.queue_preview import DeathCauses

T = TypeVar("T")
MAX_CHANGES = 200  # most recent changes that are kept


class SessionMessage(Message):
    """A Textual message that carries an event of a session's engine thread."""

    def __init__(self, session: Session, event: Any) -> None:
        super().__init__()
        self.session, self.event = session, event


class Connected(SessionMessage):
    """Message that the engine of a session was created and has reached Redis."""

    event: tick.EngineCreated


class Refreshed(SessionMessage):
    """Message that a new snapshot was read."""

    event: tick.SnapshotTaken


class Lost(SessionMessage):
    """Message that the connection to Redis was lost."""

    event: tick.ServerLost


class Acted(SessionMessage):
    """Message with the outcomes of a verb that was applied to jobs or a queue."""

    event: tick.ChangeProgressed


class Answered(SessionMessage):
    """Message with the result of a function that was called with the engine, or with one step of a longer one."""

    event: tick.CallFinished


class RecordingFailed(SessionMessage):
    """Message that the session cannot be recorded, as a sentence."""

    event: str


class RecordingRead(SessionMessage):
    """Message with the function that handles what was read from the recording of the session."""

    event: Callable[[], None]


class Failed(SessionMessage):
    """Message that a refresh failed while Redis was connected."""

    event: tick.RefreshFailed


MESSAGES: Mapping[type[tick.TickerEvent], type[SessionMessage]] = {
    tick.EngineCreated: Connected,
    tick.SnapshotTaken: Refreshed,
    tick.ServerLost: Lost,
    tick.ChangeProgressed: Acted,
    tick.CallFinished: Answered,
    tick.RefreshFailed: Failed,
}


class Session:
    """The state of one Redis: settings, engine, last snapshot, loops, journal and pending calls.

    `create_engine` creates the engine on the engine's thread; `post` receives the messages from that thread.
    """

    def __init__(
        self,
        settings: Settings,
        demo: Run | None,
        create_engine: Callable[[], Engine],
        post: Callable[[Message], object],
        interval_s: float,
        *,
        is_replay: bool = False,
    ) -> None:
        self.settings, self.demo, self._post = settings, demo, post
        self.ticker = tick.Ticker(create_engine, self._post_event, interval_s)
        self.engine: Engine | None = None
        self.systems: Mapping[str, System] = {}
        self.refs: list[Ref] = []
        self._engine_refs: list[Ref] | None = None  # the engine's list of which `refs` is a copy
        self.ambiguous_names: frozenset[str] = frozenset()  # names used by queues of more than one system
        self.snapshot: Snapshot | None = None
        self.last_focus = Focus()  # what the last snapshot was asked to include
        self._refreshed_s = 0.0  # time.monotonic() of the last snapshot
        self.latest_queues: dict[Ref, Queue] = {}  # the latest counts of every queue
        # The causes of death of each queue: of all dead jobs if the errors view has read them, else of a sample.
        self.death_causes: dict[Ref, DeathCauses] = {}
        self.connection_loss: tick.ServerLost | None = None
        self.refresh_failure: tick.RefreshFailed | None = None
        self.is_read_only = settings.read_only  # the current state, which the write lock changes
        self.keeper: UndoRecorder | None = None
        self.is_replay = is_replay
        self.replay: ReplayState | None = None  # in a replay: the moment of the last snapshot
        self.journal = Journal(
            None if demo or is_replay else find_state_folder(), settings.url, settings.profile, self.close_undo_record
        )
        if is_replay:
            from rqtui.recording.replay import RecordedJournal

            self.journal = RecordedJournal(settings.url)
        self.watch = SnapshotWatch(self.journal.record_finding)
        # The causes of the most failed jobs that the errors view has read, for the report of an incident.
        self.largest_causes: ErrorCauses | None = None
        self.loops: dict[str, Loop] = {}
        self.filters: list[str] = []  # filters typed in this session, newest last
        self.changes: deque[recent.RecentEvent] = deque(maxlen=MAX_CHANGES)
        self._callbacks: dict[int, Callable[[tick.CallFinished], None]] = {}  # callbacks by call id
        self._is_recording = settings.is_recording and demo is None and not is_replay
        self._recorder: Recorder | None = None

    def _post_event(self, event: tick.TickerEvent) -> None:
        self._post(MESSAGES[type(event)](self, event))
        if self._is_recording:
            self._record_event(event)

    def _record_event(self, event: tick.TickerEvent) -> None:
        """Record what the engine's thread read, on that thread. The first snapshot is shown before SQLite is loaded."""
        if self._recorder is None:
            if not isinstance(event, tick.SnapshotTaken):
                return
            from rqtui.recording.files import find_recording_path
            from rqtui.recording.recorder import Recorder
            from rqtui.recording.store import Limits

            folder = find_state_folder()
            self._recorder = Recorder(
                find_recording_path(folder, self.settings.url),
                self.url,
                Limits(self.settings.record_mb * 1_000_000, self.settings.record_days),
                self._report_recording_problem,
                folder,
                self.settings.record_jobs,
            )
        self._recorder.handle_event(event, self.ticker.engine)

    def _report_recording_problem(self, sentence: str) -> None:
        self._post(RecordingFailed(self, sentence))

    @property
    def has_recording(self) -> bool:
        """Whether this session is recorded, so that `read_recording` can read the past."""
        return self._recorder is not None

    def read_recording(self, read: Callable[[Writer], T], handle_result: Callable[[T | None, str], None]) -> bool:
        """Call `read` with the recording that this process has open, on the recorder's thread.

        `handle_result` receives the result, or None and the problem, on the app's thread. Returns False if this session
        is not recorded, and calls nothing then. The file is not opened a second time.
        """
        if self._recorder is None:
            return False
        self._recorder.read(
            read,
            lambda result, problem: self._post_recording_result(lambda: handle_result(result, problem)),
        )
        return True

    def _post_recording_result(self, handle_result: Callable[[], None]) -> None:
        self._post(RecordingRead(self, handle_result))

    def stop_recording(self, timeout_s: float = 0.0) -> None:
        """Stop recording, and wait up to `timeout_s` until everything that was read is in the file."""
        self._is_recording = False
        if self._recorder is not None:
            self._recorder.close(timeout_s)

    # -- state --------------------------------------------------------------------------------------------------------

    @property
    def server_warnings(self) -> tuple[Finding, ...]:
        """The findings about the server. The server of a demo keeps nothing on disk on purpose."""
        found = self.engine.warnings if self.engine else ()
        return found if self.demo is None else tuple(each for each in found if each.kind != "no-persistence")

    @property
    def is_never_connected(self) -> bool:
        """Whether a connection was tried and Redis has never replied in this session."""
        return self.connection_loss is not None and self.snapshot is None

    @property
    def is_replica(self) -> bool:
        """Whether the server is a read-only replica, which refuses every change."""
        return self.engine is not None and any(warning.kind == "read-only-replica" for warning in self.engine.warnings)

    @property
    def is_stale(self) -> bool:
        """Whether the last snapshot is outdated because the last refresh failed or the connection is lost."""
        return self.connection_loss is not None or self.refresh_failure is not None

    @property
    def now_ms(self) -> int:
        """The server's clock in ms, extrapolated from the last snapshot; 0 before the first snapshot.

        In a replay, the time of the moment that is shown.
        """
        if self.is_replay and self.snapshot:
            return self.snapshot.taken_ms
        return self.snapshot.taken_ms + int(1000 * (time.monotonic() - self._refreshed_s)) if self.snapshot else 0

    def set_engine(self, engine: Engine) -> None:
        """Store the new engine of the session and its queue systems."""
        self.engine, self.systems = engine, engine.systems

    def store_refresh(self, message: tick.SnapshotTaken) -> None:
        """Store a new snapshot, the list of queues, and the latest counts of each queue."""
        self.connection_loss = self.refresh_failure = None
        self.snapshot = message.snapshot
        engine_refs = self.engine.refs if self.engine else []
        # The engine replaces this list when the queues change and never modifies it.
        if engine_refs is not self._engine_refs:
            self._engine_refs, self.refs, self.ambiguous_names = (
                engine_refs,
                list(engine_refs),
                find_duplicate_names(engine_refs),
            )
        if self.is_replay:
            self._store_replay_state(message.snapshot)
        else:
            self.watch.record_snapshot(message.snapshot)
        self.last_focus, self._refreshed_s = message.focus, time.monotonic()
        self.latest_queues.update(message.snapshot.map_queues_by_ref())
        if unlisted := self.latest_queues.keys() - set(self.refs):
            self.latest_queues = {ref: queue for ref, queue in self.latest_queues.items() if ref not in unlisted}

    def _store_replay_state(self, snapshot: Snapshot) -> None:
        """Store the moment of a recording, with the changes and findings until then."""
        from rqtui.recording.replay import REPLAY_RESULT, RecordedJournal
        from rqtui.tui.widgets.queue_preview import collect_recorded_causes

        (self.replay,) = snapshot.results[REPLAY_RESULT]
        if self.replay is not None and isinstance(self.journal, RecordedJournal):
            self.journal.show_state(self.replay)
            self.changes.clear()
            self.changes.extend(map(recent.convert_operation, reversed(self.replay.operations[:MAX_CHANGES])))
            causes = self.replay.causes
            self.death_causes = {
                ref: collect_recorded_causes([cause for cause in causes if cause.ref == ref], queue.count_failed())
                for ref, queue in snapshot.map_queues_by_ref().items()
            }

    def has_requested_job(self, ref: Ref, job_id: bytes) -> bool:
        """Return whether the last snapshot was requested to include this job."""
        return self.last_focus.job == (ref, job_id)

    def find_foreign_system_name(self, ref: Ref) -> str:
        """Return the name of a queue's system, or an empty string for the default system."""
        return "" if ref.system == DEFAULT_SYSTEM else ref.system

    def format_name(self, ref: Ref) -> str:
        """Return the name of a queue, with its system if queues of several systems share that name."""
        return format_queue_name(ref, self.ambiguous_names)

    def find(self, name: str) -> Ref:
        """Return the queue that a typed name means.

        Raises UsageError if it is invalid or no engine is connected yet.
        """
        if self.engine is None:
            raise UsageError("not connected yet.")
        return self.engine.resolve(name)

    def explain_denial(self, verb: str, ref: Ref | None) -> str:
        """Return the reason why a verb is refused on a queue, or an empty string if the verb is allowed."""
        return self.engine.explain_denial(verb, ref) if self.engine and ref else ""

    def change_refresh_interval(self, seconds: float) -> None:
        """Set the refresh interval, limited to 0.25–60 s, and refresh at once."""
        self.ticker.interval_s = min(MAX_INTERVAL_S, max(MIN_INTERVAL_S, seconds))
        self.ticker.request_refresh()

    def list_recent_entries(self, limit: int) -> list[recent.RecentEvent]:
        """Return the newest recent events, at most `limit`: loop steps, changes and new findings, newest first."""
        finding_events = (
            [recent.convert_finding_change(sighting) for sighting in self.journal.sightings[-limit:]] if limit else []
        )
        return recent.list_recent_events(self.loops.values(), [*self.changes, *finding_events], limit)

    def close_undo_record(self, verb: str, system: str, queue: str) -> str:
        """End the current undo record of a verb on a queue and return its name, or an empty string without a record."""
        return self.keeper.end_change(verb, system, queue) if self.keeper else ""

    @property
    def url(self) -> str:
        """The Redis URL of the session without its password."""
        return connect.hide_url_passwords(self.settings.url)

    # -- requests -----------------------------------------------------------------------------------------------------

    def call_engine(self, function: Callable[[Engine], Any], handle_result: Callable[[tick.CallFinished], None]) -> int:
        """Run a short function with the engine on the engine's thread, and return the id of the call.

        `handle_result` receives the result on the app's thread.
        """
        return self._register_callback(self.ticker.request_call(function), handle_result)

    def run_steps(
        self, function: Callable[[Engine], Iterator[Any]], handle_step: Callable[[tick.CallFinished], None]
    ) -> int:
        """Run a generator of round trips with the engine on the engine's thread, and return the id of the call.

        `handle_step` receives each yielded step on the app's thread. `stop_steps` stops the generator.
        """
        return self._register_callback(self.ticker.start_stepped_call(function), handle_step)

    def stop_steps(self, call_id: int) -> None:
        """Stop a running generator of round trips after its current step. Its last result still arrives."""
        self.ticker.cancel_stepped_call(call_id)

    def deliver_result(self, message: tick.CallFinished) -> None:
        """Pass the result of an engine call to the callback that was registered for the call."""
        callback = self._callbacks.pop(message.request_id) if message.is_last else self._callbacks[message.request_id]
        callback(message)

    def _register_callback(self, call_id: int, callback: Callable[[tick.CallFinished], None]) -> int:
        self._callbacks[call_id] = callback
        return call_id
