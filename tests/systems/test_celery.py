"""Celery as rqtui shows it: what Kombu 5.7 writes, what workers hold, what is only published, faults, bad input.

What its verbs change stands in `test_celery_verbs.py`; the stock program itself runs in `tests/beside`.
"""

from __future__ import annotations

import base64
import json
import pickle
import time
import zlib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from families import all_hold
from redis import Redis
from shell import shell

from rqtui.engine.engine import Engine, with_layouts
from rqtui.errors import UsageError
from rqtui.model import UNHEARD, Finding, Focus, Hearing, Job, PageWish, Queue, Ref
from rqtui.reports import kinds
from rqtui.scripts import script as scripts
from rqtui.systems import registry
from rqtui.systems.celery.layout import MOST_BEATING, MOST_MISSED, Celery, Stillness
from rqtui.systems.celery.messages import message_of, repr_call
from rqtui.testing import keyspace

CELERY, MAIL = Ref("celery", "celery"), Ref("celery", "mail")
SEP = "\x06\x16"
TIMES = {"lang": "py", "shadow": None, "eta": None, "expires": None, "group": None, "retries": 0}
ALONE = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}


def now_s() -> float:
    return time.time()


def at(seconds: float) -> str:
    """An instant from now on, as Celery writes it."""
    return datetime.fromtimestamp(now_s() + seconds, UTC).isoformat(timespec="microseconds")


