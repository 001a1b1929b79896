"""An environment per peer: a virtual environment made by pip, for node a folder made by npm. Made once, then kept.

`ready(entry, folder)` gives the command that runs a peer's program and the versions in its environment, or raises
`Missing` with the reason, which becomes the peer's line in the report.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from entries import Entry

PROGRAMS = Path(__file__).resolve().parent / "peers"
MAKE_S = 600
EVERYWHERE = ("hiredis",)  # the parser in C, for all whose client can use it
_SHOWN = ("redis", "hiredis", "kombu", "coredis", "taskiq", "taskiq-redis", "ioredis")


class Missing(Exception):
    """This peer cannot be run here, and why."""


@dataclass(frozen=True, slots=True)
class Home:
    """How a peer's program is run: the command's first words, what the process finds, which versions it has."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    versions: Mapping[str, str]


def ready(entry: Entry, folder: Path, fresh: bool = False) -> Home:
    """The environment of a peer, made where it is missing. Raises Missing."""
    if not entry.home:
        return _own(entry)
    home = folder / entry.home
    if fresh and home.exists():
        shutil.rmtree(home)
    return (_node if entry.is_node else _python)(entry, home)


def _own(entry: Entry) -> Home:
    folders = (str(PROGRAMS.parent.parent), str(PROGRAMS.parent))  # of `rqtui`, of `own`
    paths = os.pathsep.join(filter(None, (*folders, os.environ.get("PYTHONPATH"))))
    listed = _listed(Path(sys.executable))
    versions = {name: listed[name] for name in ("rqtui", "redis", "hiredis") if name in listed}
    return Home((sys.executable, str(PROGRAMS / entry.program)), {**os.environ, "PYTHONPATH": paths}, versions)


def _python(entry: Entry, home: Path) -> Home:
    python = home / "bin" / "python"
    if not (home / "made").exists():
        _run((sys.executable, "-m", "venv", "--clear", str(home)))
        _run((str(python), "-m", "pip", "install", "-q", "-U", *entry.packages, *EVERYWHERE))
        (home / "made").touch()
    listed = _listed(python)
    own = [package.partition("[")[0] for package in entry.packages]
    versions = {name: listed[name] for name in (*own, *_SHOWN) if name in listed}
    return Home((str(python), str(PROGRAMS / entry.program)), os.environ, versions)


def _listed(python: Path) -> dict[str, str]:
    said = _run((str(python), "-m", "pip", "list", "--format", "json", "--disable-pip-version-check"))
    return {each["name"].lower(): each["version"] for each in json.loads(said)}


def _node(entry: Entry, home: Path) -> Home:
    node, npm = shutil.which("node"), shutil.which("npm")
    if not node or not npm:
        raise Missing("node and npm are not installed")
    modules = home / "node_modules"
    if not (home / "made").exists():
        home.mkdir(parents=True, exist_ok=True)
        (home / "package.json").write_text('{"private": true}')
        _run((npm, "install", "--silent", *entry.packages), home)
        (home / "made").touch()
    versions = {"node": _run((node, "--version")).strip().lstrip("v")}
    for package in entry.packages:
        versions[package] = json.loads((modules / package / "package.json").read_text())["version"]
    return Home((node, str(PROGRAMS / entry.program)), {**os.environ, "NODE_PATH": str(modules)}, versions)


def _run(command: tuple[str, ...], folder: Path | None = None) -> str:
    try:
        ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=MAKE_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Missing(f"{command[0]}: {error}") from error
    if ended.returncode:
        last = (ended.stderr.strip() or ended.stdout.strip()).splitlines()[-1:]
        raise Missing(f"{' '.join(command[1:4])} …: {' '.join(last) or ended.returncode}")
    return ended.stdout
