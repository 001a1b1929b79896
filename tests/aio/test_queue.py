"""The queue of an event loop: what is its own. What it shares with `rqtui.client` is tested in `tests/client`."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from aio_facade import run_on_event_loop, until
from fakeredis import FakeAsyncRedis
from fleet import Fleet
from proxy import Proxy
from redis import Redis, UsernamePasswordCredentialProvider
from redis import asyncio as aioredis

from rqtui import aio
from rqtui.aio import Queue
from rqtui.aio.pool import MAX_CONNECTIONS
from rqtui.client import queue as client
from rqtui.client.leased_job import Job
from rqtui.errors import Unreachable, UsageError


def ready(client: Redis) -> int:
    return client.zcard("rqtui:{mail}:ready")


@pytest.mark.parametrize(("ours", "theirs"), [(aio.Queue, client.Queue), (aio.Job, Job)])
def test_it_has_the_methods_of_the_client_with_the_same_arguments(ours: type, theirs: type) -> None:
    actual = [
        {
            name: [(each.name, each.default, each.kind) for each in inspect.signature(found).parameters.values()]
            for name, found in inspect.getmembers(kind, inspect.isfunction)
            if not name.startswith("_") and name not in ("close", "aclose")
        }
        for kind in (ours, theirs)
    ]
    assert actual[0] == actual[1]


def test_the_client_does_not_import_it() -> None:
    code = "import sys, rqtui; rqtui.Queue; print([name for name in sys.modules if 'rqtui.aio' in name])"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "[]\n"


@run_on_event_loop
async def test_a_thousand_puts_at_once_share_some_connections(client: Redis, url: str) -> None:
    def connected() -> int:
        return sum(each["name"] == "thousand" for each in client.client_list())

    async with Queue("mail", f"{url}?client_name=thousand") as queue:
        puts = await asyncio.gather(*(queue.put(number) for number in range(1000)))
        assert 1 <= connected() <= MAX_CONNECTIONS
    assert len({put.id for put in puts}) == ready(client) == 1000
    await until(lambda: connected() == 0, "the connections are closed")


def test_another_loop_is_refused_with_a_sentence(client: Redis, url: str) -> None:
    queue = Queue("mail", url)

    async def put() -> None:
        await queue.put(1)
        await queue.aclose()

    asyncio.run(put())
    with pytest.raises(UsageError, match="another event loop"):
        asyncio.run(put())
    assert ready(client) == 1


@pytest.mark.slow
def test_a_child_that_was_forked_off_is_refused_with_a_sentence(client: Redis, url: str) -> None:
    code = f"""
import asyncio, os
from rqtui.aio import Queue
async def main():
    queue = Queue("mail", {url!r})
    await queue.put(1)
    if not os.fork():
        try:
            await queue.put(2)
        except Exception as error:
            print(type(error).__name__, error, flush=True)
        os._exit(0)
    os.wait()
    await queue.put(3)
    await queue.aclose()
