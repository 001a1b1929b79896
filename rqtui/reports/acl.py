"""Compute the minimal Redis ACL rights of a viewer, a worker or an operator; called by `rqtui acl`.

Keys come from the script headers, commands from the script sources: a script runs with the rights of its caller. A
table in this module lists the commands that the client itself sends. A test runs each role under its own ACL user.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from rqtui.config.settings import DEFAULT_SYSTEM
from rqtui.errors import UsageError
from rqtui.model import Ref
from rqtui.scripts import script as scripts
from rqtui.scripts.script import Script
from rqtui.system_base.foreign_system import build_side_key
from rqtui.system_base.system import System
from rqtui.text.names import to_bytes

# Scripts of `rqtui work`, of producers, of dispatcher and reaper, and those that `snapshot` calls.
WORKER_SCRIPTS = frozenset(
    ["enqueue", "reserve", "pull", "ack", "reject", "release", "extend", "beat", "dispatch", "reap"]
    + ["counts", "show", "stats", "leases"]
)
ROLES = ("viewer", "worker", "operator")
_CALL = re.compile(r"(?:redis\.p?call|\bnote|pcall)\(\s*'([A-Za-z]+)'")
# Commands that a script names without calling: `local command = … 'ZRANGE'`, `x and 'ZSCAN' or 'HSCAN'`.
_COMMAND_NAME = re.compile(r"'(ZRANGE|ZREVRANGE|ZRANGEBYSCORE|LRANGE|ZSCAN|HSCAN|SSCAN|LPUSH|RPUSH|LPOP|RPOP)'")
_CLIENT_COMMANDS = {  # by the client itself, outside of scripts; no ACL can refuse HELLO and AUTH
    "viewer": ("time", "info", "client|setname", "exists", "type", "sscan"),
    "worker": (
        "time", "info", "client|setname", "client|id", "client|unblock", "exists", "type", "sscan",
        "sadd", "bzpopmin", "zadd",
    ),
    "operator": (
        "time", "info", "client|setname", "exists", "type", "sscan", "sadd", "srem",
    ),
}  # fmt: skip
# By `rqtui migrate`, outside of scripts: for its lock, its batch, the copies that it holds, and the target's counter.
_MIGRATION_COMMANDS = (
    "set", "get", "pexpire", "del", "llen", "exists", "hget", "hset", "hdel", "hgetall", "hincrby",
)  # fmt: skip
_CLUSTER_COMMANDS = ("cluster|slots",)  # they locate each queue
_SERVER_COMMANDS = ("config|get", "client|list", "slowlog|get")  # for parts of the Redis view that show other clients
_FIRST_WITH_READ_RIGHTS = 7  # Redis from which EVALSHA_RO and rights to read a key exist


@dataclass(frozen=True, slots=True)
class Rights:
    """The ACL rights of a role: key patterns, commands and channel patterns, each sorted.

    `reads_only` is set if the role never writes a key.
    """

    keys: tuple[str, ...]
    commands: tuple[str, ...]
    reads_only: bool
    channels: tuple[str, ...] = ()


def compute_rights(
    role: str,
    queues: Sequence[tuple[System, str]],
    *,
    major: int = _FIRST_WITH_READ_RIGHTS,
    with_server: bool = False,
    with_nodes: bool = False,
) -> Rights:
    """Compute the ACL rights of a role for these queues on Redis version `major`. Raises UsageError for another role.

    An operator of a native queue and of queues of other systems may also migrate these to it. `with_server` adds the
    rights for the Redis view, `with_nodes` those of a Cluster client.
    """
    if role not in ROLES:
        raise UsageError(f'there is no role "{role}"; the roles: {", ".join(ROLES)}.')
    keys: set[str] = set()
    channels: set[str] = set()
    commands: set[str] = {
        *_CLIENT_COMMANDS[role],
        *(_SERVER_COMMANDS if with_server else ()),
        *(_CLUSTER_COMMANDS if with_nodes else ()),
    }
    for system, queue in queues:
        has_other_queue = any(other is system and name != queue for other, name in queues)
        needed_scripts = [
            script for script in system.scripts.values() if _is_script_needed(role, script, has_other_queue)
        ]
        for script in needed_scripts:
            commands |= list_commands(script)
            keys |= set(_build_key_patterns(system, queue, script))
            channels |= {
                _escape_pattern(system.collect_script_keys(script, queue, queue)[key.name]) + "*"
                for key in script.keys
                if key.type == "channel"
            }
        if role != "worker" and (
            event_patterns := system.event_patterns()
        ):  # Redis compares a pattern with the permitted ones letter by letter
            channels |= set(event_patterns)
            commands |= {"psubscribe", "ping"}
        commands |= {command_words.lower().replace(" ", "|") for command_words in system.commands}
        if system.needs_key_walk or system.is_found_by_walk:  # no key lists its queues or workers
            commands |= {"scan"} | list_commands(scripts.load_scripts("shared")["walk"])
        keys |= {system.queue_names_key} - {""}
    if role == "operator" and (migration_keys := _list_migration_keys(queues)):
        keys |= migration_keys
        commands |= {*_MIGRATION_COMMANDS}
    read_only = ("evalsha_ro", "eval_ro") if major >= _FIRST_WITH_READ_RIGHTS else ()
    commands |= (
        {*read_only} if role == "viewer" and major >= _FIRST_WITH_READ_RIGHTS else {"evalsha", "eval", *read_only}
    )
    return Rights(tuple(sorted(keys)), tuple(sorted(commands)), role == "viewer", tuple(sorted(channels)))


def format_acl_command(role: str, rights: Rights, *, user: str = "", major: int = _FIRST_WITH_READ_RIGHTS) -> str:
    """Format ACL rights as one `ACL SETUSER` command for redis-cli, with a placeholder for the password."""
    key_sign = "%R~" if rights.reads_only and major >= _FIRST_WITH_READ_RIGHTS else "~"
    # Redis 6.2 gives a new user all channels, to which no pattern can be added.
    words = [user or f"rqtui-{role}", "reset", "on", ">PASSWORD", *(["resetchannels"] if rights.channels else [])]
    words += [_quote_for_redis_cli(f"{key_sign}{key}") for key in rights.keys]
    words += [_quote_for_redis_cli(f"&{channel}") for channel in rights.channels]
    words += ["-@all", *(f"+{command}" for command in rights.commands)]
    return "ACL SETUSER " + " ".join(words)


def list_commands(script: Script) -> set[str]:
    """Return the Redis commands that a script may call, in lower case."""
    code = "\n".join(line for line in script.source.split("\n") if not line.lstrip().startswith("--"))
    return {word.lower() for word in (*_CALL.findall(code), *_COMMAND_NAME.findall(code))}


def _is_script_needed(role: str, script: Script, has_other_queue: bool) -> bool:
    """Return whether a role needs a script: viewers need those that only read, workers those of `WORKER_SCRIPTS`.

    A script that moves jobs to another queue needs a second queue of the same system.
    """
    if role == "viewer":
        return script.read_only
    if script.moves_to_queue and not has_other_queue:
        return False
    return role == "operator" or script.name in WORKER_SCRIPTS


def _list_migration_keys(queues: Sequence[tuple[System, str]]) -> set[str]:
    """Return the keys that `rqtui migrate` writes in addition to those of the scripts, between any of these queues."""
    targets = [Ref(system.name, queue) for system, queue in queues if system.name == DEFAULT_SYSTEM]
    sources = [queue for system, queue in queues if system.name != DEFAULT_SYSTEM]
    names = ["migration", "migrator", *(f"copies:{target}" for target in targets)] if targets else []
    return {_escape_pattern(build_side_key(queue, name)) for queue in sources for name in names}


def _build_key_patterns(system: System, queue: str, script: Script) -> Iterable[str]:
    """Yield patterns of the keys that a script uses or derives.

    The keys of a native queue share a prefix, and one pattern of that prefix covers them.
    """
    keys = system.collect_script_keys(script, queue, queue)  # the keys of another queue come with that queue
    for key in script.keys:
        name = keys[key.name]
        prefix = f"rqtui:{{{queue}}}:"
        yield _escape_pattern(prefix) + "*" if name.startswith(prefix) else _escape_pattern(name)
    for template in script.derived:
        known_values = {"queue": queue, **system.script_options(queue)}
        parts = re.split(r"<([a-z_]+)>", template.split(" ")[0])  # alternating literals and placeholder names
        filled = (_escape_pattern(known_values[name]) if name in known_values else "*" for name in parts[1::2])
        yield "".join(_escape_pattern(part) + hole for part, hole in zip_longest(parts[::2], filled, fillvalue=""))


def _escape_pattern(key: str) -> str:
    """Escape a literal key for use in an ACL key pattern."""
    return re.sub(r"([\\*?\[\]])", r"\\\1", key)


def _quote_for_redis_cli(word: str) -> str:
    """Quote a word for the command line of redis-cli, if it needs quotes."""
    if re.fullmatch(r"[!-~]+", word) and not set(word) & set("\"'\\"):
        return word
    raw = to_bytes(word)
    return '"' + "".join(chr(b) if 32 <= b < 127 and chr(b) not in '"\\' else f"\\x{b:02x}" for b in raw) + '"'
