"""A thousand queues and places of a million jobs, of the systems that people run most, beside those systems' own tools.

What is promised of each: a tick over all queues is one round trip, no call keeps the server for more than 5 ms, and
nothing on a tick grows with the number of jobs. Each `System` says how its keys are planted and which tool counts them.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rqtui.engine.engine import Engine
from rqtui.layout.layout import Layout
from rqtui.model import Ref
from rqtui.systems import registry

from . import worlds
from .calls import TIMES, looks
from .line import Bench, Line
from .stock_tools import BULLMQ, CELERY, RQ, SIDEKIQ, Tool, counted
from .worlds import Commands, piped

LONG = "long"  # the queue with a million jobs
WAITING = 5  # jobs in each of the others
_FILTERED = 200  # jobs that a filter reads at a time


@dataclass(frozen=True, slots=True)
class System:
    """One of the systems: `queues(n)` plants so many, `long(n)` another with so many jobs in each place."""

    title: str
    name: str
    queues: Callable[[int], Commands]
    long: Callable[[int], Commands]
    tool: Tool
    has_plain_ids: bool  # of `long`: the rank in its place


def rq(on: Bench) -> Iterator[Line]:
    """RQ: a tick over a thousand queues, and looks at one that is long in every place"""
    return _lines(on, System("RQ", "rq", worlds.rq_queues, worlds.rq_long, RQ, True))


def sidekiq(on: Bench) -> Iterator[Line]:
    """Sidekiq: a tick over a thousand queues that share long places, and looks at one of them"""
    return _lines(on, System("Sidekiq", "sidekiq", worlds.sidekiq_queues, worlds.sidekiq_long, SIDEKIQ, False))


def bullmq(on: Bench) -> Iterator[Line]:
    """BullMQ: a tick over a thousand queues, and looks at one that is long in every place"""
    return _lines(on, System("BullMQ", "bullmq", worlds.bullmq_queues, worlds.bullmq_long, BULLMQ, True))


def celery(on: Bench) -> Iterator[Line]:
    """Celery: a tick over a thousand queues that share what workers hold, and looks at one of them"""
    return _lines(on, System("Celery", "celery", worlds.celery_queues, worlds.celery_long, CELERY, False))


def _lines(on: Bench, system: System) -> Iterator[Line]:
    queues, jobs = on.size(1_000, 30), on.size(1_000_000, 2_000)
    piped(on.client, system.queues(queues))
    yield from counted(on, system.tool, queues, queues * WAITING)
    engine = Engine(on.client, [registry.make(system.name)])
    for _found in engine.discover():
        pass
    yield _tick(on, f"{system.title}: a tick of rqtui over {len(engine.refs)} queues", engine)
    piped(on.client, system.long(jobs))
    for _found in engine.discover():
        pass
    yield _tick(on, f"{system.title}: a tick with {jobs} jobs in each place of one more", engine)
    yield from looks(on, ("  its longest call", engine.snapshot))
    yield from looks(on, *_of_one(system, engine, jobs))


def _tick(on: Bench, name: str, engine: Engine) -> Line:
    """Milliseconds of a picture of all queues: the median of many, and how many round trips it is."""
    engine.snapshot()
    took, trips = [], 0
    for _ in range(on.size(TIMES, 3)):
        began = time.perf_counter()
        trips = max(trips, engine.snapshot().cost.trips)
        took.append(1000 * (time.perf_counter() - began))
    note = f"{min(took):.0f} … {max(took):.0f}; {trips} round trip{'s' if trips > 1 else ''}"
    return Line(name, statistics.median(took), "ms", note=note)


def _of_one(system: System, engine: Engine, jobs: int) -> Iterator[tuple[str, Callable[[], object]]]:
    """The looks at the long queue, each with its name."""
    ref, layout = Ref(system.name, LONG), engine.layouts[system.name]
    yield (
        f"{system.title}: counting {jobs} jobs in each place, longest call",
        lambda: engine.ask(layout.queue_ask(ref.queue)),
    )
    kept = [place for place in layout.places if not place.is_heard]
    shared, alone = ([place.name for place in kept if place.is_shared is wanted] for wanted in (True, False))
    middle = jobs // 2  # of places that queues share, the first page is all there is
    yield (
        "  a page of each place",
        lambda: [
            *(engine.page(ref, place) for place in shared),
            *(engine.page(ref, place, middle) for place in alone),
        ],
    )
    yield (
        f"  {_FILTERED} jobs of each place, as a filter reads them",
        lambda: [
            *(engine.step(ref, place, middle, _FILTERED) for place in shared),
            *(engine.page(ref, place, middle, _FILTERED) for place in alone),
        ],
    )
    yield "  a job by an id that nobody has seen", lambda: engine.job(ref, b"nowhere")
    if system.has_plain_ids:
        yield "  a job in the middle of the queue, by its id", lambda: engine.job(ref, b"%d" % (jobs // 2))
    yield from _reports(engine, layout, ref.queue)


def _reports(engine: Engine, layout: Layout, queue: str) -> Iterator[tuple[str, Callable[[], object]]]:
    faults = layout.inspect_ask(queue)
    roster = layout.workers_ask(queue)
    if faults is not None:
        yield "  its faults", lambda: engine.ask(faults)
    yield "  its workers", lambda: engine.ask(roster)


MEASURES = (rq, sidekiq, bullmq, celery)
