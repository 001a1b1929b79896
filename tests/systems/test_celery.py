"""Test how rqtui shows Celery: messages of Kombu 5.7, messages that workers hold, events, findings, bad input.

`test_celery_verbs.py` tests the verbs; `tests/beside` runs the stock program.
"""

from __future__ import annotations

import base64
import json
import pickle
import threading
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from typing import Any

import pytest
from families import run_cases, run_in_one_test
from redis import Redis
from shell import shell

from rqtui.engine.engine import Engine, build_engine
from rqtui.errors import UsageError
from rqtui.model import NO_EVENT_COVERAGE, EventCoverage, Finding, Focus, Job, PageSelection, Queue, Ref
from rqtui.reports import kinds, workers
from rqtui.scripts import script as scripts
from rqtui.systems import registry
from rqtui.systems.celery.messages import decode_message, extract_message, format_call_of_reprs
from rqtui.systems.celery.system import MAX_MISSED, Celery
from rqtui.systems.celery.unplaced_events import Evidence, UnplacedEvents
from rqtui.systems.celery.worker_heartbeats import MAX_WORKERS, WorkerIdleness
from rqtui.testing import keyspace

CELERY, MAIL = Ref("celery", "celery"), Ref("celery", "mail")
SEP = "\x06\x16"
TIMES = {"lang": "py", "shadow": None, "eta": None, "expires": None, "group": None, "retries": 0}
ALONE = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}


def now_s() -> float:
    return time.time()


def format_instant(seconds: float) -> str:
    """Format a time relative to now as Celery writes it."""
    return datetime.fromtimestamp(now_s() + seconds, UTC).isoformat(timespec="microseconds")


def build_body(*args: object, embed: Mapping[str, object] = ALONE, **kwargs: object) -> bytes:
    return json.dumps([args, kwargs, embed]).encode()


def message(
    id: str,
    queue: str = "celery",
    *,
    body: bytes = b"",
    content: str = "application/json",
    priority: int = 0,
    exchange: str = "",
    leave: str = "",
    **headers: object,
) -> str:
    """Build a message as Celery 5.7 writes it (celery/app/amqp.py `as_task_v2`, kombu/transport/virtual/base.py)."""
    own = {**TIMES, "task": "tasks.add", "id": id, "timelimit": [None, None], "root_id": id, "parent_id": None}
    own |= {"argsrepr": "(1, 2)", "kwargsrepr": "{}", "origin": "gen1@host", "ignore_result": False, "stamps": {}}
    fields = {
        "body": base64.b64encode(body or build_body(1, 2)).decode(),
        "content-encoding": "utf-8" if content == "application/json" else "binary",
        "content-type": content,
        "headers": {**own, **headers},
        "properties": {
            "correlation_id": id,
            "delivery_mode": 2,
            "delivery_info": {"exchange": exchange, "routing_key": queue},
            "priority": priority,
            "body_encoding": "base64",
            "delivery_tag": f"tag-{id}",
        },
    }
    return json.dumps({name: value for name, value in fields.items() if name != leave})


def bind(client: Redis, *queues: str, prefix: str = "") -> None:
    """Plant the binding of each queue, as a worker declares it."""
    for queue in queues:
        client.sadd(f"{prefix}_kombu.binding.{queue}", f"{queue}{SEP}{SEP}{queue}")


def hold(client: Redis, id: str, queue: str = "celery", *, taken_s: float = 5, prefix: str = "", **more: Any) -> None:
    """Plant a message that a worker took so many seconds ago (kombu/transport/redis.py `QoS.append`)."""
    message_fields = message(id, queue, **more)
    entry = f"[{message_fields}, {json.dumps(more.get('exchange', ''))}, {json.dumps(queue)}]"
    client.zadd(f"{prefix}unacked_index", {f"tag-{id}": now_s() - taken_s})
    client.hset(f"{prefix}unacked", f"tag-{id}", entry)


def database(client: Redis) -> None:
    """Plant two queues with jobs in every place that has a key."""
    bind(client, "celery", "mail")
    client.sadd("_kombu.binding.celery.pidbox", f"{SEP}{SEP}celery@host.celery.pidbox")
    client.sadd("_kombu.binding.celeryev", f"worker.#{SEP}{SEP}celeryev.0a1b")
    client.lpush("celery", message("first"), message("second"))
    client.lpush(f"celery{SEP}3", message("third", priority=3))
    client.lpush(f"celery{SEP}9", message("last", priority=9), message("very-last", priority=9))
    client.lpush("mail", message("letter", "mail"))
    hold(client, "soon", eta=format_instant(600), taken_s=60)
    hold(client, "later", eta=format_instant(900), taken_s=70)
    hold(client, "held", taken_s=50)
    hold(client, "old", taken_s=4000)
    hold(client, "of-mail", "mail")


def open_engine(client: Redis, *specs: str) -> Engine:
    engine = build_engine(client, [registry.create_system(*specs)] if specs else registry.create_systems())
    for _found in engine.discover():
        pass
    return engine


def count_queue(engine: Engine, ref: Ref = CELERY) -> Queue:
    found = engine.take_snapshot(Focus(queues=(ref,), is_thorough=True)).find_queue(ref)
    assert found is not None
    return found


def findings(client: Redis, ref: Ref = CELERY, *specs: str) -> dict[str, Finding]:
    return {finding.kind: finding for finding in count_queue(open_engine(client, *specs), ref).findings}


def list_jobs(engine: Engine, place: str, ref: Ref = CELERY) -> dict[bytes, Job]:
    return {each.id: each for each in engine.fetch_page(ref, place, limit=100, body_bytes=65536).jobs}


def facts(job: Job) -> dict[str, object]:
    return {fact.name: fact.value for fact in job.facts}


def count_stored_jobs(queue: Queue) -> dict[str, int]:
    """Return the counts of the places that have a key."""
    return {count.place: count.count for count in queue.counts if count.coverage is None}


# -- queues and places ---------------------------------------------------------------------------------------------


def test_a_redis_with_celery_shows_its_queues_unasked_and_none_of_celerys_own(any_client: Redis) -> None:
    database(any_client)
    hold(any_client, "nobody-bound-it", "unbound")
    engine = open_engine(any_client)
    assert engine.refs == [CELERY, MAIL, Ref("celery", "unbound")]
    assert not engine.unsupported_systems


def test_a_queue_of_another_prefix_is_found_when_an_option_names_the_prefix(any_client: Redis) -> None:
    bind(any_client, "celery", "mail", prefix="shop:")
    any_client.lpush("shop:mail", message("letter", "mail"))
    hold(any_client, "held", "mail", prefix="shop:")
    engine = open_engine(any_client, "celery:prefix=shop:")
    assert engine.refs == [CELERY, MAIL]
    assert count_stored_jobs(count_queue(engine, MAIL)) == {"eta": 0, "queue": 1, "unacked": 1, "late": 0}


def test_a_prefix_that_all_keys_have_is_used_and_named_in_each_remedy(any_client: Redis) -> None:
    bind(any_client, "celery", "mail", prefix="shop:")
    any_client.lpush("shop:mail", message("letter", "mail"))
    hold(any_client, "old", "mail", prefix="shop:", taken_s=4000)
    engine = open_engine(any_client)
    assert {CELERY, MAIL} <= set(engine.refs)
    found = list_findings(engine, MAIL)["abandoned"]
    assert found.remedy.endswith("rqtui reap --system celery:prefix=shop: celery:mail --once")
    bind(any_client, "plain")
    list(engine.discover(fully=True))
    list(engine.discover())
    assert Ref("celery", "plain") in engine.refs and engine.systems["celery"].options["prefix"] == ""


def test_a_queue_without_timed_and_taken_messages_has_no_next_time(any_client: Redis) -> None:
    bind(any_client, "celery", "mail")
    any_client.lpush("mail", message("letter", "mail"))
    hold(any_client, "soon", eta=format_instant(600), taken_s=60)
    engine = open_engine(any_client)
    idle, timed = count_queue(engine, MAIL), count_queue(engine)
    assert (idle.next_due_ms, idle.next_expiry_ms) == (None, None)
    assert timed.next_due_ms is not None and timed.next_expiry_ms is not None


@pytest.mark.parametrize(("first", "step"), [(4_900, 1), (7_100, -1)], ids=["from the front", "from the back"])
def test_neighbours_are_found_deeper_in_a_list_than_a_search_from_its_ends(
    client: Redis, first: int, step: int
) -> None:
    bind(client, "celery")
    client.lpush("celery", *(message(f"n{number}") for number in range(12_000)))
    engine = open_engine(client)
    jobs = engine.fetch_page(CELERY, "queue", min(first, first + 200 * step), 200).jobs[::step]
    outcomes = engine.apply_verb("delete", CELERY, jobs, {})
    assert [outcome.word for outcome in outcomes] == ["moved"] * 200
    assert client.llen("celery") == 11_800


def test_a_key_that_is_called_celery_is_nobodys_where_nothing_is_bound(any_client: Redis) -> None:
    any_client.lpush("celery", "anything")
    any_client.hset("unacked", "a", "b")
    assert open_engine(any_client).refs == []


def test_a_queue_is_counted_alone_and_among_others_as_its_places_are_listed(any_client: Redis) -> None:
    database(any_client)
    engine = open_engine(any_client)
    system = engine.systems["celery"]
    together = system.queues_request(["celery", "mail"])
    assert together is not None
    among = together.parse(scripts.send_calls(any_client, together.calls))
    for ref, expected in ((CELERY, [2, 5, 1, 1]), (MAIL, [0, 1, 1, 0])):
        alone = count_queue(engine, ref)
        assert list(count_stored_jobs(alone).values()) == expected
        other = next(queue for queue in among if queue.name == ref.queue)
        assert count_stored_jobs(other) == count_stored_jobs(alone)
        assert other.next_due_ms == pytest.approx(alone.next_due_ms, abs=5000)
        assert [len(list_jobs(engine, place, ref)) for place in count_stored_jobs(alone)] == expected
    queue = count_queue(engine)
    assert queue.expired == 1
    assert 590_000 < (queue.next_due_ms or 0) <= 600_000
    assert {count.place: count.shared_total for count in queue.counts if count.shared_total is not None} == {
        "eta": 2, "unacked": 2, "late": 1
    }  # fmt: skip


def test_a_queue_is_listed_in_the_order_in_which_workers_take_from_it(any_client: Redis) -> None:
    database(any_client)
    engine = open_engine(any_client)
    order = [b"first", b"second", b"third", b"last", b"very-last"]
    assert list(list_jobs(engine, "queue")) == order
    pages = [engine.fetch_page(CELERY, "queue", offset=at, limit=2) for at in (0, 2, 4)]
    assert [job.id for page in pages for job in page.jobs] == order
    assert [page.next for page in pages] == [2, 4, None]
    assert [job.id for job in engine.fetch_page(CELERY, "queue", offset=-1, limit=2).jobs] == order[-2:]
    assert [job.priority for job in list_jobs(engine, "queue").values()] == [0, 0, 3, 9, 9]
    assert list(list_jobs(engine, "eta")) == [b"soon", b"later"]


