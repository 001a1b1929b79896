"""Represent a leased job whose methods are awaited. Its data and rules are those of `rqtui.client.leased_job`."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Coroutine, Mapping
from types import TracebackType
from typing import Any, Protocol, Self

from rqtui.client.leased_job import JobQueue, Leased, format_error_text
from rqtui.scripts.script import Reply


class SettlingQueue(JobQueue, Protocol):
    """The queue of a leased job that is settled with awaited calls."""

    async def settle(self, verb: str, job: Leased[Any], args: Mapping[str, object], *columns: object) -> Reply:
        """Run a verb (ack, reject, …) on the lease of a job now. Used by jobs and consumers."""
        ...


class PushTarget(Protocol):
    """The queue to which a leased job is pushed (`Job.push`)."""

    def put(self, body: Any, id: str | bytes | None = None, **options: Any) -> Awaitable[Any]:
        """Put a job with this body and id into the queue."""
        ...


class Job(Leased[Coroutine[Any, Any, str]]):
    """A leased job for asyncio. `async with job:` acks it, rejects it on an exception, or releases it if cancelled."""

    __slots__ = ()
    _queue: SettlingQueue

    async def push(self, queue: PushTarget, **options: Any) -> str:
        """Put the leased job into another queue with the same id and name, then ack it here.

        `options` are those of `Queue.put`. Returns the word of the ack. If the call fails halfway, repeating it is
        safe.
        """
        self._require_lease("push")
        await queue.put(self.raw, self.id_bytes, **{"name": self.name, **options})
        return await self.ack()

    async def settle_later(self, verb: str, error: str | BaseException = "") -> None:
        """Ack, reject or release the job in the consumer's next round trip, at most 0.2 s from now.

        `outcome` is `sent` until Redis has replied; the call is repeated until then. Without a consumer the call is
        sent at once.
        """
        if not self._buffer_outcome(verb, error):
            await self._settle_lease(verb, {}, *([format_error_text(error)] if verb == "reject" else []))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """Ack the job; on an exception reject it with the traceback and suppress the exception.

        If the task is cancelled, the job is released and the cancellation propagates.
        """
        if verb := self._choose_exit_verb(error):
            await self.settle_later(verb, "" if error is None else error)
        return self._is_reported_error(error)

    async def _settle_lease(self, verb: str, args: Mapping[str, object], *columns: object) -> str:
        self._require_lease(verb)
        self.settling = True
        try:
            self.record_outcome((await self._queue.settle(verb, self, args, *columns)).each[0].word)
        finally:
            self.settling = False
        return self.outcome

    async def _extend_lease(self, ttr_ms: int) -> str:
        began_s = time.monotonic()
        word = (await self._queue.settle("extend", self, {"ttr_ms": ttr_ms})).each[0].word
        self.apply_extend_reply(word, began_s, ttr_ms)
        return word
