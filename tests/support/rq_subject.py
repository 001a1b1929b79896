"""The layout rq as the conformance suite sees it: jobs as RQ 3 writes them, in raw commands, in the queue `default`."""

from __future__ import annotations

import base64
import pickle
import random
import zlib
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from redis import Redis

from rqtui.scripts import script as scripts
from rqtui.scripts.script import Answer, Script
from rqtui.systems.rq import Rq
from rqtui.testing.subject import Planted, Request, Subject, Use, World

NOW, HOUR = 1_780_000_000_000, 3_600_000
NOW_S, YEAR_S = NOW // 1000, 31_536_000
QUEUE, WORKER = "default", "w1"
SCRIPTS: Mapping[str, Script] = scripts.load("rq")
LAYOUT = Rq()
KEYS = LAYOUT.keys(QUEUE)
PLACES = tuple(place.name for place in LAYOUT.places)
LISTS = ("queued", "intermediate")
STATUS = {"intermediate": "queued"}  # of a place that is not called as the status of its jobs
EXC_STRING = base64.b64encode(zlib.compress(b"Traceback: it failed"))
Jobs = Sequence[Planted]


def job_key(id: bytes | str, part: str = "") -> str:
    return f"rq:job:{id if isinstance(id, str) else id.decode()}{part}"


def at(ms: int) -> str:
    """An instant as RQ's hashes have it (rq/utils.py 3.0, utcformat)."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def data(*args: object, func: str = "tasks.add") -> bytes:
    """The call of a function, as RQ's own serializer writes it (rq/job.py 3.0)."""
    return zlib.compress(pickle.dumps((func, None, args, {}), 5))


