"""Find the names that a piece of Lua 5.1 takes from outside and defines for the lines below, by compiling it.

The lint of blocks uses this module. The compiler, which fakeredis brings (lupa), resolves scopes exactly; this module
reads its bytecode, whose format is that of `ldump.c` and `lopcodes.h` in Lua 5.1.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from struct import calcsize, unpack_from
from typing import Any, NamedTuple

_GETGLOBAL, _SETGLOBAL = 5, 7
_STRING, _FORMATS = 4, {0: "0s", 1: "B", 3: "<d"}  # of constants: strings; nil, booleans and numbers
_HEADER_BYTES = 12
STANDARD = {  # the names that Redis gives a script
    "KEYS", "ARGV", "redis", "cjson", "string", "table", "math", "tostring", "tonumber", "ipairs", "pairs",
    "next", "select", "type", "unpack", "pcall", "error", "assert",
}  # fmt: skip


class Names(NamedTuple):
    """The names that a piece of Lua uses from outside, and the local names that it defines."""

    free: dict[str, int]  # read or assigned, but not defined there: with the number of the first line that does so
    defined: list[str]  # local names that are visible at its end; a name that is defined twice is in it twice


def read_lua_names(code: str) -> Names:
    """Return the names that a piece of Lua uses and defines.

    Raises SyntaxError, whose text starts with the line, if the piece does not compile.
    """
    # A call below the piece: only the local names that are still visible there live on to the end of the chunk.
    dump, _error = _compile_lua(code + "\nredis()")
    if dump is None:  # nothing can follow a `return`, so the piece defines nothing
        dump, error = _compile_lua(code)
        if dump is None:
            raise SyntaxError(error.decode("utf-8", "replace").removeprefix("lua:"))
        return Names(_read_function_names(_Dump(dump)).free, [])
    return _read_function_names(_Dump(dump))


def _compile_lua(code: str) -> tuple[bytes | None, bytes]:
    dump, error = _create_lua_compiler()(code.encode())
    return dump, error or b""


@cache
def _create_lua_compiler() -> Any:
    lua51: Any = import_module("lupa.lua51")
    runtime = lua51.LuaRuntime(encoding=None)
    compiler: Any = runtime.eval(
        b"function(text) local chunk, why = loadstring(text, '=lua')"
        b" if chunk then return string.dump(chunk), nil end return nil, why end"
    )
    return compiler


class _Dump:
    """A cursor over the bytecode of a compiled Lua chunk."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, _HEADER_BYTES

    def read(self, format: str) -> Any:
        [value] = unpack_from(format, self._data, self._at)
        self._at += calcsize(format)
        return value

    def read_ints(self) -> list[int]:
        return [self.read("<I") for _ in range(self.read("<i"))]

    def read_string(self) -> str:
        size = self.read("<Q")
        text = self._data[self._at : self._at + size]
        self._at += size
        return text[:-1].decode("utf-8", "replace")

    def read_constant(self) -> Any:
        kind = self.read("B")
        return self.read_string() if kind == _STRING else self.read(_FORMATS[kind])


def _read_function_names(dump: _Dump) -> Names:
    """Read the names that a compiled Lua function and the functions inside it use and define."""
    dump.read_string()  # the name of the chunk
    dump.read("<i"), dump.read("<i")  # first and last line
    for _ in ("upvalues", "parameters", "varargs", "stack"):
        dump.read("B")
    code = dump.read_ints()
    constants = [dump.read_constant() for _ in range(dump.read("<i"))]
    inner_functions = [_read_function_names(dump) for _ in range(dump.read("<i"))]
    lines = dump.read_ints()
    local_names = [(dump.read_string(), dump.read("<i"), dump.read("<i")) for _ in range(dump.read("<i"))]
    [dump.read_string() for _ in range(dump.read("<i"))]  # names of upvalues
    accesses = [
        (constants[word >> 14], line) for word, line in zip(code, lines, strict=True) if _is_global_access(word)
    ]
    accesses += [pair for names in inner_functions for pair in names.free.items()]
    free: dict[str, int] = {}
    for name, line in sorted(accesses, key=lambda pair: pair[1]):
        if name not in STANDARD:
            free.setdefault(name, line)
    return Names(free, [name for name, _start, end in local_names if end == len(code) - 1])


def _is_global_access(word: int) -> bool:
    return word & 0x3F in (_GETGLOBAL, _SETGLOBAL)
