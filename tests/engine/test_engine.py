"""Test the engine: one round trip per refresh, an outcome per id, and nothing sent twice."""

from __future__ import annotations

import re
import time
from types import SimpleNamespace

import pytest
from families import run_in_one_test
from proxy import Proxy
from redis import Redis
from socket_writes import record_socket_writes
from waiting import wait_until

from rqtui.client.queue import Queue
from rqtui.connection.connect import connect
from rqtui.engine.engine import Engine, build_engine
from rqtui.engine.walk import MAX_STEP_KEYS
from rqtui.errors import Denied, ReadOnly, ServerError, Unreachable, UsageError
from rqtui.model import Focus, Job, PageSelection, Ref, State
from rqtui.system_base.system import CHUNK
from rqtui.systems import registry
from rqtui.testing.keyspace import dump, plant

MAIL = Ref("native", "mail")


@pytest.fixture
def engine(client: Redis) -> Engine:
    return Engine(client, [registry.create_system("native")])


@pytest.fixture
def queue(client: Redis) -> Queue:
    return Queue("mail", client)


def behind(proxy: Proxy, read_only: bool = False) -> Engine:
    """Create an engine whose connection passes the proxy and whose scripts are loaded on the server."""
    return Engine(connect(proxy.url, timeout_s=2), [registry.create_system("native")], read_only)


def fetch_jobs(engine: Engine, place: str, limit: int = 1000) -> tuple[Job, ...]:
    return engine.fetch_page(MAIL, place, 0, limit).jobs


# ── looking ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("queues", "counting"), [(1, 1), (50, 1), (120, 3)])
def test_a_snapshot_is_one_round_trip_whatever_the_number_of_queues(
    client: Redis, monkeypatch: pytest.MonkeyPatch, queues: int, counting: int
) -> None:
    for number in range(queues):
        Queue(f"q{number}", client).put_many([{"body": n} for n in range(20)])
    engine = Engine(client, [registry.create_system("native")])
    list(engine.discover())
    wishes = (PageSelection(engine.refs[0], "ready", 0, 10), PageSelection(engine.refs[-1], "dead"))
    focus = Focus(pages=wishes, job=(engine.refs[0], b"nosuch"))
    engine.take_snapshot(focus)  # loads the scripts
    for number in range(queues):  # otherwise plain reads would show that jobs only wait
        client.hset(f"rqtui:{{q{number}}}:workers", "w", "1 1 run 1 - - ")
    engine.take_snapshot(focus)
    with record_socket_writes(monkeypatch) as writes:
        snapshot = engine.take_snapshot(focus)
    assert len(writes) == 1
    assert writes[0].count(b"EVALSHA") == counting + 3
    assert (snapshot.cost.round_trips, snapshot.cost.commands) == (1, counting + 3)
    assert [queue.count_in_place("ready") for queue in snapshot.queues] == [20] * queues
    assert len(snapshot.pages[0].jobs) == 10
    assert snapshot.job is None


def test_a_snapshot_counts_places_and_shows_pages_and_a_job(engine: Engine, queue: Queue) -> None:
    queue.put(1, id="later", delay=60)
    queue.put_many([{"body": {"n": n}, "id": f"j{n}", "name": "send"} for n in range(3)])
    [held] = queue.reserve(1, worker="w1")
    snapshot = engine.take_snapshot(Focus((MAIL,), (PageSelection(MAIL, "ready", 1, 5, 100),), (MAIL, b"j0")))
    [mail] = snapshot.queues
    assert [(count.place, count.count) for count in mail.counts] == [
        ("scheduled", 1),
        ("ready", 2),
        ("reserved", 1),
        ("done", 0),
        ("dead", 0),
    ]
    page = snapshot.find_page(MAIL, "ready")
    assert page is not None
    assert ([job.id for job in page.jobs], page.total, page.offset, page.next) == ([b"j2"], 2, 1, None)
    assert page.jobs[0].body == b'{"n":2}'
    assert snapshot.job is not None
    assert (snapshot.job.place, snapshot.job.worker, snapshot.job.token.decode()) == ("reserved", "w1", held.token)
    assert snapshot.find_queue(MAIL) == mail
    assert snapshot.find_queue(Ref("native", "nosuch")) is None


