"""`health`: the findings of queues and server. Its exit codes are those of monitoring plugins. It changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rqtui.cli import documents, findings, output
from rqtui.cli.arguments import QUEUES, engine_for
from rqtui.cli.session import Session
from rqtui.errors import RqtuiError

if TYPE_CHECKING:
    from rqtui.model import Queue, Ref

HEALTH_CODES = {"ok": 0, "warning": 1, "critical": 2, "unknown": 3}


def health(session: Session, queues: QUEUES = None) -> int:
    """Is all well? Exit 0 fine, 1 warning, 2 critical, 3 unknown.

    Example: rqtui health mail --json
    """
    from rqtui.engine import health as judge
    from rqtui.engine.urgency import step
    from rqtui.model import Focus

    try:
        engine, refs = engine_for(session, queues)
        counted = engine.snapshot(Focus(queues=tuple(refs), is_thorough=True))
        server = [*engine.problems.values(), *judge.server_findings(engine.client)]
    except RqtuiError:
        if session.as_json:
            output.write_json({"severity": "unknown", "findings": [], "unknown": []})
        raise
    severity = judge.severity([*server, *(finding for queue in counted.queues for finding in queue.findings)])
    pairs = sorted(zip(refs, counted.queues, strict=True), key=lambda pair: -step(pair[1]))
    if session.as_json:
        found = [
            findings.document(one, engine.words(ref), ref.layout, counted.taken_ms)
            for ref, queue in pairs
            for one in queue.findings
        ]
        found += [findings.document(one, "") for one in server]
        unknown = [_unknown(ref, queue) for ref, queue in pairs if queue.unknown]
        output.write_json({"severity": severity, "findings": found, "unknown": unknown})
    else:
        now_ms = counted.taken_ms
        told = [findings.sentences(queue.findings, engine.words(ref), now_ms) for ref, queue in pairs]
        output.write_lines(
            [severity, *(line for lines in told for line in lines), *findings.sentences(server, ""), *_not_known(pairs)]
        )
    return HEALTH_CODES[severity]


def _unknown(ref: Ref, queue: Queue) -> dict[str, Any]:
    """What nobody can know of a queue, since its system keeps nothing of it."""
    return {**documents.queue_fields(ref.queue), "layout": ref.layout, "what": list(queue.unknown)}


def _not_known(pairs: Sequence[tuple[Ref, Queue]]) -> list[str]:
    """The same in words, a line for all queues of a system of which the same is not known."""
    from rqtui.text.sanitise import safe

    alike: dict[tuple[str, bool, tuple[str, ...]], list[str]] = {}
    for ref, queue in pairs:
        if queue.unknown:
            is_unheard = any(not count.is_known for count in queue.counts)
            alike.setdefault((ref.layout, is_unheard, queue.unknown), []).append(safe(ref.queue))
    return [
        f"{'–':<8}  {', '.join(names[:_NAMED])}{f' and {len(names) - _NAMED} more' if len(names) > _NAMED else ''}: "
        f"not known, since {system} keeps no such thing{_UNHEARD if is_unheard else ''}: {', '.join(what)}"
        for (system, is_unheard, what), names in alike.items()
    ]


_NAMED = 3  # queues
_UNHEARD = " or tells it only to those who listen, as the screen does"
