"""The loops as Redis shows them: how late each loop is, and which jobs it takes next.

Nobody tells Redis what a loop did; what it will do stands there: due times and ends of leases. `heads` says where to
look, `coming` reads what was found.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rqtui.connection.connect import translated
from rqtui.errors import RqtuiError
from rqtui.model import Focus, Job, PageWish, Queue, Ref, Snapshot, State

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine
    from rqtui.layout.layout import Layout

LOOPS = {"dispatch": "dispatcher", "reap": "reaper"}
TAKES = {"dispatch": State.SCHEDULED, "reap": State.RESERVED}
NEAREST = 20  # queues whose heads a report looks at, for each loop


class Coming(NamedTuple):
    """A job that a loop takes, in `in_ms` from now (negative: it is late)."""

    in_ms: int
    verb: str
    ref: Ref
    job: Job


class Standing(NamedTuple):
    """One loop: how many jobs are late for it, and in how many ms comes the next (negative: late; None: none waits).

    `elsewhere` counts the connections of screens that run it; None where the server does not tell.
    """

    verb: str
    late: int
    next_ms: int | None
    elsewhere: int | None


class Report(NamedTuple):
    """The loops over some queues, and the first of the jobs that they take next."""

    taken_ms: int
    loops: tuple[Standing, ...]
    coming: tuple[Coming, ...]


def report(engine: Engine, refs: Sequence[Ref], most: int) -> Report:
    """Both loops over these queues, and at most so many jobs; three round trips. Raises ServerError."""
    counted = engine.snapshot(Focus(queues=tuple(refs)))
    queues = {Ref(queue.layout, queue.name): queue for queue in counted.queues}
    wishes = [PageWish(*head, 0, most) for verb in LOOPS for head in heads(verb, queues, engine.layouts, NEAREST)]
    looked = engine.snapshot(Focus(queues=(), pages=tuple(dict.fromkeys(wishes))))
    named = connections(engine)
    loops = tuple(
        Standing(
            verb,
            late(verb, queues.values(), engine.layouts),
            min(
                (ms for queue in queues.values() if (ms := next_ms(verb, queue, engine.layouts)) is not None),
                default=None,
            ),
            None if named is None else named.get(verb, 0),
        )
        for verb in LOOPS
    )
    found = sorted(coming(looked, engine.layouts), key=lambda each: each.in_ms)
    return Report(looked.taken_ms, loops, tuple(found[:most]))


def late(verb: str, queues: Iterable[Queue], layouts: Mapping[str, Layout]) -> int:
    """Jobs that are due, or whose leases are over, where the loop has something to do with them."""
    waiting = (queue for queue in queues if layouts[queue.layout].can(verb))
    return sum(queue.overdue if verb == "dispatch" else queue.expired for queue in waiting)


def next_ms(verb: str, queue: Queue, layouts: Mapping[str, Layout]) -> int | None:
    """When the loop has something to do in a queue, from now; negative: it is late. None: nothing, or never."""
    if not layouts[queue.layout].can(verb):
        return None
    return queue.next_due_ms if verb == "dispatch" else queue.next_expiry_ms


def heads(
    verb: str, queues: Mapping[Ref, Queue], layouts: Mapping[str, Layout], most: int, first: Sequence[Ref] = ()
) -> Iterator[tuple[Ref, str]]:
    """The places with the next jobs for a loop: those of the nearest queues, and before them those of `first`."""
    soon = {ref: next_ms(verb, queue, layouts) for ref, queue in queues.items()}
    near = sorted((ms, str(ref), ref) for ref, ms in soon.items() if ms is not None)
    waiting = [ref for ref in first if soon.get(ref) is not None]
    for ref in dict.fromkeys([*waiting, *(ref for _ms, _name, ref in near[:most])]):
        yield from ((ref, place.name) for place in layouts[ref.layout].places if place.state is TAKES[verb])


def coming(snapshot: Snapshot, layouts: Mapping[str, Layout]) -> Iterator[Coming]:
    """The jobs at the heads that were looked at, each with its time; none of a page that another view asked for."""
    for page in snapshot.pages:
        for job in page.jobs:
            verb = "reap" if job.state is State.RESERVED else "dispatch"
            at_ms = job.deadline_ms if verb == "reap" else job.due_ms
            if at_ms is not None and layouts[page.layout].can(verb):
                yield Coming(at_ms - snapshot.taken_ms, verb, Ref(page.layout, page.queue), job)


def becomes(verb: str, job: Job, layout: Layout) -> str:
    """Where a job goes when the loop takes it, of several places `queued or scheduled`; empty: it leaves the queue."""
    return " or ".join(layout.goals(verb, job))


def connections(engine: Engine) -> dict[str, int] | None:
    """How many connections have the name of each loop; None where the server does not tell."""
    try:
        with translated():
            named = [str(client.get("name", "")) for client in engine.client.client_list()]
    except RqtuiError:
        return None
    return {verb: named.count(f"rqtui-{name}") for verb, name in LOOPS.items()}
