"""The native system for the conformance suite: how its jobs are planted, and a request for each script."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from native_jobs import (
    HOUR,
    LEASE,
    NOW,
    PLACES,
    SCRIPTS,
    build_attempts_line,
    build_error_history,
    build_key,
    build_record,
    list_ids,
    plant_job,
    read_body,
    read_constant_parts,
    read_facts,
)
from redis import Redis

from rqtui.scripts.script import Reply, Script
from rqtui.testing.subject import JobDatabase, Planted, Request, Subject, Use
from rqtui.verbs import VERBS_BY_NAME

Jobs = Sequence[Planted]


def plant_jobs(client: Redis, place: str, ids: Sequence[bytes], ripe: bool) -> list[Planted]:
    """Plant native jobs as rqtui's client leaves them, behind the others of the place. Every third body is long."""
    first_number = client.hincrby(build_key("meta"), "seq", len(ids)) - len(ids) + 1
    pipe, jobs = client.pipeline(transaction=False), []
    pipe.hset(build_key("meta"), "version", 2)
    for number, id in enumerate(ids, first_number):
        token = str((NOW - 1000) * 1000 + number)
        text = b'{"n": %d}' % number + b"x" * (5000 if number % 3 == 0 else 0)
        offset_ms = number - HOUR if ripe else number + HOUR
        if place == "scheduled":
            plant_job(pipe, place, id, NOW + offset_ms, text, due_ms=NOW + offset_ms)
        elif place == "ready":
            plant_job(pipe, place, id, number, text)
        elif place == "reserved":
            plant_job(pipe, place, id, NOW + offset_ms, text, build_attempts_line(1, token, number), name="send")
        elif place == "done":
            plant_job(pipe, place, id, NOW + number + HOUR, text, build_attempts_line(1, token, number))
        else:
            plant_job(
                pipe,
                place,
                id,
                NOW + number - HOUR,
                text,
                build_attempts_line(5, "-", number),
                build_error_history("boom"),
            )
        jobs.append(Planted(id, place, token if place in ("reserved", "done") else ""))
    pipe.execute()
    return jobs


def request_by_id(**args: object) -> Callable[[Jobs], Request]:
    """Return a function that builds a request with one row per native job, named by its id."""
    return lambda jobs: Request({"now_ms": NOW, **args}, [(job.id,) for job in jobs])


def request_by_token(**args: object) -> Callable[[Jobs], Request]:
    """Return a function that builds a request with one row per native job, named by id and lease token."""
    return lambda jobs: Request({"now_ms": NOW, **args}, [(job.id, job.token) for job in jobs])


def request_as_read(line: str, **args: object) -> Callable[[Jobs], Request]:
    """Return a function that builds a request which acts only on jobs whose attempts line is still `line`."""
    return lambda jobs: Request({"now_ms": NOW, **args}, [(job.id, job.token, line) for job in jobs])


def request_limit(**args: object) -> Callable[[Jobs], Request]:
    """Return a function that builds a request for as many native jobs as it gets."""
    return lambda jobs: Request({"now_ms": NOW, "limit": len(jobs), **args})


def request_queue(**args: object) -> Callable[[Jobs], Request]:
    """Return a function that builds a request that concerns the whole native queue."""
    return lambda jobs: Request(args)


def request_move(line: str = "") -> Callable[[Jobs], Request]:
    """Return a function that builds a request to move jobs whose attempts line is still `line` to another queue."""
    return lambda jobs: Request({"now_ms": NOW, "to_queue": "other"}, [(job.id, line) for job in jobs])


def request_reject(jobs: Jobs) -> Request:
    return Request({"now_ms": NOW}, [(job.id, job.token, "boom") for job in jobs])


def request_enqueue(jobs: Jobs) -> Request:
    return Request({"now_ms": NOW}, [{"id": job.id, "body": b"{}"} for job in jobs])


def request_restore(jobs: Jobs) -> Request:
    """Build a `restore` request whose jobs have a long body, an error history and an expired lease."""
    text = b"y" * 5000
    rows = [
        (
            job.id,
            "reserved",
            str(NOW),
            build_record(text),
            text,
            build_attempts_line(2, "7", 5),
            build_error_history("boom"),
        )
        for job in jobs
    ]
    return Request({"now_ms": NOW}, rows)


LEFT_LINE = build_attempts_line(3, "-", 9)


