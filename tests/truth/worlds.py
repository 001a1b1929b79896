"""The eleven queue systems for the truth suite: producers and workers that write what the systems' own programs write.

The programs of other systems are those of `rqtui.scenarios.originals`, but for arq; a world gives all of them one
interface and the simulated clock. A method that a system has no counterpart for raises `DoesNotApply` with the reason.
"""

from __future__ import annotations

import itertools
import json
import pickle
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple

from redis import Redis
from truth.simulated_clock import SimulatedClock

from rqtui.client.heartbeat import WORKER_TTL_MS
from rqtui.scenarios.originals import bullmq, celery, dispatcher, orizuru, redisched, rq, safe_pop, sidekiq
from rqtui.scenarios.originals import timeout_sets as sets
from rqtui.scripts import script as scripts

LEASE_MS = 30_000


class Error(NamedTuple):
    """The error of a failed attempt: its class and message, and the file and line that raised it."""

    kind: str
    message: str
    file: str
    line: int

    @property
    def trace(self) -> str:
        """The error as a traceback of Python."""
        place = f'  File "/srv/app/{self.file}.py", line {self.line}, in run\n    charge(card)\n'
        return f"Traceback (most recent call last):\n{place}{self.kind}: {self.message}\n"


TRACE = Error("KeyError", "'total'", "orders", 130)


class DoesNotApply(Exception):
    """Raised where a system has no counterpart of a step. The text is the reason."""


class Held(BaseException):
    """Raised by the simulated work of a job that does not end."""


def pass_time(seconds: float, step_s: float = 5.0) -> Iterator[float]:
    """Yield steps that add up to `seconds`."""
    yield from [step_s] * round(seconds / step_s)


class World:
    """One system in an empty database. `alive` are the workers that send heartbeats, by name."""

    system = ""
    queue = "mail"
    option = ""  # of `--system`
    slots = 5  # jobs that one worker runs at once
    keeps_failures = True  # False: the system stores no failed attempt
    keeps_ends = True  # False: the system stores neither when a job ended nor its error
    has_workers = True  # False: the system stores no list of workers
    stores_runs = True  # False: the system stores no kind of a job, or not when its run began
    names_workers = True  # a situation may set it to False where the system's workers need no name
    can_extend = True  # False: a worker cannot extend its lease, so that a long job is given out again

    def __init__(self, client: Redis, clock: SimulatedClock, url: str) -> None:
        self.client, self.clock, self.url = client, clock, url
        self.ids, self.database = itertools.count(1), url.rpartition("/")[2]
        self.alive: dict[str, Any] = {}
        self.holds: dict[str, list[Any]] = {}
        self.errors: Sequence[Error] = ()
        self.has_dispatcher = True
        self.prepare()

    @property
    def spec(self) -> str:
        """The value of `--system`."""
        return f"{self.system}:{self.option}" if self.option else self.system

    def prepare(self) -> None:
        """Make the queue exist, without a job."""

    def close(self) -> None:
        """Close the connections of the workers."""

    def start(self, *names: str) -> None:
        """Start workers."""
        for name in names:
            self.alive[name] = self.create_worker(name)
            self.holds[name] = []
        self.beat()

    def create_worker(self, name: str) -> Any:
        """Create a worker and register it."""
        return name

    def beat(self) -> None:
        """Do what the living programs do every few seconds: send heartbeats and move due jobs."""
        for name, worker in self.alive.items():
            self.beat_of(name, worker)
        if self.has_dispatcher:
            self.dispatch()

    def beat_of(self, name: str, worker: Any) -> None:
        """Send the heartbeat of one worker."""

    def dispatch(self) -> None:
        """Move due jobs, as the system's own program does."""

    def new_id(self) -> str:
        """Return an id that no other world of the test uses."""
        return f"job-{self.database}{next(self.ids):05d}"

    def put(self, number: int, kind: str = "send_mail", **options: Any) -> None:
        """Put jobs that are ready at once."""
        for _ in range(number):
            self.put_one(self.new_id(), kind, **options)

    def put_one(self, id: str, kind: str, **options: Any) -> None:
        """Put one job."""
        raise NotImplementedError

    def schedule(self, number: int, in_s: float) -> None:
        """Put jobs that are due later."""
        raise DoesNotApply("it has no scheduled jobs")

    def run(self, number: int, *errors: Error) -> None:
        """Let the living workers take and end jobs: each in turn with one of `errors`, or with success."""
        for at in range(number):
            self.run_one(self.pick(at), errors[at % len(errors)] if errors else None)

    def pick(self, at: int = 0) -> Any:
        """Return a living worker."""
        workers = [*self.alive.values()]
        return workers[at % len(workers)]

    def run_one(self, worker: Any, error: Error | None) -> None:
        """Let a worker take one job and end it for good."""
        raise NotImplementedError

    def retry(self, number: int, error: Error) -> None:
        """Let attempts fail that are tried again."""
        raise DoesNotApply("it has no retries")

    def hold(self, name: str, number: int) -> None:
        """Let a worker take jobs and go on running them."""
        raise DoesNotApply("it stores nothing about a job that runs")

    def kill(self, *names: str) -> None:
        """Kill workers with -9."""
        for name in names:
            del self.alive[name]

    def freeze(self, *names: str) -> None:
        """Stop workers with SIGSTOP: their connections stay."""
        World.kill(self, *names)

    def stop(self, *names: str) -> None:
        """Stop workers the polite way."""
        self.kill(*names)

    def quiet(self, *names: str) -> None:
        """Let workers take no more jobs."""
        raise DoesNotApply("a worker that takes no more jobs leaves no trace of that in Redis")

    def pause(self) -> None:
        """Pause the queue by a person."""
        raise DoesNotApply("it has no pause")

    def forget_done(self) -> None:
        """Let done jobs expire."""

    def fail_earlier(self, number: int, error: Error, ago_s: float) -> None:
        """Let jobs fail for good, some time ago."""
        if not self.keeps_failures:
            raise DoesNotApply("it keeps no failed jobs")
        self.clock.travel(-ago_s)
        self.start("earlier")
        self.put(number)
        self.run(number, error)
        self.stop("earlier")
        self.clock.travel(ago_s)

    def requeue_dead(self) -> None:
        """Requeue all dead jobs, as the system's own tool does."""
        raise DoesNotApply("it keeps no failed jobs")

    def limit(self, number: int) -> None:
        """Let at most so many jobs run at once, as a person sets it."""
        raise DoesNotApply("it has no limit of the whole queue")

    def starve(self) -> Iterator[float]:
        """Let one job wait while jobs that came later are taken, for longer than five minutes."""
        raise DoesNotApply("it takes the job first that came first")

    def start_schedule(self, every_s: int) -> None:
        """Start a program that puts a job again and again."""
        raise DoesNotApply("it has no schedules")

    def renew_schedule(self) -> None:
        """Let the program put its job, and note when the next one is due."""

    def stop_schedule(self) -> None:
        """Kill the program that puts the job."""

    def lose(self) -> Iterator[float]:
        """Let the system lose a job."""
        raise DoesNotApply("each step of its programs is atomic: no job gets lost")

    def fail_parent(self) -> None:
        """Let a job fail for good that three jobs wait for."""
        raise DoesNotApply("no job waits for another")

    def overrun(self) -> Iterator[float]:
        """Let a job run for longer than the time after which it is given out again, on a living worker."""
        raise DoesNotApply("it gives no running job out again")

    def run_twice(self, wait_s: int) -> Iterator[float]:
        """Let a worker hold a job until another worker gets it too."""
        self.start("w1", "w2")
        self.put(1)
        self.hold("w1", 1)
        yield from pass_time(wait_s)
        self.hold("w2", 1)

    def poison(self) -> Iterator[float]:
        """Let one job kill the two workers that run it, one after the other."""
        raise DoesNotApply("it does not give the job of a killed worker out again by itself")

    def put_retried(self, kind: str) -> None:
        """Put a job that may be tried many times."""
        self.put(1, kind)

    def storm(self, number: int) -> None:
        """Let the next jobs fail, and come back at once."""
        raise DoesNotApply("it has no retries")

    def spoil(self) -> None:
        """Put a key of another program where the queue's ready jobs are."""
        self.has_dispatcher = False
        self.alive.clear()  # The programs fail on that key.
        key = self.ready_key()
        self.client.delete(key)
        self.client.set(key, "another program's")

    def ready_key(self) -> str:
        """Return the key of the ready jobs."""
        return self.queue


