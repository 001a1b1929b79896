"""Report memory, clients, commands, slow commands and risks of a Redis server, for its view and `rqtui redis`.

Each part has its own command, all in one pipeline. If an ACL, a managed service or a small server denies a command,
only that part is missing, and the report names the right that would help.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rqtui.connection.connect import ServerInfo, build_server_info, translate_redis_errors
from rqtui.connection.nodes import is_cluster
from rqtui.engine.health import server_rules
from rqtui.model import Finding
from rqtui.scripts import script as scripts
from rqtui.systems import registry
from rqtui.text.masking import mask_redis_command, mask_text
from rqtui.text.names import to_text

MAX_SLOW = 10  # entries of the slow log
MAX_CLIENT_NAMES = 12  # client names listed separately
MAX_COMMANDS = 12
_COMMANDS_BY_PART: Mapping[str, tuple[str, ...]] = {  # the command sent for each part
    "hello": ("HELLO",),
    "info": ("INFO", "all"),
    "persistence": ("CONFIG", "GET", "save"),
    "clients": ("CLIENT", "LIST"),
    "slowlog": ("SLOWLOG", "GET", str(MAX_SLOW)),
    "slower": ("CONFIG", "GET", "slowlog-log-slower-than"),
}
_RIGHTS = {
    "time": "+time",
    "hello": "+hello",
    "info": "+info",
    "persistence": "+config|get",
    "clients": "+client|list",
    "slowlog": "+slowlog|get",
    "slower": "+config|get",
}


@dataclass(frozen=True, slots=True)
class Command:
    """How often a Redis command ran since the statistics began, and the total time of its runs."""

    name: str
    calls: int
    micros: int
    failed: int = 0


@dataclass(frozen=True, slots=True)
class SlowCommand:
    """An entry of the slow log of Redis. `script` names a script of rqtui, if the command called one.

    `words` are the words of the command: secrets are masked, but the text is not terminal-safe.
    """

    at_ms: int
    micros: int
    words: tuple[str, ...]
    script: str = ""
    client: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """All parts of the report on a Redis server. `missing` explains by part why it could not be read."""

    server: ServerInfo
    info: Mapping[str, str]
    now_ms: int | None = None  # by the server's clock
    rtt_ms: float | None = None
    skew_ms: int | None = None  # the server's clock minus this machine's
    clients: tuple[tuple[str, int], ...] = ()
    commands: tuple[Command, ...] = ()
    slow: tuple[SlowCommand, ...] = ()
    slower_than_micros: int | None = None
    keyspace: tuple[tuple[str, int, int], ...] = ()  # database, keys, keys with a ttl
    findings: tuple[Finding, ...] = ()
    missing: Mapping[str, str] | None = None

    def read_number(self, name: str) -> int | None:
        """Return a field of INFO as an integer; None if the field is missing or no number."""
        value = self.info.get(name, "")
        return int(float(value)) if value.replace(".", "", 1).isdigit() else None

    def explain_missing(self, *parts: str) -> str:
        """Return why one of these parts of the report is missing; empty if all are present."""
        return next((words for part in parts if (words := (self.missing or {}).get(part))), "")


def read_report(client: Any) -> Report:
    """Read the report on a Redis server in two round trips. Raises Unreachable or Denied if no reply comes at all."""
    missing: dict[str, str] = {}
    user = client.connection_pool.connection_kwargs.get("username") or "default"
    with translate_redis_errors():
        rtt_ms, now_ms, skew_ms = _read_clock(client, missing, user)
        pipe = client.pipeline(transaction=False)
        for command in _COMMANDS_BY_PART.values():
            pipe.execute_command(*command)
        replies = dict(zip(_COMMANDS_BY_PART, pipe.execute(raise_on_error=False), strict=True))
    for part, reply in list(replies.items()):
        if isinstance(reply, Exception):
            missing[part] = _explain_missing_part(reply, part, user)
            replies[part] = None
    raw = replies["info"] or {}
    info = {_decode_value(name): _decode_value(value) for name, value in raw.items() if not isinstance(value, Mapping)}
    server = build_server_info(_parse_field_pairs(replies["hello"]), info, _parse_field_pairs(replies["persistence"]))
    if is_cluster(client):
        findings = server_rules.find_server_problems(client)
    else:
        findings = server_rules.check_server_info(server)
        if skew_ms is not None:
            findings += server_rules.check_clock_skew(skew_ms, rtt_ms or 0.0)
    return Report(
        server,
        info,
        now_ms,
        rtt_ms,
        skew_ms,
        _count_clients(replies["clients"]),
        _rank_commands(raw),
        _parse_slow_log(replies["slowlog"] or ()),
        _parse_int(_parse_field_pairs(replies["slower"]).get("slowlog-log-slower-than", "")),
        _parse_keyspace(raw),
        tuple(findings),
        missing,
    )


def _read_clock(client: Any, missing: dict[str, str], user: str) -> tuple[float | None, int | None, int | None]:
    """Return the round trip in ms, the server's clock and its difference to the local clock; None if TIME is denied."""
    from redis.exceptions import ResponseError

    began_s, sent_s = time.monotonic(), time.time()
    try:
        seconds, micros = client.time()
    except ResponseError as error:
        missing["time"] = _explain_missing_part(error, "time", user)
        return None, None, None
    rtt_ms = (time.monotonic() - began_s) * 1000
    now_ms = int(seconds) * 1000 + int(micros) // 1000
    return rtt_ms, now_ms, round(now_ms - sent_s * 1000 - rtt_ms / 2)


