"""Parse the comment header of a Lua script into a frozen `Header`.

This module owns the grammar that `lua/README.md` documents as BNF. It opens no file, does not use Redis, and does not
read the Lua below the header. `script.py` calls `parse_script_header`. A header has three parts: a summary, prose, and
a signature. The signature is a paragraph of clauses, each introduced by a keyword (`moves`, `KEYS`, `ARGV`, `returns`).
Keys that many scripts of a folder have are declared once, in the file `shared_keys`; a header then only names them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from rqtui.errors import ScriptError

KEY_TYPES = ("string", "list", "set", "zset", "hash", "stream", "channel", "any")
ARG_TYPES = ("str", "int", "float", "bool", "bytes")
CLAUSES = ("moves", "forgets", "writes", "derived", "KEYS", "ARGV", "returns")
_NO_KEYS: Mapping[str, Key] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Key:
    """A Redis key that a Lua script declares; `type` is one of KEY_TYPES.

    `parts` are the places that share the key, if there are several.
    """

    name: str
    type: str
    text: str = ""
    parts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Arg:
    """A value that a Lua script declares: an argument, a column of its rows, or a part of its reply.

    An `optional` value may be the empty string.
    """

    name: str
    type: str
    optional: bool = False
    text: str = ""


@dataclass(frozen=True, slots=True)
class Move:
    """A declaration that a Lua script moves jobs from any place in `sources` to one in `targets`.

    With `leaves` a job may also leave the queue. Without sources, a new job enters the queue.
    """

    sources: tuple[str, ...]
    targets: tuple[str, ...]
    leaves: bool = False


@dataclass(frozen=True, slots=True)
class Word:
    """A reply that a Lua script declares: its word, the explanation, its values, and the columns of its table."""

    word: str
    text: str
    values: tuple[Arg, ...] = ()
    rows: tuple[Arg, ...] = ()


@dataclass(frozen=True, slots=True)
class Header:
    """Everything that the comment header of a Lua script declares.

    `first_line` is the number of the first line of Lua below the header.
    """

    summary: str
    text: str
    moves: tuple[Move, ...]
    forgets: tuple[str, ...]
    writes: tuple[str, ...]
    derived: tuple[str, ...]
    keys: tuple[Key, ...]
    keys_each: tuple[Key, ...]
    shared_keys: frozenset[str]  # the keys that the header only names
    args: tuple[Arg, ...]
    each: tuple[Arg, ...]
    returns: Mapping[str, Word]
    per_row: bool
    first_line: int


def parse_script_header(source: str, path: str, shared_keys: Mapping[str, Key] = _NO_KEYS) -> Header:
    """Parse the comment header of a Lua script. Raises ScriptError, whose text starts with `path:line:`.

    `shared_keys` are the keys that the header may name without their types.
    """
    lines = list(_read_header_lines(source))
    paragraphs = list(_split_comment_paragraphs(lines))
    signature_index = next((i for i, paragraph in enumerate(paragraphs) if _find_clause_name(paragraph[0].text)), None)
    if signature_index is None:
        raise ScriptError(f"{path}:{len(lines) + 1}: the header has no signature: no paragraph begins with a clause")
    if signature_index == 0:
        raise ScriptError(f"{path}:1: the header has no summary; it opens with a sentence and an empty comment line")
    if signature_index + 1 < len(paragraphs):
        raise ScriptError(
            f"{path}:{paragraphs[signature_index + 1][0].number}: nothing may follow the signature in the header"
        )
    clauses = _ParsedClauses(path, shared_keys)
    for item in _split_signature_items(paragraphs[signature_index], path):
        _CLAUSE_PARSERS[item.clause](clauses, item)
    return _check_and_build_header(
        clauses, paragraphs[:signature_index], len(lines) + 1, paragraphs[signature_index][0].number
    )


def parse_shared_keys(source: str, path: str) -> Mapping[str, Key]:
    """Parse the file `shared_keys` of a script folder: comments whose last paragraph declares keys.

    Raises ScriptError.
    """
    *_, paragraph = [*_split_comment_paragraphs(_read_header_lines(source))] or [[_Line(1, "")]]
    clauses = _ParsedClauses(path, _NO_KEYS)
    for item in _split_signature_items(paragraph, path) if paragraph[0].text else ():
        if item.clause != "KEYS":
            raise clauses.build_script_error(item, f"shared keys are declared by a KEYS clause, not by {item.clause}")
        _parse_key_declaration(clauses, item)
        _refuse_duplicate_names(clauses, item, [*KEY_TYPES, *(key.name for key in clauses.keys)])
    if not clauses.keys or clauses.keys_each:
        raise ScriptError(f"{path}:{paragraph[0].number}: expected a KEYS clause that declares keys by name")
    return {key.name: key for key in clauses.keys}


@dataclass(frozen=True, slots=True)
class _Line:
    """One comment line of a script header, with its line number in the file."""

    number: int
    text: str  # without the two dashes


@dataclass(slots=True)
class _Item:
    """One declaration in the signature of a script header: a key, an argument, a move or a reply.

    `clause` is the keyword of the clause that the declaration belongs to, `number` its line in the file.
    """

    number: int
    clause: str
    text: str
    each: bool = False  # a word below `returns each`


@dataclass(slots=True)
class _ParsedClauses:
    """The declarations of a script header that were parsed so far, by clause (`moves`, `KEYS`, `ARGV`, `returns`)."""

    path: str
    shared_keys: Mapping[str, Key]
    named_keys: set[str] = field(default_factory=set)  # of the shared keys
    moves: list[Move] = field(default_factory=list)
    forgets: list[str] = field(default_factory=list)
    writes: list[str] = field(default_factory=list)
    derived: list[str] = field(default_factory=list)
    derived_places: set[str] = field(default_factory=set)
    keys: list[Key] = field(default_factory=list)
    keys_each: tuple[Key, ...] = ()
    args: list[Arg] = field(default_factory=list)
    each: tuple[Arg, ...] = ()
    returns: dict[str, Word] = field(default_factory=dict)
    per_row: bool = False
    lines: dict[str, int] = field(default_factory=dict)  # first line of each place named, for later errors

    def build_script_error(self, item: _Item, sentence: str) -> ScriptError:
        return ScriptError(f"{self.path}:{item.number}: {sentence}")


def _read_header_lines(source: str) -> Iterator[_Line]:
    for number, line in enumerate(source.split("\n"), 1):
        if not line.startswith("--") or line.startswith(_BELOW_HEADER):
            return
        yield _Line(number, line[2:].expandtabs().rstrip())


_BELOW_HEADER = ("--[[", "-- include:", "-- from ")  # the beginnings of comment lines that end a header


def _split_comment_paragraphs(lines: Iterable[_Line]) -> Iterator[list[_Line]]:
    paragraph: list[_Line] = []
    for line in lines:
        if line.text:
            paragraph.append(line)
        elif paragraph:
            yield paragraph
            paragraph = []
    if paragraph:
        yield paragraph


def _find_clause_name(text: str) -> str:
    """Return the keyword (`moves`, `KEYS`, `ARGV`, …) with which a line of a script header begins a clause.

    Empty if the line begins none. At most one space may precede the keyword.
    """
    match = re.match(r" ?(\S+)(\s|$)", text)
    return match[1] if match and match[1] in CLAUSES else ""


def _split_signature_items(paragraph: list[_Line], path: str) -> Iterator[_Item]:
    """Split the signature of a script header into items, one per declared key, argument, move or reply.

    The first item of a clause sets the column. A line at that column is the next item; a line further right continues
    the item above it.
    """
    item: _Item | None = None
    column, seen = 0, 0
    for line in _join_parenthesised_lines(paragraph, path):
        indent = len(line.text) - len(line.text.lstrip())
        if item and indent > max(column, 1):
            item.text += " " + line.text.strip()
            continue
        if item:
            yield item
        if item and indent > 1:
            if indent < column:
                raise ScriptError(f"{path}:{line.number}: the line is not aligned with the first item of {item.clause}")
            item = _Item(line.number, item.clause, line.text.strip(), item.each)
            continue
        seen = _check_clause_order(line, seen, path)
        match = _OPENING.match(line.text)
        column = match.end() if match else 0
        item = _Item(line.number, CLAUSES[seen - 1], line.text[column:], bool(match and match["each"]))
        if not item.text:
            raise ScriptError(f"{path}:{line.number}: {item.clause} is followed by nothing")
    if item:
        yield item


_OPENING = re.compile(r" ?(?:returns +(?P<each>each\b) *|\S+ *)")


def _join_parenthesised_lines(paragraph: list[_Line], path: str) -> Iterator[_Line]:
    """Yield the lines of a script's signature, each line with an open parenthesis joined with those that follow."""
    open_line: _Line | None = None
    for line in paragraph:
        if open_line and _find_clause_name(line.text):
            break
        joined_line = _Line(open_line.number, f"{open_line.text} {line.text.strip()}") if open_line else line
        open_line = joined_line if joined_line.text.count("(") > joined_line.text.count(")") else None
        if not open_line:
            yield joined_line
    if open_line:
        raise ScriptError(f"{path}:{open_line.number}: a parenthesis is not closed")


