"""Closer looks: what a queue's history, its dead and its leases tell, at a bounded cost and not at every tick."""

from __future__ import annotations

import time

import pytest
from redis import Redis
from wire import sent

from rqtui.client.native_keys import keys
from rqtui.client.queue import Queue
from rqtui.engine.engine import Engine
from rqtui.engine.inspection import failing_since_ms
from rqtui.engine.urgency import weight
from rqtui.model import Cause, Finding, Focus, Ref
from rqtui.model import Queue as Counted
from rqtui.scenarios.past import live_through
from rqtui.scenarios.scenario import NewJob, PastGroup
from rqtui.scripts import script as scripts
from rqtui.systems import registry

ORDERS, MAIL = Ref("native", "orders"), Ref("native", "mail")
ONCE = Focus((ORDERS,), is_thorough=True)
GONE = "HTTPStatusError: Client error '410 Gone' for url https://api-{n}.example/{hex}"
MINUTE_MS = 60_000


@pytest.fixture
def engine(client: Redis) -> Engine:
    made = Engine(client, [registry.make("native")])
    made.refs = [ORDERS]
    return made


def jobs(prefix: str, number: int) -> tuple[NewJob, ...]:
    return tuple(NewJob(f"{prefix}-{n:04}", b"{}", "charge") for n in range(number))


def lived(client: Redis, *groups: PastGroup) -> int:
    """Lets that have happened; the server's clock now."""
    now_ms = int(time.time() * 1000)
    live_through(client, groups, now_ms)
    return now_ms


def run(client: Redis, verb: str, rows: list[list[object]] | None = None, **args: object) -> list[list[object]]:
    """A script of the native queue, on orders."""
    call = scripts.load("native")[verb].call(keys("orders"), args, rows or [])
    return [list(row) for row in scripts.run(client, call).rows]


def works(client: Redis, done: int, failed: int, at_ms: int, error: str = GONE) -> None:
    """So many attempts end well and so many badly at an instant."""
    blank = [None] * (len(scripts.load("native")["enqueue"].each) - 3)
    run(client, "enqueue", [[f"{at_ms}-{n}", b"{}", "charge", *blank] for n in range(done + failed)], now_ms=at_ms)
    taken = run(client, "reserve", now_ms=at_ms, limit=done + failed, worker="w")
    if done:
        run(client, "ack", [row[:2] for row in taken[:done]], now_ms=at_ms)
    if failed:
        run(client, "reject", [[*row[:2], error] for row in taken[done:]], now_ms=at_ms)


def found(queue: Counted, kind: str) -> Finding:
    return next(one for one in queue.findings if one.kind == kind)


def test_who_looks_once_knows_the_share_that_fails_since_when_and_why(client: Redis, engine: Engine) -> None:
    now_ms = int(time.time() * 1000)
    for ago in (20, 15, 12):
        works(client, 30, 0, now_ms - ago * MINUTE_MS)
    for ago in (8, 4, 2, 1):
        works(client, 10, 10, now_ms - ago * MINUTE_MS)
    [queue] = engine.snapshot(ONCE).queues
    failing = found(queue, "failing")
    assert (failing.severity, failing.text, failing.detail) == (
        "critical", "50 % of attempts fail", "mostly HTTPStatusError 410",
    )  # fmt: skip
    assert failing.jobs == 30, "those of the last five minutes alone"
    assert failing.causes == (Cause("HTTPStatusError 410", 40),)
    assert failing.since_ms == (now_ms - 8 * MINUTE_MS) // MINUTE_MS * MINUTE_MS
    assert queue.verdict.text.startswith("50 % of attempts fail")


def test_who_looks_once_knows_that_a_backlog_grows_but_not_where_jobs_are_delayed(
    client: Redis, engine: Engine
) -> None:
    now_ms = int(time.time() * 1000)
    blank = [None] * (len(scripts.load("native")["enqueue"].each) - 3)
    for batch in range(5):
        rows = [[f"{batch}-{n}", b"{}", "charge", *blank] for n in range(1_000)]
        run(client, "enqueue", rows, now_ms=now_ms - 2 * MINUTE_MS)
    works(client, 10, 0, now_ms)
    run(client, "beat", worker="w", ttl_ms=60_000, host="here")
    [queue] = engine.snapshot(ONCE).queues
    assert found(queue, "backlog-grows").jobs == 5_000
    Queue("orders", client).put(b"{}", delay="1h")  # how many of those that came were delayed, nobody counted
    another = Engine(client, [registry.make("native")])
    another.refs = [ORDERS]
    [queue] = another.snapshot(ONCE).queues
    assert "backlog-grows" not in [one.kind for one in queue.findings]


