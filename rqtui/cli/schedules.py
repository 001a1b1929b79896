"""`schedules`: what is enqueued again and again, where a system keeps that in Redis. Nothing here changes anything."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rqtui.cli import documents, output
from rqtui.cli.arguments import QUEUES, engine_for
from rqtui.cli.session import DONE, REFUSED, Session

if TYPE_CHECKING:
    from rqtui.model import Schedule


def schedules(session: Session, queues: QUEUES = None) -> int:
    """What is enqueued again and again: when, into which queue, and who sees to it.

    Example: rqtui schedules --json
    """
    from rqtui.reports import schedules as report

    engine, refs = engine_for(session, queues)
    there = {ref.layout for ref in refs}
    found, now_ms, problems = report.report(engine, there, refs if queues else ())
    for problem in problems:
        output.say(problem)
    if session.as_json:
        output.write_json([_schedule(each) for each in found])
    else:
        _write(found, now_ms)
        if not found:
            output.say(f"{report.nowhere(there)}.")
    return REFUSED if problems else DONE


def _schedule(found: Schedule) -> dict[str, Any]:
    return {
        "name": documents.text(found.name),
        **documents.queue_fields(found.queue),
        "layout": found.layout,
        "pattern": documents.text(found.pattern),
        "call": documents.text(found.call) or None,
        "next_at_ms": found.next_ms,
        "last_at_ms": found.last_ms,
        "owner": documents.text(found.owner) or None,
        "enabled": found.enabled,
        "problem": documents.sentence(found.problem) or None,
    }


def _write(found: Iterable[Schedule], now_ms: int) -> None:
    from rqtui.text.body import mask_text
    from rqtui.text.formats import age

    rows = [
        [
            "wrong" if each.problem else "on" if each.enabled else "off",
            each.name,
            each.queue,
            each.layout,
            each.pattern,
            _ahead(each, now_ms),
            "" if each.last_ms is None else f"{age(max(0, now_ms - each.last_ms))} ago",
            each.owner,
            each.problem or mask_text(each.call),
        ]
        for each in found
    ]
    titles = ("state", "schedule", "queue", "layout", "pattern", "next", "last", "whose", "call or problem")
    if rows:
        output.write_table(titles, rows, right=("next", "last"))


def _ahead(each: Schedule, now_ms: int) -> str:
    from rqtui.text.formats import age

    if each.next_ms is None:
        return ""
    left_ms = each.next_ms - now_ms
    return f"in {age(left_ms)}" if left_ms >= 0 else f"{age(-left_ms)} late"
