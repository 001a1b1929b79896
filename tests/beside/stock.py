"""Run the programs of an original system next to rqtui, as processes that can be killed, with its API behind a driver.

`beside/<system>/stock.py` has the parts of one system.

stock.do("enqueue", queue="default", func="shop.add", args=[1, 2])
worker = stock.start("default", name="w1")
wait_until(lambda: stock.runs()[id], …)
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, ClassVar, Self

from shell import Ran, shell
from soak_run import is_process_alive, is_process_suspended, list_descendants
from waiting import wait_until

from rqtui.connection.connect import connect

RAN, FIXED = "beside:ran", "beside:fixed"
SLOW_S = 60.0  # time for a process to start on a busy machine


class StockError(Exception):
    """The system's own API raised; the text is its traceback."""


class Worker:
    """The process of a worker. `kill` also kills its descendants, as the end of a machine does."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], log: Path) -> None:
        self.name, self.process, self.log = name, process, log

    def kill(self) -> None:
        """Kill the process and its descendants with SIGKILL, unless it ended before."""
        if self.process.poll() is not None:
            return
        self.process.send_signal(signal.SIGSTOP)  # otherwise the process would notice that its children die
        family = list_descendants(self.process.pid)
        for pid in (self.process.pid, *family):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        wait_until(lambda: not any(is_process_alive(pid) for pid in family), what="its children are gone")

    def stop(self) -> None:
        """Suspend the process and its descendants, and wait until none of their threads runs."""
        pids = (self.process.pid, *list_descendants(self.process.pid))
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: all(map(is_process_suspended, pids)), what="it is suspended")

    def resume(self) -> None:
        """Continue the suspended processes."""
        for pid in (self.process.pid, *list_descendants(self.process.pid)):
            os.kill(pid, signal.SIGCONT)

    def read_log(self) -> str:
        """Return the log of the process."""
        return self.log.read_text("utf-8", "replace")


class Stock:
    """A system of one version at one Redis. `driver` is the command of its driver, `queue` the default queue."""

    queue: ClassVar[str]

    def __init__(self, driver: Sequence[str], environ: Mapping[str, str], url: str, logs: Path) -> None:
        self.url, self.client = url, connect(url)
        self._logs, self._number, self._environ = logs, 0, {**os.environ, **environ}
        self._started = ExitStack()
        self._driver = subprocess.Popen(
            driver, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=self._environ, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._started.close()  # the workers
        self._driver.kill()
        self._driver.communicate()
        self.client.close()

    def do(self, command: str, /, **options: Any) -> Any:
        """Run a command of `app/driver` and return its value. Raises StockError."""
        assert self._driver.stdin
        assert self._driver.stdout
        self._driver.stdin.write(json.dumps([command, options]) + "\n")
        self._driver.stdin.flush()
        document = json.loads(self._driver.stdout.readline())
        if "error" in document:
            raise StockError(document["error"])
        return document["value"]

    def begin(
        self,
        command: Sequence[str],
        is_there: Callable[[Worker], bool] = lambda _worker: True,
        name: str = "",
        **environ: str,
    ) -> Worker:
        """Start a process and wait until `is_there` returns true. The process is killed when the test ends."""
        self._number += 1
        name = name or f"stock-{self._number}"
        log = self._logs / f"{name}.log"
        with log.open("wb") as file:
            process = subprocess.Popen(
                command, env={**self._environ, **environ}, stdout=file, stderr=file, start_new_session=True
            )
        worker = Worker(name, process, log)
        self._started.callback(worker.kill)

        def is_at_work() -> bool:
            assert process.poll() is None, worker.read_log()
            return is_there(worker)

        wait_until(is_at_work, SLOW_S, f"{name} is at work")
        return worker

    def kill_all(self) -> None:
        """Kill every process that was started."""
        self._started.close()

    def rqtui(self, *words: str, code: int = 0) -> Any:
        """Run `rqtui WORDS… --json`, check its exit code, and return the document."""
        ran = shell(self.url, *words, "--json")
        assert ran.code == code, (words, ran.code, ran.out, ran.err)
        return ran.json

    def act(self, verb: str, *words: str, code: int = 0, queue: str = "") -> dict[str, str]:
        """Run `rqtui act VERB QUEUE WORDS…` and return the word of each job."""
        found = self.rqtui("act", verb, queue or self.queue, *words, "--yes", code=code)
        return {result["id"]: result["word"] for result in found["results"]}

    def read_refusal(self, verb: str, *words: str, queue: str = "") -> str:
        """Run a verb that is refused with exit code 1, and return its output."""
        ran = shell(self.url, "act", verb, queue or self.queue, *words, "--yes")
        assert ran.code == 1, (ran.out, ran.err)
        return f"{ran.out} {ran.err}"

    def runs(self) -> dict[str, list[str]]:
        """Return the workers that ran each job, in order."""
        found: dict[str, list[str]] = defaultdict(list)
        for line in self.client.lrange(RAN, 0, -1):
            id, worker, _pid = json.loads(line)
            found[id].append(worker)
        return found

    def until_ran(self, id: str, times: int = 1) -> None:
        """Wait until a job has started `times` times."""
        wait_until(lambda: len(self.runs()[id]) >= times, SLOW_S, f"{id} is run", every_s=0.02)

    def findings(self) -> list[dict[str, Any]]:
        """Return the findings of `rqtui health`."""
        found: list[dict[str, Any]] = shell(self.url, "health", "--json").json["findings"]
        return found

    def find_finding(self, kind: str) -> dict[str, Any]:
        """Return the only finding of this kind."""
        findings = self.findings()
        of_kind = [finding for finding in findings if finding["kind"] == kind]
        assert len(of_kind) == 1, f"not one {kind} among {findings}"
        return of_kind[0]

    def has_finding(self, kind: str) -> bool:
        """Return whether there is a finding of this kind."""
        return any(each["kind"] == kind for each in self.findings())

    def apply_fix(self, finding: Mapping[str, Any], command: str) -> Ran | None:
        """Run a command that the finding recommends. Verbs are confirmed, and loops run once.

        Returns None after a command of redis-cli.
        """
        assert command in finding["remedy"], finding["remedy"]
        program, *words = shlex.split(command)
        if program == "redis-cli":
            self.client.execute_command(*words)
            return None
        more = {"act": ["--yes"], "reap": ["--once"], "dispatch": ["--once"]}
        ran = shell(self.url, *words, *(word for word in more[words[0]] if word not in words))
        assert ran.code == 0, (command, ran.out, ran.err)
        return ran

    def find_fix_command(self, finding: Mapping[str, Any], pattern: str) -> str:
        """Return the only command in the fix of a finding that matches `pattern`."""
        [command] = set(re.findall(pattern, finding["remedy"]))
        return str(command)
