"""`kinds`: the kinds of jobs, with how many of each stand where, fail, wait and run. Nothing here changes anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rqtui.cli import documents, output, sampling
from rqtui.cli.arguments import QUEUES, engine_for, note_if_unheard
from rqtui.cli.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rqtui.model import Figures, Ref
    from rqtui.reports.kinds import Kind, Kinds


def kinds(session: Session, queues: QUEUES = None) -> int:
    """Kinds of jobs: how many in each place, how many failed, and how long they wait and run.

    Example: rqtui kinds mail --json
    """
    from rqtui.reports import kinds as report
    from rqtui.text.formats import spans

    engine, refs = engine_for(session, queues)
    found = sampling.last(report.report(engine, refs), "looking")
    if session.as_json:
        output.write_json(
            {**sampling.size_document(found.size), "kinds": [_kind(kind, found.size.is_whole) for kind in found.kinds]}
        )
    else:
        _write_kinds(found, engine.refs)
        note_if_unheard(engine, refs)
        if silent := sampling.silent_systems(engine, refs, "name"):
            output.say(f"{silent} no kinds of jobs.")
        if found.has_figures:
            output.say(f"{report.FIGURES}: {spans(found.spans_ms)}.")
        sampling.write_size(found.size, "no jobs" if not found.kinds and not found.silent else "")
    return sampling.exit_code(found.size)


def _kind(kind: Kind, is_exact: bool) -> dict[str, Any]:
    from rqtui.model import State

    return {
        "name": documents.text(kind.name) or None,
        **(documents.queue_fields(kind.ref.queue) if kind.ref.queue else {"queue": None}),
        "layout": kind.ref.layout,
        "counts": {state.value: kind.counts.get(state, 0) for state in State},
        "exact": is_exact,
        "failed": kind.failed,
        "wait_ms": kind.wait_ms,
        "run_ms": kind.run_ms,
        "oldest_ready_ms": kind.oldest_ready_ms,
        "figures": _figures(kind.figures),
    }


def _figures(found: Figures | None) -> dict[str, Any] | None:
    """What the system itself keeps of the kind, over the last `over_ms` (null: ever); of all queues: `queue` null."""
    if found is None:
        return None
    return {
        "processed": found.processed,
        "failed": found.failed,
        "mean_ms": found.mean_ms,
        "over_ms": found.over_ms or None,
        "queue": documents.text(found.queue) or None,
    }


def _write_kinds(found: Kinds, known: Iterable[Ref]) -> None:
    """`known`: all queues that are there."""
    from rqtui.model import State
    from rqtui.text.formats import UNKNOWN, age, duration, share
    from rqtui.text.names import named, twins

    def figures(kind: Kind) -> list[str]:
        kept = kind.figures
        if kept is None:
            return [UNKNOWN] * 3
        return [str(kept.processed), share(kept.failed, kept.processed), duration(kept.mean_ms)]

    both = twins(known)
    rows = [
        [
            kind.name or "(no kind)",
            named(kind.ref, both) or UNKNOWN,
            *(str(kind.counts.get(state, 0)) for state in State),
            str(kind.failed),
            age(kind.wait_ms),
            duration(kind.run_ms),
            age(kind.oldest_ready_ms),
            *(figures(kind) if found.has_figures else ()),
        ]
        for kind in found.kinds
    ]
    titles = ("job", "queue", *(state.value for state in State), "failed", "waits", "runs", "oldest")
    titles += ("ran", "failing", "mean") if found.has_figures else ()
    if rows:
        output.write_table(titles, rows, right=titles[2:])
