"""What `Rates` computes over a series of polls: `rates_over_time.txt` has every result.

`RQTUI_WRITE_SNAPSHOTS=1 pytest tests/engine/test_rates_over_time.py` writes the text; review the difference as code.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from itertools import accumulate
from pathlib import Path
from random import Random

from kept_text import assert_lines_match_file

from rqtui.engine.rates import Checkpoint, EarlierActivity, Rates, RecordedEnds, Totals
from rqtui.model import Count, EventCoverage, FailedStreak, Queue, Ref, State

KEPT = Path(__file__).with_name("rates_over_time.txt")
MAIL = Ref("any", "mail")
START_MS = 1_800_000_000_000
YEAR_MS = 366 * 86_400_000
PAUSES_MS = (1_000, 13_999, 1, 14_999, 15_000, 15_001, 59_999, 60_000, 60_001, 299_999, 300_000, 300_001)
TIMES_MS = (*accumulate(PAUSES_MS, initial=0),)


def poll(after_ms: int, counters: dict[str, int] | None = None, **places: int) -> Queue:
    counts = tuple(Count(name, State(name), number) for name, number in places.items())
    return Queue("mail", "any", counts, START_MS + after_ms, counters=counters or {})


def add_events(queue: Queue, done: int, total: int | None, reassigned: int = 0) -> Queue:
    """Add a place for completed jobs that is counted from Pub/Sub events."""
    coverage = EventCoverage(START_MS, reassigned=reassigned)
    return queue._replace(
        counts=(*queue.counts, Count("ended", State.DONE, done, shared_total=total, coverage=coverage))
    )


def add_overdue(queue: Queue, overdue: int, due_ms: int | None) -> Queue:
    """Add overdue jobs, of which the oldest was due `due_ms` after the start by its score."""
    after_ms = queue.counted_ms - START_MS
    return queue._replace(overdue=overdue, next_due_ms=None if due_ms is None else due_ms - after_ms)


def add_canceled(queue: Queue, canceled: int) -> Queue:
    return queue._replace(counts=(*queue.counts, Count("canceled", State.DEAD, canceled, has_failures=False)))


SERIES = {
    "counters of a busy queue": [
        poll(ms, {"in": 10 * step, "out": 7 * step, "failed": 3 * step, "dead": step}, ready=20 + 2 * step)
        for step, ms in enumerate(TIMES_MS)
    ],
    "counters of a queue that rests, works and rests": [
        poll(ms, {"in": done, "out": done, "failed": 0, "dead": 0}, ready=4)
        for ms, done in zip(
            range(0, 700_000, 15_000), [*[1] * 5, *range(2, 6), *[6] * 24, 7, *[7] * 12], strict=False
        )
    ],
    "only some counters": [
        poll(0, {"in": 5}, ready=5, dead=0),
        poll(2_000, {"in": 9}, ready=6, dead=1),
        poll(4_000, {"in": 9, "failed": 3}, ready=4, dead=1),
    ],
    "counters that a purge reset": [
        poll(0, {"in": 9, "out": 8, "failed": 7, "dead": 6}, ready=1),
        poll(1_000, {"in": 0, "out": 0, "failed": 0, "dead": 0}, ready=0),
        poll(2_000, {"in": 3, "out": 2, "failed": 1, "dead": 1}, ready=0),
    ],
    "places without counters": [
        poll(0, scheduled=1, ready=10, reserved=2, dead=0),
        poll(2_000, scheduled=3, ready=10, reserved=2, dead=0),
        poll(4_000, scheduled=0, ready=8, reserved=2, dead=1),
        poll(6_000, scheduled=0, ready=8, reserved=0, dead=3),
        poll(8_000, scheduled=0, ready=9, reserved=0, dead=2),
        poll(10_000, scheduled=0, ready=9, reserved=0, dead=2),
    ],
    "places with one for completed jobs": [
        poll(0, ready=10, reserved=2, done=5, dead=0),
        poll(2_000, ready=7, reserved=3, done=7, dead=0),
        poll(4_000, ready=7, reserved=1, done=8, dead=1),
        poll(6_000, ready=9, reserved=1, done=2, dead=0),
    ],
    "canceled jobs": [
        add_canceled(poll(ms, ready=ready, done=0, dead=dead), canceled)
        for ms, ready, dead, canceled in ((0, 9, 0, 0), (1_000, 6, 1, 2), (2_000, 6, 1, 0), (3_000, 5, 1, 1))
    ],
    "a place counted from events": [
        add_events(poll(ms, ready=ready), done, total, reassigned)
        for ms, ready, done, total, reassigned in (
            (0, 100, 5, 5, 0), (2_000, 60, 5, 5, 0), (4_000, 60, 25, 25, 0), (6_000, 80, 45, 45, 0),
            (8_000, 80, 50, 50, 0), (10_000, 70, 50, 50, 0), (12_000, 65, 50, 50, 0), (310_000, 65, 62, 62, 0),
            (312_000, 65, 65, 65, 0), (314_000, 65, 75, 80, 10), (316_000, 65, 60, 80, -5),
        )
    ],
    "a place whose events nobody receives": [
        add_events(poll(ms, ready=ready), 0, total)
        for ms, ready, total in ((0, 100, None), (2_000, 60, None), (4_000, 70, 0), (6_000, 50, 0))
    ],
    "a place whose first event comes after jobs left": [
        add_events(poll(ms, ready=ready), done, done)
        for ms, ready, done in (
            (0, 100, 0),
            (2_000, 60, 0),
            (4_000, 70, 0),
            (6_000, 60, 20),
            (8_000, 80, 30),
            (10_000, 80, 60),
        )
    ],
    "events that come as late as they are waited for": [
        add_events(poll(ms, ready=ready), done, done)
        for ms, ready, done in ((0, 9, 1), (1_000, 5, 1), (301_000, 5, 2), (301_001, 5, 3), (302_000, 8, 3))
    ],
    "ready jobs that nobody takes": [
        poll(ms, {"in": 5, "out": out}, ready=ready, reserved=reserved)
        for ms, out, ready, reserved in (
            (0, 1, 4, 0), (5_000, 1, 4, 0), (6_000, 1, 3, 1), (7_000, 1, 3, 0), (8_000, 2, 3, 0),
            (9_000, 2, 3, 0), (10_000, 2, 0, 0), (11_000, 2, 1, 0), (12_000, 2, 1, 0),
        )
    ],
    "two polls at one time": [poll(ms, {"in": ms // 100}, ready=2) for ms in (0, 1_000, 1_000, 2_000)],
    **{
        f"a job that was due {-first_ms} ms before the first poll": [
            add_overdue(poll(ms, {"dispatched": dispatched}, scheduled=3), overdue, due_ms)
            for ms, overdue, due_ms, dispatched in (
                (0, 1, first_ms, 0), (2_000, 1, first_ms, 0), (4_000, 2, first_ms, 0), (6_000, 1, first_ms, 0),
                (8_000, 1, first_ms, 1), (10_000, 1, 9_000, 1), (12_000, 1, 9_500, 1), (14_000, 0, None, 1),
                (16_000, 1, 3_000, 1), (18_000, 1, None, 1), (20_000, 1, 19_000, 1),
            )
        ]
        for first_ms in (0, -1, 1 - YEAR_MS, -YEAR_MS, -YEAR_MS - 1)
    },
    "the age of the oldest ready job, minute by minute": [
        poll(minute * 60_000, ready=1)._replace(oldest_ready_ms=None if minute == 3 else minute * 1_000)
        for minute in range(80)
    ],
}  # fmt: skip
SERIES["the next ready job changes by 49, 50 and 51 ms"] = [
    poll(ms, {"in": 5, "out": 1}, ready=3)._replace(oldest_ready_ms=ms - head_ms)
    for ms, head_ms in ((1_000, 500), (2_000, 549), (3_000, 599), (4_000, 650), (5_000, 650), (6_000, 649))
]
CHECKPOINTS_MS = (-300_000, -1, 0, 1)


def describe(series: list[Queue], rates: Rates) -> Iterator[str]:
    for queue in series:
        after_ms = queue.counted_ms - START_MS
        rate = rates.compute_rate(MAIL, queue, after_ms / 1000)
        due, idle = (None if at_ms is None else at_ms - START_MS for at_ms in (rate.due_since_ms, rate.idle_since_ms))
        speeds = " ".join(f"{speed:.4f}" for speed in (rate.in_s, rate.out_s, rate.failed_s))
        throughput = " ".join(f"{speed:.2f}" for speed in rate.history[-3:])
        recent = " ".join(map(str, rate.recent))
        row = (
            f"{after_ms}: {speeds}, last {len(rate.history)} [{throughput}], due {due}, idle {idle}, "
            f"usual wait {rates.find_usual_wait_ms(MAIL)}, recent {recent}, in {rate.window_ms}"
        )
        if streak := rate.failed_streak:
            row += (
                f", {streak.attempts} failed in a row since {streak.since_ms - START_MS} to {streak.last_ms - START_MS}"
            )
        yield row


def fail_often(*polls: tuple[int, int, int]) -> list[Queue]:
    """Build polls from (time in ms, completed, failed)."""
    return [poll(ms, {"in": 99, "out": out, "failed": failed, "dead": 0}, ready=5) for ms, out, failed in polls]


SERIES |= {
    f"{failed} failed attempts in a row, then none for {pause_ms} ms": fail_often(
        (0, 1, 0), (1_000, 2, 1), (2_000, 2, 2), (9_000, 2, failed), (9_000 + pause_ms, 2, failed),
        (9_001 + pause_ms, 2, failed + 1), (9_002 + pause_ms, 3, failed + 2), (9_003 + pause_ms, 3, failed + 20),
        (9_004 + pause_ms, 3, failed), (9_005 + pause_ms, 3, failed + 9),
    )
    for failed, pause_ms in ((9, 1_000), (10, 1_000), (11, 299_999), (11, 300_000), (11, 300_001))
} | {
    "failed attempts that come every ten minutes": fail_often(
        *((number * 600_000, 1, number) for number in range(14)), (9_000_000, 1, 13), (9_000_001, 1, 13)
    )
}  # fmt: skip


def build_random_series(seed: int) -> list[Queue]:
    """Build polls at random times with random counts, of which many are 0 or as before."""
    random, after_ms, series = Random(seed), 0, list[Queue]()
    counters = dict.fromkeys(("in", "out", "failed", "dead"), 5)
    names = random.choice((("in", "out", "failed", "dead"), ("in", "out"), ("failed",), ()))
    has_done, has_events, most = random.random() < 0.5, random.random() < 0.3, random.choice((1, 3, 30))
    places = dict.fromkeys(("scheduled", "ready", "reserved", "dead", *(["done"] if has_done else [])), 10)
    for _ in range(60):
        after_ms += random.choice((*PAUSES_MS, 2_000, 2_000, 15_000))
        for name in counters:
            counters[name] += random.choice((0, 0, 1, most)) * (random.random() < 0.7)
        if random.random() < 0.03:
            counters = dict.fromkeys(counters, 0)
        for name in places:
            places[name] = max(0, places[name] + random.choice((0, 0, 0, 1, -1, most, -most)))
        queue = poll(after_ms, {name: counters[name] for name in names}, **places)
        if has_events:
            queue = add_events(queue, counters["out"], random.choice((None, 0, counters["out"])), random.choice((0, 2)))
        if random.random() < 0.5:
            queue = queue._replace(oldest_ready_ms=random.choice((None, 0, 50, 51, after_ms)))
        if random.random() < 0.3:
            queue = add_overdue(queue, random.choice((0, 1, 2)), random.choice((None, 0, after_ms - 1, after_ms)))
        series.append(queue)
    return series


EARLIER: tuple[EarlierActivity, ...] = (
    Checkpoint(START_MS - 60_000, Totals(1, 1, 1, 1, 5)),
    RecordedEnds(START_MS - 60_000, 3, 2),
    RecordedEnds(START_MS - 240_000, 30, 20, is_final=False),
    RecordedEnds(START_MS + 1, 3, 2),
    FailedStreak(9, START_MS - 5, START_MS),
    FailedStreak(10, START_MS - 600_000, START_MS - 300_000),
    FailedStreak(40, START_MS - 600_000, START_MS),
)


def text() -> Iterator[str]:
    yield "time in ms: enqueued, completed and failed per second, throughput of the last polls, due since, idle since,"
    yield "usual wait, the fields of the recent activity, and the time that the rates cover"
    for title, series in SERIES.items():
        yield f"== {title}"
        yield from describe(series, Rates())
    for before_ms in CHECKPOINTS_MS:
        yield f"== a checkpoint of {before_ms} ms is added after two polls"
        rates, series = Rates(), SERIES["counters of a busy queue"]
        yield from describe(series[:2], rates)
        added, _streak = rates.add_earlier_activity(
            MAIL, Checkpoint(START_MS + before_ms, Totals(-100, -70, -30, -10, ready=15))
        )
        yield f"recent {' '.join(map(str, added))}"
        yield from describe(series[2:], rates)
    for earlier in EARLIER:
        yield f"== added after the first poll: {type(earlier).__name__} {tuple(earlier)}"
        failing = "11 failed attempts in a row, then none for 300000 ms"
        for title in ("counters of a busy queue", "places without counters", failing):
            rates, series = Rates(), SERIES[title]
            first = [*describe(series[:1], rates)]
            yield f"{title}: {rates.add_earlier_activity(MAIL, earlier)}"
            lines = [*first, *describe(series[1:], rates)]
            yield f"{lines[1]} #{sha256(''.join(lines).encode()).hexdigest()[:8]}"
    for attempts in (10, 11, 12):
        rates, series = Rates(), SERIES["11 failed attempts in a row, then none for 300000 ms"]
        lines = [*describe(series[:5], rates)]
        yield f"== {attempts} failed attempts are added after 11 were seen"
        yield f"{rates.add_earlier_activity(MAIL, FailedStreak(attempts, START_MS - 5, START_MS))}"
    rates = Rates()
    lines = [*describe([poll(0, ready=1), poll(20_000, ready=1)], rates)]
    yield f"== an idle queue: {rates.add_earlier_activity(MAIL, EARLIER[4])} {rates.find_totals(MAIL)}"
    yield f"of no queue: {rates.find_totals(Ref('any', 'none'))} {rates.find_usual_wait_ms(Ref('any', 'none'))}"
    for seed in range(60):
        lines = [*describe(build_random_series(seed), Rates())]
        yield f"== random series {seed}: #{sha256(''.join(lines).encode()).hexdigest()[:8]}"
        yield lines[-1]


def test_rates_over_a_series_of_polls_match_the_stored_text() -> None:
    assert_lines_match_file(text(), KEPT)


def test_idle_queues_with_the_same_history_share_one_rate() -> None:
    rates, other = Rates(), Ref("any", "other")
    for ms in (0, 1_000, 2_000, 400_000):
        first, second = (rates.compute_rate(ref, poll(ms, {"in": 1}), ms / 1000) for ref in (MAIL, other))
        assert first is second
    busy = rates.compute_rate(MAIL, poll(401_000, {"in": 2}), 401.0)
    assert busy is not rates.compute_rate(other, poll(401_000, {"in": 1}), 401.0)
    assert MAIL in rates and Ref("any", "nosuch") not in rates
