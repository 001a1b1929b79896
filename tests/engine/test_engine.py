"""The engine: one round trip per picture, an answer per id, and nothing sent twice."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest
from proxy import Proxy
from redis import Redis
from waiting import wait_until
from wire import sent

from rqtui.client.queue import Queue
from rqtui.connection.connect import connect
from rqtui.engine.engine import Engine, with_layouts
from rqtui.engine.walk import STEP
from rqtui.errors import Denied, ReadOnly, ServerError, Unreachable, UsageError
from rqtui.layout.layout import CHUNK
from rqtui.model import Focus, Job, PageWish, Ref, State
from rqtui.systems import registry
from rqtui.testing.keyspace import dump, plant

MAIL = Ref("native", "mail")


@pytest.fixture
def engine(client: Redis) -> Engine:
    return Engine(client, [registry.make("native")])


@pytest.fixture
def queue(client: Redis) -> Queue:
    return Queue("mail", client)


def behind(proxy: Proxy, read_only: bool = False) -> Engine:
    """An engine whose connection passes the proxy and knows the server's scripts already."""
    return Engine(connect(proxy.url, timeout_s=2), [registry.make("native")], read_only)


def jobs_of(engine: Engine, place: str, limit: int = 1000) -> tuple[Job, ...]:
    return engine.page(MAIL, place, 0, limit).jobs


# ── looking ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("queues", "counting"), [(1, 1), (50, 1), (120, 3)])
def test_a_snapshot_is_one_round_trip_whatever_the_number_of_queues(
    client: Redis, monkeypatch: pytest.MonkeyPatch, queues: int, counting: int
) -> None:
    for number in range(queues):
        Queue(f"q{number}", client).put_many([{"body": n} for n in range(20)])
    engine = Engine(client, [registry.make("native")])
    list(engine.discover())
    wishes = (PageWish(engine.refs[0], "ready", 0, 10), PageWish(engine.refs[-1], "dead"))
    focus = Focus(pages=wishes, job=(engine.refs[0], b"nosuch"))
    engine.snapshot(focus)  # loads the scripts
    for number in range(queues):  # else plain reads tell that jobs only wait
        client.hset(f"rqtui:{{q{number}}}:workers", "w", "1 1 run 1 - - ")
    engine.snapshot(focus)
    with sent(monkeypatch) as writes:
        snapshot = engine.snapshot(focus)
    assert len(writes) == 1
    assert writes[0].count(b"EVALSHA") == counting + 3
    assert (snapshot.cost.trips, snapshot.cost.commands) == (1, counting + 3)
    assert [queue.count("ready") for queue in snapshot.queues] == [20] * queues
    assert len(snapshot.pages[0].jobs) == 10
    assert snapshot.job is None


def test_a_picture_counts_places_and_shows_pages_and_a_job(engine: Engine, queue: Queue) -> None:
    queue.put(1, id="later", delay=60)
    queue.put_many([{"body": {"n": n}, "id": f"j{n}", "name": "send"} for n in range(3)])
    [held] = queue.reserve(1, worker="w1")
    snapshot = engine.snapshot(Focus((MAIL,), (PageWish(MAIL, "ready", 1, 5, 100),), (MAIL, b"j0")))
    [mail] = snapshot.queues
    assert [(count.place, count.count) for count in mail.counts] == [
        ("scheduled", 1),
        ("ready", 2),
        ("reserved", 1),
        ("done", 0),
        ("dead", 0),
    ]
    page = snapshot.page(MAIL, "ready")
    assert page is not None
    assert ([job.id for job in page.jobs], page.total, page.offset, page.next) == ([b"j2"], 2, 1, None)
    assert page.jobs[0].body == b'{"n":2}'
    assert snapshot.job is not None
    assert (snapshot.job.place, snapshot.job.worker, snapshot.job.token.decode()) == ("reserved", "w1", held.token)
    assert snapshot.queue(MAIL) == mail
    assert snapshot.queue(Ref("native", "nosuch")) is None


