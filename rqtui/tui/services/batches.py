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
from rqtui.tui import keys
from rqtui.tui.format import recent
from rqtui.tui.host import Host
from rqtui.tui.services.navigation import Navigation
from rqtui.tui.services.session_journal import SessionJournal
from rqtui.tui.services.tally import Tally
from rqtui.tui.services.verb_resolution import Values
from rqtui.tui.session import Session
from rqtui.tui.widgets import question_text

LONG_CHANGE = 500  # outcomes; a larger change shows its progress
MIN_MEASURED_S = 0.5  # shortest change whose speed is measured


@dataclass(slots=True)
class Batch:
    """Requests whose outcomes are reported together.

    `open_requests` is the number of requests under way. `on_refused` shows the form again with the reason. `on_changed`
    runs after at least one job was changed. `circumstances` are recorded in the journal.
    """

    tally: Tally
    open_requests: int = 0
    error: str = ""
    queues: list[Ref] = field(default_factory=list)
    is_stopped: bool = False
    on_refused: Callable[[str], None] | None = None
    on_changed: Callable[[Tally], None] | None = None
    circumstances: Circumstances = field(default_factory=Circumstances)


@dataclass(frozen=True, slots=True)
class Request:
    """One verb on one queue: on `jobs`, on all jobs of `place`, or on the queue. Kept so that it can be repeated."""

    name: str
    ref: Ref
    form: Values
    batch: Batch
    jobs: Sequence[Job] = ()
    place: str = ""


class Batches:
    """The changes of a session that are under way."""

    def __init__(self, host: Host, session: Session, navigation: Navigation, journal: SessionJournal) -> None:
        self._host, self._session, self._navigation, self._journal = host, session, navigation, journal
        self._open: dict[int, Request] = {}  # by request id, in the order of sending
        self.speeds: dict[str, float] = {}  # measured jobs per second, by verb

    def send(self, *requests: Request) -> None:
        """Send requests to the engine's thread. Requests with the same `batch` are reported together."""
        for request in requests:
            request.batch.open_requests += 1
            request.batch.queues.append(request.ref)
            request.batch.tally.began_s = request.batch.tally.began_s or time.monotonic()
        if any(request.jobs or request.place for request in requests):
            for view in self._navigation.list_drawable_views():
                view.prepare_for_verb()
        for request in requests:
            self._journal.announce_change(request.name, request.ref, request.batch.circumstances)
            self._send_request(request)

    def _send_request(self, request: Request) -> None:
        ticker = self._session.ticker
        if request.place:
            id = ticker.request_place_change(request.name, request.ref, request.place, request.form)
        else:
            id = ticker.request_change(request.name, request.ref, request.jobs, request.form)
        self._open[id] = request

    def stop(self) -> bool:
        """Stop a change of many jobs between two chunks. Return False if none is under way."""
        if self._find_long_batch() is None:
            return False
        for request in self._open.values():
            request.batch.is_stopped = True  # so that a purge sends no further chunk
        self._session.ticker.cancel_changes()
        return True

    def is_under_way(self, verb: str, ref: Ref) -> bool:
        """Return whether an outcome of this verb on this queue is still to come."""
        return any((request.name, request.ref) == (verb, ref) for request in self._open.values())

    def _find_long_batch(self) -> Batch | None:
        """Return the first batch under way that has more than `LONG_CHANGE` outcomes, or None."""
        batches = (request.batch for request in self._open.values())
        long = (b for b in batches if max(b.tally.seen, b.tally.moved) >= LONG_CHANGE or b.tally.total > LONG_CHANGE)
        return next(long, None)

    def format_progress(self) -> Content | None:
        """Format the progress of a change of many jobs. Return None if none is under way."""
        batch = self._find_long_batch()
        if batch is None:
            return None
        tally = batch.tally
        done = max(tally.seen, tally.moved)
        words = f"{tally.verb} {formats.format_count(done, width=9)}"
        if tally.total:
            words += f" of {formats.format_count(tally.total, width=9)}"
            left = max(0, tally.total - done)
            words += (
                f" · {question_text.format_estimate(left / tally.compute_rate(time.monotonic()))} left"
                if done and left
                else ""
            )
        return Content.assemble((words, "$accented"), (keys.apply_keymap("  Esc stops"), "$muted"))

    # -- answers --------------------------------------------------------------------------------------------------

    def record_outcomes(self, message: tick.ChangeProgressed) -> None:
        """Count the outcomes of a request. Report the result of its batch after the last one."""
        request = self._open.get(message.request_id)
        if request is None:
            return
        batch = request.batch
        batch.tally.add_outcomes(message.outcomes)
        if message.is_last:
            del self._open[message.request_id]
            if not self._continue_purge(request, message):
                batch.open_requests -= 1
                batch.error = batch.error or message.error
                if not batch.open_requests:
                    self._finish(batch)
        self._host.show_keys()

    def _continue_purge(self, request: Request, message: tick.ChangeProgressed) -> bool:
        """Send the next chunk of a purge and return True, unless nothing is left, it failed or it was stopped."""
        batch = request.batch
        left = batch.tally.last.values.get("left") if batch.tally.last else None
        if message.verb != "purge" or message.error or batch.is_stopped or not left:
            return False
        batch.tally.last = None
        self._send_request(request)
        return True

    def _finish(self, batch: Batch) -> None:
        tally = batch.tally
        if tally.verb == "enqueue" and tally.moved:
            # Announced only now, because the name of a refused job must not be written.
            self._session.call_engine(lambda engine: engine.register_queue(tally.ref), self._report_announce_error)
        lasted_s = time.monotonic() - tally.began_s
        if tally.seen > LONG_CHANGE and lasted_s > MIN_MEASURED_S:
            self.speeds[tally.verb] = tally.compute_rate(time.monotonic())
        refused = batch.error if not tally.seen else (tally.format_refusal() if tally.is_refused else "")
        if refused and batch.on_refused and not self._navigation.has_dialog:
            batch.on_refused(refused)
            return
        if batch.on_changed and tally.moved:
            batch.on_changed(tally)
        if batch.is_stopped:
            by = f"stopped by {self._session.journal.who} after {max(tally.seen, tally.moved)}"
            self._journal.record_stop(tally.verb, batch.queues, f"{by} of {tally.total}" if tally.total else by)
        self.report_result(tally, batch.error, batch.queues)
        for view in self._navigation.list_drawable_views():
            view.handle_acted_jobs(tally.ids)

    def _report_announce_error(self, answered: tick.CallFinished) -> None:
        if answered.error:
            self._host.show_toast(answered.error, "error")

    def report_result(self, tally: Tally, error: str, queues: Sequence[Ref]) -> None:
        """Show the result of a change in a toast and record it in the list of changes and in the journal."""
        words = tally.summarise() if tally.seen or not error else ""
        if error:
            self._host.show_toast(error, "error")
        if words:
            self._host.show_toast(words, "information" if tally.moved else "warning")
        summary = words.removeprefix(f"{tally.verb}: ") or error
        first, *others = dict.fromkeys(queues) or [tally.ref]
        self._session.changes.append(
            recent.RecentEvent(time.time(), tally.verb, first, safe(summary), more=len(others))
        )
        self._journal.record_change(tally, error, [*queues, tally.ref], self.is_under_way)
