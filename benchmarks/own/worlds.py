"""Build data for the measurements: many jobs of other systems, as their own programs leave them in Redis."""

from __future__ import annotations

import base64
import json
import pickle
import time
import zlib
from collections.abc import Iterator
from typing import Any

CHUNK = 10_000  # commands per pipeline

Commands = Iterator[tuple[Any, ...]]


def send_in_pipelines(client: Any, commands: Commands) -> None:
    """Send the commands in pipelines of some thousands each."""
    pipe = client.pipeline(transaction=False)
    for number, command in enumerate(commands, 1):
        pipe.execute_command(*command)
        if number % CHUNK == 0:
            pipe.execute()
    pipe.execute()


def build_body(number: int) -> bytes:
    """Return a small JSON body."""
    return b'{"to": %d, "about": "%s"}' % (number, b"x" * 80)


def build_rq_queues(number: int) -> Commands:
    """Yield the commands that plant RQ queues, each with jobs in four places and a worker."""
    now_s = int(time.time())
    for at in range(number):
        queue, first = f"queue-{at}", f"{at}-0"
        yield "SADD", "rq:queues", f"rq:queue:{queue}"
        yield "RPUSH", f"rq:queue:{queue}", *(f"{at}-{n}" for n in range(5))
        yield "ZADD", f"rq:failed:{queue}", now_s + 9000, f"{at}-f"
        yield "ZADD", f"rq:finished:{queue}", now_s + 500, f"{at}-d"
        yield "ZADD", f"rq:wip:{queue}", now_s + 60, f"{at}-s:{at}"
        yield (
            "HSET",
            f"rq:job:{first}",
            "status",
            "queued",
            "enqueued_at",
            "2026-11-22T04:43:55.938008Z",
            "data",
            build_body(at),
        )
        yield "SADD", f"rq:workers:{queue}", f"rq:worker:{at}"
        yield "HSET", f"rq:worker:{at}", "last_heartbeat", "2026-11-22T04:43:55.938008Z", "state", "idle"


