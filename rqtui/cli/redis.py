"""`redis`: the server under the queues, as the view of that name shows it. Nothing here changes anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rqtui.cli import documents, findings, output
from rqtui.cli.session import DONE, Session

if TYPE_CHECKING:
    from rqtui.reports.redis import Report


def redis(session: Session) -> int:
    """The server: memory, clients, commands, slow commands, and what endangers jobs.

    Example: rqtui redis --json
    """
    from rqtui.reports import redis as report

    found = report.look(session.engine().client)
    if session.as_json:
        output.write_json(_redis(session, found))
        return DONE
    from rqtui.reports.redis_panels import panels

    lines: list[str] = []
    for panel in panels(found):
        said = ["".join(piece.text for piece in line).rstrip() for line in panel.lines]
        if not said and not panel.lacks:
            continue
        lines += [panel.title, *(f"  {line}" for line in said), *([f"  {panel.lacks}"] if panel.lacks else []), ""]
    output.write_lines(lines[:-1])
    return DONE


def _redis(session: Session, found: Report) -> dict[str, Any]:
    from rqtui.connection.connect import mask

    server = found.server
    return {
        "taken_at_ms": found.now_ms,
        "server": {
            "url": mask(session.settings.url),
            "kind": server.kind,
            "version": server.version,
            "role": server.role or None,
            "mode": server.mode or None,
            "uptime_ms": None if server.uptime_s is None else server.uptime_s * 1000,
            "persistent": server.is_persistent,
        },
        "round_trip_ms": found.rtt_ms,
        "clock_skew_ms": found.skew_ms,
        "memory": {
            "used_bytes": server.used_bytes,
            "max_bytes": server.maxmemory_bytes,
            "peak_bytes": found.number("used_memory_peak"),
            "policy": server.policy or None,
            "evicted": found.number("evicted_keys"),
        },
        "clients": {
            "connected": server.clients,
            "blocked": found.number("blocked_clients"),
            "by_name": [{"name": documents.text(name), "count": number} for name, number in found.clients],
        },
        "commands_s": found.number("instantaneous_ops_per_sec"),
        "commands": [
            {"name": c.name, "calls": c.calls, "micros": c.micros, "failed": c.failed} for c in found.commands
        ],
        "slow": [
            {
                "began_at_ms": s.at_ms,
                "micros": s.micros,
                "script": s.script or None,
                "command": [documents.text(word) for word in s.words],
                "client": documents.text(s.client) or None,
            }
            for s in found.slow
        ],
        "keyspace": [{"db": db, "keys": keys, "expiring": ttl} for db, keys, ttl in found.keyspace],
        "findings": [findings.document(each, "") for each in found.findings],
        "missing": dict(found.missing or {}),
    }
