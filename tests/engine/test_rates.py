"""Rates: per second between two looks and over the last minutes, from counters or from places that grow and shrink."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from rqtui.engine import rates
from rqtui.engine.rates import (
    AGE_INTERVAL_MS,
    CHECKPOINT_INTERVAL_MS,
    MAX_AGES,
    MIN_USUAL_AGES,
    WINDOW_MS,
    Checkpoint,
    Rates,
    RecordedEnds,
    Totals,
)
from rqtui.model import Count, EventCoverage, FailedStreak, Queue, Rate, RecentActivity, Ref, State

NOW_MS = 1_800_000_000_000
MAIL = Ref("any", "mail")


def queue(after_ms: int, counters: dict[str, int] | None = None, age_ms: int = 0, **counts: int) -> Queue:
    places = tuple(Count(name, State(name), number) for name, number in counts.items())
    at_ms = NOW_MS + after_ms
    return Queue("mail", "any", places, at_ms, counters=counters or {}, oldest_ready_ms=age_ms)


def last(*looks: Queue, rates: Rates | None = None) -> Rate:
    rates = rates or Rates()
    return [rates.compute_rate(MAIL, look, (look.counted_ms - NOW_MS) / 1000) for look in looks][-1]


def test_counters_show_what_happened_recently() -> None:
    totals = {"in": 100, "out": 50, "failed": 7, "dead": 1}
    later = {"in": 160, "out": 90, "failed": 47, "dead": 4}
    rate = last(queue(0, totals, ready=3), queue(2_000, later, ready=23))
    assert rate.recent == RecentActivity(2_000, enqueued=60, completed=40, failed=40, dead=3, ready_growth=20)
    assert rate.recent.failure_share == 0.5
    assert (rate.in_s, rate.out_s, rate.failed_s) == (30, 20, 20)


def test_rates_are_those_of_the_last_minute_and_end_with_it() -> None:
    def look(at_s: int, out: int) -> Queue:
        return queue(at_s * 1000, {"in": 2 * out, "out": out, "failed": 0, "dead": 0}, ready=out)

    busy = [look(at, 5 * at) for at in range(0, 121, 5)]
    rate = last(*busy)
    assert (rate.in_s, rate.out_s, rate.last_out_s) == (10, 5, 5)
    rest = [look(at, 600) for at in range(125, 300, 5)]
    assert 2 < last(*busy, *rest[:6]).out_s < 3.5, "half of the minute"
    assert (last(*busy, *rest[:16]).out_s, last(*busy, *rest[:1]).last_out_s) == (0, 0)
    again = last(*busy, *rest, look(300, 660))
    assert again.out_s == 1.0, "60 in the last minute, of a queue that was at rest"


def test_rates_of_a_queue_that_is_rarely_polled_are_those_since_the_last_checkpoint() -> None:
    rate = last(*(queue(at, {"in": at, "out": at}) for at in (0, 200_000, 400_000)))
    assert (rate.in_s, rate.out_s) == (1_000, 1_000)
    assert last(queue(0, {"out": 5}), queue(0, {"out": 7})).out_s == 0, "no time went by"


def test_activity_before_the_last_minutes_is_dropped() -> None:
    looks = [
        queue(at, {"in": 0, "out": 0, "failed": 5 if at else 0})
        for at in range(0, 3 * WINDOW_MS, CHECKPOINT_INTERVAL_MS)
    ]
    assert last(*looks[:10]).recent.failed == 5
    rate = last(*looks)
    assert rate.recent.failed == 0
    assert WINDOW_MS <= rate.recent.duration_ms <= WINDOW_MS + CHECKPOINT_INTERVAL_MS


def test_with_a_poll_at_each_checkpoint_the_recent_activity_covers_exactly_the_window() -> None:
    rates = Rates()
    for at_ms in range(0, 2 * WINDOW_MS, CHECKPOINT_INTERVAL_MS):
        rate = last(queue(at_ms, {"in": at_ms, "out": at_ms}), rates=rates)
        assert at_ms < WINDOW_MS or rate.recent.duration_ms == WINDOW_MS


def test_an_idle_queue_is_stored_by_few_checkpoints() -> None:
    rates = Rates()
    last(*(queue(at, {"in": 1}) for at in range(0, WINDOW_MS, CHECKPOINT_INTERVAL_MS)), rates=rates)
    assert len(rates._histories[MAIL].checkpoints) <= 3


def test_a_checkpoint_before_the_first_poll_shows_recent_activity_at_once() -> None:
    rates = Rates()
    last(queue(0, {"in": 900, "out": 400, "failed": 300, "dead": 100}, ready=500), rates=rates)
    lately, streak = rates.add_earlier_activity(MAIL, Checkpoint(NOW_MS - WINDOW_MS, Totals(800, 350, 250, 90)))
    assert streak is None
    assert lately == RecentActivity(WINDOW_MS, enqueued=100, completed=50, failed=50, dead=10, ready_growth=40)


def test_earlier_totals_are_at_most_those_of_the_first_poll() -> None:
    rates = Rates()
    counters = {"in": 900, "out": 400, "failed": 300}
    last(queue(0, {**counters, "dead": 90}, ready=500), queue(5_000, {**counters, "dead": 110}, ready=500), rates=rates)
    lately, _streak = rates.add_earlier_activity(MAIL, RecordedEnds(NOW_MS - 2 * WINDOW_MS, 5, 30, is_final=False))
    assert lately.dead == 20, "the attempts that a system recorded do not say which of their jobs died"


def test_failed_attempts_in_a_row_are_counted_until_one_succeeds_or_none_comes_any_more() -> None:
    rates, minute_ms = Rates(), 60_000
    counters = [{"in": 50, "out": 20, "failed": failed, "dead": 0} for failed in range(12)]
    polls = [queue(at * 10 * minute_ms, each, ready=1) for at, each in enumerate(counters)]
    rate = last(*polls, rates=rates)
    first_ms = NOW_MS + 10 * minute_ms
    assert rate.failed_streak == FailedStreak(11, first_ms, first_ms + 100 * minute_ms)
    assert last(*polls, queue(125 * minute_ms, counters[-1], ready=1)).failed_streak is not None
    assert last(*polls, queue(131 * minute_ms, counters[-1], ready=1)).failed_streak is None, "none came any more"
    success = {**counters[-1], "out": 21, "failed": 12}
    assert last(*polls, queue(111 * minute_ms, success, ready=1)).failed_streak is None
    assert last(*polls, queue(111 * minute_ms, {"in": 0, "out": 20, "failed": 0, "dead": 0})).failed_streak is None


def test_jobs_that_ended_in_the_second_before_the_first_poll_count_as_recent() -> None:
    rates = Rates()
    last(queue(0, ready=0, done=5, dead=20), queue(900, ready=0, done=5, dead=20), rates=rates)
    recent, _streak = rates.add_earlier_activity(MAIL, RecordedEnds(NOW_MS - 300, 5, 20))
    assert (recent.duration_ms, recent.completed, recent.failed) == (1200, 5, 20)


def test_places_that_grow_show_where_there_are_no_counters() -> None:
    rate = last(queue(0, ready=100, reserved=5, done=10, dead=0), queue(2_000, ready=60, reserved=5, done=40, dead=10))
    assert rate.recent == RecentActivity(2_000, enqueued=0, completed=30, failed=10, dead=10, ready_growth=-40)
    assert rate.recent.failure_share == 0.25
    assert rate.out_s == 15


def test_without_a_place_for_done_jobs_the_share_of_failures_is_unknown() -> None:
    rate = last(queue(0, ready=100, dead=0), queue(2_000, ready=60, dead=10))
    assert (rate.recent.completed, rate.recent.dead, rate.recent.failed) == (30, 10, 0)
    assert rate.out_s == 15


def test_a_job_that_is_canceled_did_not_die() -> None:
    def look(after_ms: int, canceled: int, **counts: int) -> Queue:
        found = queue(after_ms, **counts)
        return found._replace(counts=(*found.counts, Count("canceled", State.DEAD, canceled, has_failures=False)))

    lately = last(look(0, 0, ready=100, done=0, dead=0), look(2_000, 30, ready=70, done=0, dead=2)).recent
    assert (lately.enqueued, lately.failed, lately.dead, lately.ready_growth) == (2, 2, 2, -30)


def test_a_purge_is_no_negative_rate() -> None:
    rate = last(queue(0, ready=5, done=90, dead=90), queue(2_000, ready=5, done=0, dead=0))
    assert (rate.in_s, rate.out_s, rate.recent.dead) == (0, 0, 0)


def build_event_queue(after_ms: int, waiting: int, done: int = 0, *, of: int | None = 0, given: int = 0) -> Queue:
    """Build a queue whose ended jobs are known only from Pub/Sub events; with `of` None no process listens."""
    hearing = EventCoverage(None if of is None else NOW_MS, reassigned=given)
    places = (
        Count("waiting", State.READY, waiting),
        Count("done", State.DONE, done, shared_total=of, coverage=hearing),
    )
    return Queue("mail", "any", places, NOW_MS + after_ms, counters={})


def test_without_events_a_missing_job_counts_as_done() -> None:
    for of in (None, 0):
        rate = last(
            build_event_queue(0, 100, of=of), build_event_queue(2_000, 60, of=of), build_event_queue(4_000, 70, of=of)
        )
        assert (rate.recent.enqueued, rate.recent.completed) == (10, 40)


def test_events_show_what_was_done_and_a_job_that_left_before_is_not_counted_as_enqueued() -> None:
    rates = Rates()
    start = build_event_queue(0, 100, 5, of=5)
    assert last(start, build_event_queue(2_000, 60, 5, of=5), rates=rates).recent[:3] == (2_000, 0, 0), (
        "40 run somewhere"
    )
    assert last(build_event_queue(4_000, 60, 35, of=35), rates=rates).recent[1:3] == (0, 30), "30 of them ended"
    assert last(build_event_queue(6_000, 80, 45, of=45), rates=rates).recent[1:3] == (20, 40), (
        "the last ten, and 20 new ones"
    )
    assert last(build_event_queue(8_000, 80, 50, of=50), rates=rates).recent[1:3] == (25, 45), (
        "five came and ended in between"
    )


def add_failures(queue: Queue, failed: int) -> Queue:
    """Add a place of failed jobs that is counted from Pub/Sub events."""
    [done] = [count for count in queue.counts if count.state is State.DEAD or count.state is State.DONE]
    dead = Count("failed", State.DEAD, failed, shared_total=failed, coverage=done.coverage)
    return queue._replace(counts=(*queue.counts, dead))


def test_a_job_that_left_before_the_first_event_is_counted_once() -> None:
    rates = Rates()
    assert last(build_event_queue(0, 100), build_event_queue(2_000, 60), rates=rates).recent.completed == 40
    rate = last(build_event_queue(4_000, 60, 30, of=30), rates=rates)
    assert (rate.recent.enqueued, rate.recent.completed, rate.last_out_s) == (0, 40, 0), "30 of those 40 are heard of"
    assert last(build_event_queue(6_000, 50, 50, of=50), rates=rates).recent.completed == 50, "ten of them, ten others"


def test_a_job_that_left_before_the_first_event_and_failed_did_not_complete() -> None:
    rates = Rates()
    looks = (add_failures(build_event_queue(at, ready), 0) for at, ready in ((0, 100), (2_000, 60)))
    assert last(*looks, rates=rates).recent[2:5] == (40, 0, 0)
    lately = last(add_failures(build_event_queue(4_000, 60), 40), rates=rates).recent
    assert (lately.enqueued, lately.completed, lately.failed, lately.dead) == (0, 0, 40, 40)


def test_jobs_that_left_while_no_client_listened_are_not_matched_with_later_events() -> None:
    rates = Rates()
    last(build_event_queue(0, 100, of=None), build_event_queue(2_000, 60, of=None), rates=rates)
    assert last(build_event_queue(4_000, 60, 5, of=5), rates=rates).recent.completed == 45


def test_workers_are_idle_where_no_event_comes_and_no_job_leaves() -> None:
    rates = Rates()
    looks = [build_event_queue(at * 1_000, 60) for at in (0, 10, 20)]
    assert last(*looks, rates=rates).idle_since_ms == NOW_MS
    assert last(build_event_queue(30_000, 59), rates=rates).idle_since_ms is None, "a job was taken"
    assert last(build_event_queue(40_000, 59), rates=rates).idle_since_ms == NOW_MS + 30_000
    assert last(build_event_queue(50_000, 59, 1, of=1), rates=rates).idle_since_ms is None, "its event came"


def test_an_event_assigned_later_to_a_queue_does_not_count_as_ended_then() -> None:
    there = last(build_event_queue(0, 100, 5, of=100), build_event_queue(2_000, 100, 55, of=100, given=50))
    here = last(build_event_queue(0, 100, 95, of=100), build_event_queue(2_000, 98, 47, of=102, given=-50))
    assert (there.recent.enqueued, there.recent.completed, here.recent.completed, here.out_s) == (0, 0, 2, 1)


def test_jobs_without_a_further_event_are_not_waited_for_for_ever() -> None:
    rates = Rates()
    last(build_event_queue(0, 100, 1, of=1), build_event_queue(2_000, 0, 1, of=1), rates=rates)
    late_ms = 2_000 + WINDOW_MS + 1
    last(build_event_queue(late_ms, 0, 1, of=1), rates=rates)
    assert last(build_event_queue(late_ms + 2_000, 30, 1, of=1), rates=rates).in_s == 15


def test_the_usual_wait_is_known_after_a_while() -> None:
    rates = Rates()
    looks = [queue(at * AGE_INTERVAL_MS, age_ms=2_000 if at < 14 else 600_000, ready=1) for at in range(18)]
    last(*looks[:8], rates=rates)
    assert rates.find_usual_wait_ms(MAIL) is None
    last(*looks[8:], rates=rates)
    assert rates.find_usual_wait_ms(MAIL) == 2_000


def test_the_latest_growth_is_that_of_the_last_fifteen_to_thirty_seconds() -> None:
    looks = [queue(at, {"in": at, "out": 0}, ready=ready) for at, ready in ((0, 0), (20_000, 900), (40_000, 700))]
    assert last(*looks[:1]).recent.latest_growth is None
    assert last(*looks[:2]).recent.latest_growth == 900
    assert last(*looks).recent.latest_growth == -200


@pytest.mark.parametrize(
    ("age_ms", "attempts"), [(59_999, (0, 0)), (60_000, (4, 2)), (120_000, (4, 2)), (120_001, (0, 0))]
)
def test_attempts_of_the_last_minute_are_those_since_a_checkpoint_of_one_to_two_minutes_ago(
    age_ms: int, attempts: tuple[int, int]
) -> None:
    history = SimpleNamespace(
        polled_at_ms=900_000,
        checkpoints=(rates.Checkpoint(900_000 - age_ms, rates.Totals(completed=6, failed=3)),),
        totals=rates.Totals(completed=10, failed=5),
    )
    assert rates._count_last_minute_attempts(history) == attempts  # type: ignore[arg-type]


def test_a_queue_is_idle_since_the_last_job_was_reserved_or_ended() -> None:
    looks = [
        queue(0, {"in": 5, "out": 1}, ready=4, reserved=1),
        queue(5_000, {"in": 5, "out": 2}, ready=3, reserved=0),
        queue(9_000, {"in": 5, "out": 2}, ready=3, reserved=0),
    ]
    assert [last(*looks[: number + 1]).idle_since_ms for number in range(3)] == [None, None, NOW_MS + 5_000]
    taken = queue(10_000, {"in": 5, "out": 2}, ready=2, reserved=1)
    assert last(*looks, taken).idle_since_ms is None
    assert last(*looks, queue(10_000, {"in": 5, "out": 5}, ready=0, reserved=0)).idle_since_ms is None


def test_the_usual_wait_is_the_median_of_the_ages_before_the_last_five_minutes() -> None:
    def usual_ms(*ages_s: int, interval_ms: int = AGE_INTERVAL_MS) -> int | None:
        rates = Rates()
        last(*(queue(at * interval_ms, age_ms=age * 1000, ready=1) for at, age in enumerate(ages_s)), rates=rates)
        return rates.find_usual_wait_ms(MAIL)

    recent = WINDOW_MS // AGE_INTERVAL_MS
    first = 1  # the first poll begins the history, and its age is not stored
    needed = [7] * MIN_USUAL_AGES
    assert usual_ms(*[0] * first, *needed, *[900] * recent) == 7_000
    assert usual_ms(*[0] * first, *needed[1:], *[900] * recent) is None
    assert usual_ms(*[0] * first, *[1] * 5, *[3] * 4, *[9_000] * 2, *[900] * recent) == 3_000, (
        "the median, not the mean"
    )
    often = [0] * first + [7, 900, 900] * (MIN_USUAL_AGES + recent)
    assert usual_ms(*often, interval_ms=AGE_INTERVAL_MS // 3) == 7_000, "one age is kept for each minute"
    old, new = [600] * MAX_AGES, [5] * (MAX_AGES // 2)
    assert usual_ms(*[0] * first, *old, *new, *[900] * recent) == 5_000, "an hour is kept"
    assert Rates().find_usual_wait_ms(MAIL) is None
