"""List the faults that can be planted: each change that an operator can make at one place of a source.

`find_python_mutants` and `find_lua_mutants` list the `Mutant`s of a text and write nothing. Comments, strings and the
headers of scripts are never changed.

    boundary    swaps `<` and `<=`, `>` and `>=`                            negated   negates a condition
    comparison  replaces `==`, `in`, `is`, `<` by their opposites        guard     never takes an if that only leaves
    call        removes a call statement (a write, in Lua)                  logic     swaps `and` and `or`
    constant    adds one to a whole number, or subtracts one
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
_LEAVING = (ast.Return, ast.Raise, ast.Continue, ast.Break)


@dataclass(frozen=True, slots=True)
class Mutant:
    """A fault planted in one file: the characters from `start` to `end` become `new`. `line` counts from 1."""

    path: str
    operator: str
    line: int
    start: int
    end: int
    old: str
    new: str

    def apply_to(self, text: str) -> str:
        """Return the file's text with the fault. Raises ValueError if the mutant was built from another text."""
        if text[self.start : self.end] != self.old:
            raise ValueError(f"{self.path}:{self.line}: {self.old!r} is not in the text any more")
        return text[: self.start] + self.new + text[self.end :]

    def __str__(self) -> str:
        return f"{self.path}:{self.line} {self.operator}: {_shorten(self.old)} -> {_shorten(self.new)}"


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else line[:59] + "…"


def find_python_mutants(path: str, text: str) -> list[Mutant]:
    """Return every fault that can be planted in a Python module, in the order of the text."""
    source = _PythonSource(path, text)
    mutants = [mutant for node in ast.walk(source.tree) for mutant in source.find_mutants(node)]
    return sorted(mutants, key=lambda mutant: (mutant.start, mutant.operator, mutant.new))


class _PythonSource:
    """A module, its syntax tree, and the character offsets of its nodes (the tree counts bytes in a line)."""

    def __init__(self, path: str, text: str) -> None:
        self.path, self.text, self.tree = path, text, ast.parse(text)
        self._lines = text.splitlines(keepends=True)
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))
        self._skipped = {id(child) for node in ast.walk(self.tree) for child in _find_unexecuted_nodes(node)}

    def find_mutants(self, node: ast.AST) -> Iterator[Mutant]:
        if id(node) in self._skipped:
            return
        if isinstance(node, ast.Compare):
            yield from self._find_comparison_mutants(node)
        elif isinstance(node, ast.BoolOp):
            yield from self._find_logic_mutants(node)
        elif isinstance(node, ast.If | ast.While | ast.IfExp):
            yield from self._find_condition_mutants(node)
        elif isinstance(node, ast.comprehension):
            for test in node.ifs:
                yield self._replace_node("negated", test, f"not ({self._read_node(test)})")
        elif isinstance(node, ast.Expr) and isinstance(_unwrap_await(node.value), ast.Call):
            yield self._replace_node("call", node, "pass")
        elif isinstance(node, ast.Constant) and type(node.value) is int:
            yield self._replace_node("constant", node, str(node.value + 1))
            yield self._replace_node("constant", node, str(node.value - 1))

    def _find_comparison_mutants(self, node: ast.Compare) -> Iterator[Mutant]:
        left = node.left
        for sign, right in zip(node.ops, node.comparators, strict=True):
            symbol = _SIGNS[type(sign)]
            start, end = self._find_operator_span(left, right, symbol.replace(" ", r"\s+"))
            if symbol in _BOUNDARY:
                yield self._replace_text("boundary", start, end, _BOUNDARY[symbol])
            yield self._replace_text("comparison", start, end, _OPPOSITE[symbol])
            left = right

    def _find_logic_mutants(self, node: ast.BoolOp) -> Iterator[Mutant]:
        name, other = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in pairwise(node.values):
            yield self._replace_text("logic", *self._find_operator_span(left, right, rf"\b{name}\b"), other)

    def _find_condition_mutants(self, node: ast.If | ast.While | ast.IfExp) -> Iterator[Mutant]:
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return
        yield self._replace_node("negated", node.test, f"not ({self._read_node(node.test)})")
        if isinstance(node, ast.If) and not node.orelse and isinstance(node.body[-1], _LEAVING) and len(node.body) <= 2:
            has_walrus = any(isinstance(part, ast.NamedExpr) for part in ast.walk(node.test))
            yield self._replace_node(
                "guard", node.test, f"({self._read_node(node.test)}) and False" if has_walrus else "False"
            )

    def _replace_node(self, operator: str, node: ast.AST, new: str) -> Mutant:
        return self._replace_text(operator, *self._find_span(node), new)

    def _replace_text(self, operator: str, start: int, end: int, new: str) -> Mutant:
        return Mutant(self.path, operator, self.text.count("\n", 0, start) + 1, start, end, self.text[start:end], new)

    def _read_node(self, node: ast.AST) -> str:
        start, end = self._find_span(node)
        return self.text[start:end]

    def _find_span(self, node: ast.AST) -> tuple[int, int]:
        return (
            self._find_offset(node.lineno, node.col_offset),  # type: ignore[attr-defined]
            self._find_offset(node.end_lineno, node.end_col_offset),  # type: ignore[attr-defined]
        )

    def _find_offset(self, line: int, column: int) -> int:
        return self._starts[line - 1] + len(self._lines[line - 1].encode()[:column].decode())

    def _find_operator_span(self, before: ast.AST, after: ast.AST, pattern: str) -> tuple[int, int]:
        """Return the span of the sign or word between two operands."""
        start, end = self._find_span(before)[1], self._find_span(after)[0]
        match = re.search(pattern, self.text[start:end])
        assert match
        return start + match.start(), start + match.end()


