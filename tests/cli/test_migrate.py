"""`rqtui migrate`: nothing is lost and nothing doubled, wherever a run breaks off and whoever else works meanwhile."""

from __future__ import annotations

import itertools
import json
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from redis import Redis
from shell import shell, start_process
from waiting import wait_until

from rqtui.connection.connect import connect
from rqtui.engine.engine import Engine
from rqtui.errors import Refused, ServerError, UsageError
from rqtui.model import Ref
from rqtui.operations.drain import DeleteDrain
from rqtui.operations.migration import HOLD_MS, Migration
from rqtui.scenarios.originals import dispatcher, orizuru, redisched, rq, safe_pop, timeout_sets
from rqtui.scripts import script as scripts
from rqtui.system_base.system import System
from rqtui.systems import registry
from rqtui.testing import keyspace

TARGET = Ref("native", "new")
Bodies = Counter[bytes]


@dataclass(frozen=True)
class MigratedSystem:
    """One system as its own programs write it."""

    spec: str
    queue: str
    plant: Callable[[Redis, int], Bodies]  # so many jobs, and what their copies hold
    expire: Callable[[Redis], None]  # leases of a dead run are over, and taken back as the system's own cleaner does
    worker: Callable[[Redis, Callable[[bytes], None]], Callable[[], object]]  # a step that returns what it ran
    put: Callable[[Redis, int], bytes]  # one more job, while all of it runs

    @property
    def name(self) -> str:
        return self.spec.partition(":")[0]

    @property
    def ref(self) -> Ref:
        return Ref(self.name, self.queue)


def body(number: int) -> bytes:
    """Build the body of a job. Every third body equals the one before it."""
    return b"job %d" % (number - (number % 3 == 1))


def plant_dispatcher(client: Redis, number: int) -> Bodies:
    for n in range(number):
        if n % 4:
            client.rpush(dispatcher.READY, body(n))
        else:
            dispatcher.put_delayed_task(client, b"later %d" % n, int(time.time()) + (60 if n % 8 else -60) * n)
    return Counter(body(n) if n % 4 else b"later %d" % n for n in range(number))


def plant_redisched(client: Redis, number: int) -> Bodies:
    program = redisched.Scheduler(client, "mail")
    for n in range(number):
        program.put(f"id-{n}", body(n), delay_s=(n % 3 - 1) * 400 * n - 1)
    return Counter(body(n) for n in range(number))


def expire_redisched(client: Redis) -> None:
    key = "__REDIS_SCHED_RESERVED__mail"
    for id, _score in client.zrange(key, 0, -1, withscores=True):
        client.zadd(key, {id: int(time.time() * 1000) - 1000})
    redisched.Scheduler(client, "mail").requeue()


def plant_timeout_sets(client: Redis, number: int) -> Bodies:
    timeout_sets.add_items(client, range(number))
    return Counter(b"%d" % n for n in range(number))


def expire_timeout_sets(client: Redis) -> None:
    for key in client.keys("*-lock"):
        client.delete(key)
    timeout_sets.Cleaner(client).step()


def plant_orizuru(client: Redis, number: int) -> Bodies:
    return Counter(orizuru.push_job(client, "source", n - (n % 3 == 1)) for n in range(number))


def plant_safe_pop(client: Redis, number: int) -> Bodies:
    for n in range(number):
        if n % 2:
            safe_pop.push_message(client, "list", body(n))
        else:
            safe_pop.push_message_id(client, "list", b"id-%d" % n)
    return Counter(body(n) if n % 2 else b"id-%d" % n for n in range(number))


def expire_safe_pop(client: Redis) -> None:
    entries: Any = client.lrange("list", 0, -1)
    for at, entry in enumerate(entries):
        if b"|" in entry:
            client.lset("list", at, entry.partition(b"|")[0] + b"|1700000000")


def redisched_worker(client: Redis, ran: Callable[[bytes], None]) -> Callable[[], object]:
    return redisched.Worker(redisched.Scheduler(client, "mail"), lambda _id, body: ran(body or b"")).step


def put_redisched(client: Redis, number: int) -> bytes:
    redisched.Scheduler(client, "mail").put(f"more-{number}", b"more %d" % number, delay_s=number % 5 * 0.1)
    return b"more %d" % number


