"""Numbers and texts of foreign systems that are converted at the bounds of what is plausible."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rqtui.errors import ServerError, UsageError
from rqtui.model import MAX_BACKOFF_MS
from rqtui.system_base.foreign_system import EntrySystem
from rqtui.systems import arq, dispatcher, native, registry
from rqtui.systems.bullmq import job_format
from rqtui.systems.celery import messages
from rqtui.systems.celery.unplaced_events import UnplacedEvents
from rqtui.systems.celery.worker_heartbeats import WorkerIdleness
from rqtui.systems.rq import new_jobs as rq_new_jobs
from rqtui.systems.rq import system as rq
from rqtui.systems.sidekiq import processes
from rqtui.systems.sidekiq.job_format import decode_job


@pytest.mark.parametrize(
    ("value", "time_ms"),
    [
        (0, 0), (1, 1000), (1_800_000_000.0006, 1_800_000_000_001),
        ("2026-11-22T21:44:12.311195+00:00", 1795383852311), ("2026-11-22T21:44:12", 1795383852000),
        ("2026-11-22T22:44:12+01:00", 1795383852000), (True, None), (None, None),
        ("", None), ("soon", None), ([], None),
    ],
)  # fmt: skip
def test_a_time_of_celery_is_read_to_the_millisecond(value: object, time_ms: int | None) -> None:
    assert messages.convert_time_ms(value) == time_ms


@pytest.mark.parametrize(
    ("value", "is_count"),
    [(0, True), (999_999_999, True), (1_000_000_000, False), (-1, False), (True, False), (1.0, False)],
)
def test_a_count_of_celery_is_a_number_that_can_be_one(value: object, is_count: bool) -> None:
    assert messages.is_count(value) == is_count


@pytest.mark.parametrize(
    "length", [messages.MAX_CALL_LENGTH - 1, messages.MAX_CALL_LENGTH, messages.MAX_CALL_LENGTH + 1]
)
def test_a_call_of_celery_is_cut_only_if_it_is_longer_than_its_limit(length: int) -> None:
    text = messages.format_call_of_reprs("t", f"({'1' * (length - 3)},)", "{}")
    assert text == f"t({'1' * (length - 3)})"[: messages.MAX_CALL_LENGTH] + "…" * (length > messages.MAX_CALL_LENGTH)


@pytest.mark.parametrize(
    ("score", "due_ms", "problem"),
    [
        ("-1", 0, "below 0"), ("0", 0, ""), ("1800000000.0006", 1_800_000_000_001, ""),
        ("99999999999", 99_999_999_999_000, ""), ("1e11", None, "milliseconds"), ("inf", None, "infinite"),
    ],
)  # fmt: skip
def test_a_score_of_a_dispatcher_is_a_time_unless_it_is_implausible(
    score: str, due_ms: int | None, problem: str
) -> None:
    converted_ms, sentence = dispatcher._convert_due_time(score)
    assert converted_ms == due_ms
    assert problem in sentence if problem else not sentence


def test_the_time_for_which_jobs_wait_for_idle_workers_begins_again_after_an_empty_queue() -> None:
    idleness = WorkerIdleness()
    idleness.record_heartbeat("w1", 1, 0, 500)
    waits = [
        idleness.compute_idle_since_ms("mail", ready, now_ms) for ready, now_ms in ((1, 1000), (1, 2000), (0, 3000))
    ]
    assert waits == [1000, 1000, None] and idleness.find_ready_since_ms("mail") == 0
    assert idleness.compute_idle_since_ms("mail", 1, 4000) == 4000


@pytest.mark.parametrize(("number", "detail"), [(1, ""), (3, "w0, w1, w2"), (4, "w0, w1, w2 and 1 more")])
def test_a_finding_names_up_to_three_silent_workers(number: int, detail: str) -> None:
    rows = [(b"w%d" % at, 10 - at, -1, 5) for at in range(number)]
    [finding] = native._build_silent_leases_finding("mail", rows)
    assert finding.detail == detail and finding.jobs == sum(row[1] for row in rows)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": [1, "b", None], "c-d": {}}, '{a: [1, "b", null], "c-d": {}}'), ([], "[]"),
        ([{"a": True}], "[{a: true}]"),
    ],
)  # fmt: skip
def test_data_of_bullmq_is_shown_as_javascript(value: object, text: str) -> None:
    assert job_format.format_javascript(value) == text


@pytest.mark.parametrize(("executions", "runs"), [(0, None), (1, None), (2, "2")])
def test_a_worker_of_rq_reports_how_many_jobs_it_runs_only_if_they_are_several(
    executions: int, runs: str | None
) -> None:
    row: dict[str, object] = dict.fromkeys(
        ("last_heartbeat", "death", "execution", "current_job", "queues", "state", "total_working_time",
         "python_version", "successful_job_count", "failed_job_count", "version", "worker", "shutdown_requested_date",
         "pid", "hostname", "birth", "ip_address"), ""
    )  # fmt: skip
    worker = rq._build_worker(
        "mail",
        {**row, "execution": b"", "current_job": b"", "worker": b"w1", "left_ms": 5, "executions": executions},
        1_000,
    )
    assert {fact.name: fact.value for fact in worker.facts}.get("runs") == runs


@pytest.mark.parametrize("kind", ["task-sent", "task-received"])
def test_only_the_worker_that_received_a_task_of_celery_serves_its_queue(kind: str) -> None:
    system = registry.create_system("celery")
    event = {
        "type": kind,
        "uuid": "a1",
        "name": "tasks.add",
        "queue": "mail",
        "hostname": "w1",
        "args": "()",
        "kwargs": "{}",
    }
    system._runs.record_event(event, 1_000)  # type: ignore[attr-defined]
    worker = system._runs.find(b"a1").worker  # type: ignore[attr-defined]
    assert worker == ("w1" if kind == "task-received" else "")


def test_a_queue_of_celery_that_could_not_be_counted_is_not_called_paused() -> None:
    system = registry.create_system("celery")
    system._paused_since_ms["mail"] = 5  # type: ignore[attr-defined]
    queue = system._parse_queue("mail", ServerError("WRONGTYPE no list"))  # type: ignore[attr-defined]
    assert queue.error and queue == EntrySystem._parse_queue(system, "mail", ServerError("WRONGTYPE no list"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("delay", "wait_ms"), [("1e400", None), ("NaN", None), ("400", 600), ("400.5", 600), ('"soon"', 1000)]
)
def test_the_wait_of_a_job_of_bullmq_with_an_endless_delay_is_unknown(delay: str, wait_ms: int | None) -> None:
    row = {"opts": b'{"delay": %s}' % delay.encode(), "timestamp": "1764360000000", "processed_on": "1764360001000"}
    assert job_format.compute_wait_ms(row) == wait_ms
    assert job_format.parse_backoff(float("inf"))[0] == MAX_BACKOFF_MS


@pytest.mark.parametrize(
    ("seconds", "ms"), [(3600, [3_600_000]), pytest.param(10**400, [], id="huge"), (-1, []), ("x", [])]
)
def test_a_retry_time_of_sidekiq_beyond_all_bounds_is_not_shown(seconds: object, ms: list[int]) -> None:
    body = json.dumps({"class": "HardJob", "args": [], "jid": "a", "retry_for": seconds}).encode()
    facts = decode_job(body, b"").facts
    assert [fact.value for fact in facts if fact.name == "retried for"] == ms


@pytest.mark.parametrize(
    ("threads", "text"), [(3, "3 threads"), pytest.param(10**400, "threads", id="huge"), (None, "threads")]
)
def test_a_capsule_of_sidekiq_with_an_impossible_number_of_threads_is_listed(threads: object, text: str) -> None:
    capsules = {"mails": {"concurrency": threads, "weights": {"mail": 1}}}
    assert list(processes._format_capsules(capsules)) == [f"mails ({text}: mail)"]


@pytest.mark.parametrize("system_name", registry.list_system_names())
def test_an_empty_name_is_no_queue_of_any_system(system_name: str) -> None:
    with pytest.raises(UsageError, match=r"\.$"):
        registry.create_system(system_name).keys("")


@pytest.mark.parametrize(
    ("text", "ms"),
    [("99999999999", None), ("100000000000", 10**11), ("99999999999999", 99_999_999_999_999), ("1e14", None)],
)
def test_only_a_plausible_number_is_a_time_of_bullmq(text: str, ms: int | None) -> None:
    assert job_format.parse_time_ms(text) == ms
    factor = job_format.DUE_FACTOR
    assert job_format.parse_due_ms(str(int(float(text)) * factor)) == ms


def test_a_place_without_lost_jobs_of_sidekiq_is_a_page_that_asks_nothing() -> None:
    request = registry.create_system("sidekiq").page_request("mail", "lost", 0, 50, 0)
    page = request.parse(())
    assert (request.calls, page.jobs, page.total, page.place) == ((), (), 0, "lost")


@pytest.mark.parametrize(("max_jobs", "max_bytes", "kept"), [(2, 100, 2), (1, 100, 1), (9, 10, 2), (9, 9, 1)])
def test_events_of_unknown_tasks_of_celery_are_kept_up_to_both_limits(max_jobs: int, max_bytes: int, kept: int) -> None:
    events = UnplacedEvents(max_jobs, max_bytes)
    for id in (b"a", b"b"):
        events.keep_call(id, lambda: None, 5, None)
    assert [len(events.pop_calls(id)) for id in (b"a", b"b")] == [kept - 1, 1]


@pytest.mark.parametrize(
    ("value", "is_valid"), [(0, True), (999_999, True), (1_000_000, False), (-1, False), (True, False), (1.0, False)]
)
def test_a_count_in_a_new_job_of_rq_is_a_whole_number_below_a_million(value: object, *, is_valid: bool) -> None:
    assert rq_new_jobs._is_small_count(value) is is_valid


@pytest.mark.parametrize("is_page", [True, False])
@pytest.mark.parametrize("more", [0, 1])
def test_a_result_of_arq_that_is_too_long_for_a_page_is_partial(more: int, *, is_page: bool) -> None:
    size = arq._PAGE_BYTES + more
    row = {"id": b"a", "record": b"x" * size, "size": size, "left_ms": -1, "tail": b""}
    system: Any = registry.create_system("arq")
    assert system.decode_record(row, 5, is_page).is_partial is (is_page and more > 0)
