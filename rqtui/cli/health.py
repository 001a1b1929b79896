"""`health`: the findings of queues and server. Its exit codes are those of monitoring plugins. It changes nothing."""

from __future__ import annotations

from rqtui.cli import findings, output
from rqtui.cli.arguments import QUEUES, engine_for
from rqtui.cli.session import Session
from rqtui.errors import RqtuiError

HEALTH_CODES = {"ok": 0, "warning": 1, "critical": 2, "unknown": 3}


def health(session: Session, queues: QUEUES = None) -> int:
    """Is all well? Exit 0 fine, 1 warning, 2 critical, 3 unknown.

    Example: rqtui health mail --json
    """
    from rqtui.engine import health as judge
    from rqtui.model import Focus

    try:
        engine, refs = engine_for(session, queues)
        counted = engine.snapshot(Focus(queues=tuple(refs)))
        server = [*engine.problems.values(), *judge.server_findings(engine.client)]
    except RqtuiError:
        if session.as_json:
            output.write_json({"severity": "unknown", "findings": []})
        raise
    severity = judge.severity([*server, *(finding for queue in counted.queues for finding in queue.findings)])
    pairs = [(ref, queue.findings) for ref, queue in zip(refs, counted.queues, strict=True)]
    if session.as_json:
        found = [findings.document(one, engine.words(ref), ref.layout) for ref, each in pairs for one in each]
        found += [findings.document(one, "") for one in server]
        output.write_json({"severity": severity, "findings": found})
    else:
        lines = [line for ref, each in pairs for line in findings.sentences(each, engine.words(ref))]
        output.write_lines([severity, *lines, *findings.sentences(server, "")])
    return HEALTH_CODES[severity]
