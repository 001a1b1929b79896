"""RQ's verbs: the conformance suite, what must never be done, the rules of RQ's own clean-up, new jobs, undo.

What a stock worker does with the results is tried in `tests/beside/`.
"""

from __future__ import annotations

import json
import pickle
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from families import run_in_one_test
from redis import Redis
from redis.exceptions import WatchError
from rq_subject import (
    EXC_STRING,
    KEYS,
    NOW,
    NOW_S,
    OTHER_KEYS,
    RQ,
    SCRIPTS,
    WORKER,
    YEAR_S,
    build_call_data,
    build_job_key,
    format_time,
    pack_strings,
    plant_job,
    plant_started,
    plant_worker,
    read_changing_fields,
)
from shell import shell
from slow_cases import mark_slow_cases

from rqtui.connection.connect import connect
from rqtui.engine.engine import Engine, build_engine
from rqtui.engine.loops import build_round
from rqtui.errors import RqtuiError, UsageError
from rqtui.model import Outcome, Ref
from rqtui.operations.revert import revert_record
from rqtui.operations.undo import UndoRecorder, describe_undo
from rqtui.reports import acl
from rqtui.scripts import script as scripts
from rqtui.scripts.script import Reply
from rqtui.systems import registry
from rqtui.testing import conformance, keyspace
from rqtui.testing.conformance import Planted

QUEUE = Ref("rq", "default")


@pytest.mark.parametrize("script", mark_slow_cases(RQ.scripts, ("bump", "delete", "kill", "move", "reschedule")))
def test_rq(script: str, any_client: Redis) -> None:
    conformance.run_all(conformance.cases(RQ, [script]), RQ, any_client)


@pytest.mark.matrix
@pytest.mark.parametrize("script", [name for name in RQ.scripts if conformance.cases(RQ, [name], alike=True)])
def test_rq_in_the_places_that_are_alike(script: str, any_client: Redis) -> None:
    conformance.run_all(conformance.cases(RQ, [script], alike=True), RQ, any_client)


def open_engine(client: Redis, spec: str = "rq") -> Engine:
    return build_engine(client, [registry.create_system(spec)])


def act(engine: Engine, verb: str, *ids: str, **form: object) -> list[str]:
    """Run a verb on jobs as they are now, and return the words of the outcomes."""
    system = engine.systems["rq"]
    jobs = [job for job in engine.send_requests([system.job_request("default", id.encode(), 0) for id in ids]) if job]
    assert len(jobs) == len(ids), "a job is not there"
    return [outcome.word for outcome in engine.apply_verb(verb, QUEUE, jobs, form)]


def reap(client: Redis, **args: object) -> Reply:
    fields = {"prefix": "rq", "now_ms": NOW, "limit": 100, "exc_string": EXC_STRING, **args}
    return scripts.run_call(client, SCRIPTS["reap"].build_call(KEYS, fields))


def fields(client: Redis, id: str, *names: str) -> list[str | None]:
    return [None if value is None else value.decode() for value in client.hmget(build_job_key(id), names)]


def list_queued(client: Redis) -> list[str]:
    return [id.decode() for id in client.lrange(KEYS["queued"], 0, -1)]


def waiting(client: Redis, *ids: str, **more: object) -> None:
    for id in ids:
        plant_job(client, id, "queued", **more)
        client.rpush(KEYS["queued"], id)
    client.sadd(KEYS["queues"], KEYS["queued"])


def plant_failed_job(client: Redis, id: str, **more: object) -> None:
    plant_job(client, id, "failed", **more)
    client.zadd(KEYS["failed"], {id: NOW_S + YEAR_S})
    client.expire(build_job_key(id), YEAR_S)


# --- what is never done -------------------------------------------------------------------------------------------


def test_a_killed_job_leaves_the_list_wherever_and_however_often_it_is_there(any_client: Redis) -> None:
    waiting(any_client, *(f"j{n}" for n in range(60)))
    any_client.rpush(KEYS["queued"], "j3", "j59")
    engine = open_engine(any_client)
    assert act(engine, "kill", "j3", "j59") == ["moved"] * 2
    assert act(engine, "kill", *(f"j{n}" for n in range(10, 58))) == ["moved"] * 48
    assert list_queued(any_client) == [f"j{n}" for n in range(10) if n != 3] + ["j58"]
    assert fields(any_client, "j3", "status") == ["canceled"] and any_client.zcard(KEYS["canceled"]) == 50
    assert act(engine, "bump", "j58", "j5") == ["moved"] * 2 and list_queued(any_client)[:3] == ["j5", "j58", "j0"]


def test_jobs_that_a_living_worker_runs_stay_with_it(any_client: Redis) -> None:
    engine = open_engine(any_client)
    for execution_beats, current in ((True, ""), (False, "slow"), (False, "")):
        any_client.flushall()
        plant_worker(any_client, current=current)
        plant_job(any_client, "slow", "started")
        member = plant_started(any_client, "slow", NOW_S - 10)
        if execution_beats:
            any_client.hset(f"rq:execution:{member}", "worker_name", WORKER)
        before = keyspace.dump(any_client)
        assert reap(any_client).word == "empty"
        for verb, word in (
            ("kill", "wrong_place"),
            ("delete", "reserved"),
            ("cancel", "unheard"),
            ("requeue", "wrong_place"),
        ):
            assert act(engine, verb, "slow") == [word], verb
        assert act(engine, "delete", "slow", force=True) == ["reserved"]
        assert not keyspace.diff(before, keyspace.dump(any_client))
    # A worker restarted under the same name, or that runs another job now, has released it.
    any_client.hset(f"rq:worker:{WORKER}", "birth", format_time(NOW - 1000))
    assert reap(any_client).word == "moved"


def test_jobs_are_written_as_those_of_their_queue_are_read(any_client: Redis) -> None:
    as_json = zlib.compress(json.dumps(["tasks.add", None, [1], {}]).encode())
    for body, spec, reads in (
        (build_call_data(1), "rq", pickle.loads),
        (as_json, "rq", json.loads),
        (b"", "rq", pickle.loads),
        (b"", "rq:serializer=json", json.loads),
        (as_json, "rq:serializer=pickle", pickle.loads),
    ):
        any_client.flushall()
        if body:
            waiting(any_client, "old", body=body)
        engine = open_engine(any_client, spec)
        engine.systems["rq"].learn_job_format(any_client, "default")
        [outcome] = put(engine, {"func": "tasks.add", "args": [2]}, id="new", meta={"by": "me"})
        assert outcome.word == "moved"
        call, meta = (reads(value) for value in (zlib.decompress(any_client.hget(build_job_key("new"), "data") or b""),
                                                any_client.hget(build_job_key("new"), "meta")))  # fmt: skip
        assert list(call) == ["tasks.add", None, [2] if reads is json.loads else (2,), {}] and meta == {"by": "me"}
    with pytest.raises(UsageError, match="serializer is auto, pickle or json"):
        registry.create_system("rq:serializer=yaml")


