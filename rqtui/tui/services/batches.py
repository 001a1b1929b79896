"""Send verbs to the engine's thread, count the outcomes by request id, and report the result.

The requests of one batch are reported together: in a toast, in the list of recent changes and in the journal.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from textual.content import Content

from rqtui.engine import ticker as tick
from rqtui.model import Job, Ref
from rqtui.operations.journal import Circumstances
from rqtui.text import formats
from rqtui.text.sanitise import safe
from rqtui.tui.format import recent
from rqtui.tui.host import Host
from rqtui.tui.services.navigation import Navigation
from rqtui.tui.services.outcome_counts import OutcomeCounts
from rqtui.tui.services.session_journal import SessionJournal
from rqtui.tui.services.verb_resolution import Values
from rqtui.tui.session import Session
from rqtui.tui.widgets import question_text

LONG_CHANGE = 500  # outcomes; a larger change shows its progress
MIN_MEASURED_S = 0.5  # shortest change whose speed is measured


@dataclass(slots=True)
class Batch:
    """Verb requests whose outcomes are counted together and reported in one toast.

    `open_requests` is the number of requests under way. `on_refused` shows the form again with the reason. `on_changed`
    runs after at least one job was changed. `circumstances` are recorded in the journal.
    """

    outcome_counts: OutcomeCounts
    open_requests: int = 0
    error: str = ""
    queues: list[Ref] = field(default_factory=list)
    is_stopped: bool = False
    on_refused: Callable[[str], None] | None = None
    on_changed: Callable[[OutcomeCounts], None] | None = None
    circumstances: Circumstances = field(default_factory=Circumstances)


@dataclass(frozen=True, slots=True)
class VerbRequest:
    """One verb on one queue: on `jobs`, on all jobs of `place`, or on the queue. Stored so that it can be repeated."""

    name: str
    ref: Ref
    form: Values
    batch: Batch
    jobs: Sequence[Job] = ()
    place: str = ""


class Batches:
    """The changes of a session that are under way: sends their requests and reports their results."""

    def __init__(self, host: Host, session: Session, navigation: Navigation, journal: SessionJournal) -> None:
        self._host, self._session, self._navigation, self._journal = host, session, navigation, journal
        self._open_requests: dict[int, VerbRequest] = {}  # by request id, in the order of sending
        self.speeds: dict[str, float] = {}  # measured jobs per second, by verb

    def send_requests(self, *requests: VerbRequest) -> None:
        """Send verb requests to the engine's thread. Requests with the same `batch` are reported together."""
        for request in requests:
            request.batch.open_requests += 1
            request.batch.queues.append(request.ref)
            request.batch.outcome_counts.began_s = request.batch.outcome_counts.began_s or time.monotonic()
        if any(request.jobs or request.place for request in requests):
            for view in self._navigation.list_drawable_views():
                view.prepare_for_verb()
        for request in requests:
            self._journal.announce_change(request.name, request.ref, request.batch.circumstances.add_form(request.form))
            self._send_request(request)

    def _send_request(self, request: VerbRequest) -> None:
        ticker = self._session.ticker
        if request.place:
            id = ticker.request_place_change(request.name, request.ref, request.place, request.form)
        else:
            id = ticker.request_change(request.name, request.ref, request.jobs, request.form)
        self._open_requests[id] = request

    def stop_long_change(self) -> bool:
        """Stop a change of many jobs between two chunks. Return False if no such change is under way."""
        if self._find_long_batch() is None:
            return False
        for request in self._open_requests.values():
            request.batch.is_stopped = True  # so that a purge sends no further chunk
        self._session.ticker.cancel_changes()
        return True

    def is_under_way(self, verb: str, ref: Ref) -> bool:
        """Return whether outcomes of this verb on this queue are still expected."""
        return any((request.name, request.ref) == (verb, ref) for request in self._open_requests.values())

    def _find_long_batch(self) -> Batch | None:
        """Return the first batch under way that has more than `LONG_CHANGE` outcomes, or None."""
        batches = (request.batch for request in self._open_requests.values())
        long_batches = (
            batch
            for batch in batches
            if max(batch.outcome_counts.seen, batch.outcome_counts.moved) >= LONG_CHANGE
            or batch.outcome_counts.total > LONG_CHANGE
        )
        return next(long_batches, None)

    def format_progress(self) -> Content | None:
        """Return the progress of a change of many jobs for the footer, or None if no such change is under way."""
        batch = self._find_long_batch()
        if batch is None:
            return None
        counts = batch.outcome_counts
        done = max(counts.seen, counts.moved)
        remaining = max(0, counts.total - done)
        time_left = ""
        if done and remaining:
            time_left = f"{formats.spell_duration(remaining / counts.compute_outcome_rate(time.monotonic()), 1)} left"
        return question_text.format_progress(counts.verb, done, counts.total, [time_left])

    # -- answers --------------------------------------------------------------------------------------------------

    def record_outcomes(self, message: tick.ChangeProgressed) -> None:
        """Count the outcomes of a verb request. Report the result of its batch after the last one."""
        request = self._open_requests.get(message.request_id)
        if request is None:
            return
        batch = request.batch
        batch.outcome_counts.add_outcomes(message.outcomes)
        if message.is_last:
            del self._open_requests[message.request_id]
            if not self._continue_purge(request, message):
                batch.open_requests -= 1
                batch.error = batch.error or message.error
                if not batch.open_requests:
                    self._finish_batch(batch)
        self._host.show_keys()

    def _continue_purge(self, request: VerbRequest, message: tick.ChangeProgressed) -> bool:
        """Send the next chunk of a purge and return True, unless no job is left, the purge failed or it was stopped."""
        batch = request.batch
        remaining = batch.outcome_counts.last.values.get("left") if batch.outcome_counts.last else None
        if message.verb != "purge" or message.error or batch.is_stopped or not remaining:
            return False
        batch.outcome_counts.last = None
        self._send_request(request)
        return True

    def _finish_batch(self, batch: Batch) -> None:
        outcome_counts = batch.outcome_counts
        if outcome_counts.verb == "enqueue" and outcome_counts.moved:
            # The queue is registered only now, because the name of a refused job's queue must not be written.
            self._session.call_engine(
                lambda engine: engine.register_queue(outcome_counts.ref), self._show_registration_error
            )
        duration_s = time.monotonic() - outcome_counts.began_s
        if outcome_counts.seen > LONG_CHANGE and duration_s > MIN_MEASURED_S:
            self.speeds[outcome_counts.verb] = outcome_counts.compute_outcome_rate(time.monotonic())
        refusal = (
            batch.error
            if not outcome_counts.seen
            else (outcome_counts.format_refusal() if outcome_counts.is_refused else "")
        )
        if refusal and batch.on_refused and not self._navigation.has_dialog:
            batch.on_refused(refusal)
            return
        if batch.on_changed and outcome_counts.moved:
            batch.on_changed(outcome_counts)
        if batch.is_stopped:
            stop_reason = (
                f"stopped by {self._session.journal.who} after {max(outcome_counts.seen, outcome_counts.moved)}"
            )
            self._journal.record_stop(
                outcome_counts.verb,
                batch.queues,
                f"{stop_reason} of {outcome_counts.total}" if outcome_counts.total else stop_reason,
            )
        self.report_result(outcome_counts, batch.error, batch.queues)
        for view in self._navigation.list_drawable_views():
            view.handle_acted_jobs(outcome_counts.ids)

    def _show_registration_error(self, call_result: tick.CallFinished) -> None:
        if call_result.error:
            self._host.show_toast(call_result.error, "error")

    def report_result(self, outcome_counts: OutcomeCounts, error: str, queues: Sequence[Ref]) -> None:
        """Show the result of a change in a toast, and record it in the list of recent changes and in the journal."""
        outcome_summary = outcome_counts.summarise_outcomes() if outcome_counts.seen or not error else ""
        if error:
            self._host.show_toast(error, "error")
        if outcome_summary:
            self._host.show_toast(outcome_summary, "information" if outcome_counts.moved else "warning")
        summary = outcome_summary.removeprefix(f"{outcome_counts.verb}: ") or error
        first, *others = dict.fromkeys(queues) or [outcome_counts.ref]
        self._session.changes.append(
            recent.RecentEvent(time.time(), outcome_counts.verb, first, safe(summary), more=len(others))
        )
        self._journal.record_change(outcome_counts, error, [*queues, outcome_counts.ref], self.is_under_way)
