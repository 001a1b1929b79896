"""Test how rqtui shows Sidekiq 6.4 and 8: shared places, killed processes, findings, bad input.

`test_sidekiq_verbs.py` tests the verbs; `tests/beside` runs the stock program.
"""

from __future__ import annotations

import base64
import json
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest
from families import run_cases, run_in_one_test
from redis import Redis
from shell import shell

from rqtui.engine.engine import Engine, build_engine
from rqtui.errors import Refused, UsageError
from rqtui.model import Finding, Focus, Job, PageSelection, Queue, Ref
from rqtui.reports import kinds, workers
from rqtui.scripts.script import Reply, run_call
from rqtui.systems import registry
from rqtui.systems.sidekiq.lost_jobs import LostJobs
from rqtui.systems.sidekiq.ruby_calls import format_job_call
from rqtui.testing import keyspace

DEFAULT, LOW = Ref("sidekiq", "default"), Ref("sidekiq", "low")
EIGHT, SIX = "app-1:101:ab12cd34ef56", "app-2:202:bb12cd34ef56"
TRACE = ["app/jobs/hard_job.rb:10:in 'HardJob#perform'", "app/jobs/hard_job.rb:3:in 'block'"]


def now_s() -> float:
    return time.time()


def job(jid: str, queue: str = "default", *, version: int = 8, leave: str = "", **fields: Any) -> str:
    """Build a job as Sidekiq's client writes it: 8 with times in ms, 6.4 in float seconds (lib/sidekiq/client.rb)."""
    at = now_s() - 20
    job_fields = {"retry": True, "queue": queue, "class": "HardJob", "args": [1, "two"], "jid": jid}
    job_fields |= dict.fromkeys(("created_at", "enqueued_at"), int(at * 1000) if version >= 8 else at)
    return json.dumps({**{k: v for k, v in job_fields.items() if k != leave}, **fields}, separators=(",", ":"))


def build_failed_job(jid: str, count: int = 0, **fields: Any) -> str:
    """Build a job that failed (lib/sidekiq/job_retry.rb)."""
    trace = base64.b64encode(zlib.compress(json.dumps(TRACE).encode())).decode()
    job_fields = {
        "error_class": "Net::ReadTimeout",
        "error_message": "no answer",
        "failed_at": int(now_s() * 1000) - 90_000,
    }
    return job(jid, retry_count=count, error_backtrace=trace, **{**job_fields, **fields})


def push(client: Redis, *bodies: str | bytes, queue: str = "default") -> None:
    client.sadd("queues", queue)
    for body in bodies:
        client.lpush(f"queue:{queue}", body)


def process(client: Redis, identity: str, *, silent_s: float = 2, held: tuple[str, ...] = (), **told: Any) -> None:
    """Plant a process as its heartbeat leaves it (lib/sidekiq/launcher.rb), of 6.4 for the identity `SIX`."""
    six = identity == SIX
    host, pid, _nonce = identity.split(":")
    info = {
        "hostname": host,
        "started_at": now_s() - 500,
        "pid": int(pid),
        "tag": "shop",
        "labels": [],
        "identity": identity,
    }
    if six:
        info |= {"concurrency": 10, "queues": ["default", "low"]}
    else:
        weights = {"default": {"weights": {"default": 2}, "concurrency": 5, "mode": "weighted"}}
        weights |= {"one": {"weights": {"low": 0}, "concurrency": 1, "mode": "strict"}}
        info |= {"capsules": weights, "version": "8.0.9", "embedded": False}
    own = {"info": json.dumps({**info, **told}), "busy": len(held), "beat": repr(now_s() - silent_s), "quiet": "false"}
    client.sadd("processes", identity)
    client.hset(identity, mapping={**own, "rss": 123456, "rtt_us": 312, **({} if six else {"concurrency": 6})})
    left_ms = max(1, int((60 - silent_s) * 1000))
    client.pexpire(identity, left_ms)
    key = f"{identity}:{'workers' if six else 'work'}"
    for number, body in enumerate(held):
        queue = json.loads(body)["queue"]
        work = {"queue": queue, "payload": body, "run_at": int(now_s() - 30 - number)}
        client.hset(key, f"t{number}", json.dumps(work, separators=(",", ":")))
        client.pexpire(key, left_ms)


def database(client: Redis) -> None:
    """Plant jobs of two queues in every place, and a process of each kind."""
    push(client, job("first"), job("second"), job("third", version=6))
    push(client, job("letter", "low"), queue="low")
    client.zadd("schedule", {job("later", leave="enqueued_at"): now_s() + 300, job("of-low", "low"): now_s() + 200})
    client.zadd("retry", {build_failed_job("again", 1, retried_at=int(now_s() * 1000) - 5000): now_s() + 30})
    client.zadd(
        "dead", {build_failed_job("dead-1", 25): now_s() - 60, job("dead-low", "low", retry_count=2): now_s() - 50}
    )
    process(client, EIGHT, held=(job("runs-8"), job("runs-low", "low")))
    process(client, SIX, held=(job("runs-6", version=6),))
    client.mset({"stat:processed": 100, "stat:failed": 7})


def open_engine(client: Redis, *specs: str) -> Engine:
    engine = build_engine(client, [registry.create_system(*specs)] if specs else registry.create_systems())
    for _found in engine.discover():
        pass
    return engine


def count_queue(engine: Engine, ref: Ref = DEFAULT) -> Queue:
    found = engine.take_snapshot(Focus(queues=(ref,), is_thorough=True)).find_queue(ref)
    assert found is not None
    return found


def findings(client: Redis, ref: Ref = DEFAULT) -> dict[str, Finding]:
    return {finding.kind: finding for finding in count_queue(open_engine(client), ref).findings}


def list_jobs(engine: Engine, place: str, ref: Ref = DEFAULT) -> dict[bytes, Job]:
    return {each.id: each for each in engine.fetch_page(ref, place, limit=100, body_bytes=65536).jobs}


# -- places and jobs ---------------------------------------------------------------------------------------------------


def test_a_redis_with_sidekiq_shows_its_queues_unasked_and_a_set_called_queues_alone_is_nobodys(
    any_client: Redis,
) -> None:
    any_client.sadd("queues", "theirs")
    assert not open_engine(any_client).refs
    any_client.delete("queues")
    database(any_client)
    any_client.zadd("schedule", {job("x", "unlisted"): now_s() + 9})
    engine = open_engine(any_client)
    assert engine.refs == [DEFAULT, LOW, Ref("sidekiq", "unlisted")] and not engine.unsupported_systems
    assert engine.resolve("low") == LOW and engine.systems["sidekiq"].queue_argument("low") == "sidekiq:low"
    any_client.sadd("app:queues", "mail")
    any_client.lpush("app:queue:mail", job("n", "mail"))
    any_client.zadd("app:dead", {job("nd", "mail"): now_s()})
    spaced = open_engine(any_client, "sidekiq:namespace=app")
    mail = Ref("sidekiq", "mail")
    assert spaced.refs == [mail] and count_queue(spaced, mail).map_counts_by_place()["dead"] == 1
    assert list(list_jobs(spaced, "queue", mail)) == [b"n"]
    assert spaced.systems["sidekiq"].queue_argument("mail") == "--system sidekiq:namespace=app sidekiq:mail"
    for wrong in (("sidekiq:namespace=a b",), ("sidekiq:namespace=a", "sidekiq:namespace=b"), ("sidekiq:queue=x",)):
        with pytest.raises(UsageError):
            registry.create_system(*wrong)


