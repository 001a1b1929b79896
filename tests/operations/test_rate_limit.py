"""Test rate-limited changes: so many jobs per second, and the limits that stop a change."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import pytest
from families import run_in_one_test
from redis import Redis
from screens import Screen, Seeded, run_on_event_loop, screen
from shell import shell

from rqtui.errors import UsageError
from rqtui.model import Count, Job, Queue, State
from rqtui.operations import rate_limit


@pytest.fixture
def seeded(client: Redis) -> Seeded:
    return Seeded(client)


def clock(step_s: float) -> Any:
    """Return a clock that advances by `step_s` at each read."""
    ticks = count()
    return lambda: next(ticks) * step_s


def run(
    seeded: Seeded, jobs: tuple[Job, ...], brake: rate_limit.Limits, step_s: float = 1.0, **more: Any
) -> list[rate_limit.Step]:
    chosen = [(seeded.ref, jobs)]
    return list(
        rate_limit.yield_rate_limited_steps(seeded.engine, "requeue", chosen, {}, brake, clock=clock(step_s), **more)
    )


def dead(seeded: Seeded, number: int) -> tuple[Job, ...]:
    seeded.bury(*(f"d{n:03}" for n in range(number)))
    return seeded.jobs("dead")


@pytest.mark.parametrize(("text", "per_s"), [("5", 5), ("5/s", 5), ("30/m", 0.5), ("36 / h", 0.01), ("0.5/s", 0.5)])
def test_a_rate_is_read_with_its_unit(text: str, per_s: float) -> None:
    assert rate_limit.parse_rate(text) == per_s


@run_in_one_test("text", ["", "0", "-1", "5/d", "fast", "1e3", "٥/s", "99999"])
def test_a_value_that_is_no_rate_is_refused_in_a_sentence(text: str) -> None:
    with pytest.raises(UsageError, match="a rate is 5/s"):
        rate_limit.parse_rate(text)


def test_no_more_than_the_rate_is_sent_per_second(seeded: Seeded) -> None:
    steps = run(seeded, dead(seeded, 12), rate_limit.Limits(5), 1.0)
    assert max(len(step.outcomes) for step in steps) <= 5
    assert sum(len(step.outcomes) for step in steps) == 12
    assert (steps[-1].stop_reason, len(seeded.jobs("ready")), seeded.jobs("dead")) == (
        "all jobs were asked for",
        12,
        (),
    )


def test_work_missed_during_a_pause_is_not_caught_up_with(seeded: Seeded) -> None:
    steps = run(seeded, dead(seeded, 30), rate_limit.Limits(5), 600.0)
    assert max(len(step.outcomes) for step in steps) <= 5


def test_it_stops_when_failures_pass_the_line(seeded: Seeded) -> None:
    jobs = dead(seeded, 20)
    going = rate_limit.yield_rate_limited_steps(
        seeded.engine, "requeue", [(seeded.ref, jobs)], {}, rate_limit.Limits(2, max_failures=3), clock=clock(1.0)
    )
    steps = []
    for step in going:
        steps.append(step)
        held = seeded.reserve(5)
        if held:
            seeded.engine.apply_verb("reject", seeded.ref, held, {"error": "again", "final": True})
    assert "failures since it began (the limit is 3)" in steps[-1].stop_reason
    assert 0 < steps[-1].done < 10
    assert len(seeded.jobs("dead")) == 20


@pytest.mark.parametrize(
    ("failed_before", "failed_now", "dead_now", "failures"),
    [(7, 12, 3, 5), (7, 7, 9, 0), (None, None, 3, 3), (None, None, 0, 0)],
    ids=["retried attempts", "deaths without an attempt", "no counter", "no counter, none died again"],
)
def test_failed_attempts_are_counted_where_the_system_counts_them_else_new_dead_jobs(
    failed_before: int | None, failed_now: int | None, dead_now: int, failures: int
) -> None:
    def build_queue(failed: int | None, dead: int) -> Queue:
        counters = {} if failed is None else {"failed": failed}
        return Queue("mail", "native", counts=(Count("dead", State.DEAD, dead),), counters=counters)

    before, now = build_queue(failed_before, 10), build_queue(failed_now, dead_now)
    assert rate_limit._count_new_failures(before, now, moved_dead=10) == failures


def test_it_stops_when_so_many_wait_and_sends_none_beyond_the_line(seeded: Seeded) -> None:
    steps = run(seeded, dead(seeded, 30), rate_limit.Limits(20, max_depth=7), 1.0)
    assert steps[-1].stop_reason == "stopped after 7 of 30: 7 jobs ready (the limit is 7)"
    assert (len(seeded.jobs("ready")), len(seeded.jobs("dead"))) == (7, 23)


def test_a_job_that_moved_meanwhile_is_answered_and_left_alone(seeded: Seeded) -> None:
    jobs = dead(seeded, 3)
    seeded.engine.apply_verb("delete", seeded.ref, jobs[:1], {})
    words = [outcome.word for step in run(seeded, jobs, rate_limit.Limits(10)) for _ref, outcome in step.outcomes]
    assert words == ["gone", "moved", "moved"]


def test_jobs_that_come_back_to_a_changed_place_are_not_changed_again(seeded: Seeded) -> None:
    dead(seeded, 6)
    brake, seen = rate_limit.Limits(3), []
    for step in rate_limit.yield_rate_limited_steps(
        seeded.engine, "requeue", [(seeded.ref, ())], {}, brake, place="dead", clock=clock(1.0)
    ):
        seen += [outcome.id for _ref, outcome in step.outcomes]
        held = seeded.reserve(10)
        if held:
            seeded.engine.apply_verb("reject", seeded.ref, held, {"error": "again", "final": True})
    assert len(seen) == len(set(seen)) == 6


# ── from the shell ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_act_with_a_rate_requeues_slowly_and_explains_why_it_stopped(url: str, seeded: Seeded) -> None:
    dead(seeded, 40)
    line = ("act", "requeue", "mail", "--place", "dead", "--all", "--rate", "1000/s", "--stop-at-depth", "4")
    ran = shell(url, *line, "--json")
    assert ran.code == 1
    assert (ran.json["moved"], ran.json["left"], len(seeded.jobs("ready"))) == (4, 36, 4)
    assert ran.json["stopped"] == "stopped after 4 of 40: 4 jobs ready (the limit is 4)"


def test_act_with_a_rate_and_a_filter_takes_only_what_matches(url: str, seeded: Seeded) -> None:
    dead(seeded, 4)
    seeded.bury("other")
    line = ("act", "requeue", "mail", "--place", "dead", "--filter", "id:other", "--rate", "100/s", "--json")
    ran = shell(url, *line)
    assert (ran.code, ran.json["moved"], ran.json["stopped"]) == (0, 1, None)
    assert seeded.ids("ready") == ["other"]


@pytest.mark.parametrize(
    "options",
    [("--stop-at-depth", "5"), ("--rate", "0"), ("--rate", "5", "--stop-at-failures", "0")],
    ids=["a line without a rate", "no rate", "no failures"],
)
def test_an_impossible_rate_limit_is_refused_before_anything_is_sent(
    url: str, seeded: Seeded, options: tuple[str, ...]
) -> None:
    dead(seeded, 2)
    ran = shell(url, "act", "requeue", "mail", "--place", "dead", "--all", *options)
    assert ran.code == 2 and len(seeded.jobs("dead")) == 2


def test_a_dangerous_throttled_requeue_asks_like_any_other_change(url: str, seeded: Seeded) -> None:
    dead(seeded, 2)
    ran = shell(url, "act", "delete", "mail", "--place", "dead", "--all", "--rate", "5")
    assert ran.code == 1 and "--yes" in ran.err and len(seeded.jobs("dead")) == 2


# ── on the screen ────────────────────────────────────────────────────────────────────────────────────────────────────


async def dripping(ui: Screen) -> None:
    """Requeue all dead jobs of the board with the palette's throttled requeue."""
    await ui.press("enter", "5", "asterisk", "colon", '"throttled requeue')
    await ui.until_shown("Throttled requeue: requeue a number of jobs")
    await ui.press("enter")
    await ui.until_shown("Requeue all")


