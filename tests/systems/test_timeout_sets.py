"""distributed-timeout-queue: the conformance suite, the original's faults beside our answers, and planted faults."""

from __future__ import annotations

import pytest
from families import run_in_one_test
from redis import Redis
from timeout_sets_subject import (
    NOW,
    PLACES,
    REF,
    SUSPECTS,
    SYSTEM,
    TIMEOUT_SETS,
    enqueue_items,
    read_outcomes,
    read_places,
    reap_items,
    reserve_one,
    run_in_script_gap,
    run_script,
    settle_lease,
)

from rqtui.engine.engine import Engine
from rqtui.errors import UsageError
from rqtui.scenarios.originals import timeout_sets as original
from rqtui.scripts import script as scripts
from rqtui.systems import registry
from rqtui.testing import conformance, keyspace
from rqtui.testing.conformance import Planted

DRAWS = {"reserve", "pull", "purge"}  # from sets, which have no oldest member


@pytest.mark.parametrize("script", TIMEOUT_SETS.scripts)
def test_timeout_sets(script: str, any_client: Redis) -> None:
    found = conformance.cases(TIMEOUT_SETS, [script])
    of_sets = [
        case for case in found if script not in DRAWS or case.check is not conformance.check_batch_takes_the_oldest
    ]
    conformance.run_all(of_sets, TIMEOUT_SETS, any_client)


# --- what the original does, and what rqtui does in its place ---------------------------------------------------------


def test_the_cleaner_steals_what_is_just_being_taken_and_a_reaper_waits(client: Redis) -> None:
    original.add_items(client, [7])
    cleaner = original.Cleaner(client)
    worker = original.Worker(client, pause=run_in_script_gap("moved, not locked", cleaner.step))
    assert (worker.step(), worker.successes) == ("done", 1)
    assert read_places(client)["todos"] == {b"7"}  # a success, the original says; it will run again

    taken = original.Worker(client, pause=run_in_script_gap("moved, not locked", lambda: reap_items(client, NOW)))
    assert taken.step() == "done"
    assert reap_items(client, NOW + 2500).word == "empty"
    assert read_places(client) == {"todos": set(), "in_progress": set(), "done": {b"7"}}
    assert client.zcard(SUSPECTS) == 0


def test_a_late_ack_takes_the_next_workers_lock_and_ours_is_stale(client: Redis) -> None:
    original.add_items(client, [7])
    late, next_one = original.Worker(client), original.Worker(client)
    late.take(b"7")
    client.delete("7-lock")  # time passes
    original.Cleaner(client).step()
    next_one.take(b"7")
    assert late.acknowledge(7) and not next_one.acknowledge(7)  # its worker gets the reply that it is too late

    client.delete(*PLACES)
    assert enqueue_items(client, 8) == ["moved"]
    late_job = reserve_one(client, worker="a")
    client.delete("8-lock")
    assert [reap_items(client, NOW + passed).word for passed in (0, 1900, 2000)] == ["empty", "empty", "moved"]
    assert settle_lease(client, "ack", late_job) == "stale"  # no worker holds it
    next_job = reserve_one(client, worker="b")
    before = keyspace.dump(client)
    assert [settle_lease(client, verb, late_job) for verb in ("ack", "release", "extend")] == ["stale"] * 3
    assert not keyspace.diff(before, keyspace.dump(client))
    assert settle_lease(client, "ack", next_job) == "moved" and read_places(client)["done"] == {b"8"}


def test_an_ack_that_moved_nothing_is_a_success_there_and_a_word_here(client: Redis) -> None:
    original.add_items(client, [7])
    worker = original.Worker(
        client, pause=run_in_script_gap("lock seen, not moved to done", lambda: client.delete("in_progress"))
    )
    assert worker.step() == "done" and read_places(client)["done"] == set()

    enqueue_items(client, 8)
    job = reserve_one(client)
    client.delete("in_progress")
    assert settle_lease(client, "ack", job) == "gone" and read_places(client)["done"] == set()


