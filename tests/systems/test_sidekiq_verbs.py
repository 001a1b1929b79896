"""Sidekiq's verbs: the conformance suite, what must never be done, rescue, new jobs, undo.

What a stock process does with the results is tried in `tests/beside/`.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from proxy import Proxy
from redis import Redis
from shell import shell
from sidekiq_subject import SIDEKIQ, plant_process, plant_work

from rqtui.connection.connect import connect
from rqtui.engine.engine import Engine, build_engine
from rqtui.errors import UsageError
from rqtui.model import Job, Ref
from rqtui.operations.revert import revert_record
from rqtui.operations.undo import SavedChunk, UndoRecorder, describe_undo
from rqtui.systems import registry
from rqtui.testing import conformance, keyspace


@pytest.mark.parametrize("script", SIDEKIQ.scripts)
def test_sidekiq(script: str, any_client: Redis) -> None:
    conformance.run_all(conformance.cases(SIDEKIQ, [script]), SIDEKIQ, any_client)


@pytest.mark.matrix
@pytest.mark.parametrize("script", [name for name in SIDEKIQ.scripts if conformance.cases(SIDEKIQ, [name], alike=True)])
def test_sidekiq_in_the_places_that_are_alike(script: str, any_client: Redis) -> None:
    conformance.run_all(conformance.cases(SIDEKIQ, [script], alike=True), SIDEKIQ, any_client)


# --- the engine ----------------------------------------------------------------------------------------------------

DEFAULT = Ref("sidekiq", "default")
PLAIN = b'{"class": "HardJob" ,"args":[1.50, 12345678901234567890, {"b":[], "a":{}}],"retry":true,"queue":"default",'


def open_engine(client: Redis, spec: str = "sidekiq") -> Engine:
    return build_engine(client, [registry.create_system(spec)])


def job(jid: str, queue: str = "default", **more: object) -> bytes:
    """Build a job as Sidekiq 6.4 writes it, with spaces and numbers that only raw bytes keep."""
    rest = json.dumps({"jid": jid, "created_at": 1795000000.25, **more}, separators=(",", ":"))[1:]
    return PLAIN.replace(b'"default"', b'"%s"' % queue.encode()) + rest.encode()


def build_failed_job(jid: str, queue: str = "default", **more: object) -> bytes:
    fields = {"error_class": "RuntimeError", "error_message": "boom", "failed_at": 1795000001.5, "retry_count": 25}
    return job(jid, queue, **{**fields, **more})


def plant_all(client: Redis) -> float:
    """Plant jobs of two queues in every place, each place with one score; return the server's time in s."""
    now_s = float(client.time()[0])
    client.sadd("queues", "default", "mail")
    for queue in ("default", "mail"):
        for n in range(3):
            client.zadd("schedule", {job(f"s{n}{queue}", queue): now_s + 3600.5})
            client.zadd("retry", {build_failed_job(f"r{n}{queue}", queue, retry_count=n): now_s + 60.25})
            client.zadd("dead", {build_failed_job(f"d{n}{queue}", queue): now_s - 60.125})
            client.lpush(f"queue:{queue}", job(f"q{n}{queue}", queue, enqueued_at=1795000002.5))
    return now_s


def list_jobs(engine: Engine, place: str, *ids: str) -> list[Job]:
    found = [one for one in engine.fetch_page(DEFAULT, place, 0, 100, 4096).jobs if not ids or one.id.decode() in ids]
    assert not ids or len(found) == len(ids), (place, [one.id for one in found])
    return found


def act(engine: Engine, verb: str, place: str, *ids: str, **form: object) -> list[str]:
    return [outcome.word for outcome in engine.apply_verb(verb, DEFAULT, list_jobs(engine, place, *ids), form)]


CHANGES: tuple[tuple[str, str, dict[str, object]], ...] = (
    ("delete", "schedule", {}),
    ("delete", "queue", {}),
    ("delete", "dead", {}),
    ("kill", "schedule", {}),
    ("kill", "retry", {}),
    ("requeue", "dead", {}),
    ("promote", "schedule", {}),
    ("promote", "retry", {}),
    ("reschedule", "retry", {"delay_ms": 7_200_000}),
)


def undone(engine: Engine, keeper: UndoRecorder, folder: Path, verb: str) -> list[str]:
    name = keeper.end_change(verb, "sidekiq", "default")
    assert name, verb
    return [one.word for step in revert_record(engine, folder / "undo", name) for one in step]


