"""A scenario on another system without a screen: played by the originals and rqtui's loops, then counted and checked.

The check reads Redis by plain commands, never through the layout, and holds what stands there against what every actor
did: no job without a trace, none in two places. Where an original loses jobs by itself, that is counted, and said.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from rqtui.connection.connect import connect, mask, probe
from rqtui.engine.engine import Engine
from rqtui.model import Focus, Ref
from rqtui.scenarios.foreign import ForeignRun
from rqtui.scenarios.movers import Movers, live
from rqtui.scenarios.scenario import PLAY_S
from rqtui.scenarios.stage import ForeignScenario, Stage, count_places
from rqtui.text.formats import numbered

_NAMED = 5  # ids in a finding


def play_foreign(
    scenario: ForeignScenario,
    url: str,
    seed: int = 1,
    seconds: float | None = None,
    stop: threading.Event | None = None,
) -> dict[str, Any]:
    """Play `scenario` for `seconds` and say what happened, as JSON has it; None: to its end, or for `PLAY_S`.

    `stop` ends it early. Raises ServerError when Redis cannot be reached at the start.
    """
    stop = stop or threading.Event()
    run = ForeignRun(scenario, url, seed)
    stage, ledger = run.stage, run.ledger
    to_its_end = bool(stage.longest_s) and seconds is None
    for_s = seconds or PLAY_S
    limit_s = stage.longest_s if to_its_end else for_s
    end_s = for_s * stage.speed  # by the scenario's own time
    run.set_speed(stage.speed)
    run.pace.most_s = math.inf if to_its_end else end_s  # before the first job: it takes a while to put those
    with connect(url) as client, run:
        began_s = time.monotonic()
        with Movers(url, stage.layout, run.queues) as movers:
            acts = [(share * for_s / limit_s, name) for share, name in scenario.acts]
            live(run, acts, began_s, limit_s, stop, lambda: stage.is_over(client))
            elapsed_s = time.monotonic() - began_s
            engine = Engine(client, [stage.layout])
            ref = Ref(stage.layout.name, stage.queue)
            said = [finding for queue in engine.snapshot(Focus((ref,))).queues for finding in queue.findings]
        run.halt(None if stop.is_set() or to_its_end else end_s)
        standing = stage.standing(client)
        balance = ledger.balance(standing)
        [queue] = engine.snapshot(Focus((ref,))).queues
        findings = [
            {"kind": "two-places", "queue": stage.queue, "ids": [_text(job)], "text": f"stands in {', '.join(places)}"}
            for job, places in list(balance.two_places.items())[:_NAMED]
        ]
        if to_its_end and not stop.is_set():
            findings += _unfinished(stage, standing)
        status = run.status()
        return {
            "scenario": scenario.name,
            "layout": scenario.layout,
            "seed": seed,
            "server": {"url": mask(url), "title": probe(client, url).title},
            "elapsed_ms": int(elapsed_s * 1000),
            "speed": stage.speed,
            "put": ledger.put.total(),
            "digest": ledger.digest,
            "done": status.finished,
            "standing": balance.standing,
            "again": balance.again,
            "withdrawn": ledger.withdrawn.total(),
            "failed": status.failed,
            "given_up": ledger.given_up.total(),
            "late": ledger.words["late"],
            "stale": ledger.words["stale"],
            "workers_lost": status.workers_lost,
            "lost_with_workers": ledger.fell.total(),
            "dispatched": movers.moved["dispatch"],
            "reaped": movers.moved["reap"],
            "errors": sorted({*movers.errors, *run.errors()}),
            "jobs_s": round(status.finished / max(0.001, elapsed_s), 1),
            "lost": len(balance.lost),
            "lost_ids": [_text(job) for job in balance.lost[:_NAMED]],
            "queues": [
                {
                    "queue": stage.queue,
                    "counted": {count.place: count.count for count in queue.counts if count.is_known},
                    "standing": dict(count_places(standing)),
                }
            ],
            "findings": findings,
            "said": [{"kind": finding.kind, "text": finding.text, "remedy": finding.remedy} for finding in said],
        }


def _unfinished(stage: Stage, standing: Mapping[bytes, Sequence[str]]) -> list[dict[str, Any]]:
    """Jobs that do not stand in the place where all of them end, and only there."""
    ids = [job for job in stage.ledger.put if list(standing.get(job, ())) != [stage.ends_in]]
    text = f"{numbered(len(ids), 'job')} not in {stage.ends_in} alone, after {stage.longest_s:g} s at most"
    found = {"kind": "unfinished", "queue": stage.queue, "ids": [_text(job) for job in ids[:_NAMED]], "text": text}
    return [found] if ids else []


def _text(job: bytes) -> str:
    return job[:60].decode("utf-8", "backslashreplace")
