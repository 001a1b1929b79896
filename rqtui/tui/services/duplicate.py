"""Duplicate: the same body in a new job, edited or not.

The body is fetched whole, as raw bytes; what was not touched goes back byte for byte. The original is deleted only
after the new job was taken, and only where it is still as it was read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rqtui.engine import ticker
from rqtui.model import Job, Ref
from rqtui.text import formats
from rqtui.text.sanitise import safe
from rqtui.tui.host import Host
from rqtui.tui.services import forms, verb_resolution
from rqtui.tui.services.batches import Batch, Batches, Request
from rqtui.tui.services.tally import Tally
from rqtui.tui.session import Session
from rqtui.tui.target import Target
from rqtui.tui.widgets import questions
from rqtui.verbs import Verb

if TYPE_CHECKING:
    from rqtui.tui.widgets.dialogs import Given


class Duplicate:
    """Copies a job of a session."""

    def __init__(self, host: Host, session: Session, batches: Batches) -> None:
        self._host, self._session, self._batches = host, session, batches

    def begin(self, verb: Verb, target: Target) -> None:
        """Reads the job whole, and then shows the form."""
        ref, seen = target.ref, target.jobs[0]
        if ref is None:
            return

        def read(answered: ticker.Answered) -> None:
            if answered.error or not isinstance(answered.result, Job):
                self._host.say(answered.error or "The job is gone.", "error")
            elif answered.result.body is None:
                self._host.say("The body of this job cannot be read, so the job cannot be duplicated.", "error")
            else:
                self._ask(verb, ref, answered.result)

        self._session.ask(lambda engine: engine.job(ref, seen.id, -1), read)

    def _ask(self, verb: Verb, ref: Ref, job: Job, given: Given | None = None, problem: str = "") -> None:
        from rqtui.tui.widgets.dialogs import Question

        session, target = self._session, Target(ref, job.place, (job,), state=job.state)
        fields = verb_resolution.fields(session.layouts[ref.layout], verb)
        body = session.layouts[ref.layout].editable(job)
        lines = [
            questions.line("where", safe(ref.queue), ("  on ", "$muted"), session.url),
            questions.line("copies", formats.elide_middle(safe(job.id), 40), (f"  {job.place}", "$muted")),
        ]
        dialog = Question(
            f"{verb.question}: {formats.elide_middle(safe(job.id), 40)}",
            lines,
            fields,
            verb.label,
            False,
            lambda values: forms.check(session, verb, target, values),
            given.typed if given else _typed(job),
            problem,
            bodies=given.bodies if given else {"body": body},
            is_form=verb.needs_form,
        )

        def decided(given: Given | None) -> None:
            if given is not None:
                self._send(verb, target, job, given)

        self._host.app.push_screen(dialog, decided)

    def _send(self, verb: Verb, target: Target, job: Job, given: Given) -> None:
        [(name, ref, form)] = forms.parts(self._session, verb, target, given.values)
        batch = Batch(Tally(name, ref))
        batch.refused = lambda reason: self._ask(verb, ref, job, given, reason)
        if given.values.get("delete_original"):
            batch.then = lambda _tally: self._delete(target, ref, job)
        self._batches.send(Request(name, ref, form, batch))

    def _delete(self, target: Target, ref: Ref, job: Job) -> None:
        """Only as it was read: it may have run meanwhile, and have come back to where it was.

        A system whose script cannot tell is looked at again, a round trip before.
        """
        system = self._session.layouts[ref.layout]
        only = system.only_as_read("delete", job)
        form = {**verb_resolution.completed(system, "delete", target, {}), **only}

        def delete() -> None:
            self._batches.send(Request("delete", ref, form, Batch(Tally("delete", ref)), (job,)))

        if only:
            delete()
            return

        def looked(answered: ticker.Answered) -> None:
            now = answered.result
            is_another_try = isinstance(now, Job) and now.place == job.place and _tries(now) != _tries(job)
            if answered.error or is_another_try:
                why = answered.error or "the job has run since it was read"
                self._host.say(f"The original stays: {why}.", "warning")
                return
            delete()

        self._session.ask(lambda engine: engine.job(ref, job.id, 0), looked)


def _tries(job: Job) -> tuple[object, ...]:
    """What differs once a job was tried again."""
    return job.token, job.attempts, job.since_ms, job.history


def _typed(job: Job) -> dict[str, str]:
    """The form's fields as the job has them; the id is a new one, and it is due at once."""
    known = {
        "name": job.name,
        "priority": str(job.priority) if job.priority else "",
        "ttr_ms": f"{job.ttr_ms}ms" if job.ttr_ms else "",
        "max_attempts": str(job.max_attempts) if job.max_attempts else "",
    }
    return {name: value for name, value in known.items() if value}