def test_a_verb_is_undone_byte_for_byte(client: Redis, tmp_path: Path) -> None:
    engine = open_engine(client)
    engine.change_recorder = keeper = UndoRecorder(tmp_path)
    plant_all(client)
    before = keyspace.dump(client)
    for verb, place, form in CHANGES:
        changed = act(engine, verb, place, **form)
        assert set(changed) == {"moved"}, (verb, place)
        after = keyspace.dump(client)
        assert keyspace.diff(before, after) and after.get(b"queue:mail") == before.get(b"queue:mail")
        assert undone(engine, keeper, tmp_path, verb) == ["moved"] * len(changed), (verb, place)
        assert not (found := keyspace.diff(before, keyspace.dump(client))), (verb, place, found)
        assert describe_undo(engine.systems["sidekiq"], verb, place=place) == "z undoes it"
    for verb, ids in (("kill", ("q0default", "q2default")), ("bump", ("q2default",))):
        assert act(engine, verb, "queue", *ids) == ["moved"] * len(ids)
        assert undone(engine, keeper, tmp_path, verb) == ["moved"] * len(ids)
        assert not (found := keyspace.diff(before, keyspace.dump(client))), (verb, found)
    for place in ("queue", "dead"):
        assert sum(one.moved for one in engine.apply_verb("purge", DEFAULT, (), {"place": place, "limit": 1000})) == 3
        assert set(undone(engine, keeper, tmp_path, "purge")) == {"moved"}
        assert not (found := keyspace.diff(before, keyspace.dump(client))), (place, found)


@pytest.mark.parametrize(("verb", "form"), [("delete", {}), ("kill", {}), ("move", {"to_queue": "bulk"})])
@pytest.mark.parametrize("size", [1, 250])  # jobs of a call; a call takes at most 100
def test_many_calls_that_took_jobs_out_of_a_queue_are_undone_in_order(
    client: Redis, tmp_path: Path, verb: str, form: dict[str, str], size: int
) -> None:
    engine = open_engine(client)
    engine.change_recorder = keeper = UndoRecorder(tmp_path)
    client.sadd("queues", "default", "bulk")
    client.lpush("queue:default", *(job(f"j{n}") for n in range(250)))
    before = keyspace.dump(client)
    jobs = [one for page in engine.walk_pages(DEFAULT, "queue", 500) for one in page.jobs][: max(size, 20)]
    for start in range(0, len(jobs), size):
        words = {one.word for one in engine.apply_verb(verb, DEFAULT, jobs[start : start + size], form)}
        assert words == {"moved"}
    assert undone(engine, keeper, tmp_path, verb) == ["moved"] * len(jobs)
    assert not (found := keyspace.diff(before, keyspace.dump(client))), found


def test_a_requeue_into_a_long_queue_is_undone_too(client: Redis, tmp_path: Path) -> None:
    engine = open_engine(client)
    engine.change_recorder = keeper = UndoRecorder(tmp_path)
    now_s = plant_all(client)
    client.zadd("dead", {build_failed_job(f"more{n}"): now_s - 50 for n in range(57)})
    client.rpush("queue:default", *(job(f"waits{n}") for n in range(12_000)))
    before = keyspace.dump(client)
    assert act(engine, "requeue", "dead") == ["moved"] * 60
    assert undone(engine, keeper, tmp_path, "requeue") == ["moved"] * 60
    assert not (found := keyspace.diff(before, keyspace.dump(client))), found


def test_a_job_that_moved_on_meanwhile_is_not_undone(client: Redis, tmp_path: Path) -> None:
    engine = open_engine(client)
    engine.change_recorder = keeper = UndoRecorder(tmp_path)
    plant_all(client)
    assert act(engine, "requeue", "dead", "d0default", "d1default") == ["moved"] * 2
    [popped] = [one for one in client.lrange("queue:default", 0, -1) if b"d1default" in one]
    client.lrem("queue:default", 1, popped)  # a worker took it
    before = client.lrange("queue:default", 0, -1)
    assert sorted(undone(engine, keeper, tmp_path, "requeue")) == ["changed", "moved"]
    assert len(client.lrange("queue:default", 0, -1)) == len(before) - 1
    assert [b"d1default" in one for one in client.zrange("dead", 0, -1)].count(True) == 0


