"""The Redis commands of RQ (Python, 3.0.0), in the order observed from the original, for tests and the demo.

Follows queue.py, job.py, worker/base.py, executions.py, registry.py and scheduler.py.

    rq:queues                        set       rq:queue:<queue>
    rq:queue:<queue>                 list      ids; RPUSH in, BLMOVE out, to rq:queue:<queue>:intermediate
    rq:job:<id>                      hash      data = zlib(pickle of (function, None, args, kwargs)), status, times …
    rq:wip:<queue>                   zset      <id>:<execution> by the end of the lease: now + min(timeout, 30) + 60 s
    rq:execution:<id>:<execution>    hash      worker, heartbeat; listed in zset rq:executions:<id>
    rq:scheduled:<queue>             zset      id by due time
    rq:finished: rq:failed:<queue>   zset      id by the time of its removal
    rq:results:<id>                  stream    ten at most: 1 with a return value, 2 with an error
    rq:workers, rq:workers:<queue>   set       rq:worker:<name>, a hash that expires
    rq:suspended                     string    while the key exists, no worker starts a job
    rq:scheduler-lock:<queue>        string    the one scheduler that moves due jobs, EX 61

Scores are unix seconds. The original's faults are kept:

A worker does not check the status of a job whose id it takes. The jobs of a killed worker stay in wip until the lease
is over *and* a clean-up runs: by a worker that starts, by one that has run for ten minutes, or by a program that
counts. Due jobs, delayed retries too, wait in scheduled forever if no worker runs a scheduler. An id whose hash is
missing stays in the intermediate list until the next clean-up.
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
from rqtui.text.pickling import write_pickle

QUEUES, WORKERS, SUSPENDED = "rq:queues", "rq:workers", "rq:suspended"
TIMEOUT_S, RESULT_S, FAILURE_S = 180, 500, 365 * 24 * 3600
IDLE_S, LOCK_S, MAINTENANCE_S = 480, 61, 600
_MONITORED_S, _SPARE_S = 30, 60
_FINISHED, _FAILED = 1, 2
_ABANDONED = "Moved to FailedJobRegistry, due to AbandonedJobError, at {}"
Pause = Callable[[str], None]


def _skip_gap(_gap: str) -> None:
    """Do nothing: the default for the gap between two commands of a program."""


def build_queue_key(queue: str) -> str:
    """Return the key of a queue's list."""
    return f"rq:queue:{queue}"


def build_job_key(id: str) -> str:
    """Return the key of a job's hash."""
    return f"rq:job:{id}"


def build_worker_key(name: str) -> str:
    """Return the key of a worker's hash."""
    return f"rq:worker:{name}"


def format_time(at_s: float) -> str:
    """Format unix seconds as RQ's hashes store a time."""
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def compute_lease_s(timeout_s: int) -> int:
    """Return how many seconds a worker may go without a heartbeat while it runs a job."""
    return min(timeout_s, _MONITORED_S) + _SPARE_S


def encode_call(function: str, *args: object, **kwargs: object) -> bytes:
    """Encode a call as the `data` field of a job's hash."""
    return zlib.compress(write_pickle((function, None, args, kwargs)))


def format_call(function: str, *args: object, **kwargs: object) -> str:
    """Format a call for people, as the `description` field: `mails.welcome('ada', locale='de')`."""
    words = [*map(repr, args), *(f"{name}={value!r}" for name, value in sorted(kwargs.items()))]
    return f"{function}({', '.join(words)})"


class Undecodable(Exception):
    """Raised when the `data` of a job cannot be read."""


@dataclass(frozen=True, slots=True)
class Job:
    """A job that a worker has taken and read."""

    id: str
    function: str
    timeout_s: int
    retries_left: int
    retry_intervals: tuple[int, ...]
    queue: str

    @classmethod
    def from_fields(cls, id: str, fields: Mapping[bytes, bytes]) -> Job:
        """Build a job from its hash. `function` is empty if the data cannot be read."""
        intervals = json.loads(fields.get(b"retry_intervals", b"[]"))
        return cls(
            id,
            _parse_function(fields.get(b"data", b"")),
            int(fields.get(b"timeout") or TIMEOUT_S),
            int(fields.get(b"retries_left") or 0),
            tuple(int(each) for each in intervals),
            fields.get(b"origin", b"").decode(),
        )

    @property
    def retry_after_s(self) -> int:
        """The seconds before the next retry. Intervals are used in turn, and the last one repeats."""
        return (
            self.retry_intervals[max(0, len(self.retry_intervals) - self.retries_left)] if self.retry_intervals else 0
        )


