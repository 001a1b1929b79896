"""Conversion between Python values and Redis strings, by the types that a script's header declares.

Out (`to_argv`, `convert_tail`): a wrong value raises UsageError, which names the script and the argument, before
anything is sent. In (`read`, `read_table`): a reply that does not match the header raises ScriptError. Whole columns
are converted at once, because batches of a thousand rows pass through this module.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from rqtui.errors import ScriptError, UsageError
from rqtui.scripts.header import Arg
from rqtui.text.names import ENCODING, to_bytes, to_text

Wire = bytes | str
"""What stands in a command: bytes, or text that redis-py encodes as UTF-8."""

_EXACT = 2**53  # Lua's numbers are doubles: a larger integer would silently become another one


def to_argv(value: object, arg: Arg, where: str) -> Wire:
    """Convert one value to its form in a command. `where` names the script in errors. Raises UsageError."""
    if value is None:
        if arg.optional:
            return b""
        raise UsageError(f"{where}: {arg.name} is missing; it is needed ({arg.type})")
    return _WRITERS[arg.type](value, arg, where)


def convert_tail(
    rows: Iterable[Mapping[str, object] | Sequence[object]], columns: Sequence[Arg], where: str
) -> list[Wire]:
    """Convert the rows of a tail to a flat list. A row is a sequence in the header's order, or a mapping by name."""
    rows = list(rows)
    if not rows:
        return []
    width = len(columns)
    if len(rows) == 1 and isinstance(rows[0], tuple) and len(rows[0]) == width:  # one job, as `put` sends it
        with suppress(UsageError):  # which is told below, with the number of the row
            return [to_argv(value, column, where) for value, column in zip(rows[0], columns, strict=True)]
    for kind in set(map(type, rows)):
        if issubclass(kind, str | bytes):
            raise UsageError(f"{where}: a row is a sequence or a mapping, not {kind.__name__}")
        if issubclass(kind, Mapping):
            rows = _order_rows(rows, columns, where)
    try:
        values = list(zip(*rows, strict=True))
    except ValueError:
        values = []
    if len(values) != width:
        bad = next(i for i, row in enumerate(rows, 1) if len(row) != width)
        names = ", ".join(column.name for column in columns)
        raise UsageError(f"{where}: row {bad} has {len(rows[bad - 1])} values, expected {width}: {names}")
    argv: list[Wire] = [b""] * (len(rows) * width)
    for i, column in enumerate(columns):
        argv[i::width] = _convert_column(values[i], column, where)
    return argv


def trim_columns(
    rows: list[Mapping[str, object] | Sequence[object]], columns: Sequence[Arg], where: str
) -> tuple[Sequence[Arg], list[Any]]:
    """Return the columns up to the last one that some row fills or that is required, and the rows cut there.

    Rows that differ in width, or that are no rows, are returned unchanged: `convert_tail` refuses them.
    """
    made = _order_rows(rows, columns, where)
    width = len(made[0]) if made and not isinstance(made[0], str | bytes) else 0
    needed = sum(not column.optional for column in columns)
    if not needed <= width <= len(columns) or any(len(row) != width for row in made):
        return columns, rows
    while width > needed and all(row[width - 1] is None for row in made):
        width -= 1
    return columns[:width], made if len(made[0]) == width else [row[:width] for row in made]


def _order_rows(rows: Iterable[Any], columns: Sequence[Arg], where: str) -> list[Any]:
    """Return the rows, with mappings converted to tuples in the order of `columns`."""
    names = [column.name for column in columns]
    known = frozenset(names)
    made: list[Any] = []
    for row in rows:
        if not isinstance(row, Mapping):
            made.append(row)
            continue
        if not known.issuperset(row):
            unknown = next(name for name in row if name not in known)
            raise UsageError(f"{where}: a row has no column {unknown!r}; the columns are {', '.join(names)}")
        made.append(tuple(map(row.get, names)))
    return made


def _convert_column(values: Sequence[Any], arg: Arg, where: str) -> Sequence[Wire]:
    """Convert a whole column; uniform ones (the usual case) need no Python call per value."""
    kinds = set(map(type, values))
    if kinds == {bytes} and arg.type in ("bytes", "str"):
        return values
    if kinds == {type(None)} and arg.optional:
        return [b""] * len(values)
    if kinds == {int} and arg.type == "int" and min(values) >= -_EXACT and max(values) <= _EXACT:
        return list(map(str, values))
    if kinds == {str} and arg.type in ("bytes", "str"):
        try:
            return [value.encode(*ENCODING) for value in values]
        except UnicodeEncodeError:
            return _convert_one_by_one(values, arg, where)  # to name the row
    return _convert_one_by_one(values, arg, where)


