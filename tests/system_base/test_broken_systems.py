"""Test that a method of a system from another package that raises, or returns nonsense, stops no other system."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from redis import Redis

from rqtui.client.queue import Queue
from rqtui.engine.engine import Engine
from rqtui.model import Focus, PageSelection, Ref
from rqtui.systems import registry
from rqtui.systems.rq.system import Rq

METHODS = (
    "counters", "decode", "decode_rows", "discover", "encode_body", "ends_request", "find_queues_of_keys", "has_queue",
    "is_shared", "job_request", "keys", "kinds_request", "marker_keys", "named_queues", "page_request",
    "probe_request", "queue_request", "schedules_request", "workers_request",
)  # fmt: skip


def raise_error(_self: object, *_args: object, **_options: object) -> Any:
    raise ValueError("this method is odd")


def return_nothing(_self: object, *_args: object, **_options: object) -> Any:
    return None


def return_number(_self: object, *_args: object, **_options: object) -> Any:
    return 7


@pytest.fixture
def planted(client: Redis, url: str) -> Redis:
    """Plant a native queue with a job, and an RQ queue with a job."""
    with Queue("mail", url) as queue:
        queue.put({"to": "a@b.c"})
    client.sadd("rq:queues", "rq:queue:jobs")
    client.rpush("rq:queue:jobs", "j1")
    client.hset("rq:job:j1", mapping={"data": b"x", "status": "queued", "origin": "jobs"})
    return client


@pytest.mark.parametrize("broken", [raise_error, return_nothing, return_number])
@pytest.mark.parametrize("method", METHODS)
def test_the_native_queue_is_counted_and_paged_beside_a_broken_system(
    method: str, broken: Callable[..., Any], planted: Redis
) -> None:
    assert hasattr(Rq, method)
    system = type("Broken", (Rq,), {method: broken})()
    engine = Engine(planted, [registry.create_system("native"), system])
    for _chunk in engine.discover(fully=True):
        pass
    native = Ref("native", "mail")
    assert native in engine.refs
    assert Ref("rq", "jobs") in engine.refs or "queues of rq cannot be found" in engine.problems["rq"].text
    pages = [PageSelection(ref, place.name) for ref in engine.refs for place in engine.systems[ref.system].places[:4]]
    for _round in range(2):
        snapshot = engine.take_snapshot(Focus(queues=tuple(engine.refs), pages=tuple(pages)))
    queue, page = snapshot.find_queue(native), snapshot.find_page(native, "ready")
    assert queue is not None and queue.count_in_place("ready") == 1
    assert page is not None and [job.place for job in page.jobs] == ["ready"]