def test_a_job_with_a_rate_limit_is_left_to_rq(any_client: Redis) -> None:
    limit = {"rate_limit_key": "api", "rate_limit_concurrency": 1}
    waiting(any_client, "queued", **limit)
    plant_failed_job(any_client, "failed", **limit)
    plant_job(any_client, "due", "scheduled", **limit)
    any_client.zadd(KEYS["scheduled"], {"due": NOW_S - 10})
    plant_job(any_client, "abandoned", "started", **limit)
    plant_started(any_client, "abandoned", NOW_S - 10)
    plant_job(any_client, "held back", "rate_limited", **limit)  # it waits for a slot, in no place
    engine, before = open_engine(any_client), keyspace.dump(any_client)
    for verb, id in (
        ("kill", "queued"),
        ("delete", "queued"),
        ("requeue", "failed"),
        ("delete", "failed"),
        ("promote", "due"),
        *((verb, "held back") for verb in ("promote", "kill", "requeue", "delete", "bump", "reschedule")),
    ):
        assert act(engine, verb, id) == ["limited"], (verb, id)
    [purged] = engine.apply_verb("purge", QUEUE, (), {"place": "failed", "limit": 10})
    assert (purged.word, purged.values) == ("kept", {"kept": 1})
    assert reap(any_client).word == "empty"
    assert engine.apply_verb("dispatch", QUEUE, (), {"limit": 10})[0].word == "empty"
    assert not keyspace.diff(before, keyspace.dump(any_client))


def test_a_job_that_others_wait_for_is_deleted_only_when_forced(any_client: Redis) -> None:
    waiting(any_client, "parent")
    for child in ("child", "late"):
        plant_job(any_client, child, "deferred")
        any_client.sadd("rq:job:parent:dependents", child)
        any_client.zadd(KEYS["deferred"], {child: NOW_S})
    engine = open_engine(any_client)
    system = engine.systems["rq"]
    parent = engine.send_request(system.job_request("default", b"parent", 0))
    assert parent
    [refused] = engine.apply_verb("delete", QUEUE, [parent])
    assert (refused.word, refused.values) == ("dependents", {"jobs": 2})
    assert [one.word for one in engine.apply_verb("purge", QUEUE, (), {"place": "queued", "limit": 10})] == ["kept"]
    any_client.hset(build_job_key("late"), "status", "finished")  # it waits no more, and its id is only left there
    assert act(engine, "delete", "child", "parent") == ["moved"] * 2  # who waits goes with it
    plant_job(any_client, "child", "deferred")
    any_client.zadd(KEYS["deferred"], {"child": NOW_S})
    waiting(any_client, "parent")
    any_client.sadd("rq:job:parent:dependents", "child")
    assert act(engine, "delete", "parent", force=True) == ["moved"]
    assert not any_client.exists(build_job_key("parent"), build_job_key("parent", ":dependents")) and any_client.exists(
        build_job_key("child")
    )


def test_a_requeued_job_outlives_its_failure_and_its_parents_start_it_no_second_time(any_client: Redis) -> None:
    for place, verb in (
        ("failed", "requeue"),
        ("canceled", "requeue"),
        ("finished", "requeue"),
        ("deferred", "promote"),
    ):
        for ttl in ("", "500"):
            any_client.flushall()
            plant_job(any_client, "a", place, ttl=ttl, retries_left=2)
            any_client.zadd(KEYS[place], {"a": NOW_S + YEAR_S})
            any_client.sadd("rq:job::a:dependencies", "parent")
            any_client.sadd("rq:job:parent:dependents", "a", "b")
            for key in (build_job_key("a"), "rq:job::a:dependencies"):
                any_client.expire(key, 74)
            assert act(open_engine(any_client), verb, "a") == ["moved"]
            names = ("status", "started_at", "ended_at", "worker_name", "retries_left")
            assert fields(any_client, "a", *names) == ["queued", "", "", "", "2"]
            for key in (build_job_key("a"), "rq:job::a:dependencies"):
                assert any_client.ttl(key) == -1 if not ttl else any_client.ttl(key) > 400
            assert list_queued(any_client) == ["a"] and not any_client.zcard(KEYS[place])
            assert any_client.smembers("rq:job:parent:dependents") == {b"b"}
            assert any_client.smembers(KEYS["queues"]) == {KEYS["queued"].encode()}


def test_a_scheduler_that_lives_moves_its_due_jobs_alone(any_client: Redis) -> None:
    for id, due_s in (("due", 1000), ("later", 4 * 10**9)):
        plant_job(any_client, id, "scheduled", enqueue_at_front=int(id == "due"))
        any_client.zadd(KEYS["scheduled"], {id: due_s, "ghost": 999})
    waiting(any_client, "first")
    any_client.set(KEYS["lock"], "scheduler", ex=61)
    engine = open_engine(any_client)
    step = build_round("dispatch", any_client, engine.systems, lambda: [QUEUE])
    before = keyspace.dump(any_client)
    assert act(engine, "promote", "due") == act(engine, "reschedule", "due", delay_ms=60_000) == ["due"]
    assert step().moved == 0 and not keyspace.diff(before, keyspace.dump(any_client))
    any_client.delete(KEYS["lock"])
    assert step().moved == 2  # a ghost leaves, too
    assert list_queued(any_client) == ["due", "first"] and any_client.zrange(KEYS["scheduled"], 0, -1) == [b"later"]
    assert act(engine, "reschedule", "later", delay_ms=90_000) == ["moved"]
    assert 80 < (any_client.zscore(KEYS["scheduled"], "later") or 0) - any_client.time()[0] <= 91
    any_client.set(KEYS["lock"], "hangs", ex=61)
    any_client.zadd(KEYS["scheduled"], {"later": 1})
    assert act(engine, "promote", "later", force=True) == ["moved"]


# --- the rules of RQ's own clean-up ---------------------------------------------------------------------------------