def _check_clause_order(line: _Line, seen: int, path: str) -> int:
    """Return the position (from 1) of the clause that a header line begins in the prescribed order of clauses.

    `seen` is the position of the clause above. Raises ScriptError if the clause is unknown, repeated, or out of order.
    """
    clause = _find_clause_name(line.text)
    if not clause:
        word = line.text.split()[0]
        raise ScriptError(f"{path}:{line.number}: {word!r} is no clause; expected one of {' '.join(CLAUSES)}")
    number = CLAUSES.index(clause) + 1
    if number < seen or (number == seen and clause != "moves"):
        order = " ".join(CLAUSES)
        raise ScriptError(f"{path}:{line.number}: {clause} is there twice or in the wrong place; the order is {order}")
    return number


_NAME = r"[a-z_]+"
_NAMES = re.compile(rf"{_NAME}(?: +{_NAME})*")
_MOVE = re.compile(rf"(?P<sources>{_NAME}(?: +{_NAME})*)? *-> *(?P<targets>(?:{_NAME})?(?: *\| *(?:{_NAME})?)*)")
_DERIVED = re.compile(
    rf"(?P<template>\S*<[a-z_]+>\S*)(?: +\((?P<places>{_NAME}(?: +{_NAME})*)\)(?= |$))?(?: +(?P<text>.*))?"
)
_TAIL = re.compile(r"each *\((?P<columns>[^()]*)\)(?P<text>.*)")
_KEY = re.compile(rf"(?P<name>{_NAME})(?: *\((?P<parts>{_NAME}(?: +{_NAME})*)\))? +(?P<type>[a-z]+)(?: +(?P<text>.*))?")
_ARG = re.compile(rf"(?P<name>{_NAME})(?P<optional>\?)? +(?P<type>[a-z]+)(?: +(?P<text>.*))?")
_WORD = re.compile(
    rf"(?P<word>{_NAME})(?: *\((?P<values>[^()]*)\))?(?: *rows *\((?P<rows>[^()]*)\))?(?:(?<=\)) *| +|$)(?P<text>.*)"
)


