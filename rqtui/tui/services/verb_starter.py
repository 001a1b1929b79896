"""Turn a key press into a request: choose the verb, show its form or question, and send it.

Delegates the copy of a job to `duplicate`, changes of many jobs to `bulk_changes` and slow ones to
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
from rqtui.tui.services.batches import Batch, Batches, Request
from rqtui.tui.services.bulk_changes import BulkChanges
from rqtui.tui.services.duplicate import Duplicate
from rqtui.tui.services.navigation import Navigation
from rqtui.tui.services.rate_limited_changes import RateLimited
from rqtui.tui.services.session_journal import SessionJournal
from rqtui.tui.services.tally import Tally
from rqtui.tui.services.undo import Undo
from rqtui.tui.session import Session
from rqtui.tui.target import Target
from rqtui.tui.widgets import question_text
from rqtui.verbs import Field, Verb

if TYPE_CHECKING:
    from rqtui.tui.widgets.question_dialog import FormReply


class VerbStarter:
    """Starts the verbs of a session: checks whether they are possible, asks for confirmation, and sends them."""

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
        self.rate_limited = RateLimited(host, session, navigation, batches, journal)
        self._bulk = BulkChanges(host, session, batches, self.rate_limited)
        self._duplicate = Duplicate(host, session, batches)

    # -- which verb -----------------------------------------------------------------------------------------------

    def find_verb(self, key: str, target: Target | None = None) -> Verb | None:
        """Return the verb of a key for `target` (default: the current row), or None if the key does nothing there."""
        target = target or self._navigation.target()
        verb = verb_resolution.find_verb(self._session.systems, key, target)
        return None if verb is None or self._is_denied(verb, target.ref) else verb

    def check_key(self, key: str, target: Target | None = None) -> bool | None:
        """Return whether a verb's key works now: True, False to hide it, or None to show it grey."""
        session, view = self._session, self._navigation.view
        if session.is_read_only:
            return False
        if session.engine is None or (view is not None and view.is_too_small):
            return None
        target = target or self._navigation.target()
        if not self._has_verb_on_key(key, target):
            return False
        if session.connection_loss or session.snapshot is None:
            return None
        return True if self.find_verb(key, target) else None

    def _has_verb_on_key(self, key: str, target: Target) -> bool:
        """Return whether the view, the target's system and the user's rights allow a verb of this key at all."""
        view, ref, verbs = self._navigation.view, target.ref, keys.find_verbs_on_key(key)
        if view is not None and not any(map(view.allows_verb, verbs)):
            return False
        if ref is None:
            return self._can_create_queues or self.find_verb(key, target) is not None
        system = self._session.systems[ref.system]
        has_script = any(system.can(verb.script or verb.name) for verb in verbs)
        return has_script and not all(self._is_denied(verb, ref) for verb in verbs)

    @property
    def _can_create_queues(self) -> bool:
        view = self._navigation.view
        return view is not None and view.CAN_CREATE_QUEUES

    def _is_denied(self, verb: Verb, ref: Ref | None) -> bool:
        return bool(self._session.explain_denial(verb.script or verb.name, ref))

    def list_offered_verbs(self) -> list[tuple[Verb, str]]:
        """Return the verbs that the palette offers now, each with the first clause of its script's summary."""
        session, target = self._session, self._navigation.target()
        if session.is_read_only or session.connection_loss or target.ref is None:
            return []
        system = session.systems[target.ref.system]
        alias_verbs = [verb for key in ("", *keys.VERB_KEYS) for verb in keys.find_verbs_on_key(key) if verb.script]
        return [
            (verb, verb.summary or _cut_after_first_clause(system.scripts[verb.name].summary))
            for verb in (*system.verbs(), *alias_verbs)
            if verb_resolution.is_offered(system, verb, target) and not self._is_denied(verb, target.ref)
        ]

    # -- asking ---------------------------------------------------------------------------------------------------

    def press_key(self, key: str) -> None:
        """Start the verb of a key for the current target."""
        verb, view = self.find_verb(key), self._navigation.view
        if verb and not (view and view.handle_verb(verb)):
            self.start_verb(verb, self._navigation.target())

    def start_verb(self, verb: Verb, target: Target, *, is_chosen: bool = False) -> None:
        """Start a verb: show its form or question if it needs one, else send it at once.

        `is_chosen` is true for a verb chosen in the palette, which always shows its form.
        """
        if not self._check_changes_allowed():
            return
        if target.ref is not None:
            verb = verb_resolution.add_system_effects(self._session.systems[target.ref.system], verb)
        if verb.script == "enqueue":
            self._duplicate.fetch_and_ask(verb, target)
            return
        if verb_resolution.is_bulk(verb, target):
            self._bulk.ask_about_place(verb, target)
            return
        fields = self._build_fields(verb, target)
        if verb_resolution.needs_question(verb, target, bool(fields), is_chosen):
            self._show_question(verb, target, fields)
        else:
            self._send(verb, target, None)

    def start_verb_on_queues(
        self, verb: str, jobs_by_queue: Sequence[tuple[Ref, Sequence[Job]]], about: str, count_difference: str = ""
    ) -> None:
        """Start a verb on jobs of several queues. `about` describes what the jobs share: `error "TimeoutError: #"`."""
        if self._check_changes_allowed():
            self._bulk.ask_about_queues(verb, jobs_by_queue, about, count_difference)

    def _check_changes_allowed(self) -> bool:
        """Return whether changes are possible now. Show the reason in a toast if they are not."""
        session = self._session
        if session.is_read_only or session.connection_loss or session.engine is None:
            reason = "changes are not allowed here" if session.is_read_only else "Redis is away"
            self._host.show_toast(f"Nothing was changed: {reason}.", "warning")
            return False
        return True

    def _build_fields(self, verb: Verb, target: Target) -> tuple[Field, ...]:
        ref = target.ref
        fields = verb.form if ref is None else verb_resolution.list_fields(self._session.systems[ref.system], verb)
        if verb.name != "enqueue" or not self._can_create_queues:
            return fields
        queue_field = verb_resolution.QUEUE_FIELD if ref is None else Field("queue", "queue", default=safe(ref.queue))
        return (queue_field, *fields)

    def _show_question(
        self, verb: Verb, target: Target, fields: tuple[Field, ...], given: FormReply | None = None, problem: str = ""
    ) -> None:
        from rqtui.tui.widgets.question_dialog import Question

        session = self._session
        total = form_values.count_selected(session, target)
        queue_name = target.ref.queue if target.ref and not any(field.name == "queue" for field in fields) else ""
        undo = form_values.describe_undo(session, verb, target.ref, total, target.place) if target.ref else ""
        dialog = Question(
            safe(question_text.build_title(verb, target, total, queue_name)),
            question_text.build_lines(verb, target, total, session.url, undo),
            fields,
            verb.label,
            verb.is_dangerous,
            lambda values: form_values.validate_form(session, verb, target, values),
            given.typed if given else None,
            problem,
            bodies=given.bodies if given else None,
            guard=form_values.choose_guard_word(session, verb, [target.ref] if target.ref else []),
            is_form=verb.needs_form,
        )

        def handle_decision(given: FormReply | None) -> None:
            if given is not None:
                self._send(verb, target, given)

        self._host.app.push_screen(dialog, handle_decision)

    # -- sending --------------------------------------------------------------------------------------------------

    def _send(self, verb: Verb, target: Target, given: FormReply | None) -> None:
        session, batches = self._session, self._batches
        for name, ref, form in form_values.build_script_forms(session, verb, target, given.values if given else {}):
            batch = Batch(Tally(name, ref, form_values.count_selected(session, target) if verb.scope == "job" else 0))
            if given is not None:
                batch.on_refused = self._create_refusal_handler(verb, target, given, name)
            if verb.scope == "worker":
                batches.send(*(Request(name, ref, {**form, "worker": each}, batch) for each in target.workers))
            elif verb.scope == "job":
                batches.send(
                    Request(name, ref, form, batch, target.jobs, target.place if target.is_whole_place else "")
                )
            else:
                batches.send(Request(name, ref, form, batch))

    def _create_refusal_handler(self, verb: Verb, target: Target, given: FormReply, name: str) -> Callable[[str], None]:
        """Return a function that shows the part of a form that a script refused, with the reason."""

        def show_form_again(reason: str) -> None:
            names = {f.name for f in verb.form if (f.verb or verb.name) == name} | {"queue"}
            fields = tuple(field for field in self._build_fields(verb, target) if field.name in names)
            self._show_question(verb, target, fields, given, reason)

        return show_form_again

    # -- what is under way ----------------------------------------------------------------------------------------

    def stop_all(self) -> bool:
        """Stop the change of many jobs, the undo and the throttled change under way. Return False if there is none."""
        return any([self.rate_limited.stop(), self._undo.stop(), self._batches.stop()])

    def format_progress(self) -> Content | None:
        """Return the progress of the change of many jobs, the undo or the throttled change under way, or None."""
        return self._batches.format_progress() or self._undo.format_progress() or self.rate_limited.format_progress()


def _cut_after_first_clause(summary: str) -> str:
    return summary.partition(";")[0].rstrip(".") + "."
