"""The system arq for the conformance suite: jobs as arq 0.28 writes them, with pickles of protocol 4."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence

from redis import Redis

from rqtui.scripts import script as scripts
from rqtui.scripts.script import Reply
from rqtui.testing.subject import JobDatabase, Planted, Request, Subject, Use

NOW, HOUR = 1_780_000_000_000, 3_600_000
QUEUE = "arq:queue"
SCRIPTS = scripts.load_scripts("arq")
PLACES = ("deferred", "queued", "in_progress", "complete", "failed")
KEYS = {"ids": QUEUE, "abort": "arq:abort", "health_check": f"{QUEUE}:health-check"}
LEASE_MS = 310_000
EXPIRES_MS = 86_400_000
Jobs = Sequence[Planted]


def build_key(name: str) -> str:
    """Return the Redis key that script headers call by this name, or the beginning of the keys of a place."""
    if name in ("complete", "failed"):
        return "arq:result:"
    return KEYS["ids"] if name in ("deferred", "queued", "in_progress") else KEYS[name]


def encode_job(function: str, *args: object, tries: int | None = None, at_ms: int | None = None) -> bytes:
    """Encode a job as `arq.jobs.serialize_job` does."""
    return pickle.dumps(
        {"t": tries, "f": function, "a": args, "k": {}, "et": NOW - HOUR if at_ms is None else at_ms}, protocol=4
    )


def encode_result(
    id: str, function: str, *args: object, result: object = None, queue: str = QUEUE, at_ms: int | None = None
) -> bytes:
    """Encode a result as `arq.jobs.serialize_result` does. A result that is an exception is a failure."""
    end_ms = NOW if at_ms is None else at_ms
    row = {"t": 1, "f": function, "a": args, "k": {}, "et": end_ms - 5000, "s": not isinstance(result, Exception)}
    return pickle.dumps({**row, "r": result, "st": end_ms - 3000, "ft": end_ms, "q": queue, "id": id}, protocol=4)


def plant_job(client: Redis, place: str, id: str, number: int = 0, args: Sequence[object] = (1,)) -> None:
    """Plant one job in a place of arq as its own client and workers leave it."""
    if place in ("complete", "failed"):
        result = ValueError("no such order") if place == "failed" else "sent"
        record = encode_result(id, "send", *args, result=result, at_ms=NOW - HOUR + number * 1000)
        client.set(f"arq:result:{id}", record, px=HOUR)
        return
    due_ms = NOW + number * 1000 + (HOUR if place == "deferred" else -HOUR)
    client.set(f"arq:job:{id}", encode_job("send", *args), px=EXPIRES_MS + HOUR)
    client.zadd(QUEUE, {id: due_ms})
    if place == "in_progress":
        client.set(f"arq:in-progress:{id}", "1", px=LEASE_MS)
        client.set(f"arq:retry:{id}", "1", ex=88_400)


def plant_jobs(client: Redis, place: str, ids: Sequence[bytes], _ripe: bool) -> list[Planted]:
    first = client.zcard(QUEUE) + sum(1 for _ in client.scan_iter("arq:result:*"))
    pipe = client.pipeline(transaction=False)
    for number, id in enumerate(ids, first):
        plant_job(pipe, place, id.decode(), number, ("x" * 5000 if number % 3 == 0 else number,))
    pipe.execute()
    return [Planted(id, place, str(NOW + LEASE_MS) if place == "in_progress" else "") for id in ids]


def list_ids(client: Redis, place: str) -> list[bytes]:
    """Return the ids of a place in its order: by due time, or those that ended last first."""
    if place in ("complete", "failed"):
        results = []
        for key in client.scan_iter("arq:result:*", count=1000):
            value = pickle.loads(client.get(key) or b"N.")  # noqa: S301 (a test wrote it)
            if value and value["s"] == (place == "complete"):
                results.append((-value["ft"], key.removeprefix(b"arq:result:")))
        return [id for _at, id in sorted(results)]
    found = []
    for id, score in client.zrange(QUEUE, 0, -1, withscores=True):
        is_running = client.exists(f"arq:in-progress:{id.decode()}")
        where = "in_progress" if is_running else "deferred" if score > NOW else "queued"
        if where == place:
            found.append(id)
    return found


def read_facts(client: Redis, id: bytes) -> dict[str, object]:
    """Return everything that Redis stores about one job, without the times at which its keys expire."""
    facts: dict[str, object] = {
        name: client.get(b"arq:%s:%s" % (name.encode(), id)) for name in ("job", "result", "in-progress", "retry")
    }
    facts |= {name: client.zscore(KEYS[name], id) for name in ("ids", "abort")}
    return {name: value for name, value in facts.items() if value is not None}


def read_body(client: Redis, id: bytes) -> bytes | None:
    """Return the arguments in the record of a job, because a requeue writes another record of the same call."""
    record = client.get(b"arq:job:" + id) or client.get(b"arq:result:" + id)
    if record is None:
        return None
    value = pickle.loads(record)  # noqa: S301 (a test wrote it)
    return repr((value["f"], value["a"], value["k"])).encode() if isinstance(value, dict) else record


def run_script(client: Redis, verb: str, rows: Sequence[object] = (), **args: object) -> Reply:
    """Run a script on the test's queue."""
    script = SCRIPTS[verb]
    for name, value in {"now_ms": NOW, "expires_ms": EXPIRES_MS}.items():
        if any(arg.name == name for arg in script.args):
            args.setdefault(name, value)
    return scripts.run_call(client, script.build_call({key.name: KEYS[key.name] for key in script.keys}, args, rows))