class Native(World):
    """The queue of rqtui itself, by its scripts."""

    system = "native"
    _scripts: Mapping[str, Any] = scripts.load_scripts("native")
    _names = (
        "scheduled", "ready", "reserved", "done", "dead", "jobs", "bodies", "attempts", "errors", "meta", "events",
        "minutes", "workers", "wake",
    )  # fmt: skip

    def _call(self, verb: str, rows: Sequence[Any] = (), **args: Any) -> Any:
        keys = {name: f"rqtui:{{{self.queue}}}:{name}" for name in self._names}
        return scripts.run_call(self.client, self._scripts[verb].build_call(keys, args, rows))

    def prepare(self) -> None:
        self._call("resume")

    def beat_of(self, name: str, worker: Any) -> None:
        job = self.holds[name][0][0] if self.holds[name] else None
        self._call("beat", worker=name, ttl_ms=WORKER_TTL_MS, job=job)
        if self.holds[name]:
            rows = [{"id": id, "token": token} for id, token in self.holds[name]]
            self._call("extend", rows, ttr_ms=LEASE_MS)

    def dispatch(self) -> None:
        self._call("dispatch", limit=1000)
        self._call("reap", limit=1000)

    def put(self, number: int, kind: str = "send_mail", **options: Any) -> None:
        rows = [{"id": self.new_id().encode(), "body": b"{}", "name": kind, **options} for _ in range(number)]
        if rows:
            self._call("enqueue", rows)

    def schedule(self, number: int, in_s: float) -> None:
        self.put(number, delay_ms=int(in_s * 1000))

    def _take(self, name: str, number: int) -> list[tuple[bytes, str]]:
        return [row[:2] for row in self._call("reserve", limit=number, worker=name, ttr_ms=LEASE_MS).rows]

    def run(self, number: int, *errors: Error, is_final: bool = True) -> None:
        taken = self._take(next(iter(self.alive)), number) if number else []
        if errors:
            for at, (id, token) in enumerate(taken):
                row = {"id": id, "token": token, "error": errors[at % len(errors)].trace}
                self._call("reject", [row], final=is_final)
        elif taken:
            self._call("ack", [{"id": id, "token": token} for id, token in taken], keep_ms=600_000)

    def retry(self, number: int, error: Error) -> None:
        for id, token in self._take(next(iter(self.alive)), number):
            self._call("reject", [{"id": id, "token": token, "error": error.trace}], delay_ms=0)

    def hold(self, name: str, number: int) -> None:
        self.holds[name] += self._take(name, number)
        self.beat_of(name, name)

    def settle(self, name: str) -> None:
        self._call("ack", [{"id": id, "token": token} for id, token in self.holds[name]], keep_ms=600_000)
        self.holds[name] = []

    def stop(self, *names: str) -> None:
        for name in names:
            self._call("beat", worker=name, ttl_ms=WORKER_TTL_MS, leave=True)
        self.kill(*names)

    def quiet(self, *names: str) -> None:
        self._call("quiet", [{"worker": name} for name in names])

    def pause(self) -> None:
        self._call("pause")

    def requeue_dead(self) -> None:
        ids = self.client.zrange(f"rqtui:{{{self.queue}}}:dead", 0, -1)
        self._call("requeue", [{"id": id} for id in ids])

    def starve(self) -> Iterator[float]:
        self.start("w1", "w2")
        self.put(1, "report", priority=10)
        for _ in range(34):
            self.put(3, "send_mail", priority=-1)
            self.run(2)
            yield 10

    def overrun(self) -> Iterator[float]:
        self.start("w1", "w2")
        self.put(1)
        self._take("w1", 1)
        yield from (10, 10, 15)
        self._take("w2", 1)

    def poison(self) -> Iterator[float]:
        self.start("w1", "w2", "w3")
        self.put(1)
        for name in ("w1", "w2"):
            self.hold(name, 1)
            yield 5
            self.kill(name)
            yield from (10, 10, 15, 30)

    def put_retried(self, kind: str) -> None:
        self.put(1, kind, max_attempts=1000)

    def forget_done(self) -> None:
        ids = self.client.zrange(f"rqtui:{{{self.queue}}}:done", 0, -1)
        for hash in ("jobs", "bodies", "attempts"):
            self.client.hdel(f"rqtui:{{{self.queue}}}:{hash}", *ids)
        self.client.delete(f"rqtui:{{{self.queue}}}:done")

    def storm(self, number: int) -> None:
        for id, token in self._take(next(iter(self.alive)), number):
            self._call("reject", [{"id": id, "token": token, "error": TRACE.trace}], delay_ms=0)

    def ready_key(self) -> str:
        return f"rqtui:{{{self.queue}}}:ready"


