"""Provide the base class of systems that keep each ended job as a key of its own, which no key lists.

Such a place is declared with `Place(…, is_key_per_job=True)`. Its jobs are found by SCAN in bounded steps: the script
`record_walk` takes one step and returns the records that it found; Python reads from a record's bytes in which place
and queue its job is (`decode_record`). `system_base/record_sample.py` caches the jobs and estimates their number. All
queues of the system share one walk.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from rqtui.errors import ServerError
from rqtui.model import Count, Job, Page, Place, Queue, State
from rqtui.scripts.script import Call, Reply
from rqtui.system_base.foreign_system import ForeignSystem, convert_rows_to_dicts
from rqtui.system_base.record_sample import FoundRecord, RecordRequest, RecordSample
from rqtui.system_base.system import Replies, Request

_SPARE = 50  # records that a page requests in addition to those shown, to replace records that were deleted
_SHARED_STEP_S = 1.0  # queues that are counted within this time share one step of the walk


@dataclass(slots=True)
class _Flow:
    """How many jobs entered and left a queue since rqtui counts it, and what the previous count was."""

    unfinished: int
    done: int
    failed: int
    entered: int = 0
    completed: int = 0
    died: int = 0
    departed: int = 0  # jobs that left the queue and whose record was not found yet

    def advance(self, unfinished: int, done: int, failed: int, is_whole: bool) -> None:
        """Add what happened since the previous count: unfinished jobs now, and all ended ones that the walk has found.

        A walk that takes many steps meets the record of a job long after the job left the queue. Until then the job
        counts as completed.
        """
        growth, new_done, new_failed = unfinished - self.unfinished, done - self.done, failed - self.failed
        new_ends = new_done + new_failed
        if is_whole:
            self.departed, counted_before = 0, 0
        else:
            self.departed += max(0, -growth)
            counted_before = min(self.departed, new_ends)
            self.departed -= counted_before
            self.completed += max(0, -growth)
        self.completed += min(new_done, new_ends - counted_before)
        self.died += new_failed
        self.entered += max(0, growth + new_ends - counted_before)
        self.unfinished, self.done, self.failed = unfinished, done, failed


class RecordSystem(ForeignSystem):
    """A queue system with places whose jobs are keys of their own (`Place.is_key_per_job`).

    The script `record_walk` has the arguments `cursor`, `keys` and `read_bytes` and the rows `(id, is_wanted)`. It
    returns `now_ms`, `cursor`, `passed` and `keys`, and the rows `(id, left_ms, size, record, tail)`; a record whose
    bytes are not returned has an empty `record`.
    """

    derived_counters = frozenset({"in", "out", "failed", "dead"})  # of what one rqtui saw, so they begin at 0 each time

    def __init__(self, *options: Mapping[str, str], is_asked: bool = True) -> None:
        super().__init__(*options, is_asked=is_asked)
        self.record_sample = RecordSample()
        self._flows: dict[str, _Flow] = {}  # by queue
        self._step_requested_s = 0.0  # when a step was requested that has no reply yet; 0: there is none

    def decode_record(self, row: Mapping[str, Any], now_ms: int) -> Job:
        """Build the job of a record from its bytes, with its place and its queue.

        `row` has the columns of `record_walk`. If a part of the record is unreadable, `problem` says so.
        """
        raise NotImplementedError

    def _find_record_place(self, name: str) -> Place | None:
        place = self.place(name)
        return place if place.is_key_per_job else None

    # -- counts ---------------------------------------------------------------------------------------------------

    def queue_request(self, queue: str) -> Request[Queue]:
        """Build the request that counts a queue; a step of the walk over all keys follows the script `counts`."""
        counts = super().queue_request(queue)
        if self.record_sample.complete_walks and time.monotonic() - self._step_requested_s < _SHARED_STEP_S:
            return counts  # The request of another queue takes this step.
        call, request = self._build_step()
        self._step_requested_s = time.monotonic()

        def parse_queue(replies: Replies) -> Queue:
            self._step_requested_s = 0.0
            problem = self._apply_step(request, replies[-1])
            counted = counts.parse(replies[:-1])
            return counted._replace(error=counted.error or problem)

        return Request((*counts.calls, call), parse_queue)

    def _parse_queue(self, queue: str, reply: Reply | Exception) -> Queue:
        """Parse the counts of a queue, and add counters of the runs whose records were found by the walk.

        The growth of an estimated number of records is no number of runs.
        """
        counted = super()._parse_queue(queue, reply)
        if counted.error or not counted.counts:
            return counted
        ends = self.record_sample.ends
        done, failed = (
            sum(ends[queue, place.name] for place in self.places if place.is_key_per_job and place.state is state)
            for state in (State.DONE, State.DEAD)
        )
        unfinished = sum(count.count for count in counted.counts if count.state not in (State.DONE, State.DEAD))
        flow = self._flows.get(queue)
        if flow is None:
            flow = self._flows[queue] = _Flow(unfinished, done, failed)
        else:
            flow.advance(unfinished, done, failed, self.record_sample.is_whole)
        counters = {"in": flow.entered, "out": flow.completed, "failed": flow.died, "dead": flow.died}
        return counted._replace(counters={**counted.counters, **counters})

    def _build_record_count(self, queue: str, place: Place) -> Count:
        counted = self.record_sample.count(queue, place.name)
        return Count(place.name, place.state, counted.number, counted.is_exact, None, place.has_failures)

    def _build_step(self, wanted_ids: tuple[bytes, ...] = ()) -> tuple[Call, RecordRequest]:
        request = self.record_sample.plan_step(wanted_ids)
        return self._build_step_call(request), request

    def _build_step_call(self, request: RecordRequest) -> Call:
        rows = [{"id": id, "is_wanted": True} for id in request.wanted_ids]
        rows += [{"id": id, "is_wanted": False} for id in request.known_ids]
        args = {"cursor": request.cursor, "keys": request.keys, "read_bytes": request.read_bytes}
        script = self.scripts["record_walk"]
        return script.build_call({}, args, rows)

    def _apply_step(self, request: RecordRequest, reply: Reply | Exception) -> str:
        """Update the sample from the reply to a step. Return an error message, empty without an error."""
        if isinstance(reply, ServerError):
            return str(reply)
        if isinstance(reply, Exception):
            raise reply
        values: Mapping[str, Any] = reply.values
        now_ms = values["now_ms"]
        self.set_server_time(now_ms)
        found = [
            FoundRecord(
                row["id"],
                None if row["left_ms"] < 0 else now_ms + row["left_ms"],
                row["size"],
                self.decode_record(row, now_ms) if row["record"] else None,
            )
            for row in convert_rows_to_dicts(reply)
        ]
        self.record_sample.apply_step(request, found, values["cursor"], values["passed"], values["keys"], now_ms)
        return ""

    # -- pages ----------------------------------------------------------------------------------------------------

    def page_request(self, queue: str, place: str, offset: int, limit: int, body_bytes: int) -> Request[Page]:
        """Build the request for a page of a place; a place of records shows the sample, jobs that ended last first.

        The records of the page are read again. The first page also takes a step of the walk over all keys.
        """
        record_place = self._find_record_place(place)
        if record_place is None:
            return super().page_request(queue, place, offset, limit, body_bytes)
        name = record_place.name
        jobs = self.record_sample.list_jobs(queue, name)
        start = _find_start(len(jobs), offset, limit)
        wanted_ids = tuple(job.id for job in jobs[start : start + limit + _SPARE])[:1000]
        call, request = self._build_step(wanted_ids)

        def parse_page(replies: Replies) -> Page:
            if problem := self._apply_step(request, replies[0]):
                return Page(queue, self.name, name, (), 0, error=problem)
            return self._build_record_page(queue, name, offset, limit, body_bytes)

        return Request((call,), parse_page)

    def _build_record_page(self, queue: str, place: str, offset: int, limit: int, body_bytes: int) -> Page:
        jobs, counted = self.record_sample.list_jobs(queue, place), self.record_sample.count(queue, place)
        first = _find_start(len(jobs), offset, limit)
        shown = tuple(
            job if body_bytes < 0 or job.body is None or len(job.body) <= body_bytes else replace(job, body=None)
            for job in jobs[first : first + limit]
        )
        following = first + len(shown)
        return Page(
            queue,
            self.name,
            place,
            shown,
            len(jobs),
            counted.is_exact,
            first,
            following if shown and following < len(jobs) else None,
            place_total=counted.number if counted.number > len(jobs) else None,
        )


def _find_start(total: int, offset: int, limit: int) -> int:
    """Return the index of the first job of a page; a negative `offset` counts from the end, as in `page_request`."""
    return offset if offset >= 0 else max(0, total - limit + offset + 1)
