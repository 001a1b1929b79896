"""Urgency: what is sorted "worst first" weighs severity, jobs and time."""

from __future__ import annotations

from rqtui.config.thresholds import DEFAULTS, Limit
from rqtui.engine.health import rules
from rqtui.engine.health.probe_results import ProbeResults, RecentDeaths
from rqtui.engine.health.urgency import compute_queue_urgency, compute_urgency_step
from rqtui.model import Count, Finding, Queue, State
from rqtui.tui.format.queues import compute_queue_sort_key

NOW_MS = 1_800_000_000_000
QUEUE = Queue("mail", "any", tuple(Count(state.value, state, 0) for state in State), NOW_MS)


def build_counts(**counts: int) -> tuple[Count, ...]:
    return tuple(Count(state.value, state, counts.get(state.value, 0)) for state in State)


def test_one_stale_job_never_outweighs_five_thousand_dead() -> None:
    stale = rules.attach_findings(
        QUEUE._replace(counted_ms=NOW_MS, counts=build_counts(ready=1), workers=1, oldest_ready_ms=20 * 86_400_000),
        thresholds=DEFAULTS._replace(waiting=Limit(None, 1_000)),
    )
    dead = rules.attach_findings(
        QUEUE._replace(counted_ms=NOW_MS, counts=build_counts(dead=5_000, done=99_000), counters={}),
        thresholds=DEFAULTS._replace(dead=Limit(1_000)),
        probe_results=ProbeResults(recent_deaths=RecentDeaths(5_000)),
    )
    assert (stale.verdict.severity, dead.verdict.severity) == ("critical", "warning")
    assert compute_queue_urgency(dead) > compute_queue_urgency(stale) > compute_queue_urgency(QUEUE) == 0


def test_weight_grows_with_severity_jobs_and_time() -> None:
    def heavy(severity: str, jobs: int, minutes: int) -> float:
        since_ms = NOW_MS - minutes * 60_000
        found = Finding("failing", severity, "mail", "", jobs=jobs, since_ms=since_ms)
        return compute_queue_urgency(QUEUE._replace(counted_ms=NOW_MS, findings=(found,)))

    assert heavy("warning", 10, 5) < heavy("warning", 11, 5) < heavy("warning", 11, 50) < heavy("critical", 11, 50)
    assert heavy("warning", 1, 10**7) == 4


def test_a_queue_that_cannot_be_counted_is_sorted_high() -> None:
    broken = rules.attach_findings(Queue("mail", "native", error="a key holds a string"))
    late = rules.attach_findings(QUEUE._replace(expired=30, next_expiry_ms=-60_000))
    assert compute_queue_urgency(broken) > compute_queue_urgency(late)


def test_worst_first_is_by_weight_then_by_name_and_stays_while_it_is_about_the_same() -> None:
    def failing(name: str, severity: str, jobs: int) -> Queue:
        return QUEUE._replace(name=name, findings=(Finding("failing", severity, name, "", jobs=jobs),))

    queues = [
        failing("e", "warning", 3),
        failing("a", "warning", 300),
        failing("c", "critical", 5_000),
        failing("b", "critical", 4_900),
        QUEUE._replace(name="d"),
        failing("f", "critical", 70),
    ]
    assert compute_urgency_step(queues[2]) == compute_urgency_step(queues[3])
    ordered = sorted(queues, key=lambda queue: compute_queue_sort_key("worst first", queue.name, queue))
    assert [queue.name for queue in ordered] == ["b", "c", "f", "a", "e", "d"]