def _find_unexecuted_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of annotations, f-string formats and sizes of caches, where a change has no visible effect."""
    for name in ("annotation", "returns"):
        if (part := getattr(node, name, None)) is not None:
            yield from ast.walk(part)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "lru_cache":
        yield from (part for size in (*node.args, *node.keywords) for part in ast.walk(size))
    if isinstance(node, ast.JoinedStr):  # before Python 3.12 their parts have no offsets of their own
        for part in ast.walk(node):
            if part is not node:
                yield part


def _unwrap_await(node: ast.expr) -> ast.expr:
    return node.value if isinstance(node, ast.Await) else node


_NOT_CODE = re.compile(
    r"--\[(?P<a>=*)\[.*?\](?P=a)\]|--[^\n]*|\[(?P<b>=*)\[.*?\](?P=b)\]|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'",
    re.DOTALL,
)
_SIGN = re.compile(r"<=|>=|==|~=|<|>")
_LUA_OPPOSITE = {"==": "~=", "~=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_CONDITION = re.compile(r"\b(?:if|elseif|while)\b(?P<test>.+?)\b(?:then|do)\b(?P<leaves>\s*return\b)?", re.DOTALL)
_CALL = re.compile(r"redis\.p?call\s*\(")
_CONTINUES = re.compile(r"(?:[=,({\[+\-*/%.<>~#^]|\b(?:and|or|not|return|in|if|elseif|while|until))\Z")
_NUMBER = re.compile(r"(?<![\w.])(?<!KEYS\[)(?<!ARGV\[)\d+(?![\w.])")
_READ_COMMANDS = {
    "EXISTS", "GET", "HGET", "HGETALL", "HLEN", "HMGET", "HSCAN", "HVALS", "LINDEX", "LLEN", "LPOS", "LRANGE",
    "PTTL", "SCAN", "SCARD", "SISMEMBER", "SMISMEMBER", "SSCAN", "STRLEN", "TIME", "TYPE", "XLEN", "XRANGE",
    "XREVRANGE", "ZCARD", "ZCOUNT", "ZRANGE", "ZRANGEBYSCORE", "ZRANK", "ZSCAN", "ZSCORE", "ZMSCORE",
}  # fmt: skip


def find_lua_mutants(path: str, text: str) -> list[Mutant]:
    """Return every fault that can be planted in a Lua script or a block, in the order of the text."""
    bare = _NOT_CODE.sub(lambda match: _blank_strings_and_comments(match[0]), text)

    def replace_text(operator: str, start: int, end: int, new: str) -> Mutant:
        return Mutant(path, operator, text.count("\n", 0, start) + 1, start, end, text[start:end], new)

    mutants = []
    for match in _SIGN.finditer(bare):
        if match[0] in _BOUNDARY:
            mutants.append(replace_text("boundary", *match.span(), _BOUNDARY[match[0]]))
        mutants.append(replace_text("comparison", *match.span(), _LUA_OPPOSITE[match[0]]))
    for match in _CONDITION.finditer(bare):
        start, end = match.span("test")
        mutants.append(replace_text("negated", start, end, f" not ({text[start:end]}) "))
        if match["leaves"] and match[0].startswith("if"):
            mutants.append(replace_text("guard", start, end, " false "))
    for match in _CALL.finditer(bare):
        end = _find_closing_parenthesis(bare, match.end())
        command = re.match(r"\s*'([A-Z]+)'", text[match.end() :])
        if not _CONTINUES.search(bare[: match.start()].rstrip()) and not re.match(
            r"\s*(?:\[|[-+*/%.<>=~]|and\b|or\b)", bare[end:]
        ):
            is_read = command and command[1] in _READ_COMMANDS
            mutants.append(replace_text("guard" if is_read else "call", match.start(), end, ""))
    for match in _NUMBER.finditer(bare):
        mutants += [replace_text("constant", *match.span(), str(int(match[0]) + difference)) for difference in (1, -1)]
    for match in re.finditer(r"\b(and|or)\b", bare):
        mutants.append(replace_text("logic", *match.span(), "or" if match[0] == "and" else "and"))
    return sorted(mutants, key=lambda mutant: (mutant.start, mutant.operator, mutant.new))


def _blank_strings_and_comments(text: str) -> str:
    """Return a text of the same length and lines whose comments are blank and whose strings are one word."""
    filler = "\x00" if text[0] in "'\"" else " "
    return re.sub(r"[^\n]", filler, text)


def _find_closing_parenthesis(bare: str, start: int) -> int:
    """Return the offset behind the parenthesis that closes the one opened before `start`."""
    depth = 1
    for offset in range(start, len(bare)):
        depth += {"(": 1, ")": -1}.get(bare[offset], 0)
        if not depth:
            return offset + 1
    return len(bare)