asyncio.run(main())
"""
    ended = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.startswith("UsageError rqtui.aio needs a loop of asyncio")
    assert ready(client) == 2


@run_on_event_loop
async def test_clients_of_redis_py_lend_their_server_not_their_options(client: Redis, url: str) -> None:
    async with aioredis.from_url(url, decode_responses=True, protocol=3) as theirs:
        with Redis.from_url(url, decode_responses=True) as blocking:
            for value in (theirs, blocking):
                async with Queue("mail", value) as queue:
                    await queue.put({"a": 1})
                    [job] = await queue.reserve()
                    assert (job.body, await job.ack()) == ({"a": 1}, "moved")
        assert await theirs.ping()
    for wrong in (object(), aioredis.RedisCluster.__new__(aioredis.RedisCluster)):
        with pytest.raises(UsageError, match=r"redis\.asyncio\.Redis"):
            Queue("mail", wrong)  # type: ignore[arg-type]


@run_on_event_loop
async def test_fakeredis_of_a_loop_is_a_server_as_well() -> None:
    async with Queue("mail", FakeAsyncRedis()) as queue:
        await queue.put_many([1, {"body": 2, "delay": "100ms"}])
        seen = []
        async for job in queue.consume():
            async with job:
                seen.append(job.body)
                if len(seen) == 2:
                    break
        assert seen == [1, 2]


@run_on_event_loop
async def test_a_cancelled_put_leaves_no_reply_for_the_next(client: Redis, url: str) -> None:
    with Proxy(url) as proxy:
        async with Queue("mail", proxy.url) as queue:
            await queue.put(0)
            proxy.hold()
            put = asyncio.create_task(queue.put(1, id="a"))
            await until(lambda: proxy.held, "the reply is on its way")
            put.cancel()
            with pytest.raises(asyncio.CancelledError):
                await put
            proxy.release()
            assert (await queue.put(2, id="b")).word == "moved"
            assert (await queue.put(1, id="a")).word == "exists"  # which shows that the first one was stored
            assert (await queue.counts())["ready"] == 3


@run_on_event_loop
async def test_a_server_that_reports_nothing_is_unreachable_and_the_next_call_connects_again(
    client: Redis, url: str
) -> None:
    with Proxy(url) as proxy:
        async with Queue("mail", f"{proxy.url}?socket_timeout=0.3&socket_connect_timeout=0.3") as queue:
            await queue.put(0)
            proxy.fail("swallow", "EVALSHA")
            with pytest.raises(Unreachable, match=r"no reply within 0\.3 s"):
                await queue.counts()
            assert (await queue.counts())["ready"] == 1


@run_on_event_loop
async def test_a_server_that_restarts_is_connected_to_again(client, url: str) -> None:
    with Proxy(url) as proxy:
        async with Queue("mail", proxy.url) as queue:
            await queue.put(0)
            proxy.refuse()
            with pytest.raises(Unreachable, match="Nothing was sent"):
                await queue.put(1)
            proxy.listen()
            assert (await queue.put(2)).word == "moved"


@run_on_event_loop
async def test_the_end_of_a_block_outside_of_a_consumer_is_reported_at_once(client: Redis, url: str) -> None:
    async with Queue("mail", url) as queue:
        await queue.put_many([{"body": 1, "id": "a"}, {"body": 2, "id": "b"}])
        first, second = await queue.reserve(2)
        async with first:
            raise ValueError("bad")
        assert first.outcome == "moved" and client.zcard("rqtui:{mail}:scheduled") == 1

        async def handle() -> None:
            async with second:
                await asyncio.Event().wait()

        task = asyncio.create_task(handle())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert second.outcome == "moved" and ready(client) == 1
        [again] = await queue.reserve()
        assert (again.id, again.attempt) == ("b", 1)


@run_on_event_loop
async def test_batches_let_others_run_in_between(client: Redis, url: str) -> None:
    async with Queue("mail", url) as queue:
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(others())
        assert [len(puts) async for puts in queue.put_batches(range(2500))] == [1000, 1000, 500]
        task.cancel()
        assert turns > 3 and threading.active_count() < 50


def test_a_bad_option_is_refused_before_anything_is_awaited(url: str) -> None:
    queue: Any = Queue("mail", url)
    for call in (lambda: queue.put(1, delay=-1), lambda: queue.put(1, id=7), lambda: queue.reschedule("a")):
        with pytest.raises(UsageError):
            call()


@run_on_event_loop
async def test_a_socket_of_the_file_system_is_a_server_as_well(tmp_path: Path) -> None:
    with Fleet() as fleet:
        fleet.start(unixsocket=str(tmp_path / "redis.sock"))
        async with Queue("mail", f"unix://{tmp_path}/redis.sock?db=2") as queue:
            await queue.put(1)
            async for job in queue.consume(burst=True):
                async with job:
                    assert job.body == 1
            assert (await queue.counts())["acked"] == 1


def test_an_option_only_for_connections_of_threads_is_refused_with_a_sentence() -> None:
    checking = Redis(ssl=True, ssl_validate_ocsp=True)
    with pytest.raises(UsageError, match="ssl_validate_ocsp"):
        Queue("mail", checking)


@run_on_event_loop
async def test_a_queue_that_is_closed_keeps_no_connection_whose_credentials_are_renewed(
    client: Redis, url: str
) -> None:
    def connected() -> int:
        return sum(each["user"] == "renewed" for each in client.client_list())

    client.acl_setuser("renewed", enabled=True, passwords=["+secret"], keys=["*"], commands=["+@all"])
    try:
        provider = UsernamePasswordCredentialProvider("renewed", "secret")
        inputs = Redis.from_url(url, credential_provider=provider)
        async with Queue("mail", inputs) as queue:
            await asyncio.gather(*(queue.put(number) for number in range(3)))
            assert connected() > 0
        await until(lambda: connected() == 0)
    finally:
        client.acl_deluser("renewed")
