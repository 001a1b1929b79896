"""orizuru: the conformance suite, the original's faults beside ours, findings, discovery, bad input, a busy hour."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import Any

import msgpack
import pytest
from families import run_in_one_test
from orizuru_subject import KEYS, NOW, ORIZURU, SCRIPTS, SEEN, SILENT, build_seen_record
from redis import Redis

from rqtui.connection.connect import connect
from rqtui.engine.engine import Engine, build_engine
from rqtui.engine.loops import build_round
from rqtui.errors import UsageError
from rqtui.model import Job, Ref
from rqtui.scenarios.originals import orizuru as original
from rqtui.scripts import script as scripts
from rqtui.systems import registry
from rqtui.testing import conformance, keyspace
from rqtui.testing.conformance import Planted
from rqtui.text.formats import format_quantity

JOBS = Ref("orizuru", "jobs")
PLACES = ("source", "processing", "unacked")


@pytest.mark.parametrize("script", ORIZURU.scripts)
def test_orizuru(script: str, any_client: Redis) -> None:
    conformance.run_all(conformance.cases(ORIZURU, [script]), ORIZURU, any_client)


def open_engine(client: Redis, spec: str = "orizuru:source=jobs") -> Engine:
    return build_engine(client, [registry.create_system(spec)])


def list_jobs(engine: Engine, place: str) -> list[Job]:
    return list(engine.fetch_page(JOBS, place, 0, 100, 4096).jobs)


def words(engine: Engine, verb: str, jobs: list[Job], **form: object) -> list[str]:
    return [outcome.word for outcome in engine.apply_verb(verb, JOBS, jobs, form)]


def counts(engine: Engine) -> tuple[int, ...]:
    [queue] = engine.take_snapshot().queues
    assert not queue.error
    return tuple(queue.count_in_place(place) for place in PLACES)


def holding(client: Redis, name: str, bodies: list[bytes], beat_ms: int | None = None) -> original.Worker:
    """Plant an idle consumer that took these jobs, with its last heartbeat if any; a reaper has watched it since."""
    if bodies:
        client.lpush("jobs", *bodies)
    worker = original.Worker(client, "jobs", name)
    worker.register()
    if beat_ms is not None:
        client.hset(original.HEARTBEATS, name, int(time.time() * 1000) - beat_ms)
    for _ in bodies:
        client.rpoplpush("jobs", original.build_key(name, "processing"))
    if beat_ms is not None and bodies:
        newest = client.lindex(original.build_key(name, "processing"), 0)
        client.hset(SEEN, name, build_seen_record(newest, int(time.time() * 1000) - beat_ms, len(bodies)))
    return worker


def bodies(*numbers: int) -> list[bytes]:
    return [original.encode_struct(number) for number in numbers]


# --- the original's faults, and what rqtui does instead -----------------------------------------------------------


def test_requeue_brings_rejected_jobs_to_the_source_where_the_collector_hides_them(any_client: Redis) -> None:
    engine = open_engine(any_client)
    worker = original.Worker(any_client, "jobs", "w1", pytest.fail)  # what it runs always fails
    for collects in (True, False):
        any_client.flushall()
        worker.register()
        original.push_job(any_client, "jobs", 42)
        assert worker.step() == "rejected"
        if collects:
            assert original.collect_unacked(any_client) == 1
            assert counts(engine) == (0, 1, 0)  # in processing, and no consumer reads it again
            assert worker.step() == "idle"
        else:
            assert words(engine, "requeue", list_jobs(engine, "unacked")) == ["moved"]
            assert counts(engine) == (1, 0, 0)


def test_the_reaper_takes_back_in_order_what_a_dead_consumer_holds_for_ever(any_client: Redis) -> None:
    holding(any_client, "dead", bodies(1, 2, 3, 4, 5), beat_ms=120_000)
    any_client.lpush("jobs", *bodies(6, 7))
    assert original.collect_unacked(any_client) == 0 and any_client.llen(original.build_key("dead", "processing")) == 5
    engine = open_engine(any_client)
    for moved, left in ((2, 3), (2, 1), (1, 0)):
        [outcome] = engine.apply_verb("reap", JOBS, (), {"limit": 2})
        assert (outcome.word, outcome.moved) == ("moved", moved)
        assert any_client.llen(original.build_key("dead", "processing")) == left
    assert [job.body for job in list_jobs(engine, "source")] == bodies(1, 2, 3, 4, 5, 6, 7)
    worker = original.Worker(any_client, "jobs", "w2")
    assert [worker.step() for _ in range(8)] == ["acked"] * 7 + ["idle"]


def test_a_worker_with_heartbeats_or_without_any_keeps_its_jobs(any_client: Redis) -> None:
    holding(any_client, "living", bodies(1)).beat(ttl_ms=60_000)
    holding(any_client, "late but not yet dead", bodies(2), beat_ms=50_000)
    holding(any_client, "never beat", bodies(3))
    any_client.hset(original.HEARTBEATS, "never beat", "not a time")
    holding(any_client, "old entry, living key", bodies(4), beat_ms=900_000)
    any_client.set(original.build_key("old entry, living key", "heartbeat"), "1", px=60_000)
    before, engine = keyspace.dump(any_client), open_engine(any_client)
    [outcome] = engine.apply_verb("reap", JOBS, (), {"limit": 10})
    assert outcome.word == "empty" and 0 < outcome.values["next_ms"] <= 10_001
    after = keyspace.dump(any_client)
    assert any_client.hkeys(SEEN) == [b"late but not yet dead"]  # what the reaper remembers, and nothing else
    assert not keyspace.diff({**before, SEEN: after[SEEN]}, after)


def test_a_consumer_that_idled_for_long_and_then_took_a_job_keeps_it(any_client: Redis) -> None:
    engine, now_ms = open_engine(any_client), int(time.time() * 1000)
    reap = lambda after_ms: engine.apply_verb("reap", JOBS, (), {"limit": 10, "now_ms": now_ms + after_ms})[0]  # noqa: E731
    worker = original.Worker(any_client, "jobs", "patient")
    worker.register()
    any_client.hset(original.HEARTBEATS, "patient", now_ms - 600_000)  # it beat, and has waited in `next` since
    assert reap(0).word == "empty"
    for fields in ((1,), (2,)):  # twice: what was seen of the first job does not speak for the second
        original.push_job(any_client, "jobs", *fields)
        guard = worker.take_next()
        assert guard is not None
        assert (reap(0).word, reap(60_000).word) == ("empty", "empty")
        assert guard.ack() == 1
        assert reap(0).word == "empty" and not any_client.exists(SEEN)
    original.push_job(any_client, "jobs", 3)
    worker.take_next()  # and now it dies
    first = reap(0)
    assert (first.word, first.values["next_ms"]) == ("empty", 60_001)
    assert (reap(60_000).word, reap(60_001).word) == ("empty", "moved")
    assert any_client.lrange("jobs", 0, -1) == bodies(3) and not any_client.exists(SEEN)


def test_the_end_of_a_lease_is_the_same_in_a_page_and_for_one_job(any_client: Redis) -> None:
    now_ms = int(time.time() * 1000)
    holding(any_client, "beats", bodies(1)).beat(ttl_ms=600_000)
    holding(any_client, "silent", bodies(2), beat_ms=50_000)
    holding(any_client, "never beat", bodies(3))
    holding(any_client, "for ever", bodies(4), beat_ms=1000)
    any_client.set(original.build_key("for ever", "heartbeat"), "1")
    holding(any_client, "short", bodies(5), beat_ms=1000)
    any_client.set(original.build_key("short", "heartbeat"), "1", px=20_000)
    engine = open_engine(any_client)
    for job in list_jobs(engine, "processing"):
        beat_ms = int(any_client.hget(original.HEARTBEATS, job.worker) or 0)
        for seen_ms in (job.deadline_ms, fetch_job(engine, job).deadline_ms):
            if job.worker in ("never beat", "for ever"):
                assert seen_ms is None, job.worker
            elif job.worker == "beats":  # the key outlives the silence that makes dead
                assert seen_ms is not None and now_ms + 540_000 < seen_ms <= int(time.time() * 1000) + 600_000
            else:
                assert seen_ms == beat_ms + 60_000, job.worker
    assert words(engine, "reject", list_jobs(engine, "processing")) == ["moved"] * 5
    for job in list_jobs(engine, "unacked"):
        assert job.deadline_ms is None and fetch_job(engine, job).deadline_ms is None


def fetch_job(engine: Engine, job: Job) -> Job:
    found = engine.fetch_job(JOBS, job.id)
    assert found is not None and found.place == job.place
    return found


def test_the_silence_that_makes_dead_is_an_option(any_client: Redis) -> None:
    holding(any_client, "w1", bodies(1), beat_ms=5_000)
    assert open_engine(any_client).apply_verb("reap", JOBS, (), {"limit": 10})[0].word == "empty"
    patient = open_engine(any_client, "orizuru:source=jobs,silent_ms=4000")
    assert patient.apply_verb("reap", JOBS, (), {"limit": 10})[0].word == "moved"


def test_a_second_reject_creates_no_second_job(any_client: Redis) -> None:
    engine = open_engine(any_client)
    for is_original in (True, False):
        any_client.flushall()
        original.push_job(any_client, "jobs", 42)
        worker = original.Worker(any_client, "jobs", "w1")
        worker.register()
        guard = worker.take_next()
        assert guard
        jobs = list_jobs(engine, "processing")
        if is_original:
            guard.reject()
            guard.reject()
            assert any_client.llen(original.build_key("w1", "unacked")) == 2
        else:
            assert words(engine, "reject", jobs) == ["moved"]
            assert words(engine, "reject", jobs) == ["gone"]
            assert words(engine, "release", jobs) == ["gone"]
            assert any_client.llen(original.build_key("w1", "unacked")) == 1


def test_a_body_that_leaks_from_the_original_is_named_and_can_be_put_aside(any_client: Redis) -> None:
    any_client.lpush("jobs", b'{"id": 42}', b"\xc1", b"\x92\x01")
    worker = original.Worker(any_client, "jobs", "w1")
    worker.register()
    assert [worker.step() for _ in range(3)] == ["undecodable"] * 3
    engine = open_engine(any_client)
    jobs = list_jobs(engine, "processing")
    assert all("no MessagePack" in job.problem for job in jobs) and len(jobs) == 3
    [finding] = [found for found in engine.collect_findings([JOBS]) if found.kind == "undecodable"]
    assert "3 bodies in orizuru:consumers:w1:processing not in MessagePack" in finding.text and "{" in finding.text
    assert words(engine, "reject", jobs) == ["moved"] * 3
    assert words(engine, "delete", list_jobs(engine, "unacked"), place="unacked") == ["moved"] * 3
    assert counts(engine) == (0, 0, 0)


SINGLE = object()  # a float of 32 bits


@run_in_one_test(
    "value",
    [
        None, True, 0, 127, 128, 65536, 2**40, -1, -33, -2**40, 1.5, "", "é" * 20, "x" * 200, "x" * 70000, b"",
        b"y" * 300, b"z" * 70000, [], [1, [2, {"a": [3]}]], list(range(20)), list(range(1500)), {},
        {str(n): n for n in range(20)}, msgpack.ExtType(5, b"1"), msgpack.ExtType(5, b"123"),
        msgpack.ExtType(5, b"x" * 300), [1] * 70000, {n: [n] for n in range(600)},
        200, 2**15, -(2**15), -(2**31), 2**31, 2**63, [1] * 300, {n: n for n in range(300)},  # each width of the format
        *(msgpack.ExtType(5, b"x" * size) for size in (2, 4, 8, 16, 70_000)), SINGLE,
    ],
    ids=lambda value: repr(value)[:20],
)  # fmt: skip
def test_the_search_for_faults_reads_messagepack_as_msgpack_does(value: Any, client: Redis) -> None:
    whole = msgpack.packb(1.5 if value is SINGLE else value, use_single_float=value is SINGLE)
    client.lpush("jobs", whole)
    assert open_engine(client).collect_findings([JOBS]) == _server_findings(client)
    if len(whole) < 60_000:
        client.delete("jobs")
        client.lpush("jobs", whole + b"\x01", *([whole[:-1]] if len(whole) > 1 else []))
        [finding] = [found for found in open_engine(client).collect_findings([JOBS]) if found.kind == "undecodable"]
        assert finding.text.startswith(f"{format_quantity(client.llen('jobs'), 'body')} in jobs not in MessagePack")


def _server_findings(client: Redis) -> list[Any]:
    return open_engine(client, "orizuru:source=nothing").collect_findings([Ref("orizuru", "nothing")])


# --- findings, in words -------------------------------------------------------------------------------------------


def findings(client: Redis, *kinds: str) -> list[Any]:
    return [found for found in open_engine(client).collect_findings([JOBS]) if found.kind in kinds]


def test_a_dead_consumer_is_named_with_what_it_holds_and_what_to_do(any_client: Redis) -> None:
    holding(any_client, "dead", bodies(1, 2), beat_ms=120_000)
    holding(any_client, "idle and dead", [], beat_ms=120_000)
    [found] = findings(any_client, "silent-consumer")
    assert "consumer dead sent no heartbeat for 2m00 and holds 2" in found.text
    assert found.keys == ("orizuru:consumers:dead:processing",) and "rqtui reap" in found.remedy
    [queue] = open_engine(any_client).take_snapshot().queues
    assert (queue.expired, queue.workers, queue.next_expiry_ms) == (2, 0, pytest.approx(-60_000, abs=5_000))


def test_lists_of_an_unknown_consumer_are_found_by_the_walk_and_named(any_client: Redis) -> None:
    worker = holding(any_client, "gone: and away", bodies(1))
    assert (
        open_engine(any_client).take_snapshot().queues[0].workers is None
    )  # no heartbeats: live consumers are unknown
    worker.stop()  # takes the name away, not the lists
    any_client.lpush(original.build_key("gone: and away", "unacked"), *bodies(2, 3))
    held, rejected = sorted(findings(any_client, "unknown-consumer"), key=lambda found: found.text)
    assert "gone: and away, not registered, holds 1 job in orizuru:consumers:gone: and away:processing" in held.text
    assert "gone: and away, not registered, holds 2 jobs in orizuru:consumers:gone: and away:unacked" in rejected.text
    assert "act release orizuru:jobs" in held.remedy and "act requeue orizuru:jobs" in rejected.remedy
    assert [job.worker for job in list_jobs(open_engine(any_client), "processing")] == ["gone: and away"]


@pytest.mark.parametrize(
    ("beat", "says"),
    [("", "it never sent"), ("abc", "its last heartbeat is not"), ("-5", "its last heartbeat is not")],
)
def test_a_registered_consumer_without_a_heartbeat_is_named_with_its_jobs(
    any_client: Redis, beat: str, says: str
) -> None:
    for name in ("z", "idle", "beats without an entry"):
        holding(any_client, name, bodies(1, 2) if name != "idle" else [])
        if beat:
            any_client.hset(original.HEARTBEATS, name, beat)
    any_client.set(original.build_key("beats without an entry", "heartbeat"), "1", px=60_000)
    any_client.lpush(
        original.build_key("idle", "unacked"), *bodies(3)
    )  # rejected jobs of a registered one are no fault
    [found] = findings(any_client, "unknown-consumer", "silent-consumer")
    key = original.build_key("z", "processing")
    assert f"consumer z, registered, holds 2 jobs in {key}, but {says}" in found.text
    assert found.keys == (key,)
    assert (
        open_engine(any_client).fetch_workers(JOBS) == ()
    )  # without a beat there is no age to show; the finding names it


def test_the_example_of_a_body_is_never_empty(client: Redis) -> None:
    for entries, example in (([b"\xc1" * 5000], "\\xc1"), ([b""], "''"), ([b"\xc1" * 5000, b"{}"], "{}")):
        client.delete("jobs")
        client.lpush("jobs", *entries)
        [found] = findings(client, "undecodable")
        assert f"such as {example}" in found.text and len(found.ids[0]) <= 60 and len(found.text) < 400


def test_bodies_of_a_megabyte_are_named(any_client: Redis) -> None:
    for size, number in ((2**20 - 1, 0), (2**20, 1), (2**20 + 1, 1)):
        any_client.delete("jobs", original.build_key("w1", "processing"))
        body = b"\xc6" + (size - 5).to_bytes(4, "big") + b"x" * (size - 5)
        any_client.lpush("jobs", b"\x91\x01", body)
        any_client.lpush(original.build_key("w1", "processing"), body)
        any_client.set(original.build_key("w1", "heartbeat"), "1", px=60_000)
        any_client.sadd(original.CONSUMERS, "w1")
        found = findings(any_client, "oversized", "undecodable")
        assert [(each.kind, each.keys) for each in found] == number * [
            ("oversized", (original.build_key("w1", "processing"),)),
            ("oversized", ("jobs",)),
        ]
        assert all(
            "1 body in" in each.text and "of 1 MB or more" in each.text and len(each.ids[0]) == 60 for each in found
        )


def run_script(client: Redis, name: str, rows: Any = (), **args: Any) -> scripts.Reply:
    script = SCRIPTS[name]
    fixed = {"now_ms": NOW, "silent_ms": SILENT}
    args = {arg.name: fixed[arg.name] for arg in script.args if arg.name in fixed} | args
    return scripts.run_call(client, script.build_call({key.name: KEYS[key.name] for key in script.keys}, args, rows))


def test_a_consumer_is_dead_when_it_was_silent_for_longer_than_the_limit(client: Redis) -> None:
    for silent_ms, is_dead in ((SILENT, False), (SILENT + 1, True)):
        client.flushall()
        client.lpush(original.build_key("w", "processing"), b"\x01")
        client.hset(original.HEARTBEATS, "w", NOW - silent_ms)
        client.hset(SEEN, "w", build_seen_record(b"\x01", NOW - silent_ms))
        counted = run_script(client, "counts").values
        assert (counted["expired"], counted["workers"]) == (is_dead, not is_dead)
        assert [row[0] for row in run_script(client, "faults").rows] == ["silent_consumer"] * is_dead
        reaped = run_script(client, "reap", limit=1)
        assert (reaped.word, reaped.values["next_ms"]) == (("moved", -1) if is_dead else ("empty", 1))


def test_a_search_for_faults_reads_a_thousand_entries_and_a_part_of_each_list(client: Redis) -> None:
    for held, expected in (((201,), [200, 500]), ((201, 201, 201), [200] * 3 + [400]), ((201,) * 5, [200] * 5)):
        client.flushall()
        client.lpush("jobs", *[b"\xc1"] * 501)
        for number, length in enumerate(held):
            client.sadd(original.CONSUMERS, f"w{number}")
            client.set(original.build_key(f"w{number}", "heartbeat"), "1")
            client.lpush(original.build_key(f"w{number}", "processing"), *[b"\xc1"] * length)
        found = run_script(client, "faults")
        assert (found.values["looked"], [row[3] for row in found.rows]) == (sum(expected), expected)


def test_a_search_for_faults_returns_a_hundred_rows_and_short_examples(client: Redis) -> None:
    unreadable = {size: (b"\xc1%d" % size).ljust(size, b"x") for size in (9, 4096, 4097, 4098)}
    for sizes, example, shown in (
        ([4096], 4096, 4096), ([4097], 4097, 60), ([4096, 9], 4096, 4096), ([4097, 4096], 4096, 4096),
        ([4098, 4097], 4098, 60),
    ):  # fmt: skip
        client.delete("jobs")
        client.lpush("jobs", *[unreadable[size] for size in sizes])
        assert [row[2] for row in run_script(client, "faults").rows] == [unreadable[example][:shown]]
    for steps, number in ((2000, 1), (2001, 0)):  # of reading one body
        body = b"\xdc" + (steps - 1).to_bytes(2, "big") + b"\x01" * steps
        client.delete("jobs")
        client.lpush("jobs", body)
        assert len(run_script(client, "faults").rows) == number
    client.mset({original.build_key(f"w{number}", "unacked"): "mine" for number in range(101)})
    client.sadd(original.CONSUMERS, *(f"w{number}" for number in range(101)))
    assert len(run_script(client, "faults").rows) == 100


def test_up_to_a_thousand_consumers_are_counted_exactly(client: Redis) -> None:
    for number, exact in ((999, True), (1000, False), (1001, False)):
        counted = run_script(client, "counts", [(f"w{n}",) for n in range(number)]).values
        assert (counted["consumers"], counted["exact"]) == (min(1000, number), exact)


def test_a_long_body_is_cut_in_a_page_and_for_one_job(client: Redis) -> None:
    for size, body_bytes, shown in ((4096, 0, 4096), (4097, 0, 4096), (5000, 5000, 5000), (5001, 5000, 4096)):
        client.delete("jobs")
        client.lpush("jobs", b"x" * size)
        (row,) = run_script(client, "page", place="source", offset=0, limit=1, body_bytes=body_bytes).rows
        assert (len(row[0]), row[1], len(row[2])) == (shown, size, 64)
        found = run_script(client, "show", head=b"x", size=size, tail=b"x", body_bytes=body_bytes).values
        assert (len(found["head"]), found["size"], len(found["tail"])) == (shown, size, 64)


def test_one_job_is_searched_near_the_ends_of_its_list(client: Redis) -> None:
    fill = "for _ = 1, ARGV[2] do redis.call(ARGV[1], KEYS[1], 'x') end"
    for head, near, far in ((b"ab", 50_000, 50_000), (b"a", 1000, 0)):  # by all its bytes, by its first and last byte
        client.delete("jobs")
        client.lpush("jobs", b"ab")
        client.eval(fill, 1, "jobs", "RPUSH", near - 1)
        client.eval(fill, 1, "jobs", "LPUSH", far)
        asked = {"head": head, "size": 2, "tail": b"b", "body_bytes": 0}
        assert run_script(client, "show", **asked).word == "found"
        client.rpush("jobs", "x")
        assert run_script(client, "show", **asked).word == "gone"
        if far:
            client.lpop("jobs")
            assert run_script(client, "show", **asked).word == "found"


def test_a_deletion_searches_half_a_million_entries_and_leaves_the_rest_for_later(client: Redis) -> None:
    client.rpush("jobs", "x", "second", *["x"] * 998)
    for last, expected in ((b"second", ["moved", "gone", "later"]), (b"nothing", ["gone", "gone", "later"])):
        rows = [(body, "") for body in [b"nothing"] * 499 + [last] + [b"nothing"] * 2]
        outcomes = run_script(client, "delete", rows, place="source").each
        assert [outcome.word for outcome in outcomes] == ["gone"] * 499 + expected
    client.rpush("jobs", "x")
    outcomes = run_script(client, "delete", [(b"nothing", "")] * 502, place="source").each
    assert [outcome.word for outcome in outcomes] == ["gone"] * 500 + ["later"] * 2


def test_a_key_of_another_type_is_named_and_hides_no_other_queue(any_client: Redis) -> None:
    holding(any_client, "w1", bodies(1))
    any_client.sadd(original.CONSUMERS, "w2")
    any_client.set(original.build_key("w2", "unacked"), "mine")
    engine = open_engine(any_client)
    assert counts(engine) == (0, 1, 0)
    [found] = findings(any_client, "wrong-type")
    assert "orizuru:consumers:w2:unacked" in found.text
    before = keyspace.dump(any_client)
    any_client.set(original.build_key("w1", "unacked"), "mine")
    [outcome] = engine.apply_verb("reject", JOBS, list_jobs(engine, "processing"), {})
    assert outcome.word == "error" and "orizuru:consumers:w1:unacked" in outcome.text
    any_client.delete(original.build_key("w1", "unacked"))
    assert not keyspace.diff(before, keyspace.dump(any_client))


def test_a_source_of_another_type_is_an_error_of_its_queue(any_client: Redis) -> None:
    any_client.set("jobs", "mine")
    [queue] = open_engine(any_client).take_snapshot().queues
    assert "jobs" in queue.error and "not a list" in queue.error
    [outcome] = open_engine(any_client).send_request(
        registry.create_system("orizuru:source=jobs").put_request("jobs", [{"body": b"[]"}])
    )
    assert outcome.word == "error" and "jobs holds a string" in outcome.text
    assert any_client.get("jobs") == b"mine"


# --- discovery, options, bodies -----------------------------------------------------------------------------------


def discover_queues(client: Redis, *specs: str) -> list[str]:
    systems = [system for system in registry.create_systems(specs) if system.name == "orizuru"]
    return [ref.queue for ref in build_engine(client, systems).refs]


def test_unasked_it_claims_one_queue_where_its_keys_are_and_none_elsewhere(any_client: Redis) -> None:
    assert discover_queues(any_client) == []
    any_client.set(original.CONSUMERS, "another program's")
    any_client.set(original.build_key("w1", "processing"), "too")
    assert discover_queues(any_client) == []
    any_client.flushall()
    any_client.lpush(original.build_key("w1", "unacked"), b"\x91\x01")
    assert discover_queues(any_client) == ["orizuru"]
    any_client.flushall()
    any_client.hset(original.HEARTBEATS, "w1", "1")
    assert discover_queues(any_client) == ["orizuru"]


def test_named_sources_are_queues_and_share_the_consumers(any_client: Redis) -> None:
    holding(any_client, "w1", bodies(1))
    any_client.lpush("mail", b"\x91\x02")
    specs = ("orizuru:source=jobs", "orizuru:source=mail,silent_ms=5000")
    assert discover_queues(any_client, *specs) == ["jobs", "mail"]
    engine = build_engine(any_client, registry.create_systems(specs))
    assert [tuple(c.count for c in q.counts) for q in engine.take_snapshot().queues] == [(0, 1, 0), (1, 1, 0)]
    assert engine.resolve_or_discover("mail") == Ref("orizuru", "mail")


def test_without_a_source_everything_is_seen_and_what_needs_it_is_refused(any_client: Redis) -> None:
    holding(any_client, "w1", bodies(1, 2), beat_ms=120_000)
    engine = build_engine(any_client, [registry.create_system("orizuru")])
    ref = engine.resolve_or_discover("orizuru")
    [queue] = engine.take_snapshot().queues
    assert [queue.count_in_place(place) for place in PLACES] == [0, 2, 0]
    held = list(engine.fetch_page(ref, "processing", 0, 10, 100).jobs)
    for verb, jobs in (("release", held), ("requeue", held), ("reap", []), ("reserve", []), ("pull", [])):
        with pytest.raises(UsageError, match="--system orizuru:source=KEY"):
            engine.apply_verb(verb, ref, jobs, {"limit": 1} if not jobs else {})
    assert [o.word for o in engine.apply_verb("ack", ref, held[:1])] == ["moved"]
    assert [o.word for o in engine.apply_verb("delete", ref, held[1:])] == ["moved"]
    assert any_client.llen(original.build_key("w1", "processing")) == 0


def test_the_loop_reaps_and_collects_and_a_queue_without_a_source_stops_no_other(any_client: Redis) -> None:
    holding(any_client, "dead", bodies(1, 2, 3), beat_ms=120_000)
    any_client.lpush(original.build_key("w2", "unacked"), *bodies(8, 9))
    any_client.sadd(original.CONSUMERS, "w2")
    result, nameless = {"orizuru": registry.create_system("orizuru:source=jobs")}, Ref("orizuru", "orizuru")
    done = build_round("reap", any_client, result, lambda: [nameless, JOBS])()
    assert [(step.ref, step.moved, "source" in step.error) for step in done.steps] == [
        (JOBS, 3, False),
        (nameless, 0, True),
    ]
    assert any_client.llen(original.build_key("w2", "unacked")) == 2
    assert build_round("reap", any_client, result, lambda: [JOBS], limit=1, args={"gc": True})().is_full
    assert any_client.lrange("jobs", 0, -1) == bodies(8, 3, 2, 1)  # rejected jobs go behind those that wait


@pytest.mark.parametrize(
    "spec", ["silent_ms=soon", "silent_ms=0", "silent_ms=-5", "source=orizuru:consumers", "from=x"]
)
def test_an_option_that_makes_no_sense_is_a_sentence(spec: str) -> None:
    with pytest.raises(UsageError, match="orizuru"):
        registry.create_system(f"orizuru:{spec}")


@pytest.mark.parametrize("queue", ["", "orizuru:consumers", "orizuru:heartbeats", "orizuru:consumers:w1:processing"])
def test_a_key_of_the_system_itself_is_no_source(queue: str) -> None:
    with pytest.raises(UsageError, match="is no source"):
        registry.create_system("orizuru").keys(queue)


def test_bodies_go_in_as_messagepack_that_a_consumer_reads(any_client: Redis) -> None:
    system, engine = registry.create_system("orizuru:source=jobs"), open_engine(any_client)
    texts = [b"[42]", b'{"id": 42}', b"\x91\x2a", b"\xdc\x00\x01\x2a"]
    assert [o.word for o in engine.send_request(system.put_request("jobs", [{"body": text} for text in texts]))] == [
        "moved"
    ] * 4
    assert [job.body for job in list_jobs(engine, "source")] == [b"\x91\x2a", b"\x81\xa2id\x2a", *texts[2:]]
    seen: list[Any] = []
    worker = original.Worker(any_client, "jobs", "w1", seen.append)
    assert [worker.step() for _ in texts] == ["acked"] * 4 and seen == [[42], {"id": 42}, [42], [42]]
    for text in (b"hello", b"42", b"7", b'"x"', b"", b"\x91", b"\x91\x2a\x00", b"[" + b"9" * 30 + b"]"):
        with pytest.raises(UsageError, match="MessagePack"):
            system.put_request("jobs", [{"body": text}])
    with pytest.raises(UsageError, match="keeps no id"):
        system.put_request("jobs", [{"body": b"[]", "id": "x"}])


def test_a_job_is_found_by_its_name_its_bytes_and_by_a_name_from_elsewhere(any_client: Redis) -> None:
    holding(any_client, "w1", bodies(1, 1, 2)).beat(ttl_ms=60_000)
    engine, stranger = open_engine(any_client), open_engine(any_client)
    jobs = list_jobs(engine, "processing")
    assert len({job.id for job in jobs}) == 3 and jobs[1].id == jobs[0].id + b".2"
    assert jobs[0].worker == "w1" and jobs[0].deadline_ms == pytest.approx(time.time() * 1000 + 60_000, abs=5_000)
    for asked, id in ((engine, jobs[2].id), (stranger, jobs[2].id), (stranger, b"\x91\x02")):
        shown = asked.fetch_job(JOBS, id)
        assert shown and (shown.body, shown.place, shown.worker) == (b"\x91\x02", "processing", "w1")
    assert engine.fetch_job(JOBS, b"nothing") is None
    assert words(engine, "ack", [jobs[1]]) == ["moved"] and counts(engine)[1] == 2


@pytest.mark.slow
def test_a_body_of_30_mb_causes_no_large_page_and_is_fetched_only_for_a_verb(client: Redis) -> None:
    huge = original.encode_struct("x" * 30_000_000)
    client.lpush("jobs", b"\x91\x01", huge, b"\x91\x02")
    engine = open_engine(client)
    call = registry.create_system("orizuru:source=jobs").page_request("jobs", "source", 0, 50, 0).calls
    [answer] = scripts.send_calls(client, call)
    assert isinstance(answer, scripts.Reply) and sum(len(row[0]) + len(row[2]) for row in answer.rows) < 5000
    job = list_jobs(engine, "source")[1]
    assert job.is_partial and job.body is None and job.body_bytes == len(huge)
    assert words(engine, "delete", [job]) == ["moved"]
    assert client.lrange("jobs", 0, -1) == bodies(2, 1)


def test_pages_go_through_all_consumers_and_end_with_the_last(any_client: Redis) -> None:
    for n in range(3):
        holding(any_client, f"w{n}", bodies(*range(n * 10, n * 10 + 4)))
    engine = open_engine(any_client)
    pages = [engine.fetch_page(JOBS, "processing", offset, 5, 100) for offset in (0, 5, 10)]
    assert [page.next for page in pages] == [5, 10, None]
    assert [job.body for page in pages for job in page.jobs] == bodies(0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23)
    assert [job.body for job in engine.fetch_page(JOBS, "processing", -1, 3, 100).jobs] == bodies(21, 22, 23)


def test_a_reservation_by_rqtui_belongs_to_a_consumer_like_any_other(any_client: Redis) -> None:
    any_client.lpush("jobs", *bodies(1, 2, 3))
    engine, system = open_engine(any_client), registry.create_system("orizuru:source=jobs")
    answer = scripts.run_call(any_client, system.build_call("reserve", "jobs", {"limit": 2, "ttr_ms": 90_000}))
    jobs = system.read_taken_jobs("jobs", answer)
    assert [(job.body, job.worker) for job in jobs] == [(body, "rqtui") for body in bodies(1, 2)]
    assert any_client.smembers(original.CONSUMERS) == {b"rqtui"}
    assert 60_000 < any_client.pttl(original.build_key("rqtui", "heartbeat")) <= 90_000
    assert [worker.name for worker in engine.fetch_workers(JOBS)] == ["rqtui"]
    assert words(engine, "release", list(jobs)) == ["moved", "moved"]
    assert [job.body for job in list_jobs(engine, "source")] == bodies(1, 2, 3)


# --- together with the original's own workers ---------------------------------------------------------------------


@pytest.mark.slow
def test_a_thousand_jobs_between_the_original_and_rqtui_are_each_done_once(url: str, client: Redis) -> None:
    for number in range(1000):
        original.push_job(client, "jobs", number)
    holding(client, "dead", [], beat_ms=600_000)
    for _ in range(20):  # a consumer that died with twenty in its hands
        newest: Any = client.rpoplpush("jobs", original.build_key("dead", "processing"))
    client.hset(SEEN, "dead", build_seen_record(newest, int(time.time() * 1000) - 600_000, 20))
    done: Counter[int] = Counter()
    turn, stop, refused = threading.Lock(), threading.Event(), set(range(0, 1000, 7))

    def run(message: list[int]) -> None:
        with turn:
            if message[0] in refused:  # each of these is rejected once
                refused.discard(message[0])
                raise ValueError
            done[message[0]] += 1

    def consume(name: str) -> None:
        with connect(url) as own:
            worker = original.Worker(own, "jobs", name, run)
            worker.register()
            while not stop.is_set():
                worker.beat()
                worker.step(0.02)

    def operate() -> None:
        with connect(url) as own:
            engine = open_engine(own)
            system = engine.systems["orizuru"]
            while not stop.is_set():
                engine.apply_verb("reap", JOBS, (), {"limit": 7, "gc": True})
                taken_jobs = system.read_taken_jobs(
                    "jobs", scripts.run_call(own, system.build_call("reserve", "jobs", {"limit": 5}))
                )
                for number, job in enumerate(taken_jobs):
                    verb = "release"
                    if number < 3:
                        try:
                            run(msgpack.unpackb(job.body))
                            verb = "ack"
                        except ValueError:
                            verb = "reject"
                    assert words(engine, verb, [job]) == ["moved"]

    threads = [threading.Thread(target=consume, args=(f"w{n}",)) for n in range(3)] + [threading.Thread(target=operate)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and len(done) < 1000:
        time.sleep(0.05)
    stop.set()
    for thread in threads:
        thread.join()
    assert len(done) == 1000 and set(done.values()) == {1}
    assert counts(open_engine(client)) == (0, 0, 0)


# --- the suite catches what it is there to catch --------------------------------------------------------------------


PUT, TAKE = "redis.call('LPUSH', unacked, member)\n", "redis.call('LREM', processing, 1, member)\n"
GUARD = "  if type(redis.pcall('LLEN', key)) ~= 'number' then\n"
PLANTED = (
    Planted("takes before it puts", "reject", f"    {PUT}    {TAKE}", f"    {TAKE}    {PUT}", 2),
    Planted("forgets to take", "reject", TAKE, "\n", 2),
    Planted("puts into the wrong list", "reject", PUT, PUT.replace("unacked,", "processing,"), 2),
    Planted("pushes what is not held", "reject", "if redis.call('LPOS', processing, member)", "if true", 6),
    Planted("has no guard", "release", "redis.call('SCARD', consumers)\n", "", 8),
    Planted("uses a key that is not declared", "ack", "local outcomes = {}\n", "redis.call('SET', 'stray', 1)\n%s", 3),
    Planted("reaps the living", "reap", "left_ms == -2 and now_ms - beat > silent_ms", "true", 11),
    Planted("drains without freeing first", "requeue", "'LTRIM', unacked, 0, -1", "'LLEN', unacked", 13),
    Planted("takes the newest first", "reserve", "'RIGHT', 'LEFT'", "'LEFT', 'LEFT'", 11),
)  # fmt: skip


@run_in_one_test("fault", PLANTED, ids=str)
def test_the_suite_catches_a_script_that(fault: Planted, client: Redis) -> None:
    assert fault.is_caught(ORIZURU, client)
