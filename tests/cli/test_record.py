"""`rqtui record`: its file has what was in the queues, Redis stays unchanged, and every bad start is a sentence."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from fleet import Fleet, Server
from redis import Redis
from shell import shell, start_process
from waiting import wait_until

from rqtui.client.queue import Queue
from rqtui.config.state_folder import find_state_folder
from rqtui.errors import RecordingError
from rqtui.model import Ref
from rqtui.recording.files import find_recording_path
from rqtui.recording.records import Period, RecordedFinding
from rqtui.recording.store import Batch, Reader, Writer
from rqtui.testing import keyspace

PATIENCE_S = 60.0
MAIL = Ref("native", "mail")
FOREVER = 10**15


@pytest.fixture
def mail(client: Redis) -> Iterator[Queue]:
    with Queue("mail", client) as queue:
        queue.put(1)
        queue.put(2)
        yield queue


def read_recording(url: str) -> tuple[list[Period], list[RecordedFinding]]:
    """Return the recorded periods of the queue and all findings; nothing if there is no recording yet."""
    try:
        with Reader.open(find_recording_path(find_state_folder(), url)) as reader:
            return reader.read_periods(MAIL, 0, FOREVER), reader.read_findings(0, FOREVER)
    except RecordingError:
        return [], []


def count_enqueued(url: str) -> int:
    return sum(period.enqueued for period in read_recording(url)[0])


def count_polls(url: str) -> int:
    return sum(period.polls for period in read_recording(url)[0])


def list_kinds(url: str) -> set[str]:
    return {finding.kind for finding in read_recording(url)[1] if finding.ref == MAIL}


@contextmanager
def start_recording(url: str, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start `rqtui record`, wait until it has recorded, and kill it at the end of the block if it still runs."""
    earlier = count_polls(url)
    process = start_process(url, "record", "--every", "0.25", *options)
    try:
        wait_until(lambda: count_polls(url) > earlier + 1, PATIENCE_S, "the first records")
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_activity_of_a_queue_is_recorded_and_redis_stays_unchanged(mail: Queue, url: str, client: Redis) -> None:
    with start_recording(url) as process:
        before = keyspace.dump_raw_values(client)
        polls = count_polls(url)
        wait_until(lambda: count_polls(url) > polls + 3, PATIENCE_S, "more polls")
        assert keyspace.dump_raw_values(client) == before
        mail.put(3)
        wait_until(lambda: count_enqueued(url) == 1, PATIENCE_S, "the new job")
        wait_until(lambda: list_kinds(url) == {"no-live-worker"}, PATIENCE_S, "the finding")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    periods, _findings = read_recording(url)
    assert sum(periods[-1].counts[:2]) == 3  # type: ignore[arg-type]
    assert periods[-1].workers == 0 and periods[-1].severity == "warning"
    status = shell(url, "record", "--status", "--json").json
    assert status["path"] == str(find_recording_path(find_state_folder(), url))
    assert (status["url"], status["format"], status["queues"]) == (url, 1, 1)
    assert status["begin_at_ms"] == periods[0].begin_ms and status["end_at_ms"] == periods[-1].end_ms
    text = shell(url, "record", "--status").out
    assert status["path"] in text and "queues    1\n" in text


@pytest.mark.slow
def test_a_killed_recorder_loses_nothing_and_the_next_one_continues(mail: Queue, url: str) -> None:
    with start_recording(url) as process:
        mail.put(3)
        wait_until(lambda: count_enqueued(url) == 1, PATIENCE_S, "the new job")
        process.kill()
        process.wait(PATIENCE_S)
    assert count_enqueued(url) == 1
    with start_recording(url) as process:
        mail.put(4)
        wait_until(lambda: count_enqueued(url) == 2, PATIENCE_S, "the job after the restart")
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 130


@pytest.mark.slow
def test_two_recorders_of_the_same_redis_count_each_job_once(mail: Queue, url: str) -> None:
    with start_recording(url) as first, start_recording(url) as second:
        mail.put(3)
        wait_until(lambda: count_enqueued(url) == 1, PATIENCE_S, "the new job")
        for process in (first, second):
            process.send_signal(signal.SIGTERM)
        assert [process.wait(PATIENCE_S) for process in (first, second)] == [0, 0]
    assert count_enqueued(url) == 1


@pytest.mark.slow
def test_an_outage_of_redis_is_a_finding_of_the_server_with_its_end() -> None:
    with Fleet() as fleet:
        check_outage(fleet.start())


