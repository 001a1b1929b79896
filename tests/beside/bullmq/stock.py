"""Stock BullMQ beside a test: its API through a driver, and its workers as processes."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from beside import stock
from beside.stock import SLOW_S, Worker
from waiting import wait_until

APP = Path(__file__).parent / "app"
P = "bull:mail:"
STATES = {"waiting": "wait", "waiting-children": "waiting_children"}
"""What BullMQ calls the states whose places have another name."""


class Stock(stock.Stock):
    """BullMQ of one version at one Redis; its queue is `mail`."""

    queue = "bullmq:mail"

    def __init__(self, folder: Path, version: str, url: str, logs: Path) -> None:
        self.version, self.is_5 = version, version.startswith("5.")
        environ = {"NODE_PATH": str(folder / "node_modules")}
        super().__init__(["node", str(APP / "driver.js"), url], environ, url, logs)

    def add(self, *ids: str, name: str = "work", data: Any = None, queue: str = "mail", **opts: Any) -> None:
        """Add a job for each id with `Queue.add`."""
        for id in ids:
            self.do("add", queue=queue, name=name, data=data if data is not None else {}, opts={"jobId": id, **opts})

    def start(
        self, queue: str = "mail", *, name: str = "", threads: int = 1, metrics: int = 0, is_named: bool = True
    ) -> Worker:
        """Start a worker and wait until it is ready. The worker is killed when the test ends.

        `metrics` is the number of minutes for which it keeps metrics. Without `is_named`, BullMQ knows no name of it.
        """
        name = name or f"stock-{self._number + 1}"
        command = [
            "node",
            str(APP / "shop.js"),
            self.url,
            queue,
            name if is_named else "",
            str(threads),
            *([str(metrics)] if metrics else []),
        ]
        called = f"bull:{base64.b64encode(queue.encode()).decode()}" + (f":w:{name}" if is_named else "")
        return self.begin(
            command, lambda _made: any(each["name"] == called for each in self.client.client_list()), name
        )

    @contextmanager
    def worker(self, queue: str = "mail", *, name: str = "", threads: int = 1) -> Iterator[Worker]:
        """Run a worker for the block, then terminate it and wait for its end."""
        result = self.start(queue, name=name, threads=threads)
        yield result
        result.process.terminate()
        result.process.wait(SLOW_S)

    def state(self, id: str) -> str:
        """Return the state of a job according to BullMQ, `unknown` if the job is missing."""
        return str(self.do("states", queue="mail", ids=[id])[id])

    def states(self, *ids: str) -> dict[str, str]:
        """Return the states of jobs according to BullMQ."""
        found: dict[str, str] = self.do("states", queue="mail", ids=list(ids))
        return found

    def until(self, id: str, state: str) -> None:
        """Wait until BullMQ reports this state of a job."""
        wait_until(lambda: self.state(id) == state, SLOW_S, f"{id} is {state}", 0.03)

    def job(self, id: str) -> dict[str, Any]:
        """Return the document of a job from BullMQ."""
        found: dict[str, Any] = self.do("job", queue="mail", id=id)
        return found

    def counts(self) -> dict[str, int]:
        """Return `getJobCounts` by the names of rqtui's places. BullMQ 6 has no `paused`."""
        found: dict[str, int] = self.do("counts", queue="mail")
        return {"paused": 0} | {STATES.get(state, state): number for state, number in found.items()}

    def read_counts(self) -> dict[str, int]:
        """Return the jobs per place as `rqtui snapshot` counts them."""
        [queue] = [each for each in self.rqtui("snapshot")["queues"] if each["queue"] == "mail"]
        return {place["place"]: place["count"] for place in queue["places"]}

    def run_holding(self, id: str, worker: str = "", **opts: Any) -> Worker:
        """Start a worker that runs job `id` until the key `go` exists, and wait until the job runs."""
        self.add(id, name="hold", data={"key": "go"}, **opts)
        process = self.start(name=worker)
        self.until_ran(id)
        return process

    def run_killed_worker(self, id: str, worker: str = "killed", **opts: Any) -> None:
        """Kill a worker while it runs job `id`, and let the job's lock expire."""
        self.run_holding(id, worker, **opts).kill()
        self.expire_lock(id)

    def expire_lock(self, id: str) -> None:
        """Let a job's lock expire, as if its worker had not renewed the lock."""
        self.client.pexpire(f"{P}{id}:lock", 1)
        wait_until(lambda: not self.client.exists(f"{P}{id}:lock"), what="the lock is over", every_s=0.01)

    def idle(self) -> None:
        """Wait until a worker blocks for the next job, so that only the marker key wakes it."""
        wait_until(
            lambda: any(each["cmd"].lower() == "bzpopmin" for each in self.client.client_list()),
            SLOW_S,
            "a worker waits for work",
            0.02,
        )
