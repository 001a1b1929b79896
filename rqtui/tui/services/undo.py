"""Undo: undoes the last change made here, or the one that was picked; a long undo shows its progress.

`operations.revert` does it, a step after the other on the engine's thread.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field

from textual.content import Content

from rqtui.engine.ticker import Answered
from rqtui.model import Outcome, Ref
from rqtui.operations.journal import Operation
from rqtui.text import formats
from rqtui.text.sanitise import safe
from rqtui.tui import keys
from rqtui.tui.format import recent
from rqtui.tui.host import Host
from rqtui.tui.services.navigation import Navigation
from rqtui.tui.session import Session

SHORT = 500  # jobs: an undo of more shows how far it is


@dataclass(slots=True)
class _Undoing:
    """An undo that goes on: of `total` jobs, a step after the other."""

    operation: Operation
    total: int
    request: int = 0
    outcomes: list[Outcome] = field(default_factory=list)
    is_stopped: bool = False


class Undo:
    """The undo of a session."""

    def __init__(self, host: Host, session: Session, navigation: Navigation) -> None:
        self._host, self._session, self._navigation = host, session, navigation
        self._going: _Undoing | None = None

    @property
    def is_possible(self) -> bool:
        """Whether `z` would find a change of this session."""
        return not self._session.is_read_only and self._last() is not None

    def _last(self) -> Operation | None:
        operations = self._session.journal.operations
        return next((each for each in operations if each.undo and not each.undone_at_ms), None)

    def press(self) -> None:
        """Undoes the last change made here, or the one under the cursor."""
        from rqtui.operations.undo import is_too_large  # late: the first picture needs none

        view = self._navigation.view
        operation = view.picked() if view is not None and view.HAS_OPERATIONS else self._last()
        first = next((each for each in self._session.journal.operations if not each.undone_at_ms), None)
        if first is not None and is_too_large(first) and not (view is not None and view.HAS_OPERATIONS):
            self._host.say(
                f"{first.verb} of {formats.count(first.count, width=12)} jobs has no undo; o shows the others."
            )
        elif operation is None:
            self._host.say("Nothing to undo: no change was made here that has an undo.")
        elif operation.undone_at_ms:
            self._host.say(f"{operation.verb} was undone already.")
        elif not operation.undo:
            self._host.say(f"{operation.verb} has no undo.")
        elif self._going is not None:
            self._host.say("An undo is under way.")
        else:
            self._begin(operation)

    def _begin(self, operation: Operation) -> None:
        from rqtui.operations import revert

        session, keeper = self._session, self._session.keeper
        if keeper is None or session.engine is None or session.lost:
            self._host.say("No changes now, so no undo either.", "warning")
            return

        def then(answered: Answered) -> None:
            going.outcomes += answered.result or ()
            if answered.is_last:
                self._end(going, answered.error)
            self._host.show_keys()

        self._going = going = _Undoing(operation, operation.count)
        going.request = session.work(
            lambda engine: revert.all_reverted(engine, keeper.folder, operation.undo, session.url), then
        )
        self._host.show_keys()

    def stop(self) -> bool:
        """Ends the undo after the step under way; `z` goes on with the rest. False where no long one goes on."""
        if self._going is None:
            return False
        self._going.is_stopped = True
        self._session.end_work(self._going.request)
        return self._going.total > SHORT

    def progress(self) -> Content | None:
        """How far the undo is; None where none goes on, or a short one."""
        going = self._going
        if going is None or going.total <= SHORT:
            return None
        done = formats.count(len(going.outcomes), width=9) if going.outcomes else "0"
        words = f"undo of {going.operation.verb} {done} of {formats.count(going.total, width=9)}"
        return Content.assemble((words, "$accented"), (keys.renamed("  Esc stops"), "$muted"))

    def _end(self, going: _Undoing, error: str) -> None:
        journal, operation, outcomes = self._session.journal, going.operation, going.outcomes
        self._going = None
        if going.is_stopped and not error:
            error = keys.renamed("stopped: z goes on with the rest")
        jobs = [outcome.id for outcome in outcomes if outcome.id]
        answers = Counter(outcome.text for outcome in outcomes)
        queue, layout = operation.queue, operation.layout
        made = journal.note("undo", queue, layout, jobs, answers, error, others=operation.others)
        is_whole = not error and not any(outcome.is_lost for outcome in outcomes)
        lacking = [outcome for outcome in outcomes if outcome.word == "no record"]
        if lacking and len(lacking) == len(outcomes):
            journal.without_undo(operation.undo)  # `z` goes on to the one before
        elif is_whole:
            journal.undone(*operation.undo)
        told = made.words() or "nothing was changed"
        refused = [formats.job_id(outcome.id, 30) for outcome in outcomes if outcome.word == "refused"]
        told += f" · not put back: {', '.join(refused[:3])}{' …' if len(refused) > 3 else ''}" if refused else ""
        is_good = is_whole and not lacking and not refused
        entry = recent.Entry(time.time(), "undo", Ref(layout, queue), safe(told), more=len(operation.others))
        self._session.changes.append(entry)
        where = entry.where(self._session.twins)
        self._host.say(f"undo of {operation.verb} ({where}): {told}", "information" if is_good else "error")
        for view in self._navigation.drawn():
            view.acted(jobs)
        self._session.ticker.refresh()
        self._host.look_again()
