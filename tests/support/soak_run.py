"""Run a soak test: the rush scenario with a screen, workers and loops in separate processes, which are sampled.

    found = run_soak(30, every_s=1.0, key_s=2.0, log=path)     # the log has a JSON line per sample

Linux only, because the resources are read from /proc. `soak_verdict.py` evaluates the samples. `python soak_run.py play
URL` is the process that plays the scenario: bursts of jobs for simulated workers, of which some stall and die.
"""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from ptys import Pty, run_in_pty
from redis import Redis
from shell import build_environment

from rqtui.client.queue import Queue
from rqtui.connection.connect import connect
from rqtui.connection.embedded import EmbeddedServer, start_server

QUEUE = "clicks"
FIRST_JOBS, BURST_JOBS, BURST_S = 5_000, 400, 2.0  # jobs at the start, jobs per burst, time between bursts
KEPT_BYTES = 200_000  # bytes of the screen's output that are kept
PATIENCE_S = 20.0
SHOW_S = 4.0  # time for a view to appear
ROUNDS = 3
ESC, ENTER = b"\x1b", b"\r"
TOUR = (  # keys, and the words that the screen shows after them
    (ENTER, b"ready"),
    (b"2", b""),
    (b"]", b""),
    (b"[", b""),
    (b"+", b""),
    (b"+", b""),
    (b"w", b"workers"),
    (ESC, b""),
    (b"b", b"add_to_cart"),
    (ESC, b""),
    (b"e", b"errors"),
    (ESC, b""),
    (b"f", b"events"),
    (ESC, b""),
    (b"m", b"throughput"),
    (ESC, b""),
    (b"t", b"next jobs"),
    (ESC, b""),
    (b"i", b"fragmented"),
    (ESC, b""),
    (b"4", b""),
    (ENTER, b""),
    (b"v", b""),
    (ESC, b""),
    (b"?", b"Esc closes"),
    (ESC, b""),
    (ESC, b""),
)
WORDS = {words for _key, words in TOUR if words}
CONSUMER = f"""
import signal, sys, time
from rqtui.client import Queue
with Queue({QUEUE!r}, sys.argv[1]) as queue, queue.consumer(ttr=10) as consumer:
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: consumer.stop())
    for job in consumer:
        with job:
            time.sleep(0.02)
"""


@dataclass
class Soak:
    """The results of a soak test: the samples, and for each process its exit code and the seconds that its end took."""

    samples: list[dict[str, Any]] = field(default_factory=list)
    ends: dict[str, tuple[float, int]] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)  # the standard error of each process
    left: list[int] = field(default_factory=list)  # descendants that outlived their process
    shown: set[bytes] = field(default_factory=set)  # words of TOUR that the screen showed
    acked: int = 0


# ── resources of a process ────────────────────────────────────────────────────────────────────────────────────


def measure_process(pid: int, port: int, clients: Mapping[int, str]) -> dict[str, Any]:
    """Measure a process: memory, threads, open files, connections listed by Redis, CPU time and dead children."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    times = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    ports = find_ports(pid, port)
    return {
        "rss_bytes": int(status["VmRSS"].split()[0]) * 1024,
        "threads": int(status["Threads"]),
        "fds": len(os.listdir(f"/proc/{pid}/fd")),
        "connections": sum(local in clients for local in ports),
        "names": sorted(clients[local] for local in ports if local in clients),
        "cpu_s": (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK"),
        "zombies": [child for child in list_children(pid) if _read_state(Path(f"/proc/{child}")) == "Z"],
    }


def find_ports(pid: int, port: int) -> set[int]:
    """Return the local ports of a process's TCP connections to `port` of this machine."""
    inodes = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with suppress(OSError):
            inodes.add(os.readlink(f"/proc/{pid}/fd/{fd}"))
    rows = (line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:])
    return {
        int(row[1].rsplit(":", 1)[1], 16)
        for row in rows
        if int(row[2].rsplit(":", 1)[1], 16) == port and f"socket:[{row[9]}]" in inodes
    }


def list_children(pid: int) -> list[int]:
    """Return the child processes of a process, including those that ended and were not waited for."""
    pids: list[int] = []
    with suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            pids += map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split())
    return pids


def list_descendants(pid: int) -> list[int]:
    """Return the child processes of a process, their children and so on."""
    return [each for child in list_children(pid) for each in (child, *list_descendants(child))]


def _read_state(folder: Path) -> str:
    """Return the state (R, S, D, T or Z) of a process or thread from its folder in /proc, or an empty string."""
    with suppress(OSError):
        return (folder / "stat").read_text().rsplit(")", 1)[1].split()[0]
    return ""


