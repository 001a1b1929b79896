"""The environments in which programs of other projects run: a pip virtual environment, an npm folder or a Ruby gem.

Each is created once, with the newest versions, and kept below a cache folder that `run.py` and `rqtui bench` share.
`Missing` is raised with the reason if one cannot be created, and becomes a line of the report.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import platformdirs

MAKE_S = 600
EVERYWHERE = ("hiredis",)  # the parser in C, for all whose client can use it
_SHOWN = ("redis", "hiredis", "kombu", "coredis", "taskiq", "taskiq-redis", "ioredis")


class Missing(Exception):
    """Raised with the reason when a program of another project cannot run on this machine."""


@dataclass(frozen=True, slots=True)
class Environment:
    """The first words of a command, the extra environment variables that it needs, and versions by package."""

    command: tuple[str, ...]
    versions: Mapping[str, str]
    variables: Mapping[str, str] = field(default_factory=dict)


def find_cache_folder() -> Path:
    """Return the folder for environments that is used if no folder is given."""
    return platformdirs.user_cache_path("rqtui-benchmarks")


def create_python_environment(home: Path, packages: Sequence[str]) -> Environment:
    """Return a Python environment with these packages. Raises Missing."""
    program = home / "bin" / "python"
    if not (home / "made").exists():
        _run_command((sys.executable, "-m", "venv", "--clear", str(home)))
        _run_command((str(program), "-m", "pip", "install", "-q", "-U", *packages, *EVERYWHERE))
        (home / "made").touch()
    found = list_packages(program)
    own = [package.partition("[")[0] for package in packages]
    return Environment((str(program),), {name: found[name] for name in (*own, *_SHOWN) if name in found})


def list_packages(program: Path) -> dict[str, str]:
    """Return the installed packages of a Python with their versions. Raises Missing."""
    output = _run_command((str(program), "-m", "pip", "list", "--format", "json", "--disable-pip-version-check"))
    return {each["name"].lower(): each["version"] for each in json.loads(output)}


def create_node_environment(home: Path, packages: Sequence[str]) -> Environment:
    """Return a Node environment with these packages. Raises Missing."""
    program, npm = shutil.which("node"), shutil.which("npm")
    if not program or not npm:
        raise Missing("node and npm are not installed")
    modules = home / "node_modules"
    if not (home / "made").exists():
        home.mkdir(parents=True, exist_ok=True)
        (home / "package.json").write_text('{"private": true}')
        waits = ("--fetch-timeout=20000", "--fetch-retries=0")  # else npm waits minutes for a registry that is away
        _run_command((npm, "install", "--silent", *waits, *packages), home)
        (home / "made").touch()
    versions = {"node": _run_command((program, "--version")).strip().lstrip("v")}
    for package in packages:
        versions[package] = json.loads((modules / package / "package.json").read_text())["version"]
    return Environment((program,), versions, {"NODE_PATH": str(modules)})


def create_ruby_environment(home: Path, packages: Sequence[str]) -> Environment:
    """Return a Ruby with a gem from the system's packages or from `gem install`. Raises Missing."""
    (gem,) = packages
    program = shutil.which("ruby")
    if not program:
        raise Missing("ruby is not installed")
    asking = (program, "-W0", "-e", f"require '{gem}'; print RUBY_VERSION, ' ', {gem.capitalize()}::VERSION")
    variables: dict[str, str] = {}
    try:
        output = _run_command(asking)
    except Missing:
        if not (home / "made").exists():
            _run_command(("gem", "install", "--no-document", "--install-dir", str(home), gem))
            (home / "made").touch()
        variables = {"GEM_HOME": str(home), "GEM_PATH": str(home)}
        output = _run_command(asking, variables=variables)
    own, of_gem = output.split()
    return Environment((program, "-W0"), {gem: of_gem, "ruby": own}, variables)


def _run_command(command: Sequence[str], folder: Path | None = None, variables: Mapping[str, str] | None = None) -> str:
    """Run a command and return its output. Raises Missing with the end of the output if it fails."""
    try:
        ended = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=MAKE_S, env={**os.environ, **(variables or {})}
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Missing(f"{command[0]}: {error}") from error
    if ended.returncode:
        last = (ended.stderr.strip() or ended.stdout.strip()).splitlines()[-1:]
        raise Missing(f"{' '.join(command[1:4])} …: {' '.join(last) or ended.returncode}")
    return ended.stdout
