"""Stock RQ beside a test: its API through a driver, its workers as processes, and `rq` itself."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from beside import stock
from beside.stock import FIXED, RAN, SLOW_S, Worker
from redis import Redis
from waiting import wait_until

__all__ = ["FIXED", "RAN", "SLOW_S", "Stock", "Worker", "age_leases"]

APP = Path(__file__).parent / "app"


class Stock(stock.Stock):
    """RQ of one version at one Redis."""

    queue = "rq:default"

    def __init__(self, folder: Path, version: str, url: str, logs: Path) -> None:
        self.version, self._bin = version, folder / "bin"
        environ = {"PYTHONPATH": str(APP), "PYTHONUNBUFFERED": "1"}
        super().__init__([str(self._bin / "python"), str(APP / "driver.py"), url], environ, url, logs)

    def rq(self, *words: str) -> str:
        """Run `rq WORDS…` and return its output."""
        command = [str(self._bin / "rq"), *words, "-u", self.url]
        return subprocess.run(command, env=self._environ, capture_output=True, text=True, check=True).stdout

    def cron(self) -> Worker:
        """Start `rq cron` with the application's schedule. It is killed when the test ends."""
        return self.begin([str(self._bin / "rq"), "cron", "-u", self.url, str(APP / "night.py")], name="cron")

    def start(self, *queues: str, name: str = "", options: tuple[str, ...] = ()) -> Worker:
        """Start a worker and wait until it is ready. The worker is killed when the test ends."""
        name = name or f"stock-{self._number + 1}"
        command = [str(self._bin / "rq"), "worker", "-u", self.url, "--name", name, *options, *(queues or ("default",))]
        return self.begin(command, self._is_there, name)

    @contextmanager
    def worker(self, *queues: str, name: str = "", options: tuple[str, ...] = ()) -> Iterator[Worker]:
        """Run a worker for the block, then terminate it and wait for its end."""
        result = self.start(*queues, name=name, options=options)
        yield result
        result.process.terminate()
        result.process.wait(SLOW_S)

    def _is_there(self, worker: Worker) -> bool:
        return self.client.hget(f"rq:worker:{worker.name}", "state") in (b"idle", b"busy")

    def until(self, id: str, status: str) -> dict[str, Any]:
        """Wait until RQ reports this status of a job, and return its report."""
        wait_until(lambda: (self.do("job", id=id) or {}).get("status") == status, SLOW_S, f"{id} is {status}", 0.02)
        found: dict[str, Any] = self.do("job", id=id)
        return found

    def run_holding(self, id: str, worker: str = "", queue: str = "default", **options: Any) -> Worker:
        """Start a worker that runs job `id` until the key `go` exists, and wait until the job runs."""
        self.do("enqueue", queue=queue, func="shop.hold", args=["go"], id=id, **options)
        process = self.start(queue, name=worker)
        self.until_ran(id)
        return process


def age_leases(client: Redis, queue: str, seconds: int, worker: str = "*") -> None:
    """Move leases, executions and one or all workers back in time, as if they had not been renewed."""
    for member, score in client.zrange(f"rq:wip:{queue}", 0, -1, withscores=True):
        client.zadd(f"rq:wip:{queue}", {member: score - seconds})
    for pattern in (f"rq:worker:{worker}", "rq:execution:*", "rq:executions:*"):
        for key in client.scan_iter(pattern):
            if (left_s := client.ttl(key)) > 0:
                client.expire(key, left_s - seconds)
