"""A leased job whose methods are awaited; what it is stands in `rqtui.client.leased_job`."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Coroutine, Mapping
from types import TracebackType
from typing import Any, Protocol, Self

from rqtui.client.leased_job import Leased, Origin, error_text
from rqtui.scripts.script import Answer


class Home(Origin, Protocol):
    """The queue a job came from."""

    async def settle(self, verb: str, job: Leased[Any], args: Mapping[str, object], *columns: object) -> Answer:
        """Run `verb` on the lease of `job` now."""
        ...


class Target(Protocol):
    """The queue a job is pushed to."""

    def put(self, body: Any, id: str | bytes | None = None, **options: Any) -> Awaitable[Any]:
        """Enqueue there."""
        ...


class Job(Leased[Coroutine[Any, Any, str]]):
    """A leased job of an event loop; `async with job:` acks it, rejects it, or releases it when cancelled."""

    __slots__ = ()
    _queue: Home

    async def push(self, queue: Target, **options: Any) -> str:
        """Put it into another queue under the same id and name, then ack it here; again does no harm.

        `options` are those of `Queue.put`. Answers the word of the ack.
        """
        self._check_leased("push")
        await queue.put(self.raw, self.id_bytes, **{"name": self.name, **options})
        return await self.ack()

    async def settle_later(self, verb: str, error: str | BaseException = "") -> None:
        """ack, reject or release in the consumer's next trip, 0.2 s from now at most; without a consumer at once.

        It is sent again until Redis has answered; `outcome` is `sent` until then.
        """
        if not self._posts(verb, error):
            await self._settle(verb, {}, *([error_text(error)] if verb == "reject" else []))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """ack; on an exception reject with its traceback and go on; when cancelled release and let it pass."""
        if verb := self._verb_at_the_end(error):
            await self.settle_later(verb, "" if error is None else error)
        return self._ends_here(error)

    async def _settle(self, verb: str, args: Mapping[str, object], *columns: object) -> str:
        self._check_leased(verb)
        self.settling = True
        try:
            self.settled((await self._queue.settle(verb, self, args, *columns)).each[0].word)
        finally:
            self.settling = False
        return self.outcome

    async def _extend(self, ttr_ms: int) -> str:
        began_s = time.monotonic()
        word = (await self._queue.settle("extend", self, {"ttr_ms": ttr_ms})).each[0].word
        self.learn(word, began_s, ttr_ms)
        return word
