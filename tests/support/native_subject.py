"""The native layout as the conformance suite sees it: how its jobs are planted and how its scripts are asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from native_jobs import (
    HOUR,
    LEASE,
    NOW,
    PLACES,
    SCRIPTS,
    body,
    facts,
    history,
    key,
    line,
    members,
    payload,
    plant_job,
    record,
)
from redis import Redis

from rqtui.scripts.script import Answer, Script
from rqtui.testing.subject import Planted, Request, Subject, Use, World
from rqtui.verbs import BY_NAME

Jobs = Sequence[Planted]


def plant(client: Redis, place: str, ids: Sequence[bytes], ripe: bool) -> list[Planted]:
    """Jobs as rqtui's client leaves them, behind those of the place; every third has a long body."""
    first = client.hincrby(key("meta"), "seq", len(ids)) - len(ids) + 1
    pipe, jobs = client.pipeline(transaction=False), []
    pipe.hset(key("meta"), "version", 2)
    for n, id in enumerate(ids, first):
        token = str((NOW - 1000) * 1000 + n)
        text = b'{"n": %d}' % n + b"x" * (5000 if n % 3 == 0 else 0)
        soon = n - HOUR if ripe else n + HOUR
        if place == "scheduled":
            plant_job(pipe, place, id, NOW + soon, text, due_ms=NOW + soon)
        elif place == "ready":
            plant_job(pipe, place, id, n, text)
        elif place == "reserved":
            plant_job(pipe, place, id, NOW + soon, text, line(1, token, n), name="send")
        elif place == "done":
            plant_job(pipe, place, id, NOW + n + HOUR, text, line(1, token, n))
        else:
            plant_job(pipe, place, id, NOW + n - HOUR, text, line(5, "-", n), history("boom"))
        jobs.append(Planted(id, place, token if place in ("reserved", "done") else ""))
    pipe.execute()
    return jobs


def by_id(**args: object) -> Callable[[Jobs], Request]:
    return lambda jobs: Request({"now_ms": NOW, **args}, [(job.id,) for job in jobs])


def by_token(**args: object) -> Callable[[Jobs], Request]:
    return lambda jobs: Request({"now_ms": NOW, **args}, [(job.id, job.token) for job in jobs])


def as_read(line: str, **args: object) -> Callable[[Jobs], Request]:
    return lambda jobs: Request({"now_ms": NOW, **args}, [(job.id, job.token, line) for job in jobs])


def some(**args: object) -> Callable[[Jobs], Request]:
    return lambda jobs: Request({"now_ms": NOW, "limit": len(jobs), **args})


def plain(**args: object) -> Callable[[Jobs], Request]:
    return lambda jobs: Request(args)


def failed(jobs: Jobs) -> Request:
    return Request({"now_ms": NOW}, [(job.id, job.token, "boom") for job in jobs])


def fresh(jobs: Jobs) -> Request:
    return Request({"now_ms": NOW}, [{"id": job.id, "body": b"{}"} for job in jobs])


def deleted(jobs: Jobs) -> Request:
    """Rows for restore: with a long body, a history and a lease that is over."""
    text = b"y" * 5000
    rows = [(job.id, "reserved", str(NOW), record(text), text, line(2, "7", 5), history("boom")) for job in jobs]
    return Request({"now_ms": NOW}, rows)


LEFT = line(3, "-", 9)


def as_left(world: World, jobs: Jobs) -> None:
    """Jobs as a verb would leave them."""
    for job in jobs:
        world.client.hset(key("attempts"), job.id, LEFT)


def moved(jobs: Jobs) -> Request:
    """Rows for revert, as if a verb had moved jobs out of another place."""
    before = {"scheduled": "reserved", "ready": "dead", "dead": "done"}
    lefts = [job.place if job.place in before else "ready" for job in jobs]
    lines = [(left, LEFT, before[left], str(NOW + HOUR), line(2, "-", 7), history("boom")) for left in lefts]
    return Request({"now_ms": NOW}, [(job.id, *rest) for job, rest in zip(jobs, lines, strict=True)])


