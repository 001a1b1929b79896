"""The layout celery as the conformance suite sees it: messages as Kombu 5.7 writes them, in raw commands."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable, Mapping, Sequence

from redis import Redis
from redis.client import PubSub

from rqtui.scripts import script as scripts
from rqtui.scripts.script import Answer, Script
from rqtui.systems.celery.layout import Celery
from rqtui.systems.celery.messages import written
from rqtui.testing.subject import Planted, Request, Subject, Use, World
from rqtui.text.json_fields import fields, spliced

NOW, HOUR = 1_780_000_000_000, 3_600_000
NOW_S, HOUR_S = NOW // 1000, 3600
QUEUE, SEP = "default", "\x06\x16"
SCRIPTS: Mapping[str, Script] = scripts.load("celery")
LAYOUT = Celery()
KEYS = LAYOUT.keys(QUEUE)
PLACES = ("eta", "queue", "unacked", "late")
HELD = ("eta", "unacked", "late")
STEPS = ("", f"{SEP}3", f"{SEP}6", f"{SEP}9")
READERS = frozenset(name for name, script in SCRIPTS.items() if script.read_only)
Jobs = Sequence[Planted]


def number_of(id: bytes) -> int:
    return int(id.rpartition(b"-")[2])


def message(id: bytes, queue: str = QUEUE, priority: int = 0, exchange: str = "", **headers: object) -> bytes:
    """A message as Celery 5.7 writes it; every third is long. `eta-7` has an ETA."""
    number = number_of(id) if b"-" in id else 1
    noise = random.Random(number).randbytes(3000).hex() if number % 3 == 0 else ""
    call = [[number, noise], {}, {"callbacks": None, "errbacks": None, "chain": None, "chord": None}]
    own: dict[str, object] = {"lang": "py", "task": "tasks.add", "id": id.decode(), "shadow": None, "eta": None}
    own |= {"expires": None, "group": None, "retries": 0, "timelimit": [None, None], "root_id": id.decode()}
    own |= {"argsrepr": f"({number}, …)", "kwargsrepr": "{}", "origin": "gen1@host", "stamps": {}}
    if id.startswith(b"eta"):
        own["eta"] = written(NOW + HOUR // 2 + number)
    properties = {"correlation_id": id.decode(), "reply_to": "", "delivery_mode": 2}
    delivery = {"exchange": exchange, "routing_key": queue}
    tag = {"delivery_info": delivery, "priority": priority, "body_encoding": "base64", "delivery_tag": tag_of(id)}
    told = {
        "body": base64.b64encode(json.dumps(call).encode()).decode(),
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": {**own, **headers},
        "properties": {**properties, **tag},
    }
    return json.dumps(told).encode()


def tag_of(id: bytes) -> str:
    return f"tag-{id.decode()}"


def entry(id: bytes, queue: str = QUEUE, exchange: str = "", **more: object) -> bytes:
    """What a worker writes down of a message that it takes (`QoS.append`)."""
    told = json.loads(message(id, queue, exchange=exchange, **more))  # type: ignore[arg-type]
    return json.dumps([told, exchange, queue]).encode()


def rewritten(id: bytes) -> bytes:
    """The same message with another priority."""
    own = message(id)
    return spliced(own, {"properties": spliced(fields(own)["properties"], {"priority": b"9"})})


def plant_held(client: Redis, id: bytes, taken_s: float, **more: object) -> None:
    """A message that a worker holds since then."""
    client.hset(KEYS["unacked"], tag_of(id), entry(id, **more))  # type: ignore[arg-type]
    client.zadd(KEYS["unacked_index"], {tag_of(id): taken_s})


TAKEN_S = {"eta": NOW_S - 100, "unacked": NOW_S - 1000, "late": NOW_S - 2 * HOUR_S}


def plant(client: Redis, place: str, ids: Sequence[bytes], ripe: bool) -> list[Planted]:
    """Messages of a place, oldest first."""
    bound = f"{QUEUE}{SEP}{SEP}{QUEUE}"
    client.sadd(KEYS["binding"], bound)
    client.sadd(KEYS["binding_permanent"], bound)
    for id in ids:
        if place == "queue":
            client.lpush(KEYS["queue"], message(id))
        else:
            plant_held(client, id, TAKEN_S[place] + number_of(id))
    return [Planted(id, place, "" if place == "queue" else tag_of(id)) for id in ids]


def waiting(client: Redis, queue: str = QUEUE) -> list[bytes]:
    """The messages of a queue, the next one first; what is taken out is a hole first."""
    found = [one for step in STEPS for one in client.lrange(queue + step, 0, -1)[::-1]]
    return [one for one in found if one.startswith(b"{")]


def held(client: Redis) -> list[tuple[str, float, bytes]]:
    """What workers hold: the place, since when, the message's id."""
    found = []
    for tag, score in client.zrange(KEYS["unacked_index"], 0, -1, withscores=True):
        own = client.hget(KEYS["unacked"], tag)
        if own is None:
            continue
        headers = json.loads(own)[0]["headers"]
        is_late = score * 1000 < NOW - LAYOUT.visibility_ms
        found.append(("eta" if headers["eta"] else "late" if is_late else "unacked", score, headers["id"].encode()))
    return found


