"""The result of a measurement: a line with a figure, its unit and its target, and the machine it was measured on."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from redis import Redis

from rqtui.connection.embedded import EmbeddedServer


@dataclass(frozen=True, slots=True)
class Line:
    """One measured figure; `value` is None where it could not be measured, and `note` says why.

    `target` is a bound with its direction: `≤ 1.5` or `≥ 60000`; empty where there is none.
    """

    name: str
    value: float | None
    unit: str = ""
    target: str = ""
    note: str = ""

    @property
    def is_met(self) -> bool | None:
        """Whether the figure is within its target, or None without a figure or a target."""
        if self.value is None or not self.target:
            return None
        sign, bound = self.target[0], float(self.target[1:].replace(" ", ""))
        return self.value <= bound if sign == "≤" else self.value >= bound

    def document(self) -> dict[str, Any]:
        """Return the line as a JSON document."""
        return {**asdict(self), "met": self.is_met}

    def text(self) -> str:
        """Return the line as text for people."""
        figure = "—" if self.value is None else f"{_format_figure(self.value)} {self.unit}".rstrip()
        target = f"target {self.target}" + ("" if self.is_met else " MISSED") if self.is_met is not None else ""
        return f"{self.name:<58} {figure:>14}  {target:<22} {self.note}".rstrip()


@dataclass(frozen=True, slots=True)
class Bench:
    """The resources of a measurement: a server without other clients, a client of it, and the size to measure.

    `scale` 1 is the real size; tests use a small part of it. `beside` says whether the tools of other projects run too.
    """

    server: EmbeddedServer
    client: Redis
    scale: float = 1.0
    beside: bool = True

    def size(self, number: int, least: int = 1) -> int:
        """Return a number of jobs or queues, reduced to the scale of this measurement, at least `least`."""
        return max(least, round(number * self.scale))


def describe_machine(server_title: str) -> dict[str, Any]:
    """Return the processor, cores and versions of the machine that measures."""
    versions = {}
    for package in ("rqtui", "redis", "hiredis", "textual"):
        with suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    return {
        "cpu": _read_cpu_model(),
        "cores": os.cpu_count() or 0,
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "packages": versions,
        "server": server_title,
    }


def _read_cpu_model() -> str:
    """Return the name of this machine's processor."""
    with suppress(OSError):
        found = re.search(r"^(?:model name|Model)\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
        if found:
            return found[1].strip()
    return platform.processor() or platform.machine()


def _format_figure(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}".replace(",", " ")
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"
