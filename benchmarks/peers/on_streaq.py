"""streaq: at its best a hundred jobs at once, by default sixteen."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from protocol import Peer, main, ran
from streaq import Worker

BULK = 1000


def create_peer(url: str, variant: str) -> Peer:
    def worker(**options: Any) -> tuple[Worker[Any], Any]:
        made: Worker[Any] = Worker(redis_url=url, queue_name="bench", handle_signals=False, **options)

        @made.task(ttl=0, name="run")
        async def run(body: str) -> None:
            ran(body)

        return made, run

    putting, task = worker()
    loop = asyncio.new_event_loop()
    entered: list[bool] = []

    async def connected() -> None:
        if not entered:
            await putting.__aenter__()
            entered.append(True)

    async def enqueue_jobs(bodies: Sequence[str]) -> None:
        await connected()
        for body in bodies:
            await task.enqueue(body)

    async def enqueue_in_bulk(bodies: Sequence[str]) -> None:
        await connected()
        for at in range(0, len(bodies), BULK):
            await putting.enqueue_many([task.enqueue(body) for body in bodies[at : at + BULK]])

    async def enqueue_later(body: str, delay_s: float) -> None:
        await connected()
        await task.enqueue(body).start(delay=int(delay_s))

    def run_worker(setting: str, wants_delays: bool) -> None:
        asyncio.run(worker(**({"concurrency": 100} if setting == "best" else {}))[0].run_async())

    return Peer(
        lambda bodies: loop.run_until_complete(enqueue_jobs(bodies)),
        run_worker,
        bulk=lambda bodies: loop.run_until_complete(enqueue_in_bulk(bodies)),
        later=lambda body, delay_s: loop.run_until_complete(enqueue_later(body, delay_s)),
    )


if __name__ == "__main__":
    main(create_peer)
