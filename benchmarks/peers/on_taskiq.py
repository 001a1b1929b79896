"""Measure taskiq-redis: streams with acks (at least once); variant `list`: a list that is popped (at most once)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from protocol import Peer, main, report_measured_run
from taskiq.receiver import Receiver
from taskiq_redis import ListQueueBroker, RedisStreamBroker

BEST = {"max_async_tasks": 100, "max_prefetch": 100, "validate_params": False}
DEFAULT = {"max_async_tasks": 100}  # that of its command line


async def run(body: str) -> None:
    report_measured_run(body)


def create_peer(url: str, variant: str) -> Peer:
    logging.disable()
    loop = asyncio.new_event_loop()
    kind = ListQueueBroker if variant == "list" else RedisStreamBroker
    broker = kind(url, queue_name="bench", **({} if variant == "list" else {"consumer_id": "0"}))
    task = broker.task(task_name="run")(run)
    started: list[bool] = []

    async def enqueue_jobs(bodies: Sequence[str]) -> None:
        if not started:
            await broker.startup()
            started.append(True)
        for body in bodies:
            await task.kiq(body)

    async def run_worker(setting: str) -> None:
        own = kind(url, queue_name="bench", **({} if variant == "list" else {"consumer_id": "0"}))
        own.task(task_name="run")(run)
        own.is_worker_process = True
        await Receiver(own, **(BEST if setting == "best" else DEFAULT)).listen(asyncio.Event())

    return Peer(
        lambda bodies: loop.run_until_complete(enqueue_jobs(bodies)),
        lambda setting, wants_delays: asyncio.run(run_worker(setting)),
        no_delay="by a scheduler of its own process, to the second",
    )


if __name__ == "__main__":
    main(create_peer)
