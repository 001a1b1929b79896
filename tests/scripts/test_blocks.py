"""What many scripts repeat stands once, in `lua/shared/blocks/`: each copy equals its block, a changed one is named."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from rqtui.scripts.script import load

ROOT = Path(__file__).resolve().parents[2]
NOTE = Path("lua/shared/blocks/note.lua")
ACK, BEAT, REAP = (Path("lua/native", f"{name}.lua") for name in ("ack", "beat", "reap"))
NOTED = "if type(reply) == 'table' and reply.err then"


@pytest.fixture(scope="module")
def blocks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("stamp_blocks", ROOT / ".ci" / "stamp_blocks.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look themselves up there
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The scripts and the command, where a test may change them."""
    for folder in ("lua", ".ci"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    return tmp_path


def edit(path: Path, old: str, new: str) -> int:
    """Changes the first place where a text stands; the number of its line."""
    text = path.read_text(encoding="utf-8")
    assert old in text, f"{path.name} changed; plant the fault elsewhere"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    return text[: text.index(old)].count("\n") + 1


def test_each_copy_equals_its_block(blocks: ModuleType) -> None:
    assert blocks.check(ROOT) == []


def test_each_block_says_what_it_is_and_stands_in_several_scripts(blocks: ModuleType) -> None:
    known = blocks.read_blocks(ROOT)
    stands = Counter(
        name
        for path, lines in blocks.read_scripts(ROOT).items()
        for copy in blocks.copies(path, lines, known)
        for name in copy.names
    )
    assert {name: stands[name] for name in known if stands[name] < 2} == {}
    assert [block.name for block in known.values() if block.first == 1 or not block.lines] == []


def test_no_native_script_has_its_own_version_of_a_block(blocks: ModuleType) -> None:
    known = blocks.read_blocks(ROOT)
    function = re.compile(r"local function (\w+)")
    given = {match[1] for block in known.values() for line in block.lines if (match := function.match(line))}
    found = []
    for path, lines in blocks.read_scripts(ROOT).items():
        copied = {line for copy in blocks.copies(path, lines, known) for line in copy.lines}
        own = {match[1] for line in lines if line not in copied and (match := function.match(line))}
        if path.startswith("lua/native/") and own & given:
            found.append(f"{path}: {own & given}")
    assert "note" in given and found == []


def test_a_block_is_not_taken_for_a_script() -> None:
    assert set(load("shared")) == {"tally", "walk"}


PLANTED: dict[str, tuple[Callable[[Path], int], str]] = {  # what is done to the tree, and what is said of which line
    "a changed line": (
        lambda tree: edit(tree / ACK, NOTED, "if reply.err then"),
        "lua/native/ack.lua:{line}: the copy of note differs from lua/shared/blocks/note.lua:6",
    ),
    "a line too many": (
        lambda tree: edit(tree / BEAT, "-- end\n", "redis.call('PING')\n-- end\n"),
        "lua/native/beat.lua:{line}: the copy of opening differs from lua/shared/blocks/opening.lua:9",
    ),
    "a line too few": (
        lambda tree: edit(tree / ACK, "local minute = now_ms - now_ms % 60000\n", ""),
        "lua/native/ack.lua:{line}: the copy of minute differs from lua/shared/blocks/minute.lua:3",
    ),
    "a missing last line": (
        lambda tree: edit(tree / BEAT, "end\n-- end\n", "-- end\n"),
        "lua/native/beat.lua:{line}: the copy of opening differs from lua/shared/blocks/opening.lua:8",
    ),
    "an unknown block": (
        lambda tree: edit(tree / REAP, "-- block: minute\n", "-- block: hour\n"),
        "lua/native/reap.lua:{line}: there is no block hour in lua/shared/blocks",
    ),
    "a mark without an end": (
        lambda tree: edit(tree / REAP, "-- block: minute\n", "-- block: minute\n-- block: note\n") + 1,
        "lua/native/reap.lua:{line}: '-- block: note' stands alone",
    ),
    "a copy without marks": (
        lambda tree: edit(tree / REAP, "-- block: minute\n", "-- \n") + 1,
        "lua/native/reap.lua:{line}: a copy of lua/shared/blocks/minute.lua is not marked",
    ),
}


@pytest.mark.parametrize("fault", PLANTED, ids=lambda fault: fault.replace(" ", "_"))
def test_the_check_names_the_line_of(fault: str, blocks: ModuleType, tree: Path) -> None:
    plant, says = PLANTED[fault]
    line = plant(tree)
    found = blocks.check(tree)
    assert any(sentence.startswith(says.format(line=line)) for sentence in found), found


def test_a_changed_block_names_every_script_that_holds_it(blocks: ModuleType, tree: Path) -> None:
    holders = {
        path for path, lines in blocks.read_scripts(tree).items() if any("-- block: note" in one for one in lines)
    }
    edit(tree / NOTE, NOTED, "if reply.err then")
    assert len(holders) > 20 and {sentence.split(":")[0] for sentence in blocks.check(tree)} == holders


def run(tree: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, tree / ".ci" / "stamp_blocks.py", *words], capture_output=True, text=True, timeout=60
    )


def test_the_command_stamps_what_the_check_names_and_nothing_else(tree: Path) -> None:
    before = {path: path.read_bytes() for path in tree.rglob("*.lua")}
    assert (checked := run(tree, "--check")).returncode == 0, checked.stdout
    edit(tree / ACK, NOTED, "if reply.err then")
    checked = run(tree, "--check")
    assert checked.returncode == 1 and checked.stdout.startswith("lua/native/ack.lua:")
    ran = run(tree)
    assert (ran.returncode, ran.stdout) == (0, "stamped lua/native/ack.lua\n")
    assert {path: path.read_bytes() for path in tree.rglob("*.lua")} == before


def test_nothing_is_stamped_where_a_mark_cannot_be_followed(tree: Path) -> None:
    edit(tree / ACK, NOTED, "if reply.err then")
    edit(tree / REAP, "-- block: minute\n", "-- block: hour\n")
    before = {path: path.read_bytes() for path in tree.rglob("*.lua")}
    ran = run(tree)
    assert ran.returncode == 1 and "there is no block hour" in ran.stdout
    assert {path: path.read_bytes() for path in tree.rglob("*.lua")} == before
