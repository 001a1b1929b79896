"""Provide the Python API of the native queue: put jobs, lease them, and settle them.

    queue = Queue("mail", "redis://localhost:6379")
    queue.put({"to": "a@b.c"}, id="welcome:42", delay="3d")
    for job in queue.consume(ttr=60):
        with job:
            send(job.body)

A body is encoded by the queue's codec. Durations are seconds, or text such as `500ms 30s 5m 2h 3d`. The work is done by
Lua scripts (`lua/native/`). `rqtui.client.leased_job` is a leased job, `rqtui.client.consumer` the loop of `consume`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from threading import Event
from typing import Any, Self

from redis import Redis, exceptions

from rqtui.client import durability, native_keys
from rqtui.client.background_send import send_in_background
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
from rqtui.client.codecs import BYTES, JSON, MSGPACK, Codec
from rqtui.client.consumer import BATCH, Consumer
from rqtui.client.leased_job import Job, Leased
from rqtui.connection.connect import DEFAULT_URL, connect, copy_client
from rqtui.connection.nodes import find_key_client
from rqtui.durations import Duration
from rqtui.errors import ServerError, Unknown
from rqtui.scripts import transport
from rqtui.scripts.script import Call, Reply

__all__ = ["BYTES", "JSON", "MSGPACK", "Codec", "Consumer", "Job", "Put", "Queue"]

# Not `script.run_call`, which imports the transport at its first call: this module needs the transport anyway.
run: Callable[[Redis, Call], Reply] = transport.run_call


class Queue(Calls[str, Put]):
    """A native queue, by name. Threads may share one object; after a fork the queue opens new connections.

    `url_or_client` is a URL, or a redis-py client whose server and credentials are used (its connections are not).
    Raises UsageError for an invalid queue name or URL. The connection is opened by the first call.
    """

    def __init__(self, name: str, url_or_client: str | Redis = DEFAULT_URL, codec: Codec = JSON) -> None:
        super().__init__(name, codec)
        self._use_client(connect(url_or_client) if isinstance(url_or_client, str) else copy_client(url_or_client))

    def _use_client(self, client: Redis) -> None:
        self.client = find_key_client(client, self.keys["meta"])
        self._names_client = find_key_client(client, native_keys.QUEUES)

    # Putting

    def put_many(self, items: Iterable[Any], **options: Any) -> list[Put]:
        """Enqueue many jobs in as few calls as their size allows; return a `Put` per item, in the order of `items`.

        An item is a body, or a dict that describes a job: `{"body": …, "id": …, "delay": …}` with any option of `put`
        except `durable`. A body that is itself a dict must be given as `{"body": {…}}`. `options` are defaults for all
        items.

        Each call is all or nothing. If one raises, the jobs of the calls before it are in the queue; trying again is
        safe for jobs with an id.
        """
        return [
            put for puts in send_in_background(self._build_put_batches(items, options), self._put_batch) for put in puts
        ]

    def put_batches(self, items: Iterable[Any], **options: Any) -> Iterator[list[Put]]:
        """Enqueue jobs like `put_many`, and yield the results of each batch as soon as it is in the queue.

        Use it to show progress, or for more jobs than fit into memory.
        """
        return map(self._put_batch, self._build_put_batches(items, options))

    def _put_batch(self, batch: Batch) -> list[Put]:
        return batch.build_puts(self._enqueue(batch.call, False))

    def _send_put(self, id: str | bytes, is_given: bool, call: Call, durable: bool) -> Put:
        return build_put_result(id, is_given, self._enqueue(call, durable))

    def _enqueue(self, call: Call, durable: bool) -> Reply:
        """Send a call that puts jobs, and send it again if the reply was lost.

        A job that the first call enqueued is then reported as `exists` and stays as it is.
        """
        send = durability.run_call_durably if durable else run
        try:
            reply = send(self.client, call)
        except Unknown as lost:
            try:
                reply = send(self.client, call)
            except ServerError as error:
                raise build_unknown_put_error(lost, error) from error
        if self._is_registration_due():
            try:
                self._names_client.sadd(native_keys.QUEUES, self.name.encode())
            except exceptions.RedisError:
                self._registered_s = None
        return reply

    # Taking

    def reserve(self, n: int = 1, ttr: Duration | None = None, worker: str = "") -> list[Job]:
        """Lease up to `n` ready jobs for `ttr`; return an empty list if none is ready or the queue is paused.

        Settle each job with its methods or `with job:` before its lease ends. The lease is not extended automatically;
        call `job.extend`. `worker` is the name shown for the lease.
        """
        began_s = time.monotonic()
        rows = run(self.client, self._build_reserve_call(n, ttr, worker)).rows
        return [Job(self, *row, began_s=began_s) for row in rows]

    def pull(self, n: int = 1) -> list[Job]:
        """Take up to `n` ready jobs out of the queue without a lease (at-most-once delivery).

        The jobs have no token and cannot be settled: if the process crashes, they are lost.
        """
        return [
            Job(self, id, "", 0, 0, 0, record, body) for id, record, body in self._run_verb("pull", {"limit": n}).rows
        ]

    def consume(
        self,
        ttr: Duration | None = None,
        batch: int = BATCH,
        worker: str | None = None,
        burst: bool = False,
        stop: Event | None = None,
    ) -> Generator[Job, None, None]:
        """Yield jobs one by one; wait for new jobs without polling, and extend leases while the loop runs.

        `ttr`: how long a lease lasts without a heartbeat. `batch`: the maximum number of jobs to lease at once; slow
        jobs are leased in smaller batches. `burst`: end when no job is ready. `stop`: end when this event is set, and
        release jobs that were not started.

        `with job:` acks the job in the round trip that leases the next batch, at most 0.2 s later. If the process dies
        before that, the job runs again. While Redis is unreachable the loop waits and retries. Raises UsageError.
        Raises Denied and WrongType if the first call fails with them; with `burst`, if any call does.
        """
        return iter(self.consumer(ttr, batch, worker, burst, stop))

    def consumer(
        self,
        ttr: Duration | None = None,
        batch: int = BATCH,
        worker: str | None = None,
        burst: bool = False,
        stop: Event | None = None,
    ) -> Consumer:
        """Return the iterable of jobs behind `consume`, which has a `stop()`. Takes the options of `consume`.

        Use it as a context manager to keep leases extended until the end of the `with` block, also after the iteration.
        """
        ttr_ms = self._parse_consumer_ttr(ttr)
        return Consumer(self, ttr_ms=ttr_ms, batch=batch, worker=worker, burst=burst, stop=stop)

    def ack_many(self, jobs: Iterable[Job]) -> list[str]:
        """Ack jobs of this queue in as few calls as possible.

        Returns one word per job: `moved`, `done`, `stale` (the lease is over) or `gone` (there is no such job).
        """
        words: list[str] = []
        for chunk, call in self._build_ack_calls(list(jobs)):
            words += record_ack_outcomes(chunk, run(self.client, call))
        return words

    # The queue itself

    def configure(self, **settings: object) -> None:
        """Change settings of the queue, such as `ttr_ms=60000`; None restores the default.

        Raises Refused with the allowed values.
        """
        run(self.client, self._build_configure_call(settings))

    def counts(self) -> dict[str, Any]:
        """Return the current numbers of jobs in the queue, by the names in `lua/native/counts.lua`."""
        return dict(self._run_verb("counts").values)

    # What jobs and consumers use

    def settle(self, verb: str, job: Leased[Any], args: Mapping[str, object], *columns: object) -> Reply:
        """Run a verb (ack, reject, …) on the lease of a job now. Used by jobs and consumers."""
        return self._run_verb(verb, args, [(job.id_bytes, job.token, *columns)])

    def close(self) -> None:
        """Close the queue's connections that are not in use. The next call opens new ones."""
        self.client.close()
        self._names_client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def _run_verb(self, verb: str, args: Mapping[str, object] = NO_ARGS, rows: Iterable[Any] = ()) -> Reply:
        return run(self.client, self.call(verb, args, rows))

    def _run_and_read_word(self, call: Call) -> str:
        return read_reply_word(run(self.client, call))


def open_queue_on_client(name: str, client: Redis, codec: Codec = JSON) -> Queue:
    """Create a queue that uses the connections of `client`, one of `rqtui.connection.connect`, and not its own."""
    queue = Queue(name, client, codec)
    queue._use_client(client)
    return queue
