"""The system rq for the conformance suite: jobs as RQ 3 writes them, by raw commands, in the queue `default`."""

from __future__ import annotations

import base64
import pickle
import random
import zlib
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from redis import Redis

from rqtui.scripts import script as scripts
from rqtui.scripts.script import Reply, Script
from rqtui.systems.rq.system import Rq
from rqtui.testing.subject import JobDatabase, Planted, Request, Subject, Use

NOW, HOUR = 1_780_000_000_000, 3_600_000
NOW_S, YEAR_S = NOW // 1000, 31_536_000
QUEUE, OTHER_QUEUE, WORKER = "default", "other", "w1"
SCRIPTS: Mapping[str, Script] = scripts.load_scripts("rq")
SYSTEM = Rq()
OTHER_KEYS = SYSTEM.keys(OTHER_QUEUE)
KEYS = {**SYSTEM.keys(QUEUE), **{f"to_{name}": key for name, key in OTHER_KEYS.items()}}
PLACES = tuple(place.name for place in SYSTEM.places)
LISTS = ("queued", "intermediate")
STATUS = {"intermediate": "queued"}  # the status of the jobs in a place with another name
EXC_STRING = base64.b64encode(zlib.compress(b"Traceback: it failed"))
Jobs = Sequence[Planted]


def build_job_key(id: bytes | str, part: str = "") -> str:
    return f"rq:job:{id if isinstance(id, str) else id.decode()}{part}"


def format_time(ms: int) -> str:
    """Format a time as it is stored in RQ's hashes (rq/utils.py 3.0, utcformat)."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def build_call_data(*args: object, func: str = "tasks.add") -> bytes:
    """Build the stored call of a Python function, as RQ's own serializer writes it (rq/job.py 3.0)."""
    return zlib.compress(pickle.dumps((func, None, args, {}), 5))


