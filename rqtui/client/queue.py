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
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import itemgetter
from threading import Event
from types import MappingProxyType
from typing import Any, Self

from redis import Redis, exceptions

from rqtui import durations
from rqtui.client import durability, native_keys
from rqtui.client.codecs import BYTES, JSON, MSGPACK, Codec
from rqtui.client.consumer import BATCH, Consumer
from rqtui.client.leased_job import Job
from rqtui.client.prefetch import one_ahead
from rqtui.connection.connect import DEFAULT_URL, connect, connect_like
from rqtui.connection.nodes import of_key
from rqtui.durations import Duration
from rqtui.errors import ServerError, Unknown, UsageError
from rqtui.ids import ID_BYTES, new_ids
from rqtui.scripts.script import Answer, Call, load, run
from rqtui.text.names import to_bytes, to_text

__all__ = ["BYTES", "JSON", "MSGPACK", "Codec", "Consumer", "Job", "Put", "Queue"]

MOST = 1000  # jobs in one call, as the scripts have it
MOST_BYTES = 4_000_000  # of bodies in one call of put_many: Redis runs nothing else meanwhile
REGISTER_S = 60.0  # how often a producer puts its queue's name on the list: purging the queue takes it off
_NOTHING: Mapping[str, Any] = MappingProxyType({})
OPTIONS = ("name", "delay", "due", "priority", "ttr", "max_attempts", "backoff", "keep")


@dataclass(frozen=True, slots=True)
class Put:
    """What became of one job that was put: `moved`, or `exists` when the queue knew its id already."""

    id: str
    word: str


@dataclass(frozen=True, slots=True)
class _Rows:
    """Jobs that go in one call."""

    ids: list[Any]
    has_given_ids: bool
    call: Call


