"""RQ (Python, 3.0.0: queue.py, job.py, worker/base.py, executions.py, registry.py, scheduler.py): the commands that it
was seen to send, in the same order.

    rq:queues                        set       rq:queue:<queue>
    rq:queue:<queue>                 list      ids; RPUSH in, BLMOVE out, to rq:queue:<queue>:intermediate
    rq:job:<id>                      hash      data = zlib(pickle of (function, None, args, kwargs)), status, times …
    rq:wip:<queue>                   zset      <id>:<execution> by the end of the lease: now + min(timeout, 30) + 60 s
    rq:execution:<id>:<execution>    hash      worker, heartbeat; listed in zset rq:executions:<id>
    rq:scheduled:<queue>             zset      id by due
    rq:finished: rq:failed:<queue>   zset      id by when it is forgotten
    rq:results:<id>                  stream    ten at most: 1 with a return value, 2 with an error
    rq:workers, rq:workers:<queue>   set       rq:worker:<name>, a hash that expires
    rq:suspended                     string    while it is there nobody begins a job
    rq:scheduler-lock:<queue>        string    the one scheduler that moves what is due, EX 61

Scores are unix seconds. Kept faults: a worker never looks at the status of the job whose id it takes; what a killed
worker held stays in wip until the lease is over *and* somebody cleans up: a worker that starts, one that has run for
ten minutes, or whoever counts; what is due in scheduled waits for ever where no worker is a scheduler, and so does what
is retried after a while; an id whose hash is gone stays in the intermediate list until the next clean-up.
"""

from __future__ import annotations

import json
import os
import time
import traceback
import zlib
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from rqtui.text import pickles
from rqtui.text.pickling import pickled

QUEUES, WORKERS, SUSPENDED = "rq:queues", "rq:workers", "rq:suspended"
TIMEOUT_S, RESULT_S, FAILURE_S = 180, 500, 365 * 24 * 3600
IDLE_S, LOCK_S, MAINTENANCE_S = 480, 61, 600
_MONITORED_S, _SPARE_S = 30, 60
_FINISHED, _FAILED = 1, 2
_ABANDONED = "Moved to FailedJobRegistry, due to AbandonedJobError, at {}"
Pause = Callable[[str], None]


def _go_on(_gap: str) -> None:
    """The default between two steps: nothing happens."""


def queue_key(queue: str) -> str:
    """The list of a queue."""
    return f"rq:queue:{queue}"


def job_key(id: str) -> str:
    """The hash of a job."""
    return f"rq:job:{id}"


def worker_key(name: str) -> str:
    """The hash of a worker."""
    return f"rq:worker:{name}"


def instant(at_s: float) -> str:
    """A time as it stands in hashes."""
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def lease_s(timeout_s: int) -> int:
    """How long a worker may be silent while it runs a job."""
    return min(timeout_s, _MONITORED_S) + _SPARE_S


def encoded(function: str, *args: object, **kwargs: object) -> bytes:
    """What a job is asked to run, as its hash has it."""
    return zlib.compress(pickled((function, None, args, kwargs)))


def described(function: str, *args: object, **kwargs: object) -> str:
    """The same for people: `mails.welcome('ada', locale='de')`."""
    words = [*map(repr, args), *(f"{name}={value!r}" for name, value in sorted(kwargs.items()))]
    return f"{function}({', '.join(words)})"


class Undecodable(Exception):
    """What a job is asked to run cannot be read."""


@dataclass(frozen=True, slots=True)
class Job:
    """A job as a worker has it in hands."""

    id: str
    function: str
    timeout_s: int
    retries_left: int
    retry_intervals: tuple[int, ...]
    queue: str

    @classmethod
    def fetched(cls, id: str, fields: Mapping[bytes, bytes]) -> Job:
        """From its hash; `function` is empty where the data cannot be read."""
        intervals = json.loads(fields.get(b"retry_intervals", b"[]"))
        return cls(
            id,
            _function(fields.get(b"data", b"")),
            int(fields.get(b"timeout") or TIMEOUT_S),
            int(fields.get(b"retries_left") or 0),
            tuple(int(each) for each in intervals),
            fields.get(b"origin", b"").decode(),
        )

    @property
    def retry_after_s(self) -> int:
        """How long its next retry waits: the intervals in turn, the last of them again and again."""
        return (
            self.retry_intervals[max(0, len(self.retry_intervals) - self.retries_left)] if self.retry_intervals else 0
        )


def _function(data: bytes) -> str:
    try:
        call = pickles.read(zlib.decompressobj().decompress(data, pickles.MOST_BYTES))
    except (ValueError, zlib.error):
        return ""
    return str(call[0]) if isinstance(call, tuple | list) and call else ""


