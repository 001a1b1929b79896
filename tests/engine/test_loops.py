"""Loops: they wait as long as they may, back off while Redis is away, and never end by themselves."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from aging import move_queue_into_past
from proxy import Proxy
from redis import Redis
from socket_writes import record_socket_writes
from waiting import wait_until

from rqtui.client.queue import Queue
from rqtui.connection.connect import connect
from rqtui.engine.loops import (
    POLL_INTERVAL_S,
    TURN_QUEUES,
    UPKEEP_POLLS,
    Loop,
    Round,
    ScriptStep,
    _choose_upkeep_queues,
    build_round,
)
from rqtui.errors import Unreachable
from rqtui.model import Ref
from rqtui.systems import registry

NATIVE = {"native": registry.create_system("native")}
MAIL = Ref("native", "mail")


def dispatcher(client: Redis, *names: str, **options) -> Callable[[], Round]:
    refs = [Ref("native", name) for name in names or ("mail",)]
    return build_round("dispatch", client, NATIVE, lambda: refs, **options)


class Clock(threading.Event):
    """An event whose waits take no time; it remembers them, and is set after `turns` of them."""

    def __init__(self, turns: int) -> None:
        super().__init__()
        self.waits: list[float] = []
        self._turns = turns

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout or 0.0)
        if len(self.waits) >= self._turns:
            self.set()
        return self.is_set()


# ── backing off ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_loop_backs_off_1_1_2_3_5_8_13_and_stays_there() -> None:
    def away() -> Round:
        raise Unreachable("nobody is there")

    items: list[Round] = []
    clock = Clock(9)
    Loop("dispatch", away, items.append).run(clock)
    assert clock.waits == [1, 1, 2, 3, 5, 8, 13, 13, 13]
    assert [done.wait_s for done in items] == clock.waits
    assert {done.error for done in items} == {"nobody is there"}


def test_a_success_makes_it_forget_how_long_it_waited() -> None:
    rounds = iter([False, False, False, True, False, False])

    def work() -> Round:
        if next(rounds):
            return Round(wait_s=0.5)
        raise Unreachable("away")

    clock = Clock(6)
    Loop("dispatch", work).run(clock)
    assert clock.waits == [1, 1, 2, 0.5, 1, 1]


def test_an_error_that_was_not_foreseen_is_logged_reported_and_survived(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> Round:
        raise ZeroDivisionError("a mistake of ours")

    items: list[Round] = []
    with caplog.at_level(logging.ERROR, "rqtui.engine.loops"):
        Loop("reap", broken, items.append).run(Clock(2))
    assert [done.error for done in items] == ["a mistake of ours"] * 2
    assert "ZeroDivisionError" in caplog.text


def test_a_full_batch_is_followed_by_the_next_at_once() -> None:
    rounds = iter([Round(is_full=True), Round(is_full=True), Round(wait_s=0.7)])
    clock = Clock(1)
    items: list[Round] = []
    Loop("dispatch", lambda: next(rounds), items.append).run(clock)
    assert (len(items), clock.waits) == (3, [0.7])


# ── its thread ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_loop_runs_on_a_thread_until_it_is_stopped() -> None:
    items: list[Round] = []
    loop = Loop("dispatch", lambda: Round(wait_s=0.001), items.append)
    assert not loop.is_running
    loop.start()
    loop.start()  # once is enough
    wait_until(lambda: len(items) > 3, what="some rounds")
    assert loop.is_running
    loop.stop()
    assert not loop.is_running
    before = len(items)
    time.sleep(0.02)
    assert len(items) == before
    loop.start()
    wait_until(lambda: len(items) > before, what="it runs again")
    loop.stop()


def test_a_loop_that_is_stopped_calls_on_stop_after_its_last_round() -> None:
    said: list[str] = []
    loop = Loop("dispatch", lambda: Round(wait_s=60), lambda _round: said.append("round"), lambda: said.append("end"))
    loop.start()
    wait_until(lambda: said, what="the first round")
    assert said == ["round"]
    loop.stop()
    assert said == ["round", "end"]
    loop.step()
    assert said == ["round", "end", "end", "round"], "a step of a stopped loop may have opened a connection again"


def test_rounds_with_nothing_to_do_do_not_push_out_what_was_done() -> None:
    step = ScriptStep("dispatch", MAIL, moved=3)
    rounds = iter([Round((step,)), *[Round(wait_s=at) for at in range(300)]])
    loop = Loop("dispatch", lambda: next(rounds))
    for _ in range(301):
        loop.step()
    assert [done.moved for done in loop.rounds] == [3, 0]
    assert loop.rounds[-1].wait_s == 299


def test_stopping_ends_a_long_rest_at_once() -> None:
    loop = Loop("dispatch", lambda: Round(wait_s=60))
    loop.start()
    wait_until(lambda: loop.rounds, what="the first round")
    thread = next(each for each in threading.enumerate() if each.name == "rqtui-dispatch")
    loop.stop(timeout_s=30)
    assert not loop.is_running and not thread.is_alive()


def test_a_single_step_works_beside_a_running_loop_and_never_at_the_same_time() -> None:
    inside: list[int] = []
    most: list[int] = []

    def work() -> Round:
        inside.append(1)
        most.append(len(inside))
        time.sleep(0.002)
        inside.pop()
        return Round(wait_s=0.001)

    loop = Loop("dispatch", work)
    loop.start()
    for _ in range(10):
        loop.step()
    loop.stop()
    assert max(most) == 1


def test_a_stopped_loop_can_be_stepped_by_hand(client: Redis) -> None:
    Queue("mail", client).put(1, id="a", delay=60)
    move_queue_into_past(client, "mail", 61_000)
    assert Loop("dispatch", dispatcher(client)).step().moved == 1
    assert client.zcard("rqtui:{mail}:ready") == 1


# ── how long it rests ────────────────────────────────────────────────────────────────────────────────────────


def test_a_dispatcher_rests_until_the_next_job_is_due(client: Redis) -> None:
    Queue("mail", client).put(1, delay=0.4)
    done = dispatcher(client)()
    assert (done.moved, done.is_full) == (0, False)
    assert 0.3 < done.wait_s <= 0.4


def test_a_dispatcher_looks_once_a_second_in_case_something_sooner_came(client: Redis) -> None:
    assert dispatcher(client)().wait_s == POLL_INTERVAL_S
    Queue("mail", client).put(1, delay=3600)
    assert dispatcher(client)().wait_s == POLL_INTERVAL_S
    assert dispatcher(client, max_wait_s=5)().wait_s == 5


def test_the_soonest_of_many_queues_decides(client: Redis) -> None:
    for name, delay in (("a", 0.9), ("b", 0.3), ("c", 60)):
        Queue(name, client).put(1, delay=delay)
    assert 0.2 < dispatcher(client, "a", "b", "c")().wait_s <= 0.3


def test_a_reaper_rests_until_the_next_lease_expires(client: Redis) -> None:
    queue = Queue("mail", client)
    queue.put(1)
    queue.reserve(ttr=0.5)
    done = build_round("reap", client, NATIVE, lambda: [MAIL])()
    assert done.moved == 0
    assert 0.4 < done.wait_s <= 0.5


def test_a_batch_that_is_full_reports_it_and_an_empty_one_does_not(client: Redis) -> None:
    Queue("mail", client).put_many([{"body": n, "delay": 60} for n in range(25)])
    move_queue_into_past(client, "mail", 61_000)
    work = dispatcher(client, limit=10)
    rounds = [work() for _ in range(3)]
    assert [(done.moved, done.is_full) for done in rounds] == [(10, True), (10, True), (5, False)]
    assert rounds[0].wait_s == 0
    assert rounds[0].steps[0].values["ready"] == 0
    assert rounds[1].steps[0].values["ready"] == 10


def test_without_a_limit_the_batch_grows_while_it_is_quick(client: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rqtui.engine.loops.SLOW_MS", 10_000.0)
    Queue("mail", client).put_many([{"body": n, "delay": 60} for n in range(2000)])
    move_queue_into_past(client, "mail", 61_000)
    work = dispatcher(client)
    assert [work().moved for _ in range(5)] == [200, 300, 450, 675, 375]


def test_without_a_limit_the_batch_shrinks_where_the_server_is_slow(
    client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rqtui.engine.loops.SLOW_MS", 0.0)
    monkeypatch.setattr("rqtui.engine.loops._measure_round_trip_ms", lambda _client: 0.0)
    Queue("mail", client).put_many([{"body": n, "delay": 60} for n in range(1000)])
    move_queue_into_past(client, "mail", 61_000)
    work = dispatcher(client)
    assert [work().moved for _ in range(4)] == [200, 100, 50, 50]


def test_a_slow_way_to_the_server_is_no_slow_batch(client: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    """By this clock each call takes 50 ms, whether it moves jobs or only measures the round trip."""
    ticks = itertools.count()
    clock = SimpleNamespace(monotonic=lambda: next(ticks) * 0.05, time=time.time)
    monkeypatch.setattr("rqtui.engine.loops.time", clock)
    Queue("mail", client).put_many([{"body": n, "delay": 60} for n in range(800)])
    move_queue_into_past(client, "mail", 61_000)
    work = dispatcher(client)
    assert [work().moved for _ in range(2)] == [200, 300]


def test_all_queues_go_in_one_round_trip(client: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"q{number}" for number in range(30)]
    work = dispatcher(client, *names)
    work()
    with record_socket_writes(monkeypatch) as writes:
        work()
    counts = [write.count(b"EVALSHA") for write in writes]
    assert [count for count in counts if count] == [30]  # a slow call is followed by a TIME, which detects a slow link


def test_a_queue_that_is_broken_does_not_stop_the_others(client: Redis) -> None:
    client.set("rqtui:{bad}:scheduled", "a string")
    Queue("mail", client).put(1, delay=60)
    move_queue_into_past(client, "mail", 61_000)
    bad, mail = dispatcher(client, "bad", "mail")().steps
    assert "holds a string" in bad.error
    assert (mail.moved, mail.error) == (1, "")


def test_no_queues_are_no_round_trip(client: Redis) -> None:
    done = build_round("dispatch", connect("redis://127.0.0.1:1"), NATIVE, list)()
    assert (done.steps, done.wait_s) == ((), POLL_INTERVAL_S)


# ── on time, and over an outage ──────────────────────────────────────────────────────────────────────────────


def test_a_job_is_ready_within_moments_of_its_time(client: Redis, url: str) -> None:
    with connect(url) as own:
        work = dispatcher(own, max_wait_s=3600)
        Queue("mail", client).put(1, delay=30)
        assert 0 < work().wait_s <= 30, "it rests no longer than until the job is due"
        Queue("mail", client).put(1, delay=0.3)
        loop = Loop("dispatch", work)
        loop.start()
        wait_until(lambda: client.zcard("rqtui:{mail}:ready"), what="the job is ready")
        loop.stop()


def test_a_loop_never_takes_the_wake_marker(client: Redis) -> None:
    Queue("mail", client).put(1, delay=60)
    move_queue_into_past(client, "mail", 61_000)
    client.zadd("rqtui:{mail}:wake", {"wake": 0})
    for verb in ("dispatch", "reap"):
        build_round(verb, client, NATIVE, lambda: [MAIL])()
    assert client.zcard("rqtui:{mail}:wake") == 1


def test_a_loop_survives_an_outage_and_continues(client: Redis, url: str) -> None:
    with Proxy(url) as proxy, connect(proxy.url, timeout_s=1) as through:
        loop = Loop("dispatch", dispatcher(through, max_wait_s=0.05))
        loop.start()
        wait_until(lambda: loop.rounds, what="the first round")
        proxy.refuse()
        wait_until(lambda: loop.rounds[-1].error, what="it says that Redis is away")
        Queue("mail", client).put(1)
        Queue("mail", client).put(1, delay=0.01)
        proxy.listen()
        wait_until(lambda: client.zcard("rqtui:{mail}:ready") == 2, what="it works again")
        assert loop.is_running
        loop.stop()


def test_a_loop_survives_a_server_that_forgot_its_scripts(client: Redis) -> None:
    work = dispatcher(client)
    work()
    client.script_flush()
    Queue("mail", client).put(1, delay=60)
    move_queue_into_past(client, "mail", 61_000)
    assert work().moved == 1


# ── many queues ──────────────────────────────────────────────────────────────────────────────────────────────


def test_many_idle_queues_are_called_in_turn_and_due_ones_at_once(client: Redis) -> None:
    refs = [Ref("native", f"q{number:02}") for number in range(40)]
    Queue("q33", client).put("later", delay="0.05s")
    urgent: set[Ref] = set()
    work = build_round("dispatch", client, NATIVE, lambda: refs, max_idle=10, urgent_refs=lambda: urgent)
    first = work()
    assert len(first.steps) == 40  # nothing is known yet
    second = work()
    assert len(second.steps) == 10 or second.moved
    # the one that is due is known, though it is not its turn
    assert first.moved or second.moved or second.wait_s <= 0.05
    time.sleep(0.06)
    third = work()
    assert [step.ref.queue for done in (first, second, third) for step in done.steps if step.moved] == ["q33"]
    seen = {step.ref for _ in range(4) for step in work().steps}
    assert seen == set(refs)
    Queue("q05", client).put("now", delay="0.001s")
    urgent.add(refs[5])
    time.sleep(0.01)
    assert work().moved == 1
    assert client.zcard("rqtui:{q05}:ready") == 1


def test_few_queues_are_all_looked_at_each_time(client: Redis) -> None:
    refs = [Ref("native", f"q{number}") for number in range(5)]
    work = build_round("dispatch", client, NATIVE, lambda: refs, max_idle=10)
    assert [len(work().steps) for _ in range(3)] == [5, 5, 5]


def test_each_queue_has_its_turn_and_many_at_a_time() -> None:
    for number in (0, 1, 7, 100, 330, 5_999, 6_001, 10_000):
        refs = [Ref("native", f"q{at}") for at in range(number)]
        turns = [_choose_upkeep_queues(refs, look) for look in range(UPKEEP_POLLS)]
        assert {ref for turn in turns for ref in turn} == {*refs}
        assert sum(map(len, turns)) <= max(2 * number, UPKEEP_POLLS)
        assert all(len(turn) >= min(number, TURN_QUEUES - 1) for turn in turns if turn)