def test_a_job_is_pushed_as_sidekiq_itself_pushes_it(client: Redis) -> None:
    engine = open_engine(client)
    now_s = plant_all(client)
    ms = build_failed_job("ms", created_at=1795000000250, failed_at=1795000001500, retry_count=0)
    bare = b'{"class":"HardJob","args":[]}'
    client.zadd("dead", {ms: now_s, bare: now_s, b"\xffno json": now_s, b'{"args":[],"queue":"default"}': now_s})
    found = {one.id: one for one in list_jobs(engine, "dead")}
    answers = {one.id: one.word for one in engine.apply_verb("requeue", DEFAULT, list(found.values()))}
    assert sorted(answers.values()) == ["moved"] * 5 + ["raw"] * 2
    assert client.zcard("dead") == 3 + 2  # of the other queue, and those that no worker could run
    entries = {json.loads(one).get("jid"): one for one in client.lrange("queue:default", 0, 4)}
    assert entries["d0default"].startswith(PLAIN) and b'"retry_count":24' in entries["d0default"]
    assert now_s - 1 <= json.loads(entries["d0default"])["enqueued_at"] <= now_s + 60
    document = json.loads(entries["ms"])
    assert (
        document["retry_count"] == -1
        and 1.79e12 < document["enqueued_at"] < 1e13
        and isinstance(document["enqueued_at"], int)
    )
    [id] = [jid for jid in entries if jid not in ("ms", *(f"d{n}default" for n in range(3)))]
    document = json.loads(entries[id])
    assert re.fullmatch("[0-9a-f]{24}", id) and document["queue"] == "default" and document["retry"] is True
    assert act(engine, "promote", "schedule", "s0default") == ["moved"]
    document = json.loads(client.lindex("queue:default", 0))
    assert document["jid"] == "s0default" and "retry_count" not in document and "at" not in document


def test_only_the_bytes_that_were_seen_are_acted_on(any_client: Redis) -> None:
    engine = open_engine(any_client)
    now_s = plant_all(any_client)
    any_client.lpush("queue:default", *[job("q1default", enqueued_at=1795000002.5)] * 2)
    seen = {place: list_jobs(engine, place) for place in ("schedule", "retry", "dead", "queue")}
    for place in ("schedule", "retry", "dead"):
        [first] = [one.member for one in seen[place] if b"0default" in one.member]
        any_client.zrem(place, first)
        any_client.zadd(place, {first.replace(b'"retry":true', b'"retry":false'): now_s + 60})
    before = keyspace.dump(any_client)
    for verb, place in (("requeue", "dead"), ("promote", "retry"), ("kill", "schedule"), ("delete", "retry")):
        [gone] = [one for one in seen[place] if b"0default" in one.member]
        assert [one.word for one in engine.apply_verb(verb, DEFAULT, [gone], {})] == ["gone"], verb
    assert not keyspace.diff(before, keyspace.dump(any_client))
    # Equal entries are so many jobs: one goes for each row.
    equal = [one for one in seen["queue"] if b"q1default" in one.member]
    assert len(equal) == 3 and len({one.id for one in equal}) == 3
    assert [one.word for one in engine.apply_verb("delete", DEFAULT, equal[:2], {})] == ["moved"] * 2
    assert [b"q1default" in one for one in any_client.lrange("queue:default", 0, -1)].count(True) == 1
    assert [one.word for one in engine.apply_verb("kill", DEFAULT, equal, {})] == ["moved", "gone", "gone"]


def test_many_are_changed_among_those_of_other_queues(client: Redis) -> None:
    engine = open_engine(client)
    now_s = plant_all(client)
    client.zadd("dead", {build_failed_job(f"other{n}", "mail"): now_s - 50 for n in range(1500)})
    client.zadd(
        "dead",
        {build_failed_job(f"late{n}", error_class="IOError" if n % 2 else "KeyError"): now_s - 40 for n in range(6)},
    )
    group = [one for jobs in engine.scan_jobs(DEFAULT, "dead", lambda one: "IOError" in one.error) for one in jobs]
    assert sorted(one.id for one in group) == [b"late1", b"late3", b"late5"]
    assert {one.word for one in engine.apply_verb("requeue", DEFAULT, group)} == {"moved"}
    outcomes = [one for step in engine.apply_verb_to_place("requeue", DEFAULT, "dead") for one in step]
    assert len(outcomes) == 6 and {one.word for one in outcomes} == {"moved"}
    assert client.zcard("dead") == 1503 and all(b'"mail"' in one for one in client.zrange("dead", 0, -1))
    assert sum(one.moved for one in engine.apply_verb("purge", DEFAULT, (), {"place": "retry"})) == 3
    assert client.zcard("retry") == 3 and client.llen("queue:mail") == 3


