"""A leased job: its data, the token that proves the lease, and the methods that end the lease.

`Queue.reserve` and `Queue.consume` make these. Methods answer at once, with the script's word; a `with` block says the
same on leaving, and in `consume` that is sent along with the next claim (`rqtui.client.ack_buffer`). `Leased` is all of
it that does not wait for Redis, and the base of the job of an event loop, too (`rqtui.aio`).
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
from rqtui.durations import Duration, parse
from rqtui.errors import UsageError
from rqtui.scripts.script import Answer
from rqtui.text.names import to_text

log = logging.getLogger("rqtui")

ERROR_BYTES = 2000  # what the scripts keep of an error; the end of a traceback says most, so it is cut here


Word = TypeVar("Word")
"""What a verb gives: the word of a script, or what is awaited for it."""


class Origin(Protocol):
    """The queue a job came from, as far as its data needs it."""

    name: str
    codec: Codec


class Home(Origin, Protocol):
    """The same of a job that is settled where one waits."""

    def settle(self, verb: str, job: Leased[Any], args: Mapping[str, object], *columns: object) -> Answer:
        """Run `verb` on the lease of `job` now."""
        ...


class Target(Protocol):
    """The queue a job is pushed to."""

    def put(self, body: Any, id: str | bytes | None = None, **options: Any) -> Any:
        """Enqueue there."""
        ...


class Post(Protocol):
    """Where a `with` block leaves its outcome to be sent soon; closed, or none at all: at once."""

    is_closed: bool

    def add(self, verb: str, job: Leased[Any], error: bytes = b"") -> None:
        """Send `verb` on the lease of `job` in the next trip."""
        ...

    def forget(self, job: Leased[Any]) -> None:
        """The job was settled otherwise: its lease needs no heartbeat."""
        ...


class Leased(Generic[Word]):
    """One leased job. `attempt` counts from 1; `id` and `name` are text, `body` is decoded when it is first asked for.

    `outcome` is empty while the job is open; then it is a script's word (`moved`, `done`, `stale`, `gone`) or `sent`
    while a `with` block's outcome is on its way. `cancelled`: somebody asked to stop this job; stop and reject it.
    """

    __slots__ = (
        "__weakref__", "_body", "_header", "_lost", "_post", "_queue", "attempt", "cancelled", "id_bytes",
        "max_attempts", "outcome", "raw", "settling", "token", "ttr_ms", "until_s",
    )  # fmt: skip

    def __init__(
        self,
        queue: Origin,
        id: bytes,
        token: str,
        attempt: int,
        max_attempts: int,
        ttr_ms: int,
        record: bytes,
        long_body: bytes,
        *,
        post: Post | None = None,
        began_s: float = 0.0,
    ) -> None:
        header, _, body = record.partition(b"\n")
        self._queue = queue
        self._post = post
        self._header = header
        self._body: tuple[Any] | None = None
        self._lost = False
        self.id_bytes = id
        self.token = token
        self.attempt = attempt
        self.max_attempts = max_attempts
        self.ttr_ms = ttr_ms
        self.raw = body or long_body
        self.until_s = began_s + ttr_ms / 1000  # by time.monotonic, counted from before the claim was sent: never late
        self.outcome = ""
        self.cancelled = False
        self.settling = False

    @property
    def id(self) -> str:
        """The id as text; bytes that are not UTF-8 survive as surrogates."""
        return to_text(self.id_bytes)

    @property
    def name(self) -> str:
        """The kind of job, as it was put; empty when none was given."""
        return to_text(native_record.fields(self._header)[native_record.NAME])

    @property
    def attempts(self) -> int:
        """How many times it was handed out, this time included."""
        return self.attempt

    @property
    def queue(self) -> str:
        """The name of its queue."""
        return self._queue.name

    @property
    def body(self) -> Any:
        """The body, decoded by the queue's codec. Raises CodecError; inside `with job:` that rejects the job."""
        if self._body is None:
            self._body = (self._queue.codec.decode(self.raw),)
        return self._body[0]

    @property
    def lost(self) -> bool:
        """Whether the lease is over, so that somebody else may run the job: stop, nothing that follows will count."""
        return not self.outcome and (self._lost or (bool(self.token) and time.monotonic() > self.until_s))

    def ack(self, keep: Duration | None = None) -> Word:
        """Ack the job. `keep`: how long it stays in done with its body. Answers moved, done, stale or gone."""
        return self._settle("ack", {} if keep is None else {"keep_ms": parse(keep, "keep")})

    def reject(self, error: str | BaseException = "", final: bool = False, delay: Duration | None = None) -> Word:
        """Reject the job: it is tried again after its backoff (or `delay`), or dead after the last attempt or `final`.

        Answers moved, stale or gone.
        """
        args = {"final": final, "delay_ms": None if delay is None else parse(delay, "delay")}
        return self._settle("reject", args, error_text(error))

    def release(self, delay: Duration | None = None) -> Word:
        """Release the job unharmed, its attempt too; `delay`: not before that. Answers moved, stale or gone."""
        return self._settle("release", {} if delay is None else {"delay_ms": parse(delay, "delay")})

    def extend(self, ttr: Duration | None = None) -> Word:
        """Let the lease end `ttr` from now (its lease time when None). Answers extended, cancelled, stale or gone."""
        self._check_leased("extend")
        return self._extend(self.ttr_ms if ttr is None else parse(ttr, "ttr"))

    def learn(self, word: str, began_s: float, ttr_ms: int) -> None:
        """Take in what an extend that was begun at `began_s` answered."""
        if word == "extended":
            self.until_s = began_s + ttr_ms / 1000
        elif self.settling or self.outcome:
            return  # the answer tells of our own ack that overtook it
        elif word == "cancelled":
            self.cancelled = True
        else:
            self._lost = True

    def settled(self, word: str) -> None:
        """Take in what a script said of the end of this lease."""
        self.outcome = word
        if self._post is not None:
            self._post.forget(self)

    def __repr__(self) -> str:
        return f"<Job {ascii(self.id)} of {self.queue}, attempt {self.attempt}: {self.outcome or 'open'}>"

    def _settle(self, verb: str, args: Mapping[str, object], *columns: object) -> Word:
        """End the lease now."""
        raise NotImplementedError

    def _extend(self, ttr_ms: int) -> Word:
        raise NotImplementedError

    def _posts(self, verb: str, error: str | BaseException = "") -> bool:
        """Leave the end of the lease for the consumer's next trip; False where none is to come."""
        if self._post is None or self._post.is_closed:
            return False
        self._check_leased(verb)
        self.outcome = "sent"
        self._post.add(verb, self, error_text(error) if verb == "reject" else b"")
        return True

    def _verb_at_the_end(self, error: BaseException | None) -> str:
        """What the end of a block means for the lease: ack, reject, release; empty where nothing is to be said."""
        if not self.token:  # pulled: nothing to say to anybody
            return ""
        if error is None:
            return "" if self.outcome else "ack"
        if not isinstance(error, Exception):  # an interrupt, a cancelled task: not the job's fault
            return "" if self.outcome else "release"
        log.error("queue %s: job %s failed (attempt %d)", self.queue, ascii(self.id), self.attempt, exc_info=error)
        return "" if self.outcome else "reject"

    def _ends_here(self, error: BaseException | None) -> bool:
        """Whether an exception in a block was told to the queue, and goes no further."""
        return bool(self.token) and isinstance(error, Exception)

    def _check_leased(self, verb: str) -> None:
        if not self.token:
            raise UsageError(f"Job {ascii(self.id)} was pulled, so it left the queue and there is no lease to {verb}.")