def test_a_queue_is_counted_alone_and_among_others_as_its_places_are_listed(any_client: Redis) -> None:
    database(any_client)
    any_client.zadd("retry", {build_failed_job("due"): now_s() - 30})
    engine = open_engine(any_client)
    system = engine.systems["sidekiq"]
    ask = system.queues_request(["low", "default"])
    assert ask is not None
    low, among = engine.send_request(ask)
    queues = {"alone": engine.send_request(system.queue_request("default")), "among others": among}
    expected = {"schedule": 1, "retry": 2, "queue": 3, "work": 2, "lost": 0, "dead": 1}

    def holds(queue: Queue) -> None:
        assert queue.map_counts_by_place() == expected and all(count.is_exact for count in queue.counts)
        assert {count.place: count.shared_total for count in queue.counts if count.shared_total is not None} == {
            "schedule": 2,
            "retry": 2,
            "dead": 2,
        }
        assert (queue.overdue, queue.expired, queue.workers) == (1, 0, 2) and "out" not in queue.counters
        assert queue.oldest_ready_ms is not None and 19_000 <= queue.oldest_ready_ms < 60_000
        assert queue.next_due_ms is not None and queue.next_due_ms <= -29_000

    run_cases((how, partial(holds, queue)) for how, queue in queues.items())
    assert low.map_counts_by_place() == {"schedule": 1, "retry": 0, "queue": 1, "work": 1, "lost": 0, "dead": 1}
    assert {place: engine.fetch_page(DEFAULT, place).total for place in expected} == expected
    any_client.rpush("queue:low", json.dumps(json.loads(job("written-elsewhere", "low"))))
    assert (count_queue(engine, LOW).oldest_ready_ms or 0) >= 19_000
    any_client.flushdb()
    push(any_client, job("alone"))
    any_client.mset({"stat:processed": 100, "stat:failed": 7})
    actual = count_queue(open_engine(any_client)).counters
    assert {name: actual[name] for name in ("in", "out", "failed")} == {"in": 94, "out": 93, "failed": 7}


def test_a_row_of_each_place_shows_the_call_its_times_and_who_runs_it(any_client: Redis) -> None:
    database(any_client)
    engine = open_engine(any_client)
    now_ms = engine.fetch_server_time_ms()
    assert list(list_jobs(engine, "queue")) == [b"first", b"second", b"third"]  # the next one first
    rows = {place: list_jobs(engine, place) for place in ("schedule", "retry", "queue", "work", "dead")}

    def near(at_ms: int | None, s: float) -> bool:
        return at_ms is not None and abs(at_ms - (now_ms + s * 1000)) < 10_000

    for each in (rows["queue"][b"first"], rows["queue"][b"third"]):
        assert (each.name, each.call, each.max_attempts, each.attempts) == (
            "HardJob",
            'HardJob.perform(1, "two")',
            26,
            0,
        )
        assert near(each.enqueued_ms, -20) and near(each.since_ms, -20) and not each.problem
    assert near(rows["schedule"][b"later"].due_ms, 300) and near(rows["schedule"][b"later"].enqueued_ms, -20)
    again = rows["retry"][b"again"]
    assert near(again.due_ms, 30) and again.attempts == 2
    assert again.error.splitlines() == ["Net::ReadTimeout: no answer", *(f"    {line}" for line in TRACE)]
    [run] = again.history
    assert near(run.end_ms, -5) and run.error == again.error
    assert near(rows["dead"][b"dead-1"].since_ms, -60) and rows["dead"][b"dead-1"].attempts == 26
    eight, six = rows["work"][b"runs-8"], rows["work"][b"runs-6"]
    assert (eight.worker, eight.token) == (EIGHT, f"{EIGHT} t0".encode()) and near(eight.reserved_ms, -30)
    assert (six.worker, six.member) == (SIX, six.body) and six.attempts == 1 and six.deadline_ms is None
    for place, jobs in rows.items():
        for id, row in jobs.items():
            shown = engine.fetch_job(DEFAULT, id)
            assert shown is not None and (shown.place, shown.member) == (place, row.member)
    any_client.hset("it-runs-8", mapping={"ex": 3, "c": "[5]", "rt": "1.5", "cancelled": int(now_s())})
    iterable = engine.fetch_job(DEFAULT, b"runs-8")
    assert iterable is not None and iterable.is_cancelled
    assert {fact.name: fact.value for fact in iterable.facts}.items() >= {
        "cursor": b"[5]",
        "iterated for": 1500,
    }.items()
    fresh = open_engine(any_client)
    assert [
        getattr(fresh.fetch_job(DEFAULT, id), "place", None) for id in (b"again", b"runs-8", b"third", b"letter")
    ] == [
        "retry",
        "work",
        "queue",
        None,
    ]


ACTIVE = {"job_class": "ReportJob", "job_id": "9d2b", "queue_name": "low", "arguments": []}
GLOBAL = {"_aj_globalid": "gid://shop/User/7"}
CALLS: dict[str, tuple[dict[str, Any], str]] = {
    "values": ({"args": [None, True, 1.5, {"a": [1]}]}, 'HardJob.perform(nil, true, 1.5, {"a" => [1]})'),
    "ActiveJob 8": (
        {
            "class": "Sidekiq::ActiveJob::Wrapper",
            "wrapped": "ReportJob",
            "args": [{**ACTIVE, "arguments": [GLOBAL, {"to": "x", "_aj_ruby2_keywords": ["to"]}]}],
        },
        'ReportJob.perform(gid://shop/User/7, to: "x")',
    ),
    "ActiveJob 6": (
        {
            "class": "ActiveJob::QueueAdapters::SidekiqAdapter::JobWrapper",
            "args": [
                {
                    **ACTIVE,
                    "arguments": [{"_aj_serialized": "ActiveJob::Serializers::SymbolSerializer", "value": "all"}],
                }
            ],
        },
        "ReportJob.perform(:all)",
    ),
    "a mail": (
        {
            "class": "Sidekiq::ActiveJob::Wrapper",
            "wrapped": "ActionMailer::MailDeliveryJob",
            "args": [{"arguments": ["UserMailer", "welcome", "deliver_now", {"args": [GLOBAL], "params": {"a": 1}}]}],
        },
        'UserMailer.welcome(gid://shop/User/7, {"params" => {"a" => 1}})',
    ),
    "encrypted": ({"args": [1, "QmFzZTY0"], "encrypt": True}, "HardJob.perform(1, [encrypted])"),
    "long": ({"args": ["x" * 5000]}, 'HardJob.perform("xxx'),
}


def test_a_call_is_read_in_each_way_that_it_is_written(client: Redis) -> None:
    push(client, *(job(f"{number:024x}", **fields) for number, (fields, _call) in enumerate(CALLS.values())))
    jobs = list_jobs(open_engine(client), "queue")

    def holds(number: int, call: str) -> None:
        seen = jobs[f"{number:024x}".encode()]
        assert seen.call == call or (len(call) < 25 and seen.call.startswith(call) and len(seen.call) < 1100)

    run_cases((name, partial(holds, number, call)) for number, (name, (_f, call)) in enumerate(CALLS.items()))


def test_a_long_call_shows_its_end_or_that_it_was_cut() -> None:
    for length in range(960, 1010):
        call = format_job_call("Mailer.send", ["x" * length, 2])
        assert call.endswith("…") or call == f'Mailer.send("{"x" * length}", 2)', length


@pytest.mark.parametrize(
    ("field", "valid", "invalid"),
    [
        ("class", ["HardJob"], ["", 1, None, ["HardJob"]]),
        ("args", [[], [1]], [{}, "", None]),
        ("queue", ["low"], ["", 1, None]),
        ("retry", [True, False, 0, 1, 25], [-1, 1.5, "3", None]),
        ("retry_for", [0, 1, 1_000_000_000], [-1, 1_000_000_001, True, 1.5, "1"]),
        ("at", [1_800_000_000, 1_800_000_000.5], ["soon", None, []]),
        ("tags", [[], ["a"]], ["a", None, {}]),
    ],
)
def test_a_written_job_is_refused_for_a_field_that_sidekiq_refuses(
    field: str, valid: list[object], invalid: list[object]
) -> None:
    system = registry.create_system("sidekiq")

    def build(value: object) -> None:
        system.build_new_job("low", {"body": json.dumps({"class": "HardJob", "args": [], field: value}).encode()})

    for value in valid:
        build(value)
    for value in invalid:
        with pytest.raises(UsageError, match=f'"{field}" is '):
            build(value)