class Rq(World):
    """RQ 3."""

    system = "rq"
    slots = 1

    def prepare(self) -> None:
        self.client.sadd(rq.QUEUES, rq.build_queue_key(self.queue))
        self.has_dispatcher = True

    def create_worker(self, name: str) -> Any:
        worker = rq.Worker(
            self.client, self.queue, name, self._work, clock=self.clock, host="shop", pid=4000, trace=str
        )
        worker.register()
        return worker

    def _work(self, _job: Any) -> None:
        if self.errors:
            raise RuntimeError(self.errors[0].trace)

    _state = "idle"

    def beat_of(self, name: str, worker: Any) -> None:
        if not self.holds[name]:
            worker._send_heartbeat(self._state, rq.IDLE_S)
        for job, execution in self.holds[name]:
            lease_s = rq.compute_lease_s(job.timeout_s)
            pipe = self.client.pipeline()
            pipe.zadd(f"rq:wip:{self.queue}", {f"{job.id}:{execution}": int(self.clock()) + lease_s})
            pipe.hset(f"rq:execution:{job.id}:{execution}", "last_heartbeat", self.clock())
            pipe.expire(f"rq:execution:{job.id}:{execution}", lease_s)
            pipe.hset(rq.build_worker_key(name), "last_heartbeat", rq.format_time(self.clock()))
            pipe.expire(rq.build_worker_key(name), lease_s)
            pipe.execute()

    def dispatch(self) -> None:
        if self.alive:
            rq.enqueue_due_jobs(self.client, self.queue, "scheduler", self.clock)

    def put_one(self, id: str, kind: str, **fields: Any) -> None:
        function = f"shop.{kind}"
        rq.Queue(self.client, self.queue, self.clock).enqueue(
            id, rq.encode_call(function, 1), rq.format_call(function, 1), **fields
        )

    def schedule(self, number: int, in_s: float) -> None:
        for _ in range(number):
            rq.Queue(self.client, self.queue, self.clock).enqueue_in(
                in_s, self.new_id(), rq.encode_call("shop.remind", 1), "shop.remind(1)"
            )

    def run_one(self, worker: Any, error: Error | None) -> None:
        self.errors = (error,) if error else ()
        if self.client.llen(rq.build_queue_key(self.queue)):
            worker.step()

    def retry(self, number: int, error: Error) -> None:
        """Let first attempts fail whose retry comes at once: `Retry(max=1)`."""
        key = rq.build_queue_key(self.queue)
        for at, id in enumerate(self.client.lrange(key, 0, number - 1)):
            self.client.hset(rq.build_job_key(id.decode()), "retries_left", 1)
            self.run_one(self.pick(at), error)

    def hold(self, name: str, number: int) -> None:
        for _ in range(number):
            key = rq.build_queue_key(self.queue)
            id = self.client.lmove(key, f"{key}:intermediate", "LEFT", "RIGHT").decode()
            job = rq.Job.from_fields(id, self.client.hgetall(rq.build_job_key(id)))
            self.holds[name].append((job, self.alive[name].begin(job)))

    def stop(self, *names: str) -> None:
        for name in names:
            self.alive[name].unregister()
        self.kill(*names)

    def pause(self) -> None:
        self.client.set(rq.SUSPENDED, 1)

    def forget_done(self) -> None:
        ids = self.client.zrange(f"rq:finished:{self.queue}", 0, -1)
        self.client.delete(f"rq:finished:{self.queue}", *(rq.build_job_key(id.decode()) for id in ids))

    def requeue_dead(self) -> None:
        for id in self.client.zrange(f"rq:failed:{self.queue}", 0, -1):
            self.client.zrem(f"rq:failed:{self.queue}", id)
            self.client.hset(rq.build_job_key(id.decode()), "status", "queued")
            self.client.hset(rq.build_job_key(id.decode()), "enqueued_at", rq.format_time(self.clock()))
            self.client.rpush(rq.build_queue_key(self.queue), id)

    def limit(self, number: int) -> None:
        """Give a job the rate limit `smtp`: RQ 3 holds those beyond it in no place of the queue."""
        self.client.sadd("rq:rl-keys", "smtp")
        self.client.hset("rq:rl:smtp", "concurrency", number)
        for _ in range(5):
            id, call = self.new_id(), rq.encode_call("shop.send_mail", 1)
            limit = {"rate_limit_key": "smtp", "rate_limit_concurrency": number}
            producer = rq.Queue(self.client, self.queue, self.clock)
            producer.save(self.client, "rate_limited", id, call, "shop.send_mail(1)", **limit)
            self.client.zadd("rq:rl:smtp:rate_limited", {id: self.clock()})

    def starve(self) -> Iterator[float]:
        """Let two workers run jobs of another queue, which they list first."""
        self.start("w1", "w2")
        self._state = "busy"
        for name in ("w1", "w2"):
            self.client.hset(rq.build_worker_key(name), "queues", f"high,{self.queue}")
        self.put(5)
        for _ in range(34):
            yield 10

    def start_schedule(self, every_s: int) -> None:
        self._every_s = every_s
        self.renew_schedule()

    def renew_schedule(self) -> None:
        job = {
            "func_name": "shop.report", "name": "report", "queue_name": self.queue, "interval": self._every_s,
            "next_enqueue_time": rq.format_time(self.clock() + self._every_s),
            "latest_enqueue_time": rq.format_time(self.clock()),
        }  # fmt: skip
        self.client.zadd("rq:cron_schedulers", {"shop:1:aa": self.clock()})
        fields = {"hostname": "shop", "pid": "1", "cron_jobs": json.dumps([job])}
        self.client.hset("rq:cron_scheduler:shop:1:aa", mapping=fields)
        self.client.expire("rq:cron_scheduler:shop:1:aa", 120)

    def lose(self) -> Iterator[float]:
        self.start("w1", "w2")
        self.put(1)
        self.client.lmove(self.ready_key(), f"{self.ready_key()}:intermediate", "LEFT", "RIGHT")
        self.kill("w1", "w2")
        self.client.delete(rq.build_worker_key("w1"), rq.build_worker_key("w2"))
        yield 60

    def fail_parent(self) -> None:
        parent = self.new_id()
        self.put_one(parent, "charge")
        for _ in range(3):
            id, call = self.new_id(), rq.encode_call("shop.send_mail", 1)
            waits = {"dependency_id": parent, "dependency_ids": json.dumps([parent])}
            producer = rq.Queue(self.client, self.queue, self.clock)
            producer.save(self.client, "deferred", id, call, "shop.send_mail(1)", **waits)
            self.client.zadd(f"rq:deferred:{self.queue}", {id: self.clock()})
            self.client.sadd(f"rq:job:{parent}:dependents", id)
            self.client.sadd(f"rq:job::{id}:dependencies", parent)
        self.run(1, TRACE)

    def poison(self) -> Iterator[float]:
        """Let a job with retries kill two workers; another worker that starts gives it out again."""
        self.start("w1", "w2", "w3")
        self.put(1, retries_left=2)
        for name in ("w1", "w2"):
            self.hold(name, 1)
            yield 5
            self.kill(name)
            yield from [10] * 10
            rq.clean_registries(self.client, self.queue, self.clock)

    def storm(self, number: int) -> None:
        key = rq.build_queue_key(self.queue)
        for at, id in enumerate(self.client.lrange(key, 0, number - 1)):
            self.client.hset(rq.build_job_key(id.decode()), "retries_left", 90)
            self.run_one(self.pick(at), TRACE)

    def ready_key(self) -> str:
        return rq.build_queue_key(self.queue)


