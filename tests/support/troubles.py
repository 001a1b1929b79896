"""What reports tell of: jobs that failed, jobs that are held, workers that beat, in native queues."""

from __future__ import annotations

import time

from redis import Redis

from rqtui.client.native_keys import keys
from rqtui.client.queue import Queue


def fail(queue: Queue, *messages: str, name: str = "send", final: bool = True) -> None:
    """Jobs that failed once, with these errors."""
    for message in messages:
        queue.put({}, name=name, priority=-9)
        (job,) = queue.reserve(1, worker="w1")
        job.reject(message, final=final, delay=None if final else "10m")


def hold(client: Redis, worker: str, *ids: str) -> None:
    """Jobs that a worker holds for an hour."""
    mail = Queue("mail", client)
    for id in ids:
        mail.put({}, id=id, name="send", priority=-9)
        mail.reserve(1, worker=worker, ttr="1h")


def beat(client: Redis, name: str, ago_s: float, queue: str = "mail", order: str = "run", job: str = "") -> None:
    """A worker whose last sign of life was so long ago."""
    now_ms = int(time.time() * 1000)
    client.hset(keys(queue)["workers"], name, f"{now_ms - int(ago_s * 1000)} 60000 {order} {now_ms} 42 jobs-1 {job}")
