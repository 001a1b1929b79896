"""What counts say is wrong: pure functions from a counted queue to findings."""

from __future__ import annotations

from dataclasses import replace

import pytest
from families import in_one
from redis import Redis

from rqtui.connection.connect import connect
from rqtui.connection.embedded import embedded
from rqtui.engine import health
from rqtui.engine.engine import Engine
from rqtui.engine.rates import NO_RATE, Rates
from rqtui.errors import UsageError
from rqtui.model import Count, Finding, Queue, Rate, Ref, State
from rqtui.systems import registry
from rqtui.text.formats import moment

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
        (replace(QUEUE, error="a key holds a string"), "wrong-type"),
        (replace(QUEUE, expired=3, next_expiry_ms=-6_000), "expired-not-reaped"),
        (replace(QUEUE, overdue=3, next_due_ms=-6_000), "due-not-dispatched"),
        (replace(QUEUE, counts=counted(ready=1), oldest_ready_ms=6_000), "no-live-worker"),
        (replace(QUEUE, counts=counted(ready=1), oldest_ready_ms=600_000, workers=1), "oldest-ready"),
        (replace(QUEUE, counts=counted(dead=95)), "dead-near-cap"),
        (replace(QUEUE, paused=True), "paused"),
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
        replace(QUEUE, expired=3, next_expiry_ms=-4_000),
        replace(QUEUE, overdue=3, next_due_ms=-4_000),
        replace(QUEUE, counts=counted(ready=1), oldest_ready_ms=4_000),
        replace(QUEUE, counts=counted(ready=1), oldest_ready_ms=60_000, workers=1),
        replace(QUEUE, counts=counted(dead=80)),
    ],
)
def test_what_a_loop_or_a_worker_is_about_to_mend_is_no_finding(queue: Queue) -> None:
    assert kinds(queue) == []


def test_a_paused_queue_is_only_paused() -> None:
    queue = replace(
        QUEUE, counts=counted(ready=5), paused=True, oldest_ready_ms=900_000, overdue=2, next_due_ms=-60_000, workers=1
    )
    assert kinds(queue) == ["paused"]


def test_a_backlog_that_grows_is_found_after_some_ticks() -> None:
    queue = replace(QUEUE, counts=counted(ready=1000), workers=2, oldest_ready_ms=1000)
    growing = Rate(in_s=50, out_s=10, history=(10.0,) * 10)
    assert kinds(queue, growing) == ["backlog-grows"]
    assert kinds(queue, growing._replace(history=(10.0,) * 3)) == []
    assert kinds(queue, growing._replace(in_s=10)) == []


def test_the_worst_finding_is_the_verdict() -> None:
    judged = health.judged(replace(QUEUE, paused=True, error="a key holds a string"))
    assert [finding.severity for finding in judged.findings] == ["critical", "warning"]
    assert (judged.verdict.severity, judged.verdict.kind) == ("critical", "wrong-type")
    assert "a key holds a string" in judged.verdict.text


@in_one(
    ("queue", "rate", "words"),
    [
        (
            replace(QUEUE, expired=12, next_expiry_ms=-240_000),
            Rate(),
            "12 leases expired, nobody reaps for 4 m: . starts the reaper",
        ),
        (
            replace(QUEUE, overdue=3, next_due_ms=-61_000),
            Rate(due_since_ms=-61_000),
            "3 due, nobody dispatches for 1 m: , starts the dispatcher",
        ),
        (
            replace(QUEUE, counted_ms=NOW_MS, overdue=3, next_due_ms=-61_000),
            Rate(),
            f"3 due since {moment(NOW_MS - 61_000)}, nobody dispatches: , starts the dispatcher",
        ),
        (
            replace(QUEUE, counted_ms=NOW_MS, overdue=3, next_due_ms=1 - NOW_MS),
            Rate(),
            "3 due, nobody dispatches: , starts the dispatcher",
        ),
        (
            replace(QUEUE, counts=counted(ready=1), oldest_ready_ms=6_000),
            Rate(),
            "no live worker for 1 ready job: start one: rqtui work",
        ),
        (
            replace(QUEUE, counts=counted(ready=1), oldest_ready_ms=540_000, workers=1),
            Rate(),
            "the oldest ready job waits for 9 m: add workers, w shows them",
        ),
        (
            replace(QUEUE, counts=counted(dead=95)),
            Rate(),
            "95 dead of at most 100: the oldest will be forgotten: e groups them, R requeues them",
        ),
        (replace(QUEUE, paused=True), Rate(), "paused: P resumes it"),
        (
            replace(QUEUE, counts=counted(ready=1000), workers=4, oldest_ready_ms=1000),
            Rate(in_s=25, out_s=10, history=(10.0,) * 10),
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
        queue = replace(
            QUEUE, counted_ms=at_ms, overdue=overdue, next_due_ms=head_ms - at_ms, counters={"dispatched": dispatched}
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