# --- to another queue ------------------------------------------------------------------------------------------------

WAITING_AND_DEAD = ("schedule", "retry", "queue", "dead")


def move(engine: Engine, place: str, *ids: str, to: str = "bulk") -> list[str]:
    return act(engine, "move", place, *ids, to_queue=to)


def diff_without_name(client: Redis, before: keyspace.Keyspace, queue: str = "bulk") -> list[str]:
    """Return what differs from a dump, after the name that a move has registered is removed."""
    client.srem("queues", queue)
    return keyspace.diff(before, keyspace.dump(client))


def test_jobs_move_to_another_queue_in_their_order_and_back_byte_for_byte(any_client: Redis, tmp_path: Path) -> None:
    engine, client = open_engine(any_client), any_client
    engine.change_recorder = keeper = UndoRecorder(tmp_path)
    now_s = plant_all(client)
    client.zadd("retry", {build_failed_job("long", args=["x" * 200_000]): now_s + 60.25})  # a page has a part of it
    client.lpush("queue:bulk", job("waits", "bulk"))
    client.sadd("queues", "bulk")
    before = keyspace.dump(client)
    for place in WAITING_AND_DEAD:
        seen = {one.id: one for one in list_jobs(engine, place)}
        scores = client.zscore if place != "queue" else lambda _place, _job: None
        stored = {id: engine.send_request(engine.systems["sidekiq"].job_request("default", id, -1)) for id in seen}
        members = {id: one.member for id, one in stored.items() if one}
        old_scores = {id: scores(place, member) for id, member in members.items()}
        assert move(engine, place) == ["moved"] * len(seen), place
        assert list_jobs(engine, place) == []
        page = engine.fetch_page(Ref("sidekiq", "bulk"), place, 0, 100, 4096)
        assert [one.id for one in page.jobs] == [*([b"waits"] if place == "queue" else []), *seen]
        for id, member in members.items():
            new = member.replace(b'"queue":"default"', b'"queue":"bulk"')
            assert new != member and (place == "queue" or client.zscore(place, new) == old_scores[id])
            assert place != "queue" or new in client.lrange("queue:bulk", 0, -1)
        assert undone(engine, keeper, tmp_path, "move") == ["moved"] * len(seen), place
        assert not (found := keyspace.diff(before, keyspace.dump(client))), (place, found)
    assert describe_undo(engine.systems["sidekiq"], "move", place="retry") == "z undoes it"


def test_a_moved_job_returns_to_its_own_position(client: Redis, tmp_path: Path) -> None:
    engine = open_engine(client)
    engine.change_recorder = keeper = UndoRecorder(tmp_path)
    plant_all(client)
    before = keyspace.dump(client)
    for place, ids in (("queue", ("q0default", "q2default")), ("queue", ("q1default",)), ("retry", ("r1default",))):
        assert move(engine, place, *ids) == ["moved"] * len(ids)
        assert client.sismember("queues", "bulk")
        assert undone(engine, keeper, tmp_path, "move") == ["moved"] * len(ids)
        assert not (found := diff_without_name(client, before)), (place, found)


JOB_OF_ACTIVE_JOB = (
    b'{"class":"Sidekiq::ActiveJob::Wrapper","queue":"default","args":[ {"job_class":"A", "queue_name" : "%b",'
    b'"arguments":["queue_name",{"queue_name":"default"}]} ],"jid":"a"}'
)