class Queue:
    """The producer's side. `clock` tells seconds since 1970."""

    def __init__(self, client: Any, name: str, clock: Callable[[], float] = time.time) -> None:
        self.client, self.name, self.clock = client, name, clock

    def enqueue(self, id: str, data: bytes, description: str, **fields: object) -> None:
        """`Queue.enqueue`: the job is at the end of the list. `fields` are more of its hash: timeout, retries_left …"""
        pipe = self.client.pipeline(transaction=True)
        self.save(pipe, "queued", id, data, description, enqueued_at=instant(self.clock()), **fields)
        pipe.rpush(queue_key(self.name), id)
        pipe.execute()

    def enqueue_in(self, delay_s: float, id: str, data: bytes, description: str, **fields: object) -> None:
        """`Queue.enqueue_in`: the job is in scheduled, for a scheduler if there is one."""
        pipe = self.client.pipeline(transaction=True)
        self.save(pipe, "scheduled", id, data, description, **fields)
        pipe.zadd(f"rq:scheduled:{self.name}", {id: int(self.clock() + delay_s)})
        pipe.execute()

    def save(self, pipe: Any, status: str, id: str, data: bytes, description: str, **fields: object) -> None:
        """`Job.save`, and the name of the queue: all of a job but its place."""
        empty = ("success_callback_name", "failure_callback_name", "stopped_callback_name", "group_id")
        times = ("started_at", "ended_at", "last_heartbeat", "worker_name")
        saved = {
            **dict.fromkeys((*empty, *times), ""),
            "created_at": instant(self.clock()),
            "data": data,
            "origin": self.name,
            "description": description,
            "timeout": TIMEOUT_S,
            "status": status,
            **fields,
        }
        pipe.sadd(QUEUES, queue_key(self.name))
        pipe.hset(job_key(id), mapping=saved)


