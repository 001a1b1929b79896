"""Measure how fast 1, 2, 4 and 8 worker processes drain one queue, and as many queues on a Cluster of three nodes.

    python benchmarks/scaling.py                  a minute or two; --jobs for another number
    python benchmarks/scaling.py --out FOLDER     where scaling.json and scaling.svg go

All workers drain one queue of one Redis with `consume(burst=True)`; on the Cluster each has a queue of its own. More
processes than cores show only how they share cores. The heading has the number of cores, of which Redis takes one.
"""

from __future__ import annotations

import argparse
import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import platformdirs
from growth import PLOT
from homes import Missing, find_home
from own.line import describe_machine

from rqtui.client.queue import BYTES, Queue
from rqtui.connection.embedded import start_server

WORKERS = (1, 2, 4, 8)
JOBS = 40_000
NODES = 3
PATIENCE_S = 60
WORKER = """
import sys
from rqtui.client.queue import BYTES, Queue
with Queue(sys.argv[2], sys.argv[1], BYTES) as queue:
    print("ready", flush=True)
    sys.stdin.readline()
    done = 0
    for job in queue.consume(burst=True):
        with job:
            done += 1
    print(done, flush=True)
"""


def measure_drain(url: str, queues: Sequence[str], jobs: int) -> float:
    """Drain the queues with one worker process per name. Return jobs per second, and check that each job runs once."""
    names = sorted(set(queues))
    for name in names:
        with Queue(name, url, BYTES) as queue:
            queue.put_many([b"{}"] * (jobs // len(names)))
    command = [sys.executable, "-c", WORKER, url]
    workers = [
        subprocess.Popen([*command, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for name in queues
    ]
    pipes = [(each.stdin, each.stdout) for each in workers]
    assert all(input_ is not None and output is not None and output.readline() == "ready\n" for input_, output in pipes)
    began = time.perf_counter()
    for input_, _output in pipes:
        input_.write("go\n")  # type: ignore[union-attr]
        input_.flush()  # type: ignore[union-attr]
    done = sum(int(output.readline()) for _input, output in pipes)  # type: ignore[union-attr]
    seconds = time.perf_counter() - began
    for each in workers:
        each.wait(PATIENCE_S)
    if done != jobs // len(names) * len(names):
        raise SystemExit(f"{done} jobs were run of {jobs}")
    return done / seconds


@contextmanager
def start_cluster() -> Iterator[str]:
    """Start a Cluster of three nodes on this machine for the block, and yield its URL."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        ports = [_find_free_port() for _ in range(NODES)]
        for port in ports:
            own = Path(folder) / str(port)
            own.mkdir()
            words = ["--port", str(port), "--cluster-enabled", "yes", "--save", "", "--dir", str(own)]
            node = subprocess.Popen(["redis-server", *words], stdout=subprocess.DEVNULL)
            stack.callback(node.wait, PATIENCE_S)
            stack.callback(node.terminate)
        time.sleep(1)
        addresses = [f"127.0.0.1:{port}" for port in ports]
        command = ["redis-cli", "--cluster", "create", *addresses, "--cluster-yes"]
        subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE_S)
        _wait_until_cluster_ok(ports)
        yield f"redis+cluster://{addresses[0]}"


def _wait_until_cluster_ok(ports: Sequence[int]) -> None:
    end_s = time.monotonic() + PATIENCE_S
    for port in ports:
        while "cluster_state:ok" not in _read_cluster_info(port):
            if time.monotonic() > end_s:
                raise SystemExit("the Cluster did not come up")
            time.sleep(0.2)


def _read_cluster_info(port: int) -> str:
    result = subprocess.run(["redis-cli", "-p", str(port), "cluster", "info"], capture_output=True, text=True)
    return result.stdout


def _find_free_port() -> int:
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
        if port < 55_000:  # the bus of a node has a port 10 000 higher
            return port


def main() -> None:
    """Measure all numbers of workers and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=JOBS)
    parser.add_argument("--out", type=Path, default=platformdirs.user_cache_path("rqtui-benchmarks"))
    inputs = parser.parse_args()
    inputs.out.mkdir(parents=True, exist_ok=True)
    found: dict[str, dict[int, float]] = {"one queue, one Redis": {}, f"a queue each, {NODES} nodes": {}}
    one, over = found.values()
    with start_server("system") as server:
        where = describe_machine(server.kind)
        print(f"{where['cpu']}, {where['cores']} cores, {where['server']}, Python {where['python']}", flush=True)
        for workers in WORKERS:
            one[workers] = measure_drain(server.url, ["scaling"] * workers, inputs.jobs)
            print(f"one queue of one Redis, {workers} workers: {one[workers]:.0f} jobs/s", flush=True)
    with start_cluster() as url:
        for workers in WORKERS:
            over[workers] = measure_drain(url, [f"scaling-{at}" for at in range(workers)], inputs.jobs)
            print(f"a queue each over {NODES} nodes, {workers} workers: {over[workers]:.0f} jobs/s", flush=True)
    panels = {"worker processes": found}
    path = inputs.out / "scaling.json"
    path.write_text(json.dumps({"machine": where, "unit": "jobs a second", "found": panels}, indent=1) + "\n")
    try:
        home = find_home(PLOT, platformdirs.user_cache_path("rqtui-benchmarks"))
    except Missing as error:
        print(f"no plot: {error}", file=sys.stderr)
        return
    subprocess.run([*home.command, str(path), str(inputs.out / "scaling.svg")], check=True, env={**home.environment})
    print(f"written: {path}, {inputs.out / 'scaling.svg'}", file=sys.stderr)


if __name__ == "__main__":
    main()