LATE = NOW_S - 10
ABANDONED: Mapping[str, tuple[Mapping[str, object], str, list[str | None]]] = {
    "no retries": ({}, "failed", ["failed", None]),
    "none left": ({"retries_left": 0}, "failed", ["failed", "0"]),
    "some left": ({"retries_left": 3}, "queued", ["queued", "2"]),
    "after an interval": ({"retries_left": 2, "retry_intervals": "[10, 60]"}, "scheduled", ["scheduled", "1"]),
    "intervals that are none": ({"retries_left": 2, "retry_intervals": "{"}, "queued", ["queued", "1"]),
    "one interval that is no list": ({"retries_left": 2, "retry_intervals": "5"}, "queued", ["queued", "1"]),
    "an empty list of intervals": ({"retries_left": 2, "retry_intervals": "[]"}, "queued", ["queued", "1"]),
    "intervals that are words": ({"retries_left": 2, "retry_intervals": '["x"]'}, "queued", ["queued", "1"]),
    "it has ended already": ({"status": "finished", "worker_name": WORKER}, "", ["finished", None]),
}


@run_in_one_test("name", ABANDONED)
def test_an_abandoned_job_goes_where_rq_s_clean_up_takes_it(name: str, any_client: Redis) -> None:
    more, place, left = ABANDONED[name]
    plant_job(any_client, "a", **{"status": "started", **more})  # type: ignore[arg-type]
    plant_started(any_client, "a", LATE)
    answer = reap(any_client)
    assert (answer.word, answer.values["moved"]) == ("moved", 1)
    assert fields(any_client, "a", "status", "retries_left") == left
    assert not any_client.exists(KEYS["started"], "rq:executions:a", f"rq:worker:{WORKER}:executions")
    assert {p: any_client.zscore(KEYS[p], "a") for p in ("failed", "scheduled") if any_client.exists(KEYS[p])} == {
        "failed": {"failed": NOW_S + YEAR_S}, "scheduled": {"scheduled": NOW_S + 10}
    }.get(place, {})  # fmt: skip
    assert list_queued(any_client) == (["a"] if place == "queued" else [])
    if place == "failed":
        [(_id, result)] = any_client.xrange("rq:results:a")
        assert result == {b"type": b"2", b"worker_name": WORKER.encode(), b"exc_string": EXC_STRING}
        assert min(any_client.ttl("rq:results:a"), any_client.ttl(build_job_key("a"))) > YEAR_S - 600


def test_a_failure_that_is_kept_for_ever_or_not_at_all(any_client: Redis) -> None:
    for ttl, score in ((-1, -1), (60, NOW_S + 60)):
        any_client.flushall()
        plant_job(any_client, "a", "started", failure_ttl=ttl)
        plant_started(any_client, "a", LATE)
        assert reap(any_client).word == "moved"
        assert any_client.zscore(KEYS["failed"], "a") == score and (any_client.ttl(build_job_key("a")) == -1) == (
            ttl < 0
        )


def test_a_job_that_depends_on_a_reaped_one_and_allows_failures_is_enqueued(any_client: Redis) -> None:
    plant_job(any_client, "a", "started")
    plant_started(any_client, "a", LATE)
    for id, more, parents in (
        ("allows", {"allow_dependency_failures": 1, "origin": "other"}, ("a",)),
        ("needs success", {}, ("a",)),
        ("waits on", {"allow_dependency_failures": 1}, ("a", "another")),
        ("limited", {"allow_dependency_failures": 1, "rate_limit_key": "api"}, ("a",)),
    ):
        plant_job(any_client, id, "deferred", **more)
        any_client.zadd(f"rq:deferred:{more.get('origin', 'default')}", {id: NOW_S})
        any_client.sadd(f"rq:job::{id}:dependencies", *parents)
        any_client.sadd("rq:job:a:dependents", id)
    plant_job(any_client, "another", "queued")
    assert reap(any_client).word == "moved"
    assert any_client.lrange("rq:queue:other", 0, -1) == [b"allows"] and not any_client.exists("rq:deferred:other")
    assert any_client.smembers("rq:job:a:dependents") == {b"needs success", b"waits on", b"limited"}
    assert any_client.zcard(KEYS["deferred"]) == 3 and not any_client.exists(KEYS["queued"])


def test_a_job_stuck_between_queue_and_start_goes_back_after_a_minute(any_client: Redis) -> None:
    for id, status in (("one", "queued"), ("two", "queued"), ("ended", "finished")):
        plant_job(any_client, id, status)
    any_client.rpush(KEYS["intermediate"], "ended", "one", "ghost", "two")
    waiting(any_client, "next")
    seen = f"{KEYS['intermediate']}:first_seen:one"
    first = reap(any_client)
    assert (first.word, first.values["moved"], first.values["next_ms"]) == ("moved", 2, 60_000)
    assert any_client.lrange(KEYS["intermediate"], 0, -1) == [b"one", b"two"] and any_client.ttl(seen) > 86_000
    assert float(any_client.get(seen) or 0) == NOW_S
    assert reap(any_client, now_ms=NOW + 60_000).word == "empty"
    assert reap(any_client, now_ms=NOW + 60_001).values["ready"] == 2
    assert list_queued(any_client) == ["one", "two", "next"] and not any_client.exists(KEYS["intermediate"], seen)


def test_a_reaper_of_the_engine_brings_its_own_words_for_a_failure(any_client: Redis) -> None:
    plant_job(any_client, "a", "started")
    plant_started(any_client, "a", LATE)
    engine = open_engine(any_client)
    assert build_round("reap", any_client, engine.systems, lambda: [QUEUE])().moved == 1
    job = engine.fetch_job(QUEUE, b"a")
    assert job and job.place == "failed" and "AbandonedJobError: its worker died" in job.error


# --- orders to workers ----------------------------------------------------------------------------------------------


def test_commands_reach_the_worker_that_runs_the_job(url: str, client: Redis) -> None:
    plant_worker(client)
    plant_job(client, 'odd"id', "started", worker_name="an older run's")
    plant_started(client, 'odd"id', NOW_S + YEAR_S)
    engine = open_engine(client)
    with connect(url) as own:
        ear = own.pubsub(ignore_subscribe_messages=True)
        ear.subscribe(f"rq:pubsub:{WORKER}")
        assert ear.get_message(timeout=10) is None  # the confirmation, which is passed over
        assert act(engine, "cancel", 'odd"id') == ["asked"]
        assert [one.word for one in engine.apply_verb("stop", QUEUE, (), {"worker": WORKER})] == ["asked"]
        received: list[Any] = []
        while len(received) < 2:
            if message := ear.get_message(timeout=10):
                received.append(json.loads(message["data"]))
    assert received == [{"command": "stop-job", "job_id": 'odd"id'}, {"command": "shutdown"}]


