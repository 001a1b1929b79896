"""Record the first jobs of a place: no secret is stored, pages are bounded, and what is read is what was stored."""

from __future__ import annotations

import base64
import json
import pickle
import random
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgpack
import pytest
from recordings import END_MS, MAIL, NOW_MS, QUEUE, build_minutes, open_writer

from rqtui.engine.rates import Totals
from rqtui.errors import RecordingError
from rqtui.model import Count, Job, Page, PageRecord, PageSelection, Queue, Snapshot, State
from rqtui.recording import store
from rqtui.recording.export import export_recording
from rqtui.recording.job_pages import (
    MAX_PAGE_BYTES,
    NOT_RECORDED,
    PREVIEW_BYTES,
    build_recorded_documents,
    build_recorded_page,
    parse_recorded_jobs,
    read_recorded_page,
)
from rqtui.recording.page_collector import MAX_PAGES_PER_REFRESH, PageCollector
from rqtui.recording.recorder import Recorder
from rqtui.recording.records import HOUR_MS, MINUTE_MS, RecordedPage
from rqtui.recording.store import DAY_MS, Batch, Limits, Reader, Writer
from rqtui.systems.registry import create_system
from rqtui.text.masking import MASK, reveal_secrets

SECRET = "hunter2"


def build_job(id: bytes = b"a1", **values: object) -> Job:
    """Build a dead job of the queue `mail`."""
    fields: dict[str, object] = {
        "id": id, "queue": "mail", "system": "native", "place": "dead", "state": State.DEAD, "member": id,
        "body": b'{"to": "ada"}', "body_bytes": 13,
    }  # fmt: skip
    return Job(**{**fields, **values})  # type: ignore[arg-type]


def build_page(*jobs: Job, total: int = 0, place: str = "dead", **values: object) -> Page:
    return Page("mail", "native", place, jobs, max(total, len(jobs)), **values)  # type: ignore[arg-type]


def record(*jobs: Job, total: int = 0, taken_ms: int = NOW_MS + 4_000, limit: int = 20) -> RecordedPage:
    return build_recorded_page(MAIL, build_page(*jobs, total=total), taken_ms, limit, is_exact=True)


def store_pages(path: Path, *pages: RecordedPage) -> None:
    with Writer.open(path) as writer:
        for page in pages:
            writer.append(Batch({MAIL: QUEUE}, pages=[page]))


def count_pages(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("SELECT count(*) FROM job_page").fetchone()[0])


