"""A soak: the rush scenario with a screen, workers and loops in processes of their own, sampled as long as it lasts.

    found = soak(30, every_s=1.0, log=path)     # what every process held, one JSON line per sample, is in the log

Linux alone: what a process holds is read from /proc. The judge is `steady.py`. `python soaking.py play URL` is the
member that plays the scenario: bursts of jobs for its simulated workers, of which some stall and die.
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

from ptys import Pty, in_pty
from redis import Redis
from shell import environment

from rqtui.client.queue import Queue
from rqtui.connection.connect import connect
from rqtui.connection.embedded import EmbeddedServer, embedded

QUEUE = "clicks"
FIRST, BURST, BURST_S = 5_000, 400, 2.0  # jobs at once at the start, then so many each so often
KEPT = 200_000  # of the screen's output
PATIENCE_S = 20.0
SHOW_S = 4.0  # until a view is there
ROUNDS = 3
ESC, ENTER = b"\x1b", b"\r"
TOUR = (  # keys, and what the screen shows then
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
    """What came of it: the samples, and of each member how long its end took (s) and its exit code."""

    samples: list[dict[str, Any]] = field(default_factory=list)
    ends: dict[str, tuple[float, int]] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)  # what a member said on standard error
    left: list[int] = field(default_factory=list)  # processes that outlived their member
    shown: set[bytes] = field(default_factory=set)  # words of TOUR that were seen
    acked: int = 0


# ── what a process holds ─────────────────────────────────────────────────────────────────────────────────────


def held(pid: int, port: int, clients: Mapping[int, str]) -> dict[str, Any]:
    """Memory, threads, open files, connections to Redis as Redis sees them, CPU time and dead children of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    times = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    ports = ports_to(pid, port)
    return {
        "rss_bytes": int(status["VmRSS"].split()[0]) * 1024,
        "threads": int(status["Threads"]),
        "fds": len(os.listdir(f"/proc/{pid}/fd")),
        "connections": sum(local in clients for local in ports),
        "names": sorted(clients[local] for local in ports if local in clients),
        "cpu_s": (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK"),
        "zombies": [child for child in children(pid) if _state(child) == "Z"],
    }


def ports_to(pid: int, port: int) -> set[int]:
    """The local ports of a process's TCP connections to a port of this machine."""
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


def children(pid: int) -> list[int]:
    """The processes that this one started and that were not waited for."""
    found: list[int] = []
    with suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            found += map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split())
    return found


def descendants(pid: int) -> list[int]:
    """The same, with theirs."""
    return [each for child in children(pid) for each in (child, *descendants(child))]


