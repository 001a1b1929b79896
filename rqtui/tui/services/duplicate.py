"""Duplicate a job: send its body, edited or not, as a new job.

The body is fetched whole as raw bytes, and an unedited body is sent byte for byte. The original is deleted only after
the new job was accepted, and only if it has not changed since it was read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rqtui.engine import ticker
from rqtui.model import Job, Ref
from rqtui.text import formats
from rqtui.text.sanitise import safe
from rqtui.tui.host import Host
from rqtui.tui.services import form_values, verb_resolution
from rqtui.tui.services.batches import Batch, Batches, Request
from rqtui.tui.services.tally import Tally
from rqtui.tui.session import Session
from rqtui.tui.target import Target
from rqtui.tui.widgets import question_text
from rqtui.verbs import Verb

if TYPE_CHECKING:
    from rqtui.tui.widgets.question_dialog import FormReply


class Duplicate:
    """Copies a job of a session."""

    def __init__(self, host: Host, session: Session, batches: Batches) -> None:
        self._host, self._session, self._batches = host, session, batches

    def fetch_and_ask(self, verb: Verb, target: Target) -> None:
        """Fetch the whole job, then open the form for its copy."""
        ref, listed_job = target.ref, target.jobs[0]
        if ref is None:
            return

        def handle_job(answered: ticker.CallFinished) -> None:
            if answered.error or not isinstance(answered.result, Job):
                self._host.show_toast(answered.error or "The job is gone.", "error")
            elif answered.result.body is None:
                self._host.show_toast("The body of this job cannot be read, so the job cannot be duplicated.", "error")
            else:
                self._show_form(verb, ref, answered.result)

        self._session.call_engine(lambda engine: engine.fetch_job(ref, listed_job.id, -1), handle_job)

    def _show_form(self, verb: Verb, ref: Ref, job: Job, given: FormReply | None = None, problem: str = "") -> None:
        from rqtui.tui.widgets.question_dialog import Question

        session, target = self._session, Target(ref, job.place, (job,), state=job.state)
        fields = verb_resolution.list_fields(session.systems[ref.system], verb)
        body = session.systems[ref.system].format_editable_body(job)
        lines = [
            question_text.format_line("where", safe(ref.queue), ("  on ", "$muted"), session.url),
            question_text.format_line("copies", formats.elide_middle(safe(job.id), 40), (f"  {job.place}", "$muted")),
        ]
        dialog = Question(
            f"{verb.question}: {formats.elide_middle(safe(job.id), 40)}",
            lines,
            fields,
            verb.label,
            False,
            lambda values: form_values.validate_form(session, verb, target, values),
            given.typed if given else _prefill_form(job),
            problem,
            bodies=given.bodies if given else {"body": body},
            is_form=verb.needs_form,
        )

        def handle_decision(given: FormReply | None) -> None:
            if given is not None:
                self._send_copy(verb, target, job, given)

        self._host.app.push_screen(dialog, handle_decision)

    def _send_copy(self, verb: Verb, target: Target, job: Job, given: FormReply) -> None:
        [(name, ref, form)] = form_values.build_script_forms(self._session, verb, target, given.values)
        batch = Batch(Tally(name, ref))
        batch.on_refused = lambda reason: self._show_form(verb, ref, job, given, reason)
        if given.values.get("delete_original"):
            batch.on_changed = lambda _tally: self._delete_original(target, ref, job)
        self._batches.send(Request(name, ref, form, batch))

    def _delete_original(self, target: Target, ref: Ref, job: Job) -> None:
        """Delete the original if it is unchanged, because it may have run and returned to its place in the meantime.

        If the system's script cannot check this itself, the job is read again before.
        """
        system = self._session.systems[ref.system]
        guard = system.unchanged_guard("delete", job)
        form = {**verb_resolution.complete_form(system, "delete", target, {}), **guard}

        def delete() -> None:
            self._batches.send(Request("delete", ref, form, Batch(Tally("delete", ref)), (job,)))

        if guard:
            delete()
            return

        def handle_job(answered: ticker.CallFinished) -> None:
            current = answered.result
            is_another_try = (
                isinstance(current, Job)
                and current.place == job.place
                and _attempt_fields(current) != _attempt_fields(job)
            )
            if answered.error or is_another_try:
                reason = answered.error or "the job has run since it was read"
                self._host.show_toast(f"The original stays: {reason}.", "warning")
                return
            delete()

        self._session.call_engine(lambda engine: engine.fetch_job(ref, job.id, 0), handle_job)


def _attempt_fields(job: Job) -> tuple[object, ...]:
    """Return the fields of a job that change when it runs again."""
    return job.token, job.attempts, job.since_ms, job.history


def _prefill_form(job: Job) -> dict[str, str]:
    """Return the form's values from the job. The copy gets a new id and is due at once."""
    values = {
        "name": job.name,
        "priority": str(job.priority) if job.priority else "",
        "ttr_ms": f"{job.ttr_ms}ms" if job.ttr_ms else "",
        "max_attempts": str(job.max_attempts) if job.max_attempts else "",
    }
    return {name: value for name, value in values.items() if value}
