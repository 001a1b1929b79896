"""Check that Lua scripts and the blocks that they include fit together. The conformance suite runs this check.

The comments at the top of a block are its contract: `needs` lists the names that must be defined above it and the
arguments that it reads, `gives` the names that it defines for the lines below (`lua/README.md` has the grammar).
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rqtui.scripts.header import parse_shared_keys
from rqtui.scripts.include import SHARED_KEYS, remove_block_comments
from rqtui.scripts.script import Script
from rqtui.testing.lua_names import Names, read_lua_names
from rqtui.text.source_lines import Piece, find_source_position, split_into_file_pieces

_CLAUSE = re.compile(r"-- (needs|gives)( +)\S")
_ITEM = re.compile(r"ARGV\[(?P<index>\d+)\]  +(?P<arg>\w+\??)(?:  .*)?|(?P<names>\w+(?: \w+)*)(?:  +\S.*)?")
_GUARD = re.compile(r"^ *return redis\.error_reply", re.MULTILINE)  # such a block has its effect where it is
_ARGV = re.compile(r"\bARGV\s*\[\s*(\d+)\s*\]")


@dataclass(slots=True)
class Contract:
    """The names that the comments of a shared Lua block declare (`needs`, `gives`), with their line numbers."""

    needs: dict[str, int] = field(default_factory=dict)
    gives: dict[str, int] = field(default_factory=dict)
    args: dict[int, str] = field(default_factory=dict)  # by index in ARGV: the name in the header, with its `?`


def list_include_faults(script: Script) -> list[str]:
    """Return one sentence, `file:line: …`, for each block of a script that does not fit where it is included."""
    for number, line in enumerate(script.source.split("\n"), 1):
        if re.match(r"\s*-- include:", line):
            where = find_source_position(script.source, script.path, number)
            return [f"{where}: nothing was included here: `-- include:` must be at the beginning of its line"]
    pieces = [piece for piece in split_into_file_pieces(script.source, script.path) if piece.text]
    names = [_read_piece_names(piece) for piece in pieces]
    if sentences := [sentence for sentence in names if isinstance(sentence, str)]:
        return sentences
    return list(
        _check_included_pieces(script, pieces, [piece_names for piece_names in names if isinstance(piece_names, Names)])
    )


def _check_included_pieces(script: Script, pieces: list[Piece], names: list[Names]) -> Iterator[str]:
    blocks = {block.path: block for block in script.blocks.values()}
    defined: dict[str, str] = {}  # the file that defines a name
    for position, (piece, own_names) in enumerate(zip(pieces, names, strict=True)):
        if block := blocks.get(piece.path):
            below = {name for piece_names in names[position + 1 :] for name in piece_names.free}
            for sentence in _check_block_use(read_block_contract(block)[0], piece, own_names, defined, below, script):
                yield f"{script.path}:{_find_include_line(script, piece)}: the block {block.path} {sentence}"
        for name in own_names.defined:
            if name in defined:
                yield f"{piece.path}:{piece.first}: {name} is defined in {defined[name]}, and again here"
            defined[name] = piece.path


def _find_include_line(script: Script, piece: Piece) -> int:
    """Return the number of the script's line that includes a block; 1 if another block includes it."""
    names = re.compile(rf"-- include:.*\b{Path(piece.path).stem}\b")
    lines = script.file_text.split("\n")
    return next((number for number, line in enumerate(lines, 1) if names.match(line)), 1)


def _check_block_use(
    contract: Contract,
    piece: Piece,
    own_names: Names,
    names_above: Container[str],
    names_below: set[str],
    script: Script,
) -> Iterator[str]:
    """Yield a sentence for each mismatch between an included block and the names defined above it and used below it."""
    for name in contract.needs:
        if name not in names_above:
            yield f"needs {name}, which is not defined above it"
    for index, name in contract.args.items():
        declared = [arg.name + "?" * arg.optional for arg in script.args[index - 1 : index]]
        if declared != [name]:
            yield f"needs ARGV[{index}] to be {name}; the header declares {' '.join(declared) or 'no such argument'}"
    if contract.gives and not names_below.intersection(contract.gives) and not _GUARD.search(piece.text):
        yield f"gives {' '.join(contract.gives)}, and nothing below it uses that"
    for name in sorted(names_below.intersection(own_names.defined).difference(contract.gives)):
        yield f"does not give {name}, which is used below it"


