"""Parse points in time of the past, and open the recording of a Redis."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path

import pytest
from recordings import MAIL, build_minutes, open_writer
from shell import shell

from rqtui.cli.past import parse_past_time
from rqtui.errors import UsageError
from rqtui.model import Ref
from rqtui.recording.files import find_recording_path
from rqtui.recording.records import ErrorCount, RecordedFinding

PAST_MS = 1_764_000_000_000  # 2025-11-24T16:00Z


def test_a_time_has_a_zone_or_is_local_and_a_duration_is_ago() -> None:
    at_ms = 1_764_000_000_000
    moment = datetime.fromtimestamp(at_ms / 1000)
    assert parse_past_time(moment.isoformat(), "--at") == at_ms
    assert parse_past_time("2025-11-24T16:00Z", "--at") == at_ms == parse_past_time("2025-11-24 17:00+01:00", "--at")
    now_ms = time.time() * 1000
    assert now_ms - 7_200_000 <= parse_past_time("2h", "--at") + 1 <= time.time() * 1000 - 7_200_000 + 2


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("yesterday", "--at cannot be 'yesterday'"),
        ("2025-13-01", '"2025-13-01" is no time; write 2026-11-27T12:30'),
        ("12:30", '"12:30" is no time'),
        ("2200-01-01T00:00Z", "is in the future"),
        ("1960-01-01T00:00Z", "lies between 1970 and 2255"),
        ("-5m", "is no time"),
        ("", "--at cannot be ''"),
    ],
)
def test_a_value_that_is_no_time_of_the_past_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence.replace("(", r"\(")):
        parse_past_time(text, "--at")


@pytest.fixture
def recorded(state_folder: Path) -> str:
    """Record a minute of a queue that fails, and return the URL of a Redis that is away."""
    url = "redis://127.0.0.1:1"
    finding = RecordedFinding(MAIL, "failing", "critical", "40 % of attempts fail", "", 4, PAST_MS, PAST_MS + 9_000)
    batch = build_minutes(PAST_MS, 2)._replace(findings=[finding], errors=[ErrorCount(MAIL, PAST_MS, "token=abc", 3)])
    with open_writer(find_recording_path(state_folder, url), batch):
        pass
    return url


AT = ("--at", "2025-11-24T16:00:05Z")


def test_the_past_is_shown_while_redis_is_away(recorded: str) -> None:
    ran = shell(recorded, "snapshot", *AT, "--json")
    assert ran.code == 0 and "from the recording" in ran.err
    assert ran.json["recorded"] == {"at_ms": PAST_MS + 5_000, "minute_at_ms": PAST_MS, "span_ms": 60_000}
    [queue] = ran.json["queues"]
    assert [place["count"] for place in queue["places"]] == [0, 3, None, 0, 7] and queue["workers"] == 2
    assert queue["verdict"] == {"severity": "critical", "text": "40 % of attempts fail"}
    text = shell(recorded, "snapshot", *AT).out
    assert "mail" in text and "40 % of attempts fail" in text
    health = shell(recorded, "health", "mail", *AT, "--json")
    assert health.code == 2 and health.json["severity"] == "critical"
    assert [one["since_at_ms"] for one in health.json["findings"]] == [PAST_MS]
    lines = shell(recorded, "health", *AT).out.splitlines()
    assert lines[0] == "critical" and lines[1].startswith("critical  mail: 40 % of attempts fail")
    errors = shell(recorded, "errors", *AT, "--json").json["errors"]
    assert [(one["cause"], one["jobs"], one["queue"]) for one in errors] == [("token=••••••••", 3, "mail")]
    assert "token=••••••••" in shell(recorded, "errors", *AT).out


def test_a_later_moment_without_findings_is_fine_and_one_without_records_is_refused(recorded: str) -> None:
    later = ("--at", "2025-11-24T16:01:30Z")
    assert shell(recorded, "health", *later).out == "ok\n"
    assert "no finding named a cause" in shell(recorded, "errors", *later).out
    for command, code in (("snapshot", 1), ("health", 3), ("errors", 1)):
        ran = shell(recorded, command, "--at", "2025-11-24T18:00Z")
        assert ran.code == code and "nothing is recorded at 2025-11-24" in ran.err, command
        assert shell("redis://127.0.0.1:2", command, *AT).code == code, "another Redis has no recording"


def test_the_health_of_a_queue_that_was_not_recorded_then_is_unknown(state_folder: Path) -> None:
    url = "redis://127.0.0.1:1"
    batches = build_minutes(PAST_MS, 2), build_minutes(PAST_MS, 1, Ref("rq", "bulk"))
    with open_writer(find_recording_path(state_folder, url), *batches):
        pass
    later = ("--at", "2025-11-24T16:01:30Z")
    ran = shell(url, "health", *later, "--json")
    assert ran.code == 3 and ran.json["severity"] == "unknown" and "in the hour before: rq:bulk" in ran.err
    assert [(one["queue"], one["what"]) for one in ran.json["unknown"]] == [("bulk", ["not recorded at this time"])]
    assert shell(url, "health", "mail", *later).code == 0
    assert shell(url, "health", *AT).code == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("snapshot", "--watch", "1"), "--watch shows the present, and --at the past"),
        (("errors", "--by", "class"), "--by does not go with --at"),
        (("snapshot", "other"), 'no queue "other" was recorded then'),
    ],
)
def test_options_that_do_not_apply_to_the_past_are_refused(
    recorded: str, words: tuple[str, ...], sentence: str
) -> None:
    ran = shell(recorded, *words, *AT)
    assert ran.code == 2 and sentence in ran.err


def test_the_incident_page_of_the_past_has_what_was_recorded(recorded: str) -> None:
    lines = shell(recorded, "incident", "mail", *AT).out.splitlines()
    assert "ready 3" in lines[0] and lines[0].endswith("dead 7")
    assert any(line.startswith("  critical  40 % of attempts fail") for line in lines)
    assert "        3  token=••••••••" in lines and "  2 workers; their names are not recorded" in lines
    assert lines[-1] == "  rqtui incident mail: the same page about now"
    document = shell(recorded, "incident", "mail", *AT, "--json").json
    assert document["causes"] == [{"cause": "token=••••••••", "jobs": 3}] and document["errors"] is None
    assert document["recorded"]["at_ms"] == PAST_MS + 5_000 == document["taken_at_ms"]
    assert shell(recorded, "incident", "other", *AT).code == 2
    named = shell(recorded, "incident", "mail", "--finding", "failing", *AT, "--json").json
    assert [finding["kind"] for finding in named["findings"]] == ["failing"]
    ran = shell(recorded, "incident", "mail", "--finding", "paused", *AT)
    assert ran.code == 2 and "has no finding 'paused'; its findings: failing." in ran.err


def test_the_metrics_of_the_past_are_printed_and_not_served(recorded: str) -> None:
    lines = shell(recorded, "metrics", *AT).out.splitlines()
    assert [line for line in lines if line.startswith("rqtui_jobs{") and 'place="dead"' in line][0].endswith(" 7")
    assert not any(line.startswith("rqtui_up") for line in lines)
    ran = shell(recorded, "metrics", *AT, "--listen", "9753")
    assert ran.code == 2 and "name one of them" in ran.err
