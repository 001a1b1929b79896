"""Test the held sample of a place without order: how many jobs are requested for the position on the screen."""

from __future__ import annotations

from rqtui.system_base.held_sample import FILL, Sample, SampleRequest


def test_rows_that_are_held_need_no_others_but_at_the_end() -> None:
    held = Sample({b"%d" % n: None for n in range(60)}, total=5_000)
    first = held.plan_request(0, 20)
    assert first == SampleRequest(tuple(b"%d" % n for n in range(40)), 40, "0")
    last = held.plan_request(-1, 20)
    assert (last.cached_ids, last.limit) == (tuple(b"%d" % n for n in range(20, 60)), 40 + FILL), "the end is far away"