def id_of(one: bytes) -> bytes:
    told = json.loads(one)["headers"]["id"]
    assert isinstance(told, str)
    return told.encode()


def members(client: Redis, place: str) -> list[bytes]:
    if place == "queue":
        return [id_of(one) for one in waiting(client)]
    return [id for where, _score, id in held(client) if where == place]


def facts(client: Redis, id: bytes) -> dict[str, object]:
    """All that Redis keeps of one message."""
    found: dict[str, object] = {}
    if queued := [one for one in waiting(client) if id_of(one) == id]:
        found["queue"] = queued
    if own := client.hget(KEYS["unacked"], tag_of(id)):
        found["held"] = (own, client.zscore(KEYS["unacked_index"], tag_of(id)))
    return found


def body(client: Redis, id: bytes) -> bytes | None:
    """The arguments of a message, wherever it stands."""
    every = [json.loads(one) for one in waiting(client)]
    every += [json.loads(one)[0] for one in client.hvals(KEYS["unacked"])]
    return next((base64.b64decode(one["body"]) for one in every if one["headers"]["id"] == id.decode()), None)


BASE = {
    "queue": QUEUE,
    "now_ms": NOW,
    "prefix": "",
    "sep": SEP,
    "steps": "0/3/6/9",
    "visibility": LAYOUT.visibility_ms // 1000,
    "speaks_for_all": True,
}


def asks(name: str, *columns: str, **args: object) -> Callable[[Jobs], Request]:
    """A request for jobs, a row for each; the place is that of the first."""
    of: Mapping[str, Callable[[Planted], object]] = {
        "id": lambda job: job.id,
        "member": lambda job: entry(job.id) if job.token.startswith("tag-") else message(job.id),
        "new": lambda job: rewritten(job.id),
        "raw": lambda job: "",
        "token": lambda job: job.token if job.token.startswith("tag-") else "",
        "step": lambda job: "0",
        "priority": lambda job: 9,
        "none": lambda job: None,
    }
    known = {arg.name for arg in SCRIPTS[name].args}

    def request(jobs: Jobs) -> Request:
        given = {**BASE, "place": jobs[0].place, **args}
        rows = [tuple(of[column](job) for column in columns) for job in jobs]
        return Request({key: value for key, value in given.items() if key in known}, rows)

    return request


Way = Callable[[World], Request]


def on(ask: Callable[[Jobs], Request], place: str, *prepares: Callable[[Redis, bytes], object], rows: int = 1) -> Way:
    """The request for one more job of a place, after something befell it; for one that nobody knows without a place."""

    def way(world: World) -> Request:
        job = world.plant(place, 1)[0] if place else world.new()
        for prepare in prepares:
            prepare(world.client, job.id)
        return ask([job] * rows)

    return way


def unsaid(client: Redis, id: bytes) -> None:
    """A message whose properties do not say where it was delivered to."""
    told = json.loads(entry(id))
    del told[0]["properties"]["delivery_info"]
    client.hset(KEYS["unacked"], tag_of(id), json.dumps(told))


def deep(client: Redis, id: bytes) -> None:
    """In the middle of a queue that is too long for many searches."""
    others = [message(b"other-%d" % n) for n in (1, 2)]
    client.rpush(KEYS["queue"], *others * 2600)
    client.lpush(KEYS["queue"], *others * 2600)


def emptied(*names: str, ask: Callable[[Jobs], Request]) -> Way:
    def way(world: World) -> Request:
        world.client.delete(*(KEYS[name] for name in names))
        return ask([Planted(b"new-1")])

    return way


def put(jobs: Jobs) -> Request:
    return Request(BASE_OF["enqueue"], [(job.id, message(job.id), None, None, None) for job in jobs])


