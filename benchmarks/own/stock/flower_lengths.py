"""Measure Flower's `GET /api/queues/length`: `flower_lengths.py URL ROUNDS QUEUES`.

It prints the milliseconds of each round as JSON. Flower runs as a program of its own, on the application below; it asks
for the queues that the application declares, because no worker announces others.
"""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from celery import Celery
from kombu import Exchange, Queue

PATIENCE_S = 60
app = Celery("bench", broker=os.environ.get("BENCH_URL", ""))
exchange = Exchange("celery")
names = [f"queue-{at}" for at in range(int(os.environ.get("BENCH_QUEUES", "0")))]
app.conf.task_queues = [Queue(name, exchange, routing_key=name) for name in names]


def main(url: str, rounds: int, queues: int) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    variables = {"BENCH_URL": url, "BENCH_QUEUES": str(queues), "FLOWER_UNAUTHENTICATED_API": "true"}
    serving = ["flower", f"--port={port}", "--address=127.0.0.1", "--logging=error", "--enable_events=False"]
    command = [sys.executable, "-m", "celery", "-A", Path(__file__).stem, *serving]
    flower = subprocess.Popen(
        command, cwd=Path(__file__).parent, env={**os.environ, **variables}, stdout=sys.stderr, stdin=subprocess.DEVNULL
    )
    try:
        took, counted = [], 0
        end_s = time.monotonic() + PATIENCE_S
        while len(took) <= rounds:
            began = time.perf_counter()
            try:
                with urllib.request.urlopen(
                    f"http://127.0.0.1:{port}/api/queues/length", timeout=PATIENCE_S
                ) as response:
                    counted = sum(each["messages"] for each in json.load(response)["active_queues"])
            except urllib.error.URLError:
                if time.monotonic() > end_s or flower.poll() is not None:
                    raise
                time.sleep(0.1)
                continue
            took.append((time.perf_counter() - began) * 1000)
        print(json.dumps({"Flower's GET /api/queues/length": {"ms": took[1:], "counted": counted}}))
    finally:
        flower.terminate()
        flower.wait(10)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
