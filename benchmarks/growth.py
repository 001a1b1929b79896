"""Measure the server's cost of a job as queues grow.

The sizes are 10³ to 10⁶ ready jobs (10⁷ with --full), 1 to 10 000 queues, and a million scheduled jobs.

    python benchmarks/growth.py                 about five minutes on two cores
    python benchmarks/growth.py --full          also 10⁷ jobs: some five gigabytes, half an hour

Server CPU (INFO, user + sys) per job of each step, the median of some repetitions at each size, as JSON and as an SVG
plot, which matplotlib draws in an environment of its own.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import platformdirs
from entries import Entry
from homes import Missing, find_home
from own.line import describe_machine
from redis import Redis

from rqtui.client.native_keys import build_queue_keys
from rqtui.client.queue import BYTES, Queue
from rqtui.connection.connect import connect
from rqtui.connection.embedded import start_server
from rqtui.ids import create_job_ids
from rqtui.scripts import script as scripts

BODY = b"x" * 200
DEPTHS = (10**3, 10**4, 10**5, 10**6)
FULL_DEPTH = 10**7
QUEUES = (1, 100, 10_000)
DELAYED = (10**3, 10**4, 10**5, 10**6)
REPETITIONS = 9
JOBS, BATCH, FILL = 2_000, 50, 50_000
PLOT = Entry("plot", "plot.py", "plot", ("matplotlib",), 0, 0, True, "")
FAR_MS = 10**9  # the fill is due so much later than what is dispatched

Figures = dict[str, dict[int, float]]  # step → size → µs per job


def _read_server_cpu_us(client: Redis) -> float:
    info = client.info("cpu")
    return (float(info["used_cpu_user"]) + float(info["used_cpu_sys"])) * 1e6


def _measure_repeatedly(
    client: Redis, steps: Mapping[str, Callable[[], object]], jobs: int
) -> Iterator[tuple[str, float]]:
    """Return each step's µs per job. The steps alternate, so that a busy moment of the machine affects all of them."""
    spent: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(REPETITIONS):
        for name, step in steps.items():
            before = _read_server_cpu_us(client)
            step()
            spent[name].append((_read_server_cpu_us(client) - before) / jobs)
    for name, values in spent.items():
        yield name, statistics.median(values)