def test_other_steps_and_another_separator_are_options(any_client: Redis) -> None:
    bind(any_client, "celery")
    any_client.lpush("celery", message("first"))
    any_client.lpush("celery:5", message("second", priority=5))
    any_client.lpush(f"celery{SEP}3", message("nobody-reads-it", priority=3))
    engine = open_engine(any_client, r"celery:sep=\x3a,steps=0/5,unacked=held")
    assert list(list_jobs(engine, "queue")) == [b"first", b"second"]
    hold(any_client, "elsewhere")
    assert not list_jobs(engine, "unacked")
    any_client.lpush(b"celery\xff9", message("high", priority=9))
    assert b"high" in list_jobs(open_engine(any_client, r"celery:sep=\xff"), "queue")


def test_a_message_that_names_an_exchange_belongs_to_the_queue_bound_there(any_client: Redis) -> None:
    database(any_client)
    any_client.sadd("_kombu.binding.news", f"feed.*.new{SEP}x{SEP}mail", f"feed.#{SEP}x{SEP}celery", f"k{SEP}{SEP}mail")
    engine = open_engine(any_client)
    for id, key in (("star", "feed.de.new"), ("hash", "feed.de.old.long"), ("direct", "k")):
        hold(any_client, id, key, exchange="news")
    assert set(list_jobs(engine, "unacked", MAIL)) == {b"of-mail", b"direct"}
    assert {b"hash", b"star"} <= set(list_jobs(engine, "unacked"))  # `feed.#` is the first that fits
    job = list_jobs(engine, "unacked", MAIL)[b"direct"]
    assert facts(job)["exchange"] == "news with the routing key k"


def test_the_scripts_read_an_eta_as_python_does(any_client: Redis) -> None:
    bind(any_client, "celery")
    zones = (UTC, timezone(timedelta(hours=5, minutes=30)), timezone(-timedelta(hours=8)))
    times = [datetime(2032, month, day, 23, 59, 58, 123000, zone)
             for zone in zones for month, day in ((1, 1), (2, 28), (2, 29), (3, 1), (12, 31))]  # fmt: skip
    engine = open_engine(any_client)
    for when in times:
        any_client.delete("unacked", "unacked_index")
        hold(any_client, "one", eta=when.isoformat())
        queue = count_queue(engine)
        assert queue.next_due_ms is not None
        assert queue.next_due_ms + queue.counted_ms == round(when.timestamp() * 1000)
        assert list_jobs(engine, "eta")[b"one"].due_ms == round(when.timestamp() * 1000)


@pytest.mark.parametrize(("held", "is_exact"), [(200, True), (201, False)])
def test_up_to_200_held_jobs_of_all_queues_are_counted_exactly(client: Redis, held: int, *, is_exact: bool) -> None:
    bind(client, "celery", "mail")
    pipe = client.pipeline()
    for number in range(held):
        hold(pipe, f"held-{number}", "mail" if number % 2 == 0 else "celery", taken_s=held - number)
    pipe.execute()
    found = next(count for count in count_queue(open_engine(client), MAIL).counts if count.place == "unacked")
    assert (found.is_exact, found.shared_total) == (is_exact, held)
    assert found.count == held // 2 if is_exact else 0 < found.count < held


def test_held_jobs_are_counted_by_a_sample_and_a_walk_finds_each_job_of_the_queue_once(client: Redis) -> None:
    bind(client, "celery", "mail")
    pipe = client.pipeline()
    for number in range(2500):
        hold(pipe, f"held-{number}", "mail" if number % 5 == 0 else "celery", taken_s=3000 - number)
    pipe.execute()
    engine = open_engine(client)
    queue = count_queue(engine, MAIL)
    found = next(count for count in queue.counts if count.place == "unacked")
    assert not found.is_exact and 400 <= found.count <= 600 and found.shared_total == 2500
    system, met, offset = engine.systems["celery"], [], 0
    for _step in range(50):
        ask = system.scan_request("mail", "unacked", offset, 100, 0)
        page = ask.parse(scripts.send_calls(client, ask.calls))
        met += [job.id for job in page.jobs]
        if page.next is None:
            break
        offset = page.next
    assert sorted(met) == sorted(b"held-%d" % number for number in range(0, 2500, 5))
    page = engine.fetch_page(MAIL, "unacked", limit=50)
    assert page.total == 60 and page.place_total == 500


def test_reading_sends_nothing_that_writes(client: Redis) -> None:
    database(client)
    before = keyspace.dump(client)
    with client.monitor() as monitor:
        engine = open_engine(client)
        count_queue(engine)
        for place in engine.systems["celery"].places:
            engine.fetch_page(CELERY, place.name, limit=50)
        engine.fetch_job(CELERY, b"held")
        client.echo("that was all")
        sent: set[str] = set()
        for sentence in monitor.listen():
            if sentence["command"].startswith("ECHO"):
                break
            sent.add(sentence["command"].split()[0].upper())
    table: Any = client.command()
    assert not {name for name in sent if "write" in table.get(name.lower(), {}).get("flags", ())}
    assert keyspace.dump(client) == before


# -- jobs --------------------------------------------------------------------------------------------------------------


def test_a_row_of_each_place_shows_the_call_its_times_and_its_facts(any_client: Redis) -> None:
    database(any_client)
    signature = {"task": "tasks.mail", "args": ["ann"], "kwargs": {}, "options": {}}
    embed = {**ALONE, "callbacks": [signature], "chain": [signature, {**signature, "args": [7]}]}
    message_fields = message(
        "rich", body=build_body(1, "two", embed=embed, retry=True), retries=2, timelimit=[30, 20.5],
        expires=format_instant(90),
        parent_id="held", root_id="soon", group="g-1", ignore_result=True, redelivered=True,
    )  # fmt: skip
    any_client.lpush("celery", message_fields)
    engine = open_engine(any_client)
    rich = list_jobs(engine, "queue")[b"rich"]
    assert (rich.call, rich.name, rich.attempts, rich.ttr_ms) == (
        "tasks.add(1, 'two', retry=True)",
        "tasks.add",
        2,
        30_000,
    )
    assert rich.body == message_fields.encode() == rich.member and rich.problem == ""
    values = facts(rich)
    assert values["then"] == "tasks.mail('ann')" and values["chain"] == "tasks.mail('ann'), tasks.mail(7)"
    assert (values["root"], values["parent"], values["group"]) == ("soon", "held", "g-1")
    assert (values["time limit"], values["soft time limit"]) == (30_000, 20_500)
    assert values["redelivered"] == "yes: a worker had it before" and values["result is"] == "ignored"
    held = list_jobs(engine, "unacked")[b"held"]
    assert held.token == b"tag-held" and held.attempts == 1
    assert held.body == message("held").encode() == extract_message(held.member)
    assert held.deadline_ms is not None and held.reserved_ms is not None
    assert held.deadline_ms - held.reserved_ms == 3_600_000
    assert list_jobs(engine, "eta")[b"soon"].due_ms == pytest.approx((now_s() + 600) * 1000, abs=5000)
    any_client.lpush("celery", message("stale", expires=format_instant(-90)))
    hold(any_client, "taken", expires=format_instant(-90))
    stale = "expired, and dropped by the worker that takes it: tasks.add(1, 2)"
    assert list_jobs(engine, "queue")[b"stale"].problem == stale
    assert list_jobs(engine, "unacked")[b"taken"].problem == ""


class Deadly:
    def __reduce__(self) -> tuple[object, ...]:
        import os

        return os.system, ("touch /nowhere/at/all",)


def test_a_body_is_read_in_each_way_that_it_is_written_and_nothing_of_it_is_run(any_client: Redis) -> None:
    bind(any_client, "celery")
    content = "application/x-python-serialize"
    pickled = pickle.dumps(((1, b"two"), {"when": {3}}, dict(ALONE)))
    squeezed = {"compression": "application/x-gzip"}
    first_protocol = json.dumps({"task": "tasks.old", "id": "old", "args": [1], "kwargs": {"b": 2}, "retries": 1})
    bomb = zlib.compress(b"[" + b" " * 50_000_000 + b"]")
    written = {
        "pickle": message("pickle", body=pickled, content=content),
        "deadly": message("deadly", body=pickle.dumps(((Deadly(),), {}, {})), content=content),
        "zlib": message("zlib", body=zlib.compress(build_body(5)), **squeezed),
        "bomb": message("bomb", body=bomb, **squeezed),
        "yaml": message("yaml", body=b"- [1]\n- {}\n", content="application/x-yaml"),
        "torn": message("torn", body=b"[[1, 2"),
        "call": message("call", body=b'"no call"'),
    }
    old = json.loads(message("old", body=first_protocol.encode()))
    any_client.lpush("celery", *written.values(), json.dumps({**old, "headers": {}}))
    jobs = list_jobs(open_engine(any_client), "queue")
    calls = {name: jobs[name.encode()].call for name in written}
    assert calls == {
        "pickle": "tasks.add(1, b'two', when={3})",
        "deadly": "tasks.add(posix.system('touch /nowhere/at/all'))",
        "zlib": "tasks.add(5)",
        "bomb": "tasks.add(1, 2)",
        "yaml": "tasks.add(1, 2)",
        "torn": "tasks.add(1, 2)",
        "call": "tasks.add(1, 2)",
    }
    problems = {name: jobs[name.encode()].problem for name in written}
    assert "inflates to more than 256 kB" in problems["bomb"]
    assert problems["torn"] == "its body is no JSON" and problems["call"] == "its body is no call of Celery"
    assert not any(problems[name] for name in ("pickle", "deadly", "zlib", "yaml"))
    assert (jobs[b"old"].call, jobs[b"old"].attempts) == ("tasks.old(1, b=2)", 1)


@pytest.mark.slow
def test_a_long_message_is_read_by_its_end_and_shown_whole_when_it_is_requested(client: Redis) -> None:
    bind(client, "celery")
    client.lpush("celery", message("long", body=build_body("x" * 30_000_000), argsrepr="('xxx…',)"))
    hold(client, "held-long", body=build_body("y" * 500_000), eta=format_instant(500))
    engine = open_engine(client)
    page = engine.fetch_page(CELERY, "queue", limit=50)
    assert (page.jobs[0].id, page.jobs[0].call, page.jobs[0].is_partial) == (b"long", "tasks.add('xxx…')", True)
    assert page.jobs[0].body_bytes > 40_000_000
    assert [job.id for job in engine.fetch_page(CELERY, "eta").jobs] == [b"held-long"]
    whole = engine.fetch_job(CELERY, b"held-long", body_bytes=-1)
    assert whole is not None and whole.body == extract_message(whole.member) and not whole.is_partial
    assert count_queue(engine).count_in_place("queue") == 1


def test_a_job_is_found_by_its_id_wherever_it_is_with_its_result(any_client: Redis) -> None:
    database(any_client)
    fields = {
        "status": "FAILURE",
        "result": {"exc_type": "ValueError", "exc_message": ["boom"], "exc_module": "builtins"},
    }
    fields |= {"traceback": "Traceback…\nValueError: boom", "date_done": "2026-11-22T21:42:27.656955+00:00"}
    any_client.set("celery-task-meta-held", json.dumps({**fields, "children": [[["child-1", None], None]]}))
    any_client.set("celery-task-meta-ended", json.dumps({"status": "SUCCESS", "result": 3}))
    engine = open_engine(any_client)
    for place, id in (("queue", b"last"), ("unacked", b"held"), ("late", b"old"), ("eta", b"soon")):
        job = open_engine(any_client).fetch_job(CELERY, id)
        assert job is not None and (job.place, job.id) == (place, id)
    held = engine.fetch_job(CELERY, b"held")
    assert held is not None
    values = facts(held)
    assert (values["status"], values["child"]) == ("FAILURE", "child-1")
    assert values["ended"] == 1795383747657 and "ValueError: boom" in str(values["traceback"])
    ended = engine.fetch_job(CELERY, b"ended")
    assert ended is not None and (ended.place, facts(ended)["result"]) == ("succeeded", "3")
    assert engine.fetch_job(CELERY, b"never") is None
    assert engine.fetch_job(MAIL, b"held") is None


