"""Panels: what a look at Redis says, as lines of words under titles; the view frames them, `rqtui redis` prints them.

Pure, and without Textual. What came from Redis is made safe here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rqtui.model import Finding
from rqtui.reports.redis import Command, Report, Slow
from rqtui.text import formats
from rqtui.text.pieces import Piece
from rqtui.text.sanitise import safe

Line = tuple[Piece, ...]
LABEL = 12  # cells of the words before a value
NAME = 18  # cells of a client's name
WORDS = 400  # letters of a slow command
_SEVERITY = {"warning": "state-reserved", "critical": "state-dead"}


@dataclass(frozen=True, slots=True)
class Panel:
    """A titled part; `lacks` says why there is nothing in it."""

    name: str
    title: str
    lines: tuple[Line, ...] = ()
    lacks: str = ""


def panels(report: Report) -> tuple[Panel, ...]:
    """All parts, in the order in which they matter."""
    return (
        Panel("warnings", "warnings", tuple(_finding(each) for each in report.findings)),
        Panel("server", "server", _server(report), report.lacks("info") if not report.server.version else ""),
        Panel("memory", "memory", _memory(report), report.lacks("info")),
        Panel("clients", "clients", _clients(report), report.lacks("clients")),
        Panel("traffic", "traffic", _traffic(report), report.lacks("info")),
        Panel("slow", "slow commands", _slow(report), report.lacks("slowlog")),
        Panel("commands", "commands by time", _commands(report.commands), report.lacks("info")),
        Panel("keyspace", "keys", _keyspace(report), report.lacks("info")),
    )


def _fact(label: str, value: str, style: str = "", note: str = "") -> Line:
    said = Piece(formats.fit(label, LABEL), "muted"), Piece(safe(value) or formats.ZERO, style)
    return (*said, Piece(f"  {safe(note)}", "muted")) if note else said


def _finding(finding: Finding) -> Line:
    sign = Piece("● ", _SEVERITY.get(finding.severity, "muted"))
    remedy = Piece(f": {safe(finding.remedy)}", "strong") if finding.remedy else Piece("")
    return sign, Piece(f"{finding.severity}  ", "muted"), Piece(safe(finding.text)), remedy


def _server(report: Report) -> tuple[Line, ...]:
    server, info = report.server, report.info
    replicas = report.number("connected_slaves")
    role = server.role or "not known"
    if server.role == "primary" and replicas is not None:
        role = f"primary, {formats.numbered(replicas, 'replica')}"
    if server.role == "replica":
        role = f"replica of {info.get('master_host', '?')}, link {info.get('master_link_status', '?')}"
    skew_s = (report.skew_ms or 0) / 1000
    clock = f"clock {skew_s:+.1f} s" if abs(skew_s) >= 0.1 else ""
    trip = "not known" if report.rtt_ms is None else formats.duration(report.rtt_ms)
    uptime = None if server.uptime_s is None else server.uptime_s * 1000
    return (
        _fact("role", role, "" if server.role != "replica" else "state-reserved"),
        _fact("mode", server.mode or "not known"),
        _fact("up", formats.age(uptime)),
        _fact("round trip", trip, note=clock or report.lacks("time")),
        *_persistence(report),
    )


def _persistence(report: Report) -> Iterable[Line]:
    info, kept = report.info, report.server.is_persistent
    words = {None: "not known", False: "nothing is kept on disk", True: "snapshots"}[kept]
    if info.get("aof_enabled") == "1":
        words = f"append-only file, {info.get('aof_last_write_status', 'state not known')}"
    yield _fact("persistence", words, "state-reserved" if kept is False else "", report.lacks("persistence"))
    saved_s = report.number("rdb_last_save_time")
    if saved_s and report.now_ms:
        status = info.get("rdb_last_bgsave_status", "")
        yield _fact("last save", f"{formats.age(report.now_ms - saved_s * 1000)} ago", note=status)


def _memory(report: Report) -> tuple[Line, ...]:
    used, most = report.number("used_memory"), report.number("maxmemory")
    limit = f"of {formats.size(most)}" if most else "no limit"
    lines = [_fact("used", formats.size(used), note=limit)]
    if most and used is not None:
        share = min(1.0, used / most)
        full, rest = formats.lease_bar(max(1, used), most, 16)
        hue = "state-dead" if share >= 0.9 else "state-ready"
        lines.append((Piece(" " * LABEL), Piece(full, hue), Piece(rest, "faint"), Piece(f" {share:.0%}", "muted")))
    policy = report.server.policy
    lines += [
        _fact("most so far", formats.size(report.number("used_memory_peak"))),
        _fact("when full", policy or "not known", "" if policy in ("", "noeviction") or not most else "state-dead"),
        _fact("evicted", formats.count(report.number("evicted_keys") or 0), note="keys, ever"),
        _fact("fragmented", report.info.get("mem_fragmentation_ratio", ""), note="rss ÷ used"),
        _fact("scripts", formats.count(report.number("number_of_cached_scripts") or 0), note="cached"),
    ]
    return tuple(lines)


def _clients(report: Report) -> tuple[Line, ...]:
    total, most = report.number("connected_clients"), report.number("maxclients")
    blocked = report.number("blocked_clients")
    known = sum(number for _name, number in report.clients) if total is None else total
    lines = [_fact("connected", formats.count(known), note=f"of {formats.count(most)}" if most else "")]
    if blocked is not None:
        lines.append(_fact("blocked", formats.count(blocked), note="they wait for work"))
    for name, number in report.clients[:8]:
        is_ours = name == "rqtui" or name.startswith("rqtui-")
        note = "this program" if is_ours else ""
        called = Piece(formats.fit(safe(name) or "(no name)", NAME), "muted")
        lines.append((called, Piece(f" {formats.count(number)}"), Piece(f"  {note}" if note else "", "muted")))
    return tuple(lines)


def _traffic(report: Report) -> tuple[Line, ...]:
    hits, misses = report.number("keyspace_hits") or 0, report.number("keyspace_misses") or 0
    found = f"{hits / (hits + misses):.0%}" if hits + misses else formats.ZERO
    incoming, outgoing = report.info.get("instantaneous_input_kbps"), report.info.get("instantaneous_output_kbps")
    errors = report.number("total_error_replies")
    return (
        _fact("commands", formats.rate(report.number("instantaneous_ops_per_sec")), "strong"),
        _fact("in", f"{incoming} kB/s" if incoming else ""),
        _fact("out", f"{outgoing} kB/s" if outgoing else ""),
        _fact("keys found", found, note="of those asked for"),
        *([_fact("errors", formats.count(errors), note="replies, ever")] if errors is not None else []),
        _fact("refused", formats.count(report.number("rejected_connections") or 0), note="connections, ever"),
    )


def _commands(commands: Sequence[Command]) -> tuple[Line, ...]:
    total = sum(command.micros for command in commands) or 1
    lines: list[Line] = []
    for command in commands[:8]:
        each = command.micros / command.calls if command.calls else 0.0
        failed = f"  {formats.short_count(command.failed)} failed" if command.failed else ""
        lines.append(
            (
                Piece(formats.fit(safe(command.name), LABEL + 2)),
                Piece(formats.fit(f"{command.micros / total:.0%}", 4, "right"), "strong"),
                Piece(formats.fit(formats.short_count(command.calls), 8, "right"), "muted"),
                Piece(formats.fit(_span(each), 10, "right"), "muted"),
                Piece(failed, "state-reserved"),
            )
        )
    return tuple(lines)


def _span(micros: float) -> str:
    """How long a call takes: `3.1 µs`, `12 ms`, `14s`."""
    return f"{micros:.1f} µs" if micros < 1_000 else formats.duration(micros / 1_000)


def _keyspace(report: Report) -> tuple[Line, ...]:
    expired = report.number("expired_keys")
    lines = [
        _fact(name, formats.count(keys), note=f"{formats.count(ttl)} with a ttl") for name, keys, ttl in report.keyspace
    ]
    if not lines:
        lines = [_fact("", "no keys")]
    return (*lines, *([_fact("expired", formats.count(expired), note="ever")] if expired is not None else []))


def _slow(report: Report) -> tuple[Line, ...]:
    limit = report.slower_than_micros
    if not report.slow:
        over = (
            ""
            if limit is None
            else (" is recorded" if limit < 0 else f" took {formats.duration(limit / 1000)} or more")
        )
        return ((Piece(f"nothing{over}" if over else "nothing is recorded", "muted"),),)
    return tuple(_slow_line(entry, report.now_ms) for entry in report.slow)


def _slow_line(entry: Slow, now_ms: int | None) -> Line:
    ago = f"{formats.age(max(0, now_ms - entry.at_ms))} ago" if now_ms else formats.clock(entry.at_ms)
    said = safe(_about(entry)[:WORDS])
    return (
        Piece(formats.fit(ago, 10), "muted"),
        Piece(formats.fit(formats.duration(entry.micros / 1000), 8, "right") + "  ", "state-reserved"),
        Piece(f"{entry.script} " if entry.script else "", "strong"),
        Piece(said),
        Piece(f"  {safe(entry.client)}" if entry.client not in ("", "?:0") else "", "muted"),
    )


def _about(entry: Slow) -> str:
    """The command; of our own scripts the first key stands for all of them, since they share a name."""
    if not entry.script:
        return " ".join(entry.words)
    number = int(entry.words[2]) if len(entry.words) > 2 and entry.words[2].isdigit() else 0
    return " ".join([*entry.words[3:4], *(["…"] if number > 1 else []), *entry.words[3 + number :]])
