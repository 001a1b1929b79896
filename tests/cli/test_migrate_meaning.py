"""A migration keeps what a job means: the same jobs run in the same order and as often, under the program that models
the original worker (`rqtui.scenarios.originals`) and under `rqtui work` after the migration."""

from __future__ import annotations

import ast
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from migration_runs import TARGET, list_jobs_by_first_run, run_jobs_until_queue_is_empty
from redis import Redis
from shell import shell
from versions import is_server_older

from rqtui.engine.engine import Engine
from rqtui.model import Job, Ref
from rqtui.operations.migration import Migration
from rqtui.scenarios.originals import (
    bullmq,
    celery,
    dispatcher,
    orizuru,
    redisched,
    rq,
    safe_pop,
    sidekiq,
    timeout_sets,
)
from rqtui.systems import registry
from rqtui.testing import keyspace

MANY = 7  # runs after which a job succeeds at last: more than the five that the native queue allows by default
AGE_S, ROUNDS = 5000, 10
Run = Callable[[str], bool]  # notes a run of a job, and says whether it succeeds


class Clock:
    """A clock that a test moves on."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead_s


@dataclass(frozen=True)
class System:
    """One system: its jobs as its own programs write them, and its worker."""

    spec: str
    queue: str
    plant: Callable[[Redis], None]
    work: Callable[[Redis, Run, Clock], Callable[[], object]]  # a turn of its worker, and of its scheduler
    by_body: bool = False  # its jobs have no ids: they are called by their bodies

    @property
    def name(self) -> str:
        return self.spec.partition(":")[0]

    @property
    def ref(self) -> Ref:
        return Ref(self.name, self.queue)


# ── the systems ──────────────────────────────────────────────────────────────────────────────────────────────────


def plant_bullmq(client: Redis) -> None:
    """Plant BullMQ jobs: priorities 1 to 7, without priority, one that goes first (lifo), delayed, with retries."""
    clock = Clock()
    clock.ahead_s = -AGE_S
    queue = bullmq.Queue(client, "mail", clock)
    queue.connect()
    for priority in (7, 3, 1, 5, 2, 6, 4):
        id = f"priority-{priority}"
        fields = queue.build_fields("send", {}, {"attempts": 1}, priority=priority)
        client.hset(f"bull:mail:{id}", mapping=fields)
        client.zadd("bull:mail:prioritized", {id: priority * 2**32 + priority})
    queue.add("once", "send", {}, {})
    queue.add("thrice", "send", {}, {"attempts": 3})
    queue.add("second-of-three", "send", {}, {"attempts": 3, "backoff": {"type": "fixed", "delay": 1000}}, atm=1)
    queue.add("later", "send", {}, {"attempts": 2}, delay_ms=(AGE_S + 3600) * 1000)
    client.hset("bull:mail:lifo", mapping=queue.build_fields("send", {}, {"lifo": True}))
    client.rpush("bull:mail:wait", "lifo")


def work_bullmq(client: Redis, run: Run, clock: Clock) -> Callable[[], object]:
    def perform(id: str, _name: str, _data: Any) -> None:
        if not run(id):
            raise bullmq.JobError("Error", "declined")

    return bullmq.Worker(client, "mail", "w1", perform, clock=clock).step


def plant_celery(client: Redis) -> None:
    """Plant Celery tasks in all four priority lists: one is retried, one has an ETA.

    In the list of priority 3 a task of priority 4 came first.
    """
    celery.declare_queue(client, "celery")
    for id, priority in (("a-9", 9), ("b-6", 6), ("c-4", 4), ("d-3", 3), ("e-0", 0), ("f-0", 0)):
        celery.publish_message(
            client, "celery", celery.build_task_message("shop.charge", id, "celery", [1], priority=priority)
        )
    celery.publish_message(
        client, "celery", celery.build_task_message("shop.charge", "g-retried", "celery", [1], retries=2)
    )
    celery.publish_message(
        client, "celery", celery.build_task_message("shop.charge", "h-later", "celery", [1], eta_s=time.time() + 3600)
    )


def work_celery(client: Redis, run: Run, clock: Clock) -> Callable[[], object]:
    def perform(headers: Any, _args: Any, _kwargs: Any) -> None:
        if not run(str(headers["id"])):
            raise celery.TaskError("ValueError", "declined", "Traceback")

    return celery.Worker(client, "celery", "w1", perform, clock=clock, prefetch=1).step


def plant_sidekiq(client: Redis) -> None:
    """Plant Sidekiq jobs: `retry: 3`, `retry: false`, a job that failed once, a scheduled job."""
    clock = Clock()
    clock.ahead_s = -AGE_S
    producer = sidekiq.Client(client, "mail", clock)
    producer.push(producer.build_item("charge", "ChargeJob", retry=False))
    producer.push(producer.build_item("four", "HardJob", retry=3))
    producer.push(producer.build_item("last", "HardJob", retry=0))
    failed = {"error_message": "boom", "error_class": "RuntimeError", "failed_at": 1.7e9, "retry_count": 0}
    client.zadd(
        "retry", {sidekiq.encode_item(producer.build_item("failed", "HardJob", retry=3, **failed)): time.time() + 900}
    )
    producer.push_in(AGE_S + 3600, producer.build_item("later", "HardJob", retry=1))


def work_sidekiq(client: Redis, run: Run, clock: Clock) -> Callable[[], object]:
    def perform(item: Any) -> None:
        if not run(str(item["jid"])):
            raise sidekiq.JobError("RuntimeError", "declined")

    turn = sidekiq.Process(client, "mail", "host", perform, clock=clock).step

    def step() -> object:
        sidekiq.enqueue_due_jobs(client, clock)
        return turn()

    return step


def plant_rq(client: Redis) -> None:
    """Plain ones, one at the front, retries at once and after a while, and a scheduled one."""
    clock = Clock()
    clock.ahead_s = -AGE_S
    queue = rq.Queue(client, "mail", clock)
    data = rq.encode_call("shop.charge", 1)
    queue.enqueue("charge", data, "shop.charge(1)")
    queue.enqueue("three", data, "shop.charge(1)", retries_left=2)
    queue.enqueue("waits", data, "shop.charge(1)", retries_left=2, retry_intervals="[60]")
    queue.enqueue("retried", data, "shop.charge(1)", retries_left=1, number_of_retries=2)
    queue.enqueue("front", data, "shop.charge(1)")
    client.lrem("rq:queue:mail", 0, "front")
    client.lpush("rq:queue:mail", "front")
    queue.enqueue_in(AGE_S + 3600, "later", data, "shop.charge(1)", retries_left=1)


def work_rq(client: Redis, run: Run, clock: Clock) -> Callable[[], object]:
    def perform(job: rq.Job) -> None:
        if not run(job.id):
            raise ValueError("declined")

    worker = rq.Worker(client, "mail", "w1", perform, clock=clock)
    worker.register()

    def step() -> object:
        rq.enqueue_due_jobs(client, "mail", "w1", clock)
        return worker.step()

    return step


def plant_dispatcher(client: Redis) -> None:
    client.rpush(dispatcher.READY, "first", "second", "third")
    dispatcher.put_delayed_task(client, b"later", time.time() + 3600)


def work_dispatcher(client: Redis, run: Run, clock: Clock) -> Callable[[], object]:
    moves = dispatcher.Dispatcher(client, clock=clock)
    worker = dispatcher.Worker(client, lambda body: run(body.decode()))

    def step() -> object:
        moves.step()
        return worker.step(0.05) or "idle"

    return step


def plant_redisched(client: Redis) -> None:
    program = redisched.Scheduler(client, "mail")
    for id, delay_s in (("second", -50), ("first", -AGE_S), ("third", -1), ("later", 3600)):
        program.put(id, id, delay_s=delay_s)


def work_redisched(client: Redis, run: Run, clock: Clock) -> Callable[[], object]:
    program = redisched.Scheduler(client, "mail", clock=clock)

    def step() -> object:
        program.requeue()
        found = program.reserve(60_000)
        if found is None:
            return "idle"
        if run(found[0].decode()):
            program.delete(found[0])
        return "ran"

    return step


def plant_orizuru(client: Redis) -> None:
    for name in ("first", "second", "third"):
        orizuru.push_job(client, "source", name)


def work_orizuru(client: Redis, run: Run, _clock: Clock) -> Callable[[], object]:
    consumer = orizuru.Worker(client, "source", "c1", lambda fields: None)

    def step() -> object:
        guard = consumer.take_next()
        if guard is None:
            return "idle"
        guard.ack() if run(orizuru.encode_struct(*guard.message).hex()) else guard.reject()
        return "ran"

    return step


def plant_safe_pop(client: Redis) -> None:
    for id in (b"first", b"second", b"third"):
        safe_pop.push_message_id(client, "list", id)


def work_safe_pop(client: Redis, run: Run, clock: Clock) -> Callable[[], object]:
    """Run the original's own loop, for ids without data."""
    worker = safe_pop.Worker(client, "list", lambda _id, _body: None, block_s=0, clock=clock, sleep=lambda _s: None)

    def step() -> object:
        if not client.llen("list"):
            return "idle"
        id = worker.safe_pop()
        if id is None:
            return "idle"
        if run(id.decode()):
            worker.mark_done(id)
        return "ran"

    return step


