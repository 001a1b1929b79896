"""orizuru as the conformance suite sees it: jobs are planted with the commands its producer and consumers send."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import msgpack
from redis import Redis

from rqtui.scenarios.originals import orizuru as original
from rqtui.scripts import script as scripts
from rqtui.scripts.script import Answer
from rqtui.testing.subject import Planted, Request, Subject, Use, World

NOW, HOUR, SILENT = 1_780_000_000_000, 3_600_000, 60_000
SOURCE, ALIVE = "jobs", "alive"
SCRIPTS = scripts.load("orizuru")
PLACES = ("source", "processing", "unacked")
SEEN = "rqtui:{orizuru}:seen"
KEYS = {"source": SOURCE, "consumers": original.CONSUMERS, "heartbeats": original.HEARTBEATS, "seen": SEEN}
Jobs = Sequence[Planted]


def body(id: bytes) -> bytes:
    """A struct whose first field is the job's id; every third is long."""
    number = int(id.rpartition(b"-")[2])
    return original.encode(id.decode(), "x" * (6000 if number % 3 == 0 else 3))


def seen(entry: bytes, since_ms: int, length: int = 1) -> bytes:
    """What the reaper remembers of a list: since when it has this length and this newest entry."""
    return b"%d %d %d %s" % (since_ms, length, len(entry), entry[:64])


def plant(client: Redis, place: str, ids: Sequence[bytes], ripe: bool) -> list[Planted]:
    """Jobs of a place. What is ripe in processing stands with dead consumers, one each, the longest silent first."""
    pipe = client.pipeline(transaction=False)
    jobs = []
    pipe.sadd(original.CONSUMERS, ALIVE).hset(original.HEARTBEATS, ALIVE, NOW)
    pipe.set(original.key(ALIVE, "heartbeat"), NOW, px=HOUR)
    for id in ids:
        worker = "" if place == "source" else ALIVE
        if ripe and place == "processing":
            worker = f"dead-{id.decode()}"
            pipe.hset(original.HEARTBEATS, worker, NOW - HOUR + int(id.rpartition(b"-")[2]))
            pipe.hset(SEEN, worker, seen(body(id), NOW - HOUR))
        pipe.lpush(SOURCE if place == "source" else original.key(worker, place), body(id))
        jobs.append(Planted(id, place, worker))
    pipe.execute()
    return jobs


def lists(client: Redis, place: str) -> dict[bytes, list[bytes]]:
    """The lists of a place, each from its oldest entry on."""
    keys = [SOURCE.encode()] if place == "source" else sorted(client.scan_iter(original.key("*", place), count=1000))
    return {key: client.lrange(key, 0, -1)[::-1] for key in keys}


def members(client: Redis, place: str) -> list[bytes]:
    return [msgpack.unpackb(entry)[0].encode() for found in lists(client, place).values() for entry in found]


def facts(client: Redis, id: bytes) -> list[tuple[bytes, int]]:
    """The lists it stands in, and how often."""
    found = [item for place in PLACES for item in lists(client, place).items()]
    return [(key, entries.count(body(id))) for key, entries in found if body(id) in entries]


def held(client: Redis, id: bytes) -> bytes | None:
    return body(id) if facts(client, id) else None


def by_entry(**args: object) -> Callable[[Jobs], Request]:
    return lambda jobs: Request(args, [{"member": body(job.id), "worker": job.token} for job in jobs])


def some(**args: object) -> Callable[[Jobs], Request]:
    return lambda jobs: Request({"now_ms": NOW, "limit": len(jobs), **args})


def plain(**args: object) -> Callable[[Jobs], Request]:
    return lambda jobs: Request({"now_ms": NOW, "silent_ms": SILENT, **args})


def deleted(jobs: Jobs) -> Request:
    return by_entry(place=jobs[0].place or "source")(jobs)


def shown(jobs: Jobs) -> Request:
    return look_for(body(jobs[0].id))


def look_for(entry: bytes) -> Request:
    known = {"head": entry, "size": len(entry), "tail": entry[-64:]}
    return Request({"now_ms": NOW, "silent_ms": SILENT, "body_bytes": -1, **known})


