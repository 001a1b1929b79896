"""A scenario without a screen: played for some seconds with its own dispatcher and reaper, then counted and checked.

`run_headless` is what `rqtui demo --headless` prints. With one seed and one length the same jobs are put, whatever the
machine: at the end the producers catch up to the second. Half-way a worker is killed, one stalls, one is added.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from rqtui import layouts, scripts
from rqtui.loops import Loop, Round, mover
from rqtui.model import Ref
from rqtui.names import keys
from rqtui.scenarios.run import Run
from rqtui.scenarios.scenario import Scenario
from rqtui.server import connect, mask, probe

_ACTS = ((0.2, "kill"), (0.35, "stall"), (0.5, "add"), (0.5, "burst"), (0.6, "poison"))  # when, in shares of the run
_CHECK_LIMIT = 1_000
_COUNTS = ("scheduled", "ready", "reserved", "done", "dead", "enqueued", "acked")
_COUNTS = ("scheduled", "ready", "reserved", "done", "dead", "enqueued", "acked")


class _Movers:
    """A dispatcher and a reaper over the queues of a run, each with a connection, and what they moved."""

    def __init__(self, run: Run) -> None:
        self.moved: Counter[str] = Counter()
        self._clients = {verb: connect(run.url, client_name=f"rqtui-demo-{verb}") for verb in ("dispatch", "reap")}
        native = layouts.make("native")
        refs = [Ref("native", queue) for queue in run.queues]
        self._loops = [
            Loop(verb, mover(verb, client, {"native": native}, lambda: refs), self._note)
            for verb, client in self._clients.items()
        ]

    def __enter__(self) -> _Movers:
        for loop in self._loops:
            loop.start()
        return self

    def __exit__(self, *_: object) -> None:
        for loop in self._loops:
            loop.stop()
        for client in self._clients.values():
            client.close()

    def _note(self, done: Round) -> None:
        for step in done.steps:
            self.moved[step.verb] += step.moved
            if step.verb == "reap":
                self.moved["reaped_ready"] += int(step.values.get("ready", 0) or 0)
                self.moved["reaped_dead"] += int(step.values.get("dead", 0) or 0)


def run_headless(
    scenario: Scenario, url: str, seed: int = 1, seconds: float = 20.0, stop: threading.Event | None = None
) -> dict[str, Any]:
    """Play `scenario` for `seconds` on the Redis at `url` and say what happened, as JSON has it.

    `stop` ends it early. Raises ServerError when Redis cannot be reached at the start.
    """
    stop = stop or threading.Event()
    with connect(url) as client, Run(scenario, url, seed) as run:
        began = time.monotonic()
        with _Movers(run) as movers:
            _live(run, began, seconds, stop)
            jobs_s = run.status().finished / max(0.001, time.monotonic() - began)
        elapsed_ms = int((time.monotonic() - began) * 1000)
        run.halt(None if stop.is_set() else seconds)
        status, tally = run.status(), run.crew.tally
        queues = [_counts(client, queue) for queue in run.queues]
        findings = [finding for queue in run.queues for finding in check(client, queue)]
        total = {name: sum(queue[name] for queue in queues) for name in _COUNTS}
        remaining = sum(total[name] for name in ("scheduled", "ready", "reserved", "dead"))
        return {
            "scenario": scenario.name,
            "seed": seed,
            "server": {"url": mask(url), "title": probe(client, url).title},
            "elapsed_ms": elapsed_ms,
            "put": status.put,
            "digest": run.producers.digest,
            "done": status.finished,
            "failed": status.failed,
            "retries": status.failed - tally.died + movers.moved["reaped_ready"],
            "dead": total["dead"],
            "stale": status.stale,
            "released": tally.released,
            "workers_lost": status.workers_lost,
            "dispatched": movers.moved["dispatch"],
            "reaped": {"ready": movers.moved["reaped_ready"], "dead": movers.moved["reaped_dead"]},
            "jobs_s": round(jobs_s, 1),
            "lost": total["enqueued"] - total["acked"] - remaining,
            "queues": queues,
            "findings": findings,
        }


def _live(run: Run, began: float, seconds: float, stop: threading.Event) -> None:
    acts = [(began + share * seconds, name) for share, name in _ACTS]
    end = began + seconds
    while not stop.is_set():
        next_s = acts[0][0] if acts else end
        if stop.wait(max(0.0, min(next_s, end) - time.monotonic())):
            return
        if not acts:
            return
        run.press(acts.pop(0)[1])


def _counts(client: Any, queue: str) -> dict[str, Any]:
    values = scripts.run(client, scripts.load("native")["counts"].call(keys(queue))).values
    return {"queue": queue, **{name: values[name] for name in _COUNTS}}


def check(client: Any, queue: str) -> Iterator[dict[str, Any]]:
    """What the integrity walk of a queue finds, to its end: nothing where all is well."""
    script, walk, cursor = scripts.load("native")["check"], "scheduled", "0"
    while True:
        answer = scripts.run(client, script.call(keys(queue), {"walk": walk, "cursor": cursor, "limit": _CHECK_LIMIT}))
        for id, found, where in answer.rows:
            kind, text = found.replace("_", "-"), f"{found.replace('_', ' ')}: {where}".rstrip(": ")
            yield {"kind": kind, "queue": queue, "ids": [id.decode("utf-8", "replace")], "text": text}
        if answer.word == "end":
            return
        walk, cursor = answer.values["walk"], answer.values["cursor"]
