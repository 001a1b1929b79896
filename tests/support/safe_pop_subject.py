"""The system safe_pop for the conformance suite: jobs as redis-queue writes them, and a request for each script."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from redis import Redis

from rqtui.scripts import script as scripts
from rqtui.scripts.script import Reply
from rqtui.testing.subject import JobDatabase, Planted, Request, Subject, Use

SCRIPTS = scripts.load_scripts("safe_pop")
PLACES = ("ready", "in_progress", "expired")
QUEUE = "crawl"
NOW_S = 1_800_000_000
NOW = NOW_S * 1000
TIMEOUT_S = 30
LATE, RUNNING = NOW_S - 3600, NOW_S - 20
Jobs = Sequence[Planted]


def build_key(name: str) -> str:
    return f"{QUEUE}:done" if name == "done" else QUEUE


def build_data_key(id: bytes) -> str:
    return f"{QUEUE}:data:{id.decode()}"


def find_entry_place(entry: bytes) -> str:
    """Return the place of a safe_pop list entry: ready, running or late, by the time in the entry."""
    _id, bar, seconds = entry.partition(b"|")
    if not bar:
        return "ready"
    return "expired" if NOW_S - int(seconds) > TIMEOUT_S else "in_progress"


def plant_jobs(client: Redis, place: str, ids: Sequence[bytes], ripe: bool) -> list[Planted]:
    """Push safe_pop jobs, the oldest first. Two of three have a message, as push_msg leaves it.

    The others are only their id.
    """
    jobs = []
    for id in ids:
        number = client.llen(QUEUE)
        if number % 3:
            client.set(build_data_key(id), b'{"n": %d}' % number + b"x" * 5000 * (number % 2), ex=86400)
        seconds = {"in_progress": RUNNING, "expired": LATE + number}.get(place)
        entry = id if seconds is None else b"%s|%d" % (id, seconds)
        client.lpush(QUEUE, entry)
        jobs.append(Planted(id, place, entry.decode()))
    return jobs


def list_entries(client: Redis) -> list[bytes]:
    """Return the entries of a safe_pop list, in the order in which they are popped."""
    return client.lrange(QUEUE, 0, -1)[::-1]


def list_ids(client: Redis, place: str) -> list[bytes]:
    return [entry.partition(b"|")[0] for entry in list_entries(client) if find_entry_place(entry) == place]


def read_facts(client: Redis, id: bytes) -> object:
    entries = [entry for entry in list_entries(client) if entry.partition(b"|")[0] == id]
    data = client.get(build_data_key(id))
    return (entries, data, client.sismember(build_key("done"), id)) if entries or data else None


def read_body(client: Redis, id: bytes) -> bytes | None:
    is_listed = any(entry.partition(b"|")[0] == id for entry in list_entries(client))
    return client.get(build_data_key(id)) or (id if is_listed else None)


def request_queue(**args: object) -> Callable[[Jobs], Request]:
    return lambda jobs: Request({"now_ms": NOW, "timeout_s": str(TIMEOUT_S), **args})


def request_limit(**args: object) -> Callable[[Jobs], Request]:
    return lambda jobs: Request({"now_ms": NOW, "timeout_s": str(TIMEOUT_S), "limit": len(jobs), **args})


def request_by_token(**args: object) -> Callable[[Jobs], Request]:
    return lambda jobs: Request(args, [(job.id, job.token) for job in jobs])


def request_enqueue(jobs: Jobs) -> Request:
    return Request({}, [(b"{}", job.id) for job in jobs])


def move_to_pop_end(database: JobDatabase, jobs: Jobs) -> None:
    """Move safe_pop jobs to the pop end of the list, in their order."""
    for job in reversed(jobs):
        if database.client.lrem(QUEUE, -1, job.token):
            database.client.rpush(QUEUE, job.token)


def empty_list_and_request(request: Callable[[Jobs], Request]) -> Callable[[JobDatabase], Request]:
    def empty_list_and_build_request(database: JobDatabase) -> Request:
        database.client.delete(QUEUE)
        return request([Planted(b"")])

    return empty_list_and_build_request


def request_with_stale_token(request: Callable[[Jobs], Request]) -> Callable[[JobDatabase], Request]:
    """Return a function that builds a request with the list entry of an earlier lease."""

    def build_request_with_stale_token(database: JobDatabase) -> Request:
        (job,) = database.plant("in_progress")
        return request([Planted(job.id, "in_progress", f"{job.id.decode()}|{LATE}")])

    return build_request_with_stale_token


def request_unknown_job(request: Callable[[Jobs], Request]) -> Callable[[JobDatabase], Request]:
    """Return a function that builds the request for a job that is in no place."""
    return lambda database: request([database.create_absent_job()])


def request_popped_job(is_marked: bool) -> Callable[[JobDatabase], Request]:
    """Return a function that builds a request for a leased job whose entry is missing from the list.

    A worker has popped the entry and not pushed it back yet.
    """

    def build_request_of_popped_job(database: JobDatabase) -> Request:
        if is_marked:
            database.client.sadd(build_key("done"), b"away")
        return request_by_token()([Planted(b"away", "", f"away|{RUNNING}")])

    return build_request_of_popped_job


def check_counts(database: JobDatabase, reply: Reply) -> None:
    counts = {place: reply.values[place] for place in PLACES}
    assert counts == {place: len(ids) for place, ids in database.read_members().items()}


def check_page(database: JobDatabase, reply: Reply) -> None:
    assert [row[0] for row in reply.rows] == list_ids(database.client, "ready")
    for id, member, size, seconds, length, text in reply.rows:
        full = read_body(database.client, id) or b""
        assert (member, size, seconds, length) == (id, len(id), -1, len(full))
        assert full.startswith(text) and len(text) == min(20, len(full))


def check_shown_job(database: JobDatabase, reply: Reply) -> None:
    id = reply.values["id"]
    assert reply.values["place"] == "ready" and id in list_ids(database.client, "ready")
    assert reply.values["body"] == read_body(database.client, id)


CLOCK = {"now_ms": NOW, "timeout_s": str(TIMEOUT_S)}
EXTEND, DELETE = request_by_token(**CLOCK, ttr_ms=60_000), request_by_token(**CLOCK, force=True)

USES = {
    "counts": Use(request_queue(), knows_jobs=False, reads=check_counts),
    "page": Use(
        request_queue(place="ready", offset=0, limit=100, body_bytes=20), ("ready",), knows_jobs=False, reads=check_page
    ),
    "show": Use(
        lambda jobs: Request({**CLOCK, "id": jobs[0].id, "body_bytes": -1}),
        ("ready",),
        reads=check_shown_job,
        reach={"gone": lambda database: Request({**CLOCK, "id": b"nobody", "body_bytes": -1})},
    ),
    "faults": Use(request_queue(), knows_jobs=False),
    "enqueue": Use(request_enqueue, reach={"exists": lambda database: request_enqueue(database.plant("ready"))}),
    "reserve": Use(
        request_limit(), chooses=True, prepare=move_to_pop_end, reach={"empty": empty_list_and_request(request_limit())}
    ),
    "pull": Use(
        request_limit(), chooses=True, prepare=move_to_pop_end, reach={"empty": empty_list_and_request(request_limit())}
    ),
    "ack": Use(
        request_by_token(),
        repeats=True,  # without an entry, ack marks the id as mark_done does
        reach={
            "marked": request_popped_job(False),
            "done": request_popped_job(True),
            "stale": request_with_stale_token(request_by_token()),
            "gone": request_unknown_job(request_by_token()),
        },
    ),
    "release": Use(
        request_by_token(),
        reach={"stale": request_with_stale_token(request_by_token()), "gone": request_unknown_job(request_by_token())},
    ),
    "extend": Use(
        EXTEND, repeats=True, reach={"stale": request_with_stale_token(EXTEND), "gone": request_unknown_job(EXTEND)}
    ),
    "delete": Use(
        DELETE,
        reach={
            "reserved": lambda database: request_by_token(**CLOCK)(database.plant("in_progress")),
            "stale": request_with_stale_token(DELETE),
            "gone": request_unknown_job(DELETE),
        },
    ),
    "reap": Use(request_limit(), chooses=True, reach={"empty": empty_list_and_request(request_limit())}),
}

SAFE_POP = Subject(
    "safe_pop",
    SCRIPTS,
    PLACES,
    build_key,
    plant_jobs,
    list_ids,
    read_facts,
    read_body,
    USES,
    is_derived=lambda key: key.startswith(f"{QUEUE}:data:"),
)
