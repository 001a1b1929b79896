"""Measure a thousand queues and places of a million jobs of the systems that people run most, and those systems' tools.

rqtui promises for each system: a refresh of all queues is one round trip, no call keeps the server for more than 5 ms,
and nothing in a refresh grows with the number of jobs. Each `MeasuredSystem` says how its keys are planted and which
tool counts them.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rqtui.engine.engine import Engine
from rqtui.model import Ref
from rqtui.system_base.system import System
from rqtui.systems import registry

from . import worlds
from .calls import TIMES, measure_reads
from .line import Bench, Line
from .stock_tools import BULLMQ, CELERY, RQ, SIDEKIQ, Tool, measure_tool
from .worlds import Commands, send_in_pipelines

LONG = "long"  # the queue with a million jobs
WAITING = 5  # jobs in each of the others
_FILTERED = 200  # jobs that a filter reads at a time


@dataclass(frozen=True, slots=True)
class MeasuredSystem:
    """A queue system to measure: `queues(n)` plants `n` queues, `long(n)` one queue with `n` jobs in each place."""

    title: str
    name: str
    queues: Callable[[int], Commands]
    long: Callable[[int], Commands]
    tool: Tool
    has_plain_ids: bool  # of `long`: the rank in its place


def measure_rq(on: Bench) -> Iterator[Line]:
    """Measure a refresh over a thousand RQ queues, and reads of one that is long in every place."""
    return _measure_lines(on, MeasuredSystem("RQ", "rq", worlds.build_rq_queues, worlds.build_rq_long, RQ, True))


def measure_sidekiq(on: Bench) -> Iterator[Line]:
    """Measure a refresh over a thousand Sidekiq queues that share long places, and reads of one of them."""
    return _measure_lines(
        on, MeasuredSystem("Sidekiq", "sidekiq", worlds.build_sidekiq_queues, worlds.build_sidekiq_long, SIDEKIQ, False)
    )


def measure_bullmq(on: Bench) -> Iterator[Line]:
    """Measure a refresh over a thousand BullMQ queues, and reads of one that is long in every place."""
    return _measure_lines(
        on, MeasuredSystem("BullMQ", "bullmq", worlds.build_bullmq_queues, worlds.build_bullmq_long, BULLMQ, True)
    )


def measure_celery(on: Bench) -> Iterator[Line]:
    """Measure a refresh over a thousand Celery queues that share the held messages, and reads of one of them."""
    return _measure_lines(
        on, MeasuredSystem("Celery", "celery", worlds.build_celery_queues, worlds.build_celery_long, CELERY, False)
    )


def _measure_lines(on: Bench, system: MeasuredSystem) -> Iterator[Line]:
    queues, jobs = on.size(1_000, 30), on.size(1_000_000, 2_000)
    send_in_pipelines(on.client, system.queues(queues))
    yield from measure_tool(on, system.tool, queues, queues * WAITING)
    engine = Engine(on.client, [registry.create_system(system.name)])
    for _found in engine.discover():
        pass
    yield _measure_tick(on, f"{system.title}: a tick of rqtui over {len(engine.refs)} queues", engine)
    send_in_pipelines(on.client, system.long(jobs))
    for _found in engine.discover():
        pass
    yield _measure_tick(on, f"{system.title}: a tick with {jobs} jobs in each place of one more", engine)
    yield from measure_reads(on, ("  its longest call", engine.take_snapshot))
    yield from measure_reads(on, *_build_reads(system, engine, jobs))


def _measure_tick(on: Bench, name: str, engine: Engine) -> Line:
    """Measure a snapshot of all queues: its median time in milliseconds and its number of round trips."""
    engine.take_snapshot()
    took, trips = [], 0
    for _ in range(on.size(TIMES, 3)):
        began = time.perf_counter()
        trips = max(trips, engine.take_snapshot().cost.round_trips)
        took.append(1000 * (time.perf_counter() - began))
    note = f"{min(took):.0f} … {max(took):.0f}; {trips} round trip{'s' if trips > 1 else ''}"
    return Line(name, statistics.median(took), "ms", note=note)


def _build_reads(measured: MeasuredSystem, engine: Engine, jobs: int) -> Iterator[tuple[str, Callable[[], object]]]:
    """Return the operations that read the long queue, such as a page or a job, by name."""
    ref, system = Ref(measured.name, LONG), engine.systems[measured.name]
    yield (
        f"{measured.title}: counting {jobs} jobs in each place, longest call",
        lambda: engine.send_request(system.queue_request(ref.queue)),
    )
    stored = [place for place in system.places if not place.is_from_events]
    shared, alone = ([place.name for place in stored if place.is_shared is wanted] for wanted in (True, False))
    middle = jobs // 2  # of places that queues share, the first page is all there is
    yield (
        "  a page of each place",
        lambda: [
            *(engine.fetch_page(ref, place) for place in shared),
            *(engine.fetch_page(ref, place, middle) for place in alone),
        ],
    )
    yield (
        f"  {_FILTERED} jobs of each place, as a filter reads them",
        lambda: [
            *(engine.fetch_scan_page(ref, place, middle, _FILTERED) for place in shared),
            *(engine.fetch_page(ref, place, middle, _FILTERED) for place in alone),
        ],
    )
    yield "  a job by an unknown id", lambda: engine.fetch_job(ref, b"nowhere")
    if measured.has_plain_ids:
        yield "  a job in the middle of the queue, by its id", lambda: engine.fetch_job(ref, b"%d" % (jobs // 2))
    yield from _build_report_reads(engine, system, ref.queue)


def _build_report_reads(engine: Engine, system: System, queue: str) -> Iterator[tuple[str, Callable[[], object]]]:
    faults = system.probe_request(queue)
    roster = system.workers_request(queue)
    if faults is not None:
        yield "  its faults", lambda: engine.send_request(faults)
    yield "  its workers", lambda: engine.send_request(roster)


MEASURES = (measure_rq, measure_sidekiq, measure_bullmq, measure_celery)