@pytest.mark.slow
def test_the_original_cleaner_reads_everything_and_rqtuis_reaper_walks(client: Redis) -> None:
    client.sadd("in_progress", *range(9000))
    assert original.Cleaner(client).step() == 9000  # all of them in one pass, and in one answer
    client.smove("todos", "in_progress", 1)
    client.sunionstore("in_progress", "in_progress", "todos")
    client.delete("todos")
    first = reap_items(client, NOW, limit=1000)
    assert first.values["more"] and first.values["cursor"] != "0" and 1000 < client.zcard(SUSPECTS) < 4000
    answer, calls = first, 1
    while answer.values["more"] and calls < 20:
        answer, calls = reap_items(client, NOW, limit=1000, cursor=answer.values["cursor"]), calls + 1
    assert (answer.values["cursor"], answer.values["next_ms"], client.zcard(SUSPECTS)) == ("0", 2000, 9000)
    moved = reap_items(client, NOW + 2000)
    assert (moved.values["moved"], moved.values["more"], client.scard("todos")) == (100, True, 100)


def test_a_done_item_runs_again_there_and_is_refused_here(client: Redis) -> None:
    client.sadd("done", 7)
    assert original.add_items(client, [7]) == 1 and client.sismember("done", 7)
    assert enqueue_items(client, 7) == ["exists"]
    client.srem("todos", 7)
    assert enqueue_items(client, 7, 8, 8) == ["done", "moved", "exists"]
    assert read_outcomes(run_script(client, "requeue", [{"member": "7"}])) == ["moved"]
    assert read_places(client) == {"todos": {b"7", b"8"}, "in_progress": set(), "done": set()}


def test_done_grows_for_ever_there_and_is_purged_in_chunks_here(client: Redis) -> None:
    client.sadd("done", *range(2500))
    client.sadd("todos", 1)
    assert (
        Engine(client, [SYSTEM]).apply_verb("purge", REF, form={"place": "done", "limit": 1000})[0].values["left"]
        == 1500
    )
    answers = [run_script(client, "purge", place="done", limit=1000) for _ in range(3)]
    assert [answer.word for answer in answers] == ["moved", "moved", "empty"]
    assert read_places(client)["todos"] == {b"1"}


def test_text_ends_the_originals_processes_and_ours_refuse_to_add_it(client: Redis) -> None:
    client.sadd("todos", "url1")
    with pytest.raises(ValueError, match="url1"):
        original.Worker(client).step()
    client.smove("todos", "in_progress", "url1")
    with pytest.raises(ValueError, match="url1"):
        original.Cleaner(client).step()
    assert (reap_items(client, NOW).word, reap_items(client, NOW + 2000).word) == ("empty", "moved")
    assert enqueue_items(client, "url2") == ["moved"]  # among texts it is one of them

    client.flushall()
    original.add_items(client, range(20))
    assert enqueue_items(client, "url1", "07", " 7", 21, -3) == ["refused", "refused", "refused", "moved", "moved"]
    for items, expected in (("text", ["moved"]), ("integer", ["refused"])):
        system = registry.create_system(f"timeout_sets:items={items}")
        call = system.build_call("enqueue", "todos", {}, [{"body": "url9"}])
        assert read_outcomes(scripts.run_call(client, call)) == expected


def test_a_reaper_takes_nothing_that_has_a_lock_or_was_noted_long_ago(client: Redis) -> None:
    client.sadd("in_progress", "old", "again", "held")
    client.zadd(SUSPECTS, {"old": NOW - 3_600_000, "again": NOW - 3000, "held": NOW - 3000, "gone": NOW - 3000})
    client.set("held-lock", "", px=60_000)
    assert reap_items(client, NOW).values["moved"] == 1
    assert read_places(client)["todos"] == {b"again"} and dict(client.zrange(SUSPECTS, 0, -1, withscores=True)) == {
        b"old": NOW
    }
    assert reap_items(client, NOW + 2000).values["moved"] == 1  # another reaper sees the same notes


