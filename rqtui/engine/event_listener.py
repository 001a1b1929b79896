"""Pass Pub/Sub events to the systems whose programs publish events that no key stores.

One subscriber (`connection/subscriber.py`) serves all systems. It opens when the first queue of such a system is
polled, and listens from then on. Events are delivered here, on the engine's thread, so that a system needs no lock.
Each system gets the time since when its events are received, and for how long they were missed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from typing import Any

from rqtui.connection.subscriber import Subscriber
from rqtui.errors import describe_error
from rqtui.model import EventCoverage
from rqtui.system_base.system import Request, System
from rqtui.text.names import to_bytes

log = logging.getLogger("rqtui.engine.event_listener")


class EventListener:
    """Receives the Pub/Sub events of an engine's systems, and passes each event to the systems that want it."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._subscriber: Subscriber | None = None
        self._systems: dict[str, System] = {}
        self._patterns: dict[str, tuple[str, ...]] = {}  # by system
        self._failed_systems: set[str] = set()  # systems that could not parse an event
        self._since_ms: dict[str, int] = {}  # by system: computed once, because clocks drift

    @property
    def is_open(self) -> bool:
        """Return whether a subscription is open, so that events are received."""
        return self._subscriber is not None

    def subscribe(self, systems: Iterable[System]) -> None:
        """Subscribe to the Pub/Sub events of the given systems, unless that was done before."""
        for system in systems:
            if system.name in self._systems or not (patterns := system.event_patterns()):
                continue
            self._systems[system.name], self._patterns[system.name] = system, patterns
            if self._subscriber is None:
                self._subscriber = Subscriber(self._client)
            self._subscriber.subscribe(patterns)

    def deliver(self) -> None:
        """Pass the events received since the last call to their systems, in order of arrival."""
        if self._subscriber is None:
            return
        messages, now_s = self._subscriber.take_messages(), time.monotonic()
        systems_by_pattern: dict[bytes, list[System]] = {}
        for name, system in self._systems.items():
            system.event_coverage = self._compute_event_coverage(system, now_s)
            for pattern in self._patterns[name]:
                systems_by_pattern.setdefault(to_bytes(pattern), []).append(system)
        for message in messages:
            for system in systems_by_pattern.get(message.pattern, ()):
                at_ms = system.now_ms() - int((now_s - message.at_s) * 1000)
                try:
                    system.record_event(message.channel, message.data, at_ms)
                except Exception as error:  # Only this event is lost. A system that raises is logged as an error once.
                    (log.debug if system.name in self._failed_systems else log.error)(
                        "%s: %s", system.name, describe_error(error)
                    )
                    self._failed_systems.add(system.name)

    def build_requests(self) -> list[Request[None]]:
        """Build the requests that systems need to interpret the Pub/Sub events they received."""
        return [request for system in self._systems.values() for request in system.event_requests()]

    def _compute_event_coverage(self, system: System, now_s: float) -> EventCoverage:
        """Return since when events of a system are received, and how many were missed, or why none are received."""
        assert self._subscriber is not None
        statuses = [self._subscriber.read_status(pattern) for pattern in self._patterns[system.name]]
        problem = next((status.problem for status in statuses if status.problem), "")
        starts = [status.since_s for status in statuses if status.since_s is not None]
        if not starts:
            return EventCoverage(problem=problem)
        since_ms = self._since_ms.setdefault(system.name, system.now_ms() - int((now_s - min(starts)) * 1000))
        missed_ms = int(max(status.missed_s for status in statuses) * 1000)
        return EventCoverage(since_ms, missed_ms, self._subscriber.dropped, problem)

    def close(self) -> None:
        """Close the subscription. Events are no longer received."""
        if self._subscriber is not None:
            self._subscriber.close()