# -- what is heard -----------------------------------------------------------------------------------------------------

AT = 1_800_000_000_000


def encode_events(*events: Mapping[str, object]) -> bytes:
    """Build an event as Kombu publishes it; several as `task.multi` has them (celery/events/dispatcher.py)."""
    raw = json.dumps(events if len(events) > 1 else events[0]).encode()
    envelope = {"body": base64.b64encode(raw).decode(), "content-type": "application/json", "headers": {}}
    return json.dumps({**envelope, "properties": {"body_encoding": "base64", "delivery_tag": "t"}}).encode()


def event(kind: str, id: str = "", **more: object) -> dict[str, object]:
    return {"type": kind, "hostname": "celery@host", "pid": 7, "utcoffset": 0, **({"uuid": id} if id else {}), **more}


def beat(system: Celery, at_ms: int, *, active: int = 0, processed: int = 0, worker: str = "celery@host") -> None:
    event_fields = event(
        "worker-heartbeat", freq=2.0, active=active, processed=processed, sw_ident="py-celery", sw_ver="5.7.0"
    )
    system.record_event(b"/0.celeryev/worker.heartbeat", encode_events({**event_fields, "hostname": worker}), at_ms)


def receive_events(
    system: Celery, *events: Mapping[str, object], at_ms: int = AT, channel: bytes = b"/0.celeryev/task.multi"
) -> None:
    system.record_event(channel, encode_events(*events), at_ms)


def receive_result(
    client: Redis, system: Celery, id: str, status: str, at_ms: int = AT, backend: Redis | None = None, **more: object
) -> None:
    """Publish a result that a worker stores, in another database if `backend` is one; then poll `client` once."""
    document = json.dumps(
        {"status": status, "result": None, "traceback": None, "children": [], "date_done": None, **more}
    )
    (backend or client).set(f"celery-task-meta-{id}", document, ex=86_400)
    system.record_event(f"celery-task-meta-{id}".encode(), document.encode(), at_ms)
    poll_results(client, system)


def poll_results(client: Redis, system: Celery) -> None:
    """Send what a poll asks about the results that were heard."""
    Engine(client, [system]).send_requests(system.event_requests())


def listening(client: Redis, *specs: str, listened_s: int = 60) -> tuple[Engine, Celery]:
    """Create an engine with a system that received no event yet. Nothing is sent to a server, so time is the test's."""
    engine = open_engine(client, *specs)
    system = engine.systems["celery"]
    assert isinstance(system, Celery)
    system.event_coverage = EventCoverage(int((now_s() - listened_s) * 1000))
    return engine, system


def list_event_jobs(system: Celery, place: str, queue: str = "celery") -> dict[bytes, Job]:
    ask = system.page_request(queue, place, 0, 100, 0)
    return {job.id: job for job in ask.parse([]).jobs}


def test_a_run_is_followed_from_the_send_to_its_end(any_client: Redis) -> None:
    database(any_client)
    _engine, system = listening(any_client)
    receive_events(
        system, event("task-sent", "a", name="tasks.add", args="(1,)", kwargs="{'b': 2}", queue="mail", retries=0)
    )
    receive_events(
        system,
        event("task-received", "a", name="tasks.add", args="(1,)", kwargs="{'b': 2}", retries=0),
        event("task-started", "a"),
    )
    running = list_event_jobs(system, "running", "mail")[b"a"]
    assert (running.call, running.worker, running.reserved_ms) == ("tasks.add(1, b=2)", "celery@host", AT)
    receive_result(any_client, system, "a", "SUCCESS", result=3)
    receive_events(system, event("task-succeeded", "a", result="3", runtime=1.25), at_ms=AT + 500)
    assert not list_event_jobs(system, "running", "mail")
    done = list_event_jobs(system, "succeeded", "mail")[b"a"]
    assert (facts(done)["took"], facts(done)["result"], done.since_ms) == (1250, "3", AT)
    (figures,) = system.kinds_request("mail").parse([])
    assert (figures.kind, figures.processed, figures.failed, figures.mean_ms) == ("tasks.add", 1, 0, 1250)


@run_in_one_test(
    "told, place, why",
    [
        (event("task-revoked", "a"), "revoked", "revoked"),
        (event("task-revoked", "a", terminated=True), "revoked", "terminated"),
        (event("task-revoked", "a", expired=True), "revoked", "expired"),
        (event("task-revoked", "a", expired=True, terminated=True), "revoked", "expired"),
        (event("task-revoked", "a", requeue=True), "revoked", "revoked"),
        (event("task-rejected", "a"), "revoked", "rejected by its task"),
        (event("task-rejected", "a", requeue=False), "revoked", "rejected by its task"),
        (event("task-rejected", "a", requeue=True), "", None),
        (event("task-failed", "a", exception="ValueError('x')", traceback=" "), "failed", None),
        (event("task-succeeded", "a", result="3"), "succeeded", None),
    ],
)
def test_each_event_that_ends_a_run_reports_how_it_ended(
    client: Redis, told: Mapping[str, object], place: str, why: str | None
) -> None:
    bind(client, "celery")
    _engine, system = listening(client)
    receive_events(
        system, event("task-received", "a", name="tasks.add", args="()", kwargs="{}"), event("task-started", "a")
    )
    assert [*list_event_jobs(system, "running")] == [b"a"]
    receive_events(system, told, at_ms=AT + 500)
    places = ("running", "succeeded", "failed", "revoked")
    jobs = {name: found[b"a"] for name in places if (found := list_event_jobs(system, name))}
    assert [*jobs] == ([place] if place else [])
    for job in jobs.values():
        assert facts(job).get("ended by") == why and (job.error == "ValueError('x')") is (place == "failed")


def test_events_that_come_behind_the_result_of_their_run_are_of_the_same_run(any_client: Redis) -> None:
    """A worker publishes a result at once, and the events of a short run together, behind it."""
    bind(any_client, "celery")
    engine, system = listening(any_client)
    receive_result(any_client, system, "a", "SUCCESS", result=3)
    received = event("task-received", "a", name="tasks.add", args="(1, 2)", kwargs="{}")
    receive_events(system, received, event("task-started", "a"), event("task-succeeded", "a", result="3", runtime=0.1))
    assert list_event_jobs(system, "succeeded")[b"a"].call == "tasks.add(1, 2)" and not list_event_jobs(
        system, "running"
    )
    assert sum(each.processed for each in system.kinds_request("celery").parse([])) == 1
    assert "foreign-restore" not in list_findings(engine)
    receive_events(system, event("task-started", "a"))
    assert "after it had succeeded" in list_findings(engine)["foreign-restore"].text


def test_a_start_that_a_result_and_an_event_report_is_one_run(any_client: Redis) -> None:
    """task_track_started stores a result at the start, which arrives before the batch with the event."""
    bind(any_client, "celery")
    engine, system = listening(any_client)
    for attempt in ("first", "second"):
        receive_events(system, event("task-received", "a", name="tasks.add", args="(1, 2)", kwargs="{}"))
        receive_result(any_client, system, "a", "STARTED")
        receive_events(system, event("task-started", "a"))
        assert "foreign-restore" not in list_findings(engine), attempt
        receive_events(system, event("task-retried", "a", exception="ValueError('boom')", traceback=""))
    receive_result(any_client, system, "a", "STARTED")
    receive_events(system, event("task-started", "a"))
    receive_events(system, event("task-started", "a"))
    assert "while celery@host ran it" in list_findings(engine)["foreign-restore"].text


def test_runs_without_a_known_task_have_no_kind_like_messages_without_one(any_client: Redis) -> None:
    bind(any_client, "celery")
    engine, system = listening(any_client)
    any_client.lpush("celery", b'{"body": "W10=", "headers": {}, "properties": {}, "content-type": "application/json"}')
    receive_result(any_client, system, "a", "SUCCESS", result=3)
    *_steps, found = kinds.yield_kind_reports(engine, engine.refs)
    assert found is not None
    [(name, processed)] = [(each.name, each.figures and each.figures.processed) for each in found.kinds]
    assert (name, processed) == ("", 1)


def test_a_failure_a_retry_and_a_revoked_task_show_the_reason(any_client: Redis) -> None:
    bind(any_client, "celery")
    _engine, system = listening(any_client)
    trace = 'Traceback (most recent call last):\n  File "tasks.py", line 3, in add\nValueError: boom\n'
    receive_events(
        system, event("task-received", "r", name="tasks.add", args="()", kwargs="{}"), event("task-started", "r")
    )
    receive_events(system, event("task-retried", "r", exception="ValueError('boom')", traceback=trace))
    assert not list_event_jobs(system, "running")
    receive_events(
        system,
        event("task-received", "r", name="tasks.add", args="()", kwargs="{}", retries=1),
        event("task-started", "r"),
    )
    receive_events(system, event("task-failed", "r", exception="ValueError('boom')", traceback=trace))
    failed = list_event_jobs(system, "failed")[b"r"]
    assert failed.error == trace.strip() and failed.attempts == 2 and failed.history[0].error == trace.strip()
    for id, how, why in (("x", {"expired": True}, "expired"), ("t", {"terminated": True}, "terminated")):
        receive_events(system, event("task-revoked", id, **how))
        assert facts(list_event_jobs(system, "revoked")[id.encode()])["ended by"] == why
    (figures, *_others) = [each for each in system.kinds_request("celery").parse([]) if each.kind == "tasks.add"]
    assert (figures.processed, figures.failed) == (2, 2)


def test_an_outcome_counts_for_the_queue_of_its_event_or_message_else_for_the_default_one(any_client: Redis) -> None:
    database(any_client)
    any_client.lpush("mail", message("greeting", "mail", task="tasks.greet"))
    engine, system = listening(any_client)
    list_jobs(engine, "queue", MAIL)  # this poll shows the queues of `letter` and `greeting`
    receive_result(any_client, system, "letter", "SUCCESS")
    receive_result(
        any_client, system, "told", "SUCCESS", name="tasks.other", args=[1], kwargs={}, queue="mail", worker="w@h"
    )
    receive_events(
        system,
        event("task-received", "by-name", name="tasks.greet", args="()", kwargs="{}"),
        event("task-succeeded", "by-name"),
    )
    receive_result(any_client, system, "whose", "FAILURE", result={"exc_type": "KeyError", "exc_message": ["x"]})
    of_mail = list_event_jobs(system, "succeeded", "mail")
    assert set(of_mail) == {b"letter", b"told", b"by-name"}
    assert of_mail[b"told"].call == "tasks.other(1)" and of_mail[b"told"].worker == "w@h"
    assert facts(of_mail[b"by-name"])["queue"] == "guessed: its task was seen in no other one"
    assert not list_event_jobs(system, "failed", "mail")
    assert facts(list_event_jobs(system, "failed")[b"whose"])["queue"] == "unknown: no event names it"
    (nobodys,) = system.event_cache.yield_unassigned_jobs()
    assert (nobodys.id, nobodys.error) == (b"whose", "KeyError: x")
    assert list_findings(engine)["outcomes-untold"].jobs == 1