def request_rows(name: str, rows: Callable[[Planted], tuple[object, ...]], **args: object) -> Callable[[Jobs], Request]:
    """Return a function that builds the request of a verb with one row per job."""
    declared = {arg.name for arg in SCRIPTS[name].args}
    scalars = {
        name: value for name, value in {"now_ms": NOW, "expires_ms": EXPIRES_MS, **args}.items() if name in declared
    }
    return lambda jobs: Request(scalars, [rows(job) for job in jobs])


def request_by_id(name: str, **args: object) -> Callable[[Jobs], Request]:
    return request_rows(name, lambda job: (job.id,), **args)


def plant_and_request(
    request: Callable[[Jobs], Request], place: str, prepare: Callable[[Redis, str], object] | None = None
) -> Callable[[JobDatabase], Request]:
    """Return a function that plants one more job in `place` and builds the request for it; empty: an absent job."""

    def plant_job_and_build_request(database: JobDatabase) -> Request:
        job = database.plant(place)[0] if place else database.create_absent_job()
        if prepare:
            prepare(database.client, job.id.decode())
        return request([job])

    return plant_job_and_build_request


RECORDS: dict[bytes, bytes] = {}
"""By id: the results that `request_requeue` compares with those in Redis."""


def remember_results(database: JobDatabase, jobs: Jobs) -> None:
    for job in jobs:
        RECORDS[job.id] = database.client.get(b"arq:result:" + job.id) or b"?"


def request_requeue(jobs: Jobs) -> Request:
    def build_row(job: Planted) -> tuple[object, ...]:
        record = RECORDS.get(job.id, b"?")
        value = pickle.loads(record) if record != b"?" else {"f": "send", "a": (1,)}  # noqa: S301 (a test wrote it)
        return job.id, record, encode_job(value["f"], *value["a"], at_ms=NOW)

    return Request({"now_ms": NOW, "expires_ms": EXPIRES_MS}, [build_row(job) for job in jobs])


def reach_requeue(
    place: str, prepare: Callable[[Redis, str], object] | None = None
) -> Callable[[JobDatabase], Request]:
    def build_request(database: JobDatabase) -> Request:
        job = database.plant(place)[0] if place else database.create_absent_job()
        remember_results(database, [job])
        if prepare:
            prepare(database.client, job.id.decode())
        return request_requeue([job])

    return build_request


def check_counts(database: JobDatabase, reply: Reply) -> None:
    in_queue = {place: len(ids) for place, ids in database.read_members().items() if place in PLACES[:3]}
    assert {place: reply.values[place] for place in PLACES[:3]} == in_queue


def check_page(database: JobDatabase, reply: Reply) -> None:
    assert [row[0] for row in reply.rows] == list_ids(database.client, "queued")
    assert reply.values["total"] == len(reply.rows)


def check_shown_job(database: JobDatabase, reply: Reply) -> None:
    assert reply.values["place"] == "queued"


def check_walk(database: JobDatabase, reply: Reply) -> None:
    ended = sorted(list_ids(database.client, "complete") + list_ids(database.client, "failed"))
    assert sorted(row[0] for row in reply.rows) == ended
    assert reply.values["cursor"] == "0"
    assert all(row[3] == database.client.get(b"arq:result:" + row[0]) for row in reply.rows)


def check_no_problems(_database: JobDatabase, reply: Reply) -> None:
    assert [row[0] for row in reply.rows] in ([], ["no_live_worker"])


