"""Rebuild a past moment: its queues, findings and causes are those that were recorded, and gaps are named."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from recordings import MAIL, NOW_MS, QUEUE, build_minutes, build_period, open_writer

from rqtui.errors import RecordingError, UsageError
from rqtui.model import Ref, State
from rqtui.recording.moment import describe_moment, read_moment
from rqtui.recording.records import HOUR_MS, MINUTE_MS, ErrorCount, RecordedFinding
from rqtui.recording.store import Batch, Reader, Writer

OTHER = Ref("rq", "mail")
AT_MS = NOW_MS + MINUTE_MS + 20_000


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    """Record three minutes of two queues: a finding in the second, another one in the third."""
    findings = [
        RecordedFinding(MAIL, "paused", "warning", "paused", "", 0, NOW_MS, AT_MS + 100, AT_MS + 100),
        RecordedFinding(MAIL, "failing", "critical", "40 % fail", "mostly x", 4, NOW_MS, AT_MS + 5),
        RecordedFinding(MAIL, "later", "critical", "later", "", 0, AT_MS + 1, AT_MS + 50),
        RecordedFinding(None, "memory", "critical", "full", "", 0, NOW_MS, AT_MS - 6_000),
        RecordedFinding(None, "no-persistence", "warning", "ended", "", 0, NOW_MS, AT_MS - 6_000, AT_MS - 6_000),
        RecordedFinding(None, "eviction", "warning", "long ago", "", 0, NOW_MS, AT_MS - 8_000),
    ]
    busy = build_period(NOW_MS + MINUTE_MS, watched_ms=120_000, counts=(1, 2, None, 4, 5), estimated=2, is_paused=True)
    errors = [ErrorCount(MAIL, NOW_MS + MINUTE_MS, "x", 3), ErrorCount(MAIL, NOW_MS, "y", 3)]
    batches = (
        build_minutes(NOW_MS, 3, MAIL, OTHER),
        Batch({MAIL: QUEUE}, [busy], (), findings, findings[:1], errors),
    )
    with open_writer(tmp_path / "a.rqt", *batches):
        pass
    with Reader.open(tmp_path / "a.rqt") as opened:
        yield opened


def test_a_moment_has_the_counts_of_its_minute_and_the_findings_of_the_moment(reader: Reader) -> None:
    moment = read_moment(reader, AT_MS)
    mail, other = moment.snapshot.queues
    assert (mail.name, mail.system, other.system) == ("mail", "native", "rq")
    assert mail.map_counts_by_place() == {"scheduled": 1, "ready": 2, "reserved": 0, "done": 4, "dead": 5}
    assert [count.is_count_known for count in mail.counts] == [True, True, False, True, True]
    assert not mail.has_exact_counts(State.READY) and mail.is_paused and mail.workers == 2
    assert [(one.kind, one.since_ms) for one in mail.findings] == [("failing", NOW_MS), ("paused", NOW_MS)]
    assert mail.verdict[:2] == ("critical", "40 % fail · 1 more") and other.verdict.severity == "ok"
    assert [one.kind for one in moment.server_findings] == ["memory"]
    assert [(one.cause, one.jobs) for one in moment.causes] == [("x", 3)]
    assert moment.snapshot.rates[MAIL].in_s == 6 / 120
    assert moment.snapshot.taken_ms == NOW_MS + 2 * MINUTE_MS and moment.begin_ms == NOW_MS + MINUTE_MS
    assert "the last refresh of that minute" in describe_moment(moment)


def test_queues_are_named_as_on_the_command_line(reader: Reader) -> None:
    assert [queue.system for queue in read_moment(reader, AT_MS, ["rq:mail"]).snapshot.queues] == ["rq"]
    with pytest.raises(UsageError, match="write native:mail or rq:mail"):
        read_moment(reader, AT_MS, ["mail"])
    with pytest.raises(UsageError, match='no queue "other" was recorded then'):
        read_moment(reader, AT_MS, ["other"])


@pytest.mark.parametrize("at_ms", [NOW_MS - 1, NOW_MS + 3 * MINUTE_MS])
def test_a_moment_that_was_not_recorded_names_what_is(reader: Reader, at_ms: int) -> None:
    with pytest.raises(RecordingError, match="nothing is recorded at .* it covers .* to .*, perhaps with gaps"):
        read_moment(reader, at_ms)


def test_a_queue_of_the_hour_before_that_was_not_recorded_then_is_named(tmp_path: Path) -> None:
    with open_writer(tmp_path / "d.rqt", build_minutes(NOW_MS, 70, MAIL), build_minutes(NOW_MS, 1, OTHER)):
        pass
    with Reader.open(tmp_path / "d.rqt") as opened:
        moment = read_moment(opened, NOW_MS + 59 * MINUTE_MS)
        assert moment.unrecorded == (OTHER,) and [queue.system for queue in moment.snapshot.queues] == ["native"]
        assert describe_moment(moment).endswith("Not recorded then, but in the hour before: rq:mail.")
        assert read_moment(opened, NOW_MS).unrecorded == ()
        assert read_moment(opened, NOW_MS + 62 * MINUTE_MS).unrecorded == (), "older than an hour"
        assert read_moment(opened, NOW_MS + 59 * MINUTE_MS, ["mail"]).unrecorded == (), "only one queue was asked for"


def test_a_moment_of_a_merged_hour_has_the_end_of_the_hour(tmp_path: Path) -> None:
    with open_writer(tmp_path / "b.rqt", build_minutes(NOW_MS - HOUR_MS, 60)) as writer:
        assert writer.merge_oldest_hour(NOW_MS)
    with Reader.open(tmp_path / "b.rqt") as opened:
        moment = read_moment(opened, NOW_MS - 10 * MINUTE_MS)
    assert (moment.begin_ms, moment.span_ms, moment.snapshot.taken_ms) == (NOW_MS - HOUR_MS, HOUR_MS, NOW_MS)
    assert "of that hour" in describe_moment(moment)


def test_an_empty_recording_reports_it(tmp_path: Path) -> None:
    Writer.open(tmp_path / "c.rqt").close()
    with Reader.open(tmp_path / "c.rqt") as opened, pytest.raises(RecordingError, match="it is empty"):
        read_moment(opened, NOW_MS)