def test_a_guessed_queue_is_dropped_once_the_task_is_seen_elsewhere(any_client: Redis) -> None:
    bind(any_client, "celery", "mail")
    any_client.lpush("mail", message("letter", "mail"))
    engine, system = listening(any_client)
    receive_events(system, event("task-received", "early", name="tasks.add", args="()", kwargs="{}"))
    receive_result(any_client, system, "early", "SUCCESS")
    assert not list_event_jobs(system, "succeeded", "mail")
    engine.take_snapshot(Focus(queues=None))  # counts all queues, and sees the task of the next message of each
    receive_events(system, event("task-received", "late", name="tasks.add", args="()", kwargs="{}"))
    receive_result(any_client, system, "late", "FAILURE")
    of_mail = list_event_jobs(system, "succeeded", "mail") | list_event_jobs(system, "failed", "mail")
    assert {id: facts(job)["queue"][:7] for id, job in of_mail.items()} == {b"early": "guessed", b"late": "guessed"}
    list_jobs(engine, "queue", MAIL)
    receive_result(any_client, system, "letter", "SUCCESS")
    hold(any_client, "other", "celery")
    engine.take_snapshot(Focus(queues=None))
    assert {job.id for job in system.event_cache.yield_unassigned_jobs()} == {b"early", b"late"}
    assert set(list_event_jobs(system, "succeeded", "mail")) == {b"letter"}
    assert system.event_cache.count("mail", "failed").of_queue == 0
    rows = [
        [fact.value for fact in job.facts if fact.name == "queue"] for job in list_event_jobs(system, "failed").values()
    ]
    assert rows == [["unknown: no event names it"]]


def test_the_next_messages_of_a_queue_show_to_which_queue_outcomes_of_their_task_belong(any_client: Redis) -> None:
    database(any_client)
    engine, system = listening(any_client)
    receive_result(
        any_client,
        system,
        "early",
        "FAILURE",
        name="tasks.greet",
        result={"exc_type": "KeyError", "exc_message": ["x"]},
    )
    assert [job.id for job in system.event_cache.yield_unassigned_jobs()] == [b"early"]
    any_client.lpush("mail", message("greeting", "mail", task="tasks.greet"))
    count_queue(engine, MAIL)  # no page of it
    assert set(list_event_jobs(system, "failed", "mail")) == {b"early"} and not list(
        system.event_cache.yield_unassigned_jobs()
    )
    system.event_coverage = NO_EVENT_COVERAGE
    assert len(system.probe_request("mail").calls) == 1, "who does not listen asks for no more"


def list_findings(engine: Engine, ref: Ref = CELERY) -> dict[str, Finding]:
    return {finding.kind: finding for finding in count_queue(engine, ref).findings}


def test_a_task_that_runs_and_is_in_unacked_is_listed_once(any_client: Redis) -> None:
    database(any_client)
    engine, system = listening(any_client)
    receive_events(system, event("task-started", "held"), at_ms=AT)
    held = list_jobs(engine, "unacked")[b"held"]
    assert (held.worker, facts(held)["running since"]) == ("celery@host", AT)
    assert b"held" not in list_event_jobs(system, "running")
    any_client.hdel("unacked", "tag-held")
    any_client.zrem("unacked_index", "tag-held")
    list_jobs(engine, "unacked")
    assert b"held" in list_event_jobs(system, "running")  # it was acked while it runs
    receive_events(system, event("task-succeeded", "held", result="1", runtime=0.5))
    assert b"held" in list_event_jobs(system, "succeeded") and not list_event_jobs(system, "running")


def test_workers_are_those_that_send_heartbeats(any_client: Redis) -> None:
    database(any_client)
    engine, system = listening(any_client)
    assert count_queue(engine).workers == 0  # no heartbeat arrived in a minute of listening
    now_ms = system.now_ms()
    beat(system, now_ms - 1000, active=2, processed=40)
    beat(system, now_ms - 60_000, worker="old@host")
    receive_events(system, event("task-started", "held"))
    alive, silent = system.workers_request("celery").parse([])
    assert (alive.name, alive.pid, alive.host, alive.state, alive.job) == ("celery@host", "7", "host", "busy", b"held")
    assert {fact.name: fact.value for fact in alive.facts}["version"] == "Celery 5.7.0"
    assert (silent.name, silent.state) == ("old@host", "silent")
    assert count_queue(engine).workers == 1
    entries, _now_ms, _problems = workers.load_workers(engine, [Ref("celery", "celery")])
    assert {entry.name: entry.has_unknown_jobs for entry in entries} == {"celery@host": False, "old@host": False}
    beat(system, now_ms, active=2, worker="early@host")
    entries, _now_ms, _problems = workers.load_workers(engine, [Ref("celery", "celery")])
    assert [entry.name for entry in entries if entry.has_unknown_jobs] == ["early@host"], "its tasks began before"
    system.record_event(
        b"/0.celeryev/worker.offline", encode_events({**event("worker-offline"), "hostname": "early@host"}), now_ms
    )
    system.record_event(b"/0.celeryev/worker.offline", encode_events(event("worker-offline")), now_ms)
    assert [worker.name for worker in system.workers_request("celery").parse([])] == ["old@host"]


def test_workers_and_ends_of_jobs_are_unknown_where_no_client_listens(any_client: Redis) -> None:
    database(any_client)
    queue = count_queue(open_engine(any_client))
    assert queue.workers is None
    assert not any(
        count.is_count_known for count in queue.counts if count.place in ("running", "succeeded", "failed", "revoked")
    )


def test_what_is_published_is_that_of_the_same_database_and_prefix(client: Redis, url: str) -> None:
    other = Redis.from_url(url, db=3)
    try:
        bind(other, "celery", prefix="shop:")
        _engine, system = listening(other, "celery:prefix=shop:")
        assert system.event_patterns() == ("shop:/*.celeryev*", "celery-task-meta-*", "shop:celery-task-meta-*")
        one = encode_events(event("task-started", "a"))
        for channel in (b"/3.celeryev/task.multi", b"shop:/0.celeryev/task.multi", b"work:/3.celeryev/task.multi"):
            system.record_event(channel, one, AT)
        receive_result(other, system, "somebody-elses", "SUCCESS")
        assert not list_event_jobs(system, "running") and not list_event_jobs(system, "succeeded")
        system.record_event(b"shop:/3.celeryev/task.multi", one, AT)
        other.set("shop:celery-task-meta-b", b'{"status": "SUCCESS"}')
        system.record_event(b"shop:celery-task-meta-b", b'{"status": "SUCCESS"}', AT)
        poll_results(other, system)
        assert set(list_event_jobs(system, "running")) == {b"a"} and set(list_event_jobs(system, "succeeded")) == {b"b"}
    finally:
        other.flushdb()
        other.close()


def test_exchanges_of_other_names_are_received_where_kombu_publishes_to_them(client: Redis) -> None:
    bind(client, "celery")
    spec = "celery:fanout=/shop.,events=shopev,control=shopctl"
    _engine, system = listening(client, spec)
    assert system.event_patterns()[0] == "/shop.shopev*"
    assert system.keys("celery")["control"] == "/shop.shopctl.pidbox"
    assert system.keys("celery")["replies"] == "_kombu.binding.reply.shopctl.pidbox"
    assert system.format_spec("celery") == spec
    own = (b"/shop.shopev/task.multi", b"/shop.shopev")  # with `fanout_patterns` and without
    for number, channel in enumerate(own):
        system.record_event(channel, encode_events(event("task-started", str(number))), AT)
    for channel in (b"/0.celeryev/task.multi", b"/shop.shopev2/task.multi", b"/shop.shopev2", b"shopev"):
        system.record_event(channel, encode_events(event("task-started", "another's")), AT)
    poll_results(client, system)
    assert set(list_event_jobs(system, "running")) == {b"0", b"1"}
    _engine, system = listening(client, "celery:prefix={db}:,fanout=")
    assert system.event_patterns()[0] == "{db}:celeryev*" and system.control == "{db}:celery.pidbox"
    _engine, system = listening(client, "celery:fanout=/shop/{db}.")
    number = client.connection_pool.connection_kwargs.get("db") or 0
    assert system.event_patterns()[0] == "/shop/*.celeryev*" and system.control == f"/shop/{number}.celery.pidbox"


NOISE = [
    *(b"", b"\xff\xfe", b"[]", b"{", b"null", b"7", b'{"body": 7}', b"[" * 100_000, b'{"status": 7}'),
    b'{"body": "!", "properties": {"body_encoding": "base64"}}',
    b'{"status": "FAILURE", "children": [7, [[]], [[3]]]}',
    b'{"status": "SUCCESS", "result": "' + b"x" * 100_000,
    *map(
        encode_events,
        (
            {},
            {"type": "task-failed"},
            {"type": ["x"]},
            {"type": "task-started", "uuid": 7},
            {"type": "worker-heartbeat", "hostname": 7, "freq": "x"},
            {
                "type": "worker-heartbeat",
                "hostname": "w",
                "loadavg": [None],
                "active": -1,
                "pid": {},
                "processed": 1e99,
            },
            {"type": "task-succeeded", "uuid": "a", "runtime": "x", "result": {"a": [1]}},
            {"type": "task-failed", "uuid": "a", "traceback": 7, "exception": [1], "hostname": None, "retries": "x"},
        ),
    ),
]


def test_no_published_message_stops_the_listener(any_client: Redis) -> None:
    database(any_client)
    engine, system = listening(any_client)
    for channel in (
        b"/0.celeryev/task.multi",
        b"celery-task-meta-a",
        b"celery-task-meta-",
        b"",
        b"\xff",
        b"/x.celeryev/",
    ):
        for noise in NOISE:
            system.record_event(channel, noise, AT)
    count_queue(engine)
    for place in ("running", "succeeded", "failed", "revoked"):
        list_event_jobs(system, place)
    assert b"a" in {*list_event_jobs(system, "succeeded"), *list_event_jobs(system, "failed")} | {
        job.id for job in system.event_cache.yield_unassigned_jobs()
    }


@pytest.mark.slow
def test_cached_data_is_bounded(any_client: Redis) -> None:
    bind(any_client, "celery")
    _engine, system = listening(any_client)
    any_client.mset({f"celery-task-meta-id-{number}": "{}" for number in range(25_000)})
    for number in range(25_000):
        system.record_event(b"celery-task-meta-id-%d" % number, b'{"status": "SUCCESS"}', AT)
    poll_results(any_client, system)
    assert system.event_cache.count("celery", "succeeded").of_queue == 25_000
    assert len(system.event_cache) == 10_000 and len(system._runs) == 20_000


def test_a_worker_that_comes_after_a_thousand_others_is_still_followed() -> None:
    stillness = WorkerIdleness()
    for number in range(MAX_WORKERS):
        stillness.record_heartbeat(f"gone-{number}", 0, 0, 1000)
    stillness.record_heartbeat("new", 0, 5, 2000)
    stillness.record_heartbeat("new", 0, 5, 60_000)
    assert stillness.compute_idle_since_ms("celery", 1, 1500) == 2000
    stillness.record_heartbeat("new", 0, 7, 70_000)
    assert stillness.ended == 2 and len(stillness._heartbeat_counts) == MAX_WORKERS