def plant_job(client: Redis, id: bytes | str, status: str, body: bytes = b"", **other_fields: object) -> None:
    """Plant the hash of an RQ job, as `Job.save` writes it, with `other_fields` added."""
    fields = {
        "data": body or build_call_data(1, 2),
        "origin": QUEUE,
        "status": status,
        "description": "tasks.add(1, 2)",
        "created_at": format_time(NOW - HOUR),
        "enqueued_at": format_time(NOW - HOUR),
        "timeout": 180,
        "started_at": "" if status in ("queued", "scheduled", "deferred") else format_time(NOW - HOUR // 2),
        "ended_at": format_time(NOW - HOUR // 4) if status in ("finished", "failed", "stopped") else "",
        "worker_name": WORKER if status == "started" else "",
        **other_fields,
    }
    client.hset(build_job_key(id), mapping=fields)  # type: ignore[arg-type]


def plant_started(client: Redis, id: str, deadline_s: float, execution: str = "e1", worker: str = WORKER) -> str:
    """Plant an RQ execution that ends at `deadline_s`, and return its member of the registry.

    An execution that ends in the future has heartbeats.
    """
    member = f"{id}:{execution}"
    client.zadd(KEYS["started"], {member: deadline_s})
    client.zadd(f"rq:executions:{id}", {execution: deadline_s + 60})
    client.sadd(f"rq:worker:{worker}:executions", member)
    if deadline_s > NOW_S:
        heartbeat = {"id": execution, "job_id": id, "worker_name": worker, "last_heartbeat": NOW_S}
        client.hset(f"rq:execution:{member}", mapping=heartbeat)
        client.expire(f"rq:execution:{member}", 90)
    return member


def plant_worker(client: Redis, name: str = WORKER, born_ms: int = NOW - HOUR, current: str = "") -> None:
    """Plant a worker of an RQ queue with a heartbeat."""
    client.sadd("rq:workers", f"rq:worker:{name}")
    client.sadd(KEYS["workers"], f"rq:worker:{name}")
    fields = {
        "birth": format_time(born_ms),
        "last_heartbeat": format_time(NOW),
        "queues": QUEUE,
        "state": "busy",
        "current_job": current,
    }
    client.hset(f"rq:worker:{name}", mapping=fields)


def plant_jobs(client: Redis, place: str, ids: Sequence[bytes], ripe: bool) -> list[Planted]:
    """Plant RQ jobs in a place, oldest first. Ripe jobs are due, late, or stale."""
    pipe, jobs, first_number = client.pipeline(transaction=False), [], client.dbsize()
    pipe.sadd(KEYS["queues"], KEYS["queued"])
    for number, id in enumerate(ids, first_number):
        name, member = id.decode(), id
        noise = random.Random(number).randbytes(6000) if number % 3 == 0 else b""
        plant_job(pipe, id, STATUS.get(place, place), build_call_data(number, noise), group_id="g")
        pipe.sadd("rq:group:g", id)
        pipe.sadd(f"rq:job::{name}:dependencies", f"parent-{name}").sadd(
            build_job_key(f"parent-{name}", ":dependents"), id
        )
        score_s = NOW_S + number - YEAR_S if ripe else NOW_S + number + HOUR
        if place == "queued":
            pipe.rpush(KEYS[place], id)
        elif place == "intermediate":
            pipe.rpush(KEYS[place], id)
            pipe.set(f"{KEYS[place]}:first_seen:{name}", NOW_S - (120 if ripe else 1), ex=86400)
        elif place == "started":
            member = plant_started(pipe, name, score_s).encode()
        else:
            has_start_score = place in ("deferred", "ready_to_enqueue", "canceled")
            pipe.zadd(
                KEYS[place],
                {
                    id: NOW_S - HOUR + number
                    if has_start_score
                    else score_s
                    if place == "scheduled"
                    else NOW_S + YEAR_S + number
                },
            )
        if place in ("failed", "finished"):
            result = (
                {"type": 2, "exc_string": EXC_STRING} if place == "failed" else {"type": 1, "return_value": "gAVLAy4="}
            )
            pipe.xadd(f"rq:results:{name}", result)
            for key in (build_job_key(id), f"rq:job::{name}:dependencies", f"rq:results:{name}"):
                pipe.expire(key, YEAR_S)
        jobs.append(Planted(id, place, member.decode()))
    pipe.execute()
    return jobs


def list_ids(client: Redis, place: str) -> list[bytes]:
    """Return the ids of the RQ jobs in a place in its order."""
    entries = client.lrange(KEYS[place], 0, -1) if place in LISTS else client.zrange(KEYS[place], 0, -1)
    return [member.partition(b":")[0] for member in entries]


def read_facts(client: Redis, id: bytes) -> dict[str, object]:
    """Return everything that Redis stores about one RQ job."""
    name, pipe = id.decode(), client.pipeline(transaction=False)
    for place in PLACES:
        if place in LISTS:
            pipe.lpos(KEYS[place], name, count=0)
        else:
            pipe.zscore(KEYS[place], id)
    pipe.hgetall(build_job_key(id)).ttl(build_job_key(id)).zscore(KEYS["started"], f"{name}:e1").xrange(
        f"rq:results:{name}"
    )
    pipe.zrange(f"rq:executions:{name}", 0, -1)
    pipe.smembers(f"rq:job::{name}:dependencies").smembers(build_job_key(id, ":dependents"))
    *positions, fields, ttl, deadline, results, executions, waits_for, awaited_by = pipe.execute()
    facts = {
        place: len(position) if isinstance(position, list) else position
        for place, position in zip(PLACES, positions, strict=True)
    }
    facts |= {"hash": fields, "lasts": ttl > 0, "deadline": deadline, "results": results, "executions": executions}
    facts |= {"waits for": waits_for, "awaited by": awaited_by}
    return {what: value for what, value in facts.items() if value}


def read_body(client: Redis, id: bytes) -> bytes | None:
    return client.hget(build_job_key(id), "data")


def request_by_id(name: str, **args: object) -> Callable[[Jobs], Request]:
    """Return a function that builds the request of an RQ verb with one row per job."""
    declared = {arg.name for arg in SCRIPTS[name].args}
    scalars = {key: value for key, value in {"prefix": "rq", "now_ms": NOW, **args}.items() if key in declared}
    return lambda jobs: Request(scalars, [(job.id,) for job in jobs])


def request_move(line: bytes = b"", place: str = "") -> Callable[[Jobs], Request]:
    """Return a function that builds the request to move RQ jobs whose fields are still `line` to another queue."""
    args = {"prefix": "rq", "now_ms": NOW, "to_queue": OTHER_QUEUE, "place": place}
    return lambda jobs: Request(args, [(job.id, line) for job in jobs])


def request_by_member(name: str) -> Callable[[Jobs], Request]:
    return lambda jobs: Request({"prefix": "rq"}, [(job.id, job.token) for job in jobs])


def request_limit(name: str, **args: object) -> Callable[[Jobs], Request]:
    """Return a function that builds the request of an RQ verb, with the number of jobs as its limit."""
    request = request_by_id(name, **args)
    return lambda jobs: Request({**request([]).args, "limit": len(jobs)})


def request_enqueue(jobs: Jobs) -> Request:
    options = {
        "delay_ms": None,
        "due_ms": None,
        "at_front": None,
        "ttr_ms": 60_000,
        "max_attempts": 4,
        "retry_intervals": "[10, 60]",
    }
    rows = [{"id": job.id, "body": build_call_data(1), "description": "tasks.add(1)", **options} for job in jobs]
    return Request({"prefix": "rq", "now_ms": NOW}, rows)  # type: ignore[arg-type]


BuildRequest = Callable[[JobDatabase], Request]


def plant_and_request(
    request: Callable[[Jobs], Request], place: str, *prepares: Callable[[Redis, str], object], rows: int = 1
) -> BuildRequest:
    """Return a function that plants one more RQ job in `place` and builds the request for that job.

    `prepares` are run on the job first. An empty place means a job that does not exist.
    """

    def plant_job_and_build_request(database: JobDatabase) -> Request:
        job = database.plant(place)[0] if place else database.create_absent_job()
        for prepare in prepares:
            prepare(database.client, job.id.decode())
        return request([job] * rows)

    return plant_job_and_build_request


def delete_hash(client: Redis, id: str) -> None:
    client.delete(build_job_key(id))


def limit_rate(client: Redis, id: str) -> None:
    """Plant the key that limits the rate of an RQ job."""
    client.hset(build_job_key(id), mapping={"rate_limit_key": "api", "rate_limit_concurrency": 1})


def hold_back_job(client: Redis, id: str) -> None:
    """Plant an RQ job that waits for a slot of its rate limit, in no place."""
    plant_job(client, id, "rate_limited", rate_limit_key="api", rate_limit_concurrency=1)


def pop_job(client: Redis, id: str) -> None:
    """Move the id of an RQ job to the intermediate list, as a worker that takes it does."""
    client.lrem(KEYS["queued"], 1, id)


def surround_job(client: Redis, id: str) -> None:
    """Plant thousands of RQ jobs around a job, so that a batch of searches does not fit into one call."""
    others = [f"other-{n}" for n in range(2600)]
    client.rpush(KEYS["queued"], *others)
    client.lpush(KEYS["queued"], *others)


def lock_scheduler(client: Redis, id: str) -> None:
    """Set the lock of a scheduler that moves due RQ jobs."""
    client.set(KEYS["lock"], "scheduler-1", ex=61)


def start_canceled_job(client: Redis, id: str) -> None:
    """Plant a run of an RQ job that was canceled while its worker ran it."""
    plant_started(client, id, NOW_S + 60)


def change_origin(client: Redis, id: str) -> None:
    """Let the hash of an RQ job name another queue than the one that has the job."""
    client.hset(build_job_key(id), "origin", "elsewhere")


def add_to_other_queue(client: Redis, id: str) -> None:
    """Add the id of an RQ job to a place of the queue to which it is to be moved."""
    client.zadd(OTHER_KEYS["finished"], {id: NOW_S})


def make_due(client: Redis, id: str) -> None:
    """Move the due time of a scheduled RQ job into the past."""
    client.zadd(KEYS["scheduled"], {id: NOW_S - 1})


def plant_dependent(client: Redis, id: str) -> None:
    """Plant an RQ job that waits for another one."""
    client.sadd(build_job_key(id, ":dependents"), "child")
    plant_job(client, "child", "deferred")
    client.zadd(KEYS["deferred"], {"child": NOW_S})


def empty_places_and_request(*places: str, request: Callable[[Jobs], Request]) -> BuildRequest:
    def empty_places_and_build_request(database: JobDatabase) -> Request:
        database.client.delete(*(KEYS[place] for place in places))
        return request([Planted(b"")])

    return empty_places_and_build_request


def prepare_database_and_request(
    prepare: Callable[[Redis, str], object], request: Callable[[Jobs], Request]
) -> BuildRequest:
    """Return a function that runs `prepare` on a new RQ job and builds the request for that job."""

    def prepare_and_build_request(database: JobDatabase) -> Request:
        prepare(database.client, "")
        return request([Planted(b"")])

    return prepare_and_build_request


def request_purge_of_awaited(database: JobDatabase) -> Request:
    """Build the request that purges a place in which another RQ job waits for a job."""
    database.client.delete(KEYS["failed"])
    plant_dependent(database.client, database.plant("failed")[0].id.decode())
    return Request({"prefix": "rq", "place": "failed", "limit": 10})


def subscribe_as_workers(*names: str) -> Callable[[JobDatabase, Jobs], None]:
    """Return a function that subscribes to the Pub/Sub channels of the named RQ workers, as these workers do.

    A script that sends a command to a worker then finds a subscriber.
    """

    def subscribe_to_channels(database: JobDatabase, jobs: Jobs) -> None:
        listener = database.client.pubsub(ignore_subscribe_messages=False)
        listener.subscribe(*(KEYS["commands"] + name for name in names))
        for _name in names:
            listener.get_message(timeout=10)
        database.listener = listener  # type: ignore[attr-defined]  # keeps the subscription as long as the world

    return subscribe_to_channels


def request_workers(*names: str) -> Callable[[Jobs], Request]:
    return lambda jobs: Request({"prefix": "rq"}, [(name,) for name in names])


def pack_strings(*items: bytes) -> bytes:
    """Pack strings into one bytes value, each after its length, as the script `records` returns them."""
    return b"".join(b"%d:%s" % (len(item), item) for item in items)


def read_changing_fields(client: Redis, id: bytes) -> bytes:
    """Return the fields of an RQ job's hash that verbs change, packed into one value."""
    names = ("status", "enqueued_at", "started_at", "ended_at", "worker_name", "retries_left")
    return pack_strings(*(b"" if value is None else b"=" + value for value in client.hmget(build_job_key(id), names)))


def request_restore(jobs: Jobs) -> Request:
    hash = pack_strings(b"data", build_call_data(1), b"origin", QUEUE.encode(), b"status", b"failed")
    entry = pack_strings(b"1780000000000-0", pack_strings(b"type", b"2"))
    rest = pack_strings(pack_strings(b"child"), pack_strings(b"parent"), pack_strings(entry))
    return Request({"prefix": "rq"}, [(job.id, "failed", "1790000000", hash, rest, "") for job in jobs])


STATUS_THEN = pack_strings(b"=failed", b"", b"", b"", b"", b"")


def request_revert(left_place: str = "") -> Callable[[Jobs], Request]:
    """Return a function that builds the request of `revert` that moves RQ jobs back to failed.

    The fields are those that `plant_jobs` wrote; those of a new job may be anything.
    """

    def build_request(jobs: Jobs) -> Request:
        rows = []
        for job in jobs:
            status = STATUS.get(job.place, job.place) or "queued"
            expected = pack_strings(
                *(b"=" + text.encode() for text in (status, format_time(NOW - HOUR))),
                b"=" if status in ("queued", "scheduled", "deferred") else b"=" + format_time(NOW - HOUR // 2).encode(),
                b"=", b"=", b"",
            )  # fmt: skip
            rows.append(
                (
                    job.id,
                    left_place or job.place or "queued",
                    expected,
                    "failed",
                    "1790000000",
                    STATUS_THEN,
                    "1790000001",
                )
            )
        return Request({"prefix": "rq"}, rows)

    return build_request


def check_record(database: JobDatabase, reply: Reply) -> None:
    [row] = reply.each
    client, ids = database.client, [job.id for job in database.planted if job.place == "failed"]
    assert row.values["place"] == "failed" and float(row.values["score"]) > NOW_S
    assert row.values["line"] in {read_changing_fields(client, id) for id in ids}
    assert sum(read_body(client, id) in row.values["record"] for id in ids) == 1  # type: ignore[operator]
    assert abs(int(row.values["errors"]) - client.time()[0] - YEAR_S) < 600


def check_counts(database: JobDatabase, reply: Reply) -> None:
    assert {place: reply.values[place] for place in PLACES} == {
        p: len(ids) for p, ids in database.read_members().items()
    }


def check_page(database: JobDatabase, reply: Reply) -> None:
    assert [row[0] for row in reply.rows] == list_ids(database.client, "failed")
    assert [row[3] for row in reply.rows] == [len(read_body(database.client, row[0]) or b"") for row in reply.rows]


def check_shown_job(database: JobDatabase, reply: Reply) -> None:
    assert reply.values["place"] == "failed" and reply.values["data"] == read_body(database.client, reply.values["id"])


def check_problems(database: JobDatabase, reply: Reply) -> None:
    """Check that only the missing worker and scheduler of the planted jobs are reported."""
    assert {row[0] for row in reply.rows} <= {"no_scheduler", "abandoned", "stale_intermediate", "vanishing"}


def check_roster_reply(database: JobDatabase, reply: Reply) -> None:
    """Check that the reply of the script `roster` lists the planted RQ workers."""
    assert [row[0] for row in reply.rows] == [WORKER.encode()]


def check_tally_reply(database: JobDatabase, reply: Reply) -> None:
    """Check that the script `tally` counts the planted RQ jobs, as the script `counts` does."""
    assert [row[: len(PLACES)] for row in reply.rows] == [tuple(map(len, database.read_members().values()))]


TALLY = lambda jobs: Request(  # noqa: E731 (one of a row of requests)
    {"prefix": "rq", "now_ms": NOW}, each_keys=[[KEYS[key.name] for key in SCRIPTS["tally"].keys_each]]
)
SHOW: Callable[[Jobs], Request] = lambda jobs: Request(  # noqa: E731
    {"prefix": "rq", "now_ms": NOW, "queue": QUEUE, "id": jobs[0].id, "body_bytes": -1}
)
RECORDS = request_by_id("records", whole=True, most=1 << 20)
REQUEUE, PROMOTE, KILL, BUMP, DELETE = map(request_by_id, ("requeue", "promote", "kill", "bump", "delete"))
RESCHEDULE = request_by_id("reschedule", delay_ms=2 * HOUR)
REAP, DISPATCH, PURGE = (
    request_limit("reap", exc_string=EXC_STRING),
    request_limit("dispatch"),
    request_limit("purge", place="failed"),
)
CANCEL = request_by_member("cancel")
MOVE = request_move()


def request_purge(jobs: Jobs) -> Request:
    return Request({"prefix": "rq", "place": jobs[0].place, "limit": len(jobs)})


USES = {
    "enqueue": Use(request_enqueue, reach={"exists": plant_and_request(request_enqueue, "started")}),
    "requeue": Use(
        REQUEUE,
        reach={
            "wrong_place": plant_and_request(REQUEUE, "scheduled"),
            "ghost": plant_and_request(REQUEUE, "failed", delete_hash),
            "limited": plant_and_request(REQUEUE, "failed", limit_rate),
            "gone": plant_and_request(REQUEUE, ""),
        },
    ),
    "promote": Use(
        PROMOTE,
        reach={
            "due": plant_and_request(PROMOTE, "scheduled", make_due, lock_scheduler),
            "wrong_place": plant_and_request(PROMOTE, "failed"),
            "ghost": plant_and_request(PROMOTE, "deferred", delete_hash),
            "limited": plant_and_request(PROMOTE, "scheduled", limit_rate),
            "gone": plant_and_request(PROMOTE, ""),
        },
    ),
    "reschedule": Use(
        RESCHEDULE,
        repeats=True,
        reach={
            "due": plant_and_request(RESCHEDULE, "scheduled", make_due, lock_scheduler),
            "wrong_place": plant_and_request(RESCHEDULE, "queued"),
            "limited": plant_and_request(RESCHEDULE, "", hold_back_job),
            "gone": plant_and_request(RESCHEDULE, ""),
        },
    ),
    "kill": Use(
        KILL,
        reach={
            "wrong_place": plant_and_request(KILL, "started"),
            "taken": plant_and_request(KILL, "queued", pop_job),
            "later": plant_and_request(KILL, "queued", surround_job, rows=50),
            "ghost": plant_and_request(KILL, "deferred", delete_hash),
            "limited": plant_and_request(KILL, "queued", limit_rate),
            "gone": plant_and_request(KILL, ""),
        },
    ),
    "move": Use(
        MOVE,
        reach={
            "exists": plant_and_request(MOVE, "queued", add_to_other_queue),
            "changed": plant_and_request(request_move(b"-"), "failed"),
            "due": plant_and_request(MOVE, "scheduled", make_due, lock_scheduler),
            "reserved": plant_and_request(MOVE, "canceled", start_canceled_job),
            "wrong_place": plant_and_request(request_move(place="failed"), "queued"),
            "stray": plant_and_request(MOVE, "queued", change_origin),
            "taken": plant_and_request(MOVE, "queued", pop_job),
            "later": plant_and_request(MOVE, "queued", surround_job, rows=50),
            "ghost": plant_and_request(MOVE, "deferred", delete_hash),
            "limited": plant_and_request(MOVE, "queued", limit_rate),
            "gone": plant_and_request(MOVE, ""),
        },
    ),
    "bump": Use(
        BUMP,
        repeats=True,
        reach={
            "wrong_place": plant_and_request(BUMP, "failed"),
            "taken": plant_and_request(BUMP, "queued", pop_job),
            "limited": plant_and_request(BUMP, "", hold_back_job),
            "later": plant_and_request(BUMP, "queued", surround_job, rows=50),
            "gone": plant_and_request(BUMP, ""),
        },
    ),
    "delete": Use(
        DELETE,
        reach={
            "reserved": plant_and_request(DELETE, "started"),
            "wrong_place": plant_and_request(request_by_id("delete", place="failed"), "queued"),
            "dependents": plant_and_request(DELETE, "failed", plant_dependent),
            "taken": plant_and_request(DELETE, "queued", pop_job),
            "later": plant_and_request(DELETE, "queued", surround_job, rows=50),
            "limited": plant_and_request(DELETE, "failed", limit_rate),
            "gone": plant_and_request(DELETE, ""),
        },
    ),
    "purge": Use(
        request_purge,
        chooses=True,
        reach={"kept": request_purge_of_awaited, "empty": empty_places_and_request("failed", request=PURGE)},
    ),
    "cancel": Use(
        CANCEL,
        ("started",),
        prepare=subscribe_as_workers(WORKER),
        reach={
            "unheard": plant_and_request(
                CANCEL, "started", lambda client, id: client.hset(f"rq:execution:{id}:e1", "worker_name", "gone")
            ),
            "wrong_place": plant_and_request(CANCEL, "failed"),
            "gone": plant_and_request(CANCEL, ""),
        },
    ),
    "stop": Use(
        request_workers(WORKER),
        knows_jobs=False,
        prepare=lambda database, jobs: (plant_worker(database.client), subscribe_as_workers(WORKER)(database, jobs))[1],
        reach={
            "unheard": prepare_database_and_request(
                lambda client, _id: plant_worker(client, "deaf"), request_workers("deaf")
            ),
            "gone": prepare_database_and_request(lambda client, _id: None, request_workers("nobody")),
        },
    ),
    "pause": Use(
        lambda jobs: Request(),
        knows_jobs=False,
        reach={
            "already": prepare_database_and_request(
                lambda client, _id: client.set(KEYS["suspended"], 1), lambda jobs: Request()
            )
        },
    ),
    "resume": Use(
        lambda jobs: Request(),
        knows_jobs=False,
        prepare=lambda database, jobs: database.client.set(KEYS["suspended"], 1) and None,
        reach={"already": empty_places_and_request("suspended", request=lambda jobs: Request())},
    ),
    "dispatch": Use(
        DISPATCH,
        chooses=True,
        ripe=True,
        reach={
            "empty": empty_places_and_request("scheduled", request=DISPATCH),
            "scheduler": prepare_database_and_request(lock_scheduler, DISPATCH),
        },
    ),
    "reap": Use(
        REAP,
        chooses=True,
        ripe=True,
        reach={"empty": empty_places_and_request("started", "intermediate", request=REAP)},
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
    "restore": Use(request_restore, reach={"exists": plant_and_request(request_restore, "queued")}),
    "revert": Use(
        request_revert(),
        reach={
            "changed": plant_and_request(request_revert("queued"), "scheduled"),
            "gone": plant_and_request(request_revert(), ""),
        },
    ),
    "faults": Use(lambda jobs: Request({"prefix": "rq"}), ("failed",), knows_jobs=False, reads=check_problems),
    "roster": Use(
        lambda jobs: Request({"prefix": "rq"}),
        ("failed",),
        knows_jobs=False,
        prepare=lambda database, jobs: plant_worker(database.client),
        reads=check_roster_reply,
    ),
    "schedules": Use(lambda jobs: Request({"prefix": "rq"}), ("failed",), knows_jobs=False),
    "counts": Use(
        lambda jobs: Request({"prefix": "rq", "now_ms": NOW}), ("failed",), knows_jobs=False, reads=check_counts
    ),
    "tally": Use(TALLY, ("failed",), knows_jobs=False, reads=check_tally_reply),
    "page": Use(
        lambda jobs: Request(
            {"prefix": "rq", "now_ms": NOW, "place": "failed", "offset": 0, "limit": 100, "body_bytes": 0}
        ),
        ("failed",),
        knows_jobs=False,
        reads=check_page,
    ),
    "show": Use(SHOW, ("failed",), reads=check_shown_job, reach={"gone": plant_and_request(SHOW, "")}),
}


def is_derived_key(key: str) -> bool:
    """Return whether an RQ key belongs to one job, so that script headers do not declare it by name."""
    parts = ("rq:job:", "rq:results:", "rq:execution", "rq:worker:", "rq:group:", f"{KEYS['intermediate']}:first_seen:")
    return key.startswith(parts)


ALIKE = frozenset({"deferred", "ready_to_enqueue", "finished", "canceled"})  # sorted sets, as scheduled and failed are
UNGUARDED = frozenset(
    {"bump", "delete", "kill", "move", "promote", "requeue", "reschedule"}
)  # they search for a job in every place
RQ = Subject(
    "rq",
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
