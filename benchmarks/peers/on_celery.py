"""Measure Celery with acks after the job: at its best one process without a pool.

By default it has a pool with a child per core. Its monitor is Flower.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from celery import Celery
from flower.utils.broker import Broker
from protocol import LOOK_JOBS, Peer, main, report_measured_run

BEST = ("--pool=solo", "--without-gossip", "--without-mingle", "--without-heartbeat", "--prefetch-multiplier=100")


def create_peer(url: str, variant: str) -> Peer:
    app = Celery("bench", broker=url)
    app.conf.update(task_ignore_result=True, task_acks_late=True, worker_hijack_root_logger=False)
    task = app.task(name="ran")(report_measured_run)

    def enqueue_jobs(bodies: Sequence[str]) -> None:
        for body in bodies:
            task.delay(body)

    def run_worker(setting: str, wants_delays: bool) -> None:
        app.worker_main(["worker", "--loglevel=CRITICAL", *(BEST if setting == "best" else ())])

    def enqueue_later(body: str, delay_s: float) -> None:
        task.apply_async((body,), countdown=delay_s)

    def prepare_monitor_read(number: int) -> Callable[[], int]:
        names = [f"look-{at}" for at in range(number)]
        for name in names:
            for _ in range(LOOK_JOBS):
                task.apply_async(("",), queue=name)
        monitor = Broker(url)  # of Flower: what its API's /api/queues/length asks
        return lambda: sum(each["messages"] for each in asyncio.run(monitor.queues(names)))

    return Peer(enqueue_jobs, run_worker, later=enqueue_later, forks=("default",), look=prepare_monitor_read)


if __name__ == "__main__":
    main(create_peer)