def test_an_operator_with_the_least_rights_may_do_every_verb(url: str, client: Redis) -> None:
    system = registry.create_system("rq")
    rule = acl.format_acl_command("operator", acl.compute_rights("operator", [(system, "default")]), user="operator")
    assert "&rq:pubsub:*" in rule.split()
    client.execute_command(*rule.replace(">PASSWORD", ">secret").split())
    waiting(client, "a", "b")
    plant_worker(client)
    plant_failed_job(client, "f")
    plant_job(client, "s", "started")
    plant_started(client, "s", NOW_S + YEAR_S)
    plant_job(client, "late", "started", worker_name="dead")
    plant_started(client, "late", 1, worker="dead")
    with connect(url.replace("://", "://operator:secret@")) as own:
        engine = open_engine(own)
        for verb, ids in (("bump", "b"), ("kill", "a"), ("requeue", "f"), ("delete", "b"), ("requeue", "a")):
            assert act(engine, verb, ids) == ["moved"], verb
        assert act(engine, "cancel", "s") == ["unheard"]
        assert [one.word for one in engine.apply_verb("stop", QUEUE, (), {"worker": WORKER})] == ["unheard"]
        assert put(engine, {"func": "t.f"}, delay_ms=5)[0].word == "moved"
        assert [engine.apply_verb(verb, QUEUE)[0].word for verb in ("pause", "resume")] == ["paused", "resumed"]
        assert build_round("reap", own, engine.systems, lambda: [QUEUE])().moved == 1
    client.acl_deluser("operator")


def test_a_pause_reaches_all_queues_and_reports_it(any_client: Redis) -> None:
    engine = open_engine(any_client)
    system = engine.systems["rq"]
    assert "any queue of this RQ" in system.verb_effects["pause"] and "all queues" in system.verb_effects["resume"]
    for verb, word, stays in (
        ("pause", "paused", b"1"),
        ("pause", "already", b"1"),
        ("resume", "resumed", None),
        ("resume", "already", None),
    ):
        assert [one.word for one in engine.apply_verb(verb, QUEUE)] == [word] and any_client.get(
            "rq:suspended"
        ) == stays


# --- new jobs ---------------------------------------------------------------------------------------------------------


def put(engine: Engine, job: object, **row: object) -> list[Outcome]:
    meta = {"meta": row.pop("meta")} if "meta" in row else {}
    body = json.dumps({**job, **meta} if isinstance(job, dict) else job).encode()
    return engine.send_request(engine.systems["rq"].put_request("default", [{"body": body, **row}]))


def test_a_new_job_has_what_its_body_says_and_what_its_row_says_before_it(any_client: Redis) -> None:
    engine = open_engine(any_client)
    full = {
        "func": "tasks.add", "args": [1, "x"], "kwargs": {"c": None}, "timeout": "2m", "result_ttl": -1,
        "failure_ttl": 60, "ttl": 500, "retry": 3, "retry_intervals": [1, 2], "description": "mine", "at_front": True,
    }  # fmt: skip
    waiting(any_client, "old")
    assert [one.word for one in put(engine, full, id="a") + put(engine, full, id="a")] == ["moved", "exists"]
    assert put(engine, {"func": "tasks.add", "args": [1]}, id="b", delay_ms=90_500, max_attempts=5)[0].word == "moved"
    assert put(engine, full, id="c", ttr_ms=1500, keep_ms=7000)[0].word == "moved"
    names = (
        "timeout",
        "result_ttl",
        "failure_ttl",
        "ttl",
        "retries_left",
        "retry_intervals",
        "description",
        "status",
        "origin",
    )
    assert fields(any_client, "a", *names) == ["120", "-1", "60", "500", "3", "[1, 2]", "mine", "queued", "default"]
    assert fields(any_client, "b", *names) == [
        "180",
        None,
        None,
        None,
        "4",
        None,
        "tasks.add(1)",
        "scheduled",
        "default",
    ]
    assert fields(any_client, "c", *names[:2]) == ["2", "7"]
    assert list_queued(any_client) == ["c", "a", "old"] and 400 < any_client.ttl(build_job_key("a")) <= 500
    due_s = (any_client.zscore(KEYS["scheduled"], "b") or 0) - any_client.time()[0]
    assert 80 < due_s <= 92 and any_client.smembers("rq:queues") == {b"rq:queue:default"}
    job = engine.fetch_job(QUEUE, b"a")
    assert job and job.call == "tasks.add(1, 'x', c=None)" and job.ttr_ms == 120_000 and not job.problem
    [result] = put(engine, {"func": "tasks.add"})
    assert result.word == "moved" and any_client.hexists(build_job_key(result.id), "created_at")
    created = engine.fetch_job(QUEUE, result.id)
    assert created and created.enqueued_ms and abs(created.enqueued_ms - any_client.time()[0] * 1000) < 600_000
    [copy] = engine.apply_verb("enqueue", QUEUE, (), {"id": "copy", "body": job.body})
    assert copy.word == "moved" and fields(any_client, "copy", "description") == ["tasks.add(1, 'x', c=None)"]


REFUSED: Mapping[str, tuple[object, str]] = {
    "a list": ([1], "names no function; a job is written as"),
    "no function": ({"args": []}, "names no function"),
    "a function without a module": ({"func": "add"}, 'with its module, as in "tasks.add"'),
    "a command": ({"func": "os.system; rm"}, "with its module"),
    "arguments that are no list": ({"func": "t.f", "args": {"a": 1}}, "args is a list"),
    "names that are no object": ({"func": "t.f", "kwargs": []}, "kwargs is an object"),
    "a word that is none": ({"func": "t.f", "queue": "x"}, 'has no "queue"; it has func, args'),
    "a time that is none": ({"func": "t.f", "timeout": "soon"}, "timeout cannot be 'soon'"),
    "a negative time": ({"func": "t.f", "ttl": -2}, "ttl cannot be negative"),
    "no time to run": ({"func": "t.f", "timeout": 0}, "timeout is longer than 0; -1 lets a job run for ever"),
    "no time to live": ({"func": "t.f", "ttl": "0s"}, "ttl is longer than 0; a job without one waits for ever"),
    "a time to live for ever": ({"func": "t.f", "ttl": -1}, "a job without one waits for ever"),
    "retries that are no number": ({"func": "t.f", "retry": True}, "retry is how often"),
    "intervals that are none": (
        {"func": "t.f", "retry_intervals": [1.5]},
        "retry_intervals is a list of whole seconds",
    ),
}


@run_in_one_test("name", REFUSED)
def test_a_job_that_no_worker_could_run_is_refused_in_a_sentence(name: str, any_client: Redis) -> None:
    job, sentence = REFUSED[name]
    with pytest.raises(UsageError) as refused:
        put(open_engine(any_client), job)
    assert sentence in str(refused.value) and not any_client.dbsize()


