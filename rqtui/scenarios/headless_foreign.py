"""Run a scenario on another system without a screen, with that system's programs and rqtui's loops; check the result.

The check reads Redis by plain commands, never through the system, and compares its state with the ledger: each job has
a trace, and none is in two places. Jobs that the system itself loses are counted and reported. `runs.py` calls it.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from rqtui.connection.connect import connect, hide_url_passwords, read_server_info
from rqtui.engine.engine import Engine
from rqtui.model import Focus, Ref
from rqtui.scenarios.foreign_run import ForeignRun
from rqtui.scenarios.headless import DispatcherAndReaper, press_controls_on_schedule
from rqtui.scenarios.scenario import PLAY_S
from rqtui.scenarios.stage import ForeignScenario, Stage, count_places
from rqtui.text.formats import format_quantity

_MAX_IDS = 5  # ids per finding


def run_foreign_headless(
    scenario: ForeignScenario,
    url: str,
    seed: int = 1,
    seconds: float | None = None,
    stop: threading.Event | None = None,
) -> dict[str, Any]:
    """Run `scenario` for `seconds` (None: to its end, or for `PLAY_S`); return the result as JSON data.

    `stop` ends the run early. Raises ServerError if Redis is unreachable at the start.
    """
    stop = stop or threading.Event()
    run = ForeignRun(scenario, url, seed)
    stage, ledger = run.stage, run.ledger
    runs_to_end = bool(stage.longest_s) and seconds is None
    for_s = seconds or PLAY_S
    limit_s = stage.longest_s if runs_to_end else for_s
    end_s = for_s * stage.speed  # by the scenario's own time
    run.set_speed(stage.speed)
    run.pace.max_s = math.inf if runs_to_end else end_s  # before the run starts, because the first jobs take a while
    with connect(url) as client, run:
        began_s = time.monotonic()
        with DispatcherAndReaper(url, stage.system, run.queues) as movers:
            acts = [(share * for_s / limit_s, name) for share, name in scenario.acts]
            press_controls_on_schedule(run, acts, began_s, limit_s, stop, lambda: stage.is_over(client))
            elapsed_s = time.monotonic() - began_s
            engine = Engine(client, [stage.system])
            ref = Ref(stage.system.name, stage.queue)
            shown_findings = [
                finding for queue in engine.take_snapshot(Focus((ref,))).queues for finding in queue.findings
            ]
        run.halt(None if stop.is_set() or runs_to_end else end_s)
        places_by_job = stage.read_places(client)
        balance = ledger.compute_balance(places_by_job)
        [queue] = engine.take_snapshot(Focus((ref,))).queues
        findings = [
            {
                "kind": "two-places",
                "queue": stage.queue,
                "ids": [_decode_job(job)],
                "text": f"is in {', '.join(places)}",
            }
            for job, places in list(balance.two_places.items())[:_MAX_IDS]
        ]
        if runs_to_end and not stop.is_set():
            findings += _find_unfinished(stage, places_by_job)
        status = run.compute_status()
        return {
            "scenario": scenario.name,
            "layout": scenario.system,
            "seed": seed,
            "server": {"url": hide_url_passwords(url), "title": read_server_info(client, url).title},
            "elapsed_ms": int(elapsed_s * 1000),
            "speed": stage.speed,
            "put": ledger.put.total(),
            "digest": ledger.digest,
            "done": status.finished,
            "standing": balance.unfinished,
            "again": balance.duplicates,
            "withdrawn": ledger.withdrawn.total(),
            "failed": status.failed,
            "given_up": ledger.given_up.total(),
            "late": ledger.words["late"],
            "stale": ledger.words["stale"],
            "workers_lost": status.workers_lost,
            "lost_with_workers": ledger.lost_with_worker.total(),
            "dispatched": movers.moved["dispatch"],
            "reaped": movers.moved["reap"],
            "errors": sorted({*movers.errors, *run.list_errors()}),
            "jobs_s": round(status.finished / max(0.001, elapsed_s), 1),
            "lost": len(balance.lost),
            "lost_ids": [_decode_job(job) for job in balance.lost[:_MAX_IDS]],
            "queues": [
                {
                    "queue": stage.queue,
                    "counted": {count.place: count.count for count in queue.counts if count.is_count_known},
                    "standing": dict(count_places(places_by_job)),
                }
            ],
            "findings": findings,
            "said": [
                {"kind": finding.kind, "text": finding.text, "remedy": finding.remedy} for finding in shown_findings
            ],
        }


def _find_unfinished(stage: Stage, places_by_job: Mapping[bytes, Sequence[str]]) -> list[dict[str, Any]]:
    """Return a finding if jobs are in another place than the scenario's final one, or in several places."""
    ids = [job for job in stage.ledger.put if list(places_by_job.get(job, ())) != [stage.ends_in]]
    text = f"{format_quantity(len(ids), 'job')} not in {stage.ends_in} alone, after {stage.longest_s:g} s at most"
    finding = {
        "kind": "unfinished",
        "queue": stage.queue,
        "ids": [_decode_job(job) for job in ids[:_MAX_IDS]],
        "text": text,
    }
    return [finding] if ids else []


def _decode_job(job: bytes) -> str:
    return job[:60].decode("utf-8", "backslashreplace")
