"""Replace the lines `-- include: NAME, NAME` of a Lua script by blocks: pieces of Lua that several scripts share.

A block is a file in the folder `blocks` beside the scripts, or in `lua/shared/blocks/`, which all scripts can use. The
comments at the top of a block say what it needs and defines (`lua/README.md`); `testing/include_lint.py` checks them at
each place of use. The blocks of `_GENERATORS` have no file: this module builds them from the header of the script. The
block `shared_keys` is never included: it declares keys that headers name, and the complete script has those
declarations. `script.py` calls `assemble_script` when a script is first used, so a start does not wait for that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from rqtui.errors import ScriptError
from rqtui.scripts.header import Arg, Header, Key
from rqtui.text.source_lines import Piece, join_file_pieces

_Item = TypeVar("_Item", Key, Arg)
_OPENING = "-- include:"
SHARED_KEYS = "shared_keys"
_KEYS_CLAUSE = r"(?m)^-- ?KEYS\s.*\n(?:-- {2,}\S.*\n)*"  # compiled when a script is assembled
_ITEM = re.compile(r"(?P<name>\w+)(?:\((?P<selected>\w+(?: \w+)*)\))?")


def assemble_script(text: str, path: str, blocks: Mapping[str, Piece], header: Header) -> str:
    """Return the complete text of a Lua script: with the declarations of all its keys, and its include lines replaced.

    `blocks` are the files that can be included, by name. A block occurs once, below the blocks that it includes itself.
    Raises ScriptError, `path:line: …`, for a name that is not in `blocks` and cannot be generated.
    """
    script = Piece(path, 1, text)
    if not header.shared_keys:
        return join_file_pieces(_expand_includes(script, blocks, set(), header)) if _OPENING in text else text
    code = remove_block_comments(script)
    comments = text[: len(text) - len(code.text)]
    opening = Piece(path, 1, re.sub(_KEYS_CLAUSE, lambda _match: _format_keys_clause(header), comments, count=1))
    return join_file_pieces([opening, *_expand_includes(code, blocks, set(), header)])


def _format_keys_clause(header: Header) -> str:
    """Return the comment lines of a KEYS clause that declares every key, in columns."""
    names = [key.name + (f" ({' '.join(key.parts)})" if key.parts else "") for key in header.keys]
    name_width, type_width = max(map(len, names)), max(len(key.type) for key in header.keys)
    items = [
        f"{name:{name_width}}  {key.type:{type_width}}  {key.text}".rstrip()
        for name, key in zip(names, header.keys, strict=True)
    ]
    if header.keys_each:
        columns = ", ".join(f"{key.name} {key.type}" for key in header.keys_each)
        items.append(f"each ({columns})  {header.keys_each[0].text}".rstrip())
    return "".join(f"-- {'KEYS' if number == 0 else '':7}  {item}\n" for number, item in enumerate(items))


def _expand_includes(piece: Piece, blocks: Mapping[str, Piece], placed: set[str], header: Header) -> Iterator[Piece]:
    path, line, text = piece
    preceding_text, opening, following_text = _split_at_include_line(text)
    while opening:
        if preceding_text:
            yield Piece(path, line, preceding_text)
        line += preceding_text.count("\n")
        names, _, text = following_text.partition("\n")
        for name in map(str.strip, names.split(",")):
            if name in placed:
                continue
            if name in blocks and name != SHARED_KEYS:
                placed.add(name)
                yield from _expand_includes(remove_block_comments(blocks[name]), blocks, placed, header)
                continue
            item = _ITEM.fullmatch(name)
            if not item or item["name"] not in _GENERATORS:
                known_names = " ".join(sorted({*blocks, *_GENERATORS} - {SHARED_KEYS}))
                raise ScriptError(f"{path}:{line}: there is no block {name}; those that are: {known_names}")
            try:
                code = _GENERATORS[item["name"]](header, (item["selected"] or "").split(), placed)
            except KeyError as error:
                raise ScriptError(f"{path}:{line}: {name}: the header does not declare {error.args[0]}") from None
            placed.add(name)
            yield Piece(path, line, f"{code}\n")
        line += 1
        preceding_text, opening, following_text = _split_at_include_line(text)
    if text:
        yield Piece(path, line, text)


def _split_at_include_line(text: str) -> tuple[str, str, str]:
    """Split a Lua text at its first include line into the text before it, the included names, and the text after it.

    The last two are empty if the text has no include line.
    """
    if text.startswith(_OPENING):
        return "", _OPENING, text[len(_OPENING) :]
    preceding_text, opening, following_text = text.partition(f"\n{_OPENING}")
    return preceding_text + opening[:1], opening, following_text


def _generate_key_locals(header: Header, selected: Sequence[str], _placed: set[str]) -> str:
    """Return Lua that defines a local name for each key of a script, or for the selected keys."""
    keys = _index_declarations(header.keys, selected or [key.name for key in header.keys])
    values = ", ".join(f"KEYS[{number}]" for number, _key in keys.values())
    if not selected and not header.keys_each and len(keys) > 4:
        values = "unpack(KEYS)"  # costs less than five indexes
    return f"local {', '.join(map(build_lua_local_name, keys))} = {values}"


def _generate_argument_locals(header: Header, selected: Sequence[str], _placed: set[str]) -> str:
    """Return Lua that defines a local name for each argument of a script except `now_ms`, or for the selected ones."""
    args = _index_declarations(header.args, selected or [arg.name for arg in header.args if arg.name != "now_ms"])
    expressions = (_ARG_VALUES.get(arg.type, "ARGV[{}]").format(number) for number, arg in args.values())
    return f"local {', '.join(map(build_lua_local_name, args))} = {', '.join(expressions)}"


def _generate_column_counts(header: Header, _selected: Sequence[str], _placed: set[str]) -> str:
    """Return Lua that defines the number of arguments before the rows, and the number of columns of a row."""
    return f"local scalars, columns = {len(header.args)}, {len(header.each)}"


def _generate_batch_check(header: Header, selected: Sequence[str], _placed: set[str]) -> str:
    """Return Lua that refuses a batch unless it has 1 to 1000 complete rows.

    `selected` are the words for the rows in the error message.
    """
    scalars, columns, names = len(header.args), len(header.each), [column.name for column in header.each]
    if not names:
        raise KeyError("rows")
    rows = " ".join(selected) or f"{names[0]}s"
    if columns > 1 and not selected:
        listed = f"{', '.join(names[:-1])} and {names[-1]}" if columns < 5 else f"{columns} columns"
        rows = f"rows of {listed}"
    is_incomplete = f" or (#ARGV - {scalars}) % {columns} > 0" if columns > 1 else ""
    unchanged = "; nothing was changed" if header.moves or header.forgets or header.writes else ""
    return (
        f"if #ARGV < {scalars + columns} or #ARGV > {scalars + 1000 * columns}{is_incomplete} then"
        f" return redis.error_reply('ERR a batch has 1 to 1000 {rows}{unchanged}') end"
    )


def _generate_type_checks(header: Header, selected: Sequence[str], placed: set[str]) -> str:
    """Return Lua that reads each key, or each selected one, with a command that fails if the key has another type."""
    keys = _index_declarations(header.keys, selected or [key.name for key in header.keys if key.type in _TYPE_READS])
    if untyped := next((name for name, (_at, key) in keys.items() if key.type not in _TYPE_READS), ""):
        raise KeyError(f"a type of {untyped}")
    has_names = "keys" in placed  # a local name costs less than an index
    return " ".join(
        f"redis.call('{_TYPE_READS[key.type]}', {build_lua_local_name(name) if has_names else f'KEYS[{number}]'})"
        for name, (number, key) in keys.items()
    )


def _generate_integer_checks(header: Header, selected: Sequence[str], _placed: set[str]) -> str:
    """Return Lua that refuses a call with a missing argument, or with an `int` (or selected) one that is no integer.

    An empty argument is accepted.
    """
    return _build_integer_checks(header, selected, f"arguments: at least {len(header.args)}")


def _generate_argument_checks(header: Header, selected: Sequence[str], _placed: set[str]) -> str:
    """Return the checks of `_generate_integer_checks` with an error that says how many arguments the script takes."""
    count = len(header.args)
    return _build_integer_checks(header, selected, f"it takes {count} argument" + "s" * (count > 1))


def _build_integer_checks(header: Header, selected: Sequence[str], sentence: str) -> str:
    names = selected or [arg.name for arg in header.args if arg.type == "int"]
    if not names:
        raise KeyError("an int before each")
    args = _index_declarations(header.args, names)
    checks = " or ".join(
        f"#ARGV[{number}] > 15 or not string.find(ARGV[{number}], '^%-?%d*$')" for number, _arg in args.values()
    )
    return (
        f"if #ARGV < {len(header.args)} or {checks} then return redis.error_reply('ERR {sentence},"
        " whole numbers where the header says int; nothing was changed') end"
    )


def _index_declarations(declared: Sequence[_Item], names: Sequence[str]) -> dict[str, tuple[int, _Item]]:
    """Return the declared keys or arguments with these names, each with its index in KEYS or ARGV.

    Raises KeyError for a name that is not declared, and if there are no names.
    """
    if not names:
        raise KeyError("any")
    rows = {item.name: (number, item) for number, item in enumerate(declared, 1)}
    return {name: rows[name] for name in names}


def build_lua_local_name(name: str) -> str:
    """Return the name of the Lua local for a key or an argument. A keyword of Lua, such as `repeat`, gets a `_`."""
    return f"{name}_" if _LUA_KEYWORD.fullmatch(name) else name


_TYPE_READS = {"string": "STRLEN", "list": "LLEN", "set": "SCARD", "zset": "ZCARD", "hash": "HLEN", "stream": "XLEN"}
_ARG_VALUES = {"int": "tonumber(ARGV[{}])", "float": "tonumber(ARGV[{}])", "bool": "ARGV[{}] == '1'"}
_LUA_KEYWORD = re.compile(
    "and|break|do|else|elseif|end|false|for|function|if|in|local|nil|not|or|repeat|return|then|true|until|while"
)
_GENERATORS: Mapping[str, Callable[[Header, Sequence[str], set[str]], str]] = {
    "args": _generate_argument_locals,
    "arguments": _generate_argument_checks,
    "batch_size": _generate_batch_check,
    "columns": _generate_column_counts,
    "integers": _generate_integer_checks,
    "key_types": _generate_type_checks,
    "keys": _generate_key_locals,
}


def remove_block_comments(block: Piece) -> Piece:
    """Return a shared Lua file without the comment lines at its top; its line number is increased by their number."""
    position, line = 0, 1
    while block.text.startswith("--", position) and not block.text.startswith(_OPENING, position):
        position, line = block.text.find("\n", position) + 1 or len(block.text), line + 1
    return Piece(block.path, line, block.text[position:])
