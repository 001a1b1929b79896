"""The parser of script headers: comment lines in, a frozen `Header` out.

This module owns the grammar that `lua/README.md` documents as BNF. It opens no file, does not use Redis, and does not
read the Lua below the header (a test does). `script.py` calls `parse_header`. A header has three parts: a summary,
prose, and a signature, which is the paragraph that starts with a clause.
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


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a call; `type` is one of KEY_TYPES. `parts` are the places that share the key, if there are several."""

    name: str
    type: str
    text: str = ""
    parts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Arg:
    """An argument, a column of a tail, or a returned value; an `optional` one may be the empty string."""

    name: str
    type: str
    optional: bool = False
    text: str = ""


@dataclass(frozen=True, slots=True)
class Move:
    """A move of jobs from any of `sources` to one of `targets`.

    With `leaves` a job may also leave the queue. Without sources, a new job enters the queue.
    """

    sources: tuple[str, ...]
    targets: tuple[str, ...]
    leaves: bool = False


@dataclass(frozen=True, slots=True)
class Word:
    """A possible reply: the word, the header's text for it, its values, and the columns of its table."""

    word: str
    text: str
    values: tuple[Arg, ...] = ()
    rows: tuple[Arg, ...] = ()


@dataclass(frozen=True, slots=True)
class Header:
    """The declarations of a script's header. `first_line` is the number of the first line of Lua below the header."""

    summary: str
    text: str
    moves: tuple[Move, ...]
    forgets: tuple[str, ...]
    writes: tuple[str, ...]
    derived: tuple[str, ...]
    keys: tuple[Key, ...]
    keys_each: tuple[Key, ...]
    args: tuple[Arg, ...]
    each: tuple[Arg, ...]
    returns: Mapping[str, Word]
    per_row: bool
    first_line: int


def parse_header(source: str, path: str) -> Header:
    """Parse the header of a script. Raises ScriptError, which starts with `path:line:`."""
    lines = list(_read_comment_lines(source))
    paragraphs = list(_split_paragraphs(lines))
    at = next((i for i, paragraph in enumerate(paragraphs) if _match_clause(paragraph[0].text)), None)
    if at is None:
        raise ScriptError(f"{path}:{len(lines) + 1}: the header has no signature: no paragraph begins with a clause")
    if at == 0:
        raise ScriptError(f"{path}:1: the header has no summary; it opens with a sentence and an empty comment line")
    if at + 1 < len(paragraphs):
        raise ScriptError(f"{path}:{paragraphs[at + 1][0].number}: nothing may follow the signature in the header")
    found = _ParsedClauses(path)
    for item in _split_items(paragraphs[at], path):
        _CLAUSE_PARSERS[item.clause](found, item)
    return _check_and_build(found, paragraphs[:at], len(lines) + 1, paragraphs[at][0].number)


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    text: str  # without the two dashes


@dataclass(slots=True)
class _Item:
    number: int
    clause: str
    text: str
    each: bool = False  # a word below `returns each`


@dataclass(slots=True)
class _ParsedClauses:
    """The clauses parsed so far; only this parser changes it."""

    path: str
    moves: list[Move] = field(default_factory=list)
    forgets: list[str] = field(default_factory=list)
    writes: list[str] = field(default_factory=list)
    derived: list[str] = field(default_factory=list)
    keys: list[Key] = field(default_factory=list)
    keys_each: tuple[Key, ...] = ()
    args: list[Arg] = field(default_factory=list)
    each: tuple[Arg, ...] = ()
    returns: dict[str, Word] = field(default_factory=dict)
    per_row: bool = False
    lines: dict[str, int] = field(default_factory=dict)  # first line of each place named, for later errors

    def build_error(self, item: _Item, sentence: str) -> ScriptError:
        return ScriptError(f"{self.path}:{item.number}: {sentence}")


def _read_comment_lines(source: str) -> Iterator[_Line]:
    for number, line in enumerate(source.split("\n"), 1):
        if not line.startswith("--") or line.startswith(_BELOW_HEADER):
            return
        yield _Line(number, line[2:].expandtabs().rstrip())


_BELOW_HEADER = ("--[[", "-- include:", "-- from ")  # comments that are no part of a header


def _split_paragraphs(lines: Iterable[_Line]) -> Iterator[list[_Line]]:
    paragraph: list[_Line] = []
    for line in lines:
        if line.text:
            paragraph.append(line)
        elif paragraph:
            yield paragraph
            paragraph = []
    if paragraph:
        yield paragraph


def _match_clause(text: str) -> str:
    """Return the name of the clause that a line opens, or an empty text. At most one space may precede it."""
    match = re.match(r" ?(\S+)(\s|$)", text)
    return match[1] if match and match[1] in CLAUSES else ""