def _parse_function(data: bytes) -> str:
    try:
        call = pickles.parse_pickle(zlib.decompressobj().decompress(data, pickles.MOST_BYTES))
    except (ValueError, zlib.error):
        return ""
    return str(call[0]) if isinstance(call, tuple | list) and call else ""


class Queue:
    """The producer of one queue. `clock` returns unix seconds."""

    def __init__(self, client: Any, name: str, clock: Callable[[], float] = time.time) -> None:
        self.client, self.name, self.clock = client, name, clock

    def enqueue(self, id: str, data: bytes, description: str, **fields: object) -> None:
        """Save a job and append it to the queue's list, as `Queue.enqueue` does.

        `fields` are further fields of its hash, such as timeout or retries_left.
        """
        pipe = self.client.pipeline(transaction=True)
        self.save(pipe, "queued", id, data, description, enqueued_at=format_time(self.clock()), **fields)
        pipe.rpush(build_queue_key(self.name), id)
        pipe.execute()

    def enqueue_in(self, delay_s: float, id: str, data: bytes, description: str, **fields: object) -> None:
        """Save a job and add it to scheduled, as `Queue.enqueue_in` does. Only a scheduler moves it on."""
        pipe = self.client.pipeline(transaction=True)
        self.save(pipe, "scheduled", id, data, description, **fields)
        pipe.zadd(f"rq:scheduled:{self.name}", {id: int(self.clock() + delay_s)})
        pipe.execute()

    def save(self, pipe: Any, status: str, id: str, data: bytes, description: str, **fields: object) -> None:
        """Save the job's hash and the queue's name, as `Job.save` does, without a place in the queue."""
        empty = ("success_callback_name", "failure_callback_name", "stopped_callback_name", "group_id")
        times = ("started_at", "ended_at", "last_heartbeat", "worker_name")
        saved = {
            **dict.fromkeys((*empty, *times), ""),
            "created_at": format_time(self.clock()),
            "data": data,
            "origin": self.name,
            "description": description,
            "timeout": TIMEOUT_S,
            "status": status,
            **fields,
        }
        pipe.sadd(QUEUES, build_queue_key(self.name))
        pipe.hset(build_job_key(id), mapping=saved)