def measure_depth(client: Redis, depths: tuple[int, ...]) -> Figures:
    """Measure the server's time per job in a queue with more and more ready jobs."""
    queue = Queue("deep", client, BYTES)
    found: Figures = {}
    filled = 0
    taken: list[list[Any]] = []

    def put_jobs() -> None:
        for _ in range(JOBS // BATCH):
            queue.put_many([BODY] * BATCH)

    def reserve_jobs() -> None:
        taken[:] = [queue.reserve(BATCH, ttr="1h") for _ in range(JOBS // BATCH)]

    def ack_jobs() -> None:
        for jobs in taken:
            queue.ack_many(jobs)

    for size in depths:
        while filled < size:
            part = min(FILL, size - filled)
            queue.put_many([BODY] * part)
            filled += part
        for name, us in _measure_repeatedly(client, {"put": put_jobs, "reserve": reserve_jobs, "ack": ack_jobs}, JOBS):
            found.setdefault(f"{name}, 50 at once", {})[size] = us
        for name, us in _measure_repeatedly(client, {"counts": lambda: [queue.counts() for _ in range(100)]}, 100):
            found.setdefault(name, {})[size] = us
        _print_progress("jobs waiting", size, found)
    return found


def measure_breadth(client: Redis, numbers: tuple[int, ...]) -> Figures:
    """Measure the server's time per job for the same jobs in more and more queues with ten other jobs each."""
    native = scripts.load_scripts("native")
    blank = [None] * (len(native["enqueue"].each) - 2)
    found: Figures = {}
    run = 0
    for number in numbers:
        names = [build_queue_keys(f"wide-{at}") for at in range(number)]
        for key in names[run:]:
            scripts.run_call(
                client, native["enqueue"].build_call(key, {}, [[id, BODY, *blank] for id in create_job_ids(10)])
            )
        run = number
        chosen = [names[at * 7919 % number] for at in range(JOBS)]
        taken: list[tuple[Mapping[str, str], Any]] = []

        def put_jobs(chosen: list[Mapping[str, str]] = chosen) -> None:
            for key in chosen:
                scripts.run_call(client, native["enqueue"].build_call(key, {}, [[create_job_ids(1)[0], BODY, *blank]]))

        def reserve_jobs(chosen: list[Mapping[str, str]] = chosen, taken: list[Any] = taken) -> None:
            taken[:] = [
                (
                    key,
                    scripts.run_call(client, native["reserve"].build_call(key, {"limit": 1, "worker": "growth"})).rows,
                )
                for key in chosen
            ]

        def ack_jobs(taken: list[Any] = taken) -> None:
            for key, rows in taken:
                scripts.run_call(client, native["ack"].build_call(key, {}, [row[:2] for row in rows]))

        for name, us in _measure_repeatedly(client, {"put": put_jobs, "reserve": reserve_jobs, "ack": ack_jobs}, JOBS):
            found.setdefault(f"{name}, one by one", {})[number] = us
        _print_progress("queues", number, found)
    return found


def measure_delayed(client: Redis, sizes: tuple[int, ...]) -> Figures:
    """Measure the server's time per job with more and more scheduled jobs."""
    queue = Queue("later", client, BYTES)
    native, key = scripts.load_scripts("native"), build_queue_keys("later")
    start_ms = 4 * 10**12
    found: Figures = {}
    filled = 0

    def put_delayed_jobs() -> None:
        for at in range(0, JOBS, BATCH):
            queue.put_many([{"body": BODY, "due": start_ms + at + row} for row in range(BATCH)])

    def dispatch_due_jobs() -> None:
        for _ in range(JOBS // BATCH):
            scripts.run_call(client, native["dispatch"].build_call(key, {"limit": BATCH, "now_ms": start_ms + JOBS}))

    for size in sizes:
        while filled < size:
            part = min(FILL, size - filled)
            queue.put_many([{"body": BODY, "due": start_ms + FAR_MS + filled + row} for row in range(part)])
            filled += part
        for name, us in _measure_repeatedly(
            client, {"put for later": put_delayed_jobs, "dispatch": dispatch_due_jobs}, JOBS
        ):
            found.setdefault(f"{name}, 50 at once", {})[size] = us
        _print_progress("jobs put for later", size, found)
    return found


def _print_progress(what: str, size: int, found: Figures) -> None:
    figures = ", ".join(f"{name} {values[size]:.1f} µs" for name, values in found.items())
    print(f"{size} {what}: {figures}", file=sys.stderr, flush=True)


def main() -> None:
    """Run all measurements of growth, write the figures as JSON and draw the plot."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help=f"{FULL_DEPTH} jobs as well")
    parser.add_argument("--quick", action="store_true", help="only the two smallest sizes of each")
    parser.add_argument("--folder", type=Path, default=platformdirs.user_cache_path("rqtui-benchmarks"))
    inputs = parser.parse_args()
    inputs.folder.mkdir(parents=True, exist_ok=True)
    upto = 2 if inputs.quick else None
    depths = (*DEPTHS[:upto], *((FULL_DEPTH,) if inputs.full else ()))
    found: dict[str, Figures] = {}
    with start_server("system") as server, connect(server.url, timeout_s=120.0) as client:
        for name, measure in {
            "jobs waiting in the queue": lambda: measure_depth(client, depths),
            "queues": lambda: measure_breadth(client, QUEUES[:upto]),
            "jobs waiting for their time": lambda: measure_delayed(client, DELAYED[:upto]),
        }.items():
            client.flushall()
            found[name] = measure()
        where = describe_machine(server.kind)
    document = {"machine": where, "found": found}
    path = inputs.folder / "growth.json"
    path.write_text(json.dumps(document, indent=1) + "\n")
    for name, steps in found.items():
        for step, values in steps.items():
            ratio = max(values.values()) / min(values.values())
            print(f"{name}: {step}: highest {ratio:.2f} × lowest{'' if ratio <= 1.5 else ' (above 1.5)'}")
    _draw_plot(path, inputs.folder)


def _draw_plot(figures: Path, folder: Path) -> None:
    try:
        home = find_home(PLOT, folder)
    except Missing as error:
        print(f"no plot: {error}", file=sys.stderr)
        return
    command = [*home.command, str(figures), str(folder / "growth.svg")]
    subprocess.run(command, check=True, env={**home.environment})
    print(f"written: {figures}, {folder / 'growth.svg'}", file=sys.stderr)


if __name__ == "__main__":
    main()
