"""Check the Redis server: its role, memory, eviction policy, persistence and clock.

Findings about a server have no queue. The header of the screen and `rqtui health` show them.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from rqtui.connection.nodes import list_node_clients
from rqtui.engine.health.rules import format_age
from rqtui.model import Finding

if TYPE_CHECKING:
    from rqtui.connection.connect import ServerInfo

NEAR_MEMORY_SHARE = 0.9
MIN_SKEW_MS = 1_000  # with a larger difference local times contradict the server's ages
REPLICA_FIX = "connect to its primary, or name the sentinels (redis+sentinel://)"


def find_server_problems(client: Any) -> list[Finding]:
    """Return the findings about a server, or about each node of a Cluster; none if INFO is denied."""
    from rqtui.connection.connect import read_server_info, translate_redis_errors

    with translate_redis_errors():
        servers = list_node_clients(client)
    return [
        finding
        for server in servers
        for finding in _add_node_address(server, servers, _check_server_node(server, read_server_info, len(servers)))
    ]


def find_urgent_server_problems(client: Any) -> tuple[Finding, ...]:
    """Return the findings about a server's role, memory and eviction policy, read in one round trip per node.

    Returns none if the server does not reply. Each command prints the critical findings when it connects.
    """
    from redis.exceptions import RedisError

    from rqtui.connection.connect import read_server_state

    findings: list[Finding] = []
    with contextlib.suppress(RedisError, OSError):
        servers = list_node_clients(client)
        for server in servers:
            with contextlib.suppress(RedisError, OSError):
                findings += _add_node_address(server, servers, check_server_info(read_server_state(server)))
    return tuple(findings)


class ServerCheck(NamedTuple):
    """The findings about a server that the screen shows above its queues, and the properties of each of its nodes."""

    findings: tuple[Finding, ...] = ()
    infos: tuple[ServerInfo, ...] = ()


def check_server_state(client: Any) -> ServerCheck:
    """Check the role, memory, eviction policy, persistence and clock of a server, in one round trip per node.

    The result is empty if the server does not reply.
    """
    from redis.exceptions import RedisError

    from rqtui.connection.connect import build_server_info, compute_clock_skew_ms

    findings: list[Finding] = []
    infos: list[ServerInfo] = []
    with contextlib.suppress(RedisError, OSError):
        servers = list_node_clients(client)
        for server in servers:
            with contextlib.suppress(RedisError, OSError):
                pipe = server.pipeline(transaction=False)
                for section in ("memory", "replication", "persistence"):  # Redis 6.2 takes one section at a time
                    pipe.info(section)
                pipe.config_get("save")
                pipe.time()
                began_s = time.time()
                *sections, settings, moment = pipe.execute(raise_on_error=False)
                replies = [reply for reply in sections if isinstance(reply, dict)]
                info = build_server_info(
                    {},
                    {str(name): str(value) for each in replies for name, value in each.items()},
                    settings if isinstance(settings, dict) else {},
                )
                infos.append(info)
                found = check_server_info(info)
                if not isinstance(moment, Exception):
                    now_s = time.time()
                    skew_ms = compute_clock_skew_ms(moment, began_s, now_s)
                    found += check_clock_skew(skew_ms, 1000 * (now_s - began_s))
                findings += _add_node_address(server, servers, found)
    return ServerCheck(tuple(findings), tuple(infos))


def check_clock_skew(skew_ms: float, rtt_ms: float) -> list[Finding]:
    """Return the finding about a server's clock that differs from this machine's by a second or more.

    `skew_ms` is correct to half of the round trip.
    """
    if abs(skew_ms) - rtt_ms / 2 < MIN_SKEW_MS:
        return []
    direction = "ahead of" if skew_ms > 0 else "behind"
    seconds = round(abs(skew_ms) / 1000)
    difference = f"{seconds} s" if seconds < 120 else format_age(1000 * seconds)
    text = f"the clock of Redis is {difference} {direction} this machine's: due times follow the clock of Redis"
    return [Finding("clock-skew", "warning", "", text, "synchronise both clocks (NTP)")]


def _check_server_node(server: Any, probe: Callable[[Any], ServerInfo], node_count: int) -> list[Finding]:
    """Return the findings about one server, or a `node-away` finding if one of several Cluster nodes is unreachable."""
    from rqtui.errors import Unreachable

    try:
        info = probe(server)
        clock = [] if info.skew_ms is None else check_clock_skew(info.skew_ms, info.rtt_ms)
        return [*check_server_info(info), *clock]
    except Unreachable as error:
        if node_count == 1:
            raise
        return [Finding("node-away", "critical", "", str(error), "bring it back, or let a replica take over")]


def _add_node_address(server: Any, servers: list[Any], findings: list[Finding]) -> list[Finding]:
    """Put the address of a node in front of its findings' texts, if the server has several nodes."""
    if len(servers) == 1:
        return findings
    address = server.connection_pool.connection_kwargs
    return [
        replace(finding, text=f"{address.get('host')}:{address.get('port')}: {finding.text}") for finding in findings
    ]


def check_server_info(info: ServerInfo) -> list[Finding]:
    """Return the findings about a server from INFO and its settings that were already read.

    Of the eviction policies only `allkeys-…` are reported: `volatile-…` policies evict only keys with a time to live,
    and no key of a job has one.
    """
    findings = []
    if info.is_read_only:
        text = "Redis is a read-only replica: it refuses every change, also each put and each lease"
        findings.append(Finding("read-only-replica", "critical", "", text, REPLICA_FIX))
    policy, used_bytes, max_bytes = info.policy, info.used_bytes or 0, info.maxmemory_bytes
    if policy.startswith("allkeys") and max_bytes:
        text = f"Redis deletes jobs when its memory is full: its maxmemory-policy is {policy}"
        findings.append(Finding("eviction", "critical", "", text, "CONFIG SET maxmemory-policy noeviction"))
    if max_bytes and used_bytes >= max_bytes:
        text = "Redis memory is full: new jobs are refused, stored jobs still run"
        findings.append(Finding("memory", "critical", "", text, "let workers drain, or raise maxmemory"))
    elif max_bytes and used_bytes >= NEAR_MEMORY_SHARE * max_bytes:
        text = f"Redis memory is {100 * used_bytes // max_bytes} % full: new jobs will soon be refused"
        findings.append(Finding("memory", "warning", "", text, "raise maxmemory, or drain"))
    if info.is_persistent is False:
        text = "Redis stores nothing on disk: a restart loses every job"
        findings.append(Finding("no-persistence", "warning", "", text, "CONFIG SET appendonly yes"))
    return findings