def check_outage(server: Server) -> None:
    with Queue("mail", server.url) as queue:
        queue.put(1)

    def list_outages() -> list[RecordedFinding]:
        return [finding for finding in read_recording(server.url)[1] if finding.kind == "redis-away"]

    with start_recording(server.url) as process:
        server.kill()
        wait_until(lambda: bool(list_outages()), PATIENCE_S, "the outage is recorded")
        assert list_outages()[0].end_ms is None
        server.start()
        wait_until(lambda: list_outages()[0].end_ms is not None, PATIENCE_S, "its end is recorded")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    assert "refused" in list_outages()[0].text and list_outages()[0].ref is None


def test_a_file_that_is_no_recording_ends_the_command_at_its_start(mail: Queue, url: str) -> None:
    path = find_recording_path(find_state_folder(), url)
    path.parent.mkdir(mode=0o700, parents=True)
    path.write_text("queue,count\n" * 1000)
    ran = shell(url, "record")
    assert ran.code == 1 and ran.out == "" and "is no recording of rqtui, or is damaged" in ran.err
    assert path.read_text() == "queue,count\n" * 1000
    assert shell(url, "record", "--status").code == 1


def test_one_refresh_is_recorded_with_once(mail: Queue, url: str) -> None:
    status = shell(url, "record", "--once", "--json").json
    assert (status["queues"], status["begin_at_ms"]) == (1, status["end_at_ms"])
    (period,), findings = read_recording(url)
    assert period.polls == 1 and period.counts[1] == 2
    shell(url, "record", "--once")
    assert count_polls(url) == 2 and {finding.kind for finding in findings} <= {"no-live-worker"}


def test_a_recording_that_cannot_be_written_ends_once_with_the_reason(
    mail: Queue, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell(url, "record", "--once")

    def fail(_writer: Writer, _batch: Batch) -> None:
        raise RecordingError("the recording x cannot be written: the disk is full.")

    monkeypatch.setattr(Writer, "append", fail)
    ran = shell(url, "record", "--once")
    assert ran.code == 1 and ran.out == ""
    assert ran.err == "rqtui: Nothing is recorded: the recording x cannot be written: the disk is full.\n"


def test_a_span_is_exported_to_a_file_of_its_own(mail: Queue, url: str, tmp_path: Path) -> None:
    shell(url, "record", "--once")
    target = tmp_path / "incident.rqt"
    document = shell(url, "record", "--export", str(target), "--from", "1h", "--json").json
    assert document["path"] == str(target) and document["rows"]["period"] == 1
    with Reader.open(target) as reader:
        assert reader.read_periods(MAIL, 0, FOREVER) == read_recording(url)[0]
    again = shell(url, "record", "--export", str(target))
    assert again.code == 1 and "exists already; name a new file." in again.err
    ran = shell(url, "record", "--export", str(tmp_path / "b.rqt"))
    assert ran.code == 0 and str(tmp_path / "b.rqt") in ran.out and "names of queues and hosts" in ran.err
    ran = shell(url, "record", "--export", str(tmp_path / "c.rqt"), "--to", "2025-01-01T00:00Z")
    assert ran.code == 1 and "nothing is recorded in this time" in ran.err and not (tmp_path / "c.rqt").exists()


def test_without_a_recording_the_status_reports_it(url: str) -> None:
    ran = shell(url, "record", "--status")
    assert ran.code == 1 and "there is no recording" in ran.err and ".rqt" in ran.err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--every", "0"), "--every is a number of seconds between 0.25 and 60."),
        (("--every", "nan"), "--every is a number of seconds between 0.25 and 60."),
        (("mail",), '"mail" is not a URL'),
        (("redis://a", "--url", "redis://b"), "name the Redis once"),
        (("--json",), "--json goes with --status, --once or --export"),
        (("nonsense://a",), "nonsense"),
        (("--from", "1h"), "--from and --to go with --export."),
        (("--export", "x.rqt", "--from", "1h", "--to", "2h"), "--from is a time before --to."),
        (("--export", "x.rqt", "--from", "soon"), "--from cannot be 'soon'"),
    ],
)
def test_a_wrong_command_line_is_refused_before_anything_is_written(
    url: str, words: tuple[str, ...], sentence: str
) -> None:
    ran = shell(url, "record", *words)
    assert ran.code == 2 and sentence in ran.err and ran.out == ""
    assert not list(Path(find_state_folder()).glob("recordings/*"))


def format_last_refresh(url: str) -> str:
    """Return the last recorded refresh as a time for `--at`."""
    at_ms = shell(url, "record", "--status", "--json").json["end_at_ms"] + 0.5
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat()


