"""Implement `show`: print one job with its body and its failed attempts. The command changes nothing."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rqtui.cli import documents, output
from rqtui.cli.arguments import QUEUE
from rqtui.cli.session import DONE, REFUSED, Session
from rqtui.errors import UsageError

if TYPE_CHECKING:
    from rqtui.model import Job


def show(
    session: Session,
    queue: QUEUE,
    id: Annotated[str, typer.Argument(metavar="ID", help="The id of the job; base64:… for an id that is not text.")],
    has_whole_body: Annotated[bool, typer.Option("--body", help="Print the whole body, however long it is.")] = False,
    is_raw: Annotated[bool, typer.Option("--raw", help="Print only the bytes of the body.")] = False,
) -> int:
    """Show one job with its body and its failed attempts.

    Example: rqtui show mail welcome:42 --json
    """
    engine = session.create_engine()
    ref = engine.resolve_or_discover(queue)
    raw_id = documents.parse_id(id)
    job = engine.fetch_job(ref, raw_id, -1 if has_whole_body or is_raw else documents.BODY_BYTES)
    if job is None:
        output.print_message(f'there is no job "{id}" in {ref.queue}.')
        return REFUSED
    if is_raw:
        if sys.stdout.isatty():
            raise UsageError(
                "--raw writes bytes as they are, which a terminal would obey; send them to a file or a pipe."
            )
        output.write_bytes(job.body or b"")
        return DONE
    if session.as_json:
        output.write_json(
            {
                **documents.build_job_document(job),
                "history": documents.build_attempt_documents(job),
                "facts": documents.build_fact_documents(job.facts),
            }
        )
        return DONE
    _write_job(job, has_whole_body, counts_tries="tried" in engine.systems[ref.system].known_fields)
    return DONE


def _write_job(job: Job, has_whole_body: bool, *, counts_tries: bool) -> None:
    """Print one job as text, with all of its body if `has_whole_body`.

    `counts_tries` means that the system counts attempts.
    """
    from rqtui.text import facts
    from rqtui.text.body import render_body_pieces
    from rqtui.text.formats import format_size
    from rqtui.text.sanitise import safe

    properties = _list_job_properties(job, counts_tries=counts_tries)
    lines = [f"{name:<12} {safe(value)}" for name, value in properties if value]
    lines += [line for fact in job.facts for line in facts.build_fact_lines(fact)]
    lines += _build_failure_lines(job)
    no_body = "not kept; the call above has its arguments" if job.call else "none"
    lines.append(f"{'body':<12} {format_size(job.body_bytes) if job.body is not None or job.body_bytes else no_body}")
    if job.body is None and job.body_bytes:
        lines.append("  too long to show; --body shows it, --raw writes it")
    if job.body is not None:
        max_bytes = len(job.body) if has_whole_body else documents.BODY_BYTES
        output.write_lines(lines)
        output.write_indented(render_body_pieces(job.body, most_bytes=max_bytes), "  ")
        return
    output.write_lines(lines)


def _list_job_properties(job: Job, *, counts_tries: bool) -> list[tuple[str, Any]]:
    """Return the label and the value of each property of a job; the value is empty if unknown."""
    from rqtui.text.masking import mask_text
    from rqtui.text.sanitise import format_id

    tried = f"{job.attempts} of {job.max_attempts}" if job.max_attempts else str(job.attempts)
    has_tries = counts_tries or job.attempts or job.max_attempts
    return [
        ("id", format_id(job.id)),
        ("queue", f"{job.queue} ({job.system})"),
        ("place", job.place),
        ("job", mask_text(job.name)),
        ("call", mask_text(job.call)),
        ("enqueued", _format_moment(job.enqueued_ms)),
        ("due", _format_moment(job.due_ms)),
        ("reserved", _format_moment(job.reserved_ms)),
        ("lease until", _format_moment(job.deadline_ms)),
        ("worker", mask_text(job.worker)),
        ("token", job.token),
        ("priority", str(job.priority) if job.priority else ""),
        ("attempts", tried if has_tries else ""),
        ("cancelled", "asked to stop" if job.is_cancelled else ""),
        ("problem", mask_text(job.problem)),
    ]


def _build_failure_lines(job: Job) -> list[str]:
    """Return the text lines for each failed attempt of a job: the time, the worker and the last lines of the error."""
    from rqtui.text.masking import mask_text
    from rqtui.text.sanitise import safe, safe_lines

    failures = [(attempt.end_ms, attempt.worker, attempt.error) for attempt in job.history]
    if job.error and not any(error == job.error for _end_ms, _worker, error in failures):
        failures.append((0, "", job.error))  # some systems store only the last error, as Celery does
    lines = []
    for end_ms, worker, error in failures:
        first, *other_lines = safe_lines(mask_text(error)) or [""]
        cells = (_format_moment(end_ms), safe(mask_text(worker)), first)
        lines.append(f"{'failed':<12} {'  '.join(filter(None, cells))}")
        lines += [" " * 13 + line for line in other_lines[-12:]]
    return lines


def _format_moment(ms: int | None) -> str:
    """Format a time in ms since 1970; empty for a missing time."""
    from rqtui.text.formats import format_date_and_time

    return format_date_and_time(ms) if ms else ""