def test_bodies_that_are_no_json_and_fields_that_rq_has_not_are_refused(any_client: Redis) -> None:
    engine, system = open_engine(any_client), registry.create_system("rq")
    for body in (b"", b"tasks.add(1)", b"\xff", b"[" * 100_000):
        with pytest.raises(UsageError, match="no JSON"):
            system.encode_body(body)
    with pytest.raises(UsageError, match="rq keeps no priority"):
        put(engine, {"func": "t.f"}, priority=3)
    with pytest.raises(UsageError, match="timeout is longer than 0"):
        put(engine, {"func": "t.f"}, ttr_ms=0)
    [outcome] = put(engine, {"func": "t.f"}, id="no:colon")
    assert outcome.word == "error" and "letters, digits, _ and -" in outcome.text and not any_client.dbsize()


# --- undo -------------------------------------------------------------------------------------------------------------


def verb_then_undo(
    engine: Engine, keeper: UndoRecorder, folder: Path, verb: str, act: Callable[[], object]
) -> list[str]:
    act()
    name = keeper.end_change(verb, "rq", "default")
    assert name, verb
    return [one.word for step in revert_record(engine, folder / "undo", name) for one in step]


def test_a_verb_is_undone_byte_for_byte(client: Redis, tmp_path: Path) -> None:
    engine = open_engine(client)
    engine.change_recorder = keeper = UndoRecorder(tmp_path)
    waiting(client, "a", "b", "c", "d", retries_left=2, group_id="g", data=build_call_data(b"\x00\xff"))
    for id in ("f", "g"):
        plant_failed_job(client, id)
        client.xadd(f"rq:results:{id}", {"type": 2, "exc_string": EXC_STRING}, id="1780000000000-5")
        client.expire(f"rq:results:{id}", YEAR_S)
    client.sadd("rq:group:g", "a", "b", "c", "d")
    plant_job(client, "child", "deferred")
    client.zadd(KEYS["deferred"], {"child": NOW_S})
    client.sadd("rq:job::child:dependencies", "parent")
    client.sadd("rq:job:parent:dependents", "child")
    plant_job(client, "s", "scheduled")
    client.zadd(KEYS["scheduled"], {"s": 4 * 10**9})
    before = keyspace.dump(client)
    for verb, ids, form in (
        ("kill", ("b", "d", "child", "s"), {}),
        ("delete", ("a", "c", "f", "child", "s"), {}),
        ("requeue", ("f", "g"), {}),
        ("promote", ("child", "s"), {}),
        ("bump", ("d", "b"), {}),
        ("reschedule", ("s",), {"delay_ms": 1000}),
    ):
        done = verb_then_undo(engine, keeper, tmp_path, verb, lambda: act(engine, verb, *ids, **form))  # noqa: B023
        assert done == ["moved"] * len(ids), verb
        assert not (found := keyspace.diff(before, keyspace.dump(client))), (verb, found)
        assert describe_undo(engine.systems["rq"], verb) == "z undoes it"
    purge = lambda: list(engine.yield_verb_steps("purge", QUEUE, (), {"place": "failed", "limit": 10}))  # noqa: E731
    assert verb_then_undo(engine, keeper, tmp_path, "purge", purge) == ["moved"] * 2
    assert not keyspace.diff(before, keyspace.dump(client))
    act(engine, "requeue", "f")
    name = keeper.end_change("requeue", "rq", "default")
    client.hset(build_job_key("f"), "status", "started")  # a worker has it by now
    assert [one.word for step in revert_record(engine, tmp_path / "undo", name) for one in step] == ["changed"]


def test_jobs_with_a_long_id_an_odd_score_or_many_fields_are_undone_too(client: Redis, tmp_path: Path) -> None:
    engine = open_engine(client)
    engine.change_recorder = keeper = UndoRecorder(tmp_path)
    long, wide, below = "i" * 600, "wide", "below"
    waiting(client, long)
    plant_failed_job(client, wide, **{f"field{number}": number for number in range(4500)})
    plant_failed_job(client, below)
    client.zadd(KEYS["failed"], {wide: "inf", below: "-inf"})
    client.expireat(build_job_key(below), 10**13)
    before = keyspace.dump(client)
    for verb, ids in (("kill", [long]), ("delete", [long, wide, below]), ("requeue", [wide, below])):
        done = verb_then_undo(engine, keeper, tmp_path, verb, lambda: act(engine, verb, *ids))  # noqa: B023
        assert done == ["moved"] * len(ids), verb
        assert not (found := keyspace.diff(before, keyspace.dump(client))), (verb, found)


def test_bytes_that_are_no_record_are_refused(client: Redis) -> None:
    good = pack_strings(b"data", build_call_data(1)), pack_strings(b"", b"", b"")
    for record, rest in (
        (b"5:abc", good[1]),
        (pack_strings(b"odd"), good[1]),
        (good[0], pack_strings(b"1")),
        (good[0], pack_strings(b"x", b"", b"")),
    ):
        call = SCRIPTS["restore"].build_call(KEYS, {"prefix": "rq"}, [("a", "failed", "1", record, rest, "")])
        with pytest.raises(Exception, match=r"row 1: the (record|body) is not one; nothing was changed"):
            scripts.run_call(client, call)
    waiting(client, "a")
    for value, then in (
        (read_changing_fields(client, b"a"), b"nothing"),
        (read_changing_fields(client, b"a"), pack_strings(b"1")),
    ):
        call = SCRIPTS["revert"].build_call(KEYS, {"prefix": "rq"}, [("a", "queued", value, "failed", "1", then, "")])
        with pytest.raises(Exception, match="row 1: the line is not one; nothing was changed"):
            scripts.run_call(client, call)
    assert list_queued(client) == ["a"]


def test_a_key_of_another_type_stops_no_verb_on_jobs_of_other_places(any_client: Redis, tmp_path: Path) -> None:
    engine = open_engine(any_client)
    engine.change_recorder = UndoRecorder(tmp_path)
    for broken in ("scheduled", "deferred", "ready_to_enqueue", "finished", "canceled", "queued"):
        any_client.flushdb()
        waiting(any_client, "a", "b", "c")
        plant_failed_job(any_client, "f")
        plant_failed_job(any_client, "g")
        any_client.delete(KEYS[broken])
        any_client.set(KEYS[broken], "another program's")
        assert act(engine, "delete", "f") == ["moved"], broken
        if broken != "queued":
            assert act(engine, "requeue", "g") == ["moved"] and act(engine, "bump", "b") == ["moved"], broken
            assert act(engine, "delete", "a") == ["moved"], broken
            # kill writes to `canceled`: the target is checked before the first write.
            assert act(engine, "kill", "c") == (["error"] if broken == "canceled" else ["moved"]), broken
            left = [b"b", b"g"] + [b"c"] * (broken == "canceled")
            assert sorted(any_client.lrange(KEYS["queued"], 0, -1)) == sorted(left), broken
        else:
            before = keyspace.dump(any_client)
            assert act(engine, "requeue", "g") == ["error"] and keyspace.dump(any_client) == before
        assert any_client.get(KEYS[broken]) == b"another program's", broken