def test_a_shared_place_is_counted_by_a_sample_and_a_walk_finds_each_job_of_the_queue_once(client: Redis) -> None:
    for start in range(0, 2400, 400):
        client.zadd(
            "dead", {job(f"d{i:05d}", "low" if i % 4 == 0 else "default"): 1000 + i for i in range(start, start + 400)}
        )
    push(client, job("x"))
    engine = open_engine(client)
    queue = count_queue(engine)
    [dead] = [count for count in queue.counts if count.place == "dead"]
    assert not dead.is_exact and dead.shared_total == 2400 and 1700 <= dead.count <= 1900
    page = engine.fetch_page(DEFAULT, "dead", limit=50)
    assert (page.total, page.place_total, page.next) == (450, 1800, 50)
    assert engine.fetch_page(DEFAULT, "dead", -1, 50).jobs[-1].id == b"d02399"
    met = [each.id for found in engine.scan_jobs(LOW, "dead", lambda each: True) for each in found]
    assert met == [f"d{i:05d}".encode() for i in range(0, 2400, 4)]
    assert getattr(open_engine(client).fetch_job(DEFAULT, b"d02399"), "place", "") == "dead"


@pytest.mark.slow
def test_a_thousand_queues_are_counted_in_one_round_trip_that_reads_the_shared_places_once(client: Redis) -> None:
    for number in range(1000):
        client.sadd("queues", f"q{number:03d}")
        client.lpush(f"queue:q{number:03d}", job(f"j{number}", f"q{number:03d}"))
    client.zadd("retry", {build_failed_job("r", queue="q007"): now_s() + 60})
    engine = open_engine(client, "sidekiq")
    engine.take_snapshot()
    costs = set()
    for _ in range(5):  # a snapshot in which probes are due costs more
        before = client.info("commandstats")["cmdstat_zcard"]["calls"]
        snapshot = engine.take_snapshot()
        costs.add((client.info("commandstats")["cmdstat_zcard"]["calls"] - before, snapshot.cost.round_trips))
    assert min(costs) == (3, 1), costs
    assert len(snapshot.queues) == 1000 and all(queue.count_in_place("queue") == 1 for queue in snapshot.queues)
    assert {
        queue.name: queue.count_in_place("retry") for queue in snapshot.queues if queue.count_in_place("retry")
    } == {"q007": 1}


# -- processes, schedules, figures -------------------------------------------------------------------------------------


def test_processes_show_their_work_and_the_order_for_them(any_client: Redis) -> None:
    database(any_client)
    any_client.lpush(f"{EIGHT}-signals", "TERM")
    any_client.sadd("processes", "gone:1:x")
    engine = open_engine(any_client)
    found = {worker.name: worker for worker in engine.fetch_workers(DEFAULT)}
    assert list(found) == [EIGHT, SIX] and [worker.name for worker in engine.fetch_workers(LOW)] == [EIGHT, SIX]
    eight, six = found[EIGHT], found[SIX]
    assert (eight.order, eight.state, eight.queues, eight.pid, eight.host) == (
        "stop",
        "busy",
        ("default", "low"),
        "101",
        "app-1",
    )
    entries_by_name = {fact.name: fact.value for fact in eight.facts}
    assert (
        entries_by_name["busy"] == "2 of 6"
        and entries_by_name["version"] == "Sidekiq 8.0.9"
        and entries_by_name["tag"] == "shop"
    )
    assert (
        entries_by_name["rtt"] == "0.3 ms"
        and "one (1 thread: low)" in str(entries_by_name["capsules"])
        and "rss" in entries_by_name
    )
    assert (six.order, six.queues) == ("run", ("default", "low")) and six.started_ms is not None
    seats, _now, problems = workers.load_workers(engine, [DEFAULT, LOW])
    assert {seat.name: len(seat.jobs) for seat in seats} == {EIGHT: 2, SIX: 1} and not problems
    any_client.hset(SIX, "quiet", "true")
    assert [worker.state for worker in engine.fetch_workers(LOW)] == ["busy", "quiet"]
    process(any_client, EIGHT, silent_s=30, held=(job("runs-8"),))
    any_client.pexpire(SIX, 30_000)  # The time to live counts, not the clock of the process.
    assert [worker.state for worker in engine.fetch_workers(LOW)] == ["silent", "silent"], "busy and quiet before"


def test_schedules_of_sidekiq_cron_and_sidekiq_scheduler_are_reported_with_what_is_wrong(any_client: Redis) -> None:
    push(any_client, job("x"))
    any_client.sadd("cron_jobs", "cron_job:nightly", "cron_job:gone")
    any_client.sadd("cron_jobs:default", "cron_job:default:off")
    nightly = {"name": "nightly", "klass": "ReportJob", "cron": "0 3 * * *", "status": "enabled", "args": '[1,"x"]'}
    nightly |= {"message": '{"queue":"low","class":"ReportJob"}', "last_enqueue_time": "2026-11-22 03:00:00 +0000"}
    any_client.hset("cron_job:nightly", mapping=nightly)
    any_client.hset("cron_job:default:off", mapping={**nightly, "name": "off", "status": "disabled"})
    any_client.hset("schedules", "tidy", '{"every":["45m",{"first_in":"1m"}],"class":"TidyJob"}')
    any_client.hset("sidekiq-scheduler:next_times", "tidy", "2026-11-22 19:00:00 +0100")

    def list_schedules() -> dict[str, Any]:
        ask = open_engine(any_client).systems["sidekiq"].schedules_request()
        assert ask is not None
        return {each.name: each for each in open_engine(any_client).send_request(ask)}

    found = list_schedules()
    night, tidy = found["nightly"], found["tidy"]
    assert (night.queue, night.pattern, night.call) == ("low", "0 3 * * *", 'ReportJob.perform(1, "x")')
    assert night.last_ms == 1_795_316_400_000 and night.problem.startswith("no process of Sidekiq runs")
    assert (tidy.queue, tidy.pattern, tidy.next_ms) == ("default", "every 45m", 1_795_370_400_000)
    assert (found["off"].enabled, found["off"].problem) == (False, "") and "missing" in found["cron_job:gone"].problem
    process(any_client, EIGHT)
    assert not list_schedules()["nightly"].problem and "missing" in list_schedules()["cron_job:gone"].problem


def test_figures_of_each_class_are_those_of_sidekiqs_own_buckets(any_client: Redis) -> None:
    push(any_client, job("x"))
    any_client.set("stat:processed", 9)
    at = time.gmtime()
    fields = {"HardJob|p": 100, "HardJob|f": 20, "HardJob|ms": 4000, "Other::Job|p": 3, "odd": "x"}
    any_client.hset(time.strftime(f"j|%Y%m%d|{at.tm_hour}:{at.tm_min}", at), mapping=fields)  # Sidekiq 7
    engine = open_engine(any_client)

    def read_figures() -> dict[str, tuple[int, int, int | None]]:
        found = kinds.yield_kind_reports(engine, engine.refs)
        items = list(found)[-1] if not hasattr(found, "kinds") else found
        return {
            kind.name: (kind.figures.processed, kind.figures.failed, kind.figures.mean_ms)
            for kind in items.kinds
            if kind.figures is not None
        }

    assert read_figures() == {"HardJob": (100, 20, 50), "Other::Job": (3, 0, None)}
    any_client.hset(time.strftime(f"j|%y%m%d|{at.tm_hour}:%M", at)[:-1], mapping={"HardJob|p": 7, "HardJob|ms": 70})
    assert read_figures() == {"HardJob": (7, 0, 10)}  # Sidekiq 8


