"""What anybody may publish on the channels that a system is heard on: no message stops an ear, and what is remembered
of it can be shown, printed, searched and exported, and stays within its bounds."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Iterator, Mapping
from typing import Any

import fuzzing
import pytest
from job_formats import check_job_formats

from rqtui.cli import workers
from rqtui.model import EventCoverage, Ref
from rqtui.reports.workers import WorkerEntry, evaluate_health
from rqtui.system_base.event_cache import MOST, MOST_WORKERS
from rqtui.system_base.foreign_system import ForeignSystem
from rqtui.systems import registry

NOW_MS = 1_795_386_413_500
VALUES: tuple[Any, ...] = (
    None, "", 0, -1, 1e308, float("nan"), float("inf"), True, [], {}, [[]], "\ud800", "x" * 5000, 10**400, {"a": [1]},
    "\x1b[31m", "\u202e", "2026-01-01T00:00:00", "99999-99-99", 2**63,
)  # fmt: skip
EVENT: Mapping[str, Any] = {
    "hostname": "celery@web-1", "utcoffset": 0, "pid": 7, "clock": 3, "timestamp": 1795386413.5, "uuid": "u-1",
    "name": "shop.add", "args": "(1, 2)", "kwargs": "{}", "queue": "mail", "retries": 0, "eta": None, "runtime": 0.1,
    "result": "3", "exception": "ValueError('x')", "traceback": "Traceback …", "freq": 2.0, "sw_ident": "py-celery",
    "sw_ver": "5.7.0", "active": 1, "processed": 3, "loadavg": [1, 2, 3], "expired": False, "terminated": False,
}  # fmt: skip
_OF_TASKS = ("sent", "received", "started", "succeeded", "failed", "retried", "revoked", "rejected")
TYPES = tuple(f"task-{what}" for what in _OF_TASKS)
TYPES += ("worker-online", "worker-heartbeat", "worker-offline", "unknown")


def celery(source: random.Random) -> tuple[bytes, bytes]:
    """Build a channel and a message of Celery, with fields of wrong types."""
    id = f"u-{source.randrange(300)}"
    if source.random() < 0.3:
        result = {
            "status": "SUCCESS",
            "result": 3,
            "traceback": None,
            "date_done": "2026-11-22T04:43:55",
            "task_id": id,
        }
        return f"celery-task-meta-{id}".encode(), damage_message(source, json.dumps(fields(source, result)).encode())
    event = fields(source, {**EVENT, "uuid": id, "type": source.choice(TYPES)})
    body = json.dumps(event if source.random() < 0.7 else [event, event, source.choice(VALUES)])
    properties = {"body_encoding": "base64", "delivery_info": {"exchange": "celeryev", "routing_key": "task.sent"}}
    message = {
        "body": base64.b64encode(body.encode()).decode(),
        "content-type": "application/json",
        "content-encoding": "utf-8",
        "headers": {"hostname": "celery@web-1"},
        "properties": properties,
    }
    if source.random() < 0.3:
        which = source.choice((message, properties))
        which[source.choice(list(which))] = source.choice(VALUES)
    channel = source.choice((b"/0.celeryev/task.multi", b"/0.celeryev/worker.heartbeat", b"\xff", b"/x.celeryev/task"))
    return channel, damage_message(source, json.dumps(message).encode())


def fields(source: random.Random, known: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields with some values of another kind."""
    return {**known, **{source.choice(list(known)): source.choice(VALUES) for _ in range(source.randrange(3))}}


def damage_message(source: random.Random, message: bytes) -> bytes:
    """Most of the time as it is."""
    return fuzzing.build_hostile_bytes(source, [message]) if source.random() < 0.25 else message


PUBLISHED = {"celery": celery}


def test_every_system_with_events_is_listed_here() -> None:
    assert {name for name in registry.list_system_names() if registry.create_system(name).event_patterns()} == set(
        PUBLISHED
    )


@fuzzing.parametrize_cases(1_000)
@pytest.mark.parametrize("name", PUBLISHED)
def test_any_published_message_is_received_and_can_be_shown(name: str, cases: int) -> None:
    source, system = random.Random(name), registry.create_system(name)
    assert isinstance(system, ForeignSystem)
    system.event_coverage = EventCoverage(NOW_MS)
    with fuzzing.print_figures(f"ear of {name}", cases) as seen:
        for number in range(cases):
            channel, message = PUBLISHED[name](source)
            try:
                system.record_event(channel, message, NOW_MS + number)
            except Exception as error:
                raise AssertionError(f"message {number} on {channel!r}: {message[:300]!r}") from error
        seen["jobs"] = len(system.event_cache)
        assert 0 < len(system.event_cache) <= MOST and len(system.event_cache.list_workers()) <= MOST_WORKERS
        for job in jobs(system):
            check_job_formats(job, NOW_MS)
            seen[job.place] += 1
        for worker in system.event_cache.list_workers():
            seat = WorkerEntry(
                Ref(name, worker.queue), worker.name, evaluate_health(worker, (), NOW_MS), worker, (), True
            )
            json.dumps(workers._build_worker_document(seat, NOW_MS))
        for figures in system.event_cache.build_kind_statistics():
            json.dumps(figures._asdict())


def jobs(system: ForeignSystem) -> Iterator[Any]:
    """Return all cached jobs of a system, of any queue."""
    memory = system.event_cache
    for queue, place in list(memory._standing):
        yield from memory.list_page(queue, place, 0, MOST)[2]