def _parse_move_clause(clauses: _ParsedClauses, item: _Item) -> None:
    match = _MOVE.fullmatch(item.text)
    if not match:
        raise clauses.build_script_error(item, f"{item.text!r} is no move; expected: source source -> target | target")
    sources = tuple((match["sources"] or "").split())
    alternatives = [target.strip() for target in match["targets"].split("|")]
    targets = tuple(target for target in alternatives if target)
    leaves = "" in alternatives
    if not sources and (leaves or not targets):
        raise clauses.build_script_error(item, "a move without a source enters, so it needs a target")
    clauses.moves.append(Move(sources, targets, leaves))
    _record_place_lines(clauses, item, sources + targets)


def _parse_key_names(clauses: _ParsedClauses, item: _Item) -> None:
    if not _NAMES.fullmatch(item.text):
        raise clauses.build_script_error(item, f"{item.text!r}: expected names of keys, separated by spaces")
    names = item.text.split()
    (clauses.forgets if item.clause == "forgets" else clauses.writes).extend(names)
    _record_place_lines(clauses, item, names)


def _record_place_lines(clauses: _ParsedClauses, item: _Item, places: Iterable[str]) -> None:
    """Store in which line of the header each place is first named, for the line number in later errors."""
    for name in places:
        clauses.lines.setdefault(name, item.number)