@pytest.mark.parametrize(
    "date",
    [
        *(f"2026-{month:02}-01" for month in range(1, 13)), *(f"2026-{month:02}-28" for month in range(1, 13)),
        "1970-01-01", "1999-12-31", "2000-02-29", "2000-03-01", "2024-02-29", "2024-12-31", "2027-12-31", "2096-02-29",
        "2100-02-28", "2100-03-01",
    ],
)  # fmt: skip
def test_the_buckets_of_each_date_are_found(client: Redis, date: str) -> None:
    """Sidekiq 7 writes `j|20260228|9:5` (metrics/shared.rb), Sidekiq 8 `j|260228|9:05`."""
    day = datetime.fromisoformat(f"{date}T00:00+00:00")
    expected: dict[int, int] = {}
    for number, minute in enumerate(range(-3, 3), 1):
        at = day + timedelta(minutes=minute)
        key = f"j|{at:%Y%m%d}|{at.hour}:{at.minute}" if minute % 2 else f"j|{at:%y%m%d}|{at.hour}:{at:%M}"
        client.hset(key, "HardJob|p", number)
        expected[round(at.timestamp() * 1000)] = number
    client.sadd("queues", "default")
    now_ms = round(day.timestamp() * 1000) + 179_999
    system = registry.create_system("sidekiq")
    call = system.build_call("minutes", "default", {"queue": "default", "now_ms": now_ms})
    assert {at_ms: processed for at_ms, processed, _failed in run_call(client, call).rows} == expected


# -- what killed processes held ----------------------------------------------------------------------------------------


def test_failures_of_the_last_minutes_are_unknown_where_sidekiq_6_stores_no_runs(client: Redis, url: str) -> None:
    client.sadd("queues", "default")
    client.zadd("dead", {build_failed_job(f"dead-{number}", 25): now_s() - 3 for number in range(12)})
    client.mset({"stat:processed": 15, "stat:failed": 12})
    process(client, SIX)
    ran = shell(url, "health")
    assert "cannot know failures of the last minutes" in ran.out and not ran.out.startswith("ok")
    process(client, EIGHT)
    assert "failures of the last minutes" not in shell(url, "health").out, "Sidekiq 8 would have stored runs"


def test_jobs_of_a_killed_process_are_a_finding_with_an_end_and_cached_when_redis_has_lost_them(
    client: Redis,
) -> None:
    push(client, job("waits"))
    process(client, EIGHT)
    process(client, SIX, silent_s=58.5, held=(job("held-1"), job("held-2"), job("of-low", "low")))
    engine = open_engine(client)
    queue = count_queue(engine)
    found = {finding.kind: finding for finding in queue.findings}["lost-on-kill"]
    assert (
        found.severity == "critical"
        and found.jobs == 2
        and "2 jobs will be lost" in found.text
        and "rqtui reap sidekiq:default --once" in found.remedy
    )
    assert found.until_ms is not None and 0 < found.until_ms - queue.counted_ms <= 1500
    assert (queue.count_in_place("work"), queue.count_in_place("lost"), queue.expired, queue.workers) == (2, 0, 2, 1)
    for each in list_jobs(engine, "work").values():
        assert each.deadline_ms == found.until_ms or abs((each.deadline_ms or 0) - found.until_ms) < 1000
        assert "process silent for" in {fact.name for fact in each.facts}
    before = keyspace.dump(client)
    while client.exists(f"{SIX}:workers") or client.exists(SIX):
        time.sleep(0.05)
    queue = count_queue(engine)
    assert (queue.count_in_place("work"), queue.count_in_place("lost")) == (0, 2)
    lost = list_jobs(engine, "lost")
    assert list(lost) == [b"held-2", b"held-1"] or list(lost) == [b"held-1", b"held-2"]
    seen = lost[b"held-1"]
    assert (seen.worker, json.loads(seen.member)["jid"]) == (SIX, "held-1") and "kept by" in {
        fact.name for fact in seen.facts
    }
    assert getattr(engine.fetch_job(DEFAULT, b"held-1"), "place", "") == "lost"
    (seat,) = [seat for seat in workers.load_workers(engine, [DEFAULT, LOW])[0] if seat.name == SIX]
    assert (seat.health, len(seat.jobs), seat.queues) == (workers.WorkerHealth.LATE, 3, ("default", "low"))
    assert seat.worker is not None and queue.counted_ms - seat.worker.heartbeat_ms > 58_000
    assert seat.worker.state == "killed with 3 jobs, which only this rqtui has"
    entries_by_kind = {finding.kind: finding for finding in count_queue(engine).findings}["lost"]
    assert entries_by_kind.jobs == 2 and SIX in entries_by_kind.text and "stale-process" in findings(client)
    client.rpush("queue:default", seen.member)  # another process pushed it back
    assert list(list_jobs(engine, "lost")) == [b"held-2"] and count_queue(engine).count_in_place("lost") == 1
    client.zadd("retry", {build_failed_job("held-2"): now_s() + 60})
    assert not list_jobs(engine, "lost") and count_queue(engine).count_in_place("lost") == 0
    assert count_queue(engine, LOW).count_in_place("lost") == 1 and "lost" not in findings(
        client, LOW
    )  # another rqtui knows nothing
    assert [
        line for line in keyspace.diff(before, keyspace.dump(client)) if "app-2" not in line and "held" not in line
    ] == []


def test_running_jobs_beyond_those_that_are_read_are_reported_as_left_out(any_client: Redis) -> None:
    process(any_client, EIGHT, held=(job("first"),))
    process(any_client, "app-3:303:cb12cd34ef56")
    work = json.dumps({"queue": "default", "payload": job("many"), "run_at": int(now_s())})
    any_client.hset("app-3:303:cb12cd34ef56:work", mapping={f"t{number}": work for number in range(3000)})
    push(any_client, job("one"), queue="low")
    push(any_client, job("one"))
    engine = open_engine(any_client)
    for queues in ((DEFAULT,), (DEFAULT, LOW)):
        found = engine.take_snapshot(Focus(queues=queues, is_thorough=True)).find_queue(DEFAULT)
        assert found is not None
        [count] = [each for each in found.counts if each.place == "work"]
        assert not count.is_exact and count.count in (1, 3000)
    page = engine.fetch_page(DEFAULT, "work", 0, 10)
    assert not page.is_exact and page.total in (1, 3000)
    assert engine.fetch_page(DEFAULT, "queue", 0, 10).is_exact
    any_client.delete("app-3:303:cb12cd34ef56:work")
    [count] = [each for each in count_queue(engine).counts if each.place == "work"]
    assert (count.count, count.is_exact) == (1, True)
    assert engine.fetch_page(DEFAULT, "work", 0, 10).is_exact