class Sidekiq(World):
    """Sidekiq 8."""

    system = "sidekiq"

    def prepare(self) -> None:
        self.client.sadd("queues", self.queue)
        self._quiet: set[str] = set()
        self._numbers = itertools.count(1)
        self._rng = random.Random(1)

    def create_worker(self, name: str) -> Any:
        number = next(self._numbers)
        return sidekiq.Process(
            self.client, self.queue, name, self._work, clock=self.clock, number=number, threads=self.slots
        )

    def _work(self, _item: Any) -> None:
        self.clock.travel(0.01)  # Sidekiq stores how long the runs of a class took
        if self.errors:
            error = self.errors[0]
            raise sidekiq.JobError(error.kind, error.message, f"/srv/app/{error.file}.rb:{error.line}:in `perform'")

    def beat_of(self, name: str, worker: Any) -> None:
        worker.beat()
        if name in self._quiet:
            self.client.hset(worker.identity, "quiet", "true")

    def dispatch(self) -> None:
        if self.alive:
            sidekiq.enqueue_due_jobs(self.client, self.clock)

    def put_one(self, id: str, kind: str, **more: Any) -> None:
        producer = sidekiq.Client(self.client, self.queue, self.clock)
        producer.push(producer.build_item(id, kind.title().replace("_", ""), 1, **{"retry": 0, **more}))

    def schedule(self, number: int, in_s: float) -> None:
        producer = sidekiq.Client(self.client, self.queue, self.clock)
        for _ in range(number):
            producer.push_in(in_s, producer.build_item(self.new_id(), "Remind", 1))

    def run_one(self, worker: Any, error: Error | None) -> None:
        self.errors = (error,) if error else ()
        if self.client.llen(f"queue:{self.queue}"):
            worker.step()

    def retry(self, number: int, error: Error) -> None:
        key = f"queue:{self.queue}"
        for at in range(number):
            item = json.loads(self.client.rpop(key))
            self.client.rpush(key, sidekiq.encode_item({**item, "retry": True}))
            self.run_one(self.pick(at), error)

    def hold(self, name: str, number: int) -> None:
        for _ in range(number):
            payload = self.client.rpop(f"queue:{self.queue}")
            self.holds[name].append(self.alive[name].begin(payload))
        self.beat()

    def stop(self, *names: str) -> None:
        for name in names:
            self.alive[name].leave()
        self.kill(*names)

    def quiet(self, *names: str) -> None:
        self._quiet |= {*names}
        self.beat()

    def requeue_dead(self) -> None:
        for member in self.client.zrange("dead", 0, -1):
            self.client.zrem("dead", member)
            sidekiq.Client(self.client, self.queue, self.clock).push(json.loads(member))

    def limit(self, number: int) -> None:
        raise DoesNotApply("limits are in its paid editions")

    def start_schedule(self, every_s: int) -> None:
        """Store a schedule of sidekiq-scheduler, which the processes run."""
        self._every_s = every_s
        job = {"class": "Report", "queue": self.queue, "every": f"{every_s}s"}
        self.client.hset("schedules", "report", json.dumps(job))
        self.renew_schedule()

    def renew_schedule(self) -> None:
        at = datetime.fromtimestamp(self.clock(), UTC)
        self.client.hset("sidekiq-scheduler:last_times", "report", f"{at:%Y-%m-%d %H:%M:%S %z}")
        after = datetime.fromtimestamp(self.clock() + self._every_s, UTC)
        self.client.hset("sidekiq-scheduler:next_times", "report", f"{after:%Y-%m-%d %H:%M:%S %z}")

    def stop_schedule(self) -> None:
        self.stop(*self.alive)

    def lose(self) -> Iterator[float]:
        self.start("w1", "w2")
        self.put(2)
        self.hold("w1", 2)
        yield 10
        self.has_dispatcher = False
        self.kill("w1")
        yield 30

    def overrun(self) -> Iterator[float]:
        raise DoesNotApply("it gives no running job out again")

    def storm(self, number: int) -> None:
        """Let jobs fail whose `sidekiq_retry_in` is 0: the poller puts them back at once."""
        for at in range(number):
            item = json.loads(self.client.rpop(f"queue:{self.queue}") or "null")
            if item:
                self.client.rpush(f"queue:{self.queue}", sidekiq.encode_item({**item, "retry": True}))
                self.run_one(self.pick(at), TRACE)
        for member in self.client.zrange("retry", 0, -1):
            self.client.zadd("retry", {member: self.clock()})
        sidekiq.enqueue_due_jobs(self.client, self.clock)

    def ready_key(self) -> str:
        return f"queue:{self.queue}"