def is_process_alive(pid: int) -> bool:
    """Return whether a process exists and is not a zombie."""
    return _read_state(Path(f"/proc/{pid}")) not in ("", "Z")


def is_process_suspended(pid: int) -> bool:
    """Return whether every thread of a process is suspended."""
    return all(_read_state(thread) == "T" for thread in Path(f"/proc/{pid}/task").iterdir())


# ── the processes ─────────────────────────────────────────────────────────────────────────────────────────────


def run_soak(seconds: float, *, every_s: float, key_s: float, log: Path) -> Soak:
    """Play the rush scenario for `seconds` and until the tour ends, then end all processes; return the samples.

    A sample is taken every `every_s`, and a key is pressed on the screen every `key_s`.
    """
    result = Soak()
    with ExitStack() as stack, log.open("a") as file:
        stack.callback(
            signal.signal, signal.SIGHUP, signal.signal(signal.SIGHUP, signal.SIG_DFL)
        )  # `nohup` would make all processes ignore SIGHUP
        server = stack.enter_context(start_server("auto"))
        client = stack.enter_context(connect(server.url, client_name="soak"))
        queue = stack.enter_context(Queue(QUEUE, server.url))
        members, terminal = _start_all_processes(stack, server, log)
        _write_json_line(file, {"soak_s": seconds, "pid": os.getpid(), **_describe_machine(server)})
        began, next_sample, next_key, step = time.monotonic(), 0.0, 3.0, 0
        while (now := time.monotonic() - began) < seconds or _is_tour_unfinished(result, step):
            terminal.read(min(0.25, max(0.01, next_sample - now)))
            terminal.output = terminal.output[-KEPT_BYTES:]
            if now >= next_key:
                next_key = now + key_s
                step = _press_next_key(terminal, step, result)
            if now >= next_sample:
                next_sample = now + every_s
                result.samples.append(_take_sample(client, members, server, now))
                _write_json_line(file, result.samples[-1])
                _add_delayed_jobs(queue)
        result.acked = queue.counts()["acked"]
        _end_all_processes(result, members, terminal, log)
    return result


def _start_all_processes(
    stack: ExitStack, server: EmbeddedServer, log: Path
) -> tuple[dict[str, subprocess.Popen[bytes]], Pty]:
    """Start all processes of a soak, each with its standard error in a file next to the log."""
    python, url = sys.executable, server.url
    rqtui = [python, "-m", "rqtui"]
    commands = {
        "player": [python, __file__, "play", url],
        "consumer": [python, "-c", CONSUMER, url],
        "work": [*rqtui, "work", QUEUE, "--ttr", "10s", "--json", "--", "sleep", "0.3"],
        "dispatch": [*rqtui, "dispatch", QUEUE, "--json"],
        "reap": [*rqtui, "reap", QUEUE, "--json"],
        "events": [*rqtui, "events", QUEUE, "--follow", "--json"],
        "metrics": [*rqtui, "metrics", "--listen", "127.0.0.1:0"],
    }
    members = {}
    for name, command in commands.items():
        errors = stack.enter_context(Path(f"{log}.{name}.err").open("wb"))  # noqa: SIM115 - the stack closes it
        members[name] = stack.enter_context(
            _start_program(
                command, stdout=subprocess.DEVNULL, stderr=errors, env=_build_environment(url), cwd=log.parent
            )
        )
        if name == "player":
            with Queue(QUEUE, url) as queue:
                _wait_until(lambda: queue.counts()["enqueued"] >= FIRST_JOBS, "the player plays")
    terminal = stack.enter_context(run_in_pty([*rqtui, url], 120, 40, RQTUI_CONFIG=os.devnull))
    terminal.until(QUEUE.encode())
    members["screen"] = terminal.process
    return members, terminal


@contextmanager
def _start_program(command: list[str], **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    program = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True, **options)
    try:
        yield program
    finally:
        program.kill()
        program.wait()


def _build_environment(url: str) -> dict[str, str]:
    variables = build_environment(url)
    return {**variables, "PYTHONPATH": os.pathsep.join([variables["PYTHONPATH"], *filter(None, sys.path)])}


def _is_tour_unfinished(result: Soak, step: int) -> bool:
    """Return whether the tour of keys continues.

    The tour is repeated if a busy machine read Esc and the next key as Alt+key.
    """
    return step < len(TOUR) or (result.shown != WORDS and step < ROUNDS * len(TOUR))