def _convert_one_by_one(values: Sequence[object], arg: Arg, where: str) -> list[Wire]:
    found: list[Wire] = []
    for row, value in enumerate(values, 1):
        try:
            found.append(to_argv(value, arg, where))
        except UsageError as error:
            raise UsageError(f"{error} (row {row})") from None
    return found


def _build_error(value: object, arg: Arg, where: str, expected: str) -> UsageError:
    shown = repr(value)
    shown = shown if len(shown) <= 60 else shown[:59] + "…"
    return UsageError(f"{where}: {arg.name} must be {expected}, not {shown}")


def _write_text(value: object, arg: Arg, where: str) -> Wire:
    if isinstance(value, bytes):
        return value
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    if isinstance(value, str):
        try:
            return value.encode(*ENCODING)
        except UnicodeEncodeError:
            raise _build_error(value, arg, where, "text that UTF-8 can encode") from None
    raise _build_error(value, arg, where, "text or bytes")


def _write_int(value: object, arg: Arg, where: str) -> Wire:
    if isinstance(value, float) and math.isfinite(value) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise _build_error(value, arg, where, "a whole number")
    if abs(value) > _EXACT:
        raise UsageError(f"{where}: {arg.name} is beyond ±2^53, the whole numbers that Lua keeps exactly")
    return str(value)


def _write_float(value: object, arg: Arg, where: str) -> Wire:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _build_error(value, arg, where, "a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise _build_error(value if isinstance(value, float) else "a huge number", arg, where, "a finite number")
    return repr(number)


def _write_bool(value: object, arg: Arg, where: str) -> Wire:
    if not isinstance(value, bool):
        raise _build_error(value, arg, where, "true or false")
    return b"1" if value else b""


_WRITERS: Mapping[str, Callable[[object, Arg, str], Wire]] = {
    "str": _write_text,
    "bytes": _write_text,
    "int": _write_int,
    "float": _write_float,
    "bool": _write_bool,
}


def _read_str(value: Any) -> str:
    return to_text(value) if isinstance(value, bytes) else str(value)


def _read_bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else to_bytes(str(value))


def _read_bool(value: Any) -> bool:
    return value not in (None, 0, b"", b"0")


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "str": _read_str,
    "bytes": _read_bytes,
    "int": int,
    "float": float,
    "bool": _read_bool,
}
_EMPTY_IS_NONE = ("int", "float")


def parse_value(value: Any, arg: Arg, where: str) -> Any:
    """Convert one value of a reply. An empty optional number is None; so is an optional nil of any type."""
    if arg.optional and (value is None or (value == b"" and arg.type in _EMPTY_IS_NONE)):
        return None
    try:
        if value is None and arg.type != "bool":
            raise ValueError
        return _READERS[arg.type](value)
    except (TypeError, ValueError):
        raise ScriptError(f"{where}: {arg.name} was returned as {value!r}, the header says {arg.type}") from None


def parse_table(rows: Sequence[Sequence[Any]], columns: Sequence[Arg], where: str) -> list[tuple[Any, ...]]:
    """Convert a table of a reply to tuples in the header's order. Raises ScriptError."""
    if not rows:
        return []
    try:
        values = list(zip(*rows, strict=True))
    except (TypeError, ValueError):
        values = []
    if len(values) != len(columns):
        names = ", ".join(column.name for column in columns)
        raise ScriptError(f"{where}: a row of its table has not the columns that the header declares: {names}")
    read_columns = [_read_column(value, column, where) for value, column in zip(values, columns, strict=True)]
    return list(zip(*read_columns, strict=True))


def _read_column(values: Sequence[Any], arg: Arg, where: str) -> Iterable[Any]:
    kinds = set(map(type, values))
    if kinds == {bytes} and arg.type == "bytes":
        return values
    if kinds == {int} and arg.type == "int":
        return values
    if kinds == {bytes} and arg.type == "str":
        return [value.decode(*ENCODING) for value in values]
    return [parse_value(value, arg, where) for value in values]
