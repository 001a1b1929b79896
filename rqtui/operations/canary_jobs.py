"""Record what is known about the first jobs of a change: the steps of each since it was sent, and how it ended.

`operations/canary` builds a record for each first job, and passes what each poll found of it. The times are those that
the queue system stores. Where it stores none, the time of the poll that found the job in a state is used, and the step
says so. A step that no poll found, and that the system does not store, is not in the record.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from rqtui.engine.job_times import find_end_ms
from rqtui.model import Job, Ref, State
from rqtui.text.formats import format_duration
from rqtui.text.tracebacks import parse_traceback, summarize_error

_MAX_AHEAD_MS = 1000  # of a stored time; more means that the clock of a worker differs, so that the time says nothing


class End(StrEnum):
    """How a first job ended."""

    DONE = "done"
    FAILED = "failed"
    UNKNOWN = "unknown"  # the job is in no place, and its system does not store failed jobs


class Step(NamedTuple):
    """A state in which a first job was since it was sent: ready or reserved.

    `is_seen` is true if `at_ms` is the time of the poll that found the job in this state, so that it may have entered
    the state earlier.
    """

    state: State
    at_ms: int  # ms since 1970, by the server's clock
    is_seen: bool = False
    worker: str = ""


@dataclass(frozen=True, slots=True)
class FirstJob:
    """The record of one of the jobs that are tried first: its steps so far, and how it ended.

    `job` is the job as the last poll found it.
    """

    ref: Ref
    job: Job
    sent_ms: int  # ms since 1970, by the server's clock
    is_moved: bool = True  # False: the verb did not move it, for the reason `error`
    steps: tuple[Step, ...] = ()
    end: End | None = None  # None: the job has not ended
    ended_ms: int | None = None
    is_end_seen: bool = False  # True: `ended_ms` is the time of the poll that found the end
    error: str = ""
    missing_ms: int | None = None  # the time of the last poll, if it found the job in no place

    @property
    def taken_ms(self) -> int | None:
        """When a worker took the job first, in ms since 1970, or None if that is unknown or has not happened."""
        return next((step.at_ms for step in self.steps if step.state is State.RESERVED), None)

    @property
    def is_running(self) -> bool:
        """Whether a worker held the job at the last poll."""
        return self.end is None and bool(self.steps) and self.steps[-1].state is State.RESERVED

    @property
    def failed_at(self) -> str:
        """File and line of the code that raised the error, such as `charge.py:88`; empty if the error names none."""
        frame = parse_traceback(self.error).frame if self.error else None
        return frame.short if frame is not None else ""

    def describe_end(self) -> str:
        """Describe how the job ended: `done after 1.6s`, `failed after 1.2s at charge.py:88: CardDeclined: no`.

        A time that is only known from a poll is `seen after 1.6s`. The text may contain secrets of the error. Empty if
        the job has not ended.
        """
        summary = summarize_error(self.error)
        if not self.is_moved:
            return f"not changed: {summary}"
        if self.end is None or self.ended_ms is None:
            return ""
        after = f"{', seen' if self.is_end_seen else ''} after {format_duration(self.ended_ms - self.sent_ms)}"
        if self.end is End.UNKNOWN:
            return f"ended{after}; how is not stored"
        place = f" at {self.failed_at}" if self.failed_at else ""
        return f"{self.end}{after}{place}{f': {summary}' if summary else ''}"


def record_poll(record: FirstJob, found: Job | None, now_ms: int, *, stores_failed_jobs: bool) -> FirstJob:
    """Return the record of a first job with what a poll at `now_ms` found of it; None: the job is in no place.

    A job that two polls in a row find in no place has ended. The first of them may have read the place that the job
    entered before it left the other one.
    """
    if found is None:
        if record.missing_ms is None:
            return replace(record, missing_ms=now_ms)
        end = End.DONE if stores_failed_jobs else End.UNKNOWN
        return replace(record, end=end, ended_ms=record.missing_ms, is_end_seen=True)
    record = replace(record, job=found, missing_ms=None)
    if found.state is State.READY:
        return _add_ready_step(record, found, now_ms)
    if found.state is State.RESERVED:
        return _add_run(record, found.reserved_ms, found.worker, now_ms)
    return _record_end(record, found, now_ms)


def _add_ready_step(record: FirstJob, found: Job, now_ms: int) -> FirstJob:
    if not record.steps:
        return replace(record, steps=(Step(State.READY, record.sent_ms),))  # The verb itself made the job ready.
    if record.steps[-1].state is State.READY:
        return record
    at_ms = _check_stored_time(found.since_ms, record.steps[-1].at_ms, now_ms)
    return replace(record, steps=(*record.steps, Step(State.READY, now_ms if at_ms is None else at_ms, at_ms is None)))


def _add_run(record: FirstJob, stored_ms: int | None, worker: str, now_ms: int) -> FirstJob:
    """Return the record with the run of a job that a worker holds."""
    steps = record.steps or (Step(State.READY, record.sent_ms),)
    if steps[-1].state is State.RESERVED:
        return record
    at_ms = _check_stored_time(stored_ms, steps[-1].at_ms, now_ms)
    step = Step(State.RESERVED, now_ms if at_ms is None else at_ms, at_ms is None, worker)
    return replace(record, steps=(*steps, step))


def _record_end(record: FirstJob, found: Job, now_ms: int) -> FirstJob:
    """Return the record of a job that was found done, dead, or scheduled for another attempt."""
    attempt = found.history[-1] if found.history and found.state is not State.DONE else None
    start_ms = attempt.start_ms if attempt else found.reserved_ms
    worker = (attempt.worker if attempt else "") or found.worker
    if _check_stored_time(start_ms, record.sent_ms, now_ms) is not None:
        record = _add_run(record, start_ms, worker, now_ms)
    begun_ms = record.steps[-1].at_ms if record.steps else record.sent_ms
    end_ms = _check_stored_time((attempt.end_ms if attempt else None) or find_end_ms(found), begun_ms, now_ms)
    return replace(
        record,
        end=End.DONE if found.state is State.DONE else End.FAILED,
        ended_ms=now_ms if end_ms is None else end_ms,
        is_end_seen=end_ms is None,
        error="" if found.state is State.DONE else found.error,
    )


def _check_stored_time(stored_ms: int | None, earliest_ms: int, now_ms: int) -> int | None:
    """Return a stored time of a step, or None if the system stores none, or if it cannot be the time of this step."""
    return stored_ms if stored_ms and earliest_ms <= stored_ms <= now_ms + _MAX_AHEAD_MS else None
