"""Test the groups of jobs of a time: the last hour against earlier jobs, or against the same hour a day before."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rqtui.errors import UsageError
from rqtui.model import Job, State
from rqtui.reports.comparison import Selection
from rqtui.reports.hosts import find_host_in_name
from rqtui.reports.time_windows import TimeWindow, choose_time, select_by_time
from rqtui.systems import registry

NOW_MS, HOUR_MS, DAY_MS = 1_800_000_000_000, 3_600_000, 86_400_000


def build_job(state: State, enqueued_ms: int | None, ended_ms: int | None = None) -> Job:
    return Job(b"a", "mail", "native", str(state), state, b"", enqueued_ms=enqueued_ms, ended_ms=ended_ms)


def test_the_last_hour_is_compared_with_earlier_jobs_or_with_the_hour_a_day_before() -> None:
    dead = Selection(("dead",), "err:x")
    a, b = select_by_time(dead, dead, "ended", NOW_MS, HOUR_MS, None)
    assert (a.accepts, b.accepts) == (
        TimeWindow("ended", NOW_MS - HOUR_MS, NOW_MS + 1),
        TimeWindow("ended", None, NOW_MS - HOUR_MS),
    )
    assert (str(a), str(b)) == ("dead with err:x, ended in the last 1 h", "dead with err:x, ended before that")
    assert a.attributes == frozenset({"ended_hour"})
    _a, b = select_by_time(dead, dead, "enqueued", NOW_MS, HOUR_MS, DAY_MS)
    assert b.accepts == TimeWindow("enqueued", NOW_MS - DAY_MS - HOUR_MS, NOW_MS - DAY_MS)
    assert str(b) == "dead with err:x, enqueued in the same 1 h 1 d earlier"
    with pytest.raises(UsageError, match="same jobs"):
        select_by_time(dead, dead, "ended", NOW_MS, DAY_MS, HOUR_MS)


def test_a_group_of_its_own_condition_is_selected_by_time_as_well() -> None:
    failed = Selection(("dead",), accepts=lambda job: job.error == "x", label="this error", attributes=frozenset({"a"}))
    a, _b = select_by_time(failed, failed, "ended", NOW_MS, HOUR_MS, None)
    recent, old = build_job(State.DEAD, None, NOW_MS), build_job(State.DEAD, None, NOW_MS - 2 * HOUR_MS)
    assert a.accepts is not None and str(a) == "this error, ended in the last 1 h"
    assert [a.accepts(replace(job, error=error)) for job in (recent, old) for error in ("x", "y")] == [
        True,
        *[False] * 3,
    ]
    assert a.attributes == frozenset({"a", "ended_hour"})


def test_a_job_without_the_time_is_in_no_window() -> None:
    window = TimeWindow("ended", None, NOW_MS)
    assert window(build_job(State.DEAD, None, NOW_MS - 1)) and not window(build_job(State.DEAD, None, NOW_MS))
    assert not window(build_job(State.READY, NOW_MS - 1))
    enqueued = TimeWindow("enqueued", NOW_MS - 5, NOW_MS)
    assert enqueued(build_job(State.READY, NOW_MS - 5)) and not enqueued(build_job(State.READY, NOW_MS - 6))
    assert not enqueued(build_job(State.READY, None))


def test_jobs_that_have_ended_are_selected_by_their_end() -> None:
    native = registry.create_system("native")
    assert choose_time(native, ("dead", "done")) == "ended"
    assert choose_time(native, ("dead", "ready")) == "enqueued"


@pytest.mark.parametrize(
    ("system", "worker", "host"),
    [
        ("native", "shop-1:812:0a1f3", "shop-1"),
        ("sidekiq", "app.example:26:0a1f3b5c7d9e", "app.example"),
        ("celery", "celery@node7", "node7"),
        ("native", "celery@node7", ""),
        ("native", "orders-eu-7", ""),
        ("rq", "shop-1:812:0a1f3", ""),
        ("celery", "a@b@c", ""),
    ],
)
def test_the_host_is_read_only_from_names_that_a_system_forms_itself(system: str, worker: str, host: str) -> None:
    assert find_host_in_name(registry.create_system(system), worker) == host
