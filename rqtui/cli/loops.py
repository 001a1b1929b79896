"""Implement `loops`: show how late the dispatcher and the reaper are, and their next jobs. It changes nothing."""

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
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="So many of those who are next.")] = 12,
) -> int:
    """Show how late dispatcher and reaper are, and which jobs they take next.

    Example: rqtui loops mail --json
    """
    from rqtui.reports import loops as report

    if not 1 <= limit <= MAX_JOBS:
        raise UsageError(f"--limit is a whole number from 1 to {MAX_JOBS}.")
    engine, refs = open_engine(session, queues)
    loop_report = report.build_report(engine, refs, limit)
    if session.as_json:
        output.write_json(_build_document(engine, loop_report))
    else:
        _write_table(engine, loop_report)
    return DONE


def _build_document(engine: Engine, report: Report) -> dict[str, Any]:
    loop_documents = [
        {"loop": one.verb, "late": one.late, "next_ms": one.next_ms, "elsewhere": one.elsewhere} for one in report.loops
    ]
    return {
        "taken_at_ms": report.taken_ms,
        "loops": loop_documents,
        "next": [_build_next_job(engine, each, report.taken_ms) for each in report.coming],
    }


def _build_next_job(engine: Engine, coming: UpcomingJob, taken_ms: int) -> dict[str, Any]:
    """Return one job that a loop will move next as a JSON document."""
    from rqtui.reports.loops import format_target_places

    job = coming.job
    return {
        "loop": coming.verb,
        "at_ms": taken_ms + coming.in_ms,
        "in_ms": coming.in_ms,
        **documents.build_queue_fields(coming.ref.queue),
        "layout": coming.ref.system,
        **documents.build_id_fields(job.id),
        "worker": documents.mask_data(job.worker),
        "attempts": job.attempts,
        "max_attempts": job.max_attempts,
        "becomes": format_target_places(coming.verb, job, engine.systems[coming.ref.system]) or None,
    }


def _write_table(engine: Engine, report: Report) -> None:
    from rqtui.reports.loops import format_target_places
    from rqtui.text.formats import format_quantity
    from rqtui.text.masking import mask_text
    from rqtui.text.names import find_duplicate_names, format_queue_name

    for one in report.loops:
        text = (
            "nothing waits for it" if one.next_ms is None else f"{one.late} late, the next {_format_time(one.next_ms)}"
        )
        runs = f"; {format_quantity(one.elsewhere, 'screen')} elsewhere" if one.elsewhere else ""
        output.write_lines([f"{one.verb}: {text}{runs}"])
    both = find_duplicate_names(engine.refs)
    rows = [
        [
            _format_time(each.in_ms),
            each.verb,
            format_queue_name(each.ref, both),
            documents.format_id(each.job.id),
            mask_text(each.job.worker),
            f"{each.job.attempts}/{each.job.max_attempts}" if each.job.max_attempts else str(each.job.attempts),
            format_target_places(each.verb, each.job, engine.systems[each.ref.system]) or "gone",
        ]
        for each in report.coming
    ]
    if rows:
        output.write_table(("when", "loop", "queue", "id", "worker", "tried", "becomes"), rows, right=("when", "tried"))


def _format_time(in_ms: int) -> str:
    """Return a time until now as text: `in 5s`, or `5s late`."""
    from rqtui.text.formats import format_age

    return f"{format_age(-in_ms)} late" if in_ms <= -1000 else f"in {format_age(max(0, in_ms))}"
