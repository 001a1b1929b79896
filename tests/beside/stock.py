"""Stock RQ beside a test: its API through a driver, its workers as processes, `rq` itself, and what ran.

stock.do("enqueue", queue="default", func="shop.add", args=[1, 2])
with stock.worker("w1", "default"):
    wait_until(lambda: stock.runs()[id], …)
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from redis import Redis
from shell import shell
from soaking import descendants, is_alive
from waiting import wait_until

from rqtui.connection.connect import connect

APP = Path(__file__).parent / "app"
RAN, FIXED = "beside:ran", "beside:fixed"
SLOW_S = 60.0  # for a process of Python to begin, on a machine that is busy


class StockError(Exception):
    """RQ raised; the text is its traceback."""


class Worker:
    """A worker's process; `kill` takes its work horse with it, as a machine that dies does."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], log: Path) -> None:
        self.name, self.process, self.log = name, process, log

    def kill(self) -> None:
        """−9, to it and to all that it has started; again is no harm."""
        if self.process.poll() is not None:
            return
        self.process.send_signal(signal.SIGSTOP)  # so that it notices no horse that dies
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

    @property
    def said(self) -> str:
        """Its log."""
        return self.log.read_text("utf-8", "replace")


class Stock:
    """RQ of one version at one Redis."""

    def __init__(self, folder: Path, version: str, url: str, logs: Path) -> None:
        self.version, self.url, self.client = version, url, connect(url)
        self._bin, self._logs, self._number = folder / "bin", logs, 0
        self._environ = {**os.environ, "PYTHONPATH": str(APP), "PYTHONUNBUFFERED": "1"}
        self._started = ExitStack()
        self._driver = subprocess.Popen(
            [str(self._bin / "python"), str(APP / "driver.py"), url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=self._environ,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._started.close()  # the workers
        self._driver.kill()
        self._driver.communicate()
        self.client.close()

    def do(self, command: str, **options: Any) -> Any:
        """One command of `app/driver.py`; raises StockError."""
        assert self._driver.stdin
        assert self._driver.stdout
        self._driver.stdin.write(json.dumps([command, options]) + "\n")
        self._driver.stdin.flush()
        answer = json.loads(self._driver.stdout.readline())
        if "error" in answer:
            raise StockError(answer["error"])
        return answer["value"]

    def rq(self, *words: str) -> str:
        """What `rq WORDS…` prints."""
        command = [str(self._bin / "rq"), *words, "-u", self.url]
        return subprocess.run(command, env=self._environ, capture_output=True, text=True, check=True).stdout

    def cron(self) -> Worker:
        """`rq cron` with the application's schedule; it is killed when the test ends."""
        log = self._logs / "cron.log"
        command = [str(self._bin / "rq"), "cron", "-u", self.url, str(APP / "night.py")]
        with log.open("wb") as file:
            process = subprocess.Popen(command, env=self._environ, stdout=file, stderr=file, start_new_session=True)
        made = Worker("cron", process, log)
        self._started.callback(made.kill)
        return made

    def start(self, *queues: str, name: str = "", options: tuple[str, ...] = ()) -> Worker:
        """A worker, at work; it is killed when the test ends."""
        made = self._begin(queues or ("default",), name, options)
        self._started.callback(made.kill)
        return made

    @contextmanager
    def worker(self, *queues: str, name: str = "", options: tuple[str, ...] = ()) -> Iterator[Worker]:
        """A worker, at work; at the end of the block it is told to finish, and has gone."""
        made = self.start(*queues, name=name, options=options)
        yield made
        made.process.terminate()
        made.process.wait(SLOW_S)

    def rqtui(self, *words: str, code: int = 0) -> Any:
        """The JSON document that `rqtui WORDS… --json` prints, with no other option; it ends with `code`."""
        ran = shell(self.url, *words, "--json")
        assert ran.code == code, (words, ran.code, ran.out, ran.err)
        return ran.json

    def act(self, verb: str, *words: str, code: int = 0, queue: str = "rq:default") -> dict[str, str]:
        """What `rqtui act VERB QUEUE WORDS…` answers for each job."""
        found = self.rqtui("act", verb, queue, *words, "--yes", code=code)
        return {result["id"]: result["word"] for result in found["results"]}

    def _begin(self, queues: tuple[str, ...], name: str, options: tuple[str, ...]) -> Worker:
        self._number += 1
        name = name or f"stock-{self._number}"
        log = self._logs / f"{name}.log"
        command = [str(self._bin / "rq"), "worker", "-u", self.url, "--name", name, *options, *queues]
        with log.open("wb") as file:
            process = subprocess.Popen(command, env=self._environ, stdout=file, stderr=file, start_new_session=True)
        made = Worker(name, process, log)
        wait_until(lambda: self._is_there(made), SLOW_S, f"worker {name} is at work")
        return made

    def _is_there(self, worker: Worker) -> bool:
        assert worker.process.poll() is None, worker.said
        return self.client.hget(f"rq:worker:{worker.name}", "state") in (b"idle", b"busy")

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

    def until(self, id: str, status: str) -> dict[str, Any]:
        """Waits until RQ says that of a job; all it says."""
        wait_until(lambda: (self.do("job", id=id) or {}).get("status") == status, SLOW_S, f"{id} is {status}", 0.02)
        found: dict[str, Any] = self.do("job", id=id)
        return found

    def holding(self, id: str, worker: str = "", queue: str = "default", **options: Any) -> Worker:
        """A worker that has begun job `id`, which goes on until the key `go` is there."""
        self.do("enqueue", queue=queue, func="shop.hold", args=["go"], id=id, **options)
        made = self.start(queue, name=worker)
        self.until_ran(id)
        return made


def aged(client: Redis, queue: str, seconds: int) -> None:
    """Makes the leases of a queue, the workers and the executions so much older, as if nobody had renewed them."""
    for member, score in client.zrange(f"rq:wip:{queue}", 0, -1, withscores=True):
        client.zadd(f"rq:wip:{queue}", {member: score - seconds})
    for pattern in ("rq:worker:*", "rq:execution:*", "rq:executions:*"):
        for key in client.scan_iter(pattern):
            if (left_s := client.ttl(key)) > 0:
                client.expire(key, left_s - seconds)