def set_attempts_lines(database: JobDatabase, jobs: Jobs) -> None:
    """Set the `attempts` values of native jobs to what a verb would have left."""
    for job in jobs:
        database.client.hset(build_key("attempts"), job.id, LEFT_LINE)


def request_revert(jobs: Jobs) -> Request:
    """Build the rows of `revert` for native jobs, as if a verb had moved the jobs from another place."""
    previous_places = {"scheduled": "reserved", "ready": "dead", "dead": "done"}
    left_places = [job.place if job.place in previous_places else "ready" for job in jobs]
    lines = [
        (
            left_place,
            LEFT_LINE,
            previous_places[left_place],
            str(NOW + HOUR),
            build_attempts_line(2, "-", 7),
            build_error_history("boom"),
        )
        for left_place in left_places
    ]
    return Request({"now_ms": NOW}, [(job.id, *tail) for job, tail in zip(jobs, lines, strict=True)])


def plant_and_request(
    request: Callable[[Jobs], Request], place: str, prepare: Callable[[JobDatabase, Planted], object] | None = None
) -> Callable[[JobDatabase], Request]:
    """Return a function that plants one more native job in `place` and builds the request for that job.

    An empty `place` means a job that does not exist.
    """

    def plant_job_and_build_request(database: JobDatabase) -> Request:
        job = database.plant(place)[0] if place else database.create_absent_job()
        if prepare:
            prepare(database, job)
        return request([job])

    return plant_job_and_build_request


def request_with_stale_token(request: Callable[[Jobs], Request]) -> Callable[[JobDatabase], Request]:
    """Return a function that builds a request with the token of an earlier lease of a native job."""
    return lambda database: request([Planted(database.plant("reserved")[0].id, "reserved", "12345")])


def delete_keys_and_request(request: Callable[[Jobs], Request], *names: str) -> Callable[[JobDatabase], Request]:
    """Return a function that deletes these keys of the native queue and builds a request."""

    def delete_keys_and_build_request(database: JobDatabase) -> Request:
        database.client.delete(*map(build_key, names))
        return request([Planted(b"")])

    return delete_keys_and_build_request


def set_meta(name: str, value: object) -> Callable[[JobDatabase, object], object]:
    """Return a function that sets a field of the native queue's hash `meta`."""
    return lambda database, jobs: database.client.hset(build_key("meta"), name, value)


def damage_records(database: JobDatabase, jobs: Jobs) -> None:
    """Make the records of native jobs unreadable. The record of a dead job is deleted instead.

    `repair` moves jobs with unreadable records to dead, so a dead job needs another damage.
    """
    for job in jobs:
        if job.place == "dead":
            database.client.hdel(build_key("jobs"), job.id)
        else:
            database.client.hset(build_key("jobs"), job.id, "garbage")


def register_workers(database: JobDatabase, jobs: Jobs) -> None:
    """Register native workers whose names are the ids of the jobs."""
    for job in jobs:
        database.client.hset(build_key("workers"), job.id, f"{NOW - 5} 60000 run {NOW - HOUR} 42 host ")


def set_worker_order(order: str) -> Callable[[JobDatabase, object], object]:
    """Return a function that stores an operator's order for a native worker."""
    return lambda database, jobs: database.client.hset(
        build_key("workers"), "w1", f"{NOW - 5} 60000 {order} {NOW - HOUR} 42 host "
    )


def check_page(database: JobDatabase, reply: Reply) -> None:
    assert [row[0] for row in reply.rows] == list_ids(database.client, "ready")
    assert reply.values["total"] == len(reply.rows)
    for id, _score, head, size, shown_body, _line, _error in reply.rows:
        whole_body = read_body(database.client, id) or b""
        assert size == len(whole_body)
        assert (
            whole_body.startswith(shown_body)
            and head == database.client.hget(build_key("jobs"), id).partition(b"\n")[0]
        )


def check_counts(database: JobDatabase, reply: Reply) -> None:
    assert {place: reply.values[place] for place in PLACES} == {
        p: len(ids) for p, ids in database.read_members().items()
    }


def check_shown_job(database: JobDatabase, reply: Reply) -> None:
    (id,) = [id for id in list_ids(database.client, "ready") if read_body(database.client, id) == reply.values["body"]]
    assert reply.values["place"] == "ready"
    assert reply.values["bytes"] == len(read_body(database.client, id) or b"")


