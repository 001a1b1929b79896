"""A held sample of a place that has no order: how much is asked for, by where somebody looks."""

from __future__ import annotations

from rqtui.layout.sample import FILL, Sample, Wish


def test_rows_that_are_held_need_no_others_but_at_the_end() -> None:
    held = Sample({b"%d" % n: None for n in range(60)}, of=5_000)
    first = held.wish(0, 20)
    assert first == Wish(tuple(b"%d" % n for n in range(40)), 40, "0")
    last = held.wish(-1, 20)
    assert (last.asked, last.wanted) == (tuple(b"%d" % n for n in range(20, 60)), 40 + FILL), "the end is far away"
