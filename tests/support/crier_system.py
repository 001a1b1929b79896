"""The crier: a queue system of tests alone that keeps the jobs that wait, and tells on channels what became of them.

A list `crier:<queue>` of ids and a set `crier:queues`. On `crier.began` and `crier.ended` an object of JSON per job:
`id`, `name`, `worker`, `error`, `took_ms` and, if its worker knows, `queue`; on `crier.beats` one per beat of a worker.
The fixture `crier` lets rqtui know it for a test.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from rqtui.layout.foreign import Foreign
from rqtui.layout.layout import Ask
from rqtui.model import Fact, Figures, Job, Place, State, Worker
from rqtui.systems import registry


class Crier(Foreign):
    """Its scripts stand beside this file."""

    name = "crier"
    folder = Path(__file__).parent / "crier"
    places = (
        Place("waiting", State.READY, "crier:<queue>", "list"),
        Place("running", State.RESERVED, "", "", is_heard=True),
        Place("finished", State.DONE, "", "", is_heard=True),
        Place("failed", State.DEAD, "", "", is_heard=True),
    )
    finds_by_id = True
    tells = frozenset({"error", "worker", "name"})

    def keys(self, queue: str) -> Mapping[str, str]:
        """One list."""
        return {"waiting": f"crier:{queue}"}

    def discover(self, client: Any) -> Iterator[list[str]]:
        """It keeps their names."""
        yield sorted(name.decode() for name in client.smembers("crier:queues"))

    def recognises(self, client: Any, queue: str) -> bool:
        """Those that it keeps."""
        return bool(client.sismember("crier:queues", queue))

    def decode(self, queue: str, place: str, row: Mapping[str, Any], now_ms: int) -> Job:
        """A job that waits."""
        return Job(row["id"], queue, self.name, place, self.place(place).state, row["id"])

    def hears(self) -> tuple[str, ...]:
        """All of its channels."""
        return ("crier.began", "crier.ended", "crier.beat*")

    def overhear(self, channel: bytes, message: bytes, at_ms: int) -> None:
        """Takes in what became of a job, or a beat."""
        try:
            told = json.loads(message)
        except ValueError:
            return
        if channel == b"crier.beats":
            queues = tuple(told["queues"])
            self.overheard.beat(Worker(told["name"], "", at_ms, 10_000, host="square", queues=queues))
            return
        is_over = channel == b"crier.ended"
        place = self.place("running" if not is_over else "failed" if told.get("error") else "finished")
        queue, took_ms = told.get("queue", ""), told.get("took_ms")
        self.overheard.take(
            Job(
                told["id"].encode(),
                queue,
                self.name,
                place.name,
                place.state,
                b"",
                name=told.get("name", ""),
                since_ms=at_ms,
                reserved_ms=None if is_over else at_ms,
                error=told.get("error", ""),
                worker=told.get("worker", ""),
                facts=(Fact("took", took_ms, "duration"),) if took_ms is not None else (),
            )
        )
        if is_over:
            self.overheard.ran(queue, told.get("name", ""), failed=bool(told.get("error")), took_ms=took_ms)

    def workers_ask(self, queue: str) -> Ask[tuple[Worker, ...]]:
        """Those that were heard."""

        def read(_answers: object) -> tuple[Worker, ...]:
            found = [each for each in self.overheard.workers() if queue in each.queues]
            return tuple(each._replace(queue=queue) for each in found)

        return Ask((), read)

    def kinds_ask(self, queue: str) -> Ask[tuple[Figures, ...]] | None:
        """The runs that were heard."""
        over_ms = self.now_ms() - (self.heard_since_ms or 0)
        return Ask((), lambda _answers: self.overheard.figures(over_ms) if self.heard_since_ms else ())


LAYOUT = Crier


def join() -> None:
    """The crier is one of the systems that this process speaks: for a program of a test."""
    registry.SYSTEMS = (*registry.SYSTEMS, registry.System("crier", "the crier", __name__))


@pytest.fixture
def crier(monkeypatch: pytest.MonkeyPatch) -> type[Crier]:
    """The crier is one of the systems that rqtui speaks."""
    monkeypatch.setattr(registry, "SYSTEMS", (*registry.SYSTEMS, registry.System("crier", "the crier", __name__)))
    return Crier


def wait(client: Redis, queue: str, *ids: str) -> None:
    """Plants jobs that wait."""
    client.sadd("crier:queues", queue)
    client.rpush(f"crier:{queue}", *ids)


def begin(client: Redis, queue: str, *ids: str, **told: object) -> None:
    """Jobs begin, which is cried."""
    for id in ids:
        client.lrem(f"crier:{queue}", 1, id)
        client.publish("crier.began", json.dumps({"id": id, "queue": queue, "name": "cry", **told}))


def end(client: Redis, queue: str, *ids: str, **told: object) -> None:
    """Jobs end, which is cried."""
    for id in ids:
        client.lrem(f"crier:{queue}", 1, id)
        client.publish("crier.ended", json.dumps({"id": id, "queue": queue, "name": "cry", **told}))


def beat(client: Redis, name: str, *queues: str) -> None:
    """A worker beats."""
    client.publish("crier.beats", json.dumps({"name": name, "queues": queues}))
