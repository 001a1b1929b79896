"""Findings, the faults of queues and of Redis: as JSON, and as sentences with the command that helps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rqtui.cli import documents

if TYPE_CHECKING:
    from rqtui.model import Finding

# What the screen answers with a key, the shell answers with a command. Without a key a system has words of its own.
_REMEDIES = {
    "expired-not-reaped": "rqtui reap {queue}",
    "due-not-dispatched": "rqtui dispatch {queue}",
    "no-live-worker": "start a worker: rqtui work {queue} -- COMMAND",
    "paused": "rqtui act resume {queue}",
    "oldest-ready": "add workers: rqtui work {queue} -- COMMAND",
    "backlog-grows": "add workers: rqtui work {queue} -- COMMAND",
    "dead-near-cap": "rqtui errors {queue}, then rqtui act requeue {queue} --place dead --all",
    "dead-many": "rqtui errors {queue}",
    "dead-share": "rqtui errors {queue}",
    "dead-grows": "rqtui errors {queue}",
    "failing": "rqtui errors {queue}",
    "silent-leases": "rqtui workers {queue}, then rqtui act release {queue} --place reserved --filter worker:NAME",
}


def document(found: Finding, words: str, layout: str | None = None, now_ms: int = 0) -> dict[str, Any]:
    """FINDING of the command line's page; the remedy is a command where the screen has a key.

    `words` are what means the queue on a command line, `now_ms` is when it was looked at.
    """
    return {
        "kind": found.kind,
        "severity": found.severity,
        **(documents.queue_fields(found.queue) if found.queue else {"queue": None}),
        "layout": layout,
        "keys": [documents.text(key) for key in found.keys],
        "ids": [documents.text(id) for id in found.ids],
        "text": documents.sentence(found.text),
        "detail": documents.sentence(found.detail),
        "remedy": documents.sentence(remedy(found, words)),
        "jobs": found.jobs,
        "since_at_ms": found.since_ms,
        "until_at_ms": found.until_ms,
        "left_ms": None if found.until_ms is None or not now_ms else max(0, found.until_ms - now_ms),
        "causes": [{"text": documents.sentence(cause.text), "jobs": cause.jobs} for cause in found.causes],
    }


def remedy(found: Finding, words: str) -> str:
    """What to do about it from a shell."""
    return _REMEDIES[found.kind].format(queue=words) if found.key and found.kind in _REMEDIES else found.remedy


def sentences(found: Sequence[Finding], words: str, now_ms: int = 0) -> list[str]:
    """A line for each; `words` are what means the queue on a command line, `now_ms` is when it was looked at."""
    from rqtui.engine.health import sentence
    from rqtui.text.sanitise import safe, shown_id

    lines = []
    for finding in found:
        ids = "".join(f" {shown}:" for id in finding.ids if (shown := shown_id(id)) not in finding.text)
        where = f"{finding.queue}: " if finding.queue else ""
        todo = remedy(finding, words)
        said = f"{safe(where)}{ids} {safe(sentence(finding, now_ms))}".replace("  ", " ").strip()
        lines.append(f"{finding.severity:<8}  {said}{f' · {safe(todo)}' if todo else ''}")
    return lines