@pytest.mark.parametrize(
    ("member", "moved"),
    [
        (b'{"class":"A", "args":[ ],"jid":"a"}', b'{"class":"A", "args":[ ],"jid":"a","queue":"bulk"}'),
        (
            b'{"args":[{"queue":"default"}],"class":"A","queue" : "default" }',
            b'{"args":[{"queue":"default"}],"class":"A","queue" : "bulk" }',
        ),
        (
            b'{"queue":"default","retry_queue":"default","class":"A","args":["default"]}',
            b'{"queue":"bulk","retry_queue":"bulk","class":"A","args":["default"]}',
        ),
        (
            b'{"queue":"default","retry_queue":"slow","class":"A","args":[1e400]}',
            b'{"queue":"bulk","retry_queue":"slow","class":"A","args":[1e400]}',
        ),
        (
            JOB_OF_ACTIVE_JOB % b"default",
            (JOB_OF_ACTIVE_JOB % b"bulk").replace(b'"queue":"default"', b'"queue":"bulk"'),
        ),
        (
            JOB_OF_ACTIVE_JOB % b"other",
            (JOB_OF_ACTIVE_JOB % b"other").replace(b'"queue":"default"', b'"queue":"bulk"'),
        ),
        (
            b'{"class":"Sidekiq::ActiveJob::Wrapper","queue":"default","args":[{"queue_name":"default"},2]}',
            b'{"class":"Sidekiq::ActiveJob::Wrapper","queue":"bulk","args":[{"queue_name":"default"},2]}',
        ),
        (b'{"not":"a job"}', b'{"not":"a job","queue":"bulk"}'),
    ],
)
def test_each_value_that_names_the_queue_is_changed_and_no_other_byte(
    client: Redis, member: bytes, moved: bytes
) -> None:
    client.sadd("queues", "default")
    client.zadd("dead", {member: 1_795_000_000.5})
    client.lpush("queue:default", member)
    engine = open_engine(client)
    for place in ("dead", "queue"):
        assert move(engine, place) == ["moved"]
    assert client.zrange("dead", 0, -1, withscores=True) == [(moved, 1_795_000_000.5)]
    assert client.lrange("queue:bulk", 0, -1) == [moved] and not client.exists("queue:default")


def test_a_queue_may_have_any_name_that_json_can_have(client: Redis) -> None:
    engine = open_engine(client)
    plant_all(client)
    name = 'ä "b" \\ \u2028:c'
    for place in WAITING_AND_DEAD:
        assert move(engine, place, to=name) == ["moved"] * 3
        jobs = engine.fetch_page(Ref("sidekiq", name), place, 0, 100, 4096).jobs
        assert [json.loads(one.member)["queue"] for one in jobs] == [name] * 3
    assert name.encode() in client.smembers("queues")
    before = keyspace.dump(client)
    jobs = [*engine.fetch_page(Ref("sidekiq", "mail"), "dead", 0, 100, 4096).jobs]
    [outcome, *_others] = engine.apply_verb("move", Ref("sidekiq", "mail"), jobs, {"to_queue": "\udcff"})
    assert outcome.word == "refused" and "not UTF-8" in outcome.text
    assert not keyspace.diff(before, keyspace.dump(client))


def test_jobs_move_inside_their_namespace(client: Redis, tmp_path: Path) -> None:
    engine = open_engine(client, "sidekiq:namespace=shop")
    engine.change_recorder = keeper = UndoRecorder(tmp_path)
    client.sadd("shop:queues", "default")
    client.lpush("shop:queue:default", job("a"))
    client.zadd("shop:dead", {build_failed_job("b"): 1_795_000_000})
    before = keyspace.dump(client)
    assert move(engine, "queue") == move(engine, "dead") == ["moved"]
    assert client.lrange("shop:queue:bulk", 0, -1) == [job("a", "bulk")]
    assert client.zrange("shop:dead", 0, -1) == [build_failed_job("b", "bulk")]
    assert client.smembers("shop:queues") == {b"default", b"bulk"} and not client.exists("queues")
    assert undone(engine, keeper, tmp_path, "move") == ["moved"] * 2
    client.srem("shop:queues", "bulk")
    assert not keyspace.diff(before, keyspace.dump(client))


