"""The systems of others in the pictures: their keys, written by raw commands as their own programs write them.

`systems` is an app with its clock stopped that looks at all of them; `plant` writes the data of one, at `NOW`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgpack
from redis import Redis

from rqtui.layout.layout import Layout
from rqtui.scenarios import rq as shop
from rqtui.scenarios.originals import rq
from rqtui.scripts.script import Call
from rqtui.systems import registry
from screenshots.seeded import NOW

S = NOW // 1000
SPECS = (
    "dispatcher",
    "redisched:unit=ms",
    "timeout_sets:lock_ms=60000",
    "orizuru:source=resize",
    "safe_pop:queue=crawl",
    "rq",
)


def stopped(specs: Sequence[str] = SPECS) -> list[Layout]:
    """The layouts with their clocks stopped."""
    return [_stopped(registry.make(spec)) for spec in specs]


def _stopped(layout: Layout) -> Layout:
    call = layout.call

    def at_now(name: str, queue: str, args: Mapping[str, object], rows: Sequence[Mapping[str, object]] = ()) -> Call:
        known = {arg.name for arg in layout.script(name).args}
        return call(name, queue, {**args, **({"now_ms": NOW} if "now_ms" in known else {})}, rows)

    layout.call = at_now  # type: ignore[method-assign]
    layout.queues_ask = lambda _queues: None  # type: ignore[method-assign]  # each by itself, with the clock above
    return layout


def plant_dispatcher(client: Any, rng: random.Random) -> None:
    """Tasks over the next minutes, a few of them overdue."""
    for n in range(64):
        due_s = S - 14 + n * 9 if n < 40 else S + rng.randrange(600, 90_000)
        client.zadd("delayedtaskset", {f'{{"task":"remind","user":{4000 + n},"channel":"sms"}}': due_s})
    for n in range(11):
        client.rpush("readytasklist", f'{{"task":"invoice","order":{98_000 + 7 * n}}}')


def plant_redisched(client: Any, rng: random.Random) -> None:
    """Mails three days ahead, some due, some in hand, one lease over."""
    jobs, queued, reserved = (f"__REDIS_SCHED_{kind}__onboarding" for kind in ("JOBS", "QUEUED", "RESERVED"))
    for n in range(48):
        id = f"need_some_help_email_{2100 + 3 * n}"
        client.hset(jobs, id, f'{{"template":"need_some_help","user":{2100 + 3 * n}}}')
        if n < 6:
            client.zadd(reserved, {id: NOW + 52_000 - 9_000 * n if n else NOW - 4_000})
        elif n < 13:
            client.zadd(queued, {id: NOW - 1_000 * (20 - n)})
        else:
            client.zadd(queued, {id: NOW + rng.randrange(60_000, 260_000_000)})


def plant_timeout_sets(client: Any, rng: random.Random) -> None:
    """Numbers to work on; one of those in hand has lost its lock."""
    client.sadd("todos", *range(1200, 1200 + 260))
    client.sadd("in_progress", *range(1100, 1112))
    client.sadd("done", *range(1, 1100))
    for n in range(1100, 1111):
        client.set(f"{n}-lock", "", px=57_900 - 4_000 * (n - 1100))


def plant_orizuru(client: Any, rng: random.Random) -> None:
    """Pictures to make smaller; a consumer that is silent and holds two."""

    def job() -> bytes:
        packed: bytes = msgpack.packb([rng.randrange(10_000, 99_999), f"img/{rng.randrange(999)}.jpg", 320])
        return packed

    client.lpush("resize", *(job() for _ in range(31)))
    for number, name in enumerate(("web-1", "web-2", "web-3")):
        client.sadd("orizuru:consumers", name)
        client.lpush(f"orizuru:consumers:{name}:processing", *(job() for _ in range(number + 1)))
        beat_ms = NOW - (190_000 if name == "web-2" else 2_000 + 1_500 * number)
        client.hset("orizuru:heartbeats", name, beat_ms)
        if name != "web-2":
            client.set(f"orizuru:consumers:{name}:heartbeat", beat_ms, px=27_900 - 1_500 * number)
    client.lpush("orizuru:consumers:web-1:unacked", job(), job(), job())


def plant_safe_pop(client: Any, rng: random.Random) -> None:
    """Pages to fetch; entries that were handed out, two of them late."""
    for n in range(37):
        id = f"{rng.randrange(16**8):08x}-5d1e-4f0a-9c3b-{rng.randrange(16**12):012x}"
        client.set(f"crawl:data:{id}", f'{{"url":"https://example.org/page/{n}","depth":{n % 3}}}', ex=86_400)
        handed_out = {0: S - 71, 1: S - 44, 4: S - 9, 5: S - 17, 9: S - 2}.get(n)
        client.lpush("crawl", f"{id}|{handed_out}" if handed_out else id)


_PEOPLE = ("ada", "zoe", "jose", "hanako", "olga", "neha", "ngoc", "sam")


def _calls(n: int) -> tuple[tuple[str, tuple[object, ...], dict[str, object]], ...]:
    """The calls of a shop, with the figures of job number `n`."""
    to, order = f"{_PEOPLE[n % 8]}@example.org", 98_000 + 7 * n
    return (
        ("shop.orders.confirm", (order,), {}),
        ("shop.invoices.render", (order,), {"cents": 990 + 173 * n % 9_000}),
        ("shop.images.resize", (f"s3://photos/{7919 * (n + 50) % 16**6:06x}.jpg",), {"width": (96, 640, 1600)[n % 3]}),
        ("shop.mails.send", (to, "order_sent"), {"order": order}),
        ("shop.mails.remind", (to,), {"order": order}),
    )


def plant_rq(client: Any, rng: random.Random) -> None:
    """A shop after a bad deploy: three causes, an abandoned run, overdue reminders."""
    made = ((number, f"{rng.getrandbits(32):08x}-{rng.getrandbits(16):04x}") for number in range(10_000))

    def save(status: str, ago_s: float, call: int | None = None, **fields: object) -> str:
        number, id = next(made)
        function, args, kwargs = _calls(number)[number % 4 if call is None else call]
        queue, at_s = rq.Queue(client, "default", lambda: S - ago_s), rq.instant(S - ago_s)
        data, words = rq.encoded(function, *args, **kwargs), rq.described(function, *args, **kwargs)
        queue.save(client, status, id, data, words, enqueued_at=at_s, **fields)
        return id

    for n in range(34):
        client.rpush("rq:queue:default", save("queued", 95 - 2.5 * n))
    for n in range(12):
        client.zadd("rq:scheduled:default", {save("scheduled", 900, 4): S - 140 + 45 * n})
    for n in range(2):
        client.zadd("rq:deferred:default", {save("deferred", 60 * n, 3): S - 60 * n})
    for n in range(57):
        ended_s = S - 3 * n
        id = save("finished", 3 * n + 9, n % 4, started_at=rq.instant(ended_s - 2), ended_at=rq.instant(ended_s))
        client.zadd("rq:finished:default", {id: ended_s + rq.RESULT_S})
    for n in range(48):
        ended_s, cause = S - 11 - 17 * n, shop.CAUSES[(0, 0, 1, 0, 2, 1)[n % 6]]
        call = next(at for at, (function, *_) in enumerate(_calls(n)) if function == cause.function)
        times = {
            "started_at": rq.instant(ended_s - 1),
            "ended_at": rq.instant(ended_s),
            "worker_name": f"web-{n % 3 + 1}",
        }
        id = save("failed", S - ended_s + 20, call, **times)
        client.zadd("rq:failed:default", {id: ended_s + rq.FAILURE_S})
        told = {"type": 2, "worker_name": f"web-{n % 3 + 1}", "exc_string": rq.packed(shop.trace(cause))}
        client.xadd(f"rq:results:{id}", told, id=f"{ended_s * 1000}-0")
    client.zadd("rq:canceled:default", {save("canceled", 400, 1): S - 300})
    for n, name in enumerate(("web-1", "web-2", "web-3", "web-9")):
        key, began_s = rq.worker_key(name), S - (190 if name == "web-9" else 4 + 3 * n)
        client.sadd("rq:workers", key)
        client.sadd("rq:workers:default", key)
        id = save("started", S - began_s + 5, 2, started_at=rq.instant(began_s), worker_name=name)
        client.zadd("rq:wip:default", {f"{id}:{n:032x}": began_s + 90})
        if name != "web-9":
            beat = {"last_heartbeat": rq.instant(S - 2), "birth": rq.instant(S - 86_000), "state": "busy"}
            client.hset(
                key, mapping={**beat, "queues": "default", "pid": 4_100 + n, "hostname": "web", "version": "3.0.0"}
            )


PLANTS: dict[str, Callable[[Any, random.Random], None]] = {
    "dispatcher:readytasklist": plant_dispatcher,
    "redisched:onboarding": plant_redisched,
    "timeout_sets:todos": plant_timeout_sets,
    "orizuru:resize": plant_orizuru,
    "safe_pop:crawl": plant_safe_pop,
    "rq:default": plant_rq,
}


def plant(client: Redis) -> None:
    """All of them, at once."""
    client.flushall()
    for queue, write in PLANTS.items():
        write(client, random.Random(queue))
