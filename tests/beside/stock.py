"""What is alike beside every system: stock programs as processes that can be killed, their own API through a driver,
rqtui's shell, and what ran. `beside/<system>/stock.py` has what is peculiar.

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
from soaking import descendants, is_alive
from waiting import wait_until

from rqtui.connection.connect import connect

RAN, FIXED = "beside:ran", "beside:fixed"
SLOW_S = 60.0  # for a process to begin, on a machine that is busy


class StockError(Exception):
    """The system's own API raised; the text is its traceback."""


class Worker:
    """A worker's process; `kill` takes what it has started with it, as a machine that dies does."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], log: Path) -> None:
        self.name, self.process, self.log = name, process, log

    def kill(self) -> None:
        """−9, to it and to all that it has started; again is no harm."""
        if self.process.poll() is not None:
            return
        self.process.send_signal(signal.SIGSTOP)  # so that it notices no child that dies
        family = descendants(self.process.pid)
        for pid in (self.process.pid, *family):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        wait_until(lambda: not any(is_alive(pid) for pid in family), what="its children are gone")

    def stop(self) -> None:
        """It hangs from now on, and all that it has started."""
        for pid in (self.process.pid, *descendants(self.process.pid)):
            os.kill(pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """It hangs no more."""
        for pid in (self.process.pid, *descendants(self.process.pid)):
            os.kill(pid, signal.SIGCONT)

    @property
    def said(self) -> str:
        """Its log."""
        return self.log.read_text("utf-8", "replace")


class Stock:
    """A system of one version at one Redis: `driver` is the command of its driver, `queue` where verbs act unasked."""

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

    def do(self, command: str, **options: Any) -> Any:
        """One command of `app/driver`; raises StockError."""
        assert self._driver.stdin
        assert self._driver.stdout
        self._driver.stdin.write(json.dumps([command, options]) + "\n")
        self._driver.stdin.flush()
        answer = json.loads(self._driver.stdout.readline())
        if "error" in answer:
            raise StockError(answer["error"])
        return answer["value"]

    def begin(
        self,
        command: Sequence[str],
        is_there: Callable[[Worker], bool] = lambda _worker: True,
        name: str = "",
        **environ: str,
    ) -> Worker:
        """A process, at work; it is killed when the test ends."""
        self._number += 1
        name = name or f"stock-{self._number}"
        log = self._logs / f"{name}.log"
        with log.open("wb") as file:
            process = subprocess.Popen(
                command, env={**self._environ, **environ}, stdout=file, stderr=file, start_new_session=True
            )
        made = Worker(name, process, log)
        self._started.callback(made.kill)

        def is_at_work() -> bool:
            assert process.poll() is None, made.said
            return is_there(made)

        wait_until(is_at_work, SLOW_S, f"{name} is at work")
        return made

    def kill_all(self) -> None:
        """−9, to every process that was begun."""
        self._started.close()

    def rqtui(self, *words: str, code: int = 0) -> Any:
        """The JSON document that `rqtui WORDS… --json` prints, with no other option; it ends with `code`."""
        ran = shell(self.url, *words, "--json")
        assert ran.code == code, (words, ran.code, ran.out, ran.err)
        return ran.json

    def act(self, verb: str, *words: str, code: int = 0, queue: str = "") -> dict[str, str]:
        """What `rqtui act VERB QUEUE WORDS…` answers for each job."""
        found = self.rqtui("act", verb, queue or self.queue, *words, "--yes", code=code)
        return {result["id"]: result["word"] for result in found["results"]}

    def refused(self, verb: str, *words: str, queue: str = "") -> str:
        """What is said when a verb is refused: its exit code is 1."""
        ran = shell(self.url, "act", verb, queue or self.queue, *words, "--yes")
        assert ran.code == 1, (ran.out, ran.err)
        return f"{ran.out} {ran.err}"

    def runs(self) -> dict[str, list[str]]:
        """By whom each job was run, in order."""
        found: dict[str, list[str]] = defaultdict(list)
        for line in self.client.lrange(RAN, 0, -1):
            id, worker, _pid = json.loads(line)
            found[id].append(worker)
        return found

    def until_ran(self, id: str, times: int = 1) -> None:
        """Waits until that job has been begun so many times."""
        wait_until(lambda: len(self.runs()[id]) >= times, SLOW_S, f"{id} is run", every_s=0.02)

    def findings(self) -> list[dict[str, Any]]:
        """What `rqtui health` finds."""
        found: list[dict[str, Any]] = shell(self.url, "health", "--json").json["findings"]
        return found

    def found(self, kind: str) -> dict[str, Any]:
        """The one finding of that kind."""
        said = self.findings()
        of_kind = [each for each in said if each["kind"] == kind]
        assert len(of_kind) == 1, f"not one {kind} among {said}"
        return of_kind[0]

    def is_said(self, kind: str) -> bool:
        """Whether there is a finding of that kind."""
        return any(each["kind"] == kind for each in self.findings())

    def mend(self, finding: Mapping[str, Any], command: str) -> Ran | None:
        """Runs the command, which has to stand in the remedy of the finding; verbs are said yes to, loops go round
        once; None after a command of redis-cli."""
        assert command in finding["remedy"], finding["remedy"]
        program, *words = shlex.split(command)
        if program == "redis-cli":
            self.client.execute_command(*words)
            return None
        more = {"act": ["--yes"], "reap": ["--once"], "dispatch": ["--once"]}
        ran = shell(self.url, *words, *(word for word in more[words[0]] if word not in words))
        assert ran.code == 0, (command, ran.out, ran.err)
        return ran

    def command_in(self, finding: Mapping[str, Any], pattern: str) -> str:
        """The command in the remedy of a finding that matches."""
        [command] = set(re.findall(pattern, finding["remedy"]))
        return str(command)