def check_records(database: JobDatabase, reply: Reply) -> None:
    """Check the reply of the script `records` for planted native jobs."""
    ids = {score: id for id, score in database.client.zrange(build_key("ready"), 0, -1, withscores=True)}
    assert reply.each
    for each in reply.each:
        score = float(str(each.values["score"]))
        names = {"record": "jobs", "body": "bodies", "line": "attempts", "errors": "errors"}
        returned = {names[name]: value for name, value in each.values.items() if name in names and value != b""}
        assert {each.values["place"]: score, **returned} == read_facts(database.client, ids[score])


def check_no_problems(database: JobDatabase, reply: Reply) -> None:
    """Check that the script `check` finds no problem of the planted native jobs."""
    assert reply.rows == [] and reply.values["checked"] >= len(list_ids(database.client, "scheduled"))


def check_roster_reply(database: JobDatabase, reply: Reply) -> None:
    """Check that the reply of the script `roster` lists the registered native workers."""
    assert dict(reply.rows) == database.client.hgetall(build_key("workers"))


def check_leases_reply(database: JobDatabase, reply: Reply) -> None:
    """Check that the reply of the script `leases` lists the leases of workers without heartbeats."""
    assert sum(leases for _worker, leases, _beat_ms, _since_ms in reply.rows) == database.client.zcard(
        build_key("reserved")
    )
    assert {beat_ms for _worker, _leases, beat_ms, _since_ms in reply.rows} <= {-1}


def expire_leases_twice(database: JobDatabase, jobs: Jobs) -> None:
    """Give native jobs a history of two expired leases."""
    expired = build_error_history("the lease expired", "the lease expired")
    database.client.hset(build_key("errors"), mapping={job.id: expired for job in jobs})
    database.client.hset(build_key("meta"), "expired", 2 * len(jobs))


def check_interrupted_reply(database: JobDatabase, reply: Reply) -> None:
    """Check that the reply of the script `interrupted` lists the jobs that lost several leases."""
    histories = database.client.hgetall(build_key("errors"))
    expected = {id for id, history in histories.items() if history.count(b"the lease expired") == 2}
    assert {(id, leases, workers) for id, _place, leases, workers, _since_ms, _record in reply.rows} == {
        (id, 2, 2) for id in expected
    }


BEAT = request_queue(now_ms=NOW, worker="w1", ttl_ms=60000, pid="1", host="here", job=b"a b")
RESERVE = request_limit(worker="w1", ttr_ms=LEASE)
KILL, DELETE = request_by_token(force=True, reason=b"broken"), request_as_read("", force=True)
PURGE: Callable[[Jobs], Request] = lambda jobs: Request(  # noqa: E731 (one of a row of requests)
    {"now_ms": NOW, "limit": len(jobs), "place": jobs[0].place, "force": True}
)
HELD = ("reserved",)
GONE = {"gone": plant_and_request(request_by_id(), "")}
WRONG = {"wrong_place": plant_and_request(request_by_id(), "reserved")}


def build_lease_reach(
    request: Callable[[Jobs], Request], plain_request: Callable[[Jobs], Request]
) -> dict[str, object]:
    """Map the reply words of kill and delete about leases to functions that bring them about."""
    return {
        "reserved": lambda database: plain_request([Planted(database.plant("reserved")[0].id)]),
        "stale": request_with_stale_token(plain_request),
        "gone": plant_and_request(request, ""),
    }


def build_id_verb_use(name: str) -> Use:
    """Build the use of a verb that takes only job ids and refuses jobs in other places, as most verbs do.

    The script's header and its row in `VERBS` say where the verb is allowed, so a new verb of this kind needs no row
    below.
    """
    script = SCRIPTS[name]
    sources = script.sources or VERBS_BY_NAME[name].takes
    wrong_place = next(place for place in ("reserved", "dead") if place not in sources)
    reach = {
        "gone": plant_and_request(request_by_id(), ""),
        "wrong_place": plant_and_request(request_by_id(), wrong_place),
    }
    return Use(request_by_id(), () if script.moves else sources, repeats=not script.moves, reach=reach)


def needs_only_ids(script: Script) -> bool:
    """Return whether a script changes jobs and needs only their ids as arguments."""
    return (
        bool(script.moves or script.writes)
        and all(arg.optional for arg in script.args)
        and [column.name for column in script.each] == ["id"]
    )


