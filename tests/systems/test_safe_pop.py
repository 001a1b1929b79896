"""Test the system safe_pop: conformance, what rqtui shows, and how the verbs keep the order.

`test_safe_pop_original.py` tests the faults of redis-queue itself, and what rqtui does instead.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from families import run_in_one_test
from redis import Redis
from safe_pop_subject import (
    CLOCK,
    LATE,
    NOW,
    NOW_S,
    QUEUE,
    RUNNING,
    SAFE_POP,
    SCRIPTS,
    TIMEOUT_S,
    build_data_key,
    build_key,
    list_entries,
)

from rqtui.engine.engine import Engine
from rqtui.errors import Refused, UsageError
from rqtui.model import Focus, Job, Ref
from rqtui.scenarios.originals import safe_pop as original
from rqtui.scripts import script as scripts
from rqtui.scripts.script import Reply
from rqtui.systems import registry
from rqtui.systems.safe_pop import SafePop
from rqtui.testing import conformance, keyspace

REF = Ref("safe_pop", QUEUE)


@pytest.mark.parametrize("script", SAFE_POP.scripts)
def test_safe_pop(script: str, any_client: Redis) -> None:
    conformance.run_all(conformance.cases(SAFE_POP, [script]), SAFE_POP, any_client)


def system(timeout_s: int = TIMEOUT_S) -> SafePop:
    new_system = registry.create_system(f"safe_pop:queue={QUEUE},timeout_s={timeout_s}")
    assert isinstance(new_system, SafePop)
    return new_system


def engine(client: Redis) -> Engine:
    return Engine(client, [system()])


def run_script(client: Redis, name: str, rows: list[tuple[bytes, bytes]] | None = None, **args: object) -> Reply:
    script = SCRIPTS[name]
    clock = {arg.name: CLOCK[arg.name] for arg in script.args if arg.name in CLOCK}
    return scripts.run_call(
        client, script.build_call({"entries": QUEUE, "done": build_key("done")}, {**clock, **args}, rows or ())
    )


def words(answer: Reply) -> list[str]:
    return [one.word for one in answer.each]


def push(client: Redis, *pushed: str) -> None:
    """Push entries to a list. The first is popped first."""
    client.lpush(QUEUE, *pushed)


# --- looking --------------------------------------------------------------------------------------------------------


def test_one_list_is_shown_as_three_places_in_the_order_of_its_pops(any_client: Redis) -> None:
    now_s = int(time.time())
    push(any_client, "a", f"b|{now_s}", f"c|{now_s - 60}", "d")
    any_client.set(build_data_key(b"d"), b"the body of d")
    own_engine = engine(any_client)
    ready, running, expired = (own_engine.fetch_page(REF, place, body_bytes=100).jobs for place in SAFE_POP.places)
    assert [(job.id, job.body, job.token) for job in ready] == [(b"a", b"a", b""), (b"d", b"the body of d", b"")]
    assert [(job.id, job.token, job.deadline_ms) for job in running] == [
        (b"b", b"b|%d" % now_s, (now_s + TIMEOUT_S + 1) * 1000)
    ]
    assert [(job.id, job.state, job.reserved_ms) for job in expired] == [(b"c", "reserved", (now_s - 60) * 1000)]
    (queue,) = own_engine.take_snapshot(focus_on_queue()).queues
    assert [(count.place, count.count, count.is_exact) for count in queue.counts] == [
        ("ready", 2, True),
        ("in_progress", 1, True),
        ("expired", 1, True),
    ]
    assert queue.workers is None and queue.expired == 1 and (queue.next_expiry_ms or 0) < 0


def focus_on_queue() -> object:
    from rqtui.model import Focus

    return Focus(queues=(REF,))


def test_a_job_is_shown_by_its_id_and_by_its_entry(any_client: Redis) -> None:
    push(any_client, "a", f"b|{RUNNING}")
    own_engine = engine(any_client)
    by_id, by_entry = own_engine.fetch_job(REF, b"b"), own_engine.fetch_job(REF, b"b|%d" % RUNNING)
    assert by_id == by_entry and by_id is not None and by_id.token == b"b|%d" % RUNNING
    assert own_engine.fetch_job(REF, b"nobody") is None
    for body_bytes, shown in ((0, b""), (1, b"b")):
        assert run_script(any_client, "show", id=b"b", body_bytes=body_bytes).values["body"] == shown, (
            "up to so many bytes"
        )


def test_a_list_of_a_thousand_entries_is_counted_whole(client: Redis) -> None:
    push(client, *(f"w{n}" for n in range(1000)))
    assert run_script(client, "counts").values["exact"] is True
    push(client, "one-more")
    assert run_script(client, "counts").values["exact"] is False


def test_a_long_list_is_sampled_and_reports_it(client: Redis) -> None:
    push(client, *(f"old-{n}" for n in range(5000)), *(f"new-{n}" for n in range(5000)))
    client.lpush(QUEUE, *(f"held-{n}|{RUNNING}" for n in range(40)))
    client.rpush(QUEUE, *(f"late-{n}|{LATE}" for n in range(7)))
    found = run_script(client, "counts").values
    assert (found["ready"], found["in_progress"], found["expired"], found["exact"]) == (10_000, 40, 7, False)
    page = run_script(client, "page", place="ready", offset=0, limit=3, body_bytes=0)
    assert [row[0] for row in page.rows] == [b"old-0", b"old-1", b"old-2"]
    assert page.values["of"] == 10_000 and page.values["total"] == 5000 - 47
    last = run_script(client, "page", place="ready", offset=-1, limit=2, body_bytes=0)
    assert [row[0] for row in last.rows] == [b"new-4998", b"new-4999"]
    assert len(run_script(client, "page", place="in_progress", offset=0, limit=100, body_bytes=0).rows) == 40
    assert run_script(client, "show", id=b"old-4990", body_bytes=0).word == "found"


def test_a_long_list_is_counted_by_its_ends_and_five_blocks_between_them(client: Redis) -> None:
    push(client, *["w"] * 2000)
    for index, number in (
        (249, 1), (250, 3), (349, 3), (350, 0), (599, 0), (600, 3), (699, 3), (700, 0), (1649, 0), (1650, 3), (1749, 3),
        (1750, 1),
    ):  # fmt: skip
        client.lset(QUEUE, index, f"held|{RUNNING}")
        assert run_script(client, "counts").values["in_progress"] == number, index
        client.lset(QUEUE, index, "w")
    client.delete(QUEUE)
    push(client, *[f"held|{RUNNING}"] * 2000)
    assert run_script(client, "counts").values["in_progress"] == 2000


def test_a_lease_is_searched_from_both_ends_and_other_entries_of_its_id_near_them(client: Redis) -> None:
    token = b"a|%d" % RUNNING
    fill = "for _ = 1, ARGV[2] do redis.call(ARGV[1], KEYS[1], 'w') end"
    client.rpush(QUEUE, token)
    client.eval(fill, 1, QUEUE, "LPUSH", 100_000)
    client.eval(fill, 1, QUEUE, "RPUSH", 100_000)
    assert words(run_script(client, "release", [(b"a", token)])) == ["gone"], "in the middle"
    client.lpop(QUEUE)
    assert words(run_script(client, "release", [(b"a", token)])) == ["moved"]
    client.delete(QUEUE)
    push(client, *["w"] * 5001)
    for index, word in ((2499, "stale"), (2500, "gone"), (2501, "stale")):
        client.lset(QUEUE, index, "a")
        assert words(run_script(client, "release", [(b"a", token)])) == [word]
        client.lset(QUEUE, index, "w")
    client.ltrim(QUEUE, 2, -1)
    for index in (2499, 2500):  # each entry of a shorter list is counted once
        client.lset(QUEUE, index, "a")
        client.set(build_data_key(b"a"), "body")
        assert words(run_script(client, "release", [(b"a", token)])) == ["stale"]
        assert words(run_script(client, "delete", [(b"a", b"a")])) == ["moved"]
        assert not client.exists(build_data_key(b"a"))
        push(client, "w")


def test_a_list_of_five_thousand_entries_is_read_whole(client: Redis) -> None:
    push(client, *["w"] * 2500, f"a|{RUNNING}", *["w"] * 2499)
    for is_whole in (True, False):
        page = run_script(client, "page", place="in_progress", offset=0, limit=9, body_bytes=0)
        assert [row[0] for row in page.rows] == [b"a"] * is_whole
        assert run_script(client, "show", id=b"a", body_bytes=0).word == ("found" if is_whole else "gone")
        push(client, "w")
        ready = run_script(client, "page", place="ready", offset=0, limit=1, body_bytes=0)
        assert (ready.values["total"], ready.values["of"]) == (5000, 5001 if is_whole else 5002)
    client.delete(QUEUE)
    push(client, *["w"] * 5001)
    for index, is_read in ((2499, True), (2500, False), (2501, True)):
        client.lset(QUEUE, index, f"b|{RUNNING}")
        assert run_script(client, "show", id=b"b", body_bytes=0).word == ("found" if is_read else "gone"), index
        client.lset(QUEUE, index, "w")


def test_a_ready_job_is_searched_among_the_next_two_hundred_thousand(client: Redis) -> None:
    fill = "for _ = 1, ARGV[1] do redis.call('LPUSH', KEYS[1], 'w') end"
    client.rpush(QUEUE, "a")
    client.eval("for _ = 1, 199999 do redis.call('RPUSH', KEYS[1], 'w') end", 1, QUEUE)
    client.eval(fill, 1, QUEUE, 2500)
    assert run_script(client, "show", id=b"a", body_bytes=0).word == "found"
    client.rpush(QUEUE, "w")
    assert run_script(client, "show", id=b"a", body_bytes=0).word == "gone"


def test_a_long_name_and_a_long_entry_are_cut(client: Redis) -> None:
    for size, name in ((512, b"x" * 512), (513, b"x" * 256 + b"...513"), (4097, b"x" * 256 + b"...4097")):
        client.delete(QUEUE)
        push(client, "x" * size)
        (row,) = run_script(client, "page", place="ready", offset=0, limit=1, body_bytes=0).rows
        assert (row[0], len(row[1]), row[2]) == (name, min(4096, size), size)
        shown = run_script(client, "show", id=name, body_bytes=0).values
        assert (shown["id"], len(shown["member"]), shown["size"]) == (name, min(4096, size), size)
    client.lset(QUEUE, 0, "|" * 257)
    assert [row[2] for row in run_script(client, "faults").rows] == [b"|" * 256]


def test_the_next_thousand_entries_are_searched_for_a_job_to_take(client: Redis) -> None:
    for held, word in ((999, "moved"), (1000, "empty")):
        for verb in ("pull", "reserve"):
            client.delete(QUEUE)
            push(client, *(f"held{n}|{RUNNING}" for n in range(held)), "a")
            assert run_script(client, verb, limit=1).word == word, verb


def test_a_step_of_a_reaper_reads_four_thousand_entries(client: Redis) -> None:
    for ahead, word in ((3999, "moved"), (4000, "empty")):
        client.delete(QUEUE)
        push(client, *["w"] * ahead, f"late|{LATE}", "w")
        assert run_script(client, "reap", limit=1).word == word


def test_a_new_id_is_compared_with_five_hundred_entries_at_each_end(client: Redis) -> None:
    client.rpush(QUEUE, *(f"w{n}" for n in range(999)))
    assert words(run_script(client, "enqueue", [(b"w500", b"")])) == ["exists"]
    client.rpush(QUEUE, "w999", "w1000")
    rows = [(b"w499", b""), (b"a body", b"w500"), (b"w501", b"")]
    assert words(run_script(client, "enqueue", rows)) == ["exists", "moved", "exists"]
    assert 86_399_000 < client.pttl(build_data_key(b"w500")) <= 86_400_000


def test_a_running_job_before_all_others_is_found_at_the_end_of_any_list(client: Redis) -> None:
    for length in (999, 1000, 1001, 1002):
        client.delete(QUEUE)
        push(client, f"held|{RUNNING}", *(f"w{n}" for n in range(length - 1)))
        rows = run_script(client, "faults").rows
        assert [(row[0], row[3]) for row in rows] == [("stalled", min(length, 1000) - 1)]


def test_a_body_of_30_mb_leaves_the_page_small(client: Redis) -> None:
    push(client, "big", "small")
    client.set(build_data_key(b"big"), b"x" * 30_000_000)
    page = engine(client).fetch_page(REF, "ready", body_bytes=100)
    assert [(job.id, job.body_bytes, len(job.body or b"")) for job in page.jobs] == [
        (b"big", 30_000_000, 100),
        (b"small", 5, 5),
    ]
    left_out = engine(client).fetch_job(REF, b"big")
    assert left_out is not None and left_out.body is None and left_out.body_bytes == 30_000_000


@pytest.mark.slow
def test_an_entry_of_30_mb_is_cut_and_fetched_before_a_verb_acts_on_it(client: Redis) -> None:
    push(client, "x" * 30_000_000, "small")
    own_engine = engine(client)
    long, small = own_engine.fetch_page(REF, "ready", body_bytes=100).jobs
    assert long.is_partial and len(long.member) == 4096 and len(long.id) < 300 and long.body_bytes == 30_000_000
    assert [outcome.word for outcome in own_engine.apply_verb("delete", REF, [long])] == ["moved"]
    assert client.lrange(QUEUE, 0, -1) == [small.member]


@run_in_one_test("entry", ["", "|", "a|b", "a|", "|1700000000", "a|1700000000|c", "a|-5", "a|1700000000123"])
def test_a_job_that_its_workers_cannot_read_is_shown_with_a_problem_and_never_taken(
    entry: str, any_client: Redis
) -> None:
    push(any_client, entry, "sound")
    own_engine = engine(any_client)
    broken, sound = own_engine.fetch_page(REF, "ready", body_bytes=100).jobs
    assert "dies" in broken.problem and broken.member == entry.encode() and not sound.problem
    for verb in ("reserve", "pull", "reap"):
        run_script(any_client, verb, limit=10)
        assert entry.encode() in list_entries(any_client)
    assert run_script(any_client, "faults").rows[0][0] == "undecodable"
    job = own_engine.fetch_job(REF, broken.id)
    assert job is not None and job.member == broken.member
    assert [outcome.word for outcome in own_engine.apply_verb("delete", REF, [job])] == ["moved"]
    assert entry.encode() not in list_entries(any_client)


def test_data_of_another_type_is_a_problem_of_that_job_alone(any_client: Redis) -> None:
    push(any_client, "a", "b")
    any_client.rpush(build_data_key(b"a"), "another program's")
    first, second = engine(any_client).fetch_page(REF, "ready", body_bytes=10).jobs
    assert (first.problem, first.body_bytes) == ("its data is no string", 0) and second.body == b"b"
    shown = run_script(any_client, "show", id=b"a", body_bytes=-1).values
    assert (shown["bytes"], shown["body"]) == (-1, b"")
    (taken,) = run_script(any_client, "reserve", limit=1).rows
    assert words(run_script(any_client, "ack", [(b"a", taken[1])])) == ["moved"]
    assert any_client.lrange(build_data_key(b"a"), 0, -1) == [b"another program's"]


def test_an_empty_body_that_is_kept_is_no_missing_one(any_client: Redis) -> None:
    push(any_client, "empty", "own")
    any_client.set(build_data_key(b"empty"), "")
    rows = {
        row[0]: (row[4], row[5])
        for row in run_script(any_client, "page", place="ready", offset=0, limit=9, body_bytes=-1).rows
    }
    assert rows == {b"empty": (0, b""), b"own": (3, b"own")}
    for id, found in rows.items():
        shown = run_script(any_client, "show", id=id, body_bytes=-1).values
        assert (shown["bytes"], shown["body"]) == found


def test_a_search_for_faults_reads_all_of_a_thousand_entries_else_five_hundred_at_each_end(client: Redis) -> None:
    for length, own_engine, found in ((999, 999, 3), (1000, 1000, 3), (1001, 1000, 2), (2000, 1000, 2)):
        client.delete(QUEUE, build_key("done"))
        push(client, *["a|b" if n in (0, 500, length - 1) else str(n) for n in range(length)])
        client.sadd(build_key("done"), "mark")
        answer = run_script(client, "faults")
        rows = {row[0]: row[3] for row in answer.rows}
        assert (answer.values["looked"], rows["undecodable"]) == (own_engine, found)
        assert ("orphan_done_mark" in rows) is (length <= 1000)


def test_a_set_that_is_called_by_the_ending_alone_creates_no_queue_without_a_name(client: Redis) -> None:
    client.lpush("", "a")
    client.lpush("q", "a")
    client.sadd(":done", "b")
    client.sadd("q:done", "b")
    assert registry.create_system("safe_pop").find_queues_of_keys(client, [b":done", b"q:done"]) == ["q"]


def test_a_list_of_another_type_is_reported_in_a_sentence(client: Redis) -> None:
    client.set(QUEUE, "another program's")
    (queue,) = engine(client).take_snapshot(focus_on_queue()).queues
    assert QUEUE in queue.error and "string" in queue.error


# --- options and discovery ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", ["timeout_s=0", "timeout_s=soon", "timeout_s=1.5", "timeout_s=-3", "lock_ms=5"])
def test_an_option_that_makes_no_sense_is_refused_in_a_sentence(spec: str) -> None:
    with pytest.raises(UsageError, match="system safe_pop"):
        registry.create_system(f"safe_pop:{spec}")


def test_a_queue_without_a_name_is_refused() -> None:
    with pytest.raises(UsageError, match="name it"):
        registry.create_system("safe_pop").keys("")


def test_each_queue_has_the_timeout_of_its_own_system_option(any_client: Redis) -> None:
    now_s = int(time.time())
    both = registry.create_system("safe_pop:queue=quick,timeout_s=5", "safe_pop:queue=slow,timeout_s=600")
    for queue in ("quick", "slow"):
        any_client.lpush(queue, f"a|{now_s - 60}")
    own_engine = Engine(any_client, [both])
    assert [
        job.place for queue in ("quick", "slow") if (job := own_engine.fetch_job(Ref("safe_pop", queue), b"a"))
    ] == [
        "expired",
        "in_progress",
    ]


def test_a_verb_takes_a_whole_place_however_long_the_list(client: Redis) -> None:
    push(client, "twin", *(f"w{n}" for n in range(7000)), "twin", f"late|{LATE}", "twin", "twin")
    own_engine = engine(client)
    moved = [outcome.moved for chunk in own_engine.apply_verb_to_place("delete", REF, "ready") for outcome in chunk]
    assert sum(moved) == 7004 and list_entries(client) == [b"late|%d" % LATE]


def discover_queues(client: Redis, made: SafePop) -> list[str]:
    own_engine = Engine(client, [made])
    return sorted({ref.queue for chunk in own_engine.discover() for ref in chunk})


def test_done_marks_beside_a_list_reveal_a_queue(any_client: Redis) -> None:
    keyspace.plant(
        any_client,
        {
            "mail": ["1"],
            "mail:done": {"2"},
            "drained:done": {"3"},
            "crawl:todos": {"4"},
            "no:done": ["a list"],
            "n": ["1"],
            "taken": "a string",
            "taken:done": {"5"},
        },
    )
    unasked, asked = SafePop(is_asked=False), SafePop({"queue": "named"})
    assert discover_queues(any_client, unasked) == ["mail"]
    assert discover_queues(any_client, asked) == ["drained", "mail", "named", "taken"]
    assert unasked.has_queue(any_client, "mail") and not unasked.has_queue(any_client, "n")
    assert asked.has_queue(any_client, "n") and asked.has_queue(any_client, "named")
    assert asked.has_queue(any_client, "taken") and not unasked.has_queue(any_client, "taken")
    (taken,) = Engine(any_client, [asked]).take_snapshot(Focus(queues=(Ref("safe_pop", "taken"),))).queues
    assert "taken holds a string" in taken.error and [each.kind for each in taken.findings] == ["wrong-type"]
    assert not asked.has_queue(any_client, "crawl:todos") and not asked.has_queue(any_client, "nobody")


# --- changing -------------------------------------------------------------------------------------------------------


def test_new_jobs_get_a_uuid_and_data_for_a_day_or_are_their_own_body(any_client: Redis) -> None:
    own_engine = engine(any_client)
    rows: list[dict[str, object]] = [{"body": b"hello"}, {"body": b"url1", "id": "url1"}, {"body": b"x", "id": "j1"}]
    outcomes = own_engine.send_request(own_engine.systems["safe_pop"].put_request(QUEUE, rows))
    uuid = outcomes[0].id
    assert list_entries(any_client) == [uuid, b"url1", b"j1"] and len(uuid) == 36
    assert any_client.get(build_data_key(uuid)) == b"hello" and 86_000 < any_client.ttl(build_data_key(uuid)) <= 86_400
    assert not any_client.exists(build_data_key(b"url1"))
    again = own_engine.send_request(own_engine.systems["safe_pop"].put_request(QUEUE, rows[1:]))
    assert [outcome.word for outcome in again] == ["exists", "exists"]
    (formed,) = own_engine.apply_verb("enqueue", REF, (), {"body": b"by a form"})
    assert formed.word == "moved" and any_client.llen(QUEUE) == 4


def test_an_id_with_a_bar_is_refused_before_anything_is_written(any_client: Redis) -> None:
    with pytest.raises(UsageError, match=r"\|"):
        system().put_request(QUEUE, [{"body": b"x", "id": "a|b"}])
    with pytest.raises(Refused, match="nothing was changed"):
        run_script(any_client, "enqueue", [(b"x", b"good"), (b"a|b", b"")])
    assert not any_client.keys()


def test_an_empty_body_is_refused_since_the_original_throws_such_a_job_away(any_client: Redis) -> None:
    original.push_message_id(any_client, QUEUE, b"j1")
    any_client.set(build_data_key(b"j1"), b"")
    worker = original.Worker(any_client, QUEUE, lambda _id, _message: pytest.fail("it ran"))
    assert worker.step() == "discarded"
    before, own_engine = keyspace.dump(any_client), engine(any_client)
    with pytest.raises(UsageError, match="a body is not empty"):
        system().put_request(QUEUE, [{"body": b"good"}, {"body": b""}])
    with pytest.raises(UsageError, match="a body is not empty"):
        own_engine.apply_verb("enqueue", REF, (), {"body": ""})
    assert not keyspace.diff(before, keyspace.dump(any_client))


def test_at_its_bound_reserve_rotates_what_is_running_so_that_fresh_ones_get_their_turn(any_client: Redis) -> None:
    push(any_client, *(f"held-{n}|{RUNNING}" for n in range(1500)), "fresh")
    before = sorted(list_entries(any_client))
    first = run_script(any_client, "reserve", limit=1)
    assert first.word == "empty" and first.values["next_ms"] <= 10
    assert sorted(list_entries(any_client)) == before
    assert (
        list_entries(any_client)[0] == b"held-1000|%d" % RUNNING
        and list_entries(any_client)[-1] == b"held-999|%d" % RUNNING
    )
    assert [row[0] for row in run_script(any_client, "reserve", limit=1).rows] == [b"fresh"]


def test_a_reserved_entry_is_never_the_twin_of_another(any_client: Redis) -> None:
    push(any_client, "a", "a", f"b|{NOW_S}", "b")
    taken = run_script(any_client, "reserve", limit=10).rows
    assert [row[1] for row in taken] == [b"a|%d" % NOW_S]
    assert sorted(list_entries(any_client)) == sorted([b"a", b"a|%d" % NOW_S, b"b", b"b|%d" % NOW_S])


def test_a_twin_is_searched_among_the_first_and_the_last_thousand_entries(client: Redis) -> None:
    for behind, word in ((0, "empty"), (999, "empty"), (1000, "moved")):
        client.delete(QUEUE)
        held = [f"held-{n}|{RUNNING}" for n in range(999 + behind)]
        push(client, "a", *held[:999], f"a|{NOW_S}", *held[999:])
        assert run_script(client, "reserve", limit=1).word == word, behind


def test_a_cursor_of_a_reaper_has_up_to_13_digits(client: Redis) -> None:
    push(client, "a")
    assert run_script(client, "reap", limit=1, cursor=10**13 - 1).word == "empty"
    with pytest.raises(Refused):
        run_script(client, "reap", limit=1, cursor=10**13)


def test_a_reserve_that_takes_nothing_sends_no_command_that_writes(client: Redis) -> None:
    push(client, f"a|{RUNNING}")
    client.config_resetstat()
    assert run_script(client, "reserve", limit=1).word == "empty"
    assert not {"cmdstat_ltrim", "cmdstat_lpush", "cmdstat_lrem", "cmdstat_srem"} & {*client.info("commandstats")}


def test_next_ms_is_the_time_until_the_next_lease_is_over(any_client: Redis) -> None:
    push(any_client, f"a|{NOW_S - 10}", f"b|{NOW_S - 20}")
    over_in_ms = (TIMEOUT_S - 20 + 1) * 1000
    before = keyspace.dump(any_client)
    for verb in ("reserve", "reap"):
        assert run_script(any_client, verb, limit=10).values["next_ms"] == over_in_ms
    assert keyspace.dump(any_client) == before
    assert run_script(any_client, "reserve", limit=10, now_ms=NOW + over_in_ms - 1).word == "empty"
    assert [row[0] for row in run_script(any_client, "reserve", limit=10, now_ms=NOW + over_in_ms).rows] == [b"b"]


LAST_RUNNING_MS = (NOW_S + TIMEOUT_S + 1) * 1000 - 1  # the last millisecond of a lease that began at NOW_S


@pytest.mark.parametrize(
    ("verb", "rows", "args"),
    [
        ("pull", [], {"limit": 10}),
        ("reap", [], {"limit": 10}),
        ("reserve", [], {"limit": 10}),
        ("delete", [(b"a", b"a|%d" % NOW_S)], {}),
    ],
)
def test_every_verb_takes_a_job_when_its_lease_is_over_and_not_a_millisecond_before(
    verb: str, rows: list[tuple[bytes, bytes]], args: dict[str, object], any_client: Redis
) -> None:
    push(any_client, f"a|{NOW_S}")
    before = keyspace.dump(any_client)
    run_script(any_client, verb, rows, now_ms=LAST_RUNNING_MS, **args)
    assert keyspace.dump(any_client) == before
    run_script(any_client, verb, rows, now_ms=LAST_RUNNING_MS + 1, **args)
    assert keyspace.dump(any_client) != before


@pytest.mark.parametrize(("now_ms", "place"), [(LAST_RUNNING_MS, "in_progress"), (LAST_RUNNING_MS + 1, "expired")])
def test_every_reader_shows_a_job_as_expired_when_its_lease_is_over(now_ms: int, place: str, any_client: Redis) -> None:
    push(any_client, f"a|{NOW_S}")
    counted = run_script(any_client, "counts", now_ms=now_ms).values
    assert counted[place] == counted["in_progress"] + counted["expired"] == 1
    assert run_script(any_client, "show", id=b"a", body_bytes=-1, now_ms=now_ms).values["place"] == place
    for each in ("in_progress", "expired"):
        page = run_script(any_client, "page", place=each, offset=0, limit=10, body_bytes=-1, now_ms=now_ms)
        assert len(page.rows) == (each == place)


def test_released_and_reaped_jobs_are_popped_next_in_their_order(any_client: Redis) -> None:
    push(any_client, "w", f"a|{RUNNING}", f"x|{LATE}", f"y|{LATE + 1}", f"b|{RUNNING}")
    assert (
        words(run_script(any_client, "release", [(b"a", b"a|%d" % RUNNING), (b"b", b"b|%d" % RUNNING)]))
        == ["moved"] * 2
    )
    assert list_entries(any_client)[:3] == [b"a", b"b", b"w"]
    reaped = run_script(any_client, "reap", limit=10)
    assert (reaped.values["moved"], reaped.values["ready"], reaped.values["cursor"]) == (2, 2, 0)
    assert list_entries(any_client) == [b"x", b"y", b"a", b"b", b"w"]


def test_reap_walks_through_a_long_list_by_its_cursor(any_client: Redis) -> None:
    push(any_client, *(f"w{n}" for n in range(9000)))
    any_client.linsert(QUEUE, "BEFORE", "w6500", f"late|{LATE}")
    cursor, moved = 0, 0
    for _ in range(3):
        answer = run_script(any_client, "reap", limit=100, cursor=cursor)
        cursor = answer.values["cursor"]
        moved += answer.values.get("moved", 0)
    assert (moved, cursor) == (1, 0)
    assert list_entries(any_client)[0] == b"late" and any_client.llen(QUEUE) == 9001


def test_extending_gives_a_new_token_and_ends_the_old_one(any_client: Redis) -> None:
    push(any_client, f"a|{RUNNING}")
    (longer,) = run_script(any_client, "extend", [(b"a", b"a|%d" % RUNNING)], ttr_ms=90_000).each
    assert list_entries(any_client) == [longer.values["token"]] == [b"a|%d" % (NOW_S + 60)]
    assert longer.values["deadline_ms"] == (NOW_S + 91) * 1000
    assert words(run_script(any_client, "ack", [(b"a", b"a|%d" % RUNNING)])) == ["stale"]
    assert words(run_script(any_client, "ack", [(b"a", longer.values["token"])])) == ["moved"]
    assert not any_client.keys()


def test_a_held_job_is_deleted_only_with_force(any_client: Redis) -> None:
    push(any_client, f"a|{RUNNING}", "b", f"b|{LATE}")
    any_client.set(build_data_key(b"b"), "shared")
    row = [(b"a", b"a|%d" % RUNNING)]
    assert words(run_script(any_client, "delete", row)) == ["reserved"]
    assert words(run_script(any_client, "delete", row, force=True)) == ["moved"]
    assert words(run_script(any_client, "delete", [(b"b", b"b|%d" % LATE)])) == ["moved"]
    assert any_client.get(build_data_key(b"b")) == b"shared"
    assert words(run_script(any_client, "delete", [(b"b", b"b")])) == ["moved"]
    assert not any_client.keys()


def test_a_pulled_job_takes_its_data_along(any_client: Redis) -> None:
    push(any_client, "a", f"b|{LATE}", f"marked|{RUNNING}")
    any_client.set(build_data_key(b"a"), "body")
    any_client.sadd(build_key("done"), "marked")
    pulled = run_script(any_client, "pull", limit=10)
    jobs: tuple[Job, ...] = system().read_taken_jobs(QUEUE, pulled)
    assert [(job.id, job.body, job.token) for job in jobs] == [(b"a", b"body", b""), (b"b", b"b", b"")]
    assert not any_client.keys()


BROKEN: dict[str, dict[str, object]] = {
    "reserve": {"limit": 0},
    "pull": {"limit": 1001},
    "reap": {"limit": 0},
    "page": {"place": "ready", "offset": 0, "limit": 0, "body_bytes": 0},
    "extend": {"ttr_ms": -5},
}


@pytest.mark.parametrize("verb", BROKEN)
def test_arguments_out_of_range_change_nothing(verb: str, any_client: Redis) -> None:
    push(any_client, "a", f"b|{LATE}")
    before = keyspace.dump(any_client)
    rows: Callable[[], list[tuple[bytes, bytes]]] = lambda: [(b"b", b"b|%d" % LATE)] if verb == "extend" else []  # noqa: E731
    with pytest.raises(Refused):
        run_script(any_client, verb, rows(), **BROKEN[verb])
    assert keyspace.dump(any_client) == before


def test_text_behind_a_bar_is_a_lease_only_if_it_is_a_time(any_client: Redis) -> None:
    """A time has up to eleven digits, and an id is before it; any other entry is a job of that name."""
    entries = [b"a|99999999999", b"b|999999999999", b"|1700000000", b"c|", b"d|17x", b"e|1|1700000000"]
    any_client.rpush("crawl", *entries)
    own_engine = engine(any_client)
    of = {
        place: {job.id for job in own_engine.fetch_page(REF, place, 0, 10).jobs}
        for place in ("ready", "in_progress", "expired")
    }
    assert of["ready"] == {b"b|999999999999", b"|1700000000", b"c|", b"d|17x", b"e|1|1700000000"}
    assert of["in_progress"] | of["expired"] == {b"a"}
    refused = [(b"b|999999999999", b"b|999999999999"), (b"|1700000000", b"|1700000000")]
    assert "moved" not in words(run_script(any_client, "release", refused))
    assert any_client.lrange("crawl", 0, -1) == entries
