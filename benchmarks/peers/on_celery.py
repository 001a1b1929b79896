"""Celery, acks after the job: at its best one process without a pool; by default a pool with a child per core."""

from __future__ import annotations

from collections.abc import Sequence

from celery import Celery
from protocol import Peer, main, ran

BEST = ("--pool=solo", "--without-gossip", "--without-mingle", "--without-heartbeat", "--prefetch-multiplier=100")


def make(url: str, variant: str) -> Peer:
    app = Celery("bench", broker=url)
    app.conf.update(task_ignore_result=True, task_acks_late=True, worker_hijack_root_logger=False)
    task = app.task(name="ran")(ran)

    def enqueue(bodies: Sequence[str]) -> None:
        for body in bodies:
            task.delay(body)

    def work(setting: str, wants_delays: bool) -> None:
        app.worker_main(["worker", "--loglevel=CRITICAL", *(BEST if setting == "best" else ())])

    def later(body: str, delay_s: float) -> None:
        task.apply_async((body,), countdown=delay_s)

    return Peer(enqueue, work, later=later, forks=("default",))


if __name__ == "__main__":
    main(make)
