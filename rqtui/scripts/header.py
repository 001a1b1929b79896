"""The grammar of a script's header: comment lines in, a frozen `Header` out.

This module owns the grammar that `lua/README.md` writes down as BNF, and nothing else: it opens no file,
knows no Redis and does not read the Lua below the header (a test does). `script.py` calls `parse_header`.
A header is three things: a summary, prose, and a signature, which is the paragraph that opens with a clause.
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
    """A key of the call; `type` is one of KEY_TYPES. `parts` are the places that share it, where there are several."""

    name: str
    type: str
    text: str = ""
    parts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Arg:
    """An argument, a column of a tail, or a returned value; `optional` ones may be the empty string."""

    name: str
    type: str
    optional: bool = False
    text: str = ""


@dataclass(frozen=True, slots=True)
class Move:
    """From any of `sources` to one of `targets`; `leaves` when a job may also vanish. No source: it enters."""

    sources: tuple[str, ...]
    targets: tuple[str, ...]
    leaves: bool = False


@dataclass(frozen=True, slots=True)
class Word:
    """An answer: the word, the header's words for it, the values behind it, the columns of its table."""

    word: str
    text: str
    values: tuple[Arg, ...] = ()
    rows: tuple[Arg, ...] = ()


@dataclass(frozen=True, slots=True)
class Header:
    """All that a header says. `first_line` is the number of the first line of Lua below it."""

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
    """Read the header of a script. `path` stands in errors, which start with `path:line:`. Raises ScriptError."""
    lines = list(_comment_lines(source))
    paragraphs = list(_paragraphs(lines))
    at = next((i for i, paragraph in enumerate(paragraphs) if _clause(paragraph[0].text)), None)
    if at is None:
        raise ScriptError(f"{path}:{len(lines) + 1}: the header has no signature: no paragraph begins with a clause")
    if at == 0:
        raise ScriptError(f"{path}:1: the header has no summary; it opens with a sentence and an empty comment line")
    if at + 1 < len(paragraphs):
        raise ScriptError(f"{path}:{paragraphs[at + 1][0].number}: nothing may follow the signature in the header")
    found = _Found(path)
    for item in _items(paragraphs[at], path):
        _CLAUSE_PARSERS[item.clause](found, item)
    return _checked(found, paragraphs[:at], len(lines) + 1, paragraphs[at][0].number)


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
class _Found:
    """What the clauses said so far; only this parser changes it."""

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

    def wrong(self, item: _Item, sentence: str) -> ScriptError:
        return ScriptError(f"{self.path}:{item.number}: {sentence}")


def _comment_lines(source: str) -> Iterator[_Line]:
    for number, line in enumerate(source.split("\n"), 1):
        if not line.startswith("--") or line.startswith("--[["):
            return
        yield _Line(number, line[2:].expandtabs().rstrip())


def _paragraphs(lines: Iterable[_Line]) -> Iterator[list[_Line]]:
    paragraph: list[_Line] = []
    for line in lines:
        if line.text:
            paragraph.append(line)
        elif paragraph:
            yield paragraph
            paragraph = []
    if paragraph:
        yield paragraph


def _clause(text: str) -> str:
    """The clause that a line opens, or nothing: one space (or none), then a clause's name."""
    match = re.match(r" ?(\S+)(\s|$)", text)
    return match[1] if match and match[1] in CLAUSES else ""


def _items(paragraph: list[_Line], path: str) -> Iterator[_Item]:
    """Cut a signature into items.

    The first item of a clause sets the column; a line at that column is the next item, a line further right
    continues the item above it.
    """
    item: _Item | None = None
    column, seen = 0, 0
    for line in _joined(paragraph, path):
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
        seen = _in_order(line, seen, path)
        match = _OPENING.match(line.text)
        column = match.end() if match else 0
        item = _Item(line.number, CLAUSES[seen - 1], line.text[column:], bool(match and match["each"]))
        if not item.text:
            raise ScriptError(f"{path}:{line.number}: {item.clause} is followed by nothing")
    if item:
        yield item


_OPENING = re.compile(r" ?(?:returns +(?P<each>each\b) *|\S+ *)")


def _joined(paragraph: list[_Line], path: str) -> Iterator[_Line]:
    """Lines, with those added to a line that follow it while one of its parentheses is open."""
    open_line: _Line | None = None
    for line in paragraph:
        if open_line and _clause(line.text):
            break
        whole = _Line(open_line.number, f"{open_line.text} {line.text.strip()}") if open_line else line
        open_line = whole if whole.text.count("(") > whole.text.count(")") else None
        if not open_line:
            yield whole
    if open_line:
        raise ScriptError(f"{path}:{open_line.number}: a parenthesis is not closed")


def _in_order(line: _Line, seen: int, path: str) -> int:
    """The number (from 1) of the clause that a line opens; `seen` is that of the clause above."""
    clause = _clause(line.text)
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


def _parse_move(found: _Found, item: _Item) -> None:
    match = _MOVE.fullmatch(item.text)
    if not match:
        raise found.wrong(item, f"{item.text!r} is no move; expected: source source -> target | target")
    sources = tuple((match["sources"] or "").split())
    alternatives = [target.strip() for target in match["targets"].split("|")]
    targets = tuple(target for target in alternatives if target)
    leaves = "" in alternatives
    if not sources and (leaves or not targets):
        raise found.wrong(item, "a move without a source enters, so it needs a target")
    found.moves.append(Move(sources, targets, leaves))
    _remember(found, item, sources + targets)


