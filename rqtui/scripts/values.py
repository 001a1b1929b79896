"""Convert between Python values and Redis strings, by the types that the header of a Lua script declares.

Out (`convert_to_argv`, `convert_rows_to_argv`): a wrong value raises UsageError, which names the script and the
argument, before anything is sent. In (`parse_reply_value`, `parse_reply_table`): a reply that does not match the header
raises ScriptError. Whole columns are converted at once, because batches of a thousand rows pass through this module.
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
"""A word of a Redis command: bytes, or text that redis-py encodes as UTF-8."""

_EXACT = 2**53  # Lua's numbers are doubles: a larger integer would silently become another one


def convert_to_argv(value: object, arg: Arg, where: str) -> Wire:
    """Convert one Python value to the form in which a Lua script gets it as an argument.

    `where` names the script in errors. Raises UsageError for a value that is missing or does not match the declared
    type.
    """
    if value is None:
        if arg.optional:
            return b""
        raise UsageError(f"{where}: {arg.name} is missing; it is needed ({arg.type})")
    return _WRITERS[arg.type](value, arg, where)


def convert_rows_to_argv(
    rows: Iterable[Mapping[str, object] | Sequence[object]], columns: Sequence[Arg], where: str
) -> list[Wire]:
    """Convert the rows of a call to one flat list of arguments. Raises UsageError.

    A row is a sequence in the order of the script's header, or a mapping by column name.
    """
    rows = list(rows)
    if not rows:
        return []
    width = len(columns)
    if len(rows) == 1 and isinstance(rows[0], tuple) and len(rows[0]) == width:  # A single job, as `put` sends it.
        with suppress(UsageError):  # The error is raised again below, with the number of the row.
            return [convert_to_argv(value, column, where) for value, column in zip(rows[0], columns, strict=True)]
    for kind in set(map(type, rows)):
        if issubclass(kind, str | bytes):
            raise UsageError(f"{where}: a row is a sequence or a mapping, not {kind.__name__}")
        if issubclass(kind, Mapping):
            rows = _order_row_values(rows, columns, where)
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
        argv[i::width] = _convert_argument_column(values[i], column, where)
    return argv


def trim_empty_columns(
    rows: list[Mapping[str, object] | Sequence[object]], columns: Sequence[Arg], where: str
) -> tuple[Sequence[Arg], list[Any]]:
    """Leave out the rightmost optional columns that are empty in every row. Returns the remaining columns and rows.

    Rows that differ in width, or that are no rows, are returned unchanged: `convert_rows_to_argv` refuses them.
    """
    ordered_rows = _order_row_values(rows, columns, where)
    width = len(ordered_rows[0]) if ordered_rows and not isinstance(ordered_rows[0], str | bytes) else 0
    required_count = sum(not column.optional for column in columns)
    if not required_count <= width <= len(columns) or any(len(row) != width for row in ordered_rows):
        return columns, rows
    while width > required_count and all(row[width - 1] is None for row in ordered_rows):
        width -= 1
    return columns[:width], ordered_rows if len(ordered_rows[0]) == width else [row[:width] for row in ordered_rows]


def _order_row_values(rows: Iterable[Any], columns: Sequence[Arg], where: str) -> list[Any]:
    """Return the rows of a call, with mappings converted to tuples in the order of `columns`. Raises UsageError."""
    names = [column.name for column in columns]
    known_names = frozenset(names)
    ordered_rows: list[Any] = []
    for row in rows:
        if not isinstance(row, Mapping):
            ordered_rows.append(row)
            continue
        if not known_names.issuperset(row):
            unknown = next(name for name in row if name not in known_names)
            raise UsageError(f"{where}: a row has no column {unknown!r}; the columns are {', '.join(names)}")
        ordered_rows.append(tuple(map(row.get, names)))
    return ordered_rows


def _convert_argument_column(values: Sequence[Any], arg: Arg, where: str) -> Sequence[Wire]:
    """Convert one column of all rows to arguments.

    A column of one type (the usual case) needs no Python call per value.
    """
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
            return _convert_values_singly(values, arg, where)  # The error then names the row.
    return _convert_values_singly(values, arg, where)


def _convert_values_singly(values: Sequence[object], arg: Arg, where: str) -> list[Wire]:
    converted_values: list[Wire] = []
    for row, value in enumerate(values, 1):
        try:
            converted_values.append(convert_to_argv(value, arg, where))
        except UsageError as error:
            raise UsageError(f"{error} (row {row})") from None
    return converted_values


def _build_value_error(value: object, arg: Arg, where: str, expected: str) -> UsageError:
    value_text = repr(value)
    value_text = value_text if len(value_text) <= 60 else value_text[:59] + "…"
    return UsageError(f"{where}: {arg.name} must be {expected}, not {value_text}")


def _encode_text_argument(value: object, arg: Arg, where: str) -> Wire:
    if isinstance(value, bytes):
        return value
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    if isinstance(value, str):
        try:
            return value.encode(*ENCODING)
        except UnicodeEncodeError:
            raise _build_value_error(value, arg, where, "text that UTF-8 can encode") from None
    raise _build_value_error(value, arg, where, "text or bytes")


def _encode_int_argument(value: object, arg: Arg, where: str) -> Wire:
    if isinstance(value, float) and math.isfinite(value) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise _build_value_error(value, arg, where, "a whole number")
    if abs(value) > _EXACT:
        raise UsageError(f"{where}: {arg.name} is beyond ±2^53, the whole numbers that Lua keeps exactly")
    return str(value)


def _encode_float_argument(value: object, arg: Arg, where: str) -> Wire:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _build_value_error(value, arg, where, "a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise _build_value_error(value if isinstance(value, float) else "a huge number", arg, where, "a finite number")
    return repr(number)


def _encode_bool_argument(value: object, arg: Arg, where: str) -> Wire:
    if not isinstance(value, bool):
        raise _build_value_error(value, arg, where, "true or false")
    return b"1" if value else b""


_WRITERS: Mapping[str, Callable[[object, Arg, str], Wire]] = {
    "str": _encode_text_argument,
    "bytes": _encode_text_argument,
    "int": _encode_int_argument,
    "float": _encode_float_argument,
    "bool": _encode_bool_argument,
}


def _decode_text_value(value: Any) -> str:
    return to_text(value) if isinstance(value, bytes) else str(value)


def _decode_bytes_value(value: Any) -> bytes:
    return value if isinstance(value, bytes) else to_bytes(str(value))


def _decode_bool_value(value: Any) -> bool:
    return value not in (None, 0, b"", b"0")


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "str": _decode_text_value,
    "bytes": _decode_bytes_value,
    "int": int,
    "float": float,
    "bool": _decode_bool_value,
}
_EMPTY_IS_NONE = ("int", "float")


def parse_reply_value(value: Any, arg: Arg, where: str) -> Any:
    """Convert one value of a script's reply to its declared type. Raises ScriptError for any other value.

    An optional value is None if it is nil, or if it is an empty number.
    """
    if arg.optional and (value is None or (value == b"" and arg.type in _EMPTY_IS_NONE)):
        return None
    try:
        if value is None and arg.type != "bool":
            raise ValueError
        return _READERS[arg.type](value)
    except (TypeError, ValueError):
        raise ScriptError(f"{where}: {arg.name} was returned as {value!r}, the header says {arg.type}") from None


def parse_reply_table(rows: Sequence[Sequence[Any]], columns: Sequence[Arg], where: str) -> list[tuple[Any, ...]]:
    """Convert the table in a script's reply to tuples in the order of the header's columns. Raises ScriptError."""
    if not rows:
        return []
    try:
        values = list(zip(*rows, strict=True))
    except (TypeError, ValueError):
        values = []
    if len(values) != len(columns):
        names = ", ".join(column.name for column in columns)
        raise ScriptError(f"{where}: a row of its table has not the columns that the header declares: {names}")
    read_columns = [_parse_reply_column(value, column, where) for value, column in zip(values, columns, strict=True)]
    return list(zip(*read_columns, strict=True))


def _parse_reply_column(values: Sequence[Any], arg: Arg, where: str) -> Iterable[Any]:
    kinds = set(map(type, values))
    if kinds == {bytes} and arg.type == "bytes":
        return values
    if kinds == {int} and arg.type == "int":
        return values
    if kinds == {bytes} and arg.type == "str":
        return [value.decode(*ENCODING) for value in values]
    return [parse_reply_value(value, arg, where) for value in values]
