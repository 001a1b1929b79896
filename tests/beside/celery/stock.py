"""Stock Celery beside a test: its API through a driver, its workers as processes, `celery` itself, and Flower."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from beside import stock
from beside.stock import SLOW_S, Worker
from fleet import find_free_port
from waiting import wait_until

APP = Path(__file__).parent / "app"
STEPS = ("", "\x06\x163", "\x06\x166", "\x06\x169")
"""What stands behind a queue's name in the keys of its priorities, the highest first."""


class Stock(stock.Stock):
    """Celery of one version at one Redis. A worker's name is the part of its host name before the @."""

    queue = "celery:default"

    def __init__(self, folder: Path, url: str, logs: Path) -> None:
        self._bin = folder / "bin"
        environ = {"PYTHONPATH": str(APP), "PYTHONUNBUFFERED": "1", "SHOP_URL": url, "SHOP_SETTINGS": "{}"}
        environ["C_FORCE_ROOT"] = "1"  # where the tests run as root, workers would refuse pickle
        super().__init__([str(self._bin / "python"), str(APP / "driver.py"), url], environ, url, logs)

    def configure(self, **settings: Any) -> None:
        """Change the application's settings for all later producers and workers."""
        self._environ["SHOP_SETTINGS"] = json.dumps(settings)
        self.do("configure", settings=settings)

    def enqueue(self, id: str, task: str = "shop.add", args: tuple[Any, ...] = (1, 2), **options: Any) -> None:
        """Send a task with `send_task`, to the queue `default` unless the options name another."""
        self.do("enqueue", task=task, args=args, id=id, **options)

    def command(self, *words: str) -> list[str]:
        """Return the command line `celery -A shop WORDS…`."""
        return [str(self._bin / "celery"), "-A", "shop", *words]

    def celery(self, *words: str) -> str:
        """Run `celery -A shop WORDS…` and return its output."""
        return subprocess.run(
            self.command(*words), env=self._environ, capture_output=True, text=True, check=True
        ).stdout

    def start(
        self, *queues: str, name: str = "", pool: str = "solo", slots: int = 1, events: bool = False, **environ: str
    ) -> Worker:
        """Start a worker, with `-E` if `events` is set, and wait until it is ready. It is killed when the test ends."""
        name = name or f"stock-{self._number + 1}"
        options = ["-P", pool, "-c", str(slots), "-n", f"{name}@shop", "-l", "INFO", *(["-E"] if events else [])]
        command = self.command("worker", "-Q", ",".join(queues or ("default",)), *options)
        before = self._listeners()

        def has_subscribed(worker: Worker) -> bool:
            return f"{name}@shop ready." in worker.read_log() and self._listeners() > before

        return self.begin(command, has_subscribed, name, **environ)

    def _listeners(self) -> int:
        return sum(each["psub"] != "0" for each in self.client.client_list())

    @contextmanager
    def worker(self, *queues: str, **options: Any) -> Iterator[Worker]:
        """Run a worker for the block, then terminate it and wait for its end."""
        result = self.start(*queues, **options)
        yield result
        result.process.terminate()
        result.process.wait(SLOW_S)

    def inspect_workers(self, tool: str, visibility_s: int) -> None:
        """Open Flower's page of workers, or run `celery inspect`, with this visibility timeout.

        Kombu restores when it has waited in vain, but not when its BRPOP ends first, which takes a second: by default
        `inspect` waits a second too, and chance decides (kombu 5.7, `MultiChannelPoller.get`).
        """
        settings = {"SHOP_SETTINGS": json.dumps({"broker_transport_options": {"visibility_timeout": visibility_s}})}
        if tool == "inspect":
            self.begin(self.command("inspect", "-t", "0.5", "active"), name=tool, **settings).process.wait(SLOW_S)
            return
        port = find_free_port()
        command = self.command("flower", f"--port={port}", "--address=127.0.0.1")
        flower = self.begin(command, lambda worker: "Connected to" in worker.read_log(), tool, **settings)
        wait_until(lambda: _is_fetched(f"http://127.0.0.1:{port}/workers?refresh=1"), SLOW_S, flower.read_log(), 0.1)

    def until(self, id: str, status: str) -> dict[str, Any]:
        """Wait until Celery reports this status of a job, and return its report."""
        wait_until(lambda: self.do("result", id=id)["status"] == status, SLOW_S, f"{id} is {status}", 0.02)
        found: dict[str, Any] = self.do("result", id=id)
        return found

    def until_acked(self) -> None:
        """Wait until no worker holds a message."""
        wait_until(lambda: not self.read_unacked(), SLOW_S, "all is acknowledged", 0.02)

    def run_holding(self, *ids: str, worker: str = "", queue: str = "default", **options: Any) -> Worker:
        """Start a worker that runs these jobs until the key `go` exists, and wait until they run."""
        for id in ids:
            self.enqueue(id, "shop.hold", ("go",), queue=queue)
        process = self.start(queue, name=worker, **{"pool": "prefork", "slots": len(ids)} | options)
        for id in ids:
            self.until_ran(id)
        return process

    def read_waiting(self, queue: str = "default", prefix: str = "") -> list[str]:
        """Return the jobs of a queue in the order in which workers take them."""
        return [
            json.loads(message)["headers"]["id"]
            for step in STEPS
            for message in reversed(self.client.lrange(f"{prefix}{queue}{step}", 0, -1))
        ]

    def read_unacked(self, prefix: str = "") -> dict[str, float]:
        """Return the jobs that workers hold, with the unix time (s) at which each was taken."""
        held = self.client.hgetall(f"{prefix}unacked")
        since = dict(self.client.zrange(f"{prefix}unacked_index", 0, -1, withscores=True))
        return {json.loads(entry)[0]["headers"]["id"]: since.get(tag, 0) for tag, entry in held.items()}

    def age(self, seconds: float, *ids: str) -> None:
        """Move the time at which jobs were taken back by `seconds`: of these jobs, or of all."""
        for tag, entry in self.client.hgetall("unacked").items():
            if not ids or json.loads(entry)[0]["headers"]["id"] in ids:
                self.client.zincrby("unacked_index", -seconds, tag)


def _is_fetched(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=SLOW_S) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
