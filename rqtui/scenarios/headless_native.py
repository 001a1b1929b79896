"""Run a native scenario without a screen: some seconds with a dispatcher and a reaper, then counts and a check.

Equal seed and length give equal jobs on every machine, because the producers catch up to the exact second at the end.
The scenario's `acts` press controls meanwhile. `headless_foreign.py` runs the other systems; `runs.py` calls both.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from rqtui.client.native_keys import build_queue_keys
from rqtui.connection.connect import connect, hide_url_passwords, read_server_info
from rqtui.scenarios.headless import DispatcherAndReaper, press_controls_on_schedule
from rqtui.scenarios.native_run import NativeRun
from rqtui.scenarios.proof import verify_accepted_jobs
from rqtui.scenarios.scenario import NativeScenario
from rqtui.scripts import script as scripts
from rqtui.systems import registry

_CHECK_LIMIT = 1_000
_COUNTS = ("scheduled", "ready", "reserved", "done", "dead", "enqueued", "acked")


def run_native_headless(
    scenario: NativeScenario,
    url: str,
    seed: int = 1,
    seconds: float = 20.0,
    stop: threading.Event | None = None,
    server_pid: int = 0,
) -> dict[str, Any]:
    """Run `scenario` for `seconds` on the Redis at `url` and return the result as JSON data.

    `stop` ends the run early. A cut suspends the process `server_pid`; without a process nothing is cut. Raises
    ServerError if Redis is unreachable at the start.
    """
    stop = stop or threading.Event()
    with connect(url) as client, NativeRun(replace(scenario, cut_at_s=0.0), url, seed, server_pid) as run:
        run.cut_s, run.pace.max_s = min(run.cut_s, seconds / 2), seconds
        began = time.monotonic()
        with DispatcherAndReaper(url, registry.create_system("native"), run.queues) as movers:
            press_controls_on_schedule(run, scenario.acts, began, seconds, stop)
            jobs_s = run.compute_status().finished / max(0.001, time.monotonic() - began)
        elapsed_ms = int((time.monotonic() - began) * 1000)
        run.halt(None if stop.is_set() else seconds)
        status, totals = run.compute_status(), run.crew.totals
        queues = [_read_counts(client, queue) for queue in run.queues]
        findings = [finding for queue in run.queues for finding in check_queue(client, queue)]
        total = {name: sum(queue[name] for queue in queues) for name in _COUNTS}
        remaining = sum(total[name] for name in ("scheduled", "ready", "reserved", "dead"))
        return {
            "scenario": scenario.name,
            "layout": scenario.system,
            "seed": seed,
            "server": {"url": hide_url_passwords(url), "title": read_server_info(client, url).title},
            "elapsed_ms": elapsed_ms,
            "put": status.put,
            "digest": run.producers.digest,
            "done": status.finished,
            "failed": status.failed,
            "retries": status.failed - totals.died + movers.moved["reaped_ready"],
            "dead": total["dead"],
            "stale": status.stale,
            "released": totals.released,
            "workers_lost": status.workers_lost,
            "dispatched": movers.moved["dispatch"],
            "reaped": {"ready": movers.moved["reaped_ready"], "dead": movers.moved["reaped_dead"]},
            "jobs_s": round(jobs_s, 1),
            "lost": total["enqueued"] - total["acked"] - remaining,
            **_verify_jobs(client, run),
            "queues": queues,
            "findings": findings,
        }


def _verify_jobs(client: Any, run: NativeRun) -> dict[str, Any]:
    """Search for every id that the queues accepted, and return how many are lost.

    Empty if the scenario stores no ids.
    """
    if not run.scenario.is_proved:
        return {}
    proof = verify_accepted_jobs(client, run.producers.copy_accepted_ids())
    return {
        "proof": {
            "accepted": proof.accepted,
            "places": dict(proof.places),
            "missing": len(proof.missing),
            "doubled": len(proof.doubled),
            "text": proof.format_result(),
        }
    }


def _read_counts(client: Any, queue: str) -> dict[str, Any]:
    """Return the job counts of a queue, with its name."""
    values = scripts.run_call(
        client, scripts.load_scripts("native")["counts"].build_call(build_queue_keys(queue))
    ).values
    return {"queue": queue, **{name: values[name] for name in _COUNTS}}


def check_queue(client: Any, queue: str) -> Iterator[dict[str, Any]]:
    """Yield the findings of a full integrity check of a queue."""
    script, walk, cursor = scripts.load_scripts("native")["check"], "scheduled", "0"
    while True:
        reply = scripts.run_call(
            client, script.build_call(build_queue_keys(queue), {"walk": walk, "cursor": cursor, "limit": _CHECK_LIMIT})
        )
        for id, fault, where in reply.rows:
            kind, text = fault.replace("_", "-"), f"{fault.replace('_', ' ')}: {where}".rstrip(": ")
            yield {"kind": kind, "queue": queue, "ids": [id.decode("utf-8", "replace")], "text": text}
        if reply.word == "end":
            return
        walk, cursor = reply.values["walk"], reply.values["cursor"]
