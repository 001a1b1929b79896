"""Implement `loops`: show how late the dispatcher and the reaper are, and their next jobs. Nothing is changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rqtui.cli import documents, output
from rqtui.cli.arguments import QUEUES, open_engine
from rqtui.cli.session import DONE, Session
from rqtui.errors import UsageError

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine
    from rqtui.reports.loops import Report, UpcomingJob

MAX_JOBS = 1000


def loops(
    session: Session,
    queues: QUEUES = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="List at most N jobs that are moved next.")] = 12,
) -> int:
    """Show how late dispatcher and reaper are, and which jobs they move next.

    Example: rqtui loops mail --json
    """
    from rqtui.reports import loops as report

    if not 1 <= limit <= MAX_JOBS:
        raise UsageError(f"--limit is a whole number from 1 to {MAX_JOBS}.")
    engine, refs = open_engine(session, queues)
    loop_report = report.build_loop_report(engine, refs, limit)
    if session.as_json:
        output.write_json(_build_loops_document(engine, loop_report))
    else:
        _write_loop_tables(engine, loop_report)
    return DONE


def _build_loops_document(engine: Engine, report: Report) -> dict[str, Any]:
    loop_documents = [
        {"loop": loop.verb, "late": loop.late, "next_ms": loop.next_ms, "elsewhere": loop.elsewhere}
        for loop in report.loops
    ]
    return {
        "taken_at_ms": report.taken_ms,
        "loops": loop_documents,
        "next": [_build_next_job_document(engine, job, report.taken_ms) for job in report.coming],
    }


def _build_next_job_document(engine: Engine, coming: UpcomingJob, taken_ms: int) -> dict[str, Any]:
    """Build the JSON document of a job that the dispatcher or reaper will move next."""
    from rqtui.reports.loops import format_target_places

    job = coming.job
    return {
        "loop": coming.verb,
        "at_ms": taken_ms + coming.in_ms,
        "in_ms": coming.in_ms,
        **documents.build_queue_fields(coming.ref.queue),
        "layout": coming.ref.system,
        **documents.build_id_fields(job.id),
        "worker": documents.mask_job_text(job.worker),
        "attempts": job.attempts,
        "max_attempts": job.max_attempts,
        "becomes": format_target_places(coming.verb, job, engine.systems[coming.ref.system]) or None,
    }


def _write_loop_tables(engine: Engine, report: Report) -> None:
    from rqtui.reports.loops import format_target_places
    from rqtui.text.formats import format_quantity
    from rqtui.text.masking import mask_text
    from rqtui.text.names import find_duplicate_names, format_queue_name

    for loop in report.loops:
        next_text = "" if loop.next_ms is None else f", the next {_format_due_time(loop.next_ms)}"
        text = f"{loop.late} late{next_text}" if loop.late or next_text else "nothing waits for it"
        runs = f"; {format_quantity(loop.elsewhere, 'screen')} elsewhere" if loop.elsewhere else ""
        output.write_lines([f"{loop.verb}: {text}{runs}"])
    shared_names = find_duplicate_names(engine.refs)
    rows = [
        [
            _format_due_time(job.in_ms),
            job.verb,
            format_queue_name(job.ref, shared_names),
            documents.format_id(job.job.id),
            mask_text(job.job.worker),
            f"{job.job.attempts}/{job.job.max_attempts}" if job.job.max_attempts else str(job.job.attempts),
            format_target_places(job.verb, job.job, engine.systems[job.ref.system]) or "gone",
        ]
        for job in report.coming
    ]
    if rows:
        output.write_table(("when", "loop", "queue", "id", "worker", "tried", "becomes"), rows, right=("when", "tried"))


def _format_due_time(in_ms: int) -> str:
    """Format the time until a job is due: `in 5s`, or `5s late`."""
    from rqtui.text.formats import format_age

    return f"{format_age(-in_ms)} late" if in_ms <= -1000 else f"in {format_age(in_ms)}"
