"""Target: what a verb would act on now: a queue, jobs of one of its places, the whole place, or workers.

Every view tells its own (`View.target`); the services turn a key and a target into a verb, a question and a request.
"""

from __future__ import annotations

from dataclasses import dataclass

from rqtui.model import Job, Queue, Ref, State
from rqtui.verbs import SCREEN_WORKER


@dataclass(frozen=True, slots=True)
class Target:
    """What a verb acts on: jobs, or with `whole` everything in `place`, or the queue."""

    ref: Ref | None = None
    place: str = ""
    jobs: tuple[Job, ...] = ()
    whole: bool = False
    queue: Queue | None = None
    state: State | None = None  # of the place
    workers: tuple[str, ...] = ()  # for the verbs of workers
    holder: str = ""  # the worker whose jobs they are, where it was chosen and not they
    filter: str = ""  # the expression, where `jobs` are all that it was found to let through
    looked: int = 0  # of a long place: how many were looked at for that, where it was not looked through; 0: all were

    @property
    def is_held(self) -> bool:
        """Whether workers hold what it is about."""
        if self.state is State.RESERVED or self.filter:  # all that match stand in one place: they may be many
            return self.state is State.RESERVED
        return any(job.state is State.RESERVED for job in self.jobs)

    @property
    def others(self) -> tuple[str, ...]:
        """Who else than this screen holds these jobs; an empty name where the system does not tell."""
        held = (job.worker for job in self.jobs if job.state is State.RESERVED)
        return tuple(dict.fromkeys(worker for worker in held if worker != SCREEN_WORKER))
