"""Measure rqtui and its peers, and print each goal with its figure and verdict.

    python benchmarks/run.py                        everything, five rounds
    python benchmarks/run.py --quick                small numbers, one round, for a rough check
    python benchmarks/run.py --only rqtui BullMQ    just these peers
    python benchmarks/run.py --own                  no peers: the goals of `rqtui bench`

The peers take turns on one Redis in alternating rounds, and medians are printed. rqtui's own figures are measured last.

Needs redis-server, the Python that rqtui is installed in, and for BullMQ node and npm. An environment per peer is
created below `--folder`. Writes the figures as JSON and the tables as Markdown; nothing fails because of a figure.
"""

from __future__ import annotations

import argparse
import datetime
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import platformdirs
from entries import ENTRIES, Entry
from homes import Home, Missing, find_home
from own.engine import measure_lifecycle_cpu
from own.line import Bench, describe_machine
from own.runner import measure_lines
from redis import Redis
from tables import build_report

from rqtui.connection.connect import connect
from rqtui.connection.embedded import EmbeddedServer, start_server

ROUNDS = 5
PROGRAM_S = 240
LATENCY_JOBS, DELAYED_JOBS, IDLE_WORKERS, MEMORY_JOBS, LOOK_QUEUES = 300, 20, 50, 30_000, 100
QUICK = 0.1  # of the jobs
SETTINGS = ("save", "appendonly", "maxmemory", "hz", "io-threads", "hash-max-listpack-entries")
OWN = ("engine", "screen", "scale", "many")  # the parts of `rqtui bench` that have goals of their own
FLOOR_SCALE = 0.3  # of what `rqtui bench engine` runs against bare scripts: it is repeated in each round


class Conductor:
    """Runs the programs of the measured libraries one at a time, on a server without other clients."""

    def __init__(self, server: EmbeddedServer, client: Redis, scale: float) -> None:
        self.server, self.client, self.scale = server, client, scale
        self.found: dict[str, dict[str, list[dict[str, Any]]]] = {}
        self.missing: dict[str, str] = {}

    def size(self, number: int) -> int:
        """Return a number of jobs at the scale of this run, at least the few hundred that a queue needs."""
        return max(min(number, 50), round(number * self.scale))

    def run_peer(self, entry: Entry, home: Home, command: str, number: int, setting: str = "best") -> dict[str, Any]:
        """Run the program of a library with one command, and return its result, or `{"none": reason}` if it failed."""
        words = [*home.command, "--url", self.server.url, "--setting", setting]
        words += ["--variant", entry.variant] if entry.variant else []
        try:
            ended = subprocess.run(
                [*words, command, str(number)],
                capture_output=True, text=True, timeout=PROGRAM_S, env=home.environment, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return {"none": f"not done within {PROGRAM_S} s"}
        lines = [line for line in ended.stdout.splitlines() if line.startswith("{")]
        if not lines:
            return {"none": " ".join(ended.stderr.strip().splitlines()[-1:]) or f"it ended with {ended.returncode}"}
        answer: dict[str, Any] = json.loads(lines[-1])
        return answer

    def measure(self, entry: Entry, home: Home, is_first: bool) -> None:
        """Measure one round of one peer."""
        for name, answer in self._measure_one_round(entry, home, is_first):
            self.found.setdefault(entry.name, {}).setdefault(name, []).append(answer)
            print(f"    {name}: {_shorten_reply(answer)}", file=sys.stderr, flush=True)

    def _measure_one_round(self, entry: Entry, home: Home, is_first: bool) -> Iterator[tuple[str, dict[str, Any]]]:
        """Run all measurements of a library once, and yield the name and the result of each."""
        jobs, default_jobs = self.size(entry.jobs), self.size(entry.default_jobs)
        self._write_results_so_far()
        yield "enqueue", self.run_peer(entry, home, "enqueue", self.size(entry.one_by_one))
        self._write_results_so_far()
        bulk = self.run_peer(entry, home, "bulk", jobs)
        yield "bulk", bulk
        fill = "enqueue" if "none" in bulk else "bulk"
        if fill == "enqueue":
            self.run_peer(entry, home, fill, jobs)
        yield "drain", self.run_peer(entry, home, "drain", jobs)
        if default_jobs:
            self._write_results_so_far()
            self.run_peer(entry, home, fill, default_jobs)
            yield "default drain", self.run_peer(entry, home, "drain", default_jobs, "default")
        if entry.is_floor:
            return
        self._write_results_so_far()
        yield "latency", self.run_peer(entry, home, "latency", self.size(LATENCY_JOBS))
        self._write_results_so_far()
        yield "delayed", self.run_peer(entry, home, "delayed", max(5, self.size(DELAYED_JOBS)))
        self._write_results_so_far()
        yield "look", self.run_peer(entry, home, "look", LOOK_QUEUES)
        if is_first:  # counts, which no busy moment of the machine changes
            self._write_results_so_far()
            yield "memory", self.run_peer(entry, home, "memory", self.size(MEMORY_JOBS))
            self._write_results_so_far()
            yield "idle", self.run_peer(entry, home, "idle", self.size(IDLE_WORKERS), "default")

    def measure_floor(self) -> None:
        """Measure rqtui's scripts and bare scripts that make the same moves in the same round."""
        self._write_results_so_far()
        for line in measure_lifecycle_cpu(Bench(self.server, self.client, FLOOR_SCALE * self.scale)):
            self.found.setdefault("floor", {}).setdefault(line.name.strip(), []).append({"value": line.value})

    def measure_own(self) -> list[dict[str, Any]]:
        """Run `rqtui bench` and return its lines as documents."""
        own = Bench(self.server, self.client, self.scale)
        return [line.document() for part in OWN for line in measure_lines(part, own)]

    def _write_results_so_far(self) -> None:
        """Write the results so far to the JSON file, so that an interrupted run loses none."""
        self.client.flushall()


def _shorten_reply(answer: dict[str, Any]) -> str:
    """Return the result of a program as a short text for the progress line."""
    if "none" in answer:
        return f"— ({answer['none']})"
    if "seconds" in answer:
        rate, cpu = answer["jobs"] / answer["seconds"], answer["server_us"] / answer["jobs"]
        return f"{rate:.0f}/s, {cpu:.1f} µs of the server each"
    return ", ".join(f"{name} {value:.4g}" for name, value in answer.items() if isinstance(value, float))


def _parse_arguments() -> argparse.Namespace:
    names = [entry.name for entry in ENTRIES]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=names, default=names, help=", ".join(names))
    parser.add_argument("--own", action="store_true", help="measure rqtui only, without the peers")
    parser.add_argument("--rounds", type=int, help=f"{ROUNDS} by default, 1 with --quick")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK:.0%}% of the jobs")
    parser.add_argument("--fresh", action="store_true", help="make the environments of the peers again")
    parser.add_argument("--folder", type=Path, default=platformdirs.user_cache_path("rqtui-benchmarks"))
    parser.add_argument("--out", type=Path, help="where results.json and results.md go; --folder by default")
    return parser.parse_args()


