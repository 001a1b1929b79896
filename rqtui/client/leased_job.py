"""Represent a leased job: its data, the token that proves the lease, and the methods that end the lease.

`Queue.reserve` and `Queue.consume` create these. A method sends its verb at once and returns the script's word. A
`with` block settles the job when it ends; in `consume` the outcome is sent together with the next claim
(`rqtui.client.outcome_buffer`). `Leased` is the part that never waits for Redis. The blocking job here and the asyncio
job in `rqtui.aio` are its subclasses.
"""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

from rqtui.client import native_record
from rqtui.client.codecs import Codec
from rqtui.durations import Duration, parse_duration
from rqtui.errors import UsageError
from rqtui.scripts.script import Reply
from rqtui.text.names import to_text

log = logging.getLogger("rqtui")

ERROR_BYTES = 2000  # the scripts' limit; the last bytes are kept, because a traceback ends with the error message


Word = TypeVar("Word")
"""The result of a verb: the script's word, or an awaitable of it."""


class JobQueue(Protocol):
    """The attributes of a queue that the data of a leased job needs."""

    name: str
    codec: Codec


class SettlingQueue(JobQueue, Protocol):
    """The queue of a leased job that is settled with blocking calls."""

    def settle(self, verb: str, job: Leased[Any], args: Mapping[str, object], *columns: object) -> Reply:
        """Run a verb (ack, reject, …) on the lease of a job now. Used by jobs and consumers."""
        ...


class PushTarget(Protocol):
    """The queue to which a leased job is pushed (`Job.push`)."""

    def put(self, body: Any, id: str | bytes | None = None, **options: Any) -> Any:
        """Put a job with this body and id into the queue."""
        ...


class OutcomeSink(Protocol):
    """The buffer in which the `with` block of a job leaves its outcome for the next round trip.

    If there is none, or if it is closed, the outcome is sent at once.
    """

    is_closed: bool

    def add_outcome(self, verb: str, job: Leased[Any], error: bytes = b"") -> None:
        """Send a verb (ack, reject or release) on the lease of a job in the next round trip."""
        ...

    def report_settled(self, job: Leased[Any]) -> None:
        """Stop extending the lease of a job that was settled by a call of its own."""
        ...


class Leased(Generic[Word]):
    """One leased job, with the lease's token and the methods that settle it.

    `attempt` counts from 1. `id` and `name` are text. `body` is decoded when it is first read; `raw` has its bytes.
    `outcome` is empty while the job is open, then the script's word (`moved`, `done`, `stale`, `gone`), or `sent` while
    the outcome of a `with` block is on its way. `cancelled` is True if a person or program asked to stop this job: stop
    working and reject it.
    """

    __slots__ = (
        "__weakref__", "_body", "_header", "_is_lost", "_sink", "_queue", "attempt", "cancelled", "id_bytes",
        "max_attempts", "outcome", "raw", "settling", "token", "ttr_ms", "until_s",
    )  # fmt: skip

    def __init__(
        self,
        queue: JobQueue,
        id: bytes,
        token: str,
        attempt: int,
        max_attempts: int,
        ttr_ms: int,
        record: bytes,
        long_body: bytes,
        *,
        sink: OutcomeSink | None = None,
        began_s: float = 0.0,
    ) -> None:
        header, _, body = record.partition(b"\n")
        self._queue = queue
        self._sink = sink
        self._header = header
        self._body: tuple[Any] | None = None
        self._is_lost = False
        self.id_bytes = id
        self.token = token
        self.attempt = attempt
        self.max_attempts = max_attempts
        self.ttr_ms = ttr_ms
        self.raw = body or long_body
        # By time.monotonic(). Counted from before the claim was sent, so that it is never later than the server's time.
        self.until_s = began_s + ttr_ms / 1000
        self.outcome = ""
        self.cancelled = False
        self.settling = False

    @property
    def id(self) -> str:
        """The id of the job as text. Bytes that are not UTF-8 become surrogate escapes."""
        return to_text(self.id_bytes)

    @property
    def name(self) -> str:
        """The kind of job, as given to `put`; empty if none was given."""
        return to_text(native_record.parse_record_fields(self._header)[native_record.NAME])

    @property
    def attempts(self) -> int:
        """How many times the job was handed out, including this time."""
        return self.attempt

    @property
    def queue(self) -> str:
        """The name of the job's queue."""
        return self._queue.name

    @property
    def body(self) -> Any:
        """The body of the job, decoded by the queue's codec.

        Raises CodecError; inside `with job:` that rejects the job.
        """
        if self._body is None:
            self._body = (self._queue.codec.decode(self.raw),)
        return self._body[0]

    @property
    def lost(self) -> bool:
        """Whether the lease of the job is over, so that another worker may run the job.

        Stop working on it: later calls have no effect.
        """
        return not self.outcome and (self._is_lost or (bool(self.token) and time.monotonic() > self.until_s))

    def ack(self, keep: Duration | None = None) -> Word:
        """Complete the job. Returns `moved`, `done`, `stale` or `gone`.

        `keep` is how long the completed job stays in the queue's `done` place, with its body.
        """
        return self._settle_lease("ack", {} if keep is None else {"keep_ms": parse_duration(keep, "keep")})

    def reject(self, error: str | BaseException = "", final: bool = False, delay: Duration | None = None) -> Word:
        """Report that the job failed. Returns `moved`, `stale` or `gone`.

        The job is retried after its backoff (or `delay`). It becomes dead after its last attempt, or at once with
        `final`. `error` is a text or an exception, stored with its traceback.
        """
        args = {"final": final, "delay_ms": None if delay is None else parse_duration(delay, "delay")}
        return self._settle_lease("reject", args, format_error_text(error))

    def release(self, delay: Duration | None = None) -> Word:
        """Give the job back to the queue without counting the attempt. Returns `moved`, `stale` or `gone`.

        With `delay`, the job is not ready before that time has passed.
        """
        return self._settle_lease("release", {} if delay is None else {"delay_ms": parse_duration(delay, "delay")})

    def extend(self, ttr: Duration | None = None) -> Word:
        """Set the end of the job's lease to `ttr` from now (None: the job's lease time).

        Returns `extended`, `cancelled`, `stale` or `gone`.
        """
        self._require_lease("extend")
        return self._extend_lease(self.ttr_ms if ttr is None else parse_duration(ttr, "ttr"))

    def apply_extend_reply(self, word: str, began_s: float, ttr_ms: int) -> None:
        """Update the lease of the job from the reply to an extend that was sent at `began_s` (time.monotonic())."""
        if word == "extended":
            self.until_s = began_s + ttr_ms / 1000
        elif self.settling or self.outcome:
            return  # the reply results from our own ack, which arrived before the extend
        elif word == "cancelled":
            self.cancelled = True
        else:
            self._is_lost = True

    def record_outcome(self, word: str) -> None:
        """Record the word of the script that ended the job's lease."""
        self.outcome = word
        if self._sink is not None:
            self._sink.report_settled(self)

    def __repr__(self) -> str:
        return f"<Job {ascii(self.id)} of {self.queue}, attempt {self.attempt}: {self.outcome or 'open'}>"

    def _settle_lease(self, verb: str, args: Mapping[str, object], *columns: object) -> Word:
        """End the lease of the job now, with a verb such as ack."""
        raise NotImplementedError

    def _extend_lease(self, ttr_ms: int) -> Word:
        raise NotImplementedError

    def _buffer_outcome(self, verb: str, error: str | BaseException = "") -> bool:
        """Pass the outcome to the consumer, which sends it in its next round trip. False if there is none."""
        if self._sink is None or self._sink.is_closed:
            return False
        self._require_lease(verb)
        self.outcome = "sent"
        self._sink.add_outcome(verb, self, format_error_text(error) if verb == "reject" else b"")
        return True

    def _choose_exit_verb(self, error: BaseException | None) -> str:
        """Return the verb to run when the `with` block of a job ends: ack, reject or release; empty if none is due."""
        if not self.token:  # the job was pulled, so there is no lease to settle
            return ""
        if error is None:
            return "" if self.outcome else "ack"
        if not isinstance(error, Exception):  # an interrupt, a cancelled task: not the job's fault
            return "" if self.outcome else "release"
        log.error("queue %s: job %s failed (attempt %d)", self.queue, ascii(self.id), self.attempt, exc_info=error)
        return "" if self.outcome else "reject"

    def _is_reported_error(self, error: BaseException | None) -> bool:
        """Return whether an exception in a job's `with` block was reported to the queue and must not propagate."""
        return bool(self.token) and isinstance(error, Exception)

    def _require_lease(self, verb: str) -> None:
        if not self.token:
            raise UsageError(f"Job {ascii(self.id)} was pulled, so it left the queue and there is no lease to {verb}.")