class Worker:
    """A worker of one queue and its work horse in one: take, run, record. A job on which `run` raises fails.

    `run` gets the job. `pause` gets the name of a gap between two steps that belong together. `host` and `pid` are
    written to the worker's hash. `trace` formats the traceback that is recorded for an error.
    """

    def __init__(
        self,
        client: Any,
        queue: str,
        name: str,
        run: Callable[[Job], object] = lambda _job: None,
        pause: Pause = _skip_gap,
        clock: Callable[[], float] = time.time,
        host: str = "",
        pid: int = 0,
        trace: Callable[[Exception], str] = lambda error: "".join(traceback.format_exception(error)),
    ) -> None:
        self.client, self.queue, self.name, self.clock = client, queue, name, clock
        self._run, self._pause, self._trace = run, pause, trace
        self._host, self._pid = host or os.uname().nodename, pid or os.getpid()
        self._key, self._executions = build_worker_key(name), f"{build_worker_key(name)}:executions"
        self._maintained_s = 0.0

    # -- its life -----------------------------------------------------------------------------------------------------

    def register(self) -> None:
        """Register the worker as `register_birth` does, then run the clean-up of a starting worker."""
        now = format_time(self.clock())
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
        """Unregister a stopped worker as `register_death` does. Its hash stays for a minute."""
        pipe = self.client.pipeline(transaction=True)
        pipe.srem(WORKERS, self._key)
        pipe.srem(f"{WORKERS}:{self.queue}", self._key)
        pipe.hset(self._key, "death", format_time(self.clock()))
        pipe.expire(self._key, 60)
        pipe.delete(self._executions)
        pipe.execute()

    def maintain(self) -> None:
        """Run `clean_registries` unless another worker of the queue is running it."""
        self._maintained_s = self.clock()
        if self.client.set(f"rq:clean_registries:{self.queue}", 1, nx=True, ex=899):
            clean_registries(self.client, self.queue, self.clock)
            self.client.delete(f"rq:clean_registries:{self.queue}")

    # -- a turn -------------------------------------------------------------------------------------------------------

    def step(self, wait_s: float = 0.05) -> str:
        """Run one turn of the worker's loop. The original waits up to 405 s for a job.

        Return finished, failed, retried, suspended, ghost (the job's hash is missing) or idle.
        """
        self._send_heartbeat("idle", IDLE_S)
        if self.clock() - self._maintained_s > MAINTENANCE_S:
            self.maintain()
        if self.client.exists(SUSPENDED):
            return "suspended"
        taken: bytes | None = self.client.blmove(
            build_queue_key(self.queue), f"{build_queue_key(self.queue)}:intermediate", wait_s, "LEFT", "RIGHT"
        )
        if taken is None:
            return "idle"
        self._pause("taken, not yet started")
        fields = self.client.hgetall(build_job_key(taken.decode()))
        if not fields:
            return "ghost"
        return self._run_job(Job.from_fields(taken.decode(), fields))

    def _send_heartbeat(self, state: str, ttl_s: int) -> None:
        """Write the worker's state and a heartbeat to its hash, which expires after `ttl_s`."""
        pipe = self.client.pipeline(transaction=True)
        pipe.hset(self._key, mapping={"last_heartbeat": format_time(self.clock()), "state": state})
        pipe.expire(self._key, ttl_s)
        pipe.expire(self._executions, ttl_s)
        pipe.execute()

    def _run_job(self, job: Job) -> str:
        """Run a taken job and record its end; return finished, failed or retried."""
        execution, began_s = self.begin(job), self.clock()
        try:
            if not job.function:
                raise Undecodable(f"the data of job {job.id} cannot be read")
            value = self._run(job)
        except Exception as error:
            self._pause("ran, not yet recorded")
            return self.fail(job, execution, self._trace(error), began_s)
        self._pause("ran, not yet recorded")
        self._finish_job(job, execution, value, began_s)
        return "finished"

    def begin(self, job: Job) -> str:
        """Move a taken job to wip and return the id of its execution.

        Follows `Execution.create` and then `prepare_job_execution`.
        """
        execution, now_s, ttl_s = uuid4().hex, self.clock(), compute_lease_s(job.timeout_s)
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
        now = format_time(now_s)
        pipe = self.client.pipeline(transaction=True)
        pipe.hset(self._key, "last_heartbeat", now)
        pipe.expire(self._key, ttl_s)
        pipe.hset(
            build_job_key(job.id),
            mapping={"last_heartbeat": now, "status": "started", "started_at": now, "worker_name": self.name},
        )
        pipe.persist(build_job_key(job.id))
        pipe.lrem(f"{build_queue_key(self.queue)}:intermediate", 1, job.id)
        pipe.execute()
        return execution

    def _finish_job(self, job: Job, execution: str, value: object, began_s: float) -> None:
        now_s = self.clock()
        pipe = self.client.pipeline(transaction=True)
        pipe.hincrby(self._key, "successful_job_count", 1)
        pipe.hincrbyfloat(self._key, "total_working_time", round(now_s - began_s, 6))
        pipe.hset(build_job_key(job.id), mapping={"status": "finished", "ended_at": format_time(now_s)})
        value = b64encode(write_pickle(value)).decode()
        self._record_result(pipe, job, _FINISHED, RESULT_S, execution, began_s, return_value=value)
        pipe.zadd(f"rq:finished:{job.queue}", {job.id: int(now_s) + RESULT_S})
        pipe.expire(build_job_key(job.id), RESULT_S)
        self._end_execution(pipe, job, execution)
        pipe.execute()

    def fail(self, job: Job, execution: str, error: str, began_s: float) -> str:
        """Record a failure as `handle_job_failure` does. Return `retried` or `failed`.

        A job with retries left goes back to the queue or to scheduled. Other jobs go to failed.
        """
        now_s = self.clock()
        pipe = self.client.pipeline(transaction=True)
        self._end_execution(pipe, job, execution)
        pipe.hset(build_job_key(job.id), "ended_at", format_time(now_s))
        pipe.hincrby(self._key, "failed_job_count", 1)
        pipe.hincrbyfloat(self._key, "total_working_time", round(now_s - began_s, 6))
        if job.retries_left > 0:
            _retry_job(pipe, job, now_s)
        else:
            _move_to_failed(pipe, job, now_s)
            self._record_result(pipe, job, _FAILED, FAILURE_S, execution, began_s, exc_string=encode_traceback(error))
        pipe.execute()
        return "retried" if job.retries_left > 0 else "failed"

    def _end_execution(self, pipe: Any, job: Job, execution: str) -> None:
        """Remove the execution of a job from wip and its own keys."""
        pipe.delete(f"rq:execution:{job.id}:{execution}")
        pipe.zrem(f"rq:wip:{job.queue}", f"{job.id}:{execution}")
        pipe.zrem(f"rq:executions:{job.id}", execution)
        pipe.srem(self._executions, f"{job.id}:{execution}")

    def _record_result(
        self, pipe: Any, job: Job, kind: int, ttl_s: int, execution: str, began_s: float, **result_fields: str
    ) -> None:
        fields = {
            "type": kind,
            "worker_name": self.name,
            **result_fields,
            "execution_id": execution,
            "execution_started_at": began_s,
            "execution_ended_at": self.clock(),
        }
        pipe.xadd(f"rq:results:{job.id}", fields, maxlen=10, approximate=True)
        pipe.expire(f"rq:results:{job.id}", ttl_s)


