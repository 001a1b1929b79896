"""Outcomes of jobs on their way to Redis: collected while jobs run, sent along with the next trip.

A consumer's `with` blocks fill it; its loop empties it into the pipeline that claims the next jobs, its
heartbeat does when that takes long (`consumer`, `heartbeat`). Outcomes whose reply was lost are sent again: each has
its token, so the second time changes nothing. Safe to use from several threads.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from rqtui.client.leased_job import Leased
from rqtui.errors import Denied, ServerError, WrongType
from rqtui.scripts.script import Answer, Call

log = logging.getLogger("rqtui")

BATCH = 1000  # what the scripts take in one call
T = TypeVar("T")
Send = Callable[[Sequence[Call]], Awaitable[list[Answer | Exception]]]
"""Sends calls in one trip; an answer or an error for each, as `script.run_all` gives them."""


@dataclass(frozen=True, slots=True)
class Parcel:
    """Outcomes of one kind, as one call; `errors` belong to the jobs, one each."""

    verb: str
    jobs: list[Leased[Any]]
    errors: list[bytes]
    call: Call


class Outbox:
    """`make_call(verb, rows)` makes the call for a batch; `post` and `forget` are what jobs call."""

    def __init__(
        self, make_call: Callable[[str, Sequence[Sequence[object]]], Call], on_settled: Callable[[Leased[Any]], None]
    ) -> None:
        self._make_call = make_call
        self._on_settled = on_settled
        self._acks: deque[Leased[Any]] = deque()
        self._others: deque[tuple[str, Leased[Any], bytes]] = deque()
        self._again: set[str] = set()  # tokens of what was sent without an answer
        self.is_closed = False  # nobody will empty it any more
        self.taken = 0  # how often something was taken: who sees it unchanged knows that what is here has waited

    def __bool__(self) -> bool:
        return bool(self._acks or self._others)

    def add(self, verb: str, job: Leased[Any], error: bytes = b"") -> None:
        """Send `verb` on the lease of `job` in the next trip. The lease beats until that trip is back."""
        if verb == "ack":
            self._acks.append(job)
        else:
            self._others.append((verb, job, error))

    def forget(self, job: Leased[Any]) -> None:
        """The job was settled by a call of its own."""
        self._on_settled(job)

    def take(self) -> list[Parcel]:
        """All that is waiting, as calls; hand each to `delivered` or `put_back`."""
        if not self:
            return []
        self.taken += 1
        parcels = []
        while acks := _popped(self._acks):
            parcels.append(self._parcel("ack", acks, [b""] * len(acks)))
        groups: dict[str, list[tuple[str, Leased[Any], bytes]]] = {}
        for item in _popped(self._others):
            groups.setdefault(item[0], []).append(item)
        for verb, items in groups.items():
            parcels.append(self._parcel(verb, [job for _, job, _ in items], [error for _, _, error in items]))
        return parcels

    async def send(self, parcels: Sequence[Parcel], calls: Sequence[Call], send: Send) -> list[Answer | Exception]:
        """Send calls, those of `parcels` first, and take in what became of them; what was cut off is sent again."""
        try:
            results = await send(calls)
        except BaseException:  # an interrupt, a cancelled task
            for parcel in parcels:
                self.put_back(parcel)
            raise
        for parcel, result in zip(parcels, results, strict=False):
            self.delivered(parcel, result)
        return results

    def delivered(self, parcel: Parcel, result: Answer | Exception) -> None:
        """Take in what became of a parcel; it goes back into the box when a later try may succeed."""
        if isinstance(result, ServerError) and not isinstance(result, WrongType):
            self.put_back(parcel)
            log.log(logging.WARNING if isinstance(result, Denied) else logging.INFO, "%s; it is sent again", result)
            return
        if isinstance(result, Exception):
            log.error("%d outcomes (%s) were refused: %s", len(parcel.jobs), parcel.verb, result)
            for job in parcel.jobs:
                self._settled(job, "refused")
            return
        for job, answer in zip(parcel.jobs, result.each, strict=True):
            was_sent = job.token in self._again  # then `gone` may mean that the first time was done
            self._again.discard(job.token)
            if answer.word == "stale" or (answer.word == "gone" and not was_sent):
                log.warning(
                    "queue %s: %s of job %s came too late: %s", job.queue, parcel.verb, ascii(job.id), answer.text
                )
            self._settled(job, answer.word)

    def put_back(self, parcel: Parcel) -> None:
        """Keeps outcomes for the next trip that were not sent, or whose reply was lost."""
        self._again.update(job.token for job in parcel.jobs)
        for job, error in zip(parcel.jobs, parcel.errors, strict=True):
            self.add(parcel.verb, job, error)

    def _settled(self, job: Leased[Any], word: str) -> None:
        job.outcome = word
        self._on_settled(job)

    def _parcel(self, verb: str, jobs: list[Leased[Any]], errors: list[bytes]) -> Parcel:
        if verb == "reject":
            rows: list[tuple[object, ...]] = [
                (job.id_bytes, job.token, error) for job, error in zip(jobs, errors, strict=True)
            ]
        else:
            rows = [(job.id_bytes, job.token) for job in jobs]
        return Parcel(verb, jobs, errors, self._make_call(verb, rows))


def _popped(items: deque[T]) -> list[T]:
    found: list[T] = []
    try:
        while len(found) < BATCH:
            found.append(items.popleft())
    except IndexError:
        pass
    return found
