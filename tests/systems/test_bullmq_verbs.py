"""BullMQ's verbs: the conformance suite, what must never be done, both versions, flows, schedulers, new jobs, undo.

What stock workers do with the results is tried in `tests/beside/`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from bullmq_subject import (
    BULLMQ,
    FIELDS_THEN,
    HOUR,
    KEYS,
    LOCK,
    NOW,
    PREFIX,
    REST,
    SCRIPTS,
    build_job_key,
    pack_strings,
    plant_child,
    plant_id,
    plant_job,
    plant_parent,
    plant_queue,
    plant_scheduler,
    read_changing_fields,
)
from families import run_in_one_test
from redis import Redis
from shell import shell
from slow_cases import mark_slow_cases

from rqtui.connection.connect import connect
from rqtui.engine.engine import Engine, build_engine
from rqtui.engine.loops import build_round
from rqtui.errors import UsageError
from rqtui.model import Outcome, Ref
from rqtui.operations.revert import revert_record
from rqtui.operations.undo import UndoRecorder, describe_undo
from rqtui.reports import acl
from rqtui.scripts import script as scripts
from rqtui.systems import registry
from rqtui.testing import conformance, keyspace
from rqtui.testing.conformance import Planted

MAIL = Ref("bullmq", "mail")


@pytest.mark.parametrize("script", mark_slow_cases(BULLMQ.scripts, ("delete", "kill", "reprioritise", "revert")))
def test_bullmq(script: str, any_client: Redis) -> None:
    conformance.run_all(conformance.cases(BULLMQ, [script]), BULLMQ, any_client)


@pytest.mark.matrix
@pytest.mark.parametrize("script", [name for name in BULLMQ.scripts if conformance.cases(BULLMQ, [name], alike=True)])
def test_bullmq_in_the_places_that_are_alike(script: str, any_client: Redis) -> None:
    conformance.run_all(conformance.cases(BULLMQ, [script], alike=True), BULLMQ, any_client)


def open_engine(client: Redis) -> Engine:
    return build_engine(client, [registry.create_system("bullmq")])


def act(engine: Engine, verb: str, *ids: str, of: Ref = MAIL, **form: object) -> list[str]:
    """Run a verb on jobs as they are now, and return the words of the outcomes."""
    system = engine.systems["bullmq"]
    jobs = [job for job in engine.send_requests([system.job_request(of.queue, id.encode(), 0) for id in ids]) if job]
    assert len(jobs) == len(ids), "a job is not there"
    return [outcome.word for outcome in engine.apply_verb(verb, of, jobs, form)]


def apply_to_queue(engine: Engine, verb: str, **form: object) -> str:
    """Run a verb on the queue and return the word of the outcome."""
    [outcome] = engine.apply_verb(verb, MAIL, (), form)
    return outcome.word


def put(engine: Engine, body: bytes = b"{}", **row: object) -> Outcome:
    [outcome] = engine.send_request(engine.systems["bullmq"].put_request("mail", [{"body": body, **row}]))
    return outcome


def fields(client: Redis, id: str, *names: str) -> list[str | None]:
    return [None if value is None else value.decode() for value in client.hmget(build_job_key(id), names)]


def list_ids(client: Redis, place: str) -> list[str]:
    """Return the ids of a place, the next one first."""
    return [id.decode() for id in client.lrange(KEYS[place], 0, -1)[::-1]]


def list_events(client: Redis, key: str = KEYS["events"]) -> list[str]:
    """Return the events of the stream: what happened, the job, its previous place."""
    names = (b"event", b"jobId", b"prev")
    return [" ".join(e[n].decode() for n in names if n in e) for _id, e in client.xrange(key)]


def marks(client: Redis) -> dict[bytes, float]:
    return dict(client.zrange(KEYS["marker"], 0, -1, withscores=True))


WOKEN = {b"0": 0.0}


# --- new jobs ---------------------------------------------------------------------------------------------------------


def test_a_new_job_is_written_as_bullmq_writes_it_and_keeps_the_bytes_of_its_data(any_client: Redis) -> None:
    plant_queue(any_client)
    any_client.set(KEYS["id"], 6)
    plant_job(any_client, "7", "")  # another client used this id
    engine, data = open_engine(any_client), b'{"to":   "a@b.c", "n": 1.0}'
    assert (put(engine, data).id, marks(any_client)) == (b"8", WOKEN)
    hash = any_client.hgetall(build_job_key("8"))
    at = hash.pop(b"timestamp")
    assert hash == {b"name": b"__default__", b"data": data, b"opts": b"{}", b"delay": b"0", b"priority": b"0"}
    assert abs(int(at) - any_client.time()[0] * 1000) < 60_000 and list_events(any_client) == ["added 8", "waiting 8"]
    opts = '{"backoff": {"type": "fixed", "delay": 5}, "jobId": "mine", "keepLogs": 3, "lifo": true}'
    assert put(engine, name="send", opts=opts, max_attempts=3, keep_ms=1500).id == b"mine"
    assert json.loads(any_client.hget(build_job_key("mine"), "opts") or b"") == {
        "attempts": 3, "removeOnComplete": {"age": 2}, "lifo": True, "backoff": {"type": "fixed", "delay": 5}, "kl": 3,
    }  # fmt: skip
    assert list_ids(any_client, "wait") == ["mine", "8"]
    assert put(engine, id=b"mine").word == "exists"
    for priority in (2, 1, 2):
        put(engine, priority=priority)
    scores = any_client.zrange(KEYS["prioritized"], 0, -1, withscores=True)
    assert [int(score) for _id, score in scores] == [2**32 + 2, 2 * 2**32 + 1, 2 * 2**32 + 3]
    any_client.delete(KEYS["marker"])
    later = [put(engine, due_ms=NOW + 10 * HOUR * 24 * 365 * n, priority=4).id for n in (2, 1, 1)]
    due = [int(score) for _id, score in any_client.zrange(KEYS["delayed"], 0, -1, withscores=True)]
    assert due[1] == due[0] + 1 and due[0] % 4096 == 0 and marks(any_client) == {b"1": due[0] // 4096}
    assert (
        fields(any_client, later[0].decode(), "priority") == ["4"]
        and int(fields(any_client, later[0].decode(), "delay")[0] or 0) > HOUR
    )
    assert [one.split()[0] for one in list_events(any_client)[-2:]] == ["added", "delayed"]


REFUSED: Mapping[str, tuple[dict[str, object], str]] = {
    "a text without quotes": ({"body": b"hello"}, "data of a job must be JSON"),
    "no bytes": ({"body": b""}, "data of a job must be JSON"),
    "no number of JSON": ({"body": b"NaN"}, "data of a job must be JSON"),
    "bytes that are no text": ({"body": b'"\xff"'}, "data of a job must be JSON"),
    "a tower": ({"body": b"[" * 100_000}, "data of a job must be JSON"),
    "a lease": ({"ttr_ms": 5}, "bullmq keeps no ttr;"),
    "opts that are a list": ({"opts": "[1]"}, 'opts are a JSON object, such as {"attempts": 3}'),
    "opts that are none": ({"opts": "{"}, "opts are a JSON object"),
    "a scheduler": ({"opts": '{"repeat": {}}'}, "only the application itself adds a job with the option repeat"),
    "a parent": ({"opts": '{"parent": {}}'}, "only the application itself adds a job with the option parent"),
    "deduplication": ({"opts": '{"deduplication": {"id": 1}}'}, "with the option deduplication"),
    "half a priority": ({"opts": '{"priority": 1.5}'}, "priority in opts is a whole number, not 1.5"),
    "a delay before now": ({"opts": '{"delay": -5}'}, "delay in opts is a whole number, not -5"),
    "a priority said twice": ({"opts": '{"priority": 1}', "priority": 2}, "priority is given twice"),
    "an id that is a number": ({"id": b"42"}, "is no number"),
    "an id with a colon": ({"id": b"a:b"}, 'without ":"'),
    "the name of a key": ({"id": b"delayed"}, "no name of a key of BullMQ"),
    "too low a priority": ({"priority": 2_097_152}, "a priority is 0 to 2097151"),
    "no attempt": ({"max_attempts": 0}, "max_attempts is 1 or more"),
}  # fmt: skip


@run_in_one_test("name", REFUSED)
def test_a_job_that_no_worker_can_run_is_refused_in_a_sentence(name: str, any_client: Redis) -> None:
    row, sentence = REFUSED[name]
    try:
        outcome = put(open_engine(any_client), **{"body": b"{}", **row})  # type: ignore[arg-type]
    except UsageError as error:
        actual = str(error)
    else:
        assert outcome.word == "error"
        actual = outcome.text
    assert sentence in actual and not any_client.dbsize()


def test_jobs_are_put_from_a_shell_and_what_is_never_done_is_reported_there(url: str, client: Redis) -> None:
    plant_queue(client)
    done = shell(url, "put", "bullmq:mail", '{"to":  1}', "--name", "send", "--opts", '{"attempts": 2}')
    assert (done.code, done.out) == (0, "1  enqueued\n") and client.hget(build_job_key("1"), "data") == b'{"to":  1}'
    refused = shell(url, "put", "bullmq:mail", '"hello"')
    assert refused.code == 2 and "Put a text in quotes" in refused.err
    assert shell(url, "put", "bullmq:mail", '"hello"', "--raw").code == 0
    never = shell(url, "act", "ack", "bullmq:mail", "1")
    assert never.code == 2 and "only the worker that holds its lock can end a job" in never.err
    assert "a job of other has no opts" in shell(url, "put", "native:other", "{}", "--opts", "{}").err


# --- both versions ----------------------------------------------------------------------------------------------------


def test_a_queue_that_no_program_of_bullmq_knows_yet_is_found_once_a_job_was_put(any_client: Redis) -> None:
    engine = open_engine(any_client)
    assert put(engine).word == "moved" and any_client.hgetall(KEYS["meta"]) == {b"opts.maxLenEvents": b"10000"}
    assert open_engine(any_client).refs == [MAIL]
    any_client.hset(KEYS["meta"], "opts.maxLenEvents", 5)
    assert put(engine).word == "moved" and any_client.hget(KEYS["meta"], "opts.maxLenEvents") == b"5"


def test_a_job_enters_the_place_in_which_the_queues_version_searches(any_client: Redis) -> None:
    engine = open_engine(any_client)
    for version, is_paused, aside, running, place, is_woken in (
        ("bullmq:6.7.0", False, 0, 0, "wait", True),
        ("bullmq:6.7.0", True, 0, 0, "wait", False),
        ("bullmq:6.7.0", True, 1, 0, "paused", False),  # BullMQ 5 put it there, and would take `wait` away
        ("bullmq:6.7.0", False, 1, 0, "wait", True),
        ("bullmq:6.7.0", False, 0, 2, "wait", False),
        ("bullmq:5.81.5", False, 0, 1, "wait", True),
        ("bullmq:5.81.5", True, 0, 0, "paused", False),
        ("", True, 0, 0, "paused", False),
        ("bullmq-pro:7.1.0", True, 0, 0, "paused", False),
    ):
        for verb in ("put", "requeue", "promote", "reprioritise", "release"):
            any_client.flushall()
            plant_queue(any_client, version or "x", concurrency=2, **({"paused": 1} if is_paused else {}))
            if not version:
                any_client.hdel(KEYS["meta"], "version")
            for n in range(aside):
                plant_job(any_client, f"aside-{n}", "paused")
            for n in range(running):
                plant_job(any_client, f"running-{n}", "active", **{})
                any_client.set(build_job_key(f"running-{n}", ":lock"), LOCK)
            source = {"requeue": "failed", "promote": "delayed", "reprioritise": "prioritized", "release": "active"}
            if verb == "put":
                put(engine, id=b"a")
            else:
                plant_job(any_client, "a", source[verb], priority=0)
                assert act(engine, verb, "a", **({"priority": 0} if verb == "reprioritise" else {})) == ["moved"]
            case = (verb, version, is_paused, aside, running)
            assert "a" in list_ids(any_client, place), case
            assert (marks(any_client) == WOKEN) == is_woken, case


def test_pause_and_resume_merge_and_lose_nothing(any_client: Redis) -> None:
    engine = open_engine(any_client)
    for version, inside in (("5.81.5", "paused"), ("6.7.0", "wait")):
        for aside, waiting in ((0, 3), (2, 3), (3, 2), (6001, 3), (3, 6001), (0, 0)):
            any_client.flushall()
            plant_queue(any_client, f"bullmq:{version}")
            any_client.zadd(KEYS["marker"], {"0": 0})
            for place, number in (("paused", aside), ("wait", waiting)):
                if number:
                    any_client.lpush(KEYS[place], *(f"{place}-{n}" for n in range(number)))
            every = [f"{place}-{n}" for place, number in (("paused", aside), ("wait", waiting)) for n in range(number)]
            assert [apply_to_queue(engine, "pause"), apply_to_queue(engine, "pause")] == ["paused", "already"]
            assert any_client.hget(KEYS["meta"], "paused") == b"1" and not marks(any_client)
            assert list_ids(any_client, inside) == (every if inside == "paused" else [i for i in every if i[0] == "w"])
            if inside == "paused":  # BullMQ 6, which knows only `wait`, put one there meanwhile
                any_client.lpush(KEYS["wait"], "mixed")
                every.append("mixed")
            assert [apply_to_queue(engine, "resume"), apply_to_queue(engine, "resume")] == ["resumed", "already"]
            assert list_ids(any_client, "wait") == every and not any_client.exists(KEYS["paused"])
            assert marks(any_client) == (WOKEN if every else {}) and list_events(any_client) == ["paused", "resumed"]
    plant_job(any_client, "left", "paused")  # by an upgrade: the queue is not paused
    assert apply_to_queue(engine, "resume") == "resumed" and list_ids(any_client, "wait")[0] == "left"
    assert shell_words(any_client, "later") == {b"1": (NOW + HOUR) * 1.0}


def shell_words(client: Redis, id: str) -> dict[bytes, float]:
    """Return the fields that workers wait for after a resume of a queue with only a delayed job."""
    client.flushall()
    plant_queue(client, paused=1)
    plant_job(client, id, "delayed")
    assert apply_to_queue(open_engine(client), "resume") == "resumed"
    return marks(client)


def test_limits_are_those_of_the_queue_and_free_workers_at_once(any_client: Redis) -> None:
    engine = open_engine(any_client)
    plant_queue(any_client, concurrency=1)
    plant_job(any_client, "a", "wait")
    plant_job(any_client, "b", "active")
    assert apply_to_queue(engine, "limit", concurrency=1) == "limited" and not marks(any_client)
    assert (
        apply_to_queue(engine, "limit", concurrency=2, max=10, duration_ms=1000) == "limited"
        and marks(any_client) == WOKEN
    )
    values = any_client.hmget(KEYS["meta"], "concurrency", "max", "duration")
    assert values == [b"2", b"10", b"1000"]
    assert apply_to_queue(engine, "limit", max=0) == apply_to_queue(engine, "limit", concurrency=0) == "limited"
    assert any_client.hkeys(KEYS["meta"]) == [b"opts.maxLenEvents", b"version"]
    for form in ({}, {"max": 5}, {"duration_ms": 5}, {"max": 5, "duration_ms": 0}):
        assert apply_to_queue(engine, "limit", **form) == "error"


# --- flows, deduplication, schedulers ---------------------------------------------------------------------------------


def test_parents_are_reported_and_children_are_never_left_alone(any_client: Redis) -> None:
    engine = open_engine(any_client)
    up = "bull:up:"
    plant_queue(any_client)
    any_client.hset(f"{up}meta", mapping={"version": "bullmq:5.81.5", "paused": 1})
    any_client.hset(f"{up}parent", mapping={"name": "up", "data": "{}"})
    any_client.zadd(f"{up}waiting-children", {"parent": NOW})
    for id, place in (("one", "wait"), ("two", "delayed")):
        link = json.dumps({"id": "parent", "queueKey": up[:-1]})
        plant_job(any_client, id, place, parentKey=f"{up}parent", parent=link)
        any_client.sadd(f"{up}parent:dependencies", build_job_key(id))
    before = keyspace.dump(any_client)
    assert act(engine, "kill", "one", "two") == ["child"] * 2
    assert act(engine, "delete", "parent", of=Ref("bullmq", "up")) == ["children"]
    assert engine.apply_verb("purge", MAIL, (), {"place": "wait", "limit": 10})[0].values == {"kept": 1}
    assert not keyspace.diff(before, keyspace.dump(any_client))
    assert act(engine, "delete", "one") == ["moved"] and any_client.zcard(f"{up}waiting-children") == 1
    assert act(engine, "delete", "two") == ["moved"] and not any_client.exists(f"{up}waiting-children")
    assert any_client.lrange(f"{up}paused", 0, -1) == [b"parent"]  # that queue is BullMQ 5, and paused
    assert list_events(any_client, f"{up}events") == ["waiting parent waiting-children"]
    assert list_events(any_client)[-1] == "removed two delayed" and not any_client.keys(f"{PREFIX}two*")
    for place, key, add in (
        ("failed", ":unsuccessful", lambda key: any_client.zadd(key, {build_job_key("c"): NOW})),
        ("failed", ":failed", lambda key: any_client.hset(key, build_job_key("c"), "boom")),
        ("completed", ":processed", lambda key: any_client.hset(key, build_job_key("c"), "1")),
    ):
        any_client.flushall()
        plant_job(any_client, "c", place)
        plant_parent(any_client, "c")
        any_client.delete(build_job_key("parent", ":dependencies"))
        add(build_job_key("parent", key))
        assert act(engine, "requeue", "c") == ["moved"]
        assert any_client.smembers(build_job_key("parent", ":dependencies")) == {build_job_key("c").encode()}, key
        assert not any_client.exists(build_job_key("parent", key)) and list_events(any_client) == [f"waiting c {place}"]


def test_a_deduplication_key_goes_with_its_job_and_no_other_one(any_client: Redis) -> None:
    engine, key = open_engine(any_client), f"{PREFIX}de:once"
    for verb, holder, ttl_ms, is_kept in (
        ("delete", "a", None, False),
        ("delete", "a", 60_000, False),
        ("delete", "another", None, True),
        ("kill", "a", None, False),
        ("kill", "a", 60_000, True),  # it is for a time, and BullMQ lets it run out
        ("kill", "another", None, True),
    ):
        any_client.flushall()
        plant_job(any_client, "a", "wait", deid="once")
        any_client.set(key, holder, px=ttl_ms)
        any_client.hset(f"{PREFIX}dn:once", "name", "next")
        assert act(engine, verb, "a") == ["moved"]
        case = (verb, holder, ttl_ms)
        assert bool(any_client.exists(key)) == is_kept, case
        assert bool(any_client.exists(f"{PREFIX}dn:once")) == (is_kept or verb == "kill"), case


def test_a_scheduler_keeps_its_next_job_until_it_is_taken_off(any_client: Redis) -> None:
    engine = open_engine(any_client)
    plant_queue(any_client)
    next_id = plant_scheduler(any_client)
    plant_job(any_client, "repeat:tick:1", "completed", rjk="tick")
    assert act(engine, "delete", next_id) == act(engine, "kill", next_id) == ["scheduler"]
    [purged] = engine.apply_verb("purge", MAIL, (), {"place": "delayed", "limit": 10})
    assert (purged.word, purged.values) == ("kept", {"kept": 1})
    assert act(engine, "delete", "repeat:tick:1") == ["moved"]
    assert apply_to_queue(engine, "unschedule", scheduler="tick") == "moved"
    assert apply_to_queue(engine, "unschedule", scheduler="tick") == "gone"
    assert sorted(any_client.keys()) == [b"bull:mail:events", b"bull:mail:meta"]
    assert list_events(any_client)[-1] == f"removed {next_id} delayed"


# --- what dead workers held -------------------------------------------------------------------------------------------


def test_only_what_has_no_lock_is_given_back(any_client: Redis) -> None:
    engine = open_engine(any_client)
    plant_queue(any_client, concurrency=4)
    for id in ("old", "held", "twice", "tick", "young"):
        stalls = {"twice": {"stc": 1}, "tick": {"stc": 1, "rjk": "tick"}}.get(id, {})
        plant_job(any_client, id, "active", **stalls)
    plant_id(any_client, "active", "ghost")
    any_client.zadd(KEYS["repeat"], {"tick": NOW})
    any_client.set(build_job_key("held", ":lock"), LOCK, px=30_000)
    any_client.sadd(KEYS["stalled"], "old", "held")
    before = keyspace.dump(any_client)
    assert act(engine, "release", "held") == act(engine, "delete", "held") == ["reserved"]
    for verb in ("kill", "requeue", "promote", "bump"):
        assert act(engine, verb, "held") == ["wrong_place"]
    assert not keyspace.diff(before, keyspace.dump(any_client))
    moved = build_round("reap", any_client, engine.systems, lambda: [MAIL])()
    assert moved.moved == 5 and list_ids(any_client, "active") == ["held"]
    assert list_ids(any_client, "wait") == ["old", "twice", "tick", "young"] and marks(any_client) == WOKEN
    assert [fields(any_client, id, "stc", "defa") for id in ("old", "twice", "tick")] == [
        ["1", None], ["2", "job stalled more than allowable limit"], ["2", None],
    ]  # fmt: skip
    assert not any_client.exists(build_job_key("ghost")) and any_client.smembers(KEYS["stalled"]) == {b"held"}
    assert list_events(any_client)[:2] == ["waiting old active", "stalled old"]
    plant_job(any_client, "unlucky", "active", priority=3)
    assert act(engine, "release", "unlucky") == ["moved"] and fields(any_client, "unlucky", "stc") == [None]
    assert any_client.zscore(KEYS["prioritized"], "unlucky") == 3 * 2**32


def test_a_requeued_job_has_all_its_attempts_again_or_keeps_them(any_client: Redis) -> None:
    engine = open_engine(any_client)
    for keeps, left in ((False, [None] * 3), (True, ["2", "3", "1"])):
        any_client.flushall()
        plant_job(any_client, "a", "failed", atm=2, ats=3, stc=1, defa="late", priority=2)
        assert act(engine, "requeue", "a", keep_attempts=keeps) == ["moved"]
        assert fields(any_client, "a", "atm", "ats", "stc") == left
        assert fields(any_client, "a", "finishedOn", "processedOn", "failedReason", "defa") == [None] * 4
        assert fields(any_client, "a", "stacktrace") == ['["boom"]'] and any_client.zcard(KEYS["prioritized"]) == 1


# --- bulk, migration, rights ------------------------------------------------------------------------------------------


def test_a_group_of_errors_a_purge_and_a_migration_take_what_they_may(url: str, client: Redis) -> None:
    plant_queue(client)
    for n in range(30):
        plant_job(client, f"f{n}", "failed", failedReason="refused" if n % 3 else "timeout")
    for n in range(5):
        plant_job(client, f"w{n}", "wait", data=b'{"n":  %d}' % n)
    plant_job(client, "p", "prioritized")
    plant_job(client, "c", "wait")
    plant_parent(client, "c")
    scheduled = plant_scheduler(client)
    some = ("--place", "failed", "--filter", "err:timeout", "--yes")
    assert shell(url, "act", "requeue", "bullmq:mail", *some).code == 0
    assert client.zcard(KEYS["failed"]) == 20 and client.llen(KEYS["wait"]) == 16
    assert shell(url, "act", "delete", "bullmq:mail", "f0", "f3", "--yes").code == 0
    purged = shell(url, "act", "purge", "bullmq:mail", "--place", "failed", "--yes")
    assert purged.code == 0 and not client.exists(KEYS["failed"]) and not client.exists(build_job_key("f1"))
    assert shell(url, "undo").code == 0 and client.zcard(KEYS["failed"]) == 20
    result = shell(url, "act", "purge", "bullmq:mail", "--place", "delayed", "--yes")
    assert result.code == 1 and "all jobs are locked, or belong to a scheduler or a flow" in result.out + result.err
    moved = shell(url, "migrate", "bullmq:mail", "native:mail")
    assert "a native worker does not make them, it gives each body to its command, byte for byte" in moved.err
    assert "its parent waits for it" in moved.out and scheduled in moved.out
    assert client.llen(KEYS["wait"]) == 1 and client.zcard(KEYS["delayed"]) == 1
    assert client.zcard("rqtui:{mail}:ready") == 14 and b'{"n":  3}' in (client.hget("rqtui:{mail}:jobs", "w3") or b"")


def test_an_operator_with_the_least_rights_may_do_every_verb(url: str, client: Redis) -> None:
    system = registry.create_system("bullmq")
    rule = acl.format_acl_command("operator", acl.compute_rights("operator", [(system, "mail")]), user="operator")
    client.execute_command(*rule.replace(">PASSWORD", ">secret").split())
    plant_queue(client)
    plant_job(client, "w", "wait", deid="once")
    client.set(f"{PREFIX}de:once", "w")
    for id, place in (("f", "failed"), ("d", "delayed"), ("a", "active"), ("late", "active"), ("c", "wait")):
        plant_job(client, id, place)
    plant_parent(client, "c")
    plant_scheduler(client)
    with connect(url.replace("://", "://operator:secret@")) as own:
        engine = open_engine(own)
        for verb, id, form in (
            ("bump", "w", {}), ("reprioritise", "w", {"priority": 2}), ("kill", "w", {}), ("requeue", "f", {}),
            ("reschedule", "d", {"delay_ms": 5000}), ("promote", "d", {}), ("release", "a", {}), ("delete", "c", {}),
        ):  # fmt: skip
            assert act(engine, verb, id, **form) == ["moved"], verb
        assert put(engine, priority=1).word == "moved"
        assert [apply_to_queue(engine, verb) for verb in ("pause", "resume")] == ["paused", "resumed"]
        assert apply_to_queue(engine, "limit", concurrency=5) == "limited"
        assert apply_to_queue(engine, "unschedule", scheduler="tick") == "moved"
        assert apply_to_queue(engine, "purge", place="failed", limit=10) == "moved"
        assert build_round("reap", own, engine.systems, lambda: [MAIL])().moved == 1
    client.acl_deluser("operator")


# --- undo -------------------------------------------------------------------------------------------------------------


def undone(engine: Engine, keeper: UndoRecorder, folder: Path, verb: str, act: Callable[[], object]) -> list[str]:
    act()
    name = keeper.end_change(verb, "bullmq", "mail")
    assert name, verb
    return [one.word for step in revert_record(engine, folder / "undo", name) for one in step]


def state(client: Redis) -> keyspace.Keyspace:
    """Return all keys but those that change by themselves: events, counters, the marker."""
    beside = {KEYS[name] for name in ("events", "id", "pc", "marker")}
    return {key: entry for key, entry in keyspace.dump(client).items() if key not in beside}


def test_a_verb_is_undone_byte_for_byte(client: Redis, tmp_path: Path) -> None:
    engine = open_engine(client)
    engine.change_recorder = keeper = UndoRecorder(tmp_path)
    plant_queue(client)
    for id in ("a", "b", "c", "d"):
        plant_job(client, id, "wait", data=b'{"x":  "\xc3\xa9"}', deid=f"of-{id}", stacktrace="[]")
        client.set(f"{PREFIX}de:of-{id}", id)
        client.rpush(build_job_key(id, ":logs"), "one", "two")
    for id in ("p", "q"):
        plant_job(client, id, "prioritized")
    for n, id in enumerate(("f", "g")):
        plant_job(client, id, "failed", atm=3, ats=4, stc=1)
        plant_id(client, "failed", id, NOW - 5 + n)
        client.hset(build_job_key(id, ":processed"), "bull:other:1", '{"r": 1}')
        client.zadd(build_job_key(id, ":unsuccessful"), {"bull:other:2": 5})
    plant_job(client, "done", "completed")
    plant_job(client, "s", "delayed")
    plant_job(client, "left", "active")
    before = state(client)
    for verb, ids, form in (
        ("kill", ("b", "d", "p", "s"), {}),
        ("delete", ("a", "c", "f", "p", "s", "done", "left"), {}),
        ("requeue", ("f", "g", "done"), {}),
        ("requeue", ("g",), {"keep_attempts": True}),
        ("promote", ("s",), {}),
        ("bump", ("d", "b"), {}),
        ("bump", ("d", "c", "b", "a"), {}),
        ("reprioritise", ("a", "c", "q"), {"priority": 9}),
        ("reprioritise", ("b", "p", "s"), {"priority": 0}),
        ("reschedule", ("s",), {"delay_ms": 1000}),
    ):
        done = undone(engine, keeper, tmp_path, verb, lambda: act(engine, verb, *ids, **form))  # noqa: B023
        assert done == ["moved"] * len(ids), (verb, done)
        assert not (found := keyspace.diff(before, state(client))), (verb, found)
        assert describe_undo(engine.systems["bullmq"], verb) == "z undoes it"
    assert marks(client) == {**WOKEN, b"1": NOW + HOUR}
    purge = lambda: list(engine.yield_verb_steps("purge", MAIL, (), {"place": "failed", "limit": 10}))  # noqa: E731
    assert undone(engine, keeper, tmp_path, "purge", purge) == ["moved"] * 2
    pause = lambda: apply_to_queue(engine, "pause")  # noqa: E731
    assert undone(engine, keeper, tmp_path, "pause", pause) == ["resumed"] and not keyspace.diff(before, state(client))
    for verb in ("release", "limit", "unschedule", "enqueue"):
        assert describe_undo(engine.systems["bullmq"], verb).startswith("no undo: "), verb


def test_a_key_of_another_type_stops_no_verb_on_jobs_of_other_places(any_client: Redis, tmp_path: Path) -> None:
    engine = open_engine(any_client)
    engine.change_recorder = UndoRecorder(tmp_path)
    for broken in ("delayed", "waiting_children", "completed", "prioritized", "paused", "active", "marker", "pc"):
        any_client.flushdb()
        plant_queue(any_client)
        for id in ("a", "b", "c"):
            plant_job(any_client, id, "wait")
        plant_job(any_client, "f", "failed")
        any_client.delete(KEYS[broken])
        any_client.hset(KEYS[broken], "another", "program's")
        before = keyspace.dump(any_client)[KEYS[broken]]
        for verb, id in (("delete", "f"), ("delete", "a"), ("kill", "b"), ("bump", "c")):
            assert act(engine, verb, id) == ["moved"], (broken, verb)
        assert any_client.lrange(KEYS["wait"], 0, -1) == [b"c"], broken
        assert any_client.zrange(KEYS["failed"], 0, -1) == [b"b"], broken
        assert keyspace.dump(any_client)[KEYS[broken]] == before, broken


def test_jobs_with_a_long_id_an_odd_score_or_many_fields_are_undone_too(client: Redis, tmp_path: Path) -> None:
    engine = open_engine(client)
    engine.change_recorder = keeper = UndoRecorder(tmp_path)
    plant_queue(client)
    long, wide, below = "i" * 600, "wide", "below"
    plant_job(client, long, "wait")
    plant_job(client, wide, "failed", **{f"field{number}": number for number in range(4500)})
    plant_job(client, below, "failed")
    client.zadd(KEYS["failed"], {wide: "inf", below: -5})
    before = state(client)
    for verb, ids in (("kill", [long]), ("delete", [long, wide, below]), ("requeue", [wide, below])):
        done = undone(engine, keeper, tmp_path, verb, lambda: act(engine, verb, *ids))  # noqa: B023
        assert done == ["moved"] * len(ids), verb
        assert not (found := keyspace.diff(before, state(client))), (verb, found)


def test_where_the_world_went_on_an_undo_is_refused(client: Redis, tmp_path: Path) -> None:
    engine = open_engine(client)
    engine.change_recorder = keeper = UndoRecorder(tmp_path)

    def another_ran(id: str) -> None:
        client.hset(build_job_key(id), "ats", 9)

    def replace_once_key(id: str) -> None:
        client.set(f"{PREFIX}de:once", "another")

    def nothing(id: str) -> None:
        pass

    for verb, place, more, prepare, meanwhile, word in (
        ("requeue", "failed", {}, nothing, another_ran, "changed"),
        ("promote", "delayed", {}, nothing, lambda id: client.lrem(KEYS["wait"], 1, id), "gone"),
        ("kill", "wait", {"deid": "once"}, lambda id: client.set(f"{PREFIX}de:once", id), replace_once_key, "taken"),
        ("delete", "wait", {"deid": "once"}, lambda id: client.set(f"{PREFIX}de:once", id), replace_once_key, "taken"),
        ("delete", "wait", {}, nothing, lambda id: plant_job(client, id, "wait"), "exists"),
        ("delete", "wait", {}, lambda id: plant_parent(client, id), nothing, "flow"),
        ("delete", "waiting_children", {}, lambda id: plant_child(client, id), nothing, "flow"),
        ("requeue", "failed", {}, lambda id: plant_parent(client, id), nothing, "flow"),
    ):
        client.flushall()
        plant_queue(client)
        plant_job(client, "a", place, **more)
        prepare("a")
        assert act(engine, verb, "a", **({"force": True} if verb == "delete" else {})) == ["moved"]
        meanwhile("a")
        before = keyspace.dump(client)
        assert undone(engine, keeper, tmp_path, verb, lambda: None) == [word], (verb, word)
        assert not keyspace.diff(before, keyspace.dump(client)), (verb, word)


def test_bytes_that_are_no_record_are_refused(client: Redis) -> None:
    good = pack_strings(b"name", b"send"), REST
    for record, rest, errors in (
        (b"5:abc", good[1], b""),
        (pack_strings(b"odd"), good[1], b""),
        (good[0], pack_strings(b"1"), b""),
        (good[0], pack_strings(b"x", b"", b"", b"", b"", b""), b""),
        (*good, pack_strings(b"once")),
        (*good, pack_strings(b"once", b"later")),
    ):
        call = SCRIPTS["restore"].build_call(KEYS, {"p": PREFIX}, [("a", "failed", "1", record, rest, errors)])
        with pytest.raises(
            Exception, match=r"row 1: the (record|body|deduplication key) is not one; nothing was changed"
        ):
            scripts.run_call(client, call)
    plant_job(client, "a", "wait")
    values, before = read_changing_fields(client, "a"), keyspace.dump(client)
    for place, then in (("failed", b"nothing"), ("failed", pack_strings(b"1")), ("active", FIELDS_THEN)):
        call = SCRIPTS["revert"].build_call(KEYS, {"p": PREFIX}, [("a", "wait", values, place, "1", then, "")])
        with pytest.raises(Exception, match=r"row 1: .*; nothing was changed"):
            scripts.run_call(client, call)
    assert not keyspace.diff(before, keyspace.dump(client))


# --- the suite catches what it is there to catch ----------------------------------------------------------------------

PUT, LEAVE = "add_ready(queue, job[1], job[2], false)", "redis.call('ZREM', delayed, job[1])"
PLANTED = (
    Planted("leaves it in its list", "kill", "remove_at(lists[place], lengths[place], positions, 0)", "", 2),
    Planted("leaves it in its set", "promote", LEAVE, "", 2),
    Planted("takes before it puts", "promote", f"  {PUT}\n  {LEAVE}", f"  {LEAVE}\n  {PUT}", 2),
    Planted("touches a key it does not declare", "bump", "local replies, jobs", "redis.call('SET', 'stray', 1)\n%s", 3),
    Planted("takes what is locked", "reap", "left_ms == -2", "left_ms ~= -1", 11),
    Planted("drains without freeing first", "promote", "'ZREM', delayed, ''", "'ZSCORE', delayed, ''", 13),
    Planted("changes a body", "revert", "'HSET', key, name,", "'HSET', key, 'data',", 5),
)  # fmt: skip


@run_in_one_test("fault", PLANTED, ids=str)
def test_the_suite_catches_a_script_that(fault: Planted, client: Redis) -> None:
    assert fault.is_caught(BULLMQ, client)
