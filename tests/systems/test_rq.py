"""Test how rqtui shows RQ 2.6 and 3.0: queues, jobs, workers, schedules, findings and bad input.

`test_rq_verbs.py` tests the verbs; `tests/beside` runs the stock program.
"""

from __future__ import annotations

import base64
import json
import pickle
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
from families import run_cases, run_in_one_test
from redis import Redis
from rq_subject import KEYS, NOW, NOW_S, SCRIPTS, format_time
from shell import shell

from rqtui.connection.connect import connect
from rqtui.engine.engine import Engine, build_engine
from rqtui.errors import Denied, UsageError
from rqtui.model import Fact, Finding, Focus, Job, PageSelection, Queue, Ref, Schedule
from rqtui.reports import errors, loops, workers
from rqtui.scripts import script as scripts
from rqtui.scripts.script import Reply
from rqtui.systems import registry
from rqtui.systems.rq import system as rq
from rqtui.testing import keyspace

PLACES = (
    "scheduled", "deferred", "ready_to_enqueue", "queued", "started", "intermediate", "finished", "failed", "canceled",
)  # fmt: skip
DEFAULT, MAIL = Ref("rq", "default"), Ref("rq", "mail")

# Recorded: what a worker of RQ 3.0.0 left of `fail("no 1")` and of `hello("bob")`.
DATA = (
    b"x\x9ck`\x9d*\xcb\x00\x01\x1a=\\%\x89\xc5\xd9\xc5zi\x89\x999S\xfczX\xf2\xf2\x15\x0c\xa7\xb4N\xa9\x9dR2E"
    b"\x0f\x00\xce\xe9\x0cz"
)
TRACE = 'Traceback (most recent call last):\n  File "tasks.py", line 4, in fail\nValueError: no 1\n'
RETURNED = "gAWVIQAAAAAAAAB9lCiMBWhlbGxvlIwDYm9ilIwBbpRdlChLAUsCSwNldS4="


BEGAN_S = [time.time()]


@pytest.fixture(autouse=True)
def began() -> None:
    """Set the test's clock to its beginning: modules are imported long before their tests run."""
    BEGAN_S[:] = [time.time()]


def now_s() -> float:
    """When this test began."""
    return BEGAN_S[0]


