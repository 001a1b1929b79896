"""Undo the last change of this session or the selected one, and show the progress of a long undo.

`operations.revert` restores the jobs, step by step on the engine's thread.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from textual.content import Content

from rqtui.engine.ticker import CallFinished
from rqtui.model import Outcome, Ref
from rqtui.operations.journal import Operation
from rqtui.text import formats
from rqtui.text.sanitise import safe
from rqtui.tui import keys
from rqtui.tui.format import recent
from rqtui.tui.host import Host
from rqtui.tui.services.navigation import Navigation
from rqtui.tui.session import Session
from rqtui.tui.widgets import question_text

if TYPE_CHECKING:
    from textual.notifications import SeverityLevel

LONG_UNDO = 500  # jobs; a larger undo shows its progress
_NO_RECORD, _REFUSED = "no record", "refused"  # words of outcomes of `operations.revert`


@dataclass(slots=True)
class _RunningUndo:
    """An undo that is under way: the operation, its number of jobs, and the outcomes so far."""

    operation: Operation
    total: int
    request: int
    outcomes: list[Outcome] = field(default_factory=list)
    is_stopped: bool = False


class Undo:
    """The service that undoes changes of a session; only one undo runs at a time."""

    def __init__(self, host: Host, session: Session, navigation: Navigation) -> None:
        self._host, self._session, self._navigation = host, session, navigation
        self._running: _RunningUndo | None = None

    @property
    def is_possible(self) -> bool:
        """Whether this session has a change that `z` can undo."""
        return not self._session.is_read_only and self._find_last_undoable_operation() is not None

    def _find_last_undoable_operation(self) -> Operation | None:
        operations = self._session.journal.operations
        return next((operation for operation in operations if operation.undo and not operation.undone_at_ms), None)

    def undo_selected_change(self) -> None:
        """Undo the selected change in the list of operations, or else the last change of this session."""
        # Imported late, because the first snapshot does not need it.
        from rqtui.operations.undo import is_too_large_to_undo

        view = self._navigation.view
        operation = (
            view.find_selected_operation()
            if view is not None and view.HAS_OPERATIONS
            else self._find_last_undoable_operation()
        )
        latest = next((candidate for candidate in self._session.journal.operations if not candidate.undone_at_ms), None)
        if latest is not None and is_too_large_to_undo(latest) and not (view is not None and view.HAS_OPERATIONS):
            self._host.show_toast(
                f"{latest.verb} of {formats.format_count(latest.count, width=12)} jobs has no undo; o shows the others."
            )
        elif operation is None:
            self._host.show_toast("Nothing to undo: no change was made here that has an undo.")
        elif operation.undone_at_ms:
            self._host.show_toast(f"{operation.verb} was undone already.")
        elif not operation.undo:
            self._host.show_toast(f"{operation.verb} has no undo.")
        elif self._running is not None:
            self._host.show_toast("An undo is under way.")
        else:
            self._start_undo(operation)

    def _start_undo(self, operation: Operation) -> None:
        from rqtui.operations import revert

        session, keeper = self._session, self._session.keeper
        if keeper is None or session.engine is None or session.connection_loss:
            self._host.show_toast("No changes now, so no undo either.", "warning")
            return

        def record_undo_step(call_result: CallFinished) -> None:
            running.outcomes += call_result.result or ()
            if call_result.is_last:
                self._finish_undo(running, call_result.error)
            self._host.show_keys()

        request = session.run_steps(
            lambda engine: revert.revert_operation(engine, keeper.folder, operation.undo, session.url), record_undo_step
        )
        self._running = running = _RunningUndo(operation, operation.count, request)
        self._host.show_keys()

    def stop_undo(self) -> bool:
        """Stop the running undo after the current step; `z` continues with the rest.

        Return whether a long undo was stopped.
        """
        if self._running is None:
            return False
        self._running.is_stopped = True
        self._session.stop_steps(self._running.request)
        return self._running.total > LONG_UNDO

    def format_progress(self) -> Content | None:
        """Return the progress of a long undo for the footer, or None for a short one or if none is running."""
        running = self._running
        if running is None or running.total <= LONG_UNDO:
            return None
        return question_text.format_progress(f"undo of {running.operation.verb}", len(running.outcomes), running.total)

    def _finish_undo(self, running: _RunningUndo, error: str) -> None:
        """Record the undo in the journal, show its summary, and mark the changed jobs in the views."""
        operation, outcomes = running.operation, running.outcomes
        self._running = None
        if running.is_stopped and not error:
            error = keys.apply_keymap("stopped: z continues with the rest")
        jobs = [outcome.id for outcome in outcomes if outcome.id]
        record = self._session.journal.record_change(
            "undo",
            operation.queue,
            operation.system,
            jobs,
            Counter(outcome.text for outcome in outcomes),
            error,
            others=operation.others,
            other_systems=operation.other_systems,
        )
        self._mark_operation(operation, outcomes, error)
        summary = (record.describe_outcomes() or "nothing was changed") + _format_refused_jobs(outcomes)
        is_good = not error and not any(
            outcome.is_lost or outcome.word in (_NO_RECORD, _REFUSED) for outcome in outcomes
        )
        self._show_undo_summary(operation, summary, "information" if is_good else "error")
        for view in self._navigation.list_drawable_views():
            view.handle_acted_jobs(jobs)
        self._session.ticker.request_refresh()
        self._host.request_refresh()

    def _mark_operation(self, operation: Operation, outcomes: Sequence[Outcome], error: str) -> None:
        """Mark the operation as undone in the journal, or as not undoable if none of its records exists any more."""
        if outcomes and all(outcome.word == _NO_RECORD for outcome in outcomes):
            self._session.journal.mark_not_undoable(operation.undo)  # so that `z` continues with the operation before
        elif not error and not any(outcome.is_lost for outcome in outcomes):
            self._session.journal.mark_undone(*operation.undo)

    def _show_undo_summary(self, operation: Operation, summary: str, severity: SeverityLevel) -> None:
        """Show the result of the undo in a toast, and add it to the recent changes."""
        ref = Ref(operation.system, operation.queue)
        event = recent.RecentEvent(time.time(), "undo", ref, safe(summary), more=len(operation.others))
        self._session.changes.append(event)
        queue_names = event.format_queues(self._session.ambiguous_names)
        self._host.show_toast(f"undo of {operation.verb} ({queue_names}): {summary}", severity)


def _format_refused_jobs(outcomes: Sequence[Outcome]) -> str:
    """Return ` · not put back: ID, ID, ID …` for the jobs that Redis refused to restore; empty if there is none."""
    refused = [formats.shorten_job_id(outcome.id, 30) for outcome in outcomes if outcome.word == _REFUSED]
    return f" · not put back: {', '.join(refused[:3])}{' …' if len(refused) > 3 else ''}" if refused else ""
