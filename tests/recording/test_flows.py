"""Read the flows of a queue: rates are of the watched time, and hours and other queues do not count."""

from __future__ import annotations

from pathlib import Path

from recordings import MAIL, NOW_MS, QUEUE, build_minutes, build_period, open_writer

from rqtui.model import Ref
from rqtui.recording.flows import _sum_periods, choose_step_ms, read_flows, read_totals
from rqtui.recording.records import HOUR_MS, MINUTE_MS, merge_periods
from rqtui.recording.store import Batch


def test_rates_are_of_the_watched_time_of_the_span(tmp_path: Path) -> None:
    half = build_period(NOW_MS + 2 * MINUTE_MS, watched_ms=30_000, completed=11, end_ms=NOW_MS + 2 * MINUTE_MS + 30_000)
    batches = (build_minutes(NOW_MS, 2, MAIL, Ref("rq", "mail")), Batch({MAIL: QUEUE}, [half]))
    with open_writer(tmp_path / "a.rqt", *batches) as reader:
        flows = read_flows(reader, MAIL, NOW_MS + MINUTE_MS, NOW_MS + HOUR_MS)
    assert flows is not None and len(flows.minutes) == 2
    assert (flows.sum_flow("completed"), flows.watched_ms) == (15, 90_000)
    assert flows.compute_rate_s("completed") == 15 / 90
    assert (flows.begin_ms, flows.end_ms) == (NOW_MS + MINUTE_MS, NOW_MS + 2 * MINUTE_MS + 30_000)
    assert flows.estimated == ("completed", "failed", "died")


def test_hours_give_no_minutes(tmp_path: Path) -> None:
    with open_writer(tmp_path / "a.rqt", build_minutes(NOW_MS - HOUR_MS, 60)) as writer:
        assert writer.merge_oldest_hour(NOW_MS)
        assert read_flows(writer, MAIL, 0, NOW_MS) is None
        assert read_flows(writer, Ref("rq", "nothing"), 0, NOW_MS) is None


def test_a_rate_is_unknown_if_nothing_was_watched(tmp_path: Path) -> None:
    with open_writer(tmp_path / "a.rqt", Batch({MAIL: QUEUE}, [build_period(NOW_MS, watched_ms=0)])) as reader:
        flows = read_flows(reader, MAIL, 0, NOW_MS + 1)
    assert flows is not None and flows.compute_rate_s("completed") is None


def test_steps_have_sums_and_last_counts_and_an_hour_stays_whole(tmp_path: Path) -> None:
    begin_ms = NOW_MS + HOUR_MS
    minutes = [
        build_period(begin_ms + number * MINUTE_MS, counts=(0, number, 1, 0, 7), oldest_ready_max_ms=number * 10)
        for number in range(15)
    ]
    hour = build_period(NOW_MS, span_ms=HOUR_MS, watched_ms=HOUR_MS, enqueued=600)
    with open_writer(tmp_path / "a.rqt", Batch({MAIL: QUEUE}, [hour, *minutes])) as store:
        steps = store.read_steps({MAIL}, NOW_MS, begin_ms + HOUR_MS, 10 * MINUTE_MS)
        assert [(step.at_ms, step.span_ms, step.enqueued) for step in steps] == [
            (NOW_MS, HOUR_MS, 600),
            (begin_ms, 10 * MINUTE_MS, 60),
            (begin_ms + 10 * MINUTE_MS, 10 * MINUTE_MS, 30),
        ]
        assert [step.counts[1] for step in steps[1:]] == [9, 14] and steps[1].oldest_ready_max_ms == 90
        merged = merge_periods(*minutes[:10], span_ms=10 * MINUTE_MS)
        assert steps[1] == merged
        totals = read_totals(store, [MAIL], NOW_MS, begin_ms + 25 * HOUR_MS)
        assert [(total.span_ms, total.enqueued, total.unfinished) for total in totals[1:]] == [
            (10 * MINUTE_MS, 60, 10), (10 * MINUTE_MS, 30, 15)
        ]  # fmt: skip
        queues = {MAIL: QUEUE}
    for ready, ages, oldest_ms in ((0, (None, None), 0), (3, (None, None), None), (3, (None, 20), 20), (0, (9, 7), 9)):
        unaged = [build_period(begin_ms, counts=(5, ready, 1, 0, 7), oldest_ready_max_ms=age) for age in ages]
        assert _sum_periods(begin_ms, MINUTE_MS, unaged, queues).oldest_ready_ms == oldest_ms, (ready, ages)
    assert [choose_step_ms(hours * HOUR_MS) for hours in (3, 24, 24 * 7, 24 * 365)] == [
        MINUTE_MS, 10 * MINUTE_MS, HOUR_MS, 24 * HOUR_MS
    ]  # fmt: skip