def test_a_job_is_lost_only_when_its_process_vanished_without_a_good_bye() -> None:
    columns = ("worker", "beat_ms", "thread", "queue", "job", "run_at", "left_ms")

    def update_lost_jobs(lost: LostJobs, now_s: float, *rows: tuple[Any, ...]) -> int:
        result = tuple(rows)
        lost.update_jobs(Reply("listed", values={"now_ms": int(now_s * 1000)}, columns=columns, rows=result))
        return lost.count("q")

    silent = (b"p", 25_000, b"", "", b"", "", -1), (b"p", 25_000, b"t", "q", b"{}", "5", 35_000)
    stories: dict[str, tuple[int, list[tuple[float, tuple[Any, ...]]]]] = {
        "killed, and still listed": (1, [(1000, silent), (1040, ((b"p", -1, b"", "", b"", "", -1),))]),
        "killed, and cleaned up": (1, [(1000, silent), (1036, ())]),
        "took its leave": (0, [(1000, silent), (1005, ())]),
        "beats again": (0, [(1000, silent), (1002, ((b"p", 500, b"", "", b"", "", -1),)), (1050, ())]),
        "nobody looked": (0, [(1000, silent), (1200, ())]),
        "after an hour": (0, [(1000, silent), (1040, ()), (4700, ())]),
        "was never silent": (0, [(1000, ((b"p", 500, b"", "", b"", "", -1),)), (1040, ())]),
    }

    def holds(number: int, looks: list[tuple[float, tuple[Any, ...]]]) -> None:
        lost = LostJobs()
        assert [update_lost_jobs(lost, at, *rows) for at, rows in looks][-1] == number

    run_cases((name, partial(holds, *story)) for name, story in stories.items())
    full = LostJobs()
    rows = [(b"p", 25_000, b"", "", b"", "", -1)]
    rows += [(b"p", 25_000, b"t%d" % n, "q", b"{%d}" % n, "5", 35_000) for n in range(1200)]
    update_lost_jobs(full, 1000, *rows)
    assert update_lost_jobs(full, 1040) == LostJobs.MOST == 1000


# -- faults ------------------------------------------------------------------------------------------------------------


def plant_job_without_poller(client: Redis) -> None:
    client.zadd("schedule", {job("due"): now_s() - 90})


FAULTS: dict[str, tuple[Callable[[Redis], object], str, str]] = {
    "nobody-polls": (plant_job_without_poller, "due", "rqtui act promote sidekiq:default due"),
    "poller-behind": (lambda c: (plant_job_without_poller(c), process(c, EIGHT)), "although processes run", "clocks"),
    "no-consumer": (
        lambda c: (push(c, job("x")), process(c, EIGHT, capsules={"a": {"weights": {"low": 1}}})),
        "in queue:default",
        "bundle exec sidekiq -q default",
    ),
    "undecodable": (
        lambda c: c.zadd("schedule", {b'{"class":"X\xff': 5e9}),
        "1 entry in schedule",
        "rqtui jobs sidekiq:default schedule",
    ),
    "unreadable": (lambda c: push(c, b"\x00raw"), "in queue:default", "rqtui jobs sidekiq:default queue"),
    "raw-bytes": (lambda c: c.zadd("dead", {b"[1, 2]": now_s()}), "1 entry in dead", "act delete sidekiq:default ID"),
    "no-retry": (lambda c: push(c, job("mute", leave="retry")), "mute", "retry"),
    "milliseconds": (lambda c: c.zadd("retry", {build_failed_job("late"): now_s() * 1000}), "late", "act promote"),
    "stale-process": (lambda c: c.sadd("processes", "a b:1:x"), "a b:1:x", "redis-cli SREM processes 'a b:1:x'"),
    "dead-full": (
        lambda c: c.zadd("dead", {job(f"d{n}"): now_s() - n for n in range(9600)}),
        "600 dead jobs of all queues",
        "rqtui errors sidekiq:default",
    ),
    "dead-old": (lambda c: c.zadd("dead", {job("old"): now_s() - 178 * 86400}), "old", "rqtui jobs sidekiq:default"),
    "unlisted": (lambda c: (push(c, job("x")), c.srem("queues", "default")), "1 ready job:", "SADD queues default"),
    "wrong-type": (lambda c: c.set("retry", "text"), "key retry is a string", "RENAME"),
}  # fmt: skip


def test_each_fault_of_sidekiq_is_named_with_what_helps_and_a_sound_one_has_none(client: Redis) -> None:
    database(client)
    assert not set(findings(client)) - {"no-persistence"} and not findings(client, LOW)

    def holds(kind: str) -> None:
        plant, text, remedy = FAULTS[kind]
        client.flushdb()
        client.sadd("queues", "default", "low")
        plant(client)
        found = (
            findings(client)
            if kind != "unlisted"
            else {each.kind: each for each in count_queue(open_engine(client, "sidekiq")).findings}
        )
        assert kind in found, found
        assert text in found[kind].text and remedy in found[kind].remedy, found[kind]
        assert kind not in findings(client, LOW)

    run_cases((kind, partial(holds, kind)) for kind in FAULTS)


# -- bad input ---------------------------------------------------------------------------------------------------------


def test_what_no_reader_understands_is_shown_named_and_never_written(any_client: Redis) -> None:
    client = any_client
    long = job("long", args=["x" * 3_000_000])
    push(client, b"\xff\xfe", "[]", "{}", '{"class": 5, "args": 7, "jid": 9}', long, job("clock", created_at=1e300))
    push(client, job("n", retry=10**400), job("deep", args=json.loads("[" * 90 + "]" * 90)), "[" * 5000)
    push(client, job("bomb", error_backtrace=base64.b64encode(zlib.compress(b"[" + b"1," * 10**7)).decode()))
    name = "q" * 300
    push(client, job("x", name), queue=name)
    client.sadd("queues", b"caf\xe9")
    client.lpush(b"queue:caf\xe9", job("latin"))
    client.zadd("schedule", {b"\xff": 1.0, job("never"): float("inf"), job("before"): -5.0})
    client.zadd("dead", {job("spaced", "default").replace(":", ": "): 5.0, '{"queue":"default","queue":"low"}': 6.0})
    client.sadd("processes", b"\xffodd", "text", "a b")
    client.set("text", "no hash")
    client.hset(b"\xffodd", mapping={"info": "not json", "beat": "soon"})
    client.hset(b"\xffodd:work", mapping={"t": "not json", "u": '{"queue":"default","payload":{"a":1},"run_at":"x"}'})
    before = keyspace.dump(client)
    engine = open_engine(client, "sidekiq")
    names = {ref.queue for ref in engine.refs}
    assert {"default", name, "caf\udce9", "low"} <= names
    jobs = [
        each
        for place in ("schedule", "retry", "queue", "work", "lost", "dead")
        for each in engine.fetch_page(DEFAULT, place, limit=100).jobs
    ]
    by_id = {each.id: each for each in jobs}
    assert len(by_id) == len(jobs)
    assert sum("no JSON" in each.problem for each in jobs) >= 4 and any(
        "names no class" in each.problem for each in jobs
    )
    assert by_id[b"long"].is_partial and by_id[b"long"].name == "HardJob" and by_id[b"long"].body_bytes == len(long)
    whole = engine.fetch_job(DEFAULT, b"long", -1)
    assert whole is not None and whole.member == long.encode() and not whole.is_partial
    assert "created_at is no time" in by_id[b"clock"].problem and not by_id[b"bomb"].error
    assert by_id[b"spaced"].call == 'HardJob.perform(1, "two")' and by_id[b"never"].due_ms is None
    for ref in engine.refs:
        assert not count_queue(engine, ref).error and not engine.fetch_page(ref, "queue").error
        engine.fetch_workers(ref)
    engine.take_snapshot(Focus(pages=(PageSelection(DEFAULT, "work"),), job=(DEFAULT, b"clock"), is_thorough=True))
    assert not keyspace.diff(before, keyspace.dump(client))


