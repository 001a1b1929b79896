"""Check that a Lua script matches its header, from the text alone. The conformance suite runs this check.

`find_header_differences` returns sentences about undeclared keys and arguments, undeclared words that are returned, Lua
names that differ from the header's, and unused declarations. Only literals are read. The conformance suite covers
computed names (`KEYS[i]`, a word from a table), and the reply parser refuses an undeclared word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rqtui.scripts.header import Header
from rqtui.scripts.include import build_lua_local_name
from rqtui.text.source_lines import find_source_position

_COMMENT_OR_STRING = re.compile(
    r"--\[(?P<a>=*)\[.*?\](?P=a)\]|--[^\n]*"
    r"|(?P<text>\[(?P<b>=*)\[.*?\](?P=b)\]|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*')",
    re.DOTALL,
)
_INDEX = re.compile(r"\b(?P<table>KEYS|ARGV)\s*\[\s*(?P<index>\d+)\s*\]")
_BLOCK = re.compile(r"\b(?:function|if|do|repeat|end|until|return)\b")
_LITERAL = re.compile(r"return\s*\{?\s*(?P<quote>['\"])(?P<word>[^'\"\n]*)(?P=quote)(?!\s*\.\.)")
_LOCAL = re.compile(r"\blocal\s+(?P<names>[A-Za-z_]\w*(?:\s*,\s*[A-Za-z_]\w*)*)\s*=(?!=)\s*")
_INDEX_EXPRESSION = re.compile(
    r"(?:tonumber\s*\(\s*)?(?P<table>KEYS|ARGV)\s*\[\s*(?P<index>\d+)\s*\]\s*\)?\s*(?:or\b.*|==\s*['\"]1['\"])?",
    re.DOTALL,
)
_UNPACK_EXPRESSION = re.compile(r"unpack\s*\(\s*(?P<table>KEYS|ARGV)\s*\)")


def find_header_differences(header: Header, source: str, path: str) -> list[str]:
    """Return one sentence, `path:line: …`, for each difference between a Lua script and its header.

    `source` is the complete script; the sentences name the files from which its lines come.
    """
    code = _blank_comments(source)
    sentences = [*_find_undeclared_literals(header, code, path), *_find_misnamed_arguments(header, code, path)]
    position_pattern = re.compile(rf"^{re.escape(path)}:(\d+)")
    return [
        position_pattern.sub(lambda match: find_source_position(source, path, int(match[1])), sentence)
        for sentence in sentences
    ]


def _find_undeclared_literals(header: Header, code: str, path: str) -> Iterator[str]:
    """Yield a sentence for each literal key, argument or returned word that the header does not declare."""
    declared = {"KEYS": len(header.keys), "ARGV": len(header.args)}
    open_ended = {"KEYS": bool(header.keys_each), "ARGV": bool(header.each)}
    for match in _INDEX.finditer(code):
        table, index = match["table"], int(match["index"])
        if index == 0 or (index > declared[table] and not open_ended[table]):
            line, declared_count = _find_line_number(code, match.start()), declared[table]
            yield f"{path}:{line}: {table}[{index}] is used, but the header declares {declared_count}"
    for offset in _find_own_returns(code):
        literal = _LITERAL.match(code, offset)
        if literal and literal["word"] not in header.returns:
            line, words = _find_line_number(code, offset), " ".join(header.returns)
            yield f"{path}:{line}: {literal['word']!r} is returned, but the header declares: {words}"


def _find_misnamed_arguments(header: Header, code: str, path: str) -> list[str]:
    """Return a sentence for each Lua name that differs from the header's, and for each declaration without a use."""
    code_without_strings = _blank_strings(code)
    names = {
        "KEYS": [build_lua_local_name(key.name) for key in header.keys],
        "ARGV": [build_lua_local_name(arg.name) for arg in header.args],
    }
    sentences, bound_indices = [], set()
    for table, index, name, offset in _find_argument_bindings(code_without_strings):
        expected = names[table][index - 1] if index <= len(names[table]) else ""
        if expected and name != expected:
            line = _find_line_number(code, offset)
            sentences.append(f"{path}:{line}: {table}[{index}] is called {name}; the header calls it {expected}")
        bound_indices.add((table, index))
    for table, declared in names.items():
        for index, name in enumerate(declared, 1):
            is_bound = (table, index) in bound_indices
            is_used = is_bound and len(re.findall(rf"\b{name}\b", code_without_strings)) > 1
            direct = len(re.findall(rf"\b{table}\s*\[\s*{index}\s*\]", code_without_strings))
            if not is_used and direct <= is_bound:
                sentences.append(f"{path}:1: {table}[{index}], {name}, is declared, but never used")
    for table, tail in (("KEYS", header.keys_each), ("ARGV", header.each)):
        if tail and not re.search(rf"\b{table}\b(?!\s*\[\s*\d+\s*\])", code_without_strings):
            sentences.append(f"{path}:1: the tail `each (…)` of {table} is declared, but never used")
    return sentences


def _replace_by_spaces(match: re.Match[str]) -> str:
    """Return a match of a regular expression as spaces, so that offsets and line numbers stay."""
    return re.sub(r"[^\n]", " ", match[0])


def _blank_comments(source: str) -> str:
    return _COMMENT_OR_STRING.sub(lambda match: match[0] if match["text"] else _replace_by_spaces(match), source)


def _blank_strings(code: str) -> str:
    """Replace the text of each Lua string by spaces. `'1'` stays, because scripts read a bool by comparing with it."""
    return _COMMENT_OR_STRING.sub(
        lambda match: match[0] if len(match[0]) <= 3 else f"'{_replace_by_spaces(match)[1:-1]}'", code
    )


def _find_line_number(code: str, offset: int) -> int:
    return code[:offset].count("\n") + 1


def _find_own_returns(code: str) -> Iterator[int]:
    """Yield the offsets of a script's own `return`s. A `return` of a local function need not be a reply."""
    blocks: list[str] = []
    for match in _BLOCK.finditer(_blank_strings(code)):
        word = match[0]
        if word == "return":
            if "function" not in blocks:
                yield match.start()
        elif word in ("end", "until"):
            if blocks:
                blocks.pop()
        else:
            blocks.append(word)


def _find_argument_bindings(code_without_strings: str) -> Iterator[tuple[str, int, str, int]]:
    """Yield Lua assignments such as `local name = KEYS[2]` as (table, index, name, offset)."""
    for match in _LOCAL.finditer(code_without_strings):
        names = re.split(r"\s*,\s*", match["names"])
        expressions = _split_lua_expressions(code_without_strings, match.end())
        unpack = _UNPACK_EXPRESSION.fullmatch(",".join(expressions).strip())
        if unpack:
            yield from ((unpack["table"], index, name, match.start()) for index, name in enumerate(names, 1))
            continue
        for name, expression in zip(names, expressions, strict=False):
            index_expression = _INDEX_EXPRESSION.fullmatch(expression.strip())
            if index_expression:
                yield index_expression["table"], int(index_expression["index"]), name, match.start()


def _split_lua_expressions(code_without_strings: str, position: int) -> list[str]:
    """Return the comma-separated Lua expressions from `position` on; the last ends with its line."""
    expressions: list[str] = []
    depth, start = 0, position
    while position < len(code_without_strings):
        char = code_without_strings[position]
        if char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif char == "," and depth == 0:
            expressions.append(code_without_strings[start:position])
            start = position + 1
        elif (char == "\n" and depth == 0 and code_without_strings[start:position].strip()) or char == ";":
            break
        position += 1
    return [*expressions, code_without_strings[start:position]]
