"""Build the script calls of a native queue from bodies, options and ids, and read their replies. Sends nothing.

`Calls` is the common base of `rqtui.client.Queue`, which blocks, and of `rqtui.aio.Queue`, which is awaited.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import repeat
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeVar

from rqtui import durations
from rqtui.client import native_keys
from rqtui.client.codecs import Codec
from rqtui.client.leased_job import Leased, Word
from rqtui.durations import Duration
from rqtui.errors import ServerError, Unknown, UsageError
from rqtui.ids import ID_BYTES, create_job_id, create_job_ids
from rqtui.scripts.script import BoundKeys, Call, Reply, load_scripts
from rqtui.scripts.values import Wire
from rqtui.text.names import to_bytes, to_text

MAX_JOBS_PER_CALL = 1000  # the limit of the scripts
MAX_BYTES_PER_CALL = 4_000_000  # bytes of bodies per call of put_many, because a script blocks Redis while it runs
REGISTER_S = 60.0  # seconds between two additions of the queue's name to the list of queues: a purge removes the name
NO_ARGS: Mapping[str, Any] = MappingProxyType({})
OPTIONS = ("name", "delay", "due", "priority", "ttr", "max_attempts", "backoff", "keep")
_NO_OPTIONS = (None,) * len(OPTIONS)


class Put(NamedTuple):
    """The result of putting one job: `moved`, or `exists` if the queue already has a job with its id."""

    id: str
    word: str


def _build_moved_results(ids: Iterable[str]) -> list[Put]:
    """Build a `moved` result for each job id, without running Python code per job."""
    return list(map(tuple.__new__, repeat(Put), zip(ids, repeat("moved"), strict=False)))


PutResult = TypeVar("PutResult")
"""The return type of `put`: a Put, or an awaitable of a Put."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The jobs that one call of the script `enqueue` puts into a queue."""

    ids: list[Any]
    has_given_ids: bool
    call: Call

    def build_puts(self, reply: Reply) -> list[Put]:
        """Return the result of putting each job of the batch."""
        if not self.has_given_ids:  # a generated id can only exist because an earlier try of this call had succeeded
            return _build_moved_results(self.ids)
        return [Put(_decode_job_id(id), job_reply.word) for id, job_reply in zip(self.ids, reply.each, strict=True)]


@dataclass(slots=True)
class _Rows:
    """The jobs of a batch that is being built: bodies, other columns, and the given ids by row number."""

    bodies: list[bytes] = field(default_factory=list)
    columns: list[Mapping[str, Any]] = field(default_factory=list)
    given_ids: dict[int, bytes] = field(default_factory=dict)