def test_keys_of_other_types_under_its_names_are_named_and_stop_nothing_else(any_client: Redis) -> None:
    client = any_client
    push(client, job("fine"))
    for key in ("schedule", "retry", "dead", "processes", "cron_jobs", "schedules", "stat:processed"):
        client.lpush(key, "x")
    client.set("queue:low", "text")
    client.sadd("queues", "low")
    engine = open_engine(client, "sidekiq")
    snapshot = engine.take_snapshot(Focus(is_thorough=True))
    sound, broken = snapshot.find_queue(DEFAULT), snapshot.find_queue(LOW)
    assert sound is not None and sound.count_in_place("queue") == 1 and not sound.error
    assert {key for each in sound.findings for key in each.keys} >= {"schedule", "retry", "dead", "processes"}
    assert broken is not None and broken.findings[0].keys == ("queue:low",)
    assert engine.fetch_page(DEFAULT, "dead").error and not engine.fetch_workers(DEFAULT)
    schedules = engine.systems["sidekiq"].schedules_request()
    assert schedules is not None and engine.send_request(schedules) == ()
    client.delete("queues")
    client.set("queues", "text")
    assert not open_engine(client).refs


@run_in_one_test(
    "keys, is_seen_asked, is_seen_unasked",
    [
        ({}, False, False),
        ({"queue:mail": ["a job"]}, True, False),
        ({"queue:mail": "a string", "stat:processed": "1", "queues": {"other"}}, False, False),
        ({"queue:mail": ["a job"], "stat:processed": "1", "queues": {"other"}}, True, True),
        ({"queues": {"mail"}}, True, False),
        ({"queues": {"mail"}, "stat:processed": "1"}, True, True),
        ({"queues": {"mailbox", "[mail]", "m*"}, "stat:processed": "1"}, False, False),
        ({"queues": "a string", "queue:mail": ["a job"]}, True, False),
    ],
)
def test_a_queue_is_known_by_its_name_or_its_list_where_sidekiq_is(
    client: Redis, keys: dict[str, Any], is_seen_asked: bool, is_seen_unasked: bool
) -> None:
    keyspace.plant(client, keys)
    unasked = next(system for system in registry.create_systems() if system.name == "sidekiq")
    asked = registry.create_system("sidekiq")
    assert (asked.has_queue(client, "mail"), unasked.has_queue(client, "mail")) == (is_seen_asked, is_seen_unasked)


def test_a_process_whose_clock_is_wrong_is_judged_by_the_life_of_its_hash(client: Redis, url: str) -> None:
    client.sadd("queues", "default")
    process(client, EIGHT, silent_s=2, held=(job("runs"),))
    client.hset(EIGHT, "beat", repr(now_s() - 180))
    health = shell(url, "health", "sidekiq:default", "--json").json
    [found] = [finding for finding in health["findings"] if finding["queue"]]
    assert found["kind"] == "worker-clock" and " is 2m58 behind Redis" in found["text"]
    assert shell(url, "reap", "sidekiq:default", "--once").code == 0
    assert not client.llen("queue:default"), "the job still runs there"
    process(client, EIGHT, silent_s=45, held=(job("runs"),))
    client.hset(EIGHT, "beat", repr(now_s() + 180))
    assert {finding["kind"] for finding in shell(url, "health", "sidekiq:default", "--json").json["findings"]} >= {
        "lost-on-kill"
    }
    assert shell(url, "reap", "sidekiq:default", "--once").code == 0
    assert client.llen("queue:default") == 1


# -- sizes and times at which a script changes its reply --------------------------------------------------------------

NOW_S = 1_795_000_000
DAY_S = 86_400


def run_script(client: Redis, name: str, rows: Sequence[Mapping[str, object]] = (), **args: object) -> Reply:
    system = registry.create_system("sidekiq")
    script_args = system.select_arguments(name, {"now_ms": NOW_S * 1000, **args})
    return run_call(client, system.build_call(name, "default", script_args, rows))


def find_faults(client: Redis) -> set[str]:
    return {row[0] for row in run_script(client, "faults").rows}


def plant_silent_process(client: Redis, silent_s: float | None, *, queues: str = "default", jobs: int = 1) -> None:
    """Plant a process whose hash never expires, so that its age is the one that it wrote; None: it wrote none."""
    client.sadd("processes", EIGHT)
    beat = {} if silent_s is None else {"beat": f"{NOW_S - silent_s:.3f}"}
    client.hset(EIGHT, mapping={"info": json.dumps({"queues": [queues]}), **beat})
    work = '{"queue":"default","payload":"{\\"jid\\":\\"runs\\"}","run_at":5}'
    if jobs:
        client.hset(f"{EIGHT}:work", mapping={f"t{number}": work for number in range(jobs)})


def fill(start: str, length: int, end: str = '"}') -> str:
    return start + "x" * (length - len(start) - len(end)) + end


def test_a_process_is_alive_for_20_s_after_its_heartbeat(client: Redis) -> None:
    for silent_s, is_alive in ((0, True), (20, True), (20.001, False), (None, False)):
        client.flushdb()
        plant_silent_process(client, silent_s)
        crew = run_script(client, "crew")
        assert crew.rows == [("default", 1, int(not is_alive), int(is_alive))], silent_s
        assert len(run_script(client, "held").rows) == (1 if is_alive else 2)
        assert run_script(client, "schedules").values["alive"] == is_alive
        [*lost] = [row for row in run_script(client, "faults").rows if row[0] == "lost_on_kill"]
        assert [(row[5], row[6], row[7]) for row in lost] == [
            (0, None if silent_s is None else round((NOW_S - silent_s) * 1000), None)
        ] * (not is_alive), silent_s


def test_a_due_job_is_a_finding_after_a_time_that_depends_on_the_processes(client: Redis) -> None:
    for is_alive, cases in {
        False: ((4, set()), (4.001, {"nobody_polls:soon"}), (60, {"nobody_polls:soon"}), (60.001, {"nobody_polls"})),
        True: ((60, set()), (60.001, {"poller_behind"})),
    }.items():
        client.flushdb()
        if is_alive:
            plant_silent_process(client, 1)
        for late_s, expected in cases:
            client.zadd("schedule", {'{"queue":"default","retry":true}': NOW_S - late_s})
            assert find_faults(client) == expected, late_s


def test_a_full_dead_set_and_its_old_jobs_are_findings_from_a_size_and_an_age(client: Redis) -> None:
    jobs = {f'{{"queue":"default","retry":true,"n":{number}}}': NOW_S for number in range(9_499)}
    client.zadd("dead", jobs)
    assert find_faults(client) == set()
    client.zadd("dead", {'{"queue":"default"}': NOW_S})
    assert find_faults(client) == {"dead_full"}
    for age_s, is_old in (
        (173 * DAY_S - 0.001, False),
        (173 * DAY_S, True),
        (180 * DAY_S - 0.001, True),
        (180 * DAY_S, False),
    ):
        client.delete("dead")
        client.zadd("dead", {'{"queue":"default"}': NOW_S - age_s})
        assert find_faults(client) == ({"dead_old"} if is_old else set()), age_s


def test_a_search_for_faults_reads_a_bounded_number_of_jobs(client: Redis) -> None:
    for length in (9, 10, 11, 12, 19, 20, 21):
        client.delete("queue:default")
        client.rpush("queue:default", *map(str, range(length)))
        found = run_script(client, "faults")
        assert found.values["looked"] == found.rows[0][3] == min(length, 20)
    client.flushdb()
    client.zadd("schedule", {f"raw {number}": 1e11 for number in range(101)})
    client.zadd("retry", {'{"queue":"default","retry":1}': 1e11 - 1})
    client.zadd("dead", {f"raw {number}": number for number in range(21)})
    found = run_script(client, "faults")
    assert found.values["looked"] == 121
    assert {row[0]: row[3] for row in found.rows} == {"undecodable": 100, "milliseconds": 20, "raw_bytes": 20}


