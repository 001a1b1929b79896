"""distributed-timeout-queue as a person sees it: leases, samples, findings, bad input, discovery; a shared run."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter

import pytest
from families import run_in_one_test
from redis import Redis
from shell import shell
from timeout_sets_subject import (
    NOW,
    PLACES,
    REF,
    SUSPECTS,
    SYSTEM,
    enqueue_items,
    read_outcomes,
    read_places,
    reap_items,
    reserve_one,
    run_script,
)

from rqtui.connection.connect import connect
from rqtui.engine.engine import Engine, build_engine
from rqtui.engine.loops import Loop, build_round
from rqtui.errors import UsageError
from rqtui.model import Focus, Ref
from rqtui.scenarios.originals import timeout_sets as original
from rqtui.scripts import script as scripts
from rqtui.systems import registry
from rqtui.systems.timeout_sets import TimeoutSets

# --- what is shown ----------------------------------------------------------------------------------------------------


def test_a_lease_is_seen_with_its_worker_and_counts_down(client: Redis) -> None:
    enqueue_items(client, 1, 2, 3)
    engine = Engine(client, [SYSTEM])
    mine = reserve_one(client, worker="box-7 π", ttr_ms=30_000)
    original.Worker(client, lock_ms=20_000).take(next(iter(read_places(client)["todos"])))
    client.smove("todos", "in_progress", next(iter(read_places(client)["todos"])))  # one that was never locked
    page = engine.fetch_page(REF, "in_progress")
    shown = {job.id: job for job in page.jobs}
    queue = engine.take_snapshot(Focus(queues=(REF,))).find_queue(REF)
    now_ms = queue.counted_ms
    assert [queue.count_in_place(place) for place in PLACES] == [0, 3, 0]
    job = shown.pop(mine.id)
    assert (job.token, job.worker, job.state, job.body) == (mine.token, "box-7 π", "reserved", mine.id)
    assert 25_000 < job.deadline_ms - now_ms <= 30_000 and abs(job.reserved_ms - now_ms) < 5000
    held, lost = sorted(shown.values(), key=lambda job: -job.deadline_ms)
    assert held.token == b"" and 0 < held.deadline_ms - now_ms <= 20_000 and lost.deadline_ms < now_ms
    assert engine.fetch_job(REF, mine.id).token == mine.token and engine.fetch_job(REF, b"nobody") is None
    assert [engine.apply_verb("ack", REF, [each])[0].word for each in (job, held, lost)] == ["moved"] * 3
    assert engine.apply_verb("ack", REF, [job])[0].word == "done"


def test_items_noted_by_reapers_count_as_expired(client: Redis) -> None:
    client.sadd("in_progress", "a", "b")
    client.set("b-lock", "", px=60_000)
    client.zadd(SUSPECTS, {"a": NOW, "b": NOW - 1, "c": NOW - 2})
    queue = Engine(client, [SYSTEM]).take_snapshot(Focus(queues=(REF,))).find_queue(REF)
    assert (queue.expired, queue.next_expiry_ms, queue.workers) == (1, NOW - queue.counted_ms, None)


def test_of_the_notes_of_reapers_the_first_hundred_are_checked(client: Redis) -> None:
    for number, expired in ((100, 0), (101, 1)):
        client.zadd(SUSPECTS, {f"gone{n}": NOW for n in range(number)})
        assert run_script(client, "counts").values["expired"] == expired
    client.sadd("in_progress", *(f"gone{n}" for n in range(101)))
    assert run_script(client, "counts").values["expired"] == 101


def test_an_item_without_a_lock_is_moved_two_seconds_to_a_minute_after_its_note(client: Redis) -> None:
    for ago_ms, moved, score in ((1999, 0, NOW - 1999), (2000, 1, None), (60_000, 1, None), (60_001, 0, NOW)):
        client.flushall()
        client.sadd("in_progress", "a")
        client.zadd(SUSPECTS, {"a": NOW - ago_ms})
        assert reap_items(client, NOW).values.get("moved", 0) == moved
        assert client.zscore(SUSPECTS, "a") == score


def test_a_reaper_walks_on_at_once_through_up_to_twenty_thousand_items(client: Redis) -> None:
    fill = "for n = 1, 20000 do redis.call('SADD', KEYS[1], n) redis.call('SET', n .. '-lock', '') end"
    client.eval(fill, 1, "in_progress")
    for more in (True, False):
        answer = run_script(client, "reap", limit=1)
        assert (answer.word, bool(answer.values["more"])) == ("empty", more)
        client.sadd("in_progress", 20_001)
        client.set("20001-lock", "")


def test_a_search_for_faults_draws_three_hundred_items_of_each_set(client: Redis) -> None:
    for place in PLACES:
        client.sadd(place, *(f"{place}{number}" for number in range(301)))
    assert run_script(client, "faults").values["looked"] == 900
    client.flushall()
    client.sadd("in_progress", b"x" * 4097)
    assert [(row[0], len(row[2])) for row in run_script(client, "faults").rows] == [("lost_lock", 4096)]


def test_a_long_item_is_cut_in_a_page_and_for_one_item(client: Redis) -> None:
    for size, body_bytes, shown in ((4096, 0, 4096), (4097, 0, 4096), (5000, 5000, 5000), (5001, 5000, 4096)):
        client.delete("todos")
        client.sadd("todos", b"x" * size)
        (row,) = run_script(client, "page", place="todos", limit=1, body_bytes=body_bytes, cursor="0").rows
        assert (len(row[0]), row[1], len(row[2])) == (shown, size, 64)
        found = run_script(client, "show", head=b"x", size=size, tail=b"x", body_bytes=body_bytes).values
        assert (len(found["head"]), found["size"], len(found["tail"])) == (shown, size, 64)


def test_rows_stay_where_they_are_and_the_sample_fills_up_at_its_end(any_client: Redis) -> None:
    client = any_client
    client.sadd("todos", *range(3000))
    engine = Engine(client, [registry.create_system("timeout_sets")])
    ids = [job.id for job in engine.fetch_page(REF, "todos", 0, 20).jobs]
    assert len(set(ids)) == 20
    client.sadd("todos", *range(5000, 6000))
    client.srem("todos", ids[3], ids[10])
    after = [job.id for job in engine.fetch_page(REF, "todos", 0, 20).jobs]
    assert after[:18] == [id for id in ids if id not in (ids[3], ids[10])] and len(set(after)) == 20
    for _ in range(3):  # what came while it walked, it meets the next time
        met, offset = [], 0
        while offset is not None:
            page = engine.fetch_page(REF, "todos", offset, 300)
            met, offset = met + [job.id for job in page.jobs], page.next
    assert set(met) == read_places(client)["todos"] and len(met) == page.total == 3998
    assert page.place_total is None and met[:20] == after
    assert [job.id for job in engine.fetch_page(REF, "todos", -1, 10).jobs] == met[-10:]
    client.delete("todos")
    assert engine.fetch_page(REF, "todos", 0, 20).jobs == () and engine.fetch_page(REF, "todos", -1, 20).total == 0


@pytest.mark.slow
def test_ten_thousand_items_of_a_large_set_can_be_listed_and_all_changed(client: Redis) -> None:
    client.sadd("done", *range(12_500))
    engine = Engine(client, [registry.create_system("timeout_sets")])
    page = engine.fetch_page(REF, "done", 9000, 50)  # a person jumps
    while len(page.jobs) < 50:
        page = engine.fetch_page(REF, "done", 9000, 50)
    assert (page.total, page.place_total, len(page.jobs)) == (10_000, 12_500, 50)
    assert sum(map(len, engine.scan_jobs(REF, "done", lambda job: True))) == 10_000
    moved = sum(one.moved for chunk in engine.apply_verb_to_place("requeue", REF, "done") for one in chunk)
    assert (moved, client.scard("todos"), client.scard("done")) == (12_500, 12_500, 0)


@pytest.mark.slow
def test_a_payload_of_30_mb_is_shown_by_its_beginning_and_moved_whole(client: Redis) -> None:
    giant = b"x" * 30_000_000
    client.sadd("todos", giant, "small")
    engine = Engine(client, [registry.create_system("timeout_sets")])
    for _ in range(2):
        jobs = {job.body_bytes: job for job in engine.fetch_page(REF, "todos", 0, 50).jobs}
        assert sorted(jobs) == [5, 30_000_000]
    job = jobs[30_000_000]
    assert (job.is_partial, job.body, len(job.member), len(job.id)) == (True, None, 4096, 12)
    assert engine.fetch_job(REF, job.id).body is None and engine.fetch_job(REF, job.id, -1).body == giant
    client.sadd("todos", giant[:-1] + b"y")  # begins like it, and is as long
    assert engine.apply_verb("delete", REF, [job])[0].word == "moved"
    assert client.sismember("todos", giant) == 0 and client.scard("todos") == 2
    assert {job.body_bytes for job in engine.fetch_page(REF, "todos", 0, 50).jobs} == {5, 30_000_000}
    client.delete("todos")
    assert engine.fetch_page(REF, "todos", 0, 50).jobs == ()


def test_an_item_too_long_to_be_sent_again_keeps_its_row(client: Redis) -> None:
    client.sadd("done", *range(600), "y" * 5000)
    engine = Engine(client, [registry.create_system("timeout_sets")])

    def listed() -> list[bytes]:
        return [job.id for jobs in engine.scan_jobs(REF, "done", lambda job: True, chunk=100) for job in jobs]

    before = listed()
    assert len(before) == 601 and len(engine.fetch_page(REF, "done", 0, 5).jobs) == 5
    assert listed() == before
    client.srem("done", "y" * 5000)
    assert [listed() for _ in range(3)][2] == [id for id in before if len(id) < 12]


# --- findings, bad input, discovery -----------------------------------------------------------------------------------

FOUND = {
    "lost-lock": lambda client: client.sadd("in_progress", 5),
    "shared-lock": lambda client: client.sadd("todos", 5) and client.set("5-lock", ""),
    "two-places": lambda client: client.sadd("todos", 5) and client.sadd("done", 5),
    "undecodable": lambda client: client.sadd("todos", 5) and client.sadd("done", "url1"),
    "wrong-type": lambda client: client.sadd("todos", 5) and client.rpush("5-lock", "no lock"),
}


@pytest.mark.parametrize("kind", FOUND)
def test_a_fault_is_found_and_named(kind: str, any_client: Redis) -> None:
    client, engine = any_client, Engine(any_client, [SYSTEM])
    client.sadd("done", *range(10, 20))
    assert [found for found in engine.collect_findings([REF]) if found.queue] == []
    FOUND[kind](client)
    (found,) = [found for found in Engine(client, [SYSTEM]).collect_findings([REF]) if found.queue]
    assert found.kind == kind and found.ids[0] in (b"5", b"url1")
    assert found.ids[0].decode() in found.text and found.remedy and found.keys


@pytest.mark.parametrize("item", ["07", "+7", " 7", "7\n", "-0", "1_000", "00"])
def test_an_item_that_int_reads_as_another_is_never_moved_and_ends_no_worker(item: str, any_client: Redis) -> None:
    int(item)  # the original continues
    any_client.sadd("todos", 5, item)
    (found,) = [found for found in Engine(any_client, [SYSTEM]).collect_findings([REF]) if found.queue]
    assert (found.kind, found.ids) == ("never-moved", (item.encode(),))
    assert "never moves it" in found.text and "end" not in found.text
    integers = registry.create_system("timeout_sets:items=integer")
    problems = {job.id: job.problem for job in Engine(any_client, [integers]).fetch_page(REF, "todos").jobs}
    assert problems[item.encode()] == f"the original takes it for {int(item)}, and never moves it"


@pytest.mark.parametrize("item", ["7_", "_7", "1__0", "7.0", "", "0x7", "seven", "+", "- 7"])
def test_an_item_that_int_refuses_ends_the_workers(item: str, any_client: Redis) -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        int(item)
    any_client.sadd("todos", 5, item)
    (found,) = [found for found in Engine(any_client, [SYSTEM]).collect_findings([REF]) if found.queue]
    assert found.kind == "undecodable" and "workers and cleaner of this system stop there" in found.text


def test_a_lock_that_is_no_lock_stops_that_item_only(client: Redis) -> None:
    enqueue_items(client, 1, 2)
    jobs = SYSTEM.read_taken_jobs("todos", run_script(client, "reserve", limit=2))
    client.delete(f"{jobs[0].id.decode()}-lock")
    client.hset(f"{jobs[0].id.decode()}-lock", "a", "b")
    rows = [{"member": job.member, "token": job.token} for job in jobs]
    assert read_outcomes(run_script(client, "ack", rows)) == ["wrong_type", "moved"]
    (job,) = Engine(client, [SYSTEM]).fetch_page(REF, "in_progress").jobs
    assert "another program" in job.problem
    assert [reap_items(client, NOW + passed).word for passed in (0, 3000)] == ["empty", "empty"]


def test_the_command_line_explains_why_an_item_is_refused(client: Redis, url: str) -> None:
    client.sadd("todos", 1)
    ran = shell(url, "put", "timeout_sets:todos", "url1", "--raw")
    assert ran.code == 1 and "url1 is refused: not a whole number" in ran.err
    assert shell(url, "put", "timeout_sets:todos", "2").code == 0
    assert read_places(client)["todos"] == {b"1", b"2"}


@pytest.mark.parametrize("name", PLACES)
def test_a_set_of_another_type_is_reported_and_nothing_breaks(name: str, client: Redis) -> None:
    client.hset(name, "a", "b")
    engine = Engine(client, [SYSTEM])
    assert f"{name} holds a hash, not a set" in engine.take_snapshot(Focus(queues=(REF,))).find_queue(REF).error
    assert f"{name} holds a hash" in engine.fetch_page(REF, name).error


@run_in_one_test(
    ("options", "text"),
    [
        ("done=todos", "three different keys"),
        ("todos=", "three different keys"),
        ("lock_ms=1s", "milliseconds"),
        ("period_ms=0", "milliseconds"),
        ("items=json", "auto, integer or text"),
        ("topic=x", "its options: todos, in_progress, done, prefix"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(options: str, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        registry.create_system(f"timeout_sets:{options}")


def test_unasked_it_claims_only_sets_that_are_there(client: Redis) -> None:
    unasked, asked = TimeoutSets(is_asked=False), registry.create_system("timeout_sets")

    def list_queues() -> list[str]:
        return [ref.queue for ref in build_engine(client, [unasked]).refs]

    assert list_queues() == [] and list(asked.discover(client)) == [["todos"]]
    assert asked.has_queue(client, "todos") and not unasked.has_queue(client, "todos")
    client.sadd("done", 1)
    assert list_queues() == []
    client.sadd("in_progress", 1)
    assert list_queues() == ["todos"] and unasked.has_queue(client, "todos")
    client.sadd("app:todos", 1)
    assert unasked.has_queue(client, "app:todos") and not unasked.has_queue(client, "mail")


@pytest.mark.parametrize("wrong", PLACES)
def test_unasked_two_sets_of_three_are_a_queue_whatever_the_third_is_and_one_is_none(wrong: str, client: Redis) -> None:
    first, second = (name for name in PLACES if name != wrong)
    client.set(wrong, "another program's")
    client.sadd(first, 1)
    assert build_engine(client, [TimeoutSets(is_asked=False)]).refs == []
    client.sadd(second, 2)
    engine = build_engine(client, [TimeoutSets(is_asked=False)])
    assert engine.refs == [REF]
    assert f"{wrong} holds a string, not a set" in engine.take_snapshot(Focus(queues=(REF,))).find_queue(REF).error


@pytest.mark.parametrize("place", PLACES)
def test_an_item_of_a_megabyte_is_reported_by_its_first_letters(place: str, any_client: Redis) -> None:
    def list_oversized_findings() -> list[tuple[str, bytes, str]]:
        findings = Engine(any_client, [SYSTEM]).collect_findings([REF])
        return [(one.keys[0], one.ids[0], one.text) for one in findings if one.kind == "oversized"]

    any_client.sadd(place, b"y" * (2**20 - 1))
    assert list_oversized_findings() == []
    any_client.sadd(place, b"x" * (2**20))
    ((key, id, text),) = list_oversized_findings()
    assert (key, id) == (place, b"x" * 60) and f"1 checked item in {place} of 1 MB" in text


def test_names_and_a_prefix_are_options(client: Redis) -> None:
    system = registry.create_system("timeout_sets:prefix=app:,todos=open,lock_ms=20000", "timeout_sets")
    engine = build_engine(client, [system])
    assert [ref.queue for ref in engine.refs] == ["app:open", "todos"]
    ref = Ref("timeout_sets", "app:open")
    assert [one.word for one in engine.send_request(system.put_request("app:open", [{"body": b"1"}]))] == ["moved"]
    (job,) = system.read_taken_jobs(
        "app:open", scripts.run_call(client, system.build_call("reserve", "app:open", {"limit": 1}))
    )
    assert 1000 < client.pttl("app:1-lock") <= 20_000 and client.smembers("app:in_progress") == {b"1"}
    assert engine.apply_verb("extend", ref, [job], {"ttr_ms": 60_000})[0].word == "extended"
    assert client.pttl("app:1-lock") > 50_000 and engine.fetch_job(ref, b"1").token == job.token
    assert [found for found in engine.collect_findings([ref]) if found.queue] == []
    assert engine.fetch_page(ref, "in_progress").jobs[0].token == job.token
    assert engine.apply_verb("delete", ref, [job])[0].word == "reserved"
    assert engine.apply_verb("release", ref, [job])[0].word == "moved"
    (job,) = system.read_taken_jobs(
        "app:open", scripts.run_call(client, system.build_call("reserve", "app:open", {"limit": 1}))
    )
    assert engine.apply_verb("ack", ref, [job])[0].word == "moved"
    assert sorted(client.keys()) == [b"app:done"]
    client.smove("app:done", "app:in_progress", 1)
    for now_ms in (NOW, NOW + 2000):
        scripts.run_call(client, system.build_call("reap", "app:open", {"limit": 1, "now_ms": now_ms}))
    assert sorted(client.keys()) == [b"app:open"]


# --- together with the original's workers -----------------------------------------------------------------------------


@pytest.mark.slow
def test_a_thousand_items_are_done_once_by_their_workers_and_ours(client: Redis, url: str) -> None:
    original.add_items(client, range(1000))
    stop, finished = threading.Event(), threading.Lock()
    acked: Counter[bytes] = Counter()

    def theirs(number: int) -> None:
        with connect(url) as own:
            rng = random.Random(number)
            worker = original.Worker(own, lock_ms=60, work=lambda _item: time.sleep(0.08 * (rng.random() < 0.02)))
            while not stop.is_set():
                if worker.step() == "empty":
                    stop.wait(0.02)

    def ours() -> None:
        with connect(url) as own:
            while not stop.is_set():
                jobs = SYSTEM.read_taken_jobs("todos", run_script(own, "reserve", limit=5, ttr_ms=5000))
                if not jobs:
                    stop.wait(0.02)
                    continue
                answer = run_script(own, "ack", [{"member": job.member, "token": job.token} for job in jobs])
                with finished:
                    acked.update(
                        job.id for job, word in zip(jobs, read_outcomes(answer), strict=True) if word == "moved"
                    )

    with connect(url) as own:
        reaper = Loop("reaper", build_round("reap", own, {SYSTEM.name: SYSTEM}, lambda: [REF], max_wait_s=0.3))
        threads = [threading.Thread(target=theirs, args=(n,)) for n in range(4)]
        threads += [threading.Thread(target=ours) for _ in range(2)]
        for thread in threads:
            thread.start()
        reaper.start()
        deadline = time.monotonic() + 20
        while client.scard("done") < 1000 and time.monotonic() < deadline:
            time.sleep(0.05)
        stop.set()
        for thread in threads:
            thread.join()
        reaper.stop()
    assert read_places(client) == {"todos": set(), "in_progress": set(), "done": {b"%d" % n for n in range(1000)}}
    assert acked and max(acked.values()) == 1 and not client.keys("*-lock")
