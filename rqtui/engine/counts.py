"""Count the jobs of many queues with few script calls; called by the engine for every snapshot.

If a system has a script that counts dozens of queues at once, that script is used; otherwise each queue takes a call of
its own. A key of a wrong type, a missing right for one queue, or a server that refuses scripts across slots makes a
shared script fail for all of its queues. They are then counted one by one in a second round trip. For the next half
minute the queues that failed alone (or all, if none did) are counted alone from the start.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from rqtui.connection.cluster import Cluster
from rqtui.errors import RqtuiError
from rqtui.model import Queue, Ref
from rqtui.system_base.system import Replies, Request, System, queue_request

T = TypeVar("T")
CountResult = list[Queue] | Request[list[Queue]] | None
"""The result of counting many queues: their counts, a follow-up request, or None for an error."""

MAX_CACHED_REQUESTS = (
    40  # cached requests: the overview of a thousand queues counts others at each refresh, and those again later
)
COUNTED_ALONE_S = 30.0


class QueueCounter:
    """Builds and caches the requests that count queues, and stores which queues have to be counted alone."""

    def __init__(self, systems: Mapping[str, System]) -> None:
        self._systems = systems
        self._refs: tuple[Ref, ...] = ()
        self._alone_until_s = 0.0  # when all queues are tried together again (`time.monotonic`)
        self._refs_counted_alone: set[Ref] = set()
        self._groups: list[tuple[Sequence[Ref], Request[CountResult]]] = []
        self._shared_requests: dict[tuple[Ref, ...], Request[CountResult]] = {}
        self._walking_systems = {
            name for name, system in systems.items() if any(place.is_key_per_job for place in system.places)
        }

    def build_requests(self, client: Any, refs: Sequence[Ref]) -> list[Request[CountResult]]:
        """Return the requests that count these queues. For the same queues, these are the same objects as last time.

        Only the requests of queues whose system continues a walk over all keys are built again.
        """
        is_retry_due = bool(self._refs_counted_alone) and time.monotonic() >= self._alone_until_s
        if is_retry_due:
            self._refs_counted_alone.clear()
        if is_retry_due or self._refs != tuple(refs) or not self._groups:
            self._refs = tuple(refs)
            self._groups = list(self._group_queues(client, refs))
        elif self._walking_systems:
            self._groups = [
                ([ref], self._build_queue_request(ref))
                if len(group_refs) == 1 and (ref := group_refs[0]).system in self._walking_systems
                else (group_refs, request)
                for group_refs, request in self._groups
            ]
        return [request for _refs, request in self._groups]

    def collect_counts(
        self,
        results: Sequence[CountResult],
        send_requests: Callable[[Sequence[Request[Any]]], list[Any]],
        is_answered: bool,
    ) -> tuple[list[Queue], list[list[Request[Any]]]]:
        """Return the counted queues in the order of `build_requests`, and the requests of extra round trips.

        `send_requests` sends requests in one round trip. `is_answered` says whether the server replied to any other
        request of this snapshot; if it did not, an error that all queues have in common is raised.
        """
        queues_by_ref: dict[Ref, Queue] = {}
        failed_refs: list[Ref] = []
        follow_ups: list[tuple[Sequence[Ref], Request[list[Queue] | None]]] = []
        for (refs, _request), result in zip(self._groups, results, strict=True):
            if result is None:
                failed_refs += refs
            elif isinstance(result, Request):
                follow_ups.append((refs, _return_none_on_error(result)))
            else:
                queues_by_ref.update(zip(refs, result, strict=True))
        extra_trips: list[list[Request[Any]]] = [[request for _refs, request in follow_ups]] if follow_ups else []
        for (refs, _request), queues in zip(
            follow_ups, send_requests(extra_trips[0]) if follow_ups else (), strict=True
        ):
            if queues is None:
                failed_refs += refs
            else:
                queues_by_ref.update(zip(refs, queues, strict=True))
        if failed_refs:
            requests = [queue_request(self._systems[ref.system], ref.queue) for ref in failed_refs]
            recounted = send_requests(
                [replace(request, may_fail=is_answered or bool(queues_by_ref)) for request in requests]
            )
            extra_trips.append(requests)
            queues_by_ref.update(zip(failed_refs, recounted, strict=True))
            self._refs_counted_alone |= {ref for ref in failed_refs if queues_by_ref[ref].error} or set(failed_refs)
            self._alone_until_s = time.monotonic() + COUNTED_ALONE_S
            self._groups = []
        return [queues_by_ref[ref] for ref in self._refs], extra_trips

    def _group_queues(self, client: Any, refs: Sequence[Ref]) -> Iterator[tuple[Sequence[Ref], Request[CountResult]]]:
        """Yield groups of queues with the request that counts each group: chunks of one system, then single queues."""
        refs_alone: list[Ref] = []
        for name in self._systems:
            refs_of_system = [ref for ref in refs if ref.system == name]
            are_alone = [isinstance(client, Cluster) or ref in self._refs_counted_alone for ref in refs_of_system]
            refs_alone += [ref for ref, is_alone in zip(refs_of_system, are_alone, strict=True) if is_alone]
            refs_together = [ref for ref, is_alone in zip(refs_of_system, are_alone, strict=True) if not is_alone]
            queues_per_request = self._systems[name].queues_per_request
            for start in range(0, len(refs_together), queues_per_request):
                chunk = tuple(refs_together[start : start + queues_per_request])
                request = self._build_shared_request(chunk) if len(chunk) > 1 else None
                if request is None:
                    refs_alone += chunk
                else:
                    yield chunk, request
        yield from (([ref], self._build_queue_request(ref)) for ref in refs_alone)

    def _build_queue_request(self, ref: Ref) -> Request[CountResult]:
        return _wrap_queue_in_list(queue_request(self._systems[ref.system], ref.queue))

    def _build_shared_request(self, chunk: tuple[Ref, ...]) -> Request[CountResult] | None:
        """Return the request by which one script counts these queues of one system, from the cache if possible.

        Returns None if the system has no such script, or refuses one of the names.
        """
        if chunk not in self._shared_requests:
            try:
                request = self._systems[chunk[0].system].queues_request([ref.queue for ref in chunk])
            except RqtuiError:  # One of the names is invalid; its own request reports that.
                return None
            if request is None:
                return None
            while len(self._shared_requests) >= MAX_CACHED_REQUESTS:
                del self._shared_requests[next(iter(self._shared_requests))]
            self._shared_requests[chunk] = _return_none_on_error(request)
        return self._shared_requests[chunk]


def _wrap_queue_in_list(request: Request[Queue]) -> Request[CountResult]:
    """Return the request with its result in a list of one queue, as requests for several queues return it."""
    return Request(request.calls, lambda replies: [request.parse(replies)])


def _return_none_on_error(request: Request[T]) -> Request[T | None]:
    """Return a request whose result is None if counting its queues fails. They are then counted one by one."""

    def parse_replies_or_return_none(replies: Replies) -> T | None:
        try:
            return request.parse(replies)
        except Exception:
            return None  # Counted alone, the queue that failed reports its error, and the others are counted.

    return Request(request.calls, parse_replies_or_return_none, may_fail=True)
