"""What counts say is wrong: pure functions from a counted queue to findings."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from families import run_in_one_test
from redis import Redis

import rqtui
from rqtui.config.thresholds import DEFAULTS, Limit
from rqtui.connection.connect import connect
from rqtui.connection.embedded import start_server
from rqtui.engine.engine import Engine
from rqtui.engine.health import rules, server_rules
from rqtui.engine.health.failure_probes import compute_usual_wait_ms
from rqtui.engine.health.probe_results import NO_PROBE_RESULTS, ProbeResults, RecentDeaths, WorkerActivity
from rqtui.engine.history import History
from rqtui.engine.rates import NO_RATE, WINDOW_MS, Rates
from rqtui.errors import Unreachable, UsageError
from rqtui.model import Cause, Count, Finding, Queue, Rate, RecentActivity, Ref, State, Verdict
from rqtui.systems import registry
from rqtui.text.formats import format_date_and_time, format_start_time

NOW_MS = 1_800_000_000_000
QUEUE = Queue(
    "mail",
    "native",
    counts=tuple(Count(state.value, state, 0) for state in State),
    counters={"in": 10, "out": 10, "dead_max": 100},
)


def build_counts(**counts: int) -> tuple[Count, ...]:
    return tuple(Count(state.value, state, counts.get(state.value, 0)) for state in State)


def kinds(queue: Queue, rate: Rate = NO_RATE) -> list[str]:
    return [finding.kind for finding in rules.attach_findings(queue, rate).findings]


def test_an_idle_queue_is_fine() -> None:
    result = rules.attach_findings(QUEUE)
    assert (result.findings, result.verdict.severity, result.verdict.text) == ((), "ok", "ok")


@run_in_one_test(
    ("queue", "kind"),
    [
        (QUEUE._replace(error="a key holds a string"), "uncounted"),
        (QUEUE._replace(expired=3, next_expiry_ms=-6_000), "expired-not-reaped"),
        (QUEUE._replace(overdue=3, next_due_ms=-6_000), "due-not-dispatched"),
        (QUEUE._replace(counts=build_counts(ready=1), oldest_ready_ms=6_000), "no-live-worker"),
        (QUEUE._replace(counts=build_counts(ready=1), oldest_ready_ms=600_000, workers=1), "oldest-ready"),
        (QUEUE._replace(counts=build_counts(dead=95)), "dead-near-cap"),
    ],
)
def test_problems_are_found_once_and_in_a_sentence(queue: Queue, kind: str) -> None:
    assert kinds(queue) == [kind]
    finding = rules.attach_findings(queue).findings[0]
    assert finding.severity in ("warning", "critical")
    assert finding.text
    assert finding.queue == "mail"


@pytest.mark.parametrize(
    "queue",
    [
        QUEUE._replace(expired=3, next_expiry_ms=-4_000),
        QUEUE._replace(overdue=3, next_due_ms=-4_000),
        QUEUE._replace(counts=build_counts(ready=1), oldest_ready_ms=4_000),
        QUEUE._replace(counts=build_counts(ready=1), oldest_ready_ms=60_000, workers=1),
        QUEUE._replace(counts=build_counts(dead=80, done=120)),
    ],
)
def test_a_problem_that_a_loop_or_a_worker_is_about_to_fix_is_no_finding(queue: Queue) -> None:
    assert kinds(queue) == []


def test_a_fault_that_a_resume_repairs_reports_that_the_queue_is_paused() -> None:
    mixed = Finding("mixed", "critical", "mail", "5 and 6 share this paused queue", "rqtui act resume mail", key="P")
    result = rules.attach_findings(QUEUE._replace(is_paused=True, findings=(mixed,)))
    assert [one.kind for one in result.findings] == ["mixed"] and result.verdict.severity == "critical"
    other = replace(mixed, key="")
    assert [one.kind for one in rules.attach_findings(QUEUE._replace(is_paused=True, findings=(other,))).findings] == [
        "mixed", "paused",
    ]  # fmt: skip


def test_a_paused_queue_is_only_paused() -> None:
    queue = QUEUE._replace(
        counts=build_counts(ready=5), is_paused=True, oldest_ready_ms=900_000, overdue=2, next_due_ms=-60_000, workers=1
    )
    assert kinds(queue) == ["paused"]


def test_a_backlog_that_grows_is_found_after_a_minute() -> None:
    queue = QUEUE._replace(counts=build_counts(ready=1000), workers=2, oldest_ready_ms=1000)
    growing = RecentActivity(120_000, growing_ms=120_000, growing_ready=900, growing_ended=1_200)
    assert kinds(queue, Rate(recent=growing)) == ["backlog-grows"]
    assert kinds(queue, Rate(recent=growing._replace(growing_ready=120))) == ["backlog-grows"], "by one in a second"
    assert kinds(queue, Rate(recent=growing._replace(growing_ready=119))) == []
    assert kinds(queue, Rate(recent=growing._replace(growing_ms=20_000))) == []
    assert kinds(queue, Rate(recent=growing._replace(growing_ready=-10))) == []


def test_fixes_use_the_terms_of_the_system_and_no_fact_is_shown_twice() -> None:
    waiting = QUEUE._replace(name="two words", counts=build_counts(ready=1), oldest_ready_ms=6_000)
    [finding] = rules.attach_findings(waiting, remedies={"no-live-worker": "mill start {queue}"}).findings
    assert (finding.kind, finding.remedy, finding.key) == ("no-live-worker", "mill start 'two words'", "")
    assert rules.attach_findings(waiting, remedies={"no-live-worker": ""}).verdict.severity == "ok"
    assert rules.attach_findings(waiting, remedies={"paused": "wait"}).findings[0].remedy == (
        "start a worker: rqtui work 'two words' -- COMMAND"
    )


def test_idle_workers_of_a_growing_queue_are_no_reason_to_start_more_in_any_system() -> None:
    recent = RecentActivity(latest_growth=1, growing_ms=120_000, growing_ready=19_900, growing_ended=100)
    remedies = {"backlog-grows": "mill start {queue}"}
    for reserved, remedy in ((1, "some workers hold no job: find out why (rqtui workers)"), (2, "mill start q")):
        growing = QUEUE._replace(name="q", workers=2, counts=build_counts(ready=20_000, reserved=reserved))
        [finding] = rules.attach_findings(growing, Rate(recent=recent), remedies=remedies).findings
        assert (finding.kind, finding.remedy) == ("backlog-grows", remedy)


def test_the_worst_finding_is_the_verdict() -> None:
    result = rules.attach_findings(QUEUE._replace(is_paused=True, error="a key holds a string"))
    assert [finding.severity for finding in result.findings] == ["critical", "info"]
    assert (result.verdict.severity, result.verdict.kind) == ("critical", "uncounted")
    assert "a key holds a string" in result.verdict.text


@run_in_one_test(
    ("queue", "rate", "words"),
    [
        (
            QUEUE._replace(expired=12, next_expiry_ms=-240_000),
            Rate(),
            "12 leases expired, and no reaper has run for 4 min: . starts the reaper",
        ),
        (
            QUEUE._replace(overdue=3, next_due_ms=-61_000),
            Rate(due_since_ms=-61_000),
            "3 jobs are due, and no dispatcher has run for 1 min: , starts the dispatcher",
        ),
        (
            QUEUE._replace(counted_ms=NOW_MS, overdue=3, next_due_ms=-61_000),
            Rate(),
            f"3 jobs are due since {format_date_and_time(NOW_MS - 61_000)}, and no dispatcher runs: "
            ", starts the dispatcher",
        ),
        (
            QUEUE._replace(counted_ms=NOW_MS, overdue=3, next_due_ms=1 - NOW_MS),
            Rate(),
            "3 jobs are due, and no dispatcher runs: , starts the dispatcher",
        ),
        (
            QUEUE._replace(counts=build_counts(ready=1), oldest_ready_ms=6_000),
            Rate(),
            "no worker serves this queue, and 1 job is ready: start a worker: rqtui work mail -- COMMAND",
        ),
        (
            QUEUE._replace(counts=build_counts(ready=1), oldest_ready_ms=540_000, workers=1),
            Rate(),
            "a ready job has waited 9 min: add workers",
        ),
        (
            QUEUE._replace(counts=build_counts(dead=95)),
            Rate(),
            "95 jobs are dead of at most 100; Redis will soon drop the oldest: e groups them, R requeues them",
        ),
        (QUEUE._replace(is_paused=True), Rate(), "paused: P resumes it"),
        (
            QUEUE._replace(counts=build_counts(ready=1000), workers=4, oldest_ready_ms=1000),
            Rate(recent=RecentActivity(growing_ms=100_000, growing_ready=1_500, growing_ended=1_000)),
            "the queue grows by 15/s while 10/s leave it (last 1 min): "
            "some workers hold no job: find out why (rqtui workers)",
        ),
        (
            QUEUE._replace(counts=build_counts(ready=1000, reserved=4), workers=4, oldest_ready_ms=1000),
            Rate(recent=RecentActivity(growing_ms=100_000, growing_ready=1_500, growing_ended=1_000)),
            "the queue grows by 15/s while 10/s leave it (last 1 min): add workers",
        ),
    ],
)
def test_a_verdict_explains_why_and_what_helps(queue: Queue, rate: Rate, words: str) -> None:
    assert rules.attach_findings(queue, rate).verdict.text == words


def test_the_severity_of_several_findings_is_the_worst() -> None:
    warning = Finding("paused", "warning", "mail", "paused")
    assert rules.find_worst_severity([]) == "ok"
    assert rules.find_worst_severity([replace(warning, severity="info")]) == "ok"
    assert rules.find_worst_severity([warning]) == "warning"
    assert rules.find_worst_severity([warning, replace(warning, severity="critical")]) == "critical"


# -- findings from attempts and dead jobs ----------------------------------------------------------------------------


def failing(failed: int, done: int, known: ProbeResults = NO_PROBE_RESULTS, **limits: Limit) -> Queue:
    rate = Rate(recent=RecentActivity(300_000, completed=done, failed=failed))
    return rules.attach_findings(QUEUE._replace(counted_ms=NOW_MS), rate, DEFAULTS._replace(**limits), known)


def test_a_queue_where_half_of_the_attempts_fail_is_critical_and_names_the_cause() -> None:
    causes = (Cause("HTTPStatusError 410", 80), Cause("TimeoutError", 3))
    minutes = tuple((NOW_MS - ago * 60_000, share) for ago, share in ((9, 0.0), (8, 0.6), (7, 0.4), (1, 0.5)))
    result = failing(50, 50, ProbeResults(causes, (), minutes))
    [finding] = result.findings
    assert result.verdict == Verdict("critical", "50 % of attempts fail, mostly HTTPStatusError 410 · e", "failing")
    assert (finding.key, finding.jobs, finding.causes) == ("e", 50, causes)
    assert finding.since_ms == NOW_MS - 8 * 60_000
    began = format_start_time(NOW_MS - 8 * 60_000, NOW_MS)
    assert len(began) == len("04:12")
    assert (
        rules.format_finding(finding, NOW_MS)
        == f"50 % of attempts fail since {began} (8 min), mostly HTTPStatusError 410"
    )
    assert format_date_and_time(finding.since_ms) in rules.format_finding(finding, NOW_MS + 86_400_000)


def test_one_failure_in_ten_is_a_warning_and_a_few_attempts_are_no_pattern() -> None:
    assert [one.severity for one in failing(10, 90).findings] == ["info"], "none died: the retries do their work"
    assert [one.severity for one in failing(15, 85).findings] == ["warning"]
    assert failing(9, 91).findings == ()
    assert failing(4, 3).findings == failing(5, 4).findings == ()
    assert [one.severity for one in failing(5, 5).findings] == ["critical"]


def test_a_threshold_of_its_own_makes_a_queue_strict_or_silent() -> None:
    assert [one.severity for one in failing(2, 98, failing=Limit(1, 2)).findings] == ["critical"]
    assert failing(90, 10, failing=Limit()).findings == ()
    many = QUEUE._replace(counts=build_counts(dead=200, done=300), counters={})
    assert kinds(many) == []
    assert [
        one.kind for one in rules.attach_findings(many, thresholds=DEFAULTS._replace(dead=Limit(100))).findings
    ] == ["dead-many"]


@run_in_one_test(
    ("counts", "recent", "severity", "text"),
    [
        (build_counts(dead=5_000, done=9), None, "info", "5 000 jobs are dead"),
        (
            build_counts(dead=5_000, ready=20),
            RecentDeaths(0),
            "info",
            "5 000 jobs are dead, none of them in the last 24 h",
        ),
        (
            build_counts(dead=5_000),
            RecentDeaths(0, is_exact=False),
            "info",
            "5 000 jobs are dead, none of those that were read in the last 24 h",
        ),
        (build_counts(dead=5_000), RecentDeaths(999), "info", "5 000 jobs are dead, 999 of them in the last 24 h"),
        (
            build_counts(dead=5_000),
            RecentDeaths(1_000, is_exact=False),
            "warning",
            "5 000 jobs are dead, at least 1 000 of them in the last 24 h",
        ),
        (
            build_counts(dead=5_000),
            RecentDeaths(5_000),
            "critical",
            "5 000 jobs are dead, all of them in the last 24 h",
        ),
        (
            build_counts(dead=5_000),
            RecentDeaths(0, is_dated=False),
            "critical",
            "5 000 jobs are dead, since when is unknown",
        ),
        (build_counts(dead=1_000), RecentDeaths(1_000), "warning", "1 000 jobs are dead, all of them in the last 24 h"),
    ],
)
def test_dead_jobs_are_graded_by_how_many_died_within_a_day(
    counts: tuple[Count, ...], recent: RecentDeaths | None, severity: str, text: str
) -> None:
    queue = QUEUE._replace(counts=counts, counters={})
    evaluated = rules.attach_findings(queue, probe_results=ProbeResults(recent_deaths=recent))
    [finding] = evaluated.findings
    assert (finding.kind, finding.severity, finding.text) == ("dead-many", severity, text)
    assert evaluated.verdict.severity == ("ok" if severity == "info" else severity)


def test_dead_jobs_below_the_threshold_are_no_finding_however_few_others_there_are() -> None:
    assert kinds(QUEUE._replace(counts=build_counts(dead=999), counters={})) == []


def test_a_paused_queue_with_waiting_jobs_is_information_and_its_verdict_reports_paused() -> None:
    queue = QUEUE._replace(
        is_paused=True, counts=build_counts(ready=5), paused_ms=NOW_MS - 60_000, oldest_ready_ms=60_000
    )
    evaluated = rules.attach_findings(queue)
    assert [one.severity for one in evaluated.findings] == ["info"]
    assert (evaluated.verdict.severity, evaluated.verdict.text) == ("ok", "paused: P resumes it")


def test_while_attempts_fail_nothing_advises_more_workers() -> None:
    queue = QUEUE._replace(counts=build_counts(ready=20_000, reserved=7), workers=7, oldest_ready_ms=600_000)
    growth = RecentActivity(growing_ms=120_000, growing_ready=3_000, growing_ended=100)
    recent = growth._replace(duration_ms=120_000, enqueued=4_000, completed=40, failed=60)
    growing = rules.attach_findings(queue, Rate(recent=recent._replace(failed=0)))
    assert {one.remedy for one in growing.findings} == {"add workers"}
    failing_queue = rules.attach_findings(queue, Rate(recent=recent))
    assert [one.kind for one in failing_queue.findings] == ["failing", "backlog-grows", "oldest-ready"]
    assert {one.remedy for one in failing_queue.findings[1:]} == {"fix the failures first"}


def test_a_queue_that_grew_and_does_not_grow_any_more_is_no_finding() -> None:
    queue = QUEUE._replace(counts=build_counts(ready=20_000, reserved=2), workers=2, oldest_ready_ms=1_000)
    recent = RecentActivity(latest_growth=1, growing_ms=120_000, growing_ready=19_900, growing_ended=100)
    assert kinds(queue, Rate(recent=recent)) == ["backlog-grows"]
    assert kinds(queue, Rate(recent=recent._replace(latest_growth=0))) == []
    assert kinds(queue, Rate(recent=recent._replace(latest_growth=-50))) == []


@run_in_one_test(
    ("workers", "idle_ms", "text"),
    [
        (WorkerActivity(3, 3, 0), 15_000, "3 idle workers take none of 157 ready jobs"),
        (WorkerActivity(3, 1, 0), 60_000, "1 idle worker takes none of 157 ready jobs"),
        (WorkerActivity(3, 3, 0), 14_999, ""),
        (WorkerActivity(3, 3, 0), None, ""),
        (WorkerActivity(3, 0, 1), 60_000, ""),
        (WorkerActivity(2, 0, 2), None, "2 workers are quiet, and no worker takes the 157 ready jobs"),
        (None, 60_000, ""),
    ],
)
def test_ready_jobs_that_no_worker_takes_are_a_finding(
    workers: WorkerActivity | None, idle_ms: int | None, text: str
) -> None:
    queue = QUEUE._replace(counted_ms=NOW_MS, counts=build_counts(ready=157), workers=3)
    rate = Rate(idle_since_ms=None if idle_ms is None else NOW_MS - idle_ms)
    found = rules.attach_findings(queue, rate, probe_results=ProbeResults(workers=workers)).findings
    assert [(one.kind, one.severity, one.text) for one in found] == (
        [("idle-workers", "warning", text)] if text else []
    )
    for other in (queue._replace(is_paused=True), queue._replace(counts=build_counts(ready=157, reserved=1))):
        evaluated = rules.attach_findings(other, rate, probe_results=ProbeResults(workers=workers))
        assert "idle-workers" not in [one.kind for one in evaluated.findings]
    limit = Finding("at-limit", "warning", "mail", "at its limit")
    limited = rules.attach_findings(
        queue._replace(findings=(limit,)), rate, probe_results=ProbeResults(workers=workers)
    )
    assert [one.kind for one in limited.findings] == ["at-limit"]


def test_canceled_jobs_are_no_failures() -> None:
    canceled = Count("canceled", State.DEAD, 9_000, has_failures=False)
    assert kinds(QUEUE._replace(counts=(*build_counts(ready=20), canceled), counters={})) == []
    result = rules.attach_findings(QUEUE._replace(counts=(*build_counts(dead=41, ready=2), canceled), counters={}))
    assert result.verdict.text == "ok"
    [finding] = rules.attach_findings(
        QUEUE._replace(counts=(*build_counts(dead=1_000), canceled), counters={})
    ).findings
    assert (finding.kind, finding.text, finding.jobs) == ("dead-many", "1 000 jobs are dead", 1_000)


def test_jobs_that_die_one_after_another_are_reported() -> None:
    dying = Rate(recent=RecentActivity(300_000, completed=400, failed=5, dead=23))
    queue = QUEUE._replace(counts=build_counts(dead=23, done=400))
    [finding] = rules.attach_findings(queue, dying).findings
    assert (finding.kind, finding.text, finding.jobs) == ("dead-grows", "23 jobs died in the last 5 min", 23)
    rare = dying._replace(recent=RecentActivity(300_000, completed=100_000, dead=23))
    assert kinds(queue, rare) == [], "of a hundred thousand some always die"


def test_a_wait_is_long_by_what_is_usual_for_the_queue() -> None:
    queue = QUEUE._replace(counts=build_counts(ready=8), workers=2, oldest_ready_ms=120_000)
    assert kinds(queue) == [], "nobody knows what is usual"
    result = rules.attach_findings(queue, probe_results=ProbeResults(usual_wait_ms=2_000))
    assert result.verdict.text == "the oldest of 8 ready jobs has waited 2 min, usually 2 s: add workers"
    assert result.findings[0].jobs == 8
    slow = queue._replace(oldest_ready_ms=900_000)
    assert kinds(slow) == ["oldest-ready"]
    assert rules.attach_findings(slow, probe_results=ProbeResults(usual_wait_ms=600_000)).findings == (), (
        "a queue that is worked off by night"
    )
    assert rules.attach_findings(slow, Rate(usual_wait_ms=600_000)).findings == ()
    strict = DEFAULTS._replace(waiting=Limit(60_000, 90_000))
    assert (
        rules.attach_findings(
            queue, thresholds=strict, probe_results=ProbeResults(usual_wait_ms=600_000)
        ).verdict.severity
        == "critical"
    )


def test_the_usual_wait_decides_from_which_age_on_a_wait_is_long() -> None:
    queue = QUEUE._replace(counts=build_counts(ready=8), workers=2)

    def find_wait_findings(waits_ms: int, usual_ms: int | None, rate_ms: int | None = None) -> list[tuple[str, str]]:
        results, rate = ProbeResults(usual_wait_ms=usual_ms), Rate(usual_wait_ms=rate_ms)
        found = rules.attach_findings(queue._replace(oldest_ready_ms=waits_ms), rate, probe_results=results).findings
        return [(each.severity, each.detail) for each in found]

    assert find_wait_findings(59_999, 2_000) == [], "a wait of less than a minute is never long"
    assert find_wait_findings(60_000, 2_000) == [("warning", "usually 2 s")]
    assert (
        find_wait_findings(60_000, 20_000) == [("warning", "usually 20 s")] and find_wait_findings(59_999, 20_000) == []
    )
    assert find_wait_findings(74_999, 25_000) == [] and find_wait_findings(75_000, 25_000) == [
        ("warning", "usually 25 s")
    ], "three times as long"
    assert find_wait_findings(60_000, 1_000) == [("warning", "usually 1 s")]
    assert find_wait_findings(60_000, 999) == find_wait_findings(60_000, 0) == [("warning", "usually less than 1 s")]
    assert find_wait_findings(60_000, None, 2_000) == [("warning", "usually 2 s")], (
        "without a probe the ages of earlier polls decide"
    )
    assert find_wait_findings(60_000, 0, 600_000) == [("warning", "usually less than 1 s")], (
        "the probe knows more than earlier polls"
    )
    assert find_wait_findings(60_000, 600_000, 0) == []
    limit = DEFAULTS.waiting
    assert limit.warning is not None
    assert find_wait_findings(limit.warning - 1, None) == [] and find_wait_findings(limit.warning, None) == [
        ("warning", "")
    ]


MINUTE_MS, END_MS = 60_000, 100 * 60_000


def usual_wait_ms(flows: dict[int, int], *, first: int, **numbers: int) -> int | None:
    """Return the usual wait at minute 100, with so many jobs in and out of the queue in some minutes."""
    minutes = [(at * MINUTE_MS, {"enqueued": flows.get(at, 0), "acked": flows.get(at, 0)}) for at in range(100)]
    history = History(Ref("native", "mail"), minutes={at * MINUTE_MS: {} for at in range(first, 100)})
    return compute_usual_wait_ms(history, QUEUE._replace(counted_ms=END_MS, counts=build_counts(**numbers)), minutes)


def test_the_usual_wait_is_the_median_of_the_waiting_jobs_by_the_jobs_of_a_minute() -> None:
    tenth = dict.fromkeys(range(40, 50), 10)
    assert usual_wait_ms(tenth, first=0, ready=60) == 6 * MINUTE_MS
    assert usual_wait_ms(tenth, first=0, ready=60, scheduled=500) == 6 * MINUTE_MS, (
        "a job that is not due waits for nobody"
    )
    assert usual_wait_ms(tenth, first=0, ready=50, reserved=10, done=900, dead=900) == 6 * MINUTE_MS
    assert usual_wait_ms(tenth, first=0) == 0
    assert usual_wait_ms(tenth | {51: 1, 52: 1, 53: 1}, first=0, ready=60) == 6 * MINUTE_MS, "the median, not the mean"
    assert usual_wait_ms(tenth | {at: 1 for at in range(50, 62)}, first=0, ready=60) == 60 * MINUTE_MS
    assert usual_wait_ms(dict.fromkeys(range(40, 50), 7), first=0, ready=1) == round(MINUTE_MS / 7)


def test_the_usual_wait_needs_ten_busy_minutes_before_the_last_ones() -> None:
    assert usual_wait_ms(dict.fromkeys(range(40, 49), 10), first=0, ready=60) is None
    assert usual_wait_ms(dict.fromkeys(range(40, 50), 10), first=40, ready=60) == 6 * MINUTE_MS
    assert usual_wait_ms(dict.fromkeys(range(40, 50), 10), first=41, ready=60) is None, (
        "minute 40 is not known as a whole"
    )
    last = (END_MS - 2 * WINDOW_MS) // MINUTE_MS
    assert usual_wait_ms(dict.fromkeys(range(last - 10, last), 10), first=0, ready=60) == 6 * MINUTE_MS
    assert usual_wait_ms(dict.fromkeys(range(last - 9, last + 1), 10), first=0, ready=60) is None
    assert usual_wait_ms({}, first=100, ready=60) is None


def test_a_minute_in_which_jobs_only_arrived_is_not_busy() -> None:
    minutes = [(at * MINUTE_MS, {"acked": 10} if at < 49 else {"enqueued": 10}) for at in range(40, 60)]
    history = History(Ref("native", "mail"), minutes={0: {}})
    assert (
        compute_usual_wait_ms(history, QUEUE._replace(counted_ms=END_MS, counts=build_counts(ready=60)), minutes)
        is None
    )


def test_no_more_jobs_than_are_scheduled_now_never_waited() -> None:
    minutes = [(at * MINUTE_MS, {"enqueued": 10, "acked": 10}) for at in range(40, 90)] + [
        (90 * MINUTE_MS, {"enqueued": 50})
    ]
    queue = QUEUE._replace(counted_ms=END_MS, counts=build_counts(scheduled=50, ready=20))
    history = History(Ref("native", "mail"), minutes={0: {}})
    assert compute_usual_wait_ms(history, queue, minutes) == 0, (
        "the twenty that were there are fewer than are scheduled now"
    )


def test_a_score_of_1970_is_no_age() -> None:
    queue = QUEUE._replace(counted_ms=NOW_MS, counts=build_counts(ready=1), workers=1, oldest_ready_ms=NOW_MS - 1)
    assert kinds(queue) == []


def test_the_equally_severe_finding_about_more_jobs_is_the_verdict() -> None:
    found = [Finding("ghost", "warning", "mail", "no body", jobs=jobs) for jobs in (1, 700)]
    queue = QUEUE._replace(counts=build_counts(ready=30), workers=1, oldest_ready_ms=600_000)
    firsts = [rules.attach_findings(queue._replace(findings=(one,))).findings[0].kind for one in found]
    assert firsts == ["ghost", "ghost"], "lost or stuck jobs stand before jobs that wait for long"
    both = rules.attach_findings(QUEUE._replace(findings=tuple(found)))
    assert [one.jobs for one in both.findings] == [700, 1]


def test_the_record_of_a_missing_worker_without_jobs_stands_behind_jobs_that_no_worker_takes() -> None:
    waiting = Finding("no-live-worker", "warning", "mail", "30 jobs are ready", jobs=30)
    for record in (
        Finding("stale-process", "warning", "mail", "", jobs=90),
        Finding("worker-gone", "warning", "mail", ""),
    ):
        found = rules.attach_findings(QUEUE._replace(findings=(record, waiting))).findings
        assert [one.kind for one in found] == ["no-live-worker", record.kind]
    held = Finding("worker-gone", "warning", "mail", "1 held by 1 worker", ids=(b"a",), jobs=1)
    assert rules.attach_findings(QUEUE._replace(findings=(waiting, held))).findings[0] is held


def test_the_worst_of_several_findings_is_the_verdict_and_all_are_listed() -> None:
    queue = QUEUE._replace(counts=build_counts(dead=1_200, ready=5, done=5_000), counters={}, is_paused=True)
    result = rules.attach_findings(queue, Rate(recent=RecentActivity(300_000, completed=49, failed=51)))
    assert result.verdict == Verdict("critical", "51 % of attempts fail · 2 more · e", "failing")
    assert [one.kind for one in result.findings] == ["failing", "dead-many", "paused"]


def test_silent_leases_are_graded_by_how_many_they_are() -> None:
    lease = Finding("silent-leases", "warning", "mail", "2 workers hold 200 jobs and have sent no heartbeat", jobs=200)
    result = [rules.attach_findings(QUEUE._replace(findings=(replace(lease, jobs=jobs),))) for jobs in (1, 200)]
    assert [queue.verdict.severity for queue in result] == ["warning", "critical"]
    off = DEFAULTS._replace(silent=Limit())
    assert rules.attach_findings(QUEUE._replace(findings=(lease,)), thresholds=off).findings == ()


# -- what cannot be known ----------------------------------------------------------------------------------------------


def test_a_verdict_ok_names_what_could_not_be_checked() -> None:
    places = (Count("delayed", State.SCHEDULED, 1), Count("ready", State.READY, 4))
    result = rules.attach_findings(Queue("tasks", "theirs", places, NOW_MS, workers=None))
    assert result.verdict == Verdict("ok", "ok · failures unknown", "")
    assert result.unknown == ("failures", "workers", "leases", "waiting times")
    assert rules.attach_findings(QUEUE._replace(counters={"failed": 0})).unknown == ()


def test_where_the_dead_are_kept_failures_are_seen() -> None:
    places = (Count("ready", State.READY, 0), Count("busy", State.RESERVED, 4), Count("failed", State.DEAD, 4))
    result = rules.attach_findings(Queue("tasks", "theirs", places, NOW_MS, workers=None))
    assert (result.verdict.text, result.unknown) == ("ok", ("workers",))


def test_every_kind_that_the_code_finds_is_on_the_page() -> None:
    root, everywhere = Path(rqtui.__file__).parent, set()
    for path in root.rglob("*.py"):
        source = path.read_text("utf-8")
        for node in ast.walk(ast.parse(source)) if "Finding(" in source else ():
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Finding" and node.args:
                named = {node.args[0].value} if isinstance(node.args[0], ast.Constant) else set()
                room, below, *_rest = *path.relative_to(root).parts, ""
                page = root.parent / "docs" / "systems" / f"{Path(below).stem}.md"
                if room == "systems" and page.exists():
                    assert all(f"| `{kind}` |" in page.read_text("utf-8") for kind in named), page
                else:
                    everywhere |= named
    assert {"failing", "silent-leases", "node-away"} <= everywhere <= rules.FINDING_KINDS.keys()


def test_a_server_that_forgets_or_evicts_is_found(client: Redis, settings) -> None:
    settings("save", "3600 1")
    assert server_rules.find_server_problems(client) == []
    settings("save", "")
    assert [finding.kind for finding in server_rules.find_server_problems(client)] == ["no-persistence"]
    settings("maxmemory", "1gb")
    settings("maxmemory-policy", "allkeys-lru")
    assert [finding.kind for finding in server_rules.find_server_problems(client)] == ["eviction", "no-persistence"]


def test_a_full_server_is_found(client: Redis, settings) -> None:
    settings("save", "3600 1")
    used = int(client.info("memory")["used_memory"])
    settings("maxmemory", str(used + used // 50))
    assert [finding.kind for finding in server_rules.find_server_problems(client)] == ["memory"]


def test_a_server_that_shows_nothing_about_itself_has_no_findings() -> None:
    try:
        server = start_server("fake")
    except UsageError as error:
        pytest.skip(str(error))
    with server, connect(server.url) as client:
        assert server_rules.find_server_problems(client) == []


def test_a_user_who_may_not_ask_gets_no_findings(client: Redis, url: str) -> None:
    client.execute_command("ACL", "SETUSER", "viewer", "on", ">pw", "~*", "+ping", "+client|setname")
    try:
        with connect(url.replace("redis://", "redis://viewer:pw@")) as viewer:
            assert server_rules.find_server_problems(viewer) == []
    finally:
        client.execute_command("ACL", "DELUSER", "viewer")


# -- since when a job could have been dispatched ----------------------------------------------------------------------


def list_finding_texts(*looks: tuple[int, int, int, int]) -> list[str]:
    """Return the finding texts of a queue for each (seconds, due jobs, due ms of the first, dispatched so far)."""
    rates, actual = Rates(), []
    for after_s, overdue, head_ms, dispatched in looks:
        at_ms = NOW_MS + 1000 * after_s
        queue = QUEUE._replace(
            counted_ms=at_ms, overdue=overdue, next_due_ms=head_ms - at_ms, counters={"dispatched": dispatched}
        )
        result = rules.attach_findings(queue, rates.compute_rate(Ref("native", "mail"), queue, after_s))
        actual += [finding.text for finding in result.findings] or [""]
    return actual


def test_a_job_whose_score_is_of_1970_is_late_since_it_was_seen() -> None:
    assert list_finding_texts((0, 1, 1, 0), (2, 1, 1, 0), (7, 1, 1, 0), (120, 1, 1, 0)) == [
        "1 job is due, and no dispatcher runs",
        "",
        "1 job is due, and no dispatcher has run for 7 s",
        "1 job is due, and no dispatcher has run for 2 min",
    ]


def test_a_job_that_is_plausibly_late_is_late_since_it_was_due() -> None:
    hour_ms = NOW_MS - 3_600_000
    assert list_finding_texts((0, 1, hour_ms, 0), (2, 1, hour_ms, 0)) == [
        f"1 job is due since {format_date_and_time(hour_ms)}, and no dispatcher runs",
        "1 job is due, and no dispatcher has run for 1 h",
    ]


def test_a_job_put_with_an_old_score_is_late_since_the_poll_before_it() -> None:
    assert list_finding_texts((0, 0, 0, 0), (10, 1, 1, 0), (14, 1, 1, 0), (16, 1, 1, 0))[1:] == [
        "1 job is due, and no dispatcher has run for 10 s",
        "1 job is due, and no dispatcher has run for 14 s",
        "1 job is due, and no dispatcher has run for 16 s",
    ]
    assert list_finding_texts((0, 0, 0, 0), (2, 1, 1, 0), (4, 1, 1, 0), (6, 1, 1, 0))[1:] == [
        "", "", "1 job is due, and no dispatcher has run for 6 s",
    ]  # fmt: skip


def test_old_scores_are_no_finding_while_they_decrease() -> None:
    assert list_finding_texts((0, 0, 0, 0), *((2 * n, 5, 1, 10 * n) for n in range(1, 9)))[1:] == [""] * 8
    assert list_finding_texts((0, 40, 1, 0), *((2 * n, 40 - n, 1, 0) for n in range(1, 9)))[1:] == [""] * 8


def test_an_engine_keeps_data_between_its_polls(client: Redis) -> None:
    engine = Engine(client, [registry.create_system("native")])
    ref = Ref("native", "mail")
    engine.apply_verb("enqueue", ref, (), {"id": "a", "body": b"1", "delay_ms": 3_600_000})
    client.zadd("rqtui:{mail}:scheduled", {"a": 1})
    first, second = (engine.collect_findings([ref]) for _look in range(2))
    assert [one.text for one in first if one.queue] == ["1 job is due, and no dispatcher runs"]
    assert [one.text for one in second if one.queue] == []


@pytest.mark.parametrize("node_count", [1, 3])
def test_a_node_that_does_not_reply_is_a_finding_only_among_several(node_count: int) -> None:
    def fail(_server: object) -> Any:
        raise Unreachable("nobody listens")

    if node_count == 1:
        with pytest.raises(Unreachable):
            server_rules._check_server_node(None, fail, node_count)
        return
    [finding] = server_rules._check_server_node(None, fail, node_count)
    assert (finding.kind, finding.severity, finding.text) == ("node-away", "critical", "nobody listens")
