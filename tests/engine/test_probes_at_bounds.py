"""What the health probes read, and what they find, where one number is at a bound: `probes_at_bounds.txt` has it all.

`RQTUI_WRITE_SNAPSHOTS=1 pytest tests/engine/test_probes_at_bounds.py` writes the text; review the difference as code.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kept_text import assert_lines_match_file

from rqtui.engine.dead_sample import DeadSample, build_dead_sample_request, is_outdated
from rqtui.engine.health import activity_probes, failure_probes, run_probes
from rqtui.engine.health.probe_requests import build_newest_page_request, build_shared_place_request
from rqtui.engine.health.probe_results import (
    NO_PROBE_RESULTS,
    CompleteCauses,
    LongRun,
    OvertakenJob,
    RecentDeaths,
    RetryStorm,
    WorkerActivity,
)
from rqtui.engine.health.probes import PROBE_KINDS, Probes
from rqtui.engine.rates import Checkpoint
from rqtui.errors import UsageError
from rqtui.model import (
    Cause,
    Count,
    Fact,
    Finding,
    Job,
    KindStatistics,
    Page,
    Place,
    Queue,
    Ref,
    Schedule,
    State,
    Worker,
)
from rqtui.system_base.system import Request

KEPT = Path(__file__).with_name("probes_at_bounds.txt")
NOW_MS = 1_800_000_000_000
MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
PLACES = tuple(
    Place(name, State(name), f"any:{name}", "zset") for name in ("scheduled", "ready", "reserved", "done", "dead")
)
FIELDS = frozenset({"name", "priority", "tried", "error"})


@dataclass
class AnySystem:
    """A system whose requests need no server: the jobs, workers and statistics that they find are given."""

    jobs: Mapping[str, Sequence[Job]] = field(default_factory=dict)
    workers: Sequence[Worker] = ()
    kinds: Sequence[KindStatistics] | None = None
    ends: Sequence[tuple[int, int, int]] | None = None
    minutes: Sequence[tuple[int, str]] = ()
    places: tuple[Place, ...] = PLACES
    known_fields: frozenset[str] = FIELDS
    has_ordered_queues: bool = True
    heartbeat_event_interval_ms: int | None = None
    records_ends: bool = False
    scripts: Mapping[str, Any] = field(default_factory=dict)
    checks_schedules: bool = True
    finding_remedies: Mapping[str, str] = field(default_factory=dict)
    name: str = "any"
    read: list[str] = field(default_factory=list)  # which jobs were requested

    def page_request(self, _queue: str, place: str, offset: int, limit: int, body_bytes: int) -> Request[Page]:
        self.read.append(f"{limit} of {place} from {offset}" + (f" with {body_bytes} bytes" if body_bytes else ""))
        jobs = tuple(self.jobs.get(place, ())[offset : offset + limit])
        return Request((), lambda _replies: Page("mail", "any", place, jobs, len(jobs), offset=offset))

    def scan_request(self, queue: str, place: str, offset: int, limit: int, body_bytes: int) -> Request[Page]:
        self.read.append("scan")
        return self.page_request(queue, place, offset, limit, body_bytes)

    def workers_request(self, _queue: str) -> Request[Sequence[Worker]]:
        return Request((), lambda _replies: self.workers)

    def kinds_request(self, _queue: str) -> Request[Sequence[KindStatistics]] | None:
        kinds = self.kinds
        return None if kinds is None else Request((), lambda _replies: kinds)

    def ends_request(self, _queue: str) -> Request[Sequence[tuple[int, int, int]]] | None:
        ends = self.ends
        return None if ends is None else Request((), lambda _replies: ends)

    def build_call(self, script: str, _queue: str, args: Mapping[str, object]) -> Any:
        self.read.append(f"{script} {dict(args)}")
        return SimpleNamespace(rows=self.minutes, values={"begin_ms": self.minutes[-1][0] if self.minutes else 0})

    def is_shared(self, place: str) -> bool:
        return self.place(place).is_shared

    def place(self, name: str) -> Place:
        return next(place for place in self.places if place.name == name)

    def probe_request(self, _queue: str) -> Request[tuple[Finding, ...]]:
        return Request((), lambda _replies: ())

    def probe_interval_s(self, queue: str) -> float | None:
        return 2.0 if queue == "soon" else None

    def needs_probe(self, queue: Queue) -> bool:
        return bool(queue.expired)

    def schedules_request(self) -> None:
        return None


def send(request: Request[Any] | None) -> Any:
    """Return the result of a request whose calls are their own replies."""
    assert request is not None
    return request.parse([*request.calls])


def build_queue(system: Any = None, **counts: int) -> Queue:
    """Build a queue whose places hold so many jobs; without numbers as many as the system has."""
    jobs = system.jobs if system else {}
    places = system.places if system else PLACES
    numbers = {place.name: counts.get(place.name, len(jobs.get(place.name, ()))) for place in places}
    found = (Count(place.name, place.state, numbers[place.name], has_failures=place.has_failures) for place in places)
    return Queue("mail", "any", tuple(found), NOW_MS, workers=1)


def job(state: str, id: object = "a", **values: Any) -> Job:
    return Job(str(id).encode(), "mail", "any", state, State(state), b"", **values)


def many(number: int, state: str, **values: Any) -> list[Job]:
    return [job(state, at, **values) for at in range(number)]


def workers() -> Iterator[str]:
    def worker(age_ms: int = 0, **values: Any) -> Worker:
        return Worker("w", "mail", NOW_MS - age_ms, 5_000, **values)

    groups: dict[str, list[Worker]] = {
        "none": [],
        "late": [worker(4_999), worker(5_000), worker(5_001)],
        **{order: [worker(order=order), worker(order=order, job=b"a")] for order in ("run", "quiet", "stop")},
        **{f"state {state}": [worker(state=state)] for state in ("idle", "waits", "connected", "quiet", "busy", "odd")},
        "one order": [worker(queues=("vip", "sms", "mail", "news"))] * 2,
        "two orders": [worker(queues=("vip", "mail")), worker(queues=("mail", "vip"))],
        "one of another queue": [worker(queues=("vip", "mail")), worker(queues=("vip",))],
        "first": [worker(queues=("mail", "vip"))],
    }
    for title, group in groups.items():
        for is_ordered in (True, False):
            system: Any = AnySystem(workers=group, has_ordered_queues=is_ordered)
            yield f"{title}, {is_ordered}: {send(run_probes.build_workers_request(system, build_queue()))}"
    broken: Any = AnySystem(workers=5)  # type: ignore[arg-type]
    yield f"broken: {send(run_probes.build_workers_request(broken, build_queue()))}"


def needs() -> Iterator[str]:
    """Yield which queues need which probes."""
    full = build_queue(scheduled=3, ready=3, reserved=3, done=3, dead=3)._replace(counters={"failed": 2, "dead": 1})
    queues = {
        "full": full,
        "empty": build_queue(),
        **{f"ready {number}": build_queue(ready=number) for number in (1, 2, 59, 60, 61)},
        **{
            f"without {state}": full._replace(counts=tuple(c for c in full.counts if c.place != state))
            for state in State
        },
        **{
            f"waits {wait_ms}": full._replace(oldest_ready_ms=wait_ms)
            for wait_ms in (MINUTE_MS - 1, MINUTE_MS, MINUTE_MS + 1)
        },
        **{
            f"waits {wait_ms} without reserved": build_queue(ready=2)._replace(oldest_ready_ms=wait_ms)
            for wait_ms in (1, MINUTE_MS)
        },
        "on pause": full._replace(is_paused=True, oldest_ready_ms=MINUTE_MS),
        "without workers": full._replace(workers=0, oldest_ready_ms=MINUTE_MS),
        "with unknown workers": full._replace(workers=None, oldest_ready_ms=MINUTE_MS),
        "without counters": full._replace(counters={}),
        "without failures": full._replace(counters={"failed": 0, "dead": 0}),
        "with dead jobs counted": full._replace(counters={"failed": 0, "dead": 1}),
        "estimated": full._replace(
            counts=tuple(replace(count, is_exact=count.place != "done") for count in full.counts)
        ),
        "dead estimated": full._replace(counts=tuple(replace(c, is_exact=c.place != "dead") for c in full.counts)),
        "expired": full._replace(expired=1),
        **{
            kind: full._replace(findings=(Finding(kind, "warning", "mail", ""),))
            for kind in ("failing", "dead-grows", "dead-many", "dead-near-cap", "paused")
        },
    }
    systems: dict[str, Any] = {
        "any": AnySystem(),
        "counts minutes": AnySystem(scripts={"stats": SimpleNamespace(counters=frozenset())}),
        "keeps means": AnySystem(kinds=()),
        "stores no fields": AnySystem(known_fields=frozenset()),
        "has no order": AnySystem(has_ordered_queues=False),
        "records ends": AnySystem(records_ends=True),
        "shares a place": AnySystem(places=(*PLACES[:4], PLACES[4]._replace(is_shared=True))),
        "counts from events": AnySystem(places=(*PLACES[:4], PLACES[4]._replace(is_from_events=True))),
        "has a key per job": AnySystem(places=(*PLACES[:3], PLACES[3]._replace(is_key_per_job=True), PLACES[4])),
        "has no done jobs": AnySystem(places=(*PLACES[:3], PLACES[4])),
    }
    for title, system in systems.items():
        yield f"== {title}"
        usual = ""
        for name, queue in queues.items():
            needed = " ".join(kind for kind, probe in PROBE_KINDS.items() if probe.is_needed(system, queue))
            if needed != usual:
                yield f"{name}: {needed}"
            usual = usual or needed


def long_runs() -> Iterator[str]:
    def ended(*runs_ms: int, name: str = "charge") -> list[Job]:
        begin_ms = NOW_MS - HOUR_MS
        return [
            job("done", at, name=name, reserved_ms=begin_ms, since_ms=begin_ms + ms) for at, ms in enumerate(runs_ms)
        ]

    def running(*runs_ms: int, name: str = "charge", **values: Any) -> list[Job]:
        return [job("reserved", ms, name=name, reserved_ms=NOW_MS - ms, worker="w", **values) for ms in runs_ms]

    done = {
        "four runs": ended(*[1_000] * 4),
        "five runs": ended(*[1_000] * 5),
        "of two kinds": ended(*[1_000] * 4) + ended(*[1_000] * 4, name="refund"),
        "of 3 s": ended(*[3_000] * 6),
        "one of 21 s": ended(*[1_000] * 5, 21_000),
        "of no time": ended(*[0] * 5),
        "that ended before they began": ended(*[-1] * 5),
    }
    for title, jobs in done.items():
        lines = []
        for run_ms in (59_999, 60_000, 60_001, 62_999, 63_000, 63_001, HOUR_MS):
            system: Any = AnySystem({"done": jobs, "reserved": running(run_ms)})
            lines.append(
                f"{run_ms} {tuple(send(run_probes.build_long_run_request(system, build_queue(system))) or '')}"
            )
        yield from (f"{title}: {line}" for line in lines)
        yield f"{title}: read {system.read}"
    jobs = ended(*[1_000] * 5)
    for title, reserved in {
        "two": running(70_000, 80_000),
        "without a kind": running(70_000, name=""),
        "of another kind": running(70_000, name="refund"),
        "without a begin": [replace(running(70_000)[0], reserved_ms=None)],
        "enqueued later": running(90_000, enqueued_ms=NOW_MS - 70_000),
        "enqueued too late": running(90_000, enqueued_ms=NOW_MS - 50_000),
    }.items():
        system = AnySystem({"done": jobs, "reserved": reserved})
        yield f"{title}: {send(run_probes.build_long_run_request(system, build_queue(system)))}"
    for processed, failed, mean_ms in ((5, 0, 1_000), (5, 1, 1_000), (9, 4, 4_000), (9, 4, None), (9, 4, 0), (9, 5, 9)):
        kinds = (KindStatistics("charge", processed, failed, mean_ms),)
        found = []
        for run_ms in (60_000, 79_999, 80_000):
            system = AnySystem({"reserved": running(run_ms)}, kinds=kinds)
            found.append(tuple(send(run_probes.build_long_run_request(system, build_queue(system))) or ""))
        yield f"mean of {processed} {failed} {mean_ms}: {found}"


def orders() -> Iterator[str]:
    for ready in (1, 2, 19, 20, 21, 23, 24, 25, 100, 101):
        system: Any = AnySystem({"ready": [job("ready", at, enqueued_ms=NOW_MS + at) for at in range(ready)]})
        found = send(run_probes.build_order_request(system, build_queue(system)))
        yield f"{ready} ready: {found} {system.read}"
    waits = {
        "no times": ({}, {}),
        "the first waits longest": ({"enqueued_ms": 5}, {"enqueued_ms": 6}),
        "the second waits since now": ({"enqueued_ms": NOW_MS + 1}, {"enqueued_ms": NOW_MS}),
        "the second waits since a moment": ({"enqueued_ms": NOW_MS + 1}, {"enqueued_ms": NOW_MS - 1}),
        "the second waits longest": ({"enqueued_ms": 6}, {"enqueued_ms": 5}),
        "both wait equally": ({"enqueued_ms": 5}, {"enqueued_ms": 5}),
        "only the second has a time": ({}, {"enqueued_ms": 0}),
        "due later": ({"enqueued_ms": 7}, {"enqueued_ms": 1, "due_ms": 6}),
        "put back later": ({"enqueued_ms": 7}, {"enqueued_ms": 1, "due_ms": 3, "since_ms": 8}),
    }
    equal = [job("ready", id, enqueued_ms=9 - at // 2) for at, id in enumerate("abcd")]
    system = AnySystem({"ready": equal})
    yield f"two wait longest: {tuple(send(run_probes.build_order_request(system, build_queue(system))))}"
    for title, (first, second) in waits.items():
        jobs = [job("ready", "a", **first), job("ready", "b", priority=7, name="mail", **second)]
        for oldest_ms in (None, NOW_MS - 4, NOW_MS - 5, NOW_MS - 6):
            system = AnySystem({"ready": jobs})
            queue = build_queue(system)._replace(oldest_ready_ms=oldest_ms)
            yield f"{title}, {oldest_ms}: {tuple(send(run_probes.build_order_request(system, queue)) or '')}"


def storms() -> Iterator[str]:
    def find(jobs: Mapping[str, Sequence[Job]], queue: Queue | None = None, **options: Any) -> str:
        system: Any = AnySystem(jobs, **options)
        found = send(run_probes.build_storm_request(system, queue or build_queue(system)))
        return f"{found and tuple(found)} {system.read}"

    for state in ("scheduled", "ready", "reserved", "done", "dead"):
        for attempts in (4, 5, 6, 7):
            for age_ms in (149_999, 150_000, 150_001):
                one = job(state, name="charge", attempts=attempts, enqueued_ms=NOW_MS - age_ms)
                yield f"{state} {attempts} in {age_ms}: {find({state: [one]})}"
    for title, values in {
        "no age": {"enqueued_ms": NOW_MS},
        "one millisecond": {"enqueued_ms": NOW_MS - 1},
        "no time": {},
        "created later": {"enqueued_ms": 5, "facts": (Fact("created", NOW_MS - MINUTE_MS),)},
        "created at a text": {"enqueued_ms": NOW_MS - MINUTE_MS, "facts": (Fact("created", "yesterday"),)},
    }.items():
        yield f"{title}: {find({'ready': [job('ready', attempts=9, **values)]})}"
    tried = {"name": "charge", "attempts": 9, "enqueued_ms": NOW_MS - MINUTE_MS}
    for number in (19, 20, 21, 40):
        others = [replace(each, name="refund") for each in many(3, "scheduled", **tried)]
        yield f"{number} ready: {find({'ready': many(number, 'ready', **tried), 'scheduled': others})}"
        ended = many(number, "done", since_ms=NOW_MS - 30_000)
        yield f"1 of {number} read: {find({'ready': many(1, 'ready', **tried)}, build_queue(ready=number))}"
        yield f"none of {number} read: {find({}, build_queue(ready=number))}"
        yield f"{number} done: {find({'ready': many(1, 'ready', **tried), 'done': ended})}"
        ended = many(number, "done", since_ms=NOW_MS)
        yield f"{number} done now: {find({'ready': many(1, 'ready', **tried), 'done': ended})}"
    for age_ms in (MINUTE_MS - 1, MINUTE_MS, MINUTE_MS + 1):
        for times in ({"since_ms": NOW_MS - age_ms}, {"ended_ms": NOW_MS - age_ms, "since_ms": NOW_MS}):
            yield f"done before {age_ms} {len(times)}: " + find(
                {"ready": many(1, "ready", **tried), "done": many(20, "done", **times)}
            )
    ready, done = {"ready": many(30, "ready", **tried)}, {"done": many(30, "done", since_ms=NOW_MS - 999)}
    yield f"by due time: {find(ready, places=(PLACES[1]._replace(score='due ms'),))}"
    yield f"shared: {find(ready, places=(PLACES[1]._replace(is_shared=True),))}"
    yield f"done shared: {find({**ready, **done}, places=(PLACES[1], PLACES[3]._replace(is_shared=True)))}"
    yield f"done per key: {find({**ready, **done}, places=(PLACES[1], PLACES[3]._replace(is_key_per_job=True)))}"
    yield f"done from events: {find({**ready, **done}, places=(PLACES[1], PLACES[3]._replace(is_from_events=True)))}"
    yield f"no place for done: {find(ready, places=(PLACES[1],))}"
    for attempts in (5, 6):
        for processed, failed, window_ms in (
            (10, 8, 0),
            (10, 9, 0),
            (100, 99, 119_999),
            (100, 100, 120_000),
            (0, 0, 1),
        ):
            kinds = (
                KindStatistics("charge", processed, failed, window_ms=window_ms),
                KindStatistics("refund", 50, 45, window_ms=window_ms),
                KindStatistics("ok", 30, 0),
            )
            jobs = [*many(2, "ready", name="charge", attempts=attempts), job("ready", name="refund", attempts=6)]
            found = find({"ready": jobs}, kinds=kinds, heartbeat_event_interval_ms=1_000)
            yield f"reported {attempts} {processed} {failed} {window_ms}: {found}"
    yield f"means without events: {find(ready, kinds=())}"


def recorded_ends() -> Iterator[str]:
    def find(done: Sequence[Job], dead: Sequence[Job], counts: Mapping[str, int] | None = None) -> str:
        system: Any = AnySystem({"done": done, "dead": dead})
        numbers = {"done": len(done), "dead": len(dead), **(counts or {})}
        found = send(activity_probes.build_recorded_ends_request(system, build_queue(system, **numbers)))
        return f"{[tuple(each) for each in found]} {system.read}"

    def end_at(state: str, *ages_ms: int) -> list[Job]:
        return [job(state, age, since_ms=NOW_MS - age, reserved_ms=1) for age in ages_ms]

    for age_ms in (0, 1, MINUTE_MS - 1, MINUTE_MS, MINUTE_MS + 1, 299_999, 300_000, 300_001, HOUR_MS):
        dead = end_at("dead", MINUTE_MS, 300_000, 300_001)
        yield f"done before {age_ms}: {find(end_at('done', age_ms, age_ms), dead)}"
    for number in (9, 10, 11):
        dead = end_at("dead", *range(1, number + 1))
        yield f"{number} dead after the last done: {find(end_at('done', number + 1), dead)}"
        yield f"{number} dead, one as late as the last done: {find(end_at('done', number), dead)}"
    for size in (99, 100, 101):
        yield f"{size} dead: {find(end_at('done', 200_000), end_at('dead', *[100_000] * 100), {'dead': size})}"
        yield f"{size} done: {find(end_at('done', *[100_000] * 100), end_at('dead', 200_000), {'done': size})}"
    yield f"no done: {find([], end_at('dead', 5))}"
    yield f"no dead: {find(end_at('done', MINUTE_MS), [])}"
    yield f"without times: {find([job('done', since_ms=NOW_MS - 5)], end_at('dead', 5))}"
    yield f"with end times: {find([job('done', since_ms=NOW_MS, ended_ms=NOW_MS - 70_000)], end_at('dead', 5))}"
    ended = job("dead", since_ms=NOW_MS - 7, ended_ms=NOW_MS)
    yield f"dead with an end time: {find(end_at('done', MINUTE_MS), [ended])}"
    yield f"dead without a time: {find(end_at('done', MINUTE_MS), [job('dead'), *end_at('dead', 5)])}"
    this_ms = NOW_MS - NOW_MS % MINUTE_MS
    for ends in ((), *([(this_ms - back, 10, 3)] for back in (0, 59_999, 60_000, 60_001, 240_000, 240_001))):
        for now_ms in (this_ms, this_ms + 59_999):
            system: Any = AnySystem(ends=ends)
            queue = build_queue()._replace(counted_ms=now_ms)
            yield f"by minute {ends} {now_ms - this_ms}: " + str(
                send(activity_probes.build_recorded_ends_request(system, queue))
            )


COUNTERS = "enqueued {} acked {} rejected {} dead {} pulled 0"


def build_minutes(*rows: tuple[int, int, int, int, int]) -> list[tuple[int, str]]:
    """Build the reply of the script `stats`: the counters now, then at the start of earlier minutes."""
    this_ms = NOW_MS - NOW_MS % MINUTE_MS
    return [(this_ms - back * MINUTE_MS if at else 0, COUNTERS.format(*row)) for at, (back, *row) in enumerate(rows)]


def build_statistics(minutes: Sequence[tuple[int, str]]) -> Any:
    names = frozenset(COUNTERS.replace("{}", "").split())
    return AnySystem(minutes=minutes, scripts={"stats": SimpleNamespace(counters=names)})


def histories() -> Iterator[str]:
    """Yield what the counters per minute show: checkpoints, failed attempts in a row, shares and usual waits."""
    series = {
        "nothing": build_minutes(),
        "two minutes": build_minutes((0, 90, 40, 20, 5), (1, 80, 36, 18, 4), (2, 60, 30, 12, 2)),
        "gaps": build_minutes((0, 90, 40, 20, 5), (3, 80, 36, 18, 4), (5, 60, 30, 12, 2), (6, 50, 20, 10, 1)),
        "each minute": build_minutes(
            (0, 90, 50, 0, 0), *((back, 80 - back, 50 - back, back, 0) for back in range(1, 40))
        ),
        "empty before": build_minutes((0, 90, 20, 0, 0), *((back, 40, 20 - back, 0, 0) for back in range(9, 21))),
        "six hours": build_minutes(
            (0, 9, 9, 0, 0), *((back, 400 - back, 400 - back, 0, 0) for back in range(357, 364))
        ),
        **{
            f"{failed} failed after a success": build_minutes(
                (0, 90, 40, 20 + failed, 5), (1, 90, 40, 20 + failed - 4, 5), (3, 90, 40, 20, 5), (4, 90, 39, 20, 5)
            )
            for failed in (9, 10, 11)
        },
        **{
            f"{busy} busy minutes": build_minutes(
                (0, 3 * busy + 12, busy, 0, 0), *((back, 3 * busy + 12, busy, 0, 0) for back in range(1, 12)),
                *((11 + at, 3 * (busy - at), busy - at, 0, 0) for at in range(1, busy + 1)),
            )
            for busy in (9, 10, 11)
        },
    }  # fmt: skip
    for title, minutes in series.items():
        for scheduled in (0, 2):
            system = build_statistics(minutes)
            queue = build_queue(ready=50, scheduled=scheduled, reserved=1)
            earlier = send(activity_probes.build_checkpoint_request(system, queue))
            found = [[each[0] - NOW_MS, *each[1]] if hasattr(each, "totals") else tuple(each) for each in earlier or ()]
            yield f"{title}, {scheduled} scheduled: {found}"
            shares, wait_ms = send(failure_probes.build_failure_history_request(system, queue)) or ((), None)
            short = [(round((NOW_MS - minute_ms) / MINUTE_MS, 2), round(share, 4)) for minute_ms, share in shares]
            yield f"{title}, {scheduled} scheduled: shares {short}, usual wait {wait_ms}, {system.read}"


def deaths() -> Iterator[str]:
    def block(*ages_ms: int | None) -> tuple[Job, ...]:
        return tuple(job("dead", age, since_ms=None if age is None else NOW_MS - age) for age in ages_ms)

    old, new = DAY_MS + 1, DAY_MS
    samples = {
        "nothing": (),
        "no jobs": ((),),
        "a job without a time": ((block(5, None),),),
        "new": ((block(new, new - 1),),),
        "old": ((block(old, old + 1),),),
        "one of two": ((block(old, new),),),
        "two new blocks": ((block(new, new), block(new)),),
        "one new block of two": ((block(new, new), block(old, new)),),
        "one new block of four": ((block(new), block(old), block(old), block(old)),),
        "two new blocks of four": ((block(new), block(new, 1), block(old, new), block(old)),),
        "three new blocks of four and an empty one": ((block(new), block(1), block(2), ()),),
        "two places with one block": ((block(new),), (block(new),)),
        "two places with two blocks": ((block(new), block(1)), (block(new), block(2))),
        "a place with one block": ((block(new), block(1)), (block(new),)),
    }
    for title, places in samples.items():
        for dead in (1, 2, 3, 4, 8, 100):
            for is_ordered in (True, False):
                sample = DeadSample(Ref("any", "mail"), dead, places, is_ordered)
                found = failure_probes._count_recent_deaths(build_queue(dead=dead), sample)
                yield f"{title}, {dead} dead, {is_ordered}: {tuple(found)}"
    for dead in (1, 239, 240, 241, 1_000):
        system: Any = AnySystem({"dead": many(dead, "dead")})
        sample = send(build_dead_sample_request(system, build_queue(system)))
        yield f"sample of {dead}: {len(sample.list_jobs())} {sample.dead} {sample.is_ordered} {system.read}"
    for dead_now in (97, 98, 99, 100, 101, 102, 103):
        yield f"100 dead jobs, then {dead_now}: {is_outdated(100, dead_now)}"


def causes() -> Iterator[str]:
    def find(**jobs: Sequence[Job]) -> object:
        system: Any = AnySystem(jobs)
        return send(failure_probes.build_failure_causes_request(system, build_queue(system))), system.read

    def died(error: str, age_ms: int = 0) -> Job:
        return job("dead", error, error=error, since_ms=NOW_MS - age_ms)

    yield f"two: {find(dead=[died('A'), died('A'), died('B')])}"
    yield f"four: {find(dead=[died('A'), died('B'), died('C'), died('D')])}"
    for age_ms in (299_999, 300_000, 300_001):
        yield f"one of {age_ms}: {find(dead=[died('A', age_ms), died('B', 0)])}"
        yield f"all of {age_ms}: {find(dead=[died('A', age_ms)])}"
    yield f"retried: {find(scheduled=[job('scheduled', error='A', attempts=1), job('scheduled', error='B')])}"
    yield f"without errors: {find(dead=[died(''), died('A')])}"
    yield f"elsewhere: {find(ready=[job('ready', error='A', attempts=1)])}"
    for errors in ("A", "AA", "A  ", "A   ", " ", "AABBCD"):
        yield f"errors {list(errors)}: {failure_probes.count_causes([died(error.strip()) for error in errors])}"


def pages() -> Iterator[str]:
    for total in (None, 0, 999, 1_000, 1_001):
        for state in ("dead", "ready"):
            system: Any = AnySystem()
            queue = build_queue()._replace(counts=(Count(state, State(state), 5, shared_total=total),))
            build_shared_place_request(system, queue, Place(state, State(state), "", "zset"))
            yield f"{total} in a shared place of {state}: {system.read}"
    for number in (99, 100, 101):
        for place in (*PLACES, PLACES[3]._replace(is_from_events=True), PLACES[4]._replace(is_key_per_job=True)):
            system = AnySystem()
            build_newest_page_request(system, build_queue(**{place.name: number}), place)
            yield f"{number} in {place.name} {place.is_from_events} {place.is_key_per_job}: {system.read}"


def due() -> Iterator[str]:
    """Yield when each kind of probe is due again, and how many of a kind run at once."""
    findings = tuple(Finding(kind, "critical", "mail", "") for kind in ("failing", "dead-many"))
    system: Any = AnySystem(kinds=(), checks_schedules=False)
    statistics = replace(system, scripts={"stats": SimpleNamespace(counters=frozenset())})
    full = build_queue(ready=60, reserved=3, done=3, dead=3, scheduled=1)._replace(
        counters={"failed": 1}, findings=findings, oldest_ready_ms=MINUTE_MS, expired=1
    )
    for title, one in {"any": system, "statistics": statistics}.items():
        for name, kind in PROBE_KINDS.items():
            for queue_name in ("mail", "soon"):
                probes, ref = Probes({"any": one}), Ref("any", queue_name)
                probes.update_queue(ref, full._replace(name=queue_name))
                probes.store_results({(ref, name): None if name != "faults" else ()}, 1_000.0)
                times = [1_000 + kind.interval_s + by for by in (-0.5, 0.0, 0.5)] + [1001.5, 1002.0]
                is_due = [(ref, name) in probes.build_due_requests([ref], at_s, [name]) for at_s in times]
                yield f"{title} {name} of {queue_name}: {is_due}"
            refs = [Ref("any", f"q{number}") for number in range(60)]
            probes = Probes({"any": one})
            for number, ref in enumerate(refs):
                probes.update_queue(ref, full._replace(findings=(replace(findings[0], jobs=1 + number), findings[1])))
            for is_all in (False, True):
                found = [ref.queue for ref, _kind in probes.build_due_requests(refs, 5.0, [name], is_all=is_all)]
                yield f"{title} {name}, all {is_all}: {len(found)} {found[:2]}"
    probes = Probes({"any": replace(system, checks_schedules=True)})
    ref = Ref("any", "mail")
    probes.update_queue(ref, build_queue())
    for at_s in (0.0, 9.5, 10.0, 10.5, 20.0):
        yield f"schedules at {at_s}: {len(probes.build_due_requests([ref], at_s, ['faults']))}"
    other = Ref("any", "uncounted")
    yield f"schedules of an uncounted queue: {len(probes.build_due_requests([other], 99.0, ['faults']))}"


def schedules() -> Iterator[str]:
    def find(*found: Schedule) -> Iterator[str]:
        probes = Probes({"any": system})
        probes.update_queue(ref, build_queue())
        probes.build_due_requests([ref], 0.0, ["faults"])
        probes.store_results({(Ref("any", ""), "schedules"): found}, 0.0)
        for finding in probes.find_system_findings(ref, NOW_MS):
            text = finding.text.split(", next was due ")[0]  # the date is written in the zone of the reader
            yield f"  {text} / {finding.detail} / {finding.jobs} {finding.remedy}"
        yield f"  updated {sorted(map(str, probes.take_updated_queues()))}"

    system: Any = AnySystem()
    ref = Ref("any", "mail")

    def stopped(name: str, late_ms: int | None, **values: Any) -> Schedule:
        next_ms = None if late_ms is None else NOW_MS - late_ms
        return Schedule(name, "any", "mail", "every 60 s", next_ms=next_ms, problem="no process runs", **values)

    for late_ms in (None, 3_999, 4_000, 4_001):
        yield f"late by {late_ms}:"
        yield from find(stopped("a", late_ms))
    yield "several:"
    yield from find(stopped("a", 5_000), stopped("b", 6_000), stopped("c", 3_000), stopped("d", None))
    yield from find(stopped("a", 5_000), stopped("b", 6_000))
    yield "the same schedule runs elsewhere, or is disabled there, or is broken there too:"
    for other in (
        stopped("a", 0)._replace(problem=""),
        stopped("a", 0)._replace(problem="", enabled=False),
        stopped("a", 9_000),
        stopped("a", 0, call="x")._replace(problem=""),
    ):
        yield from find(stopped("a", 5_000), other)
    yield "of no queue:"
    yield from find(stopped("a", 5_000)._replace(queue=""))


def stored() -> Iterator[str]:
    """Yield what is known of a queue after each kind of probe found something, and after nothing or nothing more."""
    found: Mapping[str, Any] = {
        "faults": (Finding("doubled", "warning", "mail", "a job ran twice"),),
        "lately": (Checkpoint(NOW_MS - MINUTE_MS),),
        "ends": (Checkpoint(NOW_MS), Checkpoint(NOW_MS - 1)),
        "causes": (Cause("Timeout", 2),),
        "deaths": ((Cause("Card", 3),), RecentDeaths(4)),
        "workers": WorkerActivity(5, 4, 3),
        "runs": LongRun(b"a", "charge", "w", 1, 2, 3, 4),
        "order": OvertakenJob(b"a", "charge", 1, 2, 3),
        "storm": RetryStorm("charge", 20.0, 5),
        "hours": (((NOW_MS, 0.5),), 6),
    }
    full = build_queue(ready=60, reserved=3, done=3, dead=3)._replace(counters={"failed": 1}, oldest_ready_ms=MINUTE_MS)
    system: Any = AnySystem(kinds=(), scripts={"stats": SimpleNamespace(counters=frozenset())})
    ref = Ref("any", "mail")
    for kind, result in found.items():
        probes = Probes({"any": system})
        probes.update_queue(ref, full)

        def describe_results(queue: Queue, probes: Probes = probes) -> str:
            results = {
                name: value
                for name, value in probes.find_probe_results(ref, queue)._asdict().items()
                if value != getattr(NO_PROBE_RESULTS, name)
            }
            findings = [finding.text for finding in probes.find_system_findings(ref, NOW_MS)]
            return f"{results} {findings} updated {len(probes.take_updated_queues())}"

        checkpoints = probes.store_results({(ref, kind): result}, 1.0)
        yield f"{kind} found: {checkpoints} {describe_results(full)}"
        if kind != "faults":
            checkpoints = probes.store_results({(ref, kind): None}, 2.0)
            yield f"{kind} found nothing more: {checkpoints} {describe_results(full)}"
        probes.store_results({(ref, kind): result}, 3.0)
        probes.take_updated_queues()
        probes.update_queue(ref, build_queue())
        due_kinds = [each for _ref, each in probes.build_due_requests([ref], 9_999.0, PROBE_KINDS)]
        yield f"{kind} not needed any more: {describe_results(build_queue())} due {due_kinds}"
        probes.update_queue(ref, full)
        due_kinds = [each for _ref, each in probes.build_due_requests([ref], 9_999.0, PROBE_KINDS)]
        yield f"needed again: {due_kinds}"
    for dead_now in (97, 98, 102, 103):
        probes = Probes({"any": system})
        probes.store_results({(ref, "deaths"): found["deaths"]}, 1.0)
        probes.store_complete_causes(ref, CompleteCauses(100, (Cause("All", 100),)))
        updated = len(probes.take_updated_queues())
        known_causes = [
            probes.find_probe_results(ref, build_queue(dead=dead)).death_causes[0].text for dead in (dead_now, 100)
        ]
        yield f"all of 100 dead jobs were read, then {dead_now}, then 100: {known_causes} updated {updated}"


def needs_again() -> Iterator[str]:
    """Yield which probes run after one value of a queue changed, and since when its findings are."""
    system: Any = AnySystem(kinds=(), scripts={"stats": SimpleNamespace(counters=frozenset())})
    ref = Ref("any", "mail")
    finding = Finding("failing", "warning", "mail", "")
    calm = build_queue(ready=2)._replace(oldest_ready_ms=MINUTE_MS - 1)
    for title, queue in {
        "nothing": calm,
        "a long wait": calm._replace(oldest_ready_ms=MINUTE_MS),
        "a count": build_queue(ready=2, reserved=1),
        "a counter": calm._replace(counters={"failed": 3}),
        "a finding": calm._replace(findings=(finding,)),
    }.items():
        probes = Probes({"any": system})
        probes.update_queue(ref, calm)
        probes.update_queue(ref, queue)
        due_kinds = [each for _ref, each in probes.build_due_requests([ref], 1.0, PROBE_KINDS)]
        probes.update_queue(ref, calm)
        again = [each for _ref, each in probes.build_due_requests([ref], 1.0, PROBE_KINDS)]
        yield f"{title}: {due_kinds}, and back: {again}"
    dated = replace(finding, since_ms=5)
    for title, steps in {
        "seen from the start": ((0, (finding,)), (1, (finding,)), (2, (finding,))),
        "seen later": ((1, ()), (2, (finding,)), (3, (finding,)), (4, ()), (5, (finding,))),
        "dated": ((1, ()), (2, (dated,)), (3, (finding,))),
        "two kinds": ((1, ()), (2, (finding,)), (3, (finding, replace(finding, kind="paused")))),
    }.items():
        probes, since = Probes({"any": system}), []
        for counted_ms, findings in steps:
            queue = probes.update_queue(ref, calm._replace(counted_ms=counted_ms, findings=findings))
            since.append([each.since_ms for each in queue.findings])
        yield f"{title}: {since}"
    refused: Any = AnySystem()
    refused.probe_request = refuse
    probes = Probes({"any": refused})
    probes.update_queue(ref, build_queue()._replace(expired=1))
    yield f"refused: {probes.build_due_requests([ref], 1.0, ['faults']).keys()}"


def refuse(_queue: str) -> None:
    raise UsageError("no such queue")


PARTS: Sequence[Callable[[], Iterator[str]]] = (
    workers, needs, long_runs, orders, storms, recorded_ends, histories, deaths, causes, pages, due, schedules, stored,
    needs_again,
)  # fmt: skip


def test_probes_read_and_find_what_the_stored_text_says(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "rqtui.engine"):
        lines = [line for part in PARTS for line in (f"==== {part.__name__}", *part())]
    assert_lines_match_file((*lines, "==== the log", *caplog.messages), KEPT)
