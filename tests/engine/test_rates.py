"""Rates: per second between two looks and over the last minutes, from counters or from places that grow and shrink."""

from __future__ import annotations

from rqtui.engine.rates import MARK_MS, USUAL_MS, WINDOW_MS, Mark, Rates
from rqtui.model import Count, Lately, Queue, Rate, Ref, State

NOW_MS = 1_800_000_000_000
MAIL = Ref("any", "mail")


def queue(after_ms: int, counters: dict[str, int] | None = None, age_ms: int = 0, **counts: int) -> Queue:
    places = tuple(Count(name, State(name), number) for name, number in counts.items())
    at_ms = NOW_MS + after_ms
    return Queue("mail", "any", places, at_ms, counters=counters or {}, oldest_ready_ms=age_ms)


def last(*looks: Queue, rates: Rates | None = None) -> Rate:
    rates = rates or Rates()
    return [rates.since_last(MAIL, look, (look.counted_ms - NOW_MS) / 1000) for look in looks][-1]


def test_counters_tell_what_happened_lately() -> None:
    told = {"in": 100, "out": 50, "failed": 7, "dead": 1}
    later = {"in": 160, "out": 90, "failed": 47, "dead": 4}
    rate = last(queue(0, told, ready=3), queue(2_000, later, ready=23))
    assert rate.lately == Lately(2_000, came=60, done=40, failed=40, died=3, grew=20)
    assert rate.lately.failing == 0.5
    assert (rate.in_s, rate.out_s, rate.failed_s) == (30, 20, 20)


def test_what_happened_before_the_last_minutes_is_forgotten() -> None:
    looks = [queue(at, {"in": 0, "out": 0, "failed": 5 if at else 0}) for at in range(0, 3 * WINDOW_MS, MARK_MS)]
    assert last(*looks[:10]).lately.failed == 5
    rate = last(*looks)
    assert rate.lately.failed == 0
    assert WINDOW_MS <= rate.lately.ms <= WINDOW_MS + MARK_MS


def test_a_queue_at_rest_is_remembered_by_few_marks() -> None:
    rates = Rates()
    last(*(queue(at, {"in": 1}) for at in range(0, WINDOW_MS, MARK_MS)), rates=rates)
    assert len(rates._looks[MAIL].marks) <= 3


def test_a_mark_of_before_the_first_look_says_at_once_what_happened_lately() -> None:
    rates = Rates()
    last(queue(0, {"in": 900, "out": 400, "failed": 300, "dead": 100}, ready=500), rates=rates)
    lately = rates.remember(MAIL, Mark(NOW_MS - WINDOW_MS, 800, 350, 250, 90, None))
    assert lately == Lately(WINDOW_MS, came=100, done=50, failed=50, died=10, grew=40)


def test_places_that_grow_tell_where_there_are_no_counters() -> None:
    rate = last(queue(0, ready=100, reserved=5, done=10, dead=0), queue(2_000, ready=60, reserved=5, done=40, dead=10))
    assert rate.lately == Lately(2_000, came=0, done=30, failed=10, died=10, grew=-40)
    assert rate.lately.failing == 0.25
    assert rate.out_s == 15


def test_without_a_place_for_done_jobs_nobody_knows_the_share_that_fails() -> None:
    rate = last(queue(0, ready=100, dead=0), queue(2_000, ready=60, dead=10))
    assert (rate.lately.done, rate.lately.died, rate.lately.failed) == (30, 10, 0)
    assert rate.out_s == 15


def test_a_purge_is_no_negative_rate() -> None:
    rate = last(queue(0, ready=5, done=90, dead=90), queue(2_000, ready=5, done=0, dead=0))
    assert (rate.in_s, rate.out_s, rate.lately.died) == (0, 0, 0)


def test_what_is_usual_is_seen_after_a_while() -> None:
    rates = Rates()
    looks = [queue(at * USUAL_MS, age_ms=2_000 if at < 14 else 600_000, ready=1) for at in range(18)]
    last(*looks[:8], rates=rates)
    assert rates.usual_ms(MAIL) is None
    last(*looks[8:], rates=rates)
    assert rates.usual_ms(MAIL) == 2_000