def put_anew(jobs: Jobs) -> Request:
    return Request(BASE_OF["requeue"], [(job.id, message(job.id)) for job in jobs])


def restored(jobs: Jobs) -> Request:
    rows = [("late", str(TAKEN_S["late"] + 1), tag_of(job.id), entry(job.id)) for job in jobs]
    return Request(BASE_OF["restore"], rows)


def reverted(jobs: Jobs) -> Request:
    """To the list of priority 9, with other bytes."""
    return Request(
        BASE_OF["revert"],
        [("queue", message(job.id), "queue", str(4 << 40), rewritten(job.id)) for job in jobs],
    )


BASE_OF = {
    name: {key: value for key, value in BASE.items() if key in {arg.name for arg in script.args}}
    for name, script in SCRIPTS.items()
}


def some(name: str, **args: object) -> Callable[[Jobs], Request]:
    """A request for so many."""
    return lambda jobs: Request({**BASE_OF[name], **args, "limit": len(jobs)})


def told(name: str, *workers: str) -> Callable[[Jobs], Request]:
    return lambda jobs: Request(BASE_OF[name], [(worker,) for worker in workers])


def all_is_recorded(world: World, answer: Answer) -> None:
    [row] = answer.each
    ids = {message(job.id): job.id for job in world.planted if job.place == "queue"}
    assert row.values["place"] == "queue" and row.values["line"] in ids and not row.values["body"]
    list_of, before = divmod(int(row.values["score"]), 1 << 40)
    assert list_of == 1 and waiting(world.client)[before] == row.values["line"]


def page_is_in_order(world: World, answer: Answer) -> None:
    assert [id_of(row[0]) for row in answer.rows] == members(world.client, "queue")


def is_shown(world: World, answer: Answer) -> None:
    assert answer.values["place"] == "late" and answer.values["head"] in world.client.hvals(KEYS["unacked"])


def counts_are_right(world: World, answer: Answer) -> None:
    assert {place: answer.values[place] for place in PLACES} == {p: len(ids) for p, ids in world.members().items()}


def of_all(name: str, **args: object) -> Callable[[Jobs], Request]:
    """A request of a reader that needs no job."""
    known = {arg.name for arg in SCRIPTS[name].args}
    return lambda jobs: Request({key: value for key, value in {**BASE, **args}.items() if key in known})


PAGE = {"place": "queue", "offset": 0, "limit": 100, "body_bytes": -1}
DELETE, BUMP = asks("delete", "member", "token", "step"), asks("bump", "member", "step")
RESCHEDULE = asks("reschedule", "member", "new", "step", "none", "none", "none")
REPRIORITISE = asks("reprioritise", "member", "new", "step", "priority")
EXTEND = asks("extend", "member", "token", ttr_ms=120_000)
RELEASE, FORCED = asks("release", "member", "token"), asks("release", "member", "token", force=True)
CANCEL = asks("cancel", "id", "member", "token", "step")
RECORDS = asks("records", "member", "new", "token", "step", most=1 << 20)
REAP, PURGE = some("reap"), some("purge", place="queue")


def SHOW(jobs: Jobs) -> Request:
    return of_all("show", id=jobs[0].id, body_bytes=-1, head="", size=0, tail="", place="", offset=0)(jobs)


def heard(ask: Callable[[Jobs], Request], place: str = "") -> Way:
    """The request while somebody listens."""

    def way(world: World) -> Request:
        listener = world.client.pubsub()
        listener.psubscribe(KEYS["control"])
        listener.get_message(timeout=5)
        LISTENERS.append(listener)
        return ask(world.plant(place, 1) if place else [])

    return way


LISTENERS: list[PubSub] = []  # a listener that is let go hears no more


def deaf(world: World) -> None:
    while LISTENERS:
        hush(LISTENERS.pop())


def hush(listener: PubSub) -> None:
    """It listens no more when this returns; a connection that is merely closed is missed a moment later."""
    listener.punsubscribe()
    while listener.subscribed and listener.get_message(timeout=5):
        pass
    listener.close()


def silent(ask: Callable[[Jobs], Request], place: str = "") -> Way:
    """The request while nobody listens."""

    def way(world: World) -> Request:
        deaf(world)
        return ask(world.plant(place, 1) if place else [])

    return way


def raw_release(world: World) -> Request:
    """The request for a message that cannot be given out again."""
    [job] = world.plant("late")
    unsaid(world.client, job.id)
    rows = [(world.client.hget(KEYS["unacked"], tag_of(job.id)), tag_of(job.id))]
    return Request({**BASE_OF["release"], "force": True}, rows)