class Calls(Generic[Word, PutResult]):
    """The methods of a native queue that work without a connection. Raises UsageError for an invalid queue name."""

    def __init__(self, name: str, codec: Codec) -> None:
        self.name = name
        self.codec = codec
        self.keys: Mapping[str, str] = native_keys.build_queue_keys(name)
        self._scripts = load_scripts("native")
        self._bound_keys: dict[str, BoundKeys] = {}
        # Most jobs have only an id and a body, so their rows need no check.
        self._plain_rows = self._bind_script_keys("enqueue").build_shortest_prefix()
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
    ) -> PutResult:
        """Put one job into the queue and return a `Put` with its id.

        With an `id` of your own, a second put has no effect (`exists`), whatever the state of the job.

        `name`: the kind of job. `delay` or `due` (an aware datetime, or ms since 1970): do not start it earlier.
        `priority`: -4096 to 4095, lower runs first. `ttr`: how long a lease lasts. `max_attempts`: attempts until the
        job is dead. `backoff`: the wait after the first failure, or a range such as `"1s..1h"`. `keep`: how long the
        completed job stays. An option that is left out takes the queue's default.

        `durable`: return only when the job is on disk (WAITAOF) or on a replica (WAIT), whichever the server offers;
        behind sentinels and in a Cluster only a replica counts.

        Raises UsageError, CodecError, Refused, ServerError; Unknown if the job may or may not be in the queue.
        """
        options = (name or None, delay, due, priority, ttr, max_attempts, backoff, keep)
        encoded = self.codec.encode(body)
        job_id = create_job_id() if id is None else _encode_job_id(id)
        if options == _NO_OPTIONS and type(encoded) is bytes:
            call = self._plain_rows.build_call([job_id, encoded], 1)
        else:
            columns = build_enqueue_columns(dict(zip(OPTIONS, options, strict=True)))
            call = self._build_enqueue_call([job_id], [encoded], [columns])
        return self._send_put(job_id, id is not None, call, durable)

    def _send_put(self, id: str | bytes, is_given: bool, call: Call, durable: bool) -> PutResult:
        raise NotImplementedError

    def _build_put_batches(self, items: Iterable[Any], options: Mapping[str, Any]) -> Iterator[Batch]:
        """Yield the jobs to put in batches, each as large as one call may be, with their ids."""
        common_columns, encode = build_enqueue_columns(options), self.codec.encode
        rows, size = _Rows(), 0
        for number, item in enumerate(items, 1):
            if isinstance(item, dict):
                job_id, body, columns = self._parse_put_item(item, number, options)
                if job_id is not None:
                    rows.given_ids[len(rows.bodies)] = job_id
            else:
                body, columns = encode(item), common_columns
            rows.bodies.append(body)
            rows.columns.append(columns)
            size += len(body)
            if len(rows.bodies) >= MAX_JOBS_PER_CALL or size >= MAX_BYTES_PER_CALL:
                yield self._build_put_batch(rows)
                rows, size = _Rows(), 0
        if rows.bodies:
            yield self._build_put_batch(rows)

    def _parse_put_item(
        self, item: Mapping[str, Any], number: int, options: Mapping[str, Any]
    ) -> tuple[bytes | None, bytes, Mapping[str, Any]]:
        if "body" not in item:
            raise UsageError(f'Job {number}: a dict describes a job and needs "body": {{"body": …, "id": …}}.')
        fields = {**options, **item}
        body, job_id = fields.pop("body"), fields.pop("id", None)
        columns = build_enqueue_columns(fields)
        return None if job_id is None else _encode_job_id(job_id), self.codec.encode(body), columns

    def _build_put_batch(self, rows: _Rows) -> Batch:
        ids: list[Any] = list(create_job_ids(len(rows.bodies)))
        for row_number, id in rows.given_ids.items():
            ids[row_number] = id
        return Batch(ids, bool(rows.given_ids), self._build_enqueue_call(ids, rows.bodies, rows.columns))

    def _build_enqueue_call(
        self, ids: Sequence[Wire], bodies: Sequence[bytes], columns: Sequence[Mapping[str, Any]]
    ) -> Call:
        """Build the call that puts jobs, from ids, encoded bodies and the other columns."""
        # Most jobs have no options, so their rows need no check.
        if not any(columns) and set(map(type, bodies)) == {bytes}:
            words: list[Wire] = [b""] * (2 * len(bodies))
            words[::2], words[1::2] = ids, bodies
            return self._plain_rows.build_call(words, len(bodies))
        rows = [{"id": id, "body": body, **options} for id, body, options in zip(ids, bodies, columns, strict=True)]
        return self.call("enqueue", NO_ARGS, rows)

    def _is_registration_due(self) -> bool:
        """Return whether it is time to add the queue's name to the list of all queues.

        The list is in another hash slot, so no script can write it. Discovery finds queues that are missing there.
        """
        now_s = time.monotonic()
        if self._registered_s is not None and now_s <= self._registered_s + REGISTER_S:
            return False
        self._registered_s = now_s
        return True

    # Taking

    @staticmethod
    def _parse_consumer_ttr(ttr: Duration | None) -> int | None:
        """Return the lease time of a consumer in ms, at least 1; None for that of each job."""
        return None if ttr is None else max(1, durations.parse_duration(ttr, "ttr"))

    def _build_reserve_call(self, n: int, ttr: Duration | None, worker: str) -> Call:
        ttr_ms = None if ttr is None else durations.parse_duration(ttr, "ttr")
        return self.call("reserve", {"limit": n, "worker": worker, "ttr_ms": ttr_ms})

    def _build_ack_calls(self, jobs: Sequence[Leased[Any]]) -> Iterator[tuple[Sequence[Leased[Any]], Call]]:
        """Yield the calls that ack jobs, each with the jobs that it acks."""
        for at in range(0, len(jobs), MAX_JOBS_PER_CALL):
            part = jobs[at : at + MAX_JOBS_PER_CALL]
            yield part, self.call("ack", NO_ARGS, [(job.id_bytes, job.token) for job in part])

    # By id

    def delete(self, id: str | bytes, force: bool = False) -> Word:
        """Delete a job from any place of the queue. Returns `moved`, `gone`, or `reserved` if a worker holds it.

        With `force` a job that a worker holds is deleted too.
        """
        return self._run_job_verb("delete", id, {"force": force}, "", "")

    def cancel(self, id: str | bytes) -> Word:
        """Ask the worker that holds a job to stop it. Returns `asked`, `wrong_place` or `gone`."""
        return self._run_job_verb("cancel", id, {}, "")

    def kill(self, id: str | bytes, reason: str = "", force: bool = False) -> Word:
        """Make a live job dead, with `reason` as its error. Returns `moved`, `reserved`, `wrong_place` or `gone`.

        `reserved` means that a worker holds the job; with `force` it is killed even then.
        """
        return self._run_job_verb("kill", id, {"reason": reason, "force": force}, "")

    def promote(self, id: str | bytes) -> Word:
        """Make a scheduled job ready now. Returns `moved`, `wrong_place` or `gone`."""
        return self._run_job_verb("promote", id, {})

    def requeue(self, id: str | bytes, keep_attempts: bool = False) -> Word:
        """Run a dead job again, or a completed job that was kept.

        Returns `moved`, `wrong_place`, `bodyless` (its body is not kept) or `gone`. Attempts start at zero unless
        `keep_attempts` is set.
        """
        return self._run_job_verb("requeue", id, {"keep_attempts": keep_attempts})

    def reschedule(self, id: str | bytes, delay: Duration | None = None, due: datetime | int | None = None) -> Word:
        """Change when a scheduled or ready job is due; give `delay` or `due`, not both.

        Returns `moved`, `wrong_place` or `gone`.
        """
        if (delay is None) == (due is None):
            raise UsageError("reschedule needs a delay or a due time: one of them.")
        due_columns = (
            {"due_ms": durations.parse_instant(due)}
            if due is not None
            else {"delay_ms": durations.parse_duration(delay or 0, "delay")}
        )
        return self._run_job_verb("reschedule", id, due_columns)

    def reprioritise(self, id: str | bytes, priority: int) -> Word:
        """Change the priority of a scheduled or ready job. Returns `changed`, `wrong_place` or `gone`."""
        return self._run_job_verb("reprioritise", id, {"priority": priority})

    def _run_job_verb(self, verb: str, id: str | bytes, args: Mapping[str, object], *columns: object) -> Word:
        return self._run_and_read_word(self.call(verb, args, [(_encode_job_id(id), *columns)]))

    def _run_and_read_word(self, call: Call) -> Word:
        """Send a call and return the word of its reply, or of the reply's only row."""
        raise NotImplementedError

    # The queue itself

    def pause(self) -> Word:
        """Pause the queue: no worker gets a job from it. Returns `paused` or `already`."""
        return self._run_and_read_word(self.call("pause"))

    def resume(self) -> Word:
        """Resume a paused queue: workers get its jobs again. Returns `resumed` or `already`."""
        return self._run_and_read_word(self.call("resume"))

    def _build_configure_call(self, settings: Mapping[str, object]) -> Call:
        rows = [(name, None if value is None else str(value)) for name, value in settings.items()]
        return self.call("configure", {}, rows)

    # What jobs and consumers use

    def call(
        self,
        verb: str,
        args: Mapping[str, object] = NO_ARGS,
        rows: Iterable[Mapping[str, object] | Sequence[object]] = (),
    ) -> Call:
        """Build a call of a script of the native queue, with the keys of this queue."""
        return self._scripts[verb].build_call(self._bind_script_keys(verb), args, rows)

    def _bind_script_keys(self, verb: str) -> BoundKeys:
        keys = self._bound_keys.get(verb)
        if keys is None:
            keys = self._bound_keys[verb] = self._scripts[verb].bind_keys(self.keys)
        return keys

    def __repr__(self) -> str:
        return f"<Queue {self.name}>"


