"""Events: the moves of jobs while somebody recorded them, for the screen's feed and for `rqtui events`.

A feed is read by the script `events`, from the last event that is known on, and a system without that script records
none. Recording is a setting of the queue that lapses by itself: whoever watches sets it anew.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rqtui.engine import filters
from rqtui.errors import ReadOnly, ServerError
from rqtui.layout.layout import Answers, Ask, Layout
from rqtui.model import Ref
from rqtui.text.names import to_text

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine

FAILURES = frozenset({"reject", "reap", "kill"})  # an attempt failed, a lease expired, somebody gave a job up
LEASE_MS = 60_000  # so long is recorded after the last word of who watches
PAGE = 500  # events per call
FOR_EVER = -1
_TERM = re.compile(r"(!?)(?:/((?:[^/\\]|\\.)*)(?:/(?=\s|$)|$)|(\S+))")


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened; `number` counts those of one millisecond, `id` is empty where it was about the queue."""

    ref: Ref
    at_ms: int
    number: int
    verb: str
    id: bytes = b""
    worker: str = ""

    @property
    def key(self) -> str:
        """What tells it from every other event."""
        return f"{self.at_ms}-{self.number} {self.ref}"

    @property
    def order(self) -> tuple[int, str, int]:
        """Its place among the events of several queues."""
        return self.at_ms, str(self.ref), self.number

    @property
    def is_failure(self) -> bool:
        """Whether something failed."""
        return self.verb in FAILURES


@dataclass(frozen=True, slots=True)
class Feed:
    """Events of one queue, the oldest first, and whether they are recorded.

    `until_ms` is the instant at which recording ends, 0 when it is off, -1 when it never ends. `total` is how many are
    kept. `has_gap` says that there were more than were asked for. `is_known` is False where no such queue is.
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
        """After which event the next call begins; empty where there was none."""
        return f"{self.events[-1].at_ms}-{self.events[-1].number}" if self.events else ""

    @property
    def is_recording(self) -> bool:
        """Whether what happens is written down."""
        return self.until_ms != 0


def has_events(layout: Layout) -> bool:
    """Whether that system records any."""
    return "events" in layout.scripts


def feed_ask(layout: Layout, queue: str, after: str = "", *, limit: int = PAGE, newest: bool = True) -> Ask[Feed]:
    """Up to `limit` events that came after `after`: the newest of them, or the first."""
    call = layout.call("events", queue, {"after": after, "limit": limit, "newest": newest})
    return Ask((call,), lambda answers: _feed(Ref(layout.name, queue), answers))


def _feed(ref: Ref, answers: Answers) -> Feed:
    answer = answers[0]
    if isinstance(answer, Exception):
        raise answer
    events = []
    for at, verb, id, worker in answer.rows:
        ms, _dash, number = at.partition("-")
        events.append(Event(ref, int(ms), int(number), verb, id, to_text(worker)))
    v = answer.values
    return Feed(ref, tuple(events), v["now_ms"], v["until_ms"], v["total"], v["left"], v["known"])


def record(engine: Engine, refs: Sequence[Ref], until_ms: Mapping[Ref, int]) -> dict[Ref, str]:
    """Records events of these queues until those instants, in one round trip; what was refused, by queue.

    Nothing is sent for a queue that is not in `until_ms`, nor for one on which `configure` is denied. Raises ReadOnly
    where nothing may be changed, and ServerError when there is no answer at all.
    """
    if engine.read_only:
        raise ReadOnly("recording events changes a setting of the queue, and this session is read-only.")
    refused = {ref: denial for ref in refs if ref in until_ms and (denial := engine.denial("configure", ref))}
    asked = [ref for ref in refs if ref in until_ms and ref not in refused]
    asks = [_record_ask(engine.layouts[ref.layout], ref.queue, until_ms[ref]) for ref in asked]
    answers = engine.ask_all(asks) if asks else []
    return refused | {ref: word for ref, word in zip(asked, answers, strict=True) if word}


def _record_ask(layout: Layout, queue: str, until_ms: int) -> Ask[str]:
    call = layout.call("configure", queue, {}, [{"name": "events", "value": str(until_ms)}])

    def read(answers: Answers) -> str:
        return str(answers[0]) if isinstance(answers[0], ServerError) else ""

    return Ask((call,), read)


def due(feeds: Mapping[Ref, Feed], lease_ms: int = LEASE_MS) -> dict[Ref, int]:
    """Until when each of these queues should be recorded now; only those whose recording would soon lapse."""
    return {
        ref: feed.now_ms + lease_ms
        for ref, feed in feeds.items()
        if feed.is_known and feed.until_ms != FOR_EVER and feed.until_ms < feed.now_ms + lease_ms * 2 // 3
    }


def matcher(expression: str) -> Callable[[Event], bool]:
    r"""Whether an event fits: every word stands in its verb, id, worker or queue; `!word` in none; `/re/` is searched.

    Raises UsageError for an expression that Python's `re` refuses.
    """
    terms: list[tuple[bool, re.Pattern[str]]] = []
    for sign, pattern, word in _TERM.findall(expression):
        terms.append((bool(sign), filters.compiled(pattern or re.escape(word))))

    def fits(event: Event) -> bool:
        text = f"{event.verb} {event.id.decode('utf-8', 'replace')} {event.worker} {event.ref.queue}"
        return all((pattern.search(text) is not None) != negated for negated, pattern in terms)

    return fits
