"""The Python API of the native queue: put jobs in, hand them out, settle them.

    queue = Queue("mail", "redis://localhost:6379")
    queue.put({"to": "a@b.c"}, id="welcome:42", delay="3d")
    for job in queue.consume(ttr=60):
        with job:
            send(job.body)

A body is encoded by the queue's codec. Durations are seconds or text such as `500ms 30s 5m 2h 3d`. Scripts do the work
(`lua/native/`); `rqtui.client.leased_job` is a leased job, `rqtui.client.consumer` the loop behind `consume`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from threading import Event
from typing import Any, Self

from redis import Redis, exceptions

from rqtui import durations
from rqtui.client import durability, native_keys
from rqtui.client.calls import NOTHING, Batch, Calls, Put, put_of, sent_twice, settled, word_of
from rqtui.client.codecs import BYTES, JSON, MSGPACK, Codec
from rqtui.client.consumer import BATCH, Consumer
from rqtui.client.leased_job import Job, Leased
from rqtui.client.prefetch import one_ahead
from rqtui.connection.connect import DEFAULT_URL, connect, connect_like
from rqtui.connection.nodes import of_key
from rqtui.durations import Duration
from rqtui.errors import ServerError, Unknown
from rqtui.scripts import transport
from rqtui.scripts.script import Answer, Call

__all__ = ["BYTES", "JSON", "MSGPACK", "Codec", "Consumer", "Job", "Put", "Queue"]

run: Callable[[Redis, Call], Answer] = transport.run  # of `script.run` without what that puts off importing


class Queue(Calls[str, Put]):
    """A queue by name. It may be shared by threads; after a fork its connections are made anew.

    `url_or_client`: a URL, or a client of redis-py whose server and credentials are taken over (never its connections).
    Raises UsageError for a name that is no queue name or a URL that is none; connecting happens at the first call.
    """

    def __init__(self, name: str, url_or_client: str | Redis = DEFAULT_URL, codec: Codec = JSON) -> None:
        super().__init__(name, codec)
        given = connect(url_or_client) if isinstance(url_or_client, str) else connect_like(url_or_client)
        self.client = of_key(given, self.keys["meta"])
        self._names = of_key(given, native_keys.QUEUES)

    # Putting

    def put_many(self, items: Iterable[Any], **options: Any) -> list[Put]:
        """Enqueue many jobs in as few calls as their size allows; the answers stand in the order of `items`.

        An item is a body, or a dict that describes a job: `{"body": …, "id": …, "delay": …}` with any option of `put`
        but `durable`. (So a body that is a dict is given as `{"body": {…}}`.) `options` hold for all that say nothing
        else. Each call is all or nothing; when one raises, those before it are in, and trying again with ids is safe.
        """
        return [put for puts in one_ahead(self._batches(items, options), self._put_rows) for put in puts]

    def put_batches(self, items: Iterable[Any], **options: Any) -> Iterator[list[Put]]:
        """`put_many` batch by batch, for those who show how far it is, or whose jobs do not fit into memory."""
        return map(self._put_rows, self._batches(items, options))

    def _put_rows(self, batch: Batch) -> list[Put]:
        return batch.puts(self._enqueue(batch.call, False))

    def _enter(self, id: str | bytes, is_given: bool, call: Call, durable: bool) -> Put:
        return put_of(id, is_given, self._enqueue(call, durable))

    def _enqueue(self, call: Call, durable: bool) -> Answer:
        """Send it; once more when the reply was lost: a job that got in answers `exists` then and stays as it is."""
        send = durability.run_durably if durable else run
        try:
            answer = send(self.client, call)
        except Unknown as lost:
            try:
                answer = send(self.client, call)
            except ServerError as error:
                raise sent_twice(lost, error) from error
        if self._has_to_register():
            try:
                self._names.sadd(native_keys.QUEUES, self.name.encode())
            except exceptions.RedisError:
                self._registered_s = None
        return answer

    # Taking

    def reserve(self, n: int = 1, ttr: Duration | None = None, worker: str = "") -> list[Job]:
        """Lease up to `n` ready jobs for `ttr`; an empty list when nothing is ready or the queue is paused.

        Settle each with its methods or `with job:` before its lease ends; nothing extends it but `job.extend`.
        """
        began_s = time.monotonic()
        rows = run(self.client, self._reserve(n, ttr, worker)).rows
        return [Job(self, *row, began_s=began_s) for row in rows]

    def pull(self, n: int = 1) -> list[Job]:
        """Pull up to `n` ready jobs: at most once, no lease, nothing to settle. The jobs have no token."""
        return [Job(self, id, "", 0, 0, 0, record, body) for id, record, body in self._run("pull", {"limit": n}).rows]

    def consume(
        self,
        ttr: Duration | None = None,
        batch: int = BATCH,
        worker: str | None = None,
        burst: bool = False,
        stop: Event | None = None,
    ) -> Generator[Job, None, None]:
        """Jobs one by one, waiting for them without polling; leases are extended while the loop runs.

        `ttr`: how long a lease lasts without a beat. `batch`: claim at most so many at once; fewer when jobs are slow.
        `burst`: end when nothing is ready. `stop`: end when it is set, giving back what was not begun. `with job:` acks
        in the trip that claims the next batch, at most 0.2 s later; a process that dies before runs those again.
        While Redis is away it waits and goes on. Raises UsageError; Denied and WrongType when the first call fails so,
        in a burst whenever one does.
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
        """The iterable behind `consume`, with a `stop()`; as a context it keeps leases beating until its end."""
        ttr_ms = None if ttr is None else max(1, durations.parse(ttr, "ttr"))
        return Consumer(self, ttr_ms=ttr_ms, batch=batch, worker=worker, burst=burst, stop=stop)

    def ack_many(self, jobs: Iterable[Job]) -> list[str]:
        """Ack jobs of this queue in as few calls as possible; a word for each: moved, done, stale or gone."""
        words: list[str] = []
        for part, call in self._acks(list(jobs)):
            words += settled(part, run(self.client, call))
        return words

    # The queue itself

    def configure(self, **settings: object) -> None:
        """Change settings (`ttr_ms=60000`; None brings the default back). Raises Refused, naming what is allowed."""
        run(self.client, self._configure(settings))

    def counts(self) -> dict[str, Any]:
        """What the queue holds now, by the names in `lua/native/counts.lua`."""
        return dict(self._run("counts").values)

    # What jobs and consumers use

    def settle(self, verb: str, job: Leased[Any], args: Mapping[str, object], *columns: object) -> Answer:
        """Run `verb` on the lease of `job` now."""
        return self._run(verb, args, [(job.id_bytes, job.token, *columns)])

    def close(self) -> None:
        """Close the connections that are not in use; the next call makes new ones."""
        self.client.close()
        self._names.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def _run(self, verb: str, args: Mapping[str, object] = NOTHING, rows: Iterable[Any] = ()) -> Answer:
        return run(self.client, self.call(verb, args, rows))

    def _word(self, call: Call) -> str:
        return word_of(run(self.client, call))
