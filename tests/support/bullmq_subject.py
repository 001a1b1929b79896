"""The system bullmq for the conformance suite: jobs as BullMQ 6.7 writes them, by raw commands, in the queue `mail`."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from redis import Redis

from rqtui.scripts import script as scripts
from rqtui.scripts.script import Reply, Script
from rqtui.systems.bullmq.system import BullMQ
from rqtui.testing.subject import JobDatabase, Planted, Request, Subject, Use

NOW, HOUR = 1_780_000_000_000, 3_600_000
QUEUE, PREFIX = "mail", "bull:mail:"
SCRIPTS: Mapping[str, Script] = scripts.load_scripts("bullmq")
SYSTEM = BullMQ()
KEYS = SYSTEM.keys(QUEUE)
PLACES = tuple(place.name for place in SYSTEM.places)
LISTS = ("wait", "paused", "active")
LOCK = "640bcc1f-f112-42e8-9de1-27386c9eea0c:1"
SUB_KEYS = (":logs", ":dependencies", ":processed", ":failed", ":unsuccessful")
CHANGING = (
    "delay", "priority", "finishedOn", "processedOn", "failedReason", "returnvalue", "atm", "ats", "stc", "defa",
)  # fmt: skip
Jobs = Sequence[Planted]


def build_job_key(id: bytes | str, part: str = "") -> str:
    """Return the key of a BullMQ job's hash, or with `part` that of another key of the job."""
    return f"{PREFIX}{id if isinstance(id, str) else id.decode()}{part}"


def plant_queue(client: Redis, version: str = "bullmq:6.7.0", **fields: object) -> None:
    """Plant the keys that a Queue of this version writes when it connects."""
    client.hset(KEYS["meta"], mapping={"opts.maxLenEvents": 10_000, "version": version, **fields})  # type: ignore[arg-type]


def plant_job(client: Redis, id: bytes | str, place: str, **other_fields: object) -> None:
    """Plant the hash of a job, and its id behind the others of a place. An empty place plants the hash alone."""
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
    client.hset(build_job_key(id), mapping={**fields, **other_fields})  # type: ignore[arg-type]
    if place:
        plant_id(client, place, id)


