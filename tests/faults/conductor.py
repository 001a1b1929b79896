"""Run one history: start all processes, cause the faults of a plan, repair the servers, wait for the end, check.

    outcome = run(folder, seed=7, fsync="always", kills=12, pace_s=0.35)
    assert not outcome.broken, outcome.message

The same seed gives the same plan; which process does what when a fault happens depends on the machine.
"""

from __future__ import annotations

import contextlib
import heapq
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from faults.history import History, read_lines
from faults.history_checker import PLACES, TAIL_S, Dump, find_errors
from faults.plan import PROXIES, QUEUES, SLOTS, Strike, strikes
from faults.servers import DurableServer
from proxy import Proxy
from redis import Redis
from waiting import wait_until

from rqtui.client import native_keys
from rqtui.client.queue import Queue

FOLDER = Path(__file__).parent
DRAIN_S = 180.0
STREAM = 10_000  # events that a queue keeps; Redis 6.2 does not report how many there were
END_S = 60.0  # for a process to end after SIGTERM
YOUNG_S = 60.0  # `rqtui work` that finds no Redis when it starts says so and ends with 3
SETTINGS = {"ttr_ms": 600, "max_attempts": 4, "backoff_ms": 50, "backoff_cap_ms": 400, "events": "on"}
# One queue keeps the ids of done jobs, so that "done twice" differs from "put twice"; one keeps the jobs; one
# forgets them at once, which is the default.
ALSO: Mapping[str, Mapping[str, object]] = dict(
    zip(QUEUES, ({"unique_ms": 3_600_000}, {"keep_ms": 3_600_000}, {}), strict=True)
)


@dataclass
class Outcome:
    """The result of a history: the sentences of the checker, and figures."""

    seed: int
    history: Path
    broken: list[str]
    figures: dict[str, Any]

    @property
    def message(self) -> str:
        """Return the error message of a failed test."""
        shown = "\n".join(self.broken[:20])
        return (
            f"{len(self.broken)} broken promises with seed {self.seed}, history {self.history}\n{shown}\n"
            f"again: RQTUI_CHAOS_SEED={self.seed} pytest -m matrix tests/faults/test_chaos.py"
        )


@dataclass
class Slot:
    """A place for one process of a history, with the process that fills it now."""

    name: str
    kind: str
    proxy: str
    number: int = 0
    process: subprocess.Popen[str] | None = None
    since_s: float = 0.0
    called: str = ""


