"""Test probes: what the history, dead jobs and leases of a queue show, at a bounded cost, not at each refresh."""

from __future__ import annotations

import json
import logging
import time
from collections import Counter
from dataclasses import replace

import pytest
from redis import Redis
from socket_writes import record_socket_writes

from rqtui.client.native_keys import build_queue_keys
from rqtui.client.queue import Queue
from rqtui.engine.dead_sample import build_dead_sample_request
from rqtui.engine.engine import Engine
from rqtui.engine.health.failure_probes import count_causes
from rqtui.engine.health.probe_results import find_failing_since_ms
from rqtui.engine.health.urgency import compute_queue_urgency
from rqtui.model import Cause, Finding, Focus, Job, Ref, State
from rqtui.model import Queue as Counted
from rqtui.reports.errors import yield_error_reports
from rqtui.scenarios.past import create_past
from rqtui.scenarios.scenario import NewJob, PastGroup
from rqtui.scripts import script as scripts
from rqtui.systems import registry

ORDERS, MAIL = Ref("native", "orders"), Ref("native", "mail")
ONCE = Focus((ORDERS,), is_thorough=True)
GONE = "HTTPStatusError: Client error '410 Gone' for url https://api-{n}.example/{hex}"
MINUTE_MS = 60_000


@pytest.fixture
def engine(client: Redis) -> Engine:
    new_engine = Engine(client, [registry.create_system("native")])
    new_engine.refs = [ORDERS]
    return new_engine


def jobs(prefix: str, number: int) -> tuple[NewJob, ...]:
    return tuple(NewJob(f"{prefix}-{n:04}", b"{}", "charge") for n in range(number))


def create_past_jobs(client: Redis, *groups: PastGroup) -> int:
    """Create the past jobs of these groups and return the current time (ms)."""
    now_ms = int(time.time() * 1000)
    create_past(client, groups, now_ms)
    return now_ms


def run(client: Redis, verb: str, rows: list[list[object]] | None = None, **args: object) -> list[list[object]]:
    """Run a script of the native queue `orders`."""
    call = scripts.load_scripts("native")[verb].build_call(build_queue_keys("orders"), args, rows or [])
    return [list(row) for row in scripts.run_call(client, call).rows]


def works(client: Redis, done: int, failed: int, at_ms: int, error: str = GONE) -> None:
    """Complete so many attempts successfully and fail so many at one time."""
    blank = [None] * (len(scripts.load_scripts("native")["enqueue"].each) - 3)
    run(client, "enqueue", [[f"{at_ms}-{n}", b"{}", "charge", *blank] for n in range(done + failed)], now_ms=at_ms)
    taken = run(client, "reserve", now_ms=at_ms, limit=done + failed, worker="w")
    if done:
        run(client, "ack", [row[:2] for row in taken[:done]], now_ms=at_ms)
    if failed:
        run(client, "reject", [[*row[:2], error] for row in taken[done:]], now_ms=at_ms)


def find_finding(queue: Counted, kind: str) -> Finding:
    return next(one for one in queue.findings if one.kind == kind)


def test_a_single_snapshot_shows_the_failure_share_its_start_and_its_cause(client: Redis, engine: Engine) -> None:
    now_ms = int(time.time() * 1000)
    for ago in (20, 15, 12):
        works(client, 30, 0, now_ms - ago * MINUTE_MS)
    for ago in (8, 4, 2, 1):
        works(client, 10, 10, now_ms - ago * MINUTE_MS)
    [queue] = engine.take_snapshot(ONCE).queues
    failing = find_finding(queue, "failing")
    assert (failing.severity, failing.text, failing.detail) == (
        "critical", "50 % of attempts fail", "mostly HTTPStatusError 410",
    )  # fmt: skip
    assert failing.jobs == 30, "those of the last five minutes alone"
    assert failing.causes == (Cause("HTTPStatusError 410", 40),)
    assert failing.since_ms == (now_ms - 8 * MINUTE_MS) // MINUTE_MS * MINUTE_MS
    assert queue.verdict.text.startswith("50 % of attempts fail")