class Job(Leased[str]):
    """A leased job where one waits: what its methods answer is there when they return."""

    __slots__ = ()
    _queue: Home

    def push(self, queue: Target, **options: Any) -> str:
        """Put it into another queue under the same id and name, then ack it here; again does no harm.

        `options` are those of `Queue.put`. Answers the word of the ack.
        """
        self._check_leased("push")
        queue.put(self.raw, self.id_bytes, **{"name": self.name, **options})
        return self.ack()

    def settle_later(self, verb: str, error: str | BaseException = "") -> None:
        """ack, reject or release in the consumer's next trip, 0.2 s from now at most; without a consumer at once.

        It is sent again until Redis has answered; `outcome` is `sent` until then.
        """
        if not self._posts(verb, error):
            self._settle(verb, {}, *([error_text(error)] if verb == "reject" else []))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """ack; on an exception reject with its traceback and go on; on an interrupt release and let it pass."""
        if verb := self._verb_at_the_end(error):
            self.settle_later(verb, "" if error is None else error)
        return self._ends_here(error)

    def _settle(self, verb: str, args: Mapping[str, object], *columns: object) -> str:
        self._check_leased(verb)
        self.settling = True
        try:
            self.settled(self._queue.settle(verb, self, args, *columns).each[0].word)
        finally:
            self.settling = False
        return self.outcome

    def _extend(self, ttr_ms: int) -> str:
        began_s = time.monotonic()
        word = self._queue.settle("extend", self, {"ttr_ms": ttr_ms}).each[0].word
        self.learn(word, began_s, ttr_ms)
        return word


def error_text(error: str | BaseException) -> bytes:
    """The text of an error as the scripts keep it: the last 2000 bytes, of an exception with its traceback."""
    text = "".join(traceback.format_exception(error)) if isinstance(error, BaseException) else str(error)
    encoded = text.strip().encode("utf-8", "replace")
    return encoded if len(encoded) <= ERROR_BYTES else encoded[-ERROR_BYTES:].decode("utf-8", "ignore").encode()
