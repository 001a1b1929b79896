"""`rqtui stats` of a system that counts nothing itself: from the recording, with the time that was recorded."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from recordings import MAIL, PLACES, QUEUE, build_period, build_server_period, open_writer
from redis import Redis
from shell import shell

from rqtui.client import Queue
from rqtui.engine.engine import Engine
from rqtui.errors import ServerError
from rqtui.model import Ref
from rqtui.operations.journal import Operation, to_document
from rqtui.recording.files import find_recording_path
from rqtui.recording.records import HOUR_MS, MINUTE_MS, RecordedChange, RecordedFinding
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


def write_days(state_folder: Path, url: str) -> int:
    """Record hours of four days with a gap of a day, a finding and a change; return the start of this hour."""
    hour_ms = int(time.time() * 1000) // HOUR_MS * HOUR_MS
    periods = [
        build_period(
            hour_ms - ago * HOUR_MS,
            span_ms=HOUR_MS,
            end_ms=hour_ms - (ago - 1) * HOUR_MS,
            watched_ms=HOUR_MS,
            completed=100,
            failed=7,
        )
        for ago in range(96, 2, -1)
        if not 24 < ago <= 48
    ]
    begin_ms = hour_ms - 60 * HOUR_MS
    finding = RecordedFinding(MAIL, "failing", "critical", "40 % of attempts fail", "", 9, begin_ms, begin_ms + 60_000)
    change = Operation(begin_ms + HOUR_MS, "ann@desk", "requeue", "mail", "native", answers={"requeued": 3})
    changes = [RecordedChange(change.at_ms, "1", to_document(change))]
    queue = QUEUE._replace(counted=("enqueued", "failed"))
    batch = Batch({MAIL: queue}, periods, findings=[finding], ended=[finding], changes=changes)
    with open_writer(find_recording_path(state_folder, url), batch):
        pass
    return hour_ms


def test_a_span_of_days_shows_recorded_hours_with_gaps_and_marks(client: Redis, url: str, state_folder: Path) -> None:
    shell(url, "put", "mail", "1")
    hour_ms = write_days(state_folder, url)
    [document] = shell(url, "stats", "mail", "--span", "7d", "--json").json
    assert document["span"]["step_ms"] == HOUR_MS and document["minutes"] is None
    assert document["span"]["end_at_ms"] - document["span"]["begin_at_ms"] == 7 * 24 * HOUR_MS
    assert len(document["steps"]) == 70 and document["steps"][-1]["at_ms"] == hour_ms - 3 * HOUR_MS
    assert {(step["out"], step["failed"], step["span_ms"]) for step in document["steps"]} == {(100, 7, HOUR_MS)}
    assert not [step for step in document["steps"] if 24 * HOUR_MS < hour_ms - step["at_ms"] <= 48 * HOUR_MS]
    assert document["recorded"]["watched_ms"] == 70 * HOUR_MS and document["recorded"]["estimated"] == ["out"]
    assert [mark["kind"] for mark in document["marks"]] == ["finding", "change"]
    lines = shell(url, "stats", "mail", "--span", "7d").out.splitlines()
    assert "last 7d" in lines[0] and "blank: unknown" in lines[0] and "2d of 7d watched; out: at least" in lines[1]
    assert " 7 000 " in lines[1] and " 490 " in lines[1] and "█ " in lines[1]
    assert lines[-2].strip().startswith("▲ ") and lines[-2].endswith("40 % of attempts fail")
    assert lines[-1].strip().startswith("◆ ") and lines[-1].endswith("requeue: 3 × requeued")


def test_a_span_without_a_recording_or_of_minutes_is_refused(client: Redis, url: str, state_folder: Path) -> None:
    shell(url, "put", "mail", "1")
    ran = shell(url, "stats", "mail", "--span", "7d")
    assert ran.code == 1 and "nothing is recorded of this Redis" in ran.err
    for span in ("5m", "9000d", "soon"):
        assert shell(url, "stats", "mail", "--span", span).code == 2
    assert "do not go together" in shell(url, "stats", "mail", "--span", "6h", "--minutes", "5").err
    write_recording(state_folder, url, 5)
    [document] = shell(url, "stats", "mail", "--span", "6h", "--json").json
    assert (document["steps"], document["marks"], document["recorded"], document["rates"]) == ([], [], None, None)
    assert (
        shell(url, "stats", "mail", "--span", "6h").out.splitlines()[-1].endswith("nothing was recorded in this time")
    )


def test_a_history_that_cannot_be_read_ends_the_command_for_one_queue_and_is_a_message_among_several(
    client: Redis, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for queue in ("mail", "news"):
        Queue(queue, client).put({})
    monkeypatch.setattr(
        Engine, "send_requests_isolated", lambda _self, requests: [ServerError("no right")] * len(requests)
    )
    ran = shell(url, "stats", "mail", "--json")
    assert (ran.code, ran.out) == (3, "") and "no right" in ran.err
    ran = shell(url, "stats", "mail", "news", "--json")
    assert [each["queue"] for each in ran.json] == ["mail", "news"] and "mail: no right" in ran.err
