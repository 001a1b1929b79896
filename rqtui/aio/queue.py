"""The Python API of the native queue for asyncio; put jobs in, hand them out, settle them, all awaited.

    queue = Queue("mail", "redis://localhost:6379")
    await queue.put({"to": "a@b.c"}, id="welcome:42", delay="3d")
    async for job in queue.consume(ttr=60):
        async with job:
            await send(job.body)

What is said, and what it means, is that of `rqtui.client.queue`.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self

from redis import exceptions

from rqtui import durations
from rqtui.aio import pool, transport
from rqtui.aio.consumer import Consumer
from rqtui.aio.leased_job import Job
from rqtui.client import native_keys
from rqtui.client.calls import NOTHING, Batch, Calls, Put, put_of, sent_twice, settled, word_of
from rqtui.client.codecs import JSON, Codec
from rqtui.client.consumer import BATCH
from rqtui.client.leased_job import Leased
from rqtui.connection.cluster import has_failover
from rqtui.connection.connect import DEFAULT_URL
from rqtui.durations import Duration
from rqtui.errors import ServerError, Unknown
from rqtui.scripts.script import Answer, Call

if TYPE_CHECKING:
    import asyncio

    import redis
    from redis import asyncio as aioredis


class Queue(Calls[Coroutine[Any, Any, str], Coroutine[Any, Any, Put]]):
    """A queue by name. Many tasks of one loop may share it; another loop, and a forked process, needs its own.

    `url_or_client`: a URL, or a client of redis-py, `redis.asyncio.Redis` or `redis.Redis`, whose server and
    credentials are taken over (never its connections). Raises UsageError for a name that is no queue name or a URL that
    is none, and at the first call in another loop; connecting happens at the first call.

    A call whose task is cancelled may have been done: of a put with an `id` of your own, put again to know.
    """

    def __init__(
        self, name: str, url_or_client: str | redis.Redis | aioredis.Redis = DEFAULT_URL, codec: Codec = JSON
    ) -> None:
        super().__init__(name, codec)
        self.pool = pool.pool_of(url_or_client, self.keys["meta"])
        self._names = pool.pool_of(url_or_client, native_keys.QUEUES) if has_failover(self.pool) else self.pool

    # Putting

    async def put_many(self, items: Iterable[Any], **options: Any) -> list[Put]:
        """Enqueue many jobs in as few calls as their size allows; the answers stand in the order of `items`.

        Items and options are those of `rqtui.client.Queue.put_many`. Each call is all or nothing; when one raises, or
        the task is cancelled, those before it are in, and trying again with ids is safe.
        """
        return [put async for puts in self.put_batches(items, **options) for put in puts]

    async def put_batches(self, items: Iterable[Any], **options: Any) -> AsyncIterator[list[Put]]:
        """`put_many` batch by batch, for those who show how far it is, or whose jobs do not fit into memory."""
        for batch in self._batches(items, options):
            yield await self._put_rows(batch)

    async def _put_rows(self, batch: Batch) -> list[Put]:
        return batch.puts(await self._enqueue(batch.call, False))

    async def _enter(self, id: str | bytes, is_given: bool, call: Call, durable: bool) -> Put:
        return put_of(id, is_given, await self._enqueue(call, durable))

    async def _enqueue(self, call: Call, durable: bool) -> Answer:
        """Send it; once more when the reply was lost: a job that got in answers `exists` then and stays as it is."""
        send = transport.run_durably if durable else transport.run
        try:
            answer = await send(self.pool, call)
        except Unknown as lost:
            try:
                answer = await send(self.pool, call)
            except ServerError as error:
                raise sent_twice(lost, error) from error
        if self._has_to_register():
            try:
                await transport.execute(self._names, "SADD", native_keys.QUEUES, self.name.encode())
            except (exceptions.RedisError, OSError):
                self._registered_s = None
        return answer

    # Taking

    async def reserve(self, n: int = 1, ttr: Duration | None = None, worker: str = "") -> list[Job]:
        """Lease up to `n` ready jobs for `ttr`; an empty list when nothing is ready or the queue is paused.

        Settle each with its methods or `async with job:` before its lease ends; nothing extends it but `job.extend`.
        """
        began_s = time.monotonic()
        rows = (await transport.run(self.pool, self._reserve(n, ttr, worker))).rows
        return [Job(self, *row, began_s=began_s) for row in rows]

    async def pull(self, n: int = 1) -> list[Job]:
        """Pull up to `n` ready jobs: at most once, no lease, nothing to settle. The jobs have no token."""
        rows = (await self._run("pull", {"limit": n})).rows
        return [Job(self, id, "", 0, 0, 0, record, body) for id, record, body in rows]

    def consume(
        self,
        ttr: Duration | None = None,
        batch: int = BATCH,
        worker: str | None = None,
        burst: bool = False,
        stop: asyncio.Event | None = None,
    ) -> AsyncGenerator[Job, None]:
        """Jobs one by one, waiting for them without polling; leases are extended while the event loop runs.

        Options and errors are those of `rqtui.client.Queue.consume`. A cancelled task gives back what it leased. For
        several jobs at a time start several consumers. A function that blocks the loop keeps leases from being
        extended; run it by `asyncio.to_thread`.
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
        """What is behind `consume`, with a `stop()`; as an `async with` it keeps leases beating until its end."""
        ttr_ms = None if ttr is None else max(1, durations.parse(ttr, "ttr"))
        return Consumer(self, ttr_ms=ttr_ms, batch=batch, worker=worker, burst=burst, stop=stop)

    async def ack_many(self, jobs: Iterable[Job]) -> list[str]:
        """Ack jobs of this queue in as few calls as possible; a word for each: moved, done, stale or gone."""
        words: list[str] = []
        for part, call in self._acks(list(jobs)):
            words += settled(part, await transport.run(self.pool, call))
        return words

    # The queue itself

    async def configure(self, **settings: object) -> None:
        """Change settings (`ttr_ms=60000`; None brings the default back). Raises Refused, naming what is allowed."""
        await transport.run(self.pool, self._configure(settings))

    async def counts(self) -> dict[str, Any]:
        """What the queue holds now, by the names in `lua/native/counts.lua`."""
        return dict((await self._run("counts")).values)

    # What jobs and consumers use

    async def settle(self, verb: str, job: Leased[Any], args: Mapping[str, object], *columns: object) -> Answer:
        """Run `verb` on the lease of `job` now."""
        return await self._run(verb, args, [(job.id_bytes, job.token, *columns)])

    async def aclose(self) -> None:
        """Close the connections that are not in use; the next call makes new ones."""
        await self.pool.aclose()
        await self._names.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.aclose()

    async def _run(self, verb: str, args: Mapping[str, object] = NOTHING, rows: Iterable[Any] = ()) -> Answer:
        return await transport.run(self.pool, self.call(verb, args, rows))

    async def _word(self, call: Call) -> str:
        return word_of(await transport.run(self.pool, call))