@dataclass
class Stage:
    """The server, the proxies and the processes of a history; `later` are (time, action) to be done."""

    folder: Path
    seed: int
    server: DurableServer
    proxies: dict[str, Proxy]
    history: History
    slots: dict[str, Slot]
    later: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    is_server_up: bool = True
    is_over: bool = False
    _order: int = 0

    def schedule(self, when_s: float, act: Callable[[], None]) -> None:
        """Schedule `act` for a time of the monotonic clock."""
        self._order += 1
        heapq.heappush(self.later, (when_s, self._order, act))

    def play(self) -> None:
        """Run all scheduled actions that are due."""
        while self.later:
            self.replace_ended_processes()
            wait_s = self.later[0][0] - time.monotonic()
            if wait_s > 0:
                time.sleep(min(wait_s, 0.1))
                continue
            heapq.heappop(self.later)[2]()

    # processes

    def fill(self, slot: Slot) -> None:
        """Start the next process of a slot."""
        if self.is_over or slot.process is not None:
            return
        slot.number += 1
        slot.called = f"{slot.name}.{slot.number}"
        slot.since_s = time.monotonic()
        slot.process = subprocess.Popen(
            self._command(slot),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if slot.kind == "rqtui work" else subprocess.DEVNULL,
            stderr=(self.folder / f"{slot.called}.stderr").open("w"),
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            start_new_session=True,
        )
        if slot.process.stdout:
            threading.Thread(target=self._listen, args=(slot.called, slot.process.stdout), daemon=True).start()

    def _command(self, slot: Slot) -> list[str]:
        url = f"{self.proxies[slot.proxy].url}?socket_timeout=1.5&socket_connect_timeout=1.5"
        number = int(slot.name[-1]) if slot.name[-1].isdigit() else slot.number
        if slot.kind == "rqtui work":
            command = [sys.executable, "-I", "-S", str(FOLDER / "run_job.py"), str(self._path), slot.called]
            queue = QUEUES[number % len(QUEUES)]
            return _build_rqtui_command(
                url, "work", queue, "--json", "--ttr", "600ms", "--concurrency", "2", "--", *command
            )
        if slot.kind.startswith("rqtui "):
            return _build_rqtui_command(url, slot.kind.split()[1], *QUEUES, "--json")
        queues = [QUEUES[number % len(QUEUES)]] if slot.kind.startswith(("consume", "lease")) else QUEUES
        options = {
            "name": slot.called, "url": url, "queues": queues, "history": str(self._path), "most": 100_000,
            "seed": f"{self.seed} {slot.called}",
        }  # fmt: skip
        return [sys.executable, "-m", "faults.actors", slot.kind, json.dumps(options)]

    @property
    def _path(self) -> Path:
        return self.folder / "history.jsonl"

    def _listen(self, called: str, output: Any) -> None:
        """Record the outcomes that `rqtui work` prints about its jobs."""
        history = History(self._path, called)
        words = {"acked": ("ack", "moved"), "released": ("release", "moved"), "rejected": ("reject", "moved")}
        for line in output:
            with contextlib.suppress(ValueError):
                document = json.loads(line)
                verb, word = words.get(document["outcome"], ("", document["outcome"]))
                job = {name: document[name] for name in ("queue", "id", "attempt")}
                history.note("settled", **job, token=None, verb=verb, word=word)

    def replace_ended_processes(self) -> None:
        """Record processes that ended by themselves, and start another for each."""
        for slot in self.slots.values():
            if slot.process is None or (code := slot.process.poll()) is None:
                continue
            if not (slot.kind == "rqtui work" and code == 3 and time.monotonic() < slot.since_s + YOUNG_S):
                self.history.note("ended", name=slot.called, code=code, error=self._last_words(slot.called))
            slot.process = None
            self.fill(slot)

    def _last_words(self, called: str) -> str:
        return (self.folder / f"{called}.stderr").read_text("utf-8", "replace")[-1500:]

    def signal(self, slot: Slot, number: int) -> None:
        """Send a signal to the process of a slot and to its descendants."""
        with contextlib.suppress(ProcessLookupError):
            if slot.process is not None:
                os.killpg(slot.process.pid, number)

    # faults

    def strike(self, strike: Strike, began_s: float) -> None:
        """Cause one fault, and schedule its end."""
        self.history.note("strike", kind=strike.kind, target=strike.target)
        self.counts[f"{strike.kind} {strike.target.rstrip('0123456789')}"] += 1
        until_s = began_s + strike.until_s
        if strike.target == "server":
            (self._kill_server if strike.kind == "kill" else self._stop_server)(until_s)
        elif strike.target in self.slots:
            (self._kill if strike.kind == "kill" else self._stop)(self.slots[strike.target], until_s)
        else:
            self._disturb(self.proxies[strike.target], strike, until_s)

    def _kill(self, slot: Slot, until_s: float) -> None:
        if slot.process is not None:
            self.replace_ended_processes()  # what ended before is not ours
        if slot.process is not None:
            self.signal(slot, signal.SIGKILL)
            slot.process.wait()
            slot.process = None
        self.schedule(until_s, lambda: self.fill(slot))

    def _stop(self, slot: Slot, until_s: float) -> None:
        self.signal(slot, signal.SIGSTOP)
        self.schedule(until_s, lambda: self.signal(slot, signal.SIGCONT))

    def _kill_server(self, until_s: float) -> None:
        if self.is_server_up:
            self.server.kill()
            self.is_server_up = False
            self.history.note("server", event="killed")
        self.schedule(until_s, self._start_server)

    def _start_server(self) -> None:
        if not self.is_server_up:
            self.server.start()
            self.is_server_up = True
            self.history.note("server", event="started")

    def _stop_server(self, until_s: float) -> None:
        self.server.pause(True)
        self.schedule(until_s, lambda: self.server.pause(False))

    def _disturb(self, proxy: Proxy, strike: Strike, until_s: float) -> None:
        if strike.kind == "cut":
            proxy.cut()
        elif strike.kind == "delay":
            proxy.delay_s = 0.02
            self.schedule(until_s, lambda: setattr(proxy, "delay_s", 0.0))
        elif strike.kind == "blackhole":
            proxy.is_blackhole = True
            self.schedule(until_s, lambda: (setattr(proxy, "is_blackhole", False), proxy.cut()))
        else:
            proxy.fail(strike.kind, strike.command, strike.times)


