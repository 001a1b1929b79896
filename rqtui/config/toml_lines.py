"""TOML with line numbers: `tomllib` tells only the lines of what it cannot read, and a person looks for a line.

`read` parses a text; `line_of` finds where a key stands in it. Keys inside an inline table have the line of the table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Path = tuple[str, ...]

_PART = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*')"""
_KEY = rf"{_PART}(?:[ \t]*\.[ \t]*{_PART})*"
_TABLE = re.compile(rf"[ \t]*\[\[?[ \t]*({_KEY})[ \t]*\]\]?")
_VALUE = re.compile(rf"[ \t]*({_KEY})[ \t]*=")
_QUOTES = re.compile(r'"""|\'\'\'')
_LONG = re.compile(r"[\d_]{4300}")
_AT_LINE = re.compile(r" \(at line (\d+), column \d+\)$")


class BrokenToml(ValueError):
    """A text that is no TOML: what is wrong, and on which line (from 1)."""

    def __init__(self, text: str, line: int) -> None:
        super().__init__(text)
        self.line = line


def read(text: str) -> dict[str, Any]:
    """The values of a TOML text. Raises BrokenToml."""
    if not text.strip():
        return {}
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        words = str(error)
        found = _AT_LINE.search(words)
        line = int(found[1]) if found else text.count("\n") + 1  # else "(at end of document)"
        what = words[: found.start()] if found else words.removesuffix(" (at end of document)")
        raise BrokenToml(what, line) from None
    except ValueError:  # a whole number of more digits than Python reads (4300), which tomllib does not call an error
        found = _LONG.search(text)
        raise BrokenToml(
            "it holds a number that is too long", text.count("\n", 0, found.start()) + 1 if found else 1
        ) from None
    except RecursionError:
        raise BrokenToml("it is nested too deep", 1) from None


def lines(text: str) -> dict[Path, int]:
    """The line, from 1, of every table and of every key that stands on a line of its own."""
    found: dict[Path, int] = {}
    for number, table, key in _keys(text):
        found.setdefault((*table, *key), number)
    return found


def line_of(found: Mapping[Path, int], path: Sequence[str]) -> int:
    """The line of a key, or of the nearest table above it that has one."""
    return next((found[tuple(path[:end])] for end in range(len(path), 0, -1) if tuple(path[:end]) in found), 1)


def _keys(text: str) -> Iterator[tuple[int, Path, Path]]:
    """(line, table, key) of each key; the key of a table's own line is ()."""
    table: Path = ()
    closing = ""  # the quotes that end a text of several lines
    for number, line in enumerate(text.splitlines(), 1):
        if not closing:
            if head := _TABLE.match(line):
                table = _parts(head[1])
                yield number, table, ()
            elif value := _VALUE.match(line):
                yield number, table, _parts(value[1])
        for quotes in _QUOTES.findall(line):
            closing = "" if quotes == closing else closing or quotes


def _parts(key: str) -> Path:
    return tuple(part[1:-1] if part[0] in "\"'" else part for part in re.findall(_PART, key))
