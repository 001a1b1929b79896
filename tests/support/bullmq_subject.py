"""The layout bullmq as the conformance suite sees it: jobs as BullMQ 6.7 writes them, in raw commands, in `mail`."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence

from redis import Redis

from rqtui.scripts import script as scripts
from rqtui.scripts.script import Answer, Script
from rqtui.systems.bullmq import BullMQ
from rqtui.testing.subject import Planted, Request, Subject, Use, World

NOW, HOUR = 1_780_000_000_000, 3_600_000
QUEUE, P = "mail", "bull:mail:"
SCRIPTS: Mapping[str, Script] = scripts.load("bullmq")
LAYOUT = BullMQ()
KEYS = LAYOUT.keys(QUEUE)
PLACES = tuple(place.name for place in LAYOUT.places)
LISTS = ("wait", "paused", "active")
LOCK = "640bcc1f-f112-42e8-9de1-27386c9eea0c:1"
SUB_KEYS = (":logs", ":dependencies", ":processed", ":failed", ":unsuccessful")
CHANGING = (
    "delay", "priority", "finishedOn", "processedOn", "failedReason", "returnvalue", "atm", "ats", "stc", "defa",
)  # fmt: skip
Jobs = Sequence[Planted]


def job_key(id: bytes | str, part: str = "") -> str:
    return f"{P}{id if isinstance(id, str) else id.decode()}{part}"


def plant_queue(client: Redis, version: str = "bullmq:6.7.0", **fields: object) -> None:
    """What a Queue of that version writes as it connects."""
    client.hset(KEYS["meta"], mapping={"opts.maxLenEvents": 10_000, "version": version, **fields})  # type: ignore[arg-type]


def plant_job(client: Redis, id: bytes | str, place: str, **more: object) -> None:
    """The hash of a job, and its id in a place (or in none): behind those that are there."""
    fields = {
        "name": "send",
        "data": json.dumps({"to": "a@b.c"}),
        "opts": '{"attempts":3}',
        "timestamp": NOW - HOUR,
        "delay": HOUR if place == "delayed" else 0,
        "priority": 5 if place == "prioritized" else 0,
    }
    if place in ("active", "completed", "failed"):
        fields |= {"processedOn": NOW - HOUR // 2, "ats": 1}
    if place in ("completed", "failed"):
        fields |= {"finishedOn": NOW - HOUR // 4, "atm": 1}
        fields |= (
            {"returnvalue": '{"ok":1}'} if place == "completed" else {"failedReason": "boom", "stacktrace": '["boom"]'}
        )
    client.hset(job_key(id), mapping={**fields, **more})  # type: ignore[arg-type]
    if place:
        put_into(client, place, id)


def put_into(client: Redis, place: str, id: bytes | str, score: float | None = None) -> None:
    """The id alone, as BullMQ pushes it."""
    if place in LISTS:
        client.lpush(KEYS[place], id)
    else:
        scores = {"delayed": (NOW + HOUR) * 4096, "prioritized": 5 * 2**32}
        client.zadd(KEYS[place], {id: scores.get(place, NOW - HOUR // 4) if score is None else score})


def plant(client: Redis, place: str, ids: Sequence[bytes], ripe: bool) -> list[Planted]:
    """Jobs of a place, oldest first; ripe are those that are due, and active ones without a lock."""
    pipe, first = client.pipeline(transaction=False), client.dbsize()
    plant_queue(pipe)
    for n, id in enumerate(ids, first):
        noise = random.Random(n).randbytes(3000).hex() if n % 3 == 0 else ""
        plant_job(pipe, id, "", data=json.dumps({"n": n, "noise": noise}), **_ended(place))
        pipe.rpush(job_key(id, ":logs"), f"log of {n}")
        if place == "delayed":
            put_into(pipe, place, id, (NOW - HOUR + n if ripe else NOW + HOUR + n) * 4096)
        elif place == "prioritized":
            put_into(pipe, place, id, 5 * 2**32 + n)
        else:
            put_into(pipe, place, id, NOW - HOUR + n)
        if place == "active" and not ripe:
            pipe.set(job_key(id, ":lock"), LOCK, px=30_000)
        if place == "active":
            pipe.sadd(KEYS["stalled"], id)
    pipe.execute()
    return [Planted(id, place) for id in ids]


def _ended(place: str) -> dict[str, object]:
    fields: dict[str, object] = (
        {"delay": HOUR} if place == "delayed" else {"priority": 5} if place == "prioritized" else {}
    )
    if place in ("completed", "failed"):
        fields |= {"processedOn": NOW - HOUR, "finishedOn": NOW - 1, "atm": 1, "ats": 1}
        fields |= {"returnvalue": "1"} if place == "completed" else {"failedReason": "boom"}
    return fields


def members(client: Redis, place: str) -> list[bytes]:
    """The ids of a place, the next or the oldest first."""
    return client.lrange(KEYS[place], 0, -1)[::-1] if place in LISTS else client.zrange(KEYS[place], 0, -1)


def facts(client: Redis, id: bytes) -> dict[str, object]:
    """All that Redis keeps of one job."""
    name, pipe = id.decode(), client.pipeline(transaction=False)
    for place in PLACES:
        if place in LISTS:
            pipe.lpos(KEYS[place], name, count=0)
        else:
            pipe.zscore(KEYS[place], id)
    pipe.hgetall(job_key(id)).get(job_key(id, ":lock")).lrange(job_key(id, ":logs"), 0, -1)
    pipe.smembers(job_key(id, ":dependencies")).sismember(KEYS["stalled"], id)
    *stands, fields, lock, logs, children, is_stalled = pipe.execute()
    found = {place: len(at) if isinstance(at, list) else at for place, at in zip(PLACES, stands, strict=True)}
    found |= {"hash": fields, "lock": lock, "logs": logs, "children": children, "stalled": is_stalled}
    return {what: value for what, value in found.items() if value}


def body(client: Redis, id: bytes) -> bytes | None:
    return client.hget(job_key(id), "data")


def by_id(name: str, **args: object) -> Callable[[Jobs], Request]:
    """A request for jobs, a row for each."""
    known = {arg.name for arg in SCRIPTS[name].args}
    given = {key: value for key, value in {"p": P, "now_ms": NOW, **args}.items() if key in known}
    return lambda jobs: Request(given, [(job.id,) for job in jobs])


def whole(name: str, **args: object) -> Callable[[Jobs], Request]:
    """A request about the queue."""
    known = {arg.name for arg in SCRIPTS[name].args}
    given = {key: value for key, value in {"p": P, "now_ms": NOW, **args}.items() if key in known}
    return lambda jobs: Request(given)


def some(name: str, **args: object) -> Callable[[Jobs], Request]:
    """A request for so many."""
    return lambda jobs: Request({**whole(name, **args)([]).args, "limit": len(jobs)})


def put(jobs: Jobs) -> Request:
    rest = {"name": "send", "delay_ms": None, "priority": None, "max_attempts": 3, "opts": '{"kl":5}'}
    return Request({"p": P, "now_ms": NOW}, [{"id": job.id, "body": b'{"to": "a@b.c"}', **rest} for job in jobs])  # type: ignore[arg-type]


Way = Callable[[World], Request]
Prepare = Callable[[Redis, str], object]


def on(ask: Callable[[Jobs], Request], place: str, *prepares: Prepare, rows: int = 1) -> Way:
    """The request for one more job of a place, after something befell it; for one that nobody knows without a place."""

    def way(world: World) -> Request:
        job = world.plant(place, ripe=True)[0] if place else world.new()
        for prepare in prepares:
            prepare(world.client, job.id.decode())
        return ask([job] * rows)

    return way


def first(prepare: Prepare, ask: Callable[[Jobs], Request]) -> Way:
    def way(world: World) -> Request:
        prepare(world.client, "")
        return ask([])

    return way


def emptied(place: str, ask: Callable[[Jobs], Request]) -> Way:
    def way(world: World) -> Request:
        world.client.delete(KEYS[place])
        return ask([Planted(b"")])

    return way


def expired(client: Redis, id: str) -> None:
    client.delete(job_key(id))


def locked(client: Redis, id: str) -> None:
    client.set(job_key(id, ":lock"), LOCK, px=30_000)


def deep(client: Redis, id: str) -> None:
    """In the middle of a queue that is too long for many searches."""
    others = [f"other-{n}" for n in range(2600)]
    client.rpush(KEYS["wait"], *others)
    client.lpush(KEYS["wait"], *others)


def plant_parent(client: Redis, child: str, id: str = "parent") -> None:
    """A parent in `waiting-children` that waits for this child, which is of the queue `mail`."""
    plant_job(client, id, "waiting_children")
    client.sadd(job_key(id, ":dependencies"), job_key(child))
    link = json.dumps({"id": id, "queueKey": P[:-1]})
    client.hset(job_key(child), mapping={"parentKey": job_key(id), "parent": link})


def plant_child(client: Redis, id: str) -> None:
    """A child that has still to run."""
    client.sadd(job_key(id, ":dependencies"), job_key("child"))


def plant_scheduler(client: Redis, _id: str = "", scheduler: str = "tick", next_ms: int = NOW + 5 * HOUR) -> str:
    """A scheduler with its next job; the id of that."""
    id = f"repeat:{scheduler}:{next_ms}"
    client.zadd(KEYS["repeat"], {scheduler: next_ms})
    client.hset(f"{KEYS['repeat']}:{scheduler}", mapping={"name": "tick", "every": 60_000, "ic": 1})
    plant_job(client, id, "", rjk=scheduler)
    put_into(client, "delayed", id, next_ms * 4096)
    return id


def scheduled(name: str, **args: object) -> Way:
    """A request for the next job of a scheduler."""
    return lambda world: by_id(name, **args)([Planted(plant_scheduler(world.client).encode(), "delayed")])


def without(*places: str) -> Callable[[World, Jobs], None]:
    return lambda world, jobs: world.client.delete(*(KEYS[place] for place in places)) and None


def packed(*items: bytes) -> bytes:
    """Strings in one, each behind its length, as `records` answers them."""
    return b"".join(b"%d:%s" % (len(item), item) for item in items)


def line(client: Redis, id: bytes | str) -> bytes:
    """What verbs change in the hash of a job."""
    return packed(*(b"" if value is None else b"=" + value for value in client.hmget(job_key(id), CHANGING)))


REST = packed(packed(b"line"), b"", b"", b"", b"", b"")


def restored(*fields: bytes, errors: bytes = b"") -> Callable[[Jobs], Request]:
    hash = packed(b"name", b"send", b"data", b"{}", b"failedReason", b"boom", *fields)
    return lambda jobs: Request({"p": P}, [(job.id, "failed", "1780000000000", hash, REST, errors) for job in jobs])


FIELDS_THEN = packed(b"=0", b"=0", b"=1780000000000", b"", b"=boom", b"", b"", b"", b"", b"")


def reverted(left: str = "", place: str = "failed", errors: bytes = b"") -> Callable[[Jobs], Request]:
    """Back to failed, from where each job was planted with the fields of that place."""

    def request(jobs: Jobs) -> Request:
        rows = []
        for job in jobs:
            fields = {"delay": 0, "priority": 0, **_ended(job.place)}
            known = packed(*(f"={fields[name]}".encode() if name in fields else b"" for name in CHANGING))
            rows.append((job.id, left or job.place or "wait", known, place, "1780000000000", FIELDS_THEN, errors))
        return Request({"p": P}, rows)

    return request


def all_is_recorded(world: World, answer: Answer) -> None:
    [row] = answer.each
    client, there = world.client, [job.id for job in world.planted if job.place == "failed"]
    assert row.values["place"] == "failed" and float(row.values["score"]) <= NOW
    assert row.values["line"] in {line(client, id) for id in there}
    assert sum(body(client, id) in row.values["record"] for id in there) == 1  # type: ignore[operator]
    assert b"log of" in row.values["body"] and row.values["errors"] == b""


def counts_are_right(world: World, answer: Answer) -> None:
    assert {place: answer.values[place] for place in PLACES} == {p: len(ids) for p, ids in world.members().items()}


def page_is_in_order(world: World, answer: Answer) -> None:
    assert [row[0] for row in answer.rows] == members(world.client, "wait")
    assert [row[3] for row in answer.rows] == [len(body(world.client, row[0]) or b"") for row in answer.rows]


def all_is_shown(world: World, answer: Answer) -> None:
    assert answer.values["place"] == "failed" and answer.values["data"] == body(world.client, answer.values["id"])


def tallied(world: World, answer: Answer) -> None:
    assert [row[: len(PLACES)] for row in answer.rows] == [tuple(map(len, world.members().values()))]


TALLY = lambda jobs: Request(  # noqa: E731 (one of a row of requests)
    {"now_ms": NOW}, each_keys=[[KEYS[key.name] for key in SCRIPTS["tally"].keys_each]]
)
SHOW: Callable[[Jobs], Request] = lambda jobs: Request(  # noqa: E731
    {"p": P, "now_ms": NOW, "id": jobs[0].id, "body_bytes": -1}
)
SCHEDULES: Callable[[Jobs], Request] = lambda jobs: Request({"now_ms": NOW}, each_keys=[[KEYS["repeat"]]])  # noqa: E731
RECORDS = by_id("records", whole=True, most=1 << 20)
REQUEUE, PROMOTE, KILL, BUMP, DELETE, RELEASE = map(by_id, ("requeue", "promote", "kill", "bump", "delete", "release"))
RESCHEDULE, REPRIORITISE = by_id("reschedule", delay_ms=2 * HOUR), by_id("reprioritise", priority=3)
REAP, PURGE = some("reap"), some("purge", place="failed")


def purged(jobs: Jobs) -> Request:
    return Request({"p": P, "place": jobs[0].place, "limit": len(jobs)})


def only_children(world: World) -> Request:
    world.client.delete(KEYS["failed"])
    plant_parent(world.client, world.plant("failed")[0].id.decode())
    return purged([Planted(b"", "failed")])


def lost(name: str, ask: Callable[[Jobs], Request], source: str) -> dict[str, Way]:
    """What every verb on jobs answers for those that it cannot act on."""
    return {"ghost": on(ask, source, expired), "later": on(ask, "wait", deep, rows=50), "gone": on(ask, "")}


USES = {
    "enqueue": Use(put, reach={"exists": on(put, "active")}),
    "requeue": Use(REQUEUE, reach={"wrong_place": on(REQUEUE, "delayed"), **lost("requeue", REQUEUE, "failed")}),
    "promote": Use(PROMOTE, reach={"wrong_place": on(PROMOTE, "failed"), **lost("promote", PROMOTE, "delayed")}),
    "reschedule": Use(
        RESCHEDULE,
        repeats=True,
        reach={"wrong_place": on(RESCHEDULE, "wait"), **lost("reschedule", RESCHEDULE, "delayed")},
    ),
    "reprioritise": Use(
        REPRIORITISE,
        repeats=True,
        reach={"wrong_place": on(REPRIORITISE, "failed"), **lost("reprioritise", REPRIORITISE, "prioritized")},
    ),
    "bump": Use(
        BUMP,
        repeats=True,
        reach={"wrong_place": on(BUMP, "failed"), **lost("bump", BUMP, "paused")},
    ),
    "kill": Use(
        KILL,
        reach={
            "child": on(KILL, "wait", plant_parent),
            "scheduler": scheduled("kill"),
            "wrong_place": on(KILL, "active"),
            **lost("kill", KILL, "delayed"),
        },
    ),
    "delete": Use(
        DELETE,
        ripe=True,
        reach={
            "reserved": on(DELETE, "active", locked),
            "wrong_place": on(by_id("delete", place="failed"), "wait"),
            "scheduler": scheduled("delete"),
            "children": on(DELETE, "waiting_children", plant_child),
            "child": on(by_id("delete", sparing=True), "wait", plant_parent),
            "later": on(DELETE, "wait", deep, rows=50),
            "gone": on(DELETE, ""),
        },
    ),
    "purge": Use(purged, chooses=True, reach={"kept": only_children, "empty": emptied("failed", PURGE)}),
    "release": Use(
        RELEASE,
        ripe=True,
        reach={
            "reserved": on(RELEASE, "active", locked),
            "wrong_place": on(RELEASE, "wait"),
            **lost("release", RELEASE, "active"),
        },
    ),
    "reap": Use(REAP, chooses=True, ripe=True, reach={"empty": emptied("active", REAP)}),
    "pause": Use(
        whole("pause"),
        knows_jobs=False,
        reach={"already": first(lambda client, _id: client.hset(KEYS["meta"], "paused", 1), whole("pause"))},
    ),
    "resume": Use(
        whole("resume"),
        knows_jobs=False,
        prepare=lambda world, jobs: (
            world.client.delete(KEYS["paused"]),
            world.client.hset(KEYS["meta"], "paused", 1),
            None,
        )[2],
        reach={"already": first(lambda client, _id: client.hdel(KEYS["meta"], "paused"), whole("resume"))},
    ),
    "limit": Use(whole("limit", concurrency=5, max=10, duration_ms=1000), knows_jobs=False),
    "unschedule": Use(
        whole("unschedule", scheduler="tick"),
        knows_jobs=False,
        prepare=lambda world, jobs: (
            world.client.delete(job_key(id := plant_scheduler(world.client)))
            and world.client.zrem(KEYS["delayed"], id)
            and None
        ),  # its next job is no neighbour
        reach={"gone": emptied("repeat", whole("unschedule", scheduler="tick"))},
    ),
    "records": Use(
        RECORDS,
        ("failed",),
        reads=all_is_recorded,
        reach={"gone": on(RECORDS, ""), "later": on(by_id("records", most=0), "failed")},
    ),
    "restore": Use(
        restored(),
        reach={
            "exists": on(restored(), "wait"),
            "flow": on(restored(b"parentKey", b"bull:mail:parent"), ""),
            "taken": on(
                restored(errors=packed(b"once", b"")), "", lambda client, _id: client.set(f"{P}de:once", "another")
            ),
        },
    ),
    "revert": Use(
        reverted(),
        reach={
            "changed": on(reverted("wait"), "delayed"),
            "taken": on(
                reverted(errors=packed(b"once", b"")), "wait", lambda client, _id: client.set(f"{P}de:once", "another")
            ),
            "flow": on(reverted(), "wait", plant_parent),
            "gone": on(reverted(), ""),
        },
    ),
    "faults": Use(whole("faults"), ("failed",), knows_jobs=False),
    "roster": Use(whole("roster"), ("failed",), knows_jobs=False),
    "schedules": Use(SCHEDULES, ("failed",), knows_jobs=False),
    "counts": Use(whole("counts"), ("failed",), knows_jobs=False, reads=counts_are_right),
    "tally": Use(TALLY, ("failed",), knows_jobs=False, reads=tallied),
    "page": Use(
        whole("page", place="wait", offset=0, limit=100, body_bytes=0),
        ("wait",),
        knows_jobs=False,
        reads=page_is_in_order,
    ),
    "show": Use(SHOW, ("failed",), reads=all_is_shown, reach={"gone": on(SHOW, "")}),
}


def is_derived(key: str) -> bool:
    return key.startswith(P) and key.removeprefix(P) not in {name.removeprefix(P) for name in KEYS.values()}


ALIKE = frozenset({"waiting_children", "paused", "completed"})  # of a type and with verbs as others
BULLMQ = Subject(
    "bullmq", SCRIPTS, PLACES, lambda name: KEYS[name], plant, members, facts, body, USES, is_derived, ALIKE
)
