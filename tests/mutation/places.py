"""Choose random places for faults in the areas of the repository, and plant a fault in a copy."""

from __future__ import annotations

import ast
import os
import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

from operators import OPERATORS, Mutant, find_lua_mutants, find_python_mutants

_INCLUDE = re.compile(r"^-- include: (.*)$", re.MULTILINE)
AREAS = {
    "lua": ("lua/**/*.lua",),
    "scripts": ("rqtui/scripts/*.py",),
    "engine": ("rqtui/engine/**/*.py",),
    "operations": ("rqtui/operations/*.py",),
    "client": ("rqtui/client/*.py", "rqtui/aio/*.py"),
    "cli": ("rqtui/cli/*.py",),
    "text": ("rqtui/text/*.py",),
    "systems": ("rqtui/system_base/*.py", "rqtui/systems/**/*.py"),
    "reports": ("rqtui/reports/**/*.py",),
    "recording": ("rqtui/recording/*.py",),
    "connection": ("rqtui/connection/**/*.py",),
    "tui": ("rqtui/tui/**/*.py",),
    "model": ("rqtui/*.py", "rqtui/config/*.py", "rqtui/testing/**/*.py"),
}


def read_sources(root: Path, area: str) -> dict[str, str]:
    """Read the source files of an area by their paths from the root. A folder or a file is an area too."""
    patterns = AREAS.get(area) or (area, f"{area}/**/*.py", f"{area}/**/*.lua")
    paths = sorted(path for pattern in patterns for path in root.glob(pattern) if path.is_file())
    return {path.relative_to(root).as_posix(): path.read_bytes().decode() for path in paths}


def find_mutants(path: str, text: str) -> list[Mutant]:
    return find_lua_mutants(path, text) if path.endswith(".lua") else find_python_mutants(path, text)


def divide_mutants_by_lines(root: Path, number: int, areas: list[str]) -> dict[str, int]:
    """Return how many of `number` mutants each area gets: in proportion to its lines, and at least one."""
    lines = {area: sum(text.count("\n") for text in read_sources(root, area).values()) for area in areas}
    return {area: max(1, round(number * lines[area] / sum(lines.values()))) for area in areas}


def draw_mutants(root: Path, area: str, number: int, seed: int) -> list[Mutant]:
    """Draw `number` different mutants of an area at random: first an operator, then one of its possible places.

    Mutants that do not parse, or parse to the same program, are left out. A longer sample of the same seed begins with
    the shorter one.
    """
    sources = read_sources(root, area)
    by_operator: dict[str, list[Mutant]] = {name: [] for name in OPERATORS}
    for path, text in sources.items():
        for mutant in find_mutants(path, text):
            by_operator[mutant.operator].append(mutant)
    generator, mutants = random.Random(f"{seed} {area}"), []
    while len(mutants) < number and any(by_operator.values()):
        candidates = by_operator[generator.choice(OPERATORS)]
        if candidates:
            mutant = candidates.pop(generator.randrange(len(candidates)))
            if is_effective(mutant, sources[mutant.path]):
                mutants.append(mutant)
    return mutants


def is_effective(mutant: Mutant, text: str) -> bool:
    """Return whether a mutant's text parses, and to another program than the original."""
    changed = mutant.apply_to(text)
    if mutant.path.endswith(".lua"):
        return changed != text and not _find_lua_compiler()(changed)
    try:
        return ast.dump(ast.parse(changed)) != ast.dump(ast.parse(text))
    except SyntaxError:
        return False


@cache
def _find_lua_compiler() -> Any:
    """Return a function that returns why a Lua script does not compile; None if no compiler is installed."""
    from lupa import lua51  # fakeredis brings it

    return lua51.LuaRuntime().eval("function(text) local _, why = loadstring(text) return why end")


_mtimes = count(
    2_000_000_000
)  # seconds: Python recognises stale bytecode by time and length, and two mutants may have the same length


@contextmanager
def plant_mutant(tree: Path, mutant: Mutant) -> Iterator[list[str]]:
    """Plant a fault in the copy at `tree`, yield the paths of the changed files, and undo the fault at the end.

    If the file is a block, the paths of the scripts that include it follow.
    """
    before = (tree / mutant.path).read_bytes()
    _write_with_new_time(tree / mutant.path, mutant.apply_to(before.decode()).encode())
    try:
        yield [mutant.path, *list_scripts_with(tree, mutant.path)]
    finally:
        _write_with_new_time(tree / mutant.path, before)


def _write_with_new_time(path: Path, text: bytes) -> None:
    path.write_bytes(text)
    mtime_s = next(_mtimes)
    os.utime(path, (mtime_s, mtime_s))


def list_scripts_with(tree: Path, path: str) -> list[str]:
    """Return the paths of the scripts that include the block in this file; none if the file is a script.

    A block may be included by another block. This module imports nothing of the project: the runs that call this
    function are forks, and import the project from the copy.
    """
    sources = read_sources(tree, "lua")
    found = {path} if _is_block(path) else set[str]()
    while more := {file for file in sources.keys() - found if found & _list_includers(file, sources)}:
        found |= more
    return sorted(file for file in found if not _is_block(file))


def _is_block(path: str) -> bool:
    return path.startswith("lua/") and Path(path).parent.name == "blocks"


def _list_includers(file: str, sources: dict[str, str]) -> set[str]:
    folder = "/".join(file.split("/")[:2])
    names = [name for line in _INCLUDE.findall(sources[file]) for name in line.split(", ")]
    paths = ((f"{folder}/blocks/{name}.lua", f"lua/shared/blocks/{name}.lua") for name in names)
    return {own if own in sources else shared for own, shared in paths}
