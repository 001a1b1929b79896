"""What events of Celery show about a queue, where a time or number is at a bound: `celery_findings_at_bounds.txt`.

`RQTUI_WRITE_SNAPSHOTS=1 pytest tests/systems/test_celery_findings_at_bounds.py` writes the text; review the difference
as code.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kept_text import assert_lines_match_file

from rqtui.model import Count, EventCoverage, Finding, Job, Page, Queue, State, Worker
from rqtui.scripts.script import Reply
from rqtui.systems import registry
from rqtui.systems.celery import system as celery
from rqtui.systems.celery.task_runs import Redelivery
from rqtui.systems.celery.worker_heartbeats import SILENT_MS

KEPT = Path(__file__).with_name("celery_findings_at_bounds.txt")
NOW_MS = 1_800_000_000_000
STATES = {"running": State.RESERVED, "unacked": State.RESERVED, "failed": State.DEAD}


def build_system(**silent_ms: int) -> Any:
    """Return a system with the queues `mail` and `sms`, and workers whose last heartbeat is so many ms old."""
    system: Any = registry.create_system("celery")
    system.now_ms = lambda: NOW_MS
    system._queues.update(("mail", "sms"))
    for name, age_ms in silent_ms.items():
        system.event_cache.record_heartbeat(Worker(name, "", NOW_MS - age_ms, SILENT_MS))
    return system


def build_job(id: bytes, place: str = "running", queue: str = "mail", **more: Any) -> Job:
    return Job(id, queue, "celery", place, STATES.get(place, State.DONE), id, **more)


def build_queue(**counts: int) -> Queue:
    return Queue("mail", "celery", tuple(Count(name, State.READY, one) for name, one in counts.items()), NOW_MS)


def describe_finding(found: Finding | None) -> str:
    if found is None:
        return "nothing"
    keys = f", keys {found.keys}" if found.keys else ""
    return f"{found.kind}, {found.jobs} jobs, {found.ids}{keys}, since {found.since_ms}: {found.text}; {found.remedy}"


def jobs_of_silent_workers() -> Iterator[str]:
    for workers in ("", "a", "aa", "ab", "bac", "cc", "dd"):
        system = build_system(a=SILENT_MS + 1, b=SILENT_MS + 1, c=SILENT_MS)
        jobs = [build_job(b"%d" % at, worker=name, reserved_ms=NOW_MS - 60_000 + at) for at, name in enumerate(workers)]
        for job in jobs:
            system.event_cache.record_job(job)
        yield f"jobs of {list(workers)}: {describe_finding(system._find_lost_jobs(build_queue()))}"
        for held in (0, 1):
            system._abandoned_jobs["mail"] = tuple(jobs)
            found = describe_finding(system._find_abandoned_jobs(build_queue(unacked=held)))
            yield f"{held} held of {list(workers)}: {found}"


def held_pages() -> Iterator[str]:
    for age_ms in (celery.DOUBTFUL_MS, celery.DOUBTFUL_MS + 1):
        system = build_system(a=age_ms)
        system._record_held_jobs(Page("mail", "celery", "unacked", (build_job(b"1", "unacked", worker="a"),), 1))
        yield f"a heartbeat {age_ms} ms ago: {[job.id for job in system._abandoned_jobs['mail']]} may be abandoned"
    for more in ({}, {"offset": 1}, {"next": 50}, {"place_total": 0}, {"place_total": 9}):
        for held in (b"1", b"2"):
            system = build_system()
            system._runs.held_jobs.store(b"1", build_job(b"1"))
            system._record_held_jobs(Page("mail", "celery", "unacked", (build_job(held, "unacked"),), 1, **more))
            moved = [job.id for job in system.event_cache.yield_jobs("running")]
            yield f"a page {more} with {held!r}: {moved} runs without a message"


def redelivered_jobs() -> Iterator[str]:
    for ages_ms in ((), (0,), (celery.KEPT_MS - 1,), (celery.KEPT_MS,), (celery.KEPT_MS, 5, 7)):
        for place, worker, queue in (("running", "w1", "mail"), ("running", "", "mail"), ("succeeded", "w1", "mail"),
                                     ("running", "w1", "sms")):  # fmt: skip
            system = build_system()
            for at, age_ms in enumerate(ages_ms):
                system._runs.redeliveries.store(b"%d" % at, Redelivery(queue, place, worker, NOW_MS - age_ms))
            found = describe_finding(system._find_redelivered_jobs(build_queue()))
            yield f"{place} {worker!r} {queue}, {ages_ms} ms ago: {found}"


def unconsumed_queues() -> Iterator[str]:
    for idle_ms in (celery.STILL_MS - 1, celery.STILL_MS):
        for ready in (0, 1):
            for workers in ({}, {"a": SILENT_MS + 1}, {"a": 1}, {"a": 1, "b": 1}):
                system = build_system(**workers)
                system._heartbeats.idleness._ready_since_ms["mail"] = NOW_MS - idle_ms
                found = describe_finding(system._find_unconsumed_queue(build_queue(queue=ready)))
                yield f"idle for {idle_ms}, {ready} ready, heartbeats of {workers}: {found}"
    stuck_ms = celery.STUCK_MS
    for next_ms, ready_ms in ((stuck_ms - 1, stuck_ms), (stuck_ms, stuck_ms), (stuck_ms, stuck_ms - 1), (0, stuck_ms)):
        for held in ({}, {"unacked": 1}, {"late": 1}, {"eta": 1}, {"running": 1}, {"failed": 1}):
            system = build_system(a=1)
            system._heartbeats.idleness._ready_since_ms["mail"] = NOW_MS - ready_ms
            system._heartbeats.idleness._active_ms = NOW_MS
            if next_ms:
                system._next_messages["mail"] = celery.NextMessage(b"1 0", NOW_MS - next_ms)
            found = describe_finding(system._find_unconsumed_queue(build_queue(queue=2, **held)))
            yield f"the next message since {next_ms}, ready since {ready_ms}, {held}: {found}"


def next_messages() -> Iterator[str]:
    first = build_job(b"1", "queue")
    pages = {
        "the same": (first,),
        "another": (build_job(b"2", "queue"), first),
        "tried again": (build_job(b"1", "queue", attempts=1),),
        "empty": (),
    }
    for title, jobs in pages.items():
        for offset in (0, 1):
            system = build_system()
            system._next_messages["mail"] = celery.NextMessage(b"1 0", 5)
            system._record_next_message(Page("mail", "celery", "queue", jobs, 9, offset=offset))
            yield f"{title}, offset {offset}: {tuple(system._next_messages['mail'])}"
    system = build_system()
    for title in ("empty", "the same"):
        system._record_next_message(Page("mail", "celery", "queue", pages[title], 9))
        yield f"first seen, {title}: {tuple(system._next_messages['mail'])}"


def unreported_tasks() -> Iterator[str]:
    most = celery.MIN_UNREPORTED
    for ended in (0, most - 1, most, most + 1):
        for reported in (0, 1):
            for unplaced in (0, 1, 2):
                for unassigned in (0, 1, 2) if ended == most else (0,):
                    system = build_system()
                    system._heartbeats.idleness.ended = ended
                    for queue, number in (("mail", reported), ("", unassigned)):
                        for at in range(number):
                            system.event_cache.record_job(build_job(b"%s%d" % (queue.encode(), at), "failed", queue))
                    for at in range(unplaced):
                        system._runs.unplaced_events.keep_call(b"u%d" % at, lambda: None, 5, None)
                    found = describe_finding(system._find_unreported_tasks(build_queue()))
                    given = f"{ended} ended, {reported} reported, {unplaced} unplaced, {unassigned} unassigned"
                    yield f"{given}: {found}"
    system._queues.add("celery")
    yield f"another queue reports it: {describe_finding(system._find_unreported_tasks(build_queue()))}"


def counted_queues() -> Iterator[str]:
    counts = {"queue": 3, "eta": 0, "unacked": 0, "late": 0}
    for listened_ms in (None, SILENT_MS, SILENT_MS + 1):
        for workers in ({}, {"a": SILENT_MS + 1}, {"a": SILENT_MS}):
            system = build_system(**workers)
            since_ms = None if listened_ms is None else NOW_MS - listened_ms
            for problem in ("", "no right"):
                system.event_coverage = EventCoverage(since_ms, problem=problem)
                system._heartbeats.idleness._ready_since_ms["mail"] = NOW_MS - celery.STILL_MS
                queue = system._parse_queue("mail", Reply("", values={"now_ms": NOW_MS, **counts}))
                kinds = [one.kind for one in queue.findings]
                yield f"listens for {listened_ms} {problem!r}, {workers}: {queue.workers} workers, {kinds}"
    for started_ms in (None, NOW_MS - 1, NOW_MS, NOW_MS + 1):
        system = build_system()
        system._paused_since_ms["mail"] = NOW_MS
        system.event_cache.record_heartbeat(Worker("a", "", NOW_MS, SILENT_MS, started_ms=started_ms))
        queue = system._parse_queue("mail", Reply("", values={"now_ms": NOW_MS, **counts}))
        yield f"a worker started at {started_ms}: paused {queue.is_paused} since {queue.paused_ms}"
    for number in (1, celery.QUEUES_PER_CALL, celery.QUEUES_PER_CALL + 1):
        request = build_system().queues_request([f"q{at}" for at in range(number)])
        yield f"calls for {number} queues: {[len(call.keys) for call in request.calls]} keys"
    shared = {"now_ms": NOW_MS, "eta_exact": 1, "unacked_exact": 1, "late_exact": 1, "eta_of": 4, "unacked_of": 5,
              "late_of": 6}  # fmt: skip
    row = {"queue": "sms", "eta": 2, "unacked": 3, "late": 4, "expired": 5, "due_ms": NOW_MS + 7,
           "deadline_ms": NOW_MS + 8, "tasks": ""}  # fmt: skip
    replies = [
        Reply("", values=shared, rows=[tuple(row.values())], columns=tuple(row)),
        Reply("", values={"now_ms": NOW_MS}, rows=[(1, ""), (2, "")], columns=("queue", "tasks")),
    ]
    for queue in build_system().queues_request(["mail", "sms"]).parse(replies):
        numbers = {count.place: (count.count, count.shared_total) for count in queue.counts}
        yield f"{queue.name}: {numbers}, {queue.expired} expired, {queue.next_due_ms}, {queue.next_expiry_ms}"


def listed_workers(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for most in (3, 4):
        monkeypatch.setattr(celery, "MOST_WORKERS", most)
        system = build_system(a=SILENT_MS, b=SILENT_MS + 1)
        system._heartbeats.consumed_queues.store("c", ("sms",))
        system.event_cache.record_heartbeat(Worker("c", "", NOW_MS, SILENT_MS, state="busy"))
        system.event_cache.record_job(build_job(b"1", worker="a"))
        system._runs.held_jobs.store(b"2", build_job(b"2", "unacked", worker="b"))
        for queue in ("mail", "sms"):
            workers = system.workers_request(queue).parse(())
            listed = [f"{one.name} {one.queue} {one.state} {one.job!r} {one.queues}" for one in workers]
            yield f"at most {most} in {queue}: {listed}; {workers.note!r}"


def results_of_unknown_tasks() -> Iterator[str]:
    for is_event in (False, True):
        for is_kept in (False, True):
            for is_alone in (0, 1):
                system, recorded = build_system(), []
                events = system._runs.unplaced_events
                for id in (b"a", b"b"):
                    events.keep_call(id, partial(recorded.append, id), 5, celery.Evidence(b"k", is_event))
                [request] = system.event_requests()
                request.parse([Reply("", values={"is_alone": is_alone}, rows=[(is_kept,), (False,)],
                                     columns=("is_kept",))])  # fmt: skip
                left = f"{recorded} recorded, {len(events)} left, {len(events.unchecked)} unchecked"
                yield f"event {is_event}, kept {is_kept}, alone {is_alone}: {left}"
    for number in (0, 1, celery.RESULTS_PER_CALL, celery.RESULTS_PER_CALL + 1):
        system = build_system()
        system._runs.unplaced_events = SimpleNamespace(
            unchecked={b"%d" % at: celery.Evidence(b"k", False) for at in range(number)}
        )
        calls = [call for request in system.event_requests() for call in request.calls]
        yield f"{number} unknown tasks: {[len(call.keys) for call in calls]} keys a call"


def test_findings_of_celery_match_the_stored_text(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = (
        jobs_of_silent_workers(), held_pages(), redelivered_jobs(), unconsumed_queues(), next_messages(),
        unreported_tasks(), counted_queues(), listed_workers(monkeypatch), results_of_unknown_tasks(),
    )  # fmt: skip
    assert_lines_match_file((line for part in parts for line in (f"== {part.__name__}", *part)), KEPT)
