"""Sidekiq (Ruby, 8.1: client.rb, processor.rb, job_retry.rb, scheduled.rb, launcher.rb): the commands that it was seen
to send, in the same order.

    queues                       set     <queue>
    queue:<queue>                list    JSON of jobs; LPUSH in, BRPOP out: who takes one holds it in its memory alone
    schedule, retry              zset    JSON by when it is due, of all queues
    dead                         zset    JSON by when it died; 10 000 at most, for 180 days
    processes                    set     <host>:<pid>:<nonce>
    <identity>                   hash    info, busy, beat, quiet, rss; written at each beat, every 10 s, for 60 s
    <identity>:work              hash    thread → {queue, payload, run_at}, written anew at every beat, expires after 60
    stat:processed, stat:failed  string  and one of each per day
    j|<YYMMDD>|<H:M>             hash    <class>|p, |f, |ms: how many ran and failed, for how long; kept for 8 hours

Scores are unix seconds, times in a job ms. Kept faults: what a killed process ran is gone with `:work` after a minute,
and at once where no beat has told it; the poller takes a member out of `schedule` before it reads it, and loses one
that is no JSON; every process polls, and where none does, what is due waits for ever. The histograms (`h|…`) are left
out.
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


def _go_on(_gap: str) -> None:
    """The default between two steps: nothing happens."""


def encoded(item: Mapping[str, object]) -> bytes:
    """A job as it stands in Redis: JSON without blanks, letters as they are."""
    return json.dumps(item, ensure_ascii=False, separators=(",", ":")).encode()


def ms(at_s: float) -> int:
    """An instant as it stands in a job."""
    return int(at_s * 1000)


def wrapped(job: str, id: str, *arguments: object) -> dict[str, object]:
    """`class`, `wrapped` and `args` of a job of ActiveJob."""
    inner = {"job_class": job, "job_id": id, "queue_name": "default", "arguments": list(arguments), "executions": 0}
    return {"class": _WRAPPER, "wrapped": job, "args": [inner]}


def traced(*lines: str) -> str:
    """A backtrace as it stands in a job."""
    return b64encode(zlib.compress(json.dumps(lines).encode())).decode()


class Client:
    """The producer's side. `clock` tells seconds since 1970."""

    def __init__(self, client: Any, queue: str, clock: Clock = time.time) -> None:
        self.client, self.queue, self.clock = client, queue, clock

    def item(self, jid: str, job: str, *args: object, **more: object) -> dict[str, object]:
        """A job as `perform_async` makes it; `more` are fields that stand instead of these, or behind them."""
        first = {"retry": True, "queue": self.queue, "class": job, "args": list(args), "jid": jid}
        return {**first, "created_at": ms(self.clock()), **more}

    def push(self, item: Mapping[str, object]) -> None:
        """`perform_async`: the job is in the queue."""
        now_ms = ms(self.clock())
        pipe = self.client.pipeline(transaction=False)
        pipe.sadd("queues", str(item["queue"]))
        pipe.lpush(f"queue:{item['queue']}", encoded({**item, "enqueued_at": now_ms}))
        pipe.execute()

    def push_in(self, delay_s: float, item: Mapping[str, object]) -> None:
        """`perform_in`: the job is in `schedule`."""
        self.client.zadd("schedule", {encoded(item): self.clock() + delay_s})