class Worker:
    """`Worker.work` and its work horse in one, of one queue: take, run, record. What `run` raises on is failed.

    `run` is given the job, `pause` is told where it stands between two steps that belong together, `host` and `pid` are
    what it says of itself, `trace` is the traceback of an error as it is recorded.
    """

    def __init__(
        self,
        client: Any,
        queue: str,
        name: str,
        run: Callable[[Job], object] = lambda _job: None,
        pause: Pause = _go_on,
        clock: Callable[[], float] = time.time,
        host: str = "",
        pid: int = 0,
        trace: Callable[[Exception], str] = lambda error: "".join(traceback.format_exception(error)),
    ) -> None:
        self.client, self.queue, self.name, self.clock = client, queue, name, clock
        self._run, self._pause, self._trace = run, pause, trace
        self._host, self._pid = host or os.uname().nodename, pid or os.getpid()
        self._key, self._executions = worker_key(name), f"{worker_key(name)}:executions"
        self._maintained_s = 0.0

    # -- its life -----------------------------------------------------------------------------------------------------

    def register(self) -> None:
        """`register_birth`, and the clean-up of a worker that starts."""
        now = instant(self.clock())
        pipe = self.client.pipeline(transaction=True)
        pipe.delete(self._key)
        pipe.hset(
            self._key,
            mapping={
                "birth": now,
                "last_heartbeat": now,
                "queues": self.queue,
                "pid": self._pid,
                "hostname": self._host,
                "version": "3.0.0",
                "state": "started",
            },
        )
        pipe.sadd(WORKERS, self._key)
        pipe.sadd(f"{WORKERS}:{self.queue}", self._key)
        pipe.expire(self._key, IDLE_S)
        pipe.execute()
        self.maintain()

    def unregister(self) -> None:
        """`register_death`: what a worker that is told to stop does last; the hash stays for a minute."""
        pipe = self.client.pipeline(transaction=True)
        pipe.srem(WORKERS, self._key)
        pipe.srem(f"{WORKERS}:{self.queue}", self._key)
        pipe.hset(self._key, "death", instant(self.clock()))
        pipe.expire(self._key, 60)
        pipe.delete(self._executions)
        pipe.execute()

    def maintain(self) -> None:
        """`clean_registries`, which one worker of a queue does at a time."""
        self._maintained_s = self.clock()
        if self.client.set(f"rq:clean_registries:{self.queue}", 1, nx=True, ex=899):
            clean(self.client, self.queue, self.clock)
            self.client.delete(f"rq:clean_registries:{self.queue}")

    # -- a turn -------------------------------------------------------------------------------------------------------

    def step(self, wait_s: float = 0.05) -> str:
        """One turn of its loop (the original waits for 405 s): finished, failed, retried, suspended, ghost or idle."""
        self._beat("idle", IDLE_S)
        if self.clock() - self._maintained_s > MAINTENANCE_S:
            self.maintain()
        if self.client.exists(SUSPENDED):
            return "suspended"
        taken: bytes | None = self.client.blmove(
            queue_key(self.queue), f"{queue_key(self.queue)}:intermediate", wait_s, "LEFT", "RIGHT"
        )
        if taken is None:
            return "idle"
        self._pause("taken, not yet started")
        fields = self.client.hgetall(job_key(taken.decode()))
        if not fields:
            return "ghost"
        return self._perform(Job.fetched(taken.decode(), fields))

    def _beat(self, state: str, ttl_s: int) -> None:
        pipe = self.client.pipeline(transaction=True)
        pipe.hset(self._key, mapping={"last_heartbeat": instant(self.clock()), "state": state})
        pipe.expire(self._key, ttl_s)
        pipe.expire(self._executions, ttl_s)
        pipe.execute()

    def _perform(self, job: Job) -> str:
        execution, began_s = self.begin(job), self.clock()
        try:
            if not job.function:
                raise Undecodable(f"the data of job {job.id} cannot be read")
            value = self._run(job)
        except Exception as error:
            self._pause("ran, not yet recorded")
            return self.fail(job, execution, self._trace(error), began_s)
        self._pause("ran, not yet recorded")
        self._finish(job, execution, value, began_s)
        return "finished"

    def begin(self, job: Job) -> str:
        """`Execution.create`, then `prepare_job_execution`: the job is in wip; gives the execution's id."""
        execution, now_s, ttl_s = uuid4().hex, self.clock(), lease_s(job.timeout_s)
        pipe = self.client.pipeline(transaction=True)
        pipe.hset(
            f"rq:execution:{job.id}:{execution}",
            mapping={
                "id": execution,
                "job_id": job.id,
                "created_at": now_s,
                "last_heartbeat": now_s,
                "worker_name": self.name,
            },
        )
        pipe.expire(f"rq:execution:{job.id}:{execution}", ttl_s)
        pipe.zadd(f"rq:executions:{job.id}", {execution: int(now_s) + ttl_s + 60})
        pipe.expire(f"rq:executions:{job.id}", ttl_s + 60)
        pipe.zadd(f"rq:wip:{self.queue}", {f"{job.id}:{execution}": int(now_s) + ttl_s})
        pipe.sadd(self._executions, f"{job.id}:{execution}")
        pipe.expire(self._executions, ttl_s + 60)
        pipe.hset(self._key, "state", "busy")
        pipe.execute()
        self._pause("started, still in the intermediate list")
        now = instant(now_s)
        pipe = self.client.pipeline(transaction=True)
        pipe.hset(self._key, "last_heartbeat", now)
        pipe.expire(self._key, ttl_s)
        pipe.hset(
            job_key(job.id),
            mapping={"last_heartbeat": now, "status": "started", "started_at": now, "worker_name": self.name},
        )
        pipe.persist(job_key(job.id))
        pipe.lrem(f"{queue_key(self.queue)}:intermediate", 1, job.id)
        pipe.execute()
        return execution

    def _finish(self, job: Job, execution: str, value: object, began_s: float) -> None:
        now_s = self.clock()
        pipe = self.client.pipeline(transaction=True)
        pipe.hincrby(self._key, "successful_job_count", 1)
        pipe.hincrbyfloat(self._key, "total_working_time", round(now_s - began_s, 6))
        pipe.hset(job_key(job.id), mapping={"status": "finished", "ended_at": instant(now_s)})
        value = b64encode(pickled(value)).decode()
        self._record(pipe, job, _FINISHED, RESULT_S, execution, began_s, return_value=value)
        pipe.zadd(f"rq:finished:{job.queue}", {job.id: int(now_s) + RESULT_S})
        pipe.expire(job_key(job.id), RESULT_S)
        self._end(pipe, job, execution)
        pipe.execute()

    def fail(self, job: Job, execution: str, error: str, began_s: float) -> str:
        """`handle_job_failure`: back to the queue or to scheduled while it has retries, else to failed."""
        now_s = self.clock()
        pipe = self.client.pipeline(transaction=True)
        self._end(pipe, job, execution)
        pipe.hset(job_key(job.id), "ended_at", instant(now_s))
        pipe.hincrby(self._key, "failed_job_count", 1)
        pipe.hincrbyfloat(self._key, "total_working_time", round(now_s - began_s, 6))
        if job.retries_left > 0:
            _retry(pipe, job, now_s)
        else:
            _give_up(pipe, job, now_s)
            self._record(pipe, job, _FAILED, FAILURE_S, execution, began_s, exc_string=packed(error))
        pipe.execute()
        return "retried" if job.retries_left > 0 else "failed"

    def _end(self, pipe: Any, job: Job, execution: str) -> None:
        pipe.delete(f"rq:execution:{job.id}:{execution}")
        pipe.zrem(f"rq:wip:{job.queue}", f"{job.id}:{execution}")
        pipe.zrem(f"rq:executions:{job.id}", execution)
        pipe.srem(self._executions, f"{job.id}:{execution}")

    def _record(self, pipe: Any, job: Job, kind: int, ttl_s: int, execution: str, began_s: float, **told: str) -> None:
        fields = {
            "type": kind,
            "worker_name": self.name,
            **told,
            "execution_id": execution,
            "execution_started_at": began_s,
            "execution_ended_at": self.clock(),
        }
        pipe.xadd(f"rq:results:{job.id}", fields, maxlen=10, approximate=True)
        pipe.expire(f"rq:results:{job.id}", ttl_s)


