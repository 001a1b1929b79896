"""Describe the system `dispatcher` for the conformance suite: tasks as producers write them, by ZADD and RPUSH.

A task is its bytes and has no id. In the suite's test databases its id is the part in front of the first `|`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from redis import Redis

from rqtui.scripts import script as scripts
from rqtui.scripts.script import Reply
from rqtui.testing.subject import JobDatabase, Planted, Request, Subject, Use

NOW = 1_800_000_000_000
HOUR = 3_600_000
KEYS = {"delayed": "delayedtaskset", "ready": "readytasklist", "leaving": "rqtui:{readytasklist}:leaving"}
SCRIPTS = scripts.load_scripts("dispatcher")
Jobs = Sequence[Planted]


def build_task(id: bytes) -> bytes:
    """Build the bytes of the task `id`. Every third task is longer than a page shows."""
    number = int(id.rpartition(b"-")[2])
    return id + b"|" + b"x" * (5000 if number % 3 == 0 else number)


def parse_id(entry: bytes) -> bytes:
    """Return the id in the bytes of a task: the part before the first `|`, also of a parked task."""
    return entry.partition(b"|")[0].rpartition(b" ")[2]


def plant_jobs(client: Redis, place: str, ids: Sequence[bytes], ripe: bool) -> list[Planted]:
    """Plant tasks in a place as redis_queue_dispatcher's producer (ZADD) and the program itself (RPUSH) do."""
    pipe = client.pipeline(transaction=False)
    for id in ids:
        number = int(id.rpartition(b"-")[2])
        if place == "ready":
            pipe.rpush(KEYS["ready"], build_task(id))
        else:
            pipe.zadd(KEYS["delayed"], {build_task(id): (NOW + (-HOUR if ripe else HOUR)) // 1000 + number})
    pipe.execute()
    return [Planted(id, place) for id in ids]


def list_tasks(client: Redis, place: str) -> list[bytes]:
    """Return the tasks of a place of redis_queue_dispatcher in its order."""
    if place == "delayed":
        return client.zrange(KEYS["delayed"], 0, -1)
    return client.lrange(KEYS[place], 0, -1)


def list_ids(client: Redis, place: str) -> list[bytes]:
    return [parse_id(entry) for entry in list_tasks(client, place)]


def read_facts(client: Redis, id: bytes) -> object:
    """Return a task's due time and how often it is ready and parked; None if it is in no place."""
    facts = (
        client.zscore(KEYS["delayed"], build_task(id)),
        list_ids(client, "ready").count(id),
        list_ids(client, "leaving").count(id),
    )
    return facts if any(fact not in (None, 0) for fact in facts) else None


def read_body(client: Redis, id: bytes) -> bytes | None:
    for place in KEYS:
        for entry in list_tasks(client, place):
            if parse_id(entry) == id:
                return entry.partition(b" ")[2] if place == "leaving" else entry
    return None


def request_by_member(**args: object) -> Callable[[Jobs], Request]:
    """Return a function that builds a request with one row per task, named by its bytes."""
    return lambda jobs: Request(args, [(build_task(job.id),) for job in jobs])


def request_delete(jobs: Jobs) -> Request:
    return Request({"place": jobs[0].place or "ready"}, [(build_task(job.id),) for job in jobs])


def request_limit(**args: object) -> Callable[[Jobs], Request]:
    """Return a function that builds a request for as many tasks as it gets."""
    return lambda jobs: Request({"limit": max(1, len(jobs)), **args})


def request_park(jobs: Jobs) -> Request:
    """Build a request that parks jobs of one place. Without a place, the ready tasks would always be first."""
    return Request({"limit": len(jobs), "place": jobs[0].place})


def request_enqueue(delay_ms: int) -> Callable[[Jobs], Request]:
    """Return a function that builds the request that enqueues tasks, due `delay_ms` from now."""
    return lambda jobs: Request({"now_ms": NOW}, [{"body": build_task(job.id), "delay_ms": delay_ms} for job in jobs])


def request_enqueue_again(database: JobDatabase) -> Request:
    """Build the request that enqueues a task whose bytes are already delayed."""
    return request_enqueue(HOUR)(database.plant("delayed"))


def park_jobs(database: JobDatabase, jobs: Jobs) -> None:
    """Run the script `park` on the tasks, so that they are in the list `leaving`."""
    for job in jobs:
        database.client.rpush(KEYS["leaving"], b"0 " + build_task(job.id))


def request_forget(jobs: Jobs) -> Request:
    """Build the request that deletes parked tasks after they were copied."""
    return Request({}, [(b"0 " + build_task(job.id),) for job in jobs])


def request_unknown_job(request: Callable[[Jobs], Request]) -> Callable[[JobDatabase], Request]:
    """Return a function that builds the request for a task that is in no place."""
    return lambda database: request([database.create_absent_job()])


def empty_places_and_request(request: Request) -> Callable[[JobDatabase], Request]:
    """Return a function that deletes the jobs of every place and returns the request."""

    def empty_places_and_build_request(database: JobDatabase) -> Request:
        database.client.delete(*KEYS.values())
        return request

    return empty_places_and_build_request


def check_counts(database: JobDatabase, reply: Reply) -> None:
    assert {place: reply.values[place] for place in ("delayed", "ready")} == {
        place: len(ids) for place, ids in database.read_members().items()
    }
    first_score = database.client.zrange(KEYS["delayed"], 0, 0, withscores=True)[0][1]
    assert (reply.values["due_ms"], reply.values["overdue"]) == (int(first_score * 1000), 0)


def check_page_of(place: str) -> Callable[[JobDatabase, Reply], None]:
    """Return a function that checks that the reply of `page` lists the planted tasks of a place."""

    def check_page_of_place(database: JobDatabase, reply: Reply) -> None:
        tasks = list_tasks(database.client, place)
        assert reply.values["total"] == len(tasks) == len(reply.rows)
        for (head, size, tail, score), task in zip(reply.rows, tasks, strict=True):
            assert (head, size, tail) == (task if len(task) <= 4096 else task[:4096], len(task), task[-64:])
            expected_score = database.client.zscore(KEYS["delayed"], task) if place == "delayed" else None
            assert (float(score) if score else None) == expected_score

    return check_page_of_place


def check_shown_job(database: JobDatabase, reply: Reply) -> None:
    place = reply.values["place"]
    assert reply.values["head"] in list_tasks(database.client, place)
    assert bool(reply.values["score"]) == (place == "delayed")


def check_no_problems(database: JobDatabase, reply: Reply) -> None:
    """Check that the script `faults` reports nothing about the planted tasks."""
    assert (reply.values["looked"], reply.rows) == (len(list_tasks(database.client, "delayed")), [])


def request_show(jobs: Jobs) -> Request:
    task = build_task(jobs[0].id)
    return Request({"now_ms": NOW, "head": task, "size": len(task), "tail": task[-64:], "body_bytes": -1})


def request_page(jobs: Jobs) -> Request:
    return Request({"now_ms": NOW, "place": jobs[0].place, "offset": 0, "limit": 100, "body_bytes": 20})


def check_page(database: JobDatabase, reply: Reply) -> None:
    check_page_of("delayed" if reply.rows[0][3] else "ready")(database, reply)


BOTH = ("delayed", "ready")
USES = {
    "counts": Use(lambda jobs: Request({"now_ms": NOW}), knows_jobs=False, reads=check_counts),
    "page": Use(request_page, BOTH, knows_jobs=False, reads=check_page),
    "show": Use(request_show, BOTH, reads=check_shown_job, reach={"gone": request_unknown_job(request_show)}),
    "faults": Use(lambda jobs: Request(), knows_jobs=False, reads=check_no_problems),
    "enqueue": Use(request_enqueue(0), repeats=True, reach={"exists": request_enqueue_again}),
    "dispatch": Use(
        request_limit(now_ms=NOW),
        chooses=True,
        ripe=True,
        reach={"empty": empty_places_and_request(Request({"now_ms": NOW, "limit": 1}))},
    ),
    "promote": Use(request_by_member(), reach={"gone": request_unknown_job(request_by_member())}),
    "reschedule": Use(
        request_by_member(now_ms=NOW, delay_ms=2 * HOUR),
        repeats=True,
        reach={"gone": request_unknown_job(request_by_member(now_ms=NOW, delay_ms=1))},
    ),
    "delete": Use(request_delete, reach={"gone": request_unknown_job(request_delete)}),
    "pull": Use(
        request_limit(now_ms=NOW), chooses=True, reach={"empty": empty_places_and_request(Request({"limit": 1}))}
    ),
    "park": Use(request_park, chooses=True, reach={"empty": empty_places_and_request(Request({"limit": 1}))}),
    "forget": Use(request_forget, prepare=park_jobs, reach={"gone": request_unknown_job(request_forget)}),
}

DISPATCHER = Subject("dispatcher", SCRIPTS, BOTH, KEYS.__getitem__, plant_jobs, list_ids, read_facts, read_body, USES)  # type: ignore[arg-type]


# ── for the tests of this system alone ───────────────────────────────────────────────────────────────────────────────

DELAYED, READY = KEYS["delayed"], KEYS["ready"]


def run_script(client: Redis, name: str, *rows: Any, **args: Any) -> Reply:
    """Run a script of the system `dispatcher` on the test's queue."""
    declared = {arg.name for arg in SCRIPTS[name].args}
    scalars = {"now_ms": NOW, **args} if "now_ms" in declared else args
    return scripts.run_call(client, SCRIPTS[name].build_call(KEYS, scalars, rows))


def read_outcomes(reply: Reply) -> list[str]:
    """Return the word of each row of a script's reply."""
    return [row.word for row in reply.each]


def read_delayed(client: Redis) -> dict[bytes, float]:
    """Return the due times of the delayed tasks, by task."""
    return dict(client.zrange(DELAYED, 0, -1, withscores=True))


def list_ready(client: Redis) -> list[bytes]:
    """Return the ready tasks, the next one first."""
    return client.lrange(READY, 0, -1)