def body_of(*args: object, embed: Mapping[str, object] = ALONE, **kwargs: object) -> bytes:
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
    """A message as Celery 5.7 writes it (celery/app/amqp.py `as_task_v2`, kombu/transport/virtual/base.py)."""
    own = {**TIMES, "task": "tasks.add", "id": id, "timelimit": [None, None], "root_id": id, "parent_id": None}
    own |= {"argsrepr": "(1, 2)", "kwargsrepr": "{}", "origin": "gen1@host", "ignore_result": False, "stamps": {}}
    told = {
        "body": base64.b64encode(body or body_of(1, 2)).decode(),
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
    return json.dumps({name: value for name, value in told.items() if name != leave})


def bind(client: Redis, *queues: str, prefix: str = "") -> None:
    """The binding of each queue, as a worker declares it."""
    for queue in queues:
        client.sadd(f"{prefix}_kombu.binding.{queue}", f"{queue}{SEP}{SEP}{queue}")


def hold(client: Redis, id: str, queue: str = "celery", *, taken_s: float = 5, prefix: str = "", **more: Any) -> None:
    """A message in the hands of a worker, taken so many seconds ago (kombu/transport/redis.py `QoS.append`)."""
    told = message(id, queue, **more)
    entry = f"[{told}, {json.dumps(more.get('exchange', ''))}, {json.dumps(queue)}]"
    client.zadd(f"{prefix}unacked_index", {f"tag-{id}": now_s() - taken_s})
    client.hset(f"{prefix}unacked", f"tag-{id}", entry)


def world(client: Redis) -> None:
    """Two queues, with jobs in every place that has a key."""
    bind(client, "celery", "mail")
    client.sadd("_kombu.binding.celery.pidbox", f"{SEP}{SEP}celery@host.celery.pidbox")
    client.sadd("_kombu.binding.celeryev", f"worker.#{SEP}{SEP}celeryev.0a1b")
    client.lpush("celery", message("first"), message("second"))
    client.lpush(f"celery{SEP}3", message("third", priority=3))
    client.lpush(f"celery{SEP}9", message("last", priority=9), message("very-last", priority=9))
    client.lpush("mail", message("letter", "mail"))
    hold(client, "soon", eta=at(600), taken_s=60)
    hold(client, "later", eta=at(900), taken_s=70)
    hold(client, "held", taken_s=50)
    hold(client, "old", taken_s=4000)
    hold(client, "of-mail", "mail")


def engine_on(client: Redis, *specs: str) -> Engine:
    engine = with_layouts(client, [registry.make(*specs)] if specs else registry.make_all())
    for _found in engine.discover():
        pass
    return engine


def counted(engine: Engine, ref: Ref = CELERY) -> Queue:
    found = engine.snapshot(Focus(queues=(ref,), is_thorough=True)).queue(ref)
    assert found is not None
    return found


def findings(client: Redis, ref: Ref = CELERY, *specs: str) -> dict[str, Finding]:
    return {finding.kind: finding for finding in counted(engine_on(client, *specs), ref).findings}


def listed(engine: Engine, place: str, ref: Ref = CELERY) -> dict[bytes, Job]:
    return {each.id: each for each in engine.page(ref, place, limit=100, body_bytes=65536).jobs}


def facts(job: Job) -> dict[str, object]:
    return {fact.name: fact.value for fact in job.facts}


def keyed(queue: Queue) -> dict[str, int]:
    """The counts of the places that have a key."""
    return {count.place: count.count for count in queue.counts if count.heard is None}


# -- queues and places ---------------------------------------------------------------------------------------------


def test_a_redis_with_celery_shows_its_queues_unasked_and_none_of_celerys_own(any_client: Redis) -> None:
    world(any_client)
    hold(any_client, "nobody-bound-it", "unbound")
    engine = engine_on(any_client)
    assert engine.refs == [CELERY, MAIL, Ref("celery", "unbound")]
    assert not engine.unspoken


def test_a_queue_of_another_prefix_is_seen_when_the_prefix_is_told(any_client: Redis) -> None:
    bind(any_client, "celery", "mail", prefix="shop:")
    any_client.lpush("shop:mail", message("letter", "mail"))
    hold(any_client, "held", "mail", prefix="shop:")
    engine = engine_on(any_client, "celery:prefix=shop:")
    assert engine.refs == [CELERY, MAIL]
    assert keyed(counted(engine, MAIL)) == {"eta": 0, "queue": 1, "unacked": 1, "late": 0}


def test_a_prefix_that_all_keys_have_is_taken_unasked_and_told_in_each_remedy(any_client: Redis) -> None:
    bind(any_client, "celery", "mail", prefix="shop:")
    any_client.lpush("shop:mail", message("letter", "mail"))
    hold(any_client, "old", "mail", prefix="shop:", taken_s=4000)
    engine = engine_on(any_client)
    assert {CELERY, MAIL} <= set(engine.refs)
    found = findings_of(engine, MAIL)["abandoned"]
    assert found.remedy.endswith("rqtui reap --layout celery:prefix=shop: celery:mail --once")
    bind(any_client, "plain")
    list(engine.discover(fully=True))
    list(engine.discover())
    assert Ref("celery", "plain") in engine.refs and engine.layouts["celery"].options["prefix"] == ""


def test_a_key_that_is_called_celery_is_nobodys_where_nothing_is_bound(any_client: Redis) -> None:
    any_client.lpush("celery", "anything")
    any_client.hset("unacked", "a", "b")
    assert engine_on(any_client).refs == []


def test_a_queue_is_counted_alone_and_among_others_as_its_places_are_listed(any_client: Redis) -> None:
    world(any_client)
    engine = engine_on(any_client)
    layout = engine.layouts["celery"]
    together = layout.queues_ask(["celery", "mail"])
    assert together is not None
    among = together.read(scripts.run_all(any_client, together.calls))
    for ref, expected in ((CELERY, [2, 5, 1, 1]), (MAIL, [0, 1, 1, 0])):
        alone = counted(engine, ref)
        assert list(keyed(alone).values()) == expected
        other = next(queue for queue in among if queue.name == ref.queue)
        assert keyed(other) == keyed(alone)
        assert other.next_due_ms == pytest.approx(alone.next_due_ms, abs=5000)
        assert [len(listed(engine, place, ref)) for place in keyed(alone)] == expected
    queue = counted(engine)
    assert queue.expired == 1
    assert 590_000 < (queue.next_due_ms or 0) <= 600_000
    assert {count.place: count.of for count in queue.counts if count.of is not None} == {
        "eta": 2, "unacked": 2, "late": 1
    }  # fmt: skip


def test_a_queue_is_listed_in_the_order_in_which_workers_take_from_it(any_client: Redis) -> None:
    world(any_client)
    engine = engine_on(any_client)
    order = [b"first", b"second", b"third", b"last", b"very-last"]
    assert list(listed(engine, "queue")) == order
    pages = [engine.page(CELERY, "queue", offset=at, limit=2) for at in (0, 2, 4)]
    assert [job.id for page in pages for job in page.jobs] == order
    assert [page.next for page in pages] == [2, 4, None]
    assert [job.id for job in engine.page(CELERY, "queue", offset=-1, limit=2).jobs] == order[-2:]
    assert [job.priority for job in listed(engine, "queue").values()] == [0, 0, 3, 9, 9]
    assert list(listed(engine, "eta")) == [b"soon", b"later"]


def test_other_steps_and_another_separator_are_options(any_client: Redis) -> None:
    bind(any_client, "celery")
    any_client.lpush("celery", message("first"))
    any_client.lpush("celery:5", message("second", priority=5))
    any_client.lpush(f"celery{SEP}3", message("nobody-reads-it", priority=3))
    engine = engine_on(any_client, r"celery:sep=\x3a,steps=0/5,unacked=held")
    assert list(listed(engine, "queue")) == [b"first", b"second"]
    hold(any_client, "elsewhere")
    assert not listed(engine, "unacked")
    any_client.lpush(b"celery\xff9", message("high", priority=9))
    assert b"high" in listed(engine_on(any_client, r"celery:sep=\xff"), "queue")


def test_what_a_message_names_by_an_exchange_is_the_queue_that_is_bound_there(any_client: Redis) -> None:
    world(any_client)
    any_client.sadd("_kombu.binding.news", f"feed.*.new{SEP}x{SEP}mail", f"feed.#{SEP}x{SEP}celery", f"k{SEP}{SEP}mail")
    engine = engine_on(any_client)
    for id, key in (("star", "feed.de.new"), ("hash", "feed.de.old.long"), ("direct", "k")):
        hold(any_client, id, key, exchange="news")
    assert set(listed(engine, "unacked", MAIL)) == {b"of-mail", b"direct"}
    assert {b"hash", b"star"} <= set(listed(engine, "unacked"))  # `feed.#` is the first that fits
    job = listed(engine, "unacked", MAIL)[b"direct"]
    assert facts(job)["exchange"] == "news with the routing key k"


def test_the_scripts_read_an_eta_as_python_does(any_client: Redis) -> None:
    bind(any_client, "celery")
    zones = (UTC, timezone(timedelta(hours=5, minutes=30)), timezone(-timedelta(hours=8)))
    times = [datetime(2032, month, day, 23, 59, 58, 123000, zone)
             for zone in zones for month, day in ((1, 1), (2, 28), (2, 29), (3, 1), (12, 31))]  # fmt: skip
    engine = engine_on(any_client)
    for when in times:
        any_client.delete("unacked", "unacked_index")
        hold(any_client, "one", eta=when.isoformat())
        queue = counted(engine)
        assert queue.next_due_ms is not None
        assert queue.next_due_ms + queue.counted_ms == round(when.timestamp() * 1000)
        assert listed(engine, "eta")[b"one"].due_ms == round(when.timestamp() * 1000)


def test_of_what_workers_hold_a_sample_is_counted_and_a_walk_meets_each_job_of_the_queue_once(client: Redis) -> None:
    bind(client, "celery", "mail")
    pipe = client.pipeline()
    for number in range(2500):
        hold(pipe, f"held-{number}", "mail" if number % 5 == 0 else "celery", taken_s=3000 - number)
    pipe.execute()
    engine = engine_on(client)
    queue = counted(engine, MAIL)
    found = next(count for count in queue.counts if count.place == "unacked")
    assert not found.exact and 400 <= found.count <= 600 and found.of == 2500
    layout, met, offset = engine.layouts["celery"], [], 0
    for _step in range(50):
        ask = layout.scan_ask("mail", "unacked", offset, 100, 0)
        page = ask.read(scripts.run_all(client, ask.calls))
        met += [job.id for job in page.jobs]
        if page.next is None:
            break
        offset = page.next
    assert sorted(met) == sorted(b"held-%d" % number for number in range(0, 2500, 5))
    page = engine.page(MAIL, "unacked", limit=50)
    assert page.total == 60 and page.of == 500


def test_looking_sends_nothing_that_writes(client: Redis) -> None:
    world(client)
    before = keyspace.dump(client)
    with client.monitor() as monitor:
        engine = engine_on(client)
        counted(engine)
        for place in engine.layouts["celery"].places:
            engine.page(CELERY, place.name, limit=50)
        engine.job(CELERY, b"held")
        client.echo("that was all")
        sent: set[str] = set()
        for told in monitor.listen():
            if told["command"].startswith("ECHO"):
                break
            sent.add(told["command"].split()[0].upper())
    table: Any = client.command()
    assert not {name for name in sent if "write" in table.get(name.lower(), {}).get("flags", ())}
    assert keyspace.dump(client) == before


# -- jobs --------------------------------------------------------------------------------------------------------------


def test_a_row_of_each_place_tells_the_call_its_times_and_its_facts(any_client: Redis) -> None:
    world(any_client)
    signature = {"task": "tasks.mail", "args": ["ann"], "kwargs": {}, "options": {}}
    embed = {**ALONE, "callbacks": [signature], "chain": [signature, {**signature, "args": [7]}]}
    told = message(
        "rich", body=body_of(1, "two", embed=embed, retry=True), retries=2, timelimit=[30, 20.5], expires=at(90),
        parent_id="held", root_id="soon", group="g-1", ignore_result=True, redelivered=True,
    )  # fmt: skip
    any_client.lpush("celery", told)
    engine = engine_on(any_client)
    rich = listed(engine, "queue")[b"rich"]
    assert (rich.call, rich.name, rich.attempts, rich.ttr_ms) == (
        "tasks.add(1, 'two', retry=True)",
        "tasks.add",
        2,
        30_000,
    )
    assert rich.body == told.encode() == rich.member and rich.problem == ""
    known = facts(rich)
    assert known["then"] == "tasks.mail('ann')" and known["chain"] == "tasks.mail('ann'), tasks.mail(7)"
    assert (known["root"], known["parent"], known["group"]) == ("soon", "held", "g-1")
    assert (known["time limit"], known["soft time limit"]) == (30_000, 20_500)
    assert known["redelivered"] == "yes: a worker had it before" and known["result is"] == "ignored"
    held = listed(engine, "unacked")[b"held"]
    assert held.token == b"tag-held" and held.attempts == 1
    assert held.body == message("held").encode() == message_of(held.member)
    assert held.deadline_ms is not None and held.reserved_ms is not None
    assert held.deadline_ms - held.reserved_ms == 3_600_000
    assert listed(engine, "eta")[b"soon"].due_ms == pytest.approx((now_s() + 600) * 1000, abs=5000)
    any_client.lpush("celery", message("stale", expires=at(-90)))
    hold(any_client, "taken", expires=at(-90))
    stale = "expired, and dropped by the worker that takes it: tasks.add(1, 2)"
    assert listed(engine, "queue")[b"stale"].problem == stale
    assert listed(engine, "unacked")[b"taken"].problem == ""


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
        "zlib": message("zlib", body=zlib.compress(body_of(5)), **squeezed),
        "bomb": message("bomb", body=bomb, **squeezed),
        "yaml": message("yaml", body=b"- [1]\n- {}\n", content="application/x-yaml"),
        "torn": message("torn", body=b"[[1, 2"),
        "call": message("call", body=b'"no call"'),
    }
    old = json.loads(message("old", body=first_protocol.encode()))
    any_client.lpush("celery", *written.values(), json.dumps({**old, "headers": {}}))
    jobs = listed(engine_on(any_client), "queue")
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


