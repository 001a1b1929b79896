"""Implement `reap`: run the reaper in the foreground, for machines without a screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rqtui.cli import documents
from rqtui.cli.arguments import QUEUES
from rqtui.cli.loop_runner import ONCE, Report, check_batch_size, run_foreground_loop
from rqtui.cli.session import NO_WAIT, Session
from rqtui.errors import UsageError

if TYPE_CHECKING:
    from rqtui.engine.loops import Round, ScriptStep


def reap(
    session: Session,
    queues: QUEUES = None,
    every_s: Annotated[
        float | None, typer.Option("--every", metavar="S", help="Look for expired leases at least every S seconds.")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", metavar="N", help="Move at most N jobs per batch.")] = None,
    gc: Annotated[bool, typer.Option("--gc", help="Also return rejected jobs, in systems whose `reap` can.")] = False,
    verbose: Annotated[
        bool, typer.Option("-v", "--verbose", help="Print every step, not only those that moved jobs.")
    ] = False,
    once: ONCE = False,
    no_wait: NO_WAIT = False,
) -> int:
    """Move jobs whose leases expired back to ready, or to dead, until stopped.

    Example: rqtui reap mail --once --json
    """
    if every_s is not None and not 0.01 <= every_s <= 86_400:  # a day; NaN is refused too
        raise UsageError("--every is a number of seconds between 0.01 and 86400.")
    check_batch_size(limit, "--limit")
    report = Report(session, _build_reap_line, ("queue", "ready", "dead", "next_ms"), verbose or once)
    args: dict[str, object] = {"gc": True} if gc else {}
    return run_foreground_loop(
        session, "reap", queues, report, limit=limit, every_s=every_s, once=once, args=args, no_wait=no_wait
    )


def _build_reap_line(step: ScriptStep | None, queue: str, finished_round: Round) -> dict[str, Any]:
    """Build the printed line of one step of the reaper, or of a queue while the reaper backs off."""
    reply_values = step.values if step else {}
    reaped = {"ready": reply_values.get("ready", 0), "dead": reply_values.get("dead", 0)}
    next_ms = reply_values.get("next_ms")
    line: dict[str, Any] = {
        **documents.build_queue_fields(queue),
        "reaped": reaped,
        "next_ms": None if next_ms is None or next_ms < 0 else next_ms,
    }
    return line if step else {**line, "backing_off_ms": round(finished_round.wait_s * 1000)}
