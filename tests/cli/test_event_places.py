"""Test places without a key on the command line: null and a sentence if no process listened, and who listens on."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from crier_system import Crier, add_ready_jobs, crier, publish_end
from redis import Redis
from shell import Ran, build_environment, shell
from waiting import wait_until

__all__ = ["crier"]  # a fixture
SUPPORT = Path(__file__).resolve().parents[1] / "support"
MAIN = "import crier_system; crier_system.register_system(); from rqtui.cli.main import main; main()"
NOBODY = (
    "crier only publishes these jobs (running, finished, failed), and this command does not listen: "
    "the screen listens, and so do `snapshot --watch` and `metrics --listen`."
)


@pytest.fixture
def run(client: Redis, url: str, crier: type[Crier]) -> Callable[..., Ran]:
    """Run a command line on a crier queue with four waiting jobs."""
    add_ready_jobs(client, "mail", "a", "b", "c", "d")

    def command(*words: str) -> Ran:
        ran = shell(url, "--system", "crier", *words)
        assert "Traceback" not in ran.err and "should not happen" not in ran.err
        return ran

    return command


@pytest.fixture
def program(client: Redis, url: str) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Start a command as a separate program that knows the crier, and wait until it listens."""
    add_ready_jobs(client, "mail", "a", "b", "c", "d")
    items: list[subprocess.Popen[bytes]] = []

    def start(*words: str) -> subprocess.Popen[bytes]:
        fields = {**build_environment(url), "PYTHONPATH": f"{build_environment(url)['PYTHONPATH']}:{SUPPORT}"}
        items.append(
            subprocess.Popen(
                [sys.executable, "-c", MAIN, "--system", "crier", *words],
                env=fields,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        )
        return items[-1]

    yield start
    for one in items:
        one.terminate()
        one.communicate(timeout=30)


def places(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    [queue] = document["queues"]
    return {place["place"]: place for place in queue["places"]}


def listens(client: Redis) -> bool:
    return int(client.execute_command("PUBSUB", "NUMPAT")) == 3


def test_a_report_names_missing_listeners_and_does_not_claim_that_there_is_nothing(run: Callable[..., Ran]) -> None:
    ran = run("snapshot", "--json")
    assert places(ran.json) == {
        "waiting": {"place": "waiting", "state": "ready", "count": 4, "exact": True},
        **{
            name: {
                "place": name,
                "state": state,
                "count": None,
                "exact": False,
                "heard_since_at_ms": None,
                "missed_ms": 0,
            }
            for name, state in (("running", "reserved"), ("finished", "done"), ("failed", "dead"))
        },
    }
    assert ran.json["shared"] == []
    ran = run("snapshot")
    assert NOBODY in ran.err
    assert "dead" not in ran.out and "done" not in ran.out


def test_a_page_without_received_events_is_no_empty_page(run: Callable[..., Ran]) -> None:
    ran = run("jobs", "mail", "failed", "--json")
    assert ran.code == 0
    assert {name: ran.json[name] for name in ("total", "exact", "heard_since_at_ms", "jobs")} == {
        "total": None,
        "exact": False,
        "heard_since_at_ms": None,
        "jobs": [],
    }
    ran = run("jobs", "mail", "failed")
    assert ran.out == "" and NOBODY.replace("running, finished, failed", "failed") in ran.err
    ran = run("jobs", "mail")
    assert "waiting:" in ran.out and "failed" not in ran.out and NOBODY in ran.err


def test_health_reports_what_only_a_listener_would_know(run: Callable[..., Ran]) -> None:
    ran = run("health", "mail", "--json")
    assert "failures" in ran.json["unknown"][0]["what"]
    actual = run("health", "mail").out
    assert "does not record them or publishes them only to programs that listen, as the screen does: failures" in actual


def test_workers_kinds_and_errors_report_that_no_client_listened(run: Callable[..., Ran]) -> None:
    for command in ("workers", "kinds", "errors"):
        assert NOBODY in run(command, "mail").err, command
        assert run(command, "mail", "--json").code == 0, command


def test_systems_show_which_places_have_no_key(run: Callable[..., Ran]) -> None:
    [found] = [each for each in run("layouts", "--json").json if each["layout"] == "crier"]
    assert [(place["place"], place["heard"]) for place in found["places"]] == [
        ("waiting", False),
        ("running", True),
        ("finished", True),
        ("failed", True),
    ]


def test_a_verb_on_a_place_without_a_key_is_refused_in_a_sentence(client: Redis, run: Callable[..., Ran]) -> None:
    ran = run("act", "delete", "mail", "--place", "finished", "--all", "--yes")
    assert ran.code == 2
    reason = "its jobs were seen in Pub/Sub events, and Redis does not store them."
    assert f"delete takes no job from finished: {reason}" in ran.err
    assert client.llen("crier:mail") == 4


def test_a_viewer_gets_the_channels(run: Callable[..., Ran]) -> None:
    line = run("acl", "viewer", "crier:mail").out
    assert "&crier.beat* &crier.began &crier.ended" in line
    assert "+psubscribe" in line and "+ping" in line


@pytest.mark.slow
def test_a_watch_listens_and_shows_since_when(client: Redis, program: Callable[..., subprocess.Popen[bytes]]) -> None:
    watching = program("snapshot", "--watch", "0.1", "--json")
    wait_until(lambda: listens(client), what="its patterns")
    publish_end(client, "mail", "a", "b")
    publish_end(client, "mail", "c", error="boom")
    assert watching.stdout is not None
    found: dict[str, dict[str, Any]] = {}
    for line in watching.stdout:
        found = places(json.loads(line))
        if found["failed"]["count"]:
            break
    assert [found[name]["count"] for name in ("waiting", "running", "finished", "failed")] == [1, 0, 2, 1]
    assert found["failed"]["exact"] and found["failed"]["heard_since_at_ms"] > 0


@pytest.mark.slow
def test_served_metrics_listen_from_the_first_scrape_on(
    client: Redis, program: Callable[..., subprocess.Popen[bytes]]
) -> None:
    serving = program("metrics", "--listen", "127.0.0.1:0")
    assert serving.stderr is not None
    lines: list[bytes] = []
    threading.Thread(target=lambda: lines.extend(serving.stderr or ()), daemon=True).start()
    at = wait_until(lambda: next((each for each in lines if b"/metrics" in each), b""), what="its address")
    address = next(word for word in at.decode().split() if word.startswith("http"))

    def scraped() -> str:
        with urllib.request.urlopen(address) as answer:
            text: str = answer.read().decode()
            return text

    assert 'place="waiting"' in scraped()
    wait_until(lambda: listens(client), what="its patterns")
    publish_end(client, "mail", "a", error="boom")
    wanted = 'rqtui_jobs{layout="crier",queue="mail",place="failed",state="dead"} 1'
    wait_until(lambda: wanted in scraped(), what="what it heard")