def test_a_long_message_is_read_by_its_end_and_shown_whole_when_it_is_asked_for(client: Redis) -> None:
    bind(client, "celery")
    client.lpush("celery", message("long", body=body_of("x" * 30_000_000), argsrepr="('xxx…',)"))
    hold(client, "held-long", body=body_of("y" * 500_000), eta=at(500))
    engine = engine_on(client)
    page = engine.page(CELERY, "queue", limit=50)
    assert (page.jobs[0].id, page.jobs[0].call, page.jobs[0].is_partial) == (b"long", "tasks.add('xxx…')", True)
    assert page.jobs[0].body_bytes > 40_000_000
    assert [job.id for job in engine.page(CELERY, "eta").jobs] == [b"held-long"]
    whole = engine.job(CELERY, b"held-long", body_bytes=-1)
    assert whole is not None and whole.body == message_of(whole.member) and not whole.is_partial
    assert counted(engine).count("queue") == 1


def test_a_job_is_found_by_its_id_wherever_it_stands_with_its_result(any_client: Redis) -> None:
    world(any_client)
    told = {
        "status": "FAILURE",
        "result": {"exc_type": "ValueError", "exc_message": ["boom"], "exc_module": "builtins"},
    }
    told |= {"traceback": "Traceback…\nValueError: boom", "date_done": "2026-11-22T21:42:27.656955+00:00"}
    any_client.set("celery-task-meta-held", json.dumps({**told, "children": [[["child-1", None], None]]}))
    any_client.set("celery-task-meta-ended", json.dumps({"status": "SUCCESS", "result": 3}))
    engine = engine_on(any_client)
    for place, id in (("queue", b"last"), ("unacked", b"held"), ("late", b"old"), ("eta", b"soon")):
        job = engine_on(any_client).job(CELERY, id)
        assert job is not None and (job.place, job.id) == (place, id)
    held = engine.job(CELERY, b"held")
    assert held is not None
    known = facts(held)
    assert (known["status"], known["child"]) == ("FAILURE", "child-1")
    assert known["ended"] == 1795383747657 and "ValueError: boom" in str(known["traceback"])
    ended = engine.job(CELERY, b"ended")
    assert ended is not None and (ended.place, facts(ended)["result"]) == ("succeeded", "3")
    assert engine.job(CELERY, b"never") is None
    assert engine.job(MAIL, b"held") is None


