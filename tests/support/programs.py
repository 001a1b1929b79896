"""Programs that go on until a signal ends them: one table of command lines, and when each is at its work.

with Programs(url, tmp_path) as programs:
    programs.start("dispatch", "work")
    ends = programs.end(signal.SIGTERM)      # {"dispatch": End(code=0, …), …}

Standard output and error go to files; TMPDIR is a folder of the test, so that what is left behind is seen.
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
from shell import environment
from soaking import descendants, is_alive
from waiting import wait_until

from rqtui.client.queue import Queue

PATIENCE_S = 40.0
LINES = 1_500  # for `put`: a batch and a half
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
    "metrics": [*RQTUI, "metrics", "--listen", "127.0.0.1:0"],
    "work": [*RQTUI, "work", "mail", "--", "true"],
    "consume": [sys.executable, "-c", CONSUME],
    "put": [*RQTUI, "put", "mail", "--lines", "-"],
    "watch": [*RQTUI, "snapshot", "--watch", "0.2", "--json"],
    "demo": [*RQTUI, "demo", "rush", "--headless", "--seconds", "600"],
}


@dataclass(frozen=True)
class End:
    """How a program ended."""

    code: int | None  # None: it did not
    seconds: float
    err: str
    left: tuple[int, ...]  # children that outlived it


class Programs:
    """Those that a test has started; what still runs at the end is killed."""

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
        """Starts them all, and waits until each is at its work."""
        for name in names:
            self.run(name, [*COMMANDS[name], *([self.url] if name == "consume" else [])])
        if "put" in names:  # it waits for more, as long as nobody closes the pipe
            pipe = self.running["put"].stdin
            assert pipe
            pipe.write(b'{"body": 1, "delay": "1h"}\n' * LINES)
            pipe.flush()
        for name in names:
            wait_until(lambda name=name: _is_ready(self, name, client), PATIENCE_S, f"{name} is at work", every_s=0.05)

    def run(self, name: str, command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        """Starts any other."""
        with self.file(name, "out").open("wb") as out, self.file(name, "err").open("wb") as err:
            self.running[name] = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=err,
                env={**environment(self.url), "TMPDIR": str(self.temporary)},
                start_new_session=True,
                **{**self._options, **options},
            )
        return self.running[name]

    def file(self, name: str, stream: str) -> Path:
        """Where what it says goes."""
        return self.folder / f"{name}.{stream}"

    def said(self, name: str, stream: str = "err") -> str:
        """What it has said."""
        return self.file(name, stream).read_text("utf-8", "replace")

    def end(self, number: int) -> dict[str, End]:
        """One signal to each, and how each took it. Prints how long it took: no test depends on that."""
        theirs = {name: descendants(program.pid) for name, program in self.running.items()}
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
        found = {}
        for name in self.running:
            seconds, code = ends.get(name, (PATIENCE_S, None))
            found[name] = End(code, seconds, self.said(name), tuple(pid for pid in theirs[name] if is_alive(pid)))
        shown = " ".join(f"{name} {each.seconds:.2f}" for name, each in found.items())
        print(f"{signal.Signals(number).name}, seconds to the end: {shown}")
        return found

    def orphans(self) -> list[str]:
        """Temporary files that are left."""
        return sorted(path.name for path in self.temporary.iterdir())


def _is_ready(programs: Programs, name: str, client: Redis) -> bool:
    """Whether it waits for work, with its handlers in place."""
    program = programs.running[name]
    assert program.poll() is None, f"{name} ended: {programs.said(name)}"
    return _READY[name](programs, client)


def _is_told_of(programs: Programs, client: Redis) -> bool:
    """Whether `events` has passed on something that happened."""
    with Queue("mail", client) as queue:
        queue.put("news", delay=3600)
    return "mail" in programs.said("events", "out")


def _waiters(client: Redis) -> int:
    """Consumers that block."""
    return sum(each["cmd"] == "bzpopmin" for each in client.client_list())


def _says(name: str, words: str, stream: str = "err") -> Callable[[Programs, Redis], bool]:
    return lambda programs, client: words in programs.said(name, stream)


_READY: dict[str, Callable[[Programs, Redis], bool]] = {
    "dispatch": _says("dispatch", "Ctrl+C ends it."),
    "reap": _says("reap", "Ctrl+C ends it."),
    "metrics": _says("metrics", "Ctrl+C ends it."),
    "events": _is_told_of,
    "work": lambda programs, client: _waiters(client) >= len({"work", "consume"} & programs.running.keys()),
    "consume": lambda programs, client: _waiters(client) >= len({"work", "consume"} & programs.running.keys()),
    "put": lambda programs, client: client.zcard("rqtui:{mail}:scheduled") > LINES // 2,
    "watch": _says("watch", "queues", "out"),
    "demo": _says("demo", "seed 1"),
}
