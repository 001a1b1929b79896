"""Kinds of jobs: what a real queue tells of each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import pytest
from redis import Redis
from troubles import fail

from rqtui.client.queue import Queue
from rqtui.engine.engine import Engine, with_layouts
from rqtui.model import Ref, State
from rqtui.reports import kinds, sampling
from rqtui.systems import registry

MAIL, IMAGES = Ref("native", "mail"), Ref("native", "images")


T = TypeVar("T")


@pytest.fixture
def engine(client: Redis) -> Engine:
    """An engine that knows the native layout and the dispatcher's."""
    return with_layouts(client, [registry.make("native"), registry.make("dispatcher")])


def last(steps: Iterator[T | None]) -> T:
    """The whole report."""
    *_before, whole = steps
    assert whole is not None
    return whole


def test_kinds_are_counted_by_place_with_failures_and_times(client: Redis, engine: Engine) -> None:
    mail = Queue("mail", client)
    fail(mail, "X: 1", name="digest")
    for number in range(3):
        mail.put({}, id=f"r{number}", name="send", keep="1h")
    mail.put({}, name="send", delay="1h")
    done, _held = mail.reserve(2, worker="w1")
    done.ack()
    send, digest = last(kinds.report(engine, [MAIL])).kinds
    assert (send.name, dict(send.counts), send.failed) == (
        "send",
        {State.SCHEDULED: 1, State.READY: 1, State.RESERVED: 1, State.DONE: 1},
        0,
    )
    assert send.run_ms is not None and send.run_ms < 5000
    assert send.oldest_ready_ms is not None
    assert (digest.name, dict(digest.counts), digest.failed) == ("digest", {State.DEAD: 1}, 1)


def test_kinds_are_told_from_a_sample(client: Redis, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "PER_PLACE", 2)
    for number in range(5):
        Queue("mail", client).put({}, id=str(number), name="send")
    found = last(kinds.report(engine, [MAIL]))
    assert (found.kinds[0].count, found.size.looked, found.size.of) == (2, 2, 5)


def test_a_report_about_many_queues_looks_at_fewer_jobs_of_each(client: Redis, engine: Engine) -> None:
    for number in range(sampling.MOST_QUEUES + 1):
        Queue(f"q{number}", client).put({}, name="send")
    refs = [Ref("native", f"q{number}") for number in range(sampling.MOST_QUEUES + 1)]
    found = last(kinds.report(engine, refs))
    assert (found.size.queues, found.size.of_queues, found.size.is_whole) == (50, 51, False)
