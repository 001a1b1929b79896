"""Read recorded job events of queues, and keep their recording on, for the screen's feed and for `rqtui events`.

The script `events` reads a feed from the last read event on; a system without that script records no events. Recording
is a setting of a native queue that expires by itself, so a watcher renews it. BullMQ records events always.
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
    """One recorded verb on a job; an event of the whole queue has an empty `id`.

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
        """A text that identifies the event."""
        return f"{self.at_ms}-{self.number} {self.ref}"

    @property
    def order(self) -> tuple[int, str, int]:
        """The sort key of the event among the events of several queues."""
        return self.at_ms, str(self.ref), self.number

    @property
    def is_failure(self) -> bool:
        """Whether the event is a failure of a job; see `FAILURES`."""
        return self.verb in FAILURES


@dataclass(frozen=True, slots=True)
class Feed:
    """The events of one queue, oldest first, and the state of its recording.

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
        """The id of the last event, from which the next request continues; empty if there is none."""
        return f"{self.events[-1].at_ms}-{self.events[-1].number}" if self.events else ""

    @property
    def is_recording(self) -> bool:
        """Whether events are recorded."""
        return self.until_ms != 0


def has_events(system: System) -> bool:
    """Return whether a system records events."""
    return "events" in system.scripts


def feed_request(
    system: System, queue: str, after: str = "", *, limit: int = MAX_EVENTS, newest: bool = True
) -> Request[Feed]:
    """Build the request for up to `limit` events after `after`: the newest of them, or the first."""
    call = system.build_call("events", queue, {"after": after, "limit": limit, "newest": newest})
    return Request((call,), lambda answers: _parse_feed(Ref(system.name, queue), answers))


def _parse_feed(ref: Ref, answers: Replies) -> Feed:
    answer = answers[0]
    if isinstance(answer, Exception):
        raise answer
    events = []
    for at, verb, id, worker, *detail in answer.rows:
        ms, _dash, number = at.partition("-")
        events.append(Event(ref, int(ms), int(number), verb, id, to_text(worker), *map(to_text, detail)))
    v = answer.values
    return Feed(ref, tuple(events), v["now_ms"], v["until_ms"], v["total"], v["left"], v["known"])


def record_events(engine: Engine, refs: Sequence[Ref], until_ms: Mapping[Ref, int]) -> dict[Ref, str]:
    """Record events of these queues until the given times, in one round trip. Returns error messages by queue.

    Queues that are not in `until_ms` or on which `configure` is denied are skipped. Raises ReadOnly in a read-only
    session, and ServerError if there is no reply at all.
    """
    if engine.read_only:
        raise ReadOnly("recording events changes a setting of the queue, and this session is read-only.")
    refused = {ref: reason for ref in refs if ref in until_ms and (reason := _explain_refusal(engine, ref))}
    asked = [ref for ref in refs if ref in until_ms and ref not in refused]
    asks = [_record_request(engine.systems[ref.system], ref.queue, until_ms[ref]) for ref in asked]
    answers = engine.send_requests(asks) if asks else []
    return refused | {ref: word for ref, word in zip(asked, answers, strict=True) if word}


def _explain_refusal(engine: Engine, ref: Ref) -> str:
    """Return why the events of a queue cannot be recorded; empty if they can."""
    if not engine.systems[ref.system].can("configure"):
        return f"the programs of {ref.system} decide whether its events are recorded, and they are not"
    return engine.explain_denial("configure", ref)


def _record_request(system: System, queue: str, until_ms: int) -> Request[str]:
    call = system.build_call("configure", queue, {}, [{"name": "events", "value": str(until_ms)}])

    def parse_reply(answers: Replies) -> str:
        return str(answers[0]) if isinstance(answers[0], ServerError) else ""

    return Request((call,), parse_reply)


def compute_renewals(feeds: Mapping[Ref, Feed], lease_ms: int = RECORDING_MS) -> dict[Ref, int]:
    """Return the new end of recording for each queue whose recording would soon expire."""
    return {
        ref: feed.now_ms + lease_ms
        for ref, feed in feeds.items()
        if feed.is_known and feed.until_ms != FOR_EVER and feed.until_ms < feed.now_ms + lease_ms * 2 // 3
    }


def build_matcher(expression: str) -> Callable[[Event], bool]:
    """Return a predicate for events from an expression of words, `!word` and `/regex/`.

    An event matches if every word occurs in its verb, id, worker, detail or queue, and no `!word` does. Raises
    UsageError for a pattern that Python's `re` refuses.
    """
    terms: list[tuple[bool, re.Pattern[str]]] = []
    for sign, pattern, word in _TERM.findall(expression):
        terms.append((bool(sign), filters.compile_filter_pattern(pattern or re.escape(word))))

    def fits(event: Event) -> bool:
        text = f"{event.verb} {event.id.decode('utf-8', 'replace')} {event.worker} {event.detail} {event.ref.queue}"
        return all((pattern.search(text) is not None) != negated for negated, pattern in terms)

    return fits