def build_rq_long(number: int) -> Commands:
    """Yield the commands that plant an RQ queue with `number` ids in each place.

    Only ids at the ends and in the middle have a hash and a result.
    """
    now_s = int(time.time())
    yield "SADD", "rq:queues", "rq:queue:long"
    for at in range(0, number, 1000):
        ids = [str(n) for n in range(at, min(number, at + 1000))]
        for key in ("rq:queue:long", "rq:queue:long:intermediate"):
            yield "RPUSH", key, *ids
        for key in ("scheduled", "deferred", "ready", "wip", "finished", "failed", "canceled"):
            ahead_s = 0 if key == "wip" else 9000
            scored = ((now_s + ahead_s + int(id), f"{id}:{id}" if key == "wip" else id) for id in ids)
            yield "ZADD", f"rq:{key}:long", *(part for pair in scored for part in pair)
    error = base64.b64encode(zlib.compress(b"Traceback (most recent call last):\n" + b"  File ...\n" * 200))
    data = zlib.compress(pickle.dumps(("tasks.add", None, (1, "x" * 200), {}), 5))
    for n in (*range(min(number, 300)), *range(number // 2, number // 2 + 300), *range(max(0, number - 300), number)):
        fields = {"status": "failed", "origin": "long", "created_at": "2026-11-22T04:43:55.938008Z", "data": data}
        yield "HSET", f"rq:job:{n}", *(part for pair in fields.items() for part in pair), "description", "tasks.add(1)"
        yield "XADD", f"rq:results:{n}", "*", "type", "2", "exc_string", error
    for n in range(min(number, 1000)):
        yield "SADD", "rq:workers:long", f"rq:worker:{n}"
        yield "HSET", f"rq:worker:{n}", "last_heartbeat", "2026-11-22T04:43:55.938008Z", "state", "idle"


def _build_sidekiq_job(id: int, queue: str) -> str:
    """Return a payload as Sidekiq 8 writes it."""
    now_ms = int(time.time() * 1000)
    job = f'"retry":true,"queue":"{queue}","class":"HardJob","args":[{id},"{"x" * 40}"],"jid":"{id:024x}"'
    return f'{{{job},"created_at":{now_ms},"enqueued_at":{now_ms}}}'


def build_sidekiq_queues(number: int) -> Commands:
    """Yield the commands that plant Sidekiq queues with five jobs each, and 50 processes that run ten jobs each."""
    now_s = time.time()
    for queue in range(number):
        yield "SADD", "queues", f"queue-{queue}"
        yield "LPUSH", f"queue:queue-{queue}", *(_build_sidekiq_job(n, f"queue-{queue}") for n in range(5))
    for at in range(50):
        identity = f"app-{at}:{at}:abc"
        named = [f"queue-{n % number}" for n in range(at * 20, at * 20 + 20)]
        yield "SADD", "processes", identity
        info = json.dumps({"hostname": f"app-{at}", "pid": at, "queues": named, "concurrency": 10})
        yield "HSET", identity, "info", info, "beat", now_s + 3600, "busy", "10"
        for thread in range(10):
            work = {"queue": named[thread], "payload": _build_sidekiq_job(thread, named[thread]), "run_at": int(now_s)}
            yield "HSET", f"{identity}:work", f"t{thread}", json.dumps(work, separators=(",", ":"))


def build_sidekiq_long(number: int) -> Commands:
    """Yield the commands that plant a long Sidekiq queue, and long places that all queues share.

    The queue and each shared place have `number` jobs. Every thousandth job of a shared place belongs to the queue.
    """
    now_s = time.time()
    yield "SADD", "queues", "long"
    for at in range(0, number, 1000):
        some = range(at, min(number, at + 1000))
        yield "LPUSH", "queue:long", *(_build_sidekiq_job(id, "long") for id in some)
        for number_of_place, key in enumerate(("schedule", "retry", "dead"), 1):
            score_s = now_s + (-9000 if key == "dead" else 9000)
            named = (f"queue-{id % 1000}" if id % 1000 else "long" for id in some)
            jobs = (
                _build_sidekiq_job(id + number_of_place * number, queue) for id, queue in zip(some, named, strict=True)
            )
            scored = ((score_s + id / 1000, job) for id, job in zip(some, jobs, strict=True))
            yield "ZADD", key, *(part for pair in scored for part in pair)


def _build_bullmq_job(key: str) -> tuple[Any, ...]:
    """Return the hash of a failed BullMQ job."""
    now_ms = str(int(time.time() * 1000))
    trace = json.dumps(["Error: no\n" + "    at run (/srv/app.js:1:2)\n" * 20] * 2)
    fields = {"name": "send", "data": build_body(1), "opts": '{"attempts":2}', "timestamp": now_ms, "delay": 0}
    ran = {"atm": 2, "ats": 2, "processedOn": now_ms, "finishedOn": now_ms, "failedReason": "no", "stacktrace": trace}
    return "HSET", key, *(part for pair in (fields | ran).items() for part in pair)


def build_bullmq_queues(number: int) -> Commands:
    """Yield the commands that plant BullMQ queues, each with jobs in four places and one running job."""
    now_ms = int(time.time() * 1000)
    for at in range(number):
        before = f"bull:queue-{at}:"
        yield "HSET", f"{before}meta", "version", "bullmq:6.7.0", "opts.maxLenEvents", 10_000
        yield "SET", f"{before}id", 9
        yield "LPUSH", f"{before}wait", *range(5)
        yield "LPUSH", f"{before}active", 6
        yield "SET", f"{before}6:lock", "a-worker:1", "PX", 3_600_000
        yield "ZADD", f"{before}completed", now_ms, 7
        yield "ZADD", f"{before}failed", now_ms, 8
        yield _build_bullmq_job(f"{before}0")


def build_bullmq_long(number: int) -> Commands:
    """Yield the commands that plant a BullMQ queue with `number` ids in each place.

    Only ids at the ends and in the middle have a hash.
    """
    now_ms, before = int(time.time() * 1000), "bull:long:"
    yield "HSET", f"{before}meta", "version", "bullmq:6.7.0", "opts.maxLenEvents", 10_000
    yield "SET", f"{before}id", number
    for at in range(0, number, 1000):
        ids = range(at, min(number, at + 1000))
        for place in ("wait", "paused", "active"):
            yield "LPUSH", f"{before}{place}", *ids
        for place in ("delayed", "waiting-children", "prioritized", "completed", "failed"):
            first = {"delayed": (now_ms + 9_000_000) * 4096, "prioritized": 2**32}.get(place, now_ms)
            yield "ZADD", f"{before}{place}", *(part for id in ids for part in (first + id, id))
    for n in (*range(min(number, 300)), *range(number // 2, number // 2 + 300), *range(max(0, number - 300), number)):
        yield _build_bullmq_job(f"{before}{n}")


_SEP = "\x06\x16"  # between the parts of a binding, and before a priority


def _build_celery_message(id: int, queue: str, eta: str = "") -> str:
    """Return a message as Celery 5.7 writes it to Redis."""
    name, when = f"{id:08x}-0000-4000-8000-000000000000", f'"{eta}"' if eta else "null"
    call = base64.b64encode(b'[[%d, "%s"], {}, {"callbacks": null, "errbacks": null}]' % (id, b"x" * 40)).decode()
    headers = f'"lang": "py", "task": "tasks.add", "id": "{name}", "eta": {when}, "expires": null, "retries": 0, '
    headers += f'"root_id": "{name}", "argsrepr": "({id}, ...)", "kwargsrepr": "{{}}", "origin": "gen1@app"'
    delivery = f'"delivery_info": {{"exchange": "celery", "routing_key": "{queue}"}}, "priority": 0'
    properties = f'"correlation_id": "{name}", {delivery}, "body_encoding": "base64", "delivery_tag": "{name}"'
    content = f'"body": "{call}", "content-encoding": "utf-8", "content-type": "application/json"'
    return f'{{{content}, "headers": {{{headers}}}, "properties": {{{properties}}}}}'


def _build_celery_binding(queue: str) -> tuple[Any, ...]:
    return "SADD", "_kombu.binding.celery", f"{queue}{_SEP}{_SEP}{queue}"


def build_celery_queues(number: int) -> Commands:
    """Yield the commands that plant Celery queues with five messages each, all bound to one exchange."""
    for queue in range(number):
        yield _build_celery_binding(f"queue-{queue}")
        yield "LPUSH", f"queue-{queue}", *(_build_celery_message(n, f"queue-{queue}") for n in range(5))


def build_celery_long(number: int) -> Commands:
    """Yield the commands that plant a Celery queue with `number` messages, and as many messages that workers hold.

    Every thousandth held message is from that queue. A third of the held messages is late, a third has an ETA tomorrow,
    and a third was just taken.
    """
    now_s = int(time.time())
    tomorrow = time.strftime("%Y-%m-%dT%H:%M:%S.000000+00:00", time.gmtime(now_s + 86_400))
    yield _build_celery_binding("long")
    for at in range(0, number, 500):
        some = range(at, min(number, at + 500))
        yield "LPUSH", "long", *(_build_celery_message(id, "long") for id in some)
        held, taken = [], []
        for id in some:
            queue = f"queue-{id % 1000}" if id % 1000 else "long"
            message = _build_celery_message(id + number, queue, tomorrow if id % 3 == 1 else "")
            held += [f"tag-{id}", f'[{message}, "celery", "{queue}"]']
            taken += [now_s - (9000 if id % 3 == 0 else 60) + id / number, f"tag-{id}"]
        yield "HSET", "unacked", *held
        yield "ZADD", "unacked_index", *taken
