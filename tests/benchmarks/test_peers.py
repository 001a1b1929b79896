"""`benchmarks/`: the programs speak their protocol and the tables say what was measured; nothing here is timed."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from redis import Redis
from shell import build_environment

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(FOLDER))

    def load(name: str) -> ModuleType:
        return importlib.import_module(name)

    yield load
    for name in ("entries", "homes", "tables", "own", "own.line"):
        sys.modules.pop(name, None)


def run_peer(url: str, *words: str) -> dict[str, Any]:
    """Run a program of the benchmark and return its answer."""
    command = [sys.executable, str(FOLDER / "peers" / "on_rqtui.py"), "--url", url, *words]
    ended = subprocess.run(
        command, capture_output=True, text=True, timeout=120, env=build_environment(url), check=False
    )
    assert ended.returncode == 0, ended.stderr
    answer: dict[str, Any] = json.loads(ended.stdout)
    return answer


@pytest.mark.slow
def test_a_program_puts_jobs_and_its_worker_runs_every_one_of_them(client: Redis, url: str) -> None:
    put = run_peer(url, "bulk", "300")
    assert put["jobs"] == 300
    assert client.zcard("rqtui:{bench}:ready") == 301, "one more was put before the clock started"
    run = run_peer(url, "drain", "301")
    assert run["jobs"] == 301
    assert run["seconds"] > 0
    assert run["commands"] > 0
    assert client.zcard("rqtui:{bench}:ready") == client.zcard("rqtui:{bench}:reserved") == 0


def test_a_worker_that_dies_ends_the_measurement_and_reports_it(url: str) -> None:
    program = (
        "import sys; sys.path.insert(0, sys.argv.pop(1)); from protocol import Peer, main\n"
        "main(lambda url, variant: Peer(lambda bodies: None, lambda setting, wants_delays: None))"
    )
    command = [sys.executable, "-c", program, str(FOLDER / "peers"), "--url", url, "drain", "5"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert "its worker ended" in json.loads(ended.stdout)["none"]


# Each program in a child that is forked off after the imports which they share: that is most of their start.
CALLED = """
import os, runpy, sys
import rqtui.client, redis, argparse
for program in sys.argv[1:]:
    child = os.fork()
    if not child:
        sys.argv[:] = [program, "--help"]
        sys.path[0] = os.path.dirname(program)
        runpy.run_path(program, run_name="__main__")
        sys.exit("it asked for nothing")
    if os.waitpid(child, 0)[1]:
        sys.exit(f"{program} failed")
"""


@pytest.mark.slow
def test_every_program_reports_how_it_is_called(url: str) -> None:
    paths = {"PYTHONPATH": f"{FOLDER.parent}:{FOLDER}"}  # as `homes.py` has it for programs of rqtui's own environment
    names = ("run.py", "floor.py", "growth.py", "scaling.py", "peers/on_bare.py", "peers/on_rqtui.py")
    command = [sys.executable, "-c", CALLED, *(str(FOLDER / name) for name in names)]
    ended = subprocess.run(command, capture_output=True, text=True, env={**build_environment(url), **paths}, timeout=60)
    assert ended.returncode == 0, ended.stderr
    assert all(f"usage: {Path(name).name}" in ended.stdout for name in names), ended.stdout


def build_run(**missing: str) -> dict[str, Any]:
    round_of = {
        "enqueue": {"jobs": 100, "seconds": 0.1, "server_us": 5000.0, "commands": 1700.0, "trips": 100.0},
        "bulk": {"jobs": 1000, "seconds": 0.01, "server_us": 5000.0, "commands": 20.0, "trips": 2.0},
        "drain": {"jobs": 1000, "seconds": 0.02, "server_us": 9000.0, "commands": 200.0, "trips": 20.0},
        "delayed": {"none": "no delayed jobs"},
    }
    slow = {**round_of, "drain": {**round_of["drain"], "seconds": 0.2}}
    found = {
        "rqtui": {name: [answer] * 2 + [slow[name]] for name, answer in round_of.items()},
        "BullMQ": {name: [answer] for name, answer in slow.items()},
    }
    where = {
        "cpu": "Z80", "cores": 1, "system": "CP/M", "python": "3.11", "packages": {"rqtui": "0"}, "server": "Redis 7",
        "settings": {"save": ""}, "date": "2026-01-01", "rounds": 3, "is_quick": False, "versions": {},
    }  # fmt: skip
    return {"machine": where, "found": found, "missing": missing}


def test_the_table_has_medians_with_their_spread_and_reports_what_is_missing(modules: Any) -> None:
    text = modules("tables").build_report(build_run(rq="no network"))
    assert "50 000 [5 000 … 50 000]" in text
    assert "* rq: not measured: no network" in text
    assert "* rqtui, BullMQ, delayed: no delayed jobs" in text
    assert "| drain: times BullMQ at concurrency 50 | 10 | ≥ 2: met |" in text
    assert "| put in bulk: times BullMQ | 1 | ≥ 4: **missed** |" in text
    assert "| put in bulk: times rq | not measured | ≥ 8 |" in text


def test_the_costs_of_rqtui_alone_are_listed_with_goal_and_verdict(modules: Any) -> None:
    tables, line = modules("tables"), modules("own.line").Line
    own = [
        line("first paint of rqtui", 0.5, "s"),
        line("  against the empty app", 1.3, "×", "≤ 1.2"),
        line("put one by one", 29.0, "µs", "≤ 30"),
        line("memory", None, "bytes", "≤ 425", "not measured: this server has no INFO"),
    ]
    where = {
        "date": "2026-11-22", "cpu": "a CPU", "cores": 2, "system": "Linux", "python": "3.11", "packages": {},
        "server": "Redis", "settings": {}, "rounds": 5, "is_quick": False, "versions": {},
    }  # fmt: skip
    document = {"machine": where, "found": {}, "missing": {}, "own": [each.document() for each in own]}
    rows = [row for row in tables.build_report(document).splitlines() if row.startswith("|")]
    assert rows[2:] == [
        "| first paint of rqtui: against the empty app | 1.3 × | ≤ 1.2: **missed** |",
        "| put one by one | 29 µs | ≤ 30: met |",
        "| memory | not measured: this server has no INFO | ≤ 425 |",
    ]


def test_every_peer_has_a_program(modules: Any) -> None:
    assert [entry for entry in modules("entries").ENTRIES if not (FOLDER / "peers" / entry.program).is_file()] == []


@pytest.mark.matrix  # it makes an environment and asks pip
def test_a_peer_that_cannot_be_installed_explains_why(modules: Any, tmp_path: Path) -> None:
    entries, homes = modules("entries"), modules("homes")
    nowhere = entries.Entry("none", "on_rq.py", "none", ("./no-such-folder",), 1, 0, True, "")
    with pytest.raises(homes.Missing, match="pip install"):
        homes.find_home(nowhere, tmp_path)