# --- another queue --------------------------------------------------------------------------------------------------

OTHER = Ref("rq", "other")


def move(engine: Engine, *ids: str, to_queue: str = "other", queue: Ref = QUEUE) -> list[str]:
    """Move jobs of a queue, as they are now, to another one, and return the words of the outcomes."""
    jobs = [job for id in ids if (job := engine.fetch_job(queue, id.encode()))]
    assert len(jobs) == len(ids), "a job is not there"
    return [outcome.word for outcome in engine.apply_verb("move", queue, jobs, {"to_queue": to_queue})]


def undo_move(engine: Engine, keeper: UndoRecorder, folder: Path) -> list[str]:
    name = keeper.end_change("move", "rq", "default")
    assert name
    return [one.word for step in revert_record(engine, folder / "undo", name) for one in step]


def plant_job_in_every_movable_place(client: Redis) -> None:
    """Plant five queued RQ jobs, and one or two in each other place from which jobs are moved."""
    waiting(client, "a", "b", "c", "d", "e", retries_left=2)
    for id in ("failed", "stopped"):
        plant_failed_job(client, id)
        client.hset(build_job_key(id), "status", id)
        client.xadd(f"rq:results:{id}", {"type": 2, "exc_string": EXC_STRING}, id="1780000000000-5")
    for id, place, score in (
        ("later", "scheduled", 4 * 10**9 + 0.25),
        ("child", "deferred", NOW_S + 0.123456),
        ("canceled", "canceled", NOW_S),
    ):
        plant_job(client, id, place)
        client.zadd(KEYS[place], {id: score})
    client.sadd("rq:job::child:dependencies", "a", "b")
    for parent in "ab":
        client.sadd(build_job_key(parent, ":dependents"), "child")
    client.expire(build_job_key("a", ":dependents"), YEAR_S)


def test_moved_jobs_keep_order_scores_and_all_data_but_the_name_of_their_queue(any_client: Redis) -> None:
    plant_job_in_every_movable_place(any_client)
    plant_job(any_client, "theirs", "queued", origin="other")
    any_client.rpush(OTHER_KEYS["queued"], "theirs")
    before = keyspace.dump(any_client)
    moved = ("d", "failed", "b", "later", "stopped", "child", "canceled")
    assert move(open_engine(any_client), *moved) == ["moved"] * 7
    after = keyspace.dump(any_client)
    assert list_queued(any_client) == ["a", "c", "e"]
    assert any_client.lrange(OTHER_KEYS["queued"], 0, -1) == [b"theirs", b"b", b"d"]
    assert any_client.smembers("rq:queues") == {b"rq:queue:default", b"rq:queue:other"}
    places = ("failed", "scheduled", "deferred", "canceled")
    for place in places:
        assert after[OTHER_KEYS[place]] == before[KEYS[place]] and KEYS[place] not in after, place
    for id in moved:
        assert fields(any_client, id, "origin") == ["other"]
        any_client.hset(build_job_key(id), "origin", "default")
    lists = {
        KEYS["queued"],
        OTHER_KEYS["queued"],
        "rq:queues",
        *(keys[place] for keys in (KEYS, OTHER_KEYS) for place in places),
    }
    rest = [
        {key: value for key, value in dump.items() if key not in lists} for dump in (before, keyspace.dump(any_client))
    ]
    assert not keyspace.diff(*rest)


def test_a_parent_that_ends_during_a_move_reads_the_queue_of_its_dependents_again(client: Redis) -> None:
    plant_job_in_every_movable_place(client)
    engine = open_engine(client)
    for parent in "ab":
        with client.pipeline() as pipe:
            pipe.watch(build_job_key(parent, ":dependents"))
            to_queue, queue = ("other", QUEUE) if parent == "a" else ("default", OTHER)
            assert move(engine, "child", to_queue=to_queue, queue=queue) == ["moved"]
            pipe.multi()
            pipe.get("any")
            with pytest.raises(WatchError):
                pipe.execute()
    assert client.smembers("rq:job:a:dependents") == {b"child"} == client.smembers("rq:job:b:dependents")
    assert client.ttl("rq:job:a:dependents") > 0 and client.ttl("rq:job:b:dependents") == -1
    client.delete("rq:job:a:dependents")  # RQ does so when it enqueues the last one of them
    assert move(engine, "child") == ["moved"] and not client.exists("rq:job:a:dependents")


def edit_hash(**changes: object) -> Callable[[Redis], object]:
    """Return a function that changes fields of the hash of the RQ job `a`."""
    return lambda client: client.hset(build_job_key("a"), mapping=changes)  # type: ignore[arg-type]


def add_to_place(key: str) -> Callable[[Redis], object]:
    """Return a function that adds the id of the RQ job `a` to a list or a sorted set."""
    is_list = key.startswith("rq:queue:")
    return lambda client: client.rpush(key, "x", "a") if is_list else client.zadd(key, {"a": 1})


def run_canceled_job(client: Redis) -> None:
    edit_hash(status="canceled")(client)
    add_to_place(KEYS["canceled"])(client)
    plant_started(client, "a", NOW_S + 60)


def run_failed_job(client: Redis) -> None:
    edit_hash(status="started")(client)
    add_to_place(KEYS["failed"])(client)


def lock_due_job(client: Redis) -> None:
    add_to_place(KEYS["scheduled"])(client)
    client.set(KEYS["lock"], "scheduler")


MOVE_TARGETS = ("scheduled", "deferred", "ready_to_enqueue", "queued", "intermediate", "finished", "failed", "canceled")
IMMOVABLE: Mapping[str, tuple[str, Callable[[Redis], object]]] = {
    "a rate limit": ("limited", edit_hash(rate_limit_key="api")),
    "the name of a third queue": ("stray", edit_hash(origin="mail")),
    "no name of a queue": ("stray", edit_hash(origin="")),
    "no hash": ("ghost", lambda client: client.delete(build_job_key("a"))),
    "a worker that has just taken it": ("taken", lambda client: client.lrem(KEYS["queued"], 1, "a")),
    "a worker that runs it": ("wrong_place", edit_hash(status="started")),
    "a result": ("wrong_place", add_to_place(KEYS["finished"])),
    "parents that have just ended": ("wrong_place", add_to_place(KEYS["ready_to_enqueue"])),
    "a run that was canceled": ("reserved", run_canceled_job),
    "a run after its failure": ("reserved", run_failed_job),
    "a due time and a scheduler": ("due", lock_due_job),
    **{f"a namesake in {place} of the other": ("exists", add_to_place(OTHER_KEYS[place])) for place in MOVE_TARGETS},
}


