"""`stats`: jobs in and out of queues, minute by minute. Nothing here changes anything."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rqtui.cli import documents, output
from rqtui.cli.arguments import QUEUES, engine_for
from rqtui.cli.session import DONE, Session
from rqtui.errors import RqtuiError, UsageError

if TYPE_CHECKING:
    from rqtui.engine.history import History
    from rqtui.model import Queue, Ref


def stats(
    session: Session,
    queues: QUEUES = None,
    minutes: Annotated[int, typer.Option("--minutes", metavar="N", help="How far back, 1 to 1440.")] = 60,
) -> int:
    """Jobs in and out of queues, minute by minute, with totals and rates.

    Example: rqtui stats mail --minutes 60 --json
    """
    from rqtui.engine import history as report
    from rqtui.model import Focus

    if not 1 <= minutes <= report.DAY:
        raise UsageError(f"--minutes is a whole number from 1 to {report.DAY}.")
    engine, refs = engine_for(session, queues)
    counted = engine.snapshot(Focus(queues=tuple(refs)))
    made = []
    for ref, queue in zip(refs, counted.queues, strict=True):  # a round trip each: a day of a queue is 0.5 MB
        layout = engine.layouts[ref.layout]
        asks = [partial(report.history_ask, layout, ref.queue, minutes + 1)] if report.has_stats(layout) else []
        [history] = engine.ask_each(asks) or [None]
        if isinstance(history, RqtuiError) and len(refs) == 1:
            raise history  # there is no other queue to tell of
        if wrong := queue.error or (str(history) if isinstance(history, RqtuiError) else ""):
            output.say(f"{ref.queue}: {wrong}")
        made.append(
            _stats(ref, queue, history if isinstance(history, report.History) else None, minutes, counted.taken_ms)
        )
    if session.as_json:
        output.write_json(made)
        return DONE
    _write_stats([ref.queue for ref in refs], made)
    return DONE


def _stats(ref: Ref, queue: Queue, history: History | None, minutes: int, now_ms: int) -> dict[str, Any]:
    from rqtui.engine import history as report

    begin_ms = now_ms - minutes * report.MINUTE_MS
    grown = report.per_minute([history], begin_ms, now_ms) if history else []
    depth = report.waiting([queue])
    depths = dict(report.depths(grown, depth))
    rows = [
        {
            "minute_at_ms": minute,
            **{name: report.flow(counted, name) for name in report.FLOWS},
            "depth": depths[minute],
        }
        for minute, counted in grown
    ]
    return {
        **documents.queue_fields(ref.queue),
        "layout": ref.layout,
        "taken_at_ms": now_ms,
        "waiting": depth,
        "totals": dict(history.counters) if history else None,
        "rates": {f"{name}_s": sum(row[name] for row in rows) / (60 * minutes) for name in report.FLOWS}
        if rows
        else None,
        "minutes": rows if history else None,
    }


def _write_stats(names: Sequence[str], made: Sequence[dict[str, Any]]) -> None:
    from rqtui.text.formats import count, rate, sparkline

    titles = ("queue", "layout", "in", "out", "failed", "waiting", "out by the minute")
    rows = []
    for queue, one in zip(names, made, strict=True):
        rates = one["rates"] or {}
        shown = [rate(rates[f"{name}_s"]) if rates else "" for name in ("in", "out", "failed")]
        trend = sparkline([row["out"] for row in one["minutes"] or ()], 40) if one["minutes"] else "counts nothing"
        rows.append([queue, one["layout"], *shown, count(one["waiting"]), trend])
    output.write_table(titles, rows, right=("in", "out", "failed", "waiting"))
