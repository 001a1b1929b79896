"""What rqtui knows about a Redis at one instant, as frozen data: places, jobs, queues, workers, findings.

It imports nothing of ours, no Redis and no Textual. Layouts make these objects, the engine hands them on,
the screen and the command line show them. Instants are milliseconds since 1970 by the *server's* clock and
end in `_ms`; ages and durations are milliseconds too and say so in their comment. Bytes stay bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple


class State(StrEnum):
    """The five states every layout maps its places to; the order is that of the panes on the screen."""

    SCHEDULED = "scheduled"
    READY = "ready"
    RESERVED = "reserved"
    DONE = "done"
    DEAD = "dead"


class Place(NamedTuple):
    """A key (or a part of one) that holds jobs.

    `key` is a template with the holes `<queue>`, `<id>`, `<worker>`; `score` says what the score of a sorted
    set means (`due ms`, `due s`, or nothing); `where` narrows one key to a part of it (`score <= now`). Jobs of a place
    that is not one of `failures` are dead though they did not fail: no report of errors counts them. One that
    `is_shared` holds the jobs of all queues of its system: how many are a queue's is known as far as one looked. One
    that `is_heard` has no key: what stands there is what its system published while somebody listened (`Hearing`);
    it is not `is_shared`, though it tells of all queues.
    """

    name: str
    state: State
    key: str
    type: str
    score: str = ""
    where: str = ""
    failures: bool = True
    is_shared: bool = False
    is_heard: bool = False


class Hearing(NamedTuple):
    """Since when somebody listens to what a system publishes and keeps nowhere, and what of it was missed since.

    `since_ms` None: nobody listens, or it cannot be done: then `problem` says why. `missed_ms` is for how long since
    then nobody could hear (the link was down), `dropped` how many messages came faster than they were read. `given` is
    for a queue's place: how many of its jobs were counted for another queue when they were heard of; negative: lost so.
    """

    since_ms: int | None = None
    missed_ms: int = 0  # a duration
    dropped: int = 0
    problem: str = ""
    given: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether nothing was missed since somebody listens."""
        return self.since_ms is not None and not self.missed_ms and not self.dropped


UNHEARD = Hearing()


class Attempt(NamedTuple):
    """One failed run of a job; a system that keeps no time of it says 0."""

    start_ms: int
    end_ms: int
    worker: str
    error: str


class Fact(NamedTuple):
    """What a system knows of a job or a worker and other systems do not; they stand in the order they are shown in.

    `kind` is text, json (a text), trace (lines), instant (ms since 1970), duration (ms) or ref: the id of another job,
    which stands in `queue` of the same system (empty: in the same queue).
    """

    name: str
    value: str | bytes | int
    kind: str = "text"
    queue: str = ""


@dataclass(frozen=True, slots=True)
class Job:
    """One job where it was seen.

    `id` tells two rows apart; `member` is what stands in the place; `token` proves a reservation (empty where
    there is none). `body` is None when it was not fetched; `body_bytes` is its length all the same. `problem`
    says in words why a record could not be read. `call` is what the body asks for, as one would type it:
    `tasks.add(1, 2)`; empty where a system runs no function by name, or where that cannot be read.
    """

    id: bytes
    queue: str
    layout: str
    place: str
    state: State
    member: bytes
    token: bytes = b""
    name: str = ""
    body: bytes | None = None
    body_bytes: int = 0
    enqueued_ms: int | None = None
    due_ms: int | None = None  # scheduled: when it becomes ready
    deadline_ms: int | None = None  # reserved: when the lease expires
    reserved_ms: int | None = None  # reserved: when the lease began
    since_ms: int | None = None  # ready: since when it waits; dead: when it died; done: when it is forgotten
    priority: int = 0
    ttr_ms: int | None = None
    attempts: int = 0
    max_attempts: int | None = None
    worker: str = ""
    error: str = ""
    cancelled: bool = False
    problem: str = ""
    history: tuple[Attempt, ...] = ()
    line: bytes = b""  # native, of a job that was looked at alone: its line of attempts, as it is
    is_partial: bool = False  # `member` is too long to stand in a page: it is fetched before a verb acts on it
    call: str = ""
    facts: tuple[Fact, ...] = ()