def ended(world: World) -> Request:
    """The request for a task of which nothing but its result is left."""
    world.client.set("celery-task-meta-over", b'{"status": "SUCCESS", "result": 3}')
    return SHOW([Planted(b"over")])


USES = {
    "enqueue": Use(put, repeats=True),
    "requeue": Use(put_anew, reach={"exists": on(put_anew, "unacked")}),
    "delete": Use(
        DELETE,
        reach={
            "wrong_place": on(DELETE, "unacked"),
            "later": on(DELETE, "queue", deep, rows=50),
            "gone": on(DELETE, ""),
        },
    ),
    "bump": Use(BUMP, repeats=True, reach={"later": on(BUMP, "queue", deep, rows=50), "gone": on(BUMP, "")}),
    "reschedule": Use(
        RESCHEDULE,
        reach={
            "raw": on(asks("reschedule", "member", "raw", "step", "none", "none", "none"), "queue"),
            "later": on(RESCHEDULE, "queue", deep, rows=50),
            "gone": on(RESCHEDULE, ""),
        },
    ),
    "reprioritise": Use(
        REPRIORITISE,
        reach={
            "raw": on(asks("reprioritise", "member", "raw", "step", "priority"), "queue"),
            "later": on(REPRIORITISE, "queue", deep, rows=50),
            "gone": on(REPRIORITISE, ""),
        },
    ),
    "release": Use(
        FORCED,
        reach={
            "held": on(RELEASE, "unacked"),
            "raw": raw_release,
            "gone": on(RELEASE, ""),
        },
    ),
    "extend": Use(
        EXTEND,
        ("unacked", "late", "eta"),
        repeats=True,
        reach={"gone": on(EXTEND, "")},
    ),
    "reap": Use(REAP, chooses=True, reach={"empty": emptied("unacked", "unacked_index", ask=REAP)}),
    "purge": Use(
        PURGE,
        chooses=True,
        reach={
            "empty": emptied("queue", ask=PURGE),
            "kept": lambda world: some("purge", place="eta")([Planted(b"eta-1", "eta")]),
        },
    ),
    "cancel": Use(
        CANCEL,
        ("queue",),
        reach={
            "asked": heard(CANCEL, "queue"),
            "unheard": silent(CANCEL, "unacked"),
            "later": on(CANCEL, "queue", deep, rows=50),
            "gone": on(CANCEL, ""),
        },
    ),
    "pause": Use(
        told("pause"),
        knows_jobs=False,
        reach={"paused": heard(told("pause")), "unheard": silent(told("pause"))},
    ),
    "resume": Use(
        told("resume"),
        knows_jobs=False,
        reach={"resumed": heard(told("resume")), "unheard": silent(told("resume"))},
    ),
    "stop": Use(
        told("stop", "w1@host"),
        knows_jobs=False,
        reach={"asked": heard(told("stop", "w1@host")), "unheard": silent(told("stop", "w1@host"))},
    ),
    "records": Use(
        RECORDS,
        ("queue",),
        reads=all_is_recorded,
        reach={
            "later": on(asks("records", "member", "new", "token", "step", most=0), "queue", rows=2),
            "gone": on(RECORDS, ""),
        },
    ),
    "restore": Use(restored, reach={"exists": on(restored, "late")}),
    "revert": Use(reverted, reach={"changed": on(reverted, "")}),
    "counts": Use(of_all("counts"), ("late",), knows_jobs=False, reads=counts_are_right),
    "tally": Use(lambda jobs: Request(BASE_OF["tally"], each_keys=[[KEYS["queue"]]]), ("late",), knows_jobs=False),
    "page": Use(of_all("page", **PAGE), ("queue",), knows_jobs=False, reads=page_is_in_order),
    "scan": Use(of_all("scan", **{**PAGE, "place": "late"}), ("late",), knows_jobs=False),
    "show": Use(
        SHOW,
        ("late",),
        reads=is_shown,
        reach={"gone": lambda world: SHOW([Planted(b"x")]), "ended": ended},
    ),
}


USES |= {name: Use(of_all(name), ("late",), knows_jobs=False) for name in sorted(READERS - USES.keys())}


def is_derived(key: str) -> bool:
    return key.startswith((f"{QUEUE}{SEP}", "_kombu.binding."))


CELERY = Subject(
    "celery",
    SCRIPTS,
    PLACES,
    lambda name: KEYS[name],
    plant,
    members,
    facts,
    body,
    USES,
    is_derived,
)
