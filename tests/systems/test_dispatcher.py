"""Test the system `dispatcher`: conformance of its scripts, bytes of tasks, findings, and what rqtui shows.

`test_dispatcher_original.py` tests rqtui beside the original and the original's faults.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from typing import Any

import pytest
from dispatcher_subject import (
    DELAYED,
    DISPATCHER,
    HOUR,
    KEYS,
    NOW,
    READY,
    SCRIPTS,
    list_ready,
    read_delayed,
    read_outcomes,
    run_script,
)
from families import run_in_one_test
from redis import ConnectionPool, Redis
from shell import ROOT, shell

from rqtui.engine.engine import Engine, build_engine
from rqtui.errors import Refused, UsageError, WrongType
from rqtui.model import Ref, State
from rqtui.scenarios.originals import dispatcher as original
from rqtui.scripts import script as scripts
from rqtui.scripts.script import Reply
from rqtui.systems import registry
from rqtui.testing import conformance, keyspace
from rqtui.testing.conformance import Planted
from rqtui.testing.keyspace import Zset

NOW_S = NOW // 1000
REF = Ref("dispatcher", READY)


@pytest.mark.parametrize("script", DISPATCHER.scripts)
def test_dispatcher(script: str, any_client: Redis) -> None:
    conformance.run_all(conformance.cases(DISPATCHER, [script]), DISPATCHER, any_client)


def engine(client: Redis, *specs: str) -> Engine:
    return build_engine(client, [registry.create_system(*(specs or ("dispatcher",)))])


# ── the bytes ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_original_dispatches_what_rqtui_puts(any_client: Redis) -> None:
    assert (
        read_outcomes(run_script(any_client, "enqueue", ("a", 1500, None), ("b", None, NOW + 2000), ("c", None, None)))
        == ["moved"] * 3
    )
    assert read_delayed(any_client) == {b"a": NOW_S + 1.5, b"b": NOW_S + 2.0}
    program = original.Dispatcher(any_client, clock=lambda: NOW_S + 2)
    assert program.step() == (2, 0, 1)
    assert [original.Worker(any_client).step() for _ in range(4)] == [b"c", b"a", b"b", None]


def test_whole_seconds_are_written_without_a_fraction(any_client: Redis) -> None:
    run_script(any_client, "enqueue", ("a", None, 2_000_000_000_000), ("b", None, 2_000_000_000_010))
    score = "return redis.call('ZSCORE', KEYS[1], ARGV[1])"
    assert [any_client.eval(score, 1, DELAYED, body) for body in ("a", "b")] == [b"2000000000", b"2000000000.01"]


def test_due_tasks_go_in_the_order_of_their_due_times_and_equal_ones_in_that_of_their_bytes(any_client: Redis) -> None:
    due = {"z": NOW_S - 5, "b": NOW_S - 1, "a": NOW_S - 1, "now": NOW_S, "half": NOW_S - 0.5, "soon": NOW_S + 0.25}
    keyspace.plant(any_client, {DELAYED: Zset(due), READY: ["first"]})
    answer = run_script(any_client, "dispatch", limit=3)
    assert answer.values == {"moved": 3, "scheduled": 3, "ready": 1, "next_ms": 0}
    answer = run_script(any_client, "dispatch", limit=1000)
    assert answer.values == {"moved": 2, "scheduled": 1, "ready": 4, "next_ms": 250}
    assert list_ready(any_client) == [b"first", b"z", b"a", b"b", b"half", b"now"]
    assert run_script(any_client, "dispatch", limit=1000).values == {"scheduled": 1, "ready": 6, "next_ms": 250}


def test_a_task_is_put_among_the_ready_when_it_is_due_and_may_be_there_twice(any_client: Redis) -> None:
    rows = [("a", None, NOW), ("a", 0, None), ("a", None, NOW - HOUR), ("b", -HOUR, None), ("", None, None)]
    assert read_outcomes(run_script(any_client, "enqueue", *rows)) == ["moved"] * 5
    assert (list_ready(any_client), read_delayed(any_client)) == ([b"a", b"a", b"a", b"b", b""], {})


def test_seconds_that_are_milliseconds_by_mistake_are_refused(any_client: Redis) -> None:
    with pytest.raises(Refused, match=r"milliseconds.*nothing was changed"):
        run_script(any_client, "enqueue", ("a", HOUR, None), ("b", None, NOW * 1000))
    assert keyspace.dump(any_client) == {}


def test_an_empty_task_is_a_task_and_no_verb_on_others_takes_it_along(any_client: Redis) -> None:
    keyspace.plant(any_client, {DELAYED: Zset({"": NOW_S + 60, "a": NOW_S - 1, "b": NOW_S + 5})})
    run_script(any_client, "dispatch", limit=10)
    run_script(any_client, "promote", ("b",))
    assert read_delayed(any_client) == {b"": NOW_S + 60}
    assert read_outcomes(run_script(any_client, "promote", ("",), ("",))) == ["moved", "gone"]
    assert list_ready(any_client) == [b"a", b"b", b""]


def test_another_due_time_repairs_one_in_milliseconds_and_one_that_is_over_makes_ready(any_client: Redis) -> None:
    keyspace.plant(any_client, {DELAYED: Zset({"ms": NOW, "b": NOW_S + 5, "c": NOW_S + 6})})
    assert read_outcomes(run_script(any_client, "reschedule", ("ms",), ("ms",), ("x",), due_ms=NOW + 500)) == [
        "moved",
        "gone",
        "gone",
    ]
    assert read_outcomes(run_script(any_client, "reschedule", ("b",), delay_ms=-1)) == ["moved"]
    assert (read_delayed(any_client), list_ready(any_client)) == ({b"ms": NOW_S + 0.5, b"c": NOW_S + 6}, [b"b"])
    with pytest.raises(Refused, match=r"in milliseconds.*nothing was changed"):
        run_script(any_client, "reschedule", ("c",), due_ms=NOW * 1000)


def test_of_equal_ready_tasks_one_is_deleted_per_row(any_client: Redis) -> None:
    keyspace.plant(any_client, {READY: ["a", "b", "a", "a"], DELAYED: Zset({"a": NOW_S + 1})})
    assert read_outcomes(run_script(any_client, "delete", ("a",), ("a",), ("x",), place="ready")) == [
        "moved",
        "moved",
        "gone",
    ]
    assert (list_ready(any_client), read_delayed(any_client)) == ([b"b", b"a"], {b"a": NOW_S + 1})
    assert read_outcomes(run_script(any_client, "delete", ("a",), place="delayed")) == ["moved"]
    assert (list_ready(any_client), read_delayed(any_client)) == ([b"b", b"a"], {})


@pytest.mark.parametrize(
    ("name", "args"), [("delete", {"place": "done"}), ("dispatch", {"limit": 1001}), ("pull", {"limit": 0})]
)
def test_a_wrong_argument_is_refused_in_a_sentence_before_the_first_write(
    name: str, args: Any, any_client: Redis
) -> None:
    keyspace.plant(any_client, {READY: ["a"], DELAYED: Zset({"b": 1})})
    before = keyspace.dump(any_client)
    with pytest.raises(Refused, match="nothing was changed"):
        run_script(any_client, name, *([("a",)] if SCRIPTS[name].each else []), **args)
    assert not keyspace.diff(before, keyspace.dump(any_client))


# ── findings ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("kind", "key", "planted", "text"),
    [
        (
            "due-not-dispatched",
            DELAYED,
            {DELAYED: Zset({"a": -3, "b": -2})},
            "^2 tasks in .* below 0, such as a: .* never takes",
        ),
        ("mixed-units", DELAYED, {DELAYED: Zset({"a": NOW, "b": NOW_S})}, "^1 task in .* in milliseconds .* as a: "),
        ("corrupt-record", DELAYED, {DELAYED: Zset({"a": float("inf")})}, "^1 task in .* infinite .* as a: never due"),
        (
            "no-place",
            KEYS["leaving"],
            {KEYS["leaving"]: ["0 a", "5 b"], READY: ["x"]},
            "^2 tasks in .* as a, .* did not finish",
        ),
    ],
)
def test_problems_are_found_and_reported(kind: str, key: str, planted: Any, text: str, any_client: Redis) -> None:
    keyspace.plant(any_client, planted)
    found = [f for f in engine(any_client).collect_findings([REF]) if f.kind == kind and key in f.keys]
    assert len(found) == 1
    assert found[0].ids == (b"a",) and found[0].remedy
    assert re.search(text, found[0].text), found[0].text


@pytest.mark.parametrize("key", [DELAYED, READY])
def test_a_task_of_a_megabyte_is_reported_by_its_first_letters(key: str, any_client: Redis) -> None:
    def put(task: bytes) -> None:
        any_client.rpush(READY, task) if key == READY else any_client.zadd(DELAYED, {task: NOW_S})

    def list_oversized_findings() -> list[tuple[tuple[str, ...], tuple[bytes, ...], str]]:
        return [(f.keys, f.ids, f.text) for f in engine(any_client).collect_findings([REF]) if f.kind == "oversized"]

    put(b"a" * (2**20 - 1))
    assert list_oversized_findings() == []
    put(b"x" * (2**20))
    ((keys, ids, text),) = list_oversized_findings()
    assert (keys, ids) == ((key,), (b"x" * 60,)) and f"1 checked task in {key} of 1 MB" in text


def test_the_search_for_large_tasks_ends_after_four_megabytes_and_after_a_hundred(any_client: Redis) -> None:
    large, nearly = b"x" * 2**20, b"x" * (2**20 - 1)
    any_client.rpush(READY, large, large, large, nearly, large, large)
    any_client.zadd(DELAYED, {b"%d" % n: n for n in range(100)} | {b"x" * 2**20: NOW_S})
    found = {row[1]: row[3] for row in run_script(any_client, "faults").rows if row[0] == "oversized"}
    assert found == {READY: 4}
    any_client.lset(READY, 3, large)
    any_client.zrem(DELAYED, "0")
    found = {row[1]: row[3] for row in run_script(any_client, "faults").rows if row[0] == "oversized"}
    assert found == {READY: 4, DELAYED: 1}


def test_a_due_time_is_a_number_of_seconds_from_0_to_the_year_5138(client: Redis) -> None:
    for due_s, kind, next_due_ms in (
        (-0.001, "due_not_dispatched", NOW), (0, "", 0), (1e11 - 1, "", (10**11 - 1) * 1000), (1e11, "mixed_units", -1),
    ):  # fmt: skip
        keyspace.plant(client, {DELAYED: Zset({"a" * 1001: due_s})})
        assert [row[:3] for row in run_script(client, "faults").rows] == (
            [(kind, DELAYED, b"a" * 1000)] if kind else []
        )
        assert run_script(client, "counts").values["due_ms"] == next_due_ms
        if due_s > 0:
            wait_ms = next_due_ms - NOW if next_due_ms > 0 else -1
            assert run_script(client, "dispatch", limit=1).values["next_ms"] == wait_ms
        client.delete(DELAYED)


def test_at_most_so_many_tasks_are_parked_as_the_limit_says(client: Redis) -> None:
    client.rpush(READY, "a", "b", "c")
    client.zadd(DELAYED, {"d": NOW_S + 9, "e": NOW_S + 10})
    for limit, parked in ((2, "ab"), (2, "ab"), (4, "abcd"), (9, "abcde")):
        rows = run_script(client, "park", limit=limit).rows
        assert b"".join(row[0][-1:] for row in rows).decode() == parked, limit
        left = [*client.lrange(READY, 0, -1), *client.zrange(DELAYED, 0, -1)]
        assert b"".join(left).decode() == "abcde"[len(parked) :], limit


def test_tasks_that_are_due_after_the_year_2255_are_not_parked(client: Redis) -> None:
    keyspace.plant(client, {DELAYED: Zset({"last": 9_007_199_254, "later": 9_007_199_255})})
    assert [row[0] for row in run_script(client, "park", limit=9).rows] == [b"9007199254000 last"]


def test_a_long_task_is_cut_in_a_page_and_for_one_task(client: Redis) -> None:
    for size, body_bytes, shown in ((4096, 0, 4096), (4097, 0, 4096), (5000, 5000, 5000), (5001, 5000, 4096)):
        client.delete(READY)
        client.rpush(READY, b"x" * size)
        (row,) = run_script(client, "page", place="ready", offset=0, limit=1, body_bytes=body_bytes).rows
        assert (len(row[0]), row[1], len(row[2])) == (shown, size, 64)
        found = run_script(client, "show", head=b"x", size=size, tail=b"x", body_bytes=body_bytes).values
        assert (len(found["head"]), found["size"], len(found["tail"])) == (shown, size, 64)


def test_a_long_task_is_searched_among_the_first_and_the_last_five_thousand(client: Redis) -> None:
    client.rpush(READY, *["x"] * 4999, "ab", *["x"] * 5000)
    asked = {"head": b"a", "size": 2, "tail": b"b", "body_bytes": 0}
    assert run_script(client, "show", **asked).word == "found"
    client.rpush(READY, "x")
    assert run_script(client, "show", **asked).word == "found", "the first but 4999"
    client.lpush(READY, "x")
    assert run_script(client, "show", **asked).word == "gone", "in the middle"
    client.rpop(READY, 2)
    assert run_script(client, "show", **asked).word == "found", "the last but 4999"


def test_the_commands_of_the_docs_work_in_their_order(client: Redis, url: str) -> None:
    page = (ROOT / "docs/systems/dispatcher.md").read_text()
    block = next(part for part in page.split("```sh\n") if part.startswith("rqtui put")).partition("```")[0]
    for line in block.splitlines():
        ran = shell(url, *shlex.split(line)[1:])
        assert ran.code == 0 and "gone" not in ran.out, (line, ran.out, ran.err)
    assert "taskA" in ran.out and keyspace.dump(client) == {}


def test_a_sound_queue_has_no_findings(any_client: Redis) -> None:
    keyspace.plant(any_client, {DELAYED: Zset({"a": any_client.time()[0] + 60}), READY: ["b"]})
    assert [f for f in engine(any_client).collect_findings([REF]) if f.queue] == []


def test_a_queue_whose_key_is_another_programs_reports_it(any_client: Redis) -> None:
    for key, held in ((READY, "a string"), (DELAYED, ["a list"])):
        any_client.flushall()
        keyspace.plant(any_client, {key: held})
        (queue,) = engine(any_client).take_snapshot().queues
        assert key in queue.error and [f.kind for f in queue.findings] == ["wrong-type"]
        for verb, rows in (("enqueue", [("x", None, None)]), ("promote", [("x",)]), ("park", []), ("dispatch", [])):
            args = {"limit": 1} if verb in ("park", "dispatch") else {}
            with pytest.raises(WrongType):
                run_script(any_client, verb, *rows, **args)
        assert keyspace.dump(any_client).keys() == {key}


# ── the system: options, discovery, what it shows ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("dispatcher:colour=red", "no option colour; its options: ready, delayed"),
        ("dispatcher:ready=", "names of keys"),
        ("dispatcher:delayed=", "names of keys"),
        ("dispatcher:ready=a,delayed=a", 'both are called "a"'),
    ],
)
def test_an_option_that_cannot_be_is_refused(spec: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        registry.create_system(spec)


def test_each_pair_of_keys_that_was_named_is_a_queue(any_client: Redis) -> None:
    keyspace.plant(any_client, {"d1": Zset({"x": 1}), "r1": ["y", "z"], "{t}r": ["w"]})
    seen = engine(any_client, "dispatcher:ready=r1,delayed=d1", "dispatcher:ready={t}r,delayed={t}d")
    assert {
        str(q.name): (q.count_in_place("delayed"), q.count_in_place("ready")) for q in seen.take_snapshot().queues
    } == {
        "r1": (1, 2),
        "{t}r": (0, 1),
    }
    system = seen.systems["dispatcher"]
    assert (
        system.keys("r1")["leaving"] == "rqtui:{r1}:leaving" and system.keys("{t}r")["leaving"] == "rqtui:{t}r:leaving"
    )
    with pytest.raises(UsageError, match="ready=other,delayed=KEY"):
        seen.resolve("dispatcher:other")


def test_a_requested_system_has_its_queue_though_no_key_exists(any_client: Redis) -> None:
    assert engine(any_client).refs == [REF]
    assert engine(any_client, "dispatcher:ready=r,delayed=d").refs == [Ref("dispatcher", "r")]


@run_in_one_test(
    ("planted", "is_seen"),
    [
        ({}, False),
        ({DELAYED: Zset({"a": 1})}, True),
        ({READY: ["a"]}, True),
        ({READY: "a string"}, False),
        ({DELAYED: ["a"], READY: "a string"}, False),
        ({"otherset": Zset({"a": 1})}, False),
    ],
)
def test_unasked_it_claims_only_what_is_there(planted: Any, is_seen: bool, any_client: Redis) -> None:
    keyspace.plant(any_client, planted)
    seen = build_engine(any_client, registry.create_systems())
    assert (REF in seen.refs) is is_seen
    system = seen.systems["dispatcher"]
    assert system.has_queue(any_client, READY) is is_seen
    assert system.has_queue(any_client, "otherset") is False


def test_unasked_and_denied_it_sees_nothing_and_breaks_nothing(client: Redis) -> None:
    keyspace.plant(client, {READY: ["a"]})
    client.execute_command("ACL", "SETUSER", "narrow", "reset", "on", "nopass", "~rqtui:*", "+@all")
    pool = client.connection_pool
    fields = {**pool.connection_kwargs, "username": "narrow", "password": "any"}
    narrow = Redis.from_pool(ConnectionPool(connection_class=pool.connection_class, **fields))
    unasked = next(system for system in registry.create_systems() if system.name == "dispatcher")
    assert build_engine(narrow, [unasked]).refs == []


def test_a_page_and_a_task_are_shown_as_they_are(any_client: Redis) -> None:
    due = {"a": -1.0, "b": 1.5, b"\xff\x00": NOW_S + 0.25, "ms": NOW, "never": float("inf")}
    keyspace.plant(any_client, {DELAYED: Zset(due), READY: ["x", "y", "x", ""]})
    seen = engine(any_client)
    jobs = seen.fetch_page(REF, "delayed", body_bytes=100).jobs
    assert [job.body for job in jobs] == [b"a", b"b", b"\xff\x00", b"ms", b"never"]
    assert [job.due_ms for job in jobs] == [0, 1500, NOW + 250, None, None]
    assert [bool(job.problem) for job in jobs] == [True, False, False, True, True]
    listed = seen.fetch_page(REF, "ready", body_bytes=100)
    assert [job.member for job in listed.jobs] == [b"x", b"y", b"x", b""]
    assert listed.jobs[2].id == listed.jobs[0].id + b".2"
    assert [job.member for job in seen.fetch_page(REF, "ready", -1, 2).jobs] == [b"x", b""]
    assert all(job.state is State.READY for job in listed.jobs)
    for job in (*jobs, *listed.jobs):
        shown = seen.fetch_job(REF, job.id)
        assert shown is not None and (shown.id, shown.place, shown.body) == (job.id, job.place, job.body)
    assert engine(any_client).fetch_job(REF, b"y") is not None  # by its bytes, if it is not cached
    assert engine(any_client).fetch_job(REF, jobs[2].id) is not None  # by a digest of another session
    assert seen.fetch_job(REF, b"nobody") is None


@pytest.mark.parametrize("place", ["delayed", "ready"])
def test_pages_go_through_a_place_in_its_order(place: str, any_client: Redis) -> None:
    tasks = [b"%d" % n for n in range(7)]
    keyspace.plant(any_client, {READY: tasks, DELAYED: Zset({task: NOW_S + int(task) for task in tasks})})

    def page(offset: int, limit: int) -> list[bytes]:
        answer = run_script(any_client, "page", place=place, offset=offset, limit=limit, body_bytes=9)
        assert (answer.values["total"], answer.values["now_ms"]) == (7, NOW)
        due = [b"" if place == "ready" else b"%d" % (NOW_S + int(row[0])) for row in answer.rows]
        assert [row[3].encode() for row in answer.rows] == due
        return [row[0] for row in answer.rows]

    assert [page(offset, 3) for offset in (0, 3, 6, 7)] == [tasks[:3], tasks[3:6], tasks[6:], []]
    assert (page(-1, 3), page(-1, 9), page(0, 1000)) == (tasks[4:], tasks, tasks)


def test_counts_report_when_the_next_is_due(any_client: Redis) -> None:
    def queue() -> Reply:
        return run_script(any_client, "counts")

    assert queue().values == {"now_ms": NOW, "delayed": 0, "ready": 0, "due_ms": -1, "overdue": 0}
    keyspace.plant(any_client, {DELAYED: Zset({"ms": NOW, "never": float("inf")}), READY: ["a"]})
    assert queue().values == {"now_ms": NOW, "delayed": 2, "ready": 1, "due_ms": -1, "overdue": 0}
    any_client.zadd(DELAYED, {"later": NOW_S + 7.25})
    assert (queue().values["due_ms"], queue().values["overdue"]) == (NOW + 7250, 0)
    any_client.zadd(DELAYED, {"negative": -4})
    assert (queue().values["due_ms"], queue().values["overdue"]) == (NOW, 1)
    any_client.zadd(DELAYED, {"late": NOW_S - 9})
    assert (queue().values["due_ms"], queue().values["overdue"]) == (NOW - 9000, 2)


@pytest.mark.slow
@pytest.mark.parametrize("place", ["delayed", "ready"])
def test_a_task_of_30_mb_is_listed_by_its_beginning_and_moved_whole(place: str, client: Redis) -> None:
    huge = b'{"n": 1}' + bytes(30_000_000) + b"end"
    client.rpush(READY, "before", huge) if place == "ready" else client.zadd(DELAYED, {"before": 1, huge: 2})
    seen = engine(client)
    job = seen.fetch_page(REF, place, body_bytes=200).jobs[1]
    assert (job.body, job.body_bytes, len(job.member), job.is_partial) == (None, len(huge), 4096, True)
    assert [o.word for o in seen.apply_verb("delete", REF, [replace(job, id=b"unknown")])] == ["gone"]
    assert client.llen(READY) + client.zcard(DELAYED) == 2
    verb = "delete" if place == "ready" else "promote"
    assert [o.word for o in seen.apply_verb(verb, REF, [job])] == ["moved"]
    assert list_ready(client) == ([b"before"] if place == "ready" else [huge])


def test_put_and_act_go_through_the_engine(any_client: Redis) -> None:
    seen = engine(any_client)
    system = seen.systems["dispatcher"]
    puts = seen.send_request(system.put_request(READY, [{"body": b"a", "delay_ms": 60_000}, {"body": b"b"}]))
    assert [(o.word, o.moved) for o in puts] == [("moved", 1), ("moved", 1)]
    jobs = {job.body: job for place in ("delayed", "ready") for job in seen.fetch_page(REF, place, body_bytes=9).jobs}
    assert [o.id for o in puts] == [jobs[b"a"].id, jobs[b"b"].id]
    with pytest.raises(UsageError, match="keeps no priority; a job of it is given body, delay, due"):
        system.put_request(READY, [{"body": b"c", "priority": 3}])
    assert [o.word for o in seen.apply_verb("promote", REF, [jobs[b"a"], jobs[b"b"]])] == ["moved", "gone"]
    pulled = scripts.run_call(any_client, system.build_call("pull", READY, {"limit": 5}))
    assert [(job.body, job.place) for job in system.read_taken_jobs(READY, pulled)] == [
        (b"b", "ready"),
        (b"a", "ready"),
    ]
    assert keyspace.dump(any_client) == {}


# ── leaving for another queue ────────────────────────────────────────────────────────────────────────────────────────


def test_jobs_taken_by_a_migration_are_parked_until_they_are_settled(any_client: Redis) -> None:
    due = {"d": NOW_S + 0.5, "neg": -7, "far": 1e10, "ms": NOW, "never": float("inf")}
    keyspace.plant(any_client, {READY: ["a", "b", "a"], DELAYED: Zset(due)})
    first = run_script(any_client, "park", limit=2)
    assert first.rows == [(b"0 a",), (b"0 b",)]
    rows = [b"0 a", b"0 b", b"0 a", b"0 neg", b"%d d" % (NOW + 500)]
    for _again in range(2):  # a run that broke off is handed the same, first
        assert [entry for (entry,) in run_script(any_client, "park", limit=1000).rows] == rows
        assert any_client.lrange(KEYS["leaving"], 0, -1) == rows
    assert list_ready(any_client) == [] and read_delayed(any_client).keys() == {b"far", b"ms", b"never"}
    assert read_outcomes(run_script(any_client, "forget", *((row,) for row in rows), (b"0 a",))) == ["moved"] * 5 + [
        "gone"
    ]
    assert not any_client.exists(KEYS["leaving"])
    assert run_script(any_client, "park", limit=10).word == "empty"


# ── the suite would notice ───────────────────────────────────────────────────────────────────────────────────────────

PUT, TAKE = "redis.call('RPUSH', ready, unpack(due))\n", "redis.call('ZREM', delayed, unpack(due))\n"
FREE = "redis.call('ZREMRANGEBYRANK', delayed, 1, 0) -- removes nothing, but lets the drain continue over maxmemory\n"


FAULTS = (
    Planted("takes before it puts", "dispatch", PUT + TAKE, TAKE + PUT, 2),
    Planted("forgets to take", "dispatch", TAKE, "", 2),
    Planted("puts into a wrong target", "dispatch", PUT, "redis.call('RPUSH', 'stray', unpack(due))\n", 3),
    Planted("has no guard", "delete", "redis.call('LLEN', ready)\n", "", 8),
    Planted("takes what is not due", "dispatch", "string.format('%.3f', now_ms / 1000)", "'+inf'", 11),
    Planted("ignores its limit", "pull", "0, limit - 1)", "0, -1)", 11),
    Planted("drains without freeing first", "dispatch", FREE, "", 13),
    Planted("moves tasks that nobody knows", "promote", "redis.call('ZSCORE', delayed, member) and not", "not", 7),
)


@run_in_one_test("fault", FAULTS, ids=str)
def test_the_suite_catches_a_script_that(fault: Planted, client: Redis) -> None:
    assert fault.is_caught(DISPATCHER, client)


def test_a_ready_task_is_found_among_the_first_and_the_last_hundred_thousand(client: Redis) -> None:
    fill = "for _ = 1, ARGV[1] do redis.call('RPUSH', KEYS[1], 'x') end"
    client.eval(fill, 1, READY, 100_000)
    client.rpush(READY, "task")
    client.eval(fill, 1, READY, 99_999)
    asked = {"head": b"task", "size": 4, "tail": b"task", "body_bytes": 0}
    assert run_script(client, "show", **asked).word == "found", "the last but 99 999"
    client.rpush(READY, "x")
    assert run_script(client, "show", **asked).word == "gone", "in the middle"
    client.lpop(READY)
    assert run_script(client, "show", **asked).word == "found", "the first but 99 999"
