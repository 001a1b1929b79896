"""Convert the findings of queues and of Redis to JSON, and to sentences with the command that fixes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rqtui.cli import documents

if TYPE_CHECKING:
    from rqtui.model import Finding

# Shell commands for findings that the screen fixes with a key. Findings without a key carry their own remedy.
_REMEDIES = {
    "expired-not-reaped": "rqtui reap {queue}",
    "due-not-dispatched": "rqtui dispatch {queue}",
    "no-live-worker": "start a worker: rqtui work {queue} -- COMMAND",
    "paused": "rqtui act resume {queue}",
    "oldest-ready": "add workers: rqtui work {queue} -- COMMAND",
    "backlog-grows": "add workers: rqtui work {queue} -- COMMAND",
    "dead-near-cap": "rqtui errors {queue}, then rqtui act requeue {queue} --place dead --all",
    "dead-many": "rqtui errors {queue}",
    "idle-workers": "rqtui workers {queue}",
    "dead-grows": "rqtui errors {queue}",
    "failing": "rqtui errors {queue}",
    "silent-leases": "rqtui workers {queue}, then rqtui act release {queue} --place reserved --filter worker:NAME",
}


def build_finding_document(
    finding: Finding, queue_argument: str, system: str | None, now_ms: int | None
) -> dict[str, Any]:
    """Build the JSON document of a health finding. Its remedy is a shell command where the screen names a key.

    `queue_argument` is the queue's name on a command line, `now_ms` the server's time of the snapshot; None: unknown.
    """
    return {
        "kind": finding.kind,
        "severity": finding.severity,
        **(documents.build_queue_fields(finding.queue) if finding.queue else {"queue": None}),
        "layout": system,
        "keys": [documents.encode_text(key) for key in finding.keys],
        "ids": [documents.encode_text(id) for id in finding.ids],
        "text": documents.escape_undecodable(finding.text),
        "detail": documents.escape_undecodable(finding.detail),
        "remedy": documents.escape_undecodable(find_remedy(finding, queue_argument)),
        "jobs": finding.jobs,
        "since_at_ms": finding.since_ms,
        "until_at_ms": finding.until_ms,
        "left_ms": None if finding.until_ms is None or now_ms is None else max(0, finding.until_ms - now_ms),
        "causes": [{"text": documents.escape_undecodable(cause.text), "jobs": cause.jobs} for cause in finding.causes],
    }


def find_remedy(finding: Finding, queue_argument: str) -> str:
    """Return the fix of a health finding as a shell command. `queue_argument` is the queue's name on a command line."""
    return (
        _REMEDIES[finding.kind].format(queue=queue_argument)
        if finding.key and finding.kind in _REMEDIES
        else finding.remedy
    )


def format_findings(
    findings: Sequence[Finding], queue_argument: str, now_ms: int, *, queue_name: str = ""
) -> list[str]:
    """Format health findings as text, one line each. `queue_argument` is the queue's name on a command line.

    Each line begins with `queue_name`, or with the queue of the finding if that is empty. `now_ms` is the server's time
    of the snapshot: deadlines are shown relative to it.
    """
    from rqtui.engine.health.rules import format_finding
    from rqtui.text.sanitise import format_id, safe

    lines = []
    for finding in findings:
        ids = "".join(f" {id_text}:" for id in finding.ids if (id_text := format_id(id)) not in finding.text)
        queue_prefix = f"{queue_name or finding.queue}: " if finding.queue else ""
        fix = find_remedy(finding, queue_argument)
        text = f"{safe(queue_prefix)}{ids} {safe(format_finding(finding, now_ms))}".replace("  ", " ").strip()
        lines.append(f"{finding.severity:<8}  {text}{f' · {safe(fix)}' if fix else ''}")
    return lines