class Celery(World):
    """Celery 5.7 with events (`-E`) and results in Redis."""

    system = "celery"

    def prepare(self) -> None:
        celery.declare_queue(self.client, self.queue)

    def create_worker(self, name: str) -> Any:
        worker = celery.Worker(self.client, self.queue, name, self._work, clock=self.clock, prefetch=self.slots)
        worker.begin()
        return worker

    def _work(self, *_args: Any) -> None:
        if self.errors:
            error, retry_s = self.errors[0], self._retry_s
            raise celery.TaskError(error.kind, error.message, error.trace, retry_s)

    _retry_s: float | None = None

    def beat_of(self, name: str, worker: Any) -> None:
        worker.run_background_step(self.client)

    def put_one(self, id: str, kind: str, **more: Any) -> None:
        celery.publish_message(
            self.client, self.queue, celery.build_task_message(f"shop.{kind}", id, self.queue, [1], **more)
        )

    def schedule(self, number: int, in_s: float) -> None:
        """Put jobs with an ETA of at most half an hour: a later one is a fault below a longer `visibility_timeout`."""
        for _ in range(number):
            self.put_one(self.new_id(), "remind", eta_s=self.clock() + min(in_s, 1800))
        for worker in self.alive.values():  # Workers hold the messages with an ETA.
            worker._fetch_messages(0.0)

    def run_one(self, worker: Any, error: Error | None) -> None:
        self.errors = (error,) if error else ()
        if worker._ready or self.client.llen(self.queue):
            worker._prefetch = 1
            worker.step()
            worker._prefetch = self.slots

    def retry(self, number: int, error: Error) -> None:
        self._retry_s = 1.0
        for at in range(number):
            self.run_one(self.pick(at), error)
        self._retry_s = None

    def hold(self, name: str, number: int) -> None:
        worker = self.alive[name]
        worker._prefetch = number
        worker._fetch_messages(0.0)
        first = worker._pop_next_due_message()
        worker._running = worker.last_id = first.id
        worker._publish_event("task-started", first.id)
        worker._send_task_events()
        self.holds[name].append(first)

    def kill(self, *names: str) -> None:
        for name in names:
            self.alive[name].die()
        super().kill(*names)

    def stop(self, *names: str) -> None:
        for name in names:
            self.alive.pop(name).leave()

    def quiet(self, *names: str) -> None:
        for name in names:
            self.alive[name]._is_consuming = False

    def requeue_dead(self) -> None:
        raise DoesNotApply("it has no tool that requeues a failed task")

    def limit(self, number: int) -> None:
        raise DoesNotApply("the rate limit of a task is in its workers: Redis stores none")

    def starve(self) -> Iterator[float]:
        """Let a message of a lower priority wait while those of a higher one are taken."""
        self.start("w1", "w2")
        self.put_one(self.new_id(), "report", priority=9)
        for _ in range(34):
            self.put(3)
            for at in range(2):
                self.run_one(self.pick(at), None)
            yield 10

    def start_schedule(self, every_s: int) -> None:
        raise DoesNotApply("celery beat stores its schedules in a file")

    def lose(self) -> Iterator[float]:
        """Kill a worker that acked its task before it ran it, as Celery does unless `acks_late` is set."""
        self.start("w1", "w2")
        self.put(1)
        self.hold("w1", 1)
        celery.ack_message(self.client, self.holds["w1"][0].tag)
        yield 5
        self.kill("w1")
        yield from (10, 10, 10, 20)

    def overrun(self) -> Iterator[float]:
        """Let a program with a shorter `visibility_timeout` give out a message that is still running."""
        self.start("w1", "w2")
        self.put(1)
        self.hold("w1", 1)
        yield from (10, 10)
        celery.restore_message(self.client, self.holds["w1"][0].tag)
        self.hold("w2", 1)

    def storm(self, number: int) -> None:
        """Let tasks fail that are retried without a countdown."""
        self._retry_s = 0.0
        for at in range(number):
            self.run_one(self.pick(at), TRACE)
        self._retry_s = None

    def forget_done(self) -> None:
        for key in self.client.scan_iter("celery-task-meta-*"):
            self.client.delete(key)