OWN_USES = {
    "ack": Use(
        request_by_token(keep_ms=HOUR),
        reach={
            "done": plant_and_request(request_by_token(), "done"),
            "stale": request_with_stale_token(request_by_token()),
            "gone": plant_and_request(request_by_token(), ""),
        },
    ),
    "reject": Use(
        request_reject,
        reach={"stale": request_with_stale_token(request_reject), "gone": plant_and_request(request_reject, "")},
    ),
    "release": Use(
        request_by_token(),
        reach={
            "stale": request_with_stale_token(request_by_token()),
            "gone": plant_and_request(request_by_token(), ""),
        },
    ),
    "extend": Use(
        request_by_token(),
        HELD,
        repeats=True,
        reach={
            "cancelled": plant_and_request(
                request_by_token(),
                "reserved",
                lambda database, job: database.client.hset(
                    build_key("attempts"), job.id, build_attempts_line(1, job.token, 1, flag="c")
                ),
            ),
            "stale": request_with_stale_token(request_by_token()),
            "gone": plant_and_request(request_by_token(), ""),
        },
    ),
    "cancel": Use(
        request_by_token(),
        HELD,
        repeats=True,
        reach={
            "stale": request_with_stale_token(request_by_token()),
            "wrong_place": plant_and_request(request_by_token(), "ready"),
            "gone": plant_and_request(request_by_token(), ""),
        },
    ),
    "reserve": Use(
        RESERVE,
        chooses=True,
        reach={
            "empty": delete_keys_and_request(RESERVE, "ready"),
            "paused": plant_and_request(RESERVE, "ready", set_meta("paused", NOW)),
        },
    ),
    "pull": Use(
        request_limit(),
        chooses=True,
        reach={
            "empty": delete_keys_and_request(request_limit(), "ready"),
            "paused": plant_and_request(request_limit(), "ready", set_meta("paused", NOW)),
        },
    ),
    "dispatch": Use(
        request_limit(), chooses=True, ripe=True, reach={"empty": delete_keys_and_request(request_limit(), "scheduled")}
    ),
    "reap": Use(
        request_limit(), chooses=True, ripe=True, reach={"empty": delete_keys_and_request(request_limit(), "reserved")}
    ),
    "reschedule": Use(
        request_by_id(delay_ms=2 * HOUR),
        repeats=True,
        reach={
            "wrong_place": plant_and_request(request_by_id(delay_ms=1), "dead"),
            "gone": plant_and_request(request_by_id(delay_ms=1), ""),
        },
    ),
    "reprioritise": Use(
        request_by_id(priority=-5),
        ("ready", "scheduled"),
        repeats=True,
        reach={
            "wrong_place": plant_and_request(request_by_id(priority=1), "dead"),
            "gone": plant_and_request(request_by_id(priority=1), ""),
        },
    ),
    "requeue": Use(
        request_by_id(),
        reach=GONE
        | WRONG
        | {
            "bodyless": plant_and_request(
                request_by_id(), "done", lambda database, job: database.client.hdel(build_key("jobs"), job.id)
            )
        },
    ),
    "kill": Use(
        KILL, reach={**build_lease_reach(KILL, request_by_token()), "wrong_place": plant_and_request(KILL, "done")}
    ),
    "delete": Use(
        DELETE,
        reach={
            **build_lease_reach(DELETE, request_as_read("")),
            "wrong_place": plant_and_request(request_as_read("", place="dead"), "ready"),
            "changed": plant_and_request(
                request_as_read("-"), "ready", lambda database, job: set_attempts_lines(database, [job])
            ),
        },
    ),
    "purge": Use(
        PURGE,
        chooses=True,
        reach={
            "empty": delete_keys_and_request(request_limit(place="dead"), "dead"),
            "reserved": lambda database: Request({"now_ms": NOW, "limit": 1, "place": "reserved"}),
        },
    ),
    "move": Use(
        request_move(),
        reach={
            "exists": plant_and_request(
                request_move(), "ready", lambda database, job: database.client.zadd(build_key("to_done"), {job.id: 1})
            ),
            "changed": plant_and_request(
                request_move("-"), "ready", lambda database, job: set_attempts_lines(database, [job])
            ),
            "wrong_place": plant_and_request(request_move(), "reserved"),
            "gone": plant_and_request(request_move(), ""),
        },
    ),
    "restore": Use(request_restore, reach={"exists": plant_and_request(request_restore, "ready")}),
    "revert": Use(
        request_revert,
        prepare=set_attempts_lines,
        reach={"changed": plant_and_request(request_revert, "reserved"), "gone": plant_and_request(request_revert, "")},
    ),
    "records": Use(
        lambda jobs: Request({"whole": True, "most": 10**6}, [(job.id,) for job in jobs]),
        ("ready",),
        reads=check_records,
        reach={
            "later": lambda database: Request({"whole": True, "most": 0}, [(database.plant("ready")[0].id,)]),
            "gone": lambda database: Request({"whole": True, "most": 9}, [(b"nobody",)]),
        },
    ),
    "enqueue": Use(request_enqueue, reach={"exists": plant_and_request(request_enqueue, "dead")}),
    "repair": Use(
        request_by_id(),
        prepare=damage_records,
        reach={"fine": plant_and_request(request_by_id(), "ready"), "gone": plant_and_request(request_by_id(), "")},
    ),
    "pause": Use(
        request_queue(now_ms=NOW),
        knows_jobs=False,
        reach={"already": plant_and_request(request_queue(now_ms=NOW), "ready", set_meta("paused", NOW))},
    ),
    "resume": Use(
        request_queue(now_ms=NOW),
        knows_jobs=False,
        prepare=set_meta("paused", NOW - 5),
        reach={
            "already": plant_and_request(
                request_queue(now_ms=NOW),
                "ready",
                lambda database, job: database.client.hdel(build_key("meta"), "paused"),
            )
        },
    ),
    "beat": Use(
        BEAT,
        knows_jobs=False,
        reach={
            "quiet": plant_and_request(BEAT, "ready", set_worker_order("quiet")),
            "stop": plant_and_request(BEAT, "ready", set_worker_order("stop")),
            "left": plant_and_request(request_queue(now_ms=NOW, worker="w1", ttl_ms=1, leave=True), "ready"),
        },
    ),
    "configure": Use(lambda jobs: Request({}, [("ttr_ms", "5000"), ("keep_ms", "")]), knows_jobs=False),
    "quiet": Use(request_by_id(), ("ready",), repeats=True, prepare=register_workers, reach=GONE),
    "stop": Use(request_by_id(), ("ready",), repeats=True, prepare=register_workers, reach=GONE),
    "counts": Use(request_queue(now_ms=NOW), knows_jobs=False, reads=check_counts),
    "page": Use(
        request_queue(place="ready", offset=0, limit=100, body_bytes=20), ("ready",), knows_jobs=False, reads=check_page
    ),
    "show": Use(
        lambda jobs: Request({"id": jobs[0].id, "body_bytes": -1}),
        ("ready",),
        reads=check_shown_job,
        reach={"gone": lambda database: Request({"id": b"nobody", "body_bytes": -1})},
    ),
    "stats": Use(request_queue(limit=60), knows_jobs=False),
    "events": Use(request_queue(now_ms=NOW, limit=60, newest=True), knows_jobs=False),
    "roster": Use(request_queue(), ("ready",), knows_jobs=False, prepare=register_workers, reads=check_roster_reply),
    "leases": Use(
        request_queue(now_ms=NOW, limit=1000, grace_ms=0),
        ("reserved",),
        knows_jobs=False,
        reads=check_leases_reply,
    ),
    "interrupted": Use(
        request_queue(now_ms=NOW, within_ms=HOUR, limit=20),
        ("dead",),
        knows_jobs=False,
        prepare=expire_leases_twice,
        reads=check_interrupted_reply,
    ),
    "check": Use(
        request_queue(walk="scheduled", cursor="0", limit=100),
        knows_jobs=False,
        reads=check_no_problems,
        reach={"end": lambda database: Request({"walk": "errors", "cursor": "0", "limit": 1000})},
    ),
}

USES = {
    **{name: build_id_verb_use(name) for name in SCRIPTS if name not in OWN_USES and needs_only_ids(SCRIPTS[name])},
    **OWN_USES,
}
UNGUARDED = frozenset({"enqueue", "reserve", "ack"})  # scripts that decide the speed of a queue
NATIVE = Subject(
    "native",
    SCRIPTS,
    PLACES,
    build_key,
    plant_jobs,
    list_ids,
    read_facts,
    read_constant_parts,
    USES,
    unguarded=UNGUARDED,
)  # type: ignore[arg-type]
