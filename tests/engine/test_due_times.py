"""Test due times: one read finds the work of both loops of a screen in a thousand queues."""

from __future__ import annotations

import threading
import time
from random import Random
from types import SimpleNamespace

import pytest
from aging import move_queue_into_past
from proxy import Proxy
from redis import Redis

from rqtui.client.queue import Queue
from rqtui.connection.connect import connect
from rqtui.engine import due_times, loops
from rqtui.engine.due_times import DURATION_FACTOR, GROUP_KEYS, DueTimes, find_due_keys
from rqtui.engine.engine import Engine
from rqtui.engine.loops import UPKEEP_POLLS, build_round
from rqtui.errors import Unreachable
from rqtui.model import Focus, Ref
from rqtui.systems import registry
from rqtui.testing.keyspace import dump

NATIVE = {"native": registry.create_system("native")}
MANY = 300


def build_refs(number: int) -> list[Ref]:
    return [Ref("native", f"q{at:03}") for at in range(number)]


def calls(client: Redis, command: str = "eval") -> int:
    """Return how many scripts, or commands of that name, Redis has run."""
    found = client.info("commandstats")
    return sum(each["calls"] for name, each in found.items() if name.startswith(f"cmdstat_{command}"))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Return the clock of the reads, which moves only when a test moves it: a read is valid for a second."""
    stands = SimpleNamespace(now_s=time.monotonic())
    monkeypatch.setattr(due_times, "time", SimpleNamespace(monotonic=lambda: stands.now_s))
    return stands


def expire_polls(heads: DueTimes) -> None:
    """Return the seconds until the next read of due times is over."""
    for look in heads._polls.values():
        object.__setattr__(look, "next_poll_s", 0.0)


def test_an_idle_round_over_many_queues_is_a_few_calls(client: Redis) -> None:
    heads, refs = DueTimes(NATIVE), build_refs(MANY)
    work = build_round("dispatch", client, NATIVE, lambda: refs, max_idle=30, due_times=heads)
    assert len(work().steps) == MANY  # nothing is known yet
    expire_polls(heads)
    before, asked = calls(client), calls(client, "exists")
    done = work()
    assert len(done.steps) <= MANY // UPKEEP_POLLS + 1
    assert calls(client) - before == len(done.steps)
    assert calls(client, "exists") - asked == 2 * MANY / GROUP_KEYS


@pytest.mark.slow
def test_ten_thousand_queues_are_looked_at_rarely_and_not_all_at_first(client: Redis, clock: SimpleNamespace) -> None:
    heads, refs = DueTimes(NATIVE), [Ref("native", f"m{at:05}") for at in range(10_000)]
    works = [
        build_round(verb, client, NATIVE, lambda: refs, max_idle=30, due_times=heads) for verb in ("dispatch", "reap")
    ]
    before = client.info("commandstats").get("cmdstat_exists", {}).get("calls", 0)
    rounds = [work() for work in works]
    assert all(len(done.steps) <= 10_000 // UPKEEP_POLLS + 1 for done in rounds)
    expire_polls(heads)
    works[0]()
    asked = client.info("commandstats")["cmdstat_exists"]["calls"] - before
    assert asked == (2 + 3 + 3) * 10_000 / GROUP_KEYS, "a look for both verbs asks for each of three places once"
    assert heads._polls["reap"].next_poll_s - clock.now_s >= 6, "and the next is six seconds later"
    clock.now_s = time.monotonic()
    Queue("m09999", client).put("soon", delay="9s")
    expire_polls(heads)
    assert 0 < works[0]().wait_s <= 9 and works[0]().wait_s <= 9, (
        "what falls due until the next look is told by this one"
    )
    assert heads._polls["dispatch"].due_s.keys() == {Ref("native", "m09999")}


def test_a_due_job_of_any_of_many_queues_is_moved_by_the_next_round(client: Redis) -> None:
    heads, refs = DueTimes(NATIVE), build_refs(MANY)
    work = build_round("dispatch", client, NATIVE, lambda: refs, max_idle=30, due_times=heads)
    work()
    for name in ("q007", "q123", "q299"):
        Queue(name, client).put("late", delay="5s")
        move_queue_into_past(client, name, 6_000)
    expire_polls(heads)
    assert work().moved == 3
    assert [client.zcard(f"rqtui:{{{name}}}:ready") for name in ("q007", "q123", "q299")] == [1, 1, 1]


def test_a_job_due_between_two_polls_does_not_wait_for_the_second(client: Redis) -> None:
    heads, refs = DueTimes(NATIVE), build_refs(40)
    work = build_round("dispatch", client, NATIVE, lambda: refs, max_idle=30, due_times=heads)
    work()
    Queue("q011", client).put("soon", delay="300ms")
    expire_polls(heads)
    assert work().wait_s <= 0.3


@pytest.mark.usefixtures("clock")
def test_two_loops_share_a_poll(client: Redis) -> None:
    heads, refs = DueTimes(NATIVE), build_refs(40)
    works = [
        build_round(verb, client, NATIVE, lambda: refs, max_idle=30, due_times=heads) for verb in ("dispatch", "reap")
    ]
    for work in works:
        work()
    expire_polls(heads)
    before, asked = calls(client), calls(client, "exists")
    steps = [step for work in works for step in work().steps]
    assert calls(client) - before == len(steps), "whose turn it is"
    assert calls(client, "exists") - asked == 3 * 40 / GROUP_KEYS, "one look, in which a place of both stands once"
    before, asked = calls(client), calls(client, "exists")
    assert not [step for work in works for step in work().steps]
    assert (calls(client), calls(client, "exists")) == (before, asked)


def test_the_reaper_sees_a_lease_that_is_over_and_a_done_job_to_be_forgotten(client: Redis) -> None:
    heads, refs = DueTimes(NATIVE), build_refs(60)
    work = build_round("reap", client, NATIVE, lambda: refs, max_idle=30, due_times=heads)
    work()
    held, stored = Queue("q001", client), Queue("q002", client)
    held.put("held")
    held.reserve(1, ttr="30s")
    stored.put("kept", keep="1m")
    stored.ack_many(stored.reserve(1))
    for name in ("q001", "q002"):
        move_queue_into_past(client, name, 61_000)
    expire_polls(heads)
    assert work().moved == 1
    assert client.zcard("rqtui:{q001}:ready") == 1
    assert not client.exists("rqtui:{q002}:done")


def test_every_queue_has_its_turn_all_the_same(client: Redis) -> None:
    heads, refs = DueTimes(NATIVE), build_refs(MANY + 30)
    work = build_round("dispatch", client, NATIVE, lambda: refs, max_idle=30, due_times=heads)
    work()
    seen = set()
    for _ in range(UPKEEP_POLLS):
        expire_polls(heads)
        seen |= {step.ref for step in work().steps}
    assert seen == set(refs)


def test_a_poll_knows_to_the_millisecond_when_jobs_are_due(client: Redis) -> None:
    heads, (first, second, *others) = DueTimes(NATIVE), build_refs(40)
    seconds, _microseconds = client.time()
    for ref, ago_s in ((first, 5), (second, 1)):
        client.zadd(f"rqtui:{{{ref.queue}}}:scheduled", {"a": 1000 * (seconds - ago_s)})
    look = heads.poll(client, "dispatch", [first, second, *others])
    assert look is not None and round(1000 * (look.due_s[second] - look.due_s[first]), 3) == 4000


@pytest.mark.parametrize("limit", [MANY - 1, MANY])
def test_up_to_a_limit_all_queues_are_called_in_the_first_round(
    client: Redis, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr(loops, "FIRST_ROUND_QUEUES", limit)
    work = build_round("dispatch", client, NATIVE, lambda: build_refs(MANY), max_idle=30, due_times=DueTimes(NATIVE))
    assert (len(work().steps) == MANY) == (limit >= MANY)


def test_a_poll_writes_nothing_and_counts_a_key_of_another_type_as_due(client: Redis) -> None:
    heads, refs = DueTimes(NATIVE), build_refs(50)
    client.set("rqtui:{q001}:scheduled", "x")
    for name, members in {
        "q002": {"a": 4e12},
        "q003": {"a": float("inf"), "b": float("-inf")},
        "q004": {"a": 1},
    }.items():
        client.zadd(f"rqtui:{{{name}}}:scheduled", members)
    before = dump(client)
    for _ in range(2):  # as it meets them, and as it knows them
        look = heads.poll(client, "dispatch", refs)
        assert look and [ref.queue for ref in look.due_s] == ["q001", "q003", "q004"]
        assert all(due_s < time.monotonic() for due_s in look.due_s.values())
        expire_polls(heads)
    assert dump(client) == before


@pytest.mark.parametrize("seed", range(3))
def test_a_poll_shows_what_is_there_whatever_was_there_at_the_last_one(client: Redis, seed: int) -> None:
    heads, refs, random = DueTimes(NATIVE), build_refs(60), Random(seed)
    places = {"dispatch": ("scheduled", "done"), "reap": ("reserved", "done")}
    for _ in range(12):
        for ref in random.sample(refs, 15):
            key = f"rqtui:{{{ref.queue}}}:{random.choice(('scheduled', 'reserved', 'done'))}"
            client.delete(key)
            if random.random() < 0.5:
                client.zadd(key, {"late": 1, "far": 4e12} if random.random() < 0.5 else {"far": 4e12})
        expire_polls(heads)
        for verb, names in places.items():
            keys_of = {ref: [f"rqtui:{{{ref.queue}}}:{name}" for name in names] for ref in refs}
            late = {ref for ref in refs if any(client.zcount(key, 0, 1) for key in keys_of[ref])}
            look = heads.poll(client, verb, refs)
            assert look and set(look.due_s) == late


def test_the_heads_are_read_only_if_times_are_in_milliseconds() -> None:
    assert find_due_keys(NATIVE["native"], "reap", "q") == ["rqtui:{q}:reserved", "rqtui:{q}:done"]
    assert find_due_keys(NATIVE["native"], "dispatch", "q") == ["rqtui:{q}:scheduled", "rqtui:{q}:done"]
    for name in ("redisched", "timeout_sets", "safe_pop:queue=q", "orizuru", "dispatcher:ready=q"):
        assert not find_due_keys(registry.create_system(name), "reap", "q") and not find_due_keys(
            registry.create_system(name), "dispatch", "q"
        )


def test_where_no_head_shows_anything_nothing_is_asked(client: Redis) -> None:
    systems = {"dispatcher": registry.create_system("dispatcher")}
    heads, refs = DueTimes(systems), [Ref("dispatcher", "readytasklist")]
    client.zadd("delayedtaskset", {"late": 1})
    work = build_round("dispatch", client, systems, lambda: refs, max_idle=30, due_times=heads)
    before = client.info("commandstats").get("cmdstat_time", {"calls": 0})["calls"]
    look = heads.poll(client, "dispatch", refs)
    assert look is not None and not look.refs and not look.due_s
    assert client.info("commandstats").get("cmdstat_time", {"calls": 0})["calls"] == before
    assert work().moved == 1


def test_a_user_who_may_not_read_all_heads_still_moves_the_allowed_jobs(client: Redis, narrow: Redis) -> None:
    refs = build_refs(2)
    work = build_round("dispatch", narrow, NATIVE, lambda: refs, max_idle=30, due_times=DueTimes(NATIVE))
    Queue("q000", client).put("late", delay="5s")
    move_queue_into_past(client, "q000", 6_000)
    done = work()
    assert done.moved == 1 and [bool(step.error) for step in done.steps] == [False, True]


def test_a_poll_of_a_redis_that_is_away_raises_what_a_loop_backs_off_from() -> None:
    heads = DueTimes(NATIVE)
    with connect("redis://127.0.0.1:1") as nobody, pytest.raises(Unreachable):
        heads.poll(nobody, "dispatch", build_refs(2))


@pytest.mark.slow
def test_one_slow_poll_does_not_put_off_the_next_and_two_in_a_row_do(client: Redis, url: str) -> None:
    heads, refs = DueTimes(NATIVE), build_refs(MANY)
    with Proxy(url) as proxy, connect(proxy.url) as slow:

        def rests_s(delay_s: float) -> float:
            proxy.delay_s = delay_s
            began_s = time.monotonic()
            expire_polls(heads)
            look = heads.poll(slow, "dispatch", refs)
            assert look
            return look.next_poll_s - began_s

        for delay_s, is_put_off in ((0.5, False), (0.0, False), (0.5, False), (0.5, True), (0.0, False)):
            assert (rests_s(delay_s) > DURATION_FACTOR * 0.4) is is_put_off


@pytest.mark.usefixtures("clock")
def test_a_snapshot_replaces_a_poll_if_it_has_all_that_one_reads(client: Redis) -> None:
    heads, refs = DueTimes(NATIVE), build_refs(40)
    engine = Engine(client, [NATIVE["native"]])
    engine.refs, engine.on_snapshot_counts = refs, heads.use_snapshot_counts
    for ref in refs:
        Queue(ref.queue, client).put("waits", id="w")
    Queue("q005", client).kill("w")
    works = [
        build_round(verb, client, NATIVE, lambda: refs, max_idle=30, due_times=heads) for verb in ("dispatch", "reap")
    ]
    for work in works:
        work()
    expire_polls(heads)
    late, held = Queue("q003", client), Queue("q004", client)
    late.put("late", delay="5s")
    held.reserve(1, ttr="30s")
    move_queue_into_past(client, "q003", 6_000)
    move_queue_into_past(client, "q004", 31_000)
    engine.take_snapshot()
    asked = client.info("commandstats")["cmdstat_exists"]["calls"]
    assert [work().moved for work in works] == [1, 1], "by what the picture told"
    assert client.info("commandstats")["cmdstat_exists"]["calls"] == asked, "and no head was asked"
    expire_polls(heads)
    assert [work().moved for work in works] == [0, 0]
    assert client.info("commandstats")["cmdstat_exists"]["calls"] > asked, "a second later the heads are"


@pytest.mark.usefixtures("clock")
def test_a_snapshot_of_some_queues_of_stored_jobs_or_of_an_error_replaces_no_poll(client: Redis) -> None:
    refs = build_refs(3)
    engine = Engine(client, [NATIVE["native"]])
    client.set("rqtui:{q002}:dead", "somebody's")
    queue = Queue("q001", client)
    queue.put("kept", keep="1m")
    queue.ack_many(queue.reserve(1))
    for counted, asked in ((refs[:1], refs[:2]), (refs[:2], refs[:2]), (refs[::2], refs[::2])):
        heads = DueTimes(NATIVE)
        heads.poll(client, "dispatch", asked)
        before = heads._polls["dispatch"]
        engine.on_snapshot_counts = heads.use_snapshot_counts
        engine.take_snapshot(Focus(tuple(counted)))
        assert heads._polls["dispatch"] is before, counted
    heads = DueTimes(NATIVE)
    heads.poll(client, "dispatch", refs[:1])
    before, engine.on_snapshot_counts = heads._polls["dispatch"], heads.use_snapshot_counts
    engine.take_snapshot(Focus(tuple(refs[:1])))
    assert heads._polls["dispatch"] is not before


def test_a_snapshot_does_not_wait_for_a_poll_under_way() -> None:
    due_times = DueTimes({})
    snapshot = threading.Thread(target=due_times.use_snapshot_counts, args=({},), daemon=True)
    with due_times._lock:  # as a poll holds it while it waits for replies
        snapshot.start()
        snapshot.join(10)
        assert not snapshot.is_alive()
    due_times.use_snapshot_counts({})
    assert not due_times._lock.locked()