SHOW: Callable[[Jobs], Request] = lambda jobs: Request({"now_ms": NOW, "id": jobs[0].id, "body_bytes": -1})  # noqa: E731
PUT = request_rows("enqueue", lambda job: (job.id, encode_job("send", 1), None, None))
RELEASE = request_rows("release", lambda job: (job.id, job.token or "1"))
USES = {
    "enqueue": Use(PUT, reach={"exists": plant_and_request(PUT, "failed")}),
    "promote": Use(
        request_by_id("promote"),
        reach={
            "wrong_place": plant_and_request(request_by_id("promote"), "queued"),
            "gone": plant_and_request(request_by_id("promote"), ""),
        },
    ),
    "reschedule": Use(
        request_by_id("reschedule", delay_ms=2 * HOUR),
        repeats=True,
        reach={
            "wrong_place": plant_and_request(request_by_id("reschedule", delay_ms=HOUR), "in_progress"),
            "gone": plant_and_request(request_by_id("reschedule", delay_ms=HOUR), ""),
        },
    ),
    "requeue": Use(
        request_requeue,
        prepare=remember_results,
        reach={
            "exists": reach_requeue("failed", lambda client, id: client.zadd(QUEUE, {id: NOW})),
            "changed": reach_requeue("failed", lambda client, id: client.append(f"arq:result:{id}", "x")),
            "gone": reach_requeue(""),
        },
    ),
    "cancel": Use(
        request_by_id("cancel"),
        ("in_progress",),
        reach={
            "already": plant_and_request(
                request_by_id("cancel"), "in_progress", lambda client, id: client.zadd("arq:abort", {id: NOW})
            ),
            "wrong_place": plant_and_request(request_by_id("cancel"), "queued"),
            "gone": plant_and_request(request_by_id("cancel"), ""),
        },
    ),
    "delete": Use(
        request_by_id("delete"),
        reach={
            "reserved": plant_and_request(request_by_id("delete"), "in_progress"),
            "gone": plant_and_request(request_by_id("delete"), ""),
        },
    ),
    "release": Use(
        RELEASE,
        reach={"stale": plant_and_request(RELEASE, "queued"), "gone": plant_and_request(RELEASE, "")},
    ),
    "counts": Use(lambda jobs: Request({"now_ms": NOW}), ("queued",), knows_jobs=False, reads=check_counts),
    "page": Use(
        lambda jobs: Request({"now_ms": NOW, "place": "queued", "offset": 0, "limit": 100, "body_bytes": 20}),
        ("queued",),
        knows_jobs=False,
        reads=check_page,
    ),
    "show": Use(SHOW, ("queued",), reads=check_shown_job, reach={"gone": plant_and_request(SHOW, "")}),
    "record_walk": Use(
        lambda jobs: Request({"cursor": "0", "keys": 1000, "read_bytes": 1_000_000}),
        ("failed",),
        knows_jobs=False,
        reads=check_walk,
    ),
    "faults": Use(lambda jobs: Request({"now_ms": NOW}), ("queued",), knows_jobs=False, reads=check_no_problems),
}


def make_starved(client: Redis) -> None:
    """Let 100 jobs run at the head of the queue."""
    for number in range(100):
        plant_job(client, "in_progress", f"running-{number}", -number - 1)


def make_unreported(client: Redis) -> None:
    """Let no job run: the in-progress keys expired, and no worker has reported."""
    for key in client.scan_iter("arq:in-progress:*"):
        client.delete(key)


def make_idle(client: Redis) -> None:
    """Let no job run, although a worker has reported."""
    make_unreported(client)
    client.set(KEYS["health_check"], "Nov-22 04:50:04 j_complete=2 j_failed=0")


def is_derived(key: str) -> bool:
    return key.startswith(("arq:job:", "arq:result:", "arq:in-progress:", "arq:retry:"))


ARQ = Subject(
    "arq",
    SCRIPTS,
    PLACES,
    build_key,
    plant_jobs,
    list_ids,
    read_facts,
    read_body,
    USES,
    is_derived,
    queue=QUEUE,
    shown_facts={
        "queued": {"name": "send"},
        "in_progress": {"attempts": 1},
        "complete": {"attempts": 1, "ran_ms": 3000},
        "failed": {"error": "ValueError: no such order", "name": "send"},
    },
    attempts_after={"requeue": lambda _attempts: 0},
    faults={
        "starved": make_starved,
        "abort_leak": lambda client: client.zadd("arq:abort", {"old": NOW - HOUR}),
        "expired": lambda client: client.delete("arq:job:queued-1", *client.scan_iter("arq:job:queued-*")),
        "no_live_worker": make_unreported,
        "idle_workers": make_idle,
    },
)
