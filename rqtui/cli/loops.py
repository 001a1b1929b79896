"""`loops`: how late the dispatcher and the reaper are, and which jobs they take next. It changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rqtui.cli import documents, output
from rqtui.cli.arguments import QUEUES, engine_for
from rqtui.cli.session import DONE, Session
from rqtui.errors import UsageError

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine
    from rqtui.reports.loops import Coming, Report

MOST = 1000


def loops(
    session: Session,
    queues: QUEUES = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="So many of those who are next.")] = 12,
) -> int:
    """How late dispatcher and reaper are, and which jobs they take next.

    Example: rqtui loops mail --json
    """
    from rqtui.reports import loops as report

    if not 1 <= limit <= MOST:
        raise UsageError(f"--limit is a whole number from 1 to {MOST}.")
    engine, refs = engine_for(session, queues)
    found = report.report(engine, refs, limit)
    if session.as_json:
        output.write_json(_document(engine, found))
    else:
        _write(engine, found)
    return DONE


def _document(engine: Engine, found: Report) -> dict[str, Any]:
    standing = [
        {"loop": one.verb, "late": one.late, "next_ms": one.next_ms, "elsewhere": one.elsewhere} for one in found.loops
    ]
    return {
        "taken_at_ms": found.taken_ms,
        "loops": standing,
        "next": [_coming(engine, each, found.taken_ms) for each in found.coming],
    }


def _coming(engine: Engine, coming: Coming, taken_ms: int) -> dict[str, Any]:
    from rqtui.reports.loops import becomes

    job = coming.job
    return {
        "loop": coming.verb,
        "at_ms": taken_ms + coming.in_ms,
        "in_ms": coming.in_ms,
        **documents.queue_fields(coming.ref.queue),
        "layout": coming.ref.layout,
        **documents.id_fields(job.id),
        "worker": documents.text(job.worker) or None,
        "attempts": job.attempts,
        "max_attempts": job.max_attempts,
        "becomes": becomes(coming.verb, job, engine.layouts[coming.ref.layout]) or None,
    }


def _write(engine: Engine, found: Report) -> None:
    from rqtui.reports.loops import becomes
    from rqtui.text.formats import numbered
    from rqtui.text.names import named, twins

    for one in found.loops:
        said = "nothing waits for it" if one.next_ms is None else f"{one.late} late, the next {_when(one.next_ms)}"
        runs = f"; {numbered(one.elsewhere, 'screen')} elsewhere" if one.elsewhere else ""
        output.write_lines([f"{one.verb}: {said}{runs}"])
    both = twins(engine.refs)
    rows = [
        [
            _when(each.in_ms),
            each.verb,
            named(each.ref, both),
            documents.label(each.job.id),
            each.job.worker,
            f"{each.job.attempts}/{each.job.max_attempts}" if each.job.max_attempts else str(each.job.attempts),
            becomes(each.verb, each.job, engine.layouts[each.ref.layout]) or "gone",
        ]
        for each in found.coming
    ]
    if rows:
        output.write_table(("when", "loop", "queue", "id", "worker", "tried", "becomes"), rows, right=("when", "tried"))


def _when(in_ms: int) -> str:
    from rqtui.text.formats import age

    return f"{age(-in_ms)} late" if in_ms <= -1000 else f"in {age(max(0, in_ms))}"
