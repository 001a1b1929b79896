"""Test the report on kinds of jobs with real queues."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TypeVar

import pytest
from json_shapes import KIND, check_shape
from mill_system import Mill, add_mill_jobs, mill
from planted_jobs import add_failed_jobs
from redis import Redis
from shell import shell

from rqtui.client.queue import Queue
from rqtui.engine.engine import Engine, build_engine
from rqtui.model import Ref, State
from rqtui.reports import kinds, sampling
from rqtui.systems import registry

__all__ = ["mill"]  # a fixture
MAIL, IMAGES = Ref("native", "mail"), Ref("native", "images")


T = TypeVar("T")


@pytest.fixture
def engine(client: Redis) -> Engine:
    """Create an engine with the systems native and dispatcher."""
    return build_engine(client, [registry.create_system("native"), registry.create_system("dispatcher")])


def last(steps: Iterator[T | None]) -> T:
    """Return the complete report, the last item of `steps`."""
    *_before, whole = steps
    assert whole is not None
    return whole


def test_kinds_are_counted_by_place_with_failures_and_times(client: Redis, engine: Engine) -> None:
    mail = Queue("mail", client)
    add_failed_jobs(mail, "X: 1", name="digest")
    for number in range(3):
        mail.put({}, id=f"r{number}", name="send", keep="1h")
    mail.put({}, name="send", delay="1h")
    done, _held = mail.reserve(2, worker="w1")
    done.ack()
    send, digest = last(kinds.yield_kind_reports(engine, [MAIL])).kinds
    assert (send.name, dict(send.counts), send.failed) == (
        "send",
        {State.SCHEDULED: 1, State.READY: 1, State.RESERVED: 1, State.DONE: 1},
        0,
    )
    assert send.run_ms is not None and send.run_ms < 5000
    assert send.oldest_ready_ms is not None
    assert (digest.name, dict(digest.counts), digest.failed) == ("digest", {State.DEAD: 1}, 1)
    assert (send.errors, digest.errors) == ((), (("X: #", 1),))


def test_kinds_are_counted_in_a_sample(client: Redis, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "MAX_PER_PLACE", 2)
    for number in range(5):
        Queue("mail", client).put({}, id=str(number), name="send")
    found = last(kinds.yield_kind_reports(engine, [MAIL]))
    assert (found.kinds[0].count, found.size.looked, found.size.of) == (2, 2, 5)


def test_a_report_about_many_queues_reads_fewer_jobs_of_each(client: Redis, engine: Engine) -> None:
    for number in range(sampling.MAX_QUEUES + 1):
        Queue(f"q{number}", client).put({}, name="send")
    refs = [Ref("native", f"q{number}") for number in range(sampling.MAX_QUEUES + 1)]
    found = last(kinds.yield_kind_reports(engine, refs))
    assert (found.size.queues, found.size.of_queues, found.size.is_complete) == (50, 51, False)


def test_the_figures_that_a_system_stores_are_shown_beside_the_counted_kinds(
    client: Redis, url: str, mill: type[Mill]
) -> None:
    def keep(kind: str, processed: int, failed: int, **more: object) -> None:
        client.rpush("mill:kinds", json.dumps({"kind": kind, "processed": processed, "failed": failed, **more}))

    add_mill_jobs(client, "flour", "failed", "f1", call="mill.sift()")
    add_mill_jobs(client, "bran", "failed", "b1", call="mill.shake()")
    keep("mill.sift", 12_400, 124, mean_ms=1_400, window_ms=3_600_000)
    keep("mill.clean", 3, 0)
    keep("mill.shake", 7, 7, window_ms=3_600_000, queue="bran")
    new_engine = build_engine(client, [Mill()])
    found = last(kinds.yield_kind_reports(new_engine, new_engine.refs))
    assert [
        (kind.name, kind.ref.queue, kind.count, kind.figures and kind.figures.processed) for kind in found.kinds
    ] == [
        ("mill.shake", "bran", 1, 7),
        ("mill.sift", "flour", 1, 12_400),
        ("mill.clean", "", 0, 3),
    ]
    assert found.spans_ms == (0, 3_600_000)
    assert [kind.name for kind in last(kinds.yield_kind_reports(new_engine, [Ref("mill", "flour")])).kinds] == [
        "mill.sift"
    ]

    ran = shell(url, "--system", "mill", "kinds")
    assert [line.split()[-3:] for line in ran.out.splitlines()] == [
        ["ran", "failing", "mean"],
        ["7", "100", "%", "—"][-3:],
        ["1", "%", "1.4s"],
        ["0", "%", "—"],
    ]
    assert "as the system keeps them: over all time or 1h00." in ran.err
    shake, sift, clean = shell(url, "--system", "mill", "kinds", "--json").json["kinds"]
    for each in (shake, sift, clean):
        check_shape(each, {**KIND, "queue": (str, type(None))})
    assert sift["figures"] == {
        "processed": 12_400,
        "failed": 124,
        "mean_ms": 1_400,
        "over_ms": 3_600_000,
        "queue": None,
    }
    assert (shake["figures"]["queue"], clean["queue"], clean["figures"]["over_ms"]) == ("bran", None, None)
    client.set("mill:kinds", "x")
    broken = shell(url, "--system", "mill", "kinds", "--json")
    assert broken.code == 1 and len(broken.json["kinds"]) == 2, "the counted kinds stand there all the same"
