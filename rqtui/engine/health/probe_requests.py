"""Build the bounded reads that several health probes share: the newest jobs of a place, and combined requests."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from rqtui.model import Page, Place, Queue, State
from rqtui.system_base.system import Replies, Request, System, isolate_request

log = logging.getLogger("rqtui.engine")

T = TypeVar("T")
SHARED_PLACE_JOBS = 1000  # jobs of all queues in a shared place that are searched for those of one queue
SAMPLE_JOBS = 100  # latest failed jobs of a place whose errors are counted
HOURS_MS = 6 * 3_600_000  # range for the usual wait and the start of failures


def build_shared_place_request(system: System, queue: Queue, place: Place) -> Request[Page]:
    """Build the request for one queue's jobs in a place of all queues: the latest dead jobs, or the next others."""
    jobs_of_all_queues = next((count.shared_total for count in queue.counts if count.place == place.name), None) or 0
    offset = max(0, jobs_of_all_queues - SHARED_PLACE_JOBS) if place.state is State.DEAD else 0
    limit = SHARED_PLACE_JOBS if place.state is State.DEAD else SAMPLE_JOBS
    return system.scan_request(queue.name, place.name, offset, limit, 0)


def build_newest_page_request(system: System, queue: Queue, place: Place) -> Request[Page]:
    """Build the request for the newest 100 done or dead jobs of a place, or for the next jobs of another place.

    Done and dead jobs are appended to a place with a key; a place that is counted from events, and one whose jobs are
    keys of their own, list the newest first.
    """
    is_newest_first = place.is_from_events or place.is_key_per_job
    is_newest_last = place.state in (State.DONE, State.DEAD) and not is_newest_first
    offset = max(0, queue.count_in_place(place.name) - SAMPLE_JOBS) if is_newest_last else 0
    return system.page_request(queue.name, place.name, offset, SAMPLE_JOBS, 0)


def build_combined_page_request(
    requests: Sequence[Request[Page]], summarise: Callable[[list[Page]], T]
) -> Request[T | None]:
    """Combine page requests into one whose result is `summarise(pages)`, or None if reading them fails."""
    return combine_requests(requests, summarise)


def combine_requests(requests: Sequence[Request[Any]], summarise: Callable[[list[Any]], T]) -> Request[T | None]:
    """Build a request that sends several requests at once and passes their results to `summarise`, in order."""

    def summarise_results(replies: Replies) -> T:
        remaining = iter(replies)
        return summarise([request.parse([next(remaining) for _call in request.calls]) for request in requests])

    return ignore_request_errors(
        Request(tuple(call for request in requests for call in request.calls), summarise_results)
    )


def ignore_request_errors(fallible_request: Request[T]) -> Request[T | None]:
    """Return a request whose result is None if it fails. A failed probe does not hide the counts of its snapshot."""

    def ignore_error(error: Exception) -> None:
        log.debug("a probe failed: %s", error)

    request: Request[T | None] = Request(fallible_request.calls, fallible_request.parse)
    return isolate_request(lambda: request, ignore_error)