def plant_timeout_sets(client: Redis) -> None:
    timeout_sets.add_items(client, [17])


def work_timeout_sets(client: Redis, run: Run, _clock: Clock) -> Callable[[], object]:
    """Run a worker that fails and leaves its item and lock; the cleaner brings the item back when the lock expires."""

    class Declined(Exception):
        pass

    def perform(item: int) -> None:
        if not run(str(item)):
            raise Declined

    worker, cleaner = timeout_sets.Worker(client, work=perform), timeout_sets.Cleaner(client)

    def step() -> object:
        try:
            return worker.step() if client.scard("todos") else "idle"
        except Declined:
            client.delete("17-lock")
            cleaner.step()
            return "ran"

    return step


SYSTEMS = (
    System("bullmq", "mail", plant_bullmq, work_bullmq),
    System("celery", "celery", plant_celery, work_celery),
    System("sidekiq", "mail", plant_sidekiq, work_sidekiq),
    System("rq", "mail", plant_rq, work_rq),
    System("dispatcher", dispatcher.READY, plant_dispatcher, work_dispatcher, by_body=True),
    System("redisched:unit=ms", "mail", plant_redisched, work_redisched),
    System("orizuru:source=source", "source", plant_orizuru, work_orizuru, by_body=True),
    System("safe_pop:queue=list", "list", plant_safe_pop, work_safe_pop),
    System("timeout_sets", "todos", plant_timeout_sets, work_timeout_sets, by_body=True),
)
every_system = pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)


