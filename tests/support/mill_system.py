"""The test system `mill`: a queue system that has every feature a system may have.

The features: nine places, several with the same state, one shared by all queues; calls, facts, workers of several
queues, schedules, figures per kind, a verb that affects other queues, a verb that replaces bodies, a finding with a
deadline.

Ids are in lists `mill:<place>:<queue>`, those of the shared place in `mill:deferred`; each job has a hash
`mill:job:<id>`. The fixture `mill` registers the system.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from rqtui.errors import UsageError
from rqtui.model import Fact, Job, KindStatistics, Place, Schedule, State, Worker
from rqtui.system_base.foreign_system import ForeignSystem, convert_rows_to_dicts
from rqtui.system_base.system import Replies, Request
from rqtui.systems import registry

NAMES = {
    "scheduled": State.SCHEDULED,
    "deferred": State.SCHEDULED,
    "queued": State.READY,
    "ready": State.READY,
    "started": State.RESERVED,
    "intermediate": State.RESERVED,
    "finished": State.DONE,
    "failed": State.DEAD,
    "canceled": State.DEAD,
}
SHARED = "deferred"  # one list for all queues


class Mill(ForeignSystem):
    """The queue system "mill" for tests, whose scripts are in the folder `mill` next to this file."""

    name = "mill"
    folder = Path(__file__).parent / "mill"
    places = tuple(
        Place(name, state, f"<prefix>:{name}" if name == SHARED else f"<prefix>:{name}:<queue>", "list")._replace(
            is_shared=name == SHARED
        )
        for name, state in NAMES.items()
    )
    defaults: Mapping[str, str] = {"prefix": "mill"}
    can_find_by_id = True
    has_json_bodies = True
    known_fields = frozenset({"error", "worker", "name"})
    verb_effects: Mapping[str, str] = {"pause": "every queue of this mill rests, not this one alone"}
    body_template = '{"func": "", "args": [], "kwargs": {}}'

    def keys(self, queue: str) -> Mapping[str, str]:
        """Return the Redis keys of a queue of the test system `mill`, which all start with the prefix."""
        prefix = self.options["prefix"]
        names = ("paused", "workers", "schedules", "orders", "kinds", "mice", SHARED)
        shared = {name: f"{prefix}:{name}" for name in names}
        return {**{name: f"{prefix}:{name}:{queue}" for name in NAMES}, **shared}

    def discover(self, client: Any) -> Iterator[list[str]]:
        """Yield the queue names in the set of queues of the test system `mill`."""
        yield sorted(name.decode("utf-8", "surrogateescape") for name in client.smembers("mill:queues"))

    def has_queue(self, client: Any, queue: str) -> bool:
        """Return whether the set of queues of the test system `mill` contains the queue."""
        return bool(client.sismember("mill:queues", queue))

    def decode(self, queue: str, place: str, row: Mapping[str, Any], now_ms: int) -> Job:
        """Build a job from a row that a script of the test system `mill` returned."""
        definition = self.place(place)
        body: bytes = row["body"]
        return Job(
            row["id"],
            queue,
            self.name,
            definition.name,
            definition.state,
            body,
            name=row["call"].partition("(")[0],
            body=body if len(body) == row["bytes"] or body else None,
            body_bytes=row["bytes"],
            call=row["call"],
            error=row["error"],
            attempts=int(bool(row["error"])),
            worker=row["worker"],
            due_ms=row["due_ms"],
            deadline_ms=row["deadline_ms"],
            since_ms=row["since_ms"],
            facts=tuple(_build_fact(*fact) for fact in json.loads(row["facts"])),
        )

    def workers_request(self, queue: str) -> Request[tuple[Worker, ...]]:
        """Build the request for the workers of a queue of the test system `mill`, each with all of its queues."""

        def read_workers(answers: Replies) -> tuple[Worker, ...]:
            workers = [json.loads(row["worker"]) for row in _read_json_reply(answers)]
            return tuple(_build_worker(worker, queue) for worker in workers if queue in worker["queues"])

        return Request((self.build_call("roster", queue, {}),), read_workers)

    def kinds_request(self, queue: str) -> Request[tuple[KindStatistics, ...]] | None:
        """Build the request for the statistics per kind of job, which all queues of the test system `mill` share."""

        def read_statistics(answers: Replies) -> tuple[KindStatistics, ...]:
            return tuple(KindStatistics(**json.loads(row["kind"])) for row in _read_json_reply(answers))

        return Request((self.build_call("kinds", queue, {}),), read_statistics)

    def rewrite_member(self, name: str, job: Job, form: Mapping[str, object]) -> bytes:
        """Return a job's body with another due time. Raises UsageError for a body that is not a JSON object."""
        try:
            return json.dumps({**json.loads(job.member), "due_ms": form["due_ms"]}).encode()
        except (ValueError, TypeError):
            raise UsageError("its body is no JSON object") from None

    def schedules_request(self) -> Request[tuple[Schedule, ...]] | None:
        """Build the request for all schedules of the test system `mill`, which are in one list."""

        def read_schedules(answers: Replies) -> tuple[Schedule, ...]:
            return tuple(Schedule(system=self.name, **json.loads(row["schedule"])) for row in _read_json_reply(answers))

        return Request((self.build_call("schedules", "", {}),), read_schedules)