def unknown(request: Callable[[Jobs], Request]) -> Callable[[World], Request]:
    return lambda world: request([world.new()])


def without(place: str, request: Callable[[Jobs], Request]) -> Callable[[World], Request]:
    def way(world: World) -> Request:
        world.client.delete(*lists(world.client, place))
        return request([Planted(b"")])

    return way


def a_long_search(world: World) -> Request:
    """Jobs that are not there, in a list that is long enough for the search to stop."""
    world.client.rpush(SOURCE, *[original.encode("other-1", n) for n in range(1200)])
    return Request({"place": "source"}, [(b"nothing", "")] * 1000)


def counts_are_right(world: World, answer: Answer) -> None:
    assert {place: answer.values[place] for place in PLACES} == {p: len(ids) for p, ids in world.members().items()}
    assert (answer.values["workers"], answer.values["consumers"], answer.values["exact"]) == (1, 1, True)


def page_is_in_order(world: World, answer: Answer) -> None:
    entries = [body(id) for id in world.members()["processing"]]
    assert [(row[0], row[1], row[2], row[3]) for row in answer.rows] == [
        (entry if len(entry) <= 4096 else entry[:4096], len(entry), entry[-64:], ALIVE.encode()) for entry in entries
    ]
    assert answer.values["total"] == len(entries)
    assert all(row[4] == NOW and NOW < row[5] <= NOW + HOUR for row in answer.rows)


def all_is_shown(world: World, answer: Answer) -> None:
    assert answer.values["place"] == "processing" and answer.values["worker"] == ALIVE.encode()
    assert answer.values["head"] in [body(id) for id in world.members()["processing"]]


def nothing_is_found(world: World, answer: Answer) -> None:
    assert answer.rows == [] and answer.values["looked"] == sum(map(len, world.members().values()))


def everybody_is_listed(world: World, answer: Answer) -> None:
    [(name, beat, left, processing, unacked, registered)] = answer.rows
    assert (name, beat, registered) == (ALIVE.encode(), NOW, True) and 0 < left <= HOUR
    assert (processing, unacked) == (len(world.members()["processing"]), len(world.members()["unacked"]))


RESERVE = some(silent_ms=SILENT, worker="w1", ttr_ms=30_000)
REAP, GC = some(silent_ms=SILENT), some(silent_ms=SILENT, gc=True)
GONE = {"gone": unknown(by_entry())}
USES = {
    "ack": Use(by_entry(), reach=GONE),
    "reject": Use(by_entry(), reach=GONE),
    "release": Use(by_entry(), reach=GONE),
    "requeue": Use(by_entry(), reach=GONE),
    "delete": Use(deleted, reach={"gone": unknown(deleted), "later": a_long_search}),
    "enqueue": Use(lambda jobs: Request({}, [(body(job.id),) for job in jobs]), repeats=True),
    "reserve": Use(RESERVE, chooses=True, reach={"empty": without("source", RESERVE)}),
    "pull": Use(some(), chooses=True, reach={"empty": without("source", some())}),
    "reap": Use(REAP, ("processing",), chooses=True, ripe=True, reach={"empty": without("processing", REAP)}),
    "gc": Use(GC, ("unacked",), chooses=True, reach={"empty": without("unacked", GC)}),
    "counts": Use(plain(), knows_jobs=False, reads=counts_are_right),
    "page": Use(
        plain(place="processing", offset=0, limit=100, body_bytes=20),
        ("processing",),
        knows_jobs=False,
        reads=page_is_in_order,
    ),
    "show": Use(shown, ("processing",), reads=all_is_shown, reach={"gone": unknown(shown)}),
    "faults": Use(plain(), knows_jobs=False, reads=nothing_is_found),
    "roster": Use(lambda jobs: Request(), ("processing",), knows_jobs=False, reads=everybody_is_listed),
}

ORIZURU = Subject(
    "orizuru",
    {**SCRIPTS, "gc": SCRIPTS["reap"]},  # one script, two uses
    PLACES,
    lambda name: KEYS.get(name, original.CONSUMERS),
    plant,
    members,
    facts,
    held,
    USES,
    lambda key: re.fullmatch(r"orizuru:consumers:.*:(processing|unacked|heartbeat)", key) is not None,
)
