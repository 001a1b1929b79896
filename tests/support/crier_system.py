"""The test system `crier`: it stores only ready jobs, and publishes on channels how jobs run and end.

The ids of ready jobs are in a list `crier:<queue>`, the names of queues in a set `crier:queues`. The channels
`crier.began` and `crier.ended` carry a JSON object per job: `id`, `name`, `worker`, `error`, `took_ms` and, if the
worker sends it, `queue`. The channel `crier.beats` carries one per heartbeat. The fixture `crier` registers the system.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from rqtui.model import Fact, Job, KindStatistics, Place, State, Worker
from rqtui.system_base.foreign_system import ForeignSystem
from rqtui.system_base.system import Request
from rqtui.systems import registry


class Crier(ForeignSystem):
    """The queue system "crier" for tests, whose scripts are in the folder `crier` next to this file."""

    name = "crier"
    folder = Path(__file__).parent / "crier"
    places = (
        Place("waiting", State.READY, "crier:<queue>", "list"),
        Place("running", State.RESERVED, "", "", is_from_events=True),
        Place("finished", State.DONE, "", "", is_from_events=True),
        Place("failed", State.DEAD, "", "", is_from_events=True),
    )
    can_find_by_id = True
    known_fields = frozenset({"error", "worker", "name"})

    def keys(self, queue: str) -> Mapping[str, str]:
        """Return the Redis key of the list of ready jobs."""
        return {"waiting": f"crier:{queue}"}

    def discover(self, client: Any) -> Iterator[list[str]]:
        """Yield the queue names in the set `crier:queues`."""
        yield sorted(name.decode() for name in client.smembers("crier:queues"))

    def has_queue(self, client: Any, queue: str) -> bool:
        """Return whether the set `crier:queues` contains the queue."""
        return bool(client.sismember("crier:queues", queue))

    def decode(self, queue: str, place: str, row: Mapping[str, Any], now_ms: int) -> Job:
        """Build a ready job from a row, which holds only its id."""
        return Job(row["id"], queue, self.name, place, self.place(place).state, row["id"])

    def event_patterns(self) -> tuple[str, ...]:
        """Return the names of all Pub/Sub channels of the test system `crier`."""
        return ("crier.began", "crier.ended", "crier.beat*")

    def record_event(self, channel: bytes, message: bytes, at_ms: int) -> None:
        """Record the Pub/Sub event of a job's start or end, or of a heartbeat."""
        try:
            event = json.loads(message)
        except ValueError:
            return
        if channel == b"crier.beats":
            queues = tuple(event["queues"])
            self.event_cache.record_heartbeat(Worker(event["name"], "", at_ms, 10_000, host="square", queues=queues))
            return
        is_over = channel == b"crier.ended"
        place = self.place("running" if not is_over else "failed" if event.get("error") else "finished")
        queue, took_ms = event.get("queue", ""), event.get("took_ms")
        self.event_cache.record_job(
            Job(
                event["id"].encode(),
                queue,
                self.name,
                place.name,
                place.state,
                b"",
                name=event.get("name", ""),
                since_ms=at_ms,
                reserved_ms=None if is_over else at_ms,
                error=event.get("error", ""),
                worker=event.get("worker", ""),
                facts=(Fact("took", took_ms, "duration"),) if took_ms is not None else (),
            )
        )
        if is_over:
            self.event_cache.record_run(queue, event.get("name", ""), failed=bool(event.get("error")), took_ms=took_ms)

    def workers_request(self, queue: str) -> Request[tuple[Worker, ...]]:
        """Return the workers of a queue whose heartbeats were received from Pub/Sub."""

        def read_workers(_answers: object) -> tuple[Worker, ...]:
            found = [worker for worker in self.event_cache.list_workers() if queue in worker.queues]
            return tuple(worker._replace(queue=queue) for worker in found)

        return Request((), read_workers)

    def kinds_request(self, queue: str) -> Request[tuple[KindStatistics, ...]] | None:
        """Return the statistics of the jobs whose Pub/Sub events were received."""
        over_ms = self.now_ms() - (self.events_since_ms or 0)
        return Request(
            (), lambda _answers: self.event_cache.build_kind_statistics(over_ms) if self.events_since_ms else ()
        )


SYSTEM = Crier


def register_system() -> None:
    """Register the test system "crier" in this process, for a program that a test starts."""
    registry.SYSTEMS = (*registry.SYSTEMS, registry.SystemEntry("crier", "the crier", __name__))


@pytest.fixture
def crier(monkeypatch: pytest.MonkeyPatch) -> type[Crier]:
    """Register the test system `crier`, which publishes events, for one test."""
    monkeypatch.setattr(registry, "SYSTEMS", (*registry.SYSTEMS, registry.SystemEntry("crier", "the crier", __name__)))
    return Crier


def add_ready_jobs(client: Redis, queue: str, *ids: str) -> None:
    """Add ready jobs to a queue of the test system "crier"."""
    client.sadd("crier:queues", queue)
    client.rpush(f"crier:{queue}", *ids)


def publish_begin(client: Redis, queue: str, *ids: str, **fields: object) -> None:
    """Take jobs from a queue of the test system `crier`, and publish that they began to run."""
    for id in ids:
        client.lrem(f"crier:{queue}", 1, id)
        client.publish("crier.began", json.dumps({"id": id, "queue": queue, "name": "cry", **fields}))


def publish_end(client: Redis, queue: str, *ids: str, **fields: object) -> None:
    """Take jobs from a queue of the test system `crier`, and publish that they ended."""
    for id in ids:
        client.lrem(f"crier:{queue}", 1, id)
        client.publish("crier.ended", json.dumps({"id": id, "queue": queue, "name": "cry", **fields}))


def publish_heartbeat(client: Redis, name: str, *queues: str) -> None:
    """Publish a heartbeat of a worker of the test system `crier`."""
    client.publish("crier.beats", json.dumps({"name": name, "queues": queues}))
