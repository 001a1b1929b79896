"""Batches: sends verbs to the engine's thread, counts the answers by the ids of their requests, and tells the result.

Requests of one batch are told as one: in a toast, in the list of what happened, in the journal.
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
from rqtui.tui.widgets import questions

MANY = 500  # answers; a change of more shows how far it is
TOO_SHORT_S = 0.5  # of a change, to measure how fast it went


@dataclass(slots=True)
class Batch:
    """Requests that are told as one: `open` of them are under way. `refused` shows the form again with the reason."""

    tally: Tally
    open: int = 0
    error: str = ""
    queues: list[Ref] = field(default_factory=list)
    is_stopped: bool = False
    refused: Callable[[str], None] | None = None
    then: Callable[[Tally], None] | None = None
    how: Circumstances = field(default_factory=Circumstances)


@dataclass(frozen=True, slots=True)
class Request:
    """One verb on one queue: jobs, or with `place` all that stands there, or neither. Kept to send it again."""

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
        self._open: dict[int, Request] = {}  # by their ids, in the order they were sent
        self.speeds: dict[str, float] = {}  # jobs per second that a verb did here

    def send(self, *requests: Request) -> None:
        """Puts requests into the inbox; those of one batch are told as one."""
        for request in requests:
            request.batch.open += 1
            request.batch.queues.append(request.ref)
            request.batch.tally.began_s = request.batch.tally.began_s or time.monotonic()
        if any(request.jobs or request.place for request in requests):
            for view in self._navigation.drawn():
                view.acts()
        for request in requests:
            self._journal.coming(request.name, request.ref, request.batch.how)
            self._post(request)

    def _post(self, request: Request) -> None:
        ticker = self._session.ticker
        if request.place:
            id = ticker.act_on_place(request.name, request.ref, request.place, request.form)
        else:
            id = ticker.act(request.name, request.ref, request.jobs, request.form)
        self._open[id] = request

    def stop(self) -> bool:
        """Ends a change of many jobs between two chunks; False where there is none."""
        if self._busy() is None:
            return False
        for request in self._open.values():
            request.batch.is_stopped = True  # a purge does not go on
        self._session.ticker.cancel()
        return True

    def is_under_way(self, verb: str, ref: Ref) -> bool:
        """Whether an answer to this verb on this queue is still to come."""
        return any((request.name, request.ref) == (verb, ref) for request in self._open.values())

    def _busy(self) -> Batch | None:
        """The first batch of many answers that is under way."""
        batches = (request.batch for request in self._open.values())
        long = (b for b in batches if max(b.tally.seen, b.tally.moved) >= MANY or b.tally.total > MANY)
        return next(long, None)

    def progress(self) -> Content | None:
        """How far a change of many jobs is; None where there is none."""
        batch = self._busy()
        if batch is None:
            return None
        tally = batch.tally
        done = max(tally.seen, tally.moved)
        words = f"{tally.verb} {formats.count(done, width=9)}"
        if tally.total:
            words += f" of {formats.count(tally.total, width=9)}"
            left = max(0, tally.total - done)
            words += f" · {questions.about(left / tally.per_s(time.monotonic()))} left" if done and left else ""
        return Content.assemble((words, "$accented"), (keys.renamed("  Esc stops"), "$muted"))

    # -- answers --------------------------------------------------------------------------------------------------

    def acted(self, message: tick.Acted) -> None:
        """Counts outcomes; at the end of a request says what became of it."""
        request = self._open.get(message.request)
        if request is None:
            return
        batch = request.batch
        batch.tally.add(message.outcomes)
        if message.is_last:
            del self._open[message.request]
            if not self._goes_on(request, message):
                batch.open -= 1
                batch.error = batch.error or message.error
                if not batch.open:
                    self._finish(batch)
        self._host.show_keys()

    def _goes_on(self, request: Request, message: tick.Acted) -> bool:
        """A purge takes a chunk per call, until nothing is left."""
        batch = request.batch
        left = batch.tally.last.values.get("left") if batch.tally.last else None
        if message.verb != "purge" or message.error or batch.is_stopped or not left:
            return False
        batch.tally.last = None
        self._post(request)
        return True

    def _finish(self, batch: Batch) -> None:
        tally = batch.tally
        if tally.verb == "enqueue" and tally.moved:
            # Only now: a name must not be written for a job that was refused.
            self._session.ask(lambda engine: engine.announce(tally.ref), self._announced)
        lasted_s = time.monotonic() - tally.began_s
        if tally.seen > MANY and lasted_s > TOO_SHORT_S:
            self.speeds[tally.verb] = tally.per_s(time.monotonic())
        refused = batch.error if not tally.seen else (tally.sentence_of_refusal() if tally.is_refused else "")
        if refused and batch.refused and not self._navigation.is_asking:
            batch.refused(refused)
            return
        if batch.then and tally.moved:
            batch.then(tally)
        if batch.is_stopped:
            by = f"stopped by {self._session.journal.who} after {max(tally.seen, tally.moved)}"
            self._journal.stopped(tally.verb, batch.queues, f"{by} of {tally.total}" if tally.total else by)
        self.tell(tally, batch.error, batch.queues)
        for view in self._navigation.drawn():
            view.acted(tally.ids)

    def _announced(self, answered: tick.Answered) -> None:
        if answered.error:
            self._host.say(answered.error, "error")

    def tell(self, tally: Tally, error: str, queues: Sequence[Ref]) -> None:
        """Says what became of a change, and writes it down."""
        words = tally.sentence() if tally.seen or not error else ""
        if error:
            self._host.say(error, "error")
        if words:
            self._host.say(words, "information" if tally.moved else "warning")
        told = words.removeprefix(f"{tally.verb}: ") or error
        first, *others = dict.fromkeys(queues) or [tally.ref]
        self._session.changes.append(recent.Entry(time.time(), tally.verb, first, safe(told), more=len(others)))
        self._journal.note(tally, error, [*queues, tally.ref], self.is_under_way)
