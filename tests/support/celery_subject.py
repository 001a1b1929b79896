"""The system celery for the conformance suite: messages as Kombu 5.7 writes them, by raw commands."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable, Mapping, Sequence

from redis import Redis
from redis.client import PubSub

from rqtui.scripts import script as scripts
from rqtui.scripts.script import Reply, Script
from rqtui.systems.celery.messages import format_time
from rqtui.systems.celery.system import Celery
from rqtui.testing.subject import JobDatabase, Planted, Request, Subject, Use
from rqtui.text.json_fields import read_json_fields, replace_json_fields

NOW, HOUR = 1_780_000_000_000, 3_600_000
NOW_S, HOUR_S = NOW // 1000, 3600
QUEUE, OTHER_QUEUE, SEP = "default", "other", "\x06\x16"
SCRIPTS: Mapping[str, Script] = scripts.load_scripts("celery")
SYSTEM = Celery()
KEYS = {**SYSTEM.keys(QUEUE), **{f"to_{name}": key for name, key in SYSTEM.keys(OTHER_QUEUE).items()}}
PLACES = ("eta", "queue", "unacked", "late")
HELD = ("eta", "unacked", "late")
STEPS = ("", f"{SEP}3", f"{SEP}6", f"{SEP}9")
READERS = frozenset(name for name, script in SCRIPTS.items() if script.read_only)
Jobs = Sequence[Planted]


def parse_number(id: bytes) -> int:
    """Return the number at the end of a planted job's id."""
    return int(id.rpartition(b"-")[2])


