"""kill -9 of anything, at any moment, loses nothing and breaks no invariant."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from queue_check import find_misplaced_jobs
from redis import Redis
from waiting import wait_until

from rqtui.client.queue import Queue

WORKER = """
import os, sys, time
from rqtui.client import Queue
out = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
for job in Queue("mail", sys.argv[1]).consume(ttr="400ms"):
    with job:
        os.write(out, job.id.encode() + b"\\n")   # one write: a killed worker leaves whole lines
        time.sleep(0.001)
        if job.body % 50 == 0 and job.attempt == 1:
            raise ValueError("fails once")
"""


def start_worker(url: str, out: Path) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", WORKER, url, str(out)]
    return subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)


@pytest.mark.parametrize("seed", [1])
def test_workers_killed_at_random_lose_nothing(client: Redis, url: str, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    out = tmp_path / "ran"
    jobs, kills = 3000, 0
    with Queue("mail", url) as queue:
        queue.configure(backoff_ms=50, max_attempts=1000)
        ids = [put.id for put in queue.put_many(range(jobs))]
        queue.put_many([{"body": n, "id": f"late{n}", "delay": chance.uniform(0, 3)} for n in range(200)])
        ids += [f"late{n}" for n in range(200)]
        workers = [start_worker(url, out) for _ in range(3)]
        try:
            deadline = time.monotonic() + 60
            while queue.counts()["acked"] < len(ids):
                assert time.monotonic() < deadline, queue.counts()
                time.sleep(chance.uniform(0.1, 0.5))
                if kills < 12:
                    victim = chance.randrange(len(workers))
                    workers[victim].kill()
                    workers[victim].wait()
                    kills += 1
                    workers[victim] = start_worker(url, out)
        finally:
            for worker in workers:
                worker.send_signal(signal.SIGKILL)
                worker.wait()
        ran = Counter(out.read_text().splitlines())
        assert kills >= 3
        assert set(ran) == set(ids)
        assert find_misplaced_jobs(client, "mail") == []
        left = {
            name: count for name, count in queue.counts().items() if name in ("scheduled", "ready", "reserved", "dead")
        }
        assert left == {"scheduled": 0, "ready": 0, "reserved": 0, "dead": 0}
        assert client.hlen("rqtui:{mail}:jobs") == 0
        assert client.hlen("rqtui:{mail}:attempts") == 0


@pytest.mark.slow
def test_a_producer_killed_in_a_batch_leaves_whole_batches(client: Redis, url: str) -> None:
    code = """
import sys
from rqtui.client import Queue
Queue("mail", sys.argv[1]).put_many({"body": n, "id": str(n)} for n in range(10_000_000))
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    producer = subprocess.Popen([sys.executable, "-c", code, url], env=environment)
    wait_until(lambda: client.zcard("rqtui:{mail}:ready") > 5000, 20)
    producer.kill()
    producer.wait()
    with Queue("mail", url) as queue:
        count = queue.counts()["ready"]
        assert count % 1000 == 0
        assert find_misplaced_jobs(client, "mail") == []
        again = queue.put_many({"body": n, "id": str(n)} for n in range(count + 500))
        assert Counter(put.word for put in again) == {"exists": count, "moved": 500}
