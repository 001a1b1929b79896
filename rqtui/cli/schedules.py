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
    """List what is enqueued again and again: when, into which queue, and who sees to it.

    Example: rqtui schedules --json
    """
    from rqtui.reports import schedules as report

    engine, refs = open_engine(session, queues)
    systems = {ref.system for ref in refs}
    found, now_ms, problems = report.load_schedules(engine, systems, refs if queues else ())
    for problem in problems:
        output.print_message(problem)
    if session.as_json:
        output.write_json([_build_schedule(each) for each in found])
    else:
        _write_table(found, now_ms)
        if not found:
            output.print_message(f"{report.explain_absence(systems)}.")
    return REFUSED if problems else DONE


def _build_schedule(schedule: Schedule) -> dict[str, Any]:
    return {
        "name": documents.mask_data(schedule.name) or "",
        **documents.build_queue_fields(schedule.queue),
        "layout": schedule.system,
        "pattern": documents.encode_text(schedule.pattern),
        "call": documents.mask_data(schedule.call),
        "next_at_ms": schedule.next_ms,
        "last_at_ms": schedule.last_ms,
        "owner": documents.mask_data(schedule.owner),
        "enabled": schedule.enabled,
        "problem": mask_text(documents.escape_undecodable(schedule.problem)) or None,
    }


def _write_table(found_schedules: Iterable[Schedule], now_ms: int) -> None:
    from rqtui.text.formats import format_age

    rows = [
        [
            "wrong" if each.problem else "on" if each.enabled else "off",
            mask_text(each.name),
            each.queue,
            each.system,
            each.pattern,
            _format_next(each, now_ms),
            "" if each.last_ms is None else f"{format_age(max(0, now_ms - each.last_ms))} ago",
            each.owner,
            mask_text(each.problem or each.call),
        ]
        for each in found_schedules
    ]
    titles = ("state", "schedule", "queue", "system", "pattern", "next", "last", "whose", "call or problem")
    if rows:
        output.write_table(titles, rows, right=("next", "last"))


def _format_next(each: Schedule, now_ms: int) -> str:
    """Return when the schedule is next due, as text."""
    from rqtui.text.formats import format_age

    if each.next_ms is None:
        return ""
    left_ms = each.next_ms - now_ms
    return f"in {format_age(left_ms)}" if left_ms >= 0 else f"{format_age(-left_ms)} late"
