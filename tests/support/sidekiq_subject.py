"""The layout sidekiq as the conformance suite sees it: jobs as Sidekiq 6.4 writes them, in raw commands."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence

from redis import Redis

from rqtui.scripts import script as scripts
from rqtui.scripts.script import Answer, Script
from rqtui.systems.sidekiq import Sidekiq
from rqtui.testing.subject import Planted, Request, Subject, Use, World
from rqtui.text.json_fields import spliced

NOW, HOUR = 1_780_000_000_000, 3_600_000
NOW_S, HOUR_S = NOW // 1000, 3600
QUEUE = "default"
SCRIPTS: Mapping[str, Script] = scripts.load("sidekiq")
LAYOUT = Sidekiq()
KEYS = LAYOUT.keys(QUEUE)
PLACES = ("schedule", "retry", "queue", "work", "dead")
ZSETS = ("schedule", "retry", "dead")
READERS = frozenset(name for name, script in SCRIPTS.items() if script.read_only)
Jobs = Sequence[Planted]


def number_of(id: bytes) -> int:
    return int(id.rpartition(b"-")[2])


def member(id: bytes, queue: str = QUEUE, **more: object) -> bytes:
    """A job as Ruby writes it; every third is long. `schedule-7` stands in `schedule`, and `dead-8` has failed."""
    number = number_of(id) if b"-" in id else 1
    noise = random.Random(number).randbytes(3000).hex() if number % 3 == 0 else ""
    job: dict[str, object] = {"class": "HardJob", "args": [number, noise], "retry": True, "queue": queue}
    job |= {"jid": id.decode(), "created_at": NOW_S - 7200.25, "enqueued_at": NOW_S - 3600.5}
    if id.startswith((b"retry", b"dead")):
        job |= {"error_message": "boom", "error_class": "RuntimeError", "failed_at": NOW_S - 60.5, "retry_count": 3}
    return json.dumps({**job, **more}, separators=(",", ":")).encode()


def rewritten(id: bytes) -> bytes:
    """The same job, enqueued now."""
    return spliced(member(id), {"enqueued_at": b"%d.125" % NOW_S})


def identity(id: bytes) -> str:
    return f"host:{number_of(id)}:{id.decode()}"


def plant_process(client: Redis, name: str, beat_s: float = NOW_S - 1, **info: object) -> None:
    """A process that gave its last sign of life then."""
    client.sadd(KEYS["processes"], name)
    told = json.dumps({"queues": [QUEUE], "identity": name, **info})
    client.hset(name, mapping={"info": told, "beat": beat_s, "busy": 1, "quiet": "false", "rss": 1000, "rtt_us": 90})


def plant_work(
    client: Redis, name: str, payload: bytes, run_at: int = NOW_S, tid: str = "t1", key: str = "work"
) -> None:
    """A job that a process runs (lib/sidekiq/processor.rb)."""
    entry = {"queue": QUEUE, "payload": payload.decode("latin-1"), "run_at": run_at}
    client.hset(f"{name}:{key}", tid, json.dumps(entry).encode())


def plant(client: Redis, place: str, ids: Sequence[bytes], ripe: bool) -> list[Planted]:
    """Jobs of a place, oldest first; ripe are those whose process is dead."""
    client.sadd(KEYS["queues"], QUEUE)
    for id in ids:
        number, job = number_of(id), member(id)
        if place == "queue":
            client.lpush(KEYS[place], job)
        elif place == "work":
            plant_process(client, identity(id), NOW_S - 100 if ripe else NOW_S - 1)
            plant_work(client, identity(id), job, NOW_S + number - (HOUR_S if ripe else 0))
        else:
            client.zadd(KEYS[place], {job: NOW_S + number + (-HOUR_S if place == "dead" else HOUR_S)})
    return [Planted(id, place, f"{identity(id)} t1") for id in ids]


def held(client: Redis) -> list[tuple[int, str, bytes]]:
    """What all processes run: when it began, the process, the job."""
    found = []
    for name in client.smembers(KEYS["processes"]):
        for key in (b":work", b":workers"):
            for entry in client.hvals(name + key):
                told = json.loads(entry)
                found.append((told["run_at"], name.decode(), told["payload"].encode("latin-1")))
    return sorted(found)


def stand(client: Redis, place: str) -> list[bytes]:
    """The jobs of a place in its order."""
    if place == "work":
        return [payload for _at, _name, payload in held(client)]
    found = client.lrange(KEYS[place], 0, -1)[::-1] if place == "queue" else client.zrange(KEYS[place], 0, -1)
    return [job for job in found if job]  # what is bumped is emptied first


def members(client: Redis, place: str) -> list[bytes]:
    return [json.loads(job)["jid"].encode() for job in stand(client, place)]


def facts(client: Redis, id: bytes) -> dict[str, object]:
    """All that Redis keeps of one job."""
    found: dict[str, object] = {}
    for place in PLACES:
        jobs = [job for job in stand(client, place) if json.loads(job)["jid"] == id.decode()]
        scores = [client.zscore(KEYS[place], job) for job in jobs] if place in ZSETS else []
        found |= {place: (jobs, scores)} if jobs else {}
    for key in (identity(id), f"{identity(id)}:work", f"it-{id.decode()}"):
        found |= {key: client.hgetall(key)} if b"-" in id and client.exists(key) else {}
    return found


def body(client: Redis, id: bytes) -> bytes | None:
    """The arguments of a job, wherever it stands."""
    for place in PLACES:
        for job in stand(client, place):
            told = json.loads(job)
            if told["jid"] == id.decode():
                return json.dumps(told["args"]).encode()
    return None


def asks(name: str, *columns: str, **args: object) -> Callable[[Jobs], Request]:
    """A request for jobs, a row for each; the place is that of the first."""
    of: Mapping[str, Callable[[Planted], object]] = {
        "member": lambda job: member(job.id),
        "new": lambda job: rewritten(job.id),
        "token": lambda job: job.token,
        "worker": lambda job: identity(job.id),
        "jid": lambda job: job.id,
    }
    known = {arg.name for arg in SCRIPTS[name].args}

    def request(jobs: Jobs) -> Request:
        given = {"queue": QUEUE, "now_ms": NOW, "place": jobs[0].place, **args}
        rows = [tuple(of[column](job) for column in columns) for job in jobs]
        return Request({key: value for key, value in given.items() if key in known}, rows)

    return request


Way = Callable[[World], Request]


def on(
    ask: Callable[[Jobs], Request], place: str, *prepares: Callable[[Redis, bytes], object], **how: int | bool
) -> Way:
    """The request for one more job of a place, after something befell it; for one that nobody knows without a place."""

    def way(world: World) -> Request:
        job = world.plant(place, 1, bool(how.get("ripe")))[0] if place else world.new()
        for prepare in prepares:
            prepare(world.client, job.id)
        return ask([job] * int(how.get("rows", 1)))

    return way


def elsewhere(name: str, place: str, *columns: str) -> Way:
    """The request for a job as if it stood in a place that the verb is not for."""
    return on(asks(name, *columns, place=place), "queue")


def dead_too(client: Redis, id: bytes) -> None:
    client.zadd(KEYS["dead"], {member(id): NOW_S})


def queued_again(client: Redis, id: bytes) -> None:
    client.rpush(KEYS["queue"], member(id))


def iterates(client: Redis, id: bytes) -> None:
    client.hset(f"it-{id.decode()}", mapping={"ex": 1, "c": "7", "rt": 1.5})


def cancelled(client: Redis, id: bytes) -> None:
    client.hset(f"it-{id.decode()}", "cancelled", NOW_S)


def deep(client: Redis, id: bytes) -> None:
    """In the middle of a queue that is too long for many searches."""
    others = [member(b"other-%d" % n) for n in range(1, 3)]
    client.rpush(KEYS["queue"], *others * 2600)
    client.lpush(KEYS["queue"], *others * 2600)


def emptied(*names: str, ask: Callable[[Jobs], Request]) -> Way:
    def way(world: World) -> Request:
        world.client.delete(*(KEYS[name] for name in names))
        return ask([Planted(b"new-1")])

    return way


def put(jobs: Jobs) -> Request:
    return Request({"queue": QUEUE, "now_ms": NOW}, [(job.id, member(job.id), None, None) for job in jobs])


def restored(jobs: Jobs) -> Request:
    return Request({"queue": QUEUE}, [("dead", "1780000000.5", member(job.id)) for job in jobs])


def reverted(jobs: Jobs) -> Request:
    """From where each job was planted to the dead, with other bytes; a dead one to the retries."""
    rows = [
        (
            job.place or "dead",
            member(job.id),
            "retry" if job.place == "dead" else "dead",
            "1780000000.5",
            rewritten(job.id),
        )
        for job in jobs
    ]
    return Request({"queue": QUEUE}, rows)


def some(name: str, **args: object) -> Callable[[Jobs], Request]:
    """A request for so many."""
    whole = asks(name, **args)
    return lambda jobs: Request({**whole([Planted(b"", "queue")]).args, "limit": len(jobs)})


def told(name: str, worker: str) -> Callable[[Jobs], Request]:
    return lambda jobs: Request({}, [(worker,)])


def all_is_recorded(world: World, answer: Answer) -> None:
    [row] = answer.each
    ids = {member(job.id): job.id for job in world.planted if job.place == "dead"}
    assert row.values["place"] == "dead" and row.values["line"] in ids and not row.values["body"]
    assert float(row.values["score"]) == world.client.zscore(KEYS["dead"], row.values["line"])


def page_is_in_order(world: World, answer: Answer) -> None:
    assert [json.loads(row[0])["jid"].encode() for row in answer.rows] == members(world.client, "dead")


def is_shown(world: World, answer: Answer) -> None:
    assert answer.values["place"] == "dead" and answer.values["head"] in stand(world.client, "dead")


def counts_are_right(world: World, answer: Answer) -> None:
    assert {place: answer.values[place] for place in PLACES} == {p: len(ids) for p, ids in world.members().items()}


def of_all(name: str, **args: object) -> Callable[[Jobs], Request]:
    """A request of a reader that needs no job."""
    known = {arg.name for arg in SCRIPTS[name].args}
    given = {"queue": QUEUE, "prefix": "", "now_ms": NOW, **args}
    return lambda jobs: Request({key: value for key, value in given.items() if key in known})


PAGE = {"place": "dead", "offset": 0, "limit": 100, "body_bytes": -1}
REQUEUE, PROMOTE = asks("requeue", "member", "new"), asks("promote", "member", "new")
KILL, DELETE, BUMP = asks("kill", "member"), asks("delete", "member"), asks("bump", "member")
RESCHEDULE = asks("reschedule", "member", delay_ms=2 * HOUR)
RELEASE, LOST = (asks("release", "member", "token", "worker", place=place) for place in ("work", "lost"))
CANCEL = asks("cancel", "jid", "member", "token", "worker")
REAP, PURGE = some("reap"), some("purge", place="queue")


def SHOW(jobs: Jobs) -> Request:
    place: dict[str, object] = {"place": "dead", "offset": 0}
    found = of_all("show", id=jobs[0].id, body_bytes=-1, head="", size=0, tail="", **place)
    return found(jobs)


def raw(name: str) -> Callable[[Jobs], Request]:
    """The request for jobs that could not be rewritten."""
    whole = asks(name, "member")
    return lambda jobs: Request(whole(jobs).args, [(*row, "") for row in whole(jobs).rows])


USES = {
    "enqueue": Use(put, repeats=True),
    "requeue": Use(REQUEUE, reach={"raw": on(raw("requeue"), "dead"), "gone": on(REQUEUE, "retry")}),
    "promote": Use(
        PROMOTE,
        reach={
            "raw": on(raw("promote"), "retry"),
            "wrong_place": elsewhere("promote", "dead", "member", "new"),
            "gone": on(PROMOTE, ""),
        },
    ),
    "reschedule": Use(
        RESCHEDULE,
        repeats=True,
        reach={"wrong_place": elsewhere("reschedule", "dead", "member"), "gone": on(RESCHEDULE, "")},
    ),
    "kill": Use(
        KILL,
        reach={
            "exists": on(KILL, "retry", dead_too),
            "later": on(KILL, "queue", deep, rows=50),
            "wrong_place": elsewhere("kill", "work", "member"),
            "gone": on(KILL, ""),
        },
    ),
    "delete": Use(
        DELETE,
        reach={
            "later": on(DELETE, "queue", deep, rows=50),
            "wrong_place": elsewhere("delete", "work", "member"),
            "gone": on(DELETE, ""),
        },
    ),
    "bump": Use(BUMP, repeats=True, reach={"later": on(BUMP, "queue", deep, rows=50), "gone": on(BUMP, "")}),
    "purge": Use(PURGE, chooses=True, reach={"empty": emptied("queue", ask=PURGE)}),
    "reap": Use(REAP, chooses=True, ripe=True, reach={"empty": emptied("processes", ask=REAP)}),
    "release": Use(
        RELEASE,
        ("work",),
        ripe=True,
        reach={
            "beats": on(RELEASE, "work"),
            "queued": on(RELEASE, "work", queued_again, ripe=True),
            "gone": on(RELEASE, ""),
        },
    ),
    "quiet": Use(
        told("quiet", "host:1:x"),
        knows_jobs=False,
        prepare=lambda world, jobs: plant_process(world.client, "host:1:x"),
        reach={
            "embedded": lambda world: (
                plant_process(world.client, "host:2:x", embedded=True),
                told("", "host:2:x")([]),
            )[1],
            "gone": lambda world: told("quiet", "host:3:x")([]),
        },
    ),
    "cancel": Use(
        CANCEL,
        ("work",),
        prepare=lambda world, jobs: [iterates(world.client, job.id) for job in jobs] and None,
        reach={
            "already": on(CANCEL, "work", iterates, cancelled),
            "not_iterable": on(CANCEL, "work"),
            "gone": on(CANCEL, ""),
        },
    ),
    "records": Use(
        asks("records", "member", "new", most=1 << 20),
        ("dead",),
        reads=all_is_recorded,
        reach={
            "later": on(asks("records", "member", "new", most=0), "dead", rows=2),
            "gone": on(asks("records", "member", "new", most=1), ""),
        },
    ),
    "restore": Use(restored, reach={"exists": on(restored, "dead", dead_too)}),
    "revert": Use(reverted, reach={"changed": on(reverted, "")}),
    "counts": Use(of_all("counts"), ("dead",), knows_jobs=False, reads=counts_are_right),
    "tally": Use(
        lambda jobs: Request(of_all("tally")([]).args, each_keys=[[KEYS["queue"]]]), ("dead",), knows_jobs=False
    ),
    "page": Use(of_all("page", **PAGE), ("dead",), knows_jobs=False, reads=page_is_in_order),
    "scan": Use(of_all("scan", **PAGE), ("dead",), knows_jobs=False, reads=page_is_in_order),
    "show": Use(SHOW, ("dead",), reads=is_shown, reach={"gone": lambda world: SHOW([Planted(b"x")])}),
    "stands": Use(
        lambda jobs: Request(of_all("stands")([]).args, [(job.id, member(job.id)) for job in jobs]),
        ("dead",),
        knows_jobs=False,
    ),
    **{
        name: Use(of_all(name), ("dead",), knows_jobs=False)
        for name in ("faults", "kinds", "roster", "schedules", "spread")
    },
}
USES["stop"] = USES["quiet"]
USES |= {name: Use(of_all(name), ("dead",), knows_jobs=False) for name in sorted(READERS - USES.keys())}


def is_derived(key: str) -> bool:
    return key.startswith(("host:", "it-"))


ALIKE = frozenset({"schedule"})  # a sorted set by due, as retry is
SIDEKIQ = Subject(
    "sidekiq",
    SCRIPTS,
    PLACES,
    lambda n: KEYS.get(n, KEYS["processes"]),
    plant,
    members,
    facts,
    body,
    USES,
    is_derived,
    ALIKE,
)