def plant_job(client: Redis, id: bytes | str, status: str, body: bytes = b"", **more: object) -> None:
    """The hash of a job, as `Job.save` writes it; `more` are other fields of it."""
    known = {
        "data": body or data(1, 2),
        "origin": QUEUE,
        "status": status,
        "description": "tasks.add(1, 2)",
        "created_at": at(NOW - HOUR),
        "enqueued_at": at(NOW - HOUR),
        "timeout": 180,
        "started_at": "" if status in ("queued", "scheduled", "deferred") else at(NOW - HOUR // 2),
        "ended_at": at(NOW - HOUR // 4) if status in ("finished", "failed", "stopped") else "",
        "worker_name": WORKER if status == "started" else "",
        **more,
    }
    client.hset(job_key(id), mapping=known)  # type: ignore[arg-type]


def plant_started(client: Redis, id: str, deadline_s: float, execution: str = "e1", worker: str = WORKER) -> str:
    """An execution that ends then, and beats if that is still to come; what stands in the place."""
    member = f"{id}:{execution}"
    client.zadd(KEYS["started"], {member: deadline_s})
    client.zadd(f"rq:executions:{id}", {execution: deadline_s + 60})
    client.sadd(f"rq:worker:{worker}:executions", member)
    if deadline_s > NOW_S:
        beat = {"id": execution, "job_id": id, "worker_name": worker, "last_heartbeat": NOW_S}
        client.hset(f"rq:execution:{member}", mapping=beat)
        client.expire(f"rq:execution:{member}", 90)
    return member


def plant_worker(client: Redis, name: str = WORKER, born_ms: int = NOW - HOUR, current: str = "") -> None:
    """A worker of the queue that beats."""
    client.sadd("rq:workers", f"rq:worker:{name}")
    client.sadd(KEYS["workers"], f"rq:worker:{name}")
    about = {"birth": at(born_ms), "last_heartbeat": at(NOW), "queues": QUEUE, "state": "busy", "current_job": current}
    client.hset(f"rq:worker:{name}", mapping=about)


def plant(client: Redis, place: str, ids: Sequence[bytes], ripe: bool) -> list[Planted]:
    """Jobs of a place, oldest first; ripe are those that are due, late, or stale."""
    pipe, jobs, first = client.pipeline(transaction=False), [], client.dbsize()
    pipe.sadd(KEYS["queues"], KEYS["queued"])
    for n, id in enumerate(ids, first):
        name, member = id.decode(), id
        noise = random.Random(n).randbytes(6000) if n % 3 == 0 else b""
        plant_job(pipe, id, STATUS.get(place, place), data(n, noise), group_id="g")
        pipe.sadd("rq:group:g", id)
        pipe.sadd(f"rq:job::{name}:dependencies", f"parent-{name}").sadd(job_key(f"parent-{name}", ":dependents"), id)
        soon = NOW_S + n - YEAR_S if ripe else NOW_S + n + HOUR
        if place == "queued":
            pipe.rpush(KEYS[place], id)
        elif place == "intermediate":
            pipe.rpush(KEYS[place], id)
            pipe.set(f"{KEYS[place]}:first_seen:{name}", NOW_S - (120 if ripe else 1), ex=86400)
        elif place == "started":
            member = plant_started(pipe, name, soon).encode()
        else:
            since = place in ("deferred", "ready_to_enqueue", "canceled")
            pipe.zadd(
                KEYS[place], {id: NOW_S - HOUR + n if since else soon if place == "scheduled" else NOW_S + YEAR_S + n}
            )
        if place in ("failed", "finished"):
            result = (
                {"type": 2, "exc_string": EXC_STRING} if place == "failed" else {"type": 1, "return_value": "gAVLAy4="}
            )
            pipe.xadd(f"rq:results:{name}", result)
            for key in (job_key(id), f"rq:job::{name}:dependencies", f"rq:results:{name}"):
                pipe.expire(key, YEAR_S)
        jobs.append(Planted(id, place, member.decode()))
    pipe.execute()
    return jobs


def members(client: Redis, place: str) -> list[bytes]:
    """The ids of a place in its order."""
    found = client.lrange(KEYS[place], 0, -1) if place in LISTS else client.zrange(KEYS[place], 0, -1)
    return [member.partition(b":")[0] for member in found]


def facts(client: Redis, id: bytes) -> dict[str, object]:
    """All that Redis keeps of one job."""
    name, pipe = id.decode(), client.pipeline(transaction=False)
    for place in PLACES:
        if place in LISTS:
            pipe.lpos(KEYS[place], name, count=0)
        else:
            pipe.zscore(KEYS[place], id)
    pipe.hgetall(job_key(id)).ttl(job_key(id)).zscore(KEYS["started"], f"{name}:e1").xrange(f"rq:results:{name}")
    pipe.zrange(f"rq:executions:{name}", 0, -1)
    pipe.smembers(f"rq:job::{name}:dependencies").smembers(job_key(id, ":dependents"))
    *stands, fields, ttl, deadline, results, executions, waits_for, awaited_by = pipe.execute()
    found = {place: len(at) if isinstance(at, list) else at for place, at in zip(PLACES, stands, strict=True)}
    found |= {"hash": fields, "lasts": ttl > 0, "deadline": deadline, "results": results, "executions": executions}
    found |= {"waits for": waits_for, "awaited by": awaited_by}
    return {what: value for what, value in found.items() if value}


def body(client: Redis, id: bytes) -> bytes | None:
    return client.hget(job_key(id), "data")


def by_id(name: str, **args: object) -> Callable[[Jobs], Request]:
    """A request for jobs, a row for each."""
    known = {arg.name for arg in SCRIPTS[name].args}
    given = {key: value for key, value in {"prefix": "rq", "now_ms": NOW, **args}.items() if key in known}
    return lambda jobs: Request(given, [(job.id,) for job in jobs])


def by_member(name: str) -> Callable[[Jobs], Request]:
    return lambda jobs: Request({"prefix": "rq"}, [(job.id, job.token) for job in jobs])


def some(name: str, **args: object) -> Callable[[Jobs], Request]:
    """A request for so many."""
    whole = by_id(name, **args)
    return lambda jobs: Request({**whole([]).args, "limit": len(jobs)})


def put(jobs: Jobs) -> Request:
    keep = {
        "delay_ms": None,
        "due_ms": None,
        "at_front": None,
        "ttr_ms": 60_000,
        "max_attempts": 4,
        "retry_intervals": "[10, 60]",
    }
    rows = [{"id": job.id, "body": data(1), "description": "tasks.add(1)", **keep} for job in jobs]
    return Request({"prefix": "rq", "now_ms": NOW}, rows)  # type: ignore[arg-type]


Way = Callable[[World], Request]


def on(ask: Callable[[Jobs], Request], place: str, *prepares: Callable[[Redis, str], object], rows: int = 1) -> Way:
    """The request for one more job of a place, after something befell it; for one that nobody knows without a place."""

    def way(world: World) -> Request:
        job = world.plant(place)[0] if place else world.new()
        for prepare in prepares:
            prepare(world.client, job.id.decode())
        return ask([job] * rows)

    return way


def expired(client: Redis, id: str) -> None:
    client.delete(job_key(id))


def limited(client: Redis, id: str) -> None:
    client.hset(job_key(id), mapping={"rate_limit_key": "api", "rate_limit_concurrency": 1})


def held_back(client: Redis, id: str) -> None:
    """It waits for a slot of its rate limit, in no place."""
    plant_job(client, id, "rate_limited", rate_limit_key="api", rate_limit_concurrency=1)


def popped(client: Redis, id: str) -> None:
    client.lrem(KEYS["queued"], 1, id)


def deep(client: Redis, id: str) -> None:
    """In the middle of a queue that is too long for many searches."""
    others = [f"other-{n}" for n in range(2600)]
    client.rpush(KEYS["queued"], *others)
    client.lpush(KEYS["queued"], *others)


def locked(client: Redis, id: str) -> None:
    client.set(KEYS["lock"], "scheduler-1", ex=61)


def due(client: Redis, id: str) -> None:
    client.zadd(KEYS["scheduled"], {id: NOW_S - 1})


def awaited(client: Redis, id: str) -> None:
    client.sadd(job_key(id, ":dependents"), "child")
    plant_job(client, "child", "deferred")
    client.zadd(KEYS["deferred"], {"child": NOW_S})


def emptied(*places: str, ask: Callable[[Jobs], Request]) -> Way:
    def way(world: World) -> Request:
        world.client.delete(*(KEYS[place] for place in places))
        return ask([Planted(b"")])

    return way


def first(prepare: Callable[[Redis, str], object], ask: Callable[[Jobs], Request]) -> Way:
    def way(world: World) -> Request:
        prepare(world.client, "")
        return ask([Planted(b"")])

    return way


def only_awaited(world: World) -> Request:
    world.client.delete(KEYS["failed"])
    awaited(world.client, world.plant("failed")[0].id.decode())
    return Request({"prefix": "rq", "place": "failed", "limit": 10})


def heard(*names: str) -> Callable[[World, Jobs], None]:
    """Somebody listens on the channel of these workers, as a worker does."""

    def listen(world: World, jobs: Jobs) -> None:
        ear = world.client.pubsub(ignore_subscribe_messages=False)
        ear.subscribe(*(KEYS["commands"] + name for name in names))
        for _name in names:
            ear.get_message(timeout=10)
        world.ears = ear  # type: ignore[attr-defined]  # it lives as long as the world

    return listen


def told(*names: str) -> Callable[[Jobs], Request]:
    return lambda jobs: Request({"prefix": "rq"}, [(name,) for name in names])


def packed(*items: bytes) -> bytes:
    """Strings in one, each behind its length, as `records` answers them."""
    return b"".join(b"%d:%s" % (len(item), item) for item in items)


def line(client: Redis, id: bytes) -> bytes:
    """What verbs change in the hash of a job."""
    names = ("status", "enqueued_at", "started_at", "ended_at", "worker_name", "retries_left")
    return packed(*(b"" if value is None else b"=" + value for value in client.hmget(job_key(id), names)))


def restored(jobs: Jobs) -> Request:
    hash = packed(b"data", data(1), b"origin", QUEUE.encode(), b"status", b"failed")
    entry = packed(b"1780000000000-0", packed(b"type", b"2"))
    rest = packed(packed(b"child"), packed(b"parent"), packed(entry))
    return Request({"prefix": "rq"}, [(job.id, "failed", "1790000000", hash, rest, "") for job in jobs])


STATUS_THEN = packed(b"=failed", b"", b"", b"", b"", b"")


def reverted(left: str = "") -> Callable[[Jobs], Request]:
    """Back to failed, from where each job was planted; its line is that of the planter, and of a new one any."""

    def request(jobs: Jobs) -> Request:
        rows = []
        for job in jobs:
            status = STATUS.get(job.place, job.place) or "queued"
            known = packed(
                *(b"=" + text.encode() for text in (status, at(NOW - HOUR))),
                b"=" if status in ("queued", "scheduled", "deferred") else b"=" + at(NOW - HOUR // 2).encode(),
                b"=", b"=", b"",
            )  # fmt: skip
            rows.append(
                (job.id, left or job.place or "queued", known, "failed", "1790000000", STATUS_THEN, "1790000001")
            )
        return Request({"prefix": "rq"}, rows)

    return request


def all_is_recorded(world: World, answer: Answer) -> None:
    [row] = answer.each
    client, there = world.client, [job.id for job in world.planted if job.place == "failed"]
    assert row.values["place"] == "failed" and float(row.values["score"]) > NOW_S
    assert row.values["line"] in {line(client, id) for id in there}
    assert sum(body(client, id) in row.values["record"] for id in there) == 1  # type: ignore[operator]
    assert abs(int(row.values["errors"]) - client.time()[0] - YEAR_S) < 600


def counts_are_right(world: World, answer: Answer) -> None:
    assert {place: answer.values[place] for place in PLACES} == {p: len(ids) for p, ids in world.members().items()}


def page_is_in_order(world: World, answer: Answer) -> None:
    assert [row[0] for row in answer.rows] == members(world.client, "failed")
    assert [row[3] for row in answer.rows] == [len(body(world.client, row[0]) or b"") for row in answer.rows]


def all_is_shown(world: World, answer: Answer) -> None:
    assert answer.values["place"] == "failed" and answer.values["data"] == body(world.client, answer.values["id"])


def only_ours_are_found(world: World, answer: Answer) -> None:
    """What is planted has no worker and no scheduler; apart from that nothing is wrong with it."""
    assert {row[0] for row in answer.rows} <= {"no_scheduler", "abandoned", "stale_intermediate", "vanishing"}


def the_worker_is_listed(world: World, answer: Answer) -> None:
    assert [row[0] for row in answer.rows] == [WORKER.encode()]


def tallied(world: World, answer: Answer) -> None:
    assert [row[: len(PLACES)] for row in answer.rows] == [tuple(map(len, world.members().values()))]


TALLY = lambda jobs: Request(  # noqa: E731 (one of a row of requests)
    {"prefix": "rq", "now_ms": NOW}, each_keys=[[KEYS[key.name] for key in SCRIPTS["tally"].keys_each]]
)
SHOW: Callable[[Jobs], Request] = lambda jobs: Request(  # noqa: E731
    {"prefix": "rq", "now_ms": NOW, "queue": QUEUE, "id": jobs[0].id, "body_bytes": -1}
)
RECORDS = by_id("records", whole=True, most=1 << 20)
REQUEUE, PROMOTE, KILL, BUMP, DELETE = map(by_id, ("requeue", "promote", "kill", "bump", "delete"))
RESCHEDULE = by_id("reschedule", delay_ms=2 * HOUR)
REAP, DISPATCH, PURGE = some("reap", exc_string=EXC_STRING), some("dispatch"), some("purge", place="failed")
CANCEL = by_member("cancel")


def purged(jobs: Jobs) -> Request:
    return Request({"prefix": "rq", "place": jobs[0].place, "limit": len(jobs)})


USES = {
    "enqueue": Use(put, reach={"exists": on(put, "started")}),
    "requeue": Use(
        REQUEUE,
        reach={
            "wrong_place": on(REQUEUE, "scheduled"),
            "ghost": on(REQUEUE, "failed", expired),
            "limited": on(REQUEUE, "failed", limited),
            "gone": on(REQUEUE, ""),
        },
    ),
    "promote": Use(
        PROMOTE,
        reach={
            "due": on(PROMOTE, "scheduled", due, locked),
            "wrong_place": on(PROMOTE, "failed"),
            "ghost": on(PROMOTE, "deferred", expired),
            "limited": on(PROMOTE, "scheduled", limited),
            "gone": on(PROMOTE, ""),
        },
    ),
    "reschedule": Use(
        RESCHEDULE,
        repeats=True,
        reach={
            "due": on(RESCHEDULE, "scheduled", due, locked),
            "wrong_place": on(RESCHEDULE, "queued"),
            "limited": on(RESCHEDULE, "", held_back),
            "gone": on(RESCHEDULE, ""),
        },
    ),
    "kill": Use(
        KILL,
        reach={
            "wrong_place": on(KILL, "started"),
            "taken": on(KILL, "queued", popped),
            "later": on(KILL, "queued", deep, rows=50),
            "ghost": on(KILL, "deferred", expired),
            "limited": on(KILL, "queued", limited),
            "gone": on(KILL, ""),
        },
    ),
    "bump": Use(
        BUMP,
        repeats=True,
        reach={
            "wrong_place": on(BUMP, "failed"),
            "taken": on(BUMP, "queued", popped),
            "limited": on(BUMP, "", held_back),
            "later": on(BUMP, "queued", deep, rows=50),
            "gone": on(BUMP, ""),
        },
    ),
    "delete": Use(
        DELETE,
        reach={
            "reserved": on(DELETE, "started"),
            "wrong_place": on(by_id("delete", place="failed"), "queued"),
            "dependents": on(DELETE, "failed", awaited),
            "taken": on(DELETE, "queued", popped),
            "later": on(DELETE, "queued", deep, rows=50),
            "limited": on(DELETE, "failed", limited),
            "gone": on(DELETE, ""),
        },
    ),
    "purge": Use(purged, chooses=True, reach={"kept": only_awaited, "empty": emptied("failed", ask=PURGE)}),
    "cancel": Use(
        CANCEL,
        ("started",),
        prepare=heard(WORKER),
        reach={
            "unheard": on(
                CANCEL, "started", lambda client, id: client.hset(f"rq:execution:{id}:e1", "worker_name", "gone")
            ),
            "wrong_place": on(CANCEL, "failed"),
            "gone": on(CANCEL, ""),
        },
    ),
    "stop": Use(
        told(WORKER),
        knows_jobs=False,
        prepare=lambda world, jobs: (plant_worker(world.client), heard(WORKER)(world, jobs))[1],
        reach={
            "unheard": first(lambda client, _id: plant_worker(client, "deaf"), told("deaf")),
            "gone": first(lambda client, _id: None, told("nobody")),
        },
    ),
    "pause": Use(
        lambda jobs: Request(),
        knows_jobs=False,
        reach={"already": first(lambda client, _id: client.set(KEYS["suspended"], 1), lambda jobs: Request())},
    ),
    "resume": Use(
        lambda jobs: Request(),
        knows_jobs=False,
        prepare=lambda world, jobs: world.client.set(KEYS["suspended"], 1) and None,
        reach={"already": emptied("suspended", ask=lambda jobs: Request())},
    ),
    "dispatch": Use(
        DISPATCH,
        chooses=True,
        ripe=True,
        reach={"empty": emptied("scheduled", ask=DISPATCH), "scheduler": first(locked, DISPATCH)},
    ),
    "reap": Use(REAP, chooses=True, ripe=True, reach={"empty": emptied("started", "intermediate", ask=REAP)}),
    "records": Use(
        RECORDS,
        ("failed",),
        reads=all_is_recorded,
        reach={"gone": on(RECORDS, ""), "later": on(by_id("records", most=0), "failed")},
    ),
    "restore": Use(restored, reach={"exists": on(restored, "queued")}),
    "revert": Use(reverted(), reach={"changed": on(reverted("queued"), "scheduled"), "gone": on(reverted(), "")}),
    "faults": Use(lambda jobs: Request({"prefix": "rq"}), ("failed",), knows_jobs=False, reads=only_ours_are_found),
    "roster": Use(
        lambda jobs: Request({"prefix": "rq"}),
        ("failed",),
        knows_jobs=False,
        prepare=lambda world, jobs: plant_worker(world.client),
        reads=the_worker_is_listed,
    ),
    "schedules": Use(lambda jobs: Request({"prefix": "rq"}), ("failed",), knows_jobs=False),
    "counts": Use(
        lambda jobs: Request({"prefix": "rq", "now_ms": NOW}), ("failed",), knows_jobs=False, reads=counts_are_right
    ),
    "tally": Use(TALLY, ("failed",), knows_jobs=False, reads=tallied),
    "page": Use(
        lambda jobs: Request(
            {"prefix": "rq", "now_ms": NOW, "place": "failed", "offset": 0, "limit": 100, "body_bytes": 0}
        ),
        ("failed",),
        knows_jobs=False,
        reads=page_is_in_order,
    ),
    "show": Use(SHOW, ("failed",), reads=all_is_shown, reach={"gone": on(SHOW, "")}),
}


def is_derived(key: str) -> bool:
    parts = ("rq:job:", "rq:results:", "rq:execution", "rq:worker:", "rq:group:", f"{KEYS['intermediate']}:first_seen:")
    return key.startswith(parts)


ALIKE = frozenset({"deferred", "ready_to_enqueue", "finished", "canceled"})  # sorted sets, as scheduled and failed are
RQ = Subject("rq", SCRIPTS, PLACES, lambda name: KEYS[name], plant, members, facts, body, USES, is_derived, ALIKE)
