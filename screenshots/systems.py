"""The five systems of others in the pictures: their keys, written by raw commands as their own programs write them.

`systems` is an app with its clock stopped that looks at all of them; `plant` writes the data of one, at `NOW`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgpack
from redis import Redis

from rqtui.layout.layout import Layout
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


PLANTS: dict[str, Callable[[Any, random.Random], None]] = {
    "dispatcher:readytasklist": plant_dispatcher,
    "redisched:onboarding": plant_redisched,
    "timeout_sets:todos": plant_timeout_sets,
    "orizuru:resize": plant_orizuru,
    "safe_pop:crawl": plant_safe_pop,
}


def plant(client: Redis) -> None:
    """All five, at once."""
    client.flushall()
    for queue, write in PLANTS.items():
        write(client, random.Random(queue))
