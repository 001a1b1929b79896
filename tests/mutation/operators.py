"""The faults that are planted: every place of a source where an operator can change exactly one thing.

`of_python` and `of_lua` list the `Mutant`s of a text; nothing is written. Comments, strings and the headers of scripts
are never changed, nor are copies of blocks: `places.py` changes a block with all its copies.

    boundary    `<` and `<=`, `>` and `>=` change places                    negated   the condition of an if or a loop
    comparison  `==` becomes its opposite; `in`, `is` and `<` do, too       guard     an if that only leaves never does
    call        a call that stands alone is left out (a write, in Lua)      logic     `and` and `or` change places
    constant    a whole number is one more, or one less
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

OPERATORS = ("boundary", "comparison", "call", "guard", "negated", "constant", "logic")

_BOUNDARY = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
_OPPOSITE = {"==": "!=", "!=": "==", "in": "not in", "not in": "in", "is": "is not", "is not": "is"}
_OPPOSITE |= {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_SIGNS = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
    ast.In: "in", ast.NotIn: "not in", ast.Is: "is", ast.IsNot: "is not",
}  # fmt: skip
_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)


@dataclass(frozen=True, slots=True)
class Mutant:
    """The characters from `start` to `end` of the file at `path` become `new`. `line` counts from 1."""

    path: str
    operator: str
    line: int
    start: int
    end: int
    old: str
    new: str

    def applied(self, text: str) -> str:
        """The text with the fault. Raises ValueError if it is not the text that the mutant was made from."""
        if text[self.start : self.end] != self.old:
            raise ValueError(f"{self.path}:{self.line}: {self.old!r} is not there any more")
        return text[: self.start] + self.new + text[self.end :]

    def __str__(self) -> str:
        return f"{self.path}:{self.line} {self.operator}: {_brief(self.old)} -> {_brief(self.new)}"


def _brief(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= 60 else words[:59] + "…"


def of_python(path: str, text: str) -> list[Mutant]:
    """Every fault that can be planted in a module, in the order of the text."""
    source = _Python(path, text)
    found = [mutant for node in ast.walk(source.tree) for mutant in source.mutants(node)]
    return sorted(found, key=lambda mutant: (mutant.start, mutant.operator, mutant.new))


class _Python:
    """A module, its tree, and where each node stands in the text (the tree counts bytes in a line)."""

    def __init__(self, path: str, text: str) -> None:
        self.path, self.text, self.tree = path, text, ast.parse(text)
        self._lines = text.splitlines(keepends=True)
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))
        self._typed = {id(child) for node in ast.walk(self.tree) for child in _not_run(node)}

    def mutants(self, node: ast.AST) -> Iterator[Mutant]:
        if id(node) in self._typed:
            return
        if isinstance(node, ast.Compare):
            yield from self._compared(node)
        elif isinstance(node, ast.BoolOp):
            yield from self._joined(node)
        elif isinstance(node, ast.If | ast.While | ast.IfExp):
            yield from self._conditions(node)
        elif isinstance(node, ast.comprehension):
            for test in node.ifs:
                yield self._make("negated", test, f"not ({self._of(test)})")
        elif isinstance(node, ast.Expr) and isinstance(_awaited(node.value), ast.Call):
            yield self._make("call", node, "pass")
        elif isinstance(node, ast.Constant) and type(node.value) is int:
            yield self._make("constant", node, str(node.value + 1))
            yield self._make("constant", node, str(node.value - 1))

    def _compared(self, node: ast.Compare) -> Iterator[Mutant]:
        before = node.left
        for sign, after in zip(node.ops, node.comparators, strict=True):
            name = _SIGNS[type(sign)]
            start, end = self._between(before, after, name.replace(" ", r"\s+"))
            if name in _BOUNDARY:
                yield self._cut("boundary", start, end, _BOUNDARY[name])
            yield self._cut("comparison", start, end, _OPPOSITE[name])
            before = after

    def _joined(self, node: ast.BoolOp) -> Iterator[Mutant]:
        name, other = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in pairwise(node.values):
            yield self._cut("logic", *self._between(left, right, rf"\b{name}\b"), other)

    def _conditions(self, node: ast.If | ast.While | ast.IfExp) -> Iterator[Mutant]:
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return
        yield self._make("negated", node.test, f"not ({self._of(node.test)})")
        if isinstance(node, ast.If) and not node.orelse and isinstance(node.body[-1], _LEAVES) and len(node.body) <= 2:
            walrus = any(isinstance(part, ast.NamedExpr) for part in ast.walk(node.test))
            yield self._make("guard", node.test, f"({self._of(node.test)}) and False" if walrus else "False")

    def _make(self, operator: str, node: ast.AST, new: str) -> Mutant:
        return self._cut(operator, *self._span(node), new)

    def _cut(self, operator: str, start: int, end: int, new: str) -> Mutant:
        return Mutant(self.path, operator, self.text.count("\n", 0, start) + 1, start, end, self.text[start:end], new)

    def _of(self, node: ast.AST) -> str:
        start, end = self._span(node)
        return self.text[start:end]

    def _span(self, node: ast.AST) -> tuple[int, int]:
        return (
            self._at(node.lineno, node.col_offset),  # type: ignore[attr-defined]
            self._at(node.end_lineno, node.end_col_offset),  # type: ignore[attr-defined]
        )

    def _at(self, line: int, column: int) -> int:
        return self._starts[line - 1] + len(self._lines[line - 1].encode()[:column].decode())

    def _between(self, before: ast.AST, after: ast.AST, pattern: str) -> tuple[int, int]:
        """Where the sign or word between two operands stands."""
        start, end = self._span(before)[1], self._span(after)[0]
        match = re.search(pattern, self.text[start:end])
        assert match
        return start + match.start(), start + match.end()


def _not_run(node: ast.AST) -> Iterator[ast.AST]:
    """What stands in annotations and in formats of f-strings, where a change is none."""
    for name in ("annotation", "returns"):
        if (part := getattr(node, name, None)) is not None:
            yield from ast.walk(part)
    if isinstance(node, ast.JoinedStr):  # before Python 3.12 their parts have no places of their own
        for part in ast.walk(node):
            if part is not node:
                yield part


def _awaited(node: ast.expr) -> ast.expr:
    return node.value if isinstance(node, ast.Await) else node


_NOT_CODE = re.compile(
    r"--\[(?P<a>=*)\[.*?\](?P=a)\]|--[^\n]*|\[(?P<b>=*)\[.*?\](?P=b)\]|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'",
    re.DOTALL,
)
_COPY = re.compile(r"^-- block: .*?^-- end$", re.DOTALL | re.MULTILINE)
_SIGN = re.compile(r"<=|>=|==|~=|<|>")
_LUA_OPPOSITE = {"==": "~=", "~=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_CONDITION = re.compile(r"\b(?:if|elseif|while)\b(?P<test>.+?)\b(?:then|do)\b(?P<leaves>\s*return\b)?", re.DOTALL)
_CALL = re.compile(r"redis\.p?call\s*\(")
_GOES_ON = re.compile(r"(?:[=,({\[+\-*/%.<>~#^]|\b(?:and|or|not|return|in|if|elseif|while|until))\Z")
_NUMBER = re.compile(r"(?<![\w.])(?<!KEYS\[)(?<!ARGV\[)\d+(?![\w.])")
_READS = {
    "EXISTS", "GET", "HGET", "HGETALL", "HLEN", "HMGET", "HSCAN", "HVALS", "LINDEX", "LLEN", "LPOS", "LRANGE",
    "PTTL", "SCAN", "SCARD", "SISMEMBER", "SMISMEMBER", "SSCAN", "STRLEN", "TIME", "TYPE", "XLEN", "XRANGE",
    "XREVRANGE", "ZCARD", "ZCOUNT", "ZRANGE", "ZRANGEBYSCORE", "ZRANK", "ZSCAN", "ZSCORE", "ZMSCORE",
}  # fmt: skip


def of_lua(path: str, text: str) -> list[Mutant]:
    """Every fault that can be planted in a script or a block, in the order of the text."""
    code = _COPY.sub(lambda match: _blank(match[0]), text)
    bare = _NOT_CODE.sub(lambda match: _blank(match[0]), code)

    def cut(operator: str, start: int, end: int, new: str) -> Mutant:
        return Mutant(path, operator, text.count("\n", 0, start) + 1, start, end, text[start:end], new)

    found = []
    for match in _SIGN.finditer(bare):
        if match[0] in _BOUNDARY:
            found.append(cut("boundary", *match.span(), _BOUNDARY[match[0]]))
        found.append(cut("comparison", *match.span(), _LUA_OPPOSITE[match[0]]))
    for match in _CONDITION.finditer(bare):
        start, end = match.span("test")
        found.append(cut("negated", start, end, f" not ({text[start:end]}) "))
        if match["leaves"] and match[0].startswith("if"):
            found.append(cut("guard", start, end, " false "))
    for match in _CALL.finditer(bare):
        end = _closed(bare, match.end())
        command = re.match(r"\s*'([A-Z]+)'", text[match.end() :])
        if not _GOES_ON.search(bare[: match.start()].rstrip()) and not re.match(
            r"\s*(?:\[|[-+*/%.<>=~]|and\b|or\b)", bare[end:]
        ):
            is_read = command and command[1] in _READS
            found.append(cut("guard" if is_read else "call", match.start(), end, ""))
    for match in _NUMBER.finditer(bare):
        found += [cut("constant", *match.span(), str(int(match[0]) + by)) for by in (1, -1)]
    for match in re.finditer(r"\b(and|or)\b", bare):
        found.append(cut("logic", *match.span(), "or" if match[0] == "and" else "and"))
    return sorted(found, key=lambda mutant: (mutant.start, mutant.operator, mutant.new))


def _blank(text: str) -> str:
    """As long as it was and with the same lines, without words; a string stays a word to those around it."""
    shade = "\x00" if text[0] in "'\"" else " "
    return re.sub(r"[^\n]", shade, text)


def _closed(bare: str, start: int) -> int:
    """Where the parenthesis that was opened before `start` is closed."""
    depth = 1
    for at in range(start, len(bare)):
        depth += {"(": 1, ")": -1}.get(bare[at], 0)
        if not depth:
            return at + 1
    return len(bare)
