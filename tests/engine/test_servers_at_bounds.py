"""Findings about Redis servers whose memory, clocks and settings are at bounds: see `servers_at_bounds.txt`.

`RQTUI_WRITE_SNAPSHOTS=1 pytest tests/engine/test_servers_at_bounds.py` writes the text; review the difference as code.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kept_text import assert_lines_match_file
from redis.exceptions import ConnectionError as Lost
from redis.exceptions import NoPermissionError

from rqtui.connection.connect import ServerInfo
from rqtui.engine.health import server_rules
from rqtui.errors import Unreachable
from rqtui.model import Finding

KEPT = Path(__file__).with_name("servers_at_bounds.txt")
NOW_S = 1_800_000_000


def show(findings: Sequence[Finding]) -> str:
    return "; ".join(f"{one.kind}, {one.severity}: {one.text} | {one.remedy}" for one in findings) or "nothing"


def properties() -> Iterator[str]:
    for used, most in ((None, None), (5, 0), (899, 1_000), (900, 1_000), (999, 1_000), (1_000, 1_000), (1_001, 1_000)):
        info = ServerInfo("redis", used_bytes=used, maxmemory_bytes=most)
        yield f"{used} of {most} bytes: {show(server_rules.check_server_info(info))}"
    for policy in ("", "noeviction", "allkeys-lru", "volatile-lru"):
        for most in (0, 9):
            info = ServerInfo("redis", policy=policy, maxmemory_bytes=most)
            yield f"policy {policy!r} at most {most}: {show(server_rules.check_server_info(info))}"
    for is_persistent in (None, True, False):
        for is_read_only in (False, True):
            info = ServerInfo("redis", is_persistent=is_persistent, is_read_only=is_read_only)
            found = show(server_rules.check_server_info(info))
            yield f"persistent {is_persistent}, read-only {is_read_only}: {found}"
    for skew_ms, rtt_ms in ((999, 0), (1_000, 0), (-1_000, 0), (1_004, 10), (1_005, 10), (-1_006, 10), (119_499, 0),
                            (119_501, 0), (-7_200_000, 0)):  # fmt: skip
        yield f"skew {skew_ms}, round trip {rtt_ms}: {show(server_rules.check_clock_skew(skew_ms, rtt_ms))}"


class Server:
    """A node that answers a pipeline of INFO, CONFIG GET and TIME."""

    def __init__(self, port: int, **changes: Any) -> None:
        self.connection_pool = SimpleNamespace(connection_kwargs={"host": "h", "port": port})
        usual: dict[str, Any] = {
            "memory": {"used_memory": 1_000, "maxmemory": 1_000}, "replication": {"role": "master"},
            "persistence": {"aof_enabled": 0}, "config_get save": {"save": ""}, "time": (NOW_S, 0),
        }  # fmt: skip
        self.replies, self.asked = {**usual, **changes}, list[str]()

    def pipeline(self, transaction: bool) -> Any:
        self.asked.clear()
        ask = self.asked.append
        return SimpleNamespace(
            info=ask, config_get=lambda name: ask(f"config_get {name}"), time=lambda: ask("time"), execute=self.execute
        )

    def execute(self, raise_on_error: bool) -> list[Any]:
        replies = [self.replies[command] for command in self.asked]
        lost = next((reply for reply in replies if isinstance(reply, Lost)), None)
        if lost:
            raise lost
        return replies


def nodes(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    clock = SimpleNamespace(time=lambda: float(NOW_S))
    monkeypatch.setattr(server_rules, "time", clock)
    denied: Any = NoPermissionError("denied")
    cases: dict[str, list[Server]] = {
        "one": [Server(1)], "two": [Server(1), Server(2)], "one of two lost": [Server(1, time=Lost("lost")), Server(2)],
        "TIME denied": [Server(1, time=denied)], "clock ahead": [Server(1, time=(NOW_S + 5, 0))],
        "INFO denied": [Server(1, memory=denied, replication=denied, persistence=denied)],
        "CONFIG denied": [Server(1, **{"config_get save": denied})],
    }  # fmt: skip
    for title, servers in cases.items():
        monkeypatch.setattr(server_rules, "list_node_clients", lambda _client, servers=servers: servers)
        found = server_rules.check_server_state(None)
        yield f"{title}, asked {servers[-1].asked}, {len(found.infos)} infos: {show(found.findings)}"

    def lose(_client: Any) -> Any:
        raise Lost("lost")

    monkeypatch.setattr(server_rules, "list_node_clients", lose)
    yield f"no node: {tuple(server_rules.check_server_state(None))}, {server_rules.find_urgent_server_problems(None)}"
    for number in (1, 2):
        for info in (ServerInfo("redis", skew_ms=None), ServerInfo("redis", skew_ms=5_000, is_read_only=True), None):

            def probe(_server: Any, info: Any = info) -> Any:
                if info is None:
                    raise Unreachable("h:1 is away")
                return info

            try:
                found_text = show(server_rules._check_server_node(None, probe, number))
            except Unreachable as error:
                found_text = f"raises {error}"
            yield f"{number} nodes, {info and (info.skew_ms, info.is_read_only)}: {found_text}"


def test_findings_about_servers_match_the_stored_text(monkeypatch: pytest.MonkeyPatch) -> None:
    assert_lines_match_file((*properties(), *nodes(monkeypatch)), KEPT)
