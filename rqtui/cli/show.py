"""`show`: one job, with its body and its failed attempts. Nothing here changes anything."""

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
    id: Annotated[str, typer.Argument(metavar="ID", help="The job; base64:… where its id is no text.")],
    whole: Annotated[bool, typer.Option("--body", help="The whole body, however long it is.")] = False,
    is_raw: Annotated[bool, typer.Option("--raw", help="Nothing but the bytes of the body, on stdout.")] = False,
    is_revealed: Annotated[bool, typer.Option("--reveal", help="Do not mask passwords and tokens for people.")] = False,
) -> int:
    """One job: its body and its failed attempts.

    Example: rqtui show mail welcome:42 --json
    """
    engine = session.engine()
    ref = engine.seek(queue)
    raw_id = documents.id_bytes(id)
    found = engine.job(ref, raw_id, -1 if whole or is_raw else documents.BODY_BYTES)
    if found is None:
        output.say(f'there is no job "{id}" in {ref.queue}.')
        return REFUSED
    if is_raw:
        if sys.stdout.isatty():
            raise UsageError(
                "--raw writes bytes as they are, which a terminal would obey; send them to a file or a pipe."
            )
        output.write_bytes(found.body or b"")
        return DONE
    if session.as_json:
        output.write_json(
            {**documents.job(found), "history": documents.history(found), "facts": documents.facts(found.facts)}
        )
        return DONE
    _write_job(found, whole, is_revealed, counts_tries="tried" in engine.layouts[ref.layout].tells)
    return DONE


def _write_job(job: Job, whole: bool, is_revealed: bool, *, counts_tries: bool) -> None:
    from rqtui.text import facts
    from rqtui.text.body import body_lines, mask_text
    from rqtui.text.formats import moment, size
    from rqtui.text.sanitise import safe, safe_lines, shown_id

    tried = f"{job.attempts} of {job.max_attempts}" if job.max_attempts else str(job.attempts)
    known: list[tuple[str, Any]] = [
        ("id", shown_id(job.id)),
        ("queue", f"{job.queue} ({job.layout})"),
        ("place", job.place),
        ("job", job.name),
        ("call", job.call if is_revealed else mask_text(job.call)),
        ("enqueued", moment(job.enqueued_ms) if job.enqueued_ms else ""),
        ("due", moment(job.due_ms) if job.due_ms else ""),
        ("reserved", moment(job.reserved_ms) if job.reserved_ms else ""),
        ("lease until", moment(job.deadline_ms) if job.deadline_ms else ""),
        ("worker", job.worker),
        ("token", job.token),
        ("priority", str(job.priority) if job.priority else ""),
        ("attempts", tried if counts_tries or job.attempts or job.max_attempts else ""),
        ("cancelled", "asked to stop" if job.cancelled else ""),
        ("problem", job.problem),
    ]
    lines = [f"{name:<12} {safe(value)}" for name, value in known if value]
    lines += [line for fact in job.facts for line in facts.written(fact, is_revealed)]
    for attempt in job.history:
        first, *rest = safe_lines(attempt.error) or [""]
        told = (moment(attempt.end_ms) if attempt.end_ms else "", safe(attempt.worker), first)
        lines.append(f"{'failed':<12} {'  '.join(filter(None, told))}")
        lines += [" " * 13 + line for line in rest[-12:]]
    lines.append(f"{'body':<12} {size(job.body_bytes) if job.body is not None or job.body_bytes else 'none'}")
    if job.body is None and job.body_bytes:
        lines.append("  too long to show; --body shows it, --raw writes it")
    if job.body is not None:
        most = max(1, len(job.body)) if whole else documents.BODY_BYTES
        output.write_lines(lines)
        output.write_lines("  " + line for line in body_lines(job.body, is_revealed, most))
        return
    output.write_lines(lines)