def test_jobs_are_recorded_with_the_option_and_listed_at_a_moment(mail: Queue, url: str, tmp_path: Path) -> None:
    mail.put({"to": "ada", "password": "hunter2"}, name="welcome")
    assert shell(url, "record", "--once", "--jobs", "20").code == 0
    at = ("--at", format_last_refresh(url))
    listed = shell(url, "jobs", "mail", "ready", *at, "--json").json
    assert (listed["place"], listed["total"], listed["exact"], listed["next"]) == ("ready", 3, True, None)
    live = shell(url, "jobs", "mail", "ready", "--json").json
    for recorded_job, job in zip(listed["jobs"], live["jobs"], strict=True):
        assert recorded_job.keys() == job.keys()
        assert recorded_job == {**job, "token": None}
    assert listed["page_at_ms"] <= listed["recorded"]["at_ms"]
    text = shell(url, "jobs", "mail", *at)
    assert "welcome" in text.out and "ready:" in text.out and "3 of 3 in ready, at " in text.err
    places = shell(url, "jobs", "mail", *at, "--json").json["places"]
    assert [(place["place"], place["jobs"]) for place in places if place["place"] != "ready"] == [
        (name, []) for name in ("scheduled", "reserved", "done", "dead")
    ]
    assert len(shell(url, "jobs", "mail", "ready", *at, "--filter", "job:welcome", "--json").json["jobs"]) == 1
    assert len(shell(url, "jobs", "mail", "ready", *at, "--limit", "2", "--json").json["jobs"]) == 2
    with Reader.open(find_recording_path(find_state_folder(), url)) as reader:
        page = reader.read_job_page(MAIL, "ready", listed["page_at_ms"])
    assert page is not None and "welcome" in page.jobs and "hunter2" not in page.jobs
    with_jobs = shell(url, "record", "--export", str(tmp_path / "a.rqt"))
    assert "the first jobs of each place are in it too" in with_jobs.err
    without = shell(url, "record", "--export", str(tmp_path / "b.rqt"), "--jobs", "0", "--json")
    assert without.code == 0 and "job_page" not in without.json["rows"]


def test_jobs_are_not_recorded_without_the_option(mail: Queue, url: str) -> None:
    assert shell(url, "record", "--once").code == 0
    listed = shell(url, "jobs", "mail", "ready", "--at", format_last_refresh(url), "--json").json
    assert (listed["jobs"], listed["total"], listed["page_at_ms"]) == (None, 2, None)
    text = shell(url, "jobs", "mail", "--at", format_last_refresh(url))
    assert text.code == 0 and "ready of mail: The number of jobs is recorded; the jobs are not." in text.err


@pytest.mark.slow
def test_a_running_recorder_reads_the_jobs_of_each_minute(mail: Queue, url: str) -> None:
    def list_recorded_jobs() -> list[object]:
        ran = shell(url, "jobs", "mail", "ready", "--at", format_last_refresh(url), "--json")
        return ran.json["jobs"] or [] if not ran.code else []

    with start_recording(url, "--jobs", "1"):
        wait_until(lambda: len(list_recorded_jobs()) == 1, PATIENCE_S, "a page of one job")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("record", "--jobs", "101"), "--jobs is a whole number from 0 to 100"),
        (("record", "--jobs", "-1"), "--jobs is a whole number from 0 to 100"),
        (("record", "--status", "--jobs", "5"), "--jobs goes with recording, not with --status"),
        (("record", "--export", "a.rqt", "--jobs", "5"), "with --jobs 0 none of them"),
        (("jobs", "mail", "ready", "--at", "1h", "--cursor", "5"), "name one of them"),
    ],
)
def test_a_wrong_use_of_the_option_is_a_sentence(url: str, words: tuple[str, ...], sentence: str) -> None:
    ran = shell(url, *words)
    assert ran.code == 2 and sentence in ran.err


def test_damaged_jobs_and_an_unknown_place_are_sentences(mail: Queue, url: str) -> None:
    assert shell(url, "record", "--once", "--jobs", "5").code == 0
    assert 'mail had no place "nowhere"' in shell(url, "jobs", "mail", "nowhere", "--at", format_last_refresh(url)).err
    with closing(sqlite3.connect(find_recording_path(find_state_folder(), url))) as connection, connection:
        connection.execute("UPDATE job_page SET jobs = '[{'")
    ran = shell(url, "jobs", "mail", "--at", format_last_refresh(url))
    assert ran.code == 1 and "cannot be read: the file is damaged" in ran.err and "Traceback" not in ran.err
