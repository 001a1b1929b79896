"""Parse TOML, and find the line of each key, which `tomllib` reports only for syntax errors.

`parse_toml_text` parses a text; `find_key_line` finds the line of a key. Keys inside an inline table have the line of
the table.
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
    """A text is not valid TOML. The exception has the reason and the line, counted from 1."""

    def __init__(self, text: str, line: int) -> None:
        super().__init__(text)
        self.line = line


def parse_toml_text(text: str) -> dict[str, Any]:
    """Parse a TOML text into a dict. Raises BrokenToml with the line of the error."""
    if not text.strip():
        return {}
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        position = _AT_LINE.search(message)
        line = int(position[1]) if position else text.count("\n") + 1  # Otherwise it ends "(at end of document)".
        reason = message[: position.start()] if position else message.removesuffix(" (at end of document)")
        raise BrokenToml(reason, line) from None
    except ValueError:  # Python refuses integers of more than 4300 digits, which tomllib does not report as an error.
        number = _LONG.search(text)
        raise BrokenToml(
            "it contains a number that is too long", text.count("\n", 0, number.start()) + 1 if number else 1
        ) from None
    except RecursionError:
        raise BrokenToml("it is nested too deeply", 1) from None


def map_keys_to_lines(text: str) -> dict[Path, int]:
    """Return the line number, from 1, of every table in a TOML text and of every key that begins a line."""
    lines_by_path: dict[Path, int] = {}
    for number, table, key in _scan_toml_keys(text):
        lines_by_path.setdefault((*table, *key), number)
    return lines_by_path


def find_key_line(lines_by_path: Mapping[Path, int], path: Sequence[str]) -> int:
    """Return the line of a TOML key. A key without a line of its own has that of the nearest table around it."""
    return next(
        (lines_by_path[tuple(path[:end])] for end in range(len(path), 0, -1) if tuple(path[:end]) in lines_by_path), 1
    )


def _scan_toml_keys(text: str) -> Iterator[tuple[int, Path, Path]]:
    """Yield (line, table, key) for each key of a TOML text. For the line of a table itself the key is ()."""
    table: Path = ()
    closing = ""  # the quotes that end a text of several lines
    for number, line in enumerate(text.splitlines(), 1):
        if not closing:
            if head := _TABLE.match(line):
                table = _split_dotted_key(head[1])
                yield number, table, ()
            elif value := _VALUE.match(line):
                yield number, table, _split_dotted_key(value[1])
        for quotes in _QUOTES.findall(line):
            closing = "" if quotes == closing else closing or quotes


def _split_dotted_key(key: str) -> Path:
    return tuple(part[1:-1] if part[0] in "\"'" else part for part in re.findall(_PART, key))