def _split_items(paragraph: list[_Line], path: str) -> Iterator[_Item]:
    """Split a signature into items.

    The first item of a clause sets the column. A line at that column is the next item; a line further right continues
    the item above it.
    """
    item: _Item | None = None
    column, seen = 0, 0
    for line in _join_lines(paragraph, path):
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
        seen = _check_order(line, seen, path)
        match = _OPENING.match(line.text)
        column = match.end() if match else 0
        item = _Item(line.number, CLAUSES[seen - 1], line.text[column:], bool(match and match["each"]))
        if not item.text:
            raise ScriptError(f"{path}:{line.number}: {item.clause} is followed by nothing")
    if item:
        yield item


_OPENING = re.compile(r" ?(?:returns +(?P<each>each\b) *|\S+ *)")


def _join_lines(paragraph: list[_Line], path: str) -> Iterator[_Line]:
    """Yield the lines, each joined with the following lines while one of its parentheses is open."""
    open_line: _Line | None = None
    for line in paragraph:
        if open_line and _match_clause(line.text):
            break
        whole = _Line(open_line.number, f"{open_line.text} {line.text.strip()}") if open_line else line
        open_line = whole if whole.text.count("(") > whole.text.count(")") else None
        if not open_line:
            yield whole
    if open_line:
        raise ScriptError(f"{path}:{open_line.number}: a parenthesis is not closed")


def _check_order(line: _Line, seen: int, path: str) -> int:
    """Return the number (from 1) of the clause that a line opens; `seen` is the number of the clause above.

    Raises ScriptError if the clause is unknown, repeated, or out of order.
    """
    clause = _match_clause(line.text)
    if not clause:
        word = line.text.split()[0]
        raise ScriptError(f"{path}:{line.number}: {word!r} is no clause; expected one of {' '.join(CLAUSES)}")
    number = CLAUSES.index(clause) + 1
    if number < seen or (number == seen and clause != "moves"):
        order = " ".join(CLAUSES)
        raise ScriptError(f"{path}:{line.number}: {clause} stands twice or in the wrong place; the order is {order}")
    return number


_NAME = r"[a-z_]+"
_NAMES = re.compile(rf"{_NAME}(?: +{_NAME})*")
_MOVE = re.compile(rf"(?P<sources>{_NAME}(?: +{_NAME})*)? *-> *(?P<targets>(?:{_NAME})?(?: *\| *(?:{_NAME})?)*)")
_DERIVED = re.compile(r"(?P<template>\S*<[a-z_]+>\S*)(?: +(?P<text>.*))?")
_TAIL = re.compile(r"each *\((?P<columns>[^()]*)\)(?P<text>.*)")
_KEY = re.compile(rf"(?P<name>{_NAME})(?: *\((?P<parts>{_NAME}(?: +{_NAME})*)\))? +(?P<type>[a-z]+)(?: +(?P<text>.*))?")
_ARG = re.compile(rf"(?P<name>{_NAME})(?P<optional>\?)? +(?P<type>[a-z]+)(?: +(?P<text>.*))?")
_WORD = re.compile(
    rf"(?P<word>{_NAME})(?: *\((?P<values>[^()]*)\))?(?: *rows *\((?P<rows>[^()]*)\))?(?:(?<=\)) *| +|$)(?P<text>.*)"
)


def _parse_move(found: _ParsedClauses, item: _Item) -> None:
    match = _MOVE.fullmatch(item.text)
    if not match:
        raise found.build_error(item, f"{item.text!r} is no move; expected: source source -> target | target")
    sources = tuple((match["sources"] or "").split())
    alternatives = [target.strip() for target in match["targets"].split("|")]
    targets = tuple(target for target in alternatives if target)
    leaves = "" in alternatives
    if not sources and (leaves or not targets):
        raise found.build_error(item, "a move without a source enters, so it needs a target")
    found.moves.append(Move(sources, targets, leaves))
    _record_lines(found, item, sources + targets)


def _parse_names(found: _ParsedClauses, item: _Item) -> None:
    if not _NAMES.fullmatch(item.text):
        raise found.build_error(item, f"{item.text!r}: expected names of keys, separated by spaces")
    names = item.text.split()
    (found.forgets if item.clause == "forgets" else found.writes).extend(names)
    _record_lines(found, item, names)


def _record_lines(found: _ParsedClauses, item: _Item, names: Iterable[str]) -> None:
    for name in names:
        found.lines.setdefault(name, item.number)


def _parse_derived(found: _ParsedClauses, item: _Item) -> None:
    match = _DERIVED.fullmatch(item.text)
    if not match:
        raise found.build_error(item, f"{item.text!r}: expected the template of a key with a hole, such as <id>-lock")
    found.derived.append(match["template"])


def _parse_key(found: _ParsedClauses, item: _Item) -> None:
    if found.keys_each:
        raise found.build_error(item, "nothing may follow the tail `each (…)` of KEYS")
    if tail := _TAIL.fullmatch(item.text):
        columns = _parse_columns(found, item, tail["columns"], KEY_TYPES)
        if any(column.optional for column in columns):
            raise found.build_error(item, "a key cannot be optional")
        found.keys_each = tuple(Key(column.name, column.type, tail["text"].strip()) for column in columns)
        return
    match = _KEY.fullmatch(item.text)
    if not match:
        raise found.build_error(
            item,
            f"{item.text!r} is no key; expected: name type text, name (place place) type text, or each (name type, …)",
        )
    _check_type(found, item, match["type"], KEY_TYPES)
    found.keys.append(Key(match["name"], match["type"], match["text"] or "", tuple((match["parts"] or "").split())))


