"""A named server is used only if it is empty and one process uses it, and it is empty afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from dedicated_server import VARIABLE, explain_unusable_server, open_dedicated_server, read_dedicated_url
from redis import Redis

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_a_server_that_holds_keys_is_refused_and_keeps_them(client: Redis, url: str) -> None:
    client.set("somebody's", "key")
    assert "holds 1 keys" in explain_unusable_server(url, None)
    words = [sys.executable, "-m", "pytest", "-q", "tests/support/test_dedicated_server.py"]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    ran = subprocess.run(words, cwd=ROOT, env={**environ, VARIABLE: url}, capture_output=True, text=True)
    assert ran.returncode == 4 and "holds 1 keys" in ran.stderr
    assert client.keys() == [b"somebody's"]


def test_keys_in_any_database_count(client: Redis, url: str) -> None:
    client.execute_command("SELECT", 7)
    client.set("somebody's", "key")
    client.execute_command("SELECT", 0)
    assert "holds 1 keys" in explain_unusable_server(url, None)


def test_an_empty_server_is_used_by_one_process_alone(client: Redis, url: str) -> None:
    assert explain_unusable_server(url, None) == ""
    assert explain_unusable_server(url, 2).endswith("leave out -n.")


def test_an_unreachable_server_is_reported_without_its_password() -> None:
    reason = explain_unusable_server("redis://:secret@127.0.0.1:1", None)
    assert reason.startswith(f"{VARIABLE}: the server cannot be used") and "secret" not in reason


def test_a_named_server_reports_its_version_and_is_left_empty(client: Redis, url: str) -> None:
    using = open_dedicated_server(url)
    server = next(using)
    assert server.url == url and url.endswith(f"{server.host}:{server.port}")
    assert server.kind.startswith(("Redis ", "Valkey ")) and server.version in server.kind
    client.set("a test's", "key")
    assert list(using) == [] and client.dbsize() == 0


def test_without_the_variable_the_tests_start_their_own() -> None:
    assert (
        read_dedicated_url({}) == ""
        and read_dedicated_url({VARIABLE: "redis://127.0.0.1:6379"}) == "redis://127.0.0.1:6379"
    )
