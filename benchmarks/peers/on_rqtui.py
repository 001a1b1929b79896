"""Measure rqtui, from the environment that runs `run.py`: `consume()` as it is; variant `one`: no batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from protocol import LOOK_JOBS, Peer, main, report_measured_run

from rqtui.client.queue import Queue
from rqtui.connection.connect import connect
from rqtui.engine.engine import build_engine
from rqtui.systems import registry


def create_peer(url: str, variant: str) -> Peer:
    queue = Queue("bench", url)

    def enqueue_jobs(bodies: Sequence[str]) -> None:
        for body in bodies:
            queue.put(body)

    def run_worker(setting: str, wants_delays: bool) -> None:
        with Queue("bench", url) as own:
            for job in own.consume(batch=1) if variant == "one" else own.consume():
                with job:
                    report_measured_run(job.body)

    def prepare_monitor_read(number: int) -> Callable[[], int]:
        client = connect(url)
        for at in range(number):
            Queue(f"look-{at}", client).put_many([""] * LOOK_JOBS)
        engine = build_engine(client, [registry.create_system("native")])
        return lambda: sum(count.count for each in engine.take_snapshot().queues for count in each.counts)

    return Peer(
        enqueue_jobs,
        run_worker,
        bulk=lambda bodies: queue.put_many(bodies) and None,
        later=lambda body, delay_s: queue.put(body, delay=delay_s) and None,
        look=prepare_monitor_read,
    )


if __name__ == "__main__":
    main(create_peer)
