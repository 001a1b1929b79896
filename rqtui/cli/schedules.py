"""Implement `schedules`: list the recurring jobs that a system stores in Redis. The command changes nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rqtui.cli import documents, output
from rqtui.cli.arguments import QUEUES, open_engine
from rqtui.cli.session import DONE, REFUSED, Session
from rqtui.text.masking import mask_text

if TYPE_CHECKING:
    from rqtui.model import Schedule


def schedules(session: Session, queues: QUEUES = None) -> int:
    """List the recurring jobs: when each is enqueued, into which queue, and which process enqueues it.

    Example: rqtui schedules --json
    """
    from rqtui.reports import schedules as report

    engine, refs = open_engine(session, queues)
    systems = {ref.system for ref in refs}
    found_schedules, now_ms, problems = report.load_schedules(engine, systems, refs if queues else ())
    for problem in problems:
        output.print_message(problem)
    if session.as_json:
        output.write_json([_build_schedule_document(schedule) for schedule in found_schedules])
    else:
        _write_schedule_table(found_schedules, now_ms)
        if not found_schedules:
            output.print_message(f"{report.explain_missing_schedules(systems)}.")
    return REFUSED if problems else DONE


def _build_schedule_document(schedule: Schedule) -> dict[str, Any]:
    return {
        "name": documents.mask_job_text(schedule.name) or "",
        **documents.build_queue_fields(schedule.queue),
        "layout": schedule.system,
        "pattern": documents.encode_text(schedule.pattern),
        "call": documents.mask_job_text(schedule.call),
        "next_at_ms": schedule.next_ms,
        "last_at_ms": schedule.last_ms,
        "owner": documents.mask_job_text(schedule.owner),
        "enabled": schedule.enabled,
        "problem": mask_text(documents.escape_undecodable(schedule.problem)) or None,
    }


def _write_schedule_table(found_schedules: Iterable[Schedule], now_ms: int) -> None:
    from rqtui.text.formats import format_age_since

    rows = [
        [
            "wrong" if schedule.problem else "on" if schedule.enabled else "off",
            mask_text(schedule.name),
            schedule.queue,
            schedule.system,
            schedule.pattern,
            _format_next_due(schedule, now_ms),
            "" if schedule.last_ms is None else f"{format_age_since(schedule.last_ms, now_ms)} ago",
            schedule.owner,
            mask_text(schedule.problem or schedule.call),
        ]
        for schedule in found_schedules
    ]
    titles = ("state", "schedule", "queue", "system", "pattern", "next", "last", "whose", "call or problem")
    if rows:
        output.write_table(titles, rows, right=("next", "last"))


def _format_next_due(schedule: Schedule, now_ms: int) -> str:
    """Format when a schedule is next due."""
    from rqtui.text.formats import format_age

    if schedule.next_ms is None:
        return ""
    left_ms = schedule.next_ms - now_ms
    return f"in {format_age(left_ms)}" if left_ms >= 0 else f"{format_age(-left_ms)} late"
