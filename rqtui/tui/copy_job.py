"""Copy job: the half of a change that copies a job: the same body in a new job, edited or not.

The body is fetched whole, as raw bytes; what was not touched goes back byte for byte. The original is deleted only
after the new job was taken, and only where it is still as it was read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rqtui import server, tick
from rqtui.model import Job, Ref
from rqtui.tui import acts, display, questions
from rqtui.tui.part import Part
from rqtui.tui.view import Target
from rqtui.verbs import Verb

if TYPE_CHECKING:
    from rqtui.tui.dialogs import Given


class CopyJob(Part):
    """A mixin of the app."""

    def begin_copy(self, verb: Verb, target: Target) -> None:
        """Reads the job whole, and then shows the form."""
        ref, seen = target.ref, target.jobs[0]
        if ref is None:
            return

        def read(answered: tick.Answered) -> None:
            if answered.error or not isinstance(answered.result, Job):
                self.cockpit.say(answered.error or "It is not there any more.", "error")
            elif answered.result.body is None:
                self.cockpit.say("Its body cannot be read, so there is nothing to copy.", "error")
            else:
                self._ask_copy(verb, ref, answered.result)

        self.cockpit.ask(lambda engine: engine.job(ref, seen.id, -1), read)

    def _ask_copy(self, verb: Verb, ref: Ref, job: Job, given: Given | None = None, problem: str = "") -> None:
        from rqtui.tui.dialogs import Question

        app, target = self.cockpit, Target(ref, job.place, (job,), state=job.state)
        fields = acts.fields(app.layouts[ref.layout], verb)
        body = job.body or b""
        lines = [
            questions.line("where", display.safe(ref.queue), ("  on ", "$muted"), server.mask(app.settings.url)),
            questions.line("copies", display.elide_middle(display.safe(job.id), 40), (f"  {job.place}", "$muted")),
        ]
        dialog = Question(
            f"{verb.question}: {display.elide_middle(display.safe(job.id), 40)}",
            lines,
            fields,
            verb.label,
            False,
            lambda values: app.check_form(verb, target, values),
            given.typed if given else _typed(job),
            problem,
            bodies=given.bodies if given else {"body": body},
        )

        def decided(given: Given | None) -> None:
            if given is not None:
                self._send_copy(verb, target, job, given)

        app.push_screen(dialog, decided)

    def _send_copy(self, verb: Verb, target: Target, job: Job, given: Given) -> None:
        from rqtui.tui.changes import Batch, Request

        app = self.cockpit
        [(name, ref, form)] = app.parts(verb, target, given.values)
        batch = Batch(acts.Tally(name, ref))
        batch.refused = lambda reason: self._ask_copy(verb, ref, job, given, reason)
        if given.values.get("delete_original"):
            batch.then = lambda _tally: self._delete(target, ref, job)
        app.send(Request(name, ref, form, batch))

    def _delete(self, target: Target, ref: Ref, job: Job) -> None:
        """Only as it was read: it may have run meanwhile, and have come back to where it was.

        A system whose script cannot tell is looked at again, a round trip before.
        """
        from rqtui.tui.changes import Batch, Request

        system = self.cockpit.layouts[ref.layout]
        only = system.only_as_read("delete", job)
        form = {**acts.completed(system, "delete", target, {}), **only}

        def delete() -> None:
            self.cockpit.send(Request("delete", ref, form, Batch(acts.Tally("delete", ref)), (job,)))

        if only:
            delete()
            return

        def looked(answered: tick.Answered) -> None:
            now = answered.result
            is_another_try = isinstance(now, Job) and now.place == job.place and _tries(now) != _tries(job)
            if answered.error or is_another_try:
                why = answered.error or "it has run again since it was read"
                self.cockpit.say(f"The original stays: {why}.", "warning")
                return
            delete()

        self.cockpit.ask(lambda engine: engine.job(ref, job.id, 0), looked)


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
