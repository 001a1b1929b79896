"""Measure arq: with its best settings a hundred jobs at once and a poll each 10 ms.

By default ten, each half second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from arq import create_pool
from arq.connections import ArqRedis, RedisSettings
from arq.worker import Worker, func
from protocol import Peer, main, report_measured_run

BEST = {"max_jobs": 100, "poll_delay": 0.01}


async def run(_context: dict[str, Any], body: str) -> None:
    report_measured_run(body)


def create_peer(url: str, variant: str) -> Peer:
    settings = RedisSettings.from_dsn(url)
    loop = asyncio.new_event_loop()
    pools: list[ArqRedis] = []

    async def enqueue_jobs(bodies: Sequence[str], **options: Any) -> None:
        if not pools:
            pools.append(await create_pool(settings))
        for body in bodies:
            await pools[0].enqueue_job("run", body, **options)

    def run_worker(setting: str, wants_delays: bool) -> None:
        asyncio.set_event_loop(asyncio.new_event_loop())
        options: dict[str, Any] = BEST if setting == "best" else {}
        Worker([func(run, name="run", keep_result=0)], redis_settings=settings, **options).run()

    return Peer(
        lambda bodies: loop.run_until_complete(enqueue_jobs(bodies)),
        run_worker,
        later=lambda body, delay_s: loop.run_until_complete(enqueue_jobs([body], _defer_by=delay_s)),
    )


if __name__ == "__main__":
    main(create_peer)
