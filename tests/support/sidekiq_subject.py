"""The system sidekiq for the conformance suite: jobs as Sidekiq 6.4 writes them, by raw commands."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence

from redis import Redis

from rqtui.scripts import script as scripts
from rqtui.scripts.script import Reply, Script
from rqtui.systems.sidekiq.system import Sidekiq
from rqtui.testing.subject import JobDatabase, Planted, Request, Subject, Use
from rqtui.text.json_fields import replace_json_fields

NOW, HOUR = 1_780_000_000_000, 3_600_000
NOW_S, HOUR_S = NOW // 1000, 3600
QUEUE, OTHER_QUEUE = "default", "mail"
SCRIPTS: Mapping[str, Script] = scripts.load_scripts("sidekiq")
SYSTEM = Sidekiq()
KEYS = {**SYSTEM.keys(QUEUE), "to_queue": SYSTEM.keys(OTHER_QUEUE)["queue"]}
PLACES = ("schedule", "retry", "queue", "work", "dead")
ZSETS = ("schedule", "retry", "dead")
READERS = frozenset(name for name, script in SCRIPTS.items() if script.read_only)
Jobs = Sequence[Planted]


def parse_number(id: bytes) -> int:
    return int(id.rpartition(b"-")[2])


def build_member(id: bytes, queue: str = QUEUE, **other_fields: object) -> bytes:
    """Build a Sidekiq job as Ruby writes it. Every third job is long.

    The id names the job's place, and `dead-8` has failed.
    """
    number = parse_number(id) if b"-" in id else 1
    noise = random.Random(number).randbytes(3000).hex() if number % 3 == 0 else ""
    job: dict[str, object] = {"class": "HardJob", "args": [number, noise], "retry": True, "queue": queue}
    job |= {"jid": id.decode(), "created_at": NOW_S - 7200.25, "enqueued_at": NOW_S - 3600.5}
    if id.startswith((b"retry", b"dead")):
        job |= {"error_message": "boom", "error_class": "RuntimeError", "failed_at": NOW_S - 60.5, "retry_count": 3}
    return json.dumps({**job, **other_fields}, separators=(",", ":")).encode()


def build_rewritten_member(id: bytes) -> bytes:
    """Build the Sidekiq job of `build_member` as it is stored after it was enqueued now."""
    return replace_json_fields(build_member(id), {"enqueued_at": b"%d.125" % NOW_S})


def build_identity(id: bytes) -> str:
    return f"host:{parse_number(id)}:{id.decode()}"


def plant_process(client: Redis, name: str, beat_s: float = NOW_S - 1, **info: object) -> None:
    """Plant a Sidekiq process whose last heartbeat was at `beat_s`."""
    client.sadd(KEYS["processes"], name)
    info_text = json.dumps({"queues": [QUEUE], "identity": name, **info})
    client.hset(
        name, mapping={"info": info_text, "beat": beat_s, "busy": 1, "quiet": "false", "rss": 1000, "rtt_us": 90}
    )


def plant_work(
    client: Redis, name: str, payload: bytes, run_at: int = NOW_S, tid: str = "t1", key: str = "work"
) -> None:
    """Plant a job that a Sidekiq process runs (lib/sidekiq/processor.rb)."""
    entry = {"queue": QUEUE, "payload": payload.decode("latin-1"), "run_at": run_at}
    client.hset(f"{name}:{key}", tid, json.dumps(entry).encode())


def plant_jobs(client: Redis, place: str, ids: Sequence[bytes], ripe: bool) -> list[Planted]:
    """Plant Sidekiq jobs in a place, oldest first. The process of a ripe job is dead."""
    client.sadd(KEYS["queues"], QUEUE)
    for id in ids:
        number, job = parse_number(id), build_member(id)
        if place == "queue":
            client.lpush(KEYS[place], job)
        elif place == "work":
            plant_process(client, build_identity(id), NOW_S - 100 if ripe else NOW_S - 1)
            plant_work(client, build_identity(id), job, NOW_S + number - (HOUR_S if ripe else 0))
        else:
            client.zadd(KEYS[place], {job: NOW_S + number + (-HOUR_S if place == "dead" else HOUR_S)})
    return [Planted(id, place, f"{build_identity(id)} t1") for id in ids]


def list_running(client: Redis) -> list[tuple[int, str, bytes]]:
    """Return (start time, process, job) of each job that a Sidekiq process runs."""
    rows = []
    for name in client.smembers(KEYS["processes"]):
        for key in (b":work", b":workers"):
            for entry in client.hvals(name + key):
                work = json.loads(entry)
                rows.append((work["run_at"], name.decode(), work["payload"].encode("latin-1")))
    return sorted(rows)


def list_members(client: Redis, place: str) -> list[bytes]:
    """Return the Sidekiq jobs of a place in its order, without those of another queue in a place of all queues."""
    if place == "work":
        return [payload for _at, _name, payload in list_running(client)]
    if place == "queue":
        return [job for job in client.lrange(KEYS[place], 0, -1)[::-1] if job]  # bump empties the old entry first
    return [job for job in client.zrange(KEYS[place], 0, -1) if json.loads(job)["queue"] == QUEUE]


def list_ids(client: Redis, place: str) -> list[bytes]:
    return [json.loads(job)["jid"].encode() for job in list_members(client, place)]


def read_facts(client: Redis, id: bytes) -> dict[str, object]:
    """Return everything that Redis stores about one Sidekiq job."""
    facts: dict[str, object] = {}
    for place in PLACES:
        jobs = [job for job in list_members(client, place) if json.loads(job)["jid"] == id.decode()]
        scores = [client.zscore(KEYS[place], job) for job in jobs] if place in ZSETS else []
        facts |= {place: (jobs, scores)} if jobs else {}
    for key in (build_identity(id), f"{build_identity(id)}:work", f"it-{id.decode()}"):
        facts |= {key: client.hgetall(key)} if b"-" in id and client.exists(key) else {}
    return facts


def read_body(client: Redis, id: bytes) -> bytes | None:
    """Return the arguments of a Sidekiq job in any place."""
    for place in PLACES:
        for job in list_members(client, place):
            document = json.loads(job)
            if document["jid"] == id.decode():
                return json.dumps(document["args"]).encode()
    return None


def request_rows(name: str, *columns: str, **args: object) -> Callable[[Jobs], Request]:
    """Return a function that builds the request of a Sidekiq verb with one row per job.

    The place of the request is that of the first job.
    """
    values_of: Mapping[str, Callable[[Planted], object]] = {
        "member": lambda job: build_member(job.id),
        "new": lambda job: build_rewritten_member(job.id),
        "token": lambda job: job.token,
        "worker": lambda job: build_identity(job.id),
        "jid": lambda job: job.id,
    }
    declared = {arg.name for arg in SCRIPTS[name].args}

    def build_request(jobs: Jobs) -> Request:
        scalars = {"queue": QUEUE, "now_ms": NOW, "place": jobs[0].place, **args}
        rows = [tuple(values_of[column](job) for column in columns) for job in jobs]
        return Request({key: value for key, value in scalars.items() if key in declared}, rows)

    return build_request


BuildRequest = Callable[[JobDatabase], Request]


def plant_and_request(
    request: Callable[[Jobs], Request], place: str, *prepares: Callable[[Redis, bytes], object], **options: int | bool
) -> BuildRequest:
    """Return a function that plants one more Sidekiq job in `place` and builds the request for that job.

    `prepares` are run on the job first. An empty place means a job that does not exist.
    """

    def plant_job_and_build_request(database: JobDatabase) -> Request:
        job = database.plant(place, 1, bool(options.get("ripe")))[0] if place else database.create_absent_job()
        for prepare in prepares:
            prepare(database.client, job.id)
        return request([job] * int(options.get("rows", 1)))

    return plant_job_and_build_request


def request_in_wrong_place(name: str, place: str, *columns: str) -> BuildRequest:
    """Return a function that builds the request for a Sidekiq job in a place where the verb is not allowed."""
    return plant_and_request(request_rows(name, *columns, place=place), "queue")


def add_to_dead(client: Redis, id: bytes) -> None:
    """Add a Sidekiq job to the dead set."""
    client.zadd(KEYS["dead"], {build_member(id): NOW_S})


def push_job_again(client: Redis, id: bytes) -> None:
    """Push a Sidekiq job a second time, so that the queue has two equal entries."""
    client.rpush(KEYS["queue"], build_member(id))


def plant_iteration(client: Redis, id: bytes) -> None:
    """Plant the progress of a Sidekiq job with iterations."""
    client.hset(f"it-{id.decode()}", mapping={"ex": 1, "c": "7", "rt": 1.5})


def cancel_iteration(client: Redis, id: bytes) -> None:
    """Set the mark that cancels a Sidekiq job with iterations."""
    client.hset(f"it-{id.decode()}", "cancelled", NOW_S)


def surround_job(client: Redis, id: bytes) -> None:
    """Plant thousands of Sidekiq jobs around a job, so that a batch of searches does not fit into one call."""
    others = [build_member(b"other-%d" % n) for n in range(1, 3)]
    client.rpush(KEYS["queue"], *others * 2600)
    client.lpush(KEYS["queue"], *others * 2600)


def empty_places_and_request(*names: str, request: Callable[[Jobs], Request]) -> BuildRequest:
    def empty_places_and_build_request(database: JobDatabase) -> Request:
        database.client.delete(*(KEYS[name] for name in names))
        return request([Planted(b"new-1")])

    return empty_places_and_build_request


def request_enqueue(jobs: Jobs) -> Request:
    return Request({"queue": QUEUE, "now_ms": NOW}, [(job.id, build_member(job.id), None, None) for job in jobs])


def request_restore(jobs: Jobs) -> Request:
    return Request({"queue": QUEUE}, [("dead", "1780000000.5", build_member(job.id)) for job in jobs])


def request_revert(jobs: Jobs) -> Request:
    """Build the request that moves each Sidekiq job to the dead, with other bytes; a dead job moves to retries."""
    rows = [
        (
            job.place or "dead",
            build_member(job.id),
            "retry" if job.place == "dead" else "dead",
            "1780000000.5",
            build_rewritten_member(job.id),
        )
        for job in jobs
    ]
    return Request({"queue": QUEUE}, rows)


def request_move(jobs: Jobs) -> Request:
    """Build the request that moves Sidekiq jobs to the other queue."""
    rows = [(build_member(job.id), build_member(job.id, OTHER_QUEUE), job.place or "dead") for job in jobs]
    return Request({"queue": QUEUE, "to_queue": OTHER_QUEUE}, rows)


def request_move_of_raw_jobs(jobs: Jobs) -> Request:
    """Build the request that moves Sidekiq jobs whose bytes are no job, so that the client built no new bytes."""
    request = request_move(jobs)
    return Request(request.args, [(member, "", place) for member, _new, place in request.rows])


def add_to_dead_of_other_queue(client: Redis, id: bytes) -> None:
    """Add a job of the other Sidekiq queue to the dead set."""
    client.zadd(KEYS["dead"], {build_member(id, OTHER_QUEUE): NOW_S})


def request_limit(name: str, **args: object) -> Callable[[Jobs], Request]:
    """Return a function that builds the request of a Sidekiq verb, with the number of jobs as its limit."""
    request = request_rows(name, **args)
    return lambda jobs: Request({**request([Planted(b"", "queue")]).args, "limit": len(jobs)})


def request_worker(name: str, worker: str) -> Callable[[Jobs], Request]:
    return lambda jobs: Request({}, [(worker,)])


def check_record(database: JobDatabase, reply: Reply) -> None:
    [row] = reply.each
    ids = {build_member(job.id): job.id for job in database.planted if job.place == "dead"}
    assert row.values["place"] == "dead" and row.values["line"] in ids and not row.values["body"]
    assert float(row.values["score"]) == database.client.zscore(KEYS["dead"], row.values["line"])


def check_page(database: JobDatabase, reply: Reply) -> None:
    assert [json.loads(row[0])["jid"].encode() for row in reply.rows] == list_ids(database.client, "dead")


def check_shown_job(database: JobDatabase, reply: Reply) -> None:
    assert reply.values["place"] == "dead" and reply.values["head"] in list_members(database.client, "dead")


def check_counts(database: JobDatabase, reply: Reply) -> None:
    assert {place: reply.values[place] for place in PLACES} == {
        p: len(ids) for p, ids in database.read_members().items()
    }


def request_queue(name: str, **args: object) -> Callable[[Jobs], Request]:
    """Return a function that builds the request of a Sidekiq script that reads a queue and needs no job."""
    declared = {arg.name for arg in SCRIPTS[name].args}
    scalars = {"queue": QUEUE, "prefix": "", "now_ms": NOW, **args}
    return lambda jobs: Request({key: value for key, value in scalars.items() if key in declared})


PAGE = {"place": "dead", "offset": 0, "limit": 100, "body_bytes": -1}
REQUEUE, PROMOTE = request_rows("requeue", "member", "new"), request_rows("promote", "member", "new")
KILL, DELETE, BUMP = request_rows("kill", "member"), request_rows("delete", "member"), request_rows("bump", "member")
RESCHEDULE = request_rows("reschedule", "member", delay_ms=2 * HOUR)
RELEASE, LOST = (request_rows("release", "member", "token", "worker", place=place) for place in ("work", "lost"))
CANCEL = request_rows("cancel", "jid", "member", "token", "worker")
REAP, PURGE = request_limit("reap"), request_limit("purge", place="queue")


def SHOW(jobs: Jobs) -> Request:
    place: dict[str, object] = {"place": "dead", "offset": 0}
    request = request_queue("show", id=jobs[0].id, body_bytes=-1, head="", size=0, tail="", **place)
    return request(jobs)


def request_raw_jobs(name: str) -> Callable[[Jobs], Request]:
    """Return a function that builds the request for Sidekiq jobs that cannot be rewritten."""
    request = request_rows(name, "member")
    return lambda jobs: Request(request(jobs).args, [(*row, "") for row in request(jobs).rows])


USES = {
    "enqueue": Use(request_enqueue, repeats=True),
    "requeue": Use(
        REQUEUE,
        reach={
            "raw": plant_and_request(request_raw_jobs("requeue"), "dead"),
            "gone": plant_and_request(REQUEUE, "retry"),
        },
    ),
    "promote": Use(
        PROMOTE,
        reach={
            "raw": plant_and_request(request_raw_jobs("promote"), "retry"),
            "wrong_place": request_in_wrong_place("promote", "dead", "member", "new"),
            "gone": plant_and_request(PROMOTE, ""),
        },
    ),
    "reschedule": Use(
        RESCHEDULE,
        repeats=True,
        reach={
            "wrong_place": request_in_wrong_place("reschedule", "dead", "member"),
            "gone": plant_and_request(RESCHEDULE, ""),
        },
    ),
    "kill": Use(
        KILL,
        reach={
            "exists": plant_and_request(KILL, "retry", add_to_dead),
            "later": plant_and_request(KILL, "queue", surround_job, rows=50),
            "wrong_place": request_in_wrong_place("kill", "work", "member"),
            "gone": plant_and_request(KILL, ""),
        },
    ),
    "delete": Use(
        DELETE,
        reach={
            "later": plant_and_request(DELETE, "queue", surround_job, rows=50),
            "wrong_place": request_in_wrong_place("delete", "work", "member"),
            "gone": plant_and_request(DELETE, ""),
        },
    ),
    "bump": Use(
        BUMP,
        repeats=True,
        reach={"later": plant_and_request(BUMP, "queue", surround_job, rows=50), "gone": plant_and_request(BUMP, "")},
    ),
    "move": Use(
        request_move,
        reach={
            "exists": plant_and_request(request_move, "dead", add_to_dead_of_other_queue),
            "raw": plant_and_request(request_move_of_raw_jobs, "dead"),
            "later": plant_and_request(request_move, "queue", surround_job, rows=50),
            "wrong_place": plant_and_request(request_move, "work"),
            "gone": plant_and_request(request_move, ""),
        },
    ),
    "purge": Use(PURGE, chooses=True, reach={"empty": empty_places_and_request("queue", request=PURGE)}),
    "reap": Use(REAP, chooses=True, ripe=True, reach={"empty": empty_places_and_request("processes", request=REAP)}),
    "release": Use(
        RELEASE,
        ("work",),
        ripe=True,
        reach={
            "beats": plant_and_request(RELEASE, "work"),
            "queued": plant_and_request(RELEASE, "work", push_job_again, ripe=True),
            "gone": plant_and_request(RELEASE, ""),
        },
    ),
    "quiet": Use(
        request_worker("quiet", "host:1:x"),
        knows_jobs=False,
        prepare=lambda database, jobs: plant_process(database.client, "host:1:x"),
        reach={
            "embedded": lambda database: (
                plant_process(database.client, "host:2:x", embedded=True),
                request_worker("", "host:2:x")([]),
            )[1],
            "gone": lambda database: request_worker("quiet", "host:3:x")([]),
        },
    ),
    "cancel": Use(
        CANCEL,
        ("work",),
        prepare=lambda database, jobs: [plant_iteration(database.client, job.id) for job in jobs] and None,
        reach={
            "already": plant_and_request(CANCEL, "work", plant_iteration, cancel_iteration),
            "not_iterable": plant_and_request(CANCEL, "work"),
            "gone": plant_and_request(CANCEL, ""),
        },
    ),
    "records": Use(
        request_rows("records", "member", "new", most=1 << 20),
        ("dead",),
        reads=check_record,
        reach={
            "later": plant_and_request(request_rows("records", "member", "new", most=0), "dead", rows=2),
            "gone": plant_and_request(request_rows("records", "member", "new", most=1), ""),
        },
    ),
    "restore": Use(request_restore, reach={"exists": plant_and_request(request_restore, "dead", add_to_dead)}),
    "revert": Use(request_revert, reach={"changed": plant_and_request(request_revert, "")}),
    "days": Use(lambda jobs: Request({"prefix": ""}, [("2026-05-28",), ("2026-05-29",)]), ("dead",), knows_jobs=False),
    "counts": Use(request_queue("counts"), ("dead",), knows_jobs=False, reads=check_counts),
    "tally": Use(
        lambda jobs: Request(request_queue("tally")([]).args, each_keys=[[KEYS["queue"]]]), ("dead",), knows_jobs=False
    ),
    "page": Use(request_queue("page", **PAGE), ("dead",), knows_jobs=False, reads=check_page),
    "scan": Use(request_queue("scan", **PAGE), ("dead",), knows_jobs=False, reads=check_page),
    "show": Use(SHOW, ("dead",), reads=check_shown_job, reach={"gone": lambda database: SHOW([Planted(b"x")])}),
    "stands": Use(
        lambda jobs: Request(request_queue("stands")([]).args, [(job.id, build_member(job.id)) for job in jobs]),
        ("dead",),
        knows_jobs=False,
    ),
    **{
        name: Use(request_queue(name), ("dead",), knows_jobs=False)
        for name in ("faults", "kinds", "roster", "schedules", "spread")
    },
}
USES["stop"] = USES["quiet"]
USES |= {name: Use(request_queue(name), ("dead",), knows_jobs=False) for name in sorted(READERS - USES.keys())}


def is_derived_key(key: str) -> bool:
    """Return whether a Sidekiq key belongs to one process, so that script headers do not declare it by name."""
    return key.startswith(("host:", "it-"))


ALIKE = frozenset({"schedule"})  # a sorted set by due time, as retry is
SIDEKIQ = Subject(
    "sidekiq",
    SCRIPTS,
    PLACES,
    lambda n: KEYS.get(n, KEYS["processes"]),
    plant_jobs,
    list_ids,
    read_facts,
    read_body,
    USES,
    is_derived_key,
    ALIKE,
)
