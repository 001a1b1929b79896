"""Buffer the outcomes of a consumer's jobs, which are sent together with the next round trip to Redis.

The `with` block of a job adds its outcome. The consumer sends the buffer in the pipeline that claims the next jobs; its
heartbeat sends outcomes that would wait too long. An outcome whose reply was lost is sent again. The lease token makes
that harmless: a second ack has no effect. The buffer is safe to use from several threads.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from rqtui.client.leased_job import Leased
from rqtui.errors import Denied, ReplicaOnly, ServerError, WrongType
from rqtui.scripts.script import Call, Reply

log = logging.getLogger("rqtui")

MAX_JOBS_PER_CALL = 1000  # the limit of the scripts
T = TypeVar("T")
Send = Callable[[Sequence[Call]], Awaitable[list[Reply | Exception]]]
"""Sends calls in one round trip and returns a reply or an error per call, as `script.send_calls` does."""


@dataclass(frozen=True, slots=True)
class OutcomeBatch:
    """Outcomes of jobs with the same verb, and the call that sends them; `errors` has one entry per job."""

    verb: str
    jobs: list[Leased[Any]]
    errors: list[bytes]
    call: Call


class OutcomeBuffer:
    """A thread-safe buffer of the outcomes of jobs (ack, reject, release) that are not sent yet.

    `make_call(verb, rows)` builds the call of a batch. `on_settled(job)` is called when a job's outcome is final.
    """

    def __init__(
        self, make_call: Callable[[str, Sequence[Sequence[object]]], Call], on_settled: Callable[[Leased[Any]], None]
    ) -> None:
        self._make_call = make_call
        self._on_settled = on_settled
        self._acked: deque[Leased[Any]] = deque()
        self._other_outcomes: deque[tuple[str, Leased[Any], bytes]] = deque()
        self._resent_tokens: set[str] = set()  # tokens of outcomes that were sent and had no reply
        self.is_closed = False  # no consumer empties the buffer any more
        # The heartbeat compares this number with that of its last step: if equal, the buffered outcomes have waited.
        self.take_count = 0

    def __bool__(self) -> bool:
        return bool(self._acked or self._other_outcomes)

    def add_outcome(self, verb: str, job: Leased[Any], error: bytes = b"") -> None:
        """Send a verb on the lease of a job in the next round trip. The lease is extended until its reply."""
        if verb == "ack":
            self._acked.append(job)
        else:
            self._other_outcomes.append((verb, job, error))

    def report_settled(self, job: Leased[Any]) -> None:
        """Call `on_settled` for a job that was settled by a call of its own, without this buffer."""
        self._on_settled(job)

    def take_outcome_batches(self) -> list[OutcomeBatch]:
        """Empty the buffer and return the outcomes of jobs in batches.

        Pass each batch to `record_batch_result` or `put_back_batch`.
        """
        if not self:
            return []
        self.take_count += 1
        batches = []
        while acks := _pop_one_batch_of_outcomes(self._acked):
            batches.append(self._build_outcome_batch("ack", acks, [b""] * len(acks)))
        groups: dict[str, list[tuple[str, Leased[Any], bytes]]] = {}
        for item in _pop_one_batch_of_outcomes(self._other_outcomes):
            groups.setdefault(item[0], []).append(item)
        for verb, items in groups.items():
            batches.append(
                self._build_outcome_batch(verb, [job for _, job, _ in items], [error for _, _, error in items])
            )
        return batches

    async def send(self, batches: Sequence[OutcomeBatch], calls: Sequence[Call], send: Send) -> list[Reply | Exception]:
        """Send calls, of which the first are those of `batches`, and record the outcomes of the batches' jobs.

        If the send is interrupted, the batches go back to the buffer.
        """
        try:
            results = await send(calls)
        except BaseException:  # an interrupt, a cancelled task
            for batch in batches:
                self.put_back_batch(batch)
            raise
        for batch, result in zip(batches, results, strict=False):
            self.record_batch_result(batch, result)
        return results

    def record_batch_result(self, batch: OutcomeBatch, result: Reply | Exception) -> None:
        """Record the result of sending a batch of outcomes; put the batch back if a later try may succeed."""
        if isinstance(result, ServerError) and not isinstance(result, WrongType):
            self.put_back_batch(batch)
            log.log(
                logging.WARNING if isinstance(result, Denied | ReplicaOnly) else logging.INFO,
                "%s; it is sent again",
                result,
            )
            return
        if isinstance(result, Exception):
            log.error("%d outcomes (%s) were refused: %s", len(batch.jobs), batch.verb, result)
            for job in batch.jobs:
                self._record_outcome(job, "refused")
            return
        for job, reply in zip(batch.jobs, result.each, strict=True):
            is_resent = job.token in self._resent_tokens  # then `gone` may mean that the first call had settled the job
            self._resent_tokens.discard(job.token)
            if reply.word == "stale" or (reply.word == "gone" and not is_resent):
                log.warning(
                    "queue %s: %s of job %s came too late: %s", job.queue, batch.verb, ascii(job.id), reply.text
                )
            self._record_outcome(job, reply.word)

    def put_back_batch(self, batch: OutcomeBatch) -> None:
        """Keep outcomes that were not sent, or whose reply was lost, for the next round trip."""
        self._resent_tokens.update(job.token for job in batch.jobs)
        for job, error in zip(batch.jobs, batch.errors, strict=True):
            self.add_outcome(batch.verb, job, error)

    def _record_outcome(self, job: Leased[Any], word: str) -> None:
        job.outcome = word
        self._on_settled(job)

    def _build_outcome_batch(self, verb: str, jobs: list[Leased[Any]], errors: list[bytes]) -> OutcomeBatch:
        if verb == "reject":
            rows: list[tuple[object, ...]] = [
                (job.id_bytes, job.token, error) for job, error in zip(jobs, errors, strict=True)
            ]
        else:
            rows = [(job.id_bytes, job.token) for job in jobs]
        return OutcomeBatch(verb, jobs, errors, self._make_call(verb, rows))


def _pop_one_batch_of_outcomes(items: deque[T]) -> list[T]:
    popped: list[T] = []
    try:
        while len(popped) < MAX_JOBS_PER_CALL:
            popped.append(items.popleft())
    except IndexError:
        pass
    return popped
