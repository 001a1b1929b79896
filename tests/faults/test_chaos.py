"""Everybody at once, anybody killed at any moment: nothing acknowledged is lost, nothing is finished by two.

`RQTUI_CHAOS_SEED=N pytest -m matrix tests/faults/test_chaos.py` plays the plan of a seed again. The long form plays
histories of 42 kills, `always` and `everysec` in turn, until there were a thousand: `pytest -m long -s` with this file
prints a line of figures for each and one for all.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import redis
from faults import conductor

FSYNC = ("always", "everysec")
SEEDS = {"always": 7, "everysec": 8}
LONG_KILLS = int(os.environ.get("RQTUI_CHAOS_KILLS", "1000"))
A_HISTORY = 42  # kills: three rounds of the deck in `plan`; in longer ones the streams of events lose their beginning


@pytest.mark.matrix
@pytest.mark.timeout(400)
@pytest.mark.parametrize("fsync", FSYNC)
def test_everybody_killed_once_and_the_server_twice_loses_nothing(fsync: str, tmp_path: Path) -> None:
    seed = int(os.environ.get("RQTUI_CHAOS_SEED", SEEDS[fsync]))
    outcome = conductor.run(tmp_path, seed, fsync, kills=14, pace_s=0.2)
    assert not outcome.broken, outcome.message
    assert outcome.figures["kills"] == 14
    assert outcome.figures["jobs"] >= 20, "so little was put that nothing was tried"
    assert outcome.figures["ended_in"]["done"] >= 10
    assert outcome.figures["ended_in"]["forgotten"] >= 1
    assert {outcome.figures["ended_in"][place] for place in ("scheduled", "ready", "reserved")} == {0}


@pytest.mark.long
@pytest.mark.timeout(0)
def test_a_thousand_kills_lose_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = int(os.environ.get("RQTUI_CHAOS_SEED", conductor.choose_seed()))
    began_s, kills, all_figures, broken = time.monotonic(), 0, list[dict[str, Any]](), list[str]()
    while kills < LONG_KILLS:
        number = len(all_figures)
        folder = tmp_path / str(first + number)
        folder.mkdir()
        wanted = min(A_HISTORY, LONG_KILLS - kills)
        outcome = conductor.run(folder, first + number, FSYNC[number % 2], wanted, pace_s=0.55)
        kills += outcome.figures["kills"]
        all_figures.append(outcome.figures)
        with capsys.disabled():
            print(json.dumps(outcome.figures), flush=True)
        if outcome.broken:
            broken.append(outcome.message)
        else:
            shutil.rmtree(folder)
    with capsys.disabled():
        print(json.dumps(_summary(first, all_figures, time.monotonic() - began_s)), flush=True)
    assert not broken, "\n".join(broken)


def _summary(first: int, all_figures: list[dict[str, Any]], seconds: float) -> dict[str, Any]:
    strikes: Counter[str] = Counter()
    for figures in all_figures:
        strikes.update(figures["strikes"])
    return {
        "histories": len(all_figures), "seeds": [first, first + len(all_figures) - 1], "seconds": round(seconds),
        **{name: sum(figures[name] for figures in all_figures) for name in ("kills", "jobs", "broken", "forgiven")},
        "strikes": dict(sorted(strikes.items())), "redis": all_figures[0]["redis"],
        "python": platform.python_version(), "redis_py": redis.__version__,
        "machine": f"{platform.system()} {platform.release()}, {os.cpu_count()} × {_cpu()}",
    }  # fmt: skip


def _cpu() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name")), "")
