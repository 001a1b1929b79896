"""What redis_queue_dispatcher does wrong, and rqtui beside it; then both at once on the same keys.

The original is `rqtui.scenarios.originals.dispatcher`, whose clock and sleep are passed in.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from dispatcher_subject import DELAYED, HOUR, NOW, READY, SCRIPTS, list_ready, read_delayed, read_outcomes, run_script
from redis import Redis

from rqtui.connection.connect import connect
from rqtui.engine import loops
from rqtui.engine.engine import build_engine
from rqtui.errors import UsageError
from rqtui.model import Ref
from rqtui.scenarios.originals import dispatcher as original
from rqtui.scripts import script as scripts
from rqtui.systems import registry
from rqtui.testing import keyspace
from rqtui.testing.keyspace import Zset

NOW_S = NOW // 1000
REF = Ref("dispatcher", READY)


def rqtui_dispatcher(client: Redis, limit: int | None = None) -> Callable[[], loops.Round]:
    """Run a step of `rqtui dispatch` by the server's own clock."""
    return loops.build_round(
        "dispatch", client, {"dispatcher": registry.create_system("dispatcher")}, lambda: [REF], limit=limit
    )


class Clock:
    """A program's own clock: sleeping makes it go."""

    def __init__(self, now_s: float) -> None:
        self.now_s, self.slept = now_s, 0.0

    def __call__(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        self.slept += seconds


def server_s(client: Redis) -> float:
    seconds, microseconds = client.time()
    return float(seconds) + float(microseconds) / 1e6


def test_the_original_never_takes_a_score_below_0_and_rqtui_does(any_client: Redis) -> None:
    keyspace.plant(any_client, {DELAYED: Zset({"a": -5, "b": -0.5, "c": float("-inf"), "d": 0})})
    assert original.Dispatcher(any_client).step() == (1, 3, 0)
    assert read_delayed(any_client).keys() == {b"a", b"b", b"c"}
    assert run_script(any_client, "dispatch", limit=10).values["moved"] == 3
    assert list_ready(any_client) == [b"d", b"c", b"a", b"b"]


def test_the_original_goes_by_its_own_clock_in_whole_seconds_and_rqtui_by_the_servers(any_client: Redis) -> None:
    now_s = server_s(any_client)
    keyspace.plant(any_client, {DELAYED: Zset({"a": now_s - 60, "b": now_s - 0.01})})
    slow = Clock(now_s - HOUR)
    assert original.Dispatcher(any_client, clock=slow).step() == (0, 2, 0)
    cut = Clock(int(now_s - 0.01) + 0.999)  # the second has passed but for a millisecond: it counts as its beginning
    assert original.Dispatcher(any_client, clock=cut).step() == (1, 1, 0)
    assert rqtui_dispatcher(any_client)().moved == 1
    assert list_ready(any_client) == [b"a", b"b"]


def test_an_error_of_redis_ends_the_original_and_rqtui_continues(any_client: Redis) -> None:
    keyspace.plant(any_client, {DELAYED: Zset({"a": 1}), READY: "another program's"})
    program = original.Dispatcher(any_client)
    loop = loops.Loop("dispatch", rqtui_dispatcher(any_client))
    assert program.step() is None and "WRONGTYPE" in program.error
    assert READY in loop.step().steps[0].error
    assert read_delayed(any_client) == {b"a": 1.0}
    any_client.delete(READY)
    assert program.step() is None and list_ready(any_client) == []
    assert loop.step().moved == 1 and list_ready(any_client) == [b"a"]


def test_two_equal_tasks_are_one_in_the_original_and_rqtui_replies_exists(any_client: Redis) -> None:
    original.put_delayed_task(any_client, b"a", NOW_S + 60)
    original.put_delayed_task(any_client, b"a", NOW_S + 3600)
    assert read_delayed(any_client) == {b"a": NOW_S + 3600}  # the first of the two will be an hour late
    answer = run_script(any_client, "enqueue", ("a", 1000, None), ("b", 1000, None), ("b", 5000, None))
    assert read_outcomes(answer) == ["exists", "moved", "exists"]
    assert read_delayed(any_client) == {b"a": NOW_S + 3600, b"b": NOW_S + 1}


def test_after_idling_the_original_is_up_to_13_s_late_and_rqtui_never_more_than_one(any_client: Redis) -> None:
    clock, pauses = Clock(NOW_S), []
    program = original.Dispatcher(any_client, clock=clock, sleep=clock.sleep)
    for _turn in range(9):
        program.step()
        pauses.append(program.backing_off_s)
    assert pauses == [1, 1, 2, 3, 5, 8, 13, 13, 13]
    turns = iter([True] * 15)
    original.put_delayed_task(any_client, b"a", NOW_S + 1)  # it has just gone to sleep
    program.run(lambda: bool(next(turns, False)) and not list_ready(any_client))
    assert clock.now_s - (NOW_S + 1) >= 12

    original.put_delayed_task(any_client, b"b", server_s(any_client) + 30)
    assert rqtui_dispatcher(any_client)().wait_s == 1.0
    original.put_delayed_task(any_client, b"b", server_s(any_client) + 0.5)
    assert rqtui_dispatcher(any_client)().wait_s <= 0.51


def test_the_original_writes_twice_per_task_and_rqtui_twice_per_batch(client: Redis) -> None:
    def writes(act: Callable[[], object]) -> Counter[str]:
        before = calls(client)
        act()
        return calls(client) - before

    keyspace.plant(client, {DELAYED: Zset({str(n): n for n in range(1, 1101)})})
    program = original.Dispatcher(client, batch=100)
    assert writes(program.step) == {"rpush": 100, "zrem": 100}
    assert writes(lambda: run_script(client, "dispatch", limit=1000)) == {"rpush": 1, "zrem": 1}
    assert (len(list_ready(client)), read_delayed(client)) == (1100, {})


def calls(client: Redis) -> Counter[str]:
    stats: Mapping[str, Any] = client.info("commandstats")
    return Counter({name: int(stats.get(f"cmdstat_{name}", {}).get("calls", 0)) for name in ("rpush", "zrem")})


def test_over_maxmemory_the_original_ends_and_rqtui_drains(client: Redis, settings: Callable[[str, str], None]) -> None:
    keyspace.plant(client, {DELAYED: Zset({"a": 1, "b": 2})})
    program = original.Dispatcher(client)
    client.script_load(original.MOVE)
    client.script_load(SCRIPTS["dispatch"].source)
    settings("maxmemory", "1")
    assert program.step() is None and "maxmemory" in program.error
    assert run_script(client, "dispatch", limit=10).values["moved"] == 2
    assert list_ready(client) == [b"a", b"b"]


def test_there_is_no_lease_so_there_is_no_ack(any_client: Redis) -> None:
    def die(_gap: str) -> None:
        raise SystemExit

    keyspace.plant(any_client, {READY: ["a", "b"]})
    with pytest.raises(SystemExit):
        original.Worker(any_client, pause=die).step()
    assert list_ready(any_client) == [b"b"]  # what it held is lost, and no program can find it
    system = registry.create_system("dispatcher")
    assert not system.can("reserve") and not system.can("reap")
    with pytest.raises(UsageError, match='no verb "ack"; its verbs: delete'):
        build_engine(any_client, [system]).apply_verb("ack", REF)


# ── all at once ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_a_thousand_tasks_with_both_dispatchers_and_both_kinds_of_workers_run_once_each(
    client: Redis, url: str
) -> None:
    tasks = {b"task-%d" % n for n in range(1000)}
    over, errors = threading.Event(), []
    done: list[bytes] = []

    def producer(own: Redis) -> Iterator[None]:
        now_s = own.time()[0]
        for n, body in enumerate(sorted(tasks)):
            original.put_delayed_task(own, body, now_s - 1 + n % 2)  # half of them due already, half within a second
            yield

    def program(own: Redis) -> Iterator[None]:
        dispatcher = original.Dispatcher(own)
        while dispatcher.step():
            yield
        raise AssertionError(dispatcher.error)

    def ours(own: Redis) -> Iterator[None]:
        work = rqtui_dispatcher(own, limit=7)
        while True:
            work()
            yield

    def worker(own: Redis) -> Iterator[None]:
        consumer = original.Worker(own, done.append)
        while True:
            consumer.step()
            yield

    def puller(own: Redis) -> Iterator[None]:
        system = registry.create_system("dispatcher")
        while True:
            answer = scripts.run_call(own, system.build_call("pull", READY, {"limit": 3}))
            done.extend(job.body or b"" for job in system.read_taken_jobs(READY, answer))
            yield

    def run(actor: Callable[[Redis], Iterator[None]]) -> None:
        try:
            with connect(url) as own:
                for _step in actor(own):
                    if over.is_set():
                        return
        except Exception as error:
            errors.append(error)

    actors = [producer, program, ours, worker, worker, puller]
    threads = [threading.Thread(target=run, args=(actor,)) for actor in actors]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 20
    while len(done) < 1000 and time.monotonic() < deadline and not errors:
        time.sleep(0.01)
    time.sleep(0.05)  # for one that would be doubled
    over.set()
    for thread in threads:
        thread.join()
    assert errors == []
    assert Counter(done) == Counter(tasks)
    assert keyspace.dump(client) == {}