def test_a_job_that_cannot_move_without_loss_stays(any_client: Redis) -> None:
    engine, client = open_engine(any_client), any_client
    now_s = plant_all(client)
    locked = {name: job(name, **{name: "uniquejobs:4f2c"}) for name in ("unique_for", "lock_digest", "unique_digest")}
    client.lpush("queue:default", *locked.values(), b"\xffno json", b"[1]")
    client.zadd("dead", {build_failed_job("d0default", "bulk"): now_s})
    plant_process(client, "h:1:a", now_s - 1)
    plant_work(client, "h:1:a", job("busy"))
    before = keyspace.dump(client)
    for name in locked:
        [outcome] = engine.apply_verb("move", DEFAULT, list_jobs(engine, "queue", name), {"to_queue": "bulk"})
        assert outcome.word == "refused" and f"unique lock ({name})" in outcome.text
    raw = [one for one in list_jobs(engine, "queue") if one.problem and one.id.decode() not in locked]
    assert [one.word for one in engine.apply_verb("move", DEFAULT, raw, {"to_queue": "bulk"})] == ["raw"] * 2
    assert move(engine, "dead", "d0default") == ["exists"]
    assert move(engine, "work", "busy") == ["wrong_place"]
    for target in ("default", "sidekiq:default", ""):
        with pytest.raises(UsageError):
            move(engine, "queue", to=target)
    assert not keyspace.diff(before, keyspace.dump(client))
    for key in ("queue:bulk", "queues", "schedule", "retry", "dead", "queue:default"):
        jobs = list_jobs(engine, "queue", "q0default") if key != "queue:default" else list_jobs(engine, "retry")
        client.rename(key, "kept") if client.exists(key) else None
        client.set(key, "of another program")
        planted = keyspace.dump(client)
        assert {one.word for one in engine.apply_verb("move", DEFAULT, jobs, {"to_queue": "bulk"})} == {"error"}, key
        assert not keyspace.diff(planted, keyspace.dump(client))
        client.rename("kept", key) if client.exists("kept") else client.delete(key)
    assert not keyspace.diff(before, keyspace.dump(client))


def test_a_refused_job_does_not_stop_the_move_of_others(client: Redis, tmp_path: Path) -> None:
    engine = open_engine(client)
    engine.change_recorder = keeper = UndoRecorder(tmp_path)
    client.sadd("queues", "default", "bulk")
    client.lpush("queue:default", job("a"), job("locked", lock_digest="uniquejobs:4f2c"), job("b"))
    before = keyspace.dump(client)
    outcomes = engine.apply_verb("move", DEFAULT, list_jobs(engine, "queue"), {"to_queue": "bulk"})
    assert {one.id: one.word for one in outcomes} == {b"a": "moved", b"b": "moved", b"locked": "refused"}
    assert undone(engine, keeper, tmp_path, "move") == ["moved"] * 2
    assert not keyspace.diff(before, keyspace.dump(client))


def test_a_job_that_was_taken_meanwhile_neither_moves_nor_returns(client: Redis, tmp_path: Path) -> None:
    engine = open_engine(client)
    engine.change_recorder = keeper = UndoRecorder(tmp_path)
    plant_all(client)
    jobs = list_jobs(engine, "queue")
    client.rpop("queue:default")  # by a worker
    words = [one.word for one in engine.apply_verb("move", DEFAULT, jobs, {"to_queue": "bulk"})]
    assert words == ["gone", "moved", "moved"]
    assert client.rpop("queue:bulk") == jobs[1].member.replace(b'"queue":"default"', b'"queue":"bulk"')
    assert sorted(undone(engine, keeper, tmp_path, "move")) == ["gone", "moved"]
    assert client.lrange("queue:default", 0, -1) == [jobs[2].member] and not client.exists("queue:bulk")
    # A job that another verb has moved on stays where it is.
    retry = list_jobs(engine, "retry")
    assert move(engine, "retry") == ["moved"] * 3
    bulk = Ref("sidekiq", "bulk")
    [killed, *_others] = engine.fetch_page(bulk, "retry", 0, 100, 4096).jobs
    assert [one.word for one in engine.apply_verb("kill", bulk, [killed])] == ["moved"]
    assert sorted(undone(engine, keeper, tmp_path, "move")) == ["gone", "moved", "moved"]
    assert [one.id for one in list_jobs(engine, "retry")] == [one.id for one in retry if one.id != killed.id]
    assert client.zscore("dead", killed.member) is not None


@pytest.mark.parametrize("place", ["retry", "queue"])
def test_jobs_whose_reply_was_lost_are_found_in_the_other_queue_and_return(
    client: Redis, url: str, tmp_path: Path, place: str
) -> None:
    plant_all(client)
    client.sadd("queues", "bulk")
    before = keyspace.dump(client)
    keeper = UndoRecorder(tmp_path)
    save = keeper.save_jobs
    with Proxy(url) as proxy, connect(proxy.url) as link:
        engine = open_engine(link)
        jobs = list_jobs(engine, place)[:2]
        client.script_load(engine.systems["sidekiq"].scripts["move"].source)  # else NOSCRIPT is the lost reply

        def save_and_cut(*arguments: Any) -> SavedChunk | None:
            saved = save(*arguments)
            proxy.fail("lose reply", "EVALSHA ")
            return saved

        keeper.save_jobs, engine.change_recorder = save_and_cut, keeper  # type: ignore[method-assign]
        words = [one.word for one in engine.apply_verb("move", DEFAULT, jobs, {"to_queue": "bulk"})]
        assert words == ["unknown"] * 2
    assert len(list_jobs(open_engine(client), place)) == 1
    assert undone(open_engine(client), keeper, tmp_path, "move") == ["moved"] * 2
    assert not (found := keyspace.diff(before, keyspace.dump(client))), found