def plant_id(client: Redis, place: str, id: bytes | str, score: float | None = None) -> None:
    """Plant only the id of a BullMQ job in a place, without its hash."""
    if place in LISTS:
        client.lpush(KEYS[place], id)
    else:
        scores = {"delayed": (NOW + HOUR) * 4096, "prioritized": 5 * 2**32}
        client.zadd(KEYS[place], {id: scores.get(place, NOW - HOUR // 4) if score is None else score})


def plant_jobs(client: Redis, place: str, ids: Sequence[bytes], ripe: bool) -> list[Planted]:
    """Plant BullMQ jobs in a place, oldest first. Ripe jobs are due, or active without a lock."""
    pipe, first_number = client.pipeline(transaction=False), client.dbsize()
    plant_queue(pipe)
    for number, id in enumerate(ids, first_number):
        noise = random.Random(number).randbytes(3000).hex() if number % 3 == 0 else ""
        plant_job(pipe, id, "", data=json.dumps({"n": number, "noise": noise}), **_build_end_fields(place))
        pipe.rpush(build_job_key(id, ":logs"), f"log of {number}")
        if place == "delayed":
            plant_id(pipe, place, id, (NOW - HOUR + number if ripe else NOW + HOUR + number) * 4096)
        elif place == "prioritized":
            plant_id(pipe, place, id, 5 * 2**32 + number)
        else:
            plant_id(pipe, place, id, NOW - HOUR + number)
        if place == "active" and not ripe:
            pipe.set(build_job_key(id, ":lock"), LOCK, px=30_000)
        if place == "active":
            pipe.sadd(KEYS["stalled"], id)
    pipe.execute()
    return [Planted(id, place) for id in ids]


def _build_end_fields(place: str) -> dict[str, object]:
    """Return the fields of a BullMQ job's hash that only a job in this final place has."""
    fields: dict[str, object] = (
        {"delay": HOUR} if place == "delayed" else {"priority": 5} if place == "prioritized" else {}
    )
    if place in ("completed", "failed"):
        fields |= {"processedOn": NOW - HOUR, "finishedOn": NOW - 1, "atm": 1, "ats": 1}
        fields |= {"returnvalue": "1"} if place == "completed" else {"failedReason": "boom"}
    return fields


def list_ids(client: Redis, place: str) -> list[bytes]:
    """Return the ids of the BullMQ jobs in a place, the next or the oldest first."""
    return client.lrange(KEYS[place], 0, -1)[::-1] if place in LISTS else client.zrange(KEYS[place], 0, -1)


def read_facts(client: Redis, id: bytes) -> dict[str, object]:
    """Return everything that Redis stores about one BullMQ job."""
    name, pipe = id.decode(), client.pipeline(transaction=False)
    for place in PLACES:
        if place in LISTS:
            pipe.lpos(KEYS[place], name, count=0)
        else:
            pipe.zscore(KEYS[place], id)
    pipe.hgetall(build_job_key(id)).get(build_job_key(id, ":lock")).lrange(build_job_key(id, ":logs"), 0, -1)
    pipe.smembers(build_job_key(id, ":dependencies")).sismember(KEYS["stalled"], id)
    *positions, fields, lock, logs, children, is_stalled = pipe.execute()
    facts = {
        place: len(position) if isinstance(position, list) else position
        for place, position in zip(PLACES, positions, strict=True)
    }
    facts |= {"hash": fields, "lock": lock, "logs": logs, "children": children, "stalled": is_stalled}
    return {what: value for what, value in facts.items() if value}


def read_body(client: Redis, id: bytes) -> bytes | None:
    """Return the body of a BullMQ job; None if the job has no hash."""
    return client.hget(build_job_key(id), "data")


def run_script(
    client: Redis, name: str, rows: Sequence[object] = (), each_keys: Sequence[Sequence[str]] = (), **args: Any
) -> Reply:
    """Run a script on the test's queue, with a fixed clock if the script has one."""
    script = SCRIPTS[name]
    for argument, value in {"p": PREFIX, "now_ms": NOW}.items():
        if any(arg.name == argument for arg in script.args):
            args.setdefault(argument, value)
    keys = {key.name: KEYS[key.name] for key in script.keys}
    return scripts.run_call(client, script.build_call(keys, args, rows, each_keys))  # type: ignore[arg-type]


def request_by_id(name: str, **args: object) -> Callable[[Jobs], Request]:
    """Return a function that builds the request of a BullMQ verb with one row per job."""
    declared = {arg.name for arg in SCRIPTS[name].args}
    scalars = {key: value for key, value in {"p": PREFIX, "now_ms": NOW, **args}.items() if key in declared}
    return lambda jobs: Request(scalars, [(job.id,) for job in jobs])


def request_queue(name: str, **args: object) -> Callable[[Jobs], Request]:
    """Return a function that builds the request of a BullMQ verb that concerns the whole queue."""
    declared = {arg.name for arg in SCRIPTS[name].args}
    scalars = {key: value for key, value in {"p": PREFIX, "now_ms": NOW, **args}.items() if key in declared}
    return lambda jobs: Request(scalars)


def request_limit(name: str, **args: object) -> Callable[[Jobs], Request]:
    """Return a function that builds the request of a BullMQ verb, with the number of jobs as its limit."""
    return lambda jobs: Request({**request_queue(name, **args)([]).args, "limit": len(jobs)})


def request_enqueue(jobs: Jobs) -> Request:
    """Build the request that enqueues BullMQ jobs with the ids of the given jobs."""
    options = {"name": "send", "delay_ms": None, "priority": None, "max_attempts": 3, "opts": '{"kl":5}'}
    return Request(
        {"p": PREFIX, "now_ms": NOW}, [{"id": job.id, "body": b'{"to": "a@b.c"}', **options} for job in jobs]
    )  # type: ignore[arg-type]


BuildRequest = Callable[[JobDatabase], Request]
Prepare = Callable[[Redis, str], object]


def plant_and_request(
    request: Callable[[Jobs], Request], place: str, *prepares: Prepare, rows: int = 1
) -> BuildRequest:
    """Return a function that plants one more BullMQ job in `place` and builds the request for that job.

    `prepares` are run on the job first. An empty place means a job that does not exist.
    """

    def plant_job_and_build_request(database: JobDatabase) -> Request:
        job = database.plant(place, ripe=True)[0] if place else database.create_absent_job()
        for prepare in prepares:
            prepare(database.client, job.id.decode())
        return request([job] * rows)

    return plant_job_and_build_request


def prepare_database_and_request(prepare: Prepare, request: Callable[[Jobs], Request]) -> BuildRequest:
    """Return a function that runs `prepare` on a new BullMQ job and builds the request for that job."""

    def prepare_and_build_request(database: JobDatabase) -> Request:
        prepare(database.client, "")
        return request([])

    return prepare_and_build_request


def empty_place_and_request(place: str, request: Callable[[Jobs], Request]) -> BuildRequest:
    """Return a function that removes all BullMQ jobs from a place and builds a request."""

    def empty_place_and_build_request(database: JobDatabase) -> Request:
        database.client.delete(KEYS[place])
        return request([Planted(b"")])

    return empty_place_and_build_request


def delete_hash(client: Redis, id: str) -> None:
    """Delete the hash of a BullMQ job, but leave its id in its place."""
    client.delete(build_job_key(id))


def lock_job(client: Redis, id: str) -> None:
    """Set the lock of a BullMQ job, as its worker does."""
    client.set(build_job_key(id, ":lock"), LOCK, px=30_000)


def surround_job(client: Redis, id: str) -> None:
    """Plant thousands of BullMQ jobs around a job, so that a batch of searches does not fit into one call."""
    others = [f"other-{n}" for n in range(2600)]
    client.rpush(KEYS["wait"], *others)
    client.lpush(KEYS["wait"], *others)


def plant_parent(client: Redis, child: str, id: str = "parent") -> None:
    """Plant a parent in `waiting-children` that waits for the job `child` of the queue `mail`."""
    plant_job(client, id, "waiting_children")
    client.sadd(build_job_key(id, ":dependencies"), build_job_key(child))
    link = json.dumps({"id": id, "queueKey": PREFIX[:-1]})
    client.hset(build_job_key(child), mapping={"parentKey": build_job_key(id), "parent": link})


def plant_child(client: Redis, id: str) -> None:
    """Give a BullMQ job a child job that has not run yet."""
    client.sadd(build_job_key(id, ":dependencies"), build_job_key("child"))


def plant_scheduler(client: Redis, _id: str = "", scheduler: str = "tick", next_ms: int = NOW + 5 * HOUR) -> str:
    """Plant a BullMQ job scheduler with its next job, and return the id of that job."""
    id = f"repeat:{scheduler}:{next_ms}"
    client.zadd(KEYS["repeat"], {scheduler: next_ms})
    client.hset(f"{KEYS['repeat']}:{scheduler}", mapping={"name": "tick", "every": 60_000, "ic": 1})
    plant_job(client, id, "", rjk=scheduler)
    plant_id(client, "delayed", id, next_ms * 4096)
    return id


def request_next_job(name: str, **args: object) -> BuildRequest:
    """Return a function that builds a request for the next job of a BullMQ job scheduler."""
    return lambda database: request_by_id(name, **args)([Planted(plant_scheduler(database.client).encode(), "delayed")])


def delete_places(*places: str) -> Callable[[JobDatabase, Jobs], None]:
    """Return a function that deletes the keys of these BullMQ places."""
    return lambda database, jobs: database.client.delete(*(KEYS[place] for place in places)) and None


def pack_strings(*items: bytes) -> bytes:
    """Pack strings into one bytes value, each after its length, as the script `records` returns them."""
    return b"".join(b"%d:%s" % (len(item), item) for item in items)


def read_changing_fields(client: Redis, id: bytes | str) -> bytes:
    """Return the fields of a BullMQ job's hash that verbs change, packed into one value."""
    return pack_strings(
        *(b"" if value is None else b"=" + value for value in client.hmget(build_job_key(id), CHANGING))
    )


REST = pack_strings(pack_strings(b"line"), b"", b"", b"", b"", b"")


def request_restore(*fields: bytes, errors: bytes = b"") -> Callable[[Jobs], Request]:
    """Return a function that builds the request that restores deleted BullMQ jobs."""
    hash = pack_strings(b"name", b"send", b"data", b"{}", b"failedReason", b"boom", *fields)
    return lambda jobs: Request(
        {"p": PREFIX}, [(job.id, "failed", "1780000000000", hash, REST, errors) for job in jobs]
    )


FIELDS_THEN = pack_strings(b"=0", b"=0", b"=1780000000000", b"", b"=boom", b"", b"", b"", b"", b"")


def request_revert(left_place: str = "", place: str = "failed", errors: bytes = b"") -> Callable[[Jobs], Request]:
    """Return a function that builds the request of `revert` that moves BullMQ jobs back to failed.

    Each job was planted with the fields of its place.
    """

    def build_revert_request(jobs: Jobs) -> Request:
        rows = []
        for job in jobs:
            fields = {"delay": 0, "priority": 0, **_build_end_fields(job.place)}
            expected = pack_strings(*(f"={fields[name]}".encode() if name in fields else b"" for name in CHANGING))
            rows.append(
                (job.id, left_place or job.place or "wait", expected, place, "1780000000000", FIELDS_THEN, errors)
            )
        return Request({"p": PREFIX}, rows)

    return build_revert_request


def check_record(database: JobDatabase, reply: Reply) -> None:
    """Check the reply of the script `records` for planted BullMQ jobs."""
    [row] = reply.each
    client, ids = database.client, [job.id for job in database.planted if job.place == "failed"]
    assert row.values["place"] == "failed" and float(row.values["score"]) <= NOW
    assert row.values["line"] in {read_changing_fields(client, id) for id in ids}
    assert sum(read_body(client, id) in row.values["record"] for id in ids) == 1  # type: ignore[operator]
    assert b"log of" in row.values["body"] and row.values["errors"] == b""


def check_counts(database: JobDatabase, reply: Reply) -> None:
    """Check that the reply of the script `counts` has the number of planted BullMQ jobs per place."""
    assert {place: reply.values[place] for place in PLACES} == {
        p: len(ids) for p, ids in database.read_members().items()
    }


def check_page(database: JobDatabase, reply: Reply) -> None:
    """Check that the reply of the script `page` lists the planted BullMQ jobs of the place."""
    assert [row[0] for row in reply.rows] == list_ids(database.client, "wait")
    assert [row[3] for row in reply.rows] == [len(read_body(database.client, row[0]) or b"") for row in reply.rows]


def check_shown_job(database: JobDatabase, reply: Reply) -> None:
    """Check that the reply of the script `show` has all data of the planted BullMQ job."""
    assert reply.values["place"] == "failed" and reply.values["data"] == read_body(database.client, reply.values["id"])


def check_tally_reply(database: JobDatabase, reply: Reply) -> None:
    """Check that the script `tally` counts the planted BullMQ jobs, as the script `counts` does."""
    assert [row[: len(PLACES)] for row in reply.rows] == [tuple(map(len, database.read_members().values()))]


def plant_metrics(
    client: Redis, name: str, ended: Sequence[int], current: int, last_ms: int = NOW, before: int = 0
) -> None:
    """Plant metrics as collectMetrics.lua 6.2 writes them: jobs that ended per minute, the newest first.

    `current` jobs ended in the minute of `last_ms`, and `before` jobs in minutes that were trimmed.
    """
    key, total = KEYS[f"metrics_{name}"], sum(ended) + before
    client.hset(key, mapping={"count": total + current, "prevCount": total, "prevTS": last_ms})
    if ended:
        client.rpush(f"{key}:data", *ended)


def plant_events(client: Redis, *events: Mapping[str, str]) -> None:
    """Plant events, the first one at 1-0, the second at 2-0."""
    for number, fields in enumerate(events, 1):
        client.xadd(KEYS["events"], dict(fields), id=f"{number}-0")  # type: ignore[arg-type]


def check_events(database: JobDatabase, reply: Reply) -> None:
    """Check that the reply of the script `events` has the planted BullMQ events."""
    assert [row[1:] for row in reply.rows][-1:] == [("failed", b"a", b"", b"boom")]


def prepare_events(database: JobDatabase, jobs: Jobs) -> None:
    """Plant BullMQ events before the script `events` is called."""
    plant_events(database.client, {"event": "failed", "jobId": "a", "failedReason": "boom", "prev": "active"})


TALLY = lambda jobs: Request(  # noqa: E731 (one of a row of requests)
    {"now_ms": NOW}, each_keys=[[KEYS[key.name] for key in SCRIPTS["tally"].keys_each]]
)
SHOW: Callable[[Jobs], Request] = lambda jobs: Request(  # noqa: E731
    {"p": PREFIX, "now_ms": NOW, "id": jobs[0].id, "body_bytes": -1}
)
SCHEDULES: Callable[[Jobs], Request] = lambda jobs: Request({"now_ms": NOW}, each_keys=[[KEYS["repeat"]]])  # noqa: E731
RECORDS = request_by_id("records", whole=True, most=1 << 20)
REQUEUE, PROMOTE, KILL, BUMP, DELETE, RELEASE = map(
    request_by_id, ("requeue", "promote", "kill", "bump", "delete", "release")
)
RESCHEDULE, REPRIORITISE = request_by_id("reschedule", delay_ms=2 * HOUR), request_by_id("reprioritise", priority=3)
REAP, PURGE = request_limit("reap"), request_limit("purge", place="failed")


def request_purge(jobs: Jobs) -> Request:
    """Build the request that purges the place of the given BullMQ jobs."""
    return Request({"p": PREFIX, "place": jobs[0].place, "limit": len(jobs)})


def request_purge_of_children(database: JobDatabase) -> Request:
    """Build the request that purges a place in which jobs have parents."""
    database.client.delete(KEYS["failed"])
    plant_parent(database.client, database.plant("failed")[0].id.decode())
    return request_purge([Planted(b"", "failed")])


def build_common_reach(name: str, request: Callable[[Jobs], Request], source: str) -> dict[str, BuildRequest]:
    """Map each reply word that all BullMQ verbs share to a function that brings it about.

    The words are replies for jobs that a verb cannot change.
    """
    return {
        "ghost": plant_and_request(request, source, delete_hash),
        "later": plant_and_request(request, "wait", surround_job, rows=50),
        "gone": plant_and_request(request, ""),
    }


USES = {
    "enqueue": Use(request_enqueue, reach={"exists": plant_and_request(request_enqueue, "active")}),
    "requeue": Use(
        REQUEUE,
        reach={
            "wrong_place": plant_and_request(REQUEUE, "delayed"),
            **build_common_reach("requeue", REQUEUE, "failed"),
        },
    ),
    "promote": Use(
        PROMOTE,
        reach={
            "wrong_place": plant_and_request(PROMOTE, "failed"),
            **build_common_reach("promote", PROMOTE, "delayed"),
        },
    ),
    "reschedule": Use(
        RESCHEDULE,
        repeats=True,
        reach={
            "wrong_place": plant_and_request(RESCHEDULE, "wait"),
            **build_common_reach("reschedule", RESCHEDULE, "delayed"),
        },
    ),
    "reprioritise": Use(
        REPRIORITISE,
        repeats=True,
        reach={
            "wrong_place": plant_and_request(REPRIORITISE, "failed"),
            **build_common_reach("reprioritise", REPRIORITISE, "prioritized"),
        },
    ),
    "bump": Use(
        BUMP,
        repeats=True,
        reach={"wrong_place": plant_and_request(BUMP, "failed"), **build_common_reach("bump", BUMP, "paused")},
    ),
    "kill": Use(
        KILL,
        reach={
            "child": plant_and_request(KILL, "wait", plant_parent),
            "scheduler": request_next_job("kill"),
            "wrong_place": plant_and_request(KILL, "active"),
            **build_common_reach("kill", KILL, "delayed"),
        },
    ),
    "delete": Use(
        DELETE,
        ripe=True,
        reach={
            "reserved": plant_and_request(DELETE, "active", lock_job),
            "wrong_place": plant_and_request(request_by_id("delete", place="failed"), "wait"),
            "scheduler": request_next_job("delete"),
            "children": plant_and_request(DELETE, "waiting_children", plant_child),
            "child": plant_and_request(request_by_id("delete", sparing=True), "wait", plant_parent),
            "later": plant_and_request(DELETE, "wait", surround_job, rows=50),
            "gone": plant_and_request(DELETE, ""),
        },
    ),
    "purge": Use(
        request_purge,
        chooses=True,
        reach={"kept": request_purge_of_children, "empty": empty_place_and_request("failed", PURGE)},
    ),
    "release": Use(
        RELEASE,
        ripe=True,
        reach={
            "reserved": plant_and_request(RELEASE, "active", lock_job),
            "wrong_place": plant_and_request(RELEASE, "wait"),
            **build_common_reach("release", RELEASE, "active"),
        },
    ),
    "reap": Use(REAP, chooses=True, ripe=True, reach={"empty": empty_place_and_request("active", REAP)}),
    "pause": Use(
        request_queue("pause"),
        knows_jobs=False,
        reach={
            "already": prepare_database_and_request(
                lambda client, _id: client.hset(KEYS["meta"], "paused", 1), request_queue("pause")
            )
        },
    ),
    "resume": Use(
        request_queue("resume"),
        knows_jobs=False,
        prepare=lambda database, jobs: (
            database.client.delete(KEYS["paused"]),
            database.client.hset(KEYS["meta"], "paused", 1),
            None,
        )[2],
        reach={
            "already": prepare_database_and_request(
                lambda client, _id: client.hdel(KEYS["meta"], "paused"), request_queue("resume")
            )
        },
    ),
    "limit": Use(request_queue("limit", concurrency=5, max=10, duration_ms=1000), knows_jobs=False),
    "unschedule": Use(
        request_queue("unschedule", scheduler="tick"),
        knows_jobs=False,
        prepare=lambda database, jobs: (
            database.client.delete(build_job_key(id := plant_scheduler(database.client)))
            and database.client.zrem(KEYS["delayed"], id)
            and None
        ),  # the scheduler's next job is not one of the compared jobs
        reach={"gone": empty_place_and_request("repeat", request_queue("unschedule", scheduler="tick"))},
    ),
    "records": Use(
        RECORDS,
        ("failed",),
        reads=check_record,
        reach={
            "gone": plant_and_request(RECORDS, ""),
            "later": plant_and_request(request_by_id("records", most=0), "failed"),
        },
    ),
    "restore": Use(
        request_restore(),
        reach={
            "exists": plant_and_request(request_restore(), "wait"),
            "flow": plant_and_request(request_restore(b"parentKey", b"bull:mail:parent"), ""),
            "taken": plant_and_request(
                request_restore(errors=pack_strings(b"once", b"")),
                "",
                lambda client, _id: client.set(f"{PREFIX}de:once", "another"),
            ),
        },
    ),
    "revert": Use(
        request_revert(),
        reach={
            "changed": plant_and_request(request_revert("wait"), "delayed"),
            "taken": plant_and_request(
                request_revert(errors=pack_strings(b"once", b"")),
                "wait",
                lambda client, _id: client.set(f"{PREFIX}de:once", "another"),
            ),
            "flow": plant_and_request(request_revert(), "wait", plant_parent),
            "gone": plant_and_request(request_revert(), ""),
        },
    ),
    "faults": Use(request_queue("faults"), ("failed",), knows_jobs=False),
    "roster": Use(request_queue("roster"), ("failed",), knows_jobs=False),
    "schedules": Use(SCHEDULES, ("failed",), knows_jobs=False),
    "events": Use(
        request_queue("events", limit=10), ("failed",), knows_jobs=False, prepare=prepare_events, reads=check_events
    ),
    "metrics": Use(request_queue("metrics", limit=10), ("failed",), knows_jobs=False),
    "counts": Use(request_queue("counts"), ("failed",), knows_jobs=False, reads=check_counts),
    "tally": Use(TALLY, ("failed",), knows_jobs=False, reads=check_tally_reply),
    "page": Use(
        request_queue("page", place="wait", offset=0, limit=100, body_bytes=0),
        ("wait",),
        knows_jobs=False,
        reads=check_page,
    ),
    "show": Use(SHOW, ("failed",), reads=check_shown_job, reach={"gone": plant_and_request(SHOW, "")}),
}


def is_derived_key(key: str) -> bool:
    """Return whether a BullMQ key belongs to one job, so that script headers do not declare it by name."""
    return key.startswith(PREFIX) and key.removeprefix(PREFIX) not in {
        name.removeprefix(PREFIX) for name in KEYS.values()
    }


ALIKE = frozenset({"waiting_children", "paused", "completed"})  # places with the same type and verbs as another place
UNGUARDED = frozenset({"bump", "delete", "kill", "promote", "release", "reprioritise", "requeue", "reschedule"})
"""Verbs that search for a job in every place."""
BULLMQ = Subject(
    "bullmq",
    SCRIPTS,
    PLACES,
    lambda name: KEYS[name],
    plant_jobs,
    list_ids,
    read_facts,
    read_body,
    USES,
    is_derived_key,
    ALIKE,
    UNGUARDED,
)
