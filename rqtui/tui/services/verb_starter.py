"""Turn a key press into a request: choose the verb, show its form or question, and send it.

The copy of a job is delegated to `duplicate`, changes of many jobs to `bulk_changes` and slow ones to
`rate_limited_changes`. All of them send through `batches`, which receives the outcomes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from textual.content import Content

from rqtui.model import Job, Ref
from rqtui.text.sanitise import safe
from rqtui.tui import keys
from rqtui.tui.host import Host
from rqtui.tui.services import form_values, verb_resolution
from rqtui.tui.services.batches import Batch, Batches, VerbRequest
from rqtui.tui.services.bulk_changes import BulkChanges
from rqtui.tui.services.duplicate import JobDuplication
from rqtui.tui.services.navigation import Navigation
from rqtui.tui.services.outcome_counts import OutcomeCounts
from rqtui.tui.services.rate_limited_changes import RateLimitedChanges
from rqtui.tui.services.session_journal import SessionJournal
from rqtui.tui.services.undo import Undo
from rqtui.tui.session import Session
from rqtui.tui.target import Target
from rqtui.tui.widgets import question_text
from rqtui.verbs import Field, Verb

if TYPE_CHECKING:
    from rqtui.tui.widgets.question_dialog import FormReply


class VerbStarter:
    """The service that starts verbs: checks whether they are possible, asks for confirmation, and sends them."""

    def __init__(
        self,
        host: Host,
        session: Session,
        navigation: Navigation,
        batches: Batches,
        undo: Undo,
        journal: SessionJournal,
    ) -> None:
        self._host, self._session, self._navigation = host, session, navigation
        self._batches, self._undo = batches, undo
        self.rate_limited = RateLimitedChanges(host, session, navigation, batches, journal)
        self._bulk = BulkChanges(host, session, batches, self.rate_limited)
        self._duplicate = JobDuplication(host, session, batches)

    # -- which verb -----------------------------------------------------------------------------------------------

    def find_verb_of_key(self, key: str, target: Target | None = None) -> Verb | None:
        """Return the verb that a key starts for `target`, or None if the key does nothing there.

        The default target is the current row.
        """
        target = target or self._navigation.find_target()
        verb = verb_resolution.find_verb_of_key(self._session.systems, key, target)
        return None if verb is None or self._is_verb_denied(verb, target.ref) else verb

    def check_verb_key(self, key: str, target: Target | None = None) -> bool | None:
        """Return whether a verb's key works now: True, False to hide it, or None to show it grey."""
        session, view = self._session, self._navigation.view
        if session.is_read_only:
            return False
        if session.engine is None or (view is not None and view.is_too_small):
            return None
        target = target or self._navigation.find_target()
        if not self._has_verb_on_key(key, target):
            return False
        if session.connection_loss or session.snapshot is None:
            return None
        return True if self.find_verb_of_key(key, target) else None

    def _has_verb_on_key(self, key: str, target: Target) -> bool:
        """Return whether the view, the target's system and the user's rights allow a verb of this key at all."""
        view, ref, verbs = self._navigation.view, target.ref, keys.find_verbs_on_key(key)
        if view is not None and not any(map(view.allows_verb, verbs)):
            return False
        if ref is None:
            return self._can_create_queues or self.find_verb_of_key(key, target) is not None
        system = self._session.systems[ref.system]
        has_script = any(system.can(verb.script or verb.name) for verb in verbs)
        return has_script and not all(self._is_verb_denied(verb, ref) for verb in verbs)

    @property
    def _can_create_queues(self) -> bool:
        view = self._navigation.view
        return view is not None and view.CAN_CREATE_QUEUES

    def _is_verb_denied(self, verb: Verb, ref: Ref | None) -> bool:
        return bool(self._session.explain_denial(verb.script or verb.name, ref))

    def list_offered_verbs(self) -> list[tuple[Verb, str]]:
        """Return the verbs that the palette offers now, each with the first clause of its script's summary."""
        session, target = self._session, self._navigation.find_target()
        if session.is_read_only or session.connection_loss or target.ref is None:
            return []
        system = session.systems[target.ref.system]
        alias_verbs = [verb for key in ("", *keys.VERB_KEYS) for verb in keys.find_verbs_on_key(key) if verb.script]
        return [
            (
                verb_resolution.add_system_texts(system, verb),
                verb.summary or _cut_after_first_clause(system.scripts[verb.name].summary),
            )
            for verb in (*system.verbs(), *alias_verbs)
            if verb_resolution.is_verb_offered(system, verb, target) and not self._is_verb_denied(verb, target.ref)
        ]

    # -- asking ---------------------------------------------------------------------------------------------------

    def start_verb_of_key(self, key: str) -> None:
        """Start the verb of a pressed key for the current target, unless the view handles the verb itself."""
        verb, view = self.find_verb_of_key(key), self._navigation.view
        if verb and not (view and view.handle_verb(verb)):
            self.start_verb(verb, self._navigation.find_target())

    def start_verb(self, verb: Verb, target: Target, *, is_chosen: bool = False) -> None:
        """Start a verb: show its form or question if it needs one, else send it at once.

        `is_chosen` is true for a verb chosen in the palette, which always shows its form.
        """
        if not self._can_change_jobs():
            return
        if verb.script == "enqueue":
            self._duplicate.open_duplicate_form(verb, target)
            return
        if verb_resolution.needs_dry_run(verb, target):
            self._bulk.confirm_change_of_place(verb, target)
            return
        fields = self._list_question_fields(verb, target)
        if verb_resolution.needs_question(verb, target, bool(fields), is_chosen):
            self._show_verb_question(verb, target, fields)
        else:
            self._send_verb(verb, target, None)

    def start_verb_on_queues(
        self, verb: str, jobs_by_queue: Sequence[tuple[Ref, Sequence[Job]]], about: str, count_difference: str = ""
    ) -> None:
        """Start a verb on jobs of several queues.

        `about` describes what the jobs share: `error "TimeoutError: #"`.
        """
        if self._can_change_jobs():
            self._bulk.confirm_change_of_queues(verb, jobs_by_queue, about, count_difference)

    def _can_change_jobs(self) -> bool:
        """Return whether changes are possible now. Show the reason in a toast if they are not."""
        session = self._session
        if session.is_read_only or session.connection_loss or session.engine is None:
            reason = "changes are not allowed here" if session.is_read_only else "Redis is away"
            self._host.show_toast(f"Nothing was changed: {reason}.", "warning")
            return False
        return True

    def _list_question_fields(self, verb: Verb, target: Target) -> tuple[Field, ...]:
        ref, fields = target.ref, verb.form
        if ref is not None:
            fields = verb_resolution.list_form_fields(self._session.systems[ref.system], verb)
            fields = verb_resolution.add_queue_choices(fields, ref, self._session.refs)
        if verb.name != "enqueue" or not self._can_create_queues:
            return fields
        queue_field = verb_resolution.QUEUE_FIELD if ref is None else Field("queue", "queue", default=safe(ref.queue))
        return (queue_field, *fields)

    def _show_verb_question(
        self, verb: Verb, target: Target, fields: tuple[Field, ...], reply: FormReply | None = None, problem: str = ""
    ) -> None:
        from rqtui.tui.widgets.question_dialog import Question

        session = self._session
        total = form_values.count_targets(session, target)
        queue_name = target.ref.queue if target.ref and not any(field.name == "queue" for field in fields) else ""
        undo = form_values.describe_undo_of_verb(session, verb, target.ref, total, target.place) if target.ref else ""
        dialog = Question(
            safe(question_text.build_question_title(verb, target, total, queue_name)),
            question_text.build_question_lines(verb, target, session.url, undo),
            fields,
            verb.label,
            verb.is_dangerous,
            lambda values: form_values.validate_form(session, verb, target, values),
            reply.typed if reply else None,
            problem,
            bodies=reply.bodies if reply else None,
            guard=form_values.choose_guard_word(session, verb, [target.ref] if target.ref else []),
            is_form=verb.needs_form,
        )

        def send_verb_if_accepted(reply: FormReply | None) -> None:
            if reply is not None:
                self._send_verb(verb, target, reply)

        self._host.app.push_screen(dialog, send_verb_if_accepted)

    # -- sending --------------------------------------------------------------------------------------------------

    def _send_verb(self, verb: Verb, target: Target, reply: FormReply | None) -> None:
        session, batches = self._session, self._batches
        for name, ref, form in form_values.build_script_forms(session, verb, target, reply.values if reply else {}):
            batch = Batch(
                OutcomeCounts(name, ref, form_values.count_targets(session, target) if verb.scope == "job" else 0)
            )
            if reply is not None:
                batch.on_refused = self._create_refusal_handler(verb, target, reply, name)
            if verb.scope == "worker":
                batches.send_requests(
                    *(VerbRequest(name, ref, {**form, "worker": worker}, batch) for worker in target.workers)
                )
            elif verb.scope == "job":
                batches.send_requests(
                    VerbRequest(name, ref, form, batch, target.jobs, target.place if target.is_whole_place else "")
                )
            else:
                batches.send_requests(VerbRequest(name, ref, form, batch))

    def _create_refusal_handler(self, verb: Verb, target: Target, reply: FormReply, name: str) -> Callable[[str], None]:
        """Return a function that shows the part of a form that a script refused, with the reason."""

        def show_form_again(reason: str) -> None:
            names = {field.name for field in verb.form if (field.verb or verb.name) == name} | {"queue"}
            fields = tuple(field for field in self._list_question_fields(verb, target) if field.name in names)
            self._show_verb_question(verb, target, fields, reply, reason)

        return show_form_again

    # -- running changes ----------------------------------------------------------------------------------------

    def stop_running_changes(self) -> bool:
        """Stop the change of many jobs, the undo and the throttled change under way. Return False if there is none."""
        return any([self.rate_limited.stop_change(), self._undo.stop_undo(), self._batches.stop_long_change()])

    def format_progress(self) -> Content | None:
        """Return the progress of the change of many jobs, the undo or the throttled change under way, or None."""
        return self._batches.format_progress() or self._undo.format_progress() or self.rate_limited.format_progress()


def _cut_after_first_clause(summary: str) -> str:
    return summary.partition(";")[0].rstrip(".") + "."
