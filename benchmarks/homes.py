"""Find the command that runs a peer's program: in the environment of its packages, or in that of `run.py`.

`find_home(entry, folder)` returns the command that runs a peer's program and the versions in its environment, or raises
`Missing` with the reason, which becomes the peer's line in the report.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from entries import Entry
from own import environments
from own.environments import Missing

__all__ = ["Home", "Missing", "find_home"]
PROGRAMS = Path(__file__).resolve().parent / "peers"


@dataclass(frozen=True, slots=True)
class Home:
    """How to run a peer's program: the start of its command, its environment variables, and the installed versions."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    versions: Mapping[str, str]


def find_home(entry: Entry, folder: Path, fresh: bool = False) -> Home:
    """Return the environment of a peer, and create it if it is missing. Raises Missing."""
    if not entry.home:
        return _find_own_environment(entry)
    home = folder / entry.home
    if fresh and home.exists():
        shutil.rmtree(home)
    versions = (environments.create_node_environment if entry.is_node else environments.create_python_environment)(
        home, entry.packages
    )
    return Home(
        (*versions.command, str(PROGRAMS / entry.program)), {**os.environ, **versions.variables}, versions.versions
    )


def _find_own_environment(entry: Entry) -> Home:
    folders = (str(PROGRAMS.parent.parent), str(PROGRAMS.parent))  # of `rqtui`, of `own`
    paths = os.pathsep.join(filter(None, (*folders, os.environ.get("PYTHONPATH"))))
    listed = environments.list_packages(Path(sys.executable))
    versions = {name: listed[name] for name in ("rqtui", "redis", "hiredis") if name in listed}
    return Home((sys.executable, str(PROGRAMS / entry.program)), {**os.environ, "PYTHONPATH": paths}, versions)