def execute(path: Path, sql: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(sql)


def read_dead(path: Path, at_ms: int, number: int = 9) -> Page:
    """Read the recorded jobs of the place `dead` as a replay does."""
    with Reader.open(path) as reader:
        return read_recorded_page(reader, MAIL, Count("dead", State.DEAD, number), at_ms, at_ms - at_ms % MINUTE_MS)


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    """Create a recording of an hour without jobs, and return its path."""
    path = tmp_path / "recordings" / "a.rqt"
    with open_writer(path, build_minutes(NOW_MS, 60)):
        pass
    yield path


# -- a page ------------------------------------------------------------------------------------------------------------


def test_a_row_of_a_board_is_the_same_after_it_was_recorded(path: Path) -> None:
    job = build_job(
        b"\xff\x00", name="send_mail", call="send_mail('ada')", enqueued_ms=1, due_ms=2, reserved_ms=3, deadline_ms=4,
        since_ms=5, priority=-6, ttr_ms=7, attempts=8, max_attempts=9, worker="w-1", error="ValueError: no", problem="",
        is_cancelled=True,
    )  # fmt: skip
    store_pages(path, record(job, build_job(b"a2"), total=5_103))
    page = read_dead(path, NOW_MS + 30_000)
    assert page.record == PageRecord(NOW_MS + 4_000, 5_103) and page.total == 2
    first, second = page.jobs
    attributes = {name for name in Job.__slots__ if name not in ("facts", "member")}
    assert {name: getattr(first, name) for name in attributes} == {name: getattr(job, name) for name in attributes}
    assert (second.id, second.body, second.attempts, second.error) == (b"a2", b'{"to": "ada"}', 0, "")
    assert [(fact.name, fact.kind) for fact in first.facts] == [("recorded", "instant"), ("not recorded", "text")]
    assert first.facts[1].value == "the whole error, earlier attempts, other fields"


def test_the_token_of_a_lease_the_history_and_the_traceback_are_not_recorded() -> None:
    trace = 'Traceback (most recent call last):\n  File "secret_module.py", line 1, in f\nValueError: no\n'
    page = record(build_job(token=b"lease-1", error=trace, attempts_line=b"history"))
    assert "lease-1" not in page.jobs and "secret_module" not in page.jobs and "history" not in page.jobs
    assert json.loads(page.jobs)[0]["error"] == "ValueError: no"


BODIES = {
    "json": json.dumps({"user": {"password": SECRET}, "list": [{"api_key": [SECRET]}]}).encode(),
    "repeated key": b'{"a": {"password": "hunter2"}, "a": 1}',
    "text": b"login password=hunter2 now",
    "header": b'[["Authorization", "hunter2"]]',
    "msgpack": msgpack.packb({"token": SECRET, "n": 1}),
    "pickle": pickle.dumps({"password": SECRET}),
    "zlib": zlib.compress(pickle.dumps(("f", {"password": SECRET}))),
    "base64": json.dumps({"data": base64.b64encode(b'{"password": "hunter2"}').decode()}).encode(),
    "url": b'{"url": "redis://ann:hunter2@jobs-1:6379"}',
    "binary": b"\xff\xfe password hunter2 \x00\x01",
}
CUT_BODIES = {
    "json": b'{"user": {"password": "hunter2',
    "escaped name": b'{"pass\\u0077ord": "hunter2", "text": "and more of',
    "list": b'{"tokens": ["hunter2", "hunter2',
    "text": b"login password=hunter2 no",
    "binary": b"\xff\xfe password hunter2 \x00",
    "msgpack": msgpack.packb({"password": SECRET, "list": ["x"] * 9})[:-3],
    "base64": json.dumps({"data": base64.b64encode(b'{"password": "hunter2", "text": "and"}').decode()}).encode()[:-9],
}


@pytest.mark.parametrize("name", BODIES)
def test_a_secret_in_a_body_is_masked_even_if_secrets_are_revealed(name: str) -> None:
    body = BODIES[name]
    with reveal_secrets():
        page = record(build_job(body=body, body_bytes=len(body)), build_job(b"a2", body=None, member=body))
    assert SECRET not in page.jobs and base64.b64encode(SECRET.encode())[:6].decode() not in page.jobs


@pytest.mark.parametrize("name", CUT_BODIES)
def test_a_secret_in_the_part_of_a_long_body_is_masked(name: str) -> None:
    page = record(build_job(body=CUT_BODIES[name], body_bytes=90_000))
    assert SECRET not in page.jobs
    [document] = json.loads(page.jobs)
    assert document["body"]["bytes"] == 90_000 and document["body"]["encoding"] == "omitted"


def test_the_part_of_a_long_body_is_json_as_far_as_it_goes() -> None:
    page = record(build_job(body=b'{"to": "ada", "n": [1, 2.5, {"a": "b\\"c', body_bytes=9_000))
    assert json.loads(page.jobs)[0]["body"]["text"] == '{"to": "ada", "n": [1, 2.5, {"a": "b\\"c…"}]}'
    cut = record(build_job(body="zwölf".encode()[:3], body_bytes=9_000))
    assert json.loads(cut.jobs)[0]["body"]["text"] == "zw"
    [job] = parse_recorded_jobs(cut, State.DEAD)
    assert job.facts[1].value == "the whole body, the whole error, earlier attempts, other fields"


@pytest.mark.parametrize("field", ["name", "call", "worker", "error", "problem"])
def test_a_secret_in_another_text_is_masked(field: str) -> None:
    with reveal_secrets():
        page = record(build_job(**{field: f"Error: login(user='ann', password='{SECRET}') failed"}))
    assert SECRET not in page.jobs and MASK in page.jobs


def test_a_mask_is_applied_before_a_text_is_cut() -> None:
    for length in (470, 480, 485, 490, 495, 499):
        text = f"{'x' * length} password={SECRET}"
        page = record(build_job(error=f"E: {text}", call=f"f({text})", body=text.encode() * 2, body_bytes=9_000))
        assert "hunt" not in page.jobs


def test_a_page_is_bounded_in_jobs_texts_and_bytes() -> None:
    long_job = build_job(body=b"b" * 5_000, body_bytes=5_000, error="E: " + "e" * 5_000, call="c" * 5_000)
    page = record(*[long_job] * 30, limit=20)
    documents = json.loads(page.jobs)
    assert len(documents) == 20
    assert len(documents[0]["body"]["text"]) == PREVIEW_BYTES and len(documents[0]["call"]) == 500
    huge = [build_job(b"%05d" % number * 20_000) for number in range(5)]
    page = record(*huge, limit=100)
    assert len(page.jobs) <= MAX_PAGE_BYTES + 10 and len(json.loads(page.jobs)) == 2 and page.total == 5


def test_jobs_with_any_bytes_and_numbers_are_recorded() -> None:
    source = random.Random(1)
    texts = [b"\xed\xa0\x80", b'{"a": "\\ud800"}', b"\x1b[31m", *(source.randbytes(40) for _number in range(200))]
    for raw in texts:
        text = raw.decode("utf-8", "surrogateescape")
        job = build_job(
            raw, name=text, call=text, worker=text, error=text, body=raw, body_bytes=source.choice([len(raw), 9_000]),
            due_ms=10**18, since_ms=-5, priority=10**30,
        )  # fmt: skip
        page = record(job, job)
        first, _second = parse_recorded_jobs(page, State.DEAD)
        assert (first.id, first.due_ms, first.since_ms, first.priority) == (raw, 10**18, -5, 0)
        assert len(build_recorded_documents(page, (first, first))) == 2


def test_a_binary_body_that_can_be_read_is_shown_as_its_content_and_another_by_its_size(path: Path) -> None:
    packed, unknown = zlib.compress(pickle.dumps({"to": "ada"})), b"\xff\xfe\x00\x01"
    store_pages(
        path,
        record(build_job(body=packed, body_bytes=len(packed)), build_job(b"a2", body=unknown, body_bytes=len(unknown))),
    )
    first, second = read_dead(path, NOW_MS + 30_000).jobs
    assert first.body == b'{"to": "ada"}' and (second.body, second.body_bytes) == (None, 4)


def test_json_documents_have_the_members_of_live_ones() -> None:
    packed = msgpack.packb({"n": 1})
    jobs = [build_job(), build_job(b"a2", body=packed, body_bytes=len(packed)), build_job(b"a3", body_bytes=9_000)]
    page = record(*jobs, build_job(b"a4", body=None, body_bytes=0))
    parsed = parse_recorded_jobs(page, State.DEAD)
    documents = build_recorded_documents(page, parsed)
    assert [document["body"] for document in documents] == [
        {"bytes": 13, "encoding": "json", "value": {"to": "ada"}},
        {"bytes": len(packed), "encoding": "msgpack", "value": {"n": 1}},
        {"bytes": 9_000, "encoding": "omitted", "value": None, "preview": '{"to": "ada"}'},
        {"bytes": 0, "encoding": "utf-8", "value": ""},
    ]
    assert documents[0]["token"] is None and documents[0]["error"] is None and documents[0]["id"] == "a1"


@pytest.mark.parametrize(
    "jobs",
    [
        '[{"id": ', "7", '[{"id": 7}]', '[{"id": "a", "due_at_ms": "soon"}]', '[{"id": "a", "body": 7}]', "[7]",
        '[{"id": "a", "name": []}]', '[{"id": "ä", "id_encoding": "base64"}]', "[" * 50_000,
        json.dumps([{"id": "a"}] * 101), '[{"id": "a", "attempts": 1e400}]',
    ],
)  # fmt: skip
def test_damaged_jobs_are_a_sentence(path: Path, jobs: str) -> None:
    store_pages(path, record(build_job())._replace(jobs=jobs))
    page = read_dead(path, NOW_MS + 30_000)
    assert not page.jobs and page.error == "The recorded jobs of dead cannot be read: the file is damaged."


def test_a_damaged_body_is_a_sentence() -> None:
    page = record(build_job())
    damaged = page._replace(jobs=json.dumps([{"id": "a1", "body": {"bytes": 3, "encoding": "json", "text": "{"}}]))
    with pytest.raises(RecordingError, match="cannot be read: the file is damaged"):
        build_recorded_documents(damaged, parse_recorded_jobs(damaged, State.DEAD))


# -- the file ----------------------------------------------------------------------------------------------------------


def test_the_newest_page_until_the_moment_is_read_and_none_that_is_older_than_an_hour(path: Path) -> None:
    first, second = record(build_job(b"a1")), record(build_job(b"a2"), taken_ms=NOW_MS + 5 * MINUTE_MS + 9_000)
    store_pages(path, first, second)
    assert [job.id for job in read_dead(path, NOW_MS + 5 * MINUTE_MS + 8_999).jobs] == [b"a1"]
    assert [job.id for job in read_dead(path, NOW_MS + 5 * MINUTE_MS + 9_000).jobs] == [b"a2"]
    assert read_dead(path, NOW_MS + 3_999).error == NOT_RECORDED, "before the first page"
    assert read_dead(path, NOW_MS + 2 * HOUR_MS).error == NOT_RECORDED, "the page is too old"


def test_a_place_that_became_empty_has_no_jobs_and_no_error(path: Path) -> None:
    store_pages(path, record(build_job(b"a1")))
    assert len(read_dead(path, NOW_MS + 30_000, number=0).jobs) == 1, "the minute in which the job was read"
    page = read_dead(path, NOW_MS + MINUTE_MS + 30_000, number=0)
    assert not page.jobs and not page.error and page.record is None


def test_an_unchanged_page_is_written_again_only_after_a_while(path: Path) -> None:
    for minute in range(25):
        jobs = [build_job(b"a1")] if minute < 23 else [build_job(b"a1"), build_job(b"a2")]
        store_pages(path, record(*jobs, taken_ms=NOW_MS + minute * MINUTE_MS + 4_000, total=minute + 2))
    with closing(sqlite3.connect(path)) as connection:
        times = connection.execute("SELECT at_ms FROM job_page ORDER BY at_ms").fetchall()
    assert [(at_ms - NOW_MS) // MINUTE_MS for (at_ms,) in times] == [0, 10, 20, 23]


def test_two_writers_store_a_page_of_a_minute_once(path: Path) -> None:
    with Writer.open(path) as one, Writer.open(path) as other:
        one.append(Batch({MAIL: QUEUE}, pages=[record(build_job(b"a1"))]))
        other.append(Batch({MAIL: QUEUE}, pages=[record(build_job(b"a2"), taken_ms=NOW_MS + 50_000)]))
        other.append(Batch({MAIL: QUEUE}, pages=[record(build_job(b"a1"), taken_ms=NOW_MS + 61_000)]))
    assert count_pages(path) == 1
    assert [job.id for job in read_dead(path, NOW_MS + 59_000).jobs] == [b"a1"]


def test_a_file_without_the_table_is_read_and_gets_it_when_it_is_written(path: Path, tmp_path: Path) -> None:
    execute(path, "DROP TABLE job_page")
    assert read_dead(path, NOW_MS + 30_000).error == NOT_RECORDED
    with Reader.open(path) as reader:
        assert not reader.has_job_pages
        rows = export_recording(reader, tmp_path / "old.rqt", NOW_MS, END_MS).rows
    assert "job_page" not in rows and rows["period"] == 60
    with Reader.open(path) as reader:
        assert not reader.has_job_pages, "reading changed nothing"
    store_pages(path, record(build_job()))
    assert len(read_dead(path, NOW_MS + 30_000).jobs) == 1


def test_pages_older_than_two_days_are_deleted(path: Path) -> None:
    store_pages(path, record(build_job()), record(build_job(b"a2"), taken_ms=NOW_MS + HOUR_MS))
    with Writer.open(path) as writer:
        writer.trim(NOW_MS + 2 * DAY_MS + MINUTE_MS, Limits())
    assert count_pages(path) == 1


def test_pages_are_the_first_that_is_deleted_of_a_file_that_is_too_large(path: Path) -> None:
    source = random.Random(1)
    pages = [
        record(
            *(build_job(b"%d" % number, error=f"E: {source.randbytes(200).hex()}") for number in range(20)),
            taken_ms=NOW_MS + minute * MINUTE_MS,
        )
        for minute in range(60)
    ]
    store_pages(path, *pages)
    with Writer.open(path) as writer:
        before = writer.measure_bytes()
        while not writer.trim(NOW_MS + HOUR_MS, Limits(max_bytes=before // 2)):
            pass
        assert writer.measure_bytes() <= before // 2
        assert len(writer.read_periods(MAIL, 0, END_MS)) == 60, "no minute was merged or deleted"
    with closing(sqlite3.connect(path)) as connection:
        ((first_ms, number),) = connection.execute("SELECT min(at_ms), count(*) FROM job_page").fetchall()
    assert first_ms > NOW_MS and 0 < number < 40, "the newest pages stay"


def test_an_export_has_the_pages_of_its_span_and_those_valid_at_its_start(path: Path, tmp_path: Path) -> None:
    taken = {b"a1": 2, b"a2": 10, b"a3": 25, b"a4": 40}
    store_pages(path, *(record(build_job(id), taken_ms=NOW_MS + at * MINUTE_MS + 5_000) for id, at in taken.items()))
    span = NOW_MS + 20 * MINUTE_MS, NOW_MS + 30 * MINUTE_MS
    with Reader.open(path) as reader:
        assert export_recording(reader, tmp_path / "b.rqt", *span).rows["job_page"] == 2
        assert "job_page" not in export_recording(reader, tmp_path / "c.rqt", *span, has_job_pages=False).rows
    assert [job.id for job in read_dead(tmp_path / "b.rqt", NOW_MS + 21 * MINUTE_MS).jobs] == [b"a2"]
    assert [job.id for job in read_dead(tmp_path / "b.rqt", NOW_MS + 29 * MINUTE_MS).jobs] == [b"a3"]
    with closing(sqlite3.connect(tmp_path / "b.rqt")) as connection:
        times = connection.execute("SELECT at_ms FROM job_page ORDER BY at_ms").fetchall()
    assert times == [(NOW_MS + 10 * MINUTE_MS,), (NOW_MS + 25 * MINUTE_MS,)]
    assert read_dead(tmp_path / "c.rqt", NOW_MS + 29 * MINUTE_MS).error == NOT_RECORDED


@pytest.mark.parametrize(
    "values",
    [
        "jobs = 7",
        "jobs = '[]'",
        "jobs = substr(jobs, 1, length(jobs) - 6)",
        f"jobs = x'{zlib.compress(b'[' + b' ' * 5_000_000 + b']').hex()}'",
        f"jobs = x'{zlib.compress(bytes([255])).hex()}'",
        "taken_ms = '1', total = 'many'",
    ],
)
def test_a_damaged_row_is_a_sentence(path: Path, values: str) -> None:
    store_pages(path, record(build_job()))
    execute(path, f"UPDATE job_page SET {values}")  # noqa: S608
    page = read_dead(path, NOW_MS + 30_000)
    assert not page.jobs and page.error == "The recorded jobs of dead cannot be read: the file is damaged."


def test_a_page_of_up_to_one_megabyte_is_decompressed() -> None:
    assert len(store._decompress(zlib.compress(bytes(1024 * 1024)))) == 1024 * 1024
    with pytest.raises(ValueError):
        store._decompress(zlib.compress(bytes(1024 * 1024 + 1)))


# -- which pages are recorded ------------------------------------------------------------------------------------------


def build_snapshot(at_ms: int, *pages: Page, ready: int = 3, dead: int = 0, **values: object) -> Snapshot:
    counts = (Count("ready", State.READY, ready), Count("dead", State.DEAD, dead))
    return Snapshot(at_ms, (Queue("mail", "native", counts, at_ms, **values),), pages)  # type: ignore[arg-type]


READY = PageSelection(MAIL, "ready", 0, 20, PREVIEW_BYTES)
SYSTEMS = {"native": create_system("native")}


def ready_page(*ids: bytes, **values: object) -> Page:
    return build_page(*(build_job(id, place="ready", state=State.READY) for id in ids), place="ready", **values)


def test_the_first_page_of_a_place_in_a_minute_is_recorded() -> None:
    collector = PageCollector(20)
    for second, ids in ((1, [b"a1"]), (3, [b"a2"]), (59, [b"a3"]), (61, [b"a4"])):
        collector.add_pages(build_snapshot(NOW_MS + second * 1_000, ready_page(*ids)), [READY])
        if second == 59:
            assert collector.has_pages
            assert [json.loads(page.jobs)[0]["id"] for page in collector.take_pages()] == ["a1"]
            assert not collector.has_pages
    [page] = collector.take_pages()
    assert json.loads(page.jobs)[0]["id"] == "a4" and page.at_ms == NOW_MS + MINUTE_MS


def test_an_unchanged_page_is_not_converted_again_for_a_while() -> None:
    collector, taken = PageCollector(1), []
    for minute in range(25):
        jobs = (b"a1", b"a2") if minute < 23 else (b"a3", b"a2")
        page = ready_page(*(jobs if minute % 2 else jobs[:1]))  # the second job is beyond the limit
        collector.add_pages(build_snapshot(NOW_MS + minute * MINUTE_MS, page), [READY])
        taken += [(page.at_ms - NOW_MS) // MINUTE_MS for page in collector.take_pages()]
    assert taken == [0, 10, 20, 23]


def test_pages_that_are_not_the_start_of_a_place_are_left_out() -> None:
    collector = PageCollector(20)
    for page, selection in (
        (ready_page(b"a1", offset=40, total=90), READY._replace(offset=40)),
        (ready_page(b"a1", total=90, next=1), READY),  # the head in the view of the loops
        (ready_page(error="wrong type"), READY._replace(place="dead")),
    ):
        collector.add_pages(build_snapshot(NOW_MS, page), [selection])
    assert not collector.take_pages()


def test_places_with_jobs_are_read_once_per_minute_and_empty_ones_never() -> None:
    collector = PageCollector(7)
    assert collector.choose_selections(build_snapshot(NOW_MS), SYSTEMS) == (READY._replace(limit=7),)
    both = collector.choose_selections(build_snapshot(NOW_MS, dead=4), SYSTEMS)
    assert [(each.place, each.is_newest_first) for each in both] == [("ready", False), ("dead", True)]
    collector.add_pages(build_snapshot(NOW_MS + 2_000, ready_page(b"a1")), both[:1])
    assert not collector.choose_selections(build_snapshot(NOW_MS + 4_000), SYSTEMS)
    assert collector.choose_selections(build_snapshot(NOW_MS + 60_000), SYSTEMS) == both[:1]
    assert not collector.choose_selections(build_snapshot(NOW_MS + 60_000, error="wrong type"), SYSTEMS)


def test_a_refresh_reads_a_bounded_number_of_pages_and_each_place_has_its_turn() -> None:
    collector, seen = PageCollector(20), set()
    queues = tuple(Queue(f"q{number}", "native", (Count("ready", State.READY, 1),), NOW_MS) for number in range(250))
    for refresh in range(3):
        selections = collector.choose_selections(Snapshot(NOW_MS + refresh, queues), SYSTEMS)
        assert len(selections) <= MAX_PAGES_PER_REFRESH
        collector.add_pages(Snapshot(NOW_MS + refresh, queues, tuple(ready_page(b"a") for _ in selections)), selections)
        seen |= {selection.ref for selection in selections}
    assert len(seen) == 250 and not collector.choose_selections(Snapshot(NOW_MS + 4, queues), SYSTEMS)


def test_a_clock_that_is_set_back_does_not_stop_the_recording_of_jobs() -> None:
    collector = PageCollector(20)
    collector.add_pages(build_snapshot(NOW_MS, ready_page(b"a1")), [READY])
    assert collector.take_pages()
    collector.add_pages(build_snapshot(NOW_MS - HOUR_MS), [])
    assert collector.choose_selections(build_snapshot(NOW_MS - HOUR_MS + 2_000), SYSTEMS)
    collector.add_pages(build_snapshot(NOW_MS - HOUR_MS + 2_000, ready_page(b"a1")), [READY])
    assert [page.at_ms for page in collector.take_pages()] == [NOW_MS - HOUR_MS]


def test_a_recorder_without_the_option_stores_no_job_and_reads_none(tmp_path: Path) -> None:
    for limit in (0, 20):
        path = tmp_path / "recordings" / f"{limit}.rqt"
        recorder = Recorder(path, "redis://jobs-1:6379", Limits(), print, job_limit=limit)
        assert bool(recorder.choose_pages(build_snapshot(NOW_MS), SYSTEMS)) is bool(limit)
        recorder.record_snapshot(build_snapshot(NOW_MS, ready_page(b"a1")), lambda _ref: Totals(), selections=[READY])
        recorder.close(60)
        assert count_pages(path) == (1 if limit else 0), recorder.problem


def test_pages_that_could_not_be_written_are_written_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    collector = PageCollector(20)
    collector.add_pages(build_snapshot(NOW_MS, ready_page(b"a1")), [READY])
    pages = collector.take_pages()
    collector.return_pages(pages)
    assert collector.has_pages and collector.take_pages() == pages
    collector.return_pages(pages)
    collector.add_pages(build_snapshot(NOW_MS + MINUTE_MS, ready_page(b"a2")), [READY])
    [page] = collector.take_pages()
    assert page.at_ms == NOW_MS + MINUTE_MS, "a newer page of the place replaces it"


def test_the_reader_finds_a_page_without_reading_the_table(path: Path) -> None:
    store_pages(path, record(build_job()))
    with Reader.open(path) as reader:
        statements: list[str] = []
        reader._connection.set_trace_callback(statements.append)
        reader.read_job_page(MAIL, "dead", NOW_MS + 30_000)
        reader._connection.set_trace_callback(None)
        plans = [
            bytes(row[3]).decode()
            for sql in statements
            if "FROM job_page" in sql
            for row in reader._connection.execute(f"EXPLAIN QUERY PLAN {sql}")
        ]
    assert plans and all(plan.startswith("SEARCH job_page") for plan in plans)
    assert store.VERSION == 1
