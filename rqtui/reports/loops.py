"""Report how late the dispatcher and the reaper (the two loops) are, and which jobs they take next.

Redis does not record what these loops did, but due times and lease deadlines show what they will do. `select_places`
selects the places to read, `yield_upcoming_jobs` reads the pages. Called by the loops view and `rqtui loops`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rqtui.connection.connect import translate_redis_errors
from rqtui.errors import RqtuiError
from rqtui.model import Focus, Job, PageSelection, Queue, Ref, Snapshot, State

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine
    from rqtui.system_base.system import System

LOOPS = {"dispatch": "dispatcher", "reap": "reaper"}
TAKES = {"dispatch": State.SCHEDULED, "reap": State.RESERVED}
MAX_QUEUES = 20  # queues whose next jobs a report reads, per loop


class UpcomingJob(NamedTuple):
    """A job that a dispatcher or reaper will take `in_ms` from now; a negative value means that it is late."""

    in_ms: int
    verb: str
    ref: Ref
    job: Job


class LoopState(NamedTuple):
    """The state of a dispatcher or a reaper: the number of overdue jobs and the ms until the next job.

    `next_ms` is negative if the loop is late, None if no job waits. `elsewhere` counts the connections of other
    programs that run the loop; None if the server does not list them.
    """

    verb: str
    late: int
    next_ms: int | None
    elsewhere: int | None


class Report(NamedTuple):
    """The state of the dispatcher and the reaper over some queues, and the first jobs that they take next."""

    taken_ms: int
    loops: tuple[LoopState, ...]
    coming: tuple[UpcomingJob, ...]


def build_loop_report(engine: Engine, refs: Sequence[Ref], most: int) -> Report:
    """Build the report on the dispatcher and the reaper over these queues, with the next `most` jobs.

    Takes three round trips. Raises ServerError.
    """
    counted = engine.take_snapshot(Focus(queues=tuple(refs)))
    queues = {Ref(queue.system, queue.name): queue for queue in counted.queues}
    wishes = [
        PageSelection(*head, 0, most)
        for verb in LOOPS
        for head in select_places(verb, queues, engine.systems, MAX_QUEUES)
    ]
    looked = engine.take_snapshot(Focus(queues=(), pages=tuple(dict.fromkeys(wishes))))
    named = count_loop_connections(engine)
    loops = tuple(
        LoopState(
            verb,
            count_late_jobs(verb, queues.values(), engine.systems),
            min(
                (
                    ms
                    for queue in queues.values()
                    if (ms := compute_ms_until_work(verb, queue, engine.systems)) is not None
                ),
                default=None,
            ),
            None if named is None else named.get(verb, 0),
        )
        for verb in LOOPS
    )
    found = sorted(yield_upcoming_jobs(looked, engine.systems), key=lambda each: each.in_ms)
    return Report(looked.taken_ms, loops, tuple(found[:most]))


def count_late_jobs(verb: str, queues: Iterable[Queue], systems: Mapping[str, System]) -> int:
    """Count the late jobs of a loop: due jobs for the dispatcher, expired leases for the reaper (`verb`).

    Systems without such a loop are left out.
    """
    waiting = (queue for queue in queues if systems[queue.system].can(verb))
    return sum(queue.overdue if verb == "dispatch" else queue.expired for queue in waiting)


def compute_ms_until_work(verb: str, queue: Queue, systems: Mapping[str, System]) -> int | None:
    """Return the ms until the dispatcher or the reaper (`verb`) has work in a queue; negative if it is late.

    None if there is no work.
    """
    if not systems[queue.system].can(verb):
        return None
    return queue.next_due_ms if verb == "dispatch" else queue.next_expiry_ms


def select_places(
    verb: str, queues: Mapping[Ref, Queue], systems: Mapping[str, System], most: int, first: Sequence[Ref] = ()
) -> Iterator[tuple[Ref, str]]:
    """Yield the places with the next jobs of the dispatcher or the reaper (`verb`).

    The queues in `first` come first, then those with the earliest work. A queue whose system counts its late jobs
    without their times, such as Sidekiq, is as urgent as one with a job that is late now.
    """
    soon = {ref: compute_ms_until_work(verb, queue, systems) for ref, queue in queues.items()}
    soon |= {ref: 0 for ref, ms in soon.items() if ms is None and count_late_jobs(verb, [queues[ref]], systems)}
    near = sorted((ms, str(ref), ref) for ref, ms in soon.items() if ms is not None)
    waiting = [ref for ref in first if soon.get(ref) is not None]
    for ref in dict.fromkeys([*waiting, *(ref for _ms, _name, ref in near[:most])]):
        yield from ((ref, place.name) for place in systems[ref.system].places if place.state is TAKES[verb])


def yield_upcoming_jobs(snapshot: Snapshot, systems: Mapping[str, System]) -> Iterator[UpcomingJob]:
    """Yield the jobs in the pages of a snapshot that the dispatcher or the reaper takes next, without undated jobs."""
    for page in snapshot.pages:
        for job in page.jobs:
            verb = "reap" if job.state is State.RESERVED else "dispatch"
            at_ms = job.deadline_ms if verb == "reap" else job.due_ms
            if at_ms is not None and systems[page.system].can(verb):
                yield UpcomingJob(at_ms - snapshot.taken_ms, verb, Ref(page.system, page.queue), job)


def format_target_places(verb: str, job: Job, system: System) -> str:
    """Format the places to which a dispatcher or reaper moves a job: `queued or scheduled`.

    Empty if the job leaves the queue.
    """
    return " or ".join(system.find_target_places(verb, job))


def count_loop_connections(engine: Engine) -> dict[str, int] | None:
    """Count the client connections that run a dispatcher or a reaper, by verb.

    None if the server does not list its clients.
    """
    try:
        with translate_redis_errors():
            named = [str(client.get("name", "")) for client in engine.client.client_list()]
    except RqtuiError:
        return None
    return {verb: named.count(f"rqtui-{name}") for verb, name in LOOPS.items()}
