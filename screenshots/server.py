"""Build the Redis report of the screenshots, with the figures of a busy server."""

from __future__ import annotations

from typing import Any

from rqtui.connection.connect import ServerInfo
from rqtui.engine.health import server_rules
from rqtui.reports.redis import Command, Report, SlowCommand

_INFO = {
    "connected_slaves": "1",
    "used_memory": str(1_702_000_000),
    "used_memory_peak": str(1_811_000_000),
    "maxmemory": str(2_147_483_648),
    "maxmemory_policy": "allkeys-lru",
    "evicted_keys": "4117",
    "mem_fragmentation_ratio": "1.08",
    "number_of_cached_scripts": "31",
    "connected_clients": "43",
    "blocked_clients": "8",
    "maxclients": "10000",
    "keyspace_hits": "981200",
    "keyspace_misses": "20100",
    "instantaneous_input_kbps": "412.7",
    "instantaneous_output_kbps": "633.1",
    "instantaneous_ops_per_sec": "3120",
    "total_error_replies": "12",
    "rejected_connections": "0",
    "aof_enabled": "1",
    "aof_last_write_status": "ok",
    "expired_keys": "30211",
}


def look(now_ms: int) -> Any:
    """Build the report at that time."""
    server = ServerInfo(
        "redis",
        "7.0.15",
        "primary",
        "standalone",
        int(_INFO["used_memory"]),
        int(_INFO["maxmemory"]),
        _INFO["maxmemory_policy"],
        True,
        43,
        3_601_000,
    )
    mail = ("EVALSHA", "9b1f…", "12", "rqtui:{mail}:scheduled", "rqtui:{mail}:ready")
    return Report(
        server,
        _INFO,
        now_ms,
        1.4,
        3,
        (("worker-mail", 24), ("worker-images", 12), ("rqtui", 3), ("billing", 4)),
        (
            Command("evalsha", 881_204, 91_400_000),
            Command("bzpopmin", 120_411, 4_100_000),
            Command("get", 80_112, 300_000),
            Command("keys", 14, 2_960_000),
        ),
        (
            SlowCommand(now_ms - 95_000, 214_000, ("KEYS", "session:*"), "", "billing"),
            SlowCommand(now_ms - 341_000, 187_000, ("KEYS", "session:*"), "", "billing"),
            SlowCommand(now_ms - 4_210_000, 11_200, mail, "native/dispatch", "rqtui-dispatcher"),
        ),
        10_000,
        (("db0", 184_220, 91_004),),
        tuple(server_rules.check_server_info(server)),
        {},
    )
