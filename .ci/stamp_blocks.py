"""Writes the blocks of `lua/shared/blocks/` into the scripts that hold copies of them.

    python .ci/stamp_blocks.py            stamps every copy, and names the scripts that changed
    python .ci/stamp_blocks.py --check    changes nothing, names the first line of each copy that differs, ends with 1

A script is a complete file, so that `redis-cli --eval` runs it; what many of them repeat stands between two comment
lines, `-- block: note, minute` and `-- end`: the blocks of these names, one after the other. The comment lines at the
top of a block's file say what it needs and what it gives; they are not copied.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BLOCKS = Path("lua", "shared", "blocks")
OPENING, END = re.compile(r"-- block: (\w+(?:, \w+)*)\n"), "-- end\n"


@dataclass(frozen=True, slots=True)
class Copy:
    """One marked region of a script: its blocks, and its lines. `first` is the number of its first line, from 1."""

    names: tuple[str, ...]
    first: int
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """The lines of a block that are copied; `first` is the number of the first of them in its file."""

    name: str
    first: int
    lines: tuple[str, ...]


def read_blocks(root: Path) -> dict[str, Block]:
    """All blocks by name."""
    found = {}
    for path in sorted((root / BLOCKS).glob("*.lua")):
        lines = _lines(path)
        header = next((at for at, line in enumerate(lines) if not line.startswith("--")), len(lines))
        found[path.stem] = Block(path.stem, header + 1, tuple(lines[header:]))
    return found


def read_scripts(root: Path) -> dict[str, list[str]]:
    """The lines of every script, by its path from the root."""
    return {str(path.relative_to(root)): _lines(path) for path in sorted((root / "lua").glob("*/*.lua"))}


def _lines(path: Path) -> list[str]:
    return path.read_bytes().decode("utf-8").splitlines(keepends=True)  # read_text would change line ends


def copies(path: str, lines: list[str], blocks: Mapping[str, Block]) -> Iterator[Copy | str]:
    """The marked regions of a script, from the top; a sentence, `path:line: …`, for a mark that cannot be followed."""
    opened: tuple[str, ...] = ()
    first = 0
    for number, line in enumerate(lines, 1):
        mark = OPENING.fullmatch(line)
        if not mark and line != END:
            continue
        if bool(mark) == bool(opened):
            yield f"{path}:{number}: {line.strip()!r} stands alone; a copy is between `-- block: NAME` and `-- end`"
        if mark:
            opened, first = tuple(mark[1].split(", ")), number + 1
        elif opened:
            missing = [name for name in opened if name not in blocks]
            where = f"{path}:{first - 1}: there is no block {', '.join(missing)} in {BLOCKS.as_posix()}"
            yield where if missing else Copy(opened, first, tuple(lines[first - 1 : number - 1]))
            opened = ()
    if opened:
        yield f"{path}:{first - 1}: the copy of {', '.join(opened)} has no `-- end`"


def differences(path: str, lines: list[str], blocks: Mapping[str, Block]) -> Iterator[str]:
    """A sentence for each mark that cannot be followed, each copy that is not its block, and each unmarked copy."""
    unmarked = list(lines)
    for copy in copies(path, lines, blocks):
        if isinstance(copy, str):
            yield copy
            continue
        unmarked[copy.first - 1 : copy.first - 1 + len(copy.lines)] = ["\n"] * len(copy.lines)
        yield from _first_difference(path, copy, blocks)
    for block in blocks.values():
        for at in range(len(unmarked) - len(block.lines) + 1):
            if tuple(unmarked[at : at + len(block.lines)]) == block.lines:
                yield f"{path}:{at + 1}: a copy of {BLOCKS.as_posix()}/{block.name}.lua is not marked"


def _first_difference(path: str, copy: Copy, blocks: Mapping[str, Block]) -> Iterator[str]:
    expected = [
        (name, at, line) for name in copy.names for at, line in enumerate(blocks[name].lines, blocks[name].first)
    ]
    last = copy.names[-1]
    for number, (line, wanted) in enumerate(zip_longest(copy.lines, expected), copy.first):
        name, at, text = wanted or (last, blocks[last].first + len(blocks[last].lines), None)
        if line != text:
            yield f"{path}:{number}: the copy of {name} differs from {BLOCKS.as_posix()}/{name}.lua:{at}"
            return


def stamped(path: str, lines: list[str], blocks: Mapping[str, Block]) -> list[str]:
    """The lines of a script with every copy as its blocks are. Raises ValueError for a mark that cannot be followed."""
    new = list(lines)
    for copy in reversed(list(copies(path, lines, blocks))):
        if isinstance(copy, str):
            raise ValueError(copy)
        at = copy.first - 1
        new[at : at + len(copy.lines)] = [line for name in copy.names for line in blocks[name].lines]
    return new


def check(root: Path) -> list[str]:
    """Every difference between the scripts and the blocks, as sentences."""
    blocks = read_blocks(root)
    return [found for path, lines in read_scripts(root).items() for found in differences(path, lines, blocks)]


def stamp(root: Path) -> list[str]:
    """Stamp every script; the paths of those that changed. Nothing is written if one of them cannot be stamped."""
    blocks = read_blocks(root)
    scripts = read_scripts(root)
    changed = {path: new for path, lines in scripts.items() if (new := stamped(path, lines, blocks)) != lines}
    for path, new in changed.items():
        (root / path).write_bytes("".join(new).encode())
    return list(changed)


def main(words: list[str]) -> int:
    if words not in ([], ["--check"]):
        print(__doc__)
        return 2
    if words:
        found = check(ROOT)
        print("\n".join(found) or "Every copy equals its block.")
        return int(bool(found))
    try:
        changed = stamp(ROOT)
    except ValueError as error:
        print(error)
        return 1
    print("\n".join(f"stamped {path}" for path in changed) or "Every copy equals its block.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