def _parse_names(found: _Found, item: _Item) -> None:
    if not _NAMES.fullmatch(item.text):
        raise found.wrong(item, f"{item.text!r}: expected names of keys, separated by spaces")
    names = item.text.split()
    (found.forgets if item.clause == "forgets" else found.writes).extend(names)
    _remember(found, item, names)


def _remember(found: _Found, item: _Item, names: Iterable[str]) -> None:
    for name in names:
        found.lines.setdefault(name, item.number)


def _parse_derived(found: _Found, item: _Item) -> None:
    match = _DERIVED.fullmatch(item.text)
    if not match:
        raise found.wrong(item, f"{item.text!r}: expected the template of a key with a hole, such as <id>-lock")
    found.derived.append(match["template"])


def _parse_key(found: _Found, item: _Item) -> None:
    if found.keys_each:
        raise found.wrong(item, "nothing may follow the tail `each (…)` of KEYS")
    if tail := _TAIL.fullmatch(item.text):
        columns = _columns(found, item, tail["columns"], KEY_TYPES)
        if any(column.optional for column in columns):
            raise found.wrong(item, "a key cannot be optional")
        found.keys_each = tuple(Key(column.name, column.type, tail["text"].strip()) for column in columns)
        return
    match = _KEY.fullmatch(item.text)
    if not match:
        raise found.wrong(
            item,
            f"{item.text!r} is no key; expected: name type text, name (place place) type text, or each (name type, …)",
        )
    _known_type(found, item, match["type"], KEY_TYPES)
    found.keys.append(Key(match["name"], match["type"], match["text"] or "", tuple((match["parts"] or "").split())))


def _parse_arg(found: _Found, item: _Item) -> None:
    if found.each:
        raise found.wrong(item, "nothing may follow the tail `each (…)` of ARGV")
    if tail := _TAIL.fullmatch(item.text):
        found.each = _columns(found, item, tail["columns"], ARG_TYPES, tail["text"].strip())
        return
    match = _ARG.fullmatch(item.text)
    if not match:
        raise found.wrong(item, f"{item.text!r} is no argument; expected: name type text, or each (name type, …)")
    _known_type(found, item, match["type"], ARG_TYPES)
    found.args.append(Arg(match["name"], match["type"], bool(match["optional"]), match["text"] or ""))


def _parse_word(found: _Found, item: _Item) -> None:
    match = _WORD.fullmatch(item.text)
    if not match:
        raise found.wrong(item, f"{item.text!r} is no answer; expected: word (name type, …) rows (name type, …) text")
    if match["word"] in found.returns:
        raise found.wrong(item, f"the word {match['word']} is declared twice")
    values = _columns(found, item, match["values"], ARG_TYPES) if match["values"] is not None else ()
    rows = _columns(found, item, match["rows"], ARG_TYPES) if match["rows"] is not None else ()
    if item.each and rows:
        raise found.wrong(item, "an answer of `returns each` has values, but no rows")
    _no_twins(found, item, [column.name for column in values])
    _no_twins(found, item, [column.name for column in rows])
    found.per_row = item.each
    found.returns[match["word"]] = Word(match["word"], match["text"], values, rows)


def _columns(found: _Found, item: _Item, text: str, types: tuple[str, ...], meaning: str = "") -> tuple[Arg, ...]:
    columns = []
    for column in text.split(","):
        match = re.fullmatch(rf" *(?P<name>{_NAME})(?P<optional>\?)? +(?P<type>[a-z]+) *", column)
        if not match:
            raise found.wrong(item, f"{column.strip()!r} is no column; expected: name type")
        _known_type(found, item, match["type"], types)
        columns.append(Arg(match["name"], match["type"], bool(match["optional"]), meaning))
    return tuple(columns)


def _known_type(found: _Found, item: _Item, name: str, types: tuple[str, ...]) -> None:
    if name not in types:
        raise found.wrong(item, f"{name!r} is no type; expected one of {' '.join(types)}")


def _no_twins(found: _Found, item: _Item, names: Iterable[str]) -> None:
    if twin := _twin(names):
        raise found.wrong(item, f"the name {twin} is declared twice")


_CLAUSE_PARSERS: Mapping[str, Callable[[_Found, _Item], None]] = {
    "moves": _parse_move,
    "forgets": _parse_names,
    "writes": _parse_names,
    "derived": _parse_derived,
    "KEYS": _parse_key,
    "ARGV": _parse_arg,
    "returns": _parse_word,
}


def _twin(names: Iterable[str]) -> str:
    """The first name that stands in `names` twice, or nothing."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return ""


def _checked(found: _Found, paragraphs: list[list[_Line]], first_line: int, signature: int) -> Header:
    """The header, once the clauses agree with each other."""

    def wrong(line: int, sentence: str) -> ScriptError:
        return ScriptError(f"{found.path}:{line}: {sentence}")

    if not found.returns:
        raise wrong(signature, "the signature has no answers; a script returns at least one word")
    if found.per_row and not found.each:
        raise wrong(signature, "`returns each` needs a tail `each (…)` in ARGV: one answer per row of it")
    keys = [key.name for key in found.keys] + [key.name for key in found.keys_each]
    for clause, names in (
        ("forgets", found.forgets),
        ("writes", found.writes),
        ("KEYS", keys),
        ("ARGV", [arg.name for arg in (*found.args, *found.each)]),
    ):
        if twin := _twin(names):
            raise wrong(signature, f"{clause} names {twin} twice")
    for name, line in found.lines.items():
        if name not in keys and not any(name in key.parts for key in found.keys):
            raise wrong(line, f"{name} is named here, but KEYS declares no key of that name")
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