def list_block_faults(block: Piece) -> list[str]:
    """Return one sentence, `file:line: …`, for each difference between a Lua block and its own comments."""
    contract, faults = read_block_contract(block)
    code = remove_block_comments(block)
    names = _read_piece_names(code)
    if isinstance(names, str):
        return [names]
    for name, line in names.free.items():
        if name not in contract.needs:
            faults.append(f"{block.path}:{code.first + line - 1}: {name} is used; name it after `needs`")
    for clause, declared, used in (("needs", contract.needs, names.free), ("gives", contract.gives, names.defined)):
        missing = "uses" if clause == "needs" else "defines"
        for name, line in declared.items():
            if name not in used:
                faults.append(f"{block.path}:{line}: it {clause} {name}, but no line of it {missing} that name")
    read_indices = {int(match[1]) for match in _ARGV.finditer(code.text)}
    for index in sorted(read_indices ^ contract.args.keys()):
        problem = "is used; name it after `needs`" if index in read_indices else "is declared, but never used"
        faults.append(f"{block.path}:{code.first}: ARGV[{index}] {problem}")
    return faults


def list_unused_blocks(scripts: Iterable[Script]) -> list[str]:
    """Return a sentence for each Lua block that no script includes, or that gives names which no script uses."""
    unused_names: dict[str, set[str]] = {}
    naming: dict[tuple[str, str], int] = {}  # the number of scripts that name a shared key
    for script in scripts:
        for name, block in script.blocks.items():
            if name != SHARED_KEYS:
                unused_names.setdefault(block.path, {*read_block_contract(block)[0].gives, ""})
                continue
            for key in parse_shared_keys(block.text, block.path):
                naming[block.path, key] = naming.get((block.path, key), 0) + (key in script.shared_keys)
        names_below: set[str] = set()
        for piece in reversed(split_into_file_pieces(script.source, script.path)):
            if piece.path in unused_names:
                unused_names[piece.path] -= names_below | {""}
            names_below.update(read_lua_names(piece.text).free)
    return [
        f"{path}:1: no script includes it" if "" in names else f"{path}:1: no script uses {' '.join(sorted(names))}"
        for path, names in sorted(unused_names.items())
        if names
    ] + [
        f"{path}:1: the shared key {key} is named by {number} scripts, expected two"
        for (path, key), number in naming.items()
        if number < 2
    ]


def read_block_contract(block: Piece) -> tuple[Contract, list[str]]:
    """Return what the comments of a Lua block declare, and a sentence for each line that cannot be read."""
    contract, faults = Contract(), list[str]()
    opening: re.Match[str] | None = None  # of the clause of a line
    lines = block.text.split("\n")[: remove_block_comments(block).first - 1]
    if not lines or lines[0].strip("- ") == "":
        faults.append(f"{block.path}:1: a block begins with a comment that says what it is")
    for number, line in enumerate(lines, 1):
        is_continued = not (own_opening := _CLAUSE.match(line))
        opening = own_opening or opening
        if not opening:
            continue  # the summary
        column = opening.end() - 1
        if is_continued and len(line) - len(line.lstrip("- ")) > column:
            continue  # the rest of a text
        item = _ITEM.fullmatch(line[column:])
        if not item:
            faults.append(f"{block.path}:{number}: expected names, or one name and a text; or ARGV[number]  name")
        elif item["index"]:
            contract.args[int(item["index"])] = item["arg"]
        else:
            declared = contract.needs if opening[1] == "needs" else contract.gives
            declared.update(dict.fromkeys(item["names"].split(), number))
    return contract, faults


def _read_piece_names(piece: Piece) -> Names | str:
    """Return the names of a piece of Lua, or a sentence if it does not compile alone, as every piece must."""
    try:
        return read_lua_names(piece.text)
    except SyntaxError as error:
        line, _, reason = str(error).partition(":")
        number = piece.first + int(line) - 1 if line.isdigit() else piece.first
        return f"{piece.path}:{number}:{reason}; a block and the lines around it are complete statements"