def written(seconds: float) -> str:
    """Format a time relative to now as RQ's hashes contain it (rq/utils.py 3.0)."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def data(function: str, *args: object, **kwargs: object) -> bytes:
    """Build a call as RQ writes it (rq/job.py 3.0)."""
    return zlib.compress(pickle.dumps((function, None, args, kwargs), 5))


def build_error(text: str) -> str:
    """Build an error as RQ writes it (rq/results.py 3.0)."""
    return base64.b64encode(zlib.compress(text.encode())).decode()


def job(
    client: Redis, id: str, place: str = "queued", queue: str = "default", *, at_s: float = 0.0, **fields: Any
) -> str:
    """Plant a job in a place of a queue, with the fields of its hash. `at_s` is its score relative to now."""
    own = {
        "data": data("tasks.add", 1, 2),
        "origin": queue,
        "status": {"intermediate": "queued"}.get(place, place),
        "description": "tasks.add(1, 2)",
        "created_at": written(now_s() - 60),
        "enqueued_at": written(now_s() - 20),
        "timeout": "180",
    }
    hash = {name: value for name, value in {**own, **fields}.items() if value is not None}
    client.hset(f"rq:job:{id}", mapping=hash)
    put(client, id, place, queue, at_s=at_s)
    return id


def put(client: Redis, id: str | bytes, place: str, queue: str = "default", *, at_s: float = 0.0) -> None:
    """Plant an id in a place, whatever its hash is."""
    client.sadd("rq:queues", f"rq:queue:{queue}")
    if place in ("queued", "intermediate"):
        client.rpush(f"rq:queue:{queue}" + (":intermediate" if place == "intermediate" else ""), id)
    else:
        key = {"started": "wip", "ready_to_enqueue": "ready"}.get(place, place)
        member = f"{id}:e-{id}" if place == "started" and isinstance(id, str) else id
        client.zadd(f"rq:{key}:{queue}", {member: int(now_s() + at_s)})


def worker(client: Redis, name: str, queue: str = "default", **fields: str) -> None:
    """Plant a worker of RQ that sends heartbeats."""
    client.sadd(f"rq:workers:{queue}", f"rq:worker:{name}")
    job_fields = {
        "last_heartbeat": written(now_s() - 5),
        "birth": written(now_s() - 500),
        "queues": queue,
        "state": "idle",
    }
    client.hset(
        f"rq:worker:{name}",
        mapping={
            **job_fields,
            "pid": "42",
            "hostname": "box",
            "version": "3.0.0",
            "python_version": "3.11.7 (main)",
            **fields,
        },
    )
    client.expire(f"rq:worker:{name}", 480)


def database(client: Redis) -> None:
    """Plant a job in each place of `default`, and one in `mail`; all is well."""
    worker(
        client, "w1", queues="default,mail", successful_job_count="7", failed_job_count="1", total_working_time="2.5"
    )
    client.sadd("rq:workers:mail", "rq:worker:w1")
    for place in PLACES:
        late = {"scheduled": 3600.0, "started": 900.0, "finished": 500.0, "failed": 9000.0}
        job(client, f"is-{place}", place, at_s=late.get(place, -20.0))
    client.hset("rq:job:is-failed", mapping={"ended_at": written(now_s() - 40), "data": DATA})
    client.xadd("rq:results:is-failed", {"type": 2, "worker_name": "w1", "exc_string": build_error(TRACE)})
    client.xadd("rq:results:is-finished", {"type": 1, "worker_name": "w1", "return_value": RETURNED})
    job(client, "letter", queue="mail")


def open_engine(client: Redis, *specs: str) -> Engine:
    """Create an engine that has searched for queues."""
    engine = build_engine(client, [registry.create_system(*specs)] if specs else registry.create_systems())
    for _found in engine.discover():
        pass
    return engine


def fetch_job(client: Redis, id: str, ref: Ref = DEFAULT, body_bytes: int = 65536) -> Job:
    found = open_engine(client).fetch_job(ref, id.encode(), body_bytes)
    assert found is not None
    return found


def count_queue(client: Redis, ref: Ref = DEFAULT) -> Queue:
    found = open_engine(client).take_snapshot(Focus(queues=(ref,), is_thorough=True)).find_queue(ref)
    assert found is not None
    return found


def findings(client: Redis, ref: Ref = DEFAULT) -> dict[str, Finding]:
    return {finding.kind: finding for finding in count_queue(client, ref).findings}


def facts(seen: Job) -> dict[str, object]:
    return {fact.name: fact.value for fact in seen.facts}


# -- places and jobs ---------------------------------------------------------------------------------------------------


def test_a_redis_with_rq_shows_its_queues_without_options_and_those_of_another_prefix_with_one(
    any_client: Redis,
) -> None:
    database(any_client)
    engine = open_engine(any_client)
    assert [ref for ref in engine.refs if ref.system == "rq"] == [DEFAULT, MAIL] and not engine.unsupported_systems
    assert engine.resolve("mail") == MAIL and engine.systems["rq"].queue_argument("mail") == "rq:mail"
    [system] = registry.create_systems(["rq:prefix={app}"])
    any_client.sadd("{app}:queues", "{app}:queue:default", "rq:queue:stray", "{app}:queue:")
    other = build_engine(any_client, [system])
    assert [ref for found in other.discover() for ref in found] == [DEFAULT]
    assert system.keys("default")["started"] == "{app}:wip:default"
    assert system.queue_argument("default") == "--system 'rq:prefix={app}' rq:default"
    assert system.has_queue(any_client, "default") and not system.has_queue(any_client, "nothing")
    for wrong in (("rq:prefix=",), ("rq:prefix=a b",), ("rq:prefix=a", "rq:prefix=b"), ("rq:queue=x",)):
        with pytest.raises(UsageError):
            registry.create_system(*wrong)


def test_a_queue_is_counted_alone_and_among_others_as_its_places_are_listed(any_client: Redis) -> None:
    database(any_client)
    job(any_client, "second")
    job(any_client, "due", "scheduled", at_s=-30)
    job(any_client, "late", "started", at_s=-10)
    worker(any_client, "w2")
    any_client.hset("rq:worker:w2", "death", written(now_s()))
    any_client.sadd("rq:workers:default", "rq:worker:gone")
    any_client.set("rq:suspended", "1")
    engine = open_engine(any_client)
    queues = {
        "alone": engine.send_request(engine.systems["rq"].queue_request("default")),
        "among others": engine.send_request(engine.systems["rq"].queues_request(["mail", "default"]))[1],  # type: ignore[arg-type]
    }

    def holds(how: str) -> None:
        queue = queues[how]
        assert queue.map_counts_by_place() == {place: 1 for place in PLACES} | {
            "scheduled": 2,
            "queued": 2,
            "started": 2,
        }
        assert (queue.overdue, queue.expired, queue.workers, queue.is_paused) == (1, 1, 1, True)
        assert queue.oldest_ready_ms is not None and queue.next_due_ms is not None and queue.next_expiry_ms is not None
        assert queue.oldest_ready_ms >= 19_000 and queue.next_due_ms <= -29_000 and queue.next_expiry_ms <= -9_000
        for place in PLACES:
            assert engine.fetch_page(DEFAULT, place).total == queue.count_in_place(place)

    run_cases((each, partial(holds, each)) for each in queues)


def test_jobs_that_fail_again_after_a_requeue_are_failures(client: Redis) -> None:
    job(client, "well", "finished", at_s=500)
    for at in range(30):
        job(client, f"f{at}", "failed", at_s=9_000)
    engine = open_engine(client)
    recent = [engine.take_snapshot(Focus((DEFAULT,))).rates[DEFAULT].recent]
    client.delete("rq:failed:default")
    client.rpush("rq:queue:default", *(f"f{at}" for at in range(30)))
    recent.append(engine.take_snapshot(Focus((DEFAULT,))).rates[DEFAULT].recent)
    client.ltrim("rq:queue:default", 20, -1)
    client.zadd("rq:failed:default", {f"f{at}": int(now_s() + 9_000) for at in range(20)})
    recent.append(engine.take_snapshot(Focus((DEFAULT,))).rates[DEFAULT].recent)
    assert [each.failed for each in recent] == [0, 0, 20]


def test_many_queues_are_counted_in_one_round_trip_by_scripts_of_at_most_fifty(client: Redis) -> None:
    for number in range(120):
        job(client, f"job-{number}", queue=f"queue-{number:03d}")
    engine = open_engine(client, "rq")
    engine.take_snapshot()
    snapshot = engine.take_snapshot()
    assert len(snapshot.queues) == 120 and {queue.count_in_place("queued") for queue in snapshot.queues} == {1}
    asks = engine._counting.build_requests(engine.client, engine.refs)
    assert all(len(call.keys) <= 1 + 50 * 10 for ask in asks for call in ask.calls)
    assert snapshot.cost.round_trips == 1


def test_a_long_page_is_the_pages_of_its_parts(client: Redis) -> None:
    for number in range(130):
        job(client, f"job-{number:03d}")
    engine = open_engine(client, "rq")
    page = engine.fetch_page(DEFAULT, "queued", 10, 110)
    assert [one.id for one in page.jobs] == [b"job-%03d" % number for number in range(10, 120)] and page.next == 120
    assert engine.fetch_page(DEFAULT, "queued", 120, 110).next is None
    assert [one.id for one in engine.fetch_page(DEFAULT, "queued", -1, 3).jobs] == [b"job-127", b"job-128", b"job-129"]
    assert [len(found) for found in engine.scan_jobs(DEFAULT, "queued", lambda one: one.id.endswith(b"7"))] == [13]


def test_a_row_of_each_place_shows_the_call_and_its_times(any_client: Redis) -> None:
    database(any_client)
    any_client.hset(
        "rq:execution:is-started:e-is-started", mapping={"worker_name": "w1", "last_heartbeat": now_s() - 3}
    )
    any_client.set("rq:queue:default:intermediate:first_seen:is-intermediate", now_s() - 2)
    engine = open_engine(any_client)
    rows = {place: engine.fetch_page(DEFAULT, place).jobs[0] for place in PLACES}
    assert {row.id for row in rows.values()} == {f"is-{place}".encode() for place in PLACES}
    assert {row.place for row in rows.values()} == set(PLACES) and not any(row.problem for row in rows.values())
    assert {row.call for place, row in rows.items() if place != "failed"} == {"tasks.add(1, 2)"}
    assert (rows["failed"].call, rows["failed"].name) == ("tasks.fail('no 1')", "tasks.fail")
    assert rows["failed"].error == TRACE
    assert (rows["started"].member, rows["started"].worker) == (b"is-started:e-is-started", "w1")
    expected = {
        "scheduled": ("due_ms", 3600), "started": ("deadline_ms", 900), "failed": ("since_ms", -40),
        "queued": ("since_ms", -20), "canceled": ("since_ms", -20), "deferred": ("since_ms", -20),
    }  # fmt: skip
    for place, (name, seconds) in expected.items():
        assert abs(getattr(rows[place], name) / 1000 - now_s() - seconds) < 2, place
    assert facts(rows["intermediate"])["seen by maintenance"] == round((now_s() - 2) * 1000)
    assert {row.ttr_ms for row in rows.values()} == {180_000}


def test_all_that_rq_stores_of_a_job_is_shown(any_client: Redis) -> None:
    database(any_client)
    job(any_client, "parent", "finished", "mail", at_s=500)
    job(any_client, "child", "deferred", "mail")
    any_client.sadd("rq:job:is-failed:dependents", "child", "is-deferred")
    fields = {
        "meta": pickle.dumps({"who": "ann", "n": [1, 2]}, 5),
        "dependency_ids": json.dumps(["parent", "is-finished"]),
        "description": "Mail to bob",
        "retries_left": "2",
        "retry_intervals": "[10, 60]",
        "result_ttl": "500",
        "failure_ttl": "-1",
        "group_id": "nightly",
        "rate_limit_key": "smtp",
        "success_callback_name": "",
        "status": "stopped",
    }
    any_client.hset("rq:job:is-failed", mapping=fields)
    ended = {"execution_started_at": f"{now_s() - 9:.3f}", "execution_ended_at": f"{now_s() - 4:.3f}"}
    any_client.xadd(
        "rq:results:is-failed", {"type": 3, "worker_name": "w2", "exc_string": build_error("stopped"), **ended}
    )
    seen = fetch_job(any_client, "is-failed")
    expected = {
        "status": "stopped", "description": "Mail to bob", "retries left": "2", "rate limit": "smtp",
        "meta": '{"who": "ann", "n": [1, 2]}', "timeout": 180_000, "result ttl": 500_000, "failure ttl": "for ever",
        "group id": "nightly", "retry intervals": "[10, 60]",
    }  # fmt: skip
    assert expected.items() <= facts(seen).items() and "success callback name" not in facts(seen)
    assert [fact for fact in seen.facts if fact.kind == "ref"] == [
        Fact("depends on", b"parent", "ref", "mail"),
        Fact("depends on", b"is-finished", "ref"),
        Fact("dependent", b"child", "ref", "mail"),
        Fact("dependent", b"is-deferred", "ref"),
    ]
    assert seen.error == "stopped" and seen.body == DATA and not seen.problem
    assert [(run.worker, run.error) for run in seen.history] == [
        ("w1", TRACE),
        ("w2", "stopped"),
    ]
    assert seen.history[1].end_ms - seen.history[1].start_ms == 5000
    assert facts(fetch_job(any_client, "is-finished"))["result"] == '{"hello": "bob", "n": [1, 2, 3]}'
    any_client.zadd("rq:executions:is-started", {"e-is-started": now_s() + 150})
    any_client.hset(
        "rq:execution:is-started:e-is-started", mapping={"worker_name": "w1", "last_heartbeat": now_s() - 3}
    )
    running = fetch_job(any_client, "is-started")
    assert running.member == b"is-started:e-is-started" and running.worker == "w1"
    assert facts(running)["execution"] == "e-is-started by w1"
    assert facts(running)["heartbeat"] == round((now_s() - 3) * 1000)


@run_in_one_test(
    "given, call, name",
    [
        (data("mail.send", "a", to=["b"], n=None), "mail.send('a', to=['b'], n=None)", "mail.send"),
        (
            zlib.compress(json.dumps(["tasks.add", None, [1, "x"], {"k": 2}]).encode()),
            "tasks.add(1, 'x', k=2)",
            "tasks.add",
        ),
        (pickle.dumps(("tasks.add", None, (1,), {}), 2), "tasks.add(1)", "tasks.add"),
        (zlib.compress(pickle.dumps(("count", datetime(2026, 1, 2), (1,), {}), 5)), None, "count"),
    ],
)
def test_a_call_is_read_in_each_way_that_rq_writes_it(given: bytes, call: str | None, name: str, client: Redis) -> None:
    job(client, "a", data=given, description="other words")
    seen = fetch_job(client, "a")
    assert (seen.name, seen.problem) == (name, "")
    assert (
        seen.call == call if call else seen.call.startswith("datetime.datetime(") and seen.call.endswith(").count(1)")
    )


def test_the_place_of_a_job_is_found_by_its_id_and_in_its_own_queue_only(client: Redis) -> None:
    database(client)
    job(client, "lost", "queued")
    client.lrem("rq:queue:default", 0, "lost")
    job(client, "held", "queued", status="rate_limited", rate_limit_key="smtp")
    client.lrem("rq:queue:default", 0, "held")
    job(client, "twice", "failed", at_s=900)
    client.rpush("rq:queue:default", "twice")
    client.zadd("rq:wip:default", {"old": now_s()})  # as RQ 1 had it
    client.hset("rq:job:old", mapping={"data": DATA, "origin": "default", "status": "started"})
    for place in PLACES:
        assert fetch_job(client, f"is-{place}").place == place
        assert open_engine(client).fetch_job(MAIL, f"is-{place}".encode()) is None
    found = open_engine(client).find_jobs_by_id([b"letter", b"lost", b"nobody"])
    assert [(ref, one.id) for ref, one in found.jobs] == [(DEFAULT, b"lost"), (MAIL, b"letter")]
    assert "no worker will find it" in fetch_job(client, "lost").problem
    assert "rate limit" in fetch_job(client, "held").problem
    assert fetch_job(client, "twice").problem == "it is in failed and in queued"
    assert (fetch_job(client, "old").place, fetch_job(client, "old").member) == ("started", b"old")


def test_the_remaining_retries_decide_what_happens_to_a_started_job(client: Redis) -> None:
    for id, left in (("last", {}), ("none", {"retries_left": "0"}), ("again", {"retries_left": "2"})):
        job(client, id, "started", **left)
        put(client, id, "started", at_s=now_s() + 60)
    engine = open_engine(client)
    found = {each.job.id: each for each in loops.build_loop_report(engine, [DEFAULT], 9).coming}
    assert {id: loops.format_target_places("reap", each.job, engine.systems["rq"]) for id, each in found.items()} == {
        b"last": "failed",
        b"none": "failed",
        b"again": "queued or scheduled",
    }


def test_errors_are_grouped_by_what_was_raised(client: Redis) -> None:
    trace = 'Traceback (most recent call last):\n  File "/app/tasks.py", line 4, in fail\n    raise ValueError(what)\n'
    for number in range(5):
        job(client, f"f-{number}", "failed", at_s=9000, data=data("tasks.fail", number))
        client.xadd(
            f"rq:results:f-{number}", {"type": 2, "exc_string": build_error(f"{trace}ValueError: no {number}\n")}
        )
    job(client, "old", "failed", at_s=9000, exc_info=zlib.compress(b"KeyError: 'as RQ 1 kept it'"))
    job(client, "bare", "failed", at_s=9000, exc_info="not compressed")
    job(client, "unwanted", "canceled")
    engine = open_engine(client, "rq")
    [*_steps, found] = errors.yield_error_reports(engine, [DEFAULT])
    assert found is not None and found.size.of == found.count == 7, "who was canceled did not fail"
    steps = list(errors.yield_group_members(engine, [DEFAULT], found.groups[0].key, found.grouping))
    assert sum(len(step.jobs) for step in steps) == 5 and (steps[-1].of, steps[-1].left) == (7, 0)
    groups = {group.message: group.dead for group in found.groups}
    assert groups == {"ValueError: no #": 5, "KeyError: 'as RQ # kept it'": 1, "not compressed": 1}


# -- workers and schedules ---------------------------------------------------------------------------------------------


def test_workers_show_what_they_run_and_dead_ones_are_missing(any_client: Redis) -> None:
    database(any_client)
    worker(any_client, "w3", state="busy", shutdown_requested_date=written(now_s()))
    any_client.sadd("rq:worker:w3:executions", "is-started:e-is-started")
    worker(any_client, "w2", version="2.6.0", current_job="other")
    any_client.sadd("rq:workers:default", "rq:worker:gone", "no key of a worker")
    any_client.hset("rq:job:is-started", "worker_name", "w3")
    engine = open_engine(any_client)
    roster = {one.name: one for one in engine.fetch_workers(DEFAULT)}
    assert list(roster) == ["gone", "no key of a worker", "w1", "w2", "w3"]
    w1, w3, gone = roster["w1"], roster["w3"], roster["gone"]
    assert (w1.pid, w1.host, w1.state, w1.order, w1.queues) == ("42", "box", "idle", "run", ("default", "mail"))
    assert [tuple(fact)[:2] for fact in w1.facts] == [
        ("successful jobs", "7"), ("failed jobs", "1"), ("worked for", 2500), ("version", "RQ 3.0.0, Python 3.11.7"),
    ]  # fmt: skip
    assert (w3.job, w3.order, roster["w2"].job) == (b"is-started", "stop", b"other")
    assert (gone.state, gone.heartbeat_ms) == ("gone", 0) and w1.heartbeat_ms == round((now_s() - 5) * 1000)
    assert abs(w1.heartbeat_ms + w1.ttl_ms - 1000 * (now_s() + 480)) < 60_000
    seats, _now_ms, problems = workers.load_workers(engine, [DEFAULT])
    assert {seat.name: seat.health.value for seat in seats}["gone"] == "gone" and not problems
    assert next(seat for seat in seats if seat.name == "w3").jobs[0].id == b"is-started"


def test_all_workers_of_a_large_fleet_are_read_and_a_limit_is_reported(
    client: Redis, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"w{number}" for number in range(1_001)]
    client.sadd("rq:queues", "rq:queue:default")
    client.sadd("rq:workers:default", *(f"rq:worker:{name}" for name in names))
    seats, _now_ms, problems = workers.load_workers(open_engine(client), [DEFAULT])
    assert {seat.name for seat in seats} == set(names) and not problems
    engine = open_engine(client)
    assert len(engine.fetch_workers(DEFAULT)) == rq.MIN_WORKERS, "their number was not known"
    assert len(engine.fetch_workers(DEFAULT)) == 1_001
    monkeypatch.setattr(rq, "MAX_WORKERS", 700)
    seats, _now_ms, problems = workers.load_workers(engine, [DEFAULT])
    assert len(seats) == 700 and problems == ("700 of 1 001 workers of default were read",)
    ran = shell(url, "workers", "rq:default")
    assert ran.code == 1 and "rqtui: 700 of 1 001 workers of default were read" in ran.err


def test_jobs_of_rq_scheduler_are_schedules_with_their_pattern_and_next_time(any_client: Redis) -> None:
    # As rq-scheduler 0.14.0 writes them beside RQ 2.6: the meta of `schedule(…, interval=60, repeat=3)` and of `cron`.
    # fmt: off
    cron_meta = (
        b"\x80\x05\x95\x35\0\0\0\0\0\0\0}\x94(\x8c\x0bcron_string\x94\x8c\t0 3 * * *\x94"
        b"\x8c\x12use_local_timezone\x94\x89u."
    )
    # fmt: on
    jobs = {
        "periodic": (60, pickle.dumps({"interval": 60, "repeat": 3})),
        "nightly": (3600, cron_meta),
        "single": (300, b""),
        "late": (-600, pickle.dumps({"interval": 5})),
        "unreadable": (90, b"\xff"),
        "missing": (30, None),
    }
    for id, (in_s, meta) in jobs.items():
        any_client.zadd("rq:scheduler:scheduled_jobs", {id: round(now_s() + in_s)})
        if meta is not None:
            job = {"origin": "low", "description": f"tasks.report('{id}')", "status": "scheduled"}
            any_client.hset(f"rq:job:{id}", mapping={**job, **({"meta": meta} if meta else {})})  # type: ignore[arg-type]
    engine = open_engine(any_client)
    ask = engine.systems["rq"].schedules_request()
    assert ask is not None
    found = {one.name: one for one in engine.send_request(ask)}
    assert {name: (one.queue, one.pattern, one.problem.partition(":")[0]) for name, one in found.items()} == {
        "periodic": ("low", "every 60 s, 3 more times", ""),
        "nightly": ("low", "0 3 * * *", ""),
        "single": ("low", "once", ""),
        "late": ("low", "every 5 s", "it is overdue"),
        "unreadable": ("low", "", "its meta cannot be read"),
        "missing": ("", "", "its job is missing"),
    }
    assert found["periodic"].call == "tasks.report('periodic')"
    assert found["periodic"].next_ms is not None and abs(found["periodic"].next_ms / 1000 - now_s() - 60) < 5


def test_cron_jobs_are_reported_with_their_schedulers(any_client: Redis) -> None:
    hourly = {"func_name": "tasks.add", "name": "sum", "queue_name": "default", "args": "[1, 2]", "kwargs": '{"k": 3}',
              "interval": None, "cron": "0 * * * *", "latest_enqueue_time": None,
              "next_enqueue_time": written(now_s() + 60)}  # fmt: skip
    often = {"func_name": "tasks.beat", "queue_name": "mail", "args": None, "kwargs": "<not JSON serializable>",
             "interval": 30, "latest_enqueue_time": written(now_s() - 10)}  # fmt: skip
    for name, jobs in (("a", [hourly, often]), ("b", [hourly]), ("rq2", None), ("broken", "{")):
        any_client.zadd("rq:cron_schedulers", {name: now_s()})
        fields = {"hostname": "box", "pid": "7"} | (
            {} if jobs is None else {"cron_jobs": jobs if jobs == "{" else json.dumps(jobs)}
        )
        any_client.hset(f"rq:cron_scheduler:{name}", mapping=fields)
    any_client.zadd("rq:cron_schedulers", {"dead": now_s() - 900})
    any_client.zadd("rq:cron_jobs", {"sum": now_s() - 3600})
    engine = open_engine(any_client)
    ask = engine.systems["rq"].schedules_request()
    assert ask is not None
    found: dict[str, list[Schedule]] = {}
    for one in engine.send_request(ask):
        found.setdefault(one.name, []).append(one)
    assert {name: len(each) for name, each in found.items()} == {
        "sum": 2,
        "tasks.beat": 1,
        "rq2": 1,
        "broken": 1,
        "dead": 1,
    }
    first, beat = found["sum"][0], found["tasks.beat"][0]
    assert (first.queue, first.pattern, first.call, first.owner) == (
        "default",
        "0 * * * *",
        "tasks.add(1, 2, k=3)",
        "a 7@box",
    )
    assert first.last_ms == round(1000 * (now_s() - 3600)) and first.problem == "2 schedulers enqueue it, each of them"
    assert first.next_ms is not None and abs(first.next_ms / 1000 - now_s() - 60) < 1
    assert (beat.pattern, beat.call, beat.problem) == ("every 30 s", "tasks.beat()", "")
    assert not found["dead"][0].enabled and "died" in found["dead"][0].problem
    assert "does not say" in found["rq2"][0].problem and found["rq2"][0].enabled


def test_a_shell_needs_no_option(client: Redis, url: str) -> None:
    database(client)
    client.sadd("rq:workers:default", "rq:worker:gone")
    [row, _letter] = shell(url, "snapshot", "--json").json["queues"]
    assert (row["queue"], row["layout"], row["workers"]) == ("default", "rq", 1)
    assert "tasks.fail" in shell(url, "jobs", "rq:default", "failed").out
    assert shell(url, "show", "default", "is-failed", "--json").json["name"] == "tasks.fail"
    assert "ValueError: no #" in shell(url, "errors").out
    entries_by_worker = {one["worker"]: one for one in shell(url, "workers", "default", "--json").json}
    assert (entries_by_worker["gone"]["state"], entries_by_worker["gone"]["beat_at_ms"]) == (
        "gone",
        None,
    ) and entries_by_worker["w1"]["beat_at_ms"] > 0
    assert "not known" in shell(url, "workers").out
    health = shell(url, "health")
    assert health.code == 1 and "redis-cli SREM rq:workers:default rq:worker:gone" in health.out
    assert shell(url, "acl", "viewer", "rq:default").out.count("~rq:") > 15


# -- its own faults ----------------------------------------------------------------------------------------------------


def plant_abandoned_run(client: Redis) -> None:
    job(client, "a", "started", at_s=-30, worker_name="w9")
    client.sadd("rq:worker:w9:executions", "a:e-a")  # what is left of a worker that died
    job(client, "ended already", "started", at_s=-30, status="finished")
    job(client, "runs", "started", at_s=600)
    for id in ("beats", "is held"):  # their worker lives, so reap leaves them
        job(client, id, "started", at_s=-30, worker_name="w8")
    client.hset("rq:execution:beats:e-beats", "last_heartbeat", written(now_s()))
    client.hset("rq:worker:w8", mapping={"birth": written(now_s() - 900), "current_job": "is held"})


def no_scheduler(client: Redis) -> None:
    job(client, "a", "scheduled", at_s=-30)
    job(client, "later", "scheduled", at_s=300)


def plant_late_scheduler(client: Redis) -> None:
    job(client, "a", "scheduled", at_s=-200)
    client.set("rq:scheduler-lock:default", "s1")


def mixed_units(client: Redis) -> None:
    job(client, "a", "scheduled")
    client.zadd("rq:scheduled:default", {"a": now_s() * 1000})
    job(client, "later", "scheduled", at_s=300)


def vanishing(client: Redis) -> None:
    job(client, "a")
    client.expire("rq:job:a", 7430)
    job(client, "in a year")
    client.expire("rq:job:in a year", 31_536_000)
    job(client, "by choice", ttl="60")
    client.expire("rq:job:by choice", 60)


def ghost(client: Redis) -> None:
    put(client, "a", "failed", at_s=100)
    put(client, "forgotten a minute ago", "finished", at_s=-60)


def stale_intermediate(client: Redis) -> None:
    worker(client, "w1")
    job(client, "a", "intermediate", status="finished")
    job(client, "just taken", "intermediate")
    client.set("rq:queue:default:intermediate:first_seen:just taken", time.time())


def heavy_results(client: Redis) -> None:
    for place in ("finished", "failed"):
        client.zadd(f"rq:{place}:default", {f"{place}-{number}": now_s() + 9000 + number for number in range(10_000)})
    for number in (9_999, 9_998):
        job(client, f"finished-{number}", "finished", at_s=99_999 + number)
    client.xadd("rq:results:finished-9999", {"type": 1})


def plant_missing_worker(client: Redis) -> None:
    worker(client, "w1")
    client.sadd("rq:workers:default", "rq:worker:w9")


def parent_failed(client: Redis) -> None:
    for id in ("a", "fine"):
        job(client, id, "failed", at_s=9000, dependency_ids="[]")
    for number in range(3):
        job(client, f"child-{number}", "deferred", dependency_ids='["a"]')
        client.sadd("rq:job:a:dependents", f"child-{number}")
    job(client, "allows it", "deferred", dependency_ids='["fine"]', allow_dependency_failures="1")


def at_limit(client: Redis) -> None:
    client.sadd("rq:rl-keys", "smtp")
    client.hset("rq:rl:smtp", "concurrency", 2)
    for id in ("a", "b"):
        job(client, id, "rate_limited", status="rate_limited", rate_limit_key="smtp")
        client.zadd("rq:rl:smtp:rate_limited", {id: now_s()})
    job(client, "runs", "started", at_s=600)


FAULTS: Mapping[str, tuple[Callable[[Redis], None], str, str, str]] = {
    "abandoned": (plant_abandoned_run, "rq:wip:default", "1 started", "rqtui reap rq:default"),
    "parent-failed": (
        parent_failed,
        "rq:job:a",
        "3 jobs deferred without end, waiting for job a",
        "act requeue rq:default a",
    ),
    "held-by-limit": (
        at_limit,
        "rq:rl:smtp:rate_limited",
        "at its limit of 2 jobs at once: 2 jobs waiting",
        "rq:rl:smtp concurrency",
    ),
    "no-scheduler": (no_scheduler, "rq:scheduled:default", "1 due job in", "rqtui dispatch rq:default"),
    "scheduler-behind": (
        plant_late_scheduler,
        "rq:scheduled:default",
        "scheduler s1",
        "61 s: rqtui dispatch rq:default",
    ),
    "mixed-units": (mixed_units, "rq:scheduled:default", "1 job in rq:scheduled:default", "act reschedule or promote"),
    "vanishing": (vanishing, "rq:queue:default", "2h0", "redis-cli PERSIST rq:job:a"),
    "ghost": (ghost, "rq:failed:default", "1 checked id in", "rqtui act delete rq:default a"),
    "stale-intermediate": (stale_intermediate, "rq:queue:default:intermediate", "finished", "rqtui reap rq:default"),
    "heavy-results": (heavy_results, "rq:finished:default", "104 MB", "--place finished --all"),
    "worker-gone": (plant_missing_worker, "rq:workers:default", "rq:worker:w9", "SREM rq:workers:default rq:worker:w9"),
}


def test_each_fault_of_rq_is_named_with_its_key_and_what_helps(any_client: Redis) -> None:
    database(any_client)
    assert not findings(any_client)

    def holds(kind: str) -> None:
        any_client.flushall()
        plant, key, text, remedy = FAULTS[kind]
        any_client.sadd("rq:queues", "rq:queue:default")
        plant(any_client)
        found_findings = findings(any_client)
        assert kind in found_findings and {"due-not-dispatched", "expired-not-reaped"}.isdisjoint(found_findings), (
            found_findings.keys()
        )
        assert (
            found_findings[kind].keys == (key,)
            and text in found_findings[kind].text
            and remedy in found_findings[kind].remedy
        ), found_findings[kind]
        assert found_findings[kind].ids in ((b"a",), (), (b"finished-9999",))

    run_cases((each, partial(holds, each)) for each in FAULTS)


def test_fixes_use_the_terms_of_rq(client: Redis) -> None:
    job(client, "a", enqueued_at=written(now_s() - 900))
    assert findings(client)["no-live-worker"].remedy == "start one: rq worker default"


# -- bad input ---------------------------------------------------------------------------------------------------------

BOMB = zlib.compress(b"\x80" + b"0" * 3_000_000, 9)


class Evil:
    def __reduce__(self) -> tuple[object, ...]:
        import os

        return os.system, ("touch /tmp/rqtui-was-here",)


@pytest.mark.slow
def test_what_no_reader_understands_is_shown_named_and_never_run(client: Redis) -> None:
    bad: Mapping[str, tuple[dict[str, Any], str]] = {
        "no-data": ({"data": None}, "its hash has no data"),
        "empty": ({"data": ""}, ""),
        "noise": ({"data": b"\xff\x00\x01"}, "neither a pickle nor JSON"),
        "torn": ({"data": data("tasks.add", 1)[:-9]}, "no pickle"),
        "evil": ({"data": zlib.compress(pickle.dumps(Evil()))}, "no call of RQ: posix.system('touch"),
        "evil-arg": ({"data": data("tasks.add", Evil())}, ""),
        "bomb": ({"data": BOMB}, "inflates to more than"),
        "deep": ({"data": zlib.compress(b"[" * 60_000)}, "neither a pickle nor JSON"),
        "big": (
            {
                "data": zlib.compress(pickle.dumps(("tasks.add", None, ("x" * 30_000_000,), {}), 5), 0),
                "description": "tasks.add('xx…')",
            },
            "",
        ),
        "other": ({"data": zlib.compress(b"[1]")}, "no call of RQ"),
        "times": (
            {"enqueued_at": "yesterday", "timeout": "soon", "ttl": "\xff"},
            "enqueued_at is no time: 'yesterday'",
        ),
        "year": ({"enqueued_at": "99999-01-01T00:00:00Z", "retries_left": "9" * 400}, "enqueued_at is no time"),
        "lines": ({"status": "a\nb\x1b[31m", "origin": "else\x1bwhere"}, "of the queue else"),
    }
    for id, (fields, _problem) in bad.items():
        job(client, id, **fields)
    client.set("rq:job:string", "not a hash")
    for id in ("string", "ghost", "good"):
        put(client, id, "queued")
    job(client, "ok")
    before = keyspace.dump(client)
    engine = open_engine(client)
    page = engine.fetch_page(DEFAULT, "queued", 0, 100)
    rows = {one.id.decode(): one for one in page.jobs}
    expected = {id: problem for id, (_fields, problem) in bad.items()}
    expected |= {"string": "rq:job:string holds what is no hash", "ghost": "its hash is missing", "ok": ""}

    def holds(id: str) -> None:
        for seen in (rows[id], fetch_job(client, id, body_bytes=-1) if id not in ("ghost",) else rows[id]):
            problem = expected[id] if id != "big" or seen.body is None else "inflates to more than"
            assert problem in seen.problem if problem else not seen.problem, seen.problem
            assert "\x1b" not in seen.problem and "\n" not in seen.problem

    run_cases((each, partial(holds, each)) for each in expected)
    assert rows["big"].body is None and rows["big"].body_bytes > 29_000_000 and rows["big"].name == "tasks.add"
    assert rows["evil-arg"].call == "tasks.add(posix.system('touch /tmp/rqtui-was-here'))"
    client.hset("rq:job:ok", "meta", b"\x80" * 30_000_000)
    client.xadd("rq:results:ok", {"type": 1, "return_value": base64.b64encode(b"\x00" * 90_000)})
    shown_facts = facts(fetch_job(client, "ok"))
    assert (shown_facts["meta"], shown_facts["result"]) == ("30000000 bytes: too long to show", "longer than 64 kB")
    client.hdel("rq:job:ok", "meta")
    client.delete("rq:results:ok")
    assert count_queue(client).count_in_place("queued") == len(bad) + 4 and not count_queue(client).error
    assert keyspace.dump(client) == before


def test_another_programs_key_or_an_odd_name_of_a_queue_stops_nothing_else(client: Redis) -> None:
    long, odd = "q" * 300, "caf\udce9"
    job(client, "a")
    client.sadd("rq:queues", b"rq:queue:" + long.encode(), b"rq:queue:caf\xe9", "rq:queue:two words", "rq:queue:held")
    client.rpush(b"rq:queue:caf\xe9", "odd-1")
    client.hset(
        "rq:job:odd-1", mapping={"data": DATA, "origin": b"caf\xe9", "status": "queued", "created_at": written(now_s())}
    )
    client.rpush(f"rq:queue:{long}", "a")
    client.set("rq:failed:held", "another program")
    engine = open_engine(client)
    assert [ref.queue for ref in engine.refs] == sorted([odd, "default", "held", long, "two words"])
    queues = {queue.name: queue for queue in engine.take_snapshot().queues}
    assert queues["held"].verdict.kind == "wrong-type" and queues["held"].findings[0].keys == ("rq:failed:held",)
    assert {name: queue.count_in_place("queued") for name, queue in queues.items() if name != "held"} == {
        odd: 1, "default": 1, long: 1, "two words": 0,
    }  # fmt: skip
    assert not any(queue.error for name, queue in queues.items() if name != "held")
    seen = engine.fetch_job(Ref("rq", odd), b"odd-1")
    assert seen is not None and (seen.call, seen.problem) == ("tasks.fail('no 1')", "")
    job(client, "b", queue="held")
    held = count_queue(client, Ref("rq", "held"))
    seen = engine.fetch_job(Ref("rq", "held"), b"b")
    assert seen is not None and (seen.place, seen.problem) == ("queued", "")
    assert not held.error and (held.count_in_place("queued"), held.count_in_place("failed")) == (1, 0)
    assert (
        engine.fetch_page(Ref("rq", "held"), "failed").error
        and engine.fetch_page(Ref("rq", "held"), "queued").total == 1
    )
    client.delete("rq:queues")
    client.set("rq:queues", "no set")
    assert "rq" in open_engine(client).problems
    client.set("rq:workers:default", "no set")
    new_queue = count_queue(client)
    assert not new_queue.error and new_queue.workers is None and new_queue.findings[0].keys == ("rq:workers:default",)


def test_each_key_of_another_program_is_reported_and_all_else_is_counted_paged_and_shown(any_client: Redis) -> None:
    """One queue alone, and several in one script; what workers do with `suspended` is said, too."""
    database(any_client)
    engine = open_engine(any_client)
    whole, before = count_queue(any_client), keyspace.dump(any_client)
    keys = engine.systems["rq"].keys("default")
    strings = {"suspended", "lock"}

    def holds(name: str) -> None:
        key = keys[name]
        any_client.flushall()
        keyspace.plant(any_client, before)
        any_client.delete(key)
        any_client.rpush(key, "another's") if name in strings else any_client.set(key, "another's")
        theirs = keyspace.dump(any_client)
        together = open_engine(any_client).take_snapshot(Focus(is_thorough=True)).find_queue(DEFAULT)
        for queue in (count_queue(any_client), together):
            [actual] = [each for each in queue.findings if each.kind == "wrong-type"]
            kind = "list" if name in strings else "string"
            assert actual.keys == (key,) and actual.text.startswith(f"key {key} holds a {kind}: another program"), (
                actual
            )
            assert actual.severity == "critical" and "RENAME" in actual.remedy and not queue.error
            assert {each.place: each.count for each in queue.counts} == {
                each.place: 0 if each.place == name else each.count for each in whole.counts
            }
            assert queue.workers == (None if name == "workers" else 1) and queue.is_paused is (name == "suspended")
            assert "workers" not in queue.unknown, "RQ keeps them: the finding says why they are not told"
        for place in PLACES:
            page = engine.fetch_page(DEFAULT, place)
            if place == name:
                assert page.error == f"key {key} holds a string, not a {_TYPES[place]}: another program uses this name"
                continue
            assert [each.place for each in page.jobs] == [place]
            seen = engine.fetch_job(DEFAULT, page.jobs[0].id)
            assert seen is not None and seen.place == place
        assert keyspace.dump(any_client) == theirs

    run_cases((name, partial(holds, name)) for name in (*PLACES, "workers", *sorted(strings)))


_TYPES = {place: "list" if place in ("queued", "intermediate") else "zset" for place in PLACES}


def test_a_right_that_is_missing_is_no_key_of_another_program(client: Redis, url: str) -> None:
    database(client)
    client.execute_command("ACL", "SETUSER", "bob", "reset", "on", ">pw", "~*", "+@all", "-zcard")
    with connect(url.replace("redis://", "redis://bob:pw@")) as limited, pytest.raises(Denied):
        build_engine(limited, [registry.create_system("rq")]).take_snapshot(Focus(queues=(DEFAULT,)))


def test_scores_that_are_no_seconds_are_reported_and_the_rest_is_counted(any_client: Redis) -> None:
    for id, score in (("ms", 1e12), ("inf", float("inf")), ("old", -5.0), ("well", now_s() + 50)):
        job(any_client, id, "scheduled")
        any_client.zadd("rq:scheduled:default", {id: score})
        job(any_client, f"run-{id}", "started")
        any_client.zadd("rq:wip:default", {f"run-{id}:e-run-{id}": score})
    any_client.zadd("rq:finished:default", {"ms": float("inf")})
    rows = {
        one.id: one
        for place in ("scheduled", "started")
        for one in open_engine(any_client).fetch_page(DEFAULT, place).jobs
    }
    wrong = {id for id, one in rows.items() if "is no time in seconds" in one.problem}
    assert wrong == {b"ms", b"inf", b"old", b"run-ms", b"run-inf", b"run-old"} and rows[b"well"].due_ms is not None
    queue = count_queue(any_client)
    assert (queue.count_in_place("scheduled"), queue.count_in_place("started"), queue.overdue) == (
        4,
        4,
        1,
    ) and not queue.error


# -- looking never writes ----------------------------------------------------------------------------------------------


def list_readers(engine: Engine) -> Sequence[Callable[[], object]]:
    """Everything that looks."""
    system = engine.systems["rq"]
    pages = tuple(PageSelection(DEFAULT, place, 0, 100, 4096) for place in PLACES)
    ask = system.schedules_request()
    assert ask is not None
    return (
        lambda: [found for found in engine.discover(fully=True)],
        lambda: engine.take_snapshot(Focus(pages=pages, job=(DEFAULT, b"is-started"), is_thorough=True)),
        lambda: [*errors.yield_error_reports(engine, [DEFAULT, MAIL])],
        lambda: workers.load_workers(engine, [DEFAULT, MAIL]),
        lambda: engine.find_jobs_by_id([b"is-failed", b"nobody"]),
        lambda: engine.send_request(ask),
    )


def test_a_poll_sends_no_command_that_writes_whatever_is_wrong(client: Redis) -> None:
    database(client)
    for plant in (plant_abandoned_run, no_scheduler, ghost, stale_intermediate, plant_missing_worker):
        plant(client)
    writes = {name.decode() for name in client.execute_command("ACL", "CAT", "write")}
    before = keyspace.dump(client)
    engine = open_engine(client, "rq")
    client.config_resetstat()
    for look in list_readers(engine):
        look()
    sent = {name.removeprefix("cmdstat_").partition("|")[0] for name in client.info("commandstats")}
    assert {"evalsha_ro", "zcard", "xrevrange"} <= sent and not sent & writes, sent & writes
    assert keyspace.dump(client) == before


def test_commands_show_only_what_rq_keeps(client: Redis, url: str) -> None:
    database(client)
    job(client, "no-data", data=None)
    job(client, "b", data="")
    client.sadd("rq:queues", b"rq:queue:caf\xe9")
    shown = {id: shell(url, "show", "rq:default", id).out for id in ("no-data", "b", "is-failed")}
    assert all("attempts" not in out for out in shown.values()), "RQ counts none"
    assert "body         not kept" in shown["no-data"] and "too long" not in shown["no-data"] and "0 B" in shown["b"]
    assert "tried" not in shell(url, "jobs", "rq:default", "failed").out
    stats = shell(url, "stats").out
    assert "caf\\xe9 " in stats and "Y2Fm6Q" not in stats
    stop = ("act", "stop", "rq:default", "w1", "nobody", "--yes")
    assert [one["id"] for one in shell(url, *stop, "--json").json["results"]] == ["w1", "nobody"]
    assert [line.split()[0] for line in shell(url, *stop).out.splitlines()] == ["id", "w1", "nobody"]


# -- limits of the scripts ---------------------------------------------------------------------------------------------

HASHES = "for at = 2, #ARGV do redis.call('HSET', KEYS[1] .. ARGV[at], 'data', 'x', 'status', ARGV[1]) end"


def run_script(client: Redis, name: str, **args: object) -> Reply:
    return scripts.run_call(client, SCRIPTS[name].build_call(KEYS, {"prefix": "rq", "now_ms": NOW, **args}))


def plant_hashes(client: Redis, status: str, *ids: object) -> None:
    client.eval(HASHES, 1, "rq:job:", status, *ids)  # type: ignore[arg-type]


def plant_score(place: str, score: float, status: str = "") -> Callable[[Redis], None]:
    """Return a function that plants the job a in a sorted set, with a hash if it has a status."""

    def plant(client: Redis) -> None:
        client.zadd(KEYS[place], {"a": score})
        if status:
            plant_hashes(client, status, "a")

    return plant


def plant_lock(age_s: int, holder: str = "s1") -> Callable[[Redis], None]:
    def plant(client: Redis) -> None:
        plant_score("scheduled", NOW_S - age_s, "scheduled")(client)
        client.set(KEYS["lock"], holder)

    return plant


def plant_first_seen(age_s: float, has_worker: bool = True) -> Callable[[Redis], None]:
    """Return a function that plants a job between queue and start, which a clean-up has seen so long ago."""

    def plant(client: Redis) -> None:
        if has_worker:
            client.sadd(KEYS["workers"], "rq:worker:w1")
            client.hset("rq:worker:w1", "birth", "x")
        plant_hashes(client, "queued", "a")
        client.rpush(KEYS["intermediate"], "a")
        client.set(KEYS["intermediate"] + ":first_seen:a", str(NOW_S - age_s))

    return plant


def plant_lifetime(left_ms: int) -> Callable[[Redis], None]:
    def plant(client: Redis) -> None:
        client.rpush(KEYS["queued"], "a")
        plant_hashes(client, "queued", "a")
        client.pexpire("rq:job:a", left_ms)

    return plant


def plant_parents(dependency_ids: str, waiting: int = 0) -> Callable[[Redis], None]:
    def plant(client: Redis) -> None:
        plant_score("deferred", NOW_S, "deferred")(client)
        client.hset("rq:job:a", "dependency_ids", dependency_ids)
        plant_hashes(client, "failed", "bad")
        if waiting:
            client.sadd("rq:job:bad:dependents", *range(waiting))

    return plant


def plant_results(kept: int, at: int) -> Callable[[Redis], None]:
    """Return a function that plants finished jobs, of which the one at this place from the end has a result."""

    def plant(client: Redis) -> None:
        client.zadd(KEYS["finished"], {f"{number:05d}": NOW_S for number in range(kept)})
        client.xadd(f"rq:results:{kept - at:05d}", {"type": 1})

    return plant


def plant_rate_limits(number: int, **concurrency: object) -> Callable[[Redis], None]:
    def plant(client: Redis) -> None:
        client.sadd("rq:rl-keys", *range(number))
        client.hset("rq:job:a", "origin", "default")
        for at in range(number):
            client.zadd(f"rq:rl:{at}:rate_limited", {"a": NOW_S})
            client.hset(f"rq:rl:{at}", mapping={"x": "", **concurrency})  # type: ignore[dict-item]

    return plant


def plant_late_run(execution: str = "", **worker_fields: str) -> Callable[[Redis], None]:
    """Return a function that plants a job whose deadline was a second ago, its worker, and a key of its execution."""

    def plant(client: Redis) -> None:
        plant_score("started", NOW_S - 1, "started")(client)
        client.hset("rq:job:a", "worker_name", "w1")
        if worker_fields:
            client.hset("rq:worker:w1", mapping=worker_fields)
        if execution == "of the worker":
            client.sadd("rq:worker:w1:executions", "a")
        elif execution:
            client.hset("rq:execution:a", "id", "a")

    return plant


def list_rows(client: Redis) -> object:
    """Return what `faults` finds: how many jobs it looked at, and kind, number and seconds of each finding."""
    reply = run_script(client, "faults")
    return reply.values["looked"], *(
        (row[0], row[3], row[6] - row[6] % 100 * (row[0] == "vanishing")) for row in reply.rows
    )


FAULTS_AT_LIMITS: Mapping[str, tuple[Callable[[Redis], object], object]] = {
    "a finished job that is kept a second longer": (plant_score("finished", NOW_S + 1), (1, ("ghost", 1, 0))),
    "a finished job that expires now": (plant_score("finished", NOW_S), (1,)),
    "a failed job that expired 1199.5 s ago": (plant_score("failed", NOW_S - 1199.5), (1,)),
    "a failed job that expired 1200 s ago": (plant_score("failed", NOW_S - 1200), (1, ("ghost", 1, 0))),
    "a deadline that is now": (plant_score("started", NOW_S, "started"), (1,)),
    "a deadline before now": (plant_score("started", NOW_S - 0.5, "started"), (1, ("abandoned", 1, 0))),
    "a deadline a second ago": (plant_score("started", NOW_S - 1, "started"), (1, ("abandoned", 1, 1))),
    "a deadline before RQ": (plant_score("started", 1, "started"), (1, ("abandoned", 1, 10**9))),
    "a late run without a worker": (plant_late_run(), (1, ("abandoned", 1, 1))),
    "a late run that has heartbeats": (plant_late_run("its own"), (1,)),
    "a late run that its worker names": (plant_late_run(birth="x", current_job="a"), (1,)),
    "a late run that its worker lists": (plant_late_run("of the worker", birth="x", current_job="b"), (1,)),
    "a late run whose worker runs another job": (plant_late_run(birth="x", current_job="b"), (1, ("abandoned", 1, 1))),
    "a late run whose worker is gone": (plant_late_run("of the worker", current_job="a"), (1, ("abandoned", 1, 1))),
    "seen 60 s ago": (plant_first_seen(60), (2,)),
    "seen 60.5 s ago": (plant_first_seen(60.5), (2, ("stale_intermediate", 1, 60))),
    "seen in a minute": (plant_first_seen(-60, has_worker=False), (1, ("stale_intermediate", 1, 0))),
    "a hash that expires in less than a day": (plant_lifetime(86_399_000), (1, ("vanishing", 1, 86_300))),
    "a hash that expires in more than a day": (plant_lifetime(86_410_000), (1,)),
    "16 jobs": (lambda client: client.rpush(KEYS["queued"], *range(16)), (16, ("ghost", 16, 0))),
    "17 jobs": (lambda client: client.rpush(KEYS["queued"], *range(17)), (16, ("ghost", 16, 0))),
    "a failed 20th parent": (
        plant_parents(json.dumps([*map(str, range(19)), "bad"])), (21, ("parent_failed", 1, 0))
    ),
    "a failed 21st parent": (plant_parents(json.dumps([*map(str, range(20)), "bad"])), (22,)),
    "a failed parent, for which two wait": (plant_parents('["bad"]', 2), (2, ("parent_failed", 2, 0))),
    "parents of 4096 bytes": (plant_parents(" " * 4091 + '"bad"'), (2, ("parent_failed", 1, 0))),
    "parents of 4097 bytes": (plant_parents(" " * 4092 + '"bad"'), (1,)),
    "a job that is due now": (plant_score("scheduled", NOW_S, "scheduled"), (1, ("no_scheduler", 1, 0))),
    "a job that is due in 1 ms": (plant_score("scheduled", NOW_S + 0.001, "scheduled"), (1,)),
    "the last second": (plant_score("scheduled", 1e11 - 1, "scheduled"), (1,)),
    "the first millisecond": (plant_score("scheduled", 1e11, "scheduled"), (1, ("mixed_units", 1, 0))),
    "a job for ever": (plant_score("scheduled", float("inf"), "scheduled"), (1,)),
    "a scheduler that is 119 s late": (plant_lock(119), (1,)),
    "a scheduler that is 120 s late": (plant_lock(120), (1, ("scheduler_behind", 1, 120))),
    "19999 jobs": (plant_results(19_999, 1), (16,)),
    "20000 jobs": (plant_results(20_000, 10), (16, ("heavy_results", 20_000, 104))),
    "20000 jobs with an old result": (plant_results(20_000, 11), (16,)),
    "20 limits": (plant_rate_limits(20), (20, *[("held_by_limit", 1, 0)] * 20)),
    "21 limits": (plant_rate_limits(21), (20, *[("held_by_limit", 1, 0)] * 20)),
    "a limit of 1e9": (plant_rate_limits(1, concurrency=10**9 + 1), (1, ("held_by_limit", 1, 10**9))),
}  # fmt: skip


def test_findings_begin_where_a_number_or_time_reaches_its_limit(client: Redis) -> None:
    found = {}
    for name, (plant, _rows) in FAULTS_AT_LIMITS.items():
        client.flushall()
        plant(client)
        found[name] = list_rows(client)
    assert found == {name: rows for name, (_plant, rows) in FAULTS_AT_LIMITS.items()}
    client.flushall()
    plant_lock(120, "s" * 101)(client)
    assert [row[5] for row in run_script(client, "faults").rows] == ["s" * 100]


def show(client: Redis, **args: object) -> Reply:
    return run_script(client, "show", queue="default", id="a", **{"body_bytes": 0, **args})


def test_a_job_is_shown_with_its_values_up_to_their_limits(client: Redis) -> None:
    limits: Mapping[str, tuple[int, bool]] = {  # bytes, and whether a longer value is cut
        "data": (4096, False), "description": (4096, False), "status": (1000, True), "timeout": (1000, True),
        "ttl": (1000, True), "exc_info": (65536, False),
    }  # fmt: skip
    for name, (limit, is_cut) in limits.items():
        for size in (limit, limit + 1):
            for rest in ({}, {"data": b"x"}, {"data": b"x" * 4097}, {"description": b"x" * 4097}):
                client.flushall()
                client.zadd(KEYS["failed"], {"a": NOW_S})
                client.hset("rq:job:a", mapping={**rest, "origin": "default", name: b"y" * size})
                seen = show(client).values["error" if name == "exc_info" else name]
                assert len(seen) == (limit if is_cut or size == limit else 0), (name, size)
    for body_bytes, shown in ((4999, 0), (5000, 5000), (-1, 5000)):
        client.hset("rq:job:a", "data", b"x" * 5000)
        assert len(show(client, body_bytes=body_bytes).values["data"]) == shown
    client.xadd("rq:results:a", {"exc_string": b"z" * 65537})
    assert show(client).values["error"] == b"z" * 65536
    for fields, size in (({"data": ""}, 0), ({"origin": "default"}, -1), ({}, -2)):
        client.delete("rq:job:a")
        if fields:
            client.hset("rq:job:a", mapping=fields)
        assert show(client).values["size"] == size


def test_a_job_is_shown_with_its_latest_results_and_first_relatives(client: Redis) -> None:
    client.zadd(KEYS["failed"], {"a": NOW_S})
    client.hset("rq:job:a", mapping={f"field-{number}": "x" for number in range(100)})
    client.hset("rq:job:a", "dependency_ids", json.dumps([*map(str, range(101))]))
    client.sadd("rq:job:a:dependents", *range(101))
    client.zadd("rq:executions:a", {f"{number:03d}": number for number in range(101)})
    for name in ("099", "100"):
        client.hset(f"rq:execution:a:{name}", "worker_name", "w1")
    for number in range(11):
        client.xadd("rq:results:a", {"type": number}, id=f"{number + 1}-0")
    rows = show(client).rows
    seen = {
        kind: [row for row in rows if row[0] == kind] for kind in ("result", "execution", "dependency", "dependent")
    }
    assert [row[3] for row in seen["result"]] == [b"%d" % number for number in range(1, 11)]
    assert [row[1] for row in seen["execution"]] == [b"099"]
    assert [row[1] for row in seen["dependency"]] == [b"%d" % number for number in range(100)]
    assert len(seen["dependent"]) == 100
    assert len([row for row in rows if row[0] == "field"]) == 100
    client.hset("rq:job:a", mapping={"long": b"x" * 65537, **{f"more-{number}": "" for number in range(898)}})
    assert client.hlen("rq:job:a") == 1000
    assert [row[3] for row in show(client).rows if row[0] == "long"] == [b"65537"]
    client.hset("rq:job:a", "one more", "")
    assert not [row for row in show(client).rows if row[0] in ("field", "long")]


def test_a_job_is_found_deep_in_its_place_or_by_its_status(client: Redis) -> None:
    def find(status: str) -> str:
        client.hset("rq:job:a", mapping={"origin": "default", "status": status})
        return str(show(client).values["place"])

    others = [*range(50_002)]
    for place, most in (("intermediate", 1000), ("queued", 25_000)):
        key = KEYS[place]
        for before, after, status, found in (
            (most - 1, most + 1, "", place), (most, most, "", ""), (most + 1, most - 1, "", place),
            (most, most - 1, "", place), (most, most, place, place), (most, most, "finished", ""),
        ):  # fmt: skip
            client.delete(key)
            client.rpush(key, *others[:before], "a", *others[:after])
            assert find(status) == found, (place, before, after, status)
        client.lrem(key, 0, "a")
        client.ltrim(key, 0, 2 * most - 1)
        assert find(place) == "", "the whole list was searched"
        client.rpush(key, "b")
        assert find(place) == place
        client.delete(key)
    client.zadd(KEYS["started"], {f"{number:04d}": number for number in range(1000)})
    client.zadd(KEYS["started"], {"a:e1": 998.5})
    assert find("") == "started"
    client.zadd(KEYS["started"], {"a:e1": 999.5})
    assert find("") == ""


def test_schedules_are_listed_up_to_their_limits(client: Redis) -> None:
    client.zadd(KEYS["cron_schedulers"], {f"s{number:03d}": number for number in range(101)})
    client.hset("rq:cron_scheduler:s099", "cron_jobs", b"x" * 262_144)
    client.hset("rq:cron_scheduler:s100", "cron_jobs", b"x" * 262_145)
    client.zadd(KEYS["cron_jobs"], {f"c{number:04d}": number for number in range(1001)})
    client.hset("rq:job:a", "origin", "mail")
    for name in ("c0900", "c0901", "c1000"):
        client.zadd(f"rq:cron_job:{name}:jobs", {"a": 1})
    client.zadd(KEYS["scheduled_jobs"], {f"j{number:03d}": number for number in range(501)})
    for id, size in (("j000", 4096), ("j001", 4097)):
        client.hset(f"rq:job:{id}", mapping=dict.fromkeys(("origin", "description", "meta"), b"x" * size))
    rows = run_script(client, "schedules").rows
    listed = {kind: [row for row in rows if row[0] == kind] for kind in ("scheduler", "enqueued", "scheduled")}
    assert [len(each) for each in listed.values()] == [100, 1000, 500]
    assert (listed["scheduler"][0][1], listed["enqueued"][0][1]) == (b"s001", b"c0001")
    assert [len(row[6]) for row in listed["scheduler"][-2:]] == [262_144, 0]
    assert [row[1] for row in listed["enqueued"] if row[7]] == [b"c0901", b"c1000"]
    assert [[len(value) for value in row[7:]] for row in listed["scheduled"][:2]] == [[4096] * 3, [0] * 3]


def test_counts_have_the_next_times_that_are_no_mistake(client: Redis) -> None:
    found = []
    for score in (-1, 0, 1.0004, 1.0006, 1e11 - 1, 1e11):
        client.zadd(KEYS["scheduled"], {"a": score})
        found.append(run_script(client, "counts").values["due_ms"])
    assert found == [-1, 0, 1000, 1001, 10**14 - 1000, -1]
    for score, overdue in ((NOW_S, 1), (NOW_S + 0.001, 0)):
        client.zadd(KEYS["scheduled"], {"a": score})
        assert run_script(client, "counts").values["overdue"] == overdue
    client.rpush(KEYS["queued"], "a")
    for enqueued_ms, age_ms in ((NOW - 1, 1), (NOW, 0), (NOW + 1, 0)):
        client.hset("rq:job:a", "enqueued_at", format_time(enqueued_ms))
        assert run_script(client, "counts").values["oldest_ms"] == age_ms
    client.sadd(KEYS["workers"], *(f"rq:worker:{number}" for number in range(2000)))
    assert run_script(client, "counts").values["workers"] == 2000, "the names, where they are too many to be checked"


def test_a_worker_is_listed_with_values_of_4096_bytes(client: Redis) -> None:
    client.sadd(KEYS["workers"], "rq:worker:w1")
    client.hset("rq:worker:w1", mapping={"hostname": b"x" * 4097, "state": "busy"})
    [row] = run_script(client, "roster", offset=0, limit=500).rows
    assert [value for value in row if value not in (b"", "", 0)] == [b"w1", -1, "busy", "x" * 4096]


def test_a_job_in_two_registries_is_in_that_of_its_status(client: Redis) -> None:
    for place in ("scheduled", "deferred", "finished", "failed", "canceled"):
        client.zadd(KEYS[place], {"a": NOW_S})
    for status, place in (("failed", "failed"), ("stopped", "failed"), ("finished", "finished"), ("x", "scheduled")):
        client.hset("rq:job:a", mapping={"status": status, "data": "x"})
        call = SCRIPTS["records"].build_call(KEYS, {"prefix": "rq", "most": 10**6, "whole": False}, [("a",)])
        [row] = scripts.run_call(client, call).each
        assert row.values["place"] == place, status


def test_a_first_job_whose_time_cannot_be_read_has_no_age(client: Redis) -> None:
    client.rpush(KEYS["queued"], "a")
    for text, age_ms in (("soon", -1), ("", -1), (format_time(NOW - 5000), 5000)):
        client.hset("rq:job:a", mapping={"status": "queued", "enqueued_at": text})
        assert run_script(client, "counts").values["oldest_ms"] == age_ms, text