class Queue:
    """A queue by name. It may be shared by threads; after a fork its connections are made anew.

    `url_or_client`: a URL, or a client of redis-py whose server and credentials are taken over (never its connections).
    Raises UsageError for a name that is no queue name or a URL that is none; connecting happens at the first call.
    """

    def __init__(self, name: str, url_or_client: str | Redis = DEFAULT_URL, codec: Codec = JSON) -> None:
        self.name = name
        self.codec = codec
        self.keys: Mapping[str, str] = native_keys.keys(name)
        given = connect(url_or_client) if isinstance(url_or_client, str) else connect_like(url_or_client)
        self.client = of_key(given, self.keys["meta"])
        self._names = of_key(given, native_keys.QUEUES)
        self._scripts = load("native")
        self._in_order = itemgetter(*(column.name for column in self._scripts["enqueue"].each))
        self._nothing = dict.fromkeys(column.name for column in self._scripts["enqueue"].each)
        self._registered_s: float | None = None

    # Putting

    def put(
        self,
        body: Any,
        id: str | bytes | None = None,
        name: str = "",
        delay: Duration | None = None,
        due: datetime | int | None = None,
        priority: int | None = None,
        ttr: Duration | None = None,
        max_attempts: int | None = None,
        backoff: Duration | tuple[Duration, Duration] | None = None,
        keep: Duration | None = None,
        durable: bool = False,
    ) -> Put:
        """Enqueue one job; with an `id` of your own a second put is a no-op (`exists`), in whatever state the job is.

        `name`: the kind of job. `delay` or `due` (an aware datetime, or ms since 1970): not before then. `priority`:
        -4096 to 4095, lower first. `ttr`: how long a lease lasts. `backoff`: the first wait after a failure, or
        `"1s..1h"`. `keep`: how long the done job stays. What is left out is the queue's default.
        `durable`: return only when the job is on disk (WAITAOF) or on a replica (WAIT), whichever the server offers;
        behind sentinels and in a Cluster on a replica.
        Raises UsageError, CodecError, Refused, ServerError; Unknown when it may or may not be in.
        """
        given = {
            "name": name, "delay": delay, "due": due, "priority": priority, "ttr": ttr, "max_attempts": max_attempts,
            "backoff": backoff, "keep": keep,
        }  # fmt: skip
        encoded = self.codec.encode(body)
        job_id = new_ids(1)[0] if id is None else _checked_id(id)
        row = self._in_order({**self._columns(given), "id": job_id, "body": encoded})
        call = self.call("enqueue", {}, [row])
        word = self._enqueue(call, durable).each[0].word
        return Put(_text(job_id), "moved" if id is None else word)  # an id of ours can only exist by our own first try

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

    def _batches(self, items: Iterable[Any], options: Mapping[str, Any]) -> Iterator[_Rows]:
        """The jobs, as many at a time as a call may have, with ids, in the order of the script's columns."""
        common = self._columns(options)
        rows: list[dict[str, Any]] = []
        size = 0
        for number, item in enumerate(items, 1):
            row = (
                self._described(item, number, options)
                if isinstance(item, dict)
                else {**common, "body": self.codec.encode(item)}
            )
            rows.append(row)
            size += len(row["body"])
            if len(rows) >= MOST or size >= MOST_BYTES:
                yield self._with_ids(rows)
                rows, size = [], 0
        if rows:
            yield self._with_ids(rows)

    def _described(self, item: Mapping[str, Any], number: int, options: Mapping[str, Any]) -> dict[str, Any]:
        if "body" not in item:
            raise UsageError(f'Job {number}: a dict describes a job and needs "body": {{"body": …, "id": …}}.')
        given = {**options, **item}
        body, job_id = given.pop("body"), given.pop("id", None)
        row = {**self._columns(given), "body": self.codec.encode(body)}
        if job_id is not None:
            row["id"] = _checked_id(job_id)
        return row

    def _with_ids(self, rows: list[dict[str, Any]]) -> _Rows:
        nameless = [row for row in rows if row["id"] is None]
        for row, new_id in zip(nameless, new_ids(len(nameless)), strict=True):
            row["id"] = new_id
        call = self.call("enqueue", {}, list(map(self._in_order, rows)))
        return _Rows([row["id"] for row in rows], len(nameless) < len(rows), call)

    def _put_rows(self, rows: _Rows) -> list[Put]:
        answer = self._enqueue(rows.call, False)
        if not rows.has_given_ids:
            return [Put(id, "moved") for id in rows.ids]
        return [Put(_text(id), one.word) for id, one in zip(rows.ids, answer.each, strict=True)]

    def _columns(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Options of `put` as columns of the script."""
        return {**self._nothing, **columns(given)}

    def _enqueue(self, call: Call, durable: bool) -> Answer:
        """Send it; once more when the reply was lost: a job that got in answers `exists` then and stays as it is."""
        send = durability.run_durably if durable else run
        try:
            answer = send(self.client, call)
        except Unknown as lost:
            try:
                answer = send(self.client, call)
            except ServerError as error:
                raise Unknown(f"{lost} It was sent once more: {error}") from error  # the first may have got in
        now_s = time.monotonic()
        if self._registered_s is None or now_s > self._registered_s + REGISTER_S:
            self._registered_s = now_s
            self._register()
        return answer

    def _register(self) -> None:
        """The list of names lies in another slot, so no script can write it; discovery finds what is missing there."""
        try:
            self._names.sadd(native_keys.QUEUES, self.name.encode())
        except exceptions.RedisError:
            self._registered_s = None

    # Taking

    def reserve(self, n: int = 1, ttr: Duration | None = None, worker: str = "") -> list[Job]:
        """Lease up to `n` ready jobs for `ttr`; an empty list when nothing is ready or the queue is paused.

        Settle each with its methods or `with job:` before its lease ends; nothing extends it but `job.extend`.
        """
        began_s = time.monotonic()
        ttr_ms = None if ttr is None else durations.parse(ttr, "ttr")
        answer = self._run("reserve", {"limit": n, "worker": worker, "ttr_ms": ttr_ms})
        return [Job(self, *row, began_s=began_s) for row in answer.rows]

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
        jobs = list(jobs)
        words: list[str] = []
        for at in range(0, len(jobs), MOST):
            part = jobs[at : at + MOST]
            answer = self._run("ack", {}, [(job.id_bytes, job.token) for job in part])
            for job, one in zip(part, answer.each, strict=True):
                job.settled(one.word)
            words += [one.word for one in answer.each]
        return words

    # By id

    def delete(self, id: str | bytes, force: bool = False) -> str:
        """Remove a job, wherever it is: moved, gone, or reserved (a worker holds it, which `force` ignores)."""
        return self._act("delete", id, {"force": force}, "", "")

    def cancel(self, id: str | bytes) -> str:
        """Ask the worker that holds a job to stop it: asked, wrong_place or gone."""
        return self._act("cancel", id, {}, "")

    def kill(self, id: str | bytes, reason: str = "", force: bool = False) -> str:
        """Kill a live job: moved, reserved (unless `force`), wrong_place or gone."""
        return self._act("kill", id, {"reason": reason, "force": force}, "")

    def promote(self, id: str | bytes) -> str:
        """Make a scheduled job ready now: moved, wrong_place or gone."""
        return self._act("promote", id, {})

    def requeue(self, id: str | bytes, keep_attempts: bool = False) -> str:
        """Run a dead job again, or a done one that was kept: moved, wrong_place, bodyless or gone."""
        return self._act("requeue", id, {"keep_attempts": keep_attempts})

    def reschedule(self, id: str | bytes, delay: Duration | None = None, due: datetime | int | None = None) -> str:
        """Give a scheduled or ready job another time: moved, wrong_place or gone."""
        if (delay is None) == (due is None):
            raise UsageError("reschedule needs a delay or a due time: one of them.")
        when = (
            {"due_ms": durations.instant(due)}
            if due is not None
            else {"delay_ms": durations.parse(delay or 0, "delay")}
        )
        return self._act("reschedule", id, when)

    def reprioritise(self, id: str | bytes, priority: int) -> str:
        """Give a scheduled or ready job another priority: changed, wrong_place or gone."""
        return self._act("reprioritise", id, {"priority": priority})

    # The queue itself

    def pause(self) -> str:
        """Hand out no jobs, to anybody: paused or already."""
        return self._run("pause").word

    def resume(self) -> str:
        """Hand them out again: resumed or already."""
        return self._run("resume").word

    def configure(self, **settings: object) -> None:
        """Change settings (`ttr_ms=60000`; None brings the default back). Raises Refused, naming what is allowed."""
        self._run("configure", {}, [(name, None if value is None else str(value)) for name, value in settings.items()])

    def counts(self) -> dict[str, Any]:
        """What the queue holds now, by the names in `lua/native/counts.lua`."""
        return dict(self._run("counts").values)

    # What jobs and consumers use

    def call(self, verb: str, args: Mapping[str, object] = _NOTHING, rows: Iterable[Sequence[object]] = ()) -> Call:
        """A call of the script `verb` on the keys of this queue."""
        return self._scripts[verb].call(self.keys, args, rows)

    def settle(self, verb: str, job: Job, args: Mapping[str, object], *columns: object) -> Answer:
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

    def __repr__(self) -> str:
        return f"<Queue {self.name}>"

    def _run(self, verb: str, args: Mapping[str, object] = _NOTHING, rows: Iterable[Sequence[object]] = ()) -> Answer:
        return run(self.client, self.call(verb, args, rows))

    def _act(self, verb: str, id: str | bytes, args: Mapping[str, object], *columns: object) -> str:
        return self._run(verb, args, [(_checked_id(id), *columns)]).each[0].word


_AS_COLUMNS: Mapping[str, Callable[[Any], dict[str, Any]]] = {
    "delay": lambda value: {"delay_ms": durations.parse(value, "delay")},
    "due": lambda value: {"due_ms": durations.instant(value)},
    "ttr": lambda value: {"ttr_ms": durations.parse(value, "ttr")},
    "keep": lambda value: {"keep_ms": durations.parse(value, "keep")},
    "backoff": lambda value: dict(zip(("backoff_ms", "backoff_cap_ms"), durations.parse_range(value), strict=True)),
}


def columns(given: Mapping[str, Any]) -> dict[str, Any]:
    """Options of `put` as columns of an `enqueue` script: delay → delay_ms, `1s..1h` → two of them, and so on."""
    made: dict[str, Any] = {}
    for option, value in given.items():
        if option not in OPTIONS:
            raise UsageError(f"There is no option {option!r}; a job has id, body, {', '.join(OPTIONS)}.")
        if value is not None:
            made.update(_AS_COLUMNS[option](value) if option in _AS_COLUMNS else {option: value})
    if made.get("delay_ms") is not None and made.get("due_ms") is not None:
        raise UsageError("delay and due exclude each other: give one of them.")
    return made


def _checked_id(id: str | bytes) -> bytes:
    if not isinstance(id, str | bytes):
        raise UsageError(f"An id is text or bytes, not {type(id).__name__}.")
    encoded = to_bytes(id)
    if not 1 <= len(encoded) <= ID_BYTES:
        raise UsageError(f"An id has 1 to {ID_BYTES} bytes; this one has {len(encoded)}.")
    return encoded


def _text(id: str | bytes) -> str:
    return id if isinstance(id, str) else to_text(id)
