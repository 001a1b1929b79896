"""Find when a job entered its place, and when its last run ended."""

from __future__ import annotations

from rqtui.model import Job, State


def find_end_ms(job: Job) -> int | None:
    """Return when the last run of a done or dead job ended, in ms since 1970, or None if that is unknown."""
    if job.ended_ms is not None:
        return job.ended_ms
    is_known = job.state is State.DEAD or (job.state is State.DONE and job.reserved_ms is not None)
    return job.since_ms if is_known else None


def find_start_ms(job: Job) -> int | None:
    """Return since when a job is in its place, else when it was enqueued, in ms since 1970; None if both are unknown.

    For a done job `since_ms` may be a time in the future, so its end counts.
    """
    if job.state is State.RESERVED and job.reserved_ms is not None:
        return job.reserved_ms
    if job.state is State.DONE:
        return find_end_ms(job) or job.enqueued_ms
    return job.since_ms if job.since_ms is not None and job.state is not State.SCHEDULED else job.enqueued_ms
