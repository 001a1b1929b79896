"""Measure how long the systems' own tools take to count many queues: `rq info`, Sidekiq, BullMQ and Flower.

Each runs as a program of its own (`stock/`) in an environment of its own, with its newest version. A tool that cannot
be installed becomes a line that says why.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import environments
from .environments import Environment, Missing
from .line import Bench, Line

PROGRAMS = Path(__file__).resolve().parent / "stock"
ROUNDS = 7
_PATIENCE_S = 300


@dataclass(frozen=True, slots=True)
class Tool:
    """A program that counts all queues: its title, its file, its environment and the packages in it."""

    title: str
    program: str
    home: str
    packages: tuple[str, ...]


RQ = Tool("rq info", "rq_info.py", "rq", ("rq",))
SIDEKIQ = Tool("Sidekiq's API", "sidekiq_stats.rb", "sidekiq", ("sidekiq",))
BULLMQ = Tool("getJobCounts()", "bullmq_counts.js", "bullmq", ("bullmq", "ioredis"))
CELERY = Tool("Flower's API", "flower_lengths.py", "celery", ("celery[redis]", "flower"))
_MAKE: dict[str, Callable[[Path, Sequence[str]], Environment]] = {
    ".py": environments.create_python_environment,
    ".js": environments.create_node_environment,
    ".rb": environments.create_ruby_environment,
}


def prepare_environment(tool: Tool) -> Environment:
    """Return the environment of a tool, and create it if it is missing. Raises Missing."""
    return _MAKE[Path(tool.program).suffix](environments.find_cache_folder() / tool.home, tool.packages)


def measure_tool(on: Bench, tool: Tool, queues: int, jobs: int) -> Iterator[Line]:
    """Yield one line per operation of the tool over `queues` queues with `jobs` waiting jobs: its median time."""
    title = f"{tool.title} over {queues} queues"
    if not on.beside:
        yield Line(title, None, note="not asked for, not measured")
        return
    try:
        environment = prepare_environment(tool)
        results = _run_tool(environment, PROGRAMS / tool.program, on.server.url, on.size(ROUNDS), queues)
    except Missing as error:
        yield Line(title, None, note=f"not measured: {' '.join(str(error).split())[:200]}")
        return
    versions = ", ".join(f"{name} {version}" for name, version in environment.versions.items())
    for name, result in results.items():
        note = f"{min(result['ms']):.0f} … {max(result['ms']):.0f}; {versions}"
        if result["counted"] != jobs:
            note = f"it counted {result['counted']} jobs of {jobs}; {note}"
        yield Line(f"{name}, {queues} queues", statistics.median(result["ms"]), "ms", note=note)


def _run_tool(made: Environment, program: Path, url: str, rounds: int, queues: int) -> dict[str, Any]:
    """Run the program of a tool and return what it printed: its milliseconds per round, by operation.

    Raises Missing.
    """
    command = [*made.command, str(program), url, str(rounds), str(queues)]
    environ = {**os.environ, **made.variables}
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_S, env=environ)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Missing(str(error)) from error
    lines = [line for line in ended.stdout.splitlines() if line.startswith("{")]
    if ended.returncode or not lines:
        raise Missing(" ".join(ended.stderr.strip().splitlines()[-1:]) or f"it ended with {ended.returncode}")
    found: dict[str, Any] = json.loads(lines[-1])
    return found