def main() -> None:
    """Measure all peers, and write the figures and tables."""
    inputs = _parse_arguments()
    rounds = inputs.rounds or (1 if inputs.quick else ROUNDS)
    inputs.folder.mkdir(parents=True, exist_ok=True)
    entries = [entry for entry in ENTRIES if entry.name in inputs.only and not inputs.own]
    with start_server("system") as server, connect(server.url, timeout_s=60.0) as client:
        conductor = Conductor(server, client, QUICK if inputs.quick else 1.0)
        homes = _prepare_homes(entries, inputs.folder, inputs.fresh, conductor.missing)
        for number in range(1, rounds + 1 if entries else 1):
            conductor.measure_floor()
            for entry in entries:
                if entry.name in homes:
                    print(f"round {number} of {rounds}: {entry.name}", file=sys.stderr, flush=True)
                    conductor.measure(entry, homes[entry.name], number == 1)
        own = conductor.measure_own()
        where = {
            **describe_machine(server.kind),
            "settings": _read_settings(client),
            "date": f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}",
            "rounds": rounds,
            "is_quick": inputs.quick,
            "versions": {name: dict(home.versions) for name, home in homes.items()},
        }
    _write_json(
        inputs.out or inputs.folder,
        {"machine": where, "found": conductor.found, "missing": conductor.missing, "own": own},
    )


def _read_settings(client: Redis) -> dict[str, str]:
    settings = {_decode_text(name): _decode_text(value) for name, value in client.config_get("*").items()}
    return {name: settings[name] for name in SETTINGS if name in settings}


def _decode_text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _prepare_homes(entries: Sequence[Entry], folder: Path, fresh: bool, missing: dict[str, str]) -> dict[str, Home]:
    """Create the environment of each library. A library without one gets the reason in `missing`."""
    homes: dict[str, Home] = {}
    renewed: set[str] = set()
    for entry in entries:
        try:
            homes[entry.name] = find_home(entry, folder, fresh and entry.home not in renewed)
            renewed.add(entry.home)
        except Missing as error:
            missing[entry.name] = str(error)
            print(f"{entry.name}: not measured: {error}", file=sys.stderr)
    return homes


def _write_json(folder: Path, document: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    text = build_report(document)
    (folder / "results.md").write_text(text)
    print(text)
    print(f"written: {folder / 'results.json'}, {folder / 'results.md'}", file=sys.stderr)


if __name__ == "__main__":
    main()
