"""A native scenario without a screen: played for some seconds with a dispatcher and a reaper, then counted and checked.

With one seed and one length the same jobs are put, whatever the machine: at the end the producers catch up to the
second. Half-way a worker is killed, one stalls, one is added. `play_foreign.py` does the same for other systems.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from rqtui.client.native_keys import keys
from rqtui.connection.connect import connect, mask, probe
from rqtui.scenarios.movers import Movers, live
from rqtui.scenarios.native import NativeRun
from rqtui.scenarios.proof import prove
from rqtui.scenarios.scenario import NativeScenario
from rqtui.scripts import script as scripts
from rqtui.systems import registry

_CHECK_LIMIT = 1_000
_COUNTS = ("scheduled", "ready", "reserved", "done", "dead", "enqueued", "acked")


def play_native(
    scenario: NativeScenario,
    url: str,
    seed: int = 1,
    seconds: float = 20.0,
    stop: threading.Event | None = None,
    server_pid: int = 0,
) -> dict[str, Any]:
    """Play `scenario` for `seconds` on the Redis at `url` and say what happened, as JSON has it.

    `stop` ends it early. A cut holds the process `server_pid`; without one there is none.
    Raises ServerError when Redis cannot be reached at the start.
    """
    stop = stop or threading.Event()
    with connect(url) as client, NativeRun(replace(scenario, cut_at_s=0.0), url, seed, server_pid) as run:
        run.cut_s, run.pace.most_s = min(run.cut_s, seconds / 2), seconds
        began = time.monotonic()
        with Movers(url, registry.make("native"), run.queues) as movers:
            live(run, scenario.acts, began, seconds, stop)
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
            "layout": scenario.layout,
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
            **_proof(client, run),
            "queues": queues,
            "findings": findings,
        }


def _proof(client: Any, run: NativeRun) -> dict[str, Any]:
    """What became of every id that was accepted, where the scenario keeps them."""
    if not run.scenario.is_proved:
        return {}
    found = prove(client, run.producers.accepted())
    return {
        "proof": {
            "accepted": found.accepted,
            "places": dict(found.places),
            "missing": len(found.missing),
            "doubled": len(found.doubled),
            "text": found.sentence(),
        }
    }


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
