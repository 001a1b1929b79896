"""Format the report on a Redis server as titled lines of text; its view adds frames, `rqtui redis` prints them.

Pure functions without Textual. Data from Redis is made terminal-safe here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rqtui.model import Finding
from rqtui.reports.redis import Command, Report, SlowCommand
from rqtui.text import formats
from rqtui.text.pieces import Piece
from rqtui.text.sanitise import safe

Line = tuple[Piece, ...]
LABEL_CELLS = 12  # cells of the words before a value
MOST_NAME_CELLS = 22  # most cells of a client's name
MAX_COMMAND_LENGTH = 400  # letters of a slow command
_SEVERITY = {"warning": "state-reserved", "critical": "state-dead"}


@dataclass(frozen=True, slots=True)
class Panel:
    """One titled part of the report on a Redis server. `lacks` is the reason why the part is empty."""

    name: str
    title: str
    lines: tuple[Line, ...] = ()
    lacks: str = ""


def build_panels(report: Report) -> tuple[Panel, ...]:
    """Build all panels of a server report, most important first."""
    return (
        Panel("warnings", "warnings", tuple(_format_finding(each) for each in report.findings)),
        Panel(
            "server",
            "server",
            _build_server_lines(report),
            report.explain_missing("info") if not report.server.version else "",
        ),
        Panel("memory", "memory", _build_memory_lines(report), report.explain_missing("info")),
        Panel("clients", "clients", _build_client_lines(report), report.explain_missing("clients")),
        Panel("traffic", "traffic", _build_traffic_lines(report), report.explain_missing("info")),
        Panel("slow", "slow commands", _build_slow_lines(report), report.explain_missing("slowlog")),
        Panel("commands", "commands by time", _build_command_lines(report.commands), report.explain_missing("info")),
        Panel("keyspace", "keys", _build_keyspace_lines(report), report.explain_missing("info")),
    )


def _format_fact(label: str, value: str, style: str = "", note: str = "") -> Line:
    pieces = Piece(formats.fit_to_width(label, LABEL_CELLS), "muted"), Piece(safe(value) or formats.NONE, style)
    return (*pieces, Piece(f"  {safe(note)}", "muted")) if note else pieces


def _format_finding(finding: Finding) -> Line:
    sign = Piece(f"{formats.SEVERITY_SIGNS.get(finding.severity, '?')} ", _SEVERITY.get(finding.severity, "muted"))
    remedy = Piece(f". Fix: {safe(finding.remedy)}", "strong") if finding.remedy else Piece("")
    return sign, Piece(f"{finding.severity}  ", "muted"), Piece(safe(finding.text)), remedy


def _build_server_lines(report: Report) -> tuple[Line, ...]:
    server, info = report.server, report.info
    replicas = report.read_number("connected_slaves")
    role = server.role or "not known"
    if server.role == "primary" and replicas is not None:
        role = f"primary, {formats.format_quantity(replicas, 'replica')}"
    if server.role == "replica":
        role = f"replica of {info.get('master_host', '?')}, link {info.get('master_link_status', '?')}"
    skew_s = (report.skew_ms or 0) / 1000
    clock = f"clock {skew_s:+.1f} s" if abs(skew_s) >= 0.1 else ""
    trip = "not known" if report.rtt_ms is None else formats.format_duration(report.rtt_ms)
    uptime = None if server.uptime_s is None else server.uptime_s * 1000
    return (
        _format_fact("role", role, "" if server.role != "replica" else "state-reserved"),
        _format_fact("mode", server.mode or "not known"),
        _format_fact("up", formats.format_age(uptime)),
        _format_fact("round trip", trip, note=clock or report.explain_missing("time")),
        *_build_persistence_lines(report),
    )


def _build_persistence_lines(report: Report) -> Iterable[Line]:
    info, kept = report.info, report.server.is_persistent
    words = {None: "not known", False: "nothing is kept on disk", True: "snapshots"}[kept]
    if info.get("aof_enabled") == "1":
        words = f"append-only file, {info.get('aof_last_write_status', 'state not known')}"
    yield _format_fact(
        "persistence", words, "state-reserved" if kept is False else "", report.explain_missing("persistence")
    )
    saved_s = report.read_number("rdb_last_save_time")
    if saved_s and report.now_ms:
        status = info.get("rdb_last_bgsave_status", "")
        yield _format_fact("last save", f"{formats.format_age(report.now_ms - saved_s * 1000)} ago", note=status)


def _build_memory_lines(report: Report) -> tuple[Line, ...]:
    used, most = report.read_number("used_memory"), report.read_number("maxmemory")
    limit = f"of {formats.format_size(most)}" if most else "no limit"
    lines = [_format_fact("used", formats.format_size(used), note=limit)]
    if most and used is not None:
        share = min(1.0, used / most)
        full, rest = formats.build_lease_bar(max(1, used), most, 16)
        hue = "state-dead" if share >= 0.9 else "state-ready"
        lines.append(
            (Piece(" " * LABEL_CELLS), Piece(full, hue), Piece(rest, "faint"), Piece(f" {share:.0%}", "muted"))
        )
    policy = report.server.policy
    lines += [
        _format_fact("most so far", formats.format_size(report.read_number("used_memory_peak"))),
        _format_fact(
            "when full", policy or "not known", "" if policy in ("", "noeviction") or not most else "state-dead"
        ),
        _format_fact("evicted", formats.format_count(report.read_number("evicted_keys") or 0), note="keys, ever"),
        _format_fact("fragmented", report.info.get("mem_fragmentation_ratio", ""), note="rss ÷ used"),
        _format_fact(
            "scripts", formats.format_count(report.read_number("number_of_cached_scripts") or 0), note="cached"
        ),
    ]
    return tuple(lines)


def _build_client_lines(report: Report) -> tuple[Line, ...]:
    total, most = report.read_number("connected_clients"), report.read_number("maxclients")
    blocked = report.read_number("blocked_clients")
    connected = sum(number for _name, number in report.clients) if total is None else total
    lines = [
        _format_fact(
            "connected", formats.format_count(connected), note=f"of {formats.format_count(most)}" if most else ""
        )
    ]
    if blocked is not None:
        lines.append(_format_fact("blocked", formats.format_count(blocked), note="they wait for work"))
    names = [safe(name) or "(no name)" for name, _number in report.clients[:8]]
    cells = min(MOST_NAME_CELLS, max([LABEL_CELLS, *map(formats.cell_len, names)]))
    for name, number in report.clients[:8]:
        is_ours = name == "rqtui" or name.startswith("rqtui-")
        note = "this program" if is_ours else ""
        called = Piece(formats.fit_to_width(safe(name) or "(no name)", cells), "muted")
        lines.append((called, Piece(f" {formats.format_count(number)}"), Piece(f" {note}" if note else "", "muted")))
    return tuple(lines)


def _build_traffic_lines(report: Report) -> tuple[Line, ...]:
    hits, misses = report.read_number("keyspace_hits") or 0, report.read_number("keyspace_misses") or 0
    found = f"{hits / (hits + misses):.0%}" if hits + misses else formats.NONE
    incoming, outgoing = report.info.get("instantaneous_input_kbps"), report.info.get("instantaneous_output_kbps")
    errors = report.read_number("total_error_replies")
    return (
        _format_fact("commands", formats.format_rate(report.read_number("instantaneous_ops_per_sec")), "strong"),
        _format_fact("in", f"{incoming} kB/s" if incoming else ""),
        _format_fact("out", f"{outgoing} kB/s" if outgoing else ""),
        _format_fact("keys found", found, note="of those asked for"),
        *([_format_fact("errors", formats.format_count(errors), note="replies, ever")] if errors is not None else []),
        _format_fact(
            "refused", formats.format_count(report.read_number("rejected_connections") or 0), note="connections, ever"
        ),
    )


def _build_command_lines(commands: Sequence[Command]) -> tuple[Line, ...]:
    total = sum(command.micros for command in commands) or 1
    lines: list[Line] = []
    for command in commands[:8]:
        each = command.micros / command.calls if command.calls else 0.0
        failed = f"  {formats.format_short_count(command.failed)} failed" if command.failed else ""
        lines.append(
            (
                Piece(formats.fit_to_width(safe(command.name), LABEL_CELLS + 2)),
                Piece(formats.fit_to_width(f"{command.micros / total:.0%}", 4, "right"), "strong"),
                Piece(formats.fit_to_width(formats.format_short_count(command.calls), 8, "right"), "muted"),
                Piece(formats.fit_to_width(_format_duration(each), 10, "right"), "muted"),
                Piece(failed, "state-reserved"),
            )
        )
    return tuple(lines)


def _format_duration(micros: float) -> str:
    """Format the duration of a call in µs as `3.1 µs`, `12 ms` or `14s`."""
    return f"{micros:.1f} µs" if micros < 1_000 else formats.format_duration(micros / 1_000)


def _build_keyspace_lines(report: Report) -> tuple[Line, ...]:
    expired = report.read_number("expired_keys")
    lines = [
        _format_fact(name, formats.format_count(keys), note=f"{formats.format_count(ttl)} with a ttl")
        for name, keys, ttl in report.keyspace
    ]
    if not lines:
        lines = [_format_fact("", "no keys")]
    return (
        *lines,
        *([_format_fact("expired", formats.format_count(expired), note="ever")] if expired is not None else []),
    )


def _build_slow_lines(report: Report) -> tuple[Line, ...]:
    limit = report.slower_than_micros
    if not report.slow:
        over = (
            ""
            if limit is None
            else (" is recorded" if limit < 0 else f" took {formats.format_duration(limit / 1000)} or more")
        )
        return ((Piece(f"nothing{over}" if over else "nothing is recorded", "muted"),),)
    return tuple(_format_slow_command(entry, report.now_ms) for entry in report.slow)


def _format_slow_command(entry: SlowCommand, now_ms: int | None) -> Line:
    ago = f"{formats.format_age_since(entry.at_ms, now_ms)} ago" if now_ms else formats.format_clock(entry.at_ms)
    command = safe(_format_command(entry)[:MAX_COMMAND_LENGTH])
    return (
        Piece(formats.fit_to_width(ago, 10), "muted"),
        Piece(formats.fit_to_width(formats.format_duration(entry.micros / 1000), 8, "right") + "  ", "state-reserved"),
        Piece(f"{entry.script} " if entry.script else "", "strong"),
        Piece(command),
        Piece(f"  {safe(entry.client)}" if entry.client not in ("", "?:0") else "", "muted"),
    )


def _format_command(entry: SlowCommand) -> str:
    """Format a slow command. Of rqtui's scripts only one key is shown, because all of its keys share a prefix."""
    if not entry.script:
        return " ".join(entry.words)
    number = int(entry.words[2]) if len(entry.words) > 2 and entry.words[2].isdigit() else 0
    keys = [*entry.words[3:4], "…"][:number]
    return " ".join([*keys, *entry.words[3 + number :]])