def test_a_screen_knows_it_after_three_pictures_of_one_trip_each(
    client: Redis, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ms = int(time.time() * 1000)
    for ago in (4, 2):
        works(client, 10, 10, now_ms - ago * MINUTE_MS)
    pictures = [engine.snapshot() for _tick in range(3)]
    assert [picture.cost.trips for picture in pictures] == [1, 1, 1]
    assert found(pictures[2].queues[0], "failing").detail == "mostly HTTPStatusError 410"
    with sent(monkeypatch) as writes:
        engine.snapshot()
    assert [write.count(b"EVALSHA") for write in writes] == [1], "counts, and nothing else until a look is due"


def test_a_queue_that_does_well_costs_its_counts_and_nothing_else(
    client: Redis, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    works(client, 40, 0, int(time.time() * 1000) - MINUTE_MS)
    for _tick in range(2):
        engine.snapshot()
    with sent(monkeypatch) as writes:
        assert engine.snapshot().queues[0].verdict.text == "ok"
    assert [write.count(b"EVALSHA") for write in writes] == [1]


def test_a_thousand_queues_that_fail_add_a_bounded_number_of_calls_to_a_tick(client: Redis, engine: Engine) -> None:
    many = [f"q{n:03}" for n in range(120)]
    for name in many:
        queue = Queue(name, client)
        queue.put("x", max_attempts=1)
        for job in queue.reserve(1):
            job.reject("ValueError: no")
    engine.refs = [Ref("native", name) for name in many]
    costs = [engine.snapshot().cost for _tick in range(8)]
    assert {cost.trips for cost in costs} == {1}
    assert max(cost.commands for cost in costs) <= 3 + 20 + 3 + 3
    assert costs[-1].commands == 3


def test_the_incident_is_seen_at_one_look(client: Redis, engine: Engine) -> None:
    client.hset(keys("orders")["meta"], "max_attempts", 3)
    lived(
        client,
        PastGroup(21, "orders", "CardDeclined: charge ch_{mixed} was declined", jobs("dead", 900)),
        PastGroup(20, "orders", "TimeoutError: no answer in {n} s", jobs("late", 300)),
        PastGroup(12, "orders", "", jobs("held", 150), worker="eu-7", ttr_ms=3_600_000),
        PastGroup(11, "orders", "", jobs("kept", 50), worker="eu-9", ttr_ms=3_600_000),
        PastGroup(10, "orders", "", jobs("wait", 300)),
    )
    [queue] = engine.snapshot(ONCE).queues
    assert queue.verdict.severity == "critical"
    silent, dead = found(queue, "silent-leases"), found(queue, "dead-many")
    assert (silent.severity, silent.jobs, silent.key) == ("critical", 200, "w")
    assert silent.text == "200 leases of 2 workers that do not beat"
    assert silent.detail == "held by eu-7, eu-9"
    assert (dead.jobs, dead.text, dead.detail) == (1_200, "1 200 of 1 700 jobs are dead", "mostly CardDeclined")
    assert weight(queue) > 200


def test_a_worker_that_beats_holds_its_leases_in_peace(client: Redis, engine: Engine) -> None:
    Queue("orders", client).put_many([{"body": n} for n in range(4)])
    now_ms = int(time.time() * 1000)
    run(client, "reserve", now_ms=now_ms - 300_000, limit=2, worker="alive", ttr_ms=3_600_000)
    run(client, "beat", worker="alive", ttl_ms=60_000, host="here")
    assert engine.snapshot(ONCE).queues[0].findings == ()
    run(client, "reserve", limit=1, worker="new", ttr_ms=3_600_000)
    assert engine.snapshot(ONCE).queues[0].findings == (), "who has just begun may beat late"


def test_leases_of_a_worker_that_never_beat_are_told(client: Redis, engine: Engine) -> None:
    Queue("orders", client).put_many([{"body": n} for n in range(4)])
    now_ms = int(time.time() * 1000)
    run(client, "reserve", now_ms=now_ms - 300_000, limit=4, worker="mute", ttr_ms=3_600_000)
    silent = found(engine.snapshot(ONCE).queues[0], "silent-leases")
    assert (silent.text, silent.jobs, silent.severity) == ("4 leases of mute, which does not beat", 4, "warning")
    assert silent.since_ms == now_ms - 300_000


def test_three_silent_workers_are_all_named_and_of_four_one_is_counted(client: Redis, engine: Engine) -> None:
    Queue("orders", client).put_many([{"body": n} for n in range(10)])
    then_ms = int(time.time() * 1000) - 300_000
    for number, worker in ((4, "a"), (3, "b"), (2, "c")):
        run(client, "reserve", now_ms=then_ms, limit=number, worker=worker, ttr_ms=3_600_000)
    assert found(engine.snapshot(ONCE).queues[0], "silent-leases").detail == "held by a, b, c"
    run(client, "reserve", now_ms=then_ms, limit=1, worker="d", ttr_ms=3_600_000)
    fresh = Engine(client, [registry.make("native")])
    fresh.refs = [Ref("native", "orders")]
    assert found(fresh.snapshot(ONCE).queues[0], "silent-leases").detail == "held by a, b, c and 1 more"


def test_a_wait_is_compared_with_what_is_usual_for_the_queue(client: Redis, engine: Engine) -> None:
    now_ms = int(time.time() * 1000)
    for ago in range(40, 11, -1):
        works(client, 60, 0, now_ms - ago * MINUTE_MS)
    lived(client, PastGroup(3, "orders", "", jobs("wait", 5)))
    run(client, "beat", worker="w", ttl_ms=60_000, host="here")
    old = found(engine.snapshot(ONCE).queues[0], "oldest-ready")
    assert old.text == "the oldest ready job waits for 3 m"
    assert old.detail.startswith("usually ")


def test_thresholds_of_a_queue_hold_for_it_alone(client: Redis) -> None:
    from rqtui.config.thresholds import Limit

    for name in ("orders", "mail"):
        queue = Queue(name, client)
        queue.put_many([{"body": n, "max_attempts": 1} for n in range(5)])
        for job in queue.reserve(5):
            job.reject("ValueError: no")
    engine = Engine(client, [registry.make("native")], limits=[("native:ord*", {"dead": Limit(2, 5)})])
    judged = engine.snapshot(Focus((ORDERS, MAIL), is_thorough=True)).queues
    assert [queue.verdict.severity for queue in judged] == ["critical", "ok"]
    assert judged[0].findings[0].detail == "mostly ValueError"


def test_a_finding_that_comes_while_one_looks_began_then(
    client: Redis, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = Queue("orders", client)
    queue.put("x")
    engine.snapshot()
    before_ms = engine.now_ms()
    queue.put_many([{"body": n, "max_attempts": 1} for n in range(12)])
    for job in queue.reserve(12):
        job.reject("ValueError: no")
    pictures = [engine.snapshot() for _tick in range(2)]
    since = [found(picture.queues[0], "dead-share").since_ms for picture in pictures]
    assert since[0] is not None and since[0] >= before_ms
    assert since[0] == since[1]


def test_a_look_that_is_denied_leaves_the_rest(client: Redis, url: str) -> None:
    from rqtui.connection.connect import connect

    works(client, 10, 10, int(time.time() * 1000) - MINUTE_MS)
    client.execute_command(
        "ACL", "SETUSER", "viewer", "reset", "on", ">pw", "~*", "+@all", "-hgetall"
    )  # that `stats` needs
    try:
        with connect(url.replace("redis://", "redis://viewer:pw@")) as viewer:
            [queue] = Engine(viewer, [registry.make("native")]).snapshot(ONCE).queues
            assert queue.error == ""
            assert queue.count("ready") + queue.count("scheduled") == 10
    finally:
        client.execute_command("ACL", "DELUSER", "viewer")


def test_a_failure_began_with_the_first_bad_minute_that_no_good_one_followed() -> None:
    assert failing_since_ms([(1, 0.6), (2, 0.0), (3, 0.5), (4, 0.3), (5, 0.6)], 0.5) == 3
    assert failing_since_ms([(1, 0.6), (2, 0.1)], 0.5) is None
    assert failing_since_ms([], 0.5) is None
