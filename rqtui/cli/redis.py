"""Implement `redis`: print the state of the Redis server, as in the screen's Redis view. Nothing is changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rqtui.cli import documents, findings, output
from rqtui.cli.session import DONE, Session

if TYPE_CHECKING:
    from rqtui.reports.redis import Report


def redis(session: Session) -> int:
    """Show the server: memory, clients, commands, slow commands, and what endangers jobs.

    Example: rqtui redis --json
    """
    from rqtui.reports import redis as report

    server_report = report.read_report(session.create_engine().client)
    if session.as_json:
        output.write_json(_build_server_document(session, server_report))
        return DONE
    from rqtui.reports.redis_panels import build_panels

    lines: list[str] = []
    for panel in build_panels(server_report):
        text_lines = ["".join(piece.text for piece in line).rstrip() for line in panel.lines]
        if not text_lines and not panel.lacks:
            continue
        lines += [
            panel.title,
            *(f"  {line}" for line in text_lines),
            *([f"  {panel.lacks}"] if panel.lacks else []),
            "",
        ]
    output.write_lines(lines[:-1])
    return DONE


def _build_server_document(session: Session, report: Report) -> dict[str, Any]:
    """Build the JSON document about the Redis server."""
    from rqtui.connection.connect import hide_url_passwords

    server = report.server
    return {
        "taken_at_ms": report.now_ms,
        "server": {
            "url": hide_url_passwords(session.settings.url),
            "kind": server.kind,
            "version": server.version,
            "role": server.role or None,
            "mode": server.mode or None,
            "uptime_ms": None if server.uptime_s is None else server.uptime_s * 1000,
            "persistent": server.is_persistent,
        },
        "round_trip_ms": report.rtt_ms,
        "clock_skew_ms": report.skew_ms,
        "memory": {
            "used_bytes": server.used_bytes,
            "max_bytes": server.maxmemory_bytes,
            "peak_bytes": report.read_number("used_memory_peak"),
            "policy": server.policy or None,
            "evicted": report.read_number("evicted_keys"),
        },
        "clients": {
            "connected": server.clients,
            "blocked": report.read_number("blocked_clients"),
            "by_name": [{"name": documents.encode_text(name), "count": number} for name, number in report.clients],
        },
        "commands_s": report.read_number("instantaneous_ops_per_sec"),
        "commands": [
            {"name": c.name, "calls": c.calls, "micros": c.micros, "failed": c.failed} for c in report.commands
        ],
        "slow": [
            {
                "began_at_ms": s.at_ms,
                "micros": s.micros,
                "script": s.script or None,
                "command": [documents.encode_text(word) for word in s.words],
                "client": documents.encode_text(s.client) or None,
            }
            for s in report.slow
        ],
        "keyspace": [{"db": db, "keys": keys, "expiring": ttl} for db, keys, ttl in report.keyspace],
        "findings": [findings.build_finding_document(finding, "", None, report.now_ms) for finding in report.findings],
        "missing": dict(report.missing or {}),
    }
