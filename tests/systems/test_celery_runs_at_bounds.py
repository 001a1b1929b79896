"""What sequences of Celery's events and results show about tasks: `celery_runs_at_bounds.txt` has every story.

`RQTUI_WRITE_SNAPSHOTS=1 pytest tests/systems/test_celery_runs_at_bounds.py` writes the text; review the difference as
code.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kept_text import assert_lines_match_file

from rqtui.errors import UsageError
from rqtui.model import Job, State, Worker
from rqtui.scripts.script import Reply
from rqtui.system_base.entries import HEAD_BYTES
from rqtui.systems import registry
from rqtui.systems.celery import messages, task_runs
from rqtui.systems.celery import system as celery
from rqtui.systems.celery.worker_heartbeats import SILENT_MS
from rqtui.verbs import TO_QUEUE

KEPT = Path(__file__).with_name("celery_runs_at_bounds.txt")
NOW_MS = 1_800_000_000_000
Step = tuple[str, dict[str, Any]]


def build_system(*queues: str) -> Any:
    system: Any = registry.create_system("celery")
    system.now_ms = lambda: NOW_MS
    system._queues.update(queues)
    return system


def decode(**changes: Any) -> messages.Message:
    """Decode the message of the task `add` with the id `a` of a queue."""
    headers = {"id": "a", "task": "add", "argsrepr": "(1,)", "kwargsrepr": "{}"}
    properties = {"delivery_tag": "t", "delivery_info": {"exchange": "", "routing_key": "mail"}}
    document = {
        "body": base64.b64encode(b"[[1], {}, {}]").decode(), "headers": headers, "content-type": "application/json",
        "properties": {**properties, "body_encoding": "base64"},
    }  # fmt: skip
    document["headers"] = {**headers, **changes}
    return messages.decode_message(json.dumps(document).encode(), b"", False)


def apply(system: Any, step: Step, at_ms: int) -> None:
    """Let the system record an event, a result, or a job that a page shows."""
    kind, fields = step
    if kind == "result":
        raw = json.dumps({"task_id": "a", **fields}).encode()
        system._runs.record_result(b"a", raw, at_ms)
    elif kind in ("queue", "unacked", "late"):
        system._runs.record_seen_job(fields.get("in_queue", "mail"), kind, b"a", decode(**fields), at_ms)
    elif kind == "requeue":
        system._runs.reset_requeued_job(b"a")
    else:
        event = {"type": f"task-{kind}", "uuid": "a", **fields}
        record = system._runs.record_event_of_broker if fields.get("queue") else system._runs.record_event
        record(event, at_ms)


def describe_task(system: Any) -> str:
    """Return what is known of the task `a`, and how its runs were counted."""
    job, cached = system.event_cache.find(b"a"), system._runs.find(b"a")
    facts = [f"{fact.name} {fact.value}" for fact in job.facts] if job else []
    shown = (
        f"{job.place} in {job.queue!r} {job.name!r} {job.call!r} of {job.worker!r}, {job.attempts} attempts, "
        f"since {job.since_ms and job.since_ms - NOW_MS}, from {job.reserved_ms and job.reserved_ms - NOW_MS}, "
        f"error {job.error!r}, {len(job.history)} runs, {facts}"
        if job else "no job"
    )  # fmt: skip
    kinds = [(kind.queue, kind.kind, kind.processed, kind.failed, kind.mean_ms) for kind in
             system.event_cache.build_kind_statistics()]  # fmt: skip
    kept = [name for name in ("held_jobs", "messages", "task_bodies", "call_reprs", "redeliveries")
            if b"a" in getattr(system._runs, name)]  # fmt: skip
    ended = f"ended {cached.has_told_end}, started {cached.has_start_event}, broker {cached.is_of_broker}"
    return f"{shown}; {ended}, {len(cached.history)} earlier runs; counted {kinds}; kept {kept}"


RECEIVED: Step = ("received", {"name": "add", "args": "(1,)", "kwargs": "{}", "hostname": "w1"})
SENT: Step = ("sent", {"name": "add", "args": "(1,)", "kwargs": "{}", "queue": "mail", "hostname": "app"})
STARTED: Step = ("started", {"hostname": "w1"})
SUCCEEDED: Step = ("succeeded", {"hostname": "w1", "runtime": 1.5, "result": "5"})
FAILED: Step = ("failed", {"hostname": "w1", "exception": "ValueError('no')", "traceback": ""})
RETRIED: Step = ("retried", {"hostname": "w1", "exception": "ValueError('no')", "traceback": " Trace\n"})
GOOD: Step = ("result", {"status": "SUCCESS", "result": 5})
BAD: Step = ("result", {"status": "FAILURE", "result": {"exc_type": "ValueError", "exc_message": ["no"]}, "name": "add",
                        "args": [1], "kwargs": {}, "queue": "mail", "worker": "w2"})  # fmt: skip
STORIES: Sequence[Sequence[Step]] = (
    (SENT, RECEIVED, STARTED, SUCCEEDED), (STARTED, SUCCEEDED, GOOD), (STARTED, GOOD, SUCCEEDED), (GOOD, STARTED),
    (SENT, STARTED, FAILED, BAD, ("requeue", {})), (BAD, FAILED), (STARTED, RETRIED, STARTED, SUCCEEDED),
    (SENT, STARTED, ("rejected", {"requeue": True})), (STARTED, ("rejected", {"requeue": False})),
    (STARTED, ("unacked", {}), ("rejected", {"requeue": True})), (STARTED, ("unacked", {}), RETRIED),
    (("revoked", {"expired": True}),), (("revoked", {"terminated": True}),), (STARTED, ("revoked", {})),
    (("result", {"status": "STARTED"}), STARTED, STARTED), (("result", {"status": "PENDING"}),),
    (("result", {"status": 3}),), (("result", {"status": "REVOKED", "result": None}),),
    (SENT, STARTED, ("unacked", {})), (STARTED, ("late", {})), (STARTED, ("queue", {})), (SUCCEEDED, ("queue", {})),
    (SENT, STARTED, ("queue", {"redelivered": True})), (SUCCEEDED, ("queue", {"redelivered": True})),
    (("received", {"name": "add", "retries": 2}), STARTED), (("received", {"args": "(1,)"}), STARTED),
    (STARTED, ("succeeded", {"runtime": None, "result": ""})), (STARTED, ("requeue", {})),
    (*[step for _ in range(3) for step in (STARTED, RETRIED)], FAILED),
    (("unacked", {}), STARTED, ("unacked", {}), GOOD),
    (("received", {"name": "add", "retries": 2}), STARTED, FAILED, ("requeue", {}), STARTED, FAILED),
    (("result", {**BAD[1], "queue": "other"}),),
)  # fmt: skip


def stories() -> Iterator[str]:
    for story in STORIES:
        for queues in (("mail",), ("mail", "sms")):
            system = build_system(*queues)
            yield f"{', '.join(name for name, _fields in story)}, queues {len(queues)}"
            for at, step in enumerate(story):
                apply(system, step, NOW_MS + 10 * at)
                if len(queues) > 1 or at == len(story) - 1:
                    yield f"  {step[0]}: {describe_task(system)}"


def guessed_queues() -> Iterator[str]:
    for queues in (("mail",), ("mail", "sms")):
        system = build_system(*queues)
        steps: Sequence[tuple[str, Any]] = (
            ("a result", ("result", {"status": "SUCCESS", "name": "add"})), ("another task", ("sub", "sms")),
            ("its task", ("add", "mail")), ("again", ("add", "mail")), ("a second queue", ("add", "sms")),
            ("a third queue", ("add", "low")), ("its message", ("queue", {})),
        )  # fmt: skip
        for title, step in steps:
            if isinstance(step[1], str):
                system._runs.record_task_queue(*step)
            else:
                apply(system, step, NOW_MS)
            yield f"{title}, of {queues}: {describe_task(system)}"
        system = build_system(*queues)
        system._runs.record_task_queue("add", "mail")
        apply(system, ("result", {"status": "SUCCESS", "name": "add"}), NOW_MS)
        yield f"guessed at once, of {queues}: {describe_task(system)}"
        apply(system, ("sent", {"name": "add", "queue": "sms"}), NOW_MS)
        yield f"told then, of {queues}: {describe_task(system)}"


def redeliveries() -> Iterator[str]:
    for age_ms in (SILENT_MS, SILENT_MS + 1):
        for first in (STARTED, SUCCEEDED, FAILED):
            system = build_system("mail")
            system.event_cache.record_heartbeat(Worker("w1", "", NOW_MS - age_ms, SILENT_MS))
            apply(system, first, NOW_MS)
            apply(system, STARTED, NOW_MS)
            found = system._runs.redeliveries.get(b"a")
            yield f"{first[0]}, a heartbeat {age_ms} ms ago, started again: {found and tuple(found)}"


def limits() -> Iterator[str]:
    for length in (HEAD_BYTES - 1, HEAD_BYTES, HEAD_BYTES + 1):
        system = build_system("mail")
        system._runs.record_message(b"a", b"x" * length)
        yield f"a message of {length} bytes is kept: {b'a' in system._runs.messages}, {system._runs.is_of_broker(b'a')}"
    for number in (task_runs.MAX_ATTEMPTS, task_runs.MAX_ATTEMPTS + 1):
        system = build_system("mail")
        for at in range(number):
            apply(system, RETRIED, NOW_MS + at)
        history = system._runs.find(b"a").history
        yield f"{number} retries: {len(history)} are kept, from {history[0].end_ms - NOW_MS} on"


def received_messages() -> Iterator[str]:
    event = json.dumps({"type": "task-sent", "uuid": "a", "name": "add", "queue": "mail"})
    body = {"body": base64.b64encode(event.encode()).decode(), "content-type": "application/json",
            "properties": {"body_encoding": "base64"}}  # fmt: skip
    result = json.dumps({"status": "SUCCESS", "task_id": "a", "name": "add"}).encode()
    for spec in ("celery", "celery:prefix=shop.", "celery:fanout="):
        for other_prefixes in (set(), {"x"}):
            for channel in (
                "/0.celeryev/task.sent", "/0.celeryev", "celeryev", "/0.celeryevent", "/1.celeryev", "shop./0.celeryev",
                "/celeryev", "celery-task-meta-a", "shop.celery-task-meta-a", "other",
            ):  # fmt: skip
                system: Any = registry.create_system(spec)
                system.other_prefixes = other_prefixes
                is_result = "meta" in channel
                system.record_event(channel.encode(), result if is_result else json.dumps(body).encode(), NOW_MS)
                unchecked = [tuple(evidence) for evidence in system._runs.unplaced_events.unchecked.values()]
                known = system._runs.find(b"a")
                if known.task or len(system._runs.unplaced_events):
                    found = f"known {known.task!r}, {len(system._runs.unplaced_events)} kept, checked by {unchecked}"
                    yield f"{spec}, other prefixes {other_prefixes or 0}, {channel}: {found}"


def verbs() -> Iterator[str]:
    for name, words in (("pause", ("paused", "gone")), ("resume", ("resumed", "gone")), ("requeue", ("moved", "gone"))):
        for word in words:
            system = build_system("mail")
            apply(system, BAD, NOW_MS)
            system._paused_since_ms["mail"] = 5
            system._heartbeats.consumed_queues.store("w1", ("mail",))
            jobs = [system.event_cache.find(b"a")] if name == "requeue" else []
            for request in system.verb_requests(name, "mail", jobs, {}):
                reply = Reply(word, each=[Reply(word)] * len(jobs))
                shown = [f"{outcome.word} {outcome.moved}" for outcome in request.parse([reply])]
            state = f"paused {system._paused_since_ms}, asked {len(system._heartbeats.consumed_queues)}"
            yield f"{name}, {word}: {shown}, {state}, failed {system.event_cache.find(b'a') is not None}"


def show(call: Callable[..., object], *args: Any) -> str:
    try:
        return str(call(*args))
    except UsageError as error:
        return f"UsageError: {error}"


def rewritten_messages() -> Iterator[str]:
    system = build_system("mail")
    member = messages.create_message(
        b'{"args": [1]}', {"task": "add", "args": [1]}, "mail", messages.Options("a", b"null", b"null", 3)
    )
    job = Job(b"a", "mail", "celery", "queue", State.READY, member)
    day_ms = 86_400_000
    forms: Sequence[tuple[str, dict[str, object]]] = (
        ("reschedule", {}), ("reschedule", {"delay_ms": 0}), ("reschedule", {"delay_ms": 5_000}),
        ("reschedule", {"priority": 5}), ("reschedule", {"priority": 5, "due_ms": NOW_MS + 5_000}),
        ("reprioritise", {"priority": 0}), ("reprioritise", {"priority": 10}), ("move", {TO_QUEUE: "sms"}),
    )  # fmt: skip
    for name, form in forms:
        try:
            found = json.loads(system.rewrite_member(name, job, form))
            fields = f"eta {found['headers']['eta']}, {found['properties']['priority']}, "
            fields += f"to {found['properties']['delivery_info']['routing_key']}"
        except UsageError as error:
            fields = f"UsageError: {error}"
        yield f"{name} {form}: {fields}"
    for name, form in (("reschedule", {"delay_ms": 5}), ("reprioritise", {"priority": 5})):
        yield f"{name} of no message: {system.rewrite_member(name, replace(job, member=b'{}'), form)!r}"
    most_ms = system.visibility_ms
    for form in (
        {},
        {"delay_ms": 0},
        {"delay_ms": 1},
        {"delay_ms": most_ms},
        {"delay_ms": most_ms + 1},
        {"due_ms": NOW_MS - day_ms},
        {"due_ms": NOW_MS},
        {"due_ms": NOW_MS + 1},
        {"delay_ms": 0, "due_ms": 5},
    ):
        yield f"eta of {form}: {show(system._encode_eta_json, form)}"


def requeued_messages() -> Iterator[str]:
    bad = {**BAD[1], "queue": ""}
    no_name = {key: value for key, value in bad.items() if key != "name"}
    entry = messages.create_message(
        b'{"args": [7]}', {"task": "add", "args": [7], "retries": 3}, "mail", messages.Options("a", b"null", b"null", 3)
    )
    for title, queues, steps in (
        ("a result", ("mail",), (("result", bad),)), ("of several queues", ("mail", "sms"), (("result", bad),)),
        ("without a name", ("mail",), (("result", no_name),)), ("events", ("mail",), (SENT, FAILED)),
        ("a message", ("mail",), (SENT, FAILED)), ("another message", ("mail",), (SENT, FAILED)),
    ):  # fmt: skip
        for other_prefixes in (set(), {"x"}):
            system = build_system(*queues)
            system.other_prefixes = other_prefixes
            for step in steps:
                apply(system, step, NOW_MS)
            if "message" in title:
                system._runs.record_message(b"a", entry if title == "a message" else b"{}")
            job = system.event_cache.find(b"a")
            try:
                found = json.loads(system.rewrite_member("requeue", job, {}))
                text = f"{base64.b64decode(found['body'])[:10]!r}, {found['headers']['retries']} retries, "
                text += f"tag {found['properties']['delivery_tag'][:8]}, priority {found['properties']['priority']}"
            except UsageError as error:
                text = f"UsageError: {error}"
            yield f"{title}, other prefixes {len(other_prefixes)}: {text}"
    waiting = Job(b"a", "mail", "celery", "queue", State.READY, b"")
    yield f"of a waiting job: {show(build_system('mail').rewrite_member, 'requeue', waiting, {})}"


def ended_jobs() -> Iterator[str]:
    usual = {"status": "SUCCESS", "result": 5, "name": "add", "args": [1], "kwargs": {}, "worker": "w1",
             "date_done": "2027-01-15T08:00:00"}  # fmt: skip
    changes: Sequence[dict[str, object]] = (
        {}, {"queue": "mail"}, {"queue": "sms"}, {"name": None}, {"status": "FAILURE"}, {"status": "STARTED"},
        {"status": "PENDING"}, {"date_done": None},
    )  # fmt: skip
    for change in changes:
        for word in ("ended", "gone") if not change else ("ended",):
            system = build_system("mail")
            raw = json.dumps({**usual, **change}).encode()
            job = system._build_ended_job("mail", b"a", Reply(word, values={"result": raw}))
            kept = b"a" in system._runs.task_bodies
            text = (
                f"{job.place} {job.name!r} {job.call!r} {job.worker!r} {job.since_ms} {job.error!r}" if job else "none"
            )
            facts = [f"{fact.name} {fact.value}" for fact in job.facts] if job else []
            yield f"{word}, {change}: {text} {facts}, kept {kept}"
    for id in (b"a", b"0123456789ab", b"0123456789ab.2"):
        for is_missed in (False, True):
            system = build_system("mail")
            if is_missed:
                system._missed_jobs.add(("mail", id))
            names = [call.script.name for call in system.job_request("mail", id, 0).calls]
            yield f"search of {id!r}, missed {is_missed}: {names}"
    for number in (celery.MAX_MISSED - 1, celery.MAX_MISSED):
        system = build_system("mail")
        system._missed_jobs.update(("mail", b"%d" % at) for at in range(number))
        request = system.job_request("mail", b"a", 0)
        found = request.parse([Reply("gone")] * len(request.calls))
        yield f"missing after {number} others: {found}, {len(system._missed_jobs)} are missed"


def test_runs_of_celery_match_the_stored_text() -> None:
    parts = (
        stories(),
        guessed_queues(),
        redeliveries(),
        limits(),
        received_messages(),
        verbs(),
        rewritten_messages(),
        requeued_messages(),
        ended_jobs(),
    )
    assert_lines_match_file((line for part in parts for line in (f"== {part.__name__}", *part)), KEPT)
