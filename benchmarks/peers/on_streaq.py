"""Measure streaq: at its best a hundred jobs at once, by default sixteen."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from protocol import Peer, main, report_measured_run
from streaq import Worker

BULK = 1000


def create_peer(url: str, variant: str) -> Peer:
    def create_streaq_worker(**options: Any) -> tuple[Worker[Any], Any]:
        worker: Worker[Any] = Worker(redis_url=url, queue_name="bench", handle_signals=False, **options)

        @worker.task(ttl=0, name="run")
        async def run_measured_job(body: str) -> None:
            report_measured_run(body)

        return worker, run_measured_job

    putting, task = create_streaq_worker()
    loop = asyncio.new_event_loop()
    entered: list[bool] = []

    async def connect_worker() -> None:
        if not entered:
            await putting.__aenter__()
            entered.append(True)

    async def enqueue_jobs(bodies: Sequence[str]) -> None:
        await connect_worker()
        for body in bodies:
            await task.enqueue(body)

    async def enqueue_in_bulk(bodies: Sequence[str]) -> None:
        await connect_worker()
        for at in range(0, len(bodies), BULK):
            await putting.enqueue_many([task.enqueue(body) for body in bodies[at : at + BULK]])

    async def enqueue_later(body: str, delay_s: float) -> None:
        await connect_worker()
        await task.enqueue(body).start(delay=int(delay_s))

    def run_worker(setting: str, wants_delays: bool) -> None:
        asyncio.run(create_streaq_worker(**({"concurrency": 100} if setting == "best" else {}))[0].run_async())

    return Peer(
        lambda bodies: loop.run_until_complete(enqueue_jobs(bodies)),
        run_worker,
        bulk=lambda bodies: loop.run_until_complete(enqueue_in_bulk(bodies)),
        later=lambda body, delay_s: loop.run_until_complete(enqueue_later(body, delay_s)),
    )


if __name__ == "__main__":
    main(create_peer)