def _press_next_key(terminal: Pty, step: int, result: Soak) -> int:
    """Press the next key of the tour, wait up to SHOW_S for its words, and return the next step."""
    key, words = TOUR[step % len(TOUR)]
    terminal.output = b""
    terminal.press(key)
    if words and words not in result.shown:
        deadline = time.monotonic() + SHOW_S
        while words not in terminal.output and time.monotonic() < deadline:
            terminal.read(0.1)
        if words in terminal.output:
            result.shown.add(words)
    return step + 1


def _add_delayed_jobs(queue: Queue) -> None:
    """Add work for the dispatcher and reaper: jobs that are due later, and leases that expire."""
    queue.put_many([{"body": number, "delay": 1.0, "name": "later"} for number in range(20)])
    queue.reserve(2, ttr=0.5)


def _take_sample(
    client: Redis, members: Mapping[str, subprocess.Popen[bytes]], server: EmbeddedServer, now_s: float
) -> dict[str, Any]:
    clients = {int(each["addr"].rsplit(":", 1)[1]): each["name"] for each in client.client_list()}
    processes = {}
    for name, process in members.items():
        if process.poll() is None:
            processes[name] = measure_process(process.pid, server.port, clients)
            if name == "metrics":
                _scrape_metrics(process.pid)
    return {
        "t_s": round(now_s, 3),
        "used_bytes": client.info("memory")["used_memory"],
        "clients": len(clients),
        "members": processes,
    }


def _scrape_metrics(pid: int) -> None:
    """Scrape the metrics server once, at the port that the process listens on."""
    inodes = {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
    for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
        row = line.split()
        if row[3] == "0A" and f"socket:[{row[9]}]" in inodes:
            with urlopen(f"http://127.0.0.1:{int(row[1].rsplit(':', 1)[1], 16)}/metrics", timeout=PATIENCE_S) as page:
                page.read()


def _end_all_processes(result: Soak, members: Mapping[str, subprocess.Popen[bytes]], terminal: Pty, log: Path) -> None:
    """Send SIGTERM and SIGHUP in turn to all processes of a soak, and record how each ended.

    Records the seconds that each took and which descendants it left.
    """
    signals = (signal.SIGTERM, signal.SIGHUP)
    for number, (name, process) in enumerate(members.items()):
        descendants = list_descendants(process.pid)
        began = time.monotonic()
        process.send_signal(signals[number % 2])
        if name == "screen":
            terminal.until_ended()
        with suppress(subprocess.TimeoutExpired):
            process.wait(PATIENCE_S)
        code = process.poll()
        result.ends[name] = (round(time.monotonic() - began, 3), -1000 if code is None else code)
        result.left += [pid for pid in descendants if is_process_alive(pid)]
        with suppress(OSError):
            result.words[name] = Path(f"{log}.{name}.err").read_text()


def _wait_until(predicate: Any, what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not predicate():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def _describe_machine(server: EmbeddedServer) -> dict[str, Any]:
    """Describe the versions of the programs and the machine of a soak."""
    from rqtui import __version__

    cpu = next((line for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line), "?:?")
    return {
        "at": time.strftime("%Y-%m-%d"),
        "rqtui": __version__,
        "server": f"{server.family} {server.version}",
        "python": platform.python_version(),
        "cpu": cpu.partition(":")[2].strip(),
        "cores": os.cpu_count(),
    }


def _write_json_line(file: Any, document: Mapping[str, Any]) -> None:
    file.write(json.dumps(document) + "\n")
    file.flush()


# ── the scenario ─────────────────────────────────────────────────────────────────────────────────────────────


def play_rush_scenario(url: str) -> None:
    """Play the rush scenario: many jobs at first, then bursts. Now and then a worker stalls, dies or starts.

    Each half minute one worker stalls, one dies and one starts.
    """
    import threading
    from dataclasses import replace

    from rqtui import scenarios
    from rqtui.scenarios.native_run import NativeRun
    from rqtui.scenarios.scenario import NativeScenario

    story = scenarios.find_scenario("rush")
    assert isinstance(story, NativeScenario)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: stop.set())
    with NativeRun(replace(story, sizes=(FIRST_JOBS,)), url) as run:
        turns = 0
        while not stop.wait(BURST_S):
            turns += 1
            run.send_burst(BURST_JOBS)
            if turns % 15 == 5:
                run.stall_worker()
            if turns % 15 == 10:
                run.kill_worker()
                run.add_worker()


if __name__ == "__main__":
    play_rush_scenario(sys.argv[2])