def _parse_arg(found: _ParsedClauses, item: _Item) -> None:
    if found.each:
        raise found.build_error(item, "nothing may follow the tail `each (…)` of ARGV")
    if tail := _TAIL.fullmatch(item.text):
        found.each = _parse_columns(found, item, tail["columns"], ARG_TYPES, tail["text"].strip())
        return
    match = _ARG.fullmatch(item.text)
    if not match:
        raise found.build_error(item, f"{item.text!r} is no argument; expected: name type text, or each (name type, …)")
    _check_type(found, item, match["type"], ARG_TYPES)
    found.args.append(Arg(match["name"], match["type"], bool(match["optional"]), match["text"] or ""))


def _parse_word(found: _ParsedClauses, item: _Item) -> None:
    match = _WORD.fullmatch(item.text)
    if not match:
        raise found.build_error(
            item, f"{item.text!r} is no answer; expected: word (name type, …) rows (name type, …) text"
        )
    if match["word"] in found.returns:
        raise found.build_error(item, f"the word {match['word']} is declared twice")
    values = _parse_columns(found, item, match["values"], ARG_TYPES) if match["values"] is not None else ()
    rows = _parse_columns(found, item, match["rows"], ARG_TYPES) if match["rows"] is not None else ()
    if item.each and rows:
        raise found.build_error(item, "an answer of `returns each` has values, but no rows")
    _refuse_duplicates(found, item, [column.name for column in values])
    _refuse_duplicates(found, item, [column.name for column in rows])
    found.per_row = item.each
    found.returns[match["word"]] = Word(match["word"], match["text"], values, rows)


def _parse_columns(
    found: _ParsedClauses, item: _Item, text: str, types: tuple[str, ...], meaning: str = ""
) -> tuple[Arg, ...]:
    columns = []
    for column in text.split(","):
        match = re.fullmatch(rf" *(?P<name>{_NAME})(?P<optional>\?)? +(?P<type>[a-z]+) *", column)
        if not match:
            raise found.build_error(item, f"{column.strip()!r} is no column; expected: name type")
        _check_type(found, item, match["type"], types)
        columns.append(Arg(match["name"], match["type"], bool(match["optional"]), meaning))
    return tuple(columns)


def _check_type(found: _ParsedClauses, item: _Item, name: str, types: tuple[str, ...]) -> None:
    if name not in types:
        raise found.build_error(item, f"{name!r} is no type; expected one of {' '.join(types)}")


def _refuse_duplicates(found: _ParsedClauses, item: _Item, names: Iterable[str]) -> None:
    if twin := _find_duplicate(names):
        raise found.build_error(item, f"the name {twin} is declared twice")


_CLAUSE_PARSERS: Mapping[str, Callable[[_ParsedClauses, _Item], None]] = {
    "moves": _parse_move,
    "forgets": _parse_names,
    "writes": _parse_names,
    "derived": _parse_derived,
    "KEYS": _parse_key,
    "ARGV": _parse_arg,
    "returns": _parse_word,
}


def _find_duplicate(names: Iterable[str]) -> str:
    """Return the first name that occurs twice in `names`, or an empty text."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return ""


def _check_and_build(found: _ParsedClauses, paragraphs: list[list[_Line]], first_line: int, signature: int) -> Header:
    """Check that the clauses agree with each other, and build the header. Raises ScriptError."""

    def build_error(line: int, sentence: str) -> ScriptError:
        return ScriptError(f"{found.path}:{line}: {sentence}")

    if not found.returns:
        raise build_error(signature, "the signature has no answers; a script returns at least one word")
    if found.per_row and not found.each:
        raise build_error(signature, "`returns each` needs a tail `each (…)` in ARGV: one answer per row of it")
    keys = [key.name for key in found.keys] + [key.name for key in found.keys_each]
    for clause, names in (
        ("forgets", found.forgets),
        ("writes", found.writes),
        ("KEYS", keys),
        ("ARGV", [arg.name for arg in (*found.args, *found.each)]),
    ):
        if twin := _find_duplicate(names):
            raise build_error(signature, f"{clause} names {twin} twice")
    for name, line in found.lines.items():
        if name not in keys and not any(name in key.parts for key in found.keys):
            raise build_error(line, f"{name} is named here, but KEYS declares no key of that name")
    texts = [" ".join(line.text.strip() for line in paragraph) for paragraph in paragraphs]
    return Header(
        summary=texts[0],
        text="\n\n".join(texts[1:]),
        moves=tuple(found.moves),
        forgets=tuple(found.forgets),
        writes=tuple(found.writes),
        derived=tuple(found.derived),
        keys=tuple(found.keys),
        keys_each=found.keys_each,
        args=tuple(found.args),
        each=found.each,
        returns=MappingProxyType(found.returns),
        per_row=found.per_row,
        first_line=first_line,
    )