def test_a_search_for_faults_reads_less_of_a_long_job(client: Redis) -> None:
    torn, job_text = '{"queue":"default","retry":1 oops "', '{"queue":"default","jid":"j","args":"'
    for text, expected in (
        (fill(torn, 4096), {("unreadable", b"")}),
        (fill(torn, 4097), set()),
        (fill(torn, 4097, '"]'), {("unreadable", b"")}),
        (fill(job_text, 65536), {("no_retry", b"j")}),
        (fill(job_text, 65537), set()),
    ):
        client.delete("queue:default")
        client.rpush("queue:default", text)
        assert {(row[0], row[2]) for row in run_script(client, "faults").rows} == expected, (text[:30], len(text))
    for length, jid in ((1_048_576, b"j"), (1_048_577, b"")):
        client.delete("schedule", "queue:default")
        client.zadd("schedule", {fill(job_text, length): NOW_S - 100})
        assert [(row[0], row[2]) for row in run_script(client, "faults").rows] == [("nobody_polls", jid)]


def test_a_set_of_more_than_200_jobs_is_counted_by_the_jobs_at_certain_ranks(client: Redis) -> None:
    edges = {(0, 63), (290, 321), (516, 547), (742, 773), (968, 999)}
    inside = {rank for edge in edges for rank in edge}
    outside = {64, 289, 322, 515, 548, 741, 774, 967}
    for card, own, expected in (
        (200, {0, 63, 64, 199}, (4, True)),
        (201, {0, 63, 200}, (3, False)),
        (1000, inside, (52, False)),  # 10 of the 192 that are read
        (1000, outside, (0, False)),
    ):
        client.delete("dead")
        client.zadd("dead", {f'{{"queue":"{"default" if n in own else "low"}","n":{n}}}': n for n in range(card)})
        values = run_script(client, "counts").values
        assert (values["dead"], values["dead_exact"], values["dead_of"]) == (*expected, card)


def test_a_job_is_overdue_from_its_due_time_on(client: Redis) -> None:
    client.zadd("schedule", {'{"queue":"default","n":1}': NOW_S + 0.001, '{"queue":"default","n":2}': NOW_S + 1})
    assert [run_script(client, "counts").values[name] for name in ("overdue", "due_ms")] == [0, NOW_S * 1000 + 1]
    client.zadd("retry", {'{"queue":"default","n":3}': NOW_S})
    assert [run_script(client, "counts").values[name] for name in ("overdue", "due_ms")] == [1, NOW_S * 1000]
    client.zadd("retry", {'{"queue":"default","n":4}': 0})
    assert [run_script(client, "counts").values[name] for name in ("overdue", "due_ms")] == [2, 0]


def test_the_age_of_the_next_job_is_read_from_its_last_4096_bytes(client: Redis) -> None:
    for time_text, length, expected in (
        (f"{NOW_S - 5}.25", 0, 4750),
        (f"{NOW_S * 1000 - 5}", 0, 5),
        (f"{NOW_S * 1000 + 5}", 0, 0),
        ("99999999999", 0, 0),
        ("100000000000", 0, NOW_S * 1000 - 10**11),
        (f"{NOW_S - 5}", 4096, 5000),
        (f"{NOW_S - 5}", 4097, -1),
    ):
        end = f'"enqueued_at":{time_text},"x":"'
        client.delete("queue:default")
        client.rpush("queue:default", '{"queue":"default",' + fill(end, max(length, len(end) + 2)))
        assert run_script(client, "counts").values["oldest_ms"] == expected, (time_text, length)


def test_at_most_3000_running_jobs_are_counted(client: Redis) -> None:
    for work, workers_too, expected in (
        (3000, 0, (3000, True)),
        (3001, 0, (0, False)),
        (2999, 1, (3000, True)),
        (2999, 2, (2999, False)),
    ):
        client.flushdb()
        plant_silent_process(client, 1, jobs=work)
        if workers_too:
            client.hset(f"{EIGHT}:workers", mapping={f"t{n}": '{"queue":"default"}' for n in range(workers_too)})
        values = run_script(client, "counts").values
        assert (values["work"], values["work_exact"]) == expected


def test_a_bucket_of_figures_is_read_up_to_a_number_of_fields(client: Redis) -> None:
    client.sadd("queues", "default")
    client.set("stat:processed", 9)
    at = time.gmtime(NOW_S)
    minute = time.strftime(f"j|%y%m%d|{at.tm_hour}:", at)
    for key, script, most in (
        (f"{minute}{at.tm_min:02}", "minutes", 2000),
        (f"{minute}{at.tm_min // 10}", "kinds", 5000),
    ):
        for fields, is_read in ((most, True), (most + 1, False)):
            client.delete(key)
            client.hset(key, mapping={"HardJob|p": 3, **{f"x{number}": 0 for number in range(fields - 1)}})
            found = run_script(client, script, queue="default").rows
            assert (3 in {value for row in found for value in row}) is is_read, (script, fields)
        for number, is_counted in ((0, False), (1, True), (2**53 - 1, True), (2**53, False), (-1, False)):
            client.delete(key)
            client.hset(key, "HardJob|p", number)
            found = run_script(client, script, queue="default").rows
            assert (number in {row[1] for row in found if row[1]}) is is_counted, (script, number)
    for text, expected in (("9" * 15, 10**15 - 1), ("9" * 16, None)):
        client.set("stat:processed:2026-11-25", text)
        found = run_script(client, "days", [{"date": "2026-11-25"}]).rows
        assert found == ([("2026-11-25", expected, 0)] if expected else [])


def test_running_jobs_are_kept_up_to_a_size_of_each_and_of_all(client: Redis) -> None:
    plant_silent_process(client, 21, jobs=0)
    start = '{"queue":"default","payload":"'
    for length, is_read in ((1_100_000, True), (1_100_001, False)):
        client.hset(f"{EIGHT}:work", "t", fill(start, length))
        assert len(run_script(client, "held").rows) == 1 + is_read
    mebibyte = fill(start, 2**20 + len(start) + 2)
    client.hset(f"{EIGHT}:work", mapping=dict.fromkeys("tuvw", mebibyte))
    assert len(run_script(client, "held").rows) == 5
    client.hset(f"{EIGHT}:work", "t", fill(start, len(mebibyte) + 1))
    assert len(run_script(client, "held").rows) == 4


def test_the_info_of_a_process_is_listed_up_to_64_kb(client: Redis) -> None:
    client.sadd("processes", EIGHT)
    for length in (65_536, 65_537):
        client.hset(EIGHT, "info", "x" * length)
        [row] = run_script(client, "roster").rows
        assert len(row[2]) == length % 65_537


def test_the_queue_of_a_job_is_searched_in_a_long_text_and_decoded_in_others(client: Redis) -> None:
    for start, length, is_found in (
        ('{"args":[],"queue":"low","x":"', 65_536, False),
        ('{"args":{"queue":"default"},"queue":"low","x":"', 65_536, False),
        ('{"queue":"default","args":{"queue":"low"},"x":"', 65_536, True),
        ('{"queue":"default" oops {"queue":"low"},"x":"', 65_536, True),
        ('{"queue":"low" oops {"queue":"low"},"x":"', 65_536, True),
        ('{"queue":"low" oops {"queue":"low"},"x":"', 65_537, False),
    ):
        client.delete("dead")
        client.zadd("dead", {fill(start, length): 1})
        assert run_script(client, "counts").values["dead"] == is_found, (start, length)
    for spaces, is_found in ((0, False), (1, True)):
        client.delete("dead")
        start = '{"x":"' + "x" * (4096 - 21 + spaces) + '","queue":"low"'
        client.zadd("dead", {fill(start + ' oops "', 70_000): 1})
        assert run_script(client, "counts").values["dead"] == is_found, spaces