class BullMQ(World):
    """BullMQ 6.7, without the option `metrics`, as it is by default."""

    system = "bullmq"

    def prepare(self) -> None:
        self._queue = bullmq.Queue(self.client, self.queue, self.clock)
        self._queue.connect()
        self.connections: list[Redis] = []

    def close(self) -> None:
        for connection in self.connections:
            connection.close()

    def create_worker(self, name: str) -> Any:
        connection = Redis.from_url(self.url, single_connection_client=True)
        shown_name = name if self.names_workers else ""
        worker = bullmq.Worker(self.client, self.queue, shown_name, self._work, clock=self.clock, uuid=f"{name}-4b1d")
        worker.connection = connection  # type: ignore[attr-defined]
        self.connections.append(connection)
        connection.client_setname(bullmq.build_connection_name(self.queue, shown_name))
        return worker

    def _work(self, *_job: Any) -> None:
        if self.errors:
            error = self.errors[0]
            raise bullmq.JobError(error.kind, error.message, f"run (/srv/app/{error.file}.js:{error.line}:9)")

    def beat_of(self, name: str, worker: Any) -> None:
        for id, token in self.holds[name]:
            self.client.set(f"{self._queue.p}{id}:lock", token, px=bullmq.LOCK_MS)
        self._queue.move_stalled_jobs()

    def put_one(self, id: str, kind: str, **opts: Any) -> None:
        self._queue.add(id, kind, {"to": "ada"}, opts)

    def schedule(self, number: int, in_s: float) -> None:
        for _ in range(number):
            self._queue.add(self.new_id(), "remind", {}, {"delay": 1}, int(in_s * 1000))

    def run_one(self, worker: Any, error: Error | None) -> None:
        self.errors = (error,) if error else ()
        p = self._queue.p
        if self.client.llen(f"{p}wait") or self.client.zcard(f"{p}prioritized"):
            worker.step()
            self.client.delete(f"{p}metrics:completed", f"{p}metrics:failed")

    def retry(self, number: int, error: Error) -> None:
        p = self._queue.p
        for at, id in enumerate(reversed(self.client.lrange(f"{p}wait", -number, -1))):
            self.client.hset(f"{p}{id.decode()}", "opts", '{"attempts":2,"backoff":{"type":"fixed","delay":1000}}')
            self.run_one(self.pick(at), error)

    def dispatch(self) -> None:
        """Move due jobs, as a worker does that waits for the next one."""
        due = self.client.zrangebyscore(f"{self._queue.p}delayed", 0, (self._queue.read_clock_ms() + 1) * 4096)
        if self.alive and due:
            for id in due:
                self.client.zrem(f"{self._queue.p}delayed", id)
                self.client.lpush(f"{self._queue.p}wait", id)

    def hold(self, name: str, number: int) -> None:
        for _ in range(number):
            id, token, _fields = self.alive[name].take()
            self.holds[name].append((id, token))

    def kill(self, *names: str) -> None:
        for name in names:
            self.alive[name].connection.close()
        super().kill(*names)

    def pause(self) -> None:
        self.client.hset(f"{self._queue.p}meta", "paused", 1)

    def forget_done(self) -> None:
        ids = self.client.zrange(f"{self._queue.p}completed", 0, -1)
        self.client.delete(f"{self._queue.p}completed", *(f"{self._queue.p}{id.decode()}" for id in ids))

    def requeue_dead(self) -> None:
        p = self._queue.p
        for id in self.client.zrange(f"{p}failed", 0, -1):
            self.client.zrem(f"{p}failed", id)
            self.client.hdel(f"{p}{id.decode()}", "finishedOn", "processedOn", "failedReason", "returnvalue")
            self.client.lpush(f"{p}wait", id)

    def limit(self, number: int) -> None:
        self.client.hset(f"{self._queue.p}meta", "concurrency", number)

    def starve(self) -> Iterator[float]:
        self.start("w1", "w2")
        self._queue.add(self.new_id(), "report", {}, {"priority": 10})
        for _ in range(34):
            for _job in range(3):
                self._queue.add(self.new_id(), "send_mail", {}, {"priority": 1})
            self.run(2)
            yield 10

    def start_schedule(self, every_s: int) -> None:
        self._every_s = every_s
        self.renew_schedule()

    def renew_schedule(self) -> None:
        p, due_ms = self._queue.p, self._queue.read_clock_ms() + self._every_s * 1000
        self.client.zadd(f"{p}repeat", {"report": due_ms})
        every = {"name": "report", "every": self._every_s * 1000, "ic": 1}
        self.client.hset(f"{p}repeat:report", mapping=every)
        self._queue.add(f"repeat:report:{due_ms}", "report", {}, {}, self._every_s * 1000, rjk="report")

    def stop_schedule(self) -> None:
        """Remove the next job, as a person does who cleans the delayed jobs."""
        p = self._queue.p
        for id in self.client.zrange(f"{p}delayed", 0, -1):
            self.client.zrem(f"{p}delayed", id)
            self.client.delete(f"{p}{id.decode()}")

    def lose(self) -> Iterator[float]:
        self.start("w1")
        self.client.set(f"{self._queue.p}id", 1)
        self.put_one("1", "send_mail")
        self.client.lrem(f"{self._queue.p}wait", 1, "1")
        yield 20

    def fail_parent(self) -> None:
        p = self._queue.p
        for at in range(3):
            parent, child = f"order-{at}", self.new_id()
            self.client.hset(f"{p}{parent}", mapping=self._queue.build_fields("order", {}, {}))
            self.client.zadd(f"{p}waiting-children", {parent: self._queue.read_clock_ms()})
            self.client.sadd(f"{p}{parent}:dependencies", f"{p}{child}")
            self._queue.add(child, "charge", {}, {}, parentKey=f"{p}{parent}")
        self.run(3, TRACE)

    def overrun(self) -> Iterator[float]:
        """Let a worker's event loop be blocked for longer than its lock: another worker takes the job."""
        self.start("w1", "w2")
        self.put(1)
        self.hold("w1", 1)
        self.holds["w1"].clear()
        while not self.client.llen(f"{self._queue.p}wait"):
            yield 10
        self.hold("w2", 1)

    def poison(self) -> Iterator[float]:
        self.start("w1", "w2", "w3")
        self.put(1)
        for name in ("w1", "w2"):
            self.hold(name, 1)
            yield 5
            self.kill(name)
            while not self.client.llen(f"{self._queue.p}wait"):
                yield 10

    def storm(self, number: int) -> None:
        """Let jobs fail that are tried again without a delay."""
        p = self._queue.p
        for at, id in enumerate(reversed(self.client.lrange(f"{p}wait", -number, -1))):
            self.client.hset(f"{p}{id.decode()}", "opts", '{"attempts":100}')
            self.run_one(self.pick(at), TRACE)

    def ready_key(self) -> str:
        return f"{self._queue.p}wait"