def test_equal_jobs_move_one_for_each_row(client: Redis, tmp_path: Path) -> None:
    engine = open_engine(client)
    engine.change_recorder = keeper = UndoRecorder(tmp_path)
    one, moved = job("same"), job("same", "bulk")
    client.sadd("queues", "default", "bulk")
    client.lpush("queue:default", one, job("a"), one, job("b"), one)
    client.lpush("queue:bulk", one, moved)  # the same jid, and even the same bytes
    before = keyspace.dump(client)
    equal = [each for each in list_jobs(engine, "queue") if each.member == one]
    assert len({each.id for each in equal}) == 3
    assert [each.word for each in engine.apply_verb("move", DEFAULT, equal[:2], {"to_queue": "bulk"})] == ["moved"] * 2
    assert client.lrange("queue:bulk", 0, -1) == [moved, moved, moved, one]
    assert sorted(client.lrange("queue:default", 0, -1)) == sorted([job("a"), job("b"), one])
    assert undone(engine, keeper, tmp_path, "move") == ["moved"] * 2
    assert not (found := keyspace.diff(before, keyspace.dump(client))), found


@pytest.mark.parametrize("name", ["archive", "zulu"])  # sorted before the old name, and behind it
def test_all_jobs_of_a_place_move_though_they_stay_in_its_key(client: Redis, tmp_path: Path, name: str) -> None:
    engine = open_engine(client)
    engine.change_recorder = keeper = UndoRecorder(tmp_path)
    client.sadd("queues", "default", name)
    members = [b'{"queue":"default","class":"A","args":[],"jid":"a%d"}' % number for number in range(1300)]
    client.zadd("schedule", dict.fromkeys(members, 1_895_000_000))
    client.zadd("schedule", {job(f"m{n}", "mail"): 1_895_000_000 for n in range(700)})
    before = keyspace.dump(client)
    steps = engine.apply_verb_to_place("move", DEFAULT, "schedule", {"to_queue": name})
    assert [one.word for step in steps for one in step] == ["moved"] * 1300
    assert sum(b'"default"' in one for one in client.zrange("schedule", 0, -1)) == 0
    assert client.zcard("schedule") == 2000
    assert undone(engine, keeper, tmp_path, "move") == ["moved"] * 1300
    assert not keyspace.diff(before, keyspace.dump(client))


# --- what processes hold ---------------------------------------------------------------------------------------------


def test_jobs_of_a_dead_process_go_back_and_those_of_a_living_one_stay(any_client: Redis) -> None:
    engine, client = open_engine(any_client), any_client
    now_s = float(client.time()[0])
    old, new, others = job("old"), job("new", x="\x00\u2028é"), job("mail", "mail")
    plant_process(client, "h:1:a", now_s - 5)
    plant_work(client, "h:1:a", job("busy"))
    plant_process(client, "h:2:b", now_s - 31)
    plant_work(client, "h:2:b", new, int(now_s) - 40, "t2")
    plant_work(client, "h:2:b", old, int(now_s) - 50, "t1")
    plant_process(client, "h:3:c", now_s - 31)
    plant_work(client, "h:3:c", job("six"), int(now_s) - 60, key="workers")
    client.hset("h:3:c:workers", "t9", json.dumps({"queue": "mail", "payload": others.decode(), "run_at": 5}))
    client.lpush("queue:default", job("waits"))
    rows = {one.id: one for one in list_jobs(engine, "work")}
    assert [
        one.word for one in engine.apply_verb("release", DEFAULT, [rows[b"busy"], rows[b"new"]], {"place": "work"})
    ] == [
        "beats",
        "moved",
    ]
    assert client.lrange("queue:default", 0, -1) == [job("waits"), new]
    assert sum(one.moved for one in engine.apply_verb("reap", DEFAULT, (), {"limit": 10})) == 2
    assert client.lrange("queue:default", 0, -1) == [job("waits"), new, old, job("six")]
    assert client.smembers("processes") == {b"h:1:a", b"h:3:c"} and not client.exists("h:2:b", "h:2:b:work")
    assert client.hkeys("h:3:c:workers") == [b"t9"] and client.hlen("h:1:a:work") == 1
    assert [one.word for one in engine.apply_verb("reap", DEFAULT, (), {"limit": 10})] == ["empty"]
    before = keyspace.dump(client)
    for verb in ("delete", "kill", "cancel"):
        assert [one.word for one in engine.apply_verb(verb, DEFAULT, [rows[b"busy"]], {})] in (
            ["wrong_place"],
            ["not_iterable"],
        )
    assert [one.word for one in engine.apply_verb("release", DEFAULT, [rows[b"new"]], {"place": "work"})] == ["gone"]
    lost = replace(rows[b"new"], place="lost")
    assert [one.word for one in engine.apply_verb("release", DEFAULT, [lost], {"place": "lost"})] == ["queued"]
    assert not keyspace.diff(before, keyspace.dump(client))
    client.delete("queue:default")
    assert [one.word for one in engine.apply_verb("release", DEFAULT, [lost], {"place": "lost"})] == ["moved"]
    assert client.lrange("queue:default", 0, -1) == [new]