def test_a_job_whose_bytes_changed_is_found_however_many_were_missed_before(client: Redis) -> None:
    bind(client, "celery")
    client.lpush("celery", message("one"))
    engine, system = listening(client)
    list_jobs(engine, "queue")
    system._missed_jobs |= {("celery", b"%d" % number) for number in range(MAX_MISSED)}
    client.lset("celery", 0, message("one", retries=3))
    looks = [engine.fetch_job(CELERY, b"one") for _ in range(2)]
    assert looks[1] is not None and looks[1].attempts == 3
    assert len(system._missed_jobs) <= MAX_MISSED


def test_an_outcome_whose_queue_was_guessed_moves_to_the_queue_that_an_event_names(any_client: Redis) -> None:
    bind(any_client, "celery", "mail")
    any_client.lpush("mail", message("letter", "mail"))
    engine, system = listening(any_client)
    engine.take_snapshot(Focus(queues=None))
    receive_events(system, event("task-received", "early", name="tasks.add", args="()", kwargs="{}"))
    receive_events(system, event("task-succeeded", "early"))
    assert facts(list_event_jobs(system, "succeeded", "mail")[b"early"])["queue"].startswith("guessed")
    receive_result(
        any_client, system, "early", "SUCCESS", name="tasks.add", args=[], kwargs={}, queue="mail", worker="w@h"
    )
    assert "queue" not in facts(list_event_jobs(system, "succeeded", "mail")[b"early"])
    hold(any_client, "other", "celery")
    engine.take_snapshot(Focus(queues=None))  # the task is seen in a second queue
    assert set(list_event_jobs(system, "succeeded", "mail")) == {b"early"}


@pytest.fixture
def neighbours(client: Redis, url: str) -> Iterator[tuple[Redis, Redis]]:
    """Plant two databases of one Redis, each with a Celery queue."""
    with Redis.from_url(url, db=1) as one, Redis.from_url(url, db=2) as two:
        for each in (one, two):
            bind(each, "celery")
        yield one, two
        one.flushdb()
        two.flushdb()


FAILED = {"exc_type": "ValueError", "exc_message": ["no such order: 4711"], "exc_module": "builtins"}


def test_an_outcome_of_another_database_of_the_same_redis_is_not_counted(neighbours: tuple[Redis, Redis]) -> None:
    one, two = neighbours
    (engine, staging), (_engine, production) = listening(one), listening(two)
    fields = {"name": "tasks.add", "args": [1, 2], "kwargs": {}, "queue": "celery", "result": FAILED}
    for polled, system in ((one, staging), (two, production)):  # Pub/Sub has no databases: both hear all
        receive_result(polled, system, "of-staging", "FAILURE", backend=one, **fields)
        receive_result(polled, system, "of-production", "SUCCESS", backend=two, result=3)
        receive_events(system, event("task-sent", "told", queue="celery"), channel=b"/1.celeryev/task.multi")
        receive_events(
            system, event("task-failed", "told", exception="ValueError()"), channel=b"/1.celeryev/task.multi"
        )
    assert set(list_event_jobs(production, "succeeded")) == {b"of-production"} and not list_event_jobs(
        production, "failed"
    )
    assert set(list_event_jobs(staging, "failed")) == {b"of-staging", b"told"}
    assert (count_queue(engine).count_in_place("failed"), count_queue(engine).count_in_place("succeeded")) == (2, 0)


def test_a_result_that_is_kept_in_another_database_counts_once_this_one_knows_its_job(
    neighbours: tuple[Redis, Redis],
) -> None:
    """An app has its broker in database 1 and its results in database 2."""
    one, two = neighbours
    engine, system = listening(one)
    for id in ("seen-before", "seen-after", "told-before", "told-after", "nobodys"):
        if id == "seen-before":
            one.lpush("celery", message(id))
            assert set(list_jobs(engine, "queue")) == {b"seen-before"}
        if id == "told-before":
            receive_events(system, event("task-sent", id, queue="celery"), channel=b"/1.celeryev/task.multi")
        receive_result(one, system, id, "SUCCESS", backend=two, result=3)
    assert set(list_event_jobs(system, "succeeded")) == {b"seen-before", b"told-before"}
    hold(one, "seen-after")
    list_jobs(engine, "unacked")
    receive_events(system, event("task-started", "told-after"), channel=b"/1.celeryev/task.multi")
    assert set(list_event_jobs(system, "succeeded")) == {b"seen-before", b"told-before", b"seen-after", b"told-after"}
    assert not list_event_jobs(system, "running")


def test_results_that_this_database_does_not_know_are_reported_as_unknown_with_the_reason(
    neighbours: tuple[Redis, Redis],
) -> None:
    one, two = neighbours
    engine, system = listening(one)
    for number in range(12):
        receive_result(one, system, f"id-{number}", "SUCCESS", backend=two)
    assert "outcomes-untold" not in list_findings(engine), "a worker of this database ended nothing: it is another's"
    now_ms = system.now_ms()
    for processed in (0, 12):
        event_fields = event(
            "worker-heartbeat", freq=2.0, active=0, processed=processed, sw_ident="py-celery", sw_ver="5.7.0"
        )
        system.record_event(b"/1.celeryev/worker.heartbeat", encode_events(event_fields), now_ms)
    untold = list_findings(engine)["outcomes-untold"]
    assert "workers ended 12 tasks and reported 0" in untold.text and "another database" in untold.text, untold.text
    assert "-E" in untold.remedy


def test_events_of_a_channel_without_a_database_count_only_for_jobs_that_this_one_knows(
    neighbours: tuple[Redis, Redis],
) -> None:
    one, two = neighbours
    engine, system = listening(one, "celery:fanout=")
    one.lpush("celery", message("seen"))
    list_jobs(engine, "queue")
    one.set("celery-task-meta-kept", "{}")
    two.set("celery-task-meta-others", "{}")
    for id in ("seen", "kept", "others", "without-a-result"):
        receive_events(system, event("task-started", id), channel=b"celeryev/task.multi")
    poll_results(one, system)
    assert set(list_event_jobs(system, "running")) == {b"seen", b"kept"}


def test_a_result_without_a_prefix_proves_nothing_where_apps_of_two_prefixes_share_a_database(client: Redis) -> None:
    bind(client, "celery")
    bind(client, "celery", prefix="shop:")
    engine, system = listening(client, "celery")
    assert list(engine.discover(fully=True))
    receive_result(client, system, "whose", "FAILURE", result=FAILED)
    client.lpush("celery", message("seen"))
    list_jobs(engine, "queue")
    receive_result(client, system, "seen", "SUCCESS")
    assert not list_event_jobs(system, "failed") and set(list_event_jobs(system, "succeeded")) == {b"seen"}


def test_what_waits_for_a_proof_is_bounded_and_what_is_forgotten_still_counts() -> None:
    taken: list[int] = []
    unplaced = UnplacedEvents(max_jobs=3, max_bytes=100)
    for number in range(5):
        unplaced.keep_call(b"%d" % number, partial(taken.append, number), 10, Evidence(b"key-%d" % number, False))
    assert len(unplaced) == 5 and sorted(unplaced.unchecked) == [b"2", b"3", b"4"]
    unplaced.keep_call(b"3", partial(taken.append, 33), 10, None)
    for take in (*unplaced.pop_calls(b"1"), *unplaced.pop_calls(b"3")):
        take()
    assert taken == [3, 33] and len(unplaced) == 4
    unplaced.keep_call(b"long", partial(taken.append, 0), 95, None)
    assert list(unplaced._kept_events) == [b"long"] and unplaced._bytes == 95 and not unplaced.unchecked


# -- what goes wrong ---------------------------------------------------------------------------------------------------


def test_each_fault_of_celery_is_named_with_what_helps_and_a_sound_one_has_none(client: Redis) -> None:
    bind(client, "celery")
    client.lpush("celery", message("sound"))
    hold(client, "sound-held", eta=format_instant(1800), taken_s=60)
    assert not findings(client)
    hold(client, "twice", eta=format_instant(7200), taken_s=60)
    hold(client, "old", taken_s=5000)
    client.lpush("celery", message("far", eta=format_instant(90_000)))
    client.lpush(f"celery{SEP}9", "no json", message("bare", leave="properties"))
    replies = "0a1b-2c.reply.celery.pidbox"
    client.sadd("_kombu.binding.reply.celery.pidbox", f"0a1b-2c{SEP}{SEP}{replies}")
    client.lpush(replies, "{}", "{}")
    found = findings(client)
    assert set(found) == {"eta-beyond-visibility", "abandoned", "poison-json", "poison-properties", "reply-lists"}
    abandoned = found["abandoned"]
    assert abandoned.ids == (b"old",) and abandoned.keys == ("unacked",) and "taken 1h23 ago" in abandoned.text
    assert found["poison-json"].keys == (f"celery{SEP}9",)
    assert found["reply-lists"].remedy == f"redis-cli EXPIRE {replies} 3600"
    beyond = [each for each in count_queue(open_engine(client)).findings if each.kind == "eta-beyond-visibility"]
    remedies = {each.ids[0]: each.remedy.partition(";")[0] for each in beyond}
    assert remedies == {
        b"far": "rqtui act reschedule celery:celery far --set delay_ms=3600s, or act delete",
        b"twice": "rqtui act extend celery:celery --place eta --all prevents that",
    }
    twice = list_jobs(open_engine(client), "eta")[b"twice"]
    assert facts(twice)["given out again"] == (twice.reserved_ms or 0) + 3_600_000
    client.rename("_kombu.binding.reply.celery.pidbox", "_kombu.binding.reply.shop.ctl.pidbox")
    client.sadd("_kombu.binding.reply.shop.ctl.pidbox", f"0a1b-2c{SEP}{SEP}0a1b-2c.reply.shop.ctl.pidbox")
    client.rename(replies, "0a1b-2c.reply.shop.ctl.pidbox")
    assert findings(client, CELERY, "celery:control=shop.ctl")["reply-lists"].keys == ("0a1b-2c.reply.shop.ctl.pidbox",)
    client.rename("0a1b-2c.reply.shop.ctl.pidbox", replies)
    client.rename("_kombu.binding.reply.shop.ctl.pidbox", "_kombu.binding.reply.celery.pidbox")
    client.expire(replies, 100)
    assert "reply-lists" not in findings(client)
    assert "eta-beyond-visibility" not in findings(client, CELERY, "celery:visibility=100000")


def test_faults_that_only_workers_report_are_named(any_client: Redis) -> None:
    database(any_client)
    engine, system = listening(any_client)
    count_queue(engine)
    now_ms = system.now_ms()
    system.event_coverage = EventCoverage(now_ms - 60_000)
    beat(system, now_ms - 30_000, worker="dead@host")
    receive_events(system, {**event("task-started", "acked"), "hostname": "dead@host"}, at_ms=now_ms - 40_000)
    receive_events(system, {**event("task-started", "held"), "hostname": "dead@host"}, at_ms=now_ms - 40_000)
    another = build_engine(any_client, [system])
    count_queue(another)  # it has not looked for faults before, and does so now
    found = list_findings(another)
    assert found["lost"].ids == (b"acked",) and "lost with dead@host" in found["lost"].text
    orphaned = next(each for each in count_queue(engine).findings if each.kind == "abandoned" and b"held" in each.ids)
    assert orphaned.remedy == "rqtui act release celery:celery held --force gives it out now"
    assert "foreign-restore" not in found and "nobody-consumes" not in found
    beat(system, now_ms - 30_000, worker="gone@host")
    receive_events(system, {**event("task-started", "too"), "hostname": "gone@host"}, at_ms=now_ms - 40_000)
    assert "2 lost with 2 workers, dead@host among them" in list_findings(another)["lost"].text

    beat(system, now_ms - 25_000)
    beat(system, now_ms)
    receive_events(system, event("task-started", "runs"), at_ms=now_ms)
    any_client.rpush("celery", message("runs", redelivered=True))
    list_jobs(engine, "queue")
    again = list_findings(engine)["foreign-restore"]
    assert again.ids == (b"runs",) and "while celery@host ran it" in again.text


