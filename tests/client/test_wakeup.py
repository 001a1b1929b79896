"""Test waiting without polling: which consumer is woken, when, and what an idle fleet costs.

No test measures time. The requests to Redis show which consumer was woken. What would wake a consumer by itself is put
so far away (`for_ever`) that it cannot have been the cause.
"""

from __future__ import annotations

import math
import selectors
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from types import SimpleNamespace
from typing import Any

import aio_facade
import pytest
from aging import move_queue_into_past
from fakeredis import FakeRedis
from proxy import Proxy
from redis import Redis
from versions import is_server_older
from waiting import wait_until

from rqtui.client import wakeup as bells
from rqtui.client.queue import Queue
from rqtui.client.wakeup import WakeReason, WakeWaiter
from rqtui.connection.connect import connect
from rqtui.errors import Denied, Unreachable

WAKE = "rqtui:{mail}:wake"
HOUR_S, HOUR_MS = 3600.0, 3_600_000


Consuming = Callable[..., AbstractContextManager[None]]


@pytest.fixture
def consuming(kind: Any, client: Redis, url: str) -> Consuming:
    """Return a function that starts consumers with the given options in threads: `consuming(count, seen, …)`."""
    return lambda count, seen, **options: _consuming(kind, url, count, seen, **options)


@contextmanager
def _consuming(kind: Any, url: str, count: int, seen: Callable[[Any], None], **options: Any) -> Iterator[None]:
    stop = threading.Event()

    def consume() -> None:
        with kind("mail", url) as queue:
            for job in queue.consume(stop=stop, **options):
                with job:
                    seen(job)

    threads = [threading.Thread(target=consume) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join(15)


def wait_for_blocked(client: Redis, count: int) -> None:
    wait_until(lambda: client.info("clients")["blocked_clients"] >= count, 20, f"{count} blocked consumers")


def calls(client: Redis, *names: str) -> int:
    """Return how often Redis ran the named commands; without names, how often it ran a script."""
    stats = client.info("commandstats")
    return sum(stats.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in names or ("evalsha", "eval"))


def now_ms(client: Redis) -> float:
    """Return the server's time, by which jobs become due."""
    seconds, micros = client.time()
    return seconds * 1000 + micros / 1000


@pytest.fixture
def for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make Redis block without a timeout, so that a consumer without a cause waits until its test's deadline."""
    monkeypatch.setattr("rqtui.client.wakeup.BLOCK_S", HOUR_S)
    monkeypatch.setattr("rqtui.client.consumer.BLOCK_S", HOUR_S)


@pytest.fixture(params=["waits", "awaited"])
def bell(request: pytest.FixtureRequest) -> Callable[[Redis], AbstractContextManager[Any]]:
    """Return a function that creates a wake waiter on the server of a client. It is closed at the end of the test."""
    return lambda client: closing(
        WakeWaiter(client, WAKE) if request.param == "waits" else aio_facade.WakeWaiterFacade(client, WAKE)
    )


# The wake waiter


def test_the_marker_ends_a_wait_and_is_taken(client: Redis, bell: Any) -> None:
    with bell(client) as waiter:
        client.zadd(WAKE, {"wake": 0})
        assert waiter.wait(None) is WakeReason.MARKER
        assert client.exists(WAKE) == 0


def test_a_marker_set_later_ends_a_wait_that_asks_once(client: Redis, for_ever: None, bell: Any) -> None:
    before = calls(client, "bzpopmin")
    with bell(client) as waiter:
        later = threading.Timer(0.1, lambda: client.zadd(WAKE, {"wake": 0}))
        later.start()
        assert waiter.wait(None) is WakeReason.MARKER
        later.join()
    assert calls(client, "bzpopmin") - before == 1


class Clock:
    """The time as a WakeWaiter reads it: time passes only while a consumer waits, and milliseconds are rounded up."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def selector(self) -> Any:
        clock = self

        class Selector(selectors.DefaultSelector):  # type: ignore[misc, valid-type]
            def select(self, timeout: float | None = None) -> Any:
                found = super().select(0)
                if not found:
                    assert timeout is not None
                    clock.now_s += math.ceil(timeout * 1e3) * 1e-3  # as selectors.EpollSelector does
                return found

        return Selector()


def test_a_local_timer_is_on_time_to_the_millisecond(client: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(bells, "time", clock)
    monkeypatch.setattr(
        bells, "selectors", SimpleNamespace(DefaultSelector=clock.selector, EVENT_READ=selectors.EVENT_READ)
    )
    with closing(WakeWaiter(client, WAKE)) as waiter:
        for timer_s in (0.05, 0.0501, 0.0509999, 0.0061, 0.0052, 1.0007, 9.99):
            began_s = clock.now_s
            assert waiter.wait(timer_s) is WakeReason.TIMER
            assert abs(clock.now_s - began_s - timer_s) < 1e-6


def test_withdrawing_leaves_no_client_blocked_and_no_reply_behind(client: Redis, bell: Any) -> None:
    with bell(client) as waiter:
        for timer_s in (0.01, 0.02, 0.0061, 0.03):
            assert waiter.wait(timer_s) is WakeReason.TIMER
            waiter.cancel_wait()
            assert client.info("clients")["blocked_clients"] == 0
        client.zadd(WAKE, {"wake": 0})
        assert waiter.wait(1) is WakeReason.MARKER


def test_a_marker_taken_while_withdrawing_is_put_back(client: Redis, bell: Any) -> None:
    with bell(client) as waiter:
        assert waiter.wait(0.02) is WakeReason.TIMER
        client.zadd(WAKE, {"wake": 0})  # Redis hands it to the waiter, which has already given up
        assert client.exists(WAKE) == 0
        waiter.cancel_wait()
        assert client.exists(WAKE) == 1


def test_an_interrupt_and_an_event_end_a_wait(client: Redis, bell: Any) -> None:
    with bell(client) as waiter:
        threading.Timer(0.05, waiter.interrupt).start()
        assert waiter.wait(None) is WakeReason.INTERRUPTED
        waiter.cancel_wait()
        assert waiter.wait(0.02) is WakeReason.TIMER, "one interrupt ended two waits"
        waiter.cancel_wait()
        stop = threading.Event()
        threading.Timer(0.05, stop.set).start()
        assert waiter.wait(None, stop) is WakeReason.INTERRUPTED
        waiter.cancel_wait()
        assert waiter.pause(5, stop)
        assert not waiter.pause(0.01)
    waiter.interrupt()  # too late, and harmless


def test_redis_releases_a_client_after_its_time(client: Redis, monkeypatch: pytest.MonkeyPatch, bell: Any) -> None:
    monkeypatch.setattr("rqtui.client.wakeup.BLOCK_S", 0.1)
    with bell(client) as waiter:
        assert waiter.wait(None) is WakeReason.NOTHING


def test_a_wait_on_a_server_that_goes_away_is_unreachable(client: Redis, url: str, bell: Any) -> None:
    with Proxy(url) as proxy, connect(proxy.url) as through, bell(through) as waiter:
        threading.Timer(0.1, proxy.refuse).start()
        with pytest.raises(Unreachable):
            waiter.wait(None)
        with pytest.raises(Unreachable):
            waiter.wait(None)
        proxy.listen()
        wait_until(
            lambda: client.info("clients")["blocked_clients"] == 0, what="Redis has seen the end of the first one"
        )
        client.zadd(WAKE, {"wake": 0})
        assert waiter.wait(None) is WakeReason.MARKER


def test_a_waiter_connects_again_after_each_end_of_its_connection(client: Redis, bell: Any) -> None:
    """The number of the closed socket is usually given to the next one, which the waiter must watch instead."""
    with bell(client) as waiter:
        for _ in range(5):
            assert waiter.wait(0.1) is WakeReason.TIMER
            client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            with pytest.raises(Unreachable):
                waiter.wait(None)
        client.zadd(WAKE, {"wake": 0})
        assert waiter.wait(None) is WakeReason.MARKER


def test_closing_the_client_in_another_thread_is_an_error_not_a_hang(client: Redis, url: str) -> None:
    with connect(url) as theirs, closing(WakeWaiter(theirs, WAKE)) as waiter:
        assert waiter.wait(0.02) is WakeReason.TIMER
        theirs.connection_pool.disconnect()
        with pytest.raises(Unreachable, match="closed"):
            waiter.cancel_wait()


@pytest.fixture
def restricted(client: Redis, url: str) -> Iterator[Callable[..., str]]:
    """Return a function that builds the URL of a user with fewer rights: `restricted("-client|unblock")`."""

    def create_user(*rules: str) -> str:
        client.execute_command("ACL", "SETUSER", "worker", "on", ">secret", "~*", "&*", "+@all", *rules)
        return url.replace("redis://", "redis://worker:secret@")

    yield create_user
    client.execute_command("ACL", "DELUSER", "worker")


@pytest.mark.parametrize("rule", ["-client|unblock", "-client|id"])
def test_where_no_client_may_be_unblocked_the_server_keeps_the_time(
    kind: Any, restricted: Callable[..., str], client: Redis, for_ever: None, rule: str
) -> None:
    if is_server_older(client, 7):
        pytest.skip("an ACL can deny a subcommand alone from Redis 7 on")
    with kind("mail", restricted(rule)) as queue:
        due_ms = now_ms(client) + 300
        queue.put("soon", delay="300ms")
        for job in queue.consume():
            with job:
                assert now_ms(client) >= due_ms
                break
        assert queue.counts()["acked"] == 1


def test_a_user_who_may_not_wait_is_informed(kind: Any, restricted: Callable[..., str]) -> None:
    with kind("mail", restricted("-bzpopmin")) as queue, pytest.raises(Denied, match="waiting for work"):
        next(queue.consume())


# Consumers


def test_an_idle_consumer_is_woken_by_each_new_job_and_sends_nothing_meanwhile(
    queue: Queue, client: Redis, for_ever: None, consuming: Consuming
) -> None:
    ran = threading.Event()
    with consuming(1, lambda _job: ran.set()):
        wait_for_blocked(client, 1)
        before = calls(client, "bzpopmin")
        for _ in range(30):
            ran.clear()
            queue.put(1)
            assert ran.wait(20)
            wait_for_blocked(client, 1)
        assert calls(client, "bzpopmin") - before == 30


def test_a_delayed_job_runs_when_it_is_due_without_a_dispatcher(
    queue: Queue, client: Redis, for_ever: None, consuming: Consuming
) -> None:
    runs: list[float] = []
    with consuming(3, lambda _job: runs.append(now_ms(client))):
        wait_for_blocked(client, 3)
        due_ms = int(now_ms(client)) + 700
        before = calls(client)
        queue.put(1, due=due_ms)
        wait_until(lambda: runs, 20)
        assert runs[0] >= due_ms
        wait_for_blocked(client, 3)
        assert calls(client) - before < 30, "nobody asked again and again whether it was due"


def test_a_sooner_job_does_not_wait_for_a_later_one(
    queue: Queue, client: Redis, for_ever: None, consuming: Consuming
) -> None:
    runs: list[str] = []
    with consuming(2, lambda job: runs.append(job.body)):
        wait_for_blocked(client, 2)
        queue.put("later", delay="1h", id="later")
        wait_until(lambda: not client.exists(WAKE), 20, "somebody holds the timer")
        wait_for_blocked(client, 2)
        queue.put("sooner", delay="200ms")
        wait_until(lambda: runs == ["sooner"], 20)
        [answer] = queue._run_verb("reschedule", {"delay_ms": 100}, [("later",)]).each
        assert answer.word == "moved"
        wait_until(lambda: runs == ["sooner", "later"], 20)


def test_a_lone_consumer_comes_back_for_what_falls_due_after_its_job(
    queue: Queue, client: Redis, for_ever: None, consuming: Consuming
) -> None:
    runs: list[str] = []
    with consuming(1, lambda job: runs.append(job.body)):
        wait_for_blocked(client, 1)
        queue.put_many([{"body": "now"}, {"body": "soon", "delay": "300ms"}, {"body": "far", "delay": "1h"}])
        wait_until(lambda: runs == ["now", "soon"], 20)


def test_a_dead_workers_lease_is_run_again_without_a_reaper(
    queue: Queue, client: Redis, for_ever: None, consuming: Consuming
) -> None:
    queue.put("x", id="a")
    ends_ms = now_ms(client) + 500
    queue.reserve(ttr="500ms", worker="dead")
    runs: list[tuple[int, float]] = []
    with consuming(2, lambda job: runs.append((job.attempt, now_ms(client)))):
        wait_until(lambda: runs, 20)
    assert runs[0][0] == 2
    assert runs[0][1] >= ends_ms


def test_resuming_a_paused_queue_wakes_its_consumers(
    queue: Queue, client: Redis, for_ever: None, consuming: Consuming
) -> None:
    queue.pause()
    queue.put_many(range(20))
    runs: list[int] = []
    with consuming(3, lambda job: runs.append(job.body)):
        wait_for_blocked(client, 3)
        assert runs == []
        queue.resume()
        wait_until(lambda: sorted(runs) == list(range(20)), 20)


def test_a_rush_wakes_one_consumer_after_the_other(
    queue: Queue, client: Redis, for_ever: None, consuming: Consuming
) -> None:
    threads: set[int] = set()
    all_four = threading.Barrier(4)

    def seen(_job: Any) -> None:
        if threading.get_ident() not in threads:
            threads.add(threading.get_ident())
            all_four.wait(20)  # no consumer gets a second job before each has had one

    with consuming(4, seen):
        wait_for_blocked(client, 4)
        queue.put_many(range(16))
        wait_until(lambda: queue.counts()["acked"] == 16, 30)
    assert len(threads) == 4


def test_a_paused_queue_with_due_jobs_costs_next_to_nothing(queue: Queue, client: Redis, consuming: Consuming) -> None:
    queue.pause()
    queue.put_many([{"body": n, "delay": "1h"} for n in range(5)])
    move_queue_into_past(client, "mail", 2 * 3_600_000)
    with consuming(3, lambda _job: None):
        wait_for_blocked(client, 3)
        before = calls(client)
        time.sleep(1)
        assert calls(client) - before < 10


def test_a_consumer_that_holds_the_timer_passes_it_on_when_it_leaves(
    queue: Queue, client: Redis, for_ever: None, consuming: Consuming
) -> None:
    runs: list[int] = []
    with consuming(1, lambda _job: None):
        wait_for_blocked(client, 1)
        queue.put(1, delay="1h")
        wait_until(lambda: not client.exists(WAKE), 20)
        wait_for_blocked(client, 1)
    assert client.exists(WAKE) == 1
    move_queue_into_past(client, "mail", HOUR_MS - 500)  # due in half a second
    with consuming(1, lambda job: runs.append(job.body)):
        wait_until(lambda: runs, 20)


@pytest.mark.slow
def test_fifty_idle_consumers_and_one_job_due_cost_less_than_a_hundred_calls(
    queue: Queue, client: Redis, monkeypatch: pytest.MonkeyPatch, consuming: Consuming
) -> None:
    # The others look a moment after the holder of the timer; a moment that a busy machine has, too.
    monkeypatch.setattr("rqtui.client.consumer.LAG_S", (1.0, 1.5))
    runs: list[str] = []
    with consuming(50, lambda job: runs.append(job.body)):
        wait_for_blocked(client, 50)
        before = calls(client)
        queue.put("a", delay="1s")
        wait_until(lambda: runs == ["a"], 30)
        time.sleep(1.5)  # until the last of the others has looked
        wait_for_blocked(client, 50)
        assert calls(client) - before < 100
    assert runs == ["a"]


def test_quiet_and_stop_reach_a_worker_with_its_heartbeat(
    queue: Queue, client: Redis, monkeypatch: pytest.MonkeyPatch, consuming: Consuming
) -> None:
    monkeypatch.setattr("rqtui.client.heartbeat.WORKER_TTL_MS", 300)
    workers = "rqtui:{mail}:workers"
    runs: list[str] = []
    with consuming(1, lambda job: runs.append(job.body), worker="w"):
        wait_until(lambda: client.hexists(workers, "w"), 20)
        wait_for_blocked(client, 1)
        queue.put("much later", delay="1h")
        wait_until(lambda: not client.exists(WAKE), 20, "it holds the timer")
        wait_for_blocked(client, 1)
        assert queue._run_verb("quiet", {}, [("w",)]).each[0].word == "asked"
        wait_until(lambda: client.exists(WAKE), 20, "the timer is there for another one")
        wait_until(lambda: client.info("clients")["blocked_clients"] == 0, 20, "it waits for no work any more")
        queue.put("unwanted")
        for _ in range(2):
            beat = client.hget(workers, "w")
            wait_until(lambda beat=beat: client.hget(workers, "w") != beat, 20, "a beat")
        assert runs == []
        assert queue._run_verb("stop", {}, [("w",)]).each[0].word == "asked"
        wait_until(lambda: not client.exists(workers), 20)
    assert queue.counts()["ready"] == 1


@pytest.mark.parametrize("is_in_process", [False, True])
def test_a_consumer_waits_on_fakeredis_too(kind: Any, fake_server: Any, is_in_process: bool) -> None:
    inputs = FakeRedis() if is_in_process else connect(fake_server.url)
    inputs.flushall()
    with kind("fake", inputs) as queue:
        queue.put_many([1, {"body": 2, "delay": "300ms"}])
        seen = []
        for job in queue.consume():
            with job:
                seen.append(job.body)
                if len(seen) == 2:
                    break
        assert seen == [1, 2]


def test_a_socket_of_fakeredis_is_not_taken_for_a_file_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    client = FakeRedis()
    bell = WakeWaiter(client, WAKE)
    monkeypatch.setattr("fakeredis._socket._base._get_next_file_no", lambda: bell._read_fd)
    assert bell.wait(0.05) is WakeReason.TIMER
    bell.close()


def test_no_wait_is_longer_than_requested_because_a_selector_counts_in_milliseconds() -> None:
    for micros in range(0, 20_000, 7):
        rounded_ms = math.ceil(bells._round_seconds_down_to_ms(micros / 1e6) * 1e3)  # as selectors.EpollSelector does
        assert micros / 1e3 - 1 <= rounded_ms <= micros / 1e3


def test_a_closed_waiter_disconnects_and_releases_its_connection() -> None:
    for has_connection in (False, True):
        steps: list[Any] = []
        connection = SimpleNamespace(disconnect=lambda steps=steps: steps.append("disconnect"))
        waiter = WakeWaiter(SimpleNamespace(connection_pool=SimpleNamespace(release=steps.append)), WAKE)  # type: ignore[arg-type]
        waiter._connection = connection if has_connection else None
        waiter.close()
        assert steps == (["disconnect", connection] if has_connection else [])
