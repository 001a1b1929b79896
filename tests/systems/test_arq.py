"""arq: what every system keeps, planted faults of its scripts, results that no key lists, and damaged records."""

from __future__ import annotations

import pickle
import time
from datetime import UTC, datetime

import pytest
from arq_subject import (
    ARQ,
    EXPIRES_MS,
    HOUR,
    NOW,
    QUEUE,
    SCRIPTS,
    encode_job,
    encode_result,
    list_ids,
    plant_job,
    run_script,
)
from families import run_in_one_test
from redis import Redis

from rqtui.engine.engine import Engine, build_engine
from rqtui.errors import UsageError
from rqtui.model import Queue, Ref, State
from rqtui.systems import registry
from rqtui.testing import conformance
from rqtui.testing.conformance import Planted

REF = Ref("arq", QUEUE)
NOW_DATE = datetime.now(UTC)


def create_engine(client: Redis, *specs: str) -> Engine:
    return build_engine(client, [registry.create_system(*(specs or ("arq",)))])


def count_queue(engine: Engine, ref: Ref = REF) -> Queue:
    [queue] = engine.send_requests([engine.systems["arq"].queue_request(ref.queue)])
    return queue


@pytest.mark.parametrize("script", SCRIPTS)
def test_arq(script: str, any_client: Redis) -> None:
    conformance.run_all(conformance.cases(ARQ, [script]), ARQ, any_client)


FAULTS = (
    Planted("deletes a running job", "delete", "redis.call('EXISTS', 'arq:in-progress:' .. id) == 1", "false", 9),
    Planted(
        "reschedules a running job", "reschedule", "redis.call('EXISTS', 'arq:in-progress:' .. id) == 1", "false", 9
    ),
    Planted("leaves the result", "requeue", "  redis.call('DEL', 'arq:result:' .. job[1])\n", "", 2),
    Planted("does not compare the result", "requeue", "result ~= member", "false", 9),
    Planted("ignores a stored result", "enqueue", ", 'arq:result:' .. id", "", 9),
    Planted("does not look at the token", "release", "left_ms == -2 or not is_same", "false", 9),
    Planted("drains without freeing first", "requeue", "  redis.call('ZREM', abort, job[1])", "", 13),
)


@run_in_one_test("fault", FAULTS, ids=str)
def test_the_suite_catches_a_script_that(fault: Planted, client: Redis) -> None:
    assert fault.is_caught(ARQ, client)


# ── results, which no key lists ──────────────────────────────────────────────────────────────────────────────────


def plant_results(client: Redis, number: int, queue: str = QUEUE) -> None:
    pipe = client.pipeline(transaction=False)
    for at in range(number):
        result = ValueError("no such order") if at % 4 == 0 else at
        record = encode_result(f"{queue}-{at}", "send", at, result=result, queue=queue, at_ms=NOW - at)
        pipe.set(f"arq:result:{queue}-{at}", record, px=HOUR)
    pipe.execute()


def test_results_are_counted_by_queue_and_exactly_where_one_step_passes_all_keys(client: Redis) -> None:
    plant_results(client, 40)
    plant_results(client, 8, "arq:other")
    engine = create_engine(client)
    for _refresh in range(2):
        counts = {count.place: count for count in count_queue(engine).counts}
        assert (counts["complete"].count, counts["failed"].count) == (30, 10)
        assert all(count.is_exact for count in counts.values())
    other = count_queue(engine, Ref("arq", "arq:other"))
    assert (other.count_in_place("complete"), other.count_in_place("failed")) == (6, 2)
    client.delete(f"arq:result:{QUEUE}-0", f"arq:result:{QUEUE}-1")
    deleted = count_queue(engine)
    assert (deleted.count_in_place("complete"), deleted.count_in_place("failed")) == (29, 9)


@pytest.mark.slow
def test_results_among_many_keys_are_estimated_and_a_sampled_zero_is_no_exact_one(client: Redis) -> None:
    client.mset({f"other:{number}": "x" for number in range(20_000)})
    engine = create_engine(client, "arq:queue=arq:queue")
    empty = {count.place: count for count in count_queue(engine).counts}
    assert (empty["failed"].count, empty["failed"].is_exact) == (0, False)
    plant_results(client, 4_000)
    for _step in range(60):
        estimated = {count.place: count for count in count_queue(engine).counts}
    assert not estimated["failed"].is_exact
    assert estimated["failed"].count == 1_000 and estimated["complete"].count == 3_000, "two walks met all of them"
    fresh = {count.place: count for count in count_queue(create_engine(client, "arq:queue=arq:queue")).counts}
    assert 600 < fresh["failed"].count < 1_500, "a first step extrapolates"
    assert not fresh["failed"].is_exact