class Dispatcher(World):
    """redis_queue_dispatcher."""

    stores_runs = False
    system = "dispatcher"
    queue = dispatcher.READY
    option = f"ready={dispatcher.READY}"
    keeps_failures = has_workers = False

    def prepare(self) -> None:
        self._program = dispatcher.Dispatcher(self.client, clock=self.clock, batch=1000)

    def create_worker(self, name: str) -> Any:
        return dispatcher.Worker(self.client)

    def dispatch(self) -> None:
        self._program.step()

    def put_one(self, id: str, kind: str, **_options: Any) -> None:
        self.client.rpush(dispatcher.READY, f"{kind}:{id}")

    def schedule(self, number: int, in_s: float) -> None:
        for _ in range(number):
            dispatcher.put_delayed_task(self.client, b"remind:%d" % next(self.ids), int(self.clock() + in_s))

    def run_one(self, worker: Any, error: Error | None) -> None:
        worker.step()


class Orizuru(World):
    """Orizuru, whose consumers register and send heartbeats."""

    stores_runs = False
    system = "orizuru"
    queue = "jobs"
    option = "source=jobs"
    keeps_ends = False

    def create_worker(self, name: str) -> Any:
        worker = orizuru.Worker(self.client, self.queue, name)
        worker.register()
        return worker

    def beat_of(self, name: str, worker: Any) -> None:
        worker.beat()

    def put_one(self, id: str, kind: str, **_options: Any) -> None:
        orizuru.push_job(self.client, self.queue, kind, id)

    def run_one(self, worker: Any, error: Error | None) -> None:
        if self.client.llen(self.queue) and (guard := worker.take_next()):
            guard.reject() if error else guard.ack()

    def hold(self, name: str, number: int) -> None:
        self.holds[name] += [self.alive[name].take_next() for _ in range(number)]

    def stop(self, *names: str) -> None:
        for name in names:
            self.alive[name].stop()
        self.kill(*names)

    def requeue_dead(self) -> None:
        for key in self.client.scan_iter("orizuru:consumers:*:unacked"):
            while body := self.client.rpop(key):
                self.client.lpush(self.queue, body)


class Redisched(World):
    """redisched, with the glue of Node."""

    stores_runs = False
    system = "redisched"
    option = "topic=mail"
    keeps_failures = has_workers = can_extend = False

    def prepare(self) -> None:
        self._program = redisched.Scheduler(self.client, self.queue, clock=self.clock)

    def dispatch(self) -> None:
        self._program.requeue()

    def put_one(self, id: str, kind: str, **_options: Any) -> None:
        self._program.put(id, json.dumps({"kind": kind}))

    def schedule(self, number: int, in_s: float) -> None:
        for _ in range(number):
            self._program.put(self.new_id(), "{}", in_s)

    def run_one(self, worker: Any, error: Error | None) -> None:
        found = self._program.reserve(redisched.TTR["ms"])
        if found and error is None:
            self._program.delete(found[0])

    def overrun(self) -> Iterator[float]:
        yield from self.run_twice(70)

    def poison(self) -> Iterator[float]:
        """Let a job go out to a second worker after its first one died."""
        yield from self.run_twice(70)
        self.kill("w1", "w2")
        yield 5

    def hold(self, name: str, number: int) -> None:
        for _ in range(number):
            found = self._program.reserve(redisched.TTR["ms"])
            self.holds[name].append(found and found[0])

    def ready_key(self) -> str:
        return f"__REDIS_SCHED_QUEUED__{self.queue}"


class SafePop(World):
    """redis-queue."""

    stores_runs = False
    system = "safe_pop"
    queue = "crawl"
    option = "queue=crawl"
    keeps_failures = has_workers = can_extend = False

    def run(self, number: int, *errors: Error) -> None:
        """Run jobs, and drop the entries of done jobs, as the workers do that pop them again."""
        super().run(number, *errors)
        for id in self.client.smembers(f"{self.queue}:done"):
            for entry in self.client.lrange(self.queue, 0, -1):
                if entry.startswith(id + b"|"):
                    self.client.lrem(self.queue, 1, entry)
                    self.client.srem(f"{self.queue}:done", id)

    def create_worker(self, name: str) -> Any:
        return safe_pop.Worker(self.client, self.queue, self._work, block_s=0, sleep=lambda _s: None, clock=self.clock)

    def _work(self, _id: bytes, _message: bytes) -> None:
        if self.errors:
            raise Held

    def put_one(self, id: str, kind: str, **_options: Any) -> None:
        safe_pop.push_message(self.client, self.queue, kind.encode())

    def run_one(self, worker: Any, error: Error | None) -> None:
        self.errors = (error,) if error else ()
        with suppress(Held):  # The program of the worker ends with the error of a job.
            worker.step()

    def overrun(self) -> Iterator[float]:
        yield from self.run_twice(60)

    def poison(self) -> Iterator[float]:
        """Let a job go out to a second worker after its first one died."""
        yield from self.run_twice(60)
        self.kill("w1", "w2")
        yield 5

    def hold(self, name: str, number: int) -> None:
        for _ in range(number):
            self.run_one(self.alive[name], Error("", "", "", 0))


class TimeoutSets(World):
    """distributed-timeout-queue."""

    stores_runs = False
    system = "timeout_sets"
    queue = "todos"
    option = "todos=todos"
    keeps_failures = has_workers = can_extend = False

    def create_worker(self, name: str) -> Any:
        return sets.Worker(self.client)

    def dispatch(self) -> None:
        sets.Cleaner(self.client).step()

    def put_one(self, id: str, kind: str, **_options: Any) -> None:
        sets.add_items(self.client, [int(id.rpartition("-")[2])])

    def run_one(self, worker: Any, error: Error | None) -> None:
        found = self.client.srandmember(sets.TODOS)
        if found is not None and (item := worker.take(found)) is not None and error is None:
            worker.acknowledge(item)

    def overrun(self) -> Iterator[float]:
        yield from self.run_twice(70)

    def poison(self) -> Iterator[float]:
        """Let a job go out to a second worker after its first one died."""
        yield from self.run_twice(70)
        self.kill("w1", "w2")
        yield 5

    def hold(self, name: str, number: int) -> None:
        for _ in range(number):
            self.holds[name].append(self.alive[name].take(self.client.srandmember(sets.TODOS)))

    def forget_done(self) -> None:
        self.client.delete(sets.DONE)


