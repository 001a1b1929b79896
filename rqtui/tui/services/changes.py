"""Changes: the way from a key to a request: which verb it means here, which form and which question come first.

`duplicate` asks about a copy, `bulk_changes` about many jobs, `rate_limited` makes such a change slowly; all of them
send by `batches`, where the answers come back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from textual.content import Content

from rqtui.model import Job, Ref
from rqtui.text.sanitise import safe
from rqtui.tui import keys
from rqtui.tui.host import Host
from rqtui.tui.services import forms, verb_resolution
from rqtui.tui.services.batches import Batch, Batches, Request
from rqtui.tui.services.bulk_changes import BulkChanges
from rqtui.tui.services.duplicate import Duplicate
from rqtui.tui.services.navigation import Navigation
from rqtui.tui.services.rate_limited import RateLimited
from rqtui.tui.services.session_journal import SessionJournal
from rqtui.tui.services.tally import Tally
from rqtui.tui.services.undo import Undo
from rqtui.tui.session import Session
from rqtui.tui.target import Target
from rqtui.tui.widgets import questions
from rqtui.verbs import Field, Verb

if TYPE_CHECKING:
    from rqtui.tui.widgets.dialogs import Given


class Changes:
    """The verbs of a session."""

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
        self.drips = RateLimited(host, session, navigation, batches, journal)
        self._bulk = BulkChanges(host, session, batches, self.drips)
        self._duplicate = Duplicate(host, session, batches)

    # -- which verb -----------------------------------------------------------------------------------------------

    def verb_for(self, key: str, target: Target | None = None) -> Verb | None:
        """Which verb a key means for what is under the cursor, or for `target`; None when it can do nothing here."""
        target = target or self._navigation.target()
        verb = verb_resolution.verb_for(self._session.layouts, key, target)
        return None if verb is None or self._is_denied(verb, target.ref) else verb

    def check(self, key: str, target: Target | None = None) -> bool | None:
        """Whether a verb's key works now: False hides it, None shows it grey."""
        session, view = self._session, self._navigation.view
        if session.is_read_only:
            return False
        if session.engine is None or (view is not None and view.is_too_small):
            return None
        target = target or self._navigation.target()
        ref, verbs = target.ref, keys.verbs_of(key)
        if view is not None and not any(map(view.allows, verbs)):
            return False
        if ref is None and not self._makes_queues and not self.verb_for(key, target):
            return False
        if ref and not any(session.layouts[ref.layout].can(verb.script or verb.name) for verb in verbs):
            return False
        if ref and all(self._is_denied(verb, ref) for verb in verbs):
            return False
        if session.lost or session.snapshot is None:
            return None
        return True if self.verb_for(key, target) else None

    @property
    def _makes_queues(self) -> bool:
        view = self._navigation.view
        return view is not None and view.MAKES_QUEUES

    def _is_denied(self, verb: Verb, ref: Ref | None) -> bool:
        return bool(self._session.denial(verb.script or verb.name, ref))

    def offered(self) -> list[tuple[Verb, str]]:
        """The verbs that the palette has now, each with its script's first line."""
        session, target = self._session, self._navigation.target()
        if session.is_read_only or session.lost or target.ref is None:
            return []
        system = session.layouts[target.ref.layout]
        ways = [verb for key in ("", *keys.VERB_KEYS) for verb in keys.verbs_of(key) if verb.script]
        return [
            (verb, verb.summary or _first_clause(system.scripts[verb.name].summary))
            for verb in (*system.verbs(), *ways)
            if verb_resolution.offered(system, verb, target) and not self._is_denied(verb, target.ref)
        ]

    # -- asking ---------------------------------------------------------------------------------------------------

    def press(self, key: str) -> None:
        """Asks what has to be asked, and sends the verb."""
        verb, view = self.verb_for(key), self._navigation.view
        if verb and not (view and view.begins(verb)):
            self.begin(verb, self._navigation.target())

    def begin(self, verb: Verb, target: Target, *, is_chosen: bool = False) -> None:
        """The way from a verb to its request: a question where one is due, then the inbox."""
        if not self._may_change():
            return
        if target.ref is not None:
            verb = verb_resolution.of_system(self._session.layouts[target.ref.layout], verb)
        if verb.script == "enqueue":
            self._duplicate.begin(verb, target)
            return
        if verb_resolution.is_bulk(verb, target):
            self._bulk.begin(verb, target)
            return
        fields = self._fields(verb, target)
        if verb_resolution.asks_first(verb, target, bool(fields), is_chosen):
            self._ask(verb, target, fields)
        else:
            self._send(verb, target, None)

    def begin_many(self, verb: str, chosen: Sequence[tuple[Ref, Sequence[Job]]], about: str, counted: str = "") -> None:
        """A verb on jobs of several queues; `about` says what they have in common: `error "TimeoutError: #"`."""
        if self._may_change():
            self._bulk.begin_many(verb, chosen, about, counted)

    def _may_change(self) -> bool:
        """Whether anything can be changed now; says why not."""
        session = self._session
        if session.is_read_only or session.lost or session.engine is None:
            why = "changes are not allowed here" if session.is_read_only else "Redis is away"
            self._host.say(f"Nothing was changed: {why}.", "warning")
            return False
        return True

    def _fields(self, verb: Verb, target: Target) -> tuple[Field, ...]:
        ref = target.ref
        fields = verb.form if ref is None else verb_resolution.fields(self._session.layouts[ref.layout], verb)
        if verb.name != "enqueue" or not self._makes_queues:
            return fields
        named = verb_resolution.QUEUE_FIELD if ref is None else Field("queue", "queue", default=safe(ref.queue))
        return (named, *fields)

    def _ask(
        self, verb: Verb, target: Target, fields: tuple[Field, ...], given: Given | None = None, problem: str = ""
    ) -> None:
        from rqtui.tui.widgets.dialogs import Question

        session = self._session
        total = forms.total(session, target)
        named = target.ref.queue if target.ref and not any(field.name == "queue" for field in fields) else ""
        undo = forms.undo_words(session, verb, target.ref, total, target.place) if target.ref else ""
        dialog = Question(
            safe(questions.title(verb, target, total, named)),
            questions.lines(verb, target, total, session.url, undo),
            fields,
            verb.label,
            verb.danger,
            lambda values: forms.check(session, verb, target, values),
            given.typed if given else None,
            problem,
            bodies=given.bodies if given else None,
            guard=forms.word_to_type(session, verb, [target.ref] if target.ref else []),
            is_form=verb.needs_form,
        )

        def decided(given: Given | None) -> None:
            if given is not None:
                self._send(verb, target, given)

        self._host.app.push_screen(dialog, decided)

    # -- sending --------------------------------------------------------------------------------------------------

    def _send(self, verb: Verb, target: Target, given: Given | None) -> None:
        session, batches = self._session, self._batches
        for name, ref, form in forms.parts(session, verb, target, given.values if given else {}):
            batch = Batch(Tally(name, ref, forms.total(session, target) if verb.scope == "job" else 0))
            if given is not None:
                batch.refused = self._again(verb, target, given, name)
            if verb.scope == "worker":
                batches.send(*(Request(name, ref, {**form, "worker": each}, batch) for each in target.workers))
            elif verb.scope == "job":
                batches.send(Request(name, ref, form, batch, target.jobs, target.place if target.whole else ""))
            else:
                batches.send(Request(name, ref, form, batch))

    def _again(self, verb: Verb, target: Target, given: Given, name: str) -> Callable[[str], None]:
        """Shows the part of a form that a script refused."""

        def ask(reason: str) -> None:
            names = {f.name for f in verb.form if (f.verb or verb.name) == name} | {"queue"}
            fields = tuple(field for field in self._fields(verb, target) if field.name in names)
            self._ask(verb, target, fields, given, reason)

        return ask

    # -- what is under way ----------------------------------------------------------------------------------------

    def stop(self) -> bool:
        """Ends a change of many jobs between two chunks, an undo, and a drip; False where there is none."""
        return any([self.drips.stop(), self._undo.stop(), self._batches.stop()])

    def progress(self) -> Content | None:
        """How far a change of many jobs, an undo or a drip is; None where there is none."""
        return self._batches.progress() or self._undo.progress() or self.drips.progress()


def _first_clause(summary: str) -> str:
    return summary.partition(";")[0].rstrip(".") + "."