# ── what runs ────────────────────────────────────────────────────────────────────────────────────────────────────


def engine(client: Redis, spec: str) -> Engine:
    found = Engine(client, [registry.create_system("native"), registry.create_system(spec)])
    for _chunk in found.discover():
        pass
    return found


def under_the_original(client: Redis, system: System) -> list[str]:
    """Return the runs of the original's own worker in order. They fail until a job has run often enough."""
    ran: list[str] = []
    clock = Clock()

    def run(name: str) -> bool:
        ran.append(name)
        return ran.count(name) >= MANY

    step = system.work(client, run, clock)
    for _round in range(ROUNDS):
        while step() != "idle":
            pass
        clock.ahead_s += 7200  # what waits for its time, and every lease, is due
    return ran


def left_to_run(client: Redis) -> dict[str, int]:
    """By job of the target: how many runs it has left."""
    return {job.id.decode(): (job.max_attempts or 5) - job.attempts for job in list_target_jobs(client)}


def migrate_job(client: Redis, id: str) -> Job:
    found = engine(client, "native").fetch_job(TARGET, id.encode())
    assert found is not None, id
    return found


def migrate(url: str, system: System, *more: str, code: int = 0) -> Any:
    ran = shell(url, "--system", system.spec, "migrate", str(system.ref), str(TARGET), "--json", *more)
    assert ran.code == code, ran.err + ran.out
    return ran.json