def run(folder: Path, seed: int, fsync: str, kills: int, pace_s: float) -> Outcome:
    """Run one history from its beginning to its end in `folder`, with 1.5 to 2.5 faults for each kill."""
    began_s = time.monotonic()
    server = DurableServer(folder, fsync)
    with contextlib.ExitStack() as stack:
        stack.callback(server.kill)
        server.start()
        proxies = {name: stack.enter_context(Proxy(server.url)) for name in PROXIES}
        path = folder / "history.jsonl"
        history = History(path, "conductor")
        history.note("plan", seed=seed, fsync=fsync, kills=kills, pace_s=pace_s)
        stage = Stage(folder, seed, server, proxies, history, {name: Slot(name, *rest) for name, *rest in SLOTS})
        stack.callback(_end_all, stage)
        for name in QUEUES:
            with Queue(name, server.url) as queue:
                queue.configure(**SETTINGS, **ALSO[name])
        for slot in stage.slots.values():
            stage.fill(slot)
        wait_until_acked(stage, 1)  # everybody is there, however long it took to start them
        start_s = time.monotonic()
        for strike in strikes(seed, kills, pace_s):
            stage.schedule(start_s + strike.at_s, lambda strike=strike: stage.strike(strike, start_s))
        stage.play()
        wait_until_acked(stage, 10)  # on a busy machine the faults come faster than the jobs
        drain_queues(stage)
        _finish_history(stage)
        dumps = {name: dump(server.client(), name, run_check(server.url, name), bool(ALSO[name])) for name in QUEUES}
        (folder / "dumps.json").write_text(json.dumps({name: asdict(one) for name, one in dumps.items()}))
        version = str(server.client().info("server")["redis_version"])
    broken, forgiven = find_errors(read_lines(path), dumps, TAIL_S[fsync])
    jobs = Counter({place: sum(len(one.places[place]) for one in dumps.values()) for place in PLACES})
    jobs["forgotten"] = sum(len(one.forgotten()) for one in dumps.values())
    figures = {
        "seed": seed, "fsync": fsync, "kills": sum(n for kind, n in stage.counts.items() if kind.startswith("kill")),
        "strikes": dict(sorted(stage.counts.items())), "jobs": sum(jobs.values()), "ended_in": dict(jobs),
        "seconds": round(time.monotonic() - began_s, 1), "redis": version, "broken": len(broken), "forgiven": forgiven,
        "whole_streams": sum(one.events is not None for one in dumps.values()),
    }  # fmt: skip
    return Outcome(seed, path, broken, figures)


def wait_until_acked(stage: Stage, number: int) -> None:
    """Wait until so many jobs of each queue were done."""

    def are_enough_done() -> bool:
        stage.replace_ended_processes()
        for slot in stage.slots.values():
            stage.fill(slot)
        return all(
            int(client.hget(native_keys.build_queue_keys(name)["meta"], "acked") or 0) >= number for name in QUEUES
        )

    with stage.server.client() as client:
        wait_until(are_enough_done, DRAIN_S, f"{number} jobs done in each queue", every_s=0.05)


