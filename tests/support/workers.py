"""Run a queue worker on a background thread of a test, and pass its error on to the test."""

from __future__ import annotations

import threading
from typing import Any

from rqtui.client.queue import Queue

END_S = 30.0


class Worker:
    """A consumer of a queue that runs on a background thread until it is stopped. `ran` has the ids of its jobs."""

    def __init__(self, url: str, name: str = "mail", kind: Any = Queue) -> None:
        self.ran: list[str] = []
        self.stop = threading.Event()
        self.error: BaseException | None = None
        self._queue = kind(name, url)
        self._thread = threading.Thread(target=self._consume_jobs, daemon=True)

    def _consume_jobs(self) -> None:
        """Consume jobs until the worker is stopped, and store any error for the test."""
        try:
            for job in self._queue.consume(ttr=30, stop=self.stop):
                with job:
                    self.ran.append(job.id)
        except BaseException as error:
            self.error = error

    def __enter__(self) -> Worker:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop.set()
        self._thread.join(END_S)
        self._queue.close()