def test_a_queue_from_which_no_idle_worker_takes_is_named(any_client: Redis) -> None:
    database(any_client)
    engine, system = listening(any_client)
    first = count_queue(engine)
    system.event_coverage = EventCoverage(first.counted_ms - 60_000)
    system._heartbeats.idleness._ready_since_ms["celery"] = first.counted_ms - 40_000
    beat(system, first.counted_ms - 30_000, processed=5)
    beat(system, first.counted_ms - 1000, processed=5)
    idle = list_findings(engine)["nobody-consumes"]
    assert idle.jobs == 5 and "celery -A APP worker -Q celery" in idle.remedy
    beat(system, first.counted_ms, processed=6)
    assert "nobody-consumes" not in list_findings(engine)


def test_a_queue_whose_next_message_stays_the_next_is_named_though_workers_are_busy(any_client: Redis) -> None:
    bind(any_client, "celery", "mail")
    any_client.lpush("mail", message("letter", "mail"), message("second", "mail"))
    engine, system = listening(any_client)
    list_jobs(engine, "queue", MAIL)
    now_ms = count_queue(engine, MAIL).counted_ms
    system._heartbeats.idleness._ready_since_ms["mail"] = now_ms - 90_000
    system._next_messages["mail"] = system._next_messages["mail"]._replace(since_ms=now_ms - 80_000)
    beat(system, now_ms, active=3)
    stuck = list_findings(engine, MAIL)["nobody-consumes"]
    assert "the first one does not change, and no worker holds any" in stuck.text and stuck.jobs == 2
    hold(any_client, "first", "mail")
    assert "nobody-consumes" not in list_findings(engine, MAIL)
    any_client.delete("unacked", "unacked_index")
    any_client.rpop("mail")
    list_jobs(engine, "queue", MAIL)
    assert "nobody-consumes" not in list_findings(engine, MAIL)


def test_what_no_reader_understands_is_shown_named_and_never_written(any_client: Redis) -> None:
    bind(any_client, "celery", "ü" * 100, "q" * 300)
    strange = [
        b"",
        b"\xff\xfe",
        b"[]",
        b"{}",
        b"null",
        b'{"properties": {}, "headers": []}',
        b"[" * 5000,
        b'{"body": 7,' * 10,
    ]
    for raw in strange:
        any_client.lpush("celery", raw)
        any_client.hset("unacked", b"tag" + raw, raw)
        any_client.zadd("unacked_index", {b"tag" + raw: 5})
    any_client.zadd("unacked_index", {"no-entry": 7, "nan": 1e300})
    odd = json.loads(message("odd", task=7, retries="x", eta=7))
    odd["headers"]["id"] = [1]
    any_client.hset("unacked", "nan", json.dumps([odd, None, "celery"]))
    before = keyspace.dump(any_client)
    engine = open_engine(any_client)
    assert {Ref("celery", "q" * 300), Ref("celery", "ü" * 100)} <= set(engine.refs)
    jobs = list(list_jobs(engine, "queue").values())
    assert len(jobs) == len(strange) and all(job.problem for job in jobs)
    assert {job.member for job in jobs} == set(strange)
    for place in ("eta", "unacked", "late"):
        engine.fetch_page(CELERY, place, limit=100)
    for job in jobs:
        found = engine.fetch_job(CELERY, job.id)
        assert found is not None and found.member == job.member
    assert "poison-json" in findings(any_client)
    assert keyspace.dump(any_client) == before


def test_keys_of_other_types_under_its_names_are_named_and_stop_nothing_else(any_client: Redis) -> None:
    database(any_client)
    any_client.delete("mail")
    any_client.set("mail", "x")
    engine = open_engine(any_client)
    snapshot = engine.take_snapshot(
        Focus(queues=(CELERY, MAIL), pages=(PageSelection(MAIL, "queue"),), is_thorough=True)
    )
    mail, celery = snapshot.find_queue(MAIL), snapshot.find_queue(CELERY)
    assert mail is not None and celery is not None
    assert [each.kind for each in mail.findings] == ["wrong-type"] and mail.findings[0].keys == ("mail",)
    assert count_stored_jobs(celery)["queue"] == 5
    assert snapshot.pages[0].error
    any_client.delete("unacked_index")
    any_client.set("unacked_index", "x")
    assert {each.keys for each in count_queue(open_engine(any_client)).findings} == {("unacked_index",)}


def test_what_waits_is_counted_where_a_key_of_what_workers_hold_is_another_programs(any_client: Redis) -> None:
    for key in ("unacked", "unacked_index"):
        any_client.flushall()
        database(any_client)
        any_client.delete(key)
        any_client.set(key, "another's")
        engine = open_engine(any_client)
        both = {each.name: each for each in engine.take_snapshot(Focus(is_thorough=True)).queues}
        actual = {finding.keys: finding.text for each in both.values() for finding in each.findings}
        assert actual[(key,)].startswith(f"key {key} holds a string")
        alone = {"celery": count_queue(engine), "mail": count_queue(engine, MAIL)}
        for queue in (*both.values(), *alone.values()):
            waiting = {"celery": 5, "mail": 1}[queue.name]
            assert not queue.error and count_stored_jobs(queue) == dict.fromkeys(count_stored_jobs(queue), 0) | {
                "queue": waiting
            }, (key, queue)
        assert f"key {key} holds a string" in engine.fetch_page(CELERY, "unacked").error
        assert engine.fetch_page(CELERY, "queue").total == 5


def test_a_search_for_schedules_names_the_view_that_has_them(client: Redis, url: str) -> None:
    database(client)
    result = shell(url, "schedules")
    where = "; celery beat keeps its schedule in a file and in memory; rqtui shows the schedules of "
    assert result.code == 0 and where in result.err


def test_options_that_no_celery_could_have_are_refused_in_a_sentence() -> None:
    wrong = {
        "steps=high": "priorities such as 0/3/6/9",
        "visibility=1h": "a whole number of seconds",
        "sep=": r"characters, or such as \x06\x16",
        "prefix=a*": "without blanks",
        "unacked=": "a name without blanks",
        **dict.fromkeys(
            ("fanout=shop.", "fanout={db}.", "fanout=/shop", "fanout=/a.b.", "fanout=shop/", "fanout=/{x}."),
            "empty, or begins with / and ends with its only dot, such as /{db}. or /shop/{db}.",
        ),
        "control=": "a name without blanks",
        "queue=mail": "has no option queue",
    }

    def refused(option: str) -> None:
        with pytest.raises(UsageError, match="system celery") as raised:
            registry.create_system(f"celery:{option}")
        assert wrong[option] in str(raised.value)

    run_cases((option, lambda option=option: refused(option)) for option in wrong)


def test_a_call_is_shown_as_its_producer_wrote_it() -> None:
    assert format_call_of_reprs("t", "(1,)", "{}") == "t(1)"
    assert format_call_of_reprs("t", None, "{'a': 1}") == "t(a=1)"
    assert len(format_call_of_reprs("t", "(" + "x" * 5000 + ")", "{}")) == 1001


def test_a_run_that_ended_without_an_event_is_dropped_when_its_worker_is_idle(client: Redis) -> None:
    _engine, system = listening(client)

    def find_running() -> set[bytes]:
        return {job.id for job in system.event_cache.yield_jobs("running")}

    receive_events(system, event("task-started", "stuck"), at_ms=AT)
    receive_events(system, event("task-started", "elsewhere", hostname="w2@host"), at_ms=AT)
    beat(system, AT + 1_000, active=1)
    beat(system, AT + 2_000)
    receive_events(system, event("task-started", "late-batch"), at_ms=AT + 2_500)
    beat(system, AT + 5_999)
    assert find_running() == {b"stuck", b"elsewhere", b"late-batch"}
    beat(system, AT + 6_000)
    assert find_running() == {b"elsewhere", b"late-batch"}
    beat(system, AT + 8_000, active=1)
    beat(system, AT + 10_000)
    beat(system, AT + 12_000)
    assert find_running() == {b"elsewhere", b"late-batch"}, "idle for less than two intervals"
    beat(system, AT + 14_000)
    assert find_running() == {b"elsewhere"}


@pytest.mark.slow
def test_the_workers_command_listens_for_one_interval_of_heartbeats(client: Redis, url: str) -> None:
    client.lpush("default", message("waits"))
    client.sadd("_kombu.binding.default", b"default\x06\x16\x06\x16default")
    is_over = threading.Event()

    def send_heartbeats() -> None:
        while not is_over.wait(0.05):
            client.publish("/0.celeryev/worker.heartbeat", encode_events(event("worker-heartbeat", freq=2.0, active=0)))

    thread = threading.Thread(target=send_heartbeats)
    thread.start()
    try:
        ran = shell(url, "workers", "default", "--json")
    finally:
        is_over.set()
        thread.join()
    assert [(worker["worker"], worker["state"]) for worker in ran.json] == [("celery@host", "idle")]
    assert "no worker has given a sign of life within 2.5 s" in shell(url, "workers", "default").err


def test_several_prefixes_are_named_with_the_options_that_list_their_queues(client: Redis, url: str) -> None:
    for prefix in ("shop:", "crm:"):
        client.sadd(f"{prefix}_kombu.binding.mail", "mail\x06\x16\x06\x16mail")
    ran = shell(url, "snapshot")
    assert ran.code == 0 and "no queues" in ran.out
    assert "begin with crm: and shop:" in ran.err
    options = ("--system", "celery", "--system", "celery:prefix=crm:", "--system", "celery:prefix=shop:")
    assert " ".join(options) in ran.err
    named = shell(url, *options, "snapshot")
    assert "begin with" not in named.err
    assert {"celery@crm", "celery@shop"} <= set(named.out.split())


def test_of_a_long_message_what_follows_the_body_is_read() -> None:
    end = (
        b'"content-encoding":"utf-8","content-type":"application/json","headers":{"id":"i","task":"t"},"properties":{}}'
    )
    at_headers = end[end.index(b'"headers"') :]
    read = [
        (seen.content, seen.id, seen.task, seen.problem)
        for tail in (end, b'x",' + end, at_headers, b'x",' + at_headers, end[-20:], end[:-9])
        for seen in [decode_message(b'{"body":"', tail, False)]
    ]
    too_long = ("", b"", "", "it is too long to read here")
    assert read == [("application/json", b"i", "t", "")] * 2 + [("", b"i", "t", "")] * 2 + [too_long] * 2
    for size, call in ((1024 * 1024, "t()"), (1024 * 1024 + 1, "t(…)")):
        body = b"W1tdLHt9LHt9XQ=="
        start, finish = (
            b'{"body":"%b","pad":"' % body,
            b'",' + end.replace(b'ies":{', b'ies":{"body_encoding":"base64"'),
        )
        whole = start + b"x" * (size - len(start) - len(finish)) + finish
        assert (len(whole), decode_message(whole, b"", False).call) == (size, call)