def build_put_result(id: str | bytes, is_given: bool, reply: Reply) -> Put:
    """Build the result of putting one job from the reply of the script `enqueue`.

    A generated id is always `moved`: a job with that id can only exist because an earlier try of the same call
    succeeded.
    """
    return Put(_decode_job_id(id), reply.each[0].word if is_given else "moved")


def read_reply_word(reply: Reply) -> str:
    """Return the word (`moved`, `gone`, …) of a script's reply, or of the reply's only row."""
    return reply.word or reply.each[0].word


def record_ack_outcomes(jobs: Sequence[Leased[Any]], reply: Reply) -> list[str]:
    """Record in each leased job the outcome of its ack. Returns one word per job."""
    words = [job_reply.word for job_reply in reply.each]
    for job, word in zip(jobs, words, strict=True):
        job.record_outcome(word)
    return words


def build_unknown_put_error(lost: Unknown, error: ServerError) -> Unknown:
    """Build the error for a put whose first reply was lost and whose second try failed: the job may be in the queue."""
    return Unknown(f"{lost} It was sent again: {error}")


_COLUMN_BUILDERS: Mapping[str, Callable[[Any], dict[str, Any]]] = {
    "delay": lambda value: {"delay_ms": durations.parse_duration(value, "delay")},
    "due": lambda value: {"due_ms": durations.parse_instant(value)},
    "ttr": lambda value: {"ttr_ms": durations.parse_duration(value, "ttr")},
    "keep": lambda value: {"keep_ms": durations.parse_duration(value, "keep")},
    "backoff": lambda value: dict(
        zip(("backoff_ms", "backoff_cap_ms"), durations.parse_duration_range(value), strict=True)
    ),
}