def _parse_derived_key(clauses: _ParsedClauses, item: _Item) -> None:
    """Parse the declaration of a key that the script derives from a value, such as `<id>-lock`.

    Names in parentheses are places whose jobs are such keys, so that no key of `KEYS` lists them.
    """
    match = _DERIVED.fullmatch(item.text)
    if not match:
        raise clauses.build_script_error(
            item, f"{item.text!r}: expected the template of a key with a hole, such as <id>-lock"
        )
    clauses.derived.append(match["template"])
    clauses.derived_places.update((match["places"] or "").split())


def _parse_key_declaration(clauses: _ParsedClauses, item: _Item) -> None:
    if clauses.keys_each:
        raise clauses.build_script_error(item, "nothing may follow the tail `each (…)` of KEYS")
    if tail := _TAIL.fullmatch(item.text):
        columns = _parse_column_list(clauses, item, tail["columns"], KEY_TYPES)
        if any(column.optional for column in columns):
            raise clauses.build_script_error(item, "a key cannot be optional")
        clauses.keys_each = tuple(Key(column.name, column.type, tail["text"].strip()) for column in columns)
        return
    if _add_shared_keys(clauses, item):
        return
    match = _KEY.fullmatch(item.text)
    if not match:
        raise clauses.build_script_error(
            item,
            f"{item.text!r} is no key; expected: name type text, name (place place) type text, each (name type, …), or"
            " names of shared keys",
        )
    _check_declared_type(clauses, item, match["type"], KEY_TYPES)
    clauses.keys.append(Key(match["name"], match["type"], match["text"] or "", tuple((match["parts"] or "").split())))


def _add_shared_keys(clauses: _ParsedClauses, item: _Item) -> bool:
    """Add the shared keys that an item names. Return whether the item consists of names of shared keys."""
    names = item.text.split() if _NAMES.fullmatch(item.text) else []
    if not names or names[0] not in clauses.shared_keys or (len(names) > 1 and names[1] in KEY_TYPES):
        return False
    if unknown := next((name for name in names if name not in clauses.shared_keys), ""):
        declared = " ".join(clauses.shared_keys)
        raise clauses.build_script_error(
            item, f"{unknown!r} is neither a type nor a shared key; shared keys: {declared}"
        )
    clauses.keys.extend(clauses.shared_keys[name] for name in names)
    clauses.named_keys.update(names)
    return True


def _parse_argument_declaration(clauses: _ParsedClauses, item: _Item) -> None:
    if clauses.each:
        raise clauses.build_script_error(item, "nothing may follow the tail `each (…)` of ARGV")
    if tail := _TAIL.fullmatch(item.text):
        clauses.each = _parse_column_list(clauses, item, tail["columns"], ARG_TYPES, tail["text"].strip())
        return
    match = _ARG.fullmatch(item.text)
    if not match:
        raise clauses.build_script_error(
            item, f"{item.text!r} is no argument; expected: name type text, or each (name type, …)"
        )
    _check_declared_type(clauses, item, match["type"], ARG_TYPES)
    clauses.args.append(Arg(match["name"], match["type"], bool(match["optional"]), match["text"] or ""))


def _parse_reply_word(clauses: _ParsedClauses, item: _Item) -> None:
    match = _WORD.fullmatch(item.text)
    if not match:
        raise clauses.build_script_error(
            item, f"{item.text!r} is no answer; expected: word (name type, …) rows (name type, …) text"
        )
    if match["word"] in clauses.returns:
        raise clauses.build_script_error(item, f"the word {match['word']} is declared twice")
    value_columns = _parse_column_list(clauses, item, match["values"], ARG_TYPES) if match["values"] is not None else ()
    row_columns = _parse_column_list(clauses, item, match["rows"], ARG_TYPES) if match["rows"] is not None else ()
    if item.each and row_columns:
        raise clauses.build_script_error(item, "an answer of `returns each` has values, but no rows")
    _refuse_duplicate_names(clauses, item, [column.name for column in value_columns])
    _refuse_duplicate_names(clauses, item, [column.name for column in row_columns])
    clauses.per_row = item.each
    clauses.returns[match["word"]] = Word(match["word"], match["text"], value_columns, row_columns)


