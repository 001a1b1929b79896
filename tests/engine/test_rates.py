"""Rates: per second between two looks and over the last minutes, from counters or from places that grow and shrink."""

from __future__ import annotations

from rqtui.engine.rates import MARK_MS, USUAL_MS, WINDOW_MS, Mark, Rates, Sums
from rqtui.model import Count, Hearing, Lately, Queue, Rate, Ref, State

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
    lately = rates.remember(MAIL, Mark(NOW_MS - WINDOW_MS, Sums(800, 350, 250, 90)))
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


def test_a_job_that_is_canceled_did_not_die() -> None:
    def look(after_ms: int, canceled: int, **counts: int) -> Queue:
        found = queue(after_ms, **counts)
        return found._replace(counts=(*found.counts, Count("canceled", State.DEAD, canceled, failures=False)))

    lately = last(look(0, 0, ready=100, done=0, dead=0), look(2_000, 30, ready=70, done=0, dead=2)).lately
    assert (lately.came, lately.failed, lately.died, lately.grew) == (2, 2, 2, -30)


def test_a_purge_is_no_negative_rate() -> None:
    rate = last(queue(0, ready=5, done=90, dead=90), queue(2_000, ready=5, done=0, dead=0))
    assert (rate.in_s, rate.out_s, rate.lately.died) == (0, 0, 0)


def heard(after_ms: int, waiting: int, done: int = 0, *, of: int | None = 0, given: int = 0) -> Queue:
    """A queue whose jobs end unseen but for what is heard; `of` None: nobody listens."""
    hearing = Hearing(None if of is None else NOW_MS, given=given)
    places = (
        Count("waiting", State.READY, waiting),
        Count("done", State.DONE, done, of=of, heard=hearing),
    )
    return Queue("mail", "any", places, NOW_MS + after_ms, counters={})


def test_while_nothing_is_heard_what_is_gone_was_done() -> None:
    for of in (None, 0):
        rate = last(heard(0, 100, of=of), heard(2_000, 60, of=of), heard(4_000, 70, of=of))
        assert (rate.lately.came, rate.lately.done) == (10, 40)


def test_what_is_heard_tells_what_was_done_and_a_job_that_had_left_before_did_not_come_then() -> None:
    rates = Rates()
    start = heard(0, 100, 5, of=5)
    assert last(start, heard(2_000, 60, 5, of=5), rates=rates).lately[:3] == (2_000, 0, 0), "40 run somewhere"
    assert last(heard(4_000, 60, 35, of=35), rates=rates).lately[1:3] == (0, 30), "30 of them ended"
    assert last(heard(6_000, 80, 45, of=45), rates=rates).lately[1:3] == (20, 40), "the last ten, and 20 new ones"
    assert last(heard(8_000, 80, 50, of=50), rates=rates).lately[1:3] == (25, 45), "five came and ended in between"


def test_what_a_queue_is_given_later_did_not_end_then() -> None:
    there = last(heard(0, 100, 5, of=100), heard(2_000, 100, 55, of=100, given=50))
    here = last(heard(0, 100, 95, of=100), heard(2_000, 98, 47, of=102, given=-50))
    assert (there.lately.came, there.lately.done, here.lately.done, here.out_s) == (0, 0, 2, 1)


def test_jobs_of_which_nobody_hears_again_are_not_waited_for_for_ever() -> None:
    rates = Rates()
    last(heard(0, 100, 1, of=1), heard(2_000, 0, 1, of=1), rates=rates)
    late_ms = 2_000 + WINDOW_MS + 1
    last(heard(late_ms, 0, 1, of=1), rates=rates)
    assert last(heard(late_ms + 2_000, 30, 1, of=1), rates=rates).in_s == 15


def test_what_is_usual_is_seen_after_a_while() -> None:
    rates = Rates()
    looks = [queue(at * USUAL_MS, age_ms=2_000 if at < 14 else 600_000, ready=1) for at in range(18)]
    last(*looks[:8], rates=rates)
    assert rates.usual_ms(MAIL) is None
    last(*looks[8:], rates=rates)
    assert rates.usual_ms(MAIL) == 2_000