def drain_queues(stage: Stage) -> None:
    """End the faults: producers and operators leave, queues are resumed, the others work until no job waits."""
    for proxy in stage.proxies.values():
        with proxy._lock:
            proxy._faults.clear()
    for slot in stage.slots.values():
        stage.fill(slot)
    _end_processes(
        stage, [slot for slot in stage.slots.values() if slot.kind.startswith(("produce", "command", "operate"))]
    )
    for name in QUEUES:
        with Queue(name, stage.server.url) as queue:
            queue.resume()
    with stage.server.client() as client:

        def is_empty() -> bool:
            stage.replace_ended_processes()
            together = client.pipeline()  # or a job that moves meanwhile would be seen in none of its places
            for name in QUEUES:
                for place in ("scheduled", "ready", "reserved"):
                    together.zcard(native_keys.build_queue_keys(name)[place])
            return not any(together.execute())

        try:
            wait_until(is_empty, DRAIN_S, "an end of the work", every_s=0.05)
        except AssertionError as error:
            stage.history.note("ended", name="the work", code=None, error=str(error))


def _finish_history(stage: Stage) -> None:
    _end_processes(stage, list(stage.slots.values()))


def _end_processes(stage: Stage, slots: list[Slot]) -> None:
    """Send SIGTERM to the processes of these slots, which must end with 0."""
    for slot in slots:
        if slot.process is not None:
            slot.process.send_signal(signal.SIGTERM)
    for slot in slots:
        if slot.process is None:
            continue
        try:
            code: int | str = slot.process.wait(END_S)
        except subprocess.TimeoutExpired:
            code = f"nothing within {END_S:.0f} s of SIGTERM"
            stage.signal(slot, signal.SIGKILL)
            slot.process.wait()
        if code not in (0, 130, 143, -signal.SIGTERM):  # the others: it was still starting
            stage.history.note("ended", name=slot.called, code=code, error=stage._last_words(slot.called))
        slot.process = None
        slot.kind = "gone"


def _end_all(stage: Stage) -> None:
    stage.is_over = True
    for slot in stage.slots.values():
        if slot.process is not None:
            stage.signal(slot, signal.SIGKILL)
            slot.process.wait()


def dump(client: Redis, queue: str, found: Sequence[object], remembers: bool = True) -> Dump:
    """Read the contents of a queue. `found` is what `check` reports, `remembers` whether ids of done jobs are kept."""
    keys = native_keys.build_queue_keys(queue)
    places = {
        place: {id.decode(): score for id, score in client.zrange(keys[place], 0, -1, withscores=True)}
        for place in PLACES
    }
    attempts = {id.decode(): line.decode() for id, line in client.hgetall(keys["attempts"]).items()}
    token = int(client.hget(keys["meta"], "token") or 0)
    return Dump(places, attempts, token, events(client, keys["events"]), found, remembers)


def run_check(url: str, queue: str) -> list[str]:
    """Run `rqtui check`, and return its output if it does not end with 0."""
    ran = subprocess.run(_build_rqtui_command(url, "check", queue, "--json"), capture_output=True, text=True)
    return [ran.stdout + ran.stderr] if ran.returncode else []


def events(client: Redis, key: str) -> list[tuple[str, str]] | None:
    """Return (verb, id) of the events of a queue, oldest first; None if some are missing."""
    info: Mapping[str, Any] = client.xinfo_stream(key) if client.exists(key) else {}
    entries = client.xrange(key)
    is_trimmed = info.get("entries-added", len(entries)) != len(entries) or len(entries) >= STREAM
    if is_trimmed:
        return None
    return [(fields[b"verb"].decode(), fields[b"id"].decode()) for _, fields in entries if b"id" in fields]


def _build_rqtui_command(url: str, *words: str) -> list[str]:
    return [sys.executable, "-m", "rqtui", "-u", url, *words]


def choose_seed() -> int:
    """Return a seed for a run that names none."""
    return random.SystemRandom().randrange(10**6)