# -- what is heard -----------------------------------------------------------------------------------------------------

AT = 1_800_000_000_000


def told_event(*events: Mapping[str, object]) -> bytes:
    """An event as Kombu publishes it; several as `task.multi` has them (celery/events/dispatcher.py)."""
    raw = json.dumps(events if len(events) > 1 else events[0]).encode()
    envelope = {"body": base64.b64encode(raw).decode(), "content-type": "application/json", "headers": {}}
    return json.dumps({**envelope, "properties": {"body_encoding": "base64", "delivery_tag": "t"}}).encode()


def event(kind: str, id: str = "", **more: object) -> dict[str, object]:
    return {"type": kind, "hostname": "celery@host", "pid": 7, "utcoffset": 0, **({"uuid": id} if id else {}), **more}


def beat(layout: Celery, at_ms: int, *, active: int = 0, processed: int = 0, worker: str = "celery@host") -> None:
    told = event("worker-heartbeat", freq=2.0, active=active, processed=processed, sw_ident="py-celery", sw_ver="5.7.0")
    layout.overhear(b"/0.celeryev/worker.heartbeat", told_event({**told, "hostname": worker}), at_ms)


def hear(
    layout: Celery, *events: Mapping[str, object], at_ms: int = AT, channel: bytes = b"/0.celeryev/task.multi"
) -> None:
    layout.overhear(channel, told_event(*events), at_ms)


def hear_result(layout: Celery, id: str, status: str, at_ms: int = AT, **more: object) -> None:
    told = {"status": status, "result": None, "traceback": None, "children": [], "date_done": None, **more}
    layout.overhear(f"celery-task-meta-{id}".encode(), json.dumps(told).encode(), at_ms)


def listening(client: Redis, *specs: str, listened_s: int = 60) -> tuple[Engine, Celery]:
    """An engine with a layout that heard nothing yet; nothing is sent to a server, so that its clock is ours."""
    engine = engine_on(client, *specs)
    layout = engine.layouts["celery"]
    assert isinstance(layout, Celery)
    layout.hearing = Hearing(int((now_s() - listened_s) * 1000))
    return engine, layout


def heard(layout: Celery, place: str, queue: str = "celery") -> dict[bytes, Job]:
    ask = layout.page_ask(queue, place, 0, 100, 0)
    return {job.id: job for job in ask.read([]).jobs}


def test_a_run_is_followed_from_the_send_to_its_end(any_client: Redis) -> None:
    world(any_client)
    _engine, layout = listening(any_client)
    hear(layout, event("task-sent", "a", name="tasks.add", args="(1,)", kwargs="{'b': 2}", queue="mail", retries=0))
    hear(
        layout,
        event("task-received", "a", name="tasks.add", args="(1,)", kwargs="{'b': 2}", retries=0),
        event("task-started", "a"),
    )
    running = heard(layout, "running", "mail")[b"a"]
    assert (running.call, running.worker, running.reserved_ms) == ("tasks.add(1, b=2)", "celery@host", AT)
    hear_result(layout, "a", "SUCCESS", result=3)
    hear(layout, event("task-succeeded", "a", result="3", runtime=1.25), at_ms=AT + 500)
    assert not heard(layout, "running", "mail")
    done = heard(layout, "succeeded", "mail")[b"a"]
    assert (facts(done)["took"], facts(done)["result"], done.since_ms) == (1250, "3", AT)
    (figures,) = layout.kinds_ask("mail").read([])
    assert (figures.kind, figures.processed, figures.failed, figures.mean_ms) == ("tasks.add", 1, 0, 1250)


def test_events_that_come_behind_the_result_of_their_run_are_of_the_same_run(any_client: Redis) -> None:
    """A worker publishes a result at once, and the events of a short run together, behind it."""
    bind(any_client, "celery")
    engine, layout = listening(any_client)
    hear_result(layout, "a", "SUCCESS", result=3)
    received = event("task-received", "a", name="tasks.add", args="(1, 2)", kwargs="{}")
    hear(layout, received, event("task-started", "a"), event("task-succeeded", "a", result="3", runtime=0.1))
    assert heard(layout, "succeeded")[b"a"].call == "tasks.add(1, 2)" and not heard(layout, "running")
    assert sum(each.processed for each in layout.kinds_ask("celery").read([])) == 1
    assert "foreign-restore" not in findings_of(engine)
    hear(layout, event("task-started", "a"))
    assert "after it had succeeded" in findings_of(engine)["foreign-restore"].text


