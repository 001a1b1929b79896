"""What a measurement gives: a line with a figure, its unit and its target; and where it was made."""

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
        """Whether the figure is within its target; None without either."""
        if self.value is None or not self.target:
            return None
        sign, bound = self.target[0], float(self.target[1:].replace(" ", ""))
        return self.value <= bound if sign == "≤" else self.value >= bound

    def document(self) -> dict[str, Any]:
        """As JSON has it."""
        return {**asdict(self), "met": self.is_met}

    def text(self) -> str:
        """As a person reads it."""
        figure = "—" if self.value is None else f"{_shown(self.value)} {self.unit}".rstrip()
        target = f"target {self.target}" + ("" if self.is_met else " MISSED") if self.is_met is not None else ""
        return f"{self.name:<58} {figure:>14}  {target:<22} {self.note}".rstrip()


@dataclass(frozen=True, slots=True)
class Bench:
    """What measurements work with: a server that nobody else uses, a client of it, and how large to measure.

    `scale` 1 is the real size; tests take a small part of it. `beside` says whether the tools of others are run, too.
    """

    server: EmbeddedServer
    client: Redis
    scale: float = 1.0
    beside: bool = True

    def size(self, number: int, least: int = 1) -> int:
        """`number` at this scale."""
        return max(least, round(number * self.scale))


def machine(server_title: str) -> dict[str, Any]:
    """Where it was measured: processor, cores, versions."""
    versions = {}
    for package in ("rqtui", "redis", "hiredis", "textual"):
        with suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count() or 0,
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "packages": versions,
        "server": server_title,
    }


def _cpu_model() -> str:
    with suppress(OSError):
        found = re.search(r"^(?:model name|Model)\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
        if found:
            return found[1].strip()
    return platform.processor() or platform.machine()


def _shown(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}".replace(",", " ")
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"
