"""The consumer of an event loop: cancelled, left, ended with its loop, and held up by a function that blocks."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aio_facade import run_on_event_loop, until
from proxy import Proxy
from redis import Redis

from rqtui.aio import Job, Queue
from rqtui.aio import consumer as consumer_module
from rqtui.aio.consumer import _JobTakers
from rqtui.client.queue import Queue as Blocking
from rqtui.errors import UsageError

READY, RESERVED, WORKERS, META = (f"rqtui:{{mail}}:{name}" for name in ("ready", "reserved", "workers", "meta"))


def count_blocked_clients(client: Redis) -> int:
    return client.info("clients")["blocked_clients"]


@asynccontextmanager
async def consuming(queue: Queue, seen: list[Any], **options: Any) -> AsyncIterator[asyncio.Task[None]]:
    """Start a task that consumes a queue and waits for an event after each handled job."""

    async def work() -> None:
        async for job in queue.consume(**options):
            async with job:
                seen.append(job.body)
                await asyncio.sleep(0)

    task = asyncio.create_task(work())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait({task})


async def cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@run_on_event_loop
async def test_a_cancelled_consumer_that_waits_leaves_nothing_behind(client: Redis, url: str) -> None:
    before = asyncio.all_tasks()
    async with Queue("mail", url) as queue:
        async with consuming(queue, []) as task:
            await until(lambda: count_blocked_clients(client) and client.hlen(WORKERS))
            await cancel(task)
        assert (client.hlen(WORKERS), count_blocked_clients(client)) == (0, 0)
        assert asyncio.all_tasks() == before


@run_on_event_loop
async def test_a_consumer_that_is_cancelled_while_it_claims_gives_back_what_it_claimed(client: Redis, url: str) -> None:
    with Proxy(url) as proxy:
        async with Queue("mail", url) as direct, Queue("mail", proxy.url) as queue:
            await direct.put_many(range(3000))
            seen: list[Any] = []
            async with consuming(queue, seen, batch=1) as task:
                await until(lambda: len(seen) > 5)
                proxy.hold()
                await until(
                    lambda: proxy.held and int(client.hget(META, "reserved") or 0) > len(seen),
                    "a claim whose reply is on its way",
                )
                count = len(seen)
                asyncio.get_running_loop().call_later(0.05, proxy.release)
                await cancel(task)
            assert len(seen) == count
            assert (client.zcard(RESERVED), client.zcard(READY)) == (0, 3000 - count)
            assert {job.attempt for job in await direct.reserve(1000)} == {1}


@run_on_event_loop
async def test_a_cancelled_handler_releases_its_job(client: Redis, url: str) -> None:
    async with Queue("mail", url) as queue:
        await queue.put(1)
        running = asyncio.Event()

        async def work() -> None:
            async for job in queue.consume():
                async with job:
                    running.set()
                    await asyncio.Event().wait()

        task = asyncio.create_task(work())
        await running.wait()
        await cancel(task)
        await until(lambda: client.zcard(READY) and not client.hlen(WORKERS))
        [job] = await queue.reserve()
        assert job.attempt == 1


@run_on_event_loop
async def test_a_loop_that_is_left_gives_back_what_was_not_begun(client: Redis, url: str) -> None:
    async with Queue("mail", url) as queue:
        await queue.put_many(range(100))
        done = 0
        async for job in queue.consume():
            async with job:
                done += 1
                if done == 20:
                    break
        await until(lambda: client.zcard(READY) == 80 and not client.hlen(WORKERS))
        async with queue.consumer() as jobs:
            async for job in jobs:
                async with job:
                    break
        assert (client.zcard(READY), client.hlen(WORKERS)) == (79, 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "ending",
    [
        "break",
        "cancelled",
        "interrupted",
        "stray",
        *(pytest.param(way, marks=pytest.mark.matrix) for way in ("return", "stopped")),
    ],
)
def test_a_loop_that_ends_at_once_leaves_nothing_leased(client: Redis, url: str, ending: str) -> None:
    code = f"""
