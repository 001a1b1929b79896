"""Does the Lua below a header keep what the header says? Read from the text alone, nothing is run.

`faults` are sentences on keys and arguments beyond the declared ones, undeclared words that are returned, Lua names
that differ from the header's, and what is declared in vain. It sees literals only: what a script computes (`KEYS[i]`, a
word from a table) the conformance suite sees, and an undeclared word is refused where an answer is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rqtui.scripts.header import Header

_NOT_CODE = re.compile(
    r"--\[(?P<a>=*)\[.*?\](?P=a)\]|--[^\n]*"
    r"|(?P<text>\[(?P<b>=*)\[.*?\](?P=b)\]|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*')",
    re.DOTALL,
)
_INDEX = re.compile(r"\b(?P<table>KEYS|ARGV)\s*\[\s*(?P<index>\d+)\s*\]")
_BLOCK = re.compile(r"\b(function|if|do|repeat|end|until|return)\b")
_LITERAL = re.compile(r"return\s*\{?\s*(?P<quote>['\"])(?P<word>[^'\"\n]*)(?P=quote)(?!\s*\.\.)")
_LOCAL = re.compile(r"\blocal\s+(?P<names>[A-Za-z_]\w*(?:\s*,\s*[A-Za-z_]\w*)*)\s*=(?!=)\s*")
_IS_INDEX = re.compile(
    r"(?:tonumber\s*\(\s*)?(?P<table>KEYS|ARGV)\s*\[\s*(?P<index>\d+)\s*\]\s*\)?\s*(?:or\b.*|==\s*['\"]1['\"])?",
    re.DOTALL,
)
_IS_UNPACK = re.compile(r"unpack\s*\(\s*(?P<table>KEYS|ARGV)\s*\)")


def faults(header: Header, source: str, path: str) -> list[str]:
    """Sentences, `path:line: …`, about what the Lua has otherwise than the header."""
    code = _without_comments(source)
    return [*_undeclared(header, code, path), *_unlike(header, code, path)]


def _undeclared(header: Header, code: str, path: str) -> Iterator[str]:
    """Literals that the header does not declare."""
    declared = {"KEYS": len(header.keys), "ARGV": len(header.args)}
    open_ended = {"KEYS": bool(header.keys_each), "ARGV": bool(header.each)}
    for match in _INDEX.finditer(code):
        table, index = match["table"], int(match["index"])
        if index == 0 or (index > declared[table] and not open_ended[table]):
            line, most = _line(code, match.start()), declared[table]
            yield f"{path}:{line}: {table}[{index}] is used, but the header declares {most}"
    for at in _answers(code):
        literal = _LITERAL.match(code, at)
        if literal and literal["word"] not in header.returns:
            line, words = _line(code, at), " ".join(header.returns)
            yield f"{path}:{line}: {literal['word']!r} is returned, but the header declares: {words}"


def _unlike(header: Header, code: str, path: str) -> list[str]:
    """Lua names that differ from the header's, and what is never used."""
    bare = _without_strings(code)
    names = {"KEYS": [key.name for key in header.keys], "ARGV": [arg.name for arg in header.args]}
    found, bound = [], set()
    for table, index, name, at in _bindings(bare):
        expected = names[table][index - 1] if index <= len(names[table]) else ""
        if expected and name != expected:
            found.append(f"{path}:{_line(code, at)}: {table}[{index}] is called {name}; the header calls it {expected}")
        bound.add((table, index))
    for table, declared in names.items():
        for index, name in enumerate(declared, 1):
            uses = len(re.findall(rf"\b{name}\b", bare)) if (table, index) in bound else 0
            direct = len(re.findall(rf"\b{table}\s*\[\s*{index}\s*\]", bare))
            if uses < 2 and direct < (2 if (table, index) in bound else 1):
                found.append(f"{path}:1: {table}[{index}], {name}, is declared, but never used")
    for table, tail in (("KEYS", header.keys_each), ("ARGV", header.each)):
        if tail and not re.search(rf"\b{table}\b(?!\s*\[\s*\d+\s*\])", bare):
            found.append(f"{path}:1: the tail `each (…)` of {table} is declared, but never used")
    return found


def _blank(match: re.Match[str]) -> str:
    """Spaces instead of what matched: offsets and line numbers stay."""
    return re.sub(r"[^\n]", " ", match[0])


def _without_comments(source: str) -> str:
    return _NOT_CODE.sub(lambda match: match[0] if match["text"] else _blank(match), source)


def _without_strings(code: str) -> str:
    """Strings become `'   '` of the same length; `'1'` stays, a comparison with it is how a bool is read."""
    return _NOT_CODE.sub(lambda match: match[0] if len(match[0]) <= 3 else f"'{_blank(match)[1:-1]}'", code)


def _line(code: str, at: int) -> int:
    return code.count("\n", 0, at) + 1


def _answers(code: str) -> Iterator[int]:
    """Offsets of the `return`s of the script itself; those of local functions need not be answers."""
    blocks: list[str] = []
    for match in _BLOCK.finditer(_without_strings(code)):
        word = match[0]
        if word == "return":
            if "function" not in blocks:
                yield match.start()
        elif word in ("end", "until"):
            if blocks:
                blocks.pop()
        else:
            blocks.append(word)


def _bindings(bare: str) -> Iterator[tuple[str, int, str, int]]:
    """`local name = KEYS[2]` and its like, as (table, index, name, offset)."""
    for match in _LOCAL.finditer(bare):
        names = re.split(r"\s*,\s*", match["names"])
        expressions = _expressions(bare, match.end(), len(names))
        whole = _IS_UNPACK.fullmatch(expressions[0].strip()) if len(expressions) == 1 else None
        if whole:
            yield from ((whole["table"], index, name, match.start()) for index, name in enumerate(names, 1))
            continue
        for name, expression in zip(names, expressions, strict=False):
            one = _IS_INDEX.fullmatch(expression.strip())
            if one:
                yield one["table"], int(one["index"]), name, match.start()


def _expressions(bare: str, at: int, most: int) -> list[str]:
    """Up to `most` expressions from an offset on, cut at commas outside of brackets; the last ends with its line."""
    found: list[str] = []
    depth, start = 0, at
    while at < len(bare) and len(found) < most:
        char = bare[at]
        if char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif char == "," and depth == 0:
            found.append(bare[start:at])
            start = at + 1
        elif (char == "\n" and depth == 0 and bare[start:at].strip()) or char == ";":
            break
        at += 1
    if len(found) < most:
        found.append(bare[start:at])
    return found
