"""The mill: a queue system of tests alone, with all that a layout may have: nine places, several of one state, one of
them shared by all queues, calls, facts, workers of several queues, schedules, figures per kind, a verb that reaches
further than its queue, one that swaps bodies, a fault that has to be mended in time.

Lists `mill:<place>:<queue>` of ids, of all queues together `mill:deferred`; a hash `mill:job:<id>` for each. The
fixture `mill` lets rqtui know it for a test.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from rqtui.errors import UsageError
from rqtui.layout.foreign import Foreign, rows_by_name
from rqtui.layout.layout import Answers, Ask
from rqtui.model import Fact, Figures, Job, Place, Schedule, State, Worker
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


class Mill(Foreign):
    """Its scripts stand beside this file."""

    name = "mill"
    folder = Path(__file__).parent / "mill"
    places = tuple(
        Place(name, state, f"<prefix>:{name}" if name == SHARED else f"<prefix>:{name}:<queue>", "list")._replace(
            is_shared=name == SHARED
        )
        for name, state in NAMES.items()
    )
    defaults: Mapping[str, str] = {"prefix": "mill"}
    finds_by_id = True
    has_json_bodies = True
    tells = frozenset({"error", "worker", "name"})
    effects: Mapping[str, str] = {"pause": "every queue of this mill rests, not this one alone"}
    new_body = '{"func": "", "args": [], "kwargs": {}}'

    def keys(self, queue: str) -> Mapping[str, str]:
        """All of them begin with its prefix."""
        prefix = self.options["prefix"]
        names = ("paused", "workers", "schedules", "orders", "kinds", "mice", SHARED)
        shared = {name: f"{prefix}:{name}" for name in names}
        return {**{name: f"{prefix}:{name}:{queue}" for name in NAMES}, **shared}

    def discover(self, client: Any) -> Iterator[list[str]]:
        """It keeps their names."""
        yield sorted(name.decode("utf-8", "surrogateescape") for name in client.smembers("mill:queues"))

    def recognises(self, client: Any, queue: str) -> bool:
        """Those that it keeps."""
        return bool(client.sismember("mill:queues", queue))

    def decode(self, queue: str, place: str, row: Mapping[str, Any], now_ms: int) -> Job:
        """A job from a row."""
        where = self.place(place)
        body: bytes = row["body"]
        return Job(
            row["id"],
            queue,
            self.name,
            where.name,
            where.state,
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
            facts=tuple(_fact(*each) for each in json.loads(row["facts"])),
        )

    def workers_ask(self, queue: str) -> Ask[tuple[Worker, ...]]:
        """Those that serve this queue, each of which tells all of its queues."""

        def read(answers: Answers) -> tuple[Worker, ...]:
            found = [json.loads(row["worker"]) for row in _rows(answers)]
            return tuple(_worker(each, queue) for each in found if queue in each["queues"])

        return Ask((self.call("roster", queue, {}),), read)

    def kinds_ask(self, queue: str) -> Ask[tuple[Figures, ...]] | None:
        """One list for all queues."""

        def read(answers: Answers) -> tuple[Figures, ...]:
            return tuple(Figures(**json.loads(row["kind"])) for row in _rows(answers))

        return Ask((self.call("kinds", queue, {}),), read)

    def rewritten(self, name: str, job: Job, form: Mapping[str, object]) -> bytes:
        """The body with another due time; raises UsageError for one that is no JSON object."""
        try:
            return json.dumps({**json.loads(job.member), "due_ms": form["due_ms"]}).encode()
        except (ValueError, TypeError):
            raise UsageError("its body is no JSON object") from None

    def schedules_ask(self) -> Ask[tuple[Schedule, ...]] | None:
        """All of them stand in one list."""

        def read(answers: Answers) -> tuple[Schedule, ...]:
            return tuple(Schedule(layout=self.name, **json.loads(row["schedule"])) for row in _rows(answers))

        return Ask((self.call("schedules", "", {}),), read)


def _rows(answers: Answers) -> list[dict[str, Any]]:
    answer = answers[0]
    if isinstance(answer, Exception):
        raise answer
    return rows_by_name(answer)


def _fact(name: str, value: Any, kind: str = "text", queue: str = "") -> Fact:
    is_id = kind == "ref" and isinstance(value, str)
    return Fact(name, value.encode("utf-8", "surrogateescape") if is_id else value, kind, queue)


def _worker(each: Mapping[str, Any], queue: str) -> Worker:
    facts = tuple(_fact(*fact) for fact in each.get("facts", ()))
    return Worker(
        each["name"],
        queue,
        each["beat_ms"],
        60_000,
        pid="7",
        host="mill-1",
        job=each.get("job", "").encode(),
        queues=tuple(each["queues"]),
        state=each.get("state", ""),
        facts=facts,
    )


LAYOUT = Mill


@pytest.fixture
def mill(monkeypatch: pytest.MonkeyPatch) -> type[Mill]:
    """The mill is one of the systems that rqtui speaks."""
    monkeypatch.setattr(registry, "SYSTEMS", (*registry.SYSTEMS, registry.System("mill", "the mill", __name__)))
    return Mill


def grind(client: Redis, queue: str, place: str, *ids: str, facts: Sequence[object] = (), **fields: object) -> None:
    """Plants jobs in a place of a queue."""
    client.sadd("mill:queues", queue)
    for id in ids:
        client.rpush(f"mill:{place}" if place == SHARED else f"mill:{place}:{queue}", id)
        known = {"call": f"mill.{place}({id!r})", "body": '{"flour": 1}', "queue": queue, **fields}
        known["facts"] = json.dumps(list(facts))
        client.hset(f"mill:job:{id}", mapping={name: str(value) for name, value in known.items()})


def hire(client: Redis, name: str, queues: Sequence[str], **known: object) -> None:
    """Plants a worker that has just beaten."""
    s, us = client.time()
    worker = {"name": name, "queues": list(queues), "beat_ms": s * 1000 + us // 1000, **known}
    client.sadd("mill:workers", json.dumps(worker))


def plan(client: Redis, name: str, queue: str, pattern: str, **known: object) -> None:
    """Plants a schedule."""
    client.rpush("mill:schedules", json.dumps({"name": name, "queue": queue, "pattern": pattern, **known}))