def _read_json_reply(answers: Replies) -> list[dict[str, Any]]:
    answer = answers[0]
    if isinstance(answer, Exception):
        raise answer
    return convert_rows_to_dicts(answer)


def _build_fact(name: str, value: Any, kind: str = "text", queue: str = "") -> Fact:
    is_id = kind == "ref" and isinstance(value, str)
    return Fact(name, value.encode("utf-8", "surrogateescape") if is_id else value, kind, queue)


def _build_worker(worker_fields: Mapping[str, Any], queue: str) -> Worker:
    """Build a worker of the test system `mill` from its JSON object."""
    facts = tuple(_build_fact(*fact) for fact in worker_fields.get("facts", ()))
    return Worker(
        worker_fields["name"],
        queue,
        worker_fields["beat_ms"],
        60_000,
        pid="7",
        host="mill-1",
        job=worker_fields.get("job", "").encode(),
        queues=tuple(worker_fields["queues"]),
        state=worker_fields.get("state", ""),
        facts=facts,
    )


SYSTEM = Mill


@pytest.fixture
def mill(monkeypatch: pytest.MonkeyPatch) -> type[Mill]:
    """Register the test system `mill`, which has every feature, for one test."""
    monkeypatch.setattr(registry, "SYSTEMS", (*registry.SYSTEMS, registry.SystemEntry("mill", "the mill", __name__)))
    return Mill


def add_mill_jobs(
    client: Redis, queue: str, place: str, *ids: str, facts: Sequence[object] = (), **fields: object
) -> None:
    """Add jobs to a place of a queue of the test system `mill`."""
    client.sadd("mill:queues", queue)
    for id in ids:
        client.rpush(f"mill:{place}" if place == SHARED else f"mill:{place}:{queue}", id)
        record = {"call": f"mill.{place}({id!r})", "body": '{"flour": 1}', "queue": queue, **fields}
        record["facts"] = json.dumps(list(facts))
        client.hset(f"mill:job:{id}", mapping={name: str(value) for name, value in record.items()})


def add_mill_worker(client: Redis, name: str, queues: Sequence[str], **details: object) -> None:
    """Add a worker of the test system `mill` that has just sent a heartbeat."""
    s, us = client.time()
    worker = {"name": name, "queues": list(queues), "beat_ms": s * 1000 + us // 1000, **details}
    client.sadd("mill:workers", json.dumps(worker))


def add_mill_schedule(client: Redis, name: str, queue: str, pattern: str, **details: object) -> None:
    """Add a schedule to the test system `mill`."""
    client.rpush("mill:schedules", json.dumps({"name": name, "queue": queue, "pattern": pattern, **details}))
