"""The Redis commands of Sidekiq (Ruby, 8.1), in the order observed from the original, for tests and the demo.

Follows client.rb, processor.rb, job_retry.rb, scheduled.rb and launcher.rb, without the histograms (`h|…`).

    queues                       set     <queue>
    queue:<queue>                list    JSON of jobs; LPUSH in, BRPOP out; a taken job is only in the process's memory
    schedule, retry              zset    JSON by due time, of all queues
    dead                         zset    JSON by time of death; 10 000 at most, for 180 days
    processes                    set     <host>:<pid>:<nonce>
    <identity>                   hash    info, busy, beat, quiet, rss; written every 10 s, expires after 60 s
    <identity>:work              hash    thread → {queue, payload, run_at}; rewritten every 10 s, expires after 60 s
    stat:processed, stat:failed  string  and one of each per day
    j|<YYMMDD>|<H:M>             hash    <class>|p, |f, |ms: runs, failures and total time; kept for 8 hours

Scores are unix seconds, times in a job ms. The original's faults are kept:

The jobs of a killed process are lost when `:work` expires after a minute, or at once if no heartbeat has listed them.
The poller removes a member from `schedule` before it parses it, and loses a member that is not JSON. Every process
polls, and without a process due jobs wait forever.
"""

from __future__ import annotations

import json
import threading
import time
import zlib
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

BEAT_S, LIFE_S = 10.0, 60
RETRIES = 25
_DEAD_JOBS, _DEAD_S = 10_000, 180 * 24 * 3600
_DAY_STATS_S, _MINUTES_S = 5 * 365 * 24 * 3600, 8 * 3600
_WRAPPER = "Sidekiq::ActiveJob::Wrapper"
Pause = Callable[[str], None]
Clock = Callable[[], float]


def _skip_gap(_gap: str) -> None:
    """Do nothing: the default for the gap between two commands of a program."""


def encode_item(item: Mapping[str, object]) -> bytes:
    """Encode a job as Sidekiq stores it: JSON without blanks, with non-ASCII letters unescaped."""
    return json.dumps(item, ensure_ascii=False, separators=(",", ":")).encode()


def convert_to_ms(at_s: float) -> int:
    """Convert unix seconds to the milliseconds that a job stores."""
    return int(at_s * 1000)


def wrap_active_job(job: str, id: str, *arguments: object) -> dict[str, object]:
    """Return the fields `class`, `wrapped` and `args` of an ActiveJob job."""
    inner = {"job_class": job, "job_id": id, "queue_name": "default", "arguments": list(arguments), "executions": 0}
    return {"class": _WRAPPER, "wrapped": job, "args": [inner]}


def encode_backtrace(*lines: str) -> str:
    """Encode a backtrace as Sidekiq stores it in a job."""
    return b64encode(zlib.compress(json.dumps(lines).encode())).decode()


class Client:
    """The producer of one queue. `clock` returns unix seconds."""

    def __init__(self, client: Any, queue: str, clock: Clock = time.time) -> None:
        self.client, self.queue, self.clock = client, queue, clock

    def build_item(self, jid: str, job: str, *args: object, **more: object) -> dict[str, object]:
        """Build a job as `perform_async` does.

        `more` are further fields. They replace fields of the same name.
        """
        first = {"retry": True, "queue": self.queue, "class": job, "args": list(args), "jid": jid}
        return {**first, "created_at": convert_to_ms(self.clock()), **more}

    def push(self, item: Mapping[str, object]) -> None:
        """Push a job to its queue, as `perform_async` does."""
        now_ms = convert_to_ms(self.clock())
        pipe = self.client.pipeline(transaction=False)
        pipe.sadd("queues", str(item["queue"]))
        pipe.lpush(f"queue:{item['queue']}", encode_item({**item, "enqueued_at": now_ms}))
        pipe.execute()

    def push_in(self, delay_s: float, item: Mapping[str, object]) -> None:
        """Add a job to `schedule`, as `perform_in` does."""
        self.client.zadd("schedule", {encode_item(item): self.clock() + delay_s})