# -- sizes and times at which a script changes its reply --------------------------------------------------------------

NOW_MS = 1_795_000_000_000
VISIBILITY_MS = 3_600_000


def run_script(
    client: Redis, name: str, rows: Sequence[Mapping[str, object]] = (), queue: str = "celery", **args: object
) -> scripts.Reply:
    system = registry.create_system("celery")
    script_args = {**system.select_arguments(name, {"now_ms": NOW_MS}), **args}
    return scripts.run_call(client, system.build_call(name, queue, script_args, rows))


def build_entry(queue: str = "celery", length: int = 0, task: str = "t", eta_ms: int | None = None) -> str:
    eta = "null" if eta_ms is None else f'"{datetime.fromtimestamp(eta_ms / 1000, UTC).isoformat()}"'
    start, end = '[{"body": "', f'", "headers": {{"task": "{task}", "id": "i", "eta": {eta}}}}}, "", "{queue}"]'
    return start + "x" * (length - len(start) - len(end)) + end


def plant_entries(client: Redis, entries: Sequence[str], first_s: float = NOW_MS / 1000) -> None:
    """Replace what workers hold by these entries, each taken a millisecond after the one before."""
    client.delete("unacked", "unacked_index")
    client.zadd("unacked_index", {f"tag-{rank:04}": first_s + rank / 1000 for rank in range(len(entries))})
    client.hset("unacked", mapping={f"tag-{rank:04}": entry for rank, entry in enumerate(entries)})


def test_more_than_200_held_messages_are_counted_by_those_at_certain_ranks(client: Redis) -> None:
    edges = {(0, 63), (290, 321), (516, 547), (742, 773), (968, 999)}
    own, other = build_entry(), build_entry("mail")
    for card, ranks, expected in (
        (200, {0, 64, 199}, (3, True)),
        (201, {0, 63, 200}, (3, False)),
        (1000, {rank for edge in edges for rank in edge}, (52, False)),  # 10 of the 192 that are read
        (1000, {64, 289, 322, 515, 548, 741, 774, 967}, (0, False)),
    ):
        plant_entries(client, [own if rank in ranks else other for rank in range(card)])
        values = run_script(client, "counts").values
        assert (values["unacked"], values["unacked_exact"], values["unacked_of"]) == (*expected, card)


def test_a_count_reads_held_messages_up_to_a_size_of_each_and_of_all(client: Redis) -> None:
    for entries, expected in (
        ([build_entry(length=16_384)], (1, True)),
        ([build_entry(length=16_385)], (0, False)),
        ([build_entry(length=16_000)] * 25, (25, True)),
        ([build_entry(length=16_000)] * 26, (26, False)),
        ([build_entry(length=15_999), *[build_entry(length=16_000)] * 25], (26, True)),
        ([*[build_entry(length=16_000)] * 26, *[build_entry("mail")] * 26], (52, False)),
    ):
        plant_entries(client, entries)
        values = run_script(client, "counts").values
        assert (values["unacked"], values["unacked_exact"], values["unacked_of"]) == (*expected, len(entries))


def test_a_held_message_changes_its_place_at_its_times(client: Redis) -> None:
    for taken_ms, eta_ms, place, next_ms in (
        (NOW_MS - VISIBILITY_MS, None, "unacked", NOW_MS),
        (NOW_MS - VISIBILITY_MS - 1, None, "late", -1),
        (NOW_MS - 5, NOW_MS, "unacked", NOW_MS - 5 + VISIBILITY_MS),
        (NOW_MS - 5, NOW_MS + 1000, "eta", NOW_MS - 5 + VISIBILITY_MS),
    ):
        plant_entries(client, [build_entry(eta_ms=eta_ms)], taken_ms / 1000)
        values = run_script(client, "counts").values
        assert {name: values[name] for name in ("eta", "unacked", "late")} == {
            "eta": 0,
            "unacked": 0,
            "late": 0,
            place: 1,
        }
        assert values["deadline_ms"] == next_ms and values["expired"] == (place == "late")
        assert values["due_ms"] == (eta_ms if place == "eta" else -1)
        for each in ("eta", "unacked", "late"):
            assert len(run_script(client, "page", place=each, offset=0, limit=9, body_bytes=0).rows) == (each == place)
        rows = [{"member": build_entry(eta_ms=eta_ms), "token": "tag-0000"}]
        assert run_script(client, "delete", rows).each[0].word == ("moved" if place == "late" else "wrong_place")


def test_the_times_of_held_messages_make_findings(client: Redis) -> None:
    for taken_ms, eta_ms, expected in (
        (NOW_MS - VISIBILITY_MS, None, []),
        (NOW_MS - VISIBILITY_MS - 1000, None, [("abandoned", 3601, NOW_MS - 1000, None)]),
        (NOW_MS, NOW_MS + VISIBILITY_MS, []),
        (NOW_MS, NOW_MS + VISIBILITY_MS + 1000, [("eta_beyond_visibility", 3600, None, NOW_MS + VISIBILITY_MS)]),
        (NOW_MS - VISIBILITY_MS + 1000, NOW_MS + 2000, [("eta_beyond_visibility", 1, None, NOW_MS + 1000)]),
        (NOW_MS - VISIBILITY_MS, NOW_MS + 2000, [("eta_beyond_visibility", 0, None, None)]),
    ):
        plant_entries(client, [build_entry(eta_ms=eta_ms)], taken_ms / 1000)
        assert [(row[0], *row[5:8]) for row in run_script(client, "faults").rows] == expected, (taken_ms, eta_ms)
    client.flushdb()
    for late_ms, expected_kinds in ((0, []), (1000, ["eta_beyond_visibility:queue"])):
        client.delete("celery")
        eta = datetime.fromtimestamp((NOW_MS + VISIBILITY_MS + late_ms) / 1000, UTC).isoformat()
        client.lpush("celery", message("far", eta=eta))
        assert [row[0] for row in run_script(client, "faults").rows] == expected_kinds


def test_a_search_for_faults_reads_a_bounded_number_of_messages(client: Redis) -> None:
    for length in (9, 10, 11, 12, 19, 20, 21):
        client.delete("celery")
        client.rpush("celery", *["raw"] * length)
        found = run_script(client, "faults")
        assert found.values["looked"] == found.rows[0][3] == min(length, 20)
    client.delete("celery")
    for held, looked in ((59, 59), (60, 60), (61, 61), (119, 119), (120, 120), (121, 120), (300, 120)):
        plant_entries(client, [build_entry()] * held)
        assert run_script(client, "faults").values["looked"] == looked
    for ranks, number in (({0, 59, 240, 299}, 4), ({60, 239}, 0)):
        entries = [build_entry("celery" if rank in ranks else "mail") for rank in range(300)]
        plant_entries(client, entries, (NOW_MS - VISIBILITY_MS - 9000) / 1000)
        assert sum(row[3] for row in run_script(client, "faults").rows) == number
    client.flushdb()
    client.sadd("_kombu.binding.reply.celery.pidbox", f"{SEP}{SEP}gone.reply.celery.pidbox")
    assert run_script(client, "faults").rows == []
    client.flushdb()
    for lists in (49, 50):
        replies = [f"a-{number}.reply.celery.pidbox" for number in range(lists)]
        client.sadd("_kombu.binding.reply.celery.pidbox", *(f"{SEP}{SEP}{key}" for key in replies))
        for key in replies:
            client.rpush(key, "{}", "{}")
        assert [(row[0], row[3]) for row in run_script(client, "faults").rows] == [("reply_lists", lists)]


def test_a_search_for_faults_reads_less_of_a_long_message(client: Redis) -> None:
    for start, end, length, expected in (
        ("{", '"properties": {}}', 8192, {"poison_json"}),
        ("{", '"properties": {}}', 8193, set()),
        ("{", "}", 8193, {"poison_properties"}),
        ("[", '"properties": {}}', 8193, {"poison_json"}),
        ("{", '"properties": {}]', 8193, {"poison_json"}),
        ('{"properties":', "}" + " " * 19_985, 20_001, set()),
        ('{"properties":', "}" + " " * 19_985, 20_002, {"poison_properties"}),
    ):
        client.delete("celery")
        client.rpush("celery", start + "x" * (length - len(start) - len(end)) + end)
        assert {row[0] for row in run_script(client, "faults").rows} == expected, (start, end[:20], length)


def test_a_page_and_a_walk_read_300_held_messages_or_a_mebibyte(client: Redis) -> None:
    for entries, total, next_rank in (
        ([build_entry()] * 300, 300, None),
        ([build_entry()] * 301, 300, 300),
        ([build_entry(length=2**20 - 400), build_entry(length=400), build_entry()], 2, 2),
        ([build_entry(length=2**20 - 401), build_entry(length=400), build_entry()], 3, None),
    ):
        plant_entries(client, entries)
        page = run_script(client, "page", place="unacked", offset=0, limit=1000, body_bytes=0)
        assert (page.values["total"], len(page.rows)) == (total, total)
        assert page.values["of"] == (None if next_rank is None else len(entries))
        walk = run_script(client, "scan", place="unacked", offset=0, limit=1000, body_bytes=0)
        assert (len(walk.rows), walk.values["next"]) == (total, next_rank)


def test_up_to_20_short_names_of_tasks_are_known_for_a_queue(client: Redis) -> None:
    for tasks, number in (
        (("t" * 200,), 1),
        (("t" * 201,), 0),
        ([f"t{n}" for n in range(20)], 20),
        ([f"t{n}" for n in range(21)], 20),
    ):
        plant_entries(client, [build_entry(task=task) for task in tasks])
        [row] = run_script(client, "spread").rows
        assert len([part for part in str(row[-1]).split("\n") if part]) == number, row


def test_a_failed_task_is_searched_among_the_last_200_messages_or_4_mebibytes(client: Redis) -> None:
    new = message("again")
    for waiting, word in (
        ([new, *["raw"] * 199], "exists"),
        ([new, *["raw"] * 200], "moved"),
        ([new, "x" * (2**22 - 1)], "exists"),
        ([new, "x" * 2**22], "moved"),
    ):
        client.flushdb()
        client.lpush("celery", *waiting)
        rows = [{"id": "again", "new": new, "of_broker": True}]
        assert run_script(client, "requeue", rows).each[0].word == word, len(waiting)


def test_the_name_of_a_task_is_read_from_the_end_of_the_next_message(client: Redis) -> None:
    tally = scripts.load_scripts("celery")["tally"]
    for end_length, task, expected in (
        (6144, "tasks.add", "tasks.add"),
        (6143, "t" * 201, "t" * 200),
        (6145, "tasks.add", ""),
    ):
        end = f'"task": "{task}"'
        client.delete("celery")
        client.rpush("celery", "x" * 50 + end + " " * (end_length - len(end)))
        call = tally.build_call({}, {"now_ms": NOW_MS, "sep": SEP, "steps": "0/3"}, (), [{"queue": "celery"}])
        assert scripts.run_call(client, call).rows == [(1, expected)]


def test_a_long_message_is_cut_in_the_middle(client: Redis) -> None:
    for length, limit, sizes in (
        (4096, 0, (4096, 0)),
        (4097, 0, (4096, 6144)),
        (5000, 5000, (5000, 0)),
        (5001, 5000, (4096, 6144)),
        (9000, 0, (4096, 6144)),
        (9000, -1, (9000, 0)),
    ):
        client.delete("celery")
        client.rpush("celery", "x" * length)
        [row] = run_script(client, "page", place="queue", offset=0, limit=1, body_bytes=limit).rows
        assert (len(row[0]), len(row[2]), row[1]) == (sizes[0], min(sizes[1], length), length)


