"""The system redisched for the conformance suite: topics as the client in Node (ms) or in Go (s) writes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from redis import Redis

from rqtui.scripts import script as scripts
from rqtui.scripts.script import Reply, Script
from rqtui.testing.subject import JobDatabase, Planted, Request, Subject, Use

NOW = 1_800_000_000_000
HOUR = 3_600_000
TOPIC = "mail"
SCRIPTS: Mapping[str, Script] = scripts.load_scripts("redisched")
PLACES = ("queued", "due", "reserved", "expired")
Jobs = Sequence[Planted]


def build_key(name: str, topic: str = TOPIC) -> str:
    """Return the Redis key of a redisched place, or the key that the script headers call by this name."""
    prefix = {"jobs": "JOBS", "queued": "QUEUED", "due": "QUEUED", "reserved": "RESERVED", "expired": "RESERVED"}
    if name == "expiries":
        return f"rqtui:{{__REDIS_SCHED_RESERVED__{topic}}}:expiries"
    return f"__REDIS_SCHED_{prefix[name]}__{topic}"


KEYS = {name: build_key(name) for name in ("jobs", "queued", "reserved", "expiries")}


def plant_job(
    client: Redis, place: str, id: bytes | str, score: float, body: bytes = b"{}", topic: str = TOPIC
) -> None:
    """Plant one redisched job as redisched's own `put` and `reserve` leave it."""
    client.zadd(build_key(place, topic), {id: score})
    client.hset(build_key("jobs", topic), id, body)


def build_planter(unit: str) -> Callable[[Redis, str, Sequence[bytes], bool], list[Planted]]:
    """Return a function that plants redisched jobs with times in whole milliseconds or whole seconds."""

    def plant_jobs(client: Redis, place: str, ids: Sequence[bytes], _ripe: bool) -> list[Planted]:
        first_number = client.zcard(build_key("queued")) + client.zcard(build_key("reserved"))
        pipe, jobs = client.pipeline(transaction=False), []
        for number, id in enumerate(ids, first_number):
            at_ms = NOW + number * 1000 + (HOUR if place in ("queued", "reserved") else -HOUR)
            score = at_ms if unit == "ms" else at_ms // 1000
            plant_job(pipe, place, id, score, b'{"n": %d}' % number + b"x" * (5000 if number % 3 == 0 else 0))
            jobs.append(Planted(id, place, str(score) if place in ("reserved", "expired") else ""))
        pipe.execute()
        return jobs

    return plant_jobs


def list_ids(client: Redis, place: str) -> list[bytes]:
    """Return the ids of a redisched place in its order."""
    rows = client.zrange(build_key(place), 0, -1, withscores=True)
    is_past = place in ("due", "expired")
    return [id for id, score in rows if ((score if score >= 1e11 else score * 1000) <= NOW) == is_past]


def read_facts(client: Redis, id: bytes) -> dict[str, object]:
    """Return everything that Redis stores about one redisched job."""
    facts = {name: client.zscore(build_key(name), id) for name in ("queued", "reserved", "expiries")}
    facts["jobs"] = client.hget(build_key("jobs"), id)
    return {name: value for name, value in facts.items() if value is not None}


def read_body(client: Redis, id: bytes) -> bytes | None:
    return client.hget(build_key("jobs"), id)


def run_script(client: Redis, verb: str, rows: Sequence[object] = (), **args: object) -> Reply:
    """Run a redisched script on the test's topic at the test's clock, with the unit `auto` unless given."""
    script = SCRIPTS[verb]
    for name, value in {"now_ms": NOW, "unit": "auto"}.items():
        if any(arg.name == name for arg in script.args):
            args.setdefault(name, value)
    return scripts.run_call(client, script.build_call(KEYS, args, rows))


def read_outcomes(reply: Reply) -> list[str]:
    """Return the word of each row of a script's reply."""
    return [row.word for row in reply.each] if reply.each else [reply.word]


def request_rows(name: str, rows: Callable[[Planted], tuple[object, ...]], **args: object) -> Callable[[Jobs], Request]:
    """Return a function that builds the request of a redisched verb with one row per job."""
    declared = {arg.name for arg in SCRIPTS[name].args}
    scalars = {name: value for name, value in {"now_ms": NOW, "unit": "auto", **args}.items() if name in declared}
    return lambda jobs: Request(scalars, [rows(job) for job in jobs])


def request_by_id(name: str, **args: object) -> Callable[[Jobs], Request]:
    return request_rows(name, lambda job: (job.id,), **args)


def request_by_token(name: str, **args: object) -> Callable[[Jobs], Request]:
    return request_rows(name, lambda job: (job.id, job.token or "1"), **args)


def request_limit(name: str, **args: object) -> Callable[[Jobs], Request]:
    request = request_rows(name, lambda job: (), **args)
    return lambda jobs: Request({**request([]).args, "limit": len(jobs)})


def plant_and_request(
    request: Callable[[Jobs], Request], place: str, prepare: Callable[[Redis, bytes], object] | None = None
) -> Callable[[JobDatabase], Request]:
    """Return a function that plants one more redisched job in `place` and builds the request for that job.

    An empty place means a job that does not exist.
    """

    def plant_job_and_build_request(database: JobDatabase) -> Request:
        job = database.plant(place)[0] if place else database.create_absent_job()
        if prepare:
            prepare(database.client, job.id)
        return request([job])

    return plant_job_and_build_request


def request_with_stale_token(request: Callable[[Jobs], Request]) -> Callable[[JobDatabase], Request]:
    return lambda database: request([Planted(database.plant("reserved")[0].id, "reserved", "12345")])