class Job(Leased[str]):
    """A leased job whose methods block until Redis has replied."""

    __slots__ = ()
    _queue: SettlingQueue

    def push(self, queue: PushTarget, **options: Any) -> str:
        """Put the leased job into another queue with the same id and name, then ack it here.

        `options` are those of `Queue.put`. Returns the word of the ack. If the call fails halfway, repeating it is
        safe.
        """
        self._require_lease("push")
        queue.put(self.raw, self.id_bytes, **{"name": self.name, **options})
        return self.ack()

    def settle_later(self, verb: str, error: str | BaseException = "") -> None:
        """Ack, reject or release the job in the consumer's next round trip, at most 0.2 s from now.

        `outcome` is `sent` until Redis has replied; the call is repeated until then. Without a consumer the call is
        sent at once.
        """
        if not self._buffer_outcome(verb, error):
            self._settle_lease(verb, {}, *([format_error_text(error)] if verb == "reject" else []))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """Ack the job; on an exception reject it with the traceback and suppress the exception.

        An interrupt (not an `Exception`) releases the job and propagates.
        """
        if verb := self._choose_exit_verb(error):
            self.settle_later(verb, "" if error is None else error)
        return self._is_reported_error(error)

    def _settle_lease(self, verb: str, args: Mapping[str, object], *columns: object) -> str:
        self._require_lease(verb)
        self.settling = True
        try:
            self.record_outcome(self._queue.settle(verb, self, args, *columns).each[0].word)
        finally:
            self.settling = False
        return self.outcome

    def _extend_lease(self, ttr_ms: int) -> str:
        began_s = time.monotonic()
        word = self._queue.settle("extend", self, {"ttr_ms": ttr_ms}).each[0].word
        self.apply_extend_reply(word, began_s, ttr_ms)
        return word


def format_error_text(error: str | BaseException) -> bytes:
    """Return the error of a job as the scripts store it: the last 2000 bytes of the text or traceback."""
    text = "".join(traceback.format_exception(error)) if isinstance(error, BaseException) else str(error)
    encoded = text.strip().encode("utf-8", "replace")
    return encoded if len(encoded) <= ERROR_BYTES else encoded[-ERROR_BYTES:].decode("utf-8", "ignore").encode()