@run_in_one_test("name", IMMOVABLE)
def test_a_job_stays_in_its_queue_with(name: str, any_client: Redis) -> None:
    word, prepare = IMMOVABLE[name]
    waiting(any_client, "a", "b")
    prepare(any_client)
    before = keyspace.dump(any_client)
    call = SCRIPTS["move"].build_call(KEYS, {"prefix": "rq", "to_queue": "other"}, [("a", "")])
    assert [row.word for row in scripts.run_call(any_client, call).each] == [word]
    assert not keyspace.diff(before, keyspace.dump(any_client))
    both = SCRIPTS["move"].build_call(KEYS, {"prefix": "rq", "to_queue": "other"}, [("a", ""), ("b", ""), ("b", "")])
    assert [row.word for row in scripts.run_call(any_client, both).each] == [word, "moved", "gone"]


def test_a_scheduled_job_moves_until_it_is_due(any_client: Redis) -> None:
    waiting(any_client, "a")
    lock_due_job(any_client)
    any_client.zadd(KEYS["scheduled"], {"a": NOW_S})
    for now_ms, word in ((NOW, "due"), (NOW - 1, "moved")):
        call = SCRIPTS["move"].build_call(KEYS, {"prefix": "rq", "now_ms": now_ms, "to_queue": "other"}, [("a", "")])
        assert [row.word for row in scripts.run_call(any_client, call).each] == [word]


def test_a_job_in_the_middle_of_a_long_list_is_left_for_a_smaller_batch(any_client: Redis) -> None:
    plant_job(any_client, "a", "queued")
    any_client.rpush(KEYS["queued"], *(f"other-{number}" for number in range(5000)))
    call = SCRIPTS["move"].build_call(KEYS, {"prefix": "rq", "to_queue": "other"}, [("a", "")] * 41)
    assert {row.word for row in scripts.run_call(any_client, call).each} == {"taken"}, "the whole list was searched"
    any_client.linsert(KEYS["queued"], "AFTER", "other-2499", "a")
    assert {row.word for row in scripts.run_call(any_client, call).each} == {"later"}
    call = SCRIPTS["move"].build_call(KEYS, {"prefix": "rq", "to_queue": "other"}, [("a", "")])
    assert [row.word for row in scripts.run_call(any_client, call).each] == ["moved"]


def test_jobs_move_only_between_two_queues_of_one_prefix(any_client: Redis) -> None:
    waiting(any_client, "a")
    engine, before = open_engine(any_client), keyspace.dump(any_client)
    with pytest.raises(UsageError, match="the jobs are in default already; name another queue"):
        move(engine, "a", to_queue="default")
    with pytest.raises(UsageError, match="move needs the name of another queue of rq"):
        move(engine, "a", to_queue="rq:")
    for to_queue, key in (
        ("", "rq:queue:"),
        ("mail", "rq:queue:other"),
        ("other", "shop:queue:other"),
        ("default", KEYS["queued"]),
    ):
        call = SCRIPTS["move"].build_call(
            {**KEYS, "to_queued": key}, {"prefix": "rq", "to_queue": to_queue}, [("a", "")]
        )
        with pytest.raises(Exception, match="to_queue is the name of another queue; nothing was changed"):
            scripts.run_call(any_client, call)
    assert not keyspace.diff(before, keyspace.dump(any_client))
    assert move(engine, "a", to_queue="rq:other") == ["moved"] and fields(any_client, "a", "origin") == ["other"]


def test_no_job_moves_to_a_queue_with_a_key_of_another_program(any_client: Redis) -> None:
    waiting(any_client, "a")
    engine = open_engine(any_client)
    for place in MOVE_TARGETS:
        any_client.set(OTHER_KEYS[place], "another program's")
        before = keyspace.dump(any_client)
        assert move(engine, "a") == ["error"], place
        assert not keyspace.diff(before, keyspace.dump(any_client))
        any_client.delete(OTHER_KEYS[place])
    for place in ("scheduled", "deferred", "failed", "canceled"):
        any_client.set(KEYS[place], "another program's")
    assert move(engine, "a") == ["moved"] and any_client.lrange(OTHER_KEYS["queued"], 0, -1) == [b"a"]


def test_a_move_is_undone_to_the_exact_position(client: Redis, tmp_path: Path) -> None:
    engine = open_engine(client)
    engine.change_recorder = keeper = UndoRecorder(tmp_path)
    plant_job_in_every_movable_place(client)
    client.expire(build_job_key("d"), 500)
    before = keyspace.dump(client)
    for ids in (("b",), ("e", "a", "d"), ("later", "c", "child", "failed"), ("stopped", "canceled", "a", "b", "c")):
        assert move(engine, *ids) == ["moved"] * len(ids)
        assert sorted(undo_move(engine, keeper, tmp_path)) == ["moved"] * len(ids)
        assert 400 < client.ttl(build_job_key("d")) <= 500
        client.srem("rq:queues", OTHER_KEYS["queued"])  # the other queue stays known
        assert not (found := keyspace.diff(before, keyspace.dump(client))), (ids, found)
    assert describe_undo(engine.systems["rq"], "move") == "z undoes it"


def test_an_undo_leaves_a_moved_job_that_was_taken_or_changed_meanwhile(client: Redis, tmp_path: Path) -> None:
    engine = open_engine(client)
    engine.change_recorder = keeper = UndoRecorder(tmp_path)
    waiting(client, "a", "b", "c", "d")
    assert move(engine, "a", "b", "c", "d") == ["moved"] * 4
    client.lmove(OTHER_KEYS["queued"], OTHER_KEYS["intermediate"])
    client.lrem(OTHER_KEYS["queued"], 1, "b")
    plant_job(client, "b", "started", origin="other")
    client.hset(build_job_key("c"), "retries_left", 1)
    words = undo_move(engine, keeper, tmp_path)
    assert words == ["taken", "wrong_place", "changed", "moved"]
    assert list_queued(client) == ["d"] and client.lrange(OTHER_KEYS["queued"], 0, -1) == [b"c"]
    assert [fields(client, id, "origin") for id in "abcd"] == [["other"]] * 3 + [["default"]]


