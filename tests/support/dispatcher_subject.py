"""The layout `dispatcher` as the conformance suite sees it: tasks as producers write them, by ZADD and RPUSH.

A task is its bytes and has no id; in the suite's worlds its id is what stands in front of the first `|`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from redis import Redis

from rqtui.scripts import script as scripts
from rqtui.scripts.script import Answer
from rqtui.testing.subject import Planted, Request, Subject, Use, World

NOW = 1_800_000_000_000
HOUR = 3_600_000
KEYS = {"delayed": "delayedtaskset", "ready": "readytasklist", "leaving": "rqtui:{readytasklist}:leaving"}
SCRIPTS = scripts.load("dispatcher")
Jobs = Sequence[Planted]


def task(id: bytes) -> bytes:
    """The bytes of the task `id`; every third is longer than a page shows."""
    number = int(id.rpartition(b"-")[2])
    return id + b"|" + b"x" * (5000 if number % 3 == 0 else number)


def id_of(entry: bytes) -> bytes:
    """The id in the bytes of a task, also of one that stands aside."""
    return entry.partition(b"|")[0].rpartition(b" ")[2]


def plant(client: Redis, place: str, ids: Sequence[bytes], ripe: bool) -> list[Planted]:
    """Tasks as the README's producer leaves them (ZADD, in seconds) and as the program does (RPUSH)."""
    pipe = client.pipeline(transaction=False)
    for id in ids:
        number = int(id.rpartition(b"-")[2])
        if place == "ready":
            pipe.rpush(KEYS["ready"], task(id))
        else:
            pipe.zadd(KEYS["delayed"], {task(id): (NOW + (-HOUR if ripe else HOUR)) // 1000 + number})
    pipe.execute()
    return [Planted(id, place) for id in ids]


def entries(client: Redis, place: str) -> list[bytes]:
    """The tasks of a place, in its order."""
    if place == "delayed":
        return client.zrange(KEYS["delayed"], 0, -1)
    return client.lrange(KEYS[place], 0, -1)


def members(client: Redis, place: str) -> list[bytes]:
    return [id_of(entry) for entry in entries(client, place)]


def facts(client: Redis, id: bytes) -> object:
    """Its due time, how often it is ready, and what stands aside of it; nothing of nothing."""
    found = (
        client.zscore(KEYS["delayed"], task(id)),
        members(client, "ready").count(id),
        members(client, "leaving").count(id),
    )
    return found if any(part not in (None, 0) for part in found) else None


def body(client: Redis, id: bytes) -> bytes | None:
    for place in KEYS:
        for entry in entries(client, place):
            if id_of(entry) == id:
                return entry.partition(b" ")[2] if place == "leaving" else entry
    return None


def by_member(**args: object) -> Callable[[Jobs], Request]:
    return lambda jobs: Request(args, [(task(job.id),) for job in jobs])


def deleted(jobs: Jobs) -> Request:
    return Request({"place": jobs[0].place or "ready"}, [(task(job.id),) for job in jobs])


def some(**args: object) -> Callable[[Jobs], Request]:
    return lambda jobs: Request({"limit": max(1, len(jobs)), **args})


def parked(jobs: Jobs) -> Request:
    """One place at a time, or the ready ones would always be first."""
    return Request({"limit": len(jobs), "place": jobs[0].place})


def put(delay_ms: int) -> Callable[[Jobs], Request]:
    return lambda jobs: Request({"now_ms": NOW}, [{"body": task(job.id), "delay_ms": delay_ms} for job in jobs])


def put_again(world: World) -> Request:
    return put(HOUR)(world.plant("delayed"))


def aside(world: World, jobs: Jobs) -> None:
    for job in jobs:
        world.client.rpush(KEYS["leaving"], b"0 " + task(job.id))


def forgotten(jobs: Jobs) -> Request:
    return Request({}, [(b"0 " + task(job.id),) for job in jobs])


def unknown(request: Callable[[Jobs], Request]) -> Callable[[World], Request]:
    return lambda world: request([world.new()])


def emptied(request: Request) -> Callable[[World], Request]:
    """With nothing in any place."""

    def way(world: World) -> Request:
        world.client.delete(*KEYS.values())
        return request

    return way


def counts_are_right(world: World, answer: Answer) -> None:
    assert {place: answer.values[place] for place in ("delayed", "ready")} == {
        place: len(ids) for place, ids in world.members().items()
    }
    first = world.client.zrange(KEYS["delayed"], 0, 0, withscores=True)[0][1]
    assert (answer.values["due_ms"], answer.values["overdue"]) == (int(first * 1000), 0)


def page_is_in_order(place: str) -> Callable[[World, Answer], None]:
    def check(world: World, answer: Answer) -> None:
        wholes = entries(world.client, place)
        assert answer.values["total"] == len(wholes) == len(answer.rows)
        for (head, size, tail, score), whole in zip(answer.rows, wholes, strict=True):
            assert (head, size, tail) == (whole if len(whole) <= 4096 else whole[:4096], len(whole), whole[-64:])
            wanted = world.client.zscore(KEYS["delayed"], whole) if place == "delayed" else None
            assert (float(score) if score else None) == wanted

    return check


def it_is_shown(world: World, answer: Answer) -> None:
    place = answer.values["place"]
    assert answer.values["head"] in entries(world.client, place)
    assert bool(answer.values["score"]) == (place == "delayed")


def nothing_is_found(world: World, answer: Answer) -> None:
    assert (answer.values["looked"], answer.rows) == (len(entries(world.client, "delayed")), [])


def shown(jobs: Jobs) -> Request:
    whole = task(jobs[0].id)
    return Request({"now_ms": NOW, "head": whole, "size": len(whole), "tail": whole[-64:], "body_bytes": -1})


def paged(jobs: Jobs) -> Request:
    return Request({"now_ms": NOW, "place": jobs[0].place, "offset": 0, "limit": 100, "body_bytes": 20})


def check_page(world: World, answer: Answer) -> None:
    page_is_in_order("delayed" if answer.rows[0][3] else "ready")(world, answer)


BOTH = ("delayed", "ready")
USES = {
    "counts": Use(lambda jobs: Request({"now_ms": NOW}), knows_jobs=False, reads=counts_are_right),
    "page": Use(paged, BOTH, knows_jobs=False, reads=check_page),
    "show": Use(shown, BOTH, reads=it_is_shown, reach={"gone": unknown(shown)}),
    "faults": Use(lambda jobs: Request(), knows_jobs=False, reads=nothing_is_found),
    "enqueue": Use(put(0), repeats=True, reach={"exists": put_again}),
    "dispatch": Use(
        some(now_ms=NOW), chooses=True, ripe=True, reach={"empty": emptied(Request({"now_ms": NOW, "limit": 1}))}
    ),
    "promote": Use(by_member(), reach={"gone": unknown(by_member())}),
    "reschedule": Use(
        by_member(now_ms=NOW, delay_ms=2 * HOUR),
        repeats=True,
        reach={"gone": unknown(by_member(now_ms=NOW, delay_ms=1))},
    ),
    "delete": Use(deleted, reach={"gone": unknown(deleted)}),
    "pull": Use(some(now_ms=NOW), chooses=True, reach={"empty": emptied(Request({"limit": 1}))}),
    "park": Use(parked, chooses=True, reach={"empty": emptied(Request({"limit": 1}))}),
    "forget": Use(forgotten, prepare=aside, reach={"gone": unknown(forgotten)}),
}

DISPATCHER = Subject("dispatcher", SCRIPTS, BOTH, KEYS.__getitem__, plant, members, facts, body, USES)  # type: ignore[arg-type]


# ── for the tests of one thing at a time ─────────────────────────────────────────────────────────────────────────────

DELAYED, READY = KEYS["delayed"], KEYS["ready"]


def ask(client: Redis, name: str, *rows: Any, **args: Any) -> Answer:
    known = {arg.name for arg in SCRIPTS[name].args}
    timed = {"now_ms": NOW, **args} if "now_ms" in known else args
    return scripts.run(client, SCRIPTS[name].call(KEYS, timed, rows))


def words(answer: Answer) -> list[str]:
    return [row.word for row in answer.each]


def delayed(client: Redis) -> dict[bytes, float]:
    return dict(client.zrange(DELAYED, 0, -1, withscores=True))


def ready(client: Redis) -> list[bytes]:
    return client.lrange(READY, 0, -1)