def _explain_missing_part(error: Exception, part: str, user: str) -> str:
    """Return why a part of the report is missing: the denied right, or a command that the server does not have."""
    command = " ".join(word for word in _COMMANDS_BY_PART.get(part, ("TIME",)) if word.isupper())
    if "permission" in str(error).lower() or "noperm" in str(error).lower():
        return f"denied; allow it: ACL SETUSER {user} {_RIGHTS[part]}"
    return f"this server has no {command}"


def _count_clients(reply: Any) -> tuple[tuple[str, int], ...]:
    """Count the connections by client name, most frequent first. Unnamed connections have an empty name."""
    if not isinstance(reply, bytes):
        return ()
    connections_by_name: Counter[str] = Counter()
    for line in to_text(reply).splitlines():
        fields = dict(word.partition("=")[::2] for word in line.split(" "))
        connections_by_name[mask_text(fields.get("name", ""))] += 1
    return tuple(connections_by_name.most_common(MAX_CLIENT_NAMES))


def _rank_commands(info: Mapping[Any, Any]) -> tuple[Command, ...]:
    """Return the commands that took most of the server's time, highest first."""
    commands = [
        Command(
            _decode_value(name).removeprefix("cmdstat_").replace("|", " "),
            int(value.get("calls", 0)),
            int(value.get("usec", 0)),
            int(value.get("failed_calls", 0)) + int(value.get("rejected_calls", 0)),
        )
        for name, value in info.items()
        if _decode_value(name).startswith("cmdstat_") and isinstance(value, Mapping)
    ]
    return tuple(sorted(commands, key=lambda command: -command.micros)[:MAX_COMMANDS])


def _parse_slow_log(reply: Sequence[Any]) -> tuple[SlowCommand, ...]:
    """Parse the reply of SLOWLOG GET, with secrets masked and scripts of rqtui named."""
    script_names = _map_script_names_by_digest()
    entries = []
    for entry in reply:
        if not isinstance(entry, list | tuple) or len(entry) < 4:
            continue
        words = tuple(_decode_value(word) for word in entry[3])
        digest = words[1] if len(words) > 1 and words[0].upper().startswith("EVALSHA") else ""
        client = mask_text(_decode_value(entry[5])) or _decode_value(entry[4]) if len(entry) > 5 else ""
        entries.append(
            SlowCommand(
                int(entry[1]) * 1000, int(entry[2]), mask_redis_command(words), script_names.get(digest, ""), client
            )
        )
    return tuple(entries)


def _map_script_names_by_digest() -> dict[str, str]:
    """Map the SHA-1 digests of rqtui's scripts to names such as `native/reserve`."""
    folders = {
        **{system.name: system.scripts for system in registry.create_all_systems()[0]},
        "shared": scripts.load_scripts("shared"),
    }
    return {script.sha: f"{folder}/{name}" for folder, found in folders.items() for name, script in found.items()}


def _parse_keyspace(info: Mapping[Any, Any]) -> tuple[tuple[str, int, int], ...]:
    """Return (database, keys, keys with a time to live) for each database in INFO."""
    return tuple(
        (_decode_value(name), int(value.get("keys", 0)), int(value.get("expires", 0)))
        for name, value in info.items()
        if isinstance(value, Mapping) and _decode_value(name).startswith("db") and _decode_value(name)[2:].isdigit()
    )


def _parse_field_pairs(reply: Any) -> dict[str, str]:
    """Parse a reply of field names and values, which is a map or a flat list, to texts."""
    if isinstance(reply, Mapping):
        return {_decode_value(name): _decode_value(value) for name, value in reply.items()}
    if not isinstance(reply, list | tuple):
        return {}
    return {_decode_value(name): _decode_value(value) for name, value in zip(reply[::2], reply[1::2], strict=False)}


def _decode_value(value: object) -> str:
    return to_text(value) if isinstance(value, bytes) else str(value)


def _parse_int(value: str) -> int | None:
    """Parse an integer; None for any other text."""
    return int(value) if value.lstrip("-").isdigit() else None
