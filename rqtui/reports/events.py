"""Read the recorded job events of queues and renew their recording, for the screen's feed and `rqtui events`.

The script `events` reads the events after the last one that was read; a system without that script records no events.
Recording is a setting of a native queue that expires by itself, so a watcher renews it. BullMQ records events always.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rqtui.engine import filters
from rqtui.errors import ReadOnly, ServerError
from rqtui.model import Ref
from rqtui.system_base.system import Replies, Request, System
from rqtui.text.names import to_text

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine

FAILURES = frozenset(
    {
        *("reject", "reap", "kill"),  # native: a failed attempt, an expired lease, a killed job
        *("failed", "stalled", "retries-exhausted"),  # BullMQ: a dead job, an expired lock, a job without attempts left
    }
)
RECORDING_MS = 60_000  # recording continues this long after the last renewal
MAX_EVENTS = 500  # per request
FOR_EVER = -1
_TERM = re.compile(r"(!?)(?:/((?:[^/\\]|\\.)*)(?:/(?=\s|$)|$)|(\S+))")


@dataclass(frozen=True, slots=True)
class Event:
    """A recorded event: a verb on a job at one time. An event of the whole queue has an empty `id`.

    `number` counts the events of one millisecond.
    """

    ref: Ref
    at_ms: int
    number: int
    verb: str
    id: bytes = b""
    worker: str = ""
    detail: str = ""  # what the system records about the event, such as the reason of a failure

    @property
    def key(self) -> str:
        """A text that identifies an event among those of all queues."""
        return f"{self.at_ms}-{self.number} {self.ref}"

    @property
    def order(self) -> tuple[int, str, int]:
        """The sort key of an event among the events of several queues."""
        return self.at_ms, str(self.ref), self.number

    @property
    def is_failure(self) -> bool:
        """Return whether an event is a failure of a job; see `FAILURES`."""
        return self.verb in FAILURES


@dataclass(frozen=True, slots=True)
class Feed:
    """The events of one queue, oldest first, and the state of their recording.

    `until_ms` is the time at which recording ends: 0 if it is off, -1 if it never ends. `total` is the number of stored
    events. `has_gap` is set if there were more events than requested. `is_known` is False if there is no such queue.
    """

    ref: Ref
    events: tuple[Event, ...] = ()
    now_ms: int = 0
    until_ms: int = 0
    total: int = 0
    has_gap: bool = False
    is_known: bool = True
    error: str = ""  # why nothing could be read of it

    @property
    def last(self) -> str:
        """The id of the last event of a feed, from which the next request continues; empty if the feed has none."""
        return f"{self.events[-1].at_ms}-{self.events[-1].number}" if self.events else ""

    @property
    def is_recording(self) -> bool:
        """Return whether events of a queue are being recorded."""
        return self.until_ms != 0


def has_events(system: System) -> bool:
    """Return whether a system has a script that reads recorded events."""
    return "events" in system.scripts


def feed_request(
    system: System, queue: str, after: str = "", *, limit: int = MAX_EVENTS, newest: bool = True
) -> Request[Feed]:
    """Build the request for up to `limit` events after the event id `after`: the newest of them, or the first."""
    call = system.build_call("events", queue, {"after": after, "limit": limit, "newest": newest})
    return Request((call,), lambda replies: _parse_feed(Ref(system.name, queue), replies))


def _parse_feed(ref: Ref, replies: Replies) -> Feed:
    """Parse the reply of the script `events` to a feed. Raises the error that Redis replied."""
    reply = replies[0]
    if isinstance(reply, Exception):
        raise reply
    events = []
    for time_text, verb, id, worker, *detail in reply.rows:
        at_ms, _dash, number = time_text.partition("-")
        events.append(Event(ref, int(at_ms), int(number), verb, id, to_text(worker), *map(to_text, detail)))
    values = reply.values
    return Feed(
        ref, tuple(events), values["now_ms"], values["until_ms"], values["total"], values["left"], values["known"]
    )


def record_events(engine: Engine, refs: Sequence[Ref], until_ms: Mapping[Ref, int]) -> dict[Ref, str]:
    """Record events of these queues until the given times, in one round trip. Return error messages by queue.

    Queues that are not in `until_ms` are skipped; those on which `configure` is denied get an error message. Raises
    ReadOnly in a read-only session, and ServerError if there is no reply at all.
    """
    if engine.read_only:
        raise ReadOnly("recording events changes a setting of the queue, and this session is read-only.")
    refusals = {ref: reason for ref in refs if ref in until_ms and (reason := _explain_refusal(engine, ref))}
    accepted = [ref for ref in refs if ref in until_ms and ref not in refusals]
    requests = [_build_recording_request(engine.systems[ref.system], ref.queue, until_ms[ref]) for ref in accepted]
    errors = engine.send_requests(requests) if requests else []
    return refusals | {ref: error for ref, error in zip(accepted, errors, strict=True) if error}


def _explain_refusal(engine: Engine, ref: Ref) -> str:
    """Return why the events of a queue cannot be recorded; empty if they can."""
    if not engine.systems[ref.system].can("configure"):
        return f"the programs of {ref.system} decide whether its events are recorded, and they are not"
    return engine.explain_denial("configure", ref)


def _build_recording_request(system: System, queue: str, until_ms: int) -> Request[str]:
    """Build the request that records events of a queue until a time; its result is an error message or empty."""
    call = system.build_call("configure", queue, {}, [{"name": "events", "value": str(until_ms)}])

    def parse_error_message(replies: Replies) -> str:
        return str(replies[0]) if isinstance(replies[0], ServerError) else ""

    return Request((call,), parse_error_message)


def compute_renewals(feeds: Mapping[Ref, Feed], lease_ms: int = RECORDING_MS) -> dict[Ref, int]:
    """Return the new end of recording for each queue whose recording expires soon."""
    return {
        ref: feed.now_ms + lease_ms
        for ref, feed in feeds.items()
        if feed.is_known and feed.until_ms != FOR_EVER and feed.until_ms < feed.now_ms + lease_ms * 2 // 3
    }


def build_event_matcher(expression: str) -> Callable[[Event], bool]:
    """Build a predicate for events from an expression of words, `!word` and `/regex/`.

    An event matches if every word occurs in its verb, id, worker, detail or queue, and no `!word` does. Raises
    UsageError for a pattern that Python's `re` refuses.
    """
    terms: list[tuple[bool, re.Pattern[str]]] = []
    for sign, pattern, word in _TERM.findall(expression):
        terms.append((bool(sign), filters.compile_filter_pattern(pattern or re.escape(word))))

    def matches_event(event: Event) -> bool:
        text = f"{event.verb} {event.id.decode('utf-8', 'replace')} {event.worker} {event.detail} {event.ref.queue}"
        return all((pattern.search(text) is not None) != negated for negated, pattern in terms)

    return matches_event
