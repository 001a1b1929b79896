"""Stock arq beside a test: its API through a driver, and its workers as processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from beside import stock
from beside.stock import FIXED, SLOW_S, Worker
from waiting import wait_until

__all__ = ["FIXED", "SLOW_S", "Stock", "Worker"]

APP = Path(__file__).parent / "app"


class Stock(stock.Stock):
    """The jobs and workers of arq at one Redis."""

    queue = "arq:arq:queue"

    def __init__(self, folder: Path, url: str, logs: Path) -> None:
        self._bin = folder / "bin"
        environ = {"PYTHONPATH": str(APP), "PYTHONUNBUFFERED": "1", "SHOP_URL": url}
        super().__init__([str(self._bin / "python"), str(APP / "driver.py"), url], environ, url, logs)

    def start(self, **settings: str) -> Worker:
        """Start `arq shop.WorkerSettings`, with variables such as SHOP_MAX_JOBS, and wait until it has reported."""
        self.client.delete("arq:queue:health-check")
        return self.begin(
            [str(self._bin / "arq"), "shop.WorkerSettings"],
            lambda _worker: bool(self.client.exists("arq:queue:health-check")),
            **settings,
        )

    def until(self, id: str, status: str) -> None:
        """Wait until arq reports this status of a job."""
        wait_until(lambda: self.do("statuses", ids=[id])[id] == status, SLOW_S, f"{id} is {status}", 0.02)

    def count_places(self) -> dict[str, int]:
        """Return the number of jobs in each place, as `rqtui snapshot` prints it."""
        [queue] = self.rqtui("snapshot", self.queue)["queues"]
        places: list[dict[str, Any]] = queue["places"]
        return {place["place"]: place["count"] for place in places}