def test_an_item_in_two_sets_is_changed_only_in_the_named_set(client: Redis) -> None:
    for place in ("in_progress", "done"):
        client.sadd(place, 7)
    assert read_outcomes(run_script(client, "requeue", [{"member": "7"}])) == ["wrong_place"]  # or two would work on it
    assert read_outcomes(run_script(client, "delete", [{"member": "7"}], place="done")) == ["moved"]
    assert read_places(client) == {"todos": set(), "in_progress": {b"7"}, "done": set()}
    client.sadd("done", 7)
    assert read_outcomes(run_script(client, "delete", [{"member": "7"}], place="in_progress")) == ["moved"]
    assert read_places(client) == {"todos": set(), "in_progress": set(), "done": {b"7"}}


def test_an_item_to_do_with_a_lock_is_left_to_whoever_works_on_it(client: Redis) -> None:
    client.sadd("todos", 1)
    client.set("1-lock", "", px=5000)
    for verb in ("reserve", "pull"):
        answer = run_script(client, verb, limit=5)
        assert answer.word == "empty" and 4000 < answer.values["next_ms"] <= 5000


def test_the_only_item_without_a_lock_is_found_among_many(client: Redis) -> None:
    client.sadd("todos", *range(101))
    for item in range(100):
        client.set(f"{item}-lock", "", px=60_000)
    for verb in ("reserve", "pull"):
        answer = run_script(client, verb, limit=1)
        assert [row[0] for row in answer.rows] == [b"100"], verb
        client.sadd("todos", 100)
        client.delete("100-lock")
    client.delete("99-lock")
    assert len(run_script(client, "pull", limit=1).rows) == 1, "one of two"


# --- the suite catches faults in these scripts ------------------------------------------------------------------------

DONE = "redis.call('SMOVE', in_progress, target, moved[i])\n"
GUARD = "redis.call('SCARD', todos) redis.call('SCARD', in_progress) redis.call('SCARD', done)"
FAULTS = (
    Planted(
        "takes before it puts",
        "ack",
        DONE,
        "redis.call('SREM', in_progress, moved[i]) redis.call('SADD', target, moved[i])\n",
        2,
    ),
    Planted("forgets to take", "ack", DONE, "redis.call('SADD', target, moved[i])\n", 2),
    Planted("brings it to a wrong target", "release", "in_progress, target, moved", "in_progress, done, moved", 2),
    Planted("writes an undeclared key", "ack", DONE, DONE + "redis.call('SET', 'stray', 1)\n", 3),
    Planted("does not ask for the token", "ack", "lock ~= token", "false", 9),
    Planted("has no guard", "ack", GUARD, "", 8),
    Planted(
        "reads an undeclared key", "reserve", "redis.call('SPOP'", "redis.call('GET', 'stray')\nredis.call('SPOP'", 10
    ),
    Planted("ignores its limit", "reap", "'LIMIT', 0, limit", "'LIMIT', 0, 1000", 11),
    Planted("locks without freeing first", "reserve", "redis.call('SPOP', todos, 0)", "", 13),
    Planted(
        "fills after freeing", "enqueue", "if #added > 0 then", "redis.call('SREM', todos, '')\nif #added > 0 then", 13
    ),
)


@run_in_one_test("fault", FAULTS, ids=str)
def test_the_suite_catches_a_script_that(fault: Planted, client: Redis) -> None:
    assert fault.is_caught(TIMEOUT_SETS, client)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("todos=a,in_progress=a,done=b", "three different keys"),
        ("todos=a,in_progress=b,done=a", "three different keys"),
        ("lock_ms=0", "lock_ms is a whole number of milliseconds from 1"),
        ("period_ms=1s", "period_ms is a whole number of milliseconds from 1"),
        ("items=bytes", "items is auto, integer or text"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(options: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        registry.create_system(f"timeout_sets:{options}")


def test_a_queue_that_is_another_of_its_sets_is_refused(client: Redis) -> None:
    system = registry.create_system("timeout_sets:in_progress=busy")
    assert system.keys("jobs")["todos"] == "jobs"
    with pytest.raises(UsageError, match="three different keys"):
        system.keys("busy")