# --- the suite catches what it is there to catch ----------------------------------------------------------------------

PUT = "queue_up(job[1], job[2], job[3])"
LEAVE = "for place in pairs(leaves) do redis.call('ZREM', registries[place], job[1]) end"
PLANTED = (
    Planted("forgets to take it out of the list", "kill", "remove_at(queued, length, spots, 0) --", "--", 2),
    Planted("only sets the status", "kill", "redis.call('ZADD', canceled", "redis.call('ZCOUNT', canceled, 0", 2),
    Planted("leaves it in its registry", "requeue", LEAVE, "", 2),
    Planted("takes before it puts", "promote", f"  {PUT}\n  {LEAVE}", f"  {LEAVE}\n  {PUT}", 2),
    Planted("touches a key it does not declare", "bump", "local replies, ids", "redis.call('SET', 'stray', 1)\n%s", 3),
    Planted("has no guard", "requeue", "redis.call('LLEN', queued)", "", 8),
    Planted("moves what is not due", "dispatch", "string.format('%.3f', now_ms / 1000)", "'+inf'", 11),
    Planted("takes back at once what is between", "reap", "now_s - since <= 60", "false", 11),
    Planted("drains without freeing first", "requeue", "'ZREM', failed, ''", "'ZSCORE', failed, ''", 13),
    Planted("leaves it in the old queue", "move", "remove_at(queued, length, spots, 0)", "", 2),
    Planted("changes a body", "revert", "'HSET', key, name,", "'HSET', key, 'data',", 5),
)  # fmt: skip


@run_in_one_test("fault", PLANTED, ids=str)
def test_the_suite_catches_a_script_that(fault: Planted, client: Redis) -> None:
    assert fault.is_caught(RQ, client)


def test_an_undo_reaches_no_queue_of_another_prefix(client: Redis, url: str) -> None:
    client.sadd("shop:queues", "shop:queue:mail")
    options = ("--system", "rq:prefix=shop")
    assert shell(url, "act", "pause", "rq:mail", "--yes", *options).code == 0
    before = keyspace.dump(client)
    refused = shell(url, "undo")
    assert refused.code == 2 and "under other options: say --system rq:prefix=shop." in refused.err
    assert keyspace.dump(client) == before and client.exists("shop:suspended")
    assert shell(url, "undo", *options).code == 0 and not client.exists("shop:suspended")


def test_a_verb_names_the_key_of_another_type_where_only_that_place_can_hold_the_job(client: Redis, url: str) -> None:
    for id, key, verbs in (("f", KEYS["failed"], ("delete", "requeue")), ("q", KEYS["queued"], ("delete", "kill"))):
        client.flushall()
        waiting(client, "q")
        plant_failed_job(client, "f")
        plant_job(client, "canceled", "canceled")
        client.zadd(KEYS["canceled"], {"canceled": NOW_S})
        client.delete(key)
        client.set(key, "of another program")
        before = keyspace.dump(client)
        for verb in verbs:
            ran = shell(url, "act", verb, "rq:default", id, "--yes")
            assert ran.code != 0 and key in ran.err and "string" in ran.err, (verb, id, ran)
            assert keyspace.dump(client) == before
        assert shell(url, "act", "delete", "rq:default", "canceled", "--yes").code == 0, "its own place is sound"
        assert not client.exists(KEYS["canceled"])


# --- limits of the scripts ----------------------------------------------------------------------------------------


def run_on(client: Redis, name: str, *rows: object, **args: object) -> list[str]:
    reply = scripts.run_call(client, SCRIPTS[name].build_call(KEYS, {"prefix": "rq", **args}, [(row,) for row in rows]))
    return [row.word for row in reply.each]


def test_a_job_that_a_thousand_others_name_is_looked_at_and_one_with_more_is_not(client: Redis) -> None:
    for others, word in ((1001, "dependents"), (1000, "moved")):
        plant_failed_job(client, "a")
        client.delete("rq:job:a:dependents")
        client.sadd("rq:job:a:dependents", *range(others))  # none of them exists
        assert run_on(client, "delete", "a") == [word]
    client.set(KEYS["failed"], "of another program")
    with pytest.raises(RqtuiError, match="not a zset"):
        run_on(client, "delete", "a", place="failed")


def test_each_end_of_a_list_is_searched_as_deep_as_the_batch_allows(client: Redis) -> None:
    plant_job(client, "a", "queued")
    others = [*range(10_001)]
    for jobs, before, after, word in (
        (40, 5000, 0, "moved"), (40, 4999, 5001, "moved"), (40, 5000, 5000, "later"), (40, 5001, 4999, "moved"),
        (41, 2500, 0, "moved"), (41, 2499, 2501, "moved"), (41, 2500, 2500, "later"), (41, 2501, 2499, "moved"),
    ):  # fmt: skip
        client.delete(KEYS["queued"])
        client.rpush(KEYS["queued"], *others[:before], "a", *others[:after])
        assert run_on(client, "bump", *["a"] * jobs) == [word] * jobs, (jobs, before, after)
        assert (client.lindex(KEYS["queued"], 0) == b"a") == (word == "moved")
    client.delete(KEYS["queued"])
    client.rpush(KEYS["queued"], *others[:5000])
    assert run_on(client, "bump", *["a"] * 41) == ["taken"] * 41, "the whole list was searched"


def test_a_reaper_looks_at_a_thousand_jobs_between_queue_and_start(client: Redis) -> None:
    plant_job(client, "a", "queued")
    client.rpush(KEYS["intermediate"], *["a"] * 999, "gone", "gone too")
    assert reap(client, limit=1000).values["moved"] == 1
    client.delete(KEYS["intermediate"])
    client.rpush(KEYS["intermediate"], "a")
    for seen_s, word, next_ms in ((NOW_S - 59, "empty", 1000), (NOW_S - 60, "empty", 1), (NOW_S - 60.5, "moved", -1)):
        client.set(KEYS["intermediate"] + ":first_seen:a", str(seen_s))
        reply = reap(client)
        assert (reply.word, reply.values["next_ms"]) == (word, next_ms)
    plant_job(client, "late", "started", retries_left="0")
    client.zadd(KEYS["started"], {"late:e1": NOW_S - 1})
    for number in range(1, 11):
        client.xadd("rq:results:late", {"type": 1}, id=f"{number}-0")
    reap(client)
    assert [id for id, _fields in client.xrange("rq:results:late")][0] == b"2-0" and client.xlen(
        "rq:results:late"
    ) == 10