def encode_traceback(error: str) -> str:
    """Encode a traceback as RQ stores it in a result."""
    return b64encode(zlib.compress(error.encode())).decode()


def _move_to_failed(pipe: Any, job: Job, now_s: float) -> None:
    """Move a job to the registry of failed jobs."""
    pipe.hset(build_job_key(job.id), "status", "failed")
    pipe.expire(build_job_key(job.id), FAILURE_S)
    pipe.zadd(f"rq:failed:{job.queue}", {job.id: int(now_s) + FAILURE_S})


def _retry_job(pipe: Any, job: Job, now_s: float) -> None:
    """Put a failed job back into its queue, or into scheduled if it has a retry interval."""
    pipe.hset(build_job_key(job.id), "retries_left", job.retries_left - 1)
    if job.retry_after_s:
        pipe.hset(build_job_key(job.id), "status", "scheduled")
        pipe.zadd(f"rq:scheduled:{job.queue}", {job.id: int(now_s) + job.retry_after_s})
    else:
        pipe.hset(build_job_key(job.id), mapping={"status": "queued", "enqueued_at": format_time(now_s)})
        pipe.rpush(build_queue_key(job.queue), job.id)


def clean_registries(client: Any, queue: str, clock: Callable[[], float] = time.time) -> int:
    """Remove expired entries and move abandoned jobs, as `clean_registries` does. Return how many were moved.

    `rq info` runs this clean-up too. An abandoned job with retries left goes back to the queue, or to scheduled if it
    has a retry interval. Other abandoned jobs go to failed.
    """
    now_s = clock()
    client.zremrangebyscore(f"rq:finished:{queue}", 0, int(now_s))
    client.zremrangebyscore(f"rq:failed:{queue}", 0, int(now_s))
    held: list[bytes] = client.zrangebyscore(f"rq:wip:{queue}", 0, int(now_s))
    moved = 0
    for id in (member.decode().rpartition(":")[0] for member in held):
        fields = client.hgetall(build_job_key(id))
        if fields.get(b"status") == b"started":
            _move_abandoned_job(client, Job.from_fields(id, fields), now_s)
            moved += 1
    client.zremrangebyscore(f"rq:wip:{queue}", 0, int(now_s))
    for key in client.smembers(f"{WORKERS}:{queue}"):
        if not client.exists(key):
            client.srem(WORKERS, key)
            client.srem(f"{WORKERS}:{queue}", key)
    for id in client.lrange(f"{build_queue_key(queue)}:intermediate", 0, -1):
        if not client.exists(build_job_key(id.decode())):
            client.lrem(f"{build_queue_key(queue)}:intermediate", 1, id)
    return moved


def _move_abandoned_job(client: Any, job: Job, now_s: float) -> None:
    """Move the job of a killed worker to its queue, to scheduled or to failed."""
    pipe = client.pipeline(transaction=True)
    if job.retries_left > 0:
        _retry_job(pipe, job, now_s)
    else:
        _move_to_failed(pipe, job, now_s)
        error = encode_traceback(_ABANDONED.format(datetime.fromtimestamp(now_s, UTC)))
        pipe.xadd(f"rq:results:{job.id}", {"type": _FAILED, "worker_name": "", "exc_string": error}, maxlen=10)
    pipe.execute()


def enqueue_due_jobs(client: Any, queue: str, owner: str, clock: Callable[[], float] = time.time) -> int | None:
    """Run one round of the scheduler inside a worker: take or renew the lock, then enqueue due jobs.

    Return how many jobs were due, or None if another scheduler has the lock.
    """
    key, now_s = f"rq:scheduler-lock:{queue}", clock()
    if not client.set(key, owner, nx=True, ex=LOCK_S):
        if client.get(key) != owner.encode():
            return None
        client.expire(key, LOCK_S)
    due: list[bytes] = client.zrangebyscore(f"rq:scheduled:{queue}", 0, int(now_s), start=0, num=1000)
    pipe = client.pipeline(transaction=True)
    for id in (each.decode() for each in due):
        if client.exists(build_job_key(id)):
            pipe.hset(build_job_key(id), mapping={"status": "queued", "enqueued_at": format_time(now_s)})
            pipe.rpush(build_queue_key(queue), id)
        pipe.zrem(f"rq:scheduled:{queue}", id)
    if due:
        pipe.execute()
    return len(due)


def release_scheduler_lock(client: Any, queue: str, owner: str) -> None:
    """Release the scheduler lock if `owner` has it, as a scheduler does when it stops."""
    key = f"rq:scheduler-lock:{queue}"
    if client.get(key) == owner.encode():
        client.delete(key)