# --- new jobs --------------------------------------------------------------------------------------------------------


def test_a_job_is_put_as_a_person_writes_it(client: Redis, url: str) -> None:
    client.zadd("dead", {job("seen", created_at=1795000000250): 1})  # Sidekiq 8 wrote it
    body = '{"class":"HardJob", "args": [1e400, 0.10, {"z": 1,"a":[]}]}'
    assert shell(url, "put", "sidekiq:default", body).code == 0
    [result] = client.lrange("queue:default", 0, -1)
    document = json.loads(result)
    assert result.startswith(body[:-1].encode()) and document["retry"] is True and document["queue"] == "default"
    assert re.fullmatch("[0-9a-f]{24}", document["jid"]) and isinstance(document["enqueued_at"], int)
    assert client.smembers("queues") == {b"default"}
    named = f'{body[:-1]}, "jid": "mine"}}'
    assert shell(url, "put", "sidekiq:default", named, "--delay", "1h").code == 0
    [(later, score)] = client.zrange("schedule", 0, -1, withscores=True)
    assert json.loads(later)["jid"] == "mine" and b"enqueued_at" not in later and score > client.time()[0] + 3500
    wrapped = (
        '{"class":"Sidekiq::ActiveJob::Wrapper","wrapped":"MailJob","args":[{"job_class":"MailJob"}],"retry":false}'
    )
    assert shell(url, "put", "sidekiq:default", wrapped).code == 0
    assert client.lindex("queue:default", 0).startswith(wrapped[:-1].encode())
    before = keyspace.dump(client)
    for body, sentence in (
        ('{"args": []}', 'no "class"'),
        ('{"class": "X"}', 'no "args"'),
        ('{"class": "X", "args": {}}', '"args" is a list'),
        ('{"class": 5, "args": []}', "the name of a class"),
        ("[1]", "no JSON object"),
        ('{"class": "X", "args": [NaN]}', "no JSON number"),
        ('{"job_class": "X", "arguments": []}', "what wraps it"),
        ('{"class": "X", "args": [], "queue": "mail"}', "put into default"),
        ('{"class": "X", "args": [], "jid": "a b"}', "a jid is of"),
        ('{"class": "X", "args": [], "retry": "often"}', "true, false, or how often"),
    ):
        ran = shell(url, "put", "sidekiq:default", body)
        assert ran.code != 0 and sentence in ran.err, (body, ran.err)
    assert "only its paid editions" in shell(url, "act", "pause", "sidekiq:default").err
    assert not keyspace.diff(before, keyspace.dump(client))


def test_a_kill_trims_the_dead_as_sidekiq_does(client: Redis) -> None:
    """`DeadSet#trim` of lib/sidekiq/api.rb removes the ranks 0 to -10 000, so that 9 999 are left."""
    now_s = float(client.time()[0])
    client.zadd("dead", {f"other-{n}": now_s - 20_000 + n for n in range(10_000)})
    client.sadd("queues", "default")
    client.lpush("queue:default", job("a"))
    assert act(open_engine(client), "kill", "queue", "a") == ["moved"]
    assert client.zcard("dead") == 9_999
    assert client.zscore("dead", "other-1") is None and client.zscore("dead", "other-2") is not None
    assert client.zrange("dead", -1, -1)[0].find(b'"a"') > 0
