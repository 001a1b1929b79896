"""The shared data model of rqtui: places, jobs, queues, workers, rates and findings of one Redis server.

Everything here is immutable data and imports nothing from rqtui, redis-py or Textual. Systems create these objects from
Redis replies, the engine passes them on, and the screen and the command line show them.

Points in time end in `_ms`: milliseconds since 1970 by the clock of the Redis server. Ages and durations are
milliseconds too, and a comment says so. Ids, tokens and bodies stay bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple


class State(StrEnum):
    """The five states of a job. Every system maps its places to them; the screen shows its panes in this order."""

    SCHEDULED = "scheduled"
    READY = "ready"
    RESERVED = "reserved"
    DONE = "done"
    DEAD = "dead"


class Place(NamedTuple):
    """A Redis key, or a part of one, that holds the jobs of a queue in one state."""

    name: str  # the system's own word for the place; the scripts use it too
    state: State  # scheduled, ready, reserved, done or dead
    key: str  # a template with the placeholders `<queue>`, `<id>` and `<worker>`
    type: str  # the Redis type of the key: list, set, zset, hash, stream or string
    # The meaning of a sorted set's scores: `due s`, `deadline ms`, `since s`, or empty. Due and expired jobs are shown
    # at the first place whose meaning begins with `due` or `deadline`.
    score: str = ""
    where: str = ""  # a condition that selects a part of the key, such as `score <= now`
    has_failures: bool = True  # False: jobs here are dead but did not fail, and error reports leave them out
    is_shared: bool = False  # the key holds the jobs of all queues; only those of its queue that were read are known
    is_from_events: bool = False  # no key exists: jobs are counted from Pub/Sub events, see `EventCoverage`
    # Each job is a key of its own, named by `key` with `<id>`, and no key lists them. They are found by SCAN in bounded
    # steps, so counts and pages are a sample (`system_base/record_system.py`).
    is_key_per_job: bool = False

    @property
    def is_newest_last(self) -> bool:
        """Whether ended jobs are appended to this place, so that lists for people begin at its end."""
        return self.type == "zset" and self.state in (State.DONE, State.DEAD)


class EventCoverage(NamedTuple):
    """The period for which rqtui has received the Pub/Sub events of a system, and the events missed in it.

    Some systems publish the end of a job but store it nowhere. Jobs in such a place are counted from these events.
    """

    since_ms: int | None = None  # since when events are received; None: they are not, see `problem`
    missed_ms: int = 0  # a duration: how long the connection was lost since then
    dropped: int = 0  # messages that arrived faster than they were read
    problem: str = ""  # why no events are received
    reassigned: int = 0  # per place: jobs first counted for another queue; negative: jobs moved to another queue

    @property
    def is_complete(self) -> bool:
        """Return whether rqtui is subscribed to the Pub/Sub events of a system and has missed none of them since."""
        return self.since_ms is not None and not self.missed_ms and not self.dropped


NO_EVENT_COVERAGE = EventCoverage()


class Attempt(NamedTuple):
    """One failed run of a job. A time is 0 if the system does not store it."""

    start_ms: int
    end_ms: int
    worker: str
    error: str


class Fact(NamedTuple):
    """A property of a job or a worker that only its own system has. Facts are listed in the order they are shown.

    `kind` says how `value` is read: `text`, `json` (JSON text), `trace` (lines of a traceback), `instant` (ms since
    1970), `duration` (ms), or `ref` (the id of another job of the same system).
    """

    name: str
    value: str | bytes | int
    kind: str = "text"
    queue: str = ""  # of a `ref`: the queue of the other job; empty: the same queue


@dataclass(frozen=True, slots=True)
class Job:
    """One job of any queue system, as it was read from one place of its queue."""

    id: bytes  # unique within a page
    queue: str  # the name of the queue, without its system
    system: str  # the name of the system instance, `System.name`
    place: str  # the name of a place of the system
    state: State  # the state of that place
    member: bytes  # the value stored in the place: a list entry, or a set member
    token: bytes = b""  # proves a reservation; empty if the system has none
    name: str = ""  # the kind of job: the name of its function, task or class; groups jobs in `kinds`
    body: bytes | None = None  # None: not fetched
    body_bytes: int = 0  # the length of the body, also if it was not fetched
    enqueued_ms: int | None = None  # when the job was put
    due_ms: int | None = None  # scheduled: when the job becomes ready
    deadline_ms: int | None = None  # reserved: when the lease expires
    reserved_ms: int | None = None  # reserved: when the lease began; done: when the last one began
    since_ms: int | None = None  # ready: since when the job waits; done and dead: when it ended
    priority: int = 0  # lower first
    ttr_ms: int | None = None  # a duration: the length of a lease
    attempts: int = 0  # runs that began, the present one included
    max_attempts: int | None = None  # runs allowed in total; None: unknown or unlimited
    worker: str = ""  # who holds or held the job
    error: str = ""  # of its last failed run; errors are grouped by it
    is_cancelled: bool = False  # a person or program cancelled the job, and its worker was or will be asked to stop
    problem: str = ""  # why the record could not be read, as a sentence
    history: tuple[Attempt, ...] = ()  # its runs, the oldest first
    attempts_line: bytes = b""  # native queue, single job only: the raw value of the job in the `attempts` hash
    is_partial: bool = False  # `member` is too long for a page and is fetched before a verb acts on the job
    call: str = ""  # the function call in the body, as `tasks.add(1, 2)`; empty if there is none or it is unreadable
    facts: tuple[Fact, ...] = ()  # more labelled values, which the page of the job lists
    # Done and dead: when its last run ended, where that differs from `since_ms`. A done job without `reserved_ms` needs
    # it for `kinds`, because its `since_ms` may be the time when it is deleted.
    ended_ms: int | None = None
    waited_ms: int | None = None  # a duration: from ready to its only run so far, if the system stores both times
    ran_ms: int | None = None  # a duration: the last run of a done or dead job, if the system stores both times


class MigrationTerms(NamedTuple):
    """The settings that a job of another system needs when it is moved to the native queue.

    Attributes of `Job` itself, such as its body and its priority, are not repeated here.
    """

    attempts: int = 0  # runs that failed so far
    max_attempts: int | None = None  # runs allowed in total, failed ones included; None: the target queue's setting
    backoff_ms: int | None = None  # a duration; retry n waits min(cap, base * 2^(n - 1)); None: the target's setting
    backoff_cap_ms: int | None = None  # a duration
    losses: tuple[str, ...] = ()  # features of the job's system that the native queue lacks; a person must accept them
    obstacle: str = ""  # why the job cannot be moved at all


MAX_BACKOFF_MS = 31_622_400_000
"""The longest retry backoff of a native job: 366 days."""
MAX_ATTEMPTS = 1_000_000
"""The largest number of runs that a native job may have. Used for jobs that are retried without a limit."""


@dataclass(frozen=True, slots=True)
class Count:
    """The number of jobs in one place of a queue.

    A place without a key (`Place.is_from_events`) has a `coverage`: `count` is the number of jobs whose events arrived
    since `coverage.since_ms`. If that is None, nothing was counted, and a `count` of 0 does not mean that the place is
    empty.
    """

    place: str
    state: State
    count: int
    is_exact: bool = True  # False: estimated from a sample
    shared_total: int | None = None  # the jobs of all queues in a shared place; None: unknown, or not shared
    has_failures: bool = True  # see `Place.has_failures`
    coverage: EventCoverage | None = None  # set only for a place without a key

    @property
    def is_count_known(self) -> bool:
        """Return whether `count` is a real number of jobs.

        Jobs in a place without a key are only counted while rqtui receives Pub/Sub events.
        """
        return self.coverage is None or self.coverage.since_ms is not None


class Cause(NamedTuple):
    """A cause that several failed jobs share, in a few words, and how many of the sampled jobs failed with it."""

    text: str
    jobs: int


@dataclass(frozen=True, slots=True)
class Finding:
    """A possible problem of a queue, with its fix and the Redis keys and jobs it concerns.

    The CLI documentation lists the values of `kind`.
    """

    kind: str
    severity: str  # info | warning | critical; info needs no action and never raises an alarm
    queue: str
    text: str  # the problem, as a sentence
    remedy: str = ""  # how to fix the problem
    keys: tuple[str, ...] = ()  # the Redis keys concerned
    ids: tuple[bytes, ...] = ()  # the jobs concerned
    key: str = ""  # the keyboard key that helps, before a keymap changes it; two are separated by a space
    detail: str = ""  # shown dimmed after `text`: the cause, or the usual value
    since_ms: int | None = None  # when the problem began; None: unknown
    jobs: int = 0  # the number of jobs concerned; 0: none, or unknown
    causes: tuple[Cause, ...] = ()  # of failures, the most frequent first
    until_ms: int | None = None  # the time after which a fix comes too late; None: no such time


class Verdict(NamedTuple):
    """The health of a queue in one line: its worst finding, or `ok`."""

    severity: str = "ok"  # ok | warning | critical | unknown
    text: str = "ok"
    kind: str = ""  # of the finding
    until_ms: int | None = None  # of the finding: the time after which a fix comes too late


class Worker(NamedTuple):
    """A worker that sends heartbeats for a queue.

    A worker of several queues appears once for each of them.
    """

    name: str  # unique among the workers of a queue
    queue: str  # the queue whose workers were requested
    heartbeat_ms: int  # the last heartbeat; 0: unknown
    ttl_ms: int  # a duration: a worker without a heartbeat for longer is late
    order: str = "run"  # the instruction sent with the reply to the next heartbeat: run | quiet | stop
    pid: str = ""  # the process id
    host: str = ""  # the machine on which it runs
    started_ms: int | None = None  # when its process began
    job: bytes = b""  # the id of the job that the worker runs
    queues: tuple[str, ...] = ()  # all queues of the worker, if its system stores them
    # The system's own word for what the worker does. An empty text, `idle`, `waits` and `connected` mean that it can
    # take a job, `busy` that it has one although none is listed, and `quiet` that it takes none. Others are only shown.
    state: str = ""
    facts: tuple[Fact, ...] = ()  # more labelled values, which its page lists

    def is_late(self, now_ms: int) -> bool:
        """Return whether the last heartbeat of the worker is older than its time to live (`ttl_ms`)."""
        return now_ms - self.heartbeat_ms > self.ttl_ms


class WorkerInspection(NamedTuple):
    """What one worker reported when rqtui asked it over Pub/Sub, such as its running jobs. Redis does not store it."""

    worker: str
    at_ms: int  # when rqtui stopped waiting for replies
    waited_ms: int  # a duration
    facts: tuple[Fact, ...] = ()
    missing: tuple[str, ...] = ()  # the questions without a reply; their facts are unknown
    problem: str = ""  # why replies are missing, and what helps


class WorkerList(tuple[Worker, ...]):
    """The workers of a queue. `note` is a sentence that says so if Redis has more workers than were read."""

    note: str

    def __new__(cls, workers: Iterable[Worker], note: str = "") -> WorkerList:
        workers_read = super().__new__(cls, workers)
        workers_read.note = note
        return workers_read


class Schedule(NamedTuple):
    """A recurring job that a system enqueues again and again: what runs, in which queue, and when."""

    name: str
    system: str
    queue: str
    pattern: str  # as the system writes it: `0 3 * * *`, `every 60 s`
    call: str = ""  # the function call that will run
    next_ms: int | None = None
    last_ms: int | None = None
    owner: str = ""  # the process that enqueues the job
    enabled: bool = True
    problem: str = ""  # such as: no scheduler process runs, or the next job is missing


class KindStatistics(NamedTuple):
    """Statistics that a system itself keeps about one kind of job: runs, failures and mean duration."""

    kind: str
    processed: int  # runs, failed ones included
    failed: int
    mean_ms: int | None = None  # the mean duration of a run; None: unknown
    window_ms: int = 0  # a duration, up to now; 0: since the system began to count
    queue: str = ""  # empty: the statistics cover all queues of the system

    @property
    def failure_share(self) -> float | None:
        """The share of runs that failed, from 0 to 1, or None if there were no runs."""
        return self.failed / self.processed if self.processed else None


NO_COUNTERS: Mapping[str, int] = MappingProxyType({})


class Queue(NamedTuple):
    """A queue at one point in time: job counts, ages, cumulative counters and findings.

    This is a NamedTuple because every refresh creates one per queue, and there may be thousands: creating a frozen
    dataclass takes eight times as long.
    """

    name: str
    system: str
    counts: tuple[Count, ...] = ()
    counted_ms: int = 0
    is_paused: bool = False
    workers: int | None = 0  # None: the system stores no list of workers
    oldest_ready_ms: int | None = None  # an age
    next_due_ms: int | None = None  # a duration after counted_ms; 0 or less: overdue
    next_expiry_ms: int | None = None  # a duration after counted_ms; 0 or less: expired
    overdue: int = 0  # jobs that are due but still scheduled
    expired: int = 0  # leases past their deadline
    counters: Mapping[str, int] = NO_COUNTERS
    findings: tuple[Finding, ...] = ()
    verdict: Verdict = Verdict()
    error: str = ""  # why this queue could not be counted
    unknown: tuple[str, ...] = ()  # data that the system does not store, so that findings lack it: "failures"
    paused_ms: int | None = None  # since when the queue is paused; None: not paused, or unknown

    def count_in_place(self, place: str) -> int:
        """Return the number of the queue's jobs in `place`, or 0 if the system has no such place."""
        return next((count.count for count in self.counts if count.place == place), 0)

    def map_counts_by_place(self) -> dict[str, int]:
        """Return a dict from the name of each place to the number of the queue's jobs in it."""
        return {count.place: count.count for count in self.counts}

    def count_in_state(self, state: State) -> int:
        """Return the number of the queue's jobs in all places of `state`, such as ready or dead."""
        return sum([count.count for count in self.counts if count.state is state])

    def has_exact_counts(self, state: State) -> bool:
        """Return whether all places of `state` were counted exactly, and none was estimated from a sample."""
        return all(count.is_exact for count in self.counts if count.state is state)

    def count_failed(self) -> int:
        """Return the number of dead jobs that failed. Jobs that a person cancelled are not counted."""
        # Python 3.11 calls a function for each `State.DEAD`, and every refresh runs this for every queue.
        dead = State.DEAD
        return sum([count.count for count in self.counts if count.state is dead and count.has_failures])


