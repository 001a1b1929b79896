"""Measure every peer in the same way: with the same jobs, the same clock and the same questions to the server.

A peer (`on_rq.py`, …) fills a `Peer` with what its library calls putting and working, and hands it to `main`. Nothing
here needs more than Python: the program runs in the environment of its peer. It prints one line of JSON.

    on_rq.py --url URL enqueue N      N jobs one by one          {"seconds", "server_us", "commands", "trips"}
    on_rq.py --url URL bulk N         N jobs in the library's own bulk call
    on_rq.py --url URL drain N        N jobs run by one process (--setting best or default); needs them in the queue
    on_rq.py --url URL latency N      from put to running, a job each 25 ms      {"p50_ms", "p99_ms"}
    on_rq.py --url URL delayed N      how late jobs with a delay of a second are {"median_ms", "worst_ms", "first_ms"}
    on_rq.py --url URL idle K         K workers with nothing to do for 10 s      {"per_second"}
    on_rq.py --url URL memory N       bytes of the server per waiting job        {"bytes"}
    on_rq.py --url URL look K         one look of its monitor at K queues of ten jobs {"ms", "commands", "trips", …}

What a library does not offer is `{"none": why}`. The worker runs in a process of its own, forked before anything is
connected; times on both sides are CLOCK_MONOTONIC. `on_bullmq.js` says the same in JavaScript.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import random
import select
import signal
import socket
import statistics
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

BODY_BYTES = 200
EVERY_S = 0.025  # between two jobs whose latency is measured
DELAY_S = 1.0
SETTLE_S = 0.5  # after the last job, for acks that are still under way; between the warm-up and the first measured job
START_S = 60.0  # how long a worker may take until it has run its first job
LOOK_JOBS, LOOKS = 10, 21
IDLE_S = 10.0
IDLE_SETTLE_S = 6.0

_context = multiprocessing.get_context("fork")
_counter = itertools.count(1)
_shared: Any = None  # a counter for workers that fork
_wanted = 0
_pipe = -1


@dataclass(frozen=True)
class Peer:
    """The functions of a queue library under common names; a field is None if the library has no such function.

    `work(setting, wants_delays)` runs a worker for ever; each job calls `ran(body)`. `forks`: the settings in which
    jobs run in children of the worker. `look(K)` fills K queues with LOOK_JOBS each, and returns the function that the
    library's monitor calls to count them all. `no_bulk`, `no_delay` and `no_look` say why there is none.
    """

    enqueue: Callable[[Sequence[str]], None]
    work: Callable[[str, bool], None]
    bulk: Callable[[Sequence[str]], None] | None = None
    later: Callable[[str, float], None] | None = None
    forks: tuple[str, ...] = ()
    look: Callable[[int], Callable[[], int]] | None = None
    no_bulk: str = "no call for many jobs"
    no_delay: str = "no delayed jobs"
    no_look: str = "no monitor of its own"


def body(at_ns: int = 0) -> str:
    """Return a job body of 200 characters that starts with a time, from which a measured job computes its latency."""
    return f"{at_ns:020}".ljust(BODY_BYTES, "x")


def report_measured_run(text: str) -> None:
    """Count a measured job that runs now, and report the time from its put."""
    at_ns = int(text[:20])
    if at_ns:
        os.write(_pipe, struct.pack("q", time.monotonic_ns() - at_ns))
        return
    if _shared is None:
        count = next(_counter)
    else:
        with _shared.get_lock():
            _shared.value += 1
            count = _shared.value
    if count in (1, _wanted):
        os.write(_pipe, struct.pack("q", time.monotonic_ns()))


class Server:
    """A bare socket connection to the Redis server for INFO, so that no library's client takes part."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._socket = socket.create_connection((parts.hostname or "127.0.0.1", parts.port or 6379), timeout=30)
        self._file = self._socket.makefile("rwb")

    def send_command(self, *words: str) -> str:
        """Send one command to the server and return its reply as text."""
        self._file.write(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w.encode()) for w in words))
        self._file.flush()
        head = self._file.readline().decode().rstrip()
        if not head.startswith("$"):
            return head
        return self._file.read(int(head[1:]) + 2).decode()

    def read_info(self, section: str) -> dict[str, str]:
        """Return a section of the server's INFO."""
        return dict(line.split(":", 1) for line in self.send_command("INFO", section).splitlines() if ":" in line)

    def read_usage(self) -> dict[str, float]:
        """Return the server's CPU time (µs), its commands, including those of scripts, and its socket reads so far."""
        cpu, stats, commands = self.read_info("cpu"), self.read_info("stats"), self.read_info("commandstats")
        return {
            "server_us": (float(cpu["used_cpu_user"]) + float(cpu["used_cpu_sys"])) * 1e6,
            "commands": sum(
                int(_parse_stat_field(line, "calls")) for name, line in commands.items() if name != "cmdstat_info"
            ),
            "trips": float(stats.get("total_reads_processed", 0)),
        }


