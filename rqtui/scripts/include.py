"""Blocks: Lua that several scripts share, and the lines `-- include: NAME, NAME` that are replaced by it.

A block is a file in the folder `blocks` beside the scripts, or in `lua/shared/blocks/`, which all scripts can use. Its
comments at the top say what it needs and gives (`lua/README.md`); `testing/include_lint.py` checks that at each place
of use. The blocks of `_GENERATORS` have no file: this module builds them from the header of the script. `script.py`
calls `assemble_script` when a script is first used, so a start does not wait for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from rqtui.errors import ScriptError
from rqtui.scripts.header import Arg, Header, Key
from rqtui.text.source_lines import Piece, join_pieces

_Item = TypeVar("_Item", Key, Arg)
_OPENING = "-- include:"
_ITEM = re.compile(r"(?P<name>\w+)(?:\((?P<selected>\w+(?: \w+)*)\))?")


def assemble_script(text: str, path: str, blocks: Mapping[str, Piece], header: Header) -> str:
    """Return the text of a script with its blocks in it, each once and below those that it includes itself.

    `blocks` are the complete files by name. Raises ScriptError, `path:line: …`, for a name that is not in `blocks` and
    cannot be generated.
    """
    if _OPENING not in text:
        return text
    return join_pieces(_expand_includes(Piece(path, 1, text), blocks, set(), header))


def _expand_includes(piece: Piece, blocks: Mapping[str, Piece], placed: set[str], header: Header) -> Iterator[Piece]:
    path, line, text = piece
    before, opening, rest = _split_at_include(text)
    while opening:
        if before:
            yield Piece(path, line, before)
        line += before.count("\n")
        names, _, text = rest.partition("\n")
        for name in map(str.strip, names.split(",")):
            if name in placed:
                continue
            if name in blocks:
                placed.add(name)
                yield from _expand_includes(read_code(blocks[name]), blocks, placed, header)
                continue
            item = _ITEM.fullmatch(name)
            if not item or item["name"] not in _GENERATORS:
                known = " ".join(sorted({*blocks, *_GENERATORS}))
                raise ScriptError(f"{path}:{line}: there is no block {name}; those that are: {known}")
            try:
                code = _GENERATORS[item["name"]](header, (item["selected"] or "").split(), placed)
            except KeyError as error:
                raise ScriptError(f"{path}:{line}: {name}: the header does not declare {error.args[0]}") from None
            placed.add(name)
            yield Piece(path, line, f"{code}\n")
        line += 1
        before, opening, rest = _split_at_include(text)
    if text:
        yield Piece(path, line, text)


def _split_at_include(text: str) -> tuple[str, str, str]:
    """Split a text before and after the beginning of its first include line; the last two are empty without one."""
    if text.startswith(_OPENING):
        return "", _OPENING, text[len(_OPENING) :]
    before, opening, rest = text.partition(f"\n{_OPENING}")
    return before + opening[:1], opening, rest


def _generate_keys(header: Header, selected: Sequence[str], _placed: set[str]) -> str:
    """Return the definition of a local name for each key, or for the selected ones."""
    keys = _number_declared(header.keys, selected or [key.name for key in header.keys])
    return f"local {', '.join(map(to_local_name, keys))} = {', '.join(f'KEYS[{at}]' for at, _key in keys.values())}"


def _generate_args(header: Header, selected: Sequence[str], _placed: set[str]) -> str:
    """Return the definition of a local name for each argument except `now_ms`, or for the selected ones."""
    args = _number_declared(header.args, selected or [arg.name for arg in header.args if arg.name != "now_ms"])
    values = (_ARG_VALUES.get(arg.type, "ARGV[{}]").format(at) for at, arg in args.values())
    return f"local {', '.join(map(to_local_name, args))} = {', '.join(values)}"


def _generate_columns(header: Header, _selected: Sequence[str], _placed: set[str]) -> str:
    """Return the definition of the number of arguments before the rows, and of the number of columns of a row."""
    return f"local scalars, columns = {len(header.args)}, {len(header.each)}"


def _generate_key_types(header: Header, selected: Sequence[str], placed: set[str]) -> str:
    """Return a read of each key, or of the selected ones, by a command that fails if the key has another type."""
    keys = _number_declared(header.keys, selected or [key.name for key in header.keys if key.type in _TYPE_READS])
    if untyped := next((name for name, (_at, key) in keys.items() if key.type not in _TYPE_READS), ""):
        raise KeyError(f"a type of {untyped}")
    has_names = "keys" in placed  # a local name costs less than an index
    return " ".join(
        f"redis.call('{_TYPE_READS[key.type]}', {to_local_name(name) if has_names else f'KEYS[{at}]'})"
        for name, (at, key) in keys.items()
    )


def _generate_integers(header: Header, selected: Sequence[str], _placed: set[str]) -> str:
    """Return the check that all arguments are given, and that each `int`, or each selected one, is whole or empty."""
    args = _number_declared(header.args, selected or [arg.name for arg in header.args if arg.type == "int"])
    checks = " or ".join(f"#ARGV[{at}] > 15 or not string.find(ARGV[{at}], '^%-?%d*$')" for at, _arg in args.values())
    count = len(header.args)
    return (
        f"if #ARGV < {count} or {checks} then return redis.error_reply('ERR arguments: at least {count},"
        " whole numbers where the header says int; nothing was changed') end"
    )


def _number_declared(declared: Sequence[_Item], names: Sequence[str]) -> dict[str, tuple[int, _Item]]:
    """Return the keys or arguments of these names, each with its index in KEYS or ARGV. Raises KeyError."""
    if not names:
        raise KeyError("any")
    rows = {item.name: (at, item) for at, item in enumerate(declared, 1)}
    return {name: rows[name] for name in names}


def to_local_name(name: str) -> str:
    """Return the local name of a key or an argument: a keyword of Lua, such as `repeat`, gets a `_`."""
    return f"{name}_" if _LUA_KEYWORD.fullmatch(name) else name


_TYPE_READS = {"string": "STRLEN", "list": "LLEN", "set": "SCARD", "zset": "ZCARD", "hash": "HLEN", "stream": "XLEN"}
_ARG_VALUES = {"int": "tonumber(ARGV[{}])", "float": "tonumber(ARGV[{}])", "bool": "ARGV[{}] == '1'"}
_LUA_KEYWORD = re.compile(
    "and|break|do|else|elseif|end|false|for|function|if|in|local|nil|not|or|repeat|return|then|true|until|while"
)
_GENERATORS: Mapping[str, Callable[[Header, Sequence[str], set[str]], str]] = {
    "args": _generate_args,
    "columns": _generate_columns,
    "integers": _generate_integers,
    "key_types": _generate_key_types,
    "keys": _generate_keys,
}


def read_code(block: Piece) -> Piece:
    """Return the lines of a block below its comments at the top."""
    at, line = 0, 1
    while block.text.startswith("--", at) and not block.text.startswith(_OPENING, at):
        at, line = block.text.find("\n", at) + 1 or len(block.text), line + 1
    return Piece(block.path, line, block.text[at:])