def test_a_page_of_results_lists_what_ended_last_first_and_reports_that_it_is_a_sample(client: Redis) -> None:
    plant_results(client, 40)
    engine = create_engine(client)
    page = engine.fetch_page(REF, "failed", 0, 3, 1_000_000)
    assert [job.id for job in page.jobs] == [f"{QUEUE}-{at}".encode() for at in (0, 4, 8)]
    assert (page.total, page.is_exact, page.next) == (10, True, 3)
    client.mset({f"other:{number}": "x" for number in range(20_000)})
    sampled = create_engine(client).fetch_page(REF, "failed", 0, 100, 1_000_000)
    assert not sampled.is_exact


def test_a_result_that_another_run_replaces_is_read_again(client: Redis) -> None:
    engine = create_engine(client)
    client.set("arq:result:a", encode_result("a", "send", result=ValueError("x")), px=HOUR)
    assert count_queue(engine).count_in_place("failed") == 1
    client.set("arq:result:a", encode_result("a", "send", result="sent"), px=2 * HOUR)
    counted = [count_queue(engine) for _refresh in range(2)][-1]
    assert (counted.count_in_place("failed"), counted.count_in_place("complete")) == (0, 1)


def test_a_long_result_is_reported_by_its_beginning_and_its_end(client: Redis) -> None:
    engine = create_engine(client)
    text = "".join(chr(97 + number % 26) for number in range(200_000))
    client.set("arq:result:long", encode_result("long", "send", 1, result=ValueError(text)), px=HOUR)
    client.set("arq:result:else", encode_result("else", "send", 1, result=text, queue="arq:other"), px=HOUR)
    [job] = engine.fetch_page(REF, "failed", 0, 10, 1_000_000).jobs
    assert (job.id, job.name, job.call, job.is_partial) == (b"long", "send", "send(1)", True)
    assert [job.id for job in engine.fetch_page(Ref("arq", "arq:other"), "complete", 0, 10, 100).jobs] == [b"else"]
    [outcome] = engine.apply_verb("requeue", REF, [job])
    assert outcome.word == "moved"
    assert pickle.loads(client.get("arq:job:long") or b"")["a"] == (1,)  # noqa: S301 (a test wrote it)


# ── verbs ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_requeue_keeps_objects_among_the_arguments_and_forgets_tries_and_abort_request(client: Redis) -> None:
    for protocol in range(2, 6):
        row = {"t": 5, "f": "send", "a": (NOW_DATE, {"s"}, b"\x80"), "k": {"s": True, "t": 7}, "et": 1, "s": False}
        record = pickle.dumps({**row, "r": ValueError("x"), "st": 2, "ft": 3, "q": QUEUE, "id": "a"}, protocol)
        client.flushall()
        client.set("arq:result:a", record, px=HOUR)
        client.zadd("arq:abort", {"a": NOW})
        engine = create_engine(client)
        [outcome] = engine.apply_verb("requeue", REF, [*engine.fetch_page(REF, "failed", 0, 1, 1_000_000).jobs])
        assert outcome.word == "moved", outcome.text
        job = pickle.loads(client.get("arq:job:a") or b"")  # noqa: S301 (a test wrote it)
        assert {name: job[name] for name in "tfak"} == {**{name: row[name] for name in "fak"}, "t": None}
        assert abs(job["et"] - time.time() * 1000) < HOUR and len(job) == 5
        assert not client.exists("arq:result:a", "arq:abort")
        assert 0 < client.pttl("arq:job:a") <= EXPIRES_MS


def test_a_job_written_as_json_is_the_pickle_that_workers_read(client: Redis) -> None:
    system = registry.create_system("arq")
    row = pickle.loads(system.encode_body(b'{"function": "send", "args": [1, "a"], "kwargs": {"b": null}}'))  # noqa: S301
    assert {**row, "et": 0} == {"t": None, "f": "send", "a": (1, "a"), "k": {"b": None}, "et": 0}
    for body in (b"x", b"[]", b'{"args": []}', b'{"function": "f", "args": {}}', b'{"function": "f", "retry": 1}'):
        with pytest.raises(UsageError, match="arq: "):
            system.encode_body(body)
    with pytest.raises(UsageError, match="no record of a job"):
        system.encode_body(pickle.dumps({"t": 1, "f": "x"}))
    with pytest.raises(UsageError):
        system.encode_body(pickle.dumps([1]))


def test_a_later_due_time_lets_the_record_live_as_long_after_it(client: Redis) -> None:
    plant_job(client, "deferred", "a")
    assert run_script(client, "reschedule", [(b"a",)], delay_ms=72 * HOUR).each[0].word == "moved"
    assert client.pttl("arq:job:a") > 95 * HOUR