def test_a_process_is_dead_30_s_after_its_heartbeat(client: Redis) -> None:
    payload, token = '{"jid":"runs"}', f"{EIGHT} t0"
    row = {"member": payload, "token": token, "worker": EIGHT}
    for silent_s, is_dead in ((30, False), (30.001, True)):
        for name, rows, args in (("reap", [], {"limit": 9}), ("release", [row], {"place": "work"})):
            client.flushdb()
            plant_silent_process(client, silent_s)
            reply = run_script(client, name, rows, **args)
            assert client.lrange("queue:default", 0, -1) == [payload.encode()] * is_dead, (name, silent_s)
            assert reply.values.get("next_ms", -1) == (1 if name == "reap" and not is_dead else -1)


def test_a_job_of_a_dead_process_is_searched_among_the_next_1000(client: Redis) -> None:
    payload = '{"jid":"runs"}'
    row = {"member": payload, "token": f"{EIGHT} t0", "worker": EIGHT}
    for later, length in ((999, 1000), (1000, 1002)):
        for name, rows, args in (("reap", [], {"limit": 9}), ("release", [row], {"place": "work"})):
            client.flushdb()
            plant_silent_process(client, 40)
            client.rpush("queue:default", payload, *["x"] * later)
            run_script(client, name, rows, **args)
            assert client.llen("queue:default") == length, (name, later)


def test_a_page_and_a_walk_read_600_jobs_of_a_set(client: Redis) -> None:
    for card, own, first, last in (
        (600, {0, 599}, (0, 599), (0, 599)),
        (601, {0, 599}, (0, 599), (599,)),
        (601, {1, 600}, (1,), (1, 600)),
        (1300, {599, 600, 699, 700}, (599,), (700,)),
    ):
        client.delete("dead")
        client.zadd("dead", {f'{{"queue":"{"default" if n in own else "low"}","n":{n}}}': n for n in range(card)})
        for offset, expected in ((0, first), (-1, last)):
            args = {"place": "dead", "offset": offset, "limit": 1000, "body_bytes": 0}
            page = run_script(client, "page", **args)
            walk = run_script(client, "scan", **{**args, "offset": offset and -1 - card})
            assert [float(row[3]) for row in page.rows] == [*expected], (card, offset)
            assert sorted(float(row[3]) for row in walk.rows) == [*expected], (card, offset)
            assert (page.values["of"] is None, walk.values["next"] is None) == (card == 600, card == 600)


def test_the_first_page_of_a_queue_begins_with_its_next_job(client: Redis) -> None:
    client.rpush("queue:default", *"dcba")
    for offset, limit, expected in (
        (0, 2, [b"a", b"b"]),
        (3, 2, [b"d"]),
        (4, 2, []),
        (-1, 2, [b"c", b"d"]),
        (-3, 2, [b"a", b"b"]),
    ):
        page = run_script(client, "page", place="queue", offset=offset, limit=limit, body_bytes=0)
        assert [row[0] for row in page.rows] == expected, offset


def test_a_long_job_is_cut_in_the_middle(client: Redis) -> None:
    for length, limit, sizes in (
        (4096, 0, (4096, 0)),
        (4097, 0, (4096, 2048)),
        (5000, 5000, (5000, 0)),
        (5001, 5000, (4096, 2048)),
        (5001, -1, (5001, 0)),
    ):
        client.delete("queue:default")
        client.rpush("queue:default", "x" * length)
        [row] = run_script(client, "page", place="queue", offset=0, limit=1, body_bytes=limit).rows
        assert (len(row[0]), len(row[2]), row[1]) == (*sizes, length)


def test_a_job_is_searched_in_a_bounded_part_of_its_queue(client: Redis) -> None:
    args: dict[str, Any] = {"id": "", "head": "it", "size": 2, "tail": "it", "body_bytes": 0}
    for before, behind, place, word in (
        (1000, 0, "queue", "gone"),
        (999, 0, "queue", "found"),
        (49_999, 50_000, "", "found"),
        (50_000, 49_999, "", "found"),
        (50_000, 50_000, "", "gone"),
    ):
        client.delete("queue:default")
        client.eval(
            "for i = 1, ARGV[1] do redis.call('RPUSH', KEYS[1], 'x') end redis.call('RPUSH', KEYS[1], 'it')"
            "for i = 1, ARGV[2] do redis.call('RPUSH', KEYS[1], 'x') end",
            1, "queue:default", before, behind,
        )  # fmt: skip
        found = run_script(client, "show", place=place, offset=0 if place else None, **args)
        assert found.word == word, (before, behind)


def test_records_of_jobs_are_read_until_their_size_is_reached(client: Redis) -> None:
    client.rpush("queue:default", "first", "other")
    rows = [{"member": "first"}, {"member": "other"}]
    for most, word in ((0, "later"), (5, "later"), (6, "here")):
        words = [reply.word for reply in run_script(client, "records", rows, most=most, whole=True).each]
        assert words == ["here", word], most


def test_jobs_with_one_former_position_come_back_together(client: Redis) -> None:
    client.rpush("queue:default", *(f"m{number}" for number in range(9)))
    rows = [
        {"left": "queue", "known": f"m{number}", "place": "queue", "score": "0", "line": f"n{number}"}
        for number in range(9)
    ]
    assert {reply.word for reply in run_script(client, "revert", rows).each} == {"moved"}
    assert sorted(client.lrange("queue:default", 0, -1)) == [b"n%d" % number for number in range(9)]


def test_lost_jobs_are_searched_in_bounded_parts_of_each_place(client: Redis) -> None:
    def find_places(*jids: str) -> list[tuple[str, str]]:
        rows = [{"id": jid, "member": f'{{"jid":"{jid}"}}'} for jid in jids]
        return [(row[0].decode(), row[1]) for row in run_script(client, "stands", rows).rows]

    for place, first, last in (("schedule", 499, 500), ("retry", 499, 500), ("dead", 101, 100)):
        client.zadd(place, {f'{{"jid":"{place}-{number}"}}': number for number in range(601)})
        assert find_places(f"{place}-{first}", f"{place}-{last}") == [(f"{place}-{first}", place)]
    client.eval("for i = 1, 20001 do redis.call('RPUSH', KEYS[1], 'x') end", 1, "queue:default")
    for at, is_found in ((9_999, True), (10_000, False), (10_001, True)):
        client.lset("queue:default", at, '{"jid":"a"}')
        assert find_places("a") == [("a", "queue")] * is_found, at
        client.lset("queue:default", at, "x")
    client.delete("queue:default")
    assert find_places(*(f"none-{number}" for number in range(1000))) == []
    with pytest.raises(Refused, match="up to 1000 rows"):
        find_places(*(f"none-{number}" for number in range(1001)))


def test_at_most_500_schedules_of_each_program_are_listed(client: Redis) -> None:
    for number in (499, 500):
        client.sadd("cron_jobs", *range(number))
        client.hset("schedules", mapping=dict.fromkeys(range(number), "{}"))
        rows = run_script(client, "schedules").rows
        assert [row[0] for row in rows].count("cron") == [row[0] for row in rows].count("scheduler") == number
    client.sadd("cron_jobs", 500)
    assert [row[0] for row in run_script(client, "schedules").rows].count("cron") == 500


def test_neighbours_are_found_deeper_in_a_queue_than_a_search_from_its_ends(client: Redis) -> None:
    for first, step in ((4_900, 1), (7_100, -1)):
        client.delete("queue:default")
        client.rpush("queue:default", *range(12_000))
        rows = [{"member": str(first + step * number)} for number in range(200)]
        assert {reply.word for reply in run_script(client, "delete", rows).each} == {"moved"}, step
        assert client.llen("queue:default") == 11_800


def test_the_figures_of_up_to_366_days_are_read(client: Redis) -> None:
    client.set("stat:processed:2026-11-25", 5)
    days = [{"date": "2026-11-25"}] * 367
    assert len(run_script(client, "days", days[1:]).rows) == 366
    with pytest.raises(Refused, match="up to 366 days"):
        run_script(client, "days", days)