def _state(pid: int) -> str:
    """R, S, D, T or Z; nothing for a process that is gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    return ""


def is_alive(pid: int) -> bool:
    """Whether a process is there and not dead."""
    return _state(pid) not in ("", "Z")


# ── the members ──────────────────────────────────────────────────────────────────────────────────────────────


def soak(seconds: float, *, every_s: float, key_s: float, log: Path) -> Soak:
    """Plays for so long, and until the tour is over; a sample each `every_s`, a key on the screen each `key_s`.

    Then all of them are ended.
    """
    found = Soak()
    with ExitStack() as stack, log.open("a") as file:
        stack.callback(signal.signal, signal.SIGHUP, signal.signal(signal.SIGHUP, signal.SIG_DFL))  # not under `nohup`
        server = stack.enter_context(embedded("auto"))
        client = stack.enter_context(connect(server.url, client_name="soak"))
        queue = stack.enter_context(Queue(QUEUE, server.url))
        members, terminal = _started(stack, server, log)
        _say(file, {"soak_s": seconds, "pid": os.getpid(), **_where(server)})
        began, next_sample, next_key, step = time.monotonic(), 0.0, 3.0, 0
        while (now := time.monotonic() - began) < seconds or _goes_on(found, step):
            terminal.read(min(0.25, max(0.01, next_sample - now)))
            terminal.output = terminal.output[-KEPT:]
            if now >= next_key:
                next_key = now + key_s
                step = _press(terminal, step, found)
            if now >= next_sample:
                next_sample = now + every_s
                found.samples.append(_sample(client, members, server, now))
                _say(file, found.samples[-1])
                _stir(queue)
        found.acked = queue.counts()["acked"]
        _end(found, members, terminal, log)
    return found


def _started(stack: ExitStack, server: EmbeddedServer, log: Path) -> tuple[dict[str, subprocess.Popen[bytes]], Pty]:
    """Everybody, each with standard error in a file beside the log."""
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
            _program(command, stdout=subprocess.DEVNULL, stderr=errors, env=_environment(url), cwd=log.parent)
        )
        if name == "player":
            with Queue(QUEUE, url) as queue:
                _until(lambda: queue.counts()["enqueued"] >= FIRST, "the player plays")
    terminal = stack.enter_context(in_pty([*rqtui, url], 120, 40, RQTUI_CONFIG=os.devnull))
    terminal.until(QUEUE.encode())
    members["screen"] = terminal.process
    return members, terminal


@contextmanager
def _program(command: list[str], **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    program = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True, **options)
    try:
        yield program
    finally:
        program.kill()
        program.wait()


def _environment(url: str) -> dict[str, str]:
    given = environment(url)
    return {**given, "PYTHONPATH": os.pathsep.join([given["PYTHONPATH"], *filter(None, sys.path)])}


def _goes_on(found: Soak, step: int) -> bool:
    """Whether the tour goes on; a busy machine takes Esc and the next key for one (Alt+key): another round then."""
    return step < len(TOUR) or (found.shown != WORDS and step < ROUNDS * len(TOUR))


def _press(terminal: Pty, step: int, found: Soak) -> int:
    """The next key of the tour; what it promises to show is looked for."""
    key, words = TOUR[step % len(TOUR)]
    terminal.output = b""
    terminal.press(key)
    if words and words not in found.shown:
        deadline = time.monotonic() + SHOW_S
        while words not in terminal.output and time.monotonic() < deadline:
            terminal.read(0.1)
        if words in terminal.output:
            found.shown.add(words)
    return step + 1


def _stir(queue: Queue) -> None:
    """Work for the loops: jobs that are not due yet, and leases that nobody will keep."""
    queue.put_many([{"body": number, "delay": 1.0, "name": "later"} for number in range(20)])
    queue.reserve(2, ttr=0.5)


def _sample(
    client: Redis, members: Mapping[str, subprocess.Popen[bytes]], server: EmbeddedServer, now_s: float
) -> dict[str, Any]:
    clients = {int(each["addr"].rsplit(":", 1)[1]): each["name"] for each in client.client_list()}
    everybody = {}
    for name, process in members.items():
        if process.poll() is None:
            everybody[name] = held(process.pid, server.port, clients)
            if name == "metrics":
                _scrape(process.pid)
    return {
        "t_s": round(now_s, 3),
        "used_bytes": client.info("memory")["used_memory"],
        "clients": len(clients),
        "members": everybody,
    }


def _scrape(pid: int) -> None:
    """One scrape of the metrics server, whose port is the one that it listens at."""
    inodes = {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
    for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
        row = line.split()
        if row[3] == "0A" and f"socket:[{row[9]}]" in inodes:
            with urlopen(f"http://127.0.0.1:{int(row[1].rsplit(':', 1)[1], 16)}/metrics", timeout=PATIENCE_S) as page:
                page.read()


def _end(found: Soak, members: Mapping[str, subprocess.Popen[bytes]], terminal: Pty, log: Path) -> None:
    """A signal to each, SIGTERM and SIGHUP in turn; how long each took, and what it left behind."""
    signals = (signal.SIGTERM, signal.SIGHUP)
    for number, (name, process) in enumerate(members.items()):
        theirs = descendants(process.pid)
        began = time.monotonic()
        process.send_signal(signals[number % 2])
        if name == "screen":
            terminal.until_ended()
        with suppress(subprocess.TimeoutExpired):
            process.wait(PATIENCE_S)
        code = process.poll()
        found.ends[name] = (round(time.monotonic() - began, 3), -1000 if code is None else code)
        found.left += [pid for pid in theirs if is_alive(pid)]
        with suppress(OSError):
            found.words[name] = Path(f"{log}.{name}.err").read_text()


def _until(predicate: Any, what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not predicate():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def _where(server: EmbeddedServer) -> dict[str, Any]:
    """What it ran on."""
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


def _say(file: Any, document: Mapping[str, Any]) -> None:
    file.write(json.dumps(document) + "\n")
    file.flush()


# ── the player ───────────────────────────────────────────────────────────────────────────────────────────────


def play(url: str) -> None:
    """The rush: a heap of jobs, then bursts; each half minute a worker stalls, one dies and one comes."""
    import threading
    from dataclasses import replace

    from rqtui import scenarios
    from rqtui.scenarios.native import NativeRun
    from rqtui.scenarios.scenario import NativeScenario

    story = scenarios.scenario("rush")
    assert isinstance(story, NativeScenario)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: stop.set())
    with NativeRun(replace(story, sizes=(FIRST,)), url) as run:
        turns = 0
        while not stop.wait(BURST_S):
            turns += 1
            run.burst(BURST)
            if turns % 15 == 5:
                run.stall_worker()
            if turns % 15 == 10:
                run.kill_worker()
                run.add_worker()


if __name__ == "__main__":
    play(sys.argv[2])