def test_a_released_job_is_not_released_from_the_next_worker(client: Redis) -> None:
    plant_job(client, "in_progress", "a")
    engine = create_engine(client)
    [job] = engine.fetch_page(REF, "in_progress", 0, 10, 100).jobs
    client.set("arq:in-progress:a", "1", px=600_000)
    assert [outcome.word for outcome in engine.apply_verb("release", REF, [job])] == ["stale"]
    [held] = engine.fetch_page(REF, "in_progress", 0, 10, 100).jobs
    assert [outcome.word for outcome in engine.apply_verb("release", REF, [held])] == ["moved"]
    assert list_ids(client, "queued") == [b"a"]


# ── what is damaged or of other programs ─────────────────────────────────────────────────────────────────────────


def test_records_that_are_no_pickles_are_shown_with_a_problem(client: Redis) -> None:
    for id, record in (("a", b"\x81\xa1t\xc0"), ("b", b"\x80\x04]."), ("c", encode_job("send", 1)[:20])):
        client.set(f"arq:job:{id}", record)
        client.set(f"arq:result:{id}-done", record)
        client.zadd(QUEUE, {id: NOW - HOUR})
    client.lpush("arq:result:list", "x")
    engine = create_engine(client)
    for place in ("queued", "complete"):
        jobs = engine.fetch_page(REF, place, 0, 10, 1000).jobs
        assert len(jobs) == 3 and all("no pickle of arq" in job.problem for job in jobs)
    client.delete("arq:job:a")
    assert "expired" in engine.fetch_page(REF, "queued", 0, 1, 1000).jobs[0].problem


def test_running_jobs_among_due_ones_are_left_out_of_the_page_of_those_that_wait(client: Redis) -> None:
    for number in range(60):
        plant_job(client, "in_progress" if number % 3 else "queued", f"{number:02}", number)
    engine = create_engine(client)
    waiting = list_ids(client, "queued")
    for offset, limit in ((0, 7), (5, 20), (19, 5), (0, 100)):
        page = engine.fetch_page(REF, "queued", offset, limit, 100)
        assert [job.id for job in page.jobs] == waiting[offset : offset + limit]
        assert page.total == len(waiting) == 20
    assert engine.fetch_page(REF, "in_progress", 0, 100, 100).total == 40


def test_with_more_due_jobs_than_are_looked_at_both_counts_are_samples(client: Redis) -> None:
    for number in range(10):
        plant_job(client, "in_progress", f"run-{number}", -number - 1)
    client.zadd(QUEUE, {f"due-{number}": NOW - HOUR + number for number in range(800)})
    counts = {count.place: count for count in count_queue(create_engine(client)).counts}
    assert (counts["queued"].count, counts["queued"].is_exact) == (800, False)
    assert (counts["in_progress"].count, counts["in_progress"].is_exact) == (10, False)
    assert counts["deferred"].is_exact


def test_of_the_due_jobs_the_first_500_are_searched_for_running_ones(client: Redis) -> None:
    client.zadd(QUEUE, {f"due-{number:03}": NOW - HOUR + number for number in range(499)})
    plant_job(client, "in_progress", "last", 1)
    for waiting, exact in ((499, True), (501, False)):
        counted = run_script(client, "counts").values
        assert (counted["queued"], counted["in_progress"], counted["queued_exact"]) == (waiting, exact, exact)
        page = run_script(client, "page", place="queued", offset=0, limit=1, body_bytes=0)
        assert (page.values["total"], page.values["exact"]) == (waiting, exact)
        client.zadd(QUEUE, {"one-more": 0})


def test_a_long_record_is_cut_in_a_page_and_for_one_job(client: Redis) -> None:
    client.zadd(QUEUE, {"a": NOW})
    for size, body_bytes, in_page, shown in (
        (4096, 0, 4096, 4096), (4097, 0, 4096, 4096), (4097, 4096, 4096, 4096), (5000, 5000, 5000, 5000),
        (5001, 5000, 4096, 4096), (5001, -1, 5001, 5001), (20, 20, 20, 20),
    ):  # fmt: skip
        client.set("arq:job:a", b"x" * size)
        (row,) = run_script(client, "page", place="queued", offset=0, limit=1, body_bytes=body_bytes).rows
        assert (row[2], len(row[3])) == (size, in_page)
        found = run_script(client, "show", id=b"a", body_bytes=body_bytes).values
        assert (found["size"], len(found["record"])) == (size, shown)
    client.set("arq:retry:a", "1" * 21)
    assert run_script(client, "show", id=b"a", body_bytes=0).values["tries"] == "1" * 20


