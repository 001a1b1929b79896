"""Provide the Python API of the native queue for asyncio, in which every call is awaited.

    queue = Queue("mail", "redis://localhost:6379")
    await queue.put({"to": "a@b.c"}, id="welcome:42", delay="3d")
    async for job in queue.consume(ttr=60):
        async with job:
            await send(job.body)

Methods, options and results are those of `rqtui.client.queue`.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self

from redis import exceptions

from rqtui.aio import pool, transport
from rqtui.aio.consumer import Consumer
from rqtui.aio.leased_job import Job
from rqtui.client import native_keys
from rqtui.client.calls import (
    NO_ARGS,
    Batch,
    Calls,
    Put,
    build_put_result,
    build_unknown_put_error,
    read_reply_word,
    record_ack_outcomes,
)
from rqtui.client.codecs import JSON, Codec
from rqtui.client.consumer import BATCH
from rqtui.client.leased_job import Leased
from rqtui.connection.cluster import has_failover
from rqtui.connection.connect import DEFAULT_URL
from rqtui.durations import Duration
from rqtui.errors import ServerError, Unknown
from rqtui.scripts.script import Call, Reply

if TYPE_CHECKING:
    import asyncio

    import redis
    from redis import asyncio as aioredis


class Queue(Calls[Coroutine[Any, Any, str], Coroutine[Any, Any, Put]]):
    """A native queue for asyncio, by name. Tasks of one event loop may share it; another loop or process needs its own.

    `url_or_client` is a URL, or a redis-py client (`redis.asyncio.Redis` or `redis.Redis`) whose server and credentials
    are used (its connections are not). The connection is opened by the first call. Raises UsageError for an invalid
    queue name or URL, and at the first call in another event loop.

    A call whose task is cancelled may have been executed. After a cancelled put with an `id` of your own, put the job
    again to find out.
    """

    def __init__(
        self, name: str, url_or_client: str | redis.Redis | aioredis.Redis = DEFAULT_URL, codec: Codec = JSON
    ) -> None:
        super().__init__(name, codec)
        self.pool = pool.build_asyncio_pool(url_or_client, self.keys["meta"])
        self._names_pool = (
            pool.build_asyncio_pool(url_or_client, native_keys.QUEUES) if has_failover(self.pool) else self.pool
        )

    # Putting

    async def put_many(self, items: Iterable[Any], **options: Any) -> list[Put]:
        """Enqueue many jobs in as few calls as their size allows; return a `Put` per item, in the order of `items`.

        An item is a body, or a dict that describes a job: `{"body": …, "id": …, "delay": …}` with any option of `put`
        except `durable`. A body that is itself a dict must be given as `{"body": {…}}`. `options` are defaults for all
        items.

        Each call is all or nothing. If one raises or the task is cancelled, the jobs of the calls before it are in the
        queue; trying again is safe for jobs with an id.
        """
        return [put async for puts in self.put_batches(items, **options) for put in puts]

    async def put_batches(self, items: Iterable[Any], **options: Any) -> AsyncIterator[list[Put]]:
        """Enqueue jobs like `put_many`, and yield the results of each batch as soon as it is in the queue.

        Use it to show progress, or for more jobs than fit into memory.
        """
        for batch in self._build_put_batches(items, options):
            yield await self._put_batch(batch)

    async def _put_batch(self, batch: Batch) -> list[Put]:
        return batch.build_puts(await self._enqueue(batch.call, False))

    async def _send_put(self, id: str | bytes, is_given: bool, call: Call, durable: bool) -> Put:
        return build_put_result(id, is_given, await self._enqueue(call, durable))

    async def _enqueue(self, call: Call, durable: bool) -> Reply:
        """Send a call that puts jobs, and send it again if the reply was lost.

        A job that the first call enqueued is then reported as `exists` and stays as it is.
        """
        send = transport.run_call_durably if durable else transport.run_call
        try:
            reply = await send(self.pool, call)
        except Unknown as lost:
            try:
                reply = await send(self.pool, call)
            except ServerError as error:
                raise build_unknown_put_error(lost, error) from error
        if self._is_registration_due():
            try:
                await transport.execute_command(self._names_pool, "SADD", native_keys.QUEUES, self.name.encode())
            except (exceptions.RedisError, OSError):
                self._registered_s = None
        return reply

    # Taking

    async def reserve(self, n: int = 1, ttr: Duration | None = None, worker: str = "") -> list[Job]:
        """Lease up to `n` ready jobs for `ttr`; return an empty list if none is ready or the queue is paused.

        Settle each job with its methods or `async with job:` before its lease ends. The lease is not extended
        automatically; call `job.extend`. `worker` is the name shown for the lease.
        """
        began_s = time.monotonic()
        rows = (await transport.run_call(self.pool, self._build_reserve_call(n, ttr, worker))).rows
        return [Job(self, *row, began_s=began_s) for row in rows]

    async def pull(self, n: int = 1) -> list[Job]:
        """Take up to `n` ready jobs out of the queue without a lease (at-most-once delivery).

        The jobs have no token and cannot be settled: if the process crashes, they are lost.
        """
        rows = (await self._run_verb("pull", {"limit": n})).rows
        return [Job(self, id, "", 0, 0, 0, record, body) for id, record, body in rows]

    def consume(
        self,
        ttr: Duration | None = None,
        batch: int = BATCH,
        worker: str | None = None,
        burst: bool = False,
        stop: asyncio.Event | None = None,
    ) -> AsyncGenerator[Job, None]:
        """Yield jobs one by one; wait for new jobs without polling, and extend leases while the event loop runs.

        Options and errors are those of `rqtui.client.Queue.consume`. A cancelled task releases the jobs it leased. To
        run several jobs at a time, start several consumers. Code that blocks the event loop prevents leases from being
        extended: run it with `asyncio.to_thread`.
        """
        return aiter(self.consumer(ttr, batch, worker, burst, stop))

    def consumer(
        self,
        ttr: Duration | None = None,
        batch: int = BATCH,
        worker: str | None = None,
        burst: bool = False,
        stop: asyncio.Event | None = None,
    ) -> Consumer:
        """Return the iterable of jobs behind `consume`, which has a `stop()`. Takes the options of `consume`.

        Use it with `async with` to keep leases extended until the end of the block, also after the iteration.
        """
        ttr_ms = self._parse_consumer_ttr(ttr)
        return Consumer(self, ttr_ms=ttr_ms, batch=batch, worker=worker, burst=burst, stop=stop)

    async def ack_many(self, jobs: Iterable[Job]) -> list[str]:
        """Ack jobs of this queue in as few calls as possible.

        Returns one word per job: `moved`, `done`, `stale` (the lease is over) or `gone` (there is no such job).
        """
        words: list[str] = []
        for chunk, call in self._build_ack_calls(list(jobs)):
            words += record_ack_outcomes(chunk, await transport.run_call(self.pool, call))
        return words

    # The queue itself

    async def configure(self, **settings: object) -> None:
        """Change settings of the queue, such as `ttr_ms=60000`; None restores the default.

        Raises Refused with the allowed values.
        """
        await transport.run_call(self.pool, self._build_configure_call(settings))

    async def counts(self) -> dict[str, Any]:
        """Return the current numbers of jobs in the queue, by the names in `lua/native/counts.lua`."""
        return dict((await self._run_verb("counts")).values)

    # What jobs and consumers use

    async def settle(self, verb: str, job: Leased[Any], args: Mapping[str, object], *columns: object) -> Reply:
        """Run a verb (ack, reject, …) on the lease of a job now. Used by jobs and consumers."""
        return await self._run_verb(verb, args, [(job.id_bytes, job.token, *columns)])

    async def aclose(self) -> None:
        """Close the queue's connections that are not in use. The next call opens new ones."""
        await self.pool.aclose()
        await self._names_pool.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.aclose()

    async def _run_verb(self, verb: str, args: Mapping[str, object] = NO_ARGS, rows: Iterable[Any] = ()) -> Reply:
        return await transport.run_call(self.pool, self.call(verb, args, rows))

    async def _run_and_read_word(self, call: Call) -> str:
        return read_reply_word(await transport.run_call(self.pool, call))