def reach(
    request: Callable[[Jobs], Request], where: str, prepare: Callable[[World, Planted], object] | None = None
) -> Callable[[World], Request]:
    """Ask about one more job in `where`; about one that nobody knows when that is empty."""

    def way(world: World) -> Request:
        job = world.plant(where)[0] if where else world.new()
        if prepare:
            prepare(world, job)
        return request([job])

    return way


def stale(request: Callable[[Jobs], Request]) -> Callable[[World], Request]:
    """With the token of an earlier lease."""
    return lambda world: request([Planted(world.plant("reserved")[0].id, "reserved", "12345")])


def emptied(request: Callable[[Jobs], Request], *names: str) -> Callable[[World], Request]:
    """With these keys gone."""

    def way(world: World) -> Request:
        world.client.delete(*map(key, names))
        return request([Planted(b"")])

    return way


def set_meta(name: str, value: object) -> Callable[[World, object], object]:
    return lambda world, jobs: world.client.hset(key("meta"), name, value)


def damage(world: World, jobs: Jobs) -> None:
    """Make records unreadable; dead ones lose theirs, since being dead is what becomes of unreadable ones."""
    for job in jobs:
        if job.place == "dead":
            world.client.hdel(key("jobs"), job.id)
        else:
            world.client.hset(key("jobs"), job.id, "garbage")


def register(world: World, jobs: Jobs) -> None:
    """Workers that bear the names of the jobs."""
    for job in jobs:
        world.client.hset(key("workers"), job.id, f"{NOW - 5} 60000 run {NOW - HOUR} 42 host ")


def order(what: str) -> Callable[[World, object], object]:
    return lambda world, jobs: world.client.hset(key("workers"), "w1", f"{NOW - 5} 60000 {what} {NOW - HOUR} 42 host ")


def page_is_in_order(world: World, answer: Answer) -> None:
    assert [row[0] for row in answer.rows] == members(world.client, "ready")
    assert answer.values["total"] == len(answer.rows)
    for id, _score, head, size, text, _line, _error in answer.rows:
        full = body(world.client, id) or b""
        assert size == len(full)
        assert full.startswith(text) and head == world.client.hget(key("jobs"), id).partition(b"\n")[0]


def counts_are_right(world: World, answer: Answer) -> None:
    assert {place: answer.values[place] for place in PLACES} == {p: len(ids) for p, ids in world.members().items()}


def all_is_shown(world: World, answer: Answer) -> None:
    (id,) = [id for id in members(world.client, "ready") if body(world.client, id) == answer.values["body"]]
    assert answer.values["place"] == "ready"
    assert answer.values["bytes"] == len(body(world.client, id) or b"")


def every_byte_is_told(world: World, answer: Answer) -> None:
    ids = {score: id for id, score in world.client.zrange(key("ready"), 0, -1, withscores=True)}
    assert answer.each
    for each in answer.each:
        score = float(str(each.values["score"]))
        names = {"record": "jobs", "body": "bodies", "line": "attempts", "errors": "errors"}
        told = {names[name]: value for name, value in each.values.items() if name in names and value != b""}
        assert {each.values["place"]: score, **told} == facts(world.client, ids[score])


def nothing_is_found(world: World, answer: Answer) -> None:
    assert answer.rows == [] and answer.values["checked"] >= len(members(world.client, "scheduled"))


def workers_are_listed(world: World, answer: Answer) -> None:
    assert dict(answer.rows) == world.client.hgetall(key("workers"))


def holders_who_never_beat_are_told(world: World, answer: Answer) -> None:
    assert sum(leases for _worker, leases, _beat_ms, _since_ms in answer.rows) == world.client.zcard(key("reserved"))
    assert {beat_ms for _worker, _leases, beat_ms, _since_ms in answer.rows} <= {-1}


BEAT = plain(now_ms=NOW, worker="w1", ttl_ms=60000, pid="1", host="here", job=b"a b")
RESERVE = some(worker="w1", ttr_ms=LEASE)
KILL, DELETE = by_token(force=True, reason=b"broken"), as_read("", force=True)
PURGE: Callable[[Jobs], Request] = lambda jobs: Request(  # noqa: E731 (one of a row of requests)
    {"now_ms": NOW, "limit": len(jobs), "place": jobs[0].place, "force": True}
)
HELD = ("reserved",)
GONE = {"gone": reach(by_id(), "")}
WRONG = {"wrong_place": reach(by_id(), "reserved")}