def put_dispatcher(client: Redis, number: int) -> bytes:
    client.rpush(dispatcher.READY, b"more %d" % (number // 2))
    return b"more %d" % (number // 2)


def put_timeout_sets(client: Redis, number: int) -> bytes:
    timeout_sets.add_items(client, [100_000 + number])
    return b"%d" % (100_000 + number)


def put_safe_pop(client: Redis, number: int) -> bytes:
    safe_pop.push_message(client, "list", b"more %d" % number)
    return b"more %d" % number


def plant_rq(client: Redis, number: int) -> Bodies:
    """Plant RQ jobs of which every fourth is scheduled, and return their ids."""
    queue, bodies = rq.Queue(client, "mail"), [rq.encode_call("tasks.run", body(n).decode()) for n in range(number)]
    for n, data in enumerate(bodies):
        if n % 4:
            queue.enqueue(f"id-{n}", data, "tasks.run()")
        else:
            queue.enqueue_in((60 if n % 8 else -60) * (n + 20), f"id-{n}", data, "tasks.run()")
    return Counter(bodies)


def rq_worker(client: Redis, ran: Callable[[bytes], None]) -> Callable[[], object]:
    def run(job: rq.Job) -> None:
        ran(client.hget(rq.build_job_key(job.id), "data") or b"")  # type: ignore[arg-type]

    worker = rq.Worker(client, "mail", f"w{next(_NUMBERS)}", run)
    worker.register()
    return worker.step


def put_rq(client: Redis, number: int) -> bytes:
    data = rq.encode_call("tasks.run", f"more {number // 2}")
    rq.Queue(client, "mail").enqueue(f"more-{number}", data, "tasks.run()")
    return data


def sidekiq_job(name: str, number: int) -> bytes:
    fields = {"class": "HardJob", "args": [number], "retry": True, "queue": "mail", "jid": f"{name}{number}"}
    return json.dumps({**fields, "created_at": 1.25e9}, separators=(",", ":")).encode()


def plant_sidekiq(client: Redis, number: int) -> Bodies:
    """Plant Sidekiq jobs of which every fourth is scheduled, among jobs of another queue."""
    client.sadd("queues", "mail", "other")
    for n in range(number):
        if n % 4:
            client.lpush("queue:mail", sidekiq_job("id", n))
        else:
            other = sidekiq_job("other", n).replace(b'"mail"', b'"other"')
            due_s = int(time.time()) + (60 if n % 8 else -60) * (n + 20)
            client.zadd("schedule", {sidekiq_job("id", n): due_s, other: due_s})
    return Counter(sidekiq_job("id", n) for n in range(number))


def sidekiq_worker(client: Redis, ran: Callable[[bytes], None]) -> Callable[[], object]:
    def step() -> object:
        for job in client.zrangebyscore("schedule", "-inf", time.time(), 0, 1):
            if client.zrem("schedule", job):
                client.lpush("queue:other" if b'"other"' in job else "queue:mail", job)
        job = client.rpop("queue:mail")
        if job:
            ran(job)
        return job

    return step


def put_sidekiq(client: Redis, number: int) -> bytes:
    client.lpush("queue:mail", sidekiq_job("more", number))
    return sidekiq_job("more", number)


_NUMBERS = itertools.count()
SYSTEMS = (
    MigratedSystem(
        "dispatcher",
        dispatcher.READY,
        plant_dispatcher,
        lambda client: None,
        lambda client, ran: dispatcher.Worker(client, ran).step,
        put_dispatcher,
    ),
    MigratedSystem("redisched:unit=ms", "mail", plant_redisched, expire_redisched, redisched_worker, put_redisched),
    MigratedSystem(
        "timeout_sets",
        "todos",
        plant_timeout_sets,
        expire_timeout_sets,
        lambda client, ran: timeout_sets.Worker(client, work=lambda item: ran(b"%d" % item)).step,
        put_timeout_sets,
    ),
    MigratedSystem(
        "orizuru:source=source",
        "source",
        plant_orizuru,
        lambda client: None,
        lambda client, ran: (
            orizuru.Worker(client, "source", "c1", lambda fields: ran(orizuru.encode_struct(*fields))).step
        ),
        lambda client, number: orizuru.push_job(client, "source", 100_000 + number // 2),
    ),
    MigratedSystem(
        "safe_pop:queue=list",
        "list",
        plant_safe_pop,
        expire_safe_pop,
        lambda client, ran: (
            safe_pop.Worker(client, "list", lambda _id, body: ran(body), block_s=0, sleep=lambda _s: None).step
        ),
        put_safe_pop,
    ),
    MigratedSystem("rq", "mail", plant_rq, lambda client: None, rq_worker, put_rq),
    MigratedSystem("sidekiq", "mail", plant_sidekiq, lambda client: None, sidekiq_worker, put_sidekiq),
)
every_system = pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)


def engine(client: Redis, system: MigratedSystem) -> Engine:
    found = Engine(client, [registry.create_system("native"), registry.create_system(system.spec)])
    for _chunk in found.discover():
        pass
    return found


def migration(client: Redis, system: MigratedSystem) -> Migration:
    return Migration(engine(client, system), system.ref, TARGET)


def run(client: Redis, system: MigratedSystem) -> Migration:
    new_migration = migration(client, system)
    try:
        for _moved in new_migration.move_jobs():
            pass
    finally:
        new_migration.close()
    return new_migration


def copies(client: Redis) -> Bodies:
    """Read the jobs of the target queue by raw commands."""
    records: Any = client.hgetall("rqtui:{new}:jobs")
    long: Any = client.hgetall("rqtui:{new}:bodies")
    return Counter(long.get(id) or record.partition(b"\n")[2] for id, record in records.items())


def read_target_ids(client: Redis) -> set[bytes]:
    """Return the ids in the target's places, and check that each id is in one place."""
    places = [client.zrange(f"rqtui:{{new}}:{place}", 0, -1) for place in ("scheduled", "ready", "reserved", "dead")]
    ids = [id for place in places for id in place]
    assert len(ids) == len(set(ids))
    return set(ids)


def list_held_copies(client: Redis) -> list[bytes]:
    """Return the copies that were not released; no planted job is due in nine to ten minutes."""
    seconds, _micros = client.time()
    until_ms = seconds * 1000 + 1000 + HOLD_MS
    return client.zrangebyscore("rqtui:{new}:scheduled", until_ms - 60_000, until_ms)


def count_jobs_left(client: Redis, system: MigratedSystem) -> dict[str, int]:
    found = engine(client, system).send_request(registry.create_system(system.spec).queue_request(system.queue))
    return {count.place: count.count for count in found.counts if count.count and count.state != "done"}


# ── all of it ────────────────────────────────────────────────────────────────────────────────────────────────────


@every_system
def test_all_jobs_move_with_their_bodies_and_nothing_of_the_move_stays(
    system: MigratedSystem, any_client: Redis
) -> None:
    planted = system.plant(any_client, 500)
    report = run(any_client, system).report
    assert copies(any_client) == planted
    assert (report.moved, report.skipped, report.is_complete) == (500, [], True)
    assert count_jobs_left(any_client, system) == {}
    assert read_target_ids(any_client) == set(any_client.hkeys("rqtui:{new}:jobs"))
    beat = b"orizuru:consumers:rqtui-migrate:heartbeat"  # it ends by itself
    assert not [key for key in any_client.keys("*migrat*") if key != beat]
    assert not any_client.keys("rqtui:*:leaving")


@every_system
def test_a_second_run_finds_nothing_to_do(system: MigratedSystem, client: Redis) -> None:
    system.plant(client, 20)
    run(client, system)
    before = keyspace.dump(client)
    assert run(client, system).report.moved == 0
    assert keyspace.diff(before, keyspace.dump(client)) == []


@pytest.mark.parametrize("system", SYSTEMS[:2], ids=lambda system: system.name)
def test_due_times_survive(system: MigratedSystem, client: Redis) -> None:
    now = int(time.time())
    wanted = {b"soon": now + 120, b"late": now + 7200, b"over": now - 60}
    for name, due_s in wanted.items():
        if system.name == "dispatcher":
            dispatcher.put_delayed_task(client, name, due_s)
        else:
            redisched.Scheduler(client, "mail").put(name, name, delay_s=due_s - time.time())
    run(client, system)
    records: Any = client.hgetall("rqtui:{new}:jobs")
    due: Any = {id: score for id, score in client.zrange("rqtui:{new}:scheduled", 0, -1, withscores=True)}
    found = {records[id].partition(b"\n")[2]: score / 1000 for id, score in due.items()}
    assert found.keys() == {b"soon", b"late"}
    assert all(abs(found[name] - wanted[name]) < 2 for name in found)
    assert [records[id].partition(b"\n")[2] for id in client.zrange("rqtui:{new}:ready", 0, -1)] == [b"over"]


def test_a_topic_in_whole_seconds_moves_as_well(client: Redis) -> None:
    program, now = redisched.Scheduler(client, "mail", "s"), time.time()
    for name, delay_s in (("over", -5), ("soon", 120), ("late", 7200)):
        program.put(name, name, delay_s=delay_s)
    assert run(client, replace(SYSTEMS[1], spec="redisched")).report.moved == 3
    due: Any = client.zrange("rqtui:{new}:scheduled", 0, -1, withscores=True)
    assert [(id, round((score / 1000 - now) / 10)) for id, score in due] == [(b"soon", 12), (b"late", 720)]
    assert client.zrange("rqtui:{new}:ready", 0, -1) == [b"over"]


def test_ready_jobs_keep_their_order(client: Redis) -> None:
    client.rpush(dispatcher.READY, *(b"%03d" % n for n in range(300)))
    run(client, SYSTEMS[0])
    records: Any = client.hgetall("rqtui:{new}:jobs")
    ready = [records[id].partition(b"\n")[2] for id in client.zrange("rqtui:{new}:ready", 0, -1)]
    assert ready == [b"%03d" % n for n in range(300)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "system",
    [
        system if system.name in ("dispatcher", "rq") else pytest.param(system, marks=pytest.mark.matrix)
        for system in SYSTEMS
    ],
    ids=lambda system: system.name,
)
def test_a_body_of_ten_megabytes_moves_whole(system: MigratedSystem, client: Redis) -> None:
    large = b"x" * 10_000_000
    if system.name == "dispatcher":
        client.rpush(dispatcher.READY, large)
    elif system.name == "redisched":
        for delay_s in (-1, 3600):
            redisched.Scheduler(client, "mail").put(f"id{delay_s}", large, delay_s)
    elif system.name == "orizuru":
        large = orizuru.push_job(client, "source", large.decode())
    elif system.name == "safe_pop":
        safe_pop.push_message(client, "list", large)
    elif system.name == "rq":
        large = rq.encode_call("tasks.run", random.Random(1).randbytes(10_000_000).hex())
        rq.Queue(client, "mail").enqueue("id", large, "tasks.run()")
    elif system.name == "sidekiq":
        large = sidekiq_job("id", 1).replace(b"[1]", b'["%s"]' % large)
        client.lpush("queue:mail", large)
    else:
        client.sadd("todos", large)
    report = run(client, system).report
    assert report.is_complete
    assert set(copies(client)) == {large}


# ── broken off ───────────────────────────────────────────────────────────────────────────────────────────────────


class PowerCut(BaseException):
    """The program ends here and now."""


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch) -> Callable[[Redis, int, bool], Callable[[], None]]:
    """cut(client, n, is_sent) ends the program at its n-th command, before it is sent or before its reply is read."""

    def arm(client: Redis, at: int, is_sent: bool) -> Callable[[], None]:
        counter = itertools.count(1)
        send_calls, execute = scripts.send_calls, client.execute_command

        def count_sends(send: Callable[..., Any]) -> Callable[..., Any]:
            def call(*args: Any, **options: Any) -> Any:
                number = next(counter)
                if number >= at and not (number == at and is_sent):
                    raise PowerCut
                found = send(*args, **options)
                if number == at:
                    raise PowerCut
                return found

            return call

        patched = pytest.MonkeyPatch()
        patched.setattr(scripts, "send_calls", count_sends(send_calls))
        patched.setattr(client, "execute_command", count_sends(execute))
        return patched.undo

    return arm


@pytest.mark.slow
@every_system
@pytest.mark.parametrize(
    "is_sent",
    [pytest.param(False, id="before it is sent", marks=pytest.mark.matrix), pytest.param(True, id="before the reply")],
)
def test_wherever_a_run_is_killed_the_next_one_moves_each_job_once(
    system: MigratedSystem, is_sent: bool, client: Redis, cut: Callable[[Redis, int, bool], Callable[[], None]]
) -> None:
    """Each command of a run of two or three batches is the last one in turn."""
    for at in itertools.count(1):
        client.flushall()
        planted = system.plant(client, 12)
        new_migration = migration(client, system)
        restore = cut(client, at, is_sent)
        try:
            for _moved in new_migration.move_jobs():
                pass
            new_migration.close()
        except PowerCut:
            is_over = False
        else:
            is_over = True
        finally:
            restore()
        client.delete(*(client.keys("rqtui:*:migrator") or ["-"]))  # a lock of fifteen seconds
        system.expire(client)
        report = run(client, system).report
        assert (at, copies(client)) == (at, planted)
        assert (at, report.skipped, count_jobs_left(client, system)) == (at, [], {})
        assert (at, list_held_copies(client)) == (at, []), "no copy waits for ten minutes"
        assert client.keys("*:copies:*") == []
        if is_over:
            assert at > 10  # there was something to cut
            return


@pytest.mark.parametrize("system", [SYSTEMS[0], SYSTEMS[3]], ids=lambda system: system.name)
def test_a_batch_on_its_way_is_finished_into_the_queue_it_was_on_its_way_to(
    system: MigratedSystem, client: Redis
) -> None:
    """Its ids are of that run; in a second target they would be second jobs."""
    planted = system.plant(client, 30)
    new_migration = migration(client, system)
    steps = new_migration.move_jobs()
    next(steps)

    def stop(*_args: Any) -> Any:
        raise PowerCut

    new_migration._put_copies = stop  # type: ignore[method-assign]
    with pytest.raises(PowerCut):
        next(steps)
    client.delete(*client.keys("rqtui:*:migrator"))
    other = Migration(engine(client, system), system.ref, Ref("native", "other"))
    before = keyspace.dump(client)
    with pytest.raises(UsageError, match=f"rqtui migrate {system.ref} native:new"):
        next(other.move_jobs())
    other.close()  # as the command does
    assert keyspace.diff(before, keyspace.dump(client)) == []
    assert run(client, system).report.is_complete
    assert copies(client) == planted


def test_copies_left_by_an_interrupted_run_are_released_and_counted_by_the_next(
    client: Redis, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    redisched = next(system for system in SYSTEMS if system.name == "redisched")
    planted = redisched.plant(client, 12)
    new_migration = migration(client, redisched)

    def stop(*_args: Any) -> Any:
        raise PowerCut

    monkeypatch.setattr(new_migration, "_release_held_copies", stop)
    with pytest.raises(PowerCut):
        list(new_migration.move_jobs())
    waiting = len(list_held_copies(client))
    assert waiting
    result = shell(url, "migrate", str(redisched.ref), str(TARGET), "--json")
    assert (result.code, result.json["finished"], list_held_copies(client)) == (0, waiting, [])
    assert copies(client) == planted


def test_a_job_taken_after_an_interrupted_run_does_not_run_again(
    client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copies are in the target, and the originals were not ended."""
    system, ran = next(system for system in SYSTEMS if system.name == "rq"), Counter[bytes]()
    planted = system.plant(client, 12)
    new_migration = migration(client, system)

    settle = DeleteDrain.delete_originals

    def stop(way: DeleteDrain, jobs: Any) -> Any:
        if way.place.name == "queued":
            raise PowerCut
        return settle(way, jobs)

    with monkeypatch.context() as patched:
        patched.setattr(DeleteDrain, "delete_originals", stop)
        with pytest.raises(PowerCut):
            list(new_migration.move_jobs())
    step = system.worker(client, lambda job: ran.update([job]))
    while step() != "idle":
        pass
    on_the_way = len(list_held_copies(client))
    client.config_resetstat()
    report = run(client, system).report
    assert ran and report.skipped == []
    assert copies(client) + ran == planted and list_held_copies(client) == []
    actual = client.info("commandstats")["cmdstat_xrevrange"]["calls"]  # of the results of a job that is shown
    assert actual == on_the_way + report.moved, "each original is looked up once, and each job that moves"


def test_two_migrations_of_one_list_are_one_too_many(client: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rqtui.operations.drain.LOCK_MS", 500)
    SYSTEMS[0].plant(client, 30)
    first, second = migration(client, SYSTEMS[0]), migration(client, SYSTEMS[0])
    next(first.move_jobs())
    client.set(f"rqtui:{{{dispatcher.READY}}}:migrator", "another run, which keeps it", keepttl=False)
    with pytest.raises(Refused, match="another migration"):
        next(second.move_jobs())
    with pytest.raises(Refused, match="another migration"):
        next(first._drains[0].take_batches())


# ── while others work ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@every_system
def test_workers_and_producers_of_the_original_continue_and_each_job_is_run_or_moved_once(
    system: MigratedSystem, client: Redis, url: str
) -> None:
    expected, ran, lock = system.plant(client, 300), Counter[bytes](), threading.Lock()
    for job in [job for job in expected if job.startswith(b"later")]:  # no dispatcher runs here
        client.zadd(dispatcher.DELAYED, {job: 0})
    for job in [job for job in expected if job.startswith(b"id-")]:  # bare, which a worker with messages discards
        client.lrem("list", 0, job)  # type: ignore[arg-type]
        del expected[job]
    stop, errors = threading.Event(), []

    def note(job: bytes) -> None:
        with lock:
            ran[job] += 1

    def work() -> None:
        with connect(url) as own:
            step = system.worker(own, note)
            while not stop.is_set():
                try:
                    step()
                except Exception as error:
                    errors.append(error)
                    return
                time.sleep(0.0005)

    def produce() -> None:
        with connect(url) as own:
            for number in range(300):
                job = system.put(own, number)
                with lock:
                    expected[job] += 1
                time.sleep(0.001)

    threads = [threading.Thread(target=target) for target in (work, work, produce)]
    for thread in threads:
        thread.start()
    moved = 0
    while threads[2].is_alive():
        moved += run(client, system).report.moved
    stop.set()
    for thread in threads:
        thread.join()
    moved += run(client, system).report.moved
    assert not errors
    assert copies(client) + ran == expected
    assert moved == copies(client).total() > 0
    assert count_jobs_left(client, system) == {}


def test_a_job_that_a_worker_takes_while_it_is_copied_stays_the_worker_s(
    client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    system, program = SYSTEMS[1], redisched.Scheduler(client, "mail")
    program.put("a", "one", delay_s=3600)
    program.put("b", "two", delay_s=3600)
    result, copied = migration(client, system), Migration._put_copies

    def then_a_worker_takes_one(self: Migration, *args: Any) -> list[str]:
        words = copied(self, *args)
        assert len(copies(client)) == 2
        client.zadd("__REDIS_SCHED_QUEUED__mail", {"a": 1}, xx=True)
        assert program.reserve(60_000) == (b"a", b"one")
        return words

    monkeypatch.setattr(Migration, "_put_copies", then_a_worker_takes_one)
    for _moved in result.move_jobs():
        monkeypatch.setattr(Migration, "_put_copies", copied)
    result.close()
    assert copies(client) == Counter([b"two"])
    assert {place: number for place, number in result.report.remaining.items() if number} == {"reserved": 1}
    assert result.report.skipped == []


def test_no_worker_of_the_target_can_run_a_copy_before_its_original_is_ended(
    client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant_orizuru(client, 10)
    result, copied = migration(client, SYSTEMS[3]), Migration._put_copies

    def check_and_copy(self: Migration, *args: Any) -> list[str]:
        ready = client.zcard("rqtui:{new}:ready")
        words = copied(self, *args)
        assert client.zcard("rqtui:{new}:ready") == ready
        held: Any = client.zrange("rqtui:{new}:scheduled", 0, -1, withscores=True)
        assert all(due > time.time() * 1000 + HOLD_MS - 60_000 for _id, due in held)
        return words

    monkeypatch.setattr(Migration, "_put_copies", check_and_copy)
    for _moved in result.move_jobs():
        pass
    result.close()
    assert client.zcard("rqtui:{new}:ready") == 10


# ── what cannot be taken ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_job_that_cannot_be_native_is_named_and_stays(client: Redis) -> None:
    system, program = SYSTEMS[1], redisched.Scheduler(client, "mail")
    program.put("x" * 600, "long", delay_s=-1)
    program.put("y" * 600, "long", delay_s=3600)
    program.put("fine", "body", delay_s=-1)
    client.zadd("__REDIS_SCHED_QUEUED__mail", {"ghost": 1_700_000_000_000})
    report = run(client, system).report
    assert report.moved == 1
    texts = {one.id[:5]: one.text for one in report.skipped}
    assert texts[b"xxxxx"] == texts[b"yyyyy"] == "its id has 600 bytes; a native id has 1 to 512"
    assert "no body" in texts[b"ghost"]
    assert len(report.skipped) == 3
    assert (report.remaining["due"], report.remaining["queued"], report.remaining["reserved"]) == (2, 1, 0)
    assert client.hget("__REDIS_SCHED_JOBS__mail", "x" * 600) == b"long"
    assert not report.is_complete


def test_jobs_that_cannot_move_do_not_block_those_that_can(client: Redis) -> None:
    """Several pages of jobs that are not due, with some on each that cannot be moved."""
    program = redisched.Scheduler(client, "mail")
    for n in range(900):
        program.put(f"{n}" if n % 3 else f"{n}".zfill(600), f"{n}", delay_s=3600 + n)
    report = run(client, SYSTEMS[1]).report
    assert (report.moved, len(report.skipped)) == (600, 300)
    assert copies(client) == Counter(b"%d" % n for n in range(900) if n % 3)
    assert client.hlen("__REDIS_SCHED_JOBS__mail") == client.zcard("__REDIS_SCHED_QUEUED__mail") == 300


def test_an_id_that_the_target_has_with_another_body_is_skipped_and_stays(client: Redis, url: str) -> None:
    redisched.Scheduler(client, "mail").put("a", "theirs", delay_s=-1)
    assert shell(url, "put", "native:new", '"another"', "--id", "a").code == 0
    report = run(client, SYSTEMS[1]).report
    assert (report.moved, [one.id for one in report.skipped]) == (0, [b"a"])
    assert "another body" in report.skipped[0].text
    assert copies(client) == Counter([b"another"])
    assert client.zcard("__REDIS_SCHED_RESERVED__mail") == 0
    assert client.zscore("__REDIS_SCHED_QUEUED__mail", "a") is not None


def test_a_second_entry_of_an_id_stays_until_the_first_is_done(client: Redis, url: str) -> None:
    for _ in range(2):
        safe_pop.push_message_id(client, "list", b"42")
    first = run(client, SYSTEMS[4]).report
    assert (first.moved, len(first.skipped)) == (1, 1)
    assert sum(first.remaining.values()) == 1
    assert shell(url, "act", "pull", "native:new", "--yes").code == 0
    assert run(client, SYSTEMS[4]).report.is_complete
    assert copies(client) == Counter([b"42"])


def test_over_maxmemory_nothing_is_lost(client: Redis, settings: Callable[[str, str], None]) -> None:
    planted = plant_dispatcher(client, 40)
    new_migration = migration(client, SYSTEMS[0])
    steps = new_migration.move_jobs()
    moved = next(steps)
    settings("maxmemory", "1")
    with pytest.raises((Refused, ServerError), match="maxmemory"):
        next(steps)
    settings("maxmemory", "0")
    new_migration.close()
    assert sum(new_migration.report.remaining.values()) == 40 - moved
    assert new_migration.report.remaining["leaving"] > 0
    assert run(client, SYSTEMS[0]).report.is_complete
    assert copies(client) == planted


def test_a_system_that_can_neither_lease_nor_set_aside_is_refused(client: Redis) -> None:
    new_engine = engine(client, SYSTEMS[0])
    system: System = new_engine.systems["dispatcher"]
    system.scripts = {name: script for name, script in system.scripts.items() if name != "forget"}
    with pytest.raises(UsageError, match="cannot be taken safely"):
        Migration(new_engine, SYSTEMS[0].ref, TARGET)


# ── the command ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def many(client: Redis) -> Iterator[int]:
    """Plant a list whose migration takes a while."""
    client.rpush(dispatcher.READY, *(b"%d" % n for n in range(30_000)))
    yield 30_000


def test_its_help_has_an_example() -> None:
    ran = shell("redis://127.0.0.1:1", "migrate", "--help")
    assert ran.code == 0
    assert "Example: rqtui migrate redisched:mail native:mail --dry-run" in " ".join(ran.out.split())


@every_system
def test_a_dry_run_counts_and_writes_nothing(system: MigratedSystem, client: Redis, url: str) -> None:
    system.plant(client, 30)
    before = keyspace.dump(client)
    ran = shell(url, "--system", system.spec, "migrate", str(system.ref), "native:new", "--dry-run", "--json")
    assert ran.code == 0, ran.err
    assert sum(ran.json["would"].values()) == 30
    assert (ran.json["moved"], ran.json["skipped"], ran.json["left"], ran.json["dry_run"]) == (0, [], 0, True)
    assert keyspace.diff(before, keyspace.dump(client)) == []


def test_a_dry_run_reports_what_would_stay_and_why(client: Redis, url: str) -> None:
    program = redisched.Scheduler(client, "mail")
    program.put("x" * 600, "long", delay_s=-1)
    program.put("busy", "body", delay_s=-1)
    program.reserve(60_000)
    program.reserve(60_000)
    program.put("y" * 600, "long", delay_s=3600)
    ran = shell(url, "migrate", "redisched:mail", "native:new", "--dry-run", "--json")
    assert ran.code == 1
    assert ran.json["would"] == {"queued": 0, "due": 0, "expired": 0}
    assert ran.json["left_places"] == {"queued": 1, "reserved": 2}
    assert ran.json["skipped"] == [{"id": "y" * 600, "text": "its id has 600 bytes; a native id has 1 to 512"}]


def test_the_document_reports_what_was_moved_and_the_exit_code_whether_all_was(client: Redis, url: str) -> None:
    program = redisched.Scheduler(client, "mail")
    program.put("a", "body", delay_s=-1)
    ran = shell(url, "migrate", "redisched:mail", "native:new", "--json")
    assert ran.code == 0, ran.err
    assert ran.json == {
        "source": "redisched:mail",
        "target": "native:new",
        "moved": 1,
        "known": 0,
        "finished": 0,
        "skipped": [],
        "losses": [],
        "left": 0,
        "left_places": {},
    }
    program.put("busy", "body", delay_s=-1)
    program.reserve(60_000)
    ran = shell(url, "migrate", "redisched:mail", "native:new")
    assert (ran.code, ran.out) == (1, "0 moved · left: 1 reserved\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("redisched:mail", "mail"), "the target is native:QUEUE"),
        (("redisched:mail", "orizuru:x"), "the target is native:QUEUE"),
        (("native:mail", "native:new"), "is a native queue already"),
        (("mail", "native:new"), "is a native queue already"),
        (("redisched:mail", "native:a b"), "is no queue name"),
    ],
)
def test_other_ways_round_are_refused_in_a_sentence(client: Redis, url: str, words: tuple[str, ...], said: str) -> None:
    ran = shell(url, "migrate", *words)
    assert ran.code == 2
    assert said in ran.err
    assert ran.out == ""
    assert client.dbsize() == 0


def test_read_only_refuses_it_and_allows_the_dry_run(client: Redis, url: str) -> None:
    plant_dispatcher(client, 5)
    before = keyspace.dump(client)
    words = ("--read-only", "migrate", "dispatcher:readytasklist", "native:new")
    ran = shell(url, *words)
    assert (ran.code, ran.err) == (1, "rqtui: migrate changes queues, and --read-only is set.\n")
    assert shell(url, *words, "--dry-run").code == 0
    assert keyspace.diff(before, keyspace.dump(client)) == []


def test_a_system_that_was_not_named_is_found_by_the_source(client: Redis, url: str) -> None:
    plant_dispatcher(client, 5)
    ran = shell(url, "--system", "redisched", "migrate", "dispatcher:readytasklist", "native:new", "--json")
    assert (ran.code, ran.json["moved"]) == (0, 5)


@pytest.mark.slow
def test_ctrl_c_ends_it_between_two_batches_and_it_continues_later(client: Redis, url: str, many: int) -> None:
    program = start_process(url, "migrate", "dispatcher:readytasklist", "native:new", "--json")
    wait_until(lambda: client.zcard("rqtui:{new}:ready") > 500)
    program.send_signal(signal.SIGINT)
    out, err = program.communicate(timeout=20)
    assert program.returncode == 130
    found = json.loads(out)
    assert b"stopped" in err
    assert 500 < found["moved"] < many
    assert found["moved"] + found["left"] == many
    assert client.zcard("rqtui:{new}:scheduled") == 0
    assert client.zcard("rqtui:{new}:ready") == found["moved"]
    assert shell(url, "migrate", "dispatcher:readytasklist", "native:new", "--json").json["left"] == 0
    assert copies(client) == Counter(b"%d" % n for n in range(many))


@pytest.mark.slow
@pytest.mark.parametrize("floors", [(500,), pytest.param((500, 6000, 12_000), marks=pytest.mark.matrix)], ids=str)
def test_a_killed_run_is_finished_by_the_next_one(client: Redis, url: str, many: int, floors: tuple[int, ...]) -> None:
    for floor in floors:
        program = start_process(url, "migrate", "dispatcher:readytasklist", "native:new")
        wait_until(lambda floor=floor: client.zcard("rqtui:{new}:ready") > floor)
        program.kill()
        program.communicate()
        client.delete("rqtui:{readytasklist}:migrator")  # fifteen seconds later
    ran = shell(url, "migrate", "dispatcher:readytasklist", "native:new", "--json")
    assert (ran.code, ran.json["left"]) == (0, 0)
    assert copies(client) == Counter(b"%d" % n for n in range(many))
    assert len(read_target_ids(client)) == many


@pytest.mark.slow
def test_when_redis_goes_away_the_document_reports_what_was_moved(client: Redis, url: str, many: int) -> None:
    program = start_process(url, "migrate", "dispatcher:readytasklist", "native:new", "--json")
    wait_until(lambda: client.zcard("rqtui:{new}:ready") > 500)
    while program.poll() is None:  # an idle connection is opened again without any effect
        client.client_kill_filter(_type="normal", skipme=True)
        time.sleep(0.001)
    out, err = program.communicate(timeout=20)
    assert program.returncode in (1, 3)
    assert json.loads(out)["moved"] > 0
    assert b"the same command continues where it stopped" in err
    client.delete("rqtui:{readytasklist}:migrator")
    assert shell(url, "migrate", "dispatcher:readytasklist", "native:new").code == 0
    assert copies(client) == Counter(b"%d" % n for n in range(many))


@pytest.mark.parametrize("source", ["nope:bar", ":bar"])
def test_a_source_of_no_system_is_answered_with_those_there_are(client: Redis, url: str, source: str) -> None:
    ran = shell(url, "migrate", source, "native:y")
    assert (ran.code, ran.out) == (2, "")
    assert "dispatcher, native, orizuru" in ran.err


def test_a_source_that_cannot_be_counted_ends_the_migration_and_is_not_reported_as_moved(
    client: Redis, url: str
) -> None:
    plant_dispatcher(client, 3)
    client.set("delayedtaskset", "mine")
    before = keyspace.dump(client)
    with pytest.raises(ServerError, match="delayedtaskset holds a string"):
        migration(client, SYSTEMS[0]).count_movable()
    for more in ((), ("--dry-run",)):
        ran = shell(url, "migrate", "dispatcher:readytasklist", "native:new", *more)
        assert ran.code != 0 and "holds a string" in ran.err, more
    assert keyspace.dump(client) == before