@pytest.mark.slow
@every_system
def test_jobs_run_in_the_order_and_as_often_as_under_the_system_itself(
    system: System, client: Redis, url: str, tmp_path: Path
) -> None:
    system.plant(client)
    expected = under_the_original(client, system)
    client.flushall()
    system.plant(client)
    migrate(url, system)
    lines = run_jobs_until_queue_is_empty(client, url, tmp_path, succeeds_at=MANY, is_hex=system.name == "orizuru")
    runs = [line.partition(" ")[2] if system.by_body else line.partition(" ")[0] for line in lines]
    runs = [run for run in runs if system.by_body or run in set(expected)]  # a body may hold line breaks
    assert list_jobs_by_first_run(runs) == list_jobs_by_first_run(expected)
    assert Counter(runs) == Counter(expected)


PASSWORD = "sesame"


@every_system
def test_an_operator_of_both_queues_may_migrate(system: System, client: Redis, url: str) -> None:
    system.plant(client)
    migrate(url, system)
    expected = list_target_jobs(client)
    client.flushall()
    system.plant(client)
    mover = (
        "--system",
        system.spec,
        "--system",
        "native",
        "acl",
        "operator",
        str(system.ref),
        str(TARGET),
        "--user",
        "mover",
    )
    ran = shell(url, *mover, *(["--redis6"] if is_server_older(client, 7) else []))
    assert ran.code == 0, ran.err
    words = ran.out.strip().replace(">PASSWORD", f">{PASSWORD}").split(" ")
    client.execute_command(*(ast.literal_eval(f"b{word}") if word.startswith('"') else word for word in words))
    try:
        client.execute_command("ACL", "LOG", "RESET")
        migrate(url.replace("redis://", f"redis://mover:{PASSWORD}@"), system)
        assert [(job.body, job.attempts) for job in list_target_jobs(client)] == [
            (job.body, job.attempts) for job in expected
        ]
        entries = [dict(zip(entry[::2], entry[1::2], strict=True)) for entry in client.execute_command("ACL", "LOG")]
        denied = {entry[b"object"] for entry in entries}
        assert denied <= {b"scan"}, "only the search for other queues"
    finally:
        client.execute_command("ACL", "DELUSER", "mover")


@every_system
def test_a_dry_run_counts_what_the_real_run_moves(system: System, client: Redis, url: str) -> None:
    system.plant(client)
    before = keyspace.dump(client)
    dry = migrate(url, system, "--dry-run")
    assert keyspace.diff(before, keyspace.dump(client)) == []
    real = migrate(url, system)
    assert (sum(dry["would"].values()), dry["skipped"]) == (real["moved"], real["skipped"])


def test_a_charge_that_is_meant_to_run_once_is_allowed_one_run(client: Redis, url: str) -> None:
    for system, id in zip(SYSTEMS[:4], ("once", "e-0", "charge", "charge"), strict=True):
        client.flushall()
        system.plant(client)
        migrate(url, system)
        assert (system.name, left_to_run(client)[id]) == (system.name, 1)


def test_ages_and_due_times_continue(client: Redis, url: str) -> None:
    for system, old, later in (
        (SYSTEMS[0], "once", "later"),
        (SYSTEMS[2], "charge", "later"),
        (SYSTEMS[3], "front", "later"),
    ):
        client.flushall()
        system.plant(client)
        due_ms = (time.time() + 3600) * 1000
        migrate(url, system)
        now_ms = time.time() * 1000
        job = migrate_job(client, old)
        assert now_ms - (job.enqueued_ms or 0) >= AGE_S * 1000, system.name
        assert now_ms - (job.since_ms or 0) >= AGE_S * 1000, system.name
        assert abs((migrate_job(client, later).due_ms or 0) - due_ms) < 5000, system.name
    client.flushall()
    SYSTEMS[5].plant(client)
    migrate(url, SYSTEMS[5])
    assert abs(time.time() * 1000 - (migrate_job(client, "first").since_ms or 0) - AGE_S * 1000) < 60_000


