"""Test how rqtui shows BullMQ 5.81 and 6.7: queues, jobs, workers, schedulers and findings.

`test_bullmq_verbs.py` tests the verbs; `tests/beside` runs the stock program.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import pytest
from families import run_cases
from redis import Redis
from shell import shell
from waiting import wait_until

from rqtui.engine.engine import Engine, build_engine
from rqtui.errors import UsageError, WrongType
from rqtui.model import Fact, Finding, Focus, Job, PageSelection, Queue, Ref, Worker
from rqtui.reports import errors, schedules, workers
from rqtui.scripts import script as scripts
from rqtui.systems import registry
from rqtui.testing import keyspace

PLACES = ("delayed", "waiting_children", "prioritized", "wait", "paused", "active", "completed", "failed")
MAIL, SLOW = Ref("bullmq", "mail"), Ref("bullmq", "slow")
P = "bull:mail:"
LOCK = "640bcc1f-f112-42e8-9de1-27386c9eea0c:7"

# Recorded: what a worker of BullMQ 6.7.0 left of a job that threw an Error twice, without the folder.
TRACE = (
    "Error: smtp refused: x0@b.c\n"
    "    at Worker.connection.connection [as processFn] (/srv/app.js:11:36)\n"
    "    at process.processTicksAndRejections (node:internal/process/task_queues:95:5)\n"
    "    at async /srv/node_modules/bullmq/dist/cjs/classes/worker.js:595:32"
)


def now_ms() -> int:
    return round(time.time() * 1000)


def queue(client: Redis, name: str = "mail", version: str = "6.7.0", **fields: object) -> None:
    """Plant a queue without jobs, as `new Queue(name)` creates it."""
    client.hset(f"bull:{name}:meta", mapping={"opts.maxLenEvents": 10000, "version": f"bullmq:{version}", **fields})


def job(
    client: Redis, id: str, place: str = "wait", of: str = "mail", *, at_ms: float = 0, lock: str = "", **fields: Any
) -> str:
    """Plant a job in a place of a queue (in none: ""), with the fields of its hash. `at_ms` is relative to now."""
    own = {"name": "send", "data": '{"to":"a0@b.c"}', "opts": '{"attempts":0}', "timestamp": now_ms() - 20_000,
           "delay": "0", "priority": "0"}  # fmt: skip
    hash = {key: value for key, value in {**own, **fields}.items() if value is not None}
    client.hset(f"bull:{of}:{id}", mapping=hash)
    put(client, id, place, of, at_ms=at_ms, priority=int(hash.get("priority", 0)))
    if lock:
        client.set(f"bull:{of}:{id}:lock", lock, px=30_000)
    return id


def put(client: Redis, id: str | bytes, place: str, name: str = "mail", *, at_ms: float = 0, priority: int = 0) -> None:
    """Plant an id in a place, whatever its hash is."""
    key = f"bull:{name}:{place.replace('_', '-')}"
    due_ms = now_ms() + round(at_ms)
    if place in ("wait", "paused", "active"):
        client.lpush(key, id)
    elif place:
        score = {"delayed": due_ms * 4096, "prioritized": priority * 2**32 + client.incr(f"bull:{name}:pc")}
        client.zadd(key, {id: score.get(place, due_ms)})


def database(client: Redis) -> None:
    """Plant a job in each place of `mail` that BullMQ 6 uses, and a child of one of them in `slow`; all is well."""
    ran = {"processedOn": now_ms() - 9_000, "finishedOn": now_ms() - 4_000, "pb": "postman", "ats": "1", "atm": "1"}
    queue(client)
    queue(client, "slow", "5.81.5")
    client.set("bull:mail:id", 40)
    job(client, "11", "wait", timestamp=now_ms() - 50_000)
    job(client, "12", "wait")
    job(client, "13", "prioritized", priority="10")
    job(client, "14", "prioritized", priority="9")
    job(client, "15", "delayed", at_ms=3_600_000, delay="3600000", opts='{"delay":3600000,"attempts":0}')
    job(client, "16", "active", lock=LOCK, processedOn=now_ms() - 3_000, pb="postman", ats="1", progress="50")
    job(client, "17", "completed", at_ms=-4_000, returnvalue='{"sent":"a0@b.c"}', **ran)
    twice = {**ran, "atm": "2", "ats": "2", "opts": '{"attempts":2,"backoff":{"type":"fixed","delay":100}}'}
    traces = json.dumps([TRACE, TRACE])
    job(client, "18", "failed", at_ms=-4_000, failedReason="smtp refused: x0@b.c", stacktrace=traces, **twice)
    job(client, "parent", "waiting_children", data='{"all":1}')
    family = {"parentKey": "bull:mail:parent", "parent": '{"id":"parent","queueKey":"bull:mail"}'}
    job(client, "child", "delayed", "slow", at_ms=900_000, **family)
    client.hset("bull:slow:child", "name", "part")
    client.sadd("bull:mail:parent:dependencies", "bull:slow:child")
    client.rpush("bull:mail:18:logs", "begin send", "half")
    client.zadd("bull:mail:marker", {"0": 0})


def open_engine(client: Redis, *specs: str) -> Engine:
    """Create an engine that has searched for queues."""
    return build_engine(client, [registry.create_system(*specs)] if specs else registry.create_systems())


def fetch_job(client: Redis, id: str, ref: Ref = MAIL, body_bytes: int = 65536) -> Job:
    found = open_engine(client, "bullmq").fetch_job(ref, id.encode(), body_bytes)
    assert found is not None
    return found


def count_queue(client: Redis, ref: Ref = MAIL) -> Queue:
    found = open_engine(client, "bullmq").take_snapshot(Focus(queues=(ref,), is_thorough=True)).find_queue(ref)
    assert found is not None
    return found


def findings(client: Redis, ref: Ref = MAIL) -> dict[str, Finding]:
    return {finding.kind: finding for finding in count_queue(client, ref).findings}


def facts(seen: Job | Worker) -> dict[str, object]:
    return {fact.name: fact.value for fact in seen.facts}


# -- places and jobs ---------------------------------------------------------------------------------------------------


def test_a_redis_with_bullmq_shows_its_queues_without_options_and_bull_4_is_distinguished(any_client: Redis) -> None:
    database(any_client)
    any_client.hset("bull:stray:meta", "who", "another program")
    any_client.set("bull:string:meta", "no hash")
    any_client.hset("{app}:letters:meta", "opts.maxLenEvents", 10000)
    engine = open_engine(any_client)
    assert [ref for ref in engine.refs if ref.system == "bullmq"] == [MAIL, SLOW] and not engine.unsupported_systems
    assert engine.resolve("mail") == MAIL and engine.systems["bullmq"].queue_argument("mail") == "bullmq:mail"
    assert engine.resolve_or_discover("bullmq:mail") == MAIL and not engine.systems["bullmq"].has_queue(
        any_client, "stray"
    )
    other = open_engine(any_client, "bullmq:prefix={app}")
    assert [ref.queue for ref in other.refs] == ["letters"] and other.systems["bullmq"].works_on_cluster
    assert other.systems["bullmq"].keys("letters")["waiting_children"] == "{app}:letters:waiting-children"
    assert other.systems["bullmq"].queue_argument("letters") == "--system 'bullmq:prefix={app}' bullmq:letters"
    for wrong in (("bullmq:prefix=",), ("bullmq:prefix=a b",), ("bullmq:prefix=a", "bullmq:prefix=b")):
        with pytest.raises(UsageError):
            registry.create_system(*wrong)
    with pytest.raises(UsageError, match=":"):
        engine.systems["bullmq"].keys("a:b")
    any_client.flushall()
    any_client.mset({"bull:old:id": 3, "bull:old:stalled-check": 1})
    any_client.lpush("bull:old:wait", 3)
    engine = open_engine(any_client)
    assert not engine.refs and [each.system for each in engine.unsupported_systems] == ["bull"]


def test_a_queue_is_counted_alone_and_among_others_as_its_places_are_listed(any_client: Redis) -> None:
    database(any_client)
    job(any_client, "due", "delayed", at_ms=-30_000)
    job(any_client, "lost", "active", processedOn=now_ms() - 90_000)
    any_client.hset(P + "meta", mapping={"paused": 1, "concurrency": 4, "max": 3, "duration": 5000})
    any_client.hset(P + "metrics:completed", mapping={"count": 7, "prevTS": now_ms(), "prevCount": 0})
    any_client.hset(P + "metrics:failed", "count", 2)
    engine = open_engine(any_client, "bullmq")
    among = engine.systems["bullmq"].queues_request(["slow", "mail"])
    assert among is not None
    seen = {
        "alone": engine.send_request(engine.systems["bullmq"].queue_request("mail")),
        "among others": engine.send_request(among)[1],
    }
    there = {place: 1 for place in PLACES} | {"delayed": 2, "prioritized": 2, "wait": 2, "paused": 0, "active": 2}

    def holds(how: str) -> None:
        found = seen[how]
        assert found.map_counts_by_place() == there and found.is_paused
        assert (found.overdue, found.expired) == (1, 1)
        assert found.oldest_ready_ms is not None and 50_000 <= found.oldest_ready_ms < 80_000
        assert found.next_due_ms is not None and -90_000 < found.next_due_ms <= -30_000 and found.next_expiry_ms == 0
        assert found.counters == {
            "in": 40, "out": 7, "failed": 2, "dead": 2, "concurrency": 4, "limit_max": 3, "limit_ms": 5000,
        }  # fmt: skip
        for place in PLACES:
            assert engine.fetch_page(MAIL, place).total == found.count_in_place(place)

    run_cases((each, partial(holds, each)) for each in seen)
    any_client.hdel(P + "meta", "paused")
    any_client.delete(P + "metrics:completed", P + "metrics:failed", P + "active")
    found = engine.send_request(engine.systems["bullmq"].queue_request("mail"))
    assert not found.is_paused and "out" not in found.counters and found.next_expiry_ms is None


def test_how_long_the_next_job_waits_begins_when_it_came_was_due_or_ran_before(any_client: Redis) -> None:
    result = now_ms() - 3_600_000
    backoff = '{"backoff":{"delay":900,"type":"fixed"},"attempts":3,"delay":3590000}'
    job_fields = {
        "came": ({"timestamp": result}, 3_600_000),
        "was due": ({"timestamp": result, "opts": backoff}, 10_000),
        "ran before": ({"timestamp": result, "processedOn": now_ms() - 5_000}, 5_000),
        "promoted": ({"timestamp": result, "opts": '{"delay":7200000}'}, 0),
        "opts unreadable": ({"timestamp": result, "opts": "{"}, 3_600_000),
    }

    def holds(how: str) -> None:
        any_client.flushall()
        queue(any_client)
        fields, expected_ms = job_fields[how]
        job(any_client, "1", "paused", **fields)
        aged, row = (
            count_queue(any_client).oldest_ready_ms,
            open_engine(any_client, "bullmq").fetch_page(MAIL, "paused").jobs[0],
        )
        assert aged is not None and abs(aged - expected_ms) < 60_000 and aged >= expected_ms - 1
        assert row.since_ms is not None and abs(now_ms() - row.since_ms - expected_ms) < 60_000

    run_cases((each, partial(holds, each)) for each in job_fields)
    any_client.hdel(P + "1", "timestamp")
    assert count_queue(any_client).oldest_ready_ms is None


def test_pages_show_the_job_that_is_next_first_and_a_long_one_is_the_pages_of_its_parts(any_client: Redis) -> None:
    for number in range(130):
        job(any_client, f"job-{number:03d}")
    job(any_client, "low", "prioritized", priority="2097151")
    job(any_client, "first", "prioritized", priority="1")
    job(any_client, "second", "prioritized", priority="1")
    engine = open_engine(any_client, "bullmq")
    page = engine.fetch_page(MAIL, "wait", 10, 110)
    assert [one.id for one in page.jobs] == [b"job-%03d" % number for number in range(10, 120)] and page.next == 120
    assert engine.fetch_page(MAIL, "wait", 120, 110).next is None and not engine.fetch_page(MAIL, "wait", 130, 9).jobs
    assert [one.id for one in engine.fetch_page(MAIL, "wait", -1, 3).jobs] == [b"job-127", b"job-128", b"job-129"]
    ranked = engine.fetch_page(MAIL, "prioritized").jobs
    assert [(one.id, one.priority) for one in ranked] == [(b"first", 1), (b"second", 1), (b"low", 2097151)]


def test_a_row_of_each_place_shows_the_call_the_error_and_its_times(any_client: Redis) -> None:
    database(any_client)
    engine = open_engine(any_client, "bullmq")
    rows = {place: engine.fetch_page(MAIL, place).jobs[0] for place in PLACES if place != "paused"}
    assert {place: row.id.decode() for place, row in rows.items()} == {
        "delayed": "15", "waiting_children": "parent", "prioritized": "14", "wait": "11", "active": "16",
        "completed": "17", "failed": "18",
    }  # fmt: skip
    assert not any(row.problem for row in rows.values()) and {row.name for row in rows.values()} == {"send"}
    assert (rows["wait"].call, rows["waiting_children"].call) == ('send({to: "a0@b.c"})', "send({all: 1})")
    failed, active = rows["failed"], rows["active"]
    assert (failed.error, failed.attempts, failed.max_attempts, failed.worker) == (TRACE, 2, 2, "postman")
    assert (active.token, active.worker, active.max_attempts) == (LOCK.encode(), "postman", 1)
    assert rows["completed"].error == "" and rows["completed"].body == b'{"to":"a0@b.c"}'
    expected = {
        "delayed": ("due_ms", 3_600_000), "failed": ("since_ms", -4_000), "completed": ("since_ms", -4_000),
        "wait": ("since_ms", -50_000), "active": ("deadline_ms", 30_000), "waiting_children": ("since_ms", 0),
    }  # fmt: skip
    for place, (name, after_ms) in expected.items():
        assert abs(getattr(rows[place], name) - now_ms() - after_ms) < 60_000, place
    found = engine.find_jobs_by_id([b"18", b"child", b"nobody"])
    assert [(ref, one.id) for ref, one in found.jobs] == [(MAIL, b"18"), (SLOW, b"child")]
    any_client.hset(P + "18", "failedReason", "job stalled more than allowable limit")
    assert engine.fetch_page(MAIL, "failed").jobs[0].error == "job stalled more than allowable limit"
    any_client.hdel(P + "18", "stacktrace")
    [*_steps, report] = errors.yield_error_reports(engine, [MAIL])
    assert report is not None and [group.message for group in report.groups] == [
        "job stalled more than allowable limit"
    ]


def test_jobs_that_wait_for_another_try_failed_when_their_last_run_began_or_at_no_known_time(client: Redis) -> None:
    queue(client)
    began_ms = now_ms() - 30_000
    fields = {"failedReason": "boom", "stacktrace": json.dumps(["Error: boom\n    at a (b.js:1:2)"] * 2), "atm": 2}
    job(client, "1", "delayed", at_ms=60_000, processedOn=began_ms, **fields)
    engine = Engine(client, [registry.create_system("bullmq")])
    [*_steps, report] = errors.yield_error_reports(engine, [MAIL])
    assert report is not None and [(one.first_ms, one.last_ms) for one in report.groups] == [(began_ms, began_ms)]
    client.hdel(P + "1", "processedOn")
    [*_steps, report] = errors.yield_error_reports(engine, [MAIL])
    assert report is not None and [(one.first_ms, one.last_ms) for one in report.groups] == [(None, None)]


def test_a_call_is_written_as_a_person_reads_it(client: Redis) -> None:
    fields = {
        '{"to":"a@b.c","n":[1,null,true],"content-type":{"x":"ü"}}':
            'send({to: "a@b.c", n: [1, null, true], "content-type": {x: "ü"}})',
        "{}": "send()", "[]": "send()", "null": "send()", "5": "send(5)", '"x"': 'send("x")', "{": "send()",
    }  # fmt: skip
    for at, (data, _call) in enumerate(fields.items()):
        job(client, f"j{at}", data=data)
    job(client, "long", data=json.dumps({"text": "x" * 3_000}))
    calls = [one.call for one in open_engine(client, "bullmq").fetch_page(MAIL, "wait").jobs]
    assert calls[:-1] == list(fields.values()) and len(calls[-1]) == 1_000 and calls[-1].endswith("x…")


def test_all_that_bullmq_stores_of_a_job_is_shown(any_client: Redis) -> None:
    database(any_client)
    failed = fetch_job(any_client, "18")
    assert [(one.start_ms > 0, one.worker, one.error) for one in failed.history] == [
        (False, "", TRACE),
        (True, "postman", TRACE),
    ]
    assert Fact("log", "begin send\nhalf", "trace") in failed.facts
    assert json.loads(str(facts(failed)["opts"]))["backoff"] == {"type": "fixed", "delay": 100}
    any_client.rpush(P + "18:logs", *(f"line {number}" for number in range(500)))
    [log] = [fact for fact in fetch_job(any_client, "18").facts if fact.kind == "trace"]
    assert log.name == "log, 502 lines" and str(log.value).startswith("line 400\n")
    active = {"stc": "2", "ats": "3", "deid": "daily", "rjk": "nightly", "defa": "job stalled more", "odd": "1"}
    any_client.hset(P + "16", mapping=active)
    shown_facts = facts(fetch_job(any_client, "16"))
    assert shown_facts.items() >= {
        "progress": "50 %", "stalled": "2 times", "starts": "3", "dedup id": "daily", "scheduler": "nightly",
        "will fail": "job stalled more", "odd": "1",
    }.items() and 0 < int(str(shown_facts["lock lives"])) <= 30_000  # fmt: skip
    assert "opts" not in shown_facts, "attempts alone are told elsewhere"
    any_client.delete(P + "16:lock")
    assert facts(fetch_job(any_client, "16"))["lock"] == "none: no worker runs it"
    any_client.hset(P + "16", "progress", '{"done":3}')
    assert Fact("progress", '{"done":3}', "json") in fetch_job(any_client, "16").facts
    assert Fact("result", '{"sent":"a0@b.c"}', "json") in fetch_job(any_client, "17").facts


def test_a_flow_is_shown_as_a_tree_of_links_as_far_as_one_call_reads(any_client: Redis) -> None:
    database(any_client)
    any_client.zadd("bull:mail:top:unsuccessful", {"bull:mail:18": 1})
    job(any_client, "top", "waiting_children")
    any_client.hset(P + "parent", mapping={"parentKey": "bull:mail:top"})
    any_client.sadd(P + "top:dependencies", "bull:mail:parent", "other:q:1")
    any_client.hset(P + "top:processed", "bull:mail:17", "null")
    any_client.hset(P + "top:failed", "bull:mail:12", "ignored")
    any_client.sadd(P + "parent:dependencies", "bull:mail:nobody")
    links = [fact for fact in fetch_job(any_client, "top").facts if fact.kind == "ref" or fact.name.startswith("child")]
    assert links == [
        Fact("child ignored", b"12", "ref"),
        Fact("child done", b"17", "ref"),
        Fact("child failed", b"18", "ref"),
        Fact("waits for", b"parent", "ref"),
        Fact("└ waits for", b"nobody", "ref"),
        Fact("└ waits for", b"child", "ref", "slow"),
        Fact("child gone", "other:q:1"),
    ]
    assert [fact for fact in fetch_job(any_client, "child", SLOW).facts if fact.kind == "ref"] == [
        Fact("parent", b"parent", "ref", "mail"),
        Fact("its parent", b"top", "ref", "mail"),
    ]
    waiting = fetch_job(any_client, "parent").facts
    assert Fact("child gone", b"nobody", "ref") in waiting and Fact("parent", b"top", "ref") in waiting
    for number in range(150):
        any_client.sadd(P + "top:dependencies", f"bull:mail:c{number}")
    assert "152 waits" in str(facts(fetch_job(any_client, "top"))["children"])


def test_the_place_of_a_job_is_found_by_its_id(any_client: Redis) -> None:
    database(any_client)
    job(any_client, "held", "paused")
    job(any_client, "twice", "failed")
    any_client.lpush(P + "wait", "twice")
    job(any_client, "lost", "")
    ids = {"15": "delayed", "parent": "waiting_children", "13": "prioritized", "12": "wait", "held": "paused",
           "16": "active", "17": "completed", "18": "failed", "lost": "wait"}  # fmt: skip
    assert {id: fetch_job(any_client, id).place for id in ids} == ids
    assert fetch_job(any_client, "twice").problem == "it is in wait and in failed"
    assert "no worker will find it" in fetch_job(any_client, "lost").problem
    assert open_engine(any_client, "bullmq").fetch_job(SLOW, b"18") is None


# -- workers and schedules ---------------------------------------------------------------------------------------------


def test_workers_are_found_by_their_connections_and_those_without_a_name_by_their_locks(
    client: Redis, url: str
) -> None:
    database(client)
    sign = "bull:" + base64.b64encode(b"mail").decode()
    job(client, "19", "active", lock="0f0f-uuid:1")
    job(client, "20", "active", lock="0f0f-uuid:2")
    names = (f"{sign}:w:postman", f"{sign}:w:postman", sign, sign, f"{sign}:qe", "bull:%%%", "bull:c2xvdw==:w:w1")
    connected = [Redis.from_url(url, client_name=name, protocol=2) for name in names]
    elsewhere = Redis.from_url(url, client_name=f"{sign}:w:elsewhere", db=3)
    for each in (*connected, elsewhere):
        each.ping()
    engine = open_engine(client, "bullmq")
    roster = engine.fetch_workers(MAIL)
    entries_by_name = {one.name: one for one in roster}
    assert len(roster) == 4 and [one.job for one in roster] == [b"16", b"", b"19", b""]
    assert {"postman", "0f0f-uuid"} <= entries_by_name.keys() and roster[1].name.startswith("postman 127.0.0.1:")
    assert (
        facts(entries_by_name["0f0f-uuid"])["runs"] == "2"
        and int(str(facts(entries_by_name["postman"])["locks live"])) <= 30_000
    )
    assert (
        entries_by_name["postman"].host == "127.0.0.1"
        and entries_by_name["postman"].state == "runs"
        and entries_by_name["postman"].started_ms
    )
    seats, _now_ms, problems = workers.load_workers(engine, [MAIL, SLOW])
    standing = {seat.name: (seat.health.value, len(seat.jobs)) for seat in seats}
    assert standing["postman"] == ("running", 1) and standing["0f0f-uuid"] == ("running", 2)
    assert standing["w1"] == ("idle", 0) and len(seats) == 5 and not problems
    assert {each.name: each.workers for each in engine.take_snapshot().queues} == {"mail": 4, "slow": 1}
    for each in (*connected, elsewhere):
        each.close()

    def is_alone() -> bool:
        return not [each for each in client.client_list() if each["name"].startswith("bull:")]

    wait_until(is_alone)


def test_a_user_who_may_not_list_connections_is_informed_of_the_missing_right(client: Redis, url: str) -> None:
    database(client)
    rules = shell(url, "acl", "viewer", "bullmq:mail").out
    assert "+client|list" in rules and "+client|info" in rules
    client.execute_command("ACL", "SETUSER", "reader", "on", ">secret", "~*", "+@all", "-client|list")
    try:
        limited = Redis.from_url(url.replace("redis://", "redis://reader:secret@"), protocol=2)
        engine = open_engine(limited, "bullmq")
        found = {each.name: each for each in engine.take_snapshot().queues}
        assert found["mail"].workers is None and "workers" in found["mail"].unknown and not found["mail"].error
        seats, _now_ms, problems = workers.load_workers(engine, [MAIL])
        assert [seat.name for seat in seats] == ["postman"] and "+client|list" in problems[0]
        limited.close()
    finally:
        client.execute_command("ACL", "DELUSER", "reader")


def scheduler(client: Redis, id: str, next_ms: float, name: str = "mail", **fields: object) -> int:
    """Plant a job scheduler as upsertJobScheduler leaves it, without its next job; return when that is due (ms)."""
    at_ms = now_ms() + round(next_ms)
    client.zadd(f"bull:{name}:repeat", {id: at_ms})
    client.hset(f"bull:{name}:repeat:{id}", mapping={"name": "clean", "offset": 0, "ic": 1, **fields})  # type: ignore[dict-item]
    return at_ms


def test_job_schedulers_are_reported_and_a_next_job_that_is_missing_is_a_problem(any_client: Redis) -> None:
    database(any_client)
    cron = {"pattern": "0 3 * * *", "tz": "Europe/Berlin", "data": '{"x":1}', "opts": '{"attempts":3}'}
    at_ms = scheduler(any_client, "nightly", 9_000_000, **cron)
    job(any_client, f"repeat:nightly:{at_ms}", "delayed", at_ms=9_000_000, rjk="nightly")
    scheduler(any_client, "stopped", -170_000, "slow", every=60_000)
    ran_ms = scheduler(any_client, "ran", -1_000, every=60_000)
    job(any_client, f"repeat:ran:{ran_ms}", "completed", finishedOn=now_ms())
    scheduler(any_client, "over", -1_000, every=1_500, limit=10, ic=10)
    any_client.zadd("bull:slow:repeat", {"bare": 5})
    any_client.set("bull:odd:repeat", "no zset")
    queue(any_client, "odd")
    engine = open_engine(any_client)
    actual, _now_ms, problems = schedules.load_schedules(engine, ["bullmq"])
    found = {one.name: one for one in actual}
    assert not problems and [one.name for one in actual if one.next_ms is not None][-1] == "nightly"
    nightly = found["nightly"]
    assert (nightly.queue, nightly.pattern, nightly.call) == ("mail", "0 3 * * * Europe/Berlin", "clean({x: 1})")
    assert nightly.next_ms == at_ms and not nightly.problem and nightly.enabled
    assert found["stopped"].pattern == "every 60 s" and "is missing" in found["stopped"].problem
    assert "ended" in found["ran"].problem and found["over"].pattern == "every 1.5 s"
    assert (found["over"].enabled, found["over"].problem) == (False, "")
    assert "template" in found["bare"].problem or "missing" in found["bare"].problem


# -- its own faults ----------------------------------------------------------------------------------------------------


def plant_mixed(client: Redis) -> None:
    client.hset(P + "meta", "paused", 1)
    job(client, "b", "paused")
    job(client, "a", "wait")


def left_in_paused(client: Redis) -> None:
    job(client, "a", "paused")


def at_limit(client: Redis) -> None:
    client.hset(P + "meta", "concurrency", 1)
    job(client, "a", "wait", timestamp=now_ms() - 90_000)
    job(client, "b", "active", lock=LOCK)


def starving(client: Redis) -> None:
    job(client, "a", "prioritized", at_ms=0, priority=10, timestamp=now_ms() - 900_000)
    client.zadd(P + "prioritized", {"a": 10 * 2**32 + 1})
    for number in range(3):
        job(client, f"n{number}", "prioritized")
        client.zadd(P + "prioritized", {f"n{number}": 2**32 + number})
    job(client, "b", "active", lock=LOCK)


def interrupted(client: Redis) -> None:
    job(client, "a", "failed", stc="2", finishedOn=now_ms(), failedReason="job stalled more than allowable limit")
    job(client, "old", "failed", stc="2", finishedOn=now_ms() - 100_000_000)


def rate_limited(client: Redis) -> None:
    client.hset(P + "meta", mapping={"max": 3, "duration": 900_000})
    client.set(P + "limiter", 3, px=900_000)
    job(client, "a", "wait")


def plant_stalled(client: Redis) -> None:
    job(client, "a", "active", processedOn=now_ms() - 90_000)
    job(client, "runs", "active", lock=LOCK)


def plant_doubled(client: Redis) -> None:
    job(client, "a", "completed", stc="1", ats="2", finishedOn=now_ms())


def poison(client: Redis) -> None:
    job(client, "a", data="{not json")
    job(client, "fine", data="[1]")


def poison_active(client: Redis) -> None:
    job(client, "a", "active", stc="4", ats="5", defa="job stalled more than allowable limit")


def ghost(client: Redis) -> None:
    put(client, "a", "failed")


def ghost_active(client: Redis) -> None:
    put(client, "a", "active")


def scheduler_stopped(client: Redis) -> None:
    scheduler(client, "nightly", -170_000, every=60_000)
    scheduler(client, "over", -170_000, every=60_000, limit=3, ic=3)
    at_ms = scheduler(client, "works", 60_000, every=60_000)
    job(client, f"repeat:works:{at_ms}", "delayed", at_ms=60_000, rjk="works")


def stale_dedup(client: Redis) -> None:
    client.set(P + "de:daily", "gone")
    client.set(P + "de:weekly", job(client, "b"))
    for id in ("daily", "weekly", "over"):
        fields = {"event": "deduplicated", "jobId": "gone", "deduplicationId": id, "deduplicatedJobId": "41"}
        client.xadd(P + "events", fields)  # type: ignore[arg-type]


def parent_free(client: Redis) -> None:
    job(client, "a", "waiting_children")


def parent_of_none(client: Redis) -> None:
    job(client, "a", "waiting_children")
    client.sadd(P + "a:dependencies", "bull:mail:gone")
    job(client, "b", "waiting_children")
    client.sadd(P + "b:dependencies", "bull:mail:fine")
    job(client, "fine", "wait")


def parent_of_failed(client: Redis) -> None:
    job(client, "a", "waiting_children")
    client.sadd(P + "a:dependencies", "bull:mail:bad")
    job(client, "bad", "failed", failedReason="no", finishedOn=now_ms() - 60_000)


def orphan(client: Redis) -> None:
    client.set(P + "id", 150)
    job(client, "140", "")
    job(client, "141", "wait")


def orphan_ended(client: Redis) -> None:
    client.set(P + "id", 150)
    job(client, "140", "", finishedOn=now_ms(), returnvalue="null")


def plant_completed_jobs(client: Redis) -> None:
    client.zadd(P + "completed", {f"c{number}": now_ms() - 90_000 + number for number in range(10_000)})
    for number in (*range(8), *range(9_992, 10_000)):
        client.hset(f"{P}c{number}", mapping={"name": "send", "finishedOn": 1})


def mixed_units(client: Redis) -> None:
    job(client, "a", "delayed")
    client.zadd(P + "delayed", {"a": now_ms()})


def wrong_type(client: Redis) -> None:
    client.set(P + "a", "another program")
    put(client, "a", "wait")


FAULTS: Mapping[str, tuple[Callable[[Redis], None], str, str]] = {
    "mixed": (plant_mixed, "1 job in wait. A resume by BullMQ 5 loses", "rqtui act resume bullmq:mail"),
    "left-in-paused": (
        left_in_paused,
        "1 job in bull:mail:paused, which workers do not read because the queue is not paused, such as a",
        "rqtui act resume bullmq:mail",
    ),
    "at-limit": (at_limit, "at its limit of 1 job at once: 1 running, and 1 ready job waits", "--set concurrency="),
    "starving": (starving, "job a of priority 10 has waited for 15m", "act reprioritise bullmq:mail a"),
    "interrupted": (interrupted, "job a was running when 2 workers died", "rqtui show bullmq:mail a"),
    "rate-limited": (rate_limited, "at its rate limit of 3 per 900 s: 1 job ready", "redis-cli DEL bull:mail:limiter"),
    "stalled": (
        plant_stalled,
        "1 job active without a lock, because the worker died: such as a, started 1m3",
        "rqtui reap bullmq:mail --once",
    ),
    "doubled": (plant_doubled, "a worker was killed or blocked, such as a in bull:mail:completed", "lockDuration"),
    "poison": (poison, "such as a: its data is no JSON", "rqtui act kill bullmq:mail a"),
    "poison-active": (poison_active, "it stops whoever runs it and stalled 4 times", "act kill bullmq:mail a"),
    "ghost": (
        ghost,
        "1 checked id in bull:mail:failed without a job, such as a",
        "rqtui act delete bullmq:mail a",
    ),
    "ghost-active": (
        ghost_active,
        "1 checked id in bull:mail:active without",
        "redis-cli LREM bull:mail:active 0 a",
    ),
    "scheduler-stopped": (
        scheduler_stopped,
        "1 scheduler without a next job, such as nightly, stopped 2m5",
        "--set scheduler=nightly",
    ),
    "stale-dedup": (stale_dedup, "id daily are dropped", "redis-cli DEL bull:mail:de:daily"),
    "parent-free": (
        parent_free,
        "1 parent job in bull:mail:waiting-children with no child left",
        "ZREM bull:mail:waiting-children a && redis-cli RPUSH bull:mail:wait a",
    ),
    "parent-of-none": (parent_of_none, "bull:mail:gone is missing", "SREM bull:mail:a:dependencies bull:mail:gone"),
    "parent-of-failed": (parent_of_failed, "although a child failed 1m", "requeue"),
    "orphan": (orphan, "1 job in no place of the queue, such as 140", "redis-cli LPUSH bull:mail:wait 140"),
    "orphan-ended": (orphan_ended, "such as 140: no clean-up will remove it", "rqtui act delete bullmq:mail 140"),
    "kept": (plant_completed_jobs, "000 jobs kept in bull:mail:completed, the oldest for 1m", "--place completed"),
    "mixed-units": (mixed_units, "not a due time in ms times 4096", "rqtui act promote bullmq:mail a"),
    "wrong-type": (wrong_type, "bull:mail:a does not hold a hash", "RENAME"),
}


def test_each_fault_of_bullmq_is_named_and_what_helps_can_be_pasted(any_client: Redis) -> None:
    database(any_client)
    any_client.hset(P + "meta", "concurrency", 2)
    assert not set(findings(any_client)) - {"no-live-worker"}

    def holds(kind: str) -> None:
        any_client.flushall()
        queue(any_client)
        plant, text, remedy = FAULTS[kind]
        plant(any_client)
        found_findings = findings(any_client)
        assert kind in found_findings and "expired-not-reaped" not in found_findings, found_findings.keys()
        assert text in found_findings[kind].text and remedy in found_findings[kind].remedy, found_findings[kind]
        assert set(found_findings) <= {
            kind,
            "no-live-worker",
            "due-not-dispatched",
            "paused",
            "dead-share",
            "oldest-ready",
        }, found_findings
        assert not found_findings[kind].jobs or found_findings[kind].jobs in (1, 10_000)

    run_cases((each, partial(holds, each)) for each in FAULTS)


@pytest.mark.parametrize(("data", "is_poison"), [(None, False), ("", False), ("1", False), ("x", True), ("[1", True)])
def test_only_data_that_bullmq_cannot_parse_stops_its_workers(
    client: Redis, data: str | None, *, is_poison: bool
) -> None:
    """BullMQ 5 and 6 parse `json.data || '{}'` (classes/job.js, fromJSON)."""
    queue(client)
    job(client, "a", data=data)
    assert ("poison" in findings(client)) is is_poison


@pytest.mark.parametrize(("others", "is_found"), [(0, False), (1, True)])
def test_a_job_starves_only_if_another_one_is_ready(client: Redis, others: int, *, is_found: bool) -> None:
    queue(client)
    starving(client)
    client.zremrangebyrank(P + "prioritized", 0, 2 - others)
    assert ("starving" in findings(client)) is is_found


@pytest.mark.parametrize("key", ["failed", "wait"])
def test_a_delete_from_a_named_place_refuses_a_key_of_another_type(client: Redis, key: str) -> None:
    queue(client)
    client.set(P + key, "another program's")
    system = registry.create_system("bullmq")
    call = system.build_call("delete", "mail", {"place": key}, [{"id": b"gone"}])
    with pytest.raises(WrongType):
        scripts.run_call(client, call)


def test_a_job_that_ran_twice_is_information_for_an_hour(client: Redis) -> None:
    queue(client)
    job(client, "recent", "completed", stc="1", ats="2", finishedOn=now_ms() - 3_590_000)
    job(client, "old", "completed", stc="1", ats="2", finishedOn=now_ms() - 3_610_000)
    found_findings = findings(client)["doubled"]
    assert (found_findings.severity, found_findings.jobs, found_findings.ids) == ("info", 1, (b"recent",))


def test_the_search_for_jobs_in_no_place_goes_through_all_ids_bit_by_bit(client: Redis) -> None:
    queue(client)
    client.set(P + "id", 400)
    job(client, "170", "")
    system = registry.create_system("bullmq")
    engine = build_engine(client, [system])
    found = []
    for _look in range(6):
        ask = system.probe_request("mail")
        assert ask is not None
        found.append([one.kind for one in engine.send_request(ask)])
    assert found.count(["orphan"]) == 1 and found.index(["orphan"]) == 2 and found.count([]) == 5


# -- bad input ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_no_reader_understands_is_shown_and_named_and_nothing_is_written(client: Redis) -> None:
    bad: Mapping[str, tuple[dict[str, Any], str]] = {
        "no-data": ({"data": None}, "its hash has no data: workers run it with {}"),
        "no-json": ({"data": "{not json"}, "its data is no JSON"),
        "noise": ({"data": b"\xff\x00\x01"}, "its data is no JSON"),
        "deep": ({"data": b"[" * 4_000}, "its data is no JSON"),
        "null": ({"data": "null"}, ""),
        "big": ({"data": b'"' + b"x" * 30_000_000 + b'"'}, ""),
        "opts": ({"opts": "[1"}, "its opts are no JSON object"),
        "numbers": ({"priority": "9" * 400, "atm": "many", "opts": '{"attempts":"x","delay":"soon"}'}, ""),
        "times": ({"timestamp": "yesterday", "processedOn": "1700000000"}, "timestamp is no time in ms: 'yesterday'"),
        "name": ({"name": "a\nb\x1b[31m", "data": "{}"}, ""),
        "traces": ({"stacktrace": '[1, {"a": 2}]', "failedReason": "no", "atm": "1"}, ""),
        "heavy": ({"stacktrace": b"[" + b"0," * 100_000, "failedReason": "x" * 100_000, "atm": "1"}, ""),
    }
    queue(client)
    for id, (fields, _problem) in bad.items():
        job(client, id, **fields)
    client.set(P + "string", "not a hash")
    put(client, "string", "wait")
    put(client, "ghost", "wait")
    put(client, b"\xff\xfe", "wait")
    job(client, "ok")
    job(client, "unit", "delayed")
    client.zadd(P + "delayed", {"unit": now_ms()})
    before = keyspace.dump(client)
    engine = open_engine(client, "bullmq")
    rows = {one.id: one for place in ("wait", "delayed") for one in engine.fetch_page(MAIL, place, 0, 100).jobs}
    expected = {id.encode(): problem for id, (_fields, problem) in bad.items()}
    expected |= {b"string": "holds what is no hash", b"ok": "", b"unit": "no due time in ms × 4096"}
    expected |= dict.fromkeys((b"ghost", b"\xff\xfe"), "its hash is missing")
    assert rows.keys() == expected.keys()

    def holds(id: bytes) -> None:
        alone = engine.fetch_job(MAIL, id, -1)
        assert alone is not None
        for seen in (rows[id], alone):
            assert expected[id] in seen.problem if expected[id] else not seen.problem, seen.problem
            assert "\x1b" not in seen.problem and "\n" not in seen.problem

    run_cases((repr(each), partial(holds, each)) for each in expected)
    assert rows[b"big"].body is None and rows[b"big"].body_bytes == 30_000_002 and rows[b"unit"].due_ms is None
    client.hset(P + "ok", "returnvalue", b"x" * 30_000_000)
    assert facts(fetch_job(client, "ok"))["returnvalue"] == "30000000 bytes: too long to show"
    client.hdel(P + "ok", "returnvalue")
    assert count_queue(client).count_in_place("wait") == len(bad) + 4 and keyspace.dump(client) == before


def test_another_programs_key_or_an_odd_name_of_a_queue_stops_nothing_else(client: Redis) -> None:
    long, odd = "q" * 300, "caf\udce9"
    for name in (b"mail", long.encode(), b"caf\xe9", b"two words", b"held"):
        client.hset(b"bull:" + name + b":meta", "version", "bullmq:6.7.0")
        client.hset(b"bull:" + name + b":1", mapping={"name": "send", "data": "{}", "opts": "{}"})
        client.lpush(b"bull:" + name + b":wait", "1")
    client.set("bull:held:failed", "another program")
    engine = open_engine(client, "bullmq")
    assert [ref.queue for ref in engine.refs] == sorted([odd, "mail", "held", long, "two words"])
    queues = {found.name: found for found in engine.take_snapshot().queues}
    assert queues["held"].verdict.kind == "wrong-type" and queues["held"].findings[0].keys == ("bull:held:failed",)
    assert all(
        found.count_in_place("wait") == 1 and not found.error for name, found in queues.items() if name != "held"
    )
    client.set("bull:held:repeat", "another program's, too")
    held = count_queue(client, Ref("bullmq", "held"))
    assert not held.error and (held.count_in_place("wait"), held.count_in_place("failed")) == (1, 0)
    found_findings = [one for one in held.findings if one.severity == "critical"]
    assert {one.kind for one in found_findings} == {"wrong-type"}
    assert {one.keys for one in found_findings} == {("bull:held:failed",), ("bull:held:repeat",)}
    for name in (odd, "held"):
        seen = engine.fetch_job(Ref("bullmq", name), b"1")
        assert seen is not None and (seen.call, seen.place, seen.problem) == ("send()", "wait", "")
    assert (
        engine.fetch_page(Ref("bullmq", "held"), "failed").error
        and engine.fetch_page(Ref("bullmq", "held"), "wait").total == 1
    )


@pytest.mark.slow
def test_each_key_of_another_program_is_reported_and_all_else_is_counted_paged_and_shown(any_client: Redis) -> None:
    """One queue alone, and several in one script."""
    database(any_client)
    any_client.hset("bull:other:meta", "version", "bullmq:6.7.0")
    any_client.hset(P + "metrics:completed", "count", 7)
    any_client.hset(P + "metrics:failed", "count", 3)
    engine = open_engine(any_client, "bullmq")
    whole, before = count_queue(any_client), keyspace.dump(any_client)
    keys = engine.systems["bullmq"].keys("mail")
    strings = {"id", "pc", "limiter"}
    assert whole.counters["in"] > 0 and whole.counters["out"] == 7

    def holds(name: str) -> None:
        key = keys[name]
        any_client.flushall()
        keyspace.plant(any_client, before)
        any_client.delete(key)
        any_client.rpush(key, "another's") if name in strings else any_client.set(key, "another's")
        theirs = keyspace.dump(any_client)
        alone = (
            open_engine(any_client, "bullmq").take_snapshot(Focus(queues=(MAIL,), is_thorough=True)).find_queue(MAIL)
        )
        both = (MAIL, Ref("bullmq", "other"))
        together = (
            open_engine(any_client, "bullmq").take_snapshot(Focus(queues=both, is_thorough=True)).find_queue(MAIL)
        )
        for queue in (alone, together):
            [actual] = [each for each in queue.findings if each.kind == "wrong-type"]
            kind = "list" if name in strings else "string"
            assert actual.keys == (key,) and actual.text.startswith(f"key {key} holds a {kind}: another program"), (
                actual
            )
            assert actual.severity == "critical" and "RENAME" in actual.remedy and not queue.error
            assert {each.place: each.count for each in queue.counts} == {
                each.place: 0 if each.place == name else each.count for each in whole.counts
            }
            assert queue.counters.get("in") == (None if name == "id" else whole.counters["in"])
            assert queue.counters.get("out") == (None if name.startswith("metrics") else 7)
        for place in PLACES:
            page = engine.fetch_page(MAIL, place)
            if place == name:
                assert page.error.startswith(f"key {key} holds a string, not a ") and "Nothing" not in page.error
                continue
            assert page.total == whole.count_in_place(place) and {each.place for each in page.jobs} <= {place}
            for each in page.jobs:
                seen = engine.fetch_job(MAIL, each.id)
                assert seen is not None and seen.place == place
        assert engine.fetch_workers(MAIL) is not None and keyspace.dump(any_client) == theirs

    sides = (
        "meta",
        "id",
        "pc",
        "marker",
        "events",
        "limiter",
        "stalled",
        "repeat",
        "metrics_completed",
        "metrics_failed",
    )
    run_cases((name, partial(holds, name)) for name in (*PLACES, *sides))


# -- looking never writes ----------------------------------------------------------------------------------------------


def list_readers(engine: Engine) -> Sequence[Callable[[], object]]:
    """Everything that looks."""
    system = engine.systems["bullmq"]
    pages = tuple(PageSelection(MAIL, place, 0, 100, 4096) for place in PLACES)
    ask = system.schedules_request()
    assert ask is not None
    return (
        lambda: [found for found in engine.discover(fully=True)],
        lambda: engine.take_snapshot(Focus(pages=pages, job=(MAIL, b"16"), is_thorough=True)),
        lambda: [*errors.yield_error_reports(engine, [MAIL, SLOW])],
        lambda: workers.load_workers(engine, [MAIL, SLOW]),
        lambda: engine.find_jobs_by_id([b"18", b"nobody"]),
        lambda: engine.send_request(ask),
    )


def test_a_poll_sends_no_command_that_writes_and_many_queues_are_counted_in_one_trip(client: Redis) -> None:
    database(client)
    for plant in (plant_stalled, poison, ghost, scheduler_stopped, stale_dedup, parent_of_none, orphan):
        plant(client)
    for number in range(120):
        queue(client, f"queue-{number:03d}")
        job(client, "1", of=f"queue-{number:03d}")
    writes = {name.decode() for name in client.execute_command("ACL", "CAT", "write")}
    before = keyspace.dump(client)
    client.config_resetstat()
    engine = open_engine(client, "bullmq")
    engine.take_snapshot()
    for look in list_readers(engine):
        look()
    snapshot = engine.take_snapshot()
    sent = {name.removeprefix("cmdstat_").partition("|")[0] for name in client.info("commandstats")}
    assert {"evalsha_ro", "zcard", "xrevrange", "client"} <= sent and not sent & writes, sent & writes
    assert keyspace.dump(client) == before and len(snapshot.queues) == 122 and snapshot.cost.round_trips == 1


def test_a_shell_needs_no_option(client: Redis, url: str) -> None:
    database(client)
    plant_stalled(client)
    rows = {row["queue"]: row for row in shell(url, "snapshot", "--json").json["queues"]}
    assert (rows["mail"]["layout"], rows["mail"]["workers"]) == ("bullmq", 0)
    output = shell(url, "jobs", "bullmq:mail", "failed").out
    assert "Error: smtp refused" in output and "2/2" in output
    one = shell(url, "show", "mail", "18", "--json").json
    assert [run["end_at_ms"] is None for run in one["history"]] == [True, False] and one["name"] == "send"
    assert "smtp refused" in shell(url, "errors").out
    assert "1970" not in shell(url, "show", "mail", "18").out
    health = shell(url, "health")
    assert health.code == 1 and "rqtui reap bullmq:mail --once" in health.out
    assert shell(url, "schedules", "bullmq:mail").code == 0