def test_runs_of_which_nobody_told_the_task_have_no_kind_like_messages_without_one(any_client: Redis) -> None:
    bind(any_client, "celery")
    engine, layout = listening(any_client)
    any_client.lpush("celery", b'{"body": "W10=", "headers": {}, "properties": {}, "content-type": "application/json"}')
    hear_result(layout, "a", "SUCCESS", result=3)
    *_steps, found = kinds.report(engine, engine.refs)
    assert found is not None
    [(name, processed)] = [(each.name, each.figures and each.figures.processed) for each in found.kinds]
    assert (name, processed) == ("", 1)


def test_a_failure_a_retry_and_what_was_revoked_tell_why(any_client: Redis) -> None:
    bind(any_client, "celery")
    _engine, layout = listening(any_client)
    trace = 'Traceback (most recent call last):\n  File "tasks.py", line 3, in add\nValueError: boom\n'
    hear(layout, event("task-received", "r", name="tasks.add", args="()", kwargs="{}"), event("task-started", "r"))
    hear(layout, event("task-retried", "r", exception="ValueError('boom')", traceback=trace))
    assert not heard(layout, "running")
    hear(
        layout,
        event("task-received", "r", name="tasks.add", args="()", kwargs="{}", retries=1),
        event("task-started", "r"),
    )
    hear(layout, event("task-failed", "r", exception="ValueError('boom')", traceback=trace))
    failed = heard(layout, "failed")[b"r"]
    assert failed.error == trace.strip() and failed.attempts == 2 and failed.history[0].error == trace.strip()
    for id, how, why in (("x", {"expired": True}, "expired"), ("t", {"terminated": True}, "terminated")):
        hear(layout, event("task-revoked", id, **how))
        assert facts(heard(layout, "revoked")[id.encode()])["ended by"] == why
    (figures, *_others) = [each for each in layout.kinds_ask("celery").read([]) if each.kind == "tasks.add"]
    assert (figures.processed, figures.failed) == (2, 2)


def test_an_outcome_counts_for_the_queue_that_is_told_or_seen_and_else_for_the_usual_one(any_client: Redis) -> None:
    world(any_client)
    any_client.lpush("mail", message("greeting", "mail", task="tasks.greet"))
    engine, layout = listening(any_client)
    listed(engine, "queue", MAIL)  # this look tells whose `letter` and `greeting` are
    hear_result(layout, "letter", "SUCCESS")
    hear_result(layout, "told", "SUCCESS", name="tasks.other", args=[1], kwargs={}, queue="mail", worker="w@h")
    hear(
        layout,
        event("task-received", "by-name", name="tasks.greet", args="()", kwargs="{}"),
        event("task-succeeded", "by-name"),
    )
    hear_result(layout, "whose", "FAILURE", result={"exc_type": "KeyError", "exc_message": ["x"]})
    of_mail = heard(layout, "succeeded", "mail")
    assert set(of_mail) == {b"letter", b"told", b"by-name"}
    assert of_mail[b"told"].call == "tasks.other(1)" and of_mail[b"told"].worker == "w@h"
    assert facts(of_mail[b"by-name"])["queue"] == "guessed: its task was seen in no other one"
    assert not heard(layout, "failed", "mail")
    assert facts(heard(layout, "failed")[b"whose"])["queue"] == "nobody told which"
    (nobodys,) = layout.overheard.nobodys()
    assert (nobodys.id, nobodys.error) == (b"whose", "KeyError: x")
    assert findings_of(engine)["outcomes-untold"].jobs == 1


def test_what_was_guessed_by_its_task_is_nobodys_once_that_is_seen_elsewhere(any_client: Redis) -> None:
    bind(any_client, "celery", "mail")
    any_client.lpush("mail", message("letter", "mail"))
    engine, layout = listening(any_client)
    hear(layout, event("task-received", "early", name="tasks.add", args="()", kwargs="{}"))
    hear_result(layout, "early", "SUCCESS")
    assert not heard(layout, "succeeded", "mail")
    engine.snapshot(Focus(queues=None))  # counts all queues, and sees the task of the next message of each
    hear(layout, event("task-received", "late", name="tasks.add", args="()", kwargs="{}"))
    hear_result(layout, "late", "FAILURE")
    of_mail = heard(layout, "succeeded", "mail") | heard(layout, "failed", "mail")
    assert {id: facts(job)["queue"][:7] for id, job in of_mail.items()} == {b"early": "guessed", b"late": "guessed"}
    listed(engine, "queue", MAIL)
    hear_result(layout, "letter", "SUCCESS")
    hold(any_client, "other", "celery")
    engine.snapshot(Focus(queues=None))
    assert {job.id for job in layout.overheard.nobodys()} == {b"early", b"late"}
    assert set(heard(layout, "succeeded", "mail")) == {b"letter"}
    assert layout.overheard.count("mail", "failed").of_queue == 0
    told = [[fact.value for fact in job.facts if fact.name == "queue"] for job in heard(layout, "failed").values()]
    assert told == [["nobody told which"]]


def test_the_next_messages_of_a_queue_tell_whose_outcomes_of_their_task_are(any_client: Redis) -> None:
    world(any_client)
    engine, layout = listening(any_client)
    hear_result(layout, "early", "FAILURE", name="tasks.greet", result={"exc_type": "KeyError", "exc_message": ["x"]})
    assert [job.id for job in layout.overheard.nobodys()] == [b"early"]
    any_client.lpush("mail", message("greeting", "mail", task="tasks.greet"))
    counted(engine, MAIL)  # no page of it
    assert set(heard(layout, "failed", "mail")) == {b"early"} and not list(layout.overheard.nobodys())
    layout.hearing = UNHEARD
    assert len(layout.inspect_ask("mail").calls) == 1, "who does not listen asks for no more"


