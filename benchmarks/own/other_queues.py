"""Measure other queue libraries on the same server. A line reports each library that is not installed."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

from .line import Bench, Line

_BULLMQ = """
const {Queue, Worker} = require('bullmq');
const connection = {host: process.argv[1], port: +process.argv[2], maxRetriesPerRequest: null};
const count = +process.argv[3];
(async () => {
  const queue = new Queue('bench', {connection});
  const opts = {removeOnComplete: true};
  for (let i = 0; i < count; i += 1000)
    await queue.addBulk(Array.from({length: Math.min(1000, count - i)}, () => ({name: 'noop', data: {}, opts})));
  let done = 0;
  const began = process.hrtime.bigint();
  const worker = new Worker('bench', async () => {}, {connection, concurrency: 50});
  worker.on('completed', async () => {
    if (++done < count) return;
    console.log(count / (Number(process.hrtime.bigint() - began) / 1e9));
    process.exit(0);
  });
})();
"""
_TIMEOUT_S = 120.0


def measure_dramatiq(on: Bench) -> Iterator[Line]:
    """Measure how fast one dramatiq process drains no-op jobs."""
    name = "dramatiq: drain of no-op jobs, one process, 8 threads"
    if importlib.util.find_spec("dramatiq") is None:
        yield Line(name, None, note="not installed, not measured")
        return
    from importlib import import_module

    library: Any = import_module("dramatiq")
    broker = import_module("dramatiq.brokers.redis").RedisBroker(url=on.server.url, middleware=[])
    count, done, finished = on.size(6_000, 50), [0], threading.Event()
    lock = threading.Lock()

    def do_nothing() -> None:
        with lock:
            done[0] += 1
            if done[0] >= count:
                finished.set()

    actor = library.actor(do_nothing, broker=broker, queue_name="bench")
    for _ in range(count):
        actor.send()
    worker = library.Worker(broker, worker_threads=8, worker_timeout=100)
    began = time.perf_counter()
    worker.start()
    finished.wait(_TIMEOUT_S)
    seconds = time.perf_counter() - began
    worker.stop()
    broker.close()
    yield Line(name, done[0] / seconds, "jobs/s", note=f"{done[0]} jobs, dramatiq {library.__version__}")


def measure_bullmq_drain(on: Bench) -> Iterator[Line]:
    """Measure how fast one BullMQ process drains no-op jobs."""
    name = "BullMQ: drain of no-op jobs, one process, concurrency 50"
    node = find_node_with_bullmq()
    if node is None:
        yield Line(name, None, note="not installed, not measured (node with bullmq and ioredis on NODE_PATH)")
        return
    count = on.size(20_000, 100)
    command = [node, "-e", _BULLMQ, on.server.host, str(on.server.port), str(count)]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False, env=os.environ)
    except subprocess.TimeoutExpired:
        yield Line(name, None, note=f"not measured: not done after {_TIMEOUT_S:.0f} s")
        return
    numbers = ended.stdout.split()
    if not numbers:
        print(ended.stderr, file=sys.stderr)
        yield Line(name, None, note=f"not measured: node ended with {ended.returncode}")
        return
    yield Line(name, float(numbers[-1]), "jobs/s", note=f"{count} jobs")


def find_node_with_bullmq() -> str | None:
    """Return the Node program, or None if it does not find BullMQ and ioredis."""
    node = shutil.which("node")
    if node is None:
        return None
    program = [node, "-e", "require('bullmq'); require('ioredis')"]
    ran = subprocess.run(program, capture_output=True, timeout=_TIMEOUT_S, check=False)
    return node if ran.returncode == 0 else None


OTHER_QUEUES = (measure_dramatiq, measure_bullmq_drain)