@dataclass(frozen=True, slots=True)
class Count:
    """How many jobs a place holds; `exact` is False where it was sampled, `failures` as its `Place` says it.

    `of`: see `Place.is_shared`. `heard` is set for a place that has no key (`Place.is_heard`): `count` are the jobs
    that were heard of since `heard.since_ms`, and 0 says nothing where that is None.
    """

    place: str
    state: State
    count: int
    exact: bool = True
    of: int | None = None  # of a shared place, how many jobs of all queues stand there; None: it is not told
    failures: bool = True
    heard: Hearing | None = None

    @property
    def is_known(self) -> bool:
        """Whether the number says anything: of a heard place, whether somebody listens."""
        return self.heard is None or self.heard.since_ms is not None


class Cause(NamedTuple):
    """What several failures have in common, in a few words, and how many jobs of the sample have it."""

    text: str
    jobs: int


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is or may be wrong, in words, with the keys and the remedy (kinds: see the CLI's page).

    `text` says what is wrong, `detail` what may stand muted behind it: the cause, or what is usual. `key` is the key of
    the screen that helps, as it is before a keymap moves it; two are parted by a blank. `keys` are keys of Redis.
    """

    kind: str
    severity: str  # warning | critical
    queue: str
    text: str
    remedy: str = ""
    keys: tuple[str, ...] = ()
    ids: tuple[bytes, ...] = ()
    key: str = ""
    detail: str = ""
    since_ms: int | None = None  # the instant since when it is so; None: not known
    jobs: int = 0  # how many jobs it is about; 0: none, or not known
    causes: tuple[Cause, ...] = ()  # of failures, the most frequent first
    until_ms: int | None = None  # the instant from which on it cannot be mended any more; None: there is none


class Verdict(NamedTuple):
    """One line per queue: the worst finding, or `ok`. `until_ms` is that of the finding."""

    severity: str = "ok"  # ok | warning | critical | unknown
    text: str = "ok"
    kind: str = ""
    until_ms: int | None = None


class Worker(NamedTuple):
    """A worker that beats on a queue; `order` is what it will be told at its next beat: run, quiet, stop.

    One that works on several queues is told of by each of them: `queues` are all of them, where its system says so.
    `state` is its system's own word for what it does.
    """

    name: str
    queue: str
    beat_ms: int  # 0: nobody knows
    ttl_ms: int  # a duration: silent for longer means late
    order: str = "run"
    pid: str = ""
    host: str = ""
    started_ms: int | None = None
    job: bytes = b""
    queues: tuple[str, ...] = ()
    state: str = ""
    facts: tuple[Fact, ...] = ()

    def is_late(self, now_ms: int) -> bool:
        """Whether its last beat is too long ago."""
        return now_ms - self.beat_ms > self.ttl_ms


class Schedule(NamedTuple):
    """What a system enqueues again and again: in which queue, when, and who sees to it.

    `pattern` is as the system writes it (`0 3 * * *`, `every 60 s`); `call` is what will be run. `problem` says what is
    wrong with it in words: nobody sees to it, its next job is missing.
    """

    name: str
    layout: str
    queue: str
    pattern: str
    call: str = ""
    next_ms: int | None = None
    last_ms: int | None = None
    owner: str = ""
    enabled: bool = True
    problem: str = ""


class Figures(NamedTuple):
    """What a system itself keeps of a kind of job: how often it ran and how often it failed in the last `over_ms`.

    `processed` counts the failed ones, too. `mean_ms` is how long a run takes on the average; None: nobody knows.
    `queue` is the one they are about; empty: the system keeps one figure for all of its queues.
    """

    kind: str
    processed: int
    failed: int
    mean_ms: int | None = None
    over_ms: int = 0  # a duration, up to now; 0: since the system began to count
    queue: str = ""

    @property
    def failing(self) -> float | None:
        """The share of the runs that failed, 0 to 1; None where there was none."""
        return self.failed / self.processed if self.processed else None


NOTHING_COUNTED: Mapping[str, int] = MappingProxyType({})


class Queue(NamedTuple):
    """A queue at one instant: counts, ages (ms), cumulative counters, and what is wrong with it.

    A NamedTuple, since a thousand of them are made at a look: a frozen dataclass takes eight times as long.
    """

    name: str
    layout: str
    counts: tuple[Count, ...] = ()
    counted_ms: int = 0
    paused: bool = False
    workers: int | None = 0  # None: the system keeps no list of them
    oldest_ready_ms: int | None = None  # an age
    next_due_ms: int | None = None  # from counted_ms on; 0 or less: overdue
    next_expiry_ms: int | None = None  # from counted_ms on; 0 or less: expired
    overdue: int = 0  # due, but still scheduled
    expired: int = 0  # leases whose deadline is over
    counters: Mapping[str, int] = NOTHING_COUNTED
    findings: tuple[Finding, ...] = ()
    verdict: Verdict = Verdict()
    error: str = ""  # why this queue could not be counted
    unknown: tuple[str, ...] = ()  # what its system keeps nothing of, so that no finding can tell: "failures"
    paused_ms: int | None = None  # the instant since when it is paused; None: it is not, or nobody knows

    def count(self, place: str) -> int:
        """The number of jobs in `place`, 0 where the layout has no such place."""
        return next((count.count for count in self.counts if count.place == place), 0)

    def by_place(self) -> dict[str, int]:
        """The number of jobs in each place."""
        return {count.place: count.count for count in self.counts}

    def count_in(self, state: State) -> int:
        """The number of jobs in all places of a state."""
        return sum([count.count for count in self.counts if count.state is state])

    def is_exact(self, state: State) -> bool:
        """Whether all places of a state were counted, and not estimated from a sample."""
        return all(count.exact for count in self.counts if count.state is state)

    def count_failed(self) -> int:
        """The number of the dead jobs that failed: all but those that somebody canceled."""
        dead = State.DEAD  # Python 3.11 calls a function for it, and this is asked of each queue at each look
        return sum([count.count for count in self.counts if count.state is dead and count.failures])


@dataclass(frozen=True, slots=True)
class Page:
    """Jobs of one place, `offset` jobs from its head; `next` is the offset of the following page or None.

    `total` is how many can be listed. Where that is only a sample (a place without an order), `of` is how many stand
    there, and jobs that leave make room for others of them. Of a shared place `total` are the jobs of the queue that
    were found near its head, and `of` is about how many of them stand there where that is not all of it; where only
    those are known that were met, it is not `exact`. Of a place without a key `heard` says since when somebody listens:
    the jobs are what was heard of, the newest first.
    """

    queue: str
    layout: str
    place: str
    jobs: tuple[Job, ...]
    total: int
    exact: bool = True
    offset: int = 0
    next: int | None = None
    error: str = ""
    of: int | None = None
    heard: Hearing | None = None

    @property
    def is_known(self) -> bool:
        """Whether its jobs say anything: of a heard place, whether somebody listens."""
        return self.heard is None or self.heard.since_ms is not None

    @property
    def in_all(self) -> int:
        """How many jobs stand there, listed or not."""
        return self.total if self.of is None else self.of

    @property
    def passed(self) -> int:
        """How many entries a step of a walk (`Layout.scan_ask`) has left behind, those of other queues included."""
        end = max(self.total, self.offset + len(self.jobs)) if self.next is None else self.next
        return end - self.offset


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one act on one job (or on a place or queue: then `id` is empty).

    `word` is the script's own; `text` the header's words for it; `moved` how many jobs it changed. The words
    `unknown` (reply lost), `not sent` and `error` come from rqtui itself.
    """

    verb: str
    id: bytes
    word: str
    text: str
    moved: int = 0
    values: Mapping[str, object] = field(default_factory=dict)
    job: Job | None = None

    @property
    def is_lost(self) -> bool:
        """Whether the script gave no answer of its own: a change of many does not go on after it."""
        return self.word in ("unknown", "not sent", "error")


class Lately(NamedTuple):
    """What happened in a queue over the last minutes; `ms` is how long they were, 0 where nobody can tell."""

    ms: int = 0
    came: int = 0  # jobs that were put
    done: int = 0  # attempts that went well
    failed: int = 0  # attempts that failed
    died: int = 0  # jobs that were given up
    grew: int = 0  # by how many jobs the ready ones became more (negative: fewer)

    @property
    def failing(self) -> float | None:
        """The share of the attempts that failed, 0 to 1; None where none ended."""
        ended = self.done + self.failed
        return self.failed / ended if ended else None


class Rate(NamedTuple):
    """What goes in and out of a queue, per second, from two counts; `history` is `out_s` of the last ticks.

    `due_since_ms` is the instant since when the oldest due job could have been dispatched, as far as looks can tell;
    None where none is due, and at the first look. `lately` is the same over the last minutes, `usual_ms` how long its
    oldest ready job waited before them, None where that is not known.
    """

    in_s: float = 0.0
    out_s: float = 0.0
    failed_s: float = 0.0
    history: tuple[float, ...] = ()
    due_since_ms: int | None = None
    lately: Lately = Lately()
    usual_ms: int | None = None

    def drains_s(self, waiting: int) -> float | None:
        """Seconds until `waiting` jobs are gone at this rate; None when they are not getting fewer."""
        net = self.out_s - self.in_s
        return waiting / net if net > 0 and waiting else None


@dataclass(frozen=True, slots=True)
class Cost:
    """What was asked of Redis: commands sent, round trips, and milliseconds until the last answer was there.

    `rtt_ms` is the way there and back of one trip, as last measured; 0: not known.
    """

    commands: int = 0
    trips: int = 0
    ms: float = 0.0
    rtt_ms: float = 0.0

    def __sub__(self, before: Cost) -> Cost:
        """What came since `before`."""
        return Cost(self.commands - before.commands, self.trips - before.trips, self.ms - before.ms, self.rtt_ms)


class Ref(NamedTuple):
    """Which queue is meant: a name alone can stand in two layouts."""

    layout: str
    queue: str

    def __str__(self) -> str:
        return f"{self.layout}:{self.queue}"


class PageWish(NamedTuple):
    """A part of a place that somebody looks at."""

    ref: Ref
    place: str
    offset: int = 0
    limit: int = 50
    body_bytes: int = 0


class Focus(NamedTuple):
    """What a screen shows: the queues to count on each tick (None: all of them), the pages and the one job.

    `asks` are groups of `layout.Ask`s by name, which go along in the same round trip. Who looks once and judges by it
    is thorough: all closer looks that the queues need are taken, in two more round trips.
    """

    queues: tuple[Ref, ...] | None = None
    pages: tuple[PageWish, ...] = ()
    job: tuple[Ref, bytes] | None = None
    job_body_bytes: int = 65536
    asks: Mapping[str, tuple[Any, ...]] = MappingProxyType({})
    is_thorough: bool = False


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything a screen draws from, taken in one round trip, or two.

    `cost` is that of taking it, `spent` all that the program asked of Redis in the interval before; None: nobody
    counted. `answers` are what the focus's `asks` gave, by the same names and in the same order; of one that failed,
    the error.
    """

    taken_ms: int  # the server's clock
    queues: tuple[Queue, ...] = ()
    pages: tuple[Page, ...] = ()
    job: Job | None = None
    rates: Mapping[Ref, Rate] = field(default_factory=dict)
    cost: Cost = Cost()
    answers: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    spent: Cost | None = None
    refs: tuple[Ref, ...] = ()  # of the queues, in their order; empty: nobody told

    def by_ref(self) -> dict[Ref, Queue]:
        """The queues by what they are called."""
        refs = self.refs or [Ref(queue.layout, queue.name) for queue in self.queues]
        return dict(zip(refs, self.queues, strict=True))

    def queue(self, ref: Ref) -> Queue | None:
        """The queue that `ref` means, None where it was not counted."""
        return next((q for q in self.queues if q.name == ref.queue and q.layout == ref.layout), None)

    def page(self, ref: Ref, place: str) -> Page | None:
        """The page of that place, None where it was not asked for."""
        return next((p for p in self.pages if (p.layout, p.queue, p.place) == (ref.layout, ref.queue, place)), None)