@pytest.mark.slow
@run_on_event_loop
async def test_the_palettes_throttled_requeue_reports_how_far_it_is_and_x_stops_it(url: str, seeded: Seeded) -> None:
    dead(seeded, 60)
    async with screen(url) as ui:
        await dripping(ui)
        ui.app.screen.query_one("#field-rate").value = "8/s"  # type: ignore[attr-defined]
        await ui.until_shown("At 8/s this takes 8 s.")
        await ui.press("y")
        await ui.until_shown("requeue", "of 60 · 8/s", "s left", "X stop")
        await ui.until(lambda: len(seeded.jobs("ready")) >= 3, "some are ready")
        await ui.press("escape")
        await ui.until(lambda: ui.app.navigation.is_at_first_view, "Esc went back")
        await ui.until_shown("X stop")
        await ui.press("q")
        await ui.until_shown("A change of many jobs is running.")
        await ui.press("n", "X")
        await ui.until_toast("stopped by X after", "of 60")
        left = len(seeded.jobs("dead"))
        assert 0 < left < 60
        await ui.until_refreshed()
        assert len(seeded.jobs("dead")) == left


@pytest.mark.slow
@run_on_event_loop
async def test_a_throttled_requeue_on_the_screen_stops_at_its_limit(url: str, seeded: Seeded) -> None:
    dead(seeded, 40)
    async with screen(url) as ui:
        await dripping(ui)
        ui.app.screen.query_one("#field-rate").value = "100/s"  # type: ignore[attr-defined]
        ui.app.screen.query_one("#field-stop_at_depth").value = "9"  # type: ignore[attr-defined]
        await ui.press("y")
        await ui.until_toast("9 jobs ready (the limit is 9)")
        assert (len(seeded.jobs("ready")), len(seeded.jobs("dead"))) == (9, 31)
        await ui.until_toast("9 requeued")


def test_the_documents_of_a_throttled_requeue_are_json(url: str, seeded: Seeded) -> None:
    dead(seeded, 1)
    ran = shell(url, "act", "requeue", "mail", "d000", "--rate", "5", "--json")
    assert json.loads(ran.out)["results"] == [{"id": "d000", "word": "moved", "text": "requeued"}]
