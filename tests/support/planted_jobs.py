"""Add failed jobs, leased jobs and workers with heartbeats to native queues, for tests of reports."""

from __future__ import annotations

import time

from redis import Redis

from rqtui.client.native_keys import build_queue_keys
from rqtui.client.queue import Queue


def add_failed_jobs(queue: Queue, *messages: str, name: str = "send", final: bool = True) -> None:
    """Add jobs to a native queue that failed once, each with one of the given errors."""
    for message in messages:
        queue.put({}, name=name, priority=-9)
        (job,) = queue.reserve(1, worker="w1")
        job.reject(message, final=final, delay=None if final else "10m")


def add_held_jobs(client: Redis, worker: str, *ids: str) -> None:
    """Add jobs to a native queue that `worker` holds for an hour."""
    mail = Queue("mail", client)
    for id in ids:
        mail.put({}, id=id, name="send", priority=-9)
        mail.reserve(1, worker=worker, ttr="1h")


def add_worker(client: Redis, name: str, ago_s: float, queue: str = "mail", order: str = "run", job: str = "") -> None:
    """Add a worker of a native queue whose last heartbeat was `ago_s` seconds ago."""
    now_ms = int(time.time() * 1000)
    client.hset(
        build_queue_keys(queue)["workers"], name, f"{now_ms - int(ago_s * 1000)} 60000 {order} {now_ms} 42 jobs-1 {job}"
    )