class PageRecord(NamedTuple):
    """When the jobs of a recorded page were read, and how many jobs its place had then."""

    taken_ms: int
    total: int | None  # None: unknown
    is_exact: bool = True  # False: `total` is an estimate


@dataclass(frozen=True, slots=True)
class Page:
    """One page of the jobs of a place, starting `offset` jobs from the head of the place."""

    queue: str
    system: str
    place: str
    jobs: tuple[Job, ...]  # of a place without a key: the jobs of received events, the newest first
    total: int  # the number of jobs that can be listed; of a shared place, those found near its head
    is_exact: bool = True  # False: `total` counts only the jobs that were read
    offset: int = 0
    next: int | None = None  # the offset of the next page; None: there is none
    error: str = ""
    place_total: int | None = None  # the jobs in the place if only a sample can be listed; an estimate if shared
    coverage: EventCoverage | None = None  # set only for a place without a key
    record: PageRecord | None = None  # set only for a page from a recording

    @property
    def is_list_known(self) -> bool:
        """Return whether `jobs` can be trusted to list the place.

        Jobs in a place without a key are only listed while rqtui receives Pub/Sub events.
        """
        return self.coverage is None or self.coverage.since_ms is not None

    @property
    def job_count(self) -> int:
        """The number of jobs in the place of this page, including those that cannot be listed."""
        return self.total if self.place_total is None else self.place_total

    @property
    def older_jobs(self) -> int | None:
        """The jobs behind a page that lists the newest first, in a shared place those of all queues; None: none."""
        return None if self.next is None else self.total - self.next

    @property
    def scanned_entries(self) -> int:
        """The number of entries that one `System.scan_request` read, including those of other queues."""
        end = max(self.total, self.offset + len(self.jobs)) if self.next is None else self.next
        return end - self.offset


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one verb on one job, or on a whole place or queue (then `id` is empty)."""

    verb: str
    id: bytes
    word: str  # the result word of the script; rqtui itself adds `unknown` (reply lost), `not sent` and `error`
    text: str  # the explanation of `word` in the script's header
    moved: int = 0  # the number of jobs changed
    values: Mapping[str, object] = field(default_factory=dict)
    job: Job | None = None

    @property
    def is_lost(self) -> bool:
        """Return whether the script gave no result: its reply was lost, the call was not sent, or an error was raised.

        A change of many jobs stops at such an outcome.
        """
        return self.word in ("unknown", "not sent", "error")


class RecentActivity(NamedTuple):
    """The number of jobs enqueued, completed, failed and dead in a queue over the last minutes."""

    duration_ms: int = 0  # the length of the period; 0: unknown
    enqueued: int = 0  # jobs put into the queue
    completed: int = 0  # attempts that succeeded
    failed: int = 0  # attempts that failed
    dead: int = 0  # jobs that became dead
    ready_growth: int = 0  # the change in the number of ready jobs (negative: fewer)
    latest_growth: int | None = None  # the same over the last 15 to 30 seconds; None: unknown
    minute_completed: int = 0  # attempts that succeeded in the last one to two minutes
    minute_failed: int = 0  # attempts that failed in the last one to two minutes
    growing_ms: int = 0  # a duration: the time over which the next two are known, two minutes at most; 0: unknown
    growing_ready: int = 0  # the change in the number of ready jobs in that time
    growing_ended: int = 0  # jobs that completed or became dead in that time

    @property
    def failure_share(self) -> float | None:
        """The share of finished attempts that failed, from 0 to 1, or None if no attempt finished."""
        ended = self.completed + self.failed
        return self.failed / ended if ended else None


class FailedStreak(NamedTuple):
    """Failed attempts of a queue without a success between them, while attempts still come at their pace."""

    attempts: int
    since_ms: int  # when the first of them failed, by the server's clock
    last_ms: int


class Rate(NamedTuple):
    """The throughput of a queue in jobs per second in the last minute, and its recent activity.

    A queue that has been watched for less than a minute has the throughput since its first poll.
    """

    in_s: float = 0.0  # jobs enqueued per second
    out_s: float = 0.0  # jobs completed per second
    failed_s: float = 0.0  # attempts failed per second
    history: tuple[float, ...] = ()  # jobs completed per second between each two of the last polls
    due_since_ms: int | None = None  # since when the oldest due job could have been dispatched; None: none is due
    recent: RecentActivity = RecentActivity()
    usual_wait_ms: int | None = None  # the usual age of the oldest ready job before that period; None: unknown
    idle_since_ms: int | None = None  # since when ready jobs wait, none is reserved and none ends; None: not the case
    window_ms: int = 0  # a duration: the time that the rates per second cover; 0: they are unknown
    failed_streak: FailedStreak | None = None  # ten or more failed attempts in a row

    @property
    def last_out_s(self) -> float:
        """The jobs completed per second between the last two polls."""
        return self.history[-1] if self.history else 0.0

    def estimate_drain_s(self, waiting: int) -> float | None:
        """Return the seconds until `waiting` jobs are processed at this rate, or None if the queue does not shrink."""
        net = self.out_s - self.in_s
        return waiting / net if net > 0 and waiting else None


@dataclass(frozen=True, slots=True)
class Cost:
    """The load that rqtui put on Redis: commands, round trips, and the milliseconds it waited for replies."""

    commands: int = 0
    round_trips: int = 0
    ms: float = 0.0
    rtt_ms: float = 0.0  # the last measured duration of one round trip; 0: unknown

    def __sub__(self, before: Cost) -> Cost:
        """Return the load that rqtui added between the measurement `before` and this one."""
        return Cost(
            self.commands - before.commands, self.round_trips - before.round_trips, self.ms - before.ms, self.rtt_ms
        )


class Ref(NamedTuple):
    """The identity of a queue: its system and its name, because two systems may have queues of the same name."""

    system: str
    queue: str

    def __str__(self) -> str:
        return f"{self.system}:{self.queue}"


class PageSelection(NamedTuple):
    """The jobs to read for one page: a queue, one of its places, an offset, a limit, and how much of each body.

    With `is_newest_first`, the page lists the jobs of its place backwards, and `offset` counts from the end.
    """

    ref: Ref
    place: str
    offset: int = 0
    limit: int = 50
    body_bytes: int = 0
    is_newest_first: bool = False


class Focus(NamedTuple):
    """The data that a refresh must read for the current screen: queues, pages, one job, and further requests."""

    queues: tuple[Ref, ...] | None = None  # None: all queues
    pages: tuple[PageSelection, ...] = ()
    job: tuple[Ref, bytes] | None = None
    job_body_bytes: int = 65536
    requests: Mapping[str, tuple[Any, ...]] = MappingProxyType({})  # groups of `Request`s, sent in the same round trip
    is_thorough: bool = False  # run all health probes now, in two more round trips: for a single refresh


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The result of one refresh: everything that a screen draws. Read in one or two round trips."""

    taken_ms: int  # the server's clock
    queues: tuple[Queue, ...] = ()
    pages: tuple[Page, ...] = ()
    job: Job | None = None
    rates: Mapping[Ref, Rate] = field(default_factory=dict)
    cost: Cost = Cost()  # of this refresh
    results: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)  # of `Focus.requests`; a failed one: its error
    interval_cost: Cost | None = None  # of all requests of the process in the interval before; None: not measured
    refs: tuple[Ref, ...] = ()  # of `queues`, in the same order; empty: computed when needed

    def map_queues_by_ref(self) -> dict[Ref, Queue]:
        """Return the queues of the snapshot, keyed by system and name."""
        refs = self.refs or [Ref(queue.system, queue.name) for queue in self.queues]
        return dict(zip(refs, self.queues, strict=True))

    def find_queue(self, ref: Ref) -> Queue | None:
        """Return the queue of the snapshot that `ref` identifies, or None if the refresh did not read it."""
        return next((q for q in self.queues if q.name == ref.queue and q.system == ref.system), None)

    def find_page(self, ref: Ref, place: str) -> Page | None:
        """Return the page of jobs that the refresh read from a place, or None if none was requested."""
        return next((p for p in self.pages if (p.system, p.queue, p.place) == (ref.system, ref.queue, place)), None)