def test_a_paused_source_is_reported_to_move_to_a_queue_that_is_not_paused(client: Redis, url: str) -> None:
    plant_bullmq(client)
    client.hset("bull:mail:meta", "paused", 1)
    words = ("migrate", "bullmq:mail", "native:new", "--dry-run")
    sentence = "bullmq:mail is paused and native:new is not: jobs may run as soon as they move."
    assert sentence in " ".join(shell(url, *words).err.split())
    shell(url, "put", "native:new", "1")
    shell(url, "act", "pause", "native:new", "--yes")
    assert sentence not in " ".join(shell(url, *words).err.split())


# ── dead jobs ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_dead_jobs_arrive_dead_with_their_error_and_do_not_run(client: Redis, url: str, tmp_path: Path) -> None:
    died_s = time.time() - AGE_S
    bull = bullmq.Queue(client, "mail")
    bull.connect()
    fields = bull.build_fields(
        "send", {}, {"attempts": 3}, atm=3, failedReason="declined", stacktrace='["Error: declined"]'
    )
    client.hset("bull:mail:b", mapping={**fields, "finishedOn": round(died_s * 1000)})
    client.zadd("bull:mail:failed", {"b": round(died_s * 1000)})
    producer = sidekiq.Client(client, "mail")
    failed = {"error_message": "declined", "error_class": "RuntimeError", "failed_at": died_s, "retry_count": 3}
    client.sadd("queues", "mail")
    client.zadd("dead", {sidekiq.encode_item(producer.build_item("s", "HardJob", retry=3, **failed)): died_s})
    queue = rq.Queue(client, "mail")
    pipe = client.pipeline()
    queue.save(pipe, "failed", "r", rq.encode_call("shop.charge"), "shop.charge()", ended_at=rq.format_time(died_s))
    pipe.zadd("rq:failed:mail", {"r": died_s + rq.FAILURE_S})
    pipe.xadd("rq:results:r", {"type": 2, "exc_string": rq.encode_traceback("Traceback\nValueError: declined")})
    pipe.execute()
    for system, id, attempts in ((SYSTEMS[0], "b", 3), (SYSTEMS[2], "s", 4), (SYSTEMS[3], "r", 1)):
        dry = migrate(url, system, "--dry-run")
        assert sum(dry["would"].values()) == migrate(url, system)["moved"] == 1, system.name
        job = migrate_job(client, id)
        assert (job.state, job.attempts, "declined" in job.error) == ("dead", attempts, True), system.name
        assert abs((job.since_ms or 0) - died_s * 1000) < 1000, system.name
    assert client.exists("dead", "rq:failed:mail", "bull:mail:failed", "bull:mail:b", "rq:job:r") == 0
    assert run_jobs_until_queue_is_empty(client, url, tmp_path) == []
    assert client.zcard("rqtui:{new}:dead") == 3


def test_a_dead_job_that_the_target_would_forget_at_once_stays(client: Redis, url: str) -> None:
    client.sadd("queues", "mail")
    item = sidekiq.Client(client, "mail").build_item("s", "HardJob", retry=3, retry_count=3)
    client.zadd("dead", {sidekiq.encode_item(item): time.time() - 40 * 86_400})
    assert "forgets what died so long ago" in migrate(url, SYSTEMS[2], code=1)["skipped"][0]["text"]
    assert client.zcard("dead") == 1
    assert client.exists("rqtui:{new}:dead") == 0