def findings_of(engine: Engine, ref: Ref = CELERY) -> dict[str, Finding]:
    return {finding.kind: finding for finding in counted(engine, ref).findings}


def test_a_task_that_runs_and_stands_in_unacked_is_listed_once(any_client: Redis) -> None:
    world(any_client)
    engine, layout = listening(any_client)
    hear(layout, event("task-started", "held"), at_ms=AT)
    held = listed(engine, "unacked")[b"held"]
    assert (held.worker, facts(held)["running since"]) == ("celery@host", AT)
    assert b"held" not in heard(layout, "running")
    any_client.hdel("unacked", "tag-held")
    any_client.zrem("unacked_index", "tag-held")
    listed(engine, "unacked")
    assert b"held" in heard(layout, "running")  # it was acked while it runs
    hear(layout, event("task-succeeded", "held", result="1", runtime=0.5))
    assert b"held" in heard(layout, "succeeded") and not heard(layout, "running")


def test_workers_are_those_that_beat(any_client: Redis) -> None:
    world(any_client)
    engine, layout = listening(any_client)
    assert counted(engine).workers == 0  # nobody beats, though somebody has listened for a minute
    now_ms = layout.now_ms()
    beat(layout, now_ms - 1000, active=2, processed=40)
    beat(layout, now_ms - 60_000, worker="old@host")
    hear(layout, event("task-started", "held"))
    alive, silent = layout.workers_ask("celery").read([])
    assert (alive.name, alive.pid, alive.host, alive.state, alive.job) == ("celery@host", "7", "host", "busy", b"held")
    assert {fact.name: fact.value for fact in alive.facts}["version"] == "Celery 5.7.0"
    assert (silent.name, silent.state) == ("old@host", "silent")
    assert counted(engine).workers == 1
    layout.overhear(b"/0.celeryev/worker.offline", told_event(event("worker-offline")), now_ms)
    assert [worker.name for worker in layout.workers_ask("celery").read([])] == ["old@host"]


def test_nobody_knows_of_workers_and_ends_where_nobody_listens(any_client: Redis) -> None:
    world(any_client)
    queue = counted(engine_on(any_client))
    assert queue.workers is None
    assert not any(
        count.is_known for count in queue.counts if count.place in ("running", "succeeded", "failed", "revoked")
    )


def test_what_is_published_is_that_of_the_same_database_and_prefix(client: Redis, url: str) -> None:
    other = Redis.from_url(url, db=3)
    try:
        bind(other, "celery", prefix="shop:")
        _engine, layout = listening(other, "celery:prefix=shop:")
        assert layout.hears() == ("shop:/*.celeryev*", "celery-task-meta-*", "shop:celery-task-meta-*")
        one = told_event(event("task-started", "a"))
        for channel in (b"/3.celeryev/task.multi", b"shop:/0.celeryev/task.multi", b"work:/3.celeryev/task.multi"):
            layout.overhear(channel, one, AT)
        hear_result(layout, "somebody-elses", "SUCCESS")
        assert not heard(layout, "running") and not heard(layout, "succeeded")
        layout.overhear(b"shop:/3.celeryev/task.multi", one, AT)
        layout.overhear(b"shop:celery-task-meta-b", b'{"status": "SUCCESS"}', AT)
        assert set(heard(layout, "running")) == {b"a"} and set(heard(layout, "succeeded")) == {b"b"}
    finally:
        other.flushdb()
        other.close()


def test_exchanges_of_other_names_are_heard_where_kombu_publishes_to_them(client: Redis) -> None:
    bind(client, "celery")
    spec = "celery:fanout=/shop.,events=shopev,control=shopctl"
    _engine, layout = listening(client, spec)
    assert layout.hears()[0] == "/shop.shopev*"
    assert layout.keys("celery")["control"] == "/shop.shopctl.pidbox"
    assert layout.keys("celery")["replies"] == "_kombu.binding.reply.shopctl.pidbox"
    assert layout.spec("celery") == spec
    own = (b"/shop.shopev/task.multi", b"/shop.shopev")  # with `fanout_patterns` and without
    for number, channel in enumerate(own):
        layout.overhear(channel, told_event(event("task-started", str(number))), AT)
    for channel in (b"/0.celeryev/task.multi", b"/shop.shopev2/task.multi", b"/shop.shopev2", b"shopev"):
        layout.overhear(channel, told_event(event("task-started", "another's")), AT)
    assert set(heard(layout, "running")) == {b"0", b"1"}
    _engine, layout = listening(client, "celery:prefix={db}:,fanout=")
    assert layout.hears()[0] == "{db}:celeryev*" and layout.control == "{db}:celery.pidbox"
    _engine, layout = listening(client, "celery:fanout=/shop/{db}.")
    number = client.connection_pool.connection_kwargs.get("db") or 0
    assert layout.hears()[0] == "/shop/*.celeryev*" and layout.control == f"/shop/{number}.celery.pidbox"


