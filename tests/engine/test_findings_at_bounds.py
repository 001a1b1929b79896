"""The findings of one queue where one number is at a bound: `findings_at_bounds.txt` has them all.

`RQTUI_WRITE_SNAPSHOTS=1 pytest -m "" tests/engine/test_findings_at_bounds.py` writes the text; review the
difference as code.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import pytest

from rqtui.config.thresholds import DEFAULTS, Limit, Thresholds
from rqtui.connection.connect import ServerInfo
from rqtui.engine.health import evaluation, rules, server_rules
from rqtui.engine.health.probe_results import (
    LongRun,
    OvertakenJob,
    ProbeResults,
    RecentDeaths,
    RetryStorm,
    WorkerActivity,
    find_failing_since_ms,
)
from rqtui.engine.health.urgency import compute_queue_urgency, compute_urgency_step
from rqtui.model import Cause, Count, EventCoverage, FailedStreak, Finding, Queue, Rate, RecentActivity, State

KEPT = Path(__file__).with_name("findings_at_bounds.txt")
NOW_MS = 1_800_000_000_000
BOUNDS = (0, 1, 10, 100, 1_000, 5_000, 60_000, 300_000, 14_400_000)
NUMBERS = sorted({bound + by for bound in BOUNDS for by in (-1, 0, 1)})
QUEUE = Queue("mail", "any", tuple(Count(state.value, state, 20) for state in State), NOW_MS, workers=2)
BUSY = RecentActivity(300_000, enqueued=500, completed=400)


class Situation(NamedTuple):
    """All that the rules know about one queue."""

    queue: Queue = QUEUE
    rate: Rate = Rate(recent=BUSY)
    limits: Thresholds = DEFAULTS
    results: ProbeResults = ProbeResults()


def build_queue(**counts: int) -> Queue:
    return QUEUE._replace(counts=tuple(Count(state.value, state, counts.get(state.value, 20)) for state in State))


def active(**numbers: int) -> Rate:
    return Rate(out_s=1.0, recent=BUSY._replace(**numbers))


CAUSES = (Cause("CardDeclined", 3), Cause("Timeout", 1))
SITUATIONS = {
    "idle": Situation(rate=Rate()),
    "failing": Situation(
        rate=active(failed=100), results=ProbeResults(CAUSES, failure_shares=((NOW_MS - 60_000, 0.5),))
    ),
    "dead": Situation(build_queue(dead=2_000), results=ProbeResults(death_causes=CAUSES)),
    "near its cap": Situation(build_queue(dead=90)._replace(counters={"dead_max": 100, "failed": 90})),
    "dying": Situation(rate=active(dead=50)),
    "not reaped": Situation(QUEUE._replace(expired=3, next_expiry_ms=-60_000)),
    "not dispatched": Situation(QUEUE._replace(overdue=3, next_due_ms=-60_000), Rate(due_since_ms=NOW_MS - 40_000)),
    "due since long": Situation(QUEUE._replace(overdue=1, next_due_ms=-60_000)),
    "without workers": Situation(QUEUE._replace(workers=0, oldest_ready_ms=30_000), Rate()),
    "waiting": Situation(QUEUE._replace(oldest_ready_ms=400_000), Rate(out_s=1.0)),
    "waiting for longer than usual": Situation(QUEUE._replace(oldest_ready_ms=400_000), Rate(usual_wait_ms=50_000)),
    "growing": Situation(build_queue(ready=6_000), active(growing_ms=120_000, growing_ready=3_000)),
    "growing with own limits": Situation(
        build_queue(ready=6_000),
        active(growing_ms=120_000, growing_ready=3_000),
        DEFAULTS._replace(backlog=Limit(1, 2), waiting=Limit(1, 1000)),
    ),
    "paused": Situation(QUEUE._replace(is_paused=True, paused_ms=NOW_MS - 60_000)),
    "broken": Situation(QUEUE._replace(error="a key holds a string", counts=())),
    "found by its system": Situation(
        QUEUE._replace(findings=(Finding("silent-leases", "warning", "mail", "3 leases", jobs=3, until_ms=NOW_MS + 1),))
    ),
}

# What probes found: the numbers of their results vary, and nothing else.
PROBED = {
    "idle workers": Situation(
        build_queue(reserved=0, ready=3)._replace(oldest_ready_ms=15_000),
        Rate(idle_since_ms=NOW_MS - 15_000),
        results=ProbeResults(workers=WorkerActivity(2, 1, 0)),
    ),
    "a long run": Situation(results=ProbeResults(long_run=LongRun(b"a", "charge", "w", NOW_MS - 60_000, 1_000, 5, 1))),
    "a job that others overtake": Situation(
        build_queue(ready=9), results=ProbeResults(overtaken=OvertakenJob(b"a", "charge", 5, NOW_MS - 400_000, 8))
    ),
    "a queue that others overtake": Situation(
        QUEUE._replace(oldest_ready_ms=400_000),
        results=ProbeResults(workers=WorkerActivity(2, 0, 0, ("vip", "sms", "news", "other"))),
    ),
    "a storm of retries": Situation(
        rate=Rate(recent=BUSY._replace(duration_ms=60_000)), results=ProbeResults(storm=RetryStorm("charge", 20.0, 5))
    ),
    "dead jobs of a day": Situation(build_queue(dead=2_000), results=ProbeResults(recent_deaths=RecentDeaths(100))),
    "failed attempts in a row": Situation(
        rate=Rate(failed_streak=FailedStreak(10, NOW_MS - 60_000, NOW_MS), recent=RecentActivity(60_000, failed=5))
    ),
}
FEW = (0, 1, 2, 3, 4, 5, 9, 10, 11, 999, 1_000, 1_001, 1_999, 2_000, 2_001)
PERIODS_MS = (0, 999, 1_000, 1_001, 4_999, 5_000, 14_999, 15_000, 15_001, 60_000, 300_000, 366 * 86_400_000)


def vary_results(given: Situation) -> Iterator[tuple[str, str, Situation]]:
    """Yield situations in which a probe found another number, the part that it is in, and the number."""
    yield "as it is", "", given
    for name, result in given.results._asdict().items():
        for field in getattr(result, "_fields", ()):
            value = getattr(result, field)
            numbers: tuple[object, ...] = FEW
            if isinstance(value, bool):
                numbers = (True, False)
            elif field.endswith("_ms"):
                numbers = tuple(value + by for by in (-1, 0, 1)) + (
                    tuple(NOW_MS - ms for ms in PERIODS_MS) if value > 10**12 else PERIODS_MS
                )
            elif field == "per_minute":
                numbers = (9.9, 10, 10.1, 10.5, 999.5)
            elif field == "done_per_minute":
                numbers = (None, 0.0, 1.0, 20.0)
            elif not isinstance(value, int):
                numbers = (value[:0], value[:1])
            for number in numbers:
                other = given.results._replace(**{name: result._replace(**{field: number})})
                yield f"{name} {field}", str(number), given._replace(results=other)
    for number in FEW:
        for state in ("ready", "reserved"):
            counts = tuple(replace(c, count=number) if c.place == state else c for c in given.queue.counts)
            yield f"count {state}", str(number), given._replace(queue=given.queue._replace(counts=counts))
        yield "workers", str(number), given._replace(queue=given.queue._replace(workers=number))
        if streak := given.rate.failed_streak:
            other_rate = given.rate._replace(failed_streak=streak._replace(attempts=number))
            yield "streak", str(number), given._replace(rate=other_rate)
        recent = given.rate.recent._replace(completed=number)
        yield "completed", str(number), given._replace(rate=given.rate._replace(recent=recent))
    for ms in PERIODS_MS:
        yield "idle since", str(ms), given._replace(rate=given.rate._replace(idle_since_ms=NOW_MS - ms))
        yield "oldest ready", str(ms), given._replace(queue=given.queue._replace(oldest_ready_ms=ms))
        recent = given.rate.recent._replace(duration_ms=ms)
        yield "duration", str(ms), given._replace(rate=given.rate._replace(recent=recent))
    for name in ("is_paused", "error"):
        changed = given.queue._replace(**{name: name == "is_paused" or "a key holds a string"})
        yield name, "other", given._replace(queue=changed)
    for kind in ("at-limit", "rate-limited", "worker-gone", "no-consumer"):
        finding = Finding(kind, "warning", "mail", "found by the system", ids=(b"a",) if kind == "worker-gone" else ())
        yield "also found", kind, given._replace(queue=given.queue._replace(findings=(finding,)))


# Several numbers that together are at a bound: failed and completed attempts, growth and its time.
TOGETHER = [
    *({"completed": completed, "failed": failed, "dead": 0} for completed, failed in (
        (8, 1), (9, 1), (8, 2), (7, 2), (0, 10), (81, 19), (80, 20), (79, 21), (71, 29), (70, 30), (69, 31), (50, 50)
    )),
    *({"completed": 50, "failed": 50, "minute_completed": good, "minute_failed": bad} for good, bad in (
        (10, 0), (9, 0), (0, 9), (0, 10), (3, 7), (2, 8), (4, 6), (9, 1), (29, 71), (31, 69)
    )),
    *({"completed": completed, "dead": dead} for completed, dead in (
        (990, 10), (991, 10), (989, 10), (4_950, 50), (4_951, 50), (0, 1), (99, 1), (0, 10), (0, 100)
    )),
    *({"growing_ms": ms, "growing_ready": ready, "growing_ended": ended} for ms, ready, ended in (
        (59_999, 600, 0), (60_000, 600, 0), (60_000, 599, 0), (60_000, 60, 0), (60_000, 59, 0), (60_000, 61, 60),
        (120_000, 1_200, 60), (120_000, 1_199, 60), (120_000, 1_194, 120), (120_000, 500, 1_200), (100_000, 995, 994)
    )),
    *({"growing_ms": 60_000, "growing_ready": 600, "latest_growth": latest} for latest in (-1, 0, 1)),
]  # fmt: skip


def combine() -> Iterator[str]:
    """Yield the findings of a queue with workers that has these numbers together."""
    for numbers in TOGETHER:
        for ready, reserved, workers in ((6_000, 2, 2), (59, 2, 3), (60, 0, 1), (61, 0, None)):
            queue = build_queue(ready=ready, reserved=reserved, dead=100)._replace(workers=workers)
            rate = Rate(recent=RecentActivity(60_000)._replace(**numbers))
            found, _whole = describe_findings(Situation(queue, rate))
            texts = [finding.text for finding in rules.attach_findings(queue, rate).findings]
            unwatched = rules.find_unwatched_facts(queue, rate)
            yield f"{numbers} {ready} {reserved} {workers}: {found} {texts} {unwatched}"


def attach_idle() -> Iterator[str]:
    """Yield whether a single command that watched a queue for some time reports idle workers."""
    given = PROBED["idle workers"]
    for watched_ms in (4_999, 5_000, 5_001):
        for oldest_ms in (None, 14_999, 15_000, 15_001):
            queue = given.queue._replace(oldest_ready_ms=oldest_ms)
            rate = given.rate._replace(idle_since_ms=NOW_MS - watched_ms)
            found = rules.attach_idle_workers(queue, rate, given.results)
            yield f"watched for {watched_ms}, waits {oldest_ms}: {found.verdict.text}"


def unknown() -> Iterator[str]:
    """Yield what is unknown of a queue by the time since when it is watched, and how long an evaluation is valid."""
    for since_ms in (None, 3_599_999, 3_600_000, 3_600_001):
        coverage = EventCoverage(None if since_ms is None else NOW_MS - since_ms)
        queue = QUEUE._replace(counts=(Count("done", State.DONE, 1, coverage=coverage),))
        yield f"events since {since_ms}: {rules._find_unknown_facts(queue, Rate(), None)}"
    for watched_ms in (999, 1_000, 1_001):
        yield f"idle for {watched_ms}: growth known {rules._is_growth_known(RecentActivity(watched_ms))}"
    cached = evaluation._CachedEvaluation(Rate(), 1_000)
    for previous_ms, age_ms in ((500, 500), (500, 999), (500, 1_000), (500, 499), (None, None), (500, None)):
        previous = QUEUE._replace(oldest_ready_ms=previous_ms)
        queue = QUEUE._replace(oldest_ready_ms=age_ms, counted_ms=NOW_MS + (age_ms or 0) - (previous_ms or 0))
        is_valid = evaluation._is_evaluation_valid(cached, previous, queue, Rate())
        yield f"the oldest job waits {previous_ms}, then {age_ms}: valid {is_valid}"


def server_memory() -> Iterator[str]:
    """Yield the findings about the memory of a server."""
    for max_bytes in (None, 0, 1_000):
        for used_bytes in (None, 0, 899, 900, 901, 999, 1_000, 1_001):
            info = ServerInfo("redis", used_bytes=used_bytes, maxmemory_bytes=max_bytes, policy="allkeys-lru")
            found = [f"{finding.severity} {finding.text}" for finding in server_rules.check_server_info(info)]
            yield f"{used_bytes} of {max_bytes} bytes: {found}"


def variations(given: Situation) -> Iterator[tuple[str, str, Situation]]:
    """Yield situations with another number, the part that it is in, and the number."""
    yield "as it is", "", given
    for name in ("workers", "oldest_ready_ms", "next_due_ms", "next_expiry_ms", "overdue", "expired", "paused_ms"):
        for number in (None, *NUMBERS, *(-each for each in NUMBERS if each > 1)):
            if number is not None or name not in ("overdue", "expired"):
                yield name, str(number), given._replace(queue=given.queue._replace(**{name: number}))
    for at, count in enumerate(given.queue.counts):
        for number in NUMBERS[1:]:
            counts = [*given.queue.counts]
            counts[at] = replace(count, count=number)
            yield f"count {count.place}", str(number), given._replace(queue=given.queue._replace(counts=tuple(counts)))
        counts[at] = replace(count, is_exact=False)
        yield f"count {count.place}", "estimated", given._replace(queue=given.queue._replace(counts=tuple(counts)))
    for name in RecentActivity._fields:
        for number in (
            *NUMBERS,
            *(-each for each in NUMBERS if each > 1 and name in ("ready_growth", "growing_ready")),
        ):
            if number >= 0 or name in ("ready_growth", "growing_ready"):
                recent = given.rate.recent._replace(**{name: number})
                yield f"recent {name}", str(number), given._replace(rate=given.rate._replace(recent=recent))
    for ago in (None, *NUMBERS):
        since = None if ago is None else NOW_MS - ago
        yield "due since", str(ago), given._replace(rate=given.rate._replace(due_since_ms=since))
        yield "usual wait", str(ago), given._replace(rate=given.rate._replace(usual_wait_ms=ago))
        yield "usual wait by the hour", str(ago), given._replace(results=given.results._replace(usual_wait_ms=ago))
    for name in ("is_paused", "workers"):
        yield (
            name,
            "False",
            given._replace(queue=given.queue._replace(**{name: False if name == "is_paused" else None})),
        )
    yield "is_paused", "True", given._replace(queue=given.queue._replace(is_paused=True))


def describe_findings(given: Situation) -> tuple[str, str]:
    """Describe findings in one short line, then with all their fields."""
    result = rules.attach_findings(*given)
    found = ", ".join(f"{one.severity} {one.kind}" for one in result.findings) or "no finding"
    until = rules.compute_valid_until_ms(result, *given[1:])
    sentences = [rules.format_finding(one, NOW_MS) for one in result.findings]
    unwatched = rules.find_unwatched_facts(given.queue, given.rate)
    urgency = compute_queue_urgency(result)
    whole = repr((result.findings, result.verdict, result.unknown, until, urgency, sentences, unwatched))
    return found, without_moments(whole)


def without_moments(text: str) -> str:
    """Replace dates and times, which are written in the zone and by the date of the reader."""
    return re.sub(r"(?<= )since [^,'\"]+", "since <moment>", text)


def text() -> Iterator[str]:
    for title, arguments in (*SITUATIONS.items(), *PROBED.items()):
        result = rules.attach_findings(*arguments)
        yield f"== {title}: {without_moments(result.verdict.text)}, weight step {compute_urgency_step(result)}"
        lines: dict[str, dict[str, list[str]]] = {}
        wholes: dict[str, list[str]] = {}
        for part, number, other in (vary_results if title in PROBED else variations)(arguments):
            found, whole = describe_findings(other)
            lines.setdefault(part, {}).setdefault(found, []).append(number)
            wholes.setdefault(part, []).append(whole)
        for part, outcomes in lines.items():
            if {*wholes[part]} == {*wholes["as it is"]} and part != "as it is":
                continue  # this number is no matter here
            actual_text = "; ".join(f"{found} ({' '.join(numbers)})" for found, numbers in outcomes.items())
            yield f"{part}: {actual_text} #{sha256(''.join(wholes[part]).encode()).hexdigest()[:8]}"
    yield from combine()
    yield from attach_idle()
    yield from unknown()
    yield from server_memory()


@pytest.mark.slow
def test_findings_begin_and_end_at_the_numbers_of_the_stored_text() -> None:
    lines = [*text()]
    if os.environ.get("RQTUI_WRITE_SNAPSHOTS"):
        KEPT.write_text("\n".join(lines) + "\n", "utf-8")
    assert lines == KEPT.read_text("utf-8").splitlines()


@pytest.mark.parametrize(
    ("skew_ms", "rtt_ms", "words"),
    [
        (999, 0, ""), (1000, 0, "1 s ahead of"), (-1000, 0, "1 s behind"), (1400, 802, ""), (1400, 800, "1 s ahead of"),
        (119_400, 0, "119 s ahead"), (120_000, 0, "2 min ahead"),
    ],
)  # fmt: skip
def test_a_skew_of_clocks_is_reported_from_a_second_beyond_half_a_round_trip(
    skew_ms: float, rtt_ms: float, words: str
) -> None:
    findings = server_rules.check_clock_skew(skew_ms, rtt_ms)
    assert [words in finding.text for finding in findings] == ([True] if words else []), findings


def test_failing_begins_with_the_limit_and_ends_below_its_half() -> None:
    def since(*shares: float) -> int | None:
        return find_failing_since_ms([*enumerate(shares, 1)], 0.5)

    assert since() is since(0.49) is since(0.5, 0.24) is None
    assert since(0.5) == since(0.5, 0.25) == since(0.5, 0.3, 0.9) == 1
    assert since(0.4, 0.5, 0.6) == 2 and since(0.9, 0.2, 0.5) == 3
