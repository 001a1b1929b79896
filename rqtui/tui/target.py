"""Define the target of a verb: a queue, jobs of one of its places, a whole place, or workers.

Every view builds its own target (`View.build_target`). The services turn a key and a target into a verb, a confirmation
and a request.
"""

from __future__ import annotations

from dataclasses import dataclass

from rqtui.model import Job, Queue, Ref, State
from rqtui.verbs import SCREEN_WORKER


@dataclass(frozen=True, slots=True)
class Target:
    """What a verb would act on: some jobs, or with `is_whole_place` all jobs in `place`, or the queue itself."""

    ref: Ref | None = None
    place: str = ""
    jobs: tuple[Job, ...] = ()
    is_whole_place: bool = False
    queue: Queue | None = None
    state: State | None = None  # state of `place`
    workers: tuple[str, ...] = ()  # names, for verbs on workers
    holder: str = ""  # the worker that holds `jobs`, if the person chose the worker instead of the jobs
    filter: str = ""  # the filter expression, if `jobs` are all its matches
    scanned_jobs: int = 0  # jobs scanned for `filter` in a place too long to scan fully; 0: all

    @property
    def is_held(self) -> bool:
        """Whether workers hold the jobs of the target."""
        if self.state is State.RESERVED or self.filter:  # All matches are in one place and may be many.
            return self.state is State.RESERVED
        return any(job.state is State.RESERVED for job in self.jobs)

    @property
    def other_holders(self) -> tuple[str, ...]:
        """The workers that hold the target's jobs, except this screen; the name is empty if the system stores none."""
        holders = (job.worker for job in self.jobs if job.state is State.RESERVED)
        return tuple(dict.fromkeys(worker for worker in holders if worker != SCREEN_WORKER))
