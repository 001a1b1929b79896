"""Dripping: `act --rate 5/s`: a verb on many jobs, so many per second, until failures or depth pass a line."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rqtui.commands import output, telling
from rqtui.commands.asking import Request
from rqtui.commands.session import INTERRUPTED, REFUSED, Session
from rqtui.errors import UsageError

if TYPE_CHECKING:
    from rqtui import drip
    from rqtui.engine import Engine
    from rqtui.model import Job, Outcome
    from rqtui.scripts import Script


def brake(rate: str | None, failures: int | None, depth: int | None) -> drip.Brake | None:
    """What the options say; None where there is no rate. Raises UsageError."""
    from rqtui import drip

    for name, value in (("--stop-at-failures", failures), ("--stop-at-depth", depth)):
        if value is not None and (rate is None or value < 1):
            raise UsageError(f"{name} is a whole number from 1 on, and goes with --rate 5/s.")
    return None if rate is None else drip.Brake(drip.rate(rate), failures, depth)


def run(
    session: Session,
    engine: Engine,
    request: Request,
    script: Script,
    form: dict[str, object],
    brake: drip.Brake,
    jobs: Sequence[Job],
) -> int:
    """Drips until it is over or stops itself; then all answers, and why it stopped. Ctrl+C ends it between two."""
    from rqtui import drip

    outcomes: list[Outcome] = []
    stopped, total, is_interrupted = "", 0, False
    place = request.place if request.everything and request.limit is None else ""
    with output.progress(f"{script.name} by drips", len(jobs) or None) as bar:
        try:
            for step in drip.steps(engine, script.name, [(request.ref, jobs)], form, brake, place=place):
                outcomes += [outcome for _ref, outcome in step.outcomes]
                stopped, total = step.stopped, step.total
                bar.total = total
                bar.step(len(step.outcomes))
                if not stopped:
                    time.sleep(drip.EVERY_S)
        except KeyboardInterrupt:
            stopped, is_interrupted = f"stopped after {len(outcomes)} of {total}: interrupted", True
    moved = sum(outcome.moved for outcome in outcomes)
    is_braked = stopped.startswith("stopped")
    extra = {"stopped": stopped if is_braked else None, "left": max(0, total - len(outcomes))}
    code = telling.write(session, request.ref, script, outcomes, moved, extra=extra)
    if is_braked:
        output.say(f"{stopped}.")
    if is_interrupted:
        return INTERRUPTED
    return REFUSED if is_braked else code
