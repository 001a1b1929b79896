"""Stock Sidekiq beside a test: its API through a driver, and its processes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from beside import stock
from beside.environments import Ruby
from beside.stock import SLOW_S, Worker
from redis import Redis
from waiting import wait_until

APP = Path(__file__).parent / "app"
BEAT_S, LIFE_S = 10, 60  # of a process: how often it sends heartbeats, and how long its keys outlive it


class Stock(stock.Stock):
    """Sidekiq of one version at one Redis. A worker's name is its host name, the start of its identity."""

    queue = "sidekiq:default"

    def __init__(self, ruby: Ruby, url: str, logs: Path, app: Path = APP) -> None:
        self._ruby, self._app = ruby, app
        environ = {**ruby.environ, "REDIS_URL": url, "DYNO": "driver"}
        super().__init__([*ruby.command, str(app / "driver.rb")], environ, url, logs)

    @cached_property
    def version(self) -> str:
        """The version of Sidekiq."""
        return str(self.do("version"))

    @cached_property
    def has(self) -> dict[str, bool]:
        """The availability of `active_job`, `cron` and `steps`."""
        found: dict[str, bool] = self.do("has")
        return found

    @cached_property
    def work_key(self) -> str:
        """The suffix of the key of running jobs, after the identity of a process."""
        return ":workers" if int(self.version.split(".")[0]) < 7 else ":work"

    def push(
        self, *jids: str, job: str = "HardJob", args: tuple[Any, ...] = (), queue: str = "default", **more: Any
    ) -> None:
        """Push a job for each jid with `Sidekiq::Client.push`, to run after `in_s`."""
        if (in_s := more.pop("in_s", None)) is not None:
            more["at"] = time.time() + in_s
        items = [{"class": job, "args": list(args), "jid": jid, "queue": queue, **more} for jid in jids]
        self.do("push", items=items)

    def start(self, *queues: str, name: str = "", threads: int = 2, grace_s: int = 1) -> Worker:
        """Start a process, which waits `grace_s` for its jobs at SIGTERM. It is killed when the test ends."""
        name = name or f"stock-{self._number + 1}"
        of_queues = [word for queue in queues or ("default",) for word in ("-q", queue)]
        options = ("-r", str(self._app / "shop.rb"), "-g", "shop", "-c", str(threads), "-t", str(grace_s), *of_queues)
        return self.begin([*self._ruby.command, self._ruby.program, *options], self._is_there, name, DYNO=name)

    @contextmanager
    def worker(self, *queues: str, name: str = "", threads: int = 2) -> Iterator[Worker]:
        """Run a process for the block, then terminate it and wait for its end."""
        result = self.start(*queues, name=name, threads=threads)
        yield result
        result.process.terminate()
        result.process.wait(SLOW_S)

    def identity(self, worker: Worker) -> str:
        """Return the identity of a process, or an empty string before its first heartbeat."""
        begin = f"{worker.name}:".encode()
        return next((each.decode() for each in self.client.smembers("processes") if each.startswith(begin)), "")

    def _is_there(self, worker: Worker) -> bool:
        identity = self.identity(worker)
        return bool(identity) and self.client.hexists(identity, "beat")

    def where(self, jid: str) -> str:
        """Return where the stock API finds a job: a queue, `schedule`, `retry`, `dead`, `work` or an empty string."""
        return " ".join(self.do("where", jids=[jid])[jid])

    def until(self, jid: str, place: str) -> None:
        """Wait until a job is in this place and no other."""
        wait_until(lambda: self.where(jid) == place, SLOW_S, f"{jid} is in {place or 'no place'}", 0.05)

    def jids(self, place: str) -> list[str]:
        """Return the jobs of a queue or a set in the order of the stock API."""
        return [job["jid"] for job in self.do("jobs", place=place)]

    def run_holding(
        self,
        *jids: str,
        worker: str = "",
        queue: str = "default",
        job: str = "SlowJob",
        args: tuple[Any, ...] = ("go",),
    ) -> Worker:
        """Start a process that runs these jobs until the key `go` exists, and wait for its heartbeat with them."""
        self.push(*jids, job=job, args=args, queue=queue)
        process = self.start(queue, name=worker, threads=len(jids))
        for jid in jids:
            self.until_ran(jid)
        wait_until(
            lambda: {each["jid"] for each in self.do("work")} >= {*jids}, SLOW_S, "its beat tells its jobs", 0.05
        )
        return process

    def age(self, worker: Worker, seconds: int) -> None:
        """Move the last heartbeat of a process and the expiry of its keys back by `seconds`."""
        identity = self.identity(worker)
        for key in (identity, f"{identity}{self.work_key}"):
            if (left_s := self.client.ttl(key)) > 0:
                self.client.expire(key, max(left_s - seconds, 0))
        if beat := self.client.hget(identity, "beat"):
            self.client.hset(identity, "beat", repr(float(beat) - seconds))


def is_blocked(client: Redis) -> bool:
    """Return whether a process waits for a job."""
    return any(each["cmd"].lower() == "brpop" for each in client.client_list())
