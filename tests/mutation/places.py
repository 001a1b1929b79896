"""Where faults are planted: the areas of the repository, random samples of their mutants, and one planted in a copy."""

from __future__ import annotations

import ast
import importlib.util
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

from operators import OPERATORS, Mutant, of_lua, of_python

BLOCKS = "lua/shared/blocks/"
AREAS = {
    "lua": ("lua/**/*.lua",),
    "scripts": ("rqtui/scripts/*.py",),
    "engine": ("rqtui/engine/*.py",),
    "operations": ("rqtui/operations/*.py",),
    "client": ("rqtui/client/*.py", "rqtui/aio/*.py"),
    "cli": ("rqtui/cli/*.py",),
    "text": ("rqtui/text/*.py",),
    "systems": ("rqtui/layout/*.py", "rqtui/systems/**/*.py"),
}


def texts(root: Path, area: str) -> dict[str, str]:
    """The sources of an area by their paths from the root."""
    paths = sorted(path for pattern in AREAS[area] for path in root.glob(pattern))
    return {path.relative_to(root).as_posix(): path.read_bytes().decode() for path in paths}


def mutants_of(path: str, text: str) -> list[Mutant]:
    return of_lua(path, text) if path.endswith(".lua") else of_python(path, text)


def shares(root: Path, number: int, areas: list[str]) -> dict[str, int]:
    """How many of `number` mutants each area gets: by its lines, and one at least."""
    lines = {area: sum(text.count("\n") for text in texts(root, area).values()) for area in areas}
    return {area: max(1, round(number * lines[area] / sum(lines.values()))) for area in areas}


def sample(root: Path, area: str, number: int, seed: int) -> list[Mutant]:
    """So many mutants of an area, each once: an operator by chance, then one of the places where it can act.

    Those that do not parse, or parse to what was there before, are not among them. A longer sample of the same seed
    begins with the shorter one.
    """
    sources = texts(root, area)
    by_operator: dict[str, list[Mutant]] = {name: [] for name in OPERATORS}
    for path, text in sources.items():
        for mutant in mutants_of(path, text):
            by_operator[mutant.operator].append(mutant)
    chance, found = random.Random(f"{seed} {area}"), []
    while len(found) < number and any(by_operator.values()):
        left = by_operator[chance.choice(OPERATORS)]
        if left:
            mutant = left.pop(chance.randrange(len(left)))
            if is_another_program(mutant, sources[mutant.path]):
                found.append(mutant)
    return found


def is_another_program(mutant: Mutant, text: str) -> bool:
    """Whether it parses, and to something else than the text without it."""
    new = mutant.applied(text)
    if mutant.path.endswith(".lua"):
        return new != text and not _lua_compiler()(new)
    try:
        return ast.dump(ast.parse(new)) != ast.dump(ast.parse(text))
    except SyntaxError:
        return False


@cache
def _lua_compiler() -> Any:
    """A function of a script's text: why it does not compile, None where it does."""
    from lupa import lua51  # fakeredis brings it

    return lua51.LuaRuntime().eval("function(text) local _, why = loadstring(text) return why end")


_times = count(2_000_000_000)  # seconds: bytecode is told apart by them, and two mutants may have the same length


@contextmanager
def planted(tree: Path, mutant: Mutant) -> Iterator[list[str]]:
    """The fault stands in the copy at `tree`, a block's in all its copies; the paths that are not as they were."""
    before = {path: (tree / path).read_bytes() for path in (mutant.path, *_stamped_by(tree, mutant.path))}
    _write(tree / mutant.path, mutant.applied(before[mutant.path].decode()).encode())
    try:
        if mutant.path.startswith(BLOCKS):
            _stamp_blocks().stamp(tree)
        yield [path for path, text in before.items() if (tree / path).read_bytes() != text]
    finally:
        for path, text in before.items():
            _write(tree / path, text)


def _write(path: Path, text: bytes) -> None:
    path.write_bytes(text)
    now = next(_times)
    os.utime(path, (now, now))


def _stamped_by(tree: Path, path: str) -> list[str]:
    """The scripts that hold a copy of the block in this file; none where it is no block."""
    if not path.startswith(BLOCKS):
        return []
    stamping, name = _stamp_blocks(), Path(path).stem
    blocks = stamping.read_blocks(tree)
    return [
        script
        for script, lines in stamping.read_scripts(tree).items()
        if any(name in copy.names for copy in stamping.copies(script, lines, blocks))
    ]


@cache
def _stamp_blocks() -> ModuleType:
    path = Path(__file__).resolve().parents[2] / ".ci" / "stamp_blocks.py"
    spec = importlib.util.spec_from_file_location("stamp_blocks", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules["stamp_blocks"] = module  # its dataclasses look themselves up there
    spec.loader.exec_module(module)
    return module