def packed(error: str) -> str:
    """A traceback as it stands in a result."""
    return b64encode(zlib.compress(error.encode())).decode()


def _give_up(pipe: Any, job: Job, now_s: float) -> None:
    pipe.hset(job_key(job.id), "status", "failed")
    pipe.expire(job_key(job.id), FAILURE_S)
    pipe.zadd(f"rq:failed:{job.queue}", {job.id: int(now_s) + FAILURE_S})


def _retry(pipe: Any, job: Job, now_s: float) -> None:
    pipe.hset(job_key(job.id), "retries_left", job.retries_left - 1)
    if job.retry_after_s:
        pipe.hset(job_key(job.id), "status", "scheduled")
        pipe.zadd(f"rq:scheduled:{job.queue}", {job.id: int(now_s) + job.retry_after_s})
    else:
        pipe.hset(job_key(job.id), mapping={"status": "queued", "enqueued_at": instant(now_s)})
        pipe.rpush(queue_key(job.queue), job.id)


def clean(client: Any, queue: str, clock: Callable[[], float] = time.time) -> int:
    """`clean_registries`, which `rq info` does too: forgets what is old, moves what was abandoned; how many of these.

    A job that was abandoned goes back to the queue while it has retries, else to failed.
    """
    now_s = clock()
    client.zremrangebyscore(f"rq:finished:{queue}", 0, int(now_s))
    client.zremrangebyscore(f"rq:failed:{queue}", 0, int(now_s))
    held: list[bytes] = client.zrangebyscore(f"rq:wip:{queue}", 0, int(now_s))
    moved = 0
    for id in (member.decode().rpartition(":")[0] for member in held):
        fields = client.hgetall(job_key(id))
        if fields.get(b"status") == b"started":
            _abandon(client, Job.fetched(id, fields), now_s)
            moved += 1
    client.zremrangebyscore(f"rq:wip:{queue}", 0, int(now_s))
    for key in client.smembers(f"{WORKERS}:{queue}"):
        if not client.exists(key):
            client.srem(WORKERS, key)
            client.srem(f"{WORKERS}:{queue}", key)
    for id in client.lrange(f"{queue_key(queue)}:intermediate", 0, -1):
        if not client.exists(job_key(id.decode())):
            client.lrem(f"{queue_key(queue)}:intermediate", 1, id)
    return moved


def _abandon(client: Any, job: Job, now_s: float) -> None:
    pipe = client.pipeline(transaction=True)
    if job.retries_left > 0:
        _retry(pipe, job, now_s)
    else:
        _give_up(pipe, job, now_s)
        error = packed(_ABANDONED.format(datetime.fromtimestamp(now_s, UTC)))
        pipe.xadd(f"rq:results:{job.id}", {"type": _FAILED, "worker_name": "", "exc_string": error}, maxlen=10)
    pipe.execute()


def schedule(client: Any, queue: str, owner: str, clock: Callable[[], float] = time.time) -> int | None:
    """One round of the scheduler inside a worker: takes or renews the lock, enqueues what is due; how many jobs.

    None: another scheduler has the lock.
    """
    key, now_s = f"rq:scheduler-lock:{queue}", clock()
    if not client.set(key, owner, nx=True, ex=LOCK_S):
        if client.get(key) != owner.encode():
            return None
        client.expire(key, LOCK_S)
    due: list[bytes] = client.zrangebyscore(f"rq:scheduled:{queue}", 0, int(now_s), start=0, num=1000)
    pipe = client.pipeline(transaction=True)
    for id in (each.decode() for each in due):
        if client.exists(job_key(id)):
            pipe.hset(job_key(id), mapping={"status": "queued", "enqueued_at": instant(now_s)})
            pipe.rpush(queue_key(queue), id)
        pipe.zrem(f"rq:scheduled:{queue}", id)
    if due:
        pipe.execute()
    return len(due)


def unlock(client: Any, queue: str, owner: str) -> None:
    """A scheduler that stops gives its lock back."""
    key = f"rq:scheduler-lock:{queue}"
    if client.get(key) == owner.encode():
        client.delete(key)