def test_a_body_of_64_kib_comes_without_a_request_and_a_longer_one_does_not(engine: Engine, queue: Queue) -> None:
    for size, comes in ((65_536, True), (65_537, False)):
        queue.put(b"x" * size, id=f"of-{size}")
        job = engine.fetch_job(MAIL, f"of-{size}".encode())
        assert job is not None and (job.body is not None, job.body_bytes) == (comes, size)


def test_rates_come_from_two_refreshes(engine: Engine, queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 100.0
    monkeypatch.setattr("rqtui.engine.engine.time", SimpleNamespace(monotonic=lambda: now_s, time=time.time))
    focus = Focus((MAIL,))
    assert engine.take_snapshot(focus).rates[MAIL].in_s == 0
    queue.put_many([{"body": n} for n in range(10)])
    queue.ack_many(queue.reserve(4))
    now_s += 2
    rate = engine.take_snapshot(focus).rates[MAIL]
    assert rate.history == (2.0,) and rate.in_s / rate.out_s == pytest.approx(2.5)


@pytest.mark.parametrize("wrong_s", [-7200, 7200])
def test_the_time_of_a_refresh_is_the_servers(
    engine: Engine, queue: Queue, client: Redis, monkeypatch: pytest.MonkeyPatch, wrong_s: int
) -> None:
    right = time.time

    def server_ms() -> int:
        seconds, micros = client.time()
        return seconds * 1000 + micros // 1000

    monkeypatch.setattr(time, "time", lambda: right() + wrong_s)
    for queues in (0, 1):
        began_ms, taken_ms = server_ms(), engine.take_snapshot().taken_ms
        assert began_ms <= taken_ms <= server_ms(), f"{queues} queues"
        queue.put(1)
        list(engine.discover())


def test_a_broken_queue_leaves_the_others_readable(client: Redis, engine: Engine, queue: Queue) -> None:
    queue.put(1)
    plant(client, {"rqtui:{bad}:ready": "a string"})
    good, bad = engine.take_snapshot(Focus((MAIL, Ref("native", "bad")))).queues
    assert (good.count_in_place("ready"), good.error) == (1, "")
    assert "holds a string" in bad.error
    assert bad.verdict.severity == "critical"
    page = engine.take_snapshot(Focus((MAIL,), (PageSelection(Ref("native", "bad"), "ready"),))).pages[0]
    assert "holds a string" in page.error


def test_reading_writes_nothing(client: Redis, engine: Engine, queue: Queue) -> None:
    queue.put_many([{"body": n, "id": f"j{n}"} for n in range(5)])
    before = dump(client)
    list(engine.discover())
    engine.take_snapshot(Focus(pages=(PageSelection(MAIL, "ready"),), job=(MAIL, b"j1")))
    list(engine.scan_jobs(MAIL, "ready", lambda _job: True))
    engine.fetch_workers(MAIL)
    engine.collect_findings([MAIL])
    assert dump(client) == before


def test_a_scan_goes_through_the_whole_place_a_page_per_step(engine: Engine, queue: Queue) -> None:
    queue.put_many([{"body": n, "id": f"j{n:03}"} for n in range(25)])
    steps = list(engine.scan_jobs(MAIL, "ready", lambda job: job.id.endswith(b"7"), chunk=10))
    assert [[job.id for job in step] for step in steps] == [[b"j007"], [b"j017"], []]


def test_a_walk_reads_two_hundred_jobs_per_step(engine: Engine, queue: Queue) -> None:
    queue.put_many([{"body": n} for n in range(401)])
    assert [len(page.jobs) for page in engine.walk_pages(MAIL, "ready")] == [200, 200, 1]
    assert [len(jobs) for jobs in engine.scan_jobs(MAIL, "ready", lambda _job: True)] == [200, 200, 1]
    assert [len(page.jobs) for page in engine.walk_pages(MAIL, "ready", offset=201)] == [200]


def test_a_search_by_id_reports_matches_and_queues_that_could_not_be_searched(client: Redis, queue: Queue) -> None:
    engine = Engine(client, [registry.create_system("native"), registry.create_system("safe_pop")])
    queue.put(1, id="one")
    Queue("second", client).put(2, id="one")
    client.set("rqtui:{broken}:jobs", "a string")
    names = ("broken", "mail", "second", "without-it")
    engine.refs = [*(Ref("native", name) for name in names), Ref("safe_pop", "slow")]
    search = engine.find_jobs_by_id([b"one", b"nosuch"])
    assert [(ref.queue, job.id) for ref, job in search.jobs] == [("mail", b"one"), ("second", b"one")]
    assert (search.skipped_systems, search.failed_queues) == (("safe_pop",), 1)


def test_a_redis_that_is_away_is_an_error_and_not_an_empty_snapshot() -> None:
    engine = Engine(connect("redis://127.0.0.1:1"), [registry.create_system("native")])
    with pytest.raises(Unreachable):
        engine.take_snapshot(Focus((MAIL,)))
    with pytest.raises(Unreachable):
        list(engine.discover())
    with pytest.raises(Unreachable):
        engine.fetch_page(MAIL, "ready")
    with pytest.raises(Unreachable):
        engine.register_queue(MAIL)


def test_a_user_without_rights_gets_words(client: Redis, url: str) -> None:
    client.execute_command("ACL", "SETUSER", "nobody", "on", ">pw", "~nothing:*", "+@all")
    try:
        with connect(url.replace("redis://", "redis://nobody:pw@")) as user:
            engine = Engine(user, [registry.create_system("native")])
            with pytest.raises(Denied):
                engine.take_snapshot(Focus((MAIL,)))
            with pytest.raises(Denied):
                list(engine.discover())
    finally:
        client.execute_command("ACL", "DELUSER", "nobody")


# ── names ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_discovery_finds_queues_that_are_in_no_list(client: Redis, engine: Engine) -> None:
    for name in ("b", "a"):
        Queue(name, client).put(1)
    client.delete("rqtui:queues")
    found = [ref for chunk in engine.discover() for ref in chunk]
    assert {ref.queue for ref in found} == {"a", "b"}
    assert engine.refs == [Ref("native", "a"), Ref("native", "b")]
    assert build_engine(client, [registry.create_system("native")]).refs == engine.refs


def test_a_name_is_a_queue_of_its_system_or_a_native_one(engine: Engine) -> None:
    assert engine.resolve("native:mail") == MAIL
    assert engine.resolve("mail") == MAIL
    assert engine.resolve("other:mail") == Ref("native", "other:mail")
    with pytest.raises(UsageError, match="no queue name"):
        engine.resolve("native:a b")


def test_a_queue_that_was_discovered_is_found_by_its_name_without_a_command(client: Redis, queue: Queue) -> None:
    queue.put("x")
    engine = build_engine(client, [registry.create_system("native")])
    before = client.info("stats")["total_commands_processed"]
    assert engine.resolve_or_discover("mail") == MAIL
    assert client.info("stats")["total_commands_processed"] == before + 1, "only the second INFO itself"


def test_a_name_that_no_queue_of_the_system_can_have_is_refused(client: Redis, engine: Engine) -> None:
    for name in ("a b", "a\nb", "x" * 201, "{a}"):
        with pytest.raises(UsageError, match="is no queue name"):
            engine.resolve(name)
        with pytest.raises(UsageError, match="is no queue name"):
            engine.resolve(f"native:{name}")
    assert engine.resolve("x" * 200) == Ref("native", "x" * 200)


def test_a_name_that_is_in_two_systems_has_to_be_distinguished(engine: Engine) -> None:
    engine.refs = [MAIL, Ref("other", "mail")]
    with pytest.raises(UsageError, match="name one, as SYSTEM:mail"):
        engine.resolve("mail")


@run_in_one_test(
    "name, meant",
    [
        ("a␁b", Ref("native", "a\1b")),
        ("native:a␁b", Ref("native", "a\1b")),
        ("rq:a␁b", Ref("rq", "a␁b")),
        ("c␁d", "how several queues are shown; name one of them: "),
        ("native:c␁d", Ref("native", "c\1d")),
        ("rq:c␁d", Ref("rq", "c\1d")),
        ("mail", "is a queue of native and rq: name one, as SYSTEM:mail"),
        ("native:mail", MAIL),
        ("only", Ref("rq", "only")),
        ("native:only", Ref("native", "only")),
        ("nosuch", Ref("native", "nosuch")),
        ("natve:only", "did you mean native:only?"),
        ("natve:", Ref("native", "natve:")),
        ("other:only", Ref("native", "other:only")),
        ("bullmq:only", "means the system bullmq, which --system leaves out"),
    ],
)
def test_a_name_as_it_is_printed_means_its_queue_or_is_refused_with_the_choices(
    client: Redis, name: str, meant: Ref | str
) -> None:
    engine = Engine(client, [registry.create_system("native"), registry.create_system("rq")])
    engine.others = frozenset({"bullmq"})
    engine.refs = [
        Ref("native", "a\1b"),
        Ref("native", "c\1d"),
        Ref("rq", "c\1d"),
        MAIL,
        Ref("rq", "mail"),
        Ref("rq", "only"),
    ]
    if isinstance(meant, Ref):
        assert engine.resolve(name) == meant
    else:
        with pytest.raises(UsageError, match=re.escape(meant)):
            engine.resolve(name)


def test_an_argument_names_the_system_only_if_two_queues_have_the_name(client: Redis) -> None:
    engine = Engine(client, [registry.create_system("native"), registry.create_system("rq")])
    engine.refs = [MAIL, Ref("rq", "mail"), Ref("native", "only")]
    assert [engine.format_argument(ref) for ref in engine.refs] == ["native:mail", "rq:mail", "only"]


def test_an_announced_queue_is_known_at_once_and_a_retired_one_no_more(client: Redis, engine: Engine) -> None:
    engine.register_queue(MAIL)
    assert (engine.refs, client.smembers("rqtui:queues")) == ([MAIL], {b"mail"})
    engine.unregister_queue(MAIL)
    assert (engine.refs, client.smembers("rqtui:queues")) == ([], set())


# ── changing ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_job_has_its_own_answer(engine: Engine, queue: Queue) -> None:
    queue.put(1, id="later", delay=60)
    queue.put(1, id="now")
    stranger = Job(b"nosuch", "mail", "native", "scheduled", State.SCHEDULED, b"nosuch")
    outcomes = engine.apply_verb(
        "promote", MAIL, [*fetch_jobs(engine, "ready"), stranger, *fetch_jobs(engine, "scheduled")]
    )
    assert [(one.id, one.word, one.moved) for one in outcomes] == [
        (b"now", "wrong_place", 0),
        (b"nosuch", "gone", 0),
        (b"later", "moved", 1),
    ]
    assert all(one.text for one in outcomes)


def test_a_job_that_was_reserved_again_meanwhile_answers_stale(engine: Engine, queue: Queue) -> None:
    queue.put(1, id="a")
    [first] = queue.reserve()
    [seen] = fetch_jobs(engine, "reserved")
    first.release()
    queue.reserve()
    assert [one.word for one in engine.apply_verb("ack", MAIL, [seen])] == ["stale"]


def test_a_job_that_moved_meanwhile_is_left_alone(client: Redis, engine: Engine, queue: Queue) -> None:
    queue.put(1, id="a", delay=60)
    jobs = fetch_jobs(engine, "scheduled")
    engine.apply_verb("promote", MAIL, jobs)
    before = dump(client)
    [outcome] = engine.apply_verb("delete", MAIL, jobs)
    assert (outcome.word, outcome.values["place"]) == ("wrong_place", "ready")
    assert dump(client) == before


def test_many_jobs_go_a_chunk_per_step(engine: Engine, queue: Queue) -> None:
    queue.put_many([{"body": n} for n in range(CHUNK + 10)])
    jobs = fetch_jobs(engine, "ready", CHUNK) + engine.fetch_page(MAIL, "ready", CHUNK, CHUNK).jobs
    steps = engine.yield_verb_steps("kill", MAIL, jobs, {"reason": "tidy"})
    assert len(next(steps)) == CHUNK
    assert engine.fetch_page(MAIL, "dead").total == CHUNK
    assert [len(step) for step in steps] == [10]


def test_a_place_is_acted_on_to_its_end_but_not_what_comes_later(engine: Engine, queue: Queue) -> None:
    queue.put_many([{"body": n} for n in range(CHUNK + 10)])
    steps = engine.apply_verb_to_place("kill", MAIL, "ready")
    first = next(steps)
    queue.put(1, id="newcomer")
    assert len(first) + sum(len(step) for step in steps) == CHUNK + 10
    assert [job.id for job in fetch_jobs(engine, "ready")] == [b"newcomer"]


def test_an_act_on_a_place_ends_where_the_verb_leaves_the_jobs_there(engine: Engine, queue: Queue) -> None:
    queue.put_many([{"body": n, "id": f"j{n}", "delay": 60} for n in range(CHUNK + 10)])
    moved = sum(
        len(step) for step in engine.apply_verb_to_place("reschedule", MAIL, "scheduled", {"delay_ms": 120_000})
    )
    assert moved == CHUNK + 10


def test_a_verb_on_the_queue_has_one_answer(engine: Engine, queue: Queue) -> None:
    queue.put(1)
    assert [one.word for one in engine.apply_verb("pause", MAIL)] == ["paused"]
    assert engine.take_snapshot(Focus((MAIL,))).queues[0].is_paused
    assert [one.word for one in engine.apply_verb("pause", MAIL)] == ["already"]
    [purged] = engine.apply_verb("purge", MAIL, (), {"place": "ready", "limit": 10})
    assert (purged.word, purged.moved) == ("moved", 1)


def test_read_only_refuses_every_change_before_anything_is_sent(client: Redis, url: str) -> None:
    Queue("mail", client).put(1, id="a", delay=60)
    before = dump(client)
    with Proxy(url) as proxy:
        engine = behind(proxy, read_only=True)
        jobs = fetch_jobs(engine, "scheduled")
        proxy.requests.clear()
        for row in engine.systems["native"].verbs():
            with pytest.raises(ReadOnly):
                engine.apply_verb(row.name, MAIL, jobs)
        assert proxy.requests == []
    assert dump(client) == before


def test_bad_arguments_are_refused_before_anything_is_sent(client: Redis, url: str) -> None:
    with Proxy(url) as proxy:
        engine = behind(proxy)
        job = Job(b"a", "mail", "native", "scheduled", State.SCHEDULED, b"a")
        for verb, form in (("nosuch", {}), ("promote", {"colour": 1}), ("reschedule", {"delay_ms": "soon"})):
            with pytest.raises(UsageError):
                engine.apply_verb(verb, MAIL, [job], form)
        assert proxy.requests == []


# ── when the line breaks ─────────────────────────────────────────────────────────────────────────────────────


def test_a_lost_reply_is_unknown_and_the_change_was_sent_once(client: Redis, url: str) -> None:
    queue = Queue("mail", client)
    queue.put_many([{"body": n, "id": f"j{n}"} for n in range(3)])
    with Proxy(url) as proxy:
        engine = behind(proxy)
        jobs = fetch_jobs(engine, "ready")
        engine.apply_verb("kill", MAIL, jobs[:1])  # the script is known now
        wait_until(lambda: "EVALSHA" in proxy.forwarded, what="the proxy noted it, which may be after the answer")
        before = proxy.forwarded.count("EVALSHA")
        proxy.fail("lose reply", "EVALSHA")
        outcomes = engine.apply_verb("kill", MAIL, jobs[1:])
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
        jobs = [job for step in engine.scan_jobs(MAIL, "ready", lambda _job: True, chunk=CHUNK) for job in step]
        steps = engine.yield_verb_steps("kill", MAIL, jobs)
        assert {one.word for one in next(steps)} == {"moved"}
        proxy.fail("lose reply", "EVALSHA")
        words = [[one.word for one in step] for step in steps]
    assert words == [["unknown"] * CHUNK, ["not sent"] * CHUNK]
    assert client.zcard("rqtui:{mail}:ready") == CHUNK


def test_a_change_of_a_whole_place_ends_with_the_lost_link(
    client: Redis, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Queue("mail", client).put_many([{"body": n} for n in range(4 * CHUNK)])
    with Proxy(url) as proxy:
        engine = behind(proxy)
        apply_verb = engine.apply_verb

        def lose_second_reply(*args: object) -> object:
            if client.zcard("rqtui:{mail}:ready") < 4 * CHUNK:
                proxy.fail("lose reply", "EVALSHA")
            return apply_verb(*args)  # type: ignore[arg-type]

        monkeypatch.setattr(engine, "apply_verb", lose_second_reply)
        words = [{one.word for one in step} for step in engine.apply_verb_to_place("kill", MAIL, "ready")]
    assert words == [{"moved"}, {"unknown"}]
    assert client.zcard("rqtui:{mail}:ready") == 2 * CHUNK


def test_acts_on_a_redis_that_is_away_are_not_sent() -> None:
    engine = Engine(connect("redis://127.0.0.1:1"), [registry.create_system("native")])
    job = Job(b"a", "mail", "native", "ready", State.READY, b"a")
    assert [one.word for one in engine.apply_verb("kill", MAIL, [job, job])] == ["not sent", "not sent"]
    assert [one.word for one in engine.apply_verb("pause", MAIL)] == ["not sent"]


def test_a_lost_reply_to_a_poll_is_an_error_that_harms_nothing(client: Redis, url: str) -> None:
    Queue("mail", client).put(1)
    with Proxy(url) as proxy:
        engine = behind(proxy)
        engine.take_snapshot(Focus((MAIL,)))
        proxy.fail("lose reply", "EVALSHA")
        with pytest.raises(ServerError):
            engine.take_snapshot(Focus((MAIL,)))
        assert engine.take_snapshot(Focus((MAIL,))).queues[0].count_in_place("ready") == 1


def test_an_error_of_the_server_is_the_answer_of_each_job(client: Redis, engine: Engine, queue: Queue) -> None:
    queue.put(1, id="a")
    jobs = fetch_jobs(engine, "ready")
    client.delete("rqtui:{mail}:dead")
    client.set("rqtui:{mail}:dead", "a string of somebody else")
    before = dump(client)
    [outcome] = engine.apply_verb("kill", MAIL, jobs)
    assert outcome.word == "error"
    assert "rqtui:{mail}:dead holds a string" in outcome.text
    assert dump(client) == before


def test_a_walk_that_took_long_rests_until_it_is_requested(client: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rqtui.engine.walk.REST_FACTOR", 1e9)
    monkeypatch.setattr("rqtui.engine.walk.MAX_KEYS_PER_DISCOVERY", 0)  # a walk of any number of keys is a long one
    client.set("other", 1)
    engine = Engine(client, registry.create_systems())
    assert [*engine.discover(max_keys=None)]
    client.zadd("__REDIS_SCHED_QUEUED__late", {"a": 1})
    client.sadd("rqtui:queues", "told")
    assert [ref.queue for chunk in engine.discover(max_keys=None) for ref in chunk] == ["told"]
    assert [ref.queue for chunk in engine.discover(fully=True) for ref in chunk] == ["told", "late"]
    for _chunk in engine.discover():
        pass
    assert {ref.queue for ref in engine.refs} == {"told", "late"}  # what a walk has found stays known


@pytest.mark.slow
def test_queues_are_known_while_the_walk_continues(client: Redis) -> None:
    pipe = client.pipeline(transaction=False)
    for number in range(30_000):
        pipe.set(f"other:{number}", 1)
    pipe.sadd("rqtui:queues", "told")
    pipe.execute()
    engine = Engine(client, registry.create_systems())
    steps = engine.discover()
    while not engine.refs:
        next(steps)
    assert [ref.queue for ref in engine.refs] == ["told"]
    assert sum(1 for _step in steps) >= 30_000 / MAX_STEP_KEYS - 1
