"""What counts say is wrong: pure functions from a counted queue to findings."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import pytest
from families import in_one
from redis import Redis

from rqtui.config.thresholds import DEFAULTS, Limit
from rqtui.connection.connect import connect
from rqtui.connection.embedded import embedded
from rqtui.engine import health
from rqtui.engine.engine import Engine
from rqtui.engine.inspection import NOTHING, Known
from rqtui.engine.rates import NO_RATE, Rates
from rqtui.errors import UsageError
from rqtui.model import Cause, Count, Finding, Lately, Queue, Rate, Ref, State, Verdict
from rqtui.systems import registry
from rqtui.text.formats import moment, since

NOW_MS = 1_800_000_000_000
QUEUE = Queue(
    "mail",
    "native",
    counts=tuple(Count(state.value, state, 0) for state in State),
    counters={"in": 10, "out": 10, "dead_max": 100},
)


def counted(**counts: int) -> tuple[Count, ...]:
    return tuple(Count(state.value, state, counts.get(state.value, 0)) for state in State)


def kinds(queue: Queue, rate: Rate = NO_RATE) -> list[str]:
    return [finding.kind for finding in health.judged(queue, rate).findings]


def test_an_idle_queue_is_fine() -> None:
    judged = health.judged(QUEUE)
    assert (judged.findings, judged.verdict.severity, judged.verdict.text) == ((), "ok", "ok")


@in_one(
    ("queue", "kind"),
    [
        (QUEUE._replace(error="a key holds a string"), "wrong-type"),
        (QUEUE._replace(expired=3, next_expiry_ms=-6_000), "expired-not-reaped"),
        (QUEUE._replace(overdue=3, next_due_ms=-6_000), "due-not-dispatched"),
        (QUEUE._replace(counts=counted(ready=1), oldest_ready_ms=6_000), "no-live-worker"),
        (QUEUE._replace(counts=counted(ready=1), oldest_ready_ms=600_000, workers=1), "oldest-ready"),
        (QUEUE._replace(counts=counted(dead=95)), "dead-near-cap"),
        (QUEUE._replace(counts=counted(dead=5_000, done=100_000), counters={}), "dead-many"),
        (QUEUE._replace(counts=counted(dead=41, ready=2), counters={}, workers=1), "dead-share"),
        (QUEUE._replace(paused=True), "paused"),
    ],
)
def test_what_is_wrong_is_found_once_and_in_words(queue: Queue, kind: str) -> None:
    assert kinds(queue) == [kind]
    finding = health.judged(queue).findings[0]
    assert finding.severity in ("warning", "critical")
    assert finding.text
    assert finding.queue == "mail"


@pytest.mark.parametrize(
    "queue",
    [
        QUEUE._replace(expired=3, next_expiry_ms=-4_000),
        QUEUE._replace(overdue=3, next_due_ms=-4_000),
        QUEUE._replace(counts=counted(ready=1), oldest_ready_ms=4_000),
        QUEUE._replace(counts=counted(ready=1), oldest_ready_ms=60_000, workers=1),
        QUEUE._replace(counts=counted(dead=80, done=120)),
    ],
)
def test_what_a_loop_or_a_worker_is_about_to_mend_is_no_finding(queue: Queue) -> None:
    assert kinds(queue) == []


def test_a_fault_that_a_resume_mends_says_that_the_queue_is_paused() -> None:
    mixed = Finding("mixed", "critical", "mail", "5 and 6 share this paused queue", "rqtui act resume mail", key="P")
    judged = health.judged(QUEUE._replace(paused=True, findings=(mixed,)))
    assert [one.kind for one in judged.findings] == ["mixed"] and judged.verdict.severity == "critical"
    other = replace(mixed, key="")
    assert [one.kind for one in health.judged(QUEUE._replace(paused=True, findings=(other,))).findings] == [
        "mixed", "paused",
    ]  # fmt: skip


def test_a_paused_queue_is_only_paused() -> None:
    queue = QUEUE._replace(
        counts=counted(ready=5), paused=True, oldest_ready_ms=900_000, overdue=2, next_due_ms=-60_000, workers=1
    )
    assert kinds(queue) == ["paused"]


def test_a_backlog_that_grows_is_found_after_a_minute() -> None:
    queue = QUEUE._replace(counts=counted(ready=1000), workers=2, oldest_ready_ms=1000)
    growing = Lately(120_000, came=6_000, done=1_200, grew=900)
    assert kinds(queue, Rate(lately=growing)) == ["backlog-grows"]
    assert kinds(queue, Rate(lately=growing._replace(grew=120))) == ["backlog-grows"], "by one in a second"
    assert kinds(queue, Rate(lately=growing._replace(grew=119))) == []
    assert kinds(queue, Rate(lately=growing._replace(ms=20_000))) == []
    assert kinds(queue, Rate(lately=growing._replace(grew=-10))) == []


def test_what_helps_is_said_in_the_words_of_the_system_and_nothing_is_said_twice() -> None:
    waiting = QUEUE._replace(name="two words", counts=counted(ready=1), oldest_ready_ms=6_000)
    [finding] = health.judged(waiting, remedies={"no-live-worker": "mill start {queue}"}).findings
    assert (finding.kind, finding.remedy, finding.key) == ("no-live-worker", "mill start 'two words'", "")
    assert health.judged(waiting, remedies={"no-live-worker": ""}).verdict.severity == "ok"
    assert health.judged(waiting, remedies={"paused": "wait"}).findings[0].remedy == "start one: rqtui work"


def test_the_worst_finding_is_the_verdict() -> None:
    judged = health.judged(QUEUE._replace(paused=True, error="a key holds a string"))
    assert [finding.severity for finding in judged.findings] == ["critical", "warning"]
    assert (judged.verdict.severity, judged.verdict.kind) == ("critical", "wrong-type")
    assert "a key holds a string" in judged.verdict.text


@in_one(
    ("queue", "rate", "words"),
    [
        (
            QUEUE._replace(expired=12, next_expiry_ms=-240_000),
            Rate(),
            "12 leases expired, nobody reaps for 4 m: . starts the reaper",
        ),
        (
            QUEUE._replace(overdue=3, next_due_ms=-61_000),
            Rate(due_since_ms=-61_000),
            "3 due, nobody dispatches for 1 m: , starts the dispatcher",
        ),
        (
            QUEUE._replace(counted_ms=NOW_MS, overdue=3, next_due_ms=-61_000),
            Rate(),
            f"3 due since {moment(NOW_MS - 61_000)}, nobody dispatches: , starts the dispatcher",
        ),
        (
            QUEUE._replace(counted_ms=NOW_MS, overdue=3, next_due_ms=1 - NOW_MS),
            Rate(),
            "3 due, nobody dispatches: , starts the dispatcher",
        ),
        (
            QUEUE._replace(counts=counted(ready=1), oldest_ready_ms=6_000),
            Rate(),
            "no live worker for 1 ready job: start one: rqtui work",
        ),
        (
            QUEUE._replace(counts=counted(ready=1), oldest_ready_ms=540_000, workers=1),
            Rate(),
            "the oldest ready job waits for 9 m: add workers, w shows them",
        ),
        (
            QUEUE._replace(counts=counted(dead=95)),
            Rate(),
            "95 dead of at most 100: the oldest will be forgotten: e groups them, R requeues them",
        ),
        (QUEUE._replace(paused=True), Rate(), "paused: P resumes it"),
        (
            QUEUE._replace(counts=counted(ready=1000), workers=4, oldest_ready_ms=1000),
            Rate(lately=Lately(100_000, came=2_500, done=1_000, grew=1_500)),
            "grows 15/s faster than 4 workers drain it: add workers, w shows them",
        ),
    ],
)
def test_a_verdict_says_why_and_what_helps(queue: Queue, rate: Rate, words: str) -> None:
    assert health.judged(queue, rate).verdict.text == words


def test_the_severity_of_several_findings_is_the_worst() -> None:
    warning = Finding("paused", "warning", "mail", "paused")
    assert health.severity([]) == "ok"
    assert health.severity([warning]) == "warning"
    assert health.severity([warning, replace(warning, severity="critical")]) == "critical"


# -- what attempts and the dead tell ----------------------------------------------------------------------------------


def failing(failed: int, done: int, known: Known = NOTHING, **limits: Limit) -> Queue:
    rate = Rate(lately=Lately(300_000, done=done, failed=failed))
    return health.judged(QUEUE._replace(counted_ms=NOW_MS), rate, DEFAULTS._replace(**limits), known)


def test_a_queue_where_half_of_the_attempts_fail_is_critical_and_names_the_cause() -> None:
    causes = (Cause("HTTPStatusError 410", 80), Cause("TimeoutError", 3))
    minutes = tuple((NOW_MS - ago * 60_000, share) for ago, share in ((9, 0.0), (8, 0.6), (7, 0.4), (1, 0.5)))
    judged = failing(50, 50, Known(causes, (), minutes))
    [finding] = judged.findings
    assert judged.verdict == Verdict("critical", "50 % of attempts fail, mostly HTTPStatusError 410 · e", "failing")
    assert (finding.key, finding.jobs, finding.causes) == ("e", 50, causes)
    assert finding.since_ms == NOW_MS - 8 * 60_000
    began = since(NOW_MS - 8 * 60_000, NOW_MS)
    assert len(began) == len("04:12")
    assert health.sentence(finding, NOW_MS) == f"50 % of attempts fail since {began}, mostly HTTPStatusError 410"
    assert moment(finding.since_ms) in health.sentence(finding, NOW_MS + 86_400_000)


def test_one_failure_in_ten_is_a_warning_and_a_handful_of_attempts_is_no_pattern() -> None:
    assert [one.severity for one in failing(10, 90).findings] == ["warning"]
    assert failing(9, 91).findings == ()
    assert failing(4, 3).findings == failing(5, 4).findings == ()
    assert [one.severity for one in failing(5, 5).findings] == ["critical"]


def test_a_threshold_of_its_own_makes_a_queue_strict_or_silent() -> None:
    assert [one.severity for one in failing(2, 98, failing=Limit(1, 2)).findings] == ["critical"]
    assert failing(90, 10, failing=Limit()).findings == ()
    many = QUEUE._replace(counts=counted(dead=200, done=300), counters={})
    assert kinds(many) == []
    assert [one.kind for one in health.judged(many, limits=DEFAULTS._replace(dead=Limit(100))).findings] == [
        "dead-many"
    ]


@in_one(
    ("counts", "severity", "words"),
    [
        (counted(dead=41, ready=2), "warning", "41 of 43 jobs are dead · e"),
        (counted(dead=5_000, done=100_000), "critical", "5 000 dead · e"),
        (counted(dead=1_000, done=100_000), "warning", "1 000 dead · e"),
        (counted(dead=9_000, ready=20), "critical", "9 000 of 9 020 jobs are dead · e"),
    ],
)
def test_a_queue_of_dead_jobs_is_told_by_their_number_and_their_share(counts, severity: str, words: str) -> None:
    judged = health.judged(QUEUE._replace(counts=counts, counters={}))
    assert (judged.verdict.severity, judged.verdict.text) == (severity, words)


def test_canceled_jobs_are_no_failures() -> None:
    canceled = Count("canceled", State.DEAD, 9_000, failures=False)
    assert kinds(QUEUE._replace(counts=(*counted(ready=20), canceled), counters={})) == []
    judged = health.judged(QUEUE._replace(counts=(*counted(dead=41, ready=2), canceled), counters={}))
    assert judged.verdict.text == "ok"
    [finding] = health.judged(QUEUE._replace(counts=(*counted(dead=1_000), canceled), counters={})).findings
    assert (finding.kind, finding.text, finding.jobs) == ("dead-many", "1 000 dead", 1_000)


def test_a_few_dead_jobs_of_a_queue_that_was_drained_wake_nobody() -> None:
    assert kinds(QUEUE._replace(counts=counted(dead=9), counters={})) == []


def test_jobs_that_die_one_after_another_are_told() -> None:
    dying = Rate(lately=Lately(300_000, done=400, failed=5, died=23))
    queue = QUEUE._replace(counts=counted(dead=23, done=400))
    [finding] = health.judged(queue, dying).findings
    assert (finding.kind, finding.text, finding.jobs) == ("dead-grows", "23 jobs died in the last 5 m", 23)
    rare = dying._replace(lately=Lately(300_000, done=100_000, died=23))
    assert kinds(queue, rare) == [], "of a hundred thousand some always die"


def test_a_wait_is_long_by_what_is_usual_for_the_queue() -> None:
    queue = QUEUE._replace(counts=counted(ready=8), workers=2, oldest_ready_ms=120_000)
    assert kinds(queue) == [], "nobody knows what is usual"
    judged = health.judged(queue, known=Known(usual_ms=2_000))
    assert judged.verdict.text == "the oldest ready job waits for 2 m, usually 2 s: add workers, w shows them"
    assert judged.findings[0].jobs == 8
    slow = queue._replace(oldest_ready_ms=900_000)
    assert kinds(slow) == ["oldest-ready"]
    assert health.judged(slow, known=Known(usual_ms=600_000)).findings == (), "a queue that is worked off by night"
    assert health.judged(slow, Rate(usual_ms=600_000)).findings == ()
    strict = DEFAULTS._replace(waiting=Limit(60_000, 90_000))
    assert health.judged(queue, limits=strict, known=Known(usual_ms=600_000)).verdict.severity == "critical"


def test_a_score_of_1970_is_no_age() -> None:
    queue = QUEUE._replace(counted_ms=NOW_MS, counts=counted(ready=1), workers=1, oldest_ready_ms=NOW_MS - 1)
    assert kinds(queue) == []


def test_of_two_findings_that_are_as_bad_the_one_about_more_jobs_is_the_verdict() -> None:
    found = [Finding("ghost", "warning", "mail", "no body", jobs=jobs) for jobs in (1, 700)]
    queue = QUEUE._replace(counts=counted(ready=30), workers=1, oldest_ready_ms=600_000)
    firsts = [health.judged(queue._replace(findings=(one,))).findings[0].kind for one in found]
    assert firsts == ["oldest-ready", "ghost"]


def test_of_several_findings_the_worst_is_the_verdict_and_all_are_kept() -> None:
    queue = QUEUE._replace(counts=counted(dead=1_200, ready=5, done=5_000), counters={}, paused=True)
    judged = health.judged(queue, Rate(lately=Lately(300_000, done=49, failed=51)))
    assert judged.verdict == Verdict("critical", "51 % of attempts fail · 2 more · e", "failing")
    assert [one.kind for one in judged.findings] == ["failing", "dead-many", "paused"]


def test_silent_leases_are_graded_by_how_many_they_are() -> None:
    lease = Finding("silent-leases", "warning", "mail", "200 leases of 2 workers that do not beat", jobs=200)
    judged = [health.judged(QUEUE._replace(findings=(replace(lease, jobs=jobs),))) for jobs in (1, 200)]
    assert [queue.verdict.severity for queue in judged] == ["warning", "critical"]
    off = DEFAULTS._replace(silent=Limit())
    assert health.judged(QUEUE._replace(findings=(lease,)), limits=off).findings == ()


# -- what cannot be known ----------------------------------------------------------------------------------------------


def test_ok_means_that_somebody_looked() -> None:
    places = (Count("delayed", State.SCHEDULED, 1), Count("ready", State.READY, 4))
    judged = health.judged(Queue("tasks", "theirs", places, NOW_MS, workers=None))
    assert judged.verdict == Verdict("ok", "ok · failures unknown", "")
    assert judged.unknown == ("failures", "workers", "leases", "waiting times")
    assert health.judged(QUEUE._replace(counters={"failed": 0})).unknown == ()


def test_where_the_dead_are_kept_failures_are_seen() -> None:
    places = (Count("ready", State.READY, 0), Count("busy", State.RESERVED, 4), Count("failed", State.DEAD, 4))
    judged = health.judged(Queue("tasks", "theirs", places, NOW_MS, workers=None))
    assert (judged.verdict.text, judged.unknown) == ("ok", ("workers",))


def test_every_kind_that_the_code_finds_is_on_the_page() -> None:
    root, everywhere = Path(health.__file__).parents[1], set()
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
    assert {"failing", "silent-leases", "node-away"} <= everywhere <= health.KINDS.keys()


def test_a_server_that_forgets_or_evicts_is_found(client: Redis, settings) -> None:
    settings("save", "3600 1")
    assert health.server_findings(client) == []
    settings("save", "")
    assert [finding.kind for finding in health.server_findings(client)] == ["no-persistence"]
    settings("maxmemory", "1gb")
    settings("maxmemory-policy", "allkeys-lru")
    assert [finding.kind for finding in health.server_findings(client)] == ["eviction", "no-persistence"]


def test_a_full_server_is_found(client: Redis, settings) -> None:
    settings("save", "3600 1")
    used = int(client.info("memory")["used_memory"])
    settings("maxmemory", str(used + used // 50))
    assert [finding.kind for finding in health.server_findings(client)] == ["memory"]


def test_a_server_that_tells_nothing_about_itself_has_no_findings() -> None:
    try:
        server = embedded("fake")
    except UsageError as error:
        pytest.skip(str(error))
    with server, connect(server.url) as client:
        assert health.server_findings(client) == []


def test_a_user_who_may_not_ask_gets_no_findings(client: Redis, url: str) -> None:
    client.execute_command("ACL", "SETUSER", "viewer", "on", ">pw", "~*", "+ping", "+client|setname")
    try:
        with connect(url.replace("redis://", "redis://viewer:pw@")) as viewer:
            assert health.server_findings(viewer) == []
    finally:
        client.execute_command("ACL", "DELUSER", "viewer")


# -- since when a job could have been dispatched ----------------------------------------------------------------------


def looked(*looks: tuple[int, int, int, int]) -> list[str]:
    """What is said of a queue at each look: (seconds, due jobs, due ms of the first, dispatched ever)."""
    rates, said = Rates(), []
    for after_s, overdue, head_ms, dispatched in looks:
        at_ms = NOW_MS + 1000 * after_s
        queue = QUEUE._replace(
            counted_ms=at_ms, overdue=overdue, next_due_ms=head_ms - at_ms, counters={"dispatched": dispatched}
        )
        judged = health.judged(queue, rates.since_last(Ref("native", "mail"), queue, after_s))
        said += [finding.text for finding in judged.findings] or [""]
    return said


def test_a_job_whose_score_is_of_1970_is_late_since_it_was_seen() -> None:
    assert looked((0, 1, 1, 0), (2, 1, 1, 0), (7, 1, 1, 0), (120, 1, 1, 0)) == [
        "1 due, nobody dispatches",
        "",
        "1 due, nobody dispatches for 7 s",
        "1 due, nobody dispatches for 2 m",
    ]


def test_a_job_that_is_plausibly_late_is_late_since_it_was_due() -> None:
    hour_ms = NOW_MS - 3_600_000
    assert looked((0, 1, hour_ms, 0), (2, 1, hour_ms, 0)) == [
        f"1 due since {moment(hour_ms)}, nobody dispatches",
        "1 due, nobody dispatches for 1 h",
    ]


def test_a_job_put_with_an_old_score_is_late_since_the_look_before_it_came() -> None:
    assert looked((0, 0, 0, 0), (10, 1, 1, 0), (14, 1, 1, 0), (16, 1, 1, 0))[1:] == [
        "1 due, nobody dispatches for 10 s",
        "1 due, nobody dispatches for 14 s",
        "1 due, nobody dispatches for 16 s",
    ]
    assert looked((0, 0, 0, 0), (2, 1, 1, 0), (4, 1, 1, 0), (6, 1, 1, 0))[1:] == [
        "", "", "1 due, nobody dispatches for 6 s",
    ]  # fmt: skip


def test_while_somebody_dispatches_old_scores_are_no_finding() -> None:
    assert looked((0, 0, 0, 0), *((2 * n, 5, 1, 10 * n) for n in range(1, 9)))[1:] == [""] * 8
    assert looked((0, 40, 1, 0), *((2 * n, 40 - n, 1, 0) for n in range(1, 9)))[1:] == [""] * 8


def test_an_engine_remembers_between_its_looks(client: Redis) -> None:
    engine = Engine(client, [registry.make("native")])
    ref = Ref("native", "mail")
    engine.act("enqueue", ref, (), {"id": "a", "body": b"1", "delay_ms": 3_600_000})
    client.zadd("rqtui:{mail}:scheduled", {"a": 1})
    first, second = (engine.findings([ref]) for _look in range(2))
    assert [one.text for one in first if one.queue] == ["1 due, nobody dispatches"]
    assert [one.text for one in second if one.queue] == []
