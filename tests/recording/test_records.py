"""Merge polls to minutes and minutes to hours: flows add up, counts are the last, extremes stay."""

from __future__ import annotations

from itertools import product

from recordings import build_period

from rqtui.recording.records import HOUR_MS, MINUTE_MS, ServerPeriod, merge_periods, merge_server_periods


def test_an_hour_has_the_sum_of_its_minutes_their_extremes_and_the_last_counts() -> None:
    minutes = [
        build_period(0, ready_max=9, workers_min=None, workers=None, severity="critical"),
        build_period(MINUTE_MS, watched_ms=10_000, oldest_ready_max_ms=None),
        build_period(2 * MINUTE_MS, counts=(1, 2, 3, 4, 5), estimated=2, is_paused=True, oldest_ready_ms=None),
    ]
    hour = merge_periods(*minutes, at_ms=0, span_ms=HOUR_MS)
    assert (hour.at_ms, hour.span_ms, hour.begin_ms, hour.end_ms) == (0, HOUR_MS, 0, 3 * MINUTE_MS)
    assert (hour.watched_ms, hour.polls, hour.enqueued, hour.completed, hour.failed, hour.died) == (
        130_000, 90, 18, 12, 6, 3,
    )  # fmt: skip
    assert (hour.counts, hour.estimated, hour.is_paused, hour.oldest_ready_ms) == ((1, 2, 3, 4, 5), 2, True, None)
    assert (hour.ready_max, hour.oldest_ready_max_ms, hour.workers, hour.workers_min) == (9, 900, 2, 1)
    assert hour.severity == "critical"


def test_periods_merged_in_any_steps_are_equal() -> None:
    for first, second in product((0, 7), (None, 5)):
        one, two, three = (
            build_period(0, ready_max=first), build_period(MINUTE_MS, workers=second, workers_min=second),
            build_period(2 * MINUTE_MS, severity="warning"),
        )  # fmt: skip
        assert merge_periods(one, two, three) == merge_periods(merge_periods(one, two), three)


def test_a_rate_is_of_the_watched_time_and_unknown_without_any() -> None:
    assert build_period(watched_ms=30_000).compute_rate_s("enqueued") == 0.2
    assert build_period(watched_ms=0).compute_rate_s("enqueued") is None


def test_periods_of_the_server_have_the_longest_refresh_and_the_last_memory() -> None:
    first = ServerPeriod(0, MINUTE_MS, 30, 58_000, 9.5, 0.4, 100, 0, "primary")
    second = ServerPeriod(MINUTE_MS, MINUTE_MS, 20, 40_000, 3.5, None, 200, 0, "replica")
    assert merge_server_periods(first, second, at_ms=0, span_ms=HOUR_MS) == ServerPeriod(
        0, HOUR_MS, 50, 98_000, 9.5, 0.4, 200, 0, "replica"
    )