def test_a_sweep_reads_200_late_messages_or_4_mebibytes(client: Redis) -> None:
    late_s = NOW_MS / 1000 - 9000
    for entries, limit, moved, is_more, rank in (
        ([build_entry("mail")] * 200, 9, 0, False, 0),
        ([build_entry("mail")] * 201, 9, 0, True, 200),
        ([build_entry("mail", 2**20)] * 4 + [build_entry("mail")], 9, 0, True, 4),
        ([build_entry("mail", 2**20 - 1)] + [build_entry("mail", 2**20)] * 3 + [build_entry("mail")], 9, 0, False, 0),
    ):
        plant_entries(client, entries, late_s)
        values = run_script(client, "reap", limit=limit).values
        assert (values.get("moved", 0), bool(values["more"]), values["rank"]) == (moved, is_more, rank), len(entries)


def test_a_message_is_searched_in_a_bounded_part_of_its_queue(client: Redis) -> None:
    args: dict[str, Any] = {"id": "", "head": "it", "size": 2, "tail": "it", "body_bytes": 0}
    for before, behind, place, offset, word in (
        (0, 999, "queue", 0, "found"),
        (0, 1000, "queue", 0, "gone"),
        (999, 0, "queue", -1, "found"),
        (1000, 0, "queue", -1, "gone"),
        (49_999, 50_000, "", None, "found"),
        (50_000, 49_999, "", None, "found"),
        (50_000, 50_000, "", None, "gone"),
    ):
        client.delete("celery")
        client.eval(
            "for i = 1, ARGV[1] do redis.call('RPUSH', KEYS[1], 'x') end redis.call('RPUSH', KEYS[1], 'it')"
            "for i = 1, ARGV[2] do redis.call('RPUSH', KEYS[1], 'x') end",
            1, "celery", before, behind,
        )  # fmt: skip
        assert run_script(client, "show", place=place, offset=offset, **args).word == word, (before, behind)
    for held, rank, word in ((300, 149, "found"), (300, 150, "found"), (301, 150, "gone"), (301, 151, "found")):
        plant_entries(client, [build_entry(length=500 if each == rank else 0) for each in range(held)])
        entry = build_entry(length=500)
        wanted = {"id": "", "head": entry, "size": 500, "tail": entry, "body_bytes": 0}
        assert run_script(client, "show", **wanted).word == word, (held, rank)


ETA = f'"{datetime.fromtimestamp(NOW_MS / 1000 + 1000, UTC).isoformat()}"'
MEBIBYTE = 2**20


def show_place(client: Redis, entry: str, queue: str = "celery") -> str:
    """Return the place in which a held message is found, or `gone` if it is not read as one of the queue."""
    plant_entries(client, [entry])
    wanted = {"id": "", "head": entry[:50], "size": len(entry), "tail": entry[-50:], "body_bytes": 0}
    reply = run_script(client, "show", queue=queue, **wanted)
    return str(reply.values["place"]) if reply.word == "found" else reply.word


def test_a_short_message_is_decoded_where_a_search_does_not_find_its_eta(client: Redis) -> None:
    for eta, length, place in (
        (f'"eta" : {ETA}', 20_000, "unacked"),  # kombu writes no space there
        (f'"eta" : {ETA}', 20_001, "eta"),
        (f'"eta" : {ETA}', MEBIBYTE, "eta"),
        (f'"eta" : {ETA}', MEBIBYTE + 1, "unacked"),
        (f'"x": {{}}, "eta": {ETA}', 200, "eta"),
        (f'"x": {{"eta": {ETA}}}', 200, "unacked"),
        (f'"x": [], "eta": {ETA}', 200, "eta"),
    ):
        start, end = '[{"body": "', f'", "headers": {{{eta}}}}}, "", "celery"]'
        assert show_place(client, start + "x" * (length - len(start) - len(end)) + end) == place, (eta, length)


def test_a_longer_message_is_read_only_from_its_end(client: Redis) -> None:
    for space, headers, from_end, place in (
        (" ", f'"eta": {ETA}', 20_000, "eta"),
        (" ", f'"eta": {ETA}', 20_001, "unacked"),
        ("  ", f'"eta": {ETA}', 900, "eta"),
        ("   ", f'"eta": {ETA}', 900, "unacked"),
        (" ", f'"x": {{}}, "eta": {ETA}', 900, "unacked"),
        (" ", f'"x": [], "eta": {ETA}', 900, "unacked"),
        (" ", f'"eta": {ETA}, "x": {{}}, "y": []', 900, "eta"),
        (" ", f'"eta":{ETA}', 900, "eta"),
    ):
        found, end = f'"headers":{space}{{{headers}}}', '}, "", "celery"]'
        text = found + " " * (from_end - len(found) - len(end)) + end
        start = '[{"body": "'
        entry = start + "x" * (MEBIBYTE + 1 - len(start) - 3 - len(text)) + '", ' + text
        assert show_place(client, entry) == place, (space, headers, from_end)


def test_the_names_at_the_end_of_a_longer_message_have_up_to_700_bytes(client: Redis) -> None:
    for length, place in ((691, "unacked"), (692, "gone")):
        queue = "q" * length
        end = f', "", "{queue}"]'
        assert show_place(client, "[" + "x" * (MEBIBYTE - len(end)) + end, queue) == place, length
        assert show_place(client, build_entry(queue), queue) == "unacked"


def test_the_first_fitting_binding_by_name_gives_the_queue_of_a_routing_key(client: Redis) -> None:
    for bindings, routing_key, queue in (
        ("", "k", "k"),
        ("k//k k/a/mail", "k", "k"),
        ("k/a/mail k/b/post", "k", "mail"),
        ("k/a/mail l/a/post", "l", "post"),
        ("a.*/a/mail a.b/a/post", "a.b", "mail"),
        ("a.*/a/mail a.!/a/post", "a.!", "post"),
        ("a.*/a/mail a.#/a/post", "a.b", "post"),
        ("a.*/a/mail a.*/b/post", "a.b", "mail"),
        ("a.*/a/mail a.b.#/a/post", "a.b.c", "post"),
        ("a.*/a/mail", "a.b.c", "a.b.c"),
        ("*.b/a/mail", "a.b", "mail"),
        ("a+b.*/a/mail", "a+b.c", "mail"),
        ("a+b.*/a/mail", "aab.c", "aab.c"),
        ("a%b.*/a/mail", "a%b.c", "mail"),
        (" ".join(f"{'#' * number}/a/{number}" for number in range(1, 20)), "a", "1"),
    ):
        for each in (bindings.split(), bindings.split()[::-1]):
            client.delete("_kombu.binding.news")
            if each:
                client.sadd("_kombu.binding.news", *(binding.replace("/", SEP) for binding in each))
            entry = f'[{{"headers": {{"id": "i"}}}}, "news", "{routing_key}"]'
            assert show_place(client, entry, queue) == "unacked", (bindings, routing_key)


def test_a_message_without_an_exchange_is_in_the_queue_of_its_routing_key(client: Redis) -> None:
    client.sadd("_kombu.binding.", f"k{SEP}{SEP}mail")
    assert show_place(client, build_entry("k"), "k") == "unacked"
    assert show_place(client, build_entry("k"), "mail") == "gone"


def test_an_id_is_searched_in_the_last_20_000_bytes_of_a_message(client: Redis) -> None:
    args: dict[str, Any] = {"head": "", "size": 0, "tail": "", "body_bytes": 0, "place": "queue", "offset": 0}
    for start, from_end, word in (
        ('"id": "it"', 20_000, "found"),
        ('"id":"it"', 20_000, "found"),
        ('"id": "it"', 20_001, "gone"),
        ('"id":"it"', 20_001, "gone"),
        ('"id" : "it"', 100, "gone"),
        ('"x": "it"', 100, "gone"),
    ):
        client.delete("celery")
        client.rpush("celery", "x" * 50 + start + "x" * (from_end - len(start)))
        assert run_script(client, "show", id="it", **args).word == word, (start, from_end)
    assert run_script(client, "show", id="", **args).word == "gone"


def test_records_of_messages_are_read_until_their_size_is_reached(client: Redis) -> None:
    client.rpush("celery", "first", "other")
    rows = [{"member": "first"}, {"member": "other"}]
    for most, word in ((0, "later"), (5, "later"), (6, "here")):
        words = [reply.word for reply in run_script(client, "records", rows, most=most, whole=True).each]
        assert words == ["here", word], most


def test_tags_without_a_message_are_counted_as_none(client: Redis) -> None:
    client.hset("unacked", "other", build_entry())
    client.zadd("unacked_index", {f"tag-{number}": NOW_MS / 1000 for number in range(201)})
    values = run_script(client, "counts").values
    assert [values[name] for name in ("eta", "unacked", "late", "unacked_of")] == [0, 0, 0, 0]


def test_up_to_256_kb_of_a_result_are_shown_of_a_key_with_or_without_a_prefix(client: Redis) -> None:
    args: dict[str, Any] = {"id": "it", "head": "", "size": 0, "tail": "", "body_bytes": 0}
    for key in ("celery-task-meta-it", "p.celery-task-meta-it", "p_celery-task-meta-it"):
        for prefix in ("", "p.", "p"):
            client.flushdb()
            client.set(key, "r" * 262_145)
            reply = run_script(client, "show", prefix=prefix, **args)
            own = (prefix + ("_" if prefix == "p" else "") if prefix else "") + "celery-task-meta-it"
            assert reply.word == ("ended" if key in (own, "celery-task-meta-it") else "gone"), (key, prefix)
            assert len(reply.values.get("result", b"")) == 262_144 * (reply.word == "ended")


def test_a_message_is_found_at_each_place_near_both_ends_of_its_queue(client: Redis) -> None:
    args: dict[str, Any] = {"id": "", "size": 4, "body_bytes": 0, "place": "queue"}
    client.rpush("celery", *(f"m{number:03}" for number in range(45)))
    for offset in (0, -1):
        for number in range(45):
            text = f"m{number:03}"
            assert run_script(client, "show", head=text, tail=text, offset=offset, **args).word == "found", text
    for length, word in ((2**20, "found"), (2**20 + 1, "gone")):
        client.delete("celery")
        client.rpush("celery", "last", *["x"] * 19, "x" * (length - 19))
        assert run_script(client, "show", head="last", tail="last", offset=0, **args).word == word, length


def test_messages_of_one_eta_are_listed_in_the_order_in_which_they_were_taken(client: Redis) -> None:
    etas = [NOW_MS + 1000 * (2 - number % 3) + 1000 for number in range(30)]
    plant_entries(client, [build_entry(eta_ms=eta, length=500 + number) for number, eta in enumerate(etas)])
    rows = run_script(client, "page", place="eta", offset=0, limit=99, body_bytes=-1).rows
    assert [row[1] - 500 for row in rows] == sorted(range(30), key=etas.__getitem__)


def test_messages_with_one_former_position_come_back_together(client: Redis) -> None:
    rows = [{"place": "queue", "score": str(2**40), "body": f"m{number}"} for number in range(9)]
    assert {reply.word for reply in run_script(client, "restore", rows).each} == {"moved"}
    assert sorted(client.lrange("celery", 0, -1)) == [b"m%d" % number for number in range(9)]
