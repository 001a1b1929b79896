"""Follow the first jobs of a rate-limited change until they end, before the others are sent.

`operations/rate_limit` sends the jobs, and polls the canary once per step. A job has succeeded when it is done, or when
it is in no place of a system that stores its failed jobs. It has failed when it is dead, or scheduled for another
attempt. Where a system stores neither done nor failed jobs, how a job ended cannot be known, and the change stops.

The first jobs are bumped to the head of their queue, because thousands of other jobs may be ready.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rqtui.errors import RqtuiError, UsageError
from rqtui.model import Job, Outcome, Ref, State
from rqtui.operations.canary_jobs import End, FirstJob, record_poll
from rqtui.system_base.system import CHUNK, System
from rqtui.text.formats import format_quantity, format_rate, spell_duration
from rqtui.text.names import to_text

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine

MAX_JOBS = 100  # of a canary; each is looked up at every step
WAIT_S = 300.0  # until a worker takes one of the first jobs, or the next one of them
RUN_S = 3600.0  # since a worker took a first job that has not ended
_MAX_WALKED_JOBS = 20_000  # of a queue whose system finds no job by its id
_ERROR_CHARACTERS = 100
_FLOW = (State.READY, State.RESERVED, State.SCHEDULED, State.DONE, State.DEAD)  # the order in which a job moves on

_JobKey = tuple[Ref, bytes]  # the queue and the id of a first job


@dataclass(frozen=True, slots=True)
class CanaryProgress:
    """The first jobs of a change at a poll, and the reason to stop the change; empty while none failed.

    `now_ms` is the time of the poll by the server's clock. The change stops in `wait_left_s` seconds unless a worker
    takes a first job until then.
    """

    jobs: tuple[FirstJob, ...]
    now_ms: int
    wait_left_s: float
    stop_reason: str = ""

    @property
    def total(self) -> int:
        """The number of first jobs."""
        return len(self.jobs)

    @property
    def done(self) -> int:
        """The number of first jobs that succeeded."""
        return self._count_ends(End.DONE)

    @property
    def failed(self) -> int:
        """The number of first jobs that failed, or that the verb did not move."""
        return self._count_ends(End.FAILED)

    @property
    def unknown(self) -> int:
        """The number of first jobs that ended in a system that does not store how."""
        return self._count_ends(End.UNKNOWN)

    def _count_ends(self, end: End) -> int:
        return sum(record.end is end for record in self.jobs)

    @property
    def has_passed(self) -> bool:
        """Whether all jobs succeeded."""
        return self.done == self.total

    @property
    def first_failure(self) -> FirstJob | None:
        """The first of the jobs that failed, in the order in which they were sent; None if none failed."""
        return next((record for record in self.jobs if record.end is End.FAILED), None)

    def describe(self) -> str:
        """Describe the progress: `first 5 jobs: 3 succeeded`."""
        return f"first {format_quantity(self.total, 'job')}: {self.done} succeeded"

    def describe_pass(self, remaining: int, jobs_per_s: float) -> str:
        """Describe a canary that passed: `5 of 5 jobs succeeded; 2495 others follow at 20/s`."""
        others = "the other one follows" if remaining == 1 else f"{remaining} others follow"
        return f"{self.done} of {format_quantity(self.total, 'job')} succeeded; {others} at {format_rate(jobs_per_s)}"


class Canary:
    """The first jobs of a rate-limited change, each with what is known about its run.

    The change stops when no first job is running and no worker takes one for `wait_s` seconds, and when one of them has
    not ended `run_s` seconds after a worker took it. Raises UsageError if the jobs of a system cannot be followed, or
    if `size` is not from 1 to 100.
    """

    def __init__(
        self,
        engine: Engine,
        systems: Iterable[System],
        size: int,
        clock: Callable[[], float] = time.monotonic,
        *,
        wait_s: float = WAIT_S,
        run_s: float = RUN_S,
    ) -> None:
        check_canary(systems, size)
        self._engine, self.size, self.is_sent = engine, size, False
        self._clock, self._wait_s, self._run_s = clock, wait_s, run_s
        self._progress_s = 0.0  # by `clock`: when a first job ran or ended last
        self._taken_s: dict[_JobKey, float] = {}  # by `clock`: when each job was first seen running
        self._records: dict[_JobKey, FirstJob] = {}  # in the order in which the jobs were sent

    def follow_jobs(
        self, verb: str, batch: Sequence[tuple[Ref, Job]], outcomes: Iterable[tuple[Ref, Outcome]], now_ms: int
    ) -> None:
        """Follow the jobs of a sent batch that the verb moved, and bump the ready ones. The others count as failed.

        `now_ms` is the time at which they were sent, by the server's clock.
        """
        outcomes_by_job = {(ref, outcome.id): outcome for ref, outcome in outcomes}
        for ref, job in batch:
            record, outcome = FirstJob(ref, job, now_ms), outcomes_by_job.get((ref, job.id))
            if outcome is None or not outcome.moved:
                error = outcome.text if outcome is not None else "it was not moved"
                record = replace(record, is_moved=False, end=End.FAILED, error=error)
            self._records[ref, job.id] = record
        self.is_sent = True
        self._progress_s = self._clock()
        self._bump_ready_jobs(verb)

    @property
    def _pending(self) -> list[_JobKey]:
        """The jobs that have not ended."""
        return [key for key, record in self._records.items() if record.end is None]

    def _bump_ready_jobs(self, verb: str) -> None:
        """Move the sent jobs before the other ready jobs of their queue, where their system and the rules allow it.

        The bump is a part of the change of `verb`, and an undo of that change undoes it.
        """
        pending = self._pending
        found = [
            (ref, job) for (ref, _id), job in zip(pending, self._find_jobs(pending), strict=True) if job is not None
        ]
        for ref in dict.fromkeys(ref for ref, _job in found):
            system = self._engine.systems[ref.system]
            ready = [job for other, job in found if other == ref and job.state is State.READY]
            jobs = [job for job in ready if system.can("bump", job.place) and not job.is_partial]
            if jobs and not self._engine.explain_denial("bump", ref):
                with suppress(RqtuiError):  # The jobs are ready, and run after the others.
                    for request in system.verb_requests("bump", ref.queue, jobs, {}):
                        self._engine.send_request(request)
                    if self._engine.change_recorder is not None:
                        self._engine.change_recorder.update_states_after(self._engine, verb, ref, jobs)

    def poll_jobs(self, now_ms: int) -> CanaryProgress:
        """Look up the jobs that have not ended yet, and return the progress at `now_ms`, by the server's clock."""
        pending, now_s = self._pending, self._clock()
        for key, job in zip(pending, self._find_jobs(pending), strict=True):
            is_stored = stores_failed_jobs(self._engine.systems[key[0].system])
            record = record_poll(self._records[key], job, now_ms, stores_failed_jobs=is_stored)
            self._records[key] = record
            if job is not None and job.state is State.RESERVED:
                self._taken_s.setdefault(key, now_s)
            if record.end is not None or (job is not None and job.state is State.RESERVED):
                self._progress_s = now_s
        wait_left_s = max(0.0, self._wait_s - (now_s - self._progress_s))
        progress = CanaryProgress(tuple(self._records.values()), now_ms, wait_left_s)
        return replace(progress, stop_reason=self._explain_stop(progress, now_s))

    def _explain_stop(self, progress: CanaryProgress, now_s: float) -> str:
        first, pending = f"the first {format_quantity(progress.total, 'job')}", self._pending
        if failure := progress.first_failure:
            text = " ".join(failure.error.split())[:_ERROR_CHARACTERS]
            id = to_text(failure.job.id)
            jobs = f"{progress.failed} of {first} failed, such as {id}"
            return (f"the first job, {id}, failed" if progress.total == 1 else jobs) + (f": {text}" if text else "")
        endless = [id for (ref, id) in pending if now_s - self._taken_s.get((ref, id), now_s) >= self._run_s]
        if endless:
            return (
                f"{to_text(endless[0])} has not ended {spell_duration(self._run_s)} after a worker took it; "
                f"{len(pending)} of {first} have not ended"
            )
        if pending and not progress.wait_left_s:
            wait = spell_duration(self._wait_s)
            if len(pending) == progress.total and not self._taken_s:
                return f"no worker has taken one of {first} within {wait}; they are ready"
            return f"no worker has taken the next of {first} within {wait}; {len(pending)} of them have not ended"
        if progress.unknown:
            return (
                f"{progress.unknown} of {first} ended, and their system does not store how; look at its workers' logs"
            )
        return ""

    def _find_jobs(self, pending: Sequence[_JobKey]) -> Iterator[Job | None]:
        """Yield the job of each queue and id, or None if it is in no place."""
        systems = self._engine.systems
        found: dict[_JobKey, Job | None] = {}
        direct = [(ref, id) for ref, id in pending if systems[ref.system].can_find_by_id]
        requests = [systems[ref.system].job_request(ref.queue, id, 0) for ref, id in direct]
        found.update(zip(direct, self._engine.send_requests(requests) if requests else (), strict=True))
        for ref in dict.fromkeys(ref for ref, _id in pending if not systems[ref.system].can_find_by_id):
            ids = {id for other, id in pending if other == ref}
            found.update({(ref, id): job for id, job in self._walk_to_jobs(ref, ids).items()})
        for job_key in pending:
            yield found.get(job_key)

    def _walk_to_jobs(self, ref: Ref, ids: set[bytes]) -> dict[bytes, Job]:
        """Find jobs by a walk over all places of a queue, in the order in which a job moves through them.

        Raises UsageError if the queue is too long for that.
        """
        system, found, walked = self._engine.systems[ref.system], dict[bytes, Job](), 0
        for place in sorted(system.places, key=lambda place: _FLOW.index(place.state)):
            if place.is_from_events:
                continue
            for page in self._engine.walk_pages(ref, place.name, CHUNK):
                found.update({job.id: job for job in page.jobs if job.id in ids})
                walked += len(page.jobs)
                if walked > _MAX_WALKED_JOBS:
                    raise UsageError(
                        f"{system.name} finds no job by its id, and {ref.queue} is too long to follow the first ones "
                        f"(the limit is {_MAX_WALKED_JOBS}). Use a speed and a number of failures instead."
                    )
        return found


def stores_failed_jobs(system: System) -> bool:
    """Return whether a system stores its failed jobs in Redis, so that a job which is in no place has succeeded."""
    return any(place.state is State.DEAD and place.has_failures and not place.is_from_events for place in system.places)


def check_canary(systems: Iterable[System], size: int) -> None:
    """Raise UsageError if the jobs of a system cannot be followed, or if `size` is not from 1 to 100."""
    if not 1 <= size <= MAX_JOBS:
        raise UsageError(f"a canary has 1 to {MAX_JOBS} jobs, not {size}.")
    for system in systems:
        if not (system.can_find_by_id or system.has_ids):
            raise UsageError(f"jobs of {system.name} have no ids, so that the first ones cannot be followed.")