class JobError(Exception):
    """A job's error: the name of Ruby's class, the message and the lines of its backtrace."""

    def __init__(self, kind: str, message: str, *lines: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind, self.message, self.lines = kind, message, lines


def add_error(item: Mapping[str, Any], error: JobError, now_s: float) -> dict[str, Any]:
    """Return a copy of a job with its last error, as `JobRetry#process_failure` writes it."""
    again = item.get("retry_count")
    times: dict[str, object] = (
        {"retry_count": 0, "failed_at": convert_to_ms(now_s)}
        if again is None
        else {"retry_count": again + 1, "retried_at": convert_to_ms(now_s)}
    )
    trace = {"error_backtrace": encode_backtrace(*error.lines)} if error.lines else {}
    return {**item, "error_message": error.message, "error_class": error.kind, **times, **trace}


def add_to_dead(client: Any, payload: bytes, at_s: float) -> None:
    """Add a job to `dead` as `DeadSet#kill` does, and trim the set by age and by length."""
    pipe = client.pipeline(transaction=True)
    pipe.zadd("dead", {payload: at_s})
    pipe.zremrangebyscore("dead", "-inf", at_s - _DEAD_S)
    pipe.zremrangebyrank("dead", 0, -_DEAD_JOBS)
    pipe.execute()


@dataclass(frozen=True, slots=True)
class _Held:
    """A job that a thread of a process runs: its queue, its exact text and its start time."""

    queue: str
    payload: bytes
    began_s: float

    def to_json(self) -> str:
        """Return the entry of the running job in the hash `<identity>:work`."""
        payload = self.payload.decode("utf-8", "replace")
        return json.dumps({"queue": self.queue, "payload": payload, "run_at": int(self.began_s)}, ensure_ascii=False)


class Process:
    """A Sidekiq process of one queue that runs one job at a time and writes failures to `retry` or `dead`.

    `run` gets the job's fields and may raise JobError. `roll` returns a number from 0 to 1 for the jitter of a retry.
    `beat` is called by another thread. Only a heartbeat writes the running jobs to Redis.
    """

    def __init__(
        self,
        client: Any,
        queue: str,
        host: str,
        run: Callable[[Mapping[str, Any]], object] = lambda _item: None,
        pause: Pause = _skip_gap,
        clock: Clock = time.time,
        roll: Callable[[], float] = lambda: 0.5,
        number: int = 1,
        threads: int = 1,
    ) -> None:
        self.client, self.queue, self.host, self.clock = client, queue, host, clock
        self._run, self._pause, self._roll = run, pause, roll
        self._pid = 4000 + 37 * number
        self.identity = f"{host}:{self._pid}:{number:04x}5eed{number:04x}"
        self._threads, self._began_s = threads, clock()
        self._held: dict[str, _Held] = {}  # by thread id
        self._reported: dict[str, _Held] = {}
        self._counters: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._is_gone = False

    # -- its life -----------------------------------------------------------------------------------------------------

    def beat(self, client: Any = None, at_s: float | None = None) -> None:
        """Send a heartbeat as `Launcher#heartbeat` does: counters, running jobs and the process's state."""
        with self._lock:
            if self._is_gone:
                return
            now_s = self.clock() if at_s is None else at_s
            pipe = (client or self.client).pipeline(transaction=True)
            self._write_counters(pipe, now_s)
            work = f"{self.identity}:work"
            pipe.delete(work)
            self._reported = dict(self._held)
            if self._reported:
                pipe.hset(work, mapping={thread: held.to_json() for thread, held in self._reported.items()})
                pipe.expire(work, LIFE_S)
            pipe.sadd("processes", self.identity)
            pipe.hset(
                self.identity,
                mapping={
                    "info": self._encode_info(),
                    "concurrency": self._threads,
                    "busy": len(self._reported),
                    "beat": repr(now_s),
                    "quiet": "false",
                    "rss": 91_000 + self._pid,
                    "rtt_us": 180 + self._pid % 90,
                },
            )
            pipe.expire(self.identity, LIFE_S)
            pipe.execute()

    def _encode_info(self) -> str:
        return json.dumps(
            {
                "hostname": self.host,
                "started_at": self._began_s,
                "pid": self._pid,
                "tag": "shop",
                "capsules": {"default": {"concurrency": self._threads, "mode": "strict", "weights": {self.queue: 0}}},
                "queues": [self.queue],
                "weights": [{self.queue: 0}],
                "labels": [],
                "identity": self.identity,
                "version": "8.1.7",
                "embedded": False,
            }
        )

    def _write_counters(self, pipe: Any, now_s: float) -> None:
        figures, self._counters = self._counters, Counter()
        at = datetime.fromtimestamp(now_s, UTC)
        for name in ("processed", "failed"):
            pipe.incrby(f"stat:{name}", figures[name])
            pipe.incrby(f"stat:{name}:{at:%Y-%m-%d}", figures.pop(name, 0))
            pipe.expire(f"stat:{name}:{at:%Y-%m-%d}", _DAY_STATS_S)
        for field, number in figures.items():
            minute = f"j|{at:%y%m%d}|{at.hour}:{at:%M}"
            for key in (minute, minute[:-1]):  # per minute, and per ten minutes
                pipe.hincrby(key, field, number)
                pipe.expire(key, _MINUTES_S)

    def die(self) -> bool:
        """Stop the process as SIGKILL does. Return whether the last heartbeat listed all running jobs."""
        with self._lock:
            self._is_gone = True
            return self._reported == self._held

    def leave(self) -> None:
        """Stop the process as SIGTERM does when no job is running, and delete its keys."""
        with self._lock:
            self._is_gone = True
            pipe = self.client.pipeline(transaction=True)
            self._write_counters(pipe, self.clock())
            pipe.srem("processes", self.identity)
            pipe.delete(self.identity, f"{self.identity}:work")
            pipe.execute()

    # -- a turn -------------------------------------------------------------------------------------------------------

    def step(self, wait_s: float = 0.05) -> str:
        """Run one turn of the process's loop. The original waits up to 2 s for a job.

        Return finished, retried, dead, gone, unreadable or idle.
        """
        taken = self.client.brpop([f"queue:{self.queue}"], wait_s)
        if taken is None:
            return "idle"
        payload: bytes = taken[1]
        thread = self.begin(payload)
        word = self._run_job(payload)
        del self._held[thread]
        return word

    def begin(self, payload: bytes) -> str:
        """Record in the memory of the process that a thread has started a job. Return the thread's id."""
        thread = f"{self._pid:x}{len(self._held)}"
        self._held[thread] = _Held(self.queue, payload, self.clock())
        return thread

    def _run_job(self, payload: bytes) -> str:
        try:
            item = json.loads(payload)
        except ValueError:
            add_to_dead(self.client, payload, self.clock())
            return "unreadable"
        began_s, name = self.clock(), str(item.get("wrapped") or item.get("class"))
        try:
            self._run(item)
        except JobError as error:
            self._pause("ran, not yet recorded")
            self._count_finished_run(name, "f", began_s)
            return self.fail(item, error)
        self._count_finished_run(name, "p", began_s)
        return "finished"

    def _count_finished_run(self, name: str, field: str, began_s: float) -> None:
        with self._lock:
            self._counters["processed"] += 1
            self._counters["failed"] += field == "f"
            self._counters[f"{name}|p"] += 1
            if field == "f":
                self._counters[f"{name}|f"] += 1
            else:
                self._counters[f"{name}|ms"] += convert_to_ms(self.clock() - began_s)

    def fail(self, item: Mapping[str, Any], error: JobError) -> str:
        """Record a failure as `JobRetry` does. Return retried, dead or gone.

        A job with retries left goes to `retry`, other jobs to `dead`. A job whose `retry` is missing or false is
        deleted.
        """
        now_s, most = self.clock(), item.get("retry")
        if most is None or most is False:
            return "gone"
        failed_item = add_error(item, error, now_s)
        count = failed_item["retry_count"]
        if count >= (RETRIES if most is True else int(most)):
            add_to_dead(self.client, encode_item(failed_item), now_s)
            return "dead"
        self.client.zadd(
            "retry", {encode_item(failed_item): now_s + count**4 + 15 + int(10 * self._roll()) * (count + 1)}
        )
        return "retried"


class Unreadable(Exception):
    """Raised when the poller removed a member that is not JSON. The member is lost."""

    def __init__(self, member: bytes) -> None:
        super().__init__("unexpected character")
        self.member = member


def enqueue_due_jobs(client: Any, clock: Clock = time.time) -> int:
    """Enqueue the due jobs of `retry` and `schedule` once, as `Scheduled::Enq#enqueue_jobs` does. Return how many.

    Raises Unreadable for a member that is not JSON, which is lost.
    """
    moved = 0
    for name in ("retry", "schedule"):
        while found := client.zrangebyscore(name, "-inf", clock(), start=0, num=1):
            member: bytes = found[0]
            if not client.zrem(name, member):
                continue
            try:
                item = json.loads(member)
            except ValueError as error:
                raise Unreadable(member) from error
            Client(client, item["queue"], clock).push(item)
            moved += 1
    return moved
