"""Queues whose jobs are lists in memory: an engine that reads them as it reads Redis, and writes down each read.

Requests have no script calls, so no server is needed. A test plants jobs by queue and place, and compares what a report
makes of them with a stored text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from rqtui.engine.engine import Engine
from rqtui.errors import ServerError
from rqtui.model import Count, Job, Page, Queue, Ref
from rqtui.system_base.system import Request, System
from rqtui.systems import registry

NOW_MS = 1_800_000_000_000
Jobs = Mapping[Ref, Mapping[str, Sequence[Job]]]  # by queue and place


def constant(value: Any) -> Request[Any]:
    """Return a request without calls whose result is a value, or which raises it if it is an error."""

    def parse(_replies: object) -> Any:
        if isinstance(value, Exception):
            raise value
        return value

    return Request((), parse)


class MemoryQueues:
    """An engine over planted jobs. `reads` has a line for each request for jobs, in the order of the requests.

    `results` has what systems reply to other requests: by `(request, queue)`, such as `("kinds", "mail")`. `shared` is
    the number of jobs of all queues in a place that they share, by queue and place.
    """

    def __init__(self, jobs: Jobs, results: Mapping[tuple[str, str], Any] | None = None, **attributes: Any) -> None:
        self.jobs, self.results, self.reads = jobs, results or {}, list[str]()
        self.causes: dict[Ref, Any] = {}
        systems = [self._build_system(name, attributes) for name in dict.fromkeys(ref.system for ref in jobs)]
        clock = SimpleNamespace(time=lambda: (NOW_MS // 1000, 0))
        self.engine = Engine(clock, systems)
        self.engine.refs = [*jobs]
        self.engine.store_complete_causes = (  # type: ignore[method-assign]
            lambda ref, dead, causes: self.causes.update({ref: (dead, [*map(tuple, causes)])})
        )

    def _build_system(self, name: str, attributes: Mapping[str, Any]) -> System:
        system: Any = registry.create_system(name)
        system.queue_request = lambda queue: constant(self._count(system, queue))
        system.page_request = lambda queue, place, offset, limit, body_bytes: constant(
            self._read_page(Ref(name, queue), place, offset, limit, body_bytes)
        )
        system.job_request = lambda queue, id, body_bytes: constant(self._find_job(Ref(name, queue), id, body_bytes))
        system.workers_request = lambda queue: constant(self.results.get(("workers", queue), ()))
        if any(request == "kinds" for request, _queue in self.results):
            system.kinds_request = lambda queue: constant(self.results.get(("kinds", queue), ()))
        for attribute, value in attributes.items():
            setattr(system, attribute, value)
        return system

    def _count(self, system: System, queue: str) -> Queue:
        places = self.jobs[Ref(system.name, queue)]
        counts = [
            Count(place.name, place.state, len(places.get(place.name, ())), has_failures=place.has_failures)
            for place in system.places
        ]
        return Queue(queue, system.name, tuple(counts), NOW_MS)

    def _read_page(self, ref: Ref, place: str, offset: int, limit: int, body_bytes: int) -> Page:
        self.reads.append(f"{place} of {ref.queue}: {limit} from {offset}{f', {body_bytes} bytes' * bool(body_bytes)}")
        jobs = self.jobs[ref].get(place, ())
        if isinstance(jobs, Exception):
            raise jobs
        end = min(len(jobs), offset + limit) if offset >= 0 else len(jobs) + offset + 1
        start = offset if offset >= 0 else max(0, end - limit)
        found = tuple(jobs[start:end])
        return Page(ref.queue, ref.system, place, found, len(jobs), offset=start, next=end if end < len(jobs) else None)

    def _find_job(self, ref: Ref, id: bytes, body_bytes: int) -> Job | None | Exception:
        self.reads.append(f"job {id.decode()} of {ref.queue}, {body_bytes} bytes")
        if (error := self.results.get(("job", id.decode()))) is not None:
            return error if isinstance(error, Exception) else replace(error, queue=ref.queue)
        return next((job for jobs in self.jobs[ref].values() for job in jobs if job.id == id), None)


REFUSED = ServerError("the server refuses it")
