"""The three sets of distributed-timeout-queue as the conformance suite sees them.

Jobs are planted by the raw commands of the original: SADD, and an empty lock with an expiry for an item in progress. A
set has no order and a script draws any member, so `only` makes the targets of a drawing script the only ones there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from redis import Redis

from rqtui.model import Job, Ref
from rqtui.scripts import script as scripts
from rqtui.scripts.script import Answer
from rqtui.systems.timeout_sets import TimeoutSets
from rqtui.testing.subject import Planted, Request, Subject, Use, World

NOW = 1_760_000_000_000
HOUR = 3_600_000
PLACES = ("todos", "in_progress", "done")
LAYOUT, REF = TimeoutSets({}), Ref("timeout_sets", "todos")
KEYS = LAYOUT.keys("todos")
SUSPECTS = KEYS["suspects"]
Jobs = Sequence[Planted]
Asked = Callable[[Jobs], Request]


def key(name: str) -> str:
    return KEYS[name]


def lock(item: bytes) -> str:
    return item.decode() + "-lock"


def plant(client: Redis, place: str, ids: Sequence[bytes], ripe: bool) -> list[Planted]:
    """Items as the original leaves them; ripe: without a lock, which a reaper noted some three seconds ago."""
    for n, id in enumerate(ids):
        client.sadd(place, id)
        if place == "in_progress" and ripe:
            client.zadd(SUSPECTS, {id: NOW - 3000 + n})
        elif place == "in_progress":
            client.set(lock(id), "", px=HOUR)
    return [Planted(id, place) for id in ids]


def members(client: Redis, place: str) -> list[bytes]:
    return sorted(client.smembers(place))


def facts(client: Redis, id: bytes) -> object:
    return client.get(lock(id))


def body(client: Redis, id: bytes) -> bytes | None:
    return id if any(client.sismember(place, id) for place in PLACES) else None


def only(world: World, targets: Jobs) -> None:
    """Leave nothing but the targets in their place."""
    for job in world.planted:
        if targets[0].place == job.place and job not in targets:
            world.client.srem(job.place, job.id)
    world.planted = [job for job in world.planted if job in targets or job.place != targets[0].place]


# --- how each script is asked ---------------------------------------------------------------------------------------


def items(**args: object) -> Asked:
    return lambda jobs: Request(args, [{"member": job.id} for job in jobs])


def tokens(**args: object) -> Asked:
    return lambda jobs: Request({"prefix": "", **args}, [(job.id, job.token) for job in jobs])


def some(**args: object) -> Asked:
    return lambda jobs: Request({"limit": len(jobs), **args})


def fresh(jobs: Jobs) -> Request:
    return Request({"items": "auto"}, [(job.id,) for job in jobs])


def deleted(force: bool = True) -> Asked:
    return lambda jobs: tokens(place=jobs[0].place, force=force)(jobs)


def page(jobs: Jobs) -> Request:
    args = {"now_ms": NOW, "place": "todos", "limit": 100, "body_bytes": 0, "prefix": "", "cursor": "0"}
    return Request(args, [(jobs[0].id,), (b"nobody",)])


def show(jobs: Jobs) -> Request:
    id = jobs[0].id
    args = {"head": id, "size": len(id), "tail": id[-64:], "body_bytes": -1, "prefix": ""}
    return Request({"now_ms": NOW, **args})


def reach(
    ask: Asked, place: str, prepare: Callable[[World, Planted], object] | None = None
) -> Callable[[World], Request]:
    """Ask about one more item in `place`; about one that is nowhere when that is empty."""

    def way(world: World) -> Request:
        job = world.plant(place)[0] if place else world.new()
        if prepare:
            prepare(world, job)
        return ask([job])

    return way


def somebody_else(world: World, job: Planted) -> None:
    world.client.set(lock(job.id), "1760000000000000-1 w2", px=HOUR)


def another_program(world: World, job: Planted) -> None:
    world.client.delete(lock(job.id))
    world.client.rpush(lock(job.id), "no lock")


def emptied(ask: Asked, place: str) -> Callable[[World], Request]:
    def way(world: World) -> Request:
        world.client.delete(place)
        return ask([Planted(b"")])

    return way


def text_among_integers(world: World) -> Request:
    world.client.delete(*PLACES)
    world.client.sadd("todos", 1, 2)
    return fresh([Planted(b"url1")])


def counts_are_right(world: World, answer: Answer) -> None:
    assert {place: answer.values[place] for place in PLACES} == {p: len(ids) for p, ids in world.members().items()}


def page_is_a_sample(world: World, answer: Answer) -> None:
    assert sorted(row[0] for row in answer.rows) == members(world.client, "todos")
    assert answer.values["of"] == len(answer.rows) and answer.values["cursor"] == "0"


def all_is_shown(world: World, answer: Answer) -> None:
    head = answer.values["head"]
    assert answer.values["place"] == "in_progress" and head in members(world.client, "in_progress")
    assert (answer.values["size"], answer.values["lock"]) == (len(head), b"")
    assert HOUR - 60_000 < answer.values["lock_ms"] <= HOUR


def nothing_is_found(world: World, answer: Answer) -> None:
    assert answer.rows == [] and answer.values["looked"] == sum(map(len, world.members().values()))


STALE = {"stale": reach(tokens(), "in_progress", somebody_else), "gone": reach(tokens(), "")}
SETTLED = STALE | {"wrong_type": reach(tokens(), "in_progress", another_program)}
EXTEND, LEASE = tokens(now_ms=NOW, lock_ms=1000), {"now_ms": NOW, "lock_ms": 1000, "prefix": ""}
RESERVE, PULL, REAP = some(**LEASE, worker="w1"), some(now_ms=NOW, prefix=""), some(now_ms=NOW, prefix="")

USES = {
    "enqueue": Use(
        fresh,
        reach={"exists": reach(fresh, "todos"), "done": reach(fresh, "done"), "refused": text_among_integers},
    ),
    "reserve": Use(RESERVE, chooses=True, prepare=only, reach={"empty": emptied(RESERVE, "todos")}),
    "pull": Use(PULL, chooses=True, prepare=only, reach={"empty": emptied(PULL, "todos")}),
    "ack": Use(tokens(), reach={**SETTLED, "done": reach(tokens(), "done")}),
    "release": Use(tokens(), reach=SETTLED),
    "extend": Use(
        EXTEND,
        ("in_progress",),
        repeats=True,
        reach={
            "stale": reach(EXTEND, "in_progress", somebody_else),
            "gone": reach(EXTEND, ""),
            "wrong_type": reach(EXTEND, "in_progress", another_program),
        },
    ),
    "requeue": Use(items(), reach={"wrong_place": reach(items(), "todos"), "gone": reach(items(), "")}),
    "delete": Use(
        deleted(),
        reach={
            "reserved": reach(deleted(force=False), "in_progress"),
            "stale": lambda world: deleted()([Planted(world.plant("in_progress")[0].id, "in_progress", "12345")]),
            "wrong_place": reach(tokens(place="done"), "todos"),
            "gone": reach(deleted(), ""),
            "wrong_type": reach(deleted(), "in_progress", another_program),
        },
    ),
    "purge": Use(
        lambda jobs: Request({"place": jobs[0].place, "limit": len(jobs)}),
        chooses=True,
        prepare=only,
        reach={
            "empty": emptied(some(place="done"), "done"),
            "reserved": lambda world: Request({"place": "in_progress", "limit": 1}),
        },
    ),
    "reap": Use(REAP, chooses=True, ripe=True, reach={"empty": emptied(REAP, "in_progress")}),
    "counts": Use(lambda jobs: Request({"now_ms": NOW, "prefix": ""}), knows_jobs=False, reads=counts_are_right),
    "page": Use(page, ("todos",), knows_jobs=False, reads=page_is_a_sample),
    "show": Use(show, ("in_progress",), reads=all_is_shown, reach={"gone": reach(show, "")}),
    "faults": Use(
        lambda jobs: Request({"items": "auto", "prefix": ""}), ("todos",), knows_jobs=False, reads=nothing_is_found
    ),
}

TIMEOUT_SETS = Subject(
    "timeout_sets",
    LAYOUT.scripts,
    PLACES,
    key,
    plant,
    members,
    facts,
    body,
    USES,  # type: ignore[arg-type]
    is_derived=lambda key: key.endswith("-lock"),
)


# --- for the tests that are about this layout alone -------------------------------------------------------------------


def say(client: Redis, verb: str, rows: Sequence[Mapping[str, object]] = (), **args: object) -> Answer:
    return scripts.run(client, LAYOUT.call(verb, "todos", args, rows))


def words(answer: Answer) -> list[str]:
    return [row.word for row in answer.each]


def where(client: Redis) -> dict[str, set[bytes]]:
    return {place: client.smembers(place) for place in PLACES}


def at(gap: str, act: Callable[[], object]) -> Callable[[str], None]:
    return lambda name: act() and None if name == gap else None


def put(client: Redis, *items: object) -> list[str]:
    return words(say(client, "enqueue", [{"body": str(item)} for item in items]))


def reserved(client: Redis, **args: object) -> Job:
    (job,) = LAYOUT.taken("todos", say(client, "reserve", limit=1, **args))
    return job


def settle(client: Redis, verb: str, job: Job) -> str:
    return words(say(client, verb, [{"member": job.member, "token": job.token}]))[0]


def reap(client: Redis, now_ms: int, limit: int = 100, **args: object) -> Answer:
    return say(client, "reap", limit=limit, now_ms=now_ms, **args)
