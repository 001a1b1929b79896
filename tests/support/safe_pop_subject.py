"""The layout safe_pop for the conformance suite: jobs as redis-queue writes them, and how the scripts are asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from redis import Redis

from rqtui.scripts import script as scripts
from rqtui.scripts.script import Answer
from rqtui.testing.subject import Planted, Request, Subject, Use, World

SCRIPTS = scripts.load("safe_pop")
PLACES = ("ready", "in_progress", "expired")
QUEUE = "crawl"
NOW_S = 1_800_000_000
NOW = NOW_S * 1000
TIMEOUT_S = 30
LATE, RUNNING = NOW_S - 3600, NOW_S - 20
Jobs = Sequence[Planted]


def key(name: str) -> str:
    return f"{QUEUE}:done" if name == "done" else QUEUE


def data_key(id: bytes) -> str:
    return f"{QUEUE}:data:{id.decode()}"


def place_of(entry: bytes) -> str:
    _id, bar, seconds = entry.partition(b"|")
    if not bar:
        return "ready"
    return "expired" if NOW_S - int(seconds) > TIMEOUT_S else "in_progress"


def plant(client: Redis, place: str, ids: Sequence[bytes], ripe: bool) -> list[Planted]:
    """LPUSH, the oldest first; two of three have a message, as push_msg leaves it; every third is all there is."""
    jobs = []
    for id in ids:
        number = client.llen(QUEUE)
        if number % 3:
            client.set(data_key(id), b'{"n": %d}' % number + b"x" * 5000 * (number % 2), ex=86400)
        seconds = {"in_progress": RUNNING, "expired": LATE + number}.get(place)
        entry = id if seconds is None else b"%s|%d" % (id, seconds)
        client.lpush(QUEUE, entry)
        jobs.append(Planted(id, place, entry.decode()))
    return jobs


def entries(client: Redis) -> list[bytes]:
    """What stands in the list, in the order in which it is popped."""
    return client.lrange(QUEUE, 0, -1)[::-1]


def members(client: Redis, place: str) -> list[bytes]:
    return [entry.partition(b"|")[0] for entry in entries(client) if place_of(entry) == place]


def facts(client: Redis, id: bytes) -> object:
    own = [entry for entry in entries(client) if entry.partition(b"|")[0] == id]
    data = client.get(data_key(id))
    return (own, data, client.sismember(key("done"), id)) if own or data else None


def body(client: Redis, id: bytes) -> bytes | None:
    stands = any(entry.partition(b"|")[0] == id for entry in entries(client))
    return client.get(data_key(id)) or (id if stands else None)


def timed(**args: object) -> Callable[[Jobs], Request]:
    return lambda jobs: Request({"now_ms": NOW, "timeout_s": str(TIMEOUT_S), **args})


def some(**args: object) -> Callable[[Jobs], Request]:
    return lambda jobs: Request({"now_ms": NOW, "timeout_s": str(TIMEOUT_S), "limit": len(jobs), **args})


def by_token(**args: object) -> Callable[[Jobs], Request]:
    return lambda jobs: Request(args, [(job.id, job.token) for job in jobs])


def fresh(jobs: Jobs) -> Request:
    return Request({}, [(b"{}", job.id) for job in jobs])


def next_to_be_popped(world: World, jobs: Jobs) -> None:
    """The ones asked about stand at the pop end, in their order."""
    for job in reversed(jobs):
        if world.client.lrem(QUEUE, -1, job.token):
            world.client.rpush(QUEUE, job.token)


def emptied(request: Callable[[Jobs], Request]) -> Callable[[World], Request]:
    def way(world: World) -> Request:
        world.client.delete(QUEUE)
        return request([Planted(b"")])

    return way


def stale(request: Callable[[Jobs], Request]) -> Callable[[World], Request]:
    """With the entry of an earlier lease."""

    def way(world: World) -> Request:
        (job,) = world.plant("in_progress")
        return request([Planted(job.id, "in_progress", f"{job.id.decode()}|{LATE}")])

    return way


def unknown(request: Callable[[Jobs], Request]) -> Callable[[World], Request]:
    return lambda world: request([world.new()])


def under_way(is_marked: bool) -> Callable[[World], Request]:
    """A lease whose entry stands nowhere: a worker has popped it and not yet pushed it back."""

    def way(world: World) -> Request:
        if is_marked:
            world.client.sadd(key("done"), b"away")
        return by_token()([Planted(b"away", "", f"away|{RUNNING}")])

    return way


def counts_are_right(world: World, answer: Answer) -> None:
    found = {place: answer.values[place] for place in PLACES}
    assert found == {place: len(ids) for place, ids in world.members().items()}


def page_is_in_order(world: World, answer: Answer) -> None:
    assert [row[0] for row in answer.rows] == members(world.client, "ready")
    for id, member, size, seconds, length, text in answer.rows:
        full = body(world.client, id) or b""
        assert (member, size, seconds, length) == (id, len(id), -1, len(full))
        assert full.startswith(text) and len(text) == min(20, len(full))


def all_is_shown(world: World, answer: Answer) -> None:
    id = answer.values["id"]
    assert answer.values["place"] == "ready" and id in members(world.client, "ready")
    assert answer.values["body"] == body(world.client, id)


CLOCK = {"now_ms": NOW, "timeout_s": str(TIMEOUT_S)}
EXTEND, DELETE = by_token(**CLOCK, ttr_ms=60_000), by_token(**CLOCK, force=True)

USES = {
    "counts": Use(timed(), knows_jobs=False, reads=counts_are_right),
    "page": Use(
        timed(place="ready", offset=0, limit=100, body_bytes=20), ("ready",), knows_jobs=False, reads=page_is_in_order
    ),
    "show": Use(
        lambda jobs: Request({**CLOCK, "id": jobs[0].id, "body_bytes": -1}),
        ("ready",),
        reads=all_is_shown,
        reach={"gone": lambda world: Request({**CLOCK, "id": b"nobody", "body_bytes": -1})},
    ),
    "faults": Use(timed(), knows_jobs=False),
    "enqueue": Use(fresh, reach={"exists": lambda world: fresh(world.plant("ready"))}),
    "reserve": Use(some(), chooses=True, prepare=next_to_be_popped, reach={"empty": emptied(some())}),
    "pull": Use(some(), chooses=True, prepare=next_to_be_popped, reach={"empty": emptied(some())}),
    "ack": Use(
        by_token(),
        repeats=True,  # without its entry, it marks the id as mark_done does
        reach={
            "marked": under_way(False),
            "done": under_way(True),
            "stale": stale(by_token()),
            "gone": unknown(by_token()),
        },
    ),
    "release": Use(by_token(), reach={"stale": stale(by_token()), "gone": unknown(by_token())}),
    "extend": Use(EXTEND, repeats=True, reach={"stale": stale(EXTEND), "gone": unknown(EXTEND)}),
    "delete": Use(
        DELETE,
        reach={
            "reserved": lambda world: by_token(**CLOCK)(world.plant("in_progress")),
            "stale": stale(DELETE),
            "gone": unknown(DELETE),
        },
    ),
    "reap": Use(some(), chooses=True, reach={"empty": emptied(some())}),
}

SAFE_POP = Subject(
    "safe_pop",
    SCRIPTS,
    PLACES,
    key,
    plant,
    members,
    facts,
    body,
    USES,
    is_derived=lambda key: key.startswith(f"{QUEUE}:data:"),
)