def build_lease_use(name: str, **args: object) -> Use:
    """Build the use of a redisched verb on a lease: how the verb is called, and how it is refused."""
    request = request_by_token(name, **args)
    return Use(request, reach={"stale": request_with_stale_token(request), "gone": plant_and_request(request, "")})


def empty_places_and_request(request: Callable[[Jobs], Request]) -> Callable[[JobDatabase], Request]:
    def empty_places_and_build_request(database: JobDatabase) -> Request:
        database.client.delete(build_key("queued"), build_key("reserved"))
        return request([Planted(b"")])

    return empty_places_and_build_request


def put_again(database: JobDatabase, jobs: Jobs) -> None:
    """Put a redisched job a second time while a worker holds it, so that the job is in two places."""
    for job in jobs:
        other = "reserved" if job.place in ("queued", "due") else "queued"
        database.client.zadd(build_key(other), {job.id: database.client.zscore(build_key(job.place), job.id)})


def check_counts(database: JobDatabase, reply: Reply) -> None:
    assert {place: reply.values[place] for place in PLACES} == {
        p: len(ids) for p, ids in database.read_members().items()
    }


def check_page(database: JobDatabase, reply: Reply) -> None:
    assert [row[0] for row in reply.rows] == list_ids(database.client, "due")
    assert reply.values["total"] == len(reply.rows)
    for id, score, size, text, has_body, _expiries in reply.rows:
        full = read_body(database.client, id) or b""
        assert (size, has_body, float(score)) == (len(full), True, database.client.zscore(build_key("due"), id))
        assert text == full[:20]


def check_shown_job(database: JobDatabase, reply: Reply) -> None:
    assert reply.values["place"] == "due"
    assert reply.values["body"] == read_body(database.client, reply.values["id"])


def check_no_problems(database: JobDatabase, reply: Reply) -> None:
    assert reply.rows == [] and reply.values["looked"] >= len(database.planted)


SHOW: Callable[[Jobs], Request] = lambda jobs: Request(  # noqa: E731 (one of a row of requests)
    {"now_ms": NOW, "id": jobs[0].id, "body_bytes": -1}
)
PUT = request_rows("enqueue", lambda job: (job.id, b"{}", None, None))
USES = {
    "enqueue": Use(PUT, reach={"exists": plant_and_request(PUT, "reserved")}),
    "reserve": Use(
        request_limit("reserve", worker="w1"),
        chooses=True,
        reach={"empty": empty_places_and_request(request_limit("reserve"))},
    ),
    "pull": Use(request_limit("pull"), chooses=True, reach={"empty": empty_places_and_request(request_limit("pull"))}),
    "ack": build_lease_use("ack"),
    "release": build_lease_use("release"),
    "extend": Use(
        request_by_token("extend"),
        ("reserved", "expired"),
        reach={
            "stale": request_with_stale_token(request_by_token("extend")),
            "gone": plant_and_request(request_by_token("extend"), ""),
        },
    ),
    "delete": Use(
        by_id_and_token := request_rows("delete", lambda job: (job.id, job.token), force=True),
        reach={
            "reserved": plant_and_request(request_rows("delete", lambda job: (job.id, job.token)), "reserved"),
            "stale": request_with_stale_token(by_id_and_token),
            "gone": plant_and_request(request_rows("delete", lambda job: (job.id, None)), ""),
        },
    ),
    "promote": Use(
        request_by_id("promote"),
        reach={
            "wrong_place": plant_and_request(request_by_id("promote"), "due"),
            "gone": plant_and_request(request_by_id("promote"), ""),
        },
    ),
    "reschedule": Use(
        request_by_id("reschedule", delay_ms=2 * HOUR),
        repeats=True,
        reach={
            "wrong_place": plant_and_request(request_by_id("reschedule"), "reserved"),
            "gone": plant_and_request(request_by_id("reschedule"), ""),
        },
    ),
    "reap": Use(request_limit("reap"), chooses=True, reach={"empty": empty_places_and_request(request_limit("reap"))}),
    "repair": Use(
        request_by_id("repair"),
        prepare=put_again,
        reach={
            "fine": plant_and_request(request_by_id("repair"), "due"),
            "ghost": plant_and_request(
                request_by_id("repair"), "due", lambda client, id: client.hdel(build_key("jobs"), id)
            ),
            "gone": plant_and_request(request_by_id("repair"), ""),
        },
    ),
    "counts": Use(lambda jobs: Request({"now_ms": NOW}), ("due",), knows_jobs=False, reads=check_counts),
    "page": Use(
        lambda jobs: Request({"now_ms": NOW, "place": "due", "offset": 0, "limit": 100, "body_bytes": 20}),
        ("due",),
        knows_jobs=False,
        reads=check_page,
    ),
    "show": Use(SHOW, ("due",), reads=check_shown_job, reach={"gone": plant_and_request(SHOW, "")}),
    "faults": Use(lambda jobs: Request({"unit": "auto"}), ("due",), knows_jobs=False, reads=check_no_problems),
}


def build_subject(unit: str, scripts_by_name: Mapping[str, Script] = SCRIPTS) -> Subject:
    """Build the conformance subject for redisched topics whose times have one unit."""
    return Subject(
        "redisched", scripts_by_name, PLACES, build_key, build_planter(unit), list_ids, read_facts, read_body, USES
    )


SUBJECTS = {unit: build_subject(unit) for unit in ("ms", "s")}