import asyncio, os, signal
from rqtui.aio import Queue
seen = []
async def work(queue):
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async for job in queue.consume(stop=stop):
        async with job:
            seen.append(job.body)
            await asyncio.sleep(0)
            if len(seen) == 30:
                match {ending!r}:
                    case "cancelled":
                        asyncio.current_task().cancel()
                        await asyncio.sleep(30)
                    case "interrupted":
                        os.kill(os.getpid(), signal.SIGINT)
                        await asyncio.sleep(30)
                    case "stopped":
                        os.kill(os.getpid(), signal.SIGTERM)
                        await stop.wait()
                    case "return":
                        return
                    case "break":
                        break
async def main():
    queue = Queue("mail", {url!r})
    if {ending!r} == "stray":
        asyncio.create_task(work(queue))
        while len(seen) < 300:
            await asyncio.sleep(0)
    else:
        await work(queue)
try:
    asyncio.run(main())
except (asyncio.CancelledError, KeyboardInterrupt):
    pass
"""
    with Blocking("mail", url) as blocking:
        blocking.put_many(range(300))
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    assert (client.hlen(WORKERS), client.zcard(RESERVED)) == (0, 0)
    assert client.zcard(READY) == (0 if ending == "stray" else 271 if ending in ("cancelled", "interrupted") else 270)


@run_on_event_loop
async def test_a_function_that_blocks_the_loop_is_reported_once(
    client: Redis, url: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rqtui.aio.heartbeat.BLOCKED_S", 0.2)
    caplog.set_level(logging.WARNING, "rqtui")
    async with Queue("mail", url) as queue:
        await queue.put_many(range(2))
        async for job in queue.consume(worker="w1", burst=True, batch=1):
            async with job:
                await asyncio.sleep(0.15)
                time.sleep(0.5)
                await asyncio.sleep(0.15)
    result = [words for words in caplog.messages if "was blocked for" in words]
    assert len(result) == 1 and result[0].startswith("worker w1: the event loop was blocked for 0.")
    assert "asyncio.to_thread" in result[0]


@run_on_event_loop
async def test_stop_ends_it_from_another_thread_and_an_event_from_another_task(client: Redis, url: str) -> None:
    async with Queue("mail", url) as queue:
        consumer = queue.consumer()

        async def drain(jobs: Any) -> list[Any]:
            return [job.id async for job in jobs]

        task = asyncio.create_task(drain(consumer))
        await until(lambda: count_blocked_clients(client))
        threading.Thread(target=consumer.stop).start()
        assert await task == []
        stop = asyncio.Event()
        task = asyncio.create_task(drain(queue.consume(stop=stop)))
        await until(lambda: count_blocked_clients(client))
        stop.set()
        assert await task == []
        with pytest.raises(UsageError, match=r"asyncio\.Event"):
            queue.consume(stop=threading.Event())  # type: ignore[arg-type]


@run_on_event_loop
async def test_consumers_of_one_loop_share_the_work_and_each_job_runs_once(client: Redis, url: str) -> None:
    async with Queue("mail", url) as queue:
        await queue.put_many(range(2000))
        seen: list[int] = []
        most, now = 0, 0

        async def work() -> None:
            nonlocal most, now
            async for job in queue.consume(burst=True):
                async with job:
                    now += 1
                    most = max(most, now)
                    await asyncio.sleep(0.0005)
                    seen.append(job.body)
                    now -= 1

        async with asyncio.TaskGroup() as group:
            for _ in range(8):
                group.create_task(work())
        assert sorted(seen) == list(range(2000))
        assert most == 8


@run_on_event_loop
async def test_jobs_handled_in_tasks_of_their_own_keep_their_leases_inside_the_consumer(
    client: Redis, url: str
) -> None:
    async with Queue("mail", url) as queue:
        await queue.put_many(range(5))

        async def handle(job: Job) -> None:
            async with job:
                until_ms = client.zscore(RESERVED, job.id) or 0
                await until(lambda: (client.zscore(RESERVED, job.id) or 0) > until_ms, "a beat")

        async with queue.consumer(ttr="900ms", burst=True) as jobs, asyncio.TaskGroup() as group:
            async for job in jobs:
                group.create_task(handle(job))
        assert (await queue.counts())["acked"] == 5 and (await queue.counts())["expired_ever"] == 0


@run_on_event_loop
async def test_a_consumer_that_is_left_may_be_used_again_at_once(client: Redis, url: str) -> None:
    async with Queue("mail", url) as queue:
        await queue.put_many(range(50))
        consumer = queue.consumer(worker="w1")
        seen: list[int] = []
        for count in (10, 20, 30):
            async for job in consumer:
                async with job:
                    seen.append(job.body)
                    if len(seen) == count:
                        break
        await until(lambda: client.zcard(READY) == 20 and not client.hlen(WORKERS))
        assert len(set(seen)) == 30


@run_on_event_loop
async def test_a_job_that_came_back_by_anext_with_a_limit_does_not_end_the_consumer(client: Redis, url: str) -> None:
    async with Queue("mail", url) as queue:
        await queue.put_many(range(3))
        jobs = queue.consume()
        for number in range(3):
            async with await asyncio.wait_for(anext(jobs), 20) as job:
                assert job.body == number
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(jobs), 0.2)
        await until(lambda: not client.hlen(WORKERS))
        assert (await queue.counts())["acked"] == 3


@run_on_event_loop
async def test_a_consumer_inside_another_context_of_its_own_is_left_within_a_few_turns_of_the_event_loop(
    client: Redis, url: str
) -> None:
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with Queue("mail", url) as queue, queue.consumer() as jobs:
        await jobs.__aenter__()
        counting = asyncio.create_task(count_turns())
        await jobs.__aexit__(None, None, None)
        assert turns <= 3
        counting.cancel()


@run_on_event_loop
async def test_a_loop_that_is_left_inside_its_context_gives_back_while_the_context_continues(
    client: Redis, url: str
) -> None:
    async with Queue("mail", url) as queue:
        await queue.put_many(range(200))
        async with queue.consumer() as jobs:
            done = 0
            async for job in jobs:
                async with job:
                    done += 1
                    if done == 50:
                        break
            await until(lambda: (client.zcard(RESERVED), client.zcard(READY)) == (0, 150))
            assert client.hlen(WORKERS) == 1


def test_a_context_that_is_not_closed_ends_with_its_loop(client: Redis, url: str) -> None:
    async def main() -> None:
        queue = Queue("mail", url)
        await queue.put_many(range(200))
        jobs = await queue.consumer().__aenter__()
        done = 0
        async for job in jobs:
            async with job:
                done += 1
                if done == 50:
                    break
        await until(lambda: client.hlen(WORKERS) == 1)

    asyncio.run(main())
    assert (client.zcard(RESERVED), client.zcard(READY), client.hlen(WORKERS)) == (0, 150, 0)


def test_a_consumer_that_waits_leaves_when_its_loop_ends(
    client: Redis, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(queue: Queue) -> None:
        try:
            async for _job in queue.consume():
                pass
        finally:
            await queue.aclose()

    async def main() -> None:
        task = asyncio.create_task(work(Queue("mail", url)))
        await until(lambda: count_blocked_clients(client) and client.hlen(WORKERS))
        assert not task.done()

    asyncio.run(main())
    assert client.hlen(WORKERS) == 0 and not [each.message for each in caplog.records if each.name == "rqtui"]


def test_a_consumer_that_another_loop_refuses_can_still_be_stopped(url: str) -> None:
    queue = Queue("mail", url)
    consumer = queue.consumer()

    async def enter() -> None:
        async with consumer:
            pass

    async def use() -> None:
        await queue.counts()
        await queue.aclose()

    asyncio.run(use())
    for _ in range(2):
        with pytest.raises(UsageError, match="another event loop"):
            asyncio.run(enter())
    consumer.stop()


@run_on_event_loop
async def test_a_generator_is_closed_when_any_of_the_tasks_that_took_from_it_fails() -> None:
    for fails in (False, True):
        takers = _JobTakers()
        closed: list[bool] = []

        async def generate(closed: list[bool] = closed) -> AsyncGenerator[Any, None]:
            try:
                while True:
                    yield None
            finally:
                closed.append(True)

        async def take(jobs: AsyncGenerator[Any, None], error: Exception | None, takers: Any = takers) -> None:
            for _ in range(2):
                takers.watch_current_task()
                await anext(jobs)
            if error:
                raise error

        jobs = generate()
        takers.jobs = weakref.ref(jobs)
        results = [
            await asyncio.gather(asyncio.create_task(take(jobs, error)), return_exceptions=True)
            for error in (None, KeyError("x") if fails else None)
        ]
        await asyncio.sleep(0.01)
        assert closed == ([True] if fails else []), results
        assert not consumer_module._closing_tasks
        await jobs.aclose()
