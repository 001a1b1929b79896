"""Write plain values as a pickle of protocol 2, which Python 2.3 and later read. Objects are never pickled.

The module of the standard library could do this, but it could also execute what it reads, so it is not imported.
`text/pickles.py` reads pickles.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping


def write_pickle(value: object) -> bytes:
    """Return a pickle (protocol 2) of None, bools, numbers, texts, lists, tuples and dicts.

    Raises ValueError for any other value, and RecursionError for values that are nested too deeply.
    """
    parts = [b"\x80\x02"]
    _write_value(value, parts.append)
    return b"".join([*parts, b"."])


def _write_value(value: object, write: Callable[[bytes], None]) -> None:
    if value is None or isinstance(value, bool):
        write({None: b"N", True: b"\x88", False: b"\x89"}[value])
    elif isinstance(value, int):
        _write_integer(value, write)
    elif isinstance(value, float):
        write(b"G" + struct.pack(">d", value))
    elif isinstance(value, str):
        text = value.encode("utf-8", "surrogatepass")
        write(b"X" + struct.pack("<I", len(text)) + text)
    elif isinstance(value, list | tuple):
        opening, end = (b"](", b"e") if isinstance(value, list) else (b"(", b"t")
        _write_container(value, write, opening, end)
    elif isinstance(value, Mapping):
        _write_container((part for pair in value.items() for part in pair), write, b"}(", b"u")
    else:
        raise ValueError(f"{type(value).__name__} is no plain value")


def _write_container(values: Iterable[object], write: Callable[[bytes], None], opening: bytes, end: bytes) -> None:
    write(opening)
    for value in values:
        _write_value(value, write)
    write(end)


def _write_integer(value: int, write: Callable[[bytes], None]) -> None:
    if -(2**31) <= value < 2**31:
        write(b"J" + struct.pack("<i", value))
        return
    raw = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    write(b"\x8a" + bytes([len(raw)]) + raw if len(raw) < 256 else b"\x8b" + struct.pack("<i", len(raw)) + raw)
