"""Acl: the least rights that a viewer, a worker or an operator needs in Redis, from what the scripts say and do.

The keys are those of the headers, the commands those that the scripts call; a script runs with the rights of who calls
it. What the client sends by itself stands in a table here, and a test runs each role under the user that it gets.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from rqtui.errors import UsageError
from rqtui.layout.layout import Layout
from rqtui.scripts import script as scripts
from rqtui.scripts.script import Script
from rqtui.text.names import to_bytes

# Verbs of `rqtui work`, of producers, and of the loops that move their jobs on; what `snapshot` asks of a queue.
WORKING = frozenset(
    ["enqueue", "reserve", "pull", "ack", "reject", "release", "extend", "beat", "dispatch", "reap"]
    + ["counts", "show", "stats", "leases"]
)
ROLES = ("viewer", "worker", "operator")
_CALLED = re.compile(r"(?:redis\.p?call|\bnote|pcall)\(\s*'([A-Za-z]+)'")
# Those that a script names without calling them there: `local command = … 'ZRANGE'`, `x and 'ZSCAN' or 'HSCAN'`.
_NAMED = re.compile(r"'(ZRANGE|ZREVRANGE|ZRANGEBYSCORE|LRANGE|ZSCAN|HSCAN|SSCAN|LPUSH|RPUSH|LPOP|RPOP)'")
_SENT = {  # by the client itself, outside of scripts; HELLO and AUTH no ACL can refuse
    "viewer": ("time", "info", "client|setname", "exists", "type", "sscan"),
    "worker": (
        "time", "info", "client|setname", "client|id", "client|unblock", "exists", "type", "sscan",
        "sadd", "bzpopmin", "zadd",
    ),
    "operator": (
        "time", "info", "client|setname", "exists", "type", "sscan", "sadd", "srem",
    ),
}  # fmt: skip
_ABOUT_NODES = ("cluster|slots",)  # where each queue is
_ABOUT_SERVER = ("config|get", "client|list", "slowlog|get")  # the parts of the Redis view that tell of others
_NEW = 7  # Redis from which EVALSHA_RO and rights to read a key exist


@dataclass(frozen=True, slots=True)
class Rights:
    """Keys (patterns), commands and channels (patterns), each sorted; `reads_only` where no key is ever written."""

    keys: tuple[str, ...]
    commands: tuple[str, ...]
    reads_only: bool
    channels: tuple[str, ...] = ()


def rights(
    role: str,
    queues: Sequence[tuple[Layout, str]],
    *,
    major: int = _NEW,
    with_server: bool = False,
    with_nodes: bool = False,
) -> Rights:
    """What a role needs for these queues on Redis `major`.

    `with_server` adds what the Redis view shows, `with_nodes` what a client of a Cluster asks.
    """
    if role not in ROLES:
        raise UsageError(f'there is no role "{role}"; the roles: {", ".join(ROLES)}.')
    keys: set[str] = set()
    channels: set[str] = set()
    commands: set[str] = {*_SENT[role], *(_ABOUT_SERVER if with_server else ()), *(_ABOUT_NODES if with_nodes else ())}
    for layout, queue in queues:
        found = [script for script in layout.scripts.values() if _belongs(role, script)]
        for script in found:
            commands |= commands_of(script)
            keys |= set(_patterns(layout, queue, script))
            channels |= {_escaped(layout.keys(queue)[k.name]) + "*" for k in script.keys if k.type == "channel"}
        if role != "worker" and (heard := layout.hears()):  # the right to a pattern is that pattern, letter by letter
            channels |= set(heard)
            commands |= {"psubscribe", "ping"}
        commands |= {words.lower().replace(" ", "|") for words in layout.commands}
        if layout.learns_by_walk:  # who works there is told by a walk over all keys alone
            commands |= {"scan"} | commands_of(scripts.load("shared")["walk"])
        keys |= {layout.names_key} - {""}
    read_only = ("evalsha_ro", "eval_ro") if major >= _NEW else ()
    commands |= {*read_only} if role == "viewer" and major >= _NEW else {"evalsha", "eval", *read_only}
    return Rights(tuple(sorted(keys)), tuple(sorted(commands)), role == "viewer", tuple(sorted(channels)))


def line(role: str, rights: Rights, *, user: str = "", major: int = _NEW) -> str:
    """One `ACL SETUSER` for redis-cli; the password is for a person to fill in."""
    sign = "%R~" if rights.reads_only and major >= _NEW else "~"
    words = [user or f"rqtui-{role}", "reset", "on", ">PASSWORD"]
    words += [_quoted(f"{sign}{key}") for key in rights.keys]
    words += [_quoted(f"&{channel}") for channel in rights.channels]
    words += ["-@all", *(f"+{command}" for command in rights.commands)]
    return "ACL SETUSER " + " ".join(words)


def commands_of(script: Script) -> set[str]:
    """The commands that a script may call, in lower case."""
    code = "\n".join(line for line in script.source.split("\n") if not line.lstrip().startswith("--"))
    return {word.lower() for word in (*_CALLED.findall(code), *_NAMED.findall(code))}


def _belongs(role: str, script: Script) -> bool:
    if role == "viewer":
        return script.read_only
    return role == "operator" or script.name in WORKING


def _patterns(layout: Layout, queue: str, script: Script) -> Iterable[str]:
    """The keys of a queue that a script is called with or makes; native ones share a prefix, which stands for them."""
    keys = layout.keys(queue)
    for key in script.keys:
        name = keys[key.name]
        prefix = f"rqtui:{{{queue}}}:"
        yield _escaped(prefix) + "*" if name.startswith(prefix) else _escaped(name)
    for template in script.derived:
        known = {"queue": queue, **layout.told(queue)}
        parts = re.split(r"<([a-z_]+)>", template.split(" ")[0])  # what stands between holes, and their names, in turn
        holes = (_escaped(known[name]) if name in known else "*" for name in parts[1::2])
        yield "".join(_escaped(part) + hole for part, hole in zip_longest(parts[::2], holes, fillvalue=""))


def _escaped(key: str) -> str:
    """A key that is meant as it is, where a pattern is expected."""
    return re.sub(r"([\\*?\[\]])", r"\\\1", key)


def _quoted(word: str) -> str:
    """A word as redis-cli reads it."""
    if re.fullmatch(r"[!-~]+", word) and not set(word) & set("\"'\\"):
        return word
    raw = to_bytes(word)
    return '"' + "".join(chr(b) if 32 <= b < 127 and chr(b) not in '"\\' else f"\\x{b:02x}" for b in raw) + '"'