def build_message(id: bytes, queue: str = QUEUE, priority: int = 0, exchange: str = "", **headers: object) -> bytes:
    """Build a message as Celery 5.7 writes it. Every third message is long, and `eta-7` has an ETA."""
    number = parse_number(id) if b"-" in id else 1
    noise = random.Random(number).randbytes(3000).hex() if number % 3 == 0 else ""
    call = [[number, noise], {}, {"callbacks": None, "errbacks": None, "chain": None, "chord": None}]
    own_headers: dict[str, object] = {"lang": "py", "task": "tasks.add", "id": id.decode(), "shadow": None, "eta": None}
    own_headers |= {"expires": None, "group": None, "retries": 0, "timelimit": [None, None], "root_id": id.decode()}
    own_headers |= {"argsrepr": f"({number}, …)", "kwargsrepr": "{}", "origin": "gen1@host", "stamps": {}}
    if id.startswith(b"eta"):
        own_headers["eta"] = format_time(NOW + HOUR // 2 + number)
    properties = {"correlation_id": id.decode(), "reply_to": "", "delivery_mode": 2}
    delivery = {"exchange": exchange, "routing_key": queue}
    delivery_fields = {
        "delivery_info": delivery,
        "priority": priority,
        "body_encoding": "base64",
        "delivery_tag": build_tag(id),
    }
    document = {
        "body": base64.b64encode(json.dumps(call).encode()).decode(),
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": {**own_headers, **headers},
        "properties": {**properties, **delivery_fields},
    }
    return json.dumps(document).encode()


def build_tag(id: bytes) -> str:
    """Return the delivery tag of a planted Celery message."""
    return f"tag-{id.decode()}"


def build_held_entry(id: bytes, queue: str = QUEUE, exchange: str = "", **other_headers: object) -> bytes:
    """Build the entry of the hash `unacked` that a worker stores for a message that it takes (`QoS.append`)."""
    document = json.loads(build_message(id, queue, exchange=exchange, **other_headers))  # type: ignore[arg-type]
    return json.dumps([document, exchange, queue]).encode()


def build_rewritten_message(id: bytes) -> bytes:
    """Build the message of `build_message` with another priority."""
    original = build_message(id)
    return replace_json_fields(
        original, {"properties": replace_json_fields(read_json_fields(original)["properties"], {"priority": b"9"})}
    )


def build_addressed_message(id: bytes) -> bytes:
    """Build the message of `build_message` that names the other queue."""
    return build_message(id).replace(b'"routing_key": "default"', b'"routing_key": "other"')


def plant_held(client: Redis, id: bytes, taken_s: float, **other_headers: object) -> None:
    """Plant a message that a worker has held since `taken_s`."""
    client.hset(KEYS["unacked"], build_tag(id), build_held_entry(id, **other_headers))  # type: ignore[arg-type]
    client.zadd(KEYS["unacked_index"], {build_tag(id): taken_s})


TAKEN_S = {"eta": NOW_S - 100, "unacked": NOW_S - 1000, "late": NOW_S - 2 * HOUR_S}


def plant_jobs(client: Redis, place: str, ids: Sequence[bytes], ripe: bool) -> list[Planted]:
    """Plant messages in a place, oldest first."""
    binding = f"{QUEUE}{SEP}{SEP}{QUEUE}"
    client.sadd(KEYS["binding"], binding)
    client.sadd(KEYS["binding_permanent"], binding)
    for id in ids:
        if place == "queue":
            client.lpush(KEYS["queue"], build_message(id))
        else:
            plant_held(client, id, TAKEN_S[place] + parse_number(id))
    return [Planted(id, place, "" if place == "queue" else build_tag(id)) for id in ids]


def list_waiting(client: Redis, queue: str = QUEUE) -> list[bytes]:
    """Return the messages of a queue, the next one first. Removed messages leave empty entries, which are skipped."""
    entries = [entry for step in STEPS for entry in client.lrange(queue + step, 0, -1)[::-1]]
    return [entry for entry in entries if entry.startswith(b"{")]


def list_held(client: Redis) -> list[tuple[str, float, bytes]]:
    """Return (place, taken at, id) of each message that workers hold."""
    rows = []
    for tag, score in client.zrange(KEYS["unacked_index"], 0, -1, withscores=True):
        entry = client.hget(KEYS["unacked"], tag)
        if entry is None:
            continue
        headers = json.loads(entry)[0]["headers"]
        is_late = score * 1000 < NOW - SYSTEM.visibility_ms
        rows.append(("eta" if headers["eta"] else "late" if is_late else "unacked", score, headers["id"].encode()))
    return rows


def read_id(message: bytes) -> bytes:
    """Return the task id inside the bytes of a Celery message."""
    id = json.loads(message)["headers"]["id"]
    assert isinstance(id, str)
    return id.encode()


def list_ids(client: Redis, place: str) -> list[bytes]:
    """Return the task ids of the Celery messages in a place, in its order."""
    if place == "queue":
        return [read_id(entry) for entry in list_waiting(client)]
    return [id for held_place, _score, id in list_held(client) if held_place == place]


def read_facts(client: Redis, id: bytes) -> dict[str, object]:
    """Return everything that Redis stores about one message."""
    facts: dict[str, object] = {}
    if queued := [message for message in list_waiting(client) if read_id(message) == id]:
        facts["queue"] = queued
    if entry := client.hget(KEYS["unacked"], build_tag(id)):
        facts["held"] = (entry, client.zscore(KEYS["unacked_index"], build_tag(id)))
    return facts


def read_body(client: Redis, id: bytes) -> bytes | None:
    """Return the arguments of a message in any place."""
    documents = [json.loads(document) for document in list_waiting(client)]
    documents += [json.loads(document)[0] for document in client.hvals(KEYS["unacked"])]
    return next(
        (base64.b64decode(document["body"]) for document in documents if document["headers"]["id"] == id.decode()), None
    )


SCALARS = {
    "queue": QUEUE,
    "now_ms": NOW,
    "prefix": "",
    "sep": SEP,
    "steps": "0/3/6/9",
    "visibility": SYSTEM.visibility_ms // 1000,
    "speaks_for_all": True,
}


def request_rows(name: str, *columns: str, **args: object) -> Callable[[Jobs], Request]:
    """Return a function that builds a request with one row per job. Its place is that of the first job."""
    values_of: Mapping[str, Callable[[Planted], object]] = {
        "id": lambda job: job.id,
        "member": lambda job: build_held_entry(job.id) if job.token.startswith("tag-") else build_message(job.id),
        "new": lambda job: build_rewritten_message(job.id),
        "addressed": lambda job: build_addressed_message(job.id),
        "raw": lambda job: "",
        "token": lambda job: job.token if job.token.startswith("tag-") else "",
        "step": lambda job: "0",
        "priority": lambda job: 9,
        "none": lambda job: None,
    }
    declared = {arg.name for arg in SCRIPTS[name].args}

    def build_rows_request(jobs: Jobs) -> Request:
        scalars = {**SCALARS, "place": jobs[0].place, **args}
        rows = [tuple(values_of[column](job) for column in columns) for job in jobs]
        return Request({key: value for key, value in scalars.items() if key in declared}, rows)

    return build_rows_request


BuildRequest = Callable[[JobDatabase], Request]


def plant_and_request(
    request: Callable[[Jobs], Request], place: str, *prepares: Callable[[Redis, bytes], object], rows: int = 1
) -> BuildRequest:
    """Return a function that plants one more job in `place`, runs `prepares` on it and builds the request for it.

    An empty place means a job that does not exist.
    """

    def plant_job_and_build_request(database: JobDatabase) -> Request:
        job = database.plant(place, 1)[0] if place else database.create_absent_job()
        for prepare in prepares:
            prepare(database.client, job.id)
        return request([job] * rows)

    return plant_job_and_build_request


def remove_delivery_info(client: Redis, id: bytes) -> None:
    """Plant a held message whose properties lack `delivery_info`, which names its destination."""
    document = json.loads(build_held_entry(id))
    del document[0]["properties"]["delivery_info"]
    client.hset(KEYS["unacked"], build_tag(id), json.dumps(document))


def surround_job(client: Redis, id: bytes) -> None:
    """Plant thousands of jobs around a job, so that a batch of searches does not fit into one call."""
    others = [build_message(b"other-%d" % n) for n in (1, 2)]
    client.rpush(KEYS["queue"], *others * 2600)
    client.lpush(KEYS["queue"], *others * 2600)


def empty_and_request(*names: str, request: Callable[[Jobs], Request]) -> BuildRequest:
    """Return a function that deletes the named keys and builds a request."""

    def delete_keys_and_build_request(database: JobDatabase) -> Request:
        database.client.delete(*(KEYS[name] for name in names))
        return request([Planted(b"new-1")])

    return delete_keys_and_build_request


def request_enqueue(jobs: Jobs) -> Request:
    """Build the request that enqueues messages with the ids of the given jobs."""
    return Request(SCALARS_OF["enqueue"], [(job.id, build_message(job.id), None, None, None) for job in jobs])


def request_requeue(jobs: Jobs) -> Request:
    """Build the request that runs failed tasks again."""
    return Request(SCALARS_OF["requeue"], [(job.id, build_message(job.id), True) for job in jobs])


def request_requeue_with_two_databases(database: JobDatabase) -> Request:
    """Build the request for a task that has only a result, while two databases have keys."""
    database.client.set("celery-task-meta-new-1", b"{}")
    database.client.pipeline(transaction=True).select(1).set("other", 1).select(0).execute()
    return Request(SCALARS_OF["requeue"], [(b"new-1", build_message(b"new-1"), False)])


def request_restore(jobs: Jobs) -> Request:
    """Build the request that restores deleted Celery messages."""
    rows = [("late", str(TAKEN_S["late"] + 1), build_tag(job.id), build_held_entry(job.id)) for job in jobs]
    return Request(SCALARS_OF["restore"], rows)


def request_revert(jobs: Jobs) -> Request:
    """Build the request to move messages to the list of priority 9, with other bytes."""
    return Request(
        SCALARS_OF["revert"],
        [("queue", build_message(job.id), "queue", str(4 << 40), build_rewritten_message(job.id)) for job in jobs],
    )


SCALARS_OF = {
    name: {key: value for key, value in SCALARS.items() if key in {arg.name for arg in script.args}}
    for name, script in SCRIPTS.items()
}


def request_limit(name: str, **args: object) -> Callable[[Jobs], Request]:
    """Return a function that builds a request for as many jobs as it gets."""
    return lambda jobs: Request({**SCALARS_OF[name], **args, "limit": len(jobs)})


def request_workers(name: str, *workers: str) -> Callable[[Jobs], Request]:
    """Return a function that builds the request of a command to the named Celery workers."""
    return lambda jobs: Request(SCALARS_OF[name], [(worker,) for worker in workers])


def request_command(name: str, *rows: str, **args: object) -> Callable[[Jobs], Request]:
    """Return a function that builds the request of a command to which workers reply."""
    scalars = {key: value for key, value in SCALARS.items() if key in {arg.name for arg in SCRIPTS[name].args}}
    return lambda jobs: Request(
        {**scalars, "reply": KEYS["replies_of_workers"], **args}, [(worker,) for worker in rows]
    )


COMMANDS: Sequence[tuple[str, Sequence[str], Mapping[str, object]]] = (
    ("grow", ("w1@host",), {"number": 2}),
    ("shrink", ("w1@host",), {"number": 1}),
    ("rate_limit", (), {"task": "tasks.add", "rate": "10/m"}),
    ("time_limit", (), {"task": "tasks.add", "soft_ms": 1000, "hard_ms": 2000}),
    ("inspect", (), {"worker": "w1@host"}),
)
"""Commands to which workers reply: the script, its workers, its arguments."""


def check_record(database: JobDatabase, reply: Reply) -> None:
    """Check the reply of the script `records` for planted Celery messages."""
    [row] = reply.each
    ids = {build_message(job.id): job.id for job in database.planted if job.place == "queue"}
    assert row.values["place"] == "queue" and row.values["line"] in ids and not row.values["body"]
    list_number, position = divmod(int(row.values["score"]), 1 << 40)
    assert list_number == 1 and list_waiting(database.client)[position] == row.values["line"]


def check_page(database: JobDatabase, reply: Reply) -> None:
    """Check that the reply of the script `page` lists the planted Celery messages of the place."""
    assert [read_id(row[0]) for row in reply.rows] == list_ids(database.client, "queue")


def check_shown_job(database: JobDatabase, reply: Reply) -> None:
    """Check that the reply of the script `show` has all data of the planted Celery message."""
    assert reply.values["place"] == "late" and reply.values["head"] in database.client.hvals(KEYS["unacked"])


def check_counts(database: JobDatabase, reply: Reply) -> None:
    """Check that the reply of the script `counts` has the number of planted Celery messages per place."""
    assert {place: reply.values[place] for place in PLACES} == {
        p: len(ids) for p, ids in database.read_members().items()
    }


def request_queue(name: str, **args: object) -> Callable[[Jobs], Request]:
    """Return a function that builds the request of a reader that needs no job."""
    declared = {arg.name for arg in SCRIPTS[name].args}
    return lambda jobs: Request({key: value for key, value in {**SCALARS, **args}.items() if key in declared})


PAGE = {"place": "queue", "offset": 0, "limit": 100, "body_bytes": -1}
DELETE, BUMP = request_rows("delete", "member", "token", "step"), request_rows("bump", "member", "step")
RESCHEDULE = request_rows("reschedule", "member", "new", "step", "none", "none", "none")
REPRIORITISE = request_rows("reprioritise", "member", "new", "step", "priority")
MOVE = request_rows("move", "member", "addressed", "step", "none", to_queue=OTHER_QUEUE)
EXTEND = request_rows("extend", "member", "token", ttr_ms=120_000)
RELEASE, FORCED = request_rows("release", "member", "token"), request_rows("release", "member", "token", force=True)
CANCEL = request_rows("cancel", "id", "member", "token", "step")
RECORDS = request_rows("records", "member", "new", "token", "step", most=1 << 20)
REAP, PURGE = request_limit("reap"), request_limit("purge", place="queue")


def SHOW(jobs: Jobs) -> Request:
    return request_queue("show", id=jobs[0].id, body_bytes=-1, head="", size=0, tail="", place="", offset=0)(jobs)


def listen_and_request(request: Callable[[Jobs], Request], place: str = "") -> BuildRequest:
    """Return a function that builds the request while a client listens on the control channel."""

    def listen_and_build_request(database: JobDatabase) -> Request:
        listener = database.client.pubsub()
        listener.psubscribe(KEYS["control"])
        listener.get_message(timeout=5)
        LISTENERS.append(listener)
        return request(database.plant(place, 1) if place else [])

    return listen_and_build_request


LISTENERS: list[PubSub] = []  # keeps the listeners alive: a collected listener closes its connection


def close_listeners(database: JobDatabase) -> None:
    """Close all clients that listen on the control channel of Celery's workers."""
    while LISTENERS:
        close_listener(LISTENERS.pop())


def close_listener(listener: PubSub) -> None:
    """Unsubscribe a listener and wait until Redis has confirmed it.

    Redis notices a closed connection only a moment later.
    """
    listener.punsubscribe()
    while listener.subscribed and listener.get_message(timeout=5):
        pass
    listener.close()


def request_without_listener(request: Callable[[Jobs], Request], place: str = "") -> BuildRequest:
    """Return a function that builds the request while no client listens."""

    def close_listeners_and_build_request(database: JobDatabase) -> Request:
        close_listeners(database)
        return request(database.plant(place, 1) if place else [])

    return close_listeners_and_build_request


def request_release_of_raw_message(database: JobDatabase) -> Request:
    """Build the request for a message that cannot be delivered again."""
    [job] = database.plant("late")
    remove_delivery_info(database.client, job.id)
    rows = [(database.client.hget(KEYS["unacked"], build_tag(job.id)), build_tag(job.id))]
    return Request({**SCALARS_OF["release"], "force": True}, rows)


def request_result(database: JobDatabase) -> Request:
    """Build the request for a task of which only the result is left."""
    database.client.set("celery-task-meta-over", b'{"status": "SUCCESS", "result": 3}')
    return SHOW([Planted(b"over")])


USES = {
    "enqueue": Use(request_enqueue, repeats=True),
    "requeue": Use(
        request_requeue,
        reach={
            "exists": plant_and_request(request_requeue, "unacked"),
            "elsewhere": request_requeue_with_two_databases,
        },
    ),
    "delete": Use(
        DELETE,
        reach={
            "wrong_place": plant_and_request(DELETE, "unacked"),
            "later": plant_and_request(DELETE, "queue", surround_job, rows=50),
            "gone": plant_and_request(DELETE, ""),
        },
    ),
    "bump": Use(
        BUMP,
        repeats=True,
        reach={"later": plant_and_request(BUMP, "queue", surround_job, rows=50), "gone": plant_and_request(BUMP, "")},
    ),
    "move": Use(
        MOVE,
        reach={
            "raw": plant_and_request(
                request_rows("move", "member", "raw", "step", "none", to_queue=OTHER_QUEUE), "queue"
            ),
            "changed": plant_and_request(
                request_rows("move", "member", "addressed", "step", "member", to_queue=OTHER_QUEUE), ""
            ),
            "later": plant_and_request(MOVE, "queue", surround_job, rows=50),
            "gone": plant_and_request(MOVE, ""),
        },
    ),
    "reschedule": Use(
        RESCHEDULE,
        reach={
            "raw": plant_and_request(
                request_rows("reschedule", "member", "raw", "step", "none", "none", "none"), "queue"
            ),
            "later": plant_and_request(RESCHEDULE, "queue", surround_job, rows=50),
            "gone": plant_and_request(RESCHEDULE, ""),
        },
    ),
    "reprioritise": Use(
        REPRIORITISE,
        reach={
            "raw": plant_and_request(request_rows("reprioritise", "member", "raw", "step", "priority"), "queue"),
            "later": plant_and_request(REPRIORITISE, "queue", surround_job, rows=50),
            "gone": plant_and_request(REPRIORITISE, ""),
        },
    ),
    "release": Use(
        FORCED,
        reach={
            "held": plant_and_request(RELEASE, "unacked"),
            "raw": request_release_of_raw_message,
            "gone": plant_and_request(RELEASE, ""),
        },
    ),
    "extend": Use(
        EXTEND,
        ("unacked", "late", "eta"),
        repeats=True,
        reach={"gone": plant_and_request(EXTEND, "")},
    ),
    "reap": Use(REAP, chooses=True, reach={"empty": empty_and_request("unacked", "unacked_index", request=REAP)}),
    "purge": Use(
        PURGE,
        chooses=True,
        reach={
            "empty": empty_and_request("queue", request=PURGE),
            "kept": lambda database: request_limit("purge", place="eta")([Planted(b"eta-1", "eta")]),
        },
    ),
    "cancel": Use(
        CANCEL,
        ("queue",),
        reach={
            "asked": listen_and_request(CANCEL, "queue"),
            "unheard": request_without_listener(CANCEL, "unacked"),
            "later": plant_and_request(CANCEL, "queue", surround_job, rows=50),
            "gone": plant_and_request(CANCEL, ""),
        },
    ),
    "pause": Use(
        request_workers("pause"),
        knows_jobs=False,
        reach={
            "paused": listen_and_request(request_workers("pause")),
            "unheard": request_without_listener(request_workers("pause")),
        },
    ),
    "resume": Use(
        request_workers("resume"),
        knows_jobs=False,
        reach={
            "resumed": listen_and_request(request_workers("resume")),
            "unheard": request_without_listener(request_workers("resume")),
        },
    ),
    **{
        name: Use(
            request_command(name, *rows, **args),
            knows_jobs=False,
            repeats=True,
            reach={
                "asked": listen_and_request(request_command(name, *rows, **args)),
                "unheard": request_without_listener(request_command(name, *rows, **args)),
            },
        )
        for name, rows, args in COMMANDS
    },
    "collect": Use(
        lambda jobs: Request({"expected": len(jobs)}),
        knows_jobs=False,
        prepare=lambda database, jobs: database.client.lpush(KEYS["replies_of_workers"], "", *(b"{}" for _job in jobs)),
    ),
    "stop": Use(
        request_workers("stop", "w1@host"),
        knows_jobs=False,
        reach={
            "asked": listen_and_request(request_workers("stop", "w1@host")),
            "unheard": request_without_listener(request_workers("stop", "w1@host")),
        },
    ),
    "records": Use(
        RECORDS,
        ("queue",),
        reads=check_record,
        reach={
            "later": plant_and_request(
                request_rows("records", "member", "new", "token", "step", most=0), "queue", rows=2
            ),
            "gone": plant_and_request(RECORDS, ""),
        },
    ),
    "restore": Use(request_restore, reach={"exists": plant_and_request(request_restore, "late")}),
    "revert": Use(request_revert, reach={"changed": plant_and_request(request_revert, "")}),
    "counts": Use(request_queue("counts"), ("late",), knows_jobs=False, reads=check_counts),
    "results": Use(lambda jobs: Request({}, each_keys=[[KEYS["queue"]]]), ("late",), knows_jobs=False),
    "tally": Use(lambda jobs: Request(SCALARS_OF["tally"], each_keys=[[KEYS["queue"]]]), ("late",), knows_jobs=False),
    "page": Use(request_queue("page", **PAGE), ("queue",), knows_jobs=False, reads=check_page),
    "scan": Use(request_queue("scan", **{**PAGE, "place": "late"}), ("late",), knows_jobs=False),
    "show": Use(
        SHOW,
        ("late",),
        reads=check_shown_job,
        reach={"gone": lambda database: SHOW([Planted(b"x")]), "ended": request_result},
    ),
}


USES |= {name: Use(request_queue(name), ("late",), knows_jobs=False) for name in sorted(READERS - USES.keys())}


def is_derived_key(key: str) -> bool:
    """Return whether a Celery key belongs to one task, so that script headers do not declare it by name."""
    return key.startswith((f"{QUEUE}{SEP}", f"{OTHER_QUEUE}{SEP}", "_kombu.binding."))


CELERY = Subject(
    "celery",
    SCRIPTS,
    PLACES,
    lambda name: KEYS[name],
    plant_jobs,
    list_ids,
    read_facts,
    read_body,
    USES,
    is_derived_key,
)
