"""What a recorder writes down of snapshots at the bounds of its times: `minutes_at_bounds.txt` has every batch.

`RQTUI_WRITE_SNAPSHOTS=1 pytest tests/recording/test_minutes_at_bounds.py` writes the text; review the difference as
code.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Any

from kept_text import assert_lines_match_file

from rqtui.connection.connect import ServerInfo
from rqtui.engine.rates import Totals
from rqtui.model import Cause, Cost, Count, Finding, Job, Page, PageSelection, Queue, Ref, Snapshot, State
from rqtui.recording.page_collector import PageCollector
from rqtui.recording.recorder import Accumulator
from rqtui.systems import registry

KEPT = Path(__file__).with_name("minutes_at_bounds.txt")
MAIL, SMS = Ref("native", "mail"), Ref("native", "sms")
MINUTE_MS = 60_000
START_MS = 1_800_000_000_000
FULL = Finding("memory", "critical", "", "full")


def build_queue(name: str = "mail", ready: int = 1, dead: int = 0, **more: Any) -> Queue:
    return Queue(name, "native", (Count("ready", State.READY, ready), Count("dead", State.DEAD, dead)), **more)


FAILING = Finding("failing", "warning", "mail", "9 of 9 fail", jobs=9, causes=(Cause("Timeout", 3), Cause("Card", 1)))
CALM = build_queue()
SICK = build_queue(findings=(FAILING,))


@dataclass
class Step:
    """A snapshot, when it is taken after the start (ms), and what else happens then."""

    after_ms: int
    queues: tuple[Queue, ...] = (CALM,)
    totals: Totals = Totals(5, 4, 3, 2, 1)
    warnings: Sequence[Finding] = ()
    infos: Sequence[ServerInfo] = (ServerInfo("redis", used_bytes=5, maxmemory_bytes=9, role="primary"),)
    error: str = ""  # Redis is away
    is_written: bool = True  # False: the file cannot be written
    cost: Cost = Cost(2, 1, 1.5, 0.25)


def describe(value: Any) -> str:
    """Describe a record in short: times are counted from the start."""
    if isinstance(value, tuple):
        inner = ", ".join(map(describe, value))
        return f"({inner})"
    if isinstance(value, int) and value > START_MS // 2:
        return f"@{value - START_MS}"
    return str(value)


def record(steps: Sequence[Step]) -> Iterator[str]:
    accumulator = Accumulator()
    for step in steps:
        now_ms = START_MS + step.after_ms
        if step.error:
            accumulator.add_outage(step.error, now_ms)
        else:
            queues = tuple(queue._replace(counted_ms=now_ms) for queue in step.queues)
            snapshot = Snapshot(now_ms, queues, cost=step.cost)
            accumulator.add_snapshot(snapshot, lambda _ref, step=step: step.totals, step.warnings, step.infos)
        has_records = accumulator.has_pending_records
        batch = accumulator.take_batch()
        parts = [describe(part) for part in batch[1:] if part]
        yield f"{step.after_ms}: {has_records} {' '.join(parts)}"
        if not step.is_written:
            accumulator.return_batch(batch)
    accumulator.flush_minutes()
    batch = accumulator.take_batch()
    yield f"at the end: {' '.join(describe(part) for part in batch[1:] if part)}"


def poll(*times_ms: int, **more: Any) -> list[Step]:
    return [Step(after_ms, totals=Totals(5 + at, 4 + at, 3, 2, 1), **more) for at, after_ms in enumerate(times_ms)]


SERIES = {
    "a queue at rest": [Step(ms) for ms in (0, 2_000, 14_999, 15_000, 30_000, 44_999, 60_000, 61_000)],
    "a queue at rest whose job gets older": [
        Step(ms, (build_queue(oldest_ready_ms=1 + ms),)) for ms in (0, 2_000, 14_999, 15_000, 30_000, 60_000)
    ],
    "pauses as long as polls belong together": poll(*accumulate((0, 89_999, 90_000, 90_001, 1, 59_999))),
    "a clock that is set back": poll(60_000, 61_000, 60_999, 60_999, 59_000, 61_000),
    "a finding that stays": [Step(ms, (SICK,)) for ms in (0, 4_999, 5_000, 9_999, 10_000, 60_000)],
    "a finding that is missing for a while": [
        Step(ms, (queue,))
        for ms, queue in (
            (0, SICK), (1_000, CALM), (10_999, CALM), (11_000, SICK), (12_000, CALM), (20_999, CALM), (21_000, CALM)
        )
    ],
    "a finding that becomes worse, and one that began before": [
        Step(0, (SICK,)),
        Step(1_000, (build_queue(findings=(replace(FAILING, severity="critical"),)),)),
        Step(2_000, (build_queue(findings=(FAILING, replace(FAILING, kind="dead-many", since_ms=START_MS - 5))),)),
        Step(3_000, (build_queue(findings=(replace(FAILING, kind="paused", since_ms=START_MS + 9_999),)),)),
    ],
    "warnings about the server, and an outage": [
        Step(0, warnings=(FULL,)), Step(5_000, error="nobody listens"), Step(9_000, error="nobody listens"),
        Step(10_001, error="refused"), Step(12_000), Step(21_000), Step(22_000, warnings=(FULL,)),
    ],
    "batches that cannot be written": [
        Step(ms, (SICK,), is_written=False) for ms in (0, 60_000, 120_000, 599_999, 600_000, 600_001, 660_000, 720_001)
    ],
    "a queue that is not polled for an hour": [
        Step(0, (SICK, build_queue("sms"))), Step(3_600_000), Step(3_660_000),
        Step(3_720_001, (CALM, build_queue("sms"))),
    ],
    "other places": [
        Step(0), Step(1_000, (CALM._replace(counts=CALM.counts[:1]),)), Step(2_000, (build_queue(ready=0, dead=5),)),
        Step(3_000, (CALM._replace(error="a key holds a string"),)), Step(4_000, (build_queue(is_paused=True),)),
    ],
    "workers, late jobs and estimates": [
        Step(ms, (build_queue(workers=workers, overdue=late, expired=late)._replace(
            counts=(Count("ready", State.READY, late, is_exact=late > 1), Count("dead", State.DEAD, 2))
        ),))
        for ms, workers, late in ((0, 3, 0), (1_000, 1, 1), (2_000, None, 2), (3_000, 5, 0))
    ],
    "costs with many digits": [
        Step(0, cost=Cost(2, 1, 1.2345, 0.0)), Step(60_000, cost=Cost(2, 1, 1.235, 0.12345)),
    ],
    "several nodes, and unknown memory": [
        Step(0, infos=()),
        Step(1_000, infos=(ServerInfo("redis", used_bytes=5, maxmemory_bytes=0, role="a"),) * 2),
        Step(2_000, infos=(ServerInfo("redis", used_bytes=None, maxmemory_bytes=3),), cost=Cost(1, 1, 9.876)),
        Step(92_000), Step(182_001),
    ],
}  # fmt: skip


def build_random_series(seed: int) -> list[Step]:
    random, after_ms, totals, steps = Random(seed), 0, Totals(5, 5, 5, 5, 5), list[Step]()
    for _ in range(60):
        after_ms += random.choice((1, 1_000, 2_000, 4_999, 5_000, 10_000, 15_000, 60_000, 90_001, -500))
        totals = Totals(*(each + random.choice((0, 0, 1, 3)) for each in totals[:4]), random.randrange(4))
        findings = tuple(
            replace(FAILING, kind=kind, severity=random.choice(("warning", "critical")))
            for kind in ("failing", "paused")
            if random.random() < 0.4
        )
        queues = (
            build_queue(ready=random.randrange(3), findings=findings),
            build_queue("sms", dead=random.randrange(2)),
        )
        steps.append(
            Step(
                after_ms,
                queues[: random.choice((1, 2, 2))],
                totals if random.random() < 0.7 or not steps else steps[-1].totals,
                error="away" if random.random() < 0.05 else "",
                is_written=random.random() < 0.9,
            )
        )
    return steps


def pages() -> Iterator[str]:
    """Yield which pages of jobs are requested, and which are kept, of a collector of five jobs per place."""
    systems = {"native": registry.create_system("native")}

    def job(id: int) -> Job:
        return Job(b"%d" % id, "mail", "native", "ready", State.READY, b"%d" % id)

    for read in (1, 4, 5, 6):
        for following in (None, read):
            collector = PageCollector(5)
            kept = []
            for after_ms, first in ((0, 0), (59_999, 0), (60_000, 0), (120_000, 7), (3_600_000, 7), (7_260_000, 7)):
                now_ms = START_MS + after_ms
                jobs = tuple(job(first + at) for at in range(read))
                page = Page("mail", "native", "ready", jobs, read, next=following)
                queue = build_queue(ready=read)
                snapshot = Snapshot(now_ms, (queue,), (page,))
                wanted = collector.choose_selections(replace(snapshot, pages=()), systems)
                collector.add_pages(snapshot, (PageSelection(MAIL, "ready"),))
                kept.append((after_ms, len(wanted), collector.has_pages, len(collector.take_pages())))
            yield f"{read} jobs, next {following}: {kept}"
    for number in (1, 4, 5, 6, 20, 21):
        collector = PageCollector(5)
        counts = tuple(Count(place.name, place.state, 1) for place in systems["native"].places)
        queues = tuple(Queue(f"q{at}", "native", counts) for at in range(number))
        wanted = collector.choose_selections(Snapshot(START_MS, queues), systems)
        yield f"{number} queues: {len(wanted)} {[(each.ref.queue, each.place) for each in wanted[:1]]}"


def text() -> Iterator[str]:
    for title, steps in SERIES.items():
        yield f"== {title}"
        yield from record(steps)
    for seed in range(40):
        lines = [*record(build_random_series(seed))]
        yield f"== random snapshots {seed}: #{sha256(''.join(lines).encode()).hexdigest()[:8]}"
        yield lines[-1]
    yield "== pages"
    yield from pages()


def test_records_of_snapshots_match_the_stored_text() -> None:
    assert_lines_match_file(text(), KEPT)