def _parse_column_list(
    clauses: _ParsedClauses, item: _Item, text: str, types: tuple[str, ...], meaning: str = ""
) -> tuple[Arg, ...]:
    columns = []
    for column in text.split(","):
        match = re.fullmatch(rf" *(?P<name>{_NAME})(?P<optional>\?)? +(?P<type>[a-z]+) *", column)
        if not match:
            raise clauses.build_script_error(item, f"{column.strip()!r} is no column; expected: name type")
        _check_declared_type(clauses, item, match["type"], types)
        columns.append(Arg(match["name"], match["type"], bool(match["optional"]), meaning))
    return tuple(columns)


def _check_declared_type(clauses: _ParsedClauses, item: _Item, name: str, types: tuple[str, ...]) -> None:
    if name not in types:
        raise clauses.build_script_error(item, f"{name!r} is no type; expected one of {' '.join(types)}")


def _refuse_duplicate_names(clauses: _ParsedClauses, item: _Item, names: Iterable[str]) -> None:
    if duplicate := _find_duplicate_name(names):
        raise clauses.build_script_error(item, f"the name {duplicate} is declared twice")


_CLAUSE_PARSERS: Mapping[str, Callable[[_ParsedClauses, _Item], None]] = {
    "moves": _parse_move_clause,
    "forgets": _parse_key_names,
    "writes": _parse_key_names,
    "derived": _parse_derived_key,
    "KEYS": _parse_key_declaration,
    "ARGV": _parse_argument_declaration,
    "returns": _parse_reply_word,
}


def _find_duplicate_name(names: Iterable[str]) -> str:
    """Return the first name that occurs twice in `names`, or an empty text."""
    seen_names: set[str] = set()
    for name in names:
        if name in seen_names:
            return name
        seen_names.add(name)
    return ""


def _check_and_build_header(
    clauses: _ParsedClauses, paragraphs: list[list[_Line]], first_line: int, signature: int
) -> Header:
    """Check that the parsed clauses of a script agree with each other, and build its `Header`. Raises ScriptError."""

    def build_line_error(line: int, sentence: str) -> ScriptError:
        return ScriptError(f"{clauses.path}:{line}: {sentence}")

    if not clauses.returns:
        raise build_line_error(signature, "the signature has no answers; a script returns at least one word")
    if clauses.per_row and not clauses.each:
        raise build_line_error(signature, "`returns each` needs a tail `each (…)` in ARGV: one answer per row of it")
    keys = [key.name for key in clauses.keys] + [key.name for key in clauses.keys_each]
    for clause, names in (
        ("forgets", clauses.forgets),
        ("writes", clauses.writes),
        ("KEYS", keys),
        ("ARGV", [arg.name for arg in (*clauses.args, *clauses.each)]),
    ):
        if duplicate := _find_duplicate_name(names):
            raise build_line_error(signature, f"{clause} names {duplicate} twice")
    for name, line in clauses.lines.items():
        is_declared = name in keys or name in clauses.derived_places
        if not is_declared and not any(name in key.parts for key in clauses.keys):
            raise build_line_error(line, f"{name} is named here, but KEYS declares no key of that name")
    texts = [" ".join(line.text.strip() for line in paragraph) for paragraph in paragraphs]
    return Header(
        summary=texts[0],
        text="\n\n".join(texts[1:]),
        moves=tuple(clauses.moves),
        forgets=tuple(clauses.forgets),
        writes=tuple(clauses.writes),
        derived=tuple(clauses.derived),
        keys=tuple(clauses.keys),
        keys_each=clauses.keys_each,
        shared_keys=frozenset(clauses.named_keys),
        args=tuple(clauses.args),
        each=clauses.each,
        returns=MappingProxyType(clauses.returns),
        per_row=clauses.per_row,
        first_line=first_line,
    )
