"""Measure RQ: at its best SimpleWorker, which runs jobs in its own process; by default a process is forked per job."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable, Sequence
from datetime import timedelta

from protocol import LOOK_JOBS, Peer, main, report_measured_run
from redis import Redis
from rq import Queue, SimpleWorker, Worker
from rq.cli.helpers import show_both

BULK = 1000
NOTHING_KEPT = {"result_ttl": 0}


def create_peer(url: str, variant: str) -> Peer:
    queue = Queue("bench", connection=Redis.from_url(url))

    def enqueue_jobs(bodies: Sequence[str]) -> None:
        for body in bodies:
            queue.enqueue(report_measured_run, body, **NOTHING_KEPT)

    def enqueue_in_bulk(bodies: Sequence[str]) -> None:
        for at in range(0, len(bodies), BULK):
            queue.enqueue_many(
                [Queue.prepare_data(report_measured_run, (body,), **NOTHING_KEPT) for body in bodies[at : at + BULK]]
            )

    def run_worker(setting: str, wants_delays: bool) -> None:
        kind = SimpleWorker if setting == "best" else Worker
        kind(["bench"], connection=Redis.from_url(url)).work(logging_level="ERROR", with_scheduler=wants_delays)

    def enqueue_later(body: str, delay_s: float) -> None:
        queue.enqueue_in(timedelta(seconds=delay_s), report_measured_run, body, **NOTHING_KEPT)

    def prepare_monitor_read(number: int) -> Callable[[], int]:
        connection = Redis.from_url(url)
        for at in range(number):
            Queue(f"look-{at}", connection=connection).enqueue_many(
                [Queue.prepare_data(report_measured_run, ("",))] * LOOK_JOBS
            )

        def count_all_jobs() -> int:  # what `rq info` does each time
            with contextlib.redirect_stdout(io.StringIO()) as output:
                show_both(Queue.all(connection=connection), False, False, Queue, Worker, connection)
            return int(re.findall(r"(\d+) jobs total", output.getvalue())[0])

        return count_all_jobs

    return Peer(
        enqueue_jobs,
        run_worker,
        bulk=enqueue_in_bulk,
        later=enqueue_later,
        forks=("default",),
        look=prepare_monitor_read,
    )


if __name__ == "__main__":
    main(create_peer)
