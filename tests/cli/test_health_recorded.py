"""`rqtui health` with the last minutes from a recording, for a system that stores no history."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from recordings import PLACES, QUEUE, build_period, build_server_period, open_writer
from redis import Redis
from shell import shell

from rqtui.model import Ref
from rqtui.recording.files import find_recording_path
from rqtui.recording.records import MINUTE_MS, RecordedFinding
from rqtui.recording.store import Batch

CELERY = Ref("celery", "celery")
JOBS = 600


@pytest.fixture
def celery(client: Redis) -> None:
    client.rpush("celery", *[b"{}"] * JOBS)
    client.sadd("_kombu.binding.celery", "celery\x06\x16\x06\x16celery")


def write_recording(state_folder: Path, url: str, ended_ms_ago: int) -> int:
    """Record six minutes in which the queue grew by 100 jobs each, up to a time ago. Returns the start of the first."""
    end_ms = int(time.time() * 1000) - ended_ms_ago
    begin_ms = end_ms - end_ms % MINUTE_MS - 5 * MINUTE_MS
    periods = []
    for number in range(6):
        at_ms = begin_ms + number * MINUTE_MS
        until_ms = min(at_ms + MINUTE_MS, end_ms)
        periods.append(
            build_period(
                at_ms, ref=CELERY, end_ms=until_ms, watched_ms=until_ms - at_ms, enqueued=100, completed=0, failed=0,
                died=0, counts=(0, 100 * (number + 1), 0, 0, 0),
            )
        )  # fmt: skip
    finding = RecordedFinding(CELERY, "backlog-grows", "warning", "grows", "", 0, begin_ms, end_ms)
    queue = QUEUE._replace(ref=CELERY, counted=(), places=PLACES)
    server = [build_server_period(period.at_ms) for period in periods]
    with open_writer(
        find_recording_path(state_folder, url), Batch({CELERY: queue}, periods, server, findings=[finding])
    ):
        pass
    return begin_ms


@pytest.mark.usefixtures("celery")
def test_growth_is_known_from_a_recorder_that_runs_with_its_begin(url: str, state_folder: Path) -> None:
    without = shell(url, "health", "celery:celery", "--json").json
    assert "growth" in [fact for one in without["unknown"] for fact in one["what"]]
    assert "backlog-grows" not in {finding["kind"] for finding in without["findings"]}
    begin_ms = write_recording(state_folder, url, ended_ms_ago=500)
    document = shell(url, "health", "celery:celery", "--json").json
    (grows,) = [finding for finding in document["findings"] if finding["kind"] == "backlog-grows"]
    assert grows["since_at_ms"] == begin_ms
    assert "growth" not in [fact for one in document["unknown"] for fact in one["what"]]


@pytest.mark.usefixtures("celery")
def test_a_recorder_that_ended_or_a_damaged_file_changes_nothing(url: str, state_folder: Path) -> None:
    without = shell(url, "health", "celery:celery")
    write_recording(state_folder, url, ended_ms_ago=10 * MINUTE_MS)
    assert shell(url, "health", "celery:celery").out == without.out
    path = find_recording_path(state_folder, url)
    path.write_text("queue,count\n" * 1000)
    damaged = shell(url, "health", "celery:celery")
    assert (damaged.out, damaged.code) == (without.out, without.code) and "is no recording of rqtui" in damaged.err
