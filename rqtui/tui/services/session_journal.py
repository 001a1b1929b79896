"""Record the changes of this session in the journal, together with the records that an undo needs.

A change becomes one journal entry after all its outcomes have arrived. `operations.journal` writes the journal,
`operations.undo` the records of the jobs.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from textual.content import Content

from rqtui.config.state_folder import find_state_folder
from rqtui.engine.ticker import CallFinished
from rqtui.model import Queue, Ref
from rqtui.operations.journal import Circumstances, Operation
from rqtui.tui import keys
from rqtui.tui.host import Host
from rqtui.tui.services.outcome_counts import OutcomeCounts
from rqtui.tui.session import Session
from rqtui.verbs import Field

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine
    from rqtui.tui.widgets.question_dialog import FormReply


class SessionJournal:
    """The service that writes the changes of a session into its journal."""

    def __init__(self, host: Host, session: Session) -> None:
        self._host, self._session = host, session
        self._has_asked_reason = False  # whether the reason for the changes was asked

    def attach_undo_store(self, engine: Engine) -> None:
        """Let `engine` store an undo record for every change from now on."""
        from rqtui.operations.undo import UndoRecorder

        session = self._session
        session.call_engine(lambda _engine: session.journal.recover_interrupted(), self._show_interrupted_changes)
        if session.is_read_only:
            return
        session.keeper = engine.change_recorder = UndoRecorder(
            self._choose_undo_folder(), session.settings.url, session.journal
        )
        if session.keeper.problem:
            self._host.show_toast(f"Nothing can be undone: {session.keeper.problem}.", "warning")

    def _show_interrupted_changes(self, call_result: CallFinished) -> None:
        """Show the changes that were interrupted when an earlier session was killed."""
        for operation in call_result.result or ():
            self._host.show_toast(
                f"A change {operation.describe_interruption()}; {keys.find_dialog_key('operations', 'o')} shows it.",
                "warning",
                timeout=20,
            )

    def _choose_undo_folder(self) -> Path:
        """Return the folder for undo records. A demo's records are deleted together with its Redis."""
        demo = self._session.demo
        return Path(demo.folder) if demo and demo.folder else find_state_folder()

    def announce_change(self, verb: str, ref: Ref, circumstances: Circumstances) -> None:
        """Announce a change to the journal before it is sent, with the queue's counts at this time."""
        snapshot = self._session.snapshot
        queue = snapshot.find_queue(ref) if snapshot else None
        before = _map_counts_by_queue([queue]) if queue else {}
        announcement = replace(circumstances, began_ms=int(time.time() * 1000), before=before)
        self._session.journal.expect_change(verb, ref.queue, ref.system, announcement)

    def record_stop(self, verb: str, refs: Iterable[Ref], reason: str) -> None:
        """Record in the journal that a change was stopped early.

        `reason` says by which person or limit, and after how many jobs.
        """
        for ref in refs:
            self._session.journal.record_stop(verb, ref.queue, ref.system, reason)

    def _record_counts_afterwards(self, operation: Operation, refs: Sequence[Ref]) -> None:
        """Count the places of the queues after a change, and add the counts to its journal entry."""
        session = self._session

        def fetch_counts(engine: Engine) -> list[Queue]:
            return engine.send_requests([engine.systems[ref.system].queue_request(ref.queue) for ref in refs])

        def record_counts(call_result: CallFinished) -> None:
            if call_result.result:
                session.journal.record_counts_after(
                    operation, _map_counts_by_queue(call_result.result, operation.is_of_several_systems)
                )

        session.call_engine(fetch_counts, record_counts)

    def record_change(
        self, outcome_counts: OutcomeCounts, error: str, refs: Sequence[Ref], is_under_way: Callable[[str, Ref], bool]
    ) -> None:
        """Write the journal entries of a finished change: one per verb, for all its queues, with their undo records.

        The undo record of a verb that `is_under_way` again on a queue stays open.
        """
        session, journal = self._session, self._session.journal
        open_records = session.keeper.open_changes() if session.keeper else {}
        finished = {key: open_records[key] for key in open_records if key[1] in refs and not is_under_way(*key)}
        for verb in dict.fromkeys(verb for verb, _ref in finished):
            by_queue = {ref: record for (name, ref), record in finished.items() if name == verb}
            first, *others = by_queue
            records = [session.close_undo_record(verb, ref.system, ref.queue) for ref in by_queue]
            ids = [id for record in by_queue.values() for id in record.ids]
            answers = sum((record.answers for record in by_queue.values()), Counter())
            count, names = sum(record.count for record in by_queue.values()), [ref.queue for ref in others]
            systems = [ref.system for ref in others]
            operation = journal.record_change(
                verb, first.queue, first.system, ids, answers, error, records, count, names, systems
            )
            self._record_counts_afterwards(operation, list(by_queue))
        if session.keeper:
            session.keeper.discard_unchanged(lambda verb, ref: ref in refs and not is_under_way(verb, ref))
        if not finished:
            ref = outcome_counts.ref
            journal.record_change(
                outcome_counts.verb, ref.queue, ref.system, sorted(outcome_counts.ids), outcome_counts.words, error
            )

    def export_report(self) -> None:
        """Write a report of this session's changes into the current folder. The first time, ask why they were made."""
        journal = self._session.journal
        if self._has_asked_reason or not journal.operations:
            self._write_report()
            return
        from rqtui.tui.widgets.question_dialog import Question

        explanation = "what was found, what was done and what came of it, as Markdown and as JSON, into this folder"
        reason_fields = (Field("why", "why, in a few words"),)
        question = Question(
            "Write the report", [Content(explanation)], reason_fields, "write", is_danger=False, is_form=True
        )

        def write_report_with_reason(reply: FormReply | None) -> None:
            if reply is None:
                return
            self._has_asked_reason = True
            if reason := reply.values.get("why"):
                journal.set_reason(str(reason))
            self._write_report()

        self._host.app.push_screen(question, write_report_with_reason)

    def _write_report(self) -> None:
        """Write the report into the current folder, with plots of its queues if Redis replies."""
        session, journal = self._session, self._session.journal
        operations, sightings = journal.operations, journal.sightings
        refs = [ref for operation in operations for ref in operation.refs]
        refs += [Ref(sighting.system, sighting.queue) for sighting in sightings]
        now_ms = session.snapshot.taken_ms if session.snapshot else 0

        def read_queues(engine: Engine) -> tuple[list[postmortem.Plot], postmortem.ErrorCauses | None]:
            known_refs = [ref for ref in dict.fromkeys(refs) if ref.system in engine.systems]
            plots = postmortem.plot_last_hour(engine, known_refs, now_ms)
            return plots, postmortem.load_error_causes(engine, known_refs)

        def write_files(call_result: CallFinished) -> None:
            counters, causes = call_result.result or ([], None)
            causes = postmortem.choose_larger_causes(session.largest_causes, causes)
            plots = [*counters, *postmortem.plot_samples(session.watch.samples)]
            try:
                page, _data = postmortem.export_report(operations, Path.cwd(), sightings, plots, causes)
            except OSError as error:
                self._host.show_toast(f"The operations cannot be written here: {error.strerror or error}.", "error")
                return
            self._host.show_toast(f"Written: {page.name} and .json, in {page.parent}")

        from rqtui.reports import postmortem

        session.call_engine(read_queues, write_files)


def _map_counts_by_queue(queues: Iterable[Queue], with_system: bool = False) -> Mapping[str, Mapping[str, int]]:
    return {
        f"{queue.system}:" * with_system + queue.name: queue.map_counts_by_place()
        for queue in queues
        if not queue.error
    }
