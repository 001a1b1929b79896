"""The foreign systems of the screenshots. Raw commands write the keys as the original programs do.

`build_stopped_systems` returns all systems with stopped clocks; `plant` writes the data of all, at `NOW`.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgpack
from redis import Redis

from rqtui.model import EventCoverage
from rqtui.scenarios import bullmq as node_shop
from rqtui.scenarios import celery as late_shop
from rqtui.scenarios import rq as shop
from rqtui.scenarios import sidekiq as ruby_shop
from rqtui.scenarios.originals import bullmq, celery, rq, sidekiq
from rqtui.scripts.script import Call
from rqtui.system_base.system import System
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
    "celery:visibility=60",
    "sidekiq",
    "bullmq",
)


def build_stopped_systems(specs: Sequence[str] = SPECS) -> list[System]:
    """Build the systems with stopped clocks."""
    return [_stopped(registry.create_system(spec)) for spec in specs]


def _stopped(system: System) -> System:
    call = system.build_call

    def at_now(name: str, queue: str, args: Mapping[str, object], rows: Sequence[Mapping[str, object]] = ()) -> Call:
        known = {arg.name for arg in system.script(name).args}
        return call(name, queue, {**args, **({"now_ms": NOW} if "now_ms" in known else {})}, rows)

    system.build_call = at_now  # type: ignore[method-assign]
    system.queues_request = lambda _queues: None  # type: ignore[method-assign]  # each by itself, with the clock above
    if system.event_patterns():
        system.event_patterns = lambda: ()  # type: ignore[method-assign]  # what was heard is given
        system.now_ms = lambda: NOW  # type: ignore[method-assign]
        system.event_coverage = EventCoverage(NOW - 150_000)
        _publish_recorded_events(system, list(_HEARD))
    return system


def _publish_recorded_events(system: System, heard: list[tuple[bytes, bytes, int]]) -> None:
    """Give the system the published events after its queues are found."""
    discover = system.discover

    def and_hear(client: Any) -> Iterator[list[str]]:
        yield from discover(client)
        while heard:
            system.record_event(*heard.pop(0))

    system.discover = and_hear  # type: ignore[method-assign]


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
    """Plant images to resize, and a consumer without heartbeats that holds two."""

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


def _build_calls(n: int) -> tuple[tuple[str, tuple[object, ...], dict[str, object]], ...]:
    """Build the calls of a shop, with the figures of job number `n`."""
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
        function, args, kwargs = _build_calls(number)[number % 4 if call is None else call]
        queue, at_s = rq.Queue(client, "default", lambda: S - ago_s), rq.format_time(S - ago_s)
        data, words = rq.encode_call(function, *args, **kwargs), rq.format_call(function, *args, **kwargs)
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
        id = save(
            "finished", 3 * n + 9, n % 4, started_at=rq.format_time(ended_s - 2), ended_at=rq.format_time(ended_s)
        )
        client.zadd("rq:finished:default", {id: ended_s + rq.RESULT_S})
    for n in range(48):
        ended_s, cause = S - 11 - 17 * n, shop.CAUSES[(0, 0, 1, 0, 2, 1)[n % 6]]
        call = next(at for at, (function, *_) in enumerate(_build_calls(n)) if function == cause.function)
        times = {
            "started_at": rq.format_time(ended_s - 1),
            "ended_at": rq.format_time(ended_s),
            "worker_name": f"web-{n % 3 + 1}",
        }
        id = save("failed", S - ended_s + 20, call, **times)
        client.zadd("rq:failed:default", {id: ended_s + rq.FAILURE_S})
        told = {
            "type": 2,
            "worker_name": f"web-{n % 3 + 1}",
            "exc_string": rq.encode_traceback(shop.format_traceback(cause)),
        }
        client.xadd(f"rq:results:{id}", told, id=f"{ended_s * 1000}-0")
    client.zadd("rq:canceled:default", {save("canceled", 400, 1): S - 300})
    for n, name in enumerate(("web-1", "web-2", "web-3", "web-9")):
        key, began_s = rq.build_worker_key(name), S - (190 if name == "web-9" else 4 + 3 * n)
        client.sadd("rq:workers", key)
        client.sadd("rq:workers:default", key)
        id = save("started", S - began_s + 5, 2, started_at=rq.format_time(began_s), worker_name=name)
        client.zadd("rq:wip:default", {f"{id}:{n:032x}": began_s + 90})
        if name != "web-9":
            beat = {"last_heartbeat": rq.format_time(S - 2), "birth": rq.format_time(S - 86_000), "state": "busy"}
            client.hset(
                key, mapping={**beat, "queues": "default", "pid": 4_100 + n, "hostname": "web", "version": "3.0.0"}
            )


def plant_sidekiq(client: Any, rng: random.Random) -> None:
    """A shop in a retry storm: a killed process with three exports, reminders that no process queues."""
    orders = iter(range(98_000, 99_999, 7))

    def item(ago_s: float, job: str, *args: object) -> dict[str, object]:
        producer = sidekiq.Client(client, "default", lambda: S - ago_s)
        jid = f"{rng.getrandbits(96):024x}"
        return {
            **producer.build_item(jid, job, *(args or (next(orders),))),
            "enqueued_at": sidekiq.convert_to_ms(S - ago_s),
        }

    client.config_set("hash-max-ziplist-value", 4096)  # a hash returns its fields in the order of writing, every time
    client.sadd("queues", "default")
    usual = ("ConfirmOrderJob", "ChargeCardJob", "RenderInvoiceJob", "ConfirmOrderJob")
    for n in range(34):
        client.lpush("queue:default", sidekiq.encode_item(item(52 - 1.5 * n, usual[n % 4])))
    for n in range(14):
        reminder = item(900, "RemindJob", f"{_PEOPLE[n % 8]}@example.org", next(orders))
        client.zadd("schedule", {sidekiq.encode_item(reminder): S - 140 + 45 * n})
    for n in range(43):
        cause = ruby_shop.CAUSES[n % 9 == 4]
        told = sidekiq.add_error(item(30 + 7 * n, cause.job), ruby_shop.build_error(cause), S - 26 - 7 * n)
        client.zadd("retry", {sidekiq.encode_item(told): S - 11 + 2.5 * n})
    for n in range(17):
        told = sidekiq.add_error(
            item(900 + 500 * n, usual[2]), ruby_shop.build_error(ruby_shop.CAUSES[1]), S - 890 - 500 * n
        )
        sidekiq.add_to_dead(client, sidekiq.encode_item({**told, "retry": 3, "retry_count": 3}), S - 890 - 500 * n)
    for number, host in enumerate(("web-1", "web-2", "web-3", "web-9"), 1):
        is_killed = host == "web-9"
        beat_s = S - (25 if is_killed else 2 * number)
        process = sidekiq.Process(
            client, "default", host, clock=lambda at_s=beat_s: at_s - 3, number=number, threads=3 if is_killed else 1
        )
        for n in range(3 if is_killed else 1):
            export = ("ExportJob", f"orders-{4 * number + n:02}", {"rows": 40_000 + 7_919 * (n + number)})
            process.begin(sidekiq.encode_item(item(S - beat_s + 4 + n, *export)))
        process.beat(at_s=beat_s)
        for key in (process.identity, f"{process.identity}:work"):
            client.pexpire(key, 1_000 * (sidekiq.LIFE_S - S + beat_s) + 500)


_HEARD: list[tuple[bytes, bytes, int]] = []  # channel, message, when: what the planted workers of Celery published


def plant_celery(client: Any, rng: random.Random) -> None:
    """A shop whose card gateway is away: a killed worker, reminders beyond the timeout, two minutes of its workers."""
    now_s, orders = [float(S)], iter(range(98_000, 99_999, 7))
    ids = (str(uuid.UUID(int=rng.getrandbits(128), version=4)) for _ in range(10_000))

    def task(name: str, *args: object, **more: Any) -> celery.Message:
        return celery.build_task_message(f"shop.{name}", next(ids), "shop", args or (next(orders),), **more)

    def run(headers: Mapping[str, Any], _args: list[Any], _kwargs: dict[str, Any]) -> object:
        now_s[0] += 0.4 + 0.1 * (int(headers["id"][0], 16) % 8)
        cause = next((cause for cause in late_shop.CAUSES if cause.task == headers["task"]), None)
        if cause is late_shop.STORM or (cause and headers["id"][1] in "0123456"):
            raise cause.build_error(late_shop.RETRIES)
        return {"ok": True}

    celery.declare_queue(client, "shop")
    _HEARD.clear()
    workers = [celery.Worker(client, "shop", f"web-{n}", run, clock=lambda: now_s[0], number=n) for n in range(1, 5)]
    with client.pubsub(ignore_subscribe_messages=True) as ear:
        ear.psubscribe("/*.celeryev/*", "celery-task-meta-*")
        ear.get_message(timeout=5)
        for n in range(64):
            at_s = now_s[0] = S - 140 + 2.2 * n
            name = ("confirm", "charge", "resize", "invoice", "confirm", "resize", "charge")[n % 7]
            celery.publish_message(client, "shop", task(name))
            workers[n % 4].step()
            _listen(ear, at_s)
        for n, worker in enumerate(workers):
            now_s[0] = S - 1.6 + 0.3 * n
            worker.begin()
            _listen(ear, now_s[0])
    for n in range(3):
        celery.reserve_message(client, "shop", task("export", f"2026-{n + 7:02}", priority=0), S - 79)
    for n in range(13):
        more = {"eta_s": S + 61 + 23 * n}
        celery.reserve_message(client, "shop", task("remind", f"{_PEOPLE[n % 8]}@example.org", **more), S - 31 + n / 4)
    for n in range(15):
        name = ("confirm", "resize", "charge", "export")[n % 4]
        celery.reserve_message(client, "shop", task(name), S - 9 + n / 2)
    for n in range(31):
        celery.publish_message(client, "shop", task(("confirm", "invoice", "charge", "resize")[n % 4]))
    for n in range(9):
        celery.publish_message(client, "shop", task("stock", f"warehouse-{n + 1}", priority=9))


def _listen(ear: Any, at_s: float) -> None:
    while told := ear.get_message():
        _HEARD.append((told["channel"], told["data"], int(at_s * 1000)))


_WORKERS: list[Any] = []  # connections, while the images are made


def plant_bullmq(client: Any, rng: random.Random) -> None:
    """A shop after an upgrade: labels that fail, parcels that wait for them, jobs that BullMQ 5 left in paused."""
    p, orders = bullmq.build_key_prefix("shop"), iter(range(61_000, 69_999, 7))

    def save(name: str, ago_s: float, state: str = "", **more: object) -> str:
        queue = bullmq.Queue(client, "shop", lambda: S - ago_s)
        id = f"job-{rng.getrandbits(48):012x}" if state != "parcel" else f"parcel-{more['order']}"
        data = {"order": more.pop("order", None) or next(orders)}
        opts = {"attempts": 3, "backoff": {"type": "fixed", "delay": 20_000}, "jobId": id}
        client.hset(f"{p}{id}", mapping={**queue.build_fields(name, data, opts), **more})
        return id

    bullmq.Queue(client, "shop").connect()
    usual = ("confirmOrder", "charge", "resizeImage", "confirmOrder")
    for n in range(21):
        client.lpush(f"{p}wait", save(usual[n % 4], 31 - 1.4 * n))
    for n in range(24):
        client.lpush(f"{p}paused", save("sendMail", 4_100 - 20 * n))
    for n in range(6):
        client.zadd(f"{p}prioritized", {save("charge", 22 - 3 * n, priority=2): 2 * bullmq.PRIORITY + n})
    for n in range(17):
        client.zadd(f"{p}delayed", {save("remind", 300): (NOW + 4_000 + 9_000 * n) * bullmq.UNIT})
    for n in range(38):
        client.zadd(f"{p}completed", {save(usual[n % 4], 130 - 3 * n, returnvalue="{}"): NOW - 1_000 * (118 - 3 * n)})
    for n in range(46):
        cause = node_shop.CAUSES[n % 9 == 7]
        at_ms, error = NOW - 1_000 * (12 + 7 * n), node_shop.build_error(cause)
        ran = {"atm": 3, "ats": 3, "pb": f"web-{1 + n % 4}", "processedOn": at_ms - 300, "finishedOn": at_ms}
        told = {"failedReason": str(error), "stacktrace": bullmq.encode_json([error.trace] * 3)}
        id = save(cause.job, 53 + 7 * n, **ran, **told)
        client.zadd(f"{p}failed", {id: at_ms})
        if cause is node_shop.STORM and n < 5:
            order = next(orders)
            parent = save("shipParcel", 60 + 7 * n, "parcel", order=order)
            client.zadd(f"{p}waiting-children", {parent: at_ms - 20_000})
            client.sadd(f"{p}{parent}:dependencies", f"{p}{id}")
            client.hset(f"{p}{id}", "parentKey", f"{p}{parent}")
    for n in range(7):
        name, began_ms = ("web-9", NOW - 48_000) if n < 3 else (f"web-{n - 2}", NOW - 900 + 150 * n)
        id = save("resizeImage", 50 if n < 3 else 9, processedOn=began_ms, ats=1, pb=name)
        client.lpush(f"{p}active", id)
        if n >= 3:
            client.set(f"{p}{id}:lock", f"{name}:{n}", px=bullmq.LOCK_MS - 100)
            connection = client.connection_pool.make_connection()  # BullMQ has no other list of its workers
            connection.connect()
            connection.send_command("CLIENT", "SETNAME", bullmq.build_connection_name("shop", name))
            connection.read_response()
            _WORKERS.append(connection)


PLANTS: dict[str, Callable[[Any, random.Random], None]] = {
    "dispatcher:readytasklist": plant_dispatcher,
    "redisched:onboarding": plant_redisched,
    "timeout_sets:todos": plant_timeout_sets,
    "orizuru:resize": plant_orizuru,
    "safe_pop:crawl": plant_safe_pop,
    "rq:default": plant_rq,
    "celery:shop": plant_celery,
    "sidekiq:default": plant_sidekiq,
    "bullmq:shop": plant_bullmq,
}


def plant(client: Redis) -> None:
    """Plant the data of all systems."""
    client.flushall()
    for queue, write in PLANTS.items():
        write(client, random.Random(queue))
