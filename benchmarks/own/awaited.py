"""Compare the asyncio queue with the blocking queue, measured in alternating rounds."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from redis import asyncio as aioredis

from rqtui.aio import BYTES
from rqtui.aio import Queue as AwaitedQueue
from rqtui.client.queue import Queue

from .line import Bench, Line

BODY = b"x" * 200
ROUNDS = 5
AT_ONCE = 100

Spent = dict[str, list[tuple[float, float]]]  # µs of this process and of the clock for each job, round by round


def measure_awaited_queue(on: Bench) -> Iterator[Line]:
    """Measure puts and a drain with the asyncio client, compared with the blocking client."""
    puts, jobs = on.size(1_000, AT_ONCE), on.size(10_000, 500)
    spent: Spent = {}
    with Queue("bench", on.server.url, BYTES) as waits:
        for _ in range(ROUNDS):
            with _record_time(spent, "put, waits", puts):
                for _ in range(puts):
                    waits.put(BODY)
            with _record_time(spent, "bulk, waits", jobs):
                waits.put_many([BODY] * jobs)
            with _record_time(spent, "drain, waits", puts + jobs):
                for job in waits.consume(burst=True):
                    with job:
                        pass
            asyncio.run(_run_round(on.server.url, spent, puts, jobs))
    cpu, wall = (
        {name: statistics.median(each[at] for each in rounds) for name, rounds in spent.items()} for at in (0, 1)
    )
    for name, of in (
        ("put one by one, awaited", "put"),
        (f"put, {AT_ONCE} awaited at once", "put at once"),
        ("bulk put, awaited, per job", "bulk"),
        ("drain of no-op jobs, awaited, per job", "drain"),
    ):
        beside = f"waits: {cpu[f'{of.split()[0]}, waits']:.1f} µs"
        plain = f"; an RPUSH of redis.asyncio: {cpu['rpush']:.1f} µs" if of == "put" else ""
        yield Line(f"{name}, client CPU", cpu[of], "µs", note=f"{beside}{plain}; by the clock {wall[of]:.1f} µs")


async def _run_round(url: str, spent: Spent, puts: int, jobs: int) -> None:
    async with AwaitedQueue("bench", url, BYTES) as queue, aioredis.from_url(url) as plain:
        await queue.put(BODY)  # connects, loads
        for name, call in (("put", lambda: queue.put(BODY)), ("rpush", lambda: plain.rpush("l", BODY))):
            await _time_repeated_calls(spent, name, puts, call)
        with _record_time(spent, "put at once", puts):
            for _ in range(puts // AT_ONCE):
                await asyncio.gather(*(queue.put(BODY) for _ in range(AT_ONCE)))
        with _record_time(spent, "bulk", jobs):
            await queue.put_many([BODY] * jobs)
        with _record_time(spent, "drain", 1 + puts + puts // AT_ONCE * AT_ONCE + jobs):
            async for job in queue.consume(burst=True):
                async with job:
                    pass


async def _time_repeated_calls(spent: Spent, name: str, count: int, call: Callable[[], Awaitable[Any]]) -> None:
    await call()
    with _record_time(spent, name, count):
        for _ in range(count):
            await call()


class _record_time:
    """Context manager that adds the duration of its block, divided by `count` calls, to the measured times."""

    def __init__(self, spent: Spent, name: str, count: int) -> None:
        self._rounds, self._count = spent.setdefault(name, []), count

    def __enter__(self) -> None:
        self._began, self._began_cpu = time.perf_counter(), time.process_time()

    def __exit__(self, *_exc: object) -> None:
        cpu, wall = time.process_time() - self._began_cpu, time.perf_counter() - self._began
        self._rounds.append((cpu / self._count * 1e6, wall / self._count * 1e6))


MEASURES = (measure_awaited_queue,)
