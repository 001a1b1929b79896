"""Redis itself: memory, clients, commands, slow ones, and what endangers jobs; for the view and for `rqtui redis`.

Each part is asked for by a command of its own, in one pipeline; where an ACL, a managed service or a small server
denies one, that part alone is missing, and says which right would help.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rqtui.connection.connect import ServerInfo, server_info, translated
from rqtui.connection.nodes import is_cluster
from rqtui.engine import health
from rqtui.model import Finding
from rqtui.scripts import script as scripts
from rqtui.systems import registry
from rqtui.text.names import to_text

SLOW = 10  # entries of the slow log
NAMES = 12  # names of clients that are told apart
COMMANDS = 12
SKEW_MS = 5_000  # a clock that is further away makes local times beside the server's ages a riddle
_ASKED: Mapping[str, tuple[str, ...]] = {  # the part: what is sent for it
    "hello": ("HELLO",),
    "info": ("INFO", "all"),
    "persistence": ("CONFIG", "GET", "save"),
    "clients": ("CLIENT", "LIST"),
    "slowlog": ("SLOWLOG", "GET", str(SLOW)),
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
    """How often a command ran since the counting began, and how long all its runs took."""

    name: str
    calls: int
    micros: int
    failed: int = 0


@dataclass(frozen=True, slots=True)
class Slow:
    """An entry of the slow log; `script` names one of rqtui's own, `words` are the command's, not made safe."""

    at_ms: int
    micros: int
    words: tuple[str, ...]
    script: str = ""
    client: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """All that was asked. `missing` says in words, by part (`_ASKED`), why it is not there."""

    server: ServerInfo
    info: Mapping[str, str]
    now_ms: int | None = None  # by the server's clock
    rtt_ms: float | None = None
    skew_ms: int | None = None  # the server's clock minus this machine's
    clients: tuple[tuple[str, int], ...] = ()
    commands: tuple[Command, ...] = ()
    slow: tuple[Slow, ...] = ()
    slower_than_micros: int | None = None
    keyspace: tuple[tuple[str, int, int], ...] = ()  # database, keys, of those with a ttl
    findings: tuple[Finding, ...] = ()
    missing: Mapping[str, str] | None = None

    def number(self, name: str) -> int | None:
        """A whole number of INFO."""
        value = self.info.get(name, "")
        return int(float(value)) if value.replace(".", "", 1).isdigit() else None

    def lacks(self, *parts: str) -> str:
        """Why a part is not there; empty where all are."""
        return next((words for part in parts if (words := (self.missing or {}).get(part))), "")


def look(client: Any) -> Report:
    """Asks for all of it in two round trips. Raises Unreachable, or Denied, when there is no answer at all."""
    missing: dict[str, str] = {}
    user = client.connection_pool.connection_kwargs.get("username") or "default"
    with translated():
        rtt_ms, now_ms, skew_ms = _clock(client, missing, user)
        pipe = client.pipeline(transaction=False)
        for words in _ASKED.values():
            pipe.execute_command(*words)
        found = dict(zip(_ASKED, pipe.execute(raise_on_error=False), strict=True))
    for part, answer in list(found.items()):
        if isinstance(answer, Exception):
            missing[part] = _why(answer, part, user)
            found[part] = None
    raw = found["info"] or {}
    info = {_text(name): _text(value) for name, value in raw.items() if not isinstance(value, Mapping)}
    server = server_info(_pairs(found["hello"]), info, _pairs(found["persistence"]))
    about = health.server_findings(client) if is_cluster(client) else health.findings_of(server)
    findings = [*about, *_skewed(skew_ms)]
    return Report(
        server,
        info,
        now_ms,
        rtt_ms,
        skew_ms,
        _clients(found["clients"]),
        _commands(raw),
        _slow(found["slowlog"] or ()),
        _whole(_pairs(found["slower"]).get("slowlog-log-slower-than", "")),
        _keyspace(raw),
        tuple(findings),
        missing,
    )


def _clock(client: Any, missing: dict[str, str], user: str) -> tuple[float | None, int | None, int | None]:
    """(round trip, the server's clock, how far it is from ours); nothing where TIME is denied."""
    from redis.exceptions import ResponseError

    began, sent_s = time.monotonic(), time.time()
    try:
        seconds, micros = client.time()
    except ResponseError as error:
        missing["time"] = _why(error, "time", user)
        return None, None, None
    rtt_ms = (time.monotonic() - began) * 1000
    now_ms = int(seconds) * 1000 + int(micros) // 1000
    return rtt_ms, now_ms, round(now_ms - sent_s * 1000 - rtt_ms / 2)


def _skewed(skew_ms: int | None) -> list[Finding]:
    if skew_ms is None or abs(skew_ms) < SKEW_MS:
        return []
    way = "ahead of" if skew_ms > 0 else "behind"
    text = f"Redis's clock is {abs(skew_ms) / 1000:.0f} s {way} this machine's; due times go by Redis's"
    return [Finding("clock-skew", "warning", "", text, "synchronise both (NTP)")]


def _why(error: Exception, part: str, user: str) -> str:
    command = " ".join(word for word in _ASKED.get(part, ("TIME",)) if word.isupper())
    if "permission" in str(error).lower() or "noperm" in str(error).lower():
        return f"denied; allow it: ACL SETUSER {user} {_RIGHTS[part]}"
    return f"this server has no {command}"


def _clients(reply: Any) -> tuple[tuple[str, int], ...]:
    """How many connections of each name there are, most first; `` is the name of those without."""
    if not isinstance(reply, bytes):
        return ()
    counted: Counter[str] = Counter()
    for line in to_text(reply).splitlines():
        fields = dict(word.partition("=")[::2] for word in line.split(" "))
        counted[fields.get("name", "")] += 1
    return tuple(counted.most_common(NAMES))


def _commands(info: Mapping[Any, Any]) -> tuple[Command, ...]:
    """The commands that took most of the server's time, most first."""
    found = [
        Command(
            _text(name).removeprefix("cmdstat_").replace("|", " "),
            int(value.get("calls", 0)),
            int(value.get("usec", 0)),
            int(value.get("failed_calls", 0)) + int(value.get("rejected_calls", 0)),
        )
        for name, value in info.items()
        if _text(name).startswith("cmdstat_") and isinstance(value, Mapping)
    ]
    return tuple(sorted(found, key=lambda command: -command.micros)[:COMMANDS])


def _slow(reply: Sequence[Any]) -> tuple[Slow, ...]:
    ours = _scripts()
    found = []
    for entry in reply:
        if not isinstance(entry, list | tuple) or len(entry) < 4:
            continue
        words = tuple(_text(word) for word in entry[3])
        sha = words[1] if len(words) > 1 and words[0].upper().startswith("EVALSHA") else ""
        client = _text(entry[5]) or _text(entry[4]) if len(entry) > 5 else ""
        found.append(Slow(int(entry[1]) * 1000, int(entry[2]), words, ours.get(sha, ""), client))
    return tuple(found)


def _scripts() -> dict[str, str]:
    """`native/reserve` and the like by digest."""
    folders = {**{layout.name: layout.scripts for layout in registry.every()[0]}, "shared": scripts.load("shared")}
    return {script.sha: f"{folder}/{name}" for folder, found in folders.items() for name, script in found.items()}


def _keyspace(info: Mapping[Any, Any]) -> tuple[tuple[str, int, int], ...]:
    return tuple(
        (_text(name), int(value.get("keys", 0)), int(value.get("expires", 0)))
        for name, value in info.items()
        if isinstance(value, Mapping) and _text(name).startswith("db") and _text(name)[2:].isdigit()
    )


def _pairs(reply: Any) -> dict[str, str]:
    if isinstance(reply, Mapping):
        return {_text(name): _text(value) for name, value in reply.items()}
    if not isinstance(reply, list | tuple):
        return {}
    return {_text(name): _text(value) for name, value in zip(reply[::2], reply[1::2], strict=False)}


def _text(value: object) -> str:
    return to_text(value) if isinstance(value, bytes) else str(value)


def _whole(value: str) -> int | None:
    return int(value) if value.lstrip("-").isdigit() else None
