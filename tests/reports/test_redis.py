"""Test `rqtui redis`: the report on the server, also without a right or a command."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from redis import Redis, exceptions
from shell import shell

from rqtui.client.queue import Queue
from rqtui.connection.connect import connect
from rqtui.connection.embedded import EmbeddedServer
from rqtui.reports import redis, redis_panels
from rqtui.reports.redis import SlowCommand
from rqtui.reports.redis_panels import Panel, build_panels
from rqtui.scripts import script as scripts


def text(panel: Panel) -> str:
    return "\n".join("".join(piece.text for piece in line) for line in panel.lines)


def list_panels(report: redis.Report) -> dict[str, Panel]:
    return {panel.name: panel for panel in build_panels(report)}


@pytest.mark.each_server
def test_every_panel_has_the_facts_of_a_real_server(server_client: Redis) -> None:
    Queue("mail", server_client).put(1, id="a")
    found = redis.read_report(server_client)
    assert found.missing == {} and found.server.version and found.server.role == "primary"
    assert found.rtt_ms is not None and 0 < found.rtt_ms < 1000 and abs(found.skew_ms or 0) < 1000
    assert dict(found.clients).get("rqtui", 0) >= 1
    assert {"eval", "evalsha"} & {command.name for command in found.commands}
    assert ("db0", server_client.dbsize()) in [(name, keys) for name, keys, _ttl in found.keyspace]
    assert all(text(panel) for name, panel in list_panels(found).items() if name != "warnings")


def test_a_slow_script_of_ours_is_named(client: Redis, settings: Callable[[str, str], None]) -> None:
    Queue("mail", client).put(0)  # by its text, where this server has not seen the script
    client.slowlog_reset()
    settings("slowlog-log-slower-than", "0")
    Queue("mail", client).put(1, id="a")
    settings("slowlog-log-slower-than", "1000000")  # what comes now would push it out
    found = redis.read_report(client)
    assert "native/enqueue" in {entry.script for entry in found.slow}
    line = next(line for line in text(list_panels(found)["slow"]).splitlines() if "native/enqueue" in line)
    assert "rqtui:{mail}:" in line and scripts.load_scripts("native")["enqueue"].sha not in line


def test_hostile_words_of_a_slow_command_are_made_harmless(client: Redis) -> None:
    hostile = SlowCommand(0, 10, ("SET", "\x1b]0;owned\x07", "[bold]x[/bold]", "caf\udce9"), "", "\x1b[31mme")
    found = replace(redis.read_report(client), slow=(hostile,))
    shown = text(list_panels(found)["slow"])
    assert shown.isprintable() and "[bold]x[/bold]" in shown


def test_a_server_setting_that_endangers_jobs_is_reported_with_a_remedy(
    client: Redis, settings: Callable[[str, str], None]
) -> None:
    settings("maxmemory", "100mb")
    settings("maxmemory-policy", "allkeys-lru")
    found = redis.read_report(client)
    assert {"eviction", "no-persistence"} <= {finding.kind for finding in found.findings}
    assert "CONFIG SET maxmemory-policy noeviction" in text(list_panels(found)["warnings"])
    assert "allkeys-lru" in text(list_panels(found)["memory"])


def test_a_clock_that_is_wrong_is_a_finding(client: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    right = time.time
    monkeypatch.setattr(time, "time", lambda: right() + 90)
    (finding,) = (each for each in redis.read_report(client).findings if each.kind == "clock-skew")
    assert "90 s behind" in finding.text


@pytest.mark.parametrize(
    ("ahead_ms", "words"),
    [
        (999, ""),
        (1000, "1 s ahead of"),
        (-999, ""),
        (-5000, "5 s behind"),
        (0, ""),
        (-119_400, "119 s behind"),
        (7_300_000, "2 h ahead of"),
        (86_400_000_000, "1000 d ahead of"),
    ],
)
def test_a_clock_is_wrong_from_one_second_on(
    client: Redis, monkeypatch: pytest.MonkeyPatch, ahead_ms: int, words: str
) -> None:
    monkeypatch.setattr(redis, "time", SimpleNamespace(time=lambda: 1000.0, monotonic=lambda: 0.0))
    monkeypatch.setattr(client, "time", lambda: divmod(1_000_000_000 + ahead_ms * 1000, 1_000_000))
    found = redis.read_report(client)
    assert (found.skew_ms, found.now_ms, found.rtt_ms) == (ahead_ms, 1_000_000 + ahead_ms, 0)
    actual = [each.text for each in found.findings if each.kind == "clock-skew"]
    assert len(actual) == bool(words) and all(words in text for text in actual)


def test_a_slow_command_has_its_client_its_time_and_how_long_it_took(
    client: Redis, settings: Callable[[str, str], None]
) -> None:
    began_ms = client.time()[0] * 1000
    client.slowlog_reset()
    settings("slowlog-log-slower-than", "0")
    client.echo("by name")
    client.client_setname("")
    client.echo("by address")
    settings("slowlog-log-slower-than", "1000000")
    found = {entry.words: entry for entry in redis.read_report(client).slow if entry.words[0] == "ECHO"}
    assert found["ECHO", "by name"].client == "rqtui"
    assert found["ECHO", "by address"].client.startswith("127.0.0.1:")
    for entry in found.values():
        assert began_ms <= entry.at_ms <= client.time()[0] * 1000 and entry.script == ""
        assert entry.micros < 1_000_000


def test_the_document_has_the_script_the_client_and_the_start_of_a_slow_command(
    client: Redis, url: str, settings: Callable[[str, str], None]
) -> None:
    began_ms = client.time()[0] * 1000
    Queue("mail", client).put("{}")  # by its text, where this server has not seen the script
    client.slowlog_reset()
    settings("slowlog-log-slower-than", "0")
    Queue("mail", client).put("{}")
    client.echo("plain")
    settings("slowlog-log-slower-than", "1000000")
    slow = shell(url, "redis", "--json").json["slow"]
    [script] = [each for each in slow if each["script"] == "native/enqueue"]
    [plain] = [each for each in slow if each["command"][0] == "ECHO"]
    assert plain["script"] is None and plain["client"] == "rqtui"
    for each in (script, plain):
        assert began_ms <= each["began_at_ms"] <= client.time()[0] * 1000 + 1000


def test_names_of_clients_and_commands_are_the_twelve_that_count_most(client: Redis, url: str) -> None:
    with ExitStack() as stack:
        for name in [*(f"n{number}" for number in range(15)), "many", "many", "many"]:
            stack.enter_context(connect(url)).client_setname(name)
        words = "PING,GET k,TTL k,TYPE k,EXISTS k,STRLEN k,LLEN k,SCARD k,ZCARD k,HLEN k,DEL k,ECHO k,INCR n,DECR n"
        for command in words.split(","):
            client.execute_command(*command.split())
        found = redis.read_report(client)
    assert len(found.clients) == len(found.commands) == 12
    assert ("many", 3) in found.clients[:2]
    micros = [command.micros for command in found.commands]
    assert micros == sorted(micros, reverse=True)


def test_a_command_that_failed_or_was_refused_is_counted_as_failed(client: Redis) -> None:
    client.config_resetstat()
    client.set("text", "x")
    for words in (("LPUSH", "text", "a"), ("LPUSH", "text"), ("LPUSH", "list", "a")):
        with suppress(exceptions.ResponseError):
            client.execute_command(*words)
    [pushed] = [command for command in redis.read_report(client).commands if command.name == "lpush"]
    assert (pushed.calls, pushed.failed) == (2, 2)


def test_a_number_of_info_is_whole_and_nothing_else_is_one(client: Redis) -> None:
    found = replace(redis.read_report(client), info={"a": "7", "b": "7.9", "c": "7.0.15", "d": "x", "e": ""})
    assert [found.read_number(name) for name in "abcdef"] == [7, 7, None, None, None, None]


@pytest.fixture
def poor(real_server: EmbeddedServer, client: Redis) -> Iterator[str]:
    """Return the URL of a user who may only connect and read queues."""
    client.execute_command("ACL", "SETUSER", "poor", "reset", "on", ">pw", "~*", "-@all", "+ping", "+time", "+hello")
    yield real_server.url.replace("redis://", "redis://poor:pw@")
    client.execute_command("ACL", "DELUSER", "poor")


def test_a_denied_command_is_reported_with_the_missing_right(poor: str) -> None:
    with connect(poor) as client:
        found = redis.read_report(client)
    parts = list_panels(found)
    assert "ACL SETUSER poor +slowlog|get" in parts["slow"].lacks
    assert "ACL SETUSER poor +info" in parts["memory"].lacks and "+client|list" in parts["clients"].lacks
    assert found.rtt_ms is not None and "round trip" in text(parts["server"])
    ran = shell(poor, "redis")
    assert ran.code == 0 and "ACL SETUSER poor +info" in ran.out


def test_a_server_that_lacks_commands_names_which(fake_server: EmbeddedServer) -> None:
    with connect(fake_server.url) as client:
        found = redis.read_report(client)
    assert "this server has no SLOWLOG" in list_panels(found)["slow"].lacks
    assert found.rtt_ms is not None


def test_the_document_holds_what_the_view_shows(client: Redis, url: str) -> None:
    found = shell(url, "redis", "--json").json
    assert found["server"]["role"] == "primary" and found["server"]["version"]
    assert found["memory"]["used_bytes"] > 0 and found["clients"]["connected"] >= 1
    assert found["missing"] == {} and isinstance(found["findings"], list) and isinstance(found["slow"], list)


def test_the_password_of_the_url_is_masked(poor: str) -> None:
    ran = shell(poor, "redis", "--json")
    assert "pw@" not in ran.out and ran.json["server"]["url"].startswith("redis://poor:***@")


def test_a_call_is_as_long_as_it_is_in_a_unit_that_is_wide_enough() -> None:
    spans = (0.4, 999.9, 1_000.0, 14_211_428.6)
    assert [redis_panels._format_duration(micros) for micros in spans] == ["0.4 µs", "999.9 µs", "1 ms", "14s"]


def test_a_number_that_the_server_does_not_send_is_zero() -> None:
    info: Any = {"cmdstat_get": {}, "cmdstat_set": {"calls": 3, "usec": 9}, "db0": {}, "db1": {"keys": 2, "expires": 1}}
    assert redis._rank_commands(info) == (redis.Command("set", 3, 9, 0), redis.Command("get", 0, 0, 0))
    assert redis._parse_keyspace(info) == (("db0", 0, 0), ("db1", 2, 1))
    failed = {"cmdstat_get": {"failed_calls": 2}, "cmdstat_set": {"rejected_calls": 3}}
    assert [command.failed for command in redis._rank_commands(failed)] == [2, 3]
