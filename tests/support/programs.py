"""Start programs that run until a signal ends them: a table of command lines, and how to see that each is ready.

    with Programs(url, tmp_path) as programs:
        programs.start("dispatch", "work")
        ends = programs.end(signal.SIGTERM)  # {"dispatch": End(code=0, …), …}

Standard output and error go to files. TMPDIR is a folder of the test, so that forgotten temporary files are found.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from redis import Redis
from shell import build_environment
from soak_run import is_process_alive, list_descendants
from waiting import wait_until

from rqtui.client.queue import Queue

PATIENCE_S = 40.0
LINES = 1_500  # sent to `put`: a batch and a half
RQTUI = [sys.executable, "-m", "rqtui"]
CONSUME = """
import signal, sys
from rqtui.client import Queue
with Queue("mail", sys.argv[1]) as queue, queue.consumer() as consumer:
    for name in ("SIGTERM", "SIGHUP", "SIGINT"):
        signal.signal(getattr(signal, name), lambda *_: consumer.stop())
    for job in consumer:
        with job:
            pass
"""
COMMANDS: dict[str, list[str]] = {
    "dispatch": [*RQTUI, "dispatch", "mail"],
    "reap": [*RQTUI, "reap", "mail"],
    "events": [*RQTUI, "events", "mail", "--follow", "--limit", "0"],
    "record": [*RQTUI, "record", "--every", "0.5"],
    "metrics": [*RQTUI, "metrics", "--listen", "127.0.0.1:0"],
    "work": [*RQTUI, "work", "mail", "--", "true"],
    "consume": [sys.executable, "-c", CONSUME],
    "put": [*RQTUI, "put", "mail", "--lines", "-"],
    "watch": [*RQTUI, "snapshot", "--watch", "0.2", "--json"],
    "demo": [*RQTUI, "demo", "rush", "--headless", "--seconds", "600"],
}


@dataclass(frozen=True)
class End:
    """The end of a program: its exit code and its duration."""

    code: int | None  # None: it did not end
    seconds: float
    err: str
    left: tuple[int, ...]  # children that outlived it


class Programs:
    """The programs that a test started. Programs that still run at the end of the `with` block are killed."""

    def __init__(self, url: str, folder: Path, **options: Any) -> None:
        self.url, self.folder, self._options = url, folder, options
        self.temporary = folder / "tmp"
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        self.temporary.mkdir()
        return self

    def __exit__(self, *_exc: object) -> None:
        for program in self.running.values():
            program.send_signal(signal.SIGCONT)
            program.kill()
            program.wait()
            if program.stdin:
                program.stdin.close()

    def start(self, *names: str, client: Redis) -> None:
        """Start the named programs and wait until each is ready."""
        for name in names:
            self.run(name, [*COMMANDS[name], *([self.url] if name == "consume" else [])])
        if "put" in names:  # `put` reads until the pipe is closed
            pipe = self.running["put"].stdin
            assert pipe
            pipe.write(b'{"body": 1, "delay": "1h"}\n' * LINES)
            pipe.flush()
        for name in names:
            wait_until(lambda name=name: is_ready(self, name, client), PATIENCE_S, f"{name} is at work", every_s=0.05)

    def run(self, name: str, command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        """Start a program with any command line."""
        with self.file(name, "out").open("wb") as out, self.file(name, "err").open("wb") as err:
            self.running[name] = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=err,
                env={**build_environment(self.url), "TMPDIR": str(self.temporary)},
                start_new_session=True,
                **{**self._options, **options},
            )
        return self.running[name]

    def file(self, name: str, stream: str) -> Path:
        """Return the path of the file with a program's standard output or error."""
        return self.folder / f"{name}.{stream}"

    def read_output(self, name: str, stream: str = "err") -> str:
        """Return the output of a program so far."""
        return self.file(name, stream).read_text("utf-8", "replace")

    def end(self, number: int) -> dict[str, End]:
        """Send a signal to each program and return how each ended. Prints the times, on which no test depends."""
        descendants = {name: list_descendants(program.pid) for name, program in self.running.items()}
        began, ends = time.monotonic(), {}
        for program in self.running.values():
            program.send_signal(number)
        deadline = began + PATIENCE_S
        waiting = dict(self.running)
        while waiting and time.monotonic() < deadline:
            for name, program in [*waiting.items()]:
                if program.poll() is not None:
                    ends[name] = (time.monotonic() - began, program.returncode)
                    del waiting[name]
            time.sleep(0.01)
        results = {}
        for name in self.running:
            seconds, code = ends.get(name, (PATIENCE_S, None))
            results[name] = End(
                code, seconds, self.read_output(name), tuple(pid for pid in descendants[name] if is_process_alive(pid))
            )
        times = " ".join(f"{name} {each.seconds:.2f}" for name, each in results.items())
        print(f"{signal.Signals(number).name}, seconds to the end: {times}")
        return results

    def list_temporary_files(self) -> list[str]:
        """Return the names of the temporary files that are left."""
        return sorted(path.name for path in self.temporary.iterdir())


def is_ready(programs: Programs, name: str, client: Redis) -> bool:
    """Return whether a program waits for work, after it installed its signal handlers."""
    program = programs.running[name]
    assert program.poll() is None, f"{name} ended: {programs.read_output(name)}"
    return _READY_CHECKS[name](programs, client)


def _has_printed_event(programs: Programs, client: Redis) -> bool:
    """Return whether the program `events` has printed an event of the queue."""
    with Queue("mail", client) as queue:
        queue.put("news", delay=3600)
    return "mail" in programs.read_output("events", "out")


def _count_blocked_consumers(client: Redis) -> int:
    """Return the number of queue consumers that wait for a job."""
    return sum(each["cmd"] == "bzpopmin" for each in client.client_list())


def _build_output_check(name: str, words: str, stream: str = "err") -> Callable[[Programs, Redis], bool]:
    return lambda programs, client: words in programs.read_output(name, stream)


_READY_CHECKS: dict[str, Callable[[Programs, Redis], bool]] = {
    "dispatch": _build_output_check("dispatch", "Ctrl+C ends it."),
    "reap": _build_output_check("reap", "Ctrl+C ends it."),
    "record": _build_output_check("record", "Ctrl+C ends it."),
    "metrics": _build_output_check("metrics", "Ctrl+C ends it."),
    "events": _has_printed_event,
    "work": lambda programs, client: (
        _count_blocked_consumers(client) >= len({"work", "consume"} & programs.running.keys())
    ),
    "consume": lambda programs, client: (
        _count_blocked_consumers(client) >= len({"work", "consume"} & programs.running.keys())
    ),
    "put": lambda programs, client: client.zcard("rqtui:{mail}:scheduled") > LINES // 2,
    "watch": _build_output_check("watch", "queues", "out"),
    "demo": _build_output_check("demo", "seed 1"),
}