def test_a_body_of_64_kib_comes_unasked_and_a_longer_one_does_not(engine: Engine, queue: Queue) -> None:
    for size, comes in ((65_536, True), (65_537, False)):
        queue.put(b"x" * size, id=f"of-{size}")
        job = engine.job(MAIL, f"of-{size}".encode())
        assert job is not None and (job.body is not None, job.body_bytes) == (comes, size)


def test_rates_come_from_two_pictures(engine: Engine, queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 100.0
    monkeypatch.setattr("rqtui.engine.engine.time", SimpleNamespace(monotonic=lambda: now_s, time=time.time))
    focus = Focus((MAIL,))
    assert engine.snapshot(focus).rates[MAIL].in_s == 0
    queue.put_many([{"body": n} for n in range(10)])
    queue.ack_many(queue.reserve(4))
    now_s += 2
    rate = engine.snapshot(focus).rates[MAIL]
    assert (rate.in_s, rate.out_s, rate.history) == (5.0, 2.0, (2.0,))


@pytest.mark.parametrize("wrong_s", [-7200, 7200])
def test_the_time_of_a_picture_is_the_servers(
    engine: Engine, queue: Queue, client: Redis, monkeypatch: pytest.MonkeyPatch, wrong_s: int
) -> None:
    right = time.time

    def server_ms() -> int:
        seconds, micros = client.time()
        return seconds * 1000 + micros // 1000

    monkeypatch.setattr(time, "time", lambda: right() + wrong_s)
    for queues in (0, 1):
        began_ms, taken_ms = server_ms(), engine.snapshot().taken_ms
        assert began_ms <= taken_ms <= server_ms(), f"{queues} queues"
        queue.put(1)
        list(engine.discover())


def test_a_broken_queue_leaves_the_others_readable(client: Redis, engine: Engine, queue: Queue) -> None:
    queue.put(1)
    plant(client, {"rqtui:{bad}:ready": "a string"})
    good, bad = engine.snapshot(Focus((MAIL, Ref("native", "bad")))).queues
    assert (good.count("ready"), good.error) == (1, "")
    assert "holds a string" in bad.error
    assert bad.verdict.severity == "critical"
    page = engine.snapshot(Focus((MAIL,), (PageWish(Ref("native", "bad"), "ready"),))).pages[0]
    assert "holds a string" in page.error


def test_looking_writes_nothing(client: Redis, engine: Engine, queue: Queue) -> None:
    queue.put_many([{"body": n, "id": f"j{n}"} for n in range(5)])
    before = dump(client)
    list(engine.discover())
    engine.snapshot(Focus(pages=(PageWish(MAIL, "ready"),), job=(MAIL, b"j1")))
    list(engine.scan(MAIL, "ready", lambda _job: True))
    engine.workers(MAIL)
    engine.findings([MAIL])
    assert dump(client) == before


def test_a_scan_goes_through_the_whole_place_a_page_per_step(engine: Engine, queue: Queue) -> None:
    queue.put_many([{"body": n, "id": f"j{n:03}"} for n in range(25)])
    steps = list(engine.scan(MAIL, "ready", lambda job: job.id.endswith(b"7"), chunk=10))
    assert [[job.id for job in step] for step in steps] == [[b"j007"], [b"j017"], []]


def test_a_redis_that_is_away_is_an_error_and_not_an_empty_picture() -> None:
    engine = Engine(connect("redis://127.0.0.1:1"), [registry.make("native")])
    with pytest.raises(Unreachable):
        engine.snapshot(Focus((MAIL,)))
    with pytest.raises(Unreachable):
        list(engine.discover())
    with pytest.raises(Unreachable):
        engine.page(MAIL, "ready")
    with pytest.raises(Unreachable):
        engine.announce(MAIL)


def test_a_user_without_rights_gets_words(client: Redis, url: str) -> None:
    client.execute_command("ACL", "SETUSER", "nobody", "on", ">pw", "~nothing:*", "+@all")
    try:
        with connect(url.replace("redis://", "redis://nobody:pw@")) as user:
            engine = Engine(user, [registry.make("native")])
            with pytest.raises(Denied):
                engine.snapshot(Focus((MAIL,)))
            with pytest.raises(Denied):
                list(engine.discover())
    finally:
        client.execute_command("ACL", "DELUSER", "nobody")


# ── names ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_discovery_finds_queues_that_stand_in_no_list(client: Redis, engine: Engine) -> None:
    for name in ("b", "a"):
        Queue(name, client).put(1)
    client.delete("rqtui:queues")
    found = [ref for chunk in engine.discover() for ref in chunk]
    assert {ref.queue for ref in found} == {"a", "b"}
    assert engine.refs == [Ref("native", "a"), Ref("native", "b")]
    assert with_layouts(client, [registry.make("native")]).refs == engine.refs


def test_a_name_is_a_queue_of_its_layout_or_a_native_one(engine: Engine) -> None:
    assert engine.find("native:mail") == MAIL
    assert engine.find("mail") == MAIL
    assert engine.find("other:mail") == Ref("native", "other:mail")
    with pytest.raises(UsageError, match="no queue name"):
        engine.find("native:a b")


def test_a_name_that_no_queue_of_the_layout_can_have_is_refused(client: Redis, engine: Engine) -> None:
    for name in ("a b", "a\nb", "x" * 201, "{a}"):
        with pytest.raises(UsageError, match="is no queue name"):
            engine.find(name)
        with pytest.raises(UsageError, match="is no queue name"):
            engine.find(f"native:{name}")
    assert engine.find("x" * 200) == Ref("native", "x" * 200)


def test_a_name_that_stands_in_two_layouts_has_to_be_told_apart(engine: Engine) -> None:
    engine.refs = [MAIL, Ref("other", "mail")]
    with pytest.raises(UsageError, match="say which, as LAYOUT:mail"):
        engine.find("mail")


def test_an_announced_queue_is_known_at_once_and_a_retired_one_no_more(client: Redis, engine: Engine) -> None:
    engine.announce(MAIL)
    assert (engine.refs, client.smembers("rqtui:queues")) == ([MAIL], {b"mail"})
    engine.retire(MAIL)
    assert (engine.refs, client.smembers("rqtui:queues")) == ([], set())


# ── changing ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_job_has_its_own_answer(engine: Engine, queue: Queue) -> None:
    queue.put(1, id="later", delay=60)
    queue.put(1, id="now")
    stranger = Job(b"nosuch", "mail", "native", "scheduled", State.SCHEDULED, b"nosuch")
    outcomes = engine.act("promote", MAIL, [*jobs_of(engine, "ready"), stranger, *jobs_of(engine, "scheduled")])
    assert [(one.id, one.word, one.moved) for one in outcomes] == [
        (b"now", "wrong_place", 0),
        (b"nosuch", "gone", 0),
        (b"later", "moved", 1),
    ]
    assert all(one.text for one in outcomes)


def test_a_job_that_was_reserved_again_meanwhile_answers_stale(engine: Engine, queue: Queue) -> None:
    queue.put(1, id="a")
    [first] = queue.reserve()
    [seen] = jobs_of(engine, "reserved")
    first.release()
    queue.reserve()
    assert [one.word for one in engine.act("ack", MAIL, [seen])] == ["stale"]


def test_a_job_that_moved_meanwhile_is_left_alone(client: Redis, engine: Engine, queue: Queue) -> None:
    queue.put(1, id="a", delay=60)
    seen = jobs_of(engine, "scheduled")
    engine.act("promote", MAIL, seen)
    before = dump(client)
    [outcome] = engine.act("delete", MAIL, seen)
    assert (outcome.word, outcome.values["place"]) == ("wrong_place", "ready")
    assert dump(client) == before


def test_many_jobs_go_a_chunk_per_step(engine: Engine, queue: Queue) -> None:
    queue.put_many([{"body": n} for n in range(CHUNK + 10)])
    jobs = jobs_of(engine, "ready", CHUNK) + engine.page(MAIL, "ready", CHUNK, CHUNK).jobs
    steps = engine.acts("kill", MAIL, jobs, {"reason": "tidy"})
    assert len(next(steps)) == CHUNK
    assert engine.page(MAIL, "dead").total == CHUNK
    assert [len(step) for step in steps] == [10]


def test_a_place_is_acted_on_to_its_end_but_not_what_comes_later(engine: Engine, queue: Queue) -> None:
    queue.put_many([{"body": n} for n in range(CHUNK + 10)])
    steps = engine.acts_on_place("kill", MAIL, "ready")
    first = next(steps)
    queue.put(1, id="newcomer")
    assert len(first) + sum(len(step) for step in steps) == CHUNK + 10
    assert [job.id for job in jobs_of(engine, "ready")] == [b"newcomer"]


def test_an_act_on_a_place_ends_where_the_verb_leaves_the_jobs_there(engine: Engine, queue: Queue) -> None:
    queue.put_many([{"body": n, "id": f"j{n}", "delay": 60} for n in range(CHUNK + 10)])
    moved = sum(len(step) for step in engine.acts_on_place("reschedule", MAIL, "scheduled", {"delay_ms": 120_000}))
    assert moved == CHUNK + 10


def test_a_verb_on_the_queue_has_one_answer(engine: Engine, queue: Queue) -> None:
    queue.put(1)
    assert [one.word for one in engine.act("pause", MAIL)] == ["paused"]
    assert engine.snapshot(Focus((MAIL,))).queues[0].paused
    assert [one.word for one in engine.act("pause", MAIL)] == ["already"]
    [purged] = engine.act("purge", MAIL, (), {"place": "ready", "limit": 10})
    assert (purged.word, purged.moved) == ("moved", 1)


def test_read_only_refuses_every_change_before_anything_is_sent(client: Redis, url: str) -> None:
    Queue("mail", client).put(1, id="a", delay=60)
    before = dump(client)
    with Proxy(url) as proxy:
        engine = behind(proxy, read_only=True)
        jobs = jobs_of(engine, "scheduled")
        proxy.requests.clear()
        for row in engine.layouts["native"].verbs():
            with pytest.raises(ReadOnly):
                engine.act(row.name, MAIL, jobs)
        assert proxy.requests == []
    assert dump(client) == before


def test_bad_arguments_are_refused_before_anything_is_sent(client: Redis, url: str) -> None:
    with Proxy(url) as proxy:
        engine = behind(proxy)
        job = Job(b"a", "mail", "native", "scheduled", State.SCHEDULED, b"a")
        for verb, form in (("nosuch", {}), ("promote", {"colour": 1}), ("reschedule", {"delay_ms": "soon"})):
            with pytest.raises(UsageError):
                engine.act(verb, MAIL, [job], form)
        assert proxy.requests == []


# ── when the line breaks ─────────────────────────────────────────────────────────────────────────────────────


def test_a_lost_reply_is_unknown_and_the_change_was_sent_once(client: Redis, url: str) -> None:
    queue = Queue("mail", client)
    queue.put_many([{"body": n, "id": f"j{n}"} for n in range(3)])
    with Proxy(url) as proxy:
        engine = behind(proxy)
        jobs = jobs_of(engine, "ready")
        engine.act("kill", MAIL, jobs[:1])  # the script is known now
        wait_until(lambda: "EVALSHA" in proxy.forwarded, what="the proxy noted it, which may be after the answer")
        before = proxy.forwarded.count("EVALSHA")
        proxy.fail("lose reply", "EVALSHA")
        outcomes = engine.act("kill", MAIL, jobs[1:])
        assert [one.word for one in outcomes] == ["unknown", "unknown"]
        assert all("may have happened" in one.text for one in outcomes)
        wait_until(lambda: proxy.forwarded.count("EVALSHA") > before)
        assert proxy.forwarded.count("EVALSHA") == before + 1
    assert client.zcard("rqtui:{mail}:dead") == 3  # it did happen, once


def test_after_a_lost_link_the_rest_is_not_sent(client: Redis, url: str) -> None:
    queue = Queue("mail", client)
    queue.put_many([{"body": n} for n in range(3 * CHUNK)])
    with Proxy(url) as proxy:
        engine = behind(proxy)
        jobs = [job for step in engine.scan(MAIL, "ready", lambda _job: True, chunk=CHUNK) for job in step]
        steps = engine.acts("kill", MAIL, jobs)
        assert {one.word for one in next(steps)} == {"moved"}
        proxy.fail("lose reply", "EVALSHA")
        words = [[one.word for one in step] for step in steps]
    assert words == [["unknown"] * CHUNK, ["not sent"] * CHUNK]
    assert client.zcard("rqtui:{mail}:ready") == CHUNK


def test_acts_on_a_redis_that_is_away_are_not_sent() -> None:
    engine = Engine(connect("redis://127.0.0.1:1"), [registry.make("native")])
    job = Job(b"a", "mail", "native", "ready", State.READY, b"a")
    assert [one.word for one in engine.act("kill", MAIL, [job, job])] == ["not sent", "not sent"]
    assert [one.word for one in engine.act("pause", MAIL)] == ["not sent"]


def test_a_lost_reply_to_a_look_is_an_error_that_harms_nothing(client: Redis, url: str) -> None:
    Queue("mail", client).put(1)
    with Proxy(url) as proxy:
        engine = behind(proxy)
        engine.snapshot(Focus((MAIL,)))
        proxy.fail("lose reply", "EVALSHA")
        with pytest.raises(ServerError):
            engine.snapshot(Focus((MAIL,)))
        assert engine.snapshot(Focus((MAIL,))).queues[0].count("ready") == 1


def test_an_error_of_the_server_is_the_answer_of_each_job(client: Redis, engine: Engine, queue: Queue) -> None:
    queue.put(1, id="a")
    seen = jobs_of(engine, "ready")
    client.delete("rqtui:{mail}:dead")
    client.set("rqtui:{mail}:dead", "a string of somebody else")
    before = dump(client)
    [outcome] = engine.act("kill", MAIL, seen)
    assert outcome.word == "error"
    assert "rqtui:{mail}:dead holds a string" in outcome.text
    assert dump(client) == before


def test_a_walk_that_took_long_rests_until_it_is_asked_for(client: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rqtui.engine.walk.REST", 1e9)
    monkeypatch.setattr("rqtui.engine.walk.MOST", 0)  # a walk of any number of keys is a long one
    client.set("other", 1)
    engine = Engine(client, registry.make_all())
    assert [*engine.discover(most=None)]
    client.zadd("__REDIS_SCHED_QUEUED__late", {"a": 1})
    client.sadd("rqtui:queues", "told")
    assert [ref.queue for chunk in engine.discover(most=None) for ref in chunk] == ["told"]
    assert [ref.queue for chunk in engine.discover(fully=True) for ref in chunk] == ["told", "late"]
    for _chunk in engine.discover():
        pass
    assert {ref.queue for ref in engine.refs} == {"told", "late"}  # what a walk has found stays known


def test_queues_are_known_while_the_walk_goes_on(client: Redis) -> None:
    pipe = client.pipeline(transaction=False)
    for number in range(30_000):
        pipe.set(f"other:{number}", 1)
    pipe.sadd("rqtui:queues", "told")
    pipe.execute()
    engine = Engine(client, registry.make_all())
    steps = engine.discover()
    while not engine.refs:
        next(steps)
    assert [ref.queue for ref in engine.refs] == ["told"]
    assert sum(1 for _step in steps) >= 30_000 / STEP - 1