def leased(request: Callable[[Jobs], Request], plain_request: Callable[[Jobs], Request]) -> dict[str, object]:
    """Ways to the words of kill and delete."""
    return {
        "reserved": lambda world: plain_request([Planted(world.plant("reserved")[0].id)]),
        "stale": stale(plain_request),
        "gone": reach(request, ""),
    }


def usual(name: str) -> Use:
    """How a verb is asked that is told ids and nothing else, and refuses them where it cannot act: most are like this.

    Its header and its row in `VERBS` tell where it acts, so a new verb of this kind needs no row below.
    """
    script = SCRIPTS[name]
    sources = script.sources or BY_NAME[name].takes
    elsewhere = next(place for place in ("reserved", "dead") if place not in sources)
    reach_them = {"gone": reach(by_id(), ""), "wrong_place": reach(by_id(), elsewhere)}
    return Use(by_id(), () if script.moves else sources, repeats=not script.moves, reach=reach_them)


def is_usual(script: Script) -> bool:
    """Whether ids alone are enough for it, and it changes something."""
    return (
        bool(script.moves or script.writes)
        and all(arg.optional for arg in script.args)
        and [c.name for c in script.each] == ["id"]
    )


OWN_USES = {
    "ack": Use(
        by_token(keep_ms=HOUR),
        reach={"done": reach(by_token(), "done"), "stale": stale(by_token()), "gone": reach(by_token(), "")},
    ),
    "reject": Use(failed, reach={"stale": stale(failed), "gone": reach(failed, "")}),
    "release": Use(by_token(), reach={"stale": stale(by_token()), "gone": reach(by_token(), "")}),
    "extend": Use(
        by_token(),
        HELD,
        repeats=True,
        reach={
            "cancelled": reach(
                by_token(),
                "reserved",
                lambda world, job: world.client.hset(key("attempts"), job.id, line(1, job.token, 1, flag="c")),
            ),
            "stale": stale(by_token()),
            "gone": reach(by_token(), ""),
        },
    ),
    "cancel": Use(
        by_token(),
        HELD,
        repeats=True,
        reach={
            "stale": stale(by_token()),
            "wrong_place": reach(by_token(), "ready"),
            "gone": reach(by_token(), ""),
        },
    ),
    "reserve": Use(
        RESERVE,
        chooses=True,
        reach={"empty": emptied(RESERVE, "ready"), "paused": reach(RESERVE, "ready", set_meta("paused", NOW))},
    ),
    "pull": Use(
        some(),
        chooses=True,
        reach={"empty": emptied(some(), "ready"), "paused": reach(some(), "ready", set_meta("paused", NOW))},
    ),
    "dispatch": Use(some(), chooses=True, ripe=True, reach={"empty": emptied(some(), "scheduled")}),
    "reap": Use(some(), chooses=True, ripe=True, reach={"empty": emptied(some(), "reserved")}),
    "reschedule": Use(
        by_id(delay_ms=2 * HOUR),
        repeats=True,
        reach={"wrong_place": reach(by_id(delay_ms=1), "dead"), "gone": reach(by_id(delay_ms=1), "")},
    ),
    "reprioritise": Use(
        by_id(priority=-5),
        ("ready", "scheduled"),
        repeats=True,
        reach={"wrong_place": reach(by_id(priority=1), "dead"), "gone": reach(by_id(priority=1), "")},
    ),
    "requeue": Use(
        by_id(),
        reach=GONE
        | WRONG
        | {"bodyless": reach(by_id(), "done", lambda world, job: world.client.hdel(key("jobs"), job.id))},
    ),
    "kill": Use(KILL, reach={**leased(KILL, by_token()), "wrong_place": reach(KILL, "done")}),
    "delete": Use(
        DELETE,
        reach={
            **leased(DELETE, as_read("")),
            "wrong_place": reach(as_read("", place="dead"), "ready"),
            "changed": reach(as_read("-"), "ready", lambda world, job: as_left(world, [job])),
        },
    ),
    "purge": Use(
        PURGE,
        chooses=True,
        reach={
            "empty": emptied(some(place="dead"), "dead"),
            "reserved": lambda world: Request({"now_ms": NOW, "limit": 1, "place": "reserved"}),
        },
    ),
    "restore": Use(deleted, reach={"exists": reach(deleted, "ready")}),
    "revert": Use(moved, prepare=as_left, reach={"changed": reach(moved, "reserved"), "gone": reach(moved, "")}),
    "records": Use(
        lambda jobs: Request({"whole": True, "most": 10**6}, [(job.id,) for job in jobs]),
        ("ready",),
        reads=every_byte_is_told,
        reach={
            "later": lambda world: Request({"whole": True, "most": 0}, [(world.plant("ready")[0].id,)]),
            "gone": lambda world: Request({"whole": True, "most": 9}, [(b"nobody",)]),
        },
    ),
    "enqueue": Use(fresh, reach={"exists": reach(fresh, "dead")}),
    "repair": Use(by_id(), prepare=damage, reach={"fine": reach(by_id(), "ready"), "gone": reach(by_id(), "")}),
    "pause": Use(
        plain(now_ms=NOW),
        knows_jobs=False,
        reach={"already": reach(plain(now_ms=NOW), "ready", set_meta("paused", NOW))},
    ),
    "resume": Use(
        plain(now_ms=NOW),
        knows_jobs=False,
        prepare=set_meta("paused", NOW - 5),
        reach={
            "already": reach(plain(now_ms=NOW), "ready", lambda world, job: world.client.hdel(key("meta"), "paused"))
        },
    ),
    "beat": Use(
        BEAT,
        knows_jobs=False,
        reach={
            "quiet": reach(BEAT, "ready", order("quiet")),
            "stop": reach(BEAT, "ready", order("stop")),
            "left": reach(plain(now_ms=NOW, worker="w1", ttl_ms=1, leave=True), "ready"),
        },
    ),
    "configure": Use(lambda jobs: Request({}, [("ttr_ms", "5000"), ("keep_ms", "")]), knows_jobs=False),
    "quiet": Use(by_id(), ("ready",), repeats=True, prepare=register, reach=GONE),
    "stop": Use(by_id(), ("ready",), repeats=True, prepare=register, reach=GONE),
    "counts": Use(plain(now_ms=NOW), knows_jobs=False, reads=counts_are_right),
    "page": Use(
        plain(place="ready", offset=0, limit=100, body_bytes=20), ("ready",), knows_jobs=False, reads=page_is_in_order
    ),
    "show": Use(
        lambda jobs: Request({"id": jobs[0].id, "body_bytes": -1}),
        ("ready",),
        reads=all_is_shown,
        reach={"gone": lambda world: Request({"id": b"nobody", "body_bytes": -1})},
    ),
    "stats": Use(plain(limit=60), knows_jobs=False),
    "events": Use(plain(now_ms=NOW, limit=60, newest=True), knows_jobs=False),
    "roster": Use(plain(), ("ready",), knows_jobs=False, prepare=register, reads=workers_are_listed),
    "leases": Use(
        plain(now_ms=NOW, limit=1000, grace_ms=0),
        ("reserved",),
        knows_jobs=False,
        reads=holders_who_never_beat_are_told,
    ),
    "check": Use(
        plain(walk="scheduled", cursor="0", limit=100),
        knows_jobs=False,
        reads=nothing_is_found,
        reach={"end": lambda world: Request({"walk": "errors", "cursor": "0", "limit": 1000})},
    ),
}

USES = {**{name: usual(name) for name in SCRIPTS if name not in OWN_USES and is_usual(SCRIPTS[name])}, **OWN_USES}
UNGUARDED = frozenset({"enqueue", "reserve", "ack"})  # the ones that make a queue's speed
NATIVE = Subject("native", SCRIPTS, PLACES, key, plant, members, facts, payload, USES, unguarded=UNGUARDED)  # type: ignore[arg-type]
