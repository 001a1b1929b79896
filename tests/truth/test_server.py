"""Situation L16 of the truth suite: problems of the Redis server, on an open screen and in one `rqtui health`.

The situation is the same for every system, so it is played once, without a queue.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack

import pytest
from redis import Redis
from shell import shell

from rqtui.connection.connect import connect
from rqtui.engine.engine import Engine
from rqtui.engine.ticker import Ticker
from rqtui.systems import registry

Settings = Callable[[str, str], None]


def fill_memory(client: Redis, settings: Settings) -> None:
    client.setrange("ballast", 30_000_000, "x")
    settings("maxmemory-policy", "noeviction")
    settings("maxmemory", str(int(client.info("memory")["used_memory"] * 1.06)))


def evict(_client: Redis, settings: Settings) -> None:
    settings("maxmemory", "1gb")
    settings("maxmemory-policy", "allkeys-lru")


def keep_nothing(_client: Redis, settings: Settings) -> None:
    settings("save", "")


def follow(client: Redis, settings: Settings) -> None:
    client.replicaof("127.0.0.1", 1)


PROBLEMS: dict[str, tuple[Callable[[Redis, Settings], None], str, str]] = {
    "memory": (fill_memory, "Redis memory is 9", "raise maxmemory"),
    "eviction": (evict, "deletes jobs when its memory is full", "CONFIG SET maxmemory-policy noeviction"),
    "no-persistence": (keep_nothing, "stores nothing on disk", "CONFIG SET appendonly yes"),
    "read-only-replica": (follow, "read-only replica", "connect to its primary"),
}


def list_screen_findings(url: str) -> dict[str, str]:
    """Return the findings that an open screen shows above its queues, by kind."""
    ticker = Ticker(lambda: engine, lambda _event: None)
    with connect(url) as client:
        engine = ticker.engine = Engine(client, [registry.create_system("native")])
        ticker._check_server(time.monotonic())
        return {finding.kind: f"{finding.text} · {finding.remedy}" for finding in engine.warnings}


def list_command_findings(url: str) -> dict[str, str]:
    """Return the findings about the server in one `rqtui health`, by kind."""
    found = shell(url, "health", "--json").json["findings"]
    return {each["kind"]: f"{each['text']} · {each['remedy']}" for each in found if each["queue"] is None}


@pytest.mark.parametrize("kind", PROBLEMS)
def test_a_problem_of_the_server_is_reported_with_its_fix_and_ends_with_its_cause(
    kind: str, client: Redis, url: str, settings: Settings
) -> None:
    settings("save", "86400 1000000000")
    assert list_screen_findings(url) == list_command_findings(url) == {}
    cause, text, remedy = PROBLEMS[kind]
    with ExitStack() as stack:
        if kind == "read-only-replica":
            stack.callback(client.replicaof, "NO", "ONE")
        cause(client, settings)
        for found in (list_screen_findings(url), list_command_findings(url)):
            assert kind in found and text in found[kind] and remedy in found[kind], found
    for name, value in (("save", "86400 1000000000"), ("maxmemory", "0"), ("maxmemory-policy", "noeviction")):
        settings(name, value)
    assert list_screen_findings(url) == list_command_findings(url) == {}


@pytest.mark.parametrize("offset_s", [90, -2])
def test_a_clock_that_differs_by_a_second_is_reported(
    offset_s: int, url: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings("save", "86400 1000000000")
    right = time.time
    monkeypatch.setattr(time, "time", lambda: right() + offset_s)
    for found in (list_screen_findings(url), list_command_findings(url)):
        assert "behind" in found["clock-skew"] if offset_s > 0 else "ahead of" in found["clock-skew"]
        assert "NTP" in found["clock-skew"]
