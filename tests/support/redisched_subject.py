"""The layout redisched as the conformance suite sees it: topics as the glue in Node (ms) or in Go (s) leaves them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from redis import Redis

from rqtui.scripts import script as scripts
from rqtui.scripts.script import Answer, Script
from rqtui.testing.subject import Planted, Request, Subject, Use, World

NOW = 1_800_000_000_000
HOUR = 3_600_000
TOPIC = "mail"
SCRIPTS: Mapping[str, Script] = scripts.load("redisched")
PLACES = ("queued", "due", "reserved", "expired")
Jobs = Sequence[Planted]


def key(name: str, topic: str = TOPIC) -> str:
    """The key of a place, or the one that headers call so."""
    prefix = {"jobs": "JOBS", "queued": "QUEUED", "due": "QUEUED", "reserved": "RESERVED", "expired": "RESERVED"}
    if name == "expiries":
        return f"rqtui:{{__REDIS_SCHED_RESERVED__{topic}}}:expiries"
    return f"__REDIS_SCHED_{prefix[name]}__{topic}"


KEYS = {name: key(name) for name in ("jobs", "queued", "reserved", "expiries")}


def plant_job(
    client: Redis, place: str, id: bytes | str, score: float, body: bytes = b"{}", topic: str = TOPIC
) -> None:
    """One job, as `put` and `reserve` leave it."""
    client.zadd(key(place, topic), {id: score})
    client.hset(key("jobs", topic), id, body)


def planter(unit: str) -> Callable[[Redis, str, Sequence[bytes], bool], list[Planted]]:
    """Plants jobs as the glue with that unit writes them: whole milliseconds, or whole seconds."""

    def plant(client: Redis, place: str, ids: Sequence[bytes], _ripe: bool) -> list[Planted]:
        first = client.zcard(key("queued")) + client.zcard(key("reserved"))
        pipe, jobs = client.pipeline(transaction=False), []
        for n, id in enumerate(ids, first):
            at_ms = NOW + n * 1000 + (HOUR if place in ("queued", "reserved") else -HOUR)
            score = at_ms if unit == "ms" else at_ms // 1000
            plant_job(pipe, place, id, score, b'{"n": %d}' % n + b"x" * (5000 if n % 3 == 0 else 0))
            jobs.append(Planted(id, place, str(score) if place in ("reserved", "expired") else ""))
        pipe.execute()
        return jobs

    return plant


def members(client: Redis, place: str) -> list[bytes]:
    """The ids of a place in its order."""
    found = client.zrange(key(place), 0, -1, withscores=True)
    is_past = place in ("due", "expired")
    return [id for id, score in found if ((score if score >= 1e11 else score * 1000) <= NOW) == is_past]


def facts(client: Redis, id: bytes) -> dict[str, object]:
    """All that Redis keeps of one job."""
    found = {name: client.zscore(key(name), id) for name in ("queued", "reserved", "expiries")}
    found["jobs"] = client.hget(key("jobs"), id)
    return {name: value for name, value in found.items() if value is not None}


def body(client: Redis, id: bytes) -> bytes | None:
    return client.hget(key("jobs"), id)


def ask(client: Redis, verb: str, rows: Sequence[object] = (), **args: object) -> Answer:
    """Run a script on the test's topic at the test's clock, with the unit `auto` unless given."""
    script = SCRIPTS[verb]
    for name, value in {"now_ms": NOW, "unit": "auto"}.items():
        if any(arg.name == name for arg in script.args):
            args.setdefault(name, value)
    return scripts.run(client, script.call(KEYS, args, rows))


def words(answer: Answer) -> list[str]:
    return [row.word for row in answer.each] if answer.each else [answer.word]


def request(name: str, rows: Callable[[Planted], tuple[object, ...]], **args: object) -> Callable[[Jobs], Request]:
    """A request for jobs, a row for each."""
    known = {arg.name for arg in SCRIPTS[name].args}
    given = {name: value for name, value in {"now_ms": NOW, "unit": "auto", **args}.items() if name in known}
    return lambda jobs: Request(given, [rows(job) for job in jobs])


def by_id(name: str, **args: object) -> Callable[[Jobs], Request]:
    return request(name, lambda job: (job.id,), **args)


def by_token(name: str, **args: object) -> Callable[[Jobs], Request]:
    return request(name, lambda job: (job.id, job.token or "1"), **args)


def some(name: str, **args: object) -> Callable[[Jobs], Request]:
    whole = request(name, lambda job: (), **args)
    return lambda jobs: Request({**whole([]).args, "limit": len(jobs)})


def at(
    ask_for: Callable[[Jobs], Request], place: str, prepare: Callable[[Redis, bytes], object] | None = None
) -> Callable[[World], Request]:
    """The request for one more job in `place`; for one that nobody knows when that is empty."""

    def way(world: World) -> Request:
        job = world.plant(place)[0] if place else world.new()
        if prepare:
            prepare(world.client, job.id)
        return ask_for([job])

    return way


def stale(ask_for: Callable[[Jobs], Request]) -> Callable[[World], Request]:
    return lambda world: ask_for([Planted(world.plant("reserved")[0].id, "reserved", "12345")])


def held(name: str, **args: object) -> Use:
    """How a verb on a lease is asked, and how it is refused."""
    plain = by_token(name, **args)
    return Use(plain, reach={"stale": stale(plain), "gone": at(plain, "")})


def emptied(ask_for: Callable[[Jobs], Request]) -> Callable[[World], Request]:
    def way(world: World) -> Request:
        world.client.delete(key("queued"), key("reserved"))
        return ask_for([Planted(b"")])

    return way


def stand_twice(world: World, jobs: Jobs) -> None:
    """A job that was put again while a worker held it."""
    for job in jobs:
        other = "reserved" if job.place in ("queued", "due") else "queued"
        world.client.zadd(key(other), {job.id: world.client.zscore(key(job.place), job.id)})


def counts_are_right(world: World, answer: Answer) -> None:
    assert {place: answer.values[place] for place in PLACES} == {p: len(ids) for p, ids in world.members().items()}


def page_is_in_order(world: World, answer: Answer) -> None:
    assert [row[0] for row in answer.rows] == members(world.client, "due")
    assert answer.values["total"] == len(answer.rows)
    for id, score, size, text, has_body, _expiries in answer.rows:
        full = body(world.client, id) or b""
        assert (size, has_body, float(score)) == (len(full), True, world.client.zscore(key("due"), id))
        assert text == full[:20]


def all_is_shown(world: World, answer: Answer) -> None:
    assert answer.values["place"] == "due"
    assert answer.values["body"] == body(world.client, answer.values["id"])


def nothing_is_found(world: World, answer: Answer) -> None:
    assert answer.rows == [] and answer.values["looked"] >= len(world.planted)


SHOW: Callable[[Jobs], Request] = lambda jobs: Request(  # noqa: E731 (one of a row of requests)
    {"now_ms": NOW, "id": jobs[0].id, "body_bytes": -1}
)
PUT = request("enqueue", lambda job: (job.id, b"{}", None, None))
USES = {
    "enqueue": Use(PUT, reach={"exists": at(PUT, "reserved")}),
    "reserve": Use(some("reserve", worker="w1"), chooses=True, reach={"empty": emptied(some("reserve"))}),
    "pull": Use(some("pull"), chooses=True, reach={"empty": emptied(some("pull"))}),
    "ack": held("ack"),
    "release": held("release"),
    "extend": Use(
        by_token("extend"),
        ("reserved", "expired"),
        reach={"stale": stale(by_token("extend")), "gone": at(by_token("extend"), "")},
    ),
    "delete": Use(
        by_id_and_token := request("delete", lambda job: (job.id, job.token), force=True),
        reach={
            "reserved": at(request("delete", lambda job: (job.id, job.token)), "reserved"),
            "stale": stale(by_id_and_token),
            "gone": at(request("delete", lambda job: (job.id, None)), ""),
        },
    ),
    "promote": Use(
        by_id("promote"), reach={"wrong_place": at(by_id("promote"), "due"), "gone": at(by_id("promote"), "")}
    ),
    "reschedule": Use(
        by_id("reschedule", delay_ms=2 * HOUR),
        repeats=True,
        reach={"wrong_place": at(by_id("reschedule"), "reserved"), "gone": at(by_id("reschedule"), "")},
    ),
    "reap": Use(some("reap"), chooses=True, reach={"empty": emptied(some("reap"))}),
    "repair": Use(
        by_id("repair"),
        prepare=stand_twice,
        reach={
            "fine": at(by_id("repair"), "due"),
            "ghost": at(by_id("repair"), "due", lambda client, id: client.hdel(key("jobs"), id)),
            "gone": at(by_id("repair"), ""),
        },
    ),
    "counts": Use(lambda jobs: Request({"now_ms": NOW}), ("due",), knows_jobs=False, reads=counts_are_right),
    "page": Use(
        lambda jobs: Request({"now_ms": NOW, "place": "due", "offset": 0, "limit": 100, "body_bytes": 20}),
        ("due",),
        knows_jobs=False,
        reads=page_is_in_order,
    ),
    "show": Use(SHOW, ("due",), reads=all_is_shown, reach={"gone": at(SHOW, "")}),
    "faults": Use(lambda jobs: Request({"unit": "auto"}), ("due",), knows_jobs=False, reads=nothing_is_found),
}


def subject(unit: str, found: Mapping[str, Script] = SCRIPTS) -> Subject:
    """The layout over topics in one unit."""
    return Subject("redisched", found, PLACES, key, planter(unit), members, facts, body, USES)


SUBJECTS = {unit: subject(unit) for unit in ("ms", "s")}
