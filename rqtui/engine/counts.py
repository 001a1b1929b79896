"""Count many queues at once: one script counts dozens of queues, if their system has one; otherwise a script each.

A key of a wrong type, a missing right for one queue, or a server that refuses scripts across slots causes a shared
script to fail for all of its queues. They are then counted one by one in a second round trip. For the next half minute
the queues that failed alone (or all, if none did) are counted alone from the start.
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

KEPT = 40  # cached requests: the overview of a thousand queues counts others at each refresh, and those again later
ALONE_S = 30.0


class QueueCounter:
    """Builds and caches the requests that count queues, and stores which queues cannot be counted with others."""

    def __init__(self, systems: Mapping[str, System]) -> None:
        self._systems = systems
        self._refs: tuple[Ref, ...] = ()
        self._until_s = 0.0  # when all queues are tried together again (`time.monotonic`)
        self._alone: set[Ref] = set()
        self._groups: list[tuple[Sequence[Ref], Request[CountResult]]] = []
        self._shared_requests: dict[tuple[Ref, ...], Request[CountResult]] = {}

    def build_requests(self, client: Any, refs: Sequence[Ref]) -> list[Request[CountResult]]:
        """Return the requests that count these queues; the same objects as last time if the queues are the same."""
        is_over = bool(self._alone) and time.monotonic() >= self._until_s
        if is_over:
            self._alone.clear()
        if is_over or self._refs != tuple(refs) or not self._groups:
            self._refs = tuple(refs)
            self._groups = list(self._group(client, refs))
        return [ask for _refs, ask in self._groups]

    def collect_counts(
        self,
        results: Sequence[CountResult],
        ask_all: Callable[[Sequence[Request[Any]]], list[Any]],
        is_answered: bool,
    ) -> tuple[list[Queue], list[list[Request[Any]]]]:
        """Return the counted queues in the order of the request, and the requests of the extra round trips.

        `ask_all` sends requests in one round trip. `is_answered` says whether the server replied to anything else in
        this snapshot; if not, an error of all queues is raised.
        """
        queues_by_ref: dict[Ref, Queue] = {}
        failed: list[Ref] = []
        follow_ups: list[tuple[Sequence[Ref], Request[list[Queue] | None]]] = []
        for (refs, _ask), result in zip(self._groups, results, strict=True):
            if result is None:
                failed += refs
            elif isinstance(result, Request):
                follow_ups.append((refs, _ignore_errors(result)))
            else:
                queues_by_ref.update(zip(refs, result, strict=True))
        trips: list[list[Request[Any]]] = [[request for _refs, request in follow_ups]] if follow_ups else []
        for (refs, _ask), queues in zip(follow_ups, ask_all(trips[0]) if follow_ups else (), strict=True):
            if queues is None:
                failed += refs
            else:
                queues_by_ref.update(zip(refs, queues, strict=True))
        if failed:
            requests = [queue_request(self._systems[ref.system], ref.queue) for ref in failed]
            again = ask_all([replace(request, may_fail=is_answered or bool(queues_by_ref)) for request in requests])
            trips.append(requests)
            queues_by_ref.update(zip(failed, again, strict=True))
            self._alone |= {ref for ref in failed if queues_by_ref[ref].error} or set(failed)
            self._until_s = time.monotonic() + ALONE_S
            self._groups = []
        return [queues_by_ref[ref] for ref in self._refs], trips

    def _group(self, client: Any, refs: Sequence[Ref]) -> Iterator[tuple[Sequence[Ref], Request[CountResult]]]:
        singles: list[Ref] = []
        for name in self._systems:
            mine = [ref for ref in refs if ref.system == name]
            is_apart = [isinstance(client, Cluster) or ref in self._alone for ref in mine]
            singles += [ref for ref, apart in zip(mine, is_apart, strict=True) if apart]
            fit = [ref for ref, apart in zip(mine, is_apart, strict=True) if not apart]
            together = self._systems[name].queues_per_request
            for start in range(0, len(fit), together):
                chunk = tuple(fit[start : start + together])
                request = self._find_shared_request(chunk) if len(chunk) > 1 else None
                if request is None:
                    singles += chunk
                else:
                    yield chunk, request
        yield from (([ref], _as_list(queue_request(self._systems[ref.system], ref.queue))) for ref in singles)

    def _find_shared_request(self, chunk: tuple[Ref, ...]) -> Request[CountResult] | None:
        """Return the cached or new request that counts these queues of one system by one script.

        None if there is none.
        """
        if chunk not in self._shared_requests:
            try:
                request = self._systems[chunk[0].system].queues_request([ref.queue for ref in chunk])
            except RqtuiError:  # One of the names is invalid; its own request reports that.
                return None
            if request is None:
                return None
            while len(self._shared_requests) >= KEPT:
                del self._shared_requests[next(iter(self._shared_requests))]
            self._shared_requests[chunk] = _ignore_errors(request)
        return self._shared_requests[chunk]


def _as_list(request: Request[Queue]) -> Request[CountResult]:
    return Request(request.calls, lambda replies: [request.parse(replies)])


def _ignore_errors(request: Request[T]) -> Request[T | None]:
    """Return a request whose result is None if the script failed for all queues; they are then counted one by one."""

    def parse_reply(replies: Replies) -> T | None:
        try:
            return request.parse(replies)
        except Exception:
            return None  # Counted alone, the queue that failed reports its error, and the others are counted.

    return Request(request.calls, parse_reply, may_fail=True)
