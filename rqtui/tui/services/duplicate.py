"""Duplicate a job: send its body, edited or not, as a new job.

The body is fetched whole as raw bytes, and an unedited body is sent byte for byte. The original job is deleted only
after the new job was accepted, and only if it has not changed since it was read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rqtui.engine import ticker
from rqtui.errors import RqtuiError
from rqtui.model import Job, Ref
from rqtui.text import formats
from rqtui.text.sanitise import safe
from rqtui.tui.host import Host
from rqtui.tui.services import form_values, verb_resolution
from rqtui.tui.services.batches import Batch, Batches, VerbRequest
from rqtui.tui.services.outcome_counts import OutcomeCounts
from rqtui.tui.session import Session
from rqtui.tui.target import Target
from rqtui.tui.widgets import question_text
from rqtui.verbs import Verb

if TYPE_CHECKING:
    from rqtui.tui.widgets.question_dialog import FormReply


class JobDuplication:
    """The service that enqueues a copy of a job after showing its form."""

    def __init__(self, host: Host, session: Session, batches: Batches) -> None:
        self._host, self._session, self._batches = host, session, batches

    def open_duplicate_form(self, verb: Verb, target: Target) -> None:
        """Fetch a job with its whole body, then open the form in which its copy can be edited."""
        ref, listed_job = target.ref, target.jobs[0]
        if ref is None:
            return

        def show_form_of_fetched_job(call_result: ticker.CallFinished) -> None:
            if call_result.error or not isinstance(call_result.result, Job):
                self._host.show_toast(call_result.error or "The job no longer exists.", "error")
            elif call_result.result.body is None:
                self._host.show_toast("The body of this job cannot be read, so the job cannot be duplicated.", "error")
            else:
                self._show_duplicate_form(verb, ref, call_result.result)

        self._session.call_engine(lambda engine: engine.fetch_job(ref, listed_job.id, -1), show_form_of_fetched_job)

    def _show_duplicate_form(
        self, verb: Verb, ref: Ref, job: Job, reply: FormReply | None = None, problem: str = ""
    ) -> None:
        from rqtui.tui.widgets.question_dialog import Question

        session, target = self._session, Target(ref, job.place, (job,), state=job.state)
        fields = verb_resolution.list_form_fields(session.systems[ref.system], verb)
        try:
            body = session.systems[ref.system].format_editable_body(job)
        except RqtuiError as error:  # a fault of a system from another package
            self._host.show_toast(str(error), "error")
            return
        lines = [
            question_text.format_labelled_line("where", safe(ref.queue), ("  on ", "$muted"), session.url),
            question_text.format_labelled_line(
                "copies", formats.elide_middle(safe(job.id), 40), (f"  {job.place}", "$muted")
            ),
        ]
        dialog = Question(
            f"{verb.question} {formats.elide_middle(safe(job.id), 40)}",
            lines,
            fields,
            verb.label,
            False,
            lambda values: form_values.validate_form(session, verb, target, values),
            reply.typed if reply else _prefill_form(job),
            problem,
            bodies=reply.bodies if reply else {"body": body},
            is_form=verb.needs_form,
        )

        def enqueue_copy_if_accepted(reply: FormReply | None) -> None:
            if reply is not None:
                self._enqueue_copy(verb, target, job, reply)

        self._host.app.push_screen(dialog, enqueue_copy_if_accepted)

    def _enqueue_copy(self, verb: Verb, target: Target, job: Job, reply: FormReply) -> None:
        [(name, ref, form)] = form_values.build_script_forms(self._session, verb, target, reply.values)
        batch = Batch(OutcomeCounts(name, ref))
        batch.on_refused = lambda reason: self._show_duplicate_form(verb, ref, job, reply, reason)
        if reply.values.get("delete_original"):
            batch.on_changed = lambda _outcome_counts: self._delete_original(target, ref, job)
        self._batches.send_requests(VerbRequest(name, ref, form, batch))

    def _delete_original(self, target: Target, ref: Ref, job: Job) -> None:
        """Delete the duplicated job, unless it has changed: it may have run and returned to its place in the meantime.

        If the system's script cannot check this itself, the job is read again before.
        """
        system = self._session.systems[ref.system]
        guard = system.unchanged_guard("delete", job)
        form = {**verb_resolution.complete_script_arguments(system, "delete", target, {}), **guard}

        def send_delete_request() -> None:
            self._batches.send_requests(VerbRequest("delete", ref, form, Batch(OutcomeCounts("delete", ref)), (job,)))

        if guard:
            send_delete_request()
            return

        def delete_if_unchanged(call_result: ticker.CallFinished) -> None:
            current = call_result.result
            has_run_again = (
                isinstance(current, Job)
                and current.place == job.place
                and _collect_attempt_fields(current) != _collect_attempt_fields(job)
            )
            if call_result.error or has_run_again:
                reason = call_result.error or "the job has run since it was read"
                self._host.show_toast(f"The original stays: {reason}.", "warning")
                return
            send_delete_request()

        self._session.call_engine(lambda engine: engine.fetch_job(ref, job.id, 0), delete_if_unchanged)


def _collect_attempt_fields(job: Job) -> tuple[object, ...]:
    """Return the fields of a job that change when it runs again."""
    return job.token, job.attempts, job.since_ms, job.history


def _prefill_form(job: Job) -> dict[str, str]:
    """Return the texts that fill the form of a job's copy. The copy gets a new id and is due at once."""
    values = {
        "name": job.name,
        "priority": str(job.priority) if job.priority else "",
        "ttr_ms": f"{job.ttr_ms}ms" if job.ttr_ms else "",
        "max_attempts": str(job.max_attempts) if job.max_attempts else "",
    }
    return {name: value for name, value in values.items() if value}