class JobError(Exception):
    """A job raised: the name of Ruby's class, the message, and the lines of its backtrace."""

    def __init__(self, kind: str, message: str, *lines: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind, self.message, self.lines = kind, message, lines


def failed(item: Mapping[str, Any], error: JobError, now_s: float) -> dict[str, Any]:
    """`JobRetry#process_failure`: a job with its last error in it."""
    again = item.get("retry_count")
    times: dict[str, object] = (
        {"retry_count": 0, "failed_at": ms(now_s)}
        if again is None
        else {"retry_count": again + 1, "retried_at": ms(now_s)}
    )
    trace = {"error_backtrace": traced(*error.lines)} if error.lines else {}
    return {**item, "error_message": error.message, "error_class": error.kind, **times, **trace}


def bury(client: Any, payload: bytes, at_s: float) -> None:
    """`DeadSet#kill`: to `dead`, which forgets what is old and what is too much."""
    pipe = client.pipeline(transaction=True)
    pipe.zadd("dead", {payload: at_s})
    pipe.zremrangebyscore("dead", "-inf", at_s - _DEAD_S)
    pipe.zremrangebyrank("dead", 0, -_DEAD_JOBS)
    pipe.execute()


@dataclass(frozen=True, slots=True)
class _Held:
    """What a thread runs: the queue, the exact text, since when."""

    queue: str
    payload: bytes
    began_s: float

    def told(self) -> str:
        payload = self.payload.decode("utf-8", "replace")
        return json.dumps({"queue": self.queue, "payload": payload, "run_at": int(self.began_s)}, ensure_ascii=False)


class Process:
    """A process of one queue, of which one thread is played: takes, runs, and writes failures to `retry` or `dead`.

    `run` is given the job's fields and raises JobError; `roll` gives a number from 0 to 1 for the jitter of a retry.
    `beat` is called by another thread: it is what tells Redis what runs.
    """

    def __init__(
        self,
        client: Any,
        queue: str,
        host: str,
        run: Callable[[Mapping[str, Any]], object] = lambda _item: None,
        pause: Pause = _go_on,
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
        self._held: dict[str, _Held] = {}  # by thread
        self._told: dict[str, _Held] = {}
        self._figures: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._is_gone = False

    # -- its life -----------------------------------------------------------------------------------------------------

    def beat(self, client: Any = None, at_s: float | None = None) -> None:
        """`Launcher#heartbeat`: counters, what runs, and that it is alive."""
        with self._lock:
            if self._is_gone:
                return
            now_s = self.clock() if at_s is None else at_s
            pipe = (client or self.client).pipeline(transaction=True)
            self._flush(pipe, now_s)
            work = f"{self.identity}:work"
            pipe.delete(work)
            self._told = dict(self._held)
            if self._told:
                pipe.hset(work, mapping={thread: held.told() for thread, held in self._told.items()})
                pipe.expire(work, LIFE_S)
            pipe.sadd("processes", self.identity)
            pipe.hset(
                self.identity,
                mapping={
                    "info": self._info(),
                    "concurrency": self._threads,
                    "busy": len(self._told),
                    "beat": repr(now_s),
                    "quiet": "false",
                    "rss": 91_000 + self._pid,
                    "rtt_us": 180 + self._pid % 90,
                },
            )
            pipe.expire(self.identity, LIFE_S)
            pipe.execute()

    def _info(self) -> str:
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

    def _flush(self, pipe: Any, now_s: float) -> None:
        figures, self._figures = self._figures, Counter()
        at = datetime.fromtimestamp(now_s, UTC)
        for name in ("processed", "failed"):
            pipe.incrby(f"stat:{name}", figures[name])
            pipe.incrby(f"stat:{name}:{at:%Y-%m-%d}", figures.pop(name, 0))
            pipe.expire(f"stat:{name}:{at:%Y-%m-%d}", _DAY_STATS_S)
        for field, number in figures.items():
            key = f"j|{at:%y%m%d}|{at.hour}:{at.minute}"
            pipe.hincrby(key, field, number)
            pipe.expire(key, _MINUTES_S)

    def die(self) -> bool:
        """−9: it says no more; whether a beat has told what it ran."""
        with self._lock:
            self._is_gone = True
            return self._told == self._held

    def leave(self) -> None:
        """TERM: it has nothing in hands, and takes its keys with it."""
        with self._lock:
            self._is_gone = True
            pipe = self.client.pipeline(transaction=True)
            self._flush(pipe, self.clock())
            pipe.srem("processes", self.identity)
            pipe.delete(self.identity, f"{self.identity}:work")
            pipe.execute()

    # -- a turn -------------------------------------------------------------------------------------------------------

    def step(self, wait_s: float = 0.05) -> str:
        """One turn of its loop (the original waits for 2 s): finished, retried, dead, unreadable or idle."""
        taken = self.client.brpop([f"queue:{self.queue}"], wait_s)
        if taken is None:
            return "idle"
        payload: bytes = taken[1]
        thread = self.begin(payload)
        word = self._perform(payload)
        del self._held[thread]
        return word

    def begin(self, payload: bytes) -> str:
        """A thread has taken a job; gives the thread."""
        thread = f"{self._pid:x}{len(self._held)}"
        self._held[thread] = _Held(self.queue, payload, self.clock())
        return thread

    def _perform(self, payload: bytes) -> str:
        try:
            item = json.loads(payload)
        except ValueError:
            bury(self.client, payload, self.clock())
            return "unreadable"
        began_s, name = self.clock(), str(item.get("wrapped") or item.get("class"))
        try:
            self._run(item)
        except JobError as error:
            self._pause("ran, not yet recorded")
            self._count(name, "f", began_s)
            return self.fail(item, error)
        self._count(name, "p", began_s)
        return "finished"

    def _count(self, name: str, field: str, began_s: float) -> None:
        with self._lock:
            self._figures["processed"] += 1
            self._figures["failed"] += field == "f"
            self._figures[f"{name}|{field}"] += 1
            if field == "p":
                self._figures[f"{name}|ms"] += ms(self.clock() - began_s)

    def fail(self, item: Mapping[str, Any], error: JobError) -> str:
        """`JobRetry`: to `retry` while it has retries, else to `dead`; one whose `retry` is missing is gone."""
        now_s, most = self.clock(), item.get("retry")
        if most is None or most is False:
            return "gone"
        told = failed(item, error, now_s)
        count = told["retry_count"]
        if count >= (RETRIES if most is True else int(most)):
            bury(self.client, encoded(told), now_s)
            return "dead"
        self.client.zadd("retry", {encoded(told): now_s + count**4 + 15 + int(10 * self._roll()) * (count + 1)})
        return "retried"


class Unreadable(Exception):
    """The poller took a member out that is no JSON: it is nowhere now."""

    def __init__(self, member: bytes) -> None:
        super().__init__("unexpected character")
        self.member = member


def poll(client: Any, clock: Clock = time.time) -> int:
    """`Scheduled::Enq#enqueue_jobs`, one round: what is due of `retry` and `schedule` is queued; how many jobs.

    Raises Unreadable on a member that is no JSON, which is gone then.
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