def test_a_run_that_ends_between_a_dead_copy_and_its_original_doubles_nothing(
    client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.sadd("queues", "mail")
    item = sidekiq.Client(client, "mail").build_item("s", "HardJob", retry=3, retry_count=3)
    client.zadd("dead", {sidekiq.encode_item(item): round(time.time()) - 60})
    broken = Migration(engine(client, "sidekiq"), SYSTEMS[2].ref, TARGET)

    def stop(*_args: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(broken, "_store_held_copy_entries", stop)
        with pytest.raises(KeyboardInterrupt):
            list(broken.move_jobs())
    assert (client.zcard("dead"), client.zcard("rqtui:{new}:dead")) == (1, 1)
    again = Migration(engine(client, "sidekiq"), SYSTEMS[2].ref, TARGET)
    list(again.move_jobs())
    again.close()
    assert (again.report.moved, again.report.already_copied, again.report.skipped) == (1, 1, [])
    assert (client.zcard("dead"), client.zcard("rqtui:{new}:dead")) == (0, 1)


def test_a_run_that_ends_before_its_copies_are_released_loses_no_order_and_no_attempt(
    client: Redis, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = SYSTEMS[0]
    plant_bullmq(client)
    migrate(url, system)
    expected = [(job.id, job.attempts, job.max_attempts, job.priority) for job in list_target_jobs(client)]
    client.flushall()
    plant_bullmq(client)
    broken = Migration(engine(client, system.spec), system.ref, TARGET)

    def stop(*_args: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(broken, "_release_held_copies", stop)
        with pytest.raises(KeyboardInterrupt):
            list(broken.move_jobs())
    assert client.exists("rqtui:{new}:ready") == 0
    migrate(url, system)
    assert [(job.id, job.attempts, job.max_attempts, job.priority) for job in list_target_jobs(client)] == expected
    assert all(
        time.time() * 1000 - (job.since_ms or 0) > AGE_S * 1000 for job in list_target_jobs(client) if not job.due_ms
    )
    assert client.keys("*:copies:*") == []


def list_target_jobs(client: Redis) -> list[Job]:
    """Return the jobs of the target queue, those that are due first."""
    native = engine(client, "native")
    return [job for place in ("ready", "scheduled") for job in native.fetch_page(TARGET, place, 0, 200).jobs]


# ── what the native queue cannot do ──────────────────────────────────────────────────────────────────────────────


def test_losses_are_listed_alike_by_dry_run_and_real_run_and_moved_only_with_lossy(client: Redis, url: str) -> None:
    bull = bullmq.Queue(client, "mail")
    bull.connect()
    bull.add("plain", "send", {}, {})
    bull.add("custom", "send", {}, {"attempts": 3, "backoff": {"type": "jittery", "delay": 5}})
    bull.add("deduplicated", "send", {}, {}, deid="x")
    fields = bull.build_fields("send", {}, {}, priority=9000)
    client.hset("bull:mail:far", mapping=fields)
    client.zadd("bull:mail:prioritized", {"far": 9000 * 2**32})
    dry = migrate(url, SYSTEMS[0], "--dry-run", code=1)
    texts = {one["id"]: one["text"] for one in dry["skipped"]}
    assert texts.keys() == {"custom", "deduplicated", "far"}
    assert "its back-off 'jittery' is a function of its worker" in texts["custom"]
    assert "deduplication" in texts["deduplicated"]
    assert "priority 9000 is outside of -4096 to 4095" in texts["far"]
    assert sum(dry["would"].values()) == 1
    real = migrate(url, SYSTEMS[0], code=1)
    assert (real["moved"], real["left"]) == (1, 3)
    assert {one["id"]: one["text"] for one in real["skipped"]} == texts
    lossy = migrate(url, SYSTEMS[0], "--lossy", "--dry-run")
    assert {one["id"]: one["text"] for one in lossy["losses"]} == texts
    done = migrate(url, SYSTEMS[0], "--lossy")
    assert (done["moved"], done["left"], {one["id"] for one in done["losses"]}) == (3, 0, texts.keys())
    assert migrate_job(client, "far").priority == 4095


def test_jobs_that_others_wait_for_stay_with_the_reason_even_if_losses_are_accepted(client: Redis, url: str) -> None:
    bull = bullmq.Queue(client, "mail")
    bull.connect()
    bull.add("child", "send", {}, {}, parentKey="bull:mail:parent")
    client.hset("bull:mail:parent", mapping=bull.build_fields("send", {}, {}))
    client.zadd("bull:mail:waiting-children", {"parent": round(time.time() * 1000)})
    client.sadd("bull:mail:parent:dependencies", "bull:mail:child")
    bull.add("ticks", "send", {}, {}, rjk="tick")
    queue, data = rq.Queue(client, "mail"), rq.encode_call("shop.charge")
    queue.enqueue("first", data, "shop.charge()")
    client.sadd("rq:job:first:dependents", "second")
    pipe = client.pipeline()
    queue.save(pipe, "deferred", "second", data, "shop.charge()", dependency_ids="first")
    pipe.zadd("rq:deferred:mail", {"second": time.time()})
    pipe.execute()
    for system, ids in ((SYSTEMS[0], {"child", "parent", "ticks"}), (SYSTEMS[3], {"first", "second"})):
        for more in ((), ("--dry-run",), ("--lossy",)):
            found = migrate(url, system, *more, code=1)
            assert {one["id"] for one in found["skipped"]} == ids, (system.name, more)
            assert found["moved"] == 0
    assert client.exists("rqtui:{new}:ready", "rqtui:{new}:scheduled") == 0


@pytest.mark.parametrize(
    ("headers", "embed", "said"),
    [
        ({"expires": "2040-01-01T00:00:00+00:00"}, {}, "it expires"),
        ({"group": "g1"}, {}, "the group g1"),
        ({}, {"chain": [{"task": "shop.next"}]}, "'chain'"),
        ({}, {"chord": {"task": "shop.total"}}, "'chord'"),
    ],
)
def test_a_celery_task_with_more_to_it_than_one_run_stays(
    client: Redis, url: str, headers: dict[str, object], embed: dict[str, object], said: str
) -> None:
    celery.declare_queue(client, "celery")
    message: Any = celery.build_task_message("shop.charge", "t", "celery", [1])
    message["headers"] |= headers
    message["body"] = celery.encode_body([[1], {}, embed])
    celery.publish_message(client, "celery", message)
    for more in (("--dry-run",), ()):
        [one] = migrate(url, SYSTEMS[1], *more, code=1)["skipped"]
        assert said in one["text"]


@pytest.mark.parametrize("field", ["bid", "unique_for", "lock", "expires_in", "retry_for"])
def test_a_sidekiq_job_with_a_promise_of_another_program_stays(client: Redis, url: str, field: str) -> None:
    producer = sidekiq.Client(client, "mail")
    producer.push(producer.build_item("s", "HardJob", **{field: "600"}))
    [one] = migrate(url, SYSTEMS[2], code=1)["skipped"]
    assert "would not hold" in one["text"]
    assert client.llen("queue:mail") == 1


@pytest.mark.parametrize(
    ("fields", "backoff"),
    [
        ({"retries_left": 2}, "0 0"),
        ({"retries_left": 3, "retry_intervals": "[60]"}, "60000 60000"),
        ({"retries_left": 3, "retry_intervals": "[10, 20, 40]"}, "10000 40000"),
        ({"retries_left": 2, "number_of_retries": 1, "retry_intervals": "[10, 20, 40]"}, "10000 40000"),
        ({"retries_left": 3, "retry_intervals": "[10, 15, 90]"}, ""),
        ({"success_callback_name": "shop.note"}, ""),
        ({"ttl": 60}, ""),
        ({"repeats_left": 2}, ""),
    ],
)
def test_a_back_off_of_rq_is_kept_where_it_is_constant_or_doubles(
    client: Redis, url: str, fields: dict[str, object], backoff: str
) -> None:
    rq.Queue(client, "mail").enqueue("r", rq.encode_call("shop.charge"), "shop.charge()", **fields)
    found = migrate(url, SYSTEMS[3], code=0 if backoff else 1)
    record = client.hget("rqtui:{new}:jobs", "r") or b""
    assert (found["moved"], len(found["skipped"])) == ((1, 0) if backoff else (0, 1))
    assert b" ".join(record.split(b" ")[5:7]) == backoff.encode()


def test_the_table_names_each_job_with_the_reason(client: Redis, url: str) -> None:
    bull = bullmq.Queue(client, "mail")
    bull.connect()
    bull.add("deduplicated", "send", {}, {}, deid="x")
    ran = shell(url, "migrate", "bullmq:mail", "native:new", "--dry-run")
    assert (ran.code, "deduplicated" in ran.out, "why it would stay" in ran.out) == (1, True, True)
    ran = shell(url, "migrate", "bullmq:mail", "native:new", "--lossy")
    assert (ran.code, "what it lost" in ran.out, "with losses: 1" in ran.out) == (0, True, True)