def build_enqueue_columns(options: Mapping[str, Any]) -> dict[str, Any]:
    """Convert options of `put` to columns of the script `enqueue`: `delay` to `delay_ms`, `1s..1h` to two columns, etc.

    Raises UsageError for an unknown option, or for both `delay` and `due`.
    """
    columns: dict[str, Any] = {}
    for option, value in options.items():
        if option not in OPTIONS:
            raise UsageError(f"There is no option {option!r}; a job has id, body, {', '.join(OPTIONS)}.")
        if value is not None:
            columns.update(_COLUMN_BUILDERS[option](value) if option in _COLUMN_BUILDERS else {option: value})
    if columns.get("delay_ms") is not None and columns.get("due_ms") is not None:
        raise UsageError("delay and due exclude each other: give one of them.")
    return columns


def _encode_job_id(id: str | bytes) -> bytes:
    if not isinstance(id, str | bytes):
        raise UsageError(f"An id is text or bytes, not {type(id).__name__}.")
    encoded = to_bytes(id)
    if not 1 <= len(encoded) <= ID_BYTES:
        raise UsageError(f"An id has 1 to {ID_BYTES} bytes; this one has {len(encoded)}.")
    return encoded


def _decode_job_id(id: str | bytes) -> str:
    return id if isinstance(id, str) else to_text(id)