def test_a_single_snapshot_shows_a_growing_backlog_except_with_delayed_jobs(client: Redis, engine: Engine) -> None:
    now_ms = int(time.time() * 1000)
    blank = [None] * (len(scripts.load_scripts("native")["enqueue"].each) - 3)
    for batch in range(5):
        rows = [[f"{batch}-{n}", b"{}", "charge", *blank] for n in range(1_000)]
        run(client, "enqueue", rows, now_ms=now_ms - (4 - batch) * MINUTE_MS // 2)
    works(client, 10, 0, now_ms)
    run(client, "beat", worker="w", ttl_ms=60_000, host="here")
    [queue] = engine.take_snapshot(ONCE).queues
    assert find_finding(queue, "backlog-grows").jobs == 5_000
    Queue("orders", client).put(b"{}", delay="1h")  # how many of the enqueued jobs were delayed is not counted
    another = Engine(client, [registry.create_system("native")])
    another.refs = [ORDERS]
    [queue] = another.take_snapshot(ONCE).queues
    assert "backlog-grows" not in [one.kind for one in queue.findings]


def test_a_screen_knows_it_after_three_refreshes_of_one_trip_each(
    client: Redis, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ms = int(time.time() * 1000)
    for ago in (4, 2):
        works(client, 10, 10, now_ms - ago * MINUTE_MS)
    pictures = [engine.take_snapshot() for _tick in range(3)]
    assert [picture.cost.round_trips for picture in pictures] == [1, 1, 1]
    assert find_finding(pictures[2].queues[0], "failing").detail == "mostly HTTPStatusError 410"
    with record_socket_writes(monkeypatch) as writes:
        engine.take_snapshot()
    assert [write.count(b"EVALSHA") for write in writes] == [1], "counts, and nothing else until a look is due"


def test_a_queue_that_does_well_costs_its_counts_and_nothing_else(
    client: Redis, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    works(client, 40, 0, int(time.time() * 1000) - MINUTE_MS)
    for _tick in range(2):
        engine.take_snapshot()
    with record_socket_writes(monkeypatch) as writes:
        assert engine.take_snapshot().queues[0].verdict.text == "ok"
    assert [write.count(b"EVALSHA") for write in writes] == [1]


def test_a_thousand_queues_that_fail_add_a_bounded_number_of_calls_to_a_tick(client: Redis, engine: Engine) -> None:
    many = [f"q{n:03}" for n in range(120)]
    for name in many:
        queue = Queue(name, client)
        queue.put("x", max_attempts=1)
        for job in queue.reserve(1):
            job.reject("ValueError: no")
    engine.refs = [Ref("native", name) for name in many]
    costs = [engine.take_snapshot().cost for _tick in range(8)]
    assert {cost.round_trips for cost in costs} == {1}
    assert max(cost.commands for cost in costs) <= 3 + 20 + 3 + 3
    assert costs[-1].commands == 3


def test_the_incident_is_visible_in_one_snapshot(client: Redis, engine: Engine) -> None:
    client.hset(build_queue_keys("orders")["meta"], "max_attempts", 3)
    create_past_jobs(
        client,
        PastGroup(21, "orders", "CardDeclined: charge ch_{mixed} was declined", jobs("dead", 900)),
        PastGroup(20, "orders", "TimeoutError: no answer in {n} s", jobs("late", 300)),
        PastGroup(12, "orders", "", jobs("held", 150), worker="eu-7", ttr_ms=3_600_000),
        PastGroup(11, "orders", "", jobs("kept", 50), worker="eu-9", ttr_ms=3_600_000),
        PastGroup(10, "orders", "", jobs("wait", 300)),
    )
    [queue] = engine.take_snapshot(ONCE).queues
    assert queue.verdict.severity == "critical"
    silent, dead = find_finding(queue, "silent-leases"), find_finding(queue, "dead-many")
    assert (silent.severity, silent.jobs, silent.key) == ("critical", 200, "w")
    assert silent.text == "2 workers hold 200 jobs and have sent no heartbeat"
    assert silent.detail == "eu-7, eu-9"
    assert (dead.jobs, dead.text, dead.detail) == (
        1_200,
        "1 200 jobs are dead, all of them in the last 24 h",
        "mostly CardDeclined",
    )
    assert compute_queue_urgency(queue) > 200


def test_a_worker_with_heartbeats_keeps_its_leases(client: Redis, engine: Engine) -> None:
    Queue("orders", client).put_many([{"body": n} for n in range(4)])
    now_ms = int(time.time() * 1000)
    run(client, "reserve", now_ms=now_ms - 300_000, limit=2, worker="alive", ttr_ms=3_600_000)
    run(client, "beat", worker="alive", ttl_ms=60_000, host="here")
    assert engine.take_snapshot(ONCE).queues[0].findings == ()
    run(client, "reserve", limit=1, worker="new", ttr_ms=3_600_000)
    assert engine.take_snapshot(ONCE).queues[0].findings == (), "who has just begun may beat late"


def test_leases_of_a_worker_without_any_heartbeat_are_reported(client: Redis, engine: Engine) -> None:
    Queue("orders", client).put_many([{"body": n} for n in range(4)])
    now_ms = int(time.time() * 1000)
    run(client, "reserve", now_ms=now_ms - 300_000, limit=4, worker="mute", ttr_ms=3_600_000)
    silent = find_finding(engine.take_snapshot(ONCE).queues[0], "silent-leases")
    assert (silent.text, silent.jobs, silent.severity) == ("mute holds 4 jobs and has sent no heartbeat", 4, "warning")
    assert silent.since_ms == now_ms - 300_000


def test_three_silent_workers_are_all_named_and_of_four_one_is_counted(client: Redis, engine: Engine) -> None:
    Queue("orders", client).put_many([{"body": n} for n in range(10)])
    then_ms = int(time.time() * 1000) - 300_000
    for number, worker in ((4, "a"), (3, "b"), (2, "c")):
        run(client, "reserve", now_ms=then_ms, limit=number, worker=worker, ttr_ms=3_600_000)
    assert find_finding(engine.take_snapshot(ONCE).queues[0], "silent-leases").detail == "a, b, c"
    run(client, "reserve", now_ms=then_ms, limit=1, worker="d", ttr_ms=3_600_000)
    fresh = Engine(client, [registry.create_system("native")])
    fresh.refs = [Ref("native", "orders")]
    assert find_finding(fresh.take_snapshot(ONCE).queues[0], "silent-leases").detail == "a, b, c and 1 more"


def test_a_wait_is_compared_with_what_is_usual_for_the_queue(client: Redis, engine: Engine) -> None:
    now_ms = int(time.time() * 1000)
    for ago in range(40, 11, -1):
        works(client, 60, 0, now_ms - ago * MINUTE_MS)
    create_past_jobs(client, PastGroup(3, "orders", "", jobs("wait", 5)))
    run(client, "beat", worker="w", ttl_ms=60_000, host="here")
    old = find_finding(engine.take_snapshot(ONCE).queues[0], "oldest-ready")
    assert old.text == "the oldest of 5 ready jobs has waited 3 min"
    assert old.detail.startswith("usually ")


def test_thresholds_of_a_queue_hold_for_it_alone(client: Redis) -> None:
    from rqtui.config.thresholds import Limit

    for name in ("orders", "mail"):
        queue = Queue(name, client)
        queue.put_many([{"body": n, "max_attempts": 1} for n in range(5)])
        for job in queue.reserve(5):
            job.reject("ValueError: no")
    engine = Engine(client, [registry.create_system("native")], limits=[("native:ord*", {"dead": Limit(2, 5)})])
    queues = engine.take_snapshot(Focus((ORDERS, MAIL), is_thorough=True)).queues
    assert [queue.verdict.severity for queue in queues] == ["critical", "ok"]
    assert queues[0].findings[0].detail == "mostly ValueError"


def test_a_finding_that_comes_while_a_person_watches_began_then(
    client: Redis, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = Queue("orders", client)
    queue.put("x")
    engine.take_snapshot()
    before_ms = engine.fetch_server_time_ms()
    queue.put_many([{"body": n, "max_attempts": 1} for n in range(12)])
    for job in queue.reserve(12):
        job.reject("ValueError: no")
    pictures = [engine.take_snapshot() for _tick in range(2)]
    since = [find_finding(picture.queues[0], "dead-grows").since_ms for picture in pictures]
    assert since[0] is not None and since[0] >= before_ms
    assert since[0] == since[1]


def test_a_poll_that_is_denied_leaves_the_rest(client: Redis, url: str, caplog: pytest.LogCaptureFixture) -> None:
    from rqtui.connection.connect import connect

    caplog.set_level(logging.DEBUG, "rqtui")
    works(client, 10, 10, int(time.time() * 1000) - MINUTE_MS)
    client.execute_command(
        "ACL", "SETUSER", "viewer", "reset", "on", ">pw", "~*", "+@all", "-hgetall"
    )  # that `stats` needs
    try:
        with connect(url.replace("redis://", "redis://viewer:pw@")) as viewer:
            [queue] = Engine(viewer, [registry.create_system("native")]).take_snapshot(ONCE).queues
            assert queue.error == ""
            assert queue.count_in_place("ready") + queue.count_in_place("scheduled") == 10
            assert any(record.getMessage().startswith("a probe failed: ") for record in caplog.records)
    finally:
        client.execute_command("ACL", "DELUSER", "viewer")


def test_a_failure_began_with_the_first_bad_minute_that_no_good_one_followed() -> None:
    assert find_failing_since_ms([(1, 0.6), (2, 0.0), (3, 0.5), (4, 0.3), (5, 0.6)], 0.5) == 3
    assert find_failing_since_ms([(1, 0.6), (2, 0.1)], 0.5) is None
    assert find_failing_since_ms([], 0.5) is None


def test_an_error_report_that_read_all_dead_jobs_replaces_the_sample_until_their_number_changes(
    client: Redis, engine: Engine
) -> None:
    client.hset(build_queue_keys("orders")["meta"], "max_attempts", 1)
    create_past_jobs(
        client,
        PastGroup(30, "orders", "CardDeclined: no", jobs("card", 700)),
        PastGroup(20, "orders", "TimeoutError: no answer", jobs("late", 500)),
        # Jobs that died together, fewer than the jobs between two blocks of a sample.
        PastGroup(10, "orders", "KeyError: 'vat'", jobs("vat", 8)),
    )

    def find_causes() -> dict[str, int]:
        [queue] = engine.take_snapshot(Focus((ORDERS,))).queues
        return {cause.text: cause.jobs for cause in find_finding(queue, "dead-many").causes}

    engine.take_snapshot(ONCE)
    sampled = find_causes()
    assert sum(sampled.values()) <= 240
    *_, report = yield_error_reports(engine, [ORDERS])
    assert report.complete == {ORDERS: 1_208}
    assert find_causes() == {"CardDeclined": 700, "TimeoutError": 500, "KeyError": 8}
    create_past_jobs(client, PastGroup(5, "orders", "KeyError: 'vat'", jobs("more", 20)))
    assert find_causes()["CardDeclined"] == 700, "1.7 % more"
    create_past_jobs(client, PastGroup(4, "orders", "KeyError: 'vat'", jobs("yet", 20)))
    assert find_causes() == sampled


def test_a_report_that_read_a_part_of_the_dead_jobs_replaces_no_sample(
    client: Redis, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.hset(build_queue_keys("orders")["meta"], "max_attempts", 1)
    create_past_jobs(
        client,
        PastGroup(30, "orders", "CardDeclined: no", jobs("card", 1_000)),
        PastGroup(20, "orders", "TimeoutError: no answer", jobs("late", 400)),
    )
    engine.take_snapshot(ONCE)
    monkeypatch.setattr("rqtui.reports.errors.MAX_PER_PLACE", 300)
    *_, report = yield_error_reports(engine, [ORDERS])
    assert (report.complete, report.size.looked) == ({}, 300)
    [queue] = engine.take_snapshot(Focus((ORDERS,))).queues
    assert find_finding(queue, "dead-many").detail == "mostly CardDeclined"


def test_the_dead_jobs_of_one_queue_are_sampled_from_all_parts_of_a_place_of_all_queues(client: Redis) -> None:
    system = registry.create_system("sidekiq")
    client.sadd("queues", "mail", "other")
    for at in range(2_000):
        error = "KeyError" if at < 400 else "TimeoutError"
        job = {
            "jid": f"{at:024}",
            "queue": "mail" if at % 2 else "other",
            "class": "A",
            "args": [],
            "error_class": error,
        }
        client.zadd("dead", {json.dumps(job | {"error_message": "no", "retry_count": 0}): 1_700_000_000 + at})
    engine = Engine(client, [system])
    mail = Ref("sidekiq", "mail")
    [queue] = engine.take_snapshot(Focus((mail,))).queues
    sample = engine.send_request(build_dead_sample_request(system, queue))
    found = Counter(job.error.partition(":")[0] for job in sample.list_jobs())
    assert (sample.ref, set(found)) == (mail, {"KeyError", "TimeoutError"})
    assert found["TimeoutError"] > found["KeyError"], "four of five jobs"
    assert not sample.is_ordered, "the last job of this queue may be far from the end of the place"


def test_old_dead_jobs_are_a_number_and_those_of_a_day_a_finding(client: Redis, engine: Engine) -> None:
    client.hset(build_queue_keys("orders")["meta"], "max_attempts", 1)
    create_past_jobs(
        client,
        *(PastGroup(3 * 1_440, "orders", "CardDeclined: no", jobs(f"old-{n}", 500)) for n in range(3)),
        PastGroup(20, "orders", "TimeoutError: no answer", jobs("new", 300)),
    )
    [queue] = engine.take_snapshot(ONCE).queues
    dead = find_finding(queue, "dead-many")
    assert (dead.severity, queue.verdict.severity) == ("info", "ok")
    assert dead.text.startswith("1 800 jobs are dead, at least ")
    assert 200 <= dead.jobs <= 300
    create_past_jobs(
        client, *(PastGroup(10, "orders", "TimeoutError: no answer", jobs(f"now-{n}", 1_000)) for n in range(3))
    )
    another = Engine(client, [registry.create_system("native")])
    another.refs = [ORDERS]
    [queue] = another.take_snapshot(ONCE).queues
    dead = find_finding(queue, "dead-many")
    assert (dead.severity, 3_000 <= dead.jobs <= 3_300) == ("warning", True), dead


def test_a_few_jobs_that_died_now_are_not_overlooked_among_thousands_of_old_ones(client: Redis, engine: Engine) -> None:
    client.hset(build_queue_keys("orders")["meta"], "max_attempts", 1)
    create_past_jobs(
        client,
        *(PastGroup(3 * 1_440, "orders", "CardDeclined: no", jobs(f"old-{n}", 500)) for n in range(3)),
        PastGroup(1, "orders", "TimeoutError: no answer", jobs("new", 2)),
    )
    [queue] = engine.take_snapshot(ONCE).queues
    assert find_finding(queue, "dead-many").text == "1 502 jobs are dead, at least 2 of them in the last 24 h"


def test_ready_jobs_that_idle_workers_do_not_take_are_found_while_a_person_watches(
    client: Redis, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    Queue("orders", client).put_many([{"body": n} for n in range(5)])
    for name in ("a", "b"):
        run(client, "beat", worker=name, ttl_ms=600_000, host="here")
    begun_s = time.monotonic()
    kinds = []
    for seconds in (0, 16, 32):
        monkeypatch.setattr(time, "monotonic", lambda seconds=seconds: begun_s + seconds)
        monkeypatch.setattr("rqtui.engine.health.rules.MIN_IDLE_MS", 15_000 if seconds < 32 else 0)
        kinds.append([one.kind for one in engine.take_snapshot().queues[0].findings])
    assert kinds[0] == [], "one snapshot may fall between two jobs of a busy worker"
    assert kinds[-1] == ["idle-workers"]
    run(client, "reserve", limit=1, worker="a")
    assert [one.kind for one in engine.take_snapshot().queues[0].findings] == []


def test_jobs_wait_before_quiet_workers(client: Redis, engine: Engine) -> None:
    Queue("orders", client).put("x")
    run(client, "beat", worker="a", ttl_ms=60_000, host="here")
    run(client, "quiet", [["a"]])
    run(client, "beat", worker="a", ttl_ms=60_000, host="here")
    [queue] = engine.take_snapshot(ONCE).queues
    assert find_finding(queue, "idle-workers").text == "1 worker is quiet, and no worker takes the 1 ready job"


def test_a_job_whose_workers_die_is_named_after_the_second_death(client: Redis, engine: Engine) -> None:
    Queue("orders", client).put("x", id="killer", ttr=30)
    begin_ms = int(time.time() * 1000) - 20 * MINUTE_MS
    kinds, texts = [], []
    for run_number in range(5):
        at_ms = begin_ms + run_number * MINUTE_MS
        run(client, "reserve", limit=1, worker=f"w{run_number}", now_ms=at_ms)
        run(client, "reap", limit=10, now_ms=at_ms + 31_000)
        another = Engine(client, [registry.create_system("native")])
        another.refs = [ORDERS]
        [queue] = another.take_snapshot(ONCE).queues
        kinds.append([one.kind for one in queue.findings if one.kind == "interrupted"])
        texts += [f"{one.text}: {one.remedy}" for one in queue.findings if one.kind == "interrupted"]
    assert kinds == [[], *[["interrupted"]] * 4]
    assert texts == [
        *(f"job killer was running when {n} workers died: find out why before it runs again" for n in (2, 3, 4)),
        "job killer was running when 5 workers died: find out why before it is requeued",
    ]


def test_a_job_that_runs_much_longer_than_its_kind_usually_does_is_named(client: Redis, engine: Engine) -> None:
    now_ms, blank = int(time.time() * 1000), [None] * (len(scripts.load_scripts("native")["enqueue"].each) - 3)
    begin_ms = now_ms - 10 * MINUTE_MS

    def start(id: str, name: str, at_ms: int, ttr_ms: int = 60_000) -> list[object]:
        run(client, "enqueue", [[id, b"{}", name, *blank]], now_ms=at_ms)
        [row] = run(client, "reserve", limit=1, worker="w", now_ms=at_ms, ttr_ms=ttr_ms)
        return row[:2]

    run(client, "configure", [["keep_ms", "3600000"]])
    for number in range(5):
        token = start(f"c{number}", "charge", begin_ms + number * 5_000)
        run(client, "ack", [token], now_ms=begin_ms + number * 5_000 + 3_000)
        line = client.hget(build_queue_keys("orders")["attempts"], f"c{number}").split(b" ")
        line[1] = b"%d" % ((begin_ms + number * 5_000) * 1000)  # the token is the start of the run by the real clock
        client.hset(build_queue_keys("orders")["attempts"], f"c{number}", b" ".join(line))
    run(client, "beat", worker="w", ttl_ms=600_000, host="here")
    start("other", "report", now_ms - 9 * MINUTE_MS, 3_600_000)
    start("recent", "charge", now_ms - 59_000, 3_600_000)
    [queue] = engine.take_snapshot(ONCE).queues
    assert queue.verdict.text == "ok", "no run of a report has ended, and 59 s are not yet long"
    start("stuck", "charge", now_ms - 5 * MINUTE_MS, 3_600_000)
    another = Engine(client, [registry.create_system("native")])
    another.refs = [ORDERS]
    [queue] = another.take_snapshot(ONCE).queues
    long_run = find_finding(queue, "long-run")
    assert (long_run.severity, long_run.text, long_run.detail) == (
        "warning",
        "job stuck (charge) has been running for 5 min on w",
        "usually 3.0s (median of 5 ended runs)",
    )
    assert (long_run.ids, long_run.jobs) == ((b"stuck",), 1)


def test_a_rare_error_is_no_main_cause_of_dead_jobs_without_errors() -> None:
    job = Job(b"1", "orders", "native", "dead", State.DEAD, b"1")
    failed = replace(job, error="ValueError: bad card")
    assert count_causes([job, job, failed]) == () == count_causes([])
    assert [(cause.text, cause.jobs) for cause in count_causes([job, failed, failed])] == [("ValueError", 2)]