def test_a_long_result_is_cut_where_results_are_read(client: Redis) -> None:
    for size, record, tail in ((65536, 65536, 0), (65537, 8192, 512)):
        client.set("arq:result:a", b"x" * size)
        (row,) = run_script(client, "record_walk", [(b"a", True)], cursor="0", keys=1, read_bytes=0).rows
        assert (row[2], len(row[3]), len(row[4])) == (size, record, tail)
        found = run_script(client, "show", id=b"a", body_bytes=65536).values
        assert (found["size"], len(found["result"]), len(found["tail"])) == (size, record, tail)
    client.set("arq:result:b", b"x" * 8192)
    rows = run_script(client, "record_walk", [(b"a", True)], cursor="0", keys=9, read_bytes=8192).rows
    assert [(row[0], len(row[3])) for row in rows] == [(b"a", 8192), (b"b", 0)], "all bytes are used"
    rows = run_script(client, "record_walk", [(b"a", True)], cursor="0", keys=9, read_bytes=8193).rows
    assert [(row[0], len(row[3])) for row in rows] == [(b"a", 8192), (b"b", 8192)]


def test_a_search_for_faults_looks_at_the_first_due_jobs_and_abort_requests(client: Redis) -> None:
    def find(kind: str) -> list[object]:
        return [row[2:5] for row in run_script(client, "faults").rows if row[0] == kind]

    client.zadd(QUEUE, {f"a{number:03}": NOW - HOUR + number for number in range(501)})
    assert find("expired") == [(b"a000", 500, 0)]
    client.mset({f"arq:in-progress:a{number:03}": "1" for number in range(99)})
    assert find("starved") == []
    client.set("arq:in-progress:a099", "1")
    assert find("starved") == [(b"a100", 100, 401)]
    client.zremrangebyrank(QUEUE, 100, -1)
    assert find("starved") == [], "nothing waits"
    client.zadd("arq:abort", {"new": NOW - 59_999})
    assert find("abort_leak") == []
    client.zadd("arq:abort", {f"old{number:03}": NOW - 60_000 for number in range(301)})
    assert find("abort_leak") == [(b"old000", 300, 0)]


def test_the_next_due_time_is_at_most_the_last_one_that_a_number_holds(client: Redis) -> None:
    for score, due_ms in ((NOW, -1), (NOW + 1, NOW + 1), (9e15 - 1, 9 * 10**15 - 1), (float("inf"), 9 * 10**15)):
        client.zadd(QUEUE, {"a": score})
        assert run_script(client, "counts").values["due_ms"] == due_ms


def test_queues_are_found_by_the_default_name_and_by_the_report_of_a_worker(client: Redis) -> None:
    client.set("mail:health-check", "Nov-22 04:50:04 j_complete=2 j_failed=0 j_retried=0 j_ongoing=0 queued=0")
    client.set("web:health-check", "ok")
    system = registry._create_system_from_options("arq", is_asked=False)
    engine = build_engine(client, [system])
    list(engine.discover(fully=True))
    assert [ref.queue for ref in engine.refs] == ["mail"]
    plant_job(client, "queued", "a")
    list(engine.discover(fully=True))
    assert sorted(ref.queue for ref in engine.refs) == [QUEUE, "mail"]
    assert system.place("failed").state is State.DEAD


def find_kinds(client: Redis, engine: Engine) -> list[str]:
    [queue] = engine.send_requests([engine.systems["arq"].queue_request(QUEUE)])
    request = engine.systems["arq"].probe_request(QUEUE)
    assert request is not None and not queue.error
    return [finding.kind for finding in engine.send_requests([request])[0]]


def plant_due_job(client: Redis, ago_s: int) -> None:
    now_ms = 1000 * int(client.time()[0])
    client.zadd(QUEUE, {"due": now_ms - 1000 * ago_s})
    client.set("arq:job:due", encode_job("send", 1, at_ms=now_ms))


def test_due_jobs_without_a_report_need_a_worker_unless_a_job_has_just_ended(client: Redis) -> None:
    engine = create_engine(client)
    plant_due_job(client, 3)
    assert find_kinds(client, engine) == []
    plant_due_job(client, 60)
    assert find_kinds(client, engine) == ["no-live-worker"]
    client.set("arq:result:sent", encode_result("sent", "send", at_ms=1000 * int(client.time()[0])))
    assert find_kinds(client, engine) == []


def test_idle_workers_are_found_only_while_the_same_job_stays_the_first_one(
    client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = create_engine(client)
    system = engine.systems["arq"]
    client.set(f"{QUEUE}:health-check", "Nov-22 04:50:04 j_complete=2 j_failed=0")
    plant_due_job(client, 60)
    assert find_kinds(client, engine) == []
    assert system.probe_interval_s(QUEUE) == 5.0
    monkeypatch.setattr("rqtui.systems.arq._IDLE_MS", 0)
    assert find_kinds(client, engine) == ["idle-workers"]
    monkeypatch.undo()
    client.incr("arq:retry:due")
    assert find_kinds(client, engine) == [], "the job was started meanwhile"
    client.zrem(QUEUE, "due")
    assert find_kinds(client, engine) == []
    assert system.probe_interval_s(QUEUE) is None
