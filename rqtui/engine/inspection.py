"""Inspection: closer looks at a queue than its counts are, each of a bounded cost, a few times a minute at most.

A tick takes some of them along in its round trip, those first that waited longest; a command that looks once takes all
that its queues need. What they found stays until the next look: the faults of a system, the counters of the last
minutes, of a queue that fails the causes and since when, and how long its jobs usually wait.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any, NamedTuple, TypeVar

from rqtui.engine import history
from rqtui.engine.history import History
from rqtui.engine.rates import WINDOW_MS, Mark, Sums
from rqtui.engine.urgency import weight
from rqtui.errors import RqtuiError, reason
from rqtui.layout.layout import Answers, Ask, Layout, apart
from rqtui.model import Cause, Finding, Job, Page, Place, Queue, Ref, State
from rqtui.text.causes import short_cause

log = logging.getLogger("rqtui.engine")

T = TypeVar("T")

INSPECT_S = 10.0  # between two looks for a system's own faults in one queue
INSPECTIONS = 20  # of one kind per tick
LEAST_READY = 60  # ready jobs from which on it matters whether they become more
LATEST = 1000  # jobs of all queues in a shared place, among which a queue's are looked for
SAMPLE = 100  # jobs of a place whose errors name the cause: those that failed last
BLOCKS, BLOCK = 24, 10  # parts of a place of dead jobs, from its beginning to its end, and how many jobs of each
AT_ONCE = 50  # queues, the heaviest, that are asked why they fail where one looks once
CAUSES = 3  # that are told
HOURS_MS = 6 * 3_600_000  # in which it is looked for what is usual, and since when a queue fails
SUSPECT_MS = 60_000  # a wait that is worth asking whether it is usual


class Known(NamedTuple):
    """What closer looks found out about a queue; None where they did not, or could not."""

    causes: tuple[Cause, ...] = ()  # of what failed lately
    deaths: tuple[Cause, ...] = ()  # of all that died
    failing: tuple[tuple[int, float], ...] = ()  # (minute, share of its attempts that failed), of those with attempts
    usual_ms: int | None = None  # how long its oldest ready job waits


NOTHING = Known()


class _Kind(NamedTuple):
    """A kind of look: how often at one queue, at how many per tick, what asks, and which queues need it."""

    every_s: float
    most: int
    ask: Callable[[Layout, Queue], Ask[Any] | None]
    is_needed: Callable[[Layout, Queue], bool]


@dataclass(slots=True)
class _Looks:
    """What was found in one queue, and when it was looked for, by kind (seconds by `time.monotonic`)."""

    at_s: dict[str, float] = field(default_factory=dict)
    faults: tuple[Finding, ...] = ()
    known: Known = NOTHING


class Inspections:
    """Remembers what was found in each queue; the counts of the last tick say what is worth another look."""

    def __init__(self, layouts: Mapping[str, Layout]) -> None:
        self._layouts = layouts
        self._looks: dict[Ref, _Looks] = {}
        self._counted: dict[Ref, Queue] = {}
        self._wanting: dict[str, set[Ref]] = {name: set() for name in KINDS}
        self._began: dict[Ref, tuple[tuple[str, int | None], ...]] = {}  # (kind of finding, since when)
        self._first: set[Ref] = set()  # queues in which something was looked at for the first time just now
        self._learned: set[Ref] = set()  # queues in which anything was looked at just now

    def asks(self, refs: Sequence[Ref], now_s: float, kinds: Iterable[str], *, is_all: bool = False) -> Asks:
        """The looks that are due now, by queue and kind; with `is_all` all that the counts call for."""
        for ref in refs:
            if ref not in self._counted:
                self.counted(ref, Queue(ref.queue, ref.layout))
        asked, made = set(refs), Asks()
        for name in kinds:
            kind = KINDS[name]
            most = kind.most if not is_all else AT_ONCE if name in AFTERWARDS else len(refs)
            due = [(self._at_s(ref, name), ref) for ref in self._wanting[name] & asked]
            due = [pair for pair in due if now_s - pair[0] >= kind.every_s]
            due.sort(key=lambda pair: (pair[0], -weight(self._counted[pair[1]])))
            for _at_s, ref in due[:most]:
                ask = self._ask(kind, ref)
                if ask is not None:
                    made[ref, name] = ask
        return made

    def take(self, answers: Mapping[tuple[Ref, str], Any], now_s: float) -> list[tuple[Ref, Mark]]:
        """Takes what was found; answers what had happened in queues until some minutes ago."""
        marks = []
        for (ref, name), answer in answers.items():
            looks = self._looks.setdefault(ref, _Looks())
            self._first |= set() if name in looks.at_s else {ref}
            self._learned.add(ref)
            looks.at_s[name] = now_s
            if name == "faults":
                looks.faults = answer
            elif name == "lately" and answer is not None:
                marks.append((ref, answer))
            elif name == "causes" and answer is not None:
                looks.known = looks.known._replace(causes=answer)
            elif name == "deaths" and answer is not None:
                looks.known = looks.known._replace(deaths=answer)
            elif name == "hours" and answer is not None:
                looks.known = looks.known._replace(failing=answer[0], usual_ms=answer[1])
        return marks

    def learned(self) -> set[Ref]:
        """The queues of which something was taken since this was asked last."""
        learned, self._learned = self._learned, set()
        return learned

    def last(self, ref: Ref) -> Queue:
        """The queue as it was judged last."""
        return self._counted[ref]

    def still(self, ref: Ref, queue: Queue) -> Queue:
        """Takes note of a queue that needs the same looks as before, and whose findings are those of before."""
        self._counted[ref] = queue
        return queue

    def counted(self, ref: Ref, queue: Queue) -> Queue:
        """Takes note of what was counted, and found in it; the same, with since when for what came while one looks."""
        before = self._counted.get(ref)
        if before is None or _sign(queue) != _sign(before):
            layout = self._layouts[ref.layout]
            for name, kind in KINDS.items():
                (set.add if kind.is_needed(layout, queue) else set.discard)(self._wanting[name], ref)
        if before is not None and (queue.findings or before.findings):
            queue = self._dated(ref, queue, is_news=not before.counted_ms or ref in self._first)
        self._first.discard(ref)
        self._counted[ref] = queue
        return queue

    def _dated(self, ref: Ref, queue: Queue, *, is_news: bool) -> Queue:
        """With since when, for findings that do not say it; those that are found at a first look may be old."""
        before = dict(self._began.get(ref, ()))
        began = {one.kind: before.get(one.kind, None if is_news else queue.counted_ms) for one in queue.findings}
        self._began[ref] = tuple(began.items())
        if all(one.since_ms is not None or began[one.kind] is None for one in queue.findings):
            return queue
        dated = (replace(one, since_ms=began[one.kind]) if one.since_ms is None else one for one in queue.findings)
        return queue._replace(findings=tuple(dated))

    def faults(self, ref: Ref) -> tuple[Finding, ...]:
        """The faults that were found last."""
        found = self._looks.get(ref)
        return found.faults if found else ()

    def known(self, ref: Ref) -> Known:
        """What else was found."""
        found = self._looks.get(ref)
        return found.known if found else NOTHING

    def _at_s(self, ref: Ref, name: str) -> float:
        found = self._looks.get(ref)
        return found.at_s.get(name, NEVER_S) if found else NEVER_S

    def _ask(self, kind: _Kind, ref: Ref) -> Ask[Any] | None:
        try:
            return kind.ask(self._layouts[ref.layout], self._counted[ref])
        except RqtuiError as error:  # the counts say so, too
            log.debug("%s: %s", ref, error)
            return None


def _sign(queue: Queue) -> tuple[object, ...]:
    """What looks a queue needs depends upon this."""
    kinds = [one.kind for one in queue.findings]
    return queue.counts, queue.counters, kinds, (queue.oldest_ready_ms or 0) >= SUSPECT_MS


Asks = dict[tuple[Ref, str], Ask[Any]]
NEVER_S = float("-inf")


# -- the kinds ---------------------------------------------------------------------------------------------------------


def _faults_ask(layout: Layout, queue: Queue) -> Ask[tuple[Finding, ...]] | None:
    ask = layout.inspect_ask(queue.name)

    def failed(error: Exception) -> tuple[Finding, ...]:
        text = f"its faults cannot be told: {reason(error, log)}"
        return (Finding("undecodable", "warning", queue.name, text),)

    return None if ask is None else apart(lambda: ask, failed)


def _may_have_faults(layout: Layout, queue: Queue) -> bool:
    return not layout.inspects or any(queue.count_in(state) for state in layout.inspects)


def _lately_ask(layout: Layout, queue: Queue) -> Ask[Mark | None]:
    """What had happened when the last minutes began; a queue keeps its counters by the minute."""
    ask = history.history_ask(layout, queue.name, WINDOW_MS // history.MINUTE_MS + 2)
    begin_ms = (queue.counted_ms - WINDOW_MS) // history.MINUTE_MS * history.MINUTE_MS

    def read(answers: Answers) -> Mark:
        found = ask.read(answers)
        then = next((found.minutes[at] for at in sorted(found.minutes) if at >= begin_ms), found.counters)
        came, done, failed = (history.flow(then, name) for name in ("in", "out", "failed"))
        is_known = not queue.count_in(State.SCHEDULED)  # else nobody knows how many of those that came are ready
        ready = None if is_known else queue.count_in(State.READY)
        return Mark(begin_ms, Sums(came, done, failed, then.get("dead", 0), ready))

    return _or_none(Ask(ask.calls, read))


def _may_fail(layout: Layout, queue: Queue) -> bool:
    counted = queue.counters.get("failed", 0) + queue.counters.get("dead", 0)
    return history.has_stats(layout) and bool(counted or queue.count_in(State.READY) >= LEAST_READY)


def _causes_ask(layout: Layout, queue: Queue) -> Ask[tuple[Cause, ...] | None]:
    """The errors of those that failed last, dead or to be tried again."""
    asks = []
    for place in layout.places:
        number = queue.count(place.name)
        if number and place.failures and place.state in (State.DEAD, State.SCHEDULED):
            if place.is_shared:
                asks.append(_newest_among_others(layout, queue, place))
                continue
            is_last = place.state is State.DEAD and not place.is_heard  # where the newest stand at the end
            first = max(0, number - SAMPLE) if is_last else 0
            asks.append(layout.page_ask(queue.name, place.name, first, SAMPLE, 0))

    def told(jobs: list[Job]) -> tuple[Cause, ...]:
        failed = [job for job in jobs if job.state is State.DEAD or job.attempts]
        began_ms = queue.counted_ms - WINDOW_MS
        lately = [job for job in failed if job.state is not State.DEAD or (job.since_ms or 0) >= began_ms]
        return causes(lately or failed)

    return _of_jobs(asks, told)


def _deaths_ask(layout: Layout, queue: Queue) -> Ask[tuple[Cause, ...] | None]:
    """The errors of some of all the dead: those that died together often died of the same."""
    asks = []
    for place in layout.places:
        number = queue.count(place.name)
        if number and place.failures and place.state is State.DEAD and place.is_shared:
            asks.append(_newest_among_others(layout, queue, place))
        elif number and place.failures and place.state is State.DEAD:
            steps = [number * part // BLOCKS for part in range(BLOCKS)] if number > BLOCKS * BLOCK else [0]
            size = BLOCK if len(steps) > 1 else number
            asks += [layout.page_ask(queue.name, place.name, at, size, 0) for at in steps]
    return _of_jobs(asks, causes)


def _newest_among_others(layout: Layout, queue: Queue, place: Place) -> Ask[Page]:
    """Some jobs of a queue in a shared place: of the dead those that died last, of the others those that are next."""
    of = next((count.of for count in queue.counts if count.place == place.name), None) or 0
    first = max(0, of - LATEST) if place.state is State.DEAD else 0
    return layout.scan_ask(queue.name, place.name, first, SAMPLE, 0)


def _of_jobs(asks: Sequence[Ask[Page]], told: Callable[[list[Job]], T]) -> Ask[T | None]:
    """What is told by the jobs of these pages that have an error."""

    def read(answers: Answers) -> T:
        left = iter(answers)
        pages = [ask.read([next(left) for _call in ask.calls]) for ask in asks]
        return told([job for page in pages for job in page.jobs if job.error])

    return _or_none(Ask(tuple(call for ask in asks for call in ask.calls), read))


def causes(jobs: Sequence[Job]) -> tuple[Cause, ...]:
    """What failed most often among these jobs."""
    counted = Counter(short_cause(job.error) for job in jobs)
    return tuple(Cause(text, number) for text, number in counted.most_common(CAUSES) if text)


def _has_failures(layout: Layout, queue: Queue) -> bool:
    return "error" in layout.tells and any(finding.kind in _FAILED for finding in queue.findings)


def _has_deaths(layout: Layout, queue: Queue) -> bool:
    return "error" in layout.tells and any(finding.kind in _DIED for finding in queue.findings)


def _hours_ask(layout: Layout, queue: Queue) -> Ask[tuple[tuple[tuple[int, float], ...], int | None] | None]:
    """The share of failures by the minute, and how long a job usually waited before the last minutes."""
    ask = history.history_ask(layout, queue.name, HOURS_MS // history.MINUTE_MS)

    def read(answers: Answers) -> tuple[tuple[tuple[int, float], ...], int | None]:
        found = ask.read(answers)
        minutes = history.per_minute([found], queue.counted_ms - HOURS_MS, queue.counted_ms)
        ended = [(at, history.flow(grown, "out"), history.flow(grown, "failed")) for at, grown in minutes]
        shares = tuple((at, failed / (done + failed)) for at, done, failed in ended if done + failed)
        return shares, usual_ms(found, queue, minutes)

    return _or_none(Ask(ask.calls, read))


def usual_ms(found: History, queue: Queue, minutes: Sequence[tuple[int, Mapping[str, int]]]) -> int | None:
    """How long a job usually waited, by the counters of minutes: those that waited then by those that went in a minute.

    Little's law (J. D. C. Little, 1961). How many were scheduled then no counter tells: as many as are now.
    """
    scheduled = queue.count_in(State.SCHEDULED)
    depths = dict(history.depths(minutes, history.waiting([queue])))
    before_ms = queue.counted_ms - 2 * WINDOW_MS
    first_ms = min(found.minutes, default=queue.counted_ms)
    waits = [
        max(0, depths[at] - scheduled) * history.MINUTE_MS / went
        for at, grown in minutes
        if first_ms <= at < before_ms and (went := history.flow(grown, "out"))
    ]
    return round(median(waits)) if len(waits) >= LEAST_MINUTES else None


LEAST_MINUTES = 10  # of work, from which on something is usual


def _is_suspect(layout: Layout, queue: Queue) -> bool:
    waits_long = (queue.oldest_ready_ms or 0) >= SUSPECT_MS
    return history.has_stats(layout) and (waits_long or any(one.kind == "failing" for one in queue.findings))


def _or_none(ask: Ask[T]) -> Ask[T | None]:
    """None where it fails: the counts go on without it."""

    def failed(error: Exception) -> None:
        log.debug("a closer look failed: %s", error)

    made: Ask[T | None] = Ask(ask.calls, ask.read)
    return apart(lambda: made, failed)


_FAILED = frozenset({"failing", "dead-grows"})  # findings that the errors of the last failures explain
_DIED = frozenset({"dead-many", "dead-share", "dead-near-cap"})  # and those of all the dead
KINDS: Mapping[str, _Kind] = {
    "faults": _Kind(INSPECT_S, INSPECTIONS, _faults_ask, _may_have_faults),
    "lately": _Kind(3_600.0, INSPECTIONS, _lately_ask, _may_fail),
    "causes": _Kind(30.0, 3, _causes_ask, _has_failures),
    "deaths": _Kind(300.0, 1, _deaths_ask, _has_deaths),
    "hours": _Kind(300.0, 1, _hours_ask, _is_suspect),
}
AT_FIRST = ("lately", "faults")  # looks that the counts alone call for
AFTERWARDS = ("causes", "deaths", "hours")  # and those that findings do


def failing_since_ms(shares: Sequence[tuple[int, float]], limit: float) -> int | None:
    """The minute since when that share of the attempts fails; None where it does not any more.

    A minute in which half as many fail does not end it: few attempts make shares that jump.
    """
    since = None
    for at, share in shares:
        if share < limit / 2:
            since = None
        elif since is None and share >= limit:
            since = at
    return since