class Arq(World):
    """arq 0.28 with its default settings, but for `max_tries` where a job is tried again and again."""

    system = "arq"
    queue = "arq:queue"
    has_workers = stores_runs = False
    _health_ms = 3_601_000
    _lease_ms = 310_000  # `job_timeout`, 300 s, and 10 s
    _keep_result_ms: int | None = 3_600_000

    def _now_ms(self) -> int:
        return int(self.clock() * 1000)

    def create_worker(self, name: str) -> Any:
        """Report as a worker does when it starts; the next report comes after an hour."""
        at = datetime.fromtimestamp(self.clock(), UTC)
        report = f"{at:%b-%d %H:%M:%S} j_complete=0 j_failed=0 j_retried=0 j_ongoing=0 queued={self._count_jobs()}"
        self.client.psetex(f"{self.queue}:health-check", self._health_ms, report)
        return name

    def _count_jobs(self) -> Any:
        return self.client.zcard(self.queue)

    def put_one(
        self, id: str, kind: str, *, in_ms: int = 0, expires_ms: int | None = None, timeout_s: int | None = None
    ) -> None:
        """Put one job. With `timeout_s`, its function has this time-out, and so has every in-progress key."""
        if timeout_s is not None:
            self._lease_ms = (timeout_s + 10) * 1000
        record = {"t": None, "f": kind, "a": (1,), "k": {}, "et": self._now_ms()}
        pipe = self.client.pipeline()
        pipe.psetex(f"arq:job:{id}", expires_ms or in_ms + 86_400_000, pickle.dumps(record))
        pipe.zadd(self.queue, {id: self._now_ms() + in_ms})
        pipe.execute()

    def schedule(self, number: int, in_s: float) -> None:
        for _ in range(number):
            self.put_one(self.new_id(), "remind", in_ms=int(in_s * 1000))

    def _take(self) -> tuple[str, int] | None:
        """Take the first due job that no worker runs, and return its id and the number of the run."""
        for found in self.client.zrangebyscore(self.queue, "-inf", self._now_ms(), 0, 100):
            id = found.decode()
            if self.client.set(f"arq:in-progress:{id}", b"1", px=self._lease_ms, nx=True):
                self.client.expire(f"arq:retry:{id}", 88_400) if self.client.incr(f"arq:retry:{id}") else None
                return id, int(self.client.get(f"arq:retry:{id}") or 0)
        return None

    def run_one(self, worker: Any, error: Error | None) -> None:
        if (taken := self._take()) is None:
            return
        (id, tries), end_ms = taken, self._now_ms()
        job = pickle.loads(self.client.get(f"arq:job:{id}") or b"N.")  # noqa: S301 (this world wrote it)
        result = {"s": error is None, "r": _ERRORS[error.kind](error.message) if error else None}
        ended = {**job, "t": tries, **result, "st": end_ms - 20, "ft": end_ms, "q": self.queue, "id": id}
        pipe = self.client.pipeline()
        pipe.set(f"arq:result:{id}", pickle.dumps(ended), px=self._keep_result_ms)
        pipe.zrem("arq:abort", id)
        pipe.zrem(self.queue, id)
        pipe.delete(f"arq:in-progress:{id}", f"arq:retry:{id}", f"arq:job:{id}")
        pipe.execute()

    def retry(self, number: int, error: Error) -> None:
        """Let attempts raise `Retry(defer=1)`."""
        for _ in range(number):
            if taken := self._take():
                due_ms = int(self.client.zscore(self.queue, taken[0]) or 0)
                self.client.zincrby(self.queue, 1000 + self._now_ms() - due_ms, taken[0])
                self.client.delete(f"arq:in-progress:{taken[0]}")

    def storm(self, number: int) -> None:
        """Let attempts raise `Retry()`: the job stays due, and the next poll starts it again."""
        taken = [found for _ in range(number) if (found := self._take())]
        for id, _tries in taken:
            self.client.delete(f"arq:in-progress:{id}")

    def hold(self, name: str, number: int) -> None:
        self.holds[name] += [self._take() for _ in range(number)]

    def stop(self, *names: str) -> None:
        """Stop workers: each deletes the report that all workers of the queue share."""
        self.client.delete(f"{self.queue}:health-check")
        self.kill(*names)

    def fail_earlier(self, number: int, error: Error, ago_s: float) -> None:
        """Let jobs fail whose function has `keep_result_forever`: other results last for an hour."""
        self._keep_result_ms = None
        super().fail_earlier(number, error, ago_s)
        self._keep_result_ms = 3_600_000

    def requeue_dead(self) -> None:
        raise DoesNotApply("it has no tool that requeues a failed job")

    def forget_done(self) -> None:
        for key in self.client.scan_iter("arq:result:*"):
            if pickle.loads(self.client.get(key) or b"N.")["s"]:  # noqa: S301 (this world wrote it)
                self.client.delete(key)

    def start_schedule(self, every_s: int) -> None:
        raise DoesNotApply("its workers have the schedules in their settings: Redis stores none")

    def lose(self) -> Iterator[float]:
        """Let a job wait for longer than its record lives, behind jobs that keep the worker busy."""
        self.start("w1")
        self.put(self.slots)
        self.hold("w1", self.slots)
        self.put(1, expires_ms=30_000)
        yield from pass_time(40)

    def overrun(self) -> Iterator[float]:
        """Let a job block the event loop of its worker until the in-progress key expires."""
        yield from self.run_twice(315)

    def poison(self) -> Iterator[float]:
        self.start("w1", "w2", "w3")
        self.put(1)
        for name in ("w1", "w2"):
            self.hold(name, 1)
            yield 5
            self.kill(name)
            yield from pass_time(310)
        self.hold("w3", 1)


_ERRORS: Mapping[str, type[Exception]] = {
    "CardDeclined": type("CardDeclined", (Exception,), {"__module__": __name__}),
    "TimeoutError": TimeoutError,
    "KeyError": KeyError,
}
CardDeclined = _ERRORS["CardDeclined"]  # Pickle writes an error by the name of its class.


WORLDS: Mapping[str, Callable[[Redis, SimulatedClock, str], World]] = {
    world.system: world
    for world in (Native, Rq, Sidekiq, BullMQ, Celery, Arq, Dispatcher, Orizuru, Redisched, SafePop, TimeoutSets)
}