NOISE = [
    *(b"", b"\xff\xfe", b"[]", b"{", b"null", b"7", b'{"body": 7}', b"[" * 100_000, b'{"status": 7}'),
    b'{"body": "!", "properties": {"body_encoding": "base64"}}',
    b'{"status": "FAILURE", "children": [7, [[]], [[3]]]}',
    b'{"status": "SUCCESS", "result": "' + b"x" * 100_000,
    *map(
        told_event,
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


def test_whatever_is_published_stops_nobody(any_client: Redis) -> None:
    world(any_client)
    engine, layout = listening(any_client)
    for channel in (
        b"/0.celeryev/task.multi",
        b"celery-task-meta-a",
        b"celery-task-meta-",
        b"",
        b"\xff",
        b"/x.celeryev/",
    ):
        for noise in NOISE:
            layout.overhear(channel, noise, AT)
    counted(engine)
    for place in ("running", "succeeded", "failed", "revoked"):
        heard(layout, place)
    assert b"a" in {*heard(layout, "succeeded"), *heard(layout, "failed")} | {
        job.id for job in layout.overheard.nobodys()
    }


def test_what_is_remembered_is_bounded(any_client: Redis) -> None:
    bind(any_client, "celery")
    _engine, layout = listening(any_client)
    for number in range(25_000):
        hear_result(layout, f"id-{number}", "SUCCESS")
    assert layout.overheard.count("celery", "succeeded").of_queue == 25_000
    assert len(layout.overheard) == 10_000 and len(layout._known) == 20_000


def test_a_worker_that_comes_after_a_thousand_others_is_still_followed() -> None:
    stillness = Stillness()
    for number in range(MOST_BEATING):
        stillness.beat(f"gone-{number}", 0, 0, 1000)
    stillness.beat("new", 0, 5, 2000)
    stillness.beat("new", 0, 5, 60_000)
    assert stillness.since_ms("celery", 1, 1500) == 2000
    stillness.beat("new", 0, 7, 70_000)
    assert stillness.ended == 2 and len(stillness._told) == MOST_BEATING


def test_a_job_whose_bytes_changed_is_found_however_many_were_missed_before(client: Redis) -> None:
    bind(client, "celery")
    client.lpush("celery", message("one"))
    engine, layout = listening(client)
    listed(engine, "queue")
    layout._missed |= {("celery", b"%d" % number) for number in range(MOST_MISSED)}
    client.lset("celery", 0, message("one", retries=3))
    looks = [engine.job(CELERY, b"one") for _ in range(2)]
    assert looks[1] is not None and looks[1].attempts == 3
    assert len(layout._missed) <= MOST_MISSED


def test_an_outcome_that_was_guessed_and_is_told_afterwards_stays_where_it_was_told(any_client: Redis) -> None:
    bind(any_client, "celery", "mail")
    any_client.lpush("mail", message("letter", "mail"))
    engine, layout = listening(any_client)
    engine.snapshot(Focus(queues=None))
    hear(layout, event("task-received", "early", name="tasks.add", args="()", kwargs="{}"))
    hear(layout, event("task-succeeded", "early"))
    assert facts(heard(layout, "succeeded", "mail")[b"early"])["queue"].startswith("guessed")
    hear_result(layout, "early", "SUCCESS", name="tasks.add", args=[], kwargs={}, queue="mail", worker="w@h")
    assert "queue" not in facts(heard(layout, "succeeded", "mail")[b"early"])
    hold(any_client, "other", "celery")
    engine.snapshot(Focus(queues=None))  # the task is seen in a second queue
    assert set(heard(layout, "succeeded", "mail")) == {b"early"}


# -- what goes wrong ---------------------------------------------------------------------------------------------------


def test_each_fault_of_celery_is_named_with_what_helps_and_a_sound_one_has_none(client: Redis) -> None:
    bind(client, "celery")
    client.lpush("celery", message("sound"))
    hold(client, "sound-held", eta=at(1800), taken_s=60)
    assert not findings(client)
    hold(client, "twice", eta=at(7200), taken_s=60)
    hold(client, "old", taken_s=5000)
    client.lpush("celery", message("far", eta=at(90_000)))
    client.lpush(f"celery{SEP}9", "no json", message("bare", leave="properties"))
    replies = "0a1b-2c.reply.celery.pidbox"
    client.sadd("_kombu.binding.reply.celery.pidbox", f"0a1b-2c{SEP}{SEP}{replies}")
    client.lpush(replies, "{}", "{}")
    found = findings(client)
    assert set(found) == {"eta-beyond-visibility", "abandoned", "poison-json", "poison-properties", "reply-lists"}
    abandoned = found["abandoned"]
    assert abandoned.ids == (b"old",) and abandoned.keys == ("unacked",) and "for 1h23" in abandoned.text
    assert found["poison-json"].keys == (f"celery{SEP}9",)
    assert found["reply-lists"].remedy == f"redis-cli EXPIRE {replies} 3600"
    beyond = [each for each in counted(engine_on(client)).findings if each.kind == "eta-beyond-visibility"]
    remedies = {each.ids[0]: each.remedy.partition(";")[0] for each in beyond}
    assert remedies == {
        b"far": "rqtui act reschedule celery:celery far --set delay_ms=3600s, or act delete",
        b"twice": "rqtui act extend celery:celery --place eta --all lets them run once",
    }
    twice = listed(engine_on(client), "eta")[b"twice"]
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


def test_faults_that_only_workers_tell_of_are_named(any_client: Redis) -> None:
    world(any_client)
    engine, layout = listening(any_client)
    counted(engine)
    now_ms = layout.now_ms()
    layout.hearing = Hearing(now_ms - 60_000)
    beat(layout, now_ms - 30_000, worker="dead@host")
    hear(layout, {**event("task-started", "acked"), "hostname": "dead@host"}, at_ms=now_ms - 40_000)
    hear(layout, {**event("task-started", "held"), "hostname": "dead@host"}, at_ms=now_ms - 40_000)
    another = with_layouts(any_client, [layout])
    counted(another)  # it has not looked for faults before, and does so now
    found = findings_of(another)
    assert found["lost"].ids == (b"acked",) and "lost with dead@host" in found["lost"].text
    orphaned = next(each for each in counted(engine).findings if each.kind == "abandoned" and b"held" in each.ids)
    assert orphaned.remedy == "rqtui act release celery:celery held --force gives it out now"
    assert "foreign-restore" not in found and "nobody-consumes" not in found
    beat(layout, now_ms - 30_000, worker="gone@host")
    hear(layout, {**event("task-started", "too"), "hostname": "gone@host"}, at_ms=now_ms - 40_000)
    assert "2 lost with 2 workers, dead@host among them" in findings_of(another)["lost"].text

    beat(layout, now_ms - 25_000)
    beat(layout, now_ms)
    hear(layout, event("task-started", "runs"), at_ms=now_ms)
    any_client.rpush("celery", message("runs", redelivered=True))
    listed(engine, "queue")
    again = findings_of(engine)["foreign-restore"]
    assert again.ids == (b"runs",) and "while celery@host ran it" in again.text


def test_a_queue_from_which_no_idle_worker_takes_is_named(any_client: Redis) -> None:
    world(any_client)
    engine, layout = listening(any_client)
    first = counted(engine)
    layout.hearing = Hearing(first.counted_ms - 60_000)
    layout._stillness._waits_ms["celery"] = first.counted_ms - 40_000
    beat(layout, first.counted_ms - 30_000, processed=5)
    beat(layout, first.counted_ms - 1000, processed=5)
    idle = findings_of(engine)["nobody-consumes"]
    assert idle.jobs == 5 and "celery -A APP worker -Q celery" in idle.remedy
    beat(layout, first.counted_ms, processed=6)
    assert "nobody-consumes" not in findings_of(engine)


def test_a_queue_whose_next_message_stays_the_next_is_named_though_workers_are_busy(any_client: Redis) -> None:
    bind(any_client, "celery", "mail")
    any_client.lpush("mail", message("letter", "mail"), message("second", "mail"))
    engine, layout = listening(any_client)
    listed(engine, "queue", MAIL)
    now_ms = counted(engine, MAIL).counted_ms
    layout._stillness._waits_ms["mail"] = now_ms - 90_000
    layout._next["mail"] = layout._next["mail"]._replace(since_ms=now_ms - 80_000)
    beat(layout, now_ms, active=3)
    stuck = findings_of(engine, MAIL)["nobody-consumes"]
    assert "the next one stays the next, and no worker holds any" in stuck.text and stuck.jobs == 2
    hold(any_client, "first", "mail")
    assert "nobody-consumes" not in findings_of(engine, MAIL)
    any_client.delete("unacked", "unacked_index")
    any_client.rpop("mail")
    listed(engine, "queue", MAIL)
    assert "nobody-consumes" not in findings_of(engine, MAIL)


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
    engine = engine_on(any_client)
    assert {Ref("celery", "q" * 300), Ref("celery", "ü" * 100)} <= set(engine.refs)
    jobs = list(listed(engine, "queue").values())
    assert len(jobs) == len(strange) and all(job.problem for job in jobs)
    assert {job.member for job in jobs} == set(strange)
    for place in ("eta", "unacked", "late"):
        engine.page(CELERY, place, limit=100)
    for job in jobs:
        found = engine.job(CELERY, job.id)
        assert found is not None and found.member == job.member
    assert "poison-json" in findings(any_client)
    assert keyspace.dump(any_client) == before


def test_keys_of_other_types_under_its_names_are_named_and_stop_nothing_else(any_client: Redis) -> None:
    world(any_client)
    any_client.delete("mail")
    any_client.set("mail", "x")
    engine = engine_on(any_client)
    snapshot = engine.snapshot(Focus(queues=(CELERY, MAIL), pages=(PageWish(MAIL, "queue"),), is_thorough=True))
    mail, celery = snapshot.queue(MAIL), snapshot.queue(CELERY)
    assert mail is not None and celery is not None
    assert [each.kind for each in mail.findings] == ["wrong-type"] and mail.findings[0].keys == ("mail",)
    assert keyed(celery)["queue"] == 5
    assert snapshot.pages[0].error
    any_client.delete("unacked_index")
    any_client.set("unacked_index", "x")
    assert {each.keys for each in counted(engine_on(any_client)).findings} == {("unacked_index",)}


def test_what_waits_is_counted_where_a_key_of_what_workers_hold_is_another_programs(any_client: Redis) -> None:
    for key in ("unacked", "unacked_index"):
        any_client.flushall()
        world(any_client)
        any_client.delete(key)
        any_client.set(key, "another's")
        engine = engine_on(any_client)
        both = {each.name: each for each in engine.snapshot(Focus(is_thorough=True)).queues}
        told = {finding.keys: finding.text for each in both.values() for finding in each.findings}
        assert told[(key,)].startswith(f"key {key} holds a string")
        alone = {"celery": counted(engine), "mail": counted(engine, MAIL)}
        for queue in (*both.values(), *alone.values()):
            waiting = {"celery": 5, "mail": 1}[queue.name]
            assert not queue.error and keyed(queue) == dict.fromkeys(keyed(queue), 0) | {"queue": waiting}, (key, queue)
        assert f"key {key} holds a string" in engine.page(CELERY, "unacked").error
        assert engine.page(CELERY, "queue").total == 5


def test_who_looks_for_schedules_is_told_where_they_are(client: Redis, url: str) -> None:
    world(client)
    told = shell(url, "schedules")
    assert told.code == 0 and "; celery beat keeps its schedule in a file and in memory; of " in told.err


def test_options_that_no_celery_could_have_are_refused_in_words() -> None:
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
        with pytest.raises(UsageError, match="layout celery") as raised:
            registry.make(f"celery:{option}")
        assert wrong[option] in str(raised.value)

    all_hold((option, lambda option=option: refused(option)) for option in wrong)


def test_a_call_is_told_by_what_its_producer_wrote() -> None:
    assert repr_call("t", "(1,)", "{}") == "t(1)"
    assert repr_call("t", None, "{'a': 1}") == "t(a=1)"
    assert len(repr_call("t", "(" + "x" * 5000 + ")", "{}")) == 1001
