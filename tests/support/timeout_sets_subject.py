"""Describe the three sets of distributed-timeout-queue for the conformance suite.

Jobs are planted by the raw commands of that package: SADD, and an empty lock with an expiry for an item in progress. A
set has no order and a script draws any member, so `remove_other_items` leaves a drawing script only its targets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from redis import Redis

from rqtui.model import Job, Ref
from rqtui.scripts import script as scripts
from rqtui.scripts.script import Reply
from rqtui.systems.timeout_sets import TimeoutSets
from rqtui.testing.subject import JobDatabase, Planted, Request, Subject, Use

NOW = 1_760_000_000_000
HOUR = 3_600_000
PLACES = ("todos", "in_progress", "done")
SYSTEM, REF = TimeoutSets({}), Ref("timeout_sets", "todos")
KEYS = SYSTEM.keys("todos")
SUSPECTS = KEYS["suspects"]
Jobs = Sequence[Planted]
BuildRequest = Callable[[Jobs], Request]


def build_key(name: str) -> str:
    return KEYS[name]


def build_lock_key(item: bytes) -> str:
    return item.decode() + "-lock"


def plant_jobs(client: Redis, place: str, ids: Sequence[bytes], ripe: bool) -> list[Planted]:
    """Plant items as distributed-timeout-queue leaves them. A ripe item has no lock, and was noted 3 s ago."""
    for number, id in enumerate(ids):
        client.sadd(place, id)
        if place == "in_progress" and ripe:
            client.zadd(SUSPECTS, {id: NOW - 3000 + number})
        elif place == "in_progress":
            client.set(build_lock_key(id), "", px=HOUR)
    return [Planted(id, place) for id in ids]


def list_ids(client: Redis, place: str) -> list[bytes]:
    return sorted(client.smembers(place))


def read_facts(client: Redis, id: bytes) -> object:
    return client.get(build_lock_key(id))


def read_body(client: Redis, id: bytes) -> bytes | None:
    return id if any(client.sismember(place, id) for place in PLACES) else None


def remove_other_items(database: JobDatabase, targets: Jobs) -> None:
    """Remove all items but the targets from the set that contains the targets."""
    for job in database.planted:
        if targets[0].place == job.place and job not in targets:
            database.client.srem(job.place, job.id)
    database.planted = [job for job in database.planted if job in targets or job.place != targets[0].place]


# --- the requests of each script ------------------------------------------------------------------------------------


def request_by_member(**args: object) -> BuildRequest:
    return lambda jobs: Request(args, [{"member": job.id} for job in jobs])


def request_by_token(**args: object) -> BuildRequest:
    return lambda jobs: Request({"prefix": "", **args}, [(job.id, job.token) for job in jobs])


def request_limit(**args: object) -> BuildRequest:
    return lambda jobs: Request({"limit": len(jobs), **args})


def request_enqueue(jobs: Jobs) -> Request:
    return Request({"items": "auto"}, [(job.id,) for job in jobs])


def request_delete(force: bool = True) -> BuildRequest:
    return lambda jobs: request_by_token(place=jobs[0].place, force=force)(jobs)


def request_page(jobs: Jobs) -> Request:
    args = {"now_ms": NOW, "place": "todos", "limit": 100, "body_bytes": 0, "prefix": "", "cursor": "0"}
    return Request(args, [(jobs[0].id,), (b"nobody",)])


def request_show(jobs: Jobs) -> Request:
    id = jobs[0].id
    args = {"head": id, "size": len(id), "tail": id[-64:], "body_bytes": -1, "prefix": ""}
    return Request({"now_ms": NOW, **args})


def plant_and_request(
    request: BuildRequest, place: str, prepare: Callable[[JobDatabase, Planted], object] | None = None
) -> Callable[[JobDatabase], Request]:
    """Return a function that plants one more item in `place` and builds the request for that item.

    An empty place means an item that does not exist.
    """

    def plant_item_and_build_request(database: JobDatabase) -> Request:
        job = database.plant(place)[0] if place else database.create_absent_job()
        if prepare:
            prepare(database, job)
        return request([job])

    return plant_item_and_build_request


def lock_for_another_worker(database: JobDatabase, job: Planted) -> None:
    database.client.set(build_lock_key(job.id), "1760000000000000-1 w2", px=HOUR)


def replace_lock_by_list(database: JobDatabase, job: Planted) -> None:
    database.client.delete(build_lock_key(job.id))
    database.client.rpush(build_lock_key(job.id), "no lock")


def empty_sets_and_request(request: BuildRequest, place: str) -> Callable[[JobDatabase], Request]:
    def empty_sets_and_build_request(database: JobDatabase) -> Request:
        database.client.delete(place)
        return request([Planted(b"")])

    return empty_sets_and_build_request


def request_text_among_integers(database: JobDatabase) -> Request:
    database.client.delete(*PLACES)
    database.client.sadd("todos", 1, 2)
    return request_enqueue([Planted(b"url1")])


def check_counts(database: JobDatabase, reply: Reply) -> None:
    assert {place: reply.values[place] for place in PLACES} == {
        p: len(ids) for p, ids in database.read_members().items()
    }


def check_page(database: JobDatabase, reply: Reply) -> None:
    assert sorted(row[0] for row in reply.rows) == list_ids(database.client, "todos")
    assert reply.values["of"] == len(reply.rows) and reply.values["cursor"] == "0"


def check_shown_job(database: JobDatabase, reply: Reply) -> None:
    head = reply.values["head"]
    assert reply.values["place"] == "in_progress" and head in list_ids(database.client, "in_progress")
    assert (reply.values["size"], reply.values["lock"]) == (len(head), b"")
    assert HOUR - 60_000 < reply.values["lock_ms"] <= HOUR


def check_no_problems(database: JobDatabase, reply: Reply) -> None:
    assert reply.rows == [] and reply.values["looked"] == sum(map(len, database.read_members().values()))


STALE = {
    "stale": plant_and_request(request_by_token(), "in_progress", lock_for_another_worker),
    "gone": plant_and_request(request_by_token(), ""),
}
SETTLED = STALE | {"wrong_type": plant_and_request(request_by_token(), "in_progress", replace_lock_by_list)}
EXTEND, LEASE = request_by_token(now_ms=NOW, lock_ms=1000), {"now_ms": NOW, "lock_ms": 1000, "prefix": ""}
RESERVE, PULL, REAP = (
    request_limit(**LEASE, worker="w1"),
    request_limit(now_ms=NOW, prefix=""),
    request_limit(now_ms=NOW, prefix=""),
)

USES = {
    "enqueue": Use(
        request_enqueue,
        reach={
            "exists": plant_and_request(request_enqueue, "todos"),
            "done": plant_and_request(request_enqueue, "done"),
            "refused": request_text_among_integers,
        },
    ),
    "reserve": Use(
        RESERVE, chooses=True, prepare=remove_other_items, reach={"empty": empty_sets_and_request(RESERVE, "todos")}
    ),
    "pull": Use(PULL, chooses=True, prepare=remove_other_items, reach={"empty": empty_sets_and_request(PULL, "todos")}),
    "ack": Use(request_by_token(), reach={**SETTLED, "done": plant_and_request(request_by_token(), "done")}),
    "release": Use(request_by_token(), reach=SETTLED),
    "extend": Use(
        EXTEND,
        ("in_progress",),
        repeats=True,
        reach={
            "stale": plant_and_request(EXTEND, "in_progress", lock_for_another_worker),
            "gone": plant_and_request(EXTEND, ""),
            "wrong_type": plant_and_request(EXTEND, "in_progress", replace_lock_by_list),
        },
    ),
    "requeue": Use(
        request_by_member(),
        reach={
            "wrong_place": plant_and_request(request_by_member(), "todos"),
            "gone": plant_and_request(request_by_member(), ""),
        },
    ),
    "delete": Use(
        request_delete(),
        reach={
            "reserved": plant_and_request(request_delete(force=False), "in_progress"),
            "stale": lambda database: request_delete()(
                [Planted(database.plant("in_progress")[0].id, "in_progress", "12345")]
            ),
            "wrong_place": plant_and_request(request_by_token(place="done"), "todos"),
            "gone": plant_and_request(request_delete(), ""),
            "wrong_type": plant_and_request(request_delete(), "in_progress", replace_lock_by_list),
        },
    ),
    "purge": Use(
        lambda jobs: Request({"place": jobs[0].place, "limit": len(jobs)}),
        chooses=True,
        prepare=remove_other_items,
        reach={
            "empty": empty_sets_and_request(request_limit(place="done"), "done"),
            "reserved": lambda database: Request({"place": "in_progress", "limit": 1}),
        },
    ),
    "reap": Use(REAP, chooses=True, ripe=True, reach={"empty": empty_sets_and_request(REAP, "in_progress")}),
    "counts": Use(lambda jobs: Request({"now_ms": NOW, "prefix": ""}), knows_jobs=False, reads=check_counts),
    "page": Use(request_page, ("todos",), knows_jobs=False, reads=check_page),
    "show": Use(
        request_show, ("in_progress",), reads=check_shown_job, reach={"gone": plant_and_request(request_show, "")}
    ),
    "faults": Use(
        lambda jobs: Request({"items": "auto", "prefix": ""}), ("todos",), knows_jobs=False, reads=check_no_problems
    ),
}

TIMEOUT_SETS = Subject(
    "timeout_sets",
    SYSTEM.scripts,
    PLACES,
    build_key,
    plant_jobs,
    list_ids,
    read_facts,
    read_body,
    USES,  # type: ignore[arg-type]
    is_derived=lambda key: key.endswith("-lock"),
)


# --- for the tests of this system alone -------------------------------------------------------------------------------


def run_script(client: Redis, verb: str, rows: Sequence[Mapping[str, object]] = (), **args: object) -> Reply:
    return scripts.run_call(client, SYSTEM.build_call(verb, "todos", args, rows))


def read_outcomes(reply: Reply) -> list[str]:
    return [row.word for row in reply.each]


def read_places(client: Redis) -> dict[str, set[bytes]]:
    return {place: client.smembers(place) for place in PLACES}


def run_in_script_gap(gap: str, act: Callable[[], object]) -> Callable[[str], None]:
    """Return a `pause` function that calls `act` in the gap of this name between two commands of the package."""
    return lambda name: act() and None if name == gap else None


def enqueue_items(client: Redis, *items: object) -> list[str]:
    return read_outcomes(run_script(client, "enqueue", [{"body": str(item)} for item in items]))


def reserve_one(client: Redis, **args: object) -> Job:
    (job,) = SYSTEM.read_taken_jobs("todos", run_script(client, "reserve", limit=1, **args))
    return job


def settle_lease(client: Redis, verb: str, job: Job) -> str:
    """Run a verb such as ack on the lease of a job, and return the script's word."""
    return read_outcomes(run_script(client, verb, [{"member": job.member, "token": job.token}]))[0]


def reap_items(client: Redis, now_ms: int, limit: int = 100, **args: object) -> Reply:
    return run_script(client, "reap", limit=limit, now_ms=now_ms, **args)
