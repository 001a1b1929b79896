"""Measure dramatiq with eight threads: at its best without middleware, by default with its usual middleware."""

from __future__ import annotations

import time
from collections.abc import Sequence

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from protocol import Peer, main, report_measured_run


def create_peer(url: str, variant: str) -> Peer:
    def create_actor(**options: object) -> dramatiq.Actor[[str], None]:
        broker = RedisBroker(url=url, **options)
        dramatiq.set_broker(broker)
        return dramatiq.actor(report_measured_run, broker=broker, queue_name="bench")

    putting = create_actor(middleware=[])

    def enqueue_jobs(bodies: Sequence[str]) -> None:
        for body in bodies:
            putting.send(body)

    def run_worker(setting: str, wants_delays: bool) -> None:
        broker = create_actor(middleware=[]).broker if setting == "best" else create_actor().broker
        dramatiq.Worker(broker, worker_threads=8).start()
        while True:
            time.sleep(60)

    def enqueue_later(body: str, delay_s: float) -> None:
        putting.send_with_options(args=(body,), delay=int(delay_s * 1000))

    return Peer(enqueue_jobs, run_worker, later=enqueue_later)


if __name__ == "__main__":
    main(create_peer)