def _parse_stat_field(line: str, name: str) -> str:
    return dict(pair.split("=", 1) for pair in line.split(","))[name]


def main(create_peer: Callable[[str, str], Peer]) -> None:
    """Read the command line, measure and print. `create_peer(url, variant)` creates the peer, which connects later."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    parser.add_argument("--setting", default="best", choices=("best", "default"))
    parser.add_argument("--variant", default="")
    parser.add_argument("command", choices=tuple(_COMMANDS))
    parser.add_argument("number", type=int)
    inputs = parser.parse_args()
    found = _COMMANDS[inputs.command](
        create_peer(inputs.url, inputs.variant), Server(inputs.url), inputs.number, inputs.setting
    )
    print(json.dumps(found), flush=True)
    os._exit(0)  # what a library has left running must not hold the measurement up


def _measure_enqueue(peer: Peer, server: Server, number: int, setting: str) -> dict[str, Any]:
    """Measure the time, server CPU, commands and round trips of enqueuing jobs one by one."""
    return _time_puts(peer.enqueue, server, number)


def _measure_bulk(peer: Peer, server: Server, number: int, setting: str) -> dict[str, Any]:
    """Measure the time, server CPU, commands and round trips of enqueuing jobs with the library's bulk call."""
    return _time_puts(peer.bulk, server, number) if peer.bulk else {"none": peer.no_bulk}


def _time_puts(put: Callable[[Sequence[str]], None], server: Server, number: int) -> dict[str, Any]:
    put([body()])  # connects, loads scripts
    bodies = [body()] * number
    before, began_s = server.read_usage(), time.perf_counter()
    put(bodies)
    seconds = time.perf_counter() - began_s
    return {"jobs": number, "seconds": seconds, **_subtract_figures(before, server.read_usage())}


