"""`rqtui stats` of a system that counts nothing itself: from the recording, with the time that was recorded."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from recordings import PLACES, QUEUE, build_period, build_server_period, open_writer
from redis import Redis
from shell import shell

from rqtui.model import Ref
from rqtui.recording.files import find_recording_path
from rqtui.recording.records import MINUTE_MS
from rqtui.recording.store import Batch

CELERY = Ref("celery", "celery")


@pytest.fixture
def celery(client: Redis) -> None:
    client.rpush("celery", b"{}", b"{}")
    client.sadd("_kombu.binding.celery", "celery\x06\x16\x06\x16celery")


def write_recording(state_folder: Path, url: str, minutes: int) -> int:
    """Record the last complete minutes of the queue of Celery, and return the start of the first."""
    now_ms = int(time.time() * 1000)
    begin_ms = now_ms - now_ms % MINUTE_MS - minutes * MINUTE_MS
    periods = [
        build_period(begin_ms + number * MINUTE_MS, ref=CELERY, counts=(0, 7, 1, 0, 0), completed=number)
        for number in range(minutes)
    ]
    server = [build_server_period(period.at_ms) for period in periods]
    queue = QUEUE._replace(ref=CELERY, counted=("enqueued",), places=PLACES)
    with open_writer(find_recording_path(state_folder, url), Batch({CELERY: queue}, periods, server)):
        pass
    return begin_ms


@pytest.mark.usefixtures("celery")
def test_the_recorded_minutes_are_shown_with_the_time_that_was_watched(url: str, state_folder: Path) -> None:
    begin_ms = write_recording(state_folder, url, 5)
    [document] = shell(url, "stats", "celery:celery", "--json").json
    assert document["recorded"] == {
        "begin_at_ms": begin_ms,
        "end_at_ms": begin_ms + 5 * MINUTE_MS,
        "watched_ms": 5 * MINUTE_MS,
        "estimated": ["out", "failed"],
    }
    assert [row["out"] for row in document["minutes"]] == [0, 1, 2, 3, 4]
    assert {row["depth"] for row in document["minutes"]} == {8} and document["waiting"] == 2
    assert document["rates"] == {"in_s": 30 / 300, "out_s": 10 / 300, "failed_s": 10 / 300}
    line = shell(url, "stats", "celery:celery").out.splitlines()[-1]
    assert "recorded " in line and line.endswith("5m00 watched; out, failed: at least")


@pytest.mark.usefixtures("celery")
def test_without_a_recording_or_with_a_damaged_one_nothing_is_known(url: str, state_folder: Path) -> None:
    for damage in (False, True):
        if damage:
            path = find_recording_path(state_folder, url)
            path.parent.mkdir(mode=0o700, parents=True)
            path.write_text("queue,count\n" * 1000)
        ran = shell(url, "stats", "celery:celery")
        assert ran.code == 0 and ran.out.rstrip().endswith("counts nothing")
        assert ("is no recording of rqtui" in ran.err) is damage
        [document] = shell(url, "stats", "celery:celery", "--json").json
        assert (document["recorded"], document["minutes"]) == (None, None)


def test_a_system_with_counters_of_its_own_needs_no_recording(client: Redis, url: str, state_folder: Path) -> None:
    shell(url, "put", "mail", "1")
    write_recording(state_folder, url, 5)
    [document] = shell(url, "stats", "mail", "--json").json
    assert document["recorded"] is None and document["totals"]["enqueued"] == 1