def _subtract_figures(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    """Return the difference of two readings of the server's figures, by name."""
    return {name: after[name] - before[name] for name in before}


def _measure_drain(peer: Peer, server: Server, number: int, setting: str) -> dict[str, Any]:
    """Measure how fast one worker process runs no-op jobs."""
    before = server.read_usage()
    with _run_workers(peer, setting, wanted=number) as read:
        times = list(itertools.islice(read(START_S * 3), 2))
        time.sleep(SETTLE_S)
        after = server.read_usage()
    if len(times) < 2:
        return {"none": f"its worker ended, or did not run {number} jobs within {START_S * 3:.0f} s"}
    return {"jobs": number, "seconds": (times[1] - times[0]) / 1e9, **_subtract_figures(before, after)}


def _measure_latency(peer: Peer, server: Server, number: int, setting: str) -> dict[str, Any]:
    """Measure the time from put to running of a job each 25 ms, as median and 99th percentile."""
    with _run_workers(peer, setting) as read:
        _wait_for_first_job(peer, read)
        waits = []
        for _ in range(number):
            time.sleep(random.uniform(0.8, 1.2) * EVERY_S)  # not in step with anybody's polling
            peer.enqueue([body(time.monotonic_ns())])
            waits += itertools.islice(read(10.0), 1)
    if len(waits) < number:
        return {"none": f"{number - len(waits)} of {number} jobs did not run within 10 s"}
    ms = sorted(wait / 1e6 for wait in waits)
    return {"jobs": number, "p50_ms": statistics.median(ms), "p99_ms": ms[int(len(ms) * 0.99)], "worst_ms": ms[-1]}


def _measure_delay(peer: Peer, server: Server, number: int, setting: str) -> dict[str, Any]:
    """Measure how late jobs with a delay of one second begin to run."""
    if peer.later is None:
        return {"none": peer.no_delay}
    with _run_workers(peer, setting, wants_delays=True) as read:
        _wait_for_first_job(peer, read)
        for _ in range(number):
            time.sleep(random.uniform(0.8, 1.2) * EVERY_S)
            peer.later(body(time.monotonic_ns() + int(DELAY_S * 1e9)), DELAY_S)
        late = [value / 1e6 for value in itertools.islice(read(10.0), number)]
    if len(late) < number:
        return {"none": f"{number - len(late)} of {number} jobs did not run within 10 s"}
    return {"jobs": number, "median_ms": statistics.median(late), "worst_ms": max(late), "first_ms": min(late)}


def _wait_for_first_job(peer: Peer, read: Callable[[float], Iterator[int]]) -> None:
    """Wait until a worker has run its first job, so that its start is not measured."""
    peer.enqueue([body(1)])
    if not list(itertools.islice(read(START_S), 1)):
        raise SystemExit("the worker ran nothing")
    time.sleep(SETTLE_S)


def _measure_idle(peer: Peer, server: Server, number: int, setting: str) -> dict[str, Any]:
    """Measure how many commands per second idle workers send."""
    with _run_workers(peer, setting, count=number):
        time.sleep(IDLE_SETTLE_S)
        before = server.read_usage()
        time.sleep(IDLE_S)
        spent = _subtract_figures(before, server.read_usage())
    return {
        "workers": number,
        "per_second": spent["commands"] / IDLE_S,
        "trips_per_second": spent["trips"] / IDLE_S,
        "server_us_per_second": spent["server_us"] / IDLE_S,
    }


def _measure_memory(peer: Peer, server: Server, number: int, setting: str) -> dict[str, Any]:
    """Measure the server's memory per waiting job."""
    put = peer.bulk or peer.enqueue
    put([body()])
    server.send_command("FLUSHALL", "SYNC")
    before = int(server.read_info("memory")["used_memory"])
    put([body()] * number)
    time.sleep(SETTLE_S)
    return {"jobs": number, "bytes": (int(server.read_info("memory")["used_memory"]) - before) / number}


def _measure_monitor_read(peer: Peer, server: Server, number: int, setting: str) -> dict[str, Any]:
    """Measure the time, commands and round trips with which the library's monitor counts the jobs of many queues."""
    if peer.look is None:
        return {"none": peer.no_look}
    look = peer.look(number)
    found, took = look(), []  # the first connects and loads scripts
    before = server.read_usage()
    for _ in range(LOOKS):
        began_s = time.perf_counter()
        found = look()
        took.append((time.perf_counter() - began_s) * 1e3)
    if found != number * LOOK_JOBS:
        return {"none": f"it counted {found} jobs of {number * LOOK_JOBS}"}
    spent = _subtract_figures(before, server.read_usage())
    return {"queues": number, "ms": statistics.median(took), **{name: each / LOOKS for name, each in spent.items()}}


class _run_workers:
    """Run workers in separate processes. Yield a function that reads the reports of their jobs until none arrives."""

    def __init__(self, peer: Peer, setting: str, wants_delays: bool = False, count: int = 1, wanted: int = 0) -> None:
        global _shared, _wanted, _pipe
        _wanted, _shared = wanted, _context.Value("q", 0) if setting in peer.forks else None
        self._read_fd, _pipe = os.pipe()
        lifeline = os.pipe()
        self._children = [_fork_worker(peer, setting, wants_delays, lifeline) for _ in range(count)]
        os.close(_pipe)  # so that the death of all workers ends the reading

    def __enter__(self) -> Callable[[float], Iterator[int]]:
        return self._read

    def _read(self, patience_s: float) -> Iterator[int]:
        end_s = time.monotonic() + patience_s
        while (left_s := end_s - time.monotonic()) > 0:
            if select.select([self._read_fd], [], [], left_s)[0]:
                data = os.read(self._read_fd, 8)
                if not data:
                    return  # every worker has ended
                yield struct.unpack("q", data)[0]

    def __exit__(self, *_exc: object) -> None:
        for child in self._children:
            os.killpg(child, signal.SIGKILL)
        for child in self._children:
            os.waitpid(child, 0)


def _fork_worker(peer: Peer, setting: str, wants_delays: bool, lifeline: tuple[int, int]) -> int:
    child = os.fork()
    if child:
        os.setpgid(child, child)
        return child
    os.setpgid(0, 0)
    os.close(lifeline[1])
    threading.Thread(target=_end_with_parent, args=(lifeline[0],), daemon=True).start()
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        peer.work(setting, wants_delays)
    finally:
        os._exit(1)


def _end_with_parent(read_fd: int) -> None:
    """End with the parent process. Otherwise the worker of a killed measurement would run the jobs of the next."""
    os.read(read_fd, 1)
    os.killpg(0, signal.SIGKILL)


_COMMANDS: dict[str, Callable[[Peer, Server, int, str], dict[str, Any]]] = {
    "enqueue": _measure_enqueue,
    "bulk": _measure_bulk,
    "drain": _measure_drain,
    "latency": _measure_latency,
    "delayed": _measure_delay,
    "idle": _measure_idle,
    "memory": _measure_memory,
    "look": _measure_monitor_read,
}
